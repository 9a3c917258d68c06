/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Registered memory over a link. One side has it, and the other puts, gets and adds. Include it
 * instead of link.h:
 *
 *   struct region                        memory of this side that the other side may access
 *   region_open(link, region, size, kind)
 *                                        MEMORY_ALLOCATED: from UCX; MEMORY_REGISTERED: the
 *                                        program's own
 *   region_key(region, &length)          its key, valid until the region is closed
 *   region_close(region)
 *
 *   struct remote                        the other side's memory
 *   remote_open(link, remote, key, length)
 *   remote_put(remote, buffer, length, offset, operation)
 *   remote_get(remote, buffer, length, offset, operation)
 *   remote_add(remote, operand, result, offset, operation)
 *                                        a number of 8 bytes; `operand` stays valid until it is
 *                                        done
 *   remote_flush(remote, operation)      done when the earlier puts have arrived
 *   remote_close(remote)
 *
 * Close a region after the other side has closed its remote. */
#ifndef BENCH_LINK_RMA_H
#define BENCH_LINK_RMA_H

#include <string.h>

#define LINK_RMA 1
#include "link.h"

struct region {
  struct link *link;
  unsigned char *base;
  unsigned char *own; /* to be freed: memory of the program, or NULL */
  unsigned char key[4096];
  size_t key_length;
#ifdef LINK_RAW
  ucp_mem_h memory;
#else
  ucxx_memory_t *memory;
#endif
};

struct remote {
  struct link *link;
#ifdef LINK_RAW
  ucp_rkey_h key;
  uint64_t base;
#else
  ucxx_rkey_t *key;
#endif
};

static inline const void *region_key(const struct region *region, size_t *length) {
  *length = region->key_length;
  return region->key;
}

#if defined(LINK_RAW)

/* UCP's key does not contain the address of the memory, so that is sent as well. */
static inline void region_open(struct link *link, struct region *region, size_t size, int kind) {
  ucp_mem_map_params_t params;
  ucp_mem_attr_t attr;
  void *key;
  size_t length;
  region->link = link;
  region->own = kind == MEMORY_REGISTERED ? buffer_create(size) : NULL;
  memset(&params, 0, sizeof params);
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = region->own;
  params.length = size;
  params.flags = region->own == NULL ? UCP_MEM_MAP_ALLOCATE : 0;
  params.memory_type = region->own == NULL ? UCS_MEMORY_TYPE_HOST : LINK_UCP_MEMORY;
  ucs_status_t status = ucp_mem_map(link->context, &params, &region->memory);
  if (status != UCS_OK) die("ucp_mem_map: %s", ucs_status_string(status));
  attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  status = ucp_mem_query(region->memory, &attr);
  if (status != UCS_OK) die("ucp_mem_query: %s", ucs_status_string(status));
  region->base = (unsigned char *)attr.address;
  status = ucp_rkey_pack(link->context, region->memory, &key, &length);
  if (status != UCS_OK) die("ucp_rkey_pack: %s", ucs_status_string(status));
  const uint64_t base = (uint64_t)(uintptr_t)region->base;
  if (sizeof base + length > sizeof region->key) die("a key of %zu bytes has no room", length);
  memcpy(region->key, &base, sizeof base);
  memcpy(region->key + sizeof base, key, length);
  region->key_length = sizeof base + length;
  ucp_rkey_buffer_release(key);
}

static inline void region_close(struct region *region) {
  ucs_status_t status = ucp_mem_unmap(region->link->context, region->memory);
  if (status != UCS_OK) die("ucp_mem_unmap: %s", ucs_status_string(status));
  buffer_destroy(region->own);
}

static inline void remote_open(struct link *link, struct remote *remote, const void *key,
                               size_t length) {
  remote->link = link;
  if (length < sizeof remote->base) die("what came is no key");
  memcpy(&remote->base, key, sizeof remote->base);
  ucs_status_t status = ucp_ep_rkey_unpack(
      link->endpoint, (const unsigned char *)key + sizeof remote->base, &remote->key);
  if (status != UCS_OK) die("ucp_ep_rkey_unpack: %s", ucs_status_string(status));
}

static inline void remote_begin(struct operation *operation) {
#ifdef LINK_RAW_POLL
  (void)operation;
#else
  operation->pending = 1;
  operation->status = UCS_OK;
#endif
}

static inline void remote_put(struct remote *remote, const void *buffer, size_t length,
                              uint64_t offset, struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  remote_begin(operation);
  link_started(operation, ucp_put_nbx(remote->link->endpoint, buffer, length, remote->base + offset,
                                      remote->key, &param));
}

