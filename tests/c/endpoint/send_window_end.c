/* Every way in which sends waiting in the send queue end: cancelled, timed out, flushed, closed,
 * aborted. Each completes exactly once. */
#include "test_util.h"

#include "send_window.h"

#include <malloc.h>
#include <pthread.h>

/* KiB over all rounds. ThreadSanitizer keeps a history of accesses. */
#ifdef __SANITIZE_THREAD__
enum { MOST_GROWN = 64 << 10 };
#else
enum { MOST_GROWN = 4096 };
#endif

static void cancel_and_timeout(const way_t *way) {
  enum { COUNT = 5 };
  STEP("%s: a waiting send is cancelled at once", way->name);
  line_t line;
  line_open(&line, way, limits(1, 0, 0, 0));
  uint64_t numbers[COUNT + 2] = {0};
  ucxx_request_t *requests[COUNT + 2] = {NULL};
  fill(&line, numbers, requests, COUNT);
  CHECK_OK(ucxx_request_cancel(requests[2]));
  while (ucxx_request_status(requests[2]) == UCXX_INPROGRESS) drive_sender(&line);
  CHECK_STATUS(ucxx_request_status(requests[2]), UCXX_ERR_CANCELED);
  await_in_flight(&line, COUNT - 1);
  check_window(&line, 1, COUNT - 2);
  STEP("%s: a waiting send times out without closing the endpoint", way->name);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = 20 * MILLISECOND;
  params.flags = UCXX_FLAG_TIMEOUT_CLOSES;
  CHECK_EQ(ucxx_tag_send(line.endpoint, &numbers[COUNT], 8, TAG, &params, &requests[COUNT]),
           UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait(requests[COUNT], FOR_EVER), UCXX_ERR_TIMED_OUT);
  CHECK_OK(ucxx_endpoint_status(line.endpoint));
  CHECK_STATUS(ucxx_tag_send(line.endpoint, &numbers[COUNT], 8, TAG,
                             &(ucxx_op_params_t){.struct_size = sizeof(ucxx_op_params_t),
                                                 .flags = UCXX_FLAG_WAIT,
                                                 .timeout_ns = 5 * MILLISECOND},
                             NULL),
               UCXX_ERR_TIMED_OUT);
  check_window(&line, 1, COUNT - 2);
  numbers[COUNT + 1] = COUNT + 1;
  CHECK_EQ(send_sync(&line, &numbers[COUNT + 1], 8, &requests[COUNT + 1]), UCXX_INPROGRESS);
  for (unsigned i = 0; i < COUNT + 2; i++) {
    if (i == 2 || i == COUNT) continue;
    receive_number(&line, i);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
  }
  CHECK(nothing_arrived(&line));
  ucxx_request_destroy(requests[2]);
  ucxx_request_destroy(requests[COUNT]);

  STEP("%s: cancelled sends leave nothing behind", way->name);
  fill(&line, numbers, requests, 2);
  footprint_t before = {0};
  const unsigned warm_up = test_rounds(20000), measured = test_rounds(80000);
  for (unsigned i = 0; i < warm_up + measured; i++) {
    ucxx_request_t *request = NULL;
    if (i == warm_up) {
      malloc_trim(0);
      before = footprint_now();
    }
    CHECK_EQ(send_sync(&line, &numbers[3], 8, &request), UCXX_INPROGRESS);
    CHECK_OK(ucxx_request_cancel(request));
    while (ucxx_request_status(request) == UCXX_INPROGRESS) drive_sender(&line);
    CHECK_STATUS(ucxx_request_status(request), UCXX_ERR_CANCELED);
    ucxx_request_destroy(request);
  }
  long grown = footprint_now().resident_kib - before.resident_kib;
  printf("%u cancelled: %+ld KiB\n", measured, grown);
  if (grown >= (long)test_rounds(MOST_GROWN))
    FAIL("memory grew by %ld KiB over %u cancelled sends", grown, measured);
  for (unsigned i = 0; i < 2; i++) {
    receive_number(&line, i);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
  }
  line_close(&line);
}

