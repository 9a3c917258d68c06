/*
 * Progress threads start and stop at random under traffic. Every operation completes, and the
 * messages of a thread keep their order, whether they were submitted to a thread, left in its queue
 * when it stopped, or sent directly.
 *
 *   progress_thread_restart [CHANGES]
 */
#include "progress_thread_random.h"

enum { SUBMITTERS = 3, WINDOW = 8, SMALL = 16, LARGE = 100000, CONSUMERS = 2 };

typedef struct lane {
  const threaded_t *pair;
  reporter_t reporter;
  uint64_t tag, number;
  atomic_int *over;
  uint8_t (*out)[LARGE], (*in)[LARGE];
} lane_t;

static void mark(uint8_t *buffer, size_t length, uint64_t number) {
  memcpy(buffer, &number, 8);
  memcpy(buffer + length - 8, &number, 8);
}

static void check_mark(const uint8_t *buffer, size_t length, uint64_t expected) {
  uint64_t first, last;
  memcpy(&first, buffer, 8);
  memcpy(&last, buffer + length - 8, 8);
  CHECK_EQ(first, expected);
  CHECK_EQ(last, expected);
}

/* A window of messages on one tag: they match in the order sent. */
static void one_window(lane_t *lane) {
  reporter_t *reporter = &lane->reporter;
  enum report sent[WINDOW], received[WINDOW];
  ucxx_request_t *sends[WINDOW], *receives[WINDOW];
  size_t count = 1 + draw(&reporter->random, WINDOW), lengths[WINDOW];
  /* Sends first or receives first: unexpected messages are matched as well. */
  int sends_first = draw(&reporter->random, 2) == 0;
  for (size_t at = 0; at < count; at++) {
    lengths[at] = draw(&reporter->random, 32) == 0 ? LARGE : SMALL;
    mark(lane->out[at], lengths[at], lane->number + at);
    memset(lane->in[at], 0, SMALL);
    sent[at] = (enum report)draw(&reporter->random, REPORTS);
    received[at] = (enum report)draw(&reporter->random, REPORTS);
  }
  for (int turn = 0; turn < 2; turn++)
    for (size_t at = 0; at < count; at++) {
      if ((turn == 0) == sends_first)
        sends[at] = submit_one(reporter, sent[at], NULL, lane->pair->to_right, lane->out[at],
                               lengths[at], lane->tag);
      else
        receives[at] = submit_one(reporter, received[at], lane->pair->right, NULL, lane->in[at],
                                  LARGE, lane->tag);
      if (draw(&reporter->random, 4) == 0) pause_randomly(&reporter->random);
    }
  /* A large message needs both sides, and a thread that waits here may progress only its own. */
  ucxx_request_t *own[WINDOW] = {NULL};
  size_t index, owned = 0;
  for (size_t at = 0; at < count; at++)
    if (received[at] == BY_MYSELF) own[owned++] = receives[at];
  if (owned > 0 && draw(&reporter->random, 2) == 0) {
    ucxx_status_t status = ucxx_request_wait_any(own, owned, MILLISECOND, &index);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  }
  for (size_t at = 0; at < count; at++) {
    finish_one(reporter, sent[at], sends[at]);
    finish_one(reporter, received[at], receives[at]);
  }
  for (size_t at = 0; at < count; at++) check_mark(lane->in[at], lengths[at], lane->number + at);
  lane->number += count;
}

static void *submit(void *arg) {
  lane_t *lane = arg;
  while (!atomic_load(lane->over)) one_window(lane);
  return NULL;
}