static inline void remote_get(struct remote *remote, void *buffer, size_t length, uint64_t offset,
                              struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  remote_begin(operation);
  link_started(operation, ucp_get_nbx(remote->link->endpoint, buffer, length, remote->base + offset,
                                      remote->key, &param));
}

static inline void remote_add(struct remote *remote, const uint64_t *operand, uint64_t *result,
                              uint64_t offset, struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  param.datatype = ucp_dt_make_contig(sizeof *operand);
  param.reply_buffer = result;
  remote_begin(operation);
  ucs_status_ptr_t started = ucp_atomic_op_nbx(remote->link->endpoint, UCP_ATOMIC_OP_ADD, operand,
                                               1, remote->base + offset, remote->key, &param);
  if (UCS_PTR_IS_ERR(started))
    die("ucp_atomic_op_nbx: %s%s", ucs_status_string(UCS_PTR_STATUS(started)),
        remote->link->peer_errors
            ? " (UCX since 1.16 has no atomic operations on endpoints that detect failures)"
            : "");
  link_started(operation, started);
}

static inline void remote_flush(struct remote *remote, struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  remote_begin(operation);
  link_started(operation, ucp_ep_flush_nbx(remote->link->endpoint, &param));
}

static inline void remote_close(struct remote *remote) { ucp_rkey_destroy(remote->key); }

#elif defined(LINK_UCXX_RS)

static inline void region_open(struct link *link, struct region *region, size_t size, int kind) {
  region->link = link;
  region->own = kind == MEMORY_REGISTERED ? buffer_create(size) : NULL;
  if (region->own == NULL)
    link_check(ucxx_memory_allocate(link->context, size, UCXX_MEMORY_HOST, &region->memory),
               "ucxx_memory_allocate");
  else
    link_check(ucxx_memory_register(link->context, region->own, size, LINK_MEMORY, &region->memory),
               "ucxx_memory_register");
  region->base = (unsigned char *)ucxx_memory_base(region->memory);
  region->key_length = sizeof region->key;
  link_check(ucxx_memory_pack(region->memory, region->key, &region->key_length),
             "ucxx_memory_pack");
}

static inline void region_close(struct region *region) {
  ucxx_memory_destroy(region->memory);
  buffer_destroy(region->own);
}

static inline void remote_open(struct link *link, struct remote *remote, const void *key,
                               size_t length) {
  remote->link = link;
  link_check(ucxx_rkey_unpack(link->endpoint, key, length, &remote->key), "ucxx_rkey_unpack");
}

static inline void remote_started(ucxx_status_t status, struct operation *operation,
                                  const char *what) {
  if (status < 0) link_check(status, what);
  if (status == UCXX_OK) operation->request = NULL;
}

static inline void remote_put(struct remote *remote, const void *buffer, size_t length,
                              uint64_t offset, struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  ucxx_status_t status;
  while ((status = ucxx_rma_put(remote->key, buffer, length, offset, &params,
                                &operation->request)) == UCXX_ERR_NO_RESOURCE)
    link_advance(remote->link);
  remote_started(status, operation, "ucxx_rma_put");
}

static inline void remote_get(struct remote *remote, void *buffer, size_t length, uint64_t offset,
                              struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  ucxx_status_t status;
  while ((status = ucxx_rma_get(remote->key, buffer, length, offset, &params,
                                &operation->request)) == UCXX_ERR_NO_RESOURCE)
    link_advance(remote->link);
  remote_started(status, operation, "ucxx_rma_get");
}

static inline void remote_add(struct remote *remote, const uint64_t *operand, uint64_t *result,
                              uint64_t offset, struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  ucxx_status_t status;
  while ((status = ucxx_rma_atomic(remote->key, UCXX_ATOMIC_ADD, sizeof *operand, operand, NULL,
                                   result, offset, &params, &operation->request)) ==
         UCXX_ERR_NO_RESOURCE)
    link_advance(remote->link);
  remote_started(status, operation, "ucxx_rma_atomic");
}

static inline void remote_flush(struct remote *remote, struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  remote_started(ucxx_endpoint_flush(remote->link->endpoint, &params, &operation->request),
                 operation, "ucxx_endpoint_flush");
}

static inline void remote_close(struct remote *remote) { ucxx_rkey_destroy(remote->key); }

#else
#error "registered memory is measured against raw UCP alone"
#endif

#endif
