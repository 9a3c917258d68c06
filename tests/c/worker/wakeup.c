/* Sleeping until there is work: event descriptor, arm, signal, wait. A lost wakeup shows as a
 * hang. */
#include "test_util.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

enum { TAG = 0x3a };

static int readable(int fd, int timeout_ms) {
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  int count;
  while ((count = poll(&entry, 1, timeout_ms)) < 0) CHECK(errno == EINTR);
  return count == 1;
}

static int event_fd(ucxx_worker_t *worker) {
  int fd = -1, again = -1;
  CHECK_OK(ucxx_worker_event_fd(worker, &fd));
  CHECK_OK(ucxx_worker_event_fd(worker, &again));
  CHECK(fd >= 0);
  CHECK_EQ(fd, again);
  return fd;
}

/* Progresses until nothing is pending and the descriptor reports the next event. */
static void arm(ucxx_worker_t *worker) {
  ucxx_status_t status;
  while ((status = ucxx_worker_arm(worker)) == UCXX_ERR_BUSY)
    CHECK_OK(ucxx_worker_progress(worker, NULL));
  CHECK_OK(status);
}

/* The event loop of an application: arm, sleep, progress. */
static void sleep_until(ucxx_worker_t *worker, const ucxx_request_t *request) {
  int fd = event_fd(worker);
  while (ucxx_request_status(request) == UCXX_INPROGRESS) {
    uint32_t events = 0;
    CHECK_OK(ucxx_worker_progress(worker, &events));
    if (events > 0) continue;
    ucxx_status_t status = ucxx_worker_arm(worker);
    if (status == UCXX_ERR_BUSY) continue;
    CHECK_OK(status);
    if (ucxx_request_status(request) == UCXX_INPROGRESS) CHECK(readable(fd, -1));
  }
}

/* ------------------------------------------------------------------ two processes */

static void message_wakes(const pair_t *pair) {
  STEP("a message makes the descriptor readable");
  if (pair->side == 0) {
    pair_await(pair);
    CHECK_OK(ucxx_tag_send(pair->endpoint, "message", 8, TAG, NULL, NULL));
  } else {
    uint64_t word = 0;
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_tag_recv(pair->worker, &word, sizeof word, TAG, UINT64_MAX, NULL, &request),
                 UCXX_INPROGRESS);
    int fd = event_fd(pair->worker);
    arm(pair->worker);
    pair_tell(pair);
    /* Keepalive may also wake it, so the message need not arrive with the first wakeup. */
    while (ucxx_request_status(request) == UCXX_INPROGRESS) {
      CHECK(readable(fd, -1));
      for (int pass = 0; pass < 10; pass++) CHECK_OK(ucxx_worker_progress(pair->worker, NULL));
      if (ucxx_request_status(request) == UCXX_INPROGRESS) arm(pair->worker);
    }
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
  }
  pair_sync(pair);
}

static void ping_pong(const pair_t *pair, size_t length, int by_wait) {
  STEP("ping-pong of %zu bytes, sleeping in %s", length, by_wait ? "ucxx_worker_wait" : "poll");
  enum { TURNS = 300 };
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    for (int half = 0; half < 2; half++) {
      ucxx_request_t *request = NULL;
      ucxx_status_t status;
      int sends = half == pair->side;
      if (sends) {
        test_fill(out, length, turn);
        status = ucxx_tag_send(pair->endpoint, out, length, TAG, NULL, &request);
      } else {
        status = ucxx_tag_recv(pair->worker, in, length, TAG, UINT64_MAX, NULL, &request);
      }
      if (status == UCXX_INPROGRESS && by_wait) {
        while (ucxx_request_status(request) == UCXX_INPROGRESS)
          CHECK_OK(ucxx_worker_wait(pair->worker, FOR_EVER));
      } else if (status == UCXX_INPROGRESS) {
        sleep_until(pair->worker, request);
      }
      CHECK_OK(finish(status, &request));
      if (!sends) CHECK_CONTENT(in, length, turn);
    }
  }
  free(out);
  free(in);
  pair_sync(pair);
}

/* ------------------------------------------------------------------ one worker without
 * connections: nothing else wakes it */

typedef struct solo {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  int fd;
} solo_t;

static void solo_open(solo_t *solo) {
  CHECK_OK(ucxx_context_create(NULL, &solo->context));
  CHECK_OK(ucxx_worker_create(solo->context, NULL, &solo->worker));
  solo->fd = event_fd(solo->worker);
  arm(solo->worker);
}

static void solo_close(solo_t *solo) {
  ucxx_worker_destroy(solo->worker);
  ucxx_context_destroy(solo->context);
}

static void *give_signal(void *arg) {
  CHECK_OK(ucxx_worker_signal(arg));
  return NULL;
}

