/* A notifier reports each completion once: in batches, from several workers to several consumers. A
 * lost wakeup shows as a hang. */
#include "test_util.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

enum { TAG = 0x51, BATCH = 64 };
#define UNMATCHED UINT64_C(0x6e6f626f6479)

static int readable(int fd, int timeout_ms) {
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  int count;
  while ((count = poll(&entry, 1, timeout_ms)) < 0) CHECK(errno == EINTR);
  return count == 1;
}

static ucxx_op_params_t reporting(ucxx_notifier_t *notifier, void *user_data) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.notifier = notifier;
  params.callback_arg = user_data;
  return params;
}

static size_t poll_some(ucxx_notifier_t *notifier, ucxx_completion_t *completions, size_t max) {
  size_t count = SIZE_MAX;
  CHECK_OK(ucxx_notifier_poll(notifier, completions, sizeof *completions, max, &count));
  CHECK(count <= max);
  return count;
}

/* Progresses until the next completion is reported. */
static ucxx_completion_t next_completion(const duo_t *duo, ucxx_notifier_t *notifier) {
  ucxx_completion_t completion;
  while (poll_some(notifier, &completion, 1) == 0) duo_progress(duo);
  for (size_t at = 0; at < sizeof completion.reserved / sizeof *completion.reserved; at++)
    CHECK_EQ(completion.reserved[at], 0);
  return completion;
}

static void post_unmatched(ucxx_worker_t *worker, ucxx_notifier_t *notifier, void *user_data,
                           ucxx_request_t **request) {
  static uint64_t word;
  ucxx_op_params_t params = reporting(notifier, user_data);
  CHECK_STATUS(ucxx_tag_recv(worker, &word, sizeof word, UNMATCHED, UINT64_MAX, &params, request),
               UCXX_INPROGRESS);
}

static ucxx_notifier_t *create(const duo_t *duo) {
  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(duo->context, &notifier));
  return notifier;
}

/* ------------------------------------------------------------------ reports */

static void receive_is_reported(const duo_t *duo, size_t length, int kept) {
  STEP("receive of %zu bytes, request %s", length, kept ? "kept" : "not kept");
  ucxx_notifier_t *notifier = create(duo);
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, length);
  ucxx_request_t *received = NULL, *sent = NULL;
  ucxx_op_params_t params = reporting(notifier, in);
  CHECK_STATUS(
      ucxx_tag_recv(duo->right, in, length, TAG, UINT64_MAX, &params, kept ? &received : NULL),
      UCXX_INPROGRESS);
  CHECK_EQ(poll_some(notifier, NULL, 0), 0);
  ucxx_status_t status = ucxx_tag_send(duo->to_right, out, length, TAG, NULL, &sent);
  ucxx_completion_t completion = next_completion(duo, notifier);
  CHECK(completion.user_data == in);
  CHECK(completion.request == received);
  CHECK_EQ(completion.length, length);
  CHECK_EQ(completion.sender_tag, TAG);
  CHECK_OK(completion.status);
  CHECK_CONTENT(in, length, length);
  if (kept) {
    ucxx_recv_info_t info;
    CHECK_OK(ucxx_request_status(received));
    CHECK_OK(ucxx_request_recv_info(received, &info));
    CHECK_EQ(info.length, length);
    CHECK_OK(ucxx_request_wait(received, 0));
    ucxx_request_destroy(received);
  }
  CHECK_OK(duo_finish(duo, status, &sent));
  CHECK_EQ(poll_some(notifier, &completion, 1), 0);
  ucxx_notifier_destroy(notifier);
  free(out);
  free(in);
}

