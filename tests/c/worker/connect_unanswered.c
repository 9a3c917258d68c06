/* While a TCP connection is unanswered, UCX's descriptor stays readable. Event loops, the library's
 * waits and progress threads sleep nevertheless, and wake when a message arrives. */
#include "test_util.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>

enum { TAG = 1 };

/* Spinning would mean ten thousands of wakeups, and as much processor time as has passed. */
#define WAITED (200 * MILLISECOND)
#define MOST_WAKINGS 500
#define MOST_TIME (WAITED / 4)

static uint64_t now(clockid_t clock) {
  struct timespec time;
  CHECK_EQ(clock_gettime(clock, &time), 0);
  return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static duo_t duo;
static ucxx_request_t *awaited;
static uint64_t word;

static void open_duo(int32_t mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  memset(&duo, 0, sizeof duo);
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  ucxx_status_t status = ucxx_tag_send(duo.to_right, "message", 8, TAG, NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_recv(duo.left, &word, sizeof word, TAG, UINT64_MAX, NULL, &awaited),
               UCXX_INPROGRESS);
}

static void *answer(void *arg) {
  (void)arg;
  duo.to_left = connect_workers(duo.right, duo.left);
  ucxx_request_t *sent = NULL;
  ucxx_status_t status = ucxx_tag_send(duo.to_left, "answer", 7, TAG, NULL, &sent);
  CHECK_OK(finish(status, &sent));
  while (ucxx_request_status(awaited) == UCXX_INPROGRESS) progress(duo.right);
  return NULL;
}

static void close_duo(void) {
  CHECK_STATUS(finish(UCXX_INPROGRESS, &awaited), UCXX_OK);
  ucxx_endpoint_t *ends[] = {duo.to_right, duo.to_left};
  for (size_t at = 0; at < 2; at++) {
    ucxx_request_t *closing = NULL;
    ucxx_status_t status = ucxx_endpoint_close(ends[at], UCXX_CLOSE_FORCE, NULL, &closing);
    CHECK(finish(status, &closing) <= 0);
    ucxx_endpoint_destroy(ends[at]);
  }
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

/* Counts wakeups until the request completes, or so much time has passed. */
static unsigned run_loop(uint64_t longest) {
  unsigned wakings = 0;
  int fd = -1;
  CHECK_OK(ucxx_worker_event_fd(duo.left, &fd));
  for (uint64_t begin = now(CLOCK_MONOTONIC); now(CLOCK_MONOTONIC) - begin < longest;) {
    uint32_t events = 0;
    CHECK_OK(ucxx_worker_progress(duo.left, &events));
    if (ucxx_request_status(awaited) != UCXX_INPROGRESS) break;
    if (events > 0) continue;
    ucxx_status_t status = ucxx_worker_arm(duo.left);
    if (status == UCXX_ERR_BUSY) continue;
    CHECK_OK(status);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    int count = poll(&entry, 1, longest == FOR_EVER ? -1 : (int)(longest / MILLISECOND));
    wakings += count == 1;
  }
  return wakings;
}

static void in_event_loop(void) {
  STEP("an event loop");
  open_duo(UCXX_PROGRESS_MANUAL);
  unsigned wakings = run_loop(WAITED);
  if (wakings > MOST_WAKINGS) FAIL("woken %u times", wakings);
  STEP("the answer wakes an event loop");
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
  run_loop(FOR_EVER);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  close_duo();
}

static void in_a_wait(int32_t mode, const char *name) {
  STEP("a wait, %s", name);
  open_duo(mode);
  for (int by_worker = 0; by_worker < 2; by_worker++) {
    uint64_t before = now(CLOCK_PROCESS_CPUTIME_ID), begin = now(CLOCK_MONOTONIC);
    if (by_worker && mode == UCXX_PROGRESS_MANUAL)
      while (now(CLOCK_MONOTONIC) - begin < WAITED) ucxx_worker_wait(duo.left, WAITED);
    else
      CHECK_STATUS(ucxx_request_wait(awaited, WAITED), UCXX_INPROGRESS);
    uint64_t used = now(CLOCK_PROCESS_CPUTIME_ID) - before;
    if (used > MOST_TIME) FAIL("%u ms of processor time", (unsigned)(used / MILLISECOND));
  }
  STEP("the answer ends a wait, %s", name);
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
  CHECK_OK(ucxx_request_wait(awaited, FOR_EVER));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  close_duo();
}

int main(void) {
  test_begin("connect_unanswered");
  in_event_loop();
  in_a_wait(UCXX_PROGRESS_MANUAL, "manual");
  in_a_wait(UCXX_PROGRESS_THREAD_BLOCKING, "a thread that sleeps at once");
  in_a_wait(UCXX_PROGRESS_THREAD_ADAPTIVE, "a thread that polls first");
  return 0;
}