static void *signal_until(void *arg) {
  solo_t *solo = arg;
  while (__atomic_load_n(&solo->fd, __ATOMIC_ACQUIRE) >= 0)
    CHECK_OK(ucxx_worker_signal(solo->worker));
  return NULL;
}

static void *wait_until_woken(void *arg) {
  solo_t *solo = arg;
  ucxx_status_t status = ucxx_worker_wait(solo->worker, FOR_EVER);
  CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT);
  __atomic_store_n(&solo->fd, -1, __ATOMIC_RELEASE);
  return NULL;
}

static void signals(void) {
  STEP("signal wakes");
  solo_t solo;
  solo_open(&solo);
  CHECK(!readable(solo.fd, 0));
  for (int time = 0; time < 100; time++) {
    pthread_t thread;
    arm(solo.worker);
    CHECK_EQ(pthread_create(&thread, NULL, give_signal, solo.worker), 0);
    CHECK(readable(solo.fd, -1));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    /* A signal before arm is not lost either. */
    CHECK_OK(ucxx_worker_signal(solo.worker));
    CHECK_STATUS(ucxx_worker_arm(solo.worker), UCXX_ERR_BUSY);
    CHECK_OK(ucxx_worker_progress(solo.worker, NULL));
  }
  arm(solo.worker);
  CHECK(!readable(solo.fd, 0));

  STEP("signal ends a wait on another thread");
  for (int time = 0; time < 50; time++) {
    pthread_t waiter, signaller;
    solo.fd = 0;
    CHECK_EQ(pthread_create(&waiter, NULL, wait_until_woken, &solo), 0);
    CHECK_EQ(pthread_create(&signaller, NULL, signal_until, &solo), 0);
    CHECK_EQ(pthread_join(waiter, NULL), 0);
    CHECK_EQ(pthread_join(signaller, NULL), 0);
  }
  solo_close(&solo);
}

static void waits(void) {
  STEP("wait without any event");
  solo_t solo;
  solo_open(&solo);
  while (ucxx_worker_wait(solo.worker, 0) == UCXX_OK) {}
  CHECK_STATUS(ucxx_worker_wait(solo.worker, 0), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_worker_wait(solo.worker, 5 * MILLISECOND), UCXX_ERR_TIMED_OUT);
  solo_close(&solo);
}

/* How often a worker sleeps that waits for ten milliseconds, if it first polls so long. It waits
 * again while it has slept less often than `least`: it may have had no processor for so long. */
static uint64_t sleeps_after(uint64_t spin_ns, uint64_t least) {
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  params.spin_ns = spin_ns;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  do {
    while (ucxx_worker_wait(worker, 10 * MILLISECOND) == UCXX_OK) {}
    CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  } while (stats.sleeps < least);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return stats.sleeps;
}

static void waits_poll_first(void) {
  STEP("wait polls for spin_ns before it sleeps");
  CHECK_EQ(sleeps_after(UINT64_MAX, 0), 0);
  CHECK(sleeps_after(1, 1) > 0);
}

static void timeouts_wake(void) {
  STEP("the timeout of an operation wakes the descriptor");
  solo_t solo;
  solo_open(&solo);
  uint64_t word = 0;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = 10 * MILLISECOND;
  for (int time = 0; time < 10; time++) {
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_tag_recv(solo.worker, &word, sizeof word, TAG, UINT64_MAX, &params, &request),
                 UCXX_INPROGRESS);
    if (time % 2 == 0)
      sleep_until(solo.worker, request);
    else
      while (ucxx_request_status(request) == UCXX_INPROGRESS)
        CHECK_OK(ucxx_worker_wait(solo.worker, FOR_EVER));
    CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_TIMED_OUT);
  }
  solo_close(&solo);
}

/* A completion that waits for delivery counts as pending. */
static void deferred_completion_is_pending(void) {
  STEP("arm is refused while a completion waits to be delivered");
  duo_t duo;
  duo_open(&duo, NULL);
  seen_t seen = {0, 0, UCXX_OK};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &seen;
  for (int time = 1; time <= 10; time++) {
    arm(duo.left);
    CHECK_STATUS(ucxx_tag_send(duo.to_right, "message", 8, TAG, &params, NULL), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_worker_arm(duo.left), UCXX_ERR_BUSY);
    arm(duo.left);
    CHECK_EQ(seen_count(&seen), time);
  }
  duo_close(&duo);
}

/* ------------------------------------------------------------------ calls while another thread
 * sleeps */

typedef struct sleeper {
  ucxx_worker_t *worker;
  seen_t *seen;
} sleeper_t;

static void *sleep_for_completion(void *arg) {
  sleeper_t *sleeper = arg;
  while (seen_count(sleeper->seen) == 0) {
    ucxx_status_t status = ucxx_worker_wait(sleeper->worker, FOR_EVER);
    CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT);
  }
  return NULL;
}

