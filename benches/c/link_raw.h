/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The baseline: direct calls of UCP, as a careful C program would make them. */
#ifndef BENCH_LINK_RAW_H
#define BENCH_LINK_RAW_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "harness.h"

#define LINK_NAME "raw"

struct link {
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_ep_h endpoint;
  ucp_address_t *address;
  size_t address_length;
  int peer_errors;
};

#ifndef LINK_RAW_POLL

/* The operation provides the memory of the request, and a callback reports its completion. So
 * nothing is taken from a pool, and no call is needed to check. LINK_REQUEST_ROOM has room for
 * UCX's request, which is before the pointer that UCX is given. */
enum { LINK_REQUEST_ROOM = 1024 };
struct operation {
  int pending;
  ucs_status_t status;
  _Alignas(64) unsigned char room[LINK_REQUEST_ROOM];
};

static inline void link_started(struct operation *operation, ucs_status_ptr_t result) {
  if (UCS_PTR_IS_ERR(result))
    die("UCX refused an operation: %s", ucs_status_string(UCS_PTR_STATUS(result)));
  if (result == NULL) operation->pending = 0;
}

static inline int link_done(struct operation *operation) {
  if (operation->pending) return 0;
  if (operation->status != UCS_OK)
    die("an operation failed: %s", ucs_status_string(operation->status));
  return 1;
}

static void link_sent(void *request, ucs_status_t status, void *user_data) {
  struct operation *operation = (struct operation *)user_data;
  (void)request;
  operation->status = status;
  operation->pending = 0;
}

#ifdef LINK_STREAM
static void link_received(void *request, ucs_status_t status, size_t length, void *user_data) {
  (void)length;
  link_sent(request, status, user_data);
}
#else
static void link_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                          void *user_data) {
  (void)info;
  link_sent(request, status, user_data);
}
#endif

#define LINK_PARAM(operation, kind, function)                                   \
  {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_CALLBACK | \
                   UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST,     \
   .request = (operation)->room + LINK_REQUEST_ROOM,                            \
   .cb = {.kind = function},                                                    \
   .user_data = (operation),                                                    \
   .memory_type = LINK_UCP_MEMORY}

#else

/* Requests of UCX's pool, whose status is checked by a call: the other way, for comparison
 * (-DLINK_RAW_POLL). */
struct operation {
  ucs_status_ptr_t request;
};

static inline void link_started(struct operation *operation, ucs_status_ptr_t result) {
  if (UCS_PTR_IS_ERR(result))
    die("UCX refused an operation: %s", ucs_status_string(UCS_PTR_STATUS(result)));
  operation->request = result;
}

static inline int link_done(struct operation *operation) {
  if (operation->request == NULL) return 1;
  ucs_status_t status = ucp_request_check_status(operation->request);
  if (status == UCS_INPROGRESS) return 0;
  if (status != UCS_OK) die("an operation failed: %s", ucs_status_string(status));
  ucp_request_free(operation->request);
  operation->request = NULL;
  return 1;
}

#define LINK_PARAM(operation, kind, function) \
  {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = LINK_UCP_MEMORY}

#endif

static inline void link_version(char *text, size_t capacity) {
  unsigned major, minor, patch;
  ucp_get_version(&major, &minor, &patch);
  snprintf(text, capacity, "%u.%u.%u", major, minor, patch);
}

static inline void link_open(struct link *link, const struct options *options) {
  ucp_params_t params;
  ucp_worker_params_t worker_params;
  memset(&params, 0, sizeof params);
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  const int threaded = options->progress != PROGRESS_MANUAL;
  params.features =
      LINK_FEATURE(UCP) | (LINK_AM ? UCP_FEATURE_AM : 0) | (threaded ? UCP_FEATURE_WAKEUP : 0);
  if (LINK_RMA)
    params.features |=
        UCP_FEATURE_RMA | (options->operation == OPERATION_ADD ? UCP_FEATURE_AMO64 : 0);
  ucs_status_t status = ucp_init(&params, NULL, &link->context);
  if (status != UCS_OK) die("ucp_init: %s", ucs_status_string(status));
#ifndef LINK_RAW_POLL
  ucp_context_attr_t attr;
  attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  status = ucp_context_query(link->context, &attr);
  if (status != UCS_OK || attr.request_size > LINK_REQUEST_ROOM)
    die("a request takes more than %d bytes", LINK_REQUEST_ROOM);
#endif
  memset(&worker_params, 0, sizeof worker_params);
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = threaded ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE;
  status = ucp_worker_create(link->context, &worker_params, &link->worker);
  if (status != UCS_OK) die("ucp_worker_create: %s", ucs_status_string(status));
  link->peer_errors = options->peer_errors;
}

static inline const void *link_address(struct link *link, size_t *length) {
  ucs_status_t status = ucp_worker_get_address(link->worker, &link->address, &link->address_length);
  if (status != UCS_OK) die("ucp_worker_get_address: %s", ucs_status_string(status));
  *length = link->address_length;
  return link->address;
}

/* Without a handler UCX would only log the failure. The operations in flight end with its
 * status. */
static void link_failed(void *arg, ucp_ep_h endpoint, ucs_status_t status) {
  (void)arg;
  (void)endpoint;
  fprintf(stderr, "endpoint failed: %s\n", ucs_status_string(status));
}

static inline void link_connect(struct link *link, const void *address, size_t length) {
  ucp_ep_params_t params;
  (void)length;
  memset(&params, 0, sizeof params);
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = (const ucp_address_t *)address;
  params.err_mode = link->peer_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  if (link->peer_errors) {
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = link_failed;
  }
  ucs_status_t status = ucp_ep_create(link->worker, &params, &link->endpoint);
  if (status != UCS_OK) die("ucp_ep_create: %s", ucs_status_string(status));
}

static inline void link_recv(struct link *link, void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
#ifdef LINK_STREAM
  ucp_request_param_t param = LINK_PARAM(operation, recv_stream, link_received);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
#else
  ucp_request_param_t param = LINK_PARAM(operation, recv, link_received);
#endif
#ifndef LINK_RAW_POLL
  operation->pending = 1;
  operation->status = UCS_OK;
#endif
#ifdef LINK_STREAM
  size_t received;
  (void)tag;
  link_started(operation, ucp_stream_recv_nbx(link->endpoint, buffer, length, &received, &param));
#else
  link_started(operation, ucp_tag_recv_nbx(link->worker, buffer, length, tag, UINT64_MAX, &param));
#endif
}

static inline void link_send(struct link *link, const void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
#ifndef LINK_RAW_POLL
  operation->pending = 1;
  operation->status = UCS_OK;
#endif
#ifdef LINK_STREAM
  (void)tag;
  link_started(operation, ucp_stream_send_nbx(link->endpoint, buffer, length, &param));
#else
  link_started(operation, ucp_tag_send_nbx(link->endpoint, buffer, length, tag, &param));
#endif
}

static inline void link_progress(struct link *link) { ucp_worker_progress(link->worker); }

static inline void link_transports(struct link *link, char *text, size_t capacity) {
  char *printed = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&printed, &length);
  if (stream == NULL) die("no memory");
  ucp_ep_print_info(link->endpoint, stream);
  fclose(stream);
  transports_from_text(printed, text, capacity);
  free(printed);
}

static inline void link_close(struct link *link) {
  if (link->peer_errors) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(link->endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) {
      while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(link->worker);
      ucp_request_free(request);
    }
  }
  ucp_worker_release_address(link->worker, link->address);
  ucp_worker_destroy(link->worker);
  ucp_cleanup(link->context);
}

#endif
