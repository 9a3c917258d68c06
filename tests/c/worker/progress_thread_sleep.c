/*
 * Threads with random pauses submit operations to progress threads that fall asleep in between.
 * Every operation completes; if a thread slept through one, it would hang, and the guard reports
 * it.
 *
 *   progress_thread_sleep [OPERATIONS]
 */
#include "progress_thread_random.h"

enum { SUBMITTERS = 3, PER_ROUND = 4000, CONSUMERS = 2 };

typedef struct lane {
  const threaded_t *pair;
  reporter_t reporter;
  uint64_t tag, operations;
} lane_t;

/* A message from left to right; both completions are reported in random ways. */
static void exchange(lane_t *lane) {
  reporter_t *reporter = &lane->reporter;
  enum report sent = (enum report)draw(&reporter->random, REPORTS),
              received = (enum report)draw(&reporter->random, REPORTS);
  uint64_t out = test_mix(reporter->random), in = 0;
  int send_first = draw(&reporter->random, 2) == 0;
  ucxx_request_t *send = NULL, *receive = NULL;
  for (int turn = 0; turn < 2; turn++) {
    if ((turn == 0) == send_first)
      send = submit_one(reporter, sent, NULL, lane->pair->to_right, &out, sizeof out, lane->tag);
    else
      receive = submit_one(reporter, received, lane->pair->right, NULL, &in, sizeof in, lane->tag);
    pause_randomly(&reporter->random);
  }
  finish_one(reporter, sent, send);
  finish_one(reporter, received, receive);
  CHECK_EQ(in, out);
  lane->operations += 2;
}

static void cancel(lane_t *lane) {
  uint64_t word;
  ucxx_request_t *receive =
      submit_one(&lane->reporter, BY_MYSELF, lane->pair->right, NULL, &word, 8, ~lane->tag);
  pause_randomly(&lane->reporter.random);
  CHECK_OK(ucxx_request_cancel(receive));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_CANCELED);
  lane->operations++;
}

/* Calls that use the thread's list of functions. */
static void ask(lane_t *lane) {
  atomic_int runs = 0;
  ucxx_request_t *flush = NULL;
  ucxx_recv_info_t info;
  switch (draw(&lane->reporter.random, 4)) {
  case 0:
    CHECK_OK(ucxx_worker_run_pre(lane->pair->left, count_run, &runs, FOR_EVER));
    CHECK_EQ(atomic_load(&runs), 1);
    break;
  case 1:
    CHECK_OK(ucxx_worker_run_post(lane->pair->right, count_run, &runs, FOR_EVER));
    CHECK_EQ(atomic_load(&runs), 1);
    break;
  case 2:
    CHECK_STATUS(ucxx_tag_probe(lane->pair->right, ~lane->tag, UINT64_MAX, &info, NULL),
                 UCXX_ERR_NO_MESSAGE);
    break;
  default: CHECK_OK(finish(ucxx_worker_flush(lane->pair->left, NULL, &flush), &flush)); break;
  }
  lane->operations++;
}

static void *submit(void *arg) {
  lane_t *lane = arg;
  while (lane->operations < PER_ROUND / SUBMITTERS) {
    switch (draw(&lane->reporter.random, 16)) {
    case 0: cancel(lane); break;
    case 1: ask(lane); break;
    default: exchange(lane); break;
    }
    pause_randomly(&lane->reporter.random);
  }
  return NULL;
}

static uint64_t sleeps_of(ucxx_worker_t *worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  CHECK_EQ(stats.in_flight, 0);
  return stats.sleeps;
}

static uint64_t one_round(uint64_t seed, uint64_t *sleeps) {
  static const int32_t sleepers[] = {UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_PROGRESS_THREAD_BLOCKING};
  uint64_t random = seed;
  int left = (int)draw(&random, 2), right = (int)draw(&random, 2);
  STEP("round 0x%llx: modes %d and %d", (unsigned long long)seed, sleepers[left], sleepers[right]);
  threaded_t pair = {0};
  ucxx_worker_params_t params = thread_params(sleepers[left]);
  /* An adaptive thread hardly spins here, so that it falls asleep as often as a blocking one. */
  params.spin_ns = 1;
  params.submission_queue_depth = (uint32_t)(2 + draw(&random, 30));
  CHECK_OK(ucxx_context_create(NULL, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.left));
  params.progress_mode = sleepers[right];
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.right));
  pair.to_right = connect_workers(pair.left, pair.right);
  transfer(&pair, 8, 1);

  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(pair.context, &notifier));
  pthread_t threads[SUBMITTERS], consumers[CONSUMERS];
  static lane_t lanes[SUBMITTERS];
  for (int at = 0; at < CONSUMERS; at++) consumers[at] = start(poll_notifier, notifier);
  for (int at = 0; at < SUBMITTERS; at++) {
    lanes[at] = (lane_t){.pair = &pair, .tag = 0x100 + (uint64_t)at};
    reporter_begin(&lanes[at].reporter, notifier, test_mix(seed + (uint64_t)at));
    threads[at] = start(submit, &lanes[at]);
  }
  uint64_t operations = 0;
  for (int at = 0; at < SUBMITTERS; at++) {
    join(threads[at]);
    reporter_end(&lanes[at].reporter);
    operations += lanes[at].operations;
  }
  CHECK_OK(ucxx_notifier_stop(notifier));
  for (int at = 0; at < CONSUMERS; at++) join(consumers[at]);
  ucxx_notifier_destroy(notifier);
  *sleeps += sleeps_of(pair.left) + sleeps_of(pair.right);
  close_workers(&pair);
  return operations;
}

int main(int argc, char **argv) {
  test_begin("progress_thread_sleep");
  uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : test_rounds(100000),
           seed = test_seed(), operations = 0, sleeps = 0;
  CHECK(wanted > 0);
  for (uint64_t round = 0; operations < wanted; round++)
    operations += one_round(test_mix(seed + round), &sleeps);
  printf("%llu operations, %llu sleeps\n", (unsigned long long)operations,
         (unsigned long long)sleeps);
  /* Without sleeps the test would prove nothing. */
  CHECK(sleeps > operations / 20);
  return 0;
}