static void inline_completions(const duo_t *duo) {
  STEP("operations that complete inside their call");
  ucxx_notifier_t *notifier = create(duo);
  ucxx_completion_t completion;
  uint64_t word = 0;
  ucxx_request_t *request = (ucxx_request_t *)&word;
  ucxx_op_params_t params = reporting(notifier, &word);
  ucxx_status_t status = ucxx_tag_send(duo->to_right, &word, sizeof word, TAG, &params, &request);
  CHECK_OK(status);
  CHECK(request == NULL);
  CHECK_EQ(poll_some(notifier, &completion, 1), 0);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(ucxx_tag_send(duo->to_right, &word, sizeof word, TAG, &params, &request),
               UCXX_INPROGRESS);
  completion = next_completion(duo, notifier);
  CHECK(completion.user_data == &word && completion.request == request &&
        completion.status == UCXX_OK);
  CHECK_OK(ucxx_request_status(request));
  ucxx_request_destroy(request);
  CHECK_STATUS(ucxx_worker_flush(duo->left, &params, NULL), UCXX_INPROGRESS);
  completion = next_completion(duo, notifier);
  CHECK(completion.request == NULL && completion.status == UCXX_OK && completion.length == 0);
  for (int message = 0; message < 2; message++)
    CHECK_OK(duo_finish(
        duo, ucxx_tag_recv(duo->right, &word, sizeof word, TAG, UINT64_MAX, NULL, &request),
        &request));
  ucxx_notifier_destroy(notifier);
}

static void failures(const duo_t *duo) {
  STEP("cancelled, timed out, too long, destroyed early");
  ucxx_notifier_t *notifier = create(duo);
  ucxx_request_t *request = NULL;
  post_unmatched(duo->right, notifier, &request, &request);
  CHECK_OK(ucxx_request_cancel(request));
  ucxx_completion_t completion = next_completion(duo, notifier);
  CHECK(completion.request == request);
  CHECK_STATUS(completion.status, UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_request_status(request), UCXX_ERR_CANCELED);
  CHECK(strlen(ucxx_request_error_message(request)) > 0);
  ucxx_request_destroy(request);

  uint64_t words[2] = {0, 0};
  ucxx_op_params_t params = reporting(notifier, words);
  params.timeout_ns = MILLISECOND;
  CHECK_STATUS(ucxx_tag_recv(duo->right, words, 8, UNMATCHED, UINT64_MAX, &params, NULL),
               UCXX_INPROGRESS);
  completion = next_completion(duo, notifier);
  CHECK(completion.request == NULL);
  CHECK_STATUS(completion.status, UCXX_ERR_TIMED_OUT);

  params.timeout_ns = 0;
  CHECK_STATUS(ucxx_tag_recv(duo->right, words, 8, TAG, UINT64_MAX, &params, &request),
               UCXX_INPROGRESS);
  ucxx_request_destroy(request); /* detached: reported without a request */
  ucxx_request_t *sent = NULL;
  CHECK_OK(
      duo_finish(duo, ucxx_tag_send(duo->to_right, words, sizeof words, TAG, NULL, &sent), &sent));
  completion = next_completion(duo, notifier);
  CHECK(completion.request == NULL);
  CHECK_STATUS(completion.status, UCXX_ERR_MESSAGE_TRUNCATED);

  STEP("destroyed between report and poll");
  post_unmatched(duo->right, notifier, NULL, &request);
  CHECK_OK(ucxx_request_cancel(request));
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  ucxx_request_destroy(request);
  completion = next_completion(duo, notifier);
  CHECK(completion.request == NULL);
  CHECK_STATUS(completion.status, UCXX_ERR_CANCELED);
  ucxx_notifier_destroy(notifier);
}

