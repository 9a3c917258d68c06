/* An event loop has armed its worker, and another thread calls something that affects it: when that
 * call returns, the descriptor is readable. The test depends on no time: the call has returned when
 * the descriptor is checked. */
#include "test_util.h"

#include <poll.h>
#include <pthread.h>

enum { TAG = 1, OTHER_TAG = 2, LARGE = 8 << 20 };

static duo_t duo;
static ucxx_worker_t *worker; /* duo.left: the loop's worker */
static ucxx_request_t *request;
static ucxx_endpoint_t *named;
static uint64_t word;

static int readable(void) {
  int fd = -1;
  CHECK_OK(ucxx_worker_event_fd(worker, &fd));
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  return poll(&entry, 1, 0) == 1;
}

/* Progresses until nothing is left to do or to arrive. */
static void fall_asleep(void) {
  ucxx_status_t status;
  do {
    duo_progress(&duo);
    status = ucxx_worker_arm(worker);
    CHECK(status == UCXX_OK || status == UCXX_ERR_BUSY);
  } while (status == UCXX_ERR_BUSY || readable());
}

/* ------------------------------------------------------------------ what the loop waits for */

static void receive(const ucxx_op_params_t *params) {
  CHECK_STATUS(ucxx_tag_recv(worker, &word, sizeof word, TAG, UINT64_MAX, params, &request),
               UCXX_INPROGRESS);
}

static void receive_from_named(const ucxx_op_params_t *params) {
  ucxx_op_params_t from = *params;
  named = connect_workers(worker, duo.right);
  from.source = named;
  receive(&from);
}

static void receive_from_stream(const ucxx_op_params_t *params) {
  named = connect_workers(worker, duo.right);
  CHECK_STATUS(ucxx_stream_recv(named, &word, sizeof word, params, &request), UCXX_INPROGRESS);
}

static void receive_from_queue(const ucxx_op_params_t *params) {
  CHECK_STATUS(ucxx_am_queue_recv(duo.to_right, NULL, params, &request), UCXX_INPROGRESS);
}

static ucxx_fetch_t *question;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  question = fetch;
}

static void let_go(void) {
  while (question == NULL) duo_progress(&duo);
  ucxx_fetch_destroy(question);
  question = NULL;
}

static void fetch(const ucxx_op_params_t *params) {
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, 1, NULL, 0, &word, sizeof word, params, &request),
               UCXX_INPROGRESS);
}

/* The flush needs the other side to complete. */
static void flush(const ucxx_op_params_t *params) {
  static uint8_t large[LARGE];
  CHECK_STATUS(ucxx_tag_send(duo.to_right, large, sizeof large, OTHER_TAG, NULL, NULL),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_endpoint_flush(duo.to_right, params, &request), UCXX_INPROGRESS);
}

static void take_large(void) {
  static uint8_t large[LARGE];
  ucxx_request_t *taken = NULL;
  ucxx_status_t status =
      ucxx_tag_recv(duo.right, large, sizeof large, OTHER_TAG, UINT64_MAX, NULL, &taken);
  CHECK_OK(duo_finish(&duo, status, &taken));
}

/* ------------------------------------------------------------------ calls of the other thread */

static void cancel(void) { CHECK_OK(ucxx_request_cancel(request)); }

static void close_by_force(void) {
  ucxx_request_t *closing = NULL;
  CHECK(ucxx_endpoint_close(named, UCXX_CLOSE_FORCE, NULL, &closing) >= 0);
  ucxx_request_destroy(closing);
}

/* A message for the loop's receive arrives, and this thread progresses it. */
static void progress_for_it(void) {
  ucxx_request_t *sent = NULL;
  ucxx_status_t status = ucxx_tag_send(duo.to_left, "message", 8, TAG, NULL, &sent);
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(&duo);
  CHECK_OK(duo_finish(&duo, status, &sent));
}

/* The same in a wait for something that never arrives; it also takes UCX's events while it
 * sleeps. */
