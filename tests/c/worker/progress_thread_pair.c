/* Progress threads in two processes: four threads on each side, in each mode; one side manual; one
 * side ends first. All messages arrive. */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 300 };

typedef struct lane {
  const pair_t *pair;
  uint64_t number;
} lane_t;

static ucxx_status_t when_there_is_room(const lane_t *lane, int sends, void *buffer, size_t length,
                                        ucxx_request_t **request) {
  ucxx_status_t status;
  do {
    status = sends
                 ? ucxx_tag_send(lane->pair->endpoint, buffer, length, lane->number, NULL, request)
                 : ucxx_tag_recv(lane->pair->worker, buffer, length, lane->number, UINT64_MAX, NULL,
                                 request);
  } while (status == UCXX_ERR_NO_RESOURCE && sched_yield() == 0);
  return status;
}

static void *exchange(void *arg) {
  static const size_t lengths[] = {8, 100, 5000, 40000};
  const lane_t *lane = arg;
  uint8_t *out = test_alloc(40000), *in = test_alloc(40000);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    size_t length = lengths[round % 4];
    uint64_t key = test_mix(lane->pair->seed + lane->number * ROUNDS + round);
    test_fill(out, length, key + (uint64_t)lane->pair->side);
    memset(in, 0, length);
    ucxx_request_t *send = NULL, *receive = NULL;
    ucxx_status_t received = when_there_is_room(lane, 0, in, length, &receive);
    ucxx_status_t sent = when_there_is_room(lane, 1, out, length, &send);
    CHECK_OK(finish(sent, &send));
    CHECK_OK(finish(received, &receive));
    CHECK_CONTENT(in, length, key + (uint64_t)!lane->pair->side);
  }
  free(out);
  free(in);
  return NULL;
}

static void one_setting(pair_t *pair, int32_t left, int32_t right, int32_t delayed) {
  int32_t mode = pair->side == 0 ? left : right;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  params.delayed_submission = delayed;
  params.submission_queue_depth = 32;
  pair_connect(pair, NULL, &params, NULL);
  STEP("modes %d and %d, delayed %d", left, right, delayed);
  pthread_t threads[THREADS];
  lane_t lanes[THREADS];
  for (uint64_t at = 0; at < THREADS; at++) {
    lanes[at] = (lane_t){pair, 0x100 + at};
    CHECK_EQ(pthread_create(&threads[at], NULL, exchange, &lanes[at]), 0);
  }
  for (int at = 0; at < THREADS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  pair_disconnect(pair);
}

/* One side sleeps until a message arrives, again and again: every message must wake it. */
static void sleeping_receiver(pair_t *pair) {
  enum { TURNS = 2000 };
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = UCXX_PROGRESS_THREAD_BLOCKING;
  pair_connect(pair, NULL, &params, NULL);
  STEP("a turn wakes the other side");
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    uint64_t word = turn;
    ucxx_request_t *request = NULL;
    if (turn % 2 == (uint64_t)pair->side) {
      CHECK_OK(finish(ucxx_tag_send(pair->endpoint, &word, 8, 1, NULL, &request), &request));
    } else {
      word = 0;
      CHECK_OK(
          finish(ucxx_tag_recv(pair->worker, &word, 8, 1, UINT64_MAX, NULL, &request), &request));
      CHECK_EQ(word, turn);
    }
  }
  pair_disconnect(pair);
}

static void body(pair_t *pair) {
  for (int32_t mode = UCXX_PROGRESS_THREAD_ADAPTIVE; mode <= UCXX_PROGRESS_THREAD_BLOCKING; mode++)
    one_setting(pair, mode, mode, 1);
  one_setting(pair, UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_PROGRESS_MANUAL, 1);
  one_setting(pair, UCXX_PROGRESS_THREAD_BLOCKING, UCXX_PROGRESS_THREAD_POLLING, -1);
  sleeping_receiver(pair);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "progress_thread_pair", body); }