static void batches_and_sizes(const duo_t *duo) {
  STEP("batches, and callers with another struct size");
  enum { COUNT = 100, ROOM = 96 };
  ucxx_notifier_t *notifier = create(duo);
  ucxx_request_t *requests[COUNT];
  for (size_t at = 0; at < COUNT; at++)
    post_unmatched(duo->right, notifier, (void *)(at + 1), &requests[at]);
  for (size_t at = 0; at < COUNT; at++) CHECK_OK(ucxx_request_cancel(requests[at]));
  while (ucxx_request_status(requests[COUNT - 1]) == UCXX_INPROGRESS) duo_progress(duo);
  ucxx_completion_t batch[COUNT];
  CHECK_EQ(poll_some(notifier, batch, 7), 7);
  for (size_t at = 0; at < 7; at++) CHECK(batch[at].user_data == (void *)(at + 1));
  uint8_t newer[3 * ROOM];
  memset(newer, 0xa5, sizeof newer);
  size_t count = 0;
  CHECK_OK(ucxx_notifier_poll(notifier, (ucxx_completion_t *)(void *)newer, ROOM, 2, &count));
  CHECK_EQ(count, 2);
  for (size_t at = 0; at < 2; at++) {
    memcpy(batch, newer + at * ROOM, sizeof *batch);
    CHECK(batch->user_data == (void *)(at + 8));
    for (size_t byte = sizeof *batch; byte < ROOM; byte++) CHECK_EQ(newer[at * ROOM + byte], 0);
  }
  CHECK_EQ(newer[2 * ROOM], 0xa5);
  CHECK_EQ(poll_some(notifier, batch, COUNT), COUNT - 9);
  CHECK_EQ(poll_some(notifier, batch, COUNT), 0);
  for (size_t at = 0; at < COUNT; at++) ucxx_request_destroy(requests[at]);
  ucxx_notifier_destroy(notifier);
}

/* ------------------------------------------------------------------ waiting */

/* Both begin their request on another path than transfers. Two more workers, because the endpoint
 * is closed here. */
static void flush_and_close(void) {
  STEP("flush and close");
  duo_t duo;
  duo_open(&duo, NULL);
  ucxx_notifier_t *notifier = create(&duo);
  int flush = 0, close = 0;
  ucxx_op_params_t params = reporting(notifier, &flush);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(ucxx_endpoint_flush(duo.to_right, &params, NULL), UCXX_INPROGRESS);
  ucxx_completion_t completion = next_completion(&duo, notifier);
  CHECK(completion.user_data == &flush && completion.status == UCXX_OK);
  params = reporting(notifier, &close);
  params.timeout_ns = PATIENTLY;
  CHECK_STATUS(ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, &params, NULL), UCXX_INPROGRESS);
  completion = next_completion(&duo, notifier);
  CHECK(completion.user_data == &close && completion.status == UCXX_OK);
  CHECK_EQ(poll_some(notifier, &completion, 1), 0);
  ucxx_notifier_destroy(notifier);
  ucxx_endpoint_destroy(duo.to_right);
  duo_drop(&duo, duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

static void timeouts_and_descriptor(const duo_t *duo) {
  STEP("timeouts");
  ucxx_notifier_t *notifier = create(duo);
  ucxx_request_t *request = NULL;
  ucxx_completion_t completion;
  CHECK_STATUS(ucxx_notifier_wait(notifier, 0), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_notifier_wait(notifier, 2 * MILLISECOND), UCXX_ERR_TIMED_OUT);

  STEP("descriptor");
  int fd = -1, again = -1;
  CHECK_OK(ucxx_notifier_event_fd(notifier, &fd));
  CHECK_OK(ucxx_notifier_event_fd(notifier, &again));
  CHECK(fd >= 0 && fd == again);
  CHECK_OK(ucxx_notifier_arm(notifier));
  CHECK(!readable(fd, 0));
  post_unmatched(duo->right, notifier, NULL, &request);
  CHECK(!readable(fd, 0));
  CHECK_OK(ucxx_request_cancel(request));
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  CHECK(readable(fd, -1) && readable(fd, 0));
  CHECK_STATUS(ucxx_notifier_arm(notifier), UCXX_ERR_BUSY);
  CHECK(readable(fd, 0));
  CHECK_OK(ucxx_notifier_wait(notifier, 0));
  CHECK_OK(ucxx_notifier_wait(notifier, FOR_EVER));
  CHECK_EQ(poll_some(notifier, &completion, 1), 1);
  CHECK_OK(ucxx_notifier_arm(notifier));
  CHECK(!readable(fd, 0));
  ucxx_request_destroy(request);

  STEP("stopping makes the descriptor readable for good");
  CHECK_OK(ucxx_notifier_stop(notifier));
  CHECK(readable(fd, -1));
  CHECK_STATUS(ucxx_notifier_arm(notifier), UCXX_ERR_CLOSED);
  CHECK(readable(fd, 0));
  ucxx_notifier_destroy(notifier);
}

static void stop_and_drain(const duo_t *duo) {
  STEP("stop and drain");
  ucxx_notifier_t *notifier = create(duo);
  ucxx_request_t *requests[2];
  ucxx_completion_t completion;
  for (size_t at = 0; at < 2; at++)
    post_unmatched(duo->right, notifier, &requests[at], &requests[at]);
  CHECK_OK(ucxx_request_cancel(requests[0]));
  while (ucxx_request_status(requests[0]) == UCXX_INPROGRESS) duo_progress(duo);
  CHECK_OK(ucxx_notifier_stop(notifier));
  CHECK_OK(ucxx_notifier_stop(notifier));
  uint64_t word = 0;
  ucxx_op_params_t params = reporting(notifier, NULL);
  ucxx_request_t *none = (ucxx_request_t *)&word;
  CHECK_STATUS(ucxx_tag_recv(duo->right, &word, 8, UNMATCHED, UINT64_MAX, &params, &none),
               UCXX_ERR_CLOSED);
  CHECK_MESSAGE("notifier");
  CHECK(none == (ucxx_request_t *)&word);
  CHECK_OK(ucxx_notifier_wait(notifier, FOR_EVER));
  CHECK_STATUS(ucxx_notifier_arm(notifier), UCXX_ERR_BUSY);
  CHECK_EQ(poll_some(notifier, &completion, 1), 1);
  size_t count = 77;
  CHECK_STATUS(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count),
               UCXX_ERR_CLOSED);
  CHECK_EQ(count, 77);
  CHECK_STATUS(ucxx_notifier_wait(notifier, FOR_EVER), UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_request_cancel(requests[1])); /* was in flight: still reported */
  while (ucxx_request_status(requests[1]) == UCXX_INPROGRESS) duo_progress(duo);
  CHECK_OK(ucxx_notifier_wait(notifier, FOR_EVER));
  CHECK_EQ(poll_some(notifier, &completion, 1), 1);
  CHECK(completion.request == requests[1]);
  CHECK_STATUS(ucxx_notifier_wait(notifier, 0), UCXX_ERR_CLOSED);
  ucxx_request_destroy(requests[0]);
  ucxx_request_destroy(requests[1]);
  ucxx_notifier_destroy(notifier);
}

