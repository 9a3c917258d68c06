/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * What Go cannot do itself. A handle of runtime/cgo is a small number. The library has a pointer in
 * its place, and such a pointer must not be in memory that Go's collector looks at. So the structs
 * with one are made here.
 */
#ifndef UCXX_GO_SHIM_H
#define UCXX_GO_SHIM_H

#include <stdlib.h>
#include <ucxx_rs.h>

/* Every operation reports to the notifier, also if it completes inside its call. */
static inline ucxx_op_params_t shim_params(ucxx_notifier_t *notifier, uintptr_t handle) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.notifier = notifier;
  params.callback_arg = (void *)handle;
  return params;
}

static inline ucxx_status_t shim_worker(ucxx_context_t *context, uint32_t queue,
                                        ucxx_worker_t **worker) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  params.delayed_submission = 1;
  params.submission_queue_depth = queue;
  return ucxx_worker_create(context, &params, worker);
}

static inline ucxx_endpoint_params_t shim_endpoint(ucxx_notifier_t *notifier, uintptr_t handle) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.notifier = notifier;
  params.on_close_arg = (void *)handle;
  return params;
}

static inline ucxx_status_t shim_connect(ucxx_worker_t *worker, const char *host, uint16_t port,
                                         ucxx_notifier_t *notifier, uintptr_t handle,
                                         ucxx_endpoint_t **endpoint) {
  ucxx_endpoint_params_t params = shim_endpoint(notifier, handle);
  return ucxx_endpoint_connect(worker, host, port, &params, endpoint);
}

static inline ucxx_status_t shim_accept(ucxx_conn_request_t *request, ucxx_notifier_t *notifier,
                                        uintptr_t handle, ucxx_endpoint_t **endpoint) {
  ucxx_endpoint_params_t params = shim_endpoint(notifier, handle);
  return ucxx_endpoint_accept(request, &params, endpoint);
}

static inline ucxx_status_t shim_listen(ucxx_worker_t *worker, const char *host, uint16_t port,
                                        ucxx_notifier_t *notifier, uintptr_t handle,
                                        ucxx_listener_t **listener) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.host = host;
  params.port = port;
  params.notifier = notifier;
  params.on_connect_arg = (void *)handle;
  return ucxx_listener_create(worker, &params, listener);
}

static inline ucxx_status_t shim_fetch_notifier(ucxx_worker_t *worker, uint16_t id,
                                                ucxx_notifier_t *notifier) {
  return ucxx_worker_set_fetch_notifier(worker, id, notifier, (void *)(uintptr_t)id);
}

static inline ucxx_status_t shim_tag_send(ucxx_endpoint_t *endpoint, const void *buffer,
                                          size_t length, uint64_t tag, ucxx_notifier_t *notifier,
                                          uintptr_t handle, ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  return ucxx_tag_send(endpoint, buffer, length, tag, &params, request);
}

static inline ucxx_status_t shim_tag_recv(ucxx_worker_t *worker, ucxx_endpoint_t *source,
                                          void *buffer, size_t length, uint64_t tag, uint64_t mask,
                                          ucxx_notifier_t *notifier, uintptr_t handle,
                                          ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  params.source = source;
  return ucxx_tag_recv(worker, buffer, length, tag, mask, &params, request);
}

static inline ucxx_status_t shim_fetch(ucxx_endpoint_t *endpoint, uint16_t id, const void *header,
                                       size_t header_length, void *reply, size_t capacity,
                                       ucxx_notifier_t *notifier, uintptr_t handle,
                                       ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  return ucxx_am_fetch(endpoint, id, header, header_length, reply, capacity, &params, request);
}

static inline ucxx_status_t shim_reply(ucxx_fetch_t *fetch, const void *buffer, size_t length,
                                       ucxx_notifier_t *notifier, uintptr_t handle,
                                       ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  return ucxx_fetch_reply(fetch, buffer, length, &params, request);
}

static inline ucxx_status_t shim_flush(ucxx_endpoint_t *endpoint, ucxx_notifier_t *notifier,
                                       uintptr_t handle, ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  return ucxx_endpoint_flush(endpoint, &params, request);
}

static inline ucxx_status_t shim_close(ucxx_endpoint_t *endpoint, ucxx_notifier_t *notifier,
                                       uintptr_t handle, ucxx_request_t **request) {
  ucxx_op_params_t params = shim_params(notifier, handle);
  return ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &params, request);
}

/* Sleeps until there is something, and takes it. */
static inline ucxx_status_t shim_take(ucxx_notifier_t *notifier, ucxx_completion_t *batch,
                                      size_t max, size_t *count) {
  ucxx_status_t status = ucxx_notifier_wait(notifier, UINT64_MAX);
  return status < 0 ? status : ucxx_notifier_poll(notifier, batch, sizeof batch[0], max, count);
}

static inline ucxx_status_t shim_group(ucxx_worker_t *worker, ucxx_group_t **group) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  return ucxx_group_create(worker, &params, group);
}

static inline ucxx_layout_t shim_bytes(size_t length) {
  ucxx_layout_t layout;
  ucxx_layout_init_contiguous(&layout, UCXX_TYPE_BYTE, length);
  return layout;
}

static inline ucxx_status_t shim_put(ucxx_window_t *window, const void *data, size_t length,
                                     uint32_t target, int64_t offset) {
  ucxx_layout_t layout = shim_bytes(length);
  return ucxx_window_put(window, data, &layout, target, offset, &layout);
}

/* What is read may arrive with the flush. C may not keep memory of Go until a later call. */
static inline ucxx_status_t shim_get(ucxx_window_t *window, void *data, size_t length,
                                     uint32_t target, int64_t offset) {
  ucxx_layout_t layout = shim_bytes(length);
  ucxx_status_t status = ucxx_window_get(window, data, &layout, target, offset, &layout);
  return status < 0 ? status : ucxx_window_flush_local(window, target);
}

static inline ucxx_status_t shim_fetch_add(ucxx_window_t *window, int64_t delta, int64_t *before,
                                           uint32_t target, int64_t offset) {
  ucxx_status_t status = ucxx_window_fetch_and_op(window, &delta, before, UCXX_TYPE_INT64, target,
                                                  offset, UCXX_REDUCE_SUM);
  return status < 0 ? status : ucxx_window_flush_local(window, target);
}

/* A hub with envelopes in memory of the host. */
static inline ucxx_status_t shim_hub(ucxx_context_t *context, ucxx_worker_t *worker, size_t size,
                                     size_t count, ucxx_hub_t **hub) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = size;
  params.worker = worker;
  ucxx_status_t status = ucxx_hub_create(context, &params, hub);
  if (status < 0) return status;
  ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  status = ucxx_hub_add_envelopes(*hub, host, count);
  if (status < 0) ucxx_hub_destroy(*hub);
  return status;
}

static inline ucxx_status_t shim_link(ucxx_hub_t *hub, int32_t type, ucxx_link_t **link,
                                      int32_t *fd) {
  ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  ucxx_status_t status = ucxx_link_create(hub, type, host, NULL, link);
  if (status < 0) return status;
  status = ucxx_link_event_fd(*link, fd);
  if (status < 0) ucxx_link_destroy(*link);
  return status;
}

/* Does not wait. */
static inline ucxx_status_t shim_lease(ucxx_link_t *link, ucxx_envelope_t **envelope,
                                       ucxx_envelope_attr_t *attr) {
  ucxx_envelope_attr_init(attr, sizeof *attr);
  ucxx_status_t status = ucxx_link_lease(link, 0, envelope);
  return status < 0 ? status : ucxx_envelope_query(*envelope, attr);
}

#endif
