/*
 * Two workers of one context send from the same memory, which UCX registers once for both. One
 * closes by force during its send and is destroyed. When the other one's send completes, UCX must
 * not notify the destroyed worker about the memory.
 */
#include "test_util.h"

#include <malloc.h>

static void round_of(size_t length, int senders, unsigned number) {
  STEP("%zu bytes, %d senders", length, senders);
  ucxx_context_t *context, *other;
  ucxx_worker_t *from[4], *to;
  ucxx_endpoint_t *endpoint[4];
  ucxx_request_t *sends[4] = {NULL}, *receive = NULL;
  seen_t seen[4] = {0};
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_context_create(NULL, &other));
  ucxx_worker_params_t by_itself = UCXX_WORKER_PARAMS_INIT;
  by_itself.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  CHECK_OK(ucxx_worker_create(other, &by_itself, &to));
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, number);
  for (int at = 0; at < senders; at++) {
    CHECK_OK(ucxx_worker_create(context, NULL, &from[at]));
    endpoint[at] = connect_workers(from[at], to);
    uint64_t word = 0;
    ucxx_request_t *greeting = NULL, *greeted = NULL;
    ucxx_status_t sent = ucxx_tag_send(endpoint[at], &number, sizeof number, 100, NULL, &greeting);
    ucxx_status_t received = ucxx_tag_recv(to, &word, sizeof word, 100, UINT64_MAX, NULL, &greeted);
    while (received == UCXX_INPROGRESS && ucxx_request_status(greeted) == UCXX_INPROGRESS) {
      progress(from[at]);
      progress(to);
    }
    CHECK_OK(finish(received, &greeted));
    CHECK_OK(finish(sent, &greeting));
  }
  for (int at = 0; at < senders; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &seen[at];
    CHECK_STATUS(ucxx_tag_send(endpoint[at], out, length, (uint64_t)at, &params, &sends[at]),
                 UCXX_INPROGRESS);
  }
  /* The last sender's message goes through. The others end here, one by a close and the rest with
   * their workers. */
  int last = senders - 1;
  for (int at = 0; at < last; at++) {
    if (at % 2 == 0) {
      ucxx_request_t *closing = NULL;
      CHECK_OK(
          finish(ucxx_endpoint_close(endpoint[at], UCXX_CLOSE_FORCE, NULL, &closing), &closing));
    }
    ucxx_worker_destroy(from[at]);
    CHECK_EQ(seen_count(&seen[at]), 1);
    CHECK_STATUS(ucxx_request_status(sends[at]), UCXX_ERR_CANCELED);
    if (at % 2 == 1) ucxx_endpoint_destroy(endpoint[at]);
    ucxx_request_destroy(sends[at]);
  }
  CHECK_EQ(seen_count(&seen[last]), 0);
  ucxx_status_t received =
      ucxx_tag_recv(to, in, length, (uint64_t)last, UINT64_MAX, NULL, &receive);
  while (received == UCXX_INPROGRESS &&
         (ucxx_request_status(receive) == UCXX_INPROGRESS || seen_count(&seen[last]) == 0)) {
    progress(from[last]);
    progress(to);
  }
  CHECK_OK(finish(received, &receive));
  CHECK_CONTENT(in, length, number);
  CHECK_OK(finish(UCXX_INPROGRESS, &sends[last]));
  for (int at = 0; at < last; at += 2) ucxx_endpoint_destroy(endpoint[at]);
  ucxx_endpoint_destroy(endpoint[last]);
  ucxx_worker_destroy(from[last]);
  ucxx_worker_destroy(to);
  ucxx_context_destroy(context);
  ucxx_context_destroy(other);
  free(out);
  free(in);
}

int main(void) {
  test_begin("shared_region");
  /* Freed memory reads as a pattern. */
  mallopt(M_PERTURB, 0xa5);
  round_of(1 << 20, 2, 0);
  footprint_t first = footprint_now();
  round_of(4 << 20, 3, 1);
  STEP("the threads end");
  footprint_t last;
  /* One that was joined may be counted for a moment. */
  do last = footprint_now();
  while (last.threads > first.threads);
  CHECK_EQ(last.threads, first.threads);
  CHECK(last.descriptors <= first.descriptors);
  return 0;
}