/* Meanwhile makes every call that bypasses the ring. */
static void *ask(void *arg) {
  lane_t *lane = arg;
  uint64_t *random = &lane->reporter.random;
  while (!atomic_load(lane->over)) {
    atomic_int runs = 0;
    uint64_t word;
    ucxx_request_t *request = NULL;
    ucxx_recv_info_t info;
    ucxx_worker_t *worker = draw(random, 2) == 0 ? lane->pair->left : lane->pair->right;
    switch (draw(random, 6)) {
    case 0:
      CHECK_OK(ucxx_worker_run_pre(worker, count_run, &runs, FOR_EVER));
      CHECK_EQ(atomic_load(&runs), 1);
      break;
    case 1:
      CHECK_OK(ucxx_worker_run_post(worker, count_run, &runs, FOR_EVER));
      CHECK_EQ(atomic_load(&runs), 1);
      break;
    case 2:
      CHECK_STATUS(ucxx_tag_probe(worker, lane->tag, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
      break;
    case 3: CHECK_OK(finish(ucxx_worker_flush(worker, NULL, &request), &request)); break;
    default: {
      ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
      int times_out = draw(random, 2) == 0;
      op.timeout_ns = times_out ? MILLISECOND : 0;
      ucxx_status_t status;
      while ((status = ucxx_tag_recv(worker, &word, 8, lane->tag, UINT64_MAX, &op, &request)) ==
             UCXX_ERR_NO_RESOURCE)
        sched_yield();
      CHECK_STATUS(status, UCXX_INPROGRESS);
      pause_randomly(random);
      if (!times_out) CHECK_OK(ucxx_request_cancel(request));
      CHECK_STATUS(finish(status, &request), times_out ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
      break;
    }
    }
    pause_randomly(random);
  }
  return NULL;
}

/* Changes one of the workers. At the end both have a thread, so that everything completes; until
 * then some thread progresses part of the time. */
static void change(const threaded_t *pair, uint64_t random, uint64_t changes) {
  int running[2] = {1, 1};
  for (uint64_t time = 0; time < changes || !running[0] || !running[1]; time++) {
    int which = time < changes ? (int)draw(&random, 2) : running[0];
    ucxx_worker_t *worker = which == 0 ? pair->left : pair->right;
    if (running[which])
      CHECK_OK(ucxx_worker_stop_progress_thread(worker));
    else
      CHECK_OK(ucxx_worker_start_progress_thread(worker, modes[draw(&random, 3)]));
    running[which] = !running[which];
    for (uint64_t turn = draw(&random, 4) == 0 ? 0 : draw(&random, 200); turn > 0; turn--) {
      if (!running[0]) progress(pair->left);
      if (!running[1]) progress(pair->right);
      pause_randomly(&random);
    }
    /* Restarts the guard's clock. A hang reaches no further step. */
    if (time % 16 == 0)
      STEP("change %llu of %llu", (unsigned long long)time, (unsigned long long)changes);
  }
}

static void one_setting(uint64_t seed, uint64_t changes, int32_t delayed) {
  uint64_t random = seed;
  STEP("delayed %d, seed 0x%llx", delayed, (unsigned long long)seed);
  ucxx_worker_params_t params = thread_params(modes[draw(&random, 3)]);
  params.spin_ns = 1 + draw(&random, 20000);
  params.delayed_submission = delayed;
  params.submission_queue_depth = (uint32_t)(2 + draw(&random, 30));
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(pair.context, &notifier));
  atomic_int over = 0;
  static lane_t lanes[SUBMITTERS + 1];
  pthread_t threads[SUBMITTERS + 1], consumers[CONSUMERS];
  for (int at = 0; at < CONSUMERS; at++) consumers[at] = start(poll_notifier, notifier);
  for (int at = 0; at <= SUBMITTERS; at++) {
    lanes[at] = (lane_t){.pair = &pair, .tag = 0x100 + (uint64_t)at, .over = &over};
    lanes[at].out = test_alloc(WINDOW * LARGE);
    lanes[at].in = test_alloc(WINDOW * LARGE);
    memset(lanes[at].out, 0, WINDOW * LARGE);
    reporter_begin(&lanes[at].reporter, notifier, test_mix(seed + (uint64_t)at));
    threads[at] = start(at < SUBMITTERS ? submit : ask, &lanes[at]);
  }
  change(&pair, random, changes);
  atomic_store(&over, 1);
  uint64_t messages = 0;
  for (int at = 0; at <= SUBMITTERS; at++) {
    join(threads[at]);
    reporter_end(&lanes[at].reporter);
    messages += lanes[at].number;
    free(lanes[at].out);
    free(lanes[at].in);
  }
  CHECK_OK(ucxx_notifier_stop(notifier));
  for (int at = 0; at < CONSUMERS; at++) join(consumers[at]);
  ucxx_notifier_destroy(notifier);
  printf("delayed %d: %llu changes, %llu messages\n", delayed, (unsigned long long)changes,
         (unsigned long long)messages);
  CHECK(messages > 0);
  close_workers(&pair);
}

int main(int argc, char **argv) {
  test_begin("progress_thread_restart");
  uint64_t changes = argc > 1 ? strtoull(argv[1], NULL, 10) : test_rounds(200), seed = test_seed();
  one_setting(test_mix(seed), changes, 1);
  one_setting(test_mix(seed + 1), changes, -1);
  return 0;
}