static void count_message(void *arg, ucxx_am_message_t *message) {
  __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
  ucxx_am_message_destroy(message);
}

static void credit_comes_back(const way_t *way) {
  enum { ID = 3, MANY = 300 };
  STEP("%s: messages cancelled in the queue use no credit", way->name);
  line_t line;
  int arrived = 0;
  line_open(&line, way, limits(1, 0, 0, 0));
  CHECK_OK(ucxx_worker_set_am_handler(line.to, ID, count_message, &arrived, NULL));
  uint64_t number = 0;
  ucxx_request_t *first = NULL, *request = NULL;
  fill(&line, &number, &first, 1);
  for (int i = 0; i < MANY; i++) {
    CHECK_EQ(ucxx_am_send(line.endpoint, ID, NULL, 0, &number, 8, NULL, &request), UCXX_INPROGRESS);
    await_in_flight(&line, 2);
    CHECK_OK(ucxx_request_cancel(request));
    while (ucxx_request_status(request) == UCXX_INPROGRESS) drive_sender(&line);
    CHECK_STATUS(ucxx_request_status(request), UCXX_ERR_CANCELED);
    ucxx_request_destroy(request);
  }
  request = NULL;
  receive_number(&line, 0);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &first));
  CHECK_OK(line_finish(&line, ucxx_am_send(line.endpoint, ID, NULL, 0, &number, 8, NULL, &request),
                       &request));
  while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) == 0) drive(&line);
  CHECK_EQ(arrived, 1);
  line_close(&line);
}

static uint64_t failed_so_far(const line_t *line) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(line->from, &stats));
  return stats.failed;
}

static void flushes(const way_t *way) {
  enum { COUNT = 6 };
  line_t line;
  line_open(&line, way, limits(2, 0, 0, 0));
  for (int whole = 0; whole < 2; whole++) {
    STEP("%s: a flush of the %s covers waiting sends", way->name, whole ? "worker" : "endpoint");
    uint64_t numbers[COUNT];
    ucxx_request_t *requests[COUNT] = {NULL}, *flush = NULL, *later = NULL;
    fill(&line, numbers, requests, COUNT);
    ucxx_status_t status = whole ? ucxx_worker_flush(line.from, NULL, &flush)
                                 : ucxx_endpoint_flush(line.endpoint, NULL, &flush);
    CHECK_EQ(status, UCXX_INPROGRESS);
    uint64_t number = COUNT;
    /* With delayed submission a send right after a flush may be sent before it. */
    if (!is_delayed(&line)) CHECK_EQ(send_sync(&line, &number, 8, &later), UCXX_INPROGRESS);
    for (unsigned i = 0; i < COUNT; i++) {
      CHECK_EQ(ucxx_request_status(flush), UCXX_INPROGRESS);
      receive_number(&line, i);
      CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
    }
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &flush));
    if (later != NULL) {
      /* The flush did not wait for the send behind it. */
      CHECK_EQ(ucxx_request_status(later), UCXX_INPROGRESS);
      receive_number(&line, COUNT);
      CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &later));
    }

    STEP("%s: a flush reports the failure of a send without a request", way->name);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.timeout_ns = MILLISECOND;
    uint64_t failed = failed_so_far(&line);
    fill(&line, numbers, requests, 2);
    CHECK_EQ(ucxx_tag_send(line.endpoint, &number, 8, TAG, &params, NULL), UCXX_INPROGRESS);
    status = whole ? ucxx_worker_flush(line.from, NULL, &flush)
                   : ucxx_endpoint_flush(line.endpoint, NULL, &flush);
    CHECK_EQ(status, UCXX_INPROGRESS);
    while (failed_so_far(&line) == failed) drive_sender(&line);
    receive_number(&line, 0);
    receive_number(&line, 1);
    CHECK_STATUS(line_finish(&line, UCXX_INPROGRESS, &flush), UCXX_ERR_TIMED_OUT);
    for (unsigned i = 0; i < 2; i++) CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));

    STEP("%s: a flush that waits in the queue is cancelled at once", way->name);
    fill(&line, numbers, requests, 3);
    status = whole ? ucxx_worker_flush(line.from, NULL, &flush)
                   : ucxx_endpoint_flush(line.endpoint, NULL, &flush);
    CHECK_EQ(status, UCXX_INPROGRESS);
    CHECK_OK(ucxx_request_cancel(flush));
    while (ucxx_request_status(flush) == UCXX_INPROGRESS) drive_sender(&line);
    CHECK_STATUS(ucxx_request_status(flush), UCXX_ERR_CANCELED);
    ucxx_request_destroy(flush);
    flush = NULL;
    for (unsigned i = 0; i < 3; i++) {
      receive_number(&line, i);
      CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
    }
  }
  line_close(&line);
}