static void *wait_for_closed(void *arg) {
  CHECK_STATUS(ucxx_notifier_wait(arg, FOR_EVER), UCXX_ERR_CLOSED);
  return NULL;
}

static void stop_wakes_all(const duo_t *duo) {
  STEP("stopping wakes every waiter");
  enum { WAITERS = 3 };
  for (int round = 0; round < 50; round++) {
    ucxx_notifier_t *notifier = create(duo);
    pthread_t threads[WAITERS];
    for (int at = 0; at < WAITERS; at++)
      CHECK(pthread_create(&threads[at], NULL, wait_for_closed, notifier) == 0);
    for (int turn = 0; turn < round % 5; turn++) sched_yield();
    CHECK_OK(ucxx_notifier_stop(notifier));
    for (int at = 0; at < WAITERS; at++) pthread_join(threads[at], NULL);
    ucxx_notifier_destroy(notifier);
  }
}

/* ------------------------------------------------------------------ order of destruction */

static void destroy_orders(void) {
  for (int order = 0; order < 6; order++) {
    STEP("destroy order %d", order);
    duo_t duo;
    duo_open(&duo, NULL);
    ucxx_notifier_t *notifier = create(&duo);
    ucxx_request_t *kept = NULL, *reported = NULL;
    post_unmatched(duo.right, notifier, &kept, &kept);
    post_unmatched(duo.right, notifier, &duo, NULL);
    post_unmatched(duo.right, notifier, &reported, &reported);
    CHECK_OK(ucxx_request_cancel(reported));
    while (ucxx_request_status(reported) == UCXX_INPROGRESS) duo_progress(&duo);
    if (order < 2) { /* the notifier first, with operations in flight and unpolled completions */
      ucxx_notifier_destroy(notifier);
      CHECK_STATUS(ucxx_request_status(kept), UCXX_INPROGRESS);
      if (order == 1) {
        CHECK_OK(ucxx_request_cancel(kept));
        CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &kept), UCXX_ERR_CANCELED);
      }
      duo_transfer(&duo, 64, 1);
      duo_close(&duo);
      if (kept != NULL) CHECK_STATUS(ucxx_request_status(kept), UCXX_ERR_CANCELED);
      CHECK_STATUS(ucxx_request_status(reported), UCXX_ERR_CANCELED);
    } else { /* workers and context first: three completions stay readable without them */
      duo_close(&duo);
      ucxx_completion_t batch[4];
      if (order == 2) ucxx_request_destroy(reported);
      if (order < 5) {
        CHECK_OK(ucxx_notifier_wait(notifier, FOR_EVER));
        CHECK_EQ(poll_some(notifier, batch, 4), 3);
        size_t without_request = 0;
        for (size_t at = 0; at < 3; at++) {
          CHECK_STATUS(batch[at].status, UCXX_ERR_CANCELED);
          without_request += batch[at].request == NULL;
          if (batch[at].request != NULL)
            CHECK_STATUS(ucxx_request_status(batch[at].request), UCXX_ERR_CANCELED);
        }
        CHECK_EQ(without_request, order == 2 ? 2 : 1);
      }
      if (order == 2) reported = NULL;
      if (order == 3) {
        ucxx_request_destroy(kept);
        kept = NULL;
      }
      ucxx_notifier_destroy(notifier);
    }
    ucxx_request_destroy(kept);
    ucxx_request_destroy(reported);
  }
  STEP("destroy of NULL");
  ucxx_notifier_destroy(NULL);
}