static void wait_beside_it(void) {
  uint64_t other = 0;
  ucxx_request_t *sent = NULL, *awaited = NULL;
  CHECK_STATUS(ucxx_tag_recv(worker, &other, sizeof other, OTHER_TAG, UINT64_MAX, NULL, &awaited),
               UCXX_INPROGRESS);
  ucxx_status_t status = ucxx_tag_send(duo.to_left, "message", 8, TAG, NULL, &sent);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  for (uint64_t sleeps = stats.sleeps;
       ucxx_request_status(request) == UCXX_INPROGRESS || stats.sleeps == sleeps;) {
    CHECK_OK(ucxx_worker_progress(duo.right, NULL));
    CHECK_STATUS(ucxx_request_wait(awaited, MILLISECOND), UCXX_INPROGRESS);
    CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  }
  CHECK_OK(duo_finish(&duo, status, &sent));
  CHECK_OK(ucxx_request_cancel(awaited));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &awaited), UCXX_ERR_CANCELED);
}

/* ------------------------------------------------------------------ */

typedef struct deed {
  const char *name;
  void (*begin)(const ucxx_op_params_t *params);
  void (*act)(void);
  ucxx_status_t result;
  void (*clean_up)(void);
} deed_t;

static const deed_t deeds[] = {
    {"a receive is cancelled", receive, cancel, UCXX_ERR_CANCELED, NULL},
    {"a stream receive is cancelled", receive_from_stream, cancel, UCXX_ERR_CANCELED, NULL},
    {"a receive from a queue is cancelled", receive_from_queue, cancel, UCXX_ERR_CANCELED, NULL},
    {"a fetch is cancelled", fetch, cancel, UCXX_ERR_CANCELED, let_go},
    {"a flush is cancelled", flush, cancel, UCXX_ERR_CANCELED, take_large},
    {"the endpoint of a receive is closed by force", receive_from_named, close_by_force,
     UCXX_ERR_CLOSED, NULL},
    {"the endpoint of a stream receive is closed by force", receive_from_stream, close_by_force,
     UCXX_ERR_CLOSED, NULL},
    {"another thread progresses", receive, progress_for_it, UCXX_OK, NULL},
    {"another thread waits", receive, wait_beside_it, UCXX_OK, NULL},
};

static void *act(void *deed) {
  ((const deed_t *)deed)->act();
  return NULL;
}

static void on_another_thread(const deed_t *deed) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, act, (void *)(uintptr_t)deed), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void round_of(const deed_t *deed, int asleep, int with_callback) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  seen_t seen = {0, 0, UCXX_OK};
  if (with_callback) {
    params.callback = see_completion;
    params.callback_arg = &seen;
  }
  deed->begin(&params);
  fall_asleep();
  if (asleep) {
    on_another_thread(deed);
    CHECK(readable());
  } else {
    /* The loop has checked its request, and is about to arm. */
    CHECK_OK(ucxx_worker_progress(worker, NULL));
    on_another_thread(deed);
    CHECK_STATUS(ucxx_worker_arm(worker), UCXX_ERR_BUSY);
  }
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), deed->result);
  CHECK_EQ(seen_count(&seen), with_callback);
  ucxx_endpoint_destroy(named);
  named = NULL;
  if (deed->clean_up != NULL) deed->clean_up();
  /* The loop can sleep again. */
  fall_asleep();
}

static void all_deeds(int32_t mode, const char *name) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = mode;
  params.spin_ns = 1;
  memset(&duo, 0, sizeof duo);
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.right));
  worker = duo.left;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, 1, hold, NULL, NULL));
  duo.to_right = connect_workers(duo.left, duo.right);
  duo.to_left = connect_workers(duo.right, duo.left);
  duo_transfer(&duo, 8, 1);
  for (size_t at = 0; at < sizeof deeds / sizeof *deeds; at++) {
    for (int asleep = 1; asleep >= 0; asleep--) {
      for (int with_callback = 0; with_callback < 2; with_callback++) {
        STEP("%s: %s, %s callback, while the loop %s", name, deeds[at].name,
             with_callback ? "with" : "without", asleep ? "sleeps" : "is about to arm");
        round_of(&deeds[at], asleep, with_callback);
      }
    }
  }
  duo_close(&duo);
}

int main(void) {
  test_begin("event_loop");
  all_deeds(UCXX_THREAD_MULTI, "MULTI");
  all_deeds(UCXX_THREAD_SERIALIZED, "SERIALIZED");
  return 0;
}