static void *receive_all(void *arg) {
  const line_t *line = arg;
  for (unsigned i = 0; i < 40; i++) {
    uint64_t in = 0;
    ucxx_request_t *receive = NULL;
    ucxx_status_t status = ucxx_tag_recv(line->to, &in, sizeof in, TAG, UINT64_MAX, NULL, &receive);
    CHECK_OK(finish(status, &receive));
    CHECK_EQ(in, i);
  }
  return NULL;
}

static void blocking(const way_t *way) {
  STEP("%s: a blocking send waits for its turn", way->name);
  line_t line;
  line_open(&line, way, limits(2, 0, 0, 0));
  uint64_t numbers[40];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  pthread_t receiver;
  CHECK_EQ(pthread_create(&receiver, NULL, receive_all, &line), 0);
  for (unsigned i = 0; i < 40; i++) {
    numbers[i] = i;
    ucxx_status_t sent =
        ucxx_tag_send_sync(line.endpoint, &numbers[i], 8, TAG, i % 10 == 9 ? &params : NULL, NULL);
    CHECK(sent == UCXX_OK || (sent == UCXX_INPROGRESS && i % 10 != 9));
  }
  CHECK_EQ(pthread_join(receiver, NULL), 0);
  line_close(&line);
}

/* Sends `count` numbers, counts their completions, and keeps no request. */
static void send_seen(const line_t *line, uint64_t *numbers, seen_t *seen, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &seen[i];
    memset(&seen[i], 0, sizeof seen[i]);
    numbers[i] = i;
    CHECK_EQ(ucxx_tag_send_sync(line->endpoint, &numbers[i], 8, TAG, &params, NULL),
             UCXX_INPROGRESS);
  }
  await_in_flight(line, count);
}

static void close_lets_out(const way_t *way) {
  enum { COUNT = 50 };
  STEP("%s: a close sends what waits", way->name);
  line_t line;
  line_open(&line, way, limits(2, 0, 0, 0));
  uint64_t numbers[COUNT];
  seen_t seen[COUNT];
  send_seen(&line, numbers, seen, COUNT);
  ucxx_request_t *close = NULL;
  CHECK_EQ(close_patiently(line.endpoint, &close), UCXX_INPROGRESS);
  CHECK(!ucxx_endpoint_writable(line.endpoint));
  CHECK_STATUS(ucxx_tag_send(line.endpoint, numbers, 8, TAG, NULL, NULL), UCXX_ERR_CLOSED);
  for (unsigned i = 0; i < COUNT; i++) receive_number(&line, i);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &close));
  while (seen_count(&line.closed) == 0) drive(&line);
  CHECK_OK(line.closed.status);
  for (unsigned i = 0; i < COUNT; i++) {
    CHECK_EQ(seen_count(&seen[i]), 1);
    CHECK_OK(seen[i].status);
  }
  line_close(&line);
}