/* ------------------------------------------------------------------ several workers, several
 * consumers */

enum { PRODUCERS = 2, CONSUMERS = 3, PAIRS = 250000, WINDOW = 256 };

typedef struct crowd {
  ucxx_context_t *context;
  ucxx_notifier_t *notifier;
  uint8_t *seen; /* for each operation: how often it was reported */
  size_t polled;
  size_t reported[PRODUCERS];
} crowd_t;

typedef struct producer {
  crowd_t *crowd;
  size_t number;
  uint8_t *seen;
} producer_t;

/* Sends to itself: each operation is reported, whether it completes inside its call or not. Every
 * third request is kept. */
static void *produce(void *arg) {
  producer_t *producer = arg;
  crowd_t *crowd = producer->crowd;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  worker_params.thread_mode = producer->number == 0 ? UCXX_THREAD_SINGLE : UCXX_THREAD_MULTI;
  CHECK_OK(ucxx_worker_create(crowd->context, &worker_params, &worker));
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  static uint64_t in[PRODUCERS][WINDOW], out[PRODUCERS][WINDOW];
  size_t *reported = &crowd->reported[producer->number];
  for (size_t at = 0; at < PAIRS; at++) {
    /* Consumers destroy kept requests. A slot's buffers are free again once its operations have
     * been reported. */
    while (at >= WINDOW && __atomic_load_n(reported, __ATOMIC_ACQUIRE) + 2 * WINDOW <= 2 * at)
      progress(worker);
    ucxx_request_t *kept = NULL;
    ucxx_op_params_t params = reporting(crowd->notifier, producer->seen + 2 * at);
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    CHECK_STATUS(ucxx_tag_recv(worker, &in[producer->number][at % WINDOW], 8, TAG, UINT64_MAX,
                               &params, at % 3 ? NULL : &kept),
                 UCXX_INPROGRESS);
    params.callback_arg = producer->seen + 2 * at + 1;
    CHECK_STATUS(ucxx_tag_send(endpoint, &out[producer->number][at % WINDOW], 8, TAG, &params,
                               at % 3 ? NULL : &kept),
                 UCXX_INPROGRESS);
  }
  while (__atomic_load_n(reported, __ATOMIC_ACQUIRE) < 2 * PAIRS) progress(worker);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  return NULL;
}

