/* A single-threaded worker that sends to itself: the shortest path through the library leaves
 * requests, buffers and memory in order. */
#include "test_util.h"

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static ucxx_endpoint_t *itself;

static void open_worker(const ucxx_context_params_t *context_params) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SINGLE;
  CHECK_OK(ucxx_context_create(context_params, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  itself = connect_workers(worker, worker);
}

static void close_worker(void) {
  ucxx_endpoint_destroy(itself);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

/* in_flight counts operations that were submitted and have not completed. */
static void progress_until_in_flight(uint64_t expected) {
  for (;;) {
    ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
    CHECK_OK(ucxx_worker_query_stats(worker, &stats));
    CHECK_EQ(stats.in_flight, stats.submitted - stats.completed - stats.failed - stats.canceled);
    if (stats.in_flight == expected) return;
    progress(worker);
  }
}

/*
 * On the transport of that name a message to the same worker arrives inside the call, and receiving
 * a waiting rendezvous completes its send. Nobody kept that request, so its memory is free again
 * before the receive's call returns.
 */
static void ends_inside_another_call(void) {
  ucxx_config_entry_t config[] = {{"TLS", "self"}, {"RNDV_THRESH", NULL}};
  static const char *const thresholds[] = {"0", "inf"};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG; /* without events, which that transport does not support */
  params.config = config;
  params.config_count = 2;
  static uint8_t out[1 << 20], in[1 << 20];
  for (int which = 0; which < 2; which++) {
    config[1].value = thresholds[which];
    open_worker(&params);
    for (size_t length = 1; length <= sizeof out; length *= 4) {
      STEP("%zu bytes to the same worker, rendezvous from %s bytes", length, thresholds[which]);
      ucxx_request_t *request = NULL;
      test_fill(out, length, length);
      memset(in, 0, length);
      CHECK(ucxx_tag_send(itself, out, length, 1, NULL, NULL) >= 0);
      CHECK_OK(finish(ucxx_tag_recv(worker, in, length, 1, UINT64_MAX, NULL, &request), &request));
      CHECK_CONTENT(in, length, length);
      progress_until_in_flight(0);
      memset(in, 0, length);
      CHECK(ucxx_tag_recv(worker, in, length, 2, UINT64_MAX, NULL, NULL) >= 0);
      CHECK_OK(finish(ucxx_tag_send(itself, out, length, 2, NULL, &request), &request));
      progress_until_in_flight(0);
      CHECK_CONTENT(in, length, length);
    }
    close_worker();
  }
}

/* The memory of a request destroyed while in progress is reused. */
static void let_go_early(void) {
  enum { TURNS = 100000, LARGEST_GROWTH_KIB = 8192 };
  open_worker(NULL);
  uint64_t out = 1, in = 0;
  footprint_t before = footprint_now();
  STEP("%d receives whose requests are destroyed before they are matched", (int)TURNS);
  for (int turn = 0; turn < TURNS; turn++) {
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_tag_recv(worker, &in, sizeof in, 1, UINT64_MAX, NULL, &request),
                 UCXX_INPROGRESS);
    ucxx_request_destroy(request);
    CHECK_OK(finish(ucxx_tag_send(itself, &out, sizeof out, 1, NULL, &request), &request));
    progress_until_in_flight(0);
  }
  long grown = footprint_now().resident_kib - before.resident_kib;
  if (grown > LARGEST_GROWTH_KIB) FAIL("memory grew by %ld KiB", grown);
  close_worker();
}

int main(void) {
  test_begin("worker_to_itself");
  ends_inside_another_call();
  let_go_early();
  return 0;
}