enum end { BY_FORCE, BY_CANCELLED_CLOSE, BY_DESTROY, BY_WORKER, BY_PEER, ENDS };
static const char *const end_names[] = {"a close by force", "a close that is cancelled",
                                        "destroying the endpoint", "destroying the worker",
                                        "the peer's close"};

static void ends_once(const way_t *way, enum end end) {
  enum { WINDOW = 2, COUNT = 50 };
  STEP("%s: %s ends waiting sends, once", way->name, end_names[end]);
  line_t line;
  line_open(&line, way, limits(WINDOW, 0, 0, 0));
  ucxx_endpoint_t *back = NULL;
  if (end == BY_PEER) {
    ucxx_address_t *address = NULL;
    CHECK_OK(ucxx_worker_address(line.from, &address));
    CHECK_OK(ucxx_endpoint_create(line.to, address, NULL, &back));
    ucxx_address_destroy(address);
    line_t other = {.way = &ways[1], .from = line.to, .to = line.from};
    touch(&other, back);
  }
  uint64_t numbers[COUNT];
  seen_t seen[COUNT];
  send_seen(&line, numbers, seen, COUNT);
  ucxx_request_t *close = NULL;
  switch (end) {
  case BY_FORCE:
    CHECK_OK(line_finish(&line, ucxx_endpoint_close(line.endpoint, UCXX_CLOSE_FORCE, NULL, &close),
                         &close));
    break;
  case BY_CANCELLED_CLOSE:
    CHECK_EQ(ucxx_endpoint_close(line.endpoint, UCXX_CLOSE_FLUSH, NULL, &close), UCXX_INPROGRESS);
    drive_sender(&line);
    CHECK_OK(ucxx_request_cancel(close));
    CHECK_STATUS(line_finish(&line, UCXX_INPROGRESS, &close), UCXX_ERR_CANCELED);
    break;
  case BY_DESTROY:
    /* Nobody receives: the destroy closes by force when its time limit expires. */
    ucxx_endpoint_destroy(line.endpoint);
    line.endpoint = NULL;
    break;
  case BY_WORKER: ucxx_worker_destroy(line.from); break;
  default:
    CHECK_OK(line_finish(&line, ucxx_endpoint_close(back, UCXX_CLOSE_FORCE, NULL, &close), &close));
    while (seen_count(&line.closed) == 0) drive(&line);
    CHECK_STATUS(line.closed.status, UCXX_ERR_CONNECTION_RESET);
    break;
  }
  while (end != BY_WORKER && end != BY_DESTROY && seen_count(&line.closed) == 0) drive(&line);
  for (unsigned i = 0; i < COUNT; i++) {
    CHECK_EQ(seen_count(&seen[i]), 1);
    CHECK(seen[i].status < 0 || i < WINDOW);
    if (end == BY_PEER)
      CHECK(seen[i].status == UCXX_ERR_CONNECTION_RESET || i < WINDOW);
    else
      CHECK(seen[i].status == UCXX_ERR_CANCELED || i < WINDOW);
  }
  CHECK_EQ(seen_count(&line.closed), 1);
  if (end == BY_WORKER) {
    CHECK(!ucxx_endpoint_writable(line.endpoint));
    ucxx_endpoint_destroy(line.endpoint);
    ucxx_worker_destroy(line.to);
    ucxx_context_destroy(line.context);
    return;
  }
  ucxx_endpoint_destroy(back);
  line_close(&line);
}

int main(void) {
  test_begin("send_window_end");
  for (unsigned i = 0; i < WAYS; i++) {
    cancel_and_timeout(&ways[i]);
    credit_comes_back(&ways[i]);
    flushes(&ways[i]);
    blocking(&ways[i]);
    close_lets_out(&ways[i]);
    for (enum end end = BY_FORCE; end < ENDS; end++) ends_once(&ways[i], end);
  }
  return 0;
}
