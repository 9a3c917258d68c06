/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* This library with a progress thread. */
#ifndef BENCH_THREADED_UCXX_RS_H
#define BENCH_THREADED_UCXX_RS_H

enum { THREADED_MOST = 256 };

static ucxx_notifier_t *threaded_notifier;

static inline void threaded_begin(struct link *link, const struct options *options) {
  if (options->completion != COMPLETION_NOTIFIER) return;
  if (options->producers > 1)
    die("one producer alone can tell its completions in a queue from others'");
  link_check(ucxx_notifier_create(link->context, &threaded_notifier), "ucxx_notifier_create");
}

static inline void threaded_end(struct link *link) {
  (void)link;
  ucxx_notifier_destroy(threaded_notifier);
}

static void threaded_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  if (status != UCXX_OK) die("an operation failed: %s", ucxx_status_name(status));
  batch_one_ended((struct batch *)arg);
}

static inline ucxx_op_params_t threaded_params(struct batch *batch, int completion) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = UCXX_MEMORY_HOST;
  if (completion == COMPLETION_CALLBACK) params.callback = threaded_callback;
  if (completion == COMPLETION_NOTIFIER) {
    params.notifier = threaded_notifier;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  }
  params.callback_arg = batch;
  return params;
}

static inline void threaded_started(ucxx_status_t status, struct operation *operation,
                                    struct batch *batch, int completion) {
  if (status < 0) link_check(status, "a submission");
  if (status != UCXX_OK) return;
  operation->request = NULL;
  if (completion == COMPLETION_CALLBACK) batch_one_ended(batch);
}

/* A caller that is notified by a callback or the queue needs no request. */
static inline ucxx_request_t **threaded_place(struct operation *operation, int completion) {
  return completion == COMPLETION_CALLBACK || completion == COMPLETION_NOTIFIER
             ? NULL
             : &operation->request;
}

static inline void threaded_recv(struct link *link, void *buffer, size_t length, uint64_t tag,
                                 struct operation *operation, struct batch *batch, int completion) {
  const ucxx_op_params_t params = threaded_params(batch, completion);
  ucxx_request_t **place = threaded_place(operation, completion);
  ucxx_status_t status;
  while ((status = ucxx_tag_recv(link->worker, buffer, length, tag, UINT64_MAX, &params, place)) ==
         UCXX_ERR_NO_RESOURCE)
    link_advance(link);
  threaded_started(status, operation, batch, completion);
}

static inline void threaded_send(struct link *link, const void *buffer, size_t length, uint64_t tag,
                                 struct operation *operation, struct batch *batch, int completion) {
  const ucxx_op_params_t params = threaded_params(batch, completion);
  ucxx_request_t **place = threaded_place(operation, completion);
  ucxx_status_t status;
  while ((status = ucxx_tag_send(link->endpoint, buffer, length, tag, &params, place)) ==
         UCXX_ERR_NO_RESOURCE)
    link_advance(link);
  threaded_started(status, operation, batch, completion);
}

static inline void threaded_take_reports(long count) {
  static ucxx_completion_t reports[64];
  while (count > 0) {
    size_t taken;
    link_check(ucxx_notifier_wait(threaded_notifier, UINT64_MAX), "ucxx_notifier_wait");
    link_check(ucxx_notifier_poll(threaded_notifier, reports, sizeof *reports, 64, &taken),
               "ucxx_notifier_poll");
    for (size_t i = 0; i < taken; i++) link_check(reports[i].status, "an operation");
    count -= (long)taken;
  }
}

static inline void threaded_collect(struct link *link, struct operation *operations, long count,
                                    struct batch *batch, int completion) {
  if (completion == COMPLETION_CALLBACK) {
    batch_wait(batch);
  } else if (completion == COMPLETION_NOTIFIER) {
    threaded_take_reports(count);
  } else if (completion == COMPLETION_WAIT) {
    ucxx_request_t *requests[THREADED_MOST];
    if (count < 1 || count > THREADED_MOST) die("a batch of %ld", count);
    for (long i = 0; i < count; i++) requests[i] = operations[i].request;
    ucxx_status_t status = ucxx_request_wait_all(requests, (size_t)count, UINT64_MAX);
    if (status != UCXX_ERR_NO_ELEM) link_check(status, "ucxx_request_wait_all");
    for (long i = 0; i < count; i++) ucxx_request_destroy(requests[i]);
  } else {
    for (long i = 0; i < count; i++) link_finish(link, &operations[i]);
  }
}

#endif