/* A call on the worker while another thread sleeps on it; the callback must run there. */
typedef struct deed {
  const char *name;
  void (*act)(ucxx_worker_t *worker, ucxx_endpoint_t *self, const ucxx_op_params_t *callback);
} deed_t;

static uint64_t place;

static void post_with_timeout(ucxx_worker_t *worker, ucxx_endpoint_t *self,
                              const ucxx_op_params_t *callback) {
  (void)self;
  ucxx_op_params_t params = *callback;
  params.timeout_ns = MILLISECOND;
  CHECK_STATUS(ucxx_tag_recv(worker, &place, sizeof place, TAG, UINT64_MAX, &params, NULL),
               UCXX_INPROGRESS);
}

static void post_and_cancel(ucxx_worker_t *worker, ucxx_endpoint_t *self,
                            const ucxx_op_params_t *callback) {
  (void)self;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv(worker, &place, sizeof place, TAG, UINT64_MAX, callback, &request),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(request));
  ucxx_request_destroy(request);
}

static void receive_and_send(ucxx_worker_t *worker, ucxx_endpoint_t *self,
                             const ucxx_op_params_t *callback) {
  CHECK_STATUS(ucxx_tag_recv(worker, &place, sizeof place, TAG, UINT64_MAX, callback, NULL),
               UCXX_INPROGRESS);
  CHECK(ucxx_tag_send(self, "message", 8, TAG, NULL, NULL) >= 0);
}

static void flush_with_callback(ucxx_worker_t *worker, ucxx_endpoint_t *self,
                                const ucxx_op_params_t *callback) {
  (void)self;
  ucxx_op_params_t params = *callback;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(ucxx_worker_flush(worker, &params, NULL), UCXX_INPROGRESS);
}

static void acting_while_another_sleeps(void) {
  static const deed_t deeds[] = {
      {"a receive with a timeout", post_with_timeout},
      {"a receive that is cancelled", post_and_cancel},
      {"a receive, and a message for it", receive_and_send},
      {"a flush that completes at once", flush_with_callback},
  };
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_endpoint_t *self = connect_workers(worker, worker);
  for (size_t at = 0; at < sizeof deeds / sizeof *deeds; at++) {
    for (int time = 0; time < 100; time++) {
      STEP("%s, while another thread sleeps in wait", deeds[at].name);
      seen_t seen = {0, 0, UCXX_OK};
      sleeper_t sleeper = {worker, &seen};
      pthread_t thread;
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      params.callback = see_completion;
      params.callback_arg = &seen;
      CHECK_EQ(pthread_create(&thread, NULL, sleep_for_completion, &sleeper), 0);
      /* Every other time this gives the other thread a chance to fall asleep; the scheduler
       * decides, and the result is right either way. */
      for (int pause = 0; time % 2 == 0 && pause < 1000; pause++) sched_yield();
      deeds[at].act(worker, self, &params);
      CHECK_EQ(pthread_join(thread, NULL), 0);
      CHECK_EQ(seen_count(&seen), 1);
    }
  }
  ucxx_endpoint_destroy(self);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

/* An unanswered endpoint ends with its worker, after UCX's endpoint is freed: it must not be used
 * for a wakeup then. */
static void destroyed_while_armed(void) {
  STEP("an armed worker is destroyed, with an unanswered endpoint");
  /* Freed memory must not look valid. */
  CHECK_EQ(mallopt(M_PERTURB, 0xa5), 1);
  ucxx_context_t *context = NULL;
  ucxx_worker_t *left = NULL, *silent = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &left));
  CHECK_OK(ucxx_worker_create(context, NULL, &silent));
  ucxx_endpoint_t *endpoint = connect_workers(left, silent);
  while (ucxx_worker_arm(left) != UCXX_OK) progress(left);
  ucxx_worker_destroy(left);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(silent);
  ucxx_context_destroy(context);
  CHECK_EQ(mallopt(M_PERTURB, 0), 1);
}

static void body(pair_t *pair) {
  pair_connect(pair, NULL, NULL, NULL);
  for (int time = 0; time < 20; time++) message_wakes(pair);
  for (int by_wait = 0; by_wait < 2; by_wait++) {
    ping_pong(pair, 8, by_wait);
    ping_pong(pair, 30000, by_wait);
    ping_pong(pair, 1 << 20, by_wait);
  }
  pair_disconnect(pair);
  if (pair->side == 1) return;
  signals();
  waits();
  waits_poll_first();
  timeouts_wake();
  deferred_completion_is_pending();
  acting_while_another_sleeps();
  destroyed_while_armed();
}

int main(int argc, char **argv) { return pair_main(argc, argv, "wakeup", body); }
