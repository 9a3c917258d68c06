/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* UCXX with its progress thread and delayed submission. Its requests have no wait, and its notifier
 * is for Python. */
#ifndef BENCH_THREADED_UCXX_H
#define BENCH_THREADED_UCXX_H

static inline void threaded_begin(struct link *link, const struct options *options) {
  (void)link;
  if (options->completion != COMPLETION_POLL && options->completion != COMPLETION_CALLBACK)
    die("UCXX's C++ interface offers no such completion");
}

static inline void threaded_end(struct link *link) { (void)link; }

static void threaded_callback(ucs_status_t status, std::shared_ptr<void> arg) {
  if (status != UCS_OK) die("an operation failed: %s", ucs_status_string(status));
  batch_one_ended(static_cast<struct batch *>(arg.get()));
}

template <typename Builder>
static inline void threaded_build(Builder builder, struct operation *operation, struct batch *batch,
                                  int completion) {
  if (completion == COMPLETION_CALLBACK) {
    /* Shares no ownership, because the batch lives longer than its operations. */
    builder.callbackFunction(threaded_callback)
        .callbackData(std::shared_ptr<void>(std::shared_ptr<void>(), batch));
  }
  operation->request = builder.build();
}

static inline void threaded_recv(struct link *link, void *buffer, size_t length, uint64_t tag,
                                 struct operation *operation, struct batch *batch, int completion) {
  threaded_build(link->worker->tagRecvBuilder(buffer, length, ucxx::Tag(tag), ucxx::TagMaskFull),
                 operation, batch, completion);
}

static inline void threaded_send(struct link *link, const void *buffer, size_t length, uint64_t tag,
                                 struct operation *operation, struct batch *batch, int completion) {
  threaded_build(link->endpoint->tagSendBuilder(buffer, length, ucxx::Tag(tag)), operation, batch,
                 completion);
}

static inline void threaded_collect(struct link *link, struct operation *operations, long count,
                                    struct batch *batch, int completion) {
  if (completion == COMPLETION_CALLBACK) {
    batch_wait(batch);
    for (long i = 0; i < count; i++) operations[i].request.reset();
  } else {
    for (long i = 0; i < count; i++) link_finish(link, &operations[i]);
  }
}

#endif
