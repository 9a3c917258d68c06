/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* This library, through its C interface. */
#ifndef BENCH_LINK_UCXX_RS_H
#define BENCH_LINK_UCXX_RS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#include "harness.h"

#define LINK_NAME "ucxx_rs"

struct link {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  ucxx_address_t *address;
  int peer_errors;
};

struct operation {
  ucxx_request_t *request;
};

static inline void link_check(ucxx_status_t status, const char *what) {
  if (status < 0) die("%s: %s (%s)", what, ucxx_status_name(status), ucxx_last_error_message());
}

static inline int link_done(struct operation *operation) {
  if (operation->request == NULL) return 1;
  ucxx_status_t status = ucxx_request_status(operation->request);
  if (status == UCXX_INPROGRESS) return 0;
  if (status != UCXX_OK)
    die("an operation failed: %s", ucxx_request_error_message(operation->request));
  ucxx_request_destroy(operation->request);
  operation->request = NULL;
  return 1;
}

static inline void link_version(char *text, size_t capacity) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  link_check(ucxx_version_query(&version), "ucxx_version_query");
  snprintf(text, capacity, "%u.%u.%u", (unsigned)version.ucx_major, (unsigned)version.ucx_minor,
           (unsigned)version.ucx_patch);
}

static inline void link_open(struct link *link, const struct options *options) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  static const int32_t modes[] = {UCXX_PROGRESS_MANUAL, UCXX_PROGRESS_THREAD_ADAPTIVE,
                                  UCXX_PROGRESS_THREAD_POLLING, UCXX_PROGRESS_THREAD_BLOCKING};
  const int threaded = options->progress != PROGRESS_MANUAL;
  params.features =
      LINK_FEATURE(UCXX) | (LINK_AM ? UCXX_FEATURE_AM : 0) | (threaded ? UCXX_FEATURE_WAKEUP : 0);
  if (LINK_RMA)
    params.features |=
        UCXX_FEATURE_RMA | (options->operation == OPERATION_ADD ? UCXX_FEATURE_ATOMIC : 0);
  link_check(ucxx_context_create(&params, &link->context), "ucxx_context_create");
  worker_params.thread_mode = threaded ? UCXX_THREAD_MULTI : UCXX_THREAD_SINGLE;
  worker_params.progress_mode = modes[options->progress];
  worker_params.cpu = options->thread_cpu + 1;
  link_check(ucxx_worker_create(link->context, &worker_params, &link->worker),
             "ucxx_worker_create");
  link->peer_errors = options->peer_errors;
}

static inline const void *link_address(struct link *link, size_t *length) {
  link_check(ucxx_worker_address(link->worker, &link->address), "ucxx_worker_address");
  *length = ucxx_address_length(link->address);
  return ucxx_address_data(link->address);
}

static inline void link_connect_to(struct link *link, const ucxx_address_t *address) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling =
      link->peer_errors ? UCXX_ENDPOINT_ERROR_HANDLING_PEER : UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  link_check(ucxx_endpoint_create(link->worker, address, &params, &link->endpoint),
             "ucxx_endpoint_create");
}

static inline void link_connect(struct link *link, const void *bytes, size_t length) {
  ucxx_address_t *address;
  link_check(ucxx_address_from_bytes(bytes, length, &address), "ucxx_address_from_bytes");
  link_connect_to(link, address);
  ucxx_address_destroy(address);
}

static inline void link_recv(struct link *link, void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
#ifdef LINK_STREAM
  (void)tag;
  ucxx_status_t status =
      ucxx_stream_recv(link->endpoint, buffer, length, &params, &operation->request);
#else
  ucxx_status_t status =
      ucxx_tag_recv(link->worker, buffer, length, tag, UINT64_MAX, &params, &operation->request);
#endif
  if (status < 0) link_check(status, "a receive");
  if (status == UCXX_OK) operation->request = NULL;
}

static inline void link_progress(struct link *link) { ucxx_worker_progress(link->worker, NULL); }

static inline void link_send(struct link *link, const void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  ucxx_status_t status;
#ifdef LINK_STREAM
  (void)tag;
  while ((status = ucxx_stream_send(link->endpoint, buffer, length, &params,
                                    &operation->request)) == UCXX_ERR_NO_RESOURCE)
#else
  while ((status = ucxx_tag_send(link->endpoint, buffer, length, tag, &params,
                                 &operation->request)) == UCXX_ERR_NO_RESOURCE)
#endif
    link_advance(link);
  if (status < 0) link_check(status, "a send");
  if (status == UCXX_OK) operation->request = NULL;
}

static inline void link_transports(struct link *link, char *text, size_t capacity) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  link_check(ucxx_endpoint_query(link->endpoint, &attr), "ucxx_endpoint_query");
  snprintf(text, capacity, "%s", attr.transports);
}

static inline void link_close(struct link *link) {
  ucxx_endpoint_destroy(link->endpoint);
  ucxx_address_destroy(link->address);
  ucxx_worker_destroy(link->worker);
  ucxx_context_destroy(link->context);
}

#endif