static void *consume(void *arg) {
  crowd_t *crowd = arg;
  ucxx_completion_t batch[BATCH];
  for (;;) {
    ucxx_status_t status = ucxx_notifier_wait(crowd->notifier, FOR_EVER);
    if (status == UCXX_ERR_CLOSED) return NULL;
    CHECK_OK(status);
    size_t count = 0;
    status = ucxx_notifier_poll(crowd->notifier, batch, sizeof *batch, BATCH, &count);
    if (status == UCXX_ERR_CLOSED) return NULL;
    CHECK_OK(status);
    for (size_t at = 0; at < count; at++) {
      CHECK_OK(batch[at].status);
      size_t number = (size_t)((uint8_t *)batch[at].user_data - crowd->seen);
      CHECK_EQ(__atomic_fetch_add((uint8_t *)batch[at].user_data, 1, __ATOMIC_RELAXED), 0);
      CHECK_EQ(batch[at].request != NULL, number / 2 % PAIRS % 3 == 0);
      if (batch[at].request != NULL) {
        /* Final at once, though the worker's thread may not have continued yet. */
        CHECK_OK(ucxx_request_wait(batch[at].request, FOR_EVER));
        ucxx_request_destroy(batch[at].request);
      }
      __atomic_fetch_add(&crowd->reported[number / (2 * PAIRS)], 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&crowd->polled, count, __ATOMIC_RELAXED);
  }
}

static void a_million(void) {
  STEP("a million operations");
  crowd_t crowd = {.seen = calloc(PRODUCERS, 2 * PAIRS)};
  CHECK(crowd.seen != NULL);
  CHECK_OK(ucxx_context_create(NULL, &crowd.context));
  CHECK_OK(ucxx_notifier_create(crowd.context, &crowd.notifier));
  pthread_t producers[PRODUCERS], consumers[CONSUMERS];
  producer_t arguments[PRODUCERS];
  for (size_t at = 0; at < CONSUMERS; at++)
    CHECK(pthread_create(&consumers[at], NULL, consume, &crowd) == 0);
  for (size_t at = 0; at < PRODUCERS; at++) {
    arguments[at] = (producer_t){&crowd, at, crowd.seen + at * 2 * PAIRS};
    CHECK(pthread_create(&producers[at], NULL, produce, &arguments[at]) == 0);
  }
  for (size_t at = 0; at < PRODUCERS; at++) pthread_join(producers[at], NULL);
  CHECK_OK(ucxx_notifier_stop(crowd.notifier));
  for (size_t at = 0; at < CONSUMERS; at++) pthread_join(consumers[at], NULL);
  CHECK_EQ(crowd.polled, PRODUCERS * 2 * PAIRS);
  for (size_t at = 0; at < PRODUCERS * 2 * PAIRS; at++) CHECK_EQ(crowd.seen[at], 1);
  ucxx_notifier_destroy(crowd.notifier);
  ucxx_context_destroy(crowd.context);
  free(crowd.seen);
}

static void from_a_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  ucxx_notifier_t *notifier = arg;
  ucxx_completion_t completion;
  (void)request;
  CHECK_STATUS(status, UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_notifier_wait(notifier, FOR_EVER), UCXX_ERR_BUSY);
  CHECK_EQ(poll_some(notifier, &completion, 1), 0);
  CHECK_OK(ucxx_notifier_arm(notifier));
}

static void callbacks_may_poll(const duo_t *duo) {
  STEP("from a callback");
  ucxx_notifier_t *notifier = create(duo);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = from_a_callback;
  params.callback_arg = notifier;
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv(duo->right, &word, 8, UNMATCHED, UINT64_MAX, &params, &request),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  ucxx_notifier_destroy(notifier);
}

int main(void) {
  test_begin("notifier");
  duo_t duo;
  duo_open(&duo, NULL);
  for (int kept = 0; kept < 2; kept++) {
    receive_is_reported(&duo, 8, kept);
    receive_is_reported(&duo, 1 << 20, kept);
  }
  inline_completions(&duo);
  failures(&duo);
  batches_and_sizes(&duo);
  timeouts_and_descriptor(&duo);
  stop_and_drain(&duo);
  stop_wakes_all(&duo);
  callbacks_may_poll(&duo);
  STEP("closing");
  duo_close(&duo);
  flush_and_close();
  destroy_orders();
  a_million();
  return 0;
}
