/* Thread modes: MULTI works with many threads, SERIALIZED with one after another, SINGLE refuses
 * other threads; and one worker for each thread. */
#include "test_util.h"

#include <pthread.h>

static void *start_and_join(void *(*run)(void *), void *arg) {
  pthread_t thread;
  void *result = NULL;
  CHECK_EQ(pthread_create(&thread, NULL, run, arg), 0);
  CHECK_EQ(pthread_join(thread, &result), 0);
  return result;
}

/* ------------------------------------------------------------------ four threads on one worker, in
 * each process */

enum { THREADS = 4, ROUNDS = 500 };

typedef struct lane {
  const pair_t *pair;
  uint64_t number;
} lane_t;

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
    ucxx_status_t received =
        ucxx_tag_recv(lane->pair->worker, in, length, lane->number, UINT64_MAX, NULL, &receive);
    ucxx_status_t sent =
        ucxx_tag_send(lane->pair->endpoint, out, length, lane->number, NULL, &send);
    CHECK_OK(finish(sent, &send));
    CHECK_OK(finish(received, &receive));
    CHECK_CONTENT(in, length, key + (uint64_t)!lane->pair->side);
  }
  free(out);
  free(in);
  return NULL;
}

static void many_threads(const pair_t *pair) {
  STEP("%d threads on one worker", THREADS);
  pthread_t threads[THREADS];
  lane_t lanes[THREADS];
  for (uint64_t at = 0; at < THREADS; at++) {
    lanes[at].pair = pair;
    lanes[at].number = 0x100 + at;
    CHECK_EQ(pthread_create(&threads[at], NULL, exchange, &lanes[at]), 0);
  }
  for (int at = 0; at < THREADS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  pair_sync(pair);
}

/* ------------------------------------------------------------------ two workers of one context, a
 * thread each */

typedef struct player {
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  int first;
} player_t;

static void *ping_pong(void *arg) {
  const player_t *player = arg;
  enum { TURNS = 4000 };
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    uint64_t out = turn * 2 + (uint64_t)player->first, in = 0;
    ucxx_request_t *send = NULL, *receive = NULL;
    if (player->first)
      CHECK_OK(finish(ucxx_tag_send(player->endpoint, &out, sizeof out, 1, NULL, &send), &send));
    CHECK_OK(finish(ucxx_tag_recv(player->worker, &in, sizeof in, 1, UINT64_MAX, NULL, &receive),
                    &receive));
    CHECK_EQ(in, turn * 2 + (uint64_t)!player->first);
    if (!player->first)
      CHECK_OK(finish(ucxx_tag_send(player->endpoint, &out, sizeof out, 1, NULL, &send), &send));
  }
  return NULL;
}

static void worker_for_each_thread(void) {
  STEP("two workers of one context on two threads");
  duo_t duo;
  duo_open(&duo, NULL);
  player_t players[2] = {{duo.left, duo.to_right, 1}, {duo.right, duo.to_left, 0}};
  pthread_t threads[2];
  for (int at = 0; at < 2; at++)
    CHECK_EQ(pthread_create(&threads[at], NULL, ping_pong, &players[at]), 0);
  for (int at = 0; at < 2; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ waiting on a thread that did
 * not post */

static void *wait_for(void *arg) {
  CHECK_OK(ucxx_request_wait(arg, FOR_EVER));
  return NULL;
}

static void waiting_elsewhere(void) {
  STEP("other threads wait for a request");
  enum { WAITERS = 3, TIMES = 50 };
  duo_t duo;
  duo_open(&duo, NULL);
  for (int time = 0; time < TIMES; time++) {
    uint64_t word = 0;
    ucxx_request_t *request = NULL;
    pthread_t threads[WAITERS];
    CHECK_STATUS(ucxx_tag_recv(duo.right, &word, sizeof word, 2, UINT64_MAX, NULL, &request),
                 UCXX_INPROGRESS);
    for (int at = 0; at < WAITERS; at++)
      CHECK_EQ(pthread_create(&threads[at], NULL, wait_for, request), 0);
    CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, 2, NULL, NULL));
    /* Every other time this thread makes progress as well. */
    while (time % 2 == 0 && ucxx_request_status(request) == UCXX_INPROGRESS) progress(duo.right);
    for (int at = 0; at < WAITERS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
    CHECK(memcmp(&word, "message", 8) == 0);
    ucxx_request_destroy(request);
  }
  duo_close(&duo);
}

/* ------------------------------------------------------------------ callbacks run outside the lock
 */

static void *send_from_here(void *arg) {
  const duo_t *duo = arg;
  CHECK_OK(ucxx_tag_send(duo->to_left, "message", 8, 3, NULL, NULL));
  return NULL;
}

static void join_inside(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  start_and_join(send_from_here, arg);
}

static void callbacks_outside_the_lock(void) {
  STEP("a callback that joins a thread which uses the same worker");
  duo_t duo;
  duo_open(&duo, NULL);
  uint64_t word = 0, answer = 0;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = join_inside;
  params.callback_arg = &duo;
  ucxx_request_t *request = NULL, *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(duo.right, &word, sizeof word, 2, UINT64_MAX, &params, &request),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, 2, NULL, NULL));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &request));
  ucxx_status_t status =
      ucxx_tag_recv(duo.left, &answer, sizeof answer, 3, UINT64_MAX, NULL, &receive);
  CHECK_OK(duo_finish(&duo, status, &receive));
  duo_close(&duo);
}

/* ------------------------------------------------------------------ SINGLE and SERIALIZED */

typedef struct solo {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
} solo_t;

static void solo_open(solo_t *solo, int32_t thread_mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = thread_mode;
  CHECK_OK(ucxx_context_create(NULL, &solo->context));
  CHECK_OK(ucxx_worker_create(solo->context, &params, &solo->worker));
  solo->endpoint = connect_workers(solo->worker, solo->worker);
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(solo->worker, &attr));
  CHECK_EQ(attr.thread_mode, thread_mode);
}

static void solo_close(solo_t *solo) {
  ucxx_endpoint_destroy(solo->endpoint);
  ucxx_worker_destroy(solo->worker);
  ucxx_context_destroy(solo->context);
}

static void *solo_transfer(void *arg) {
  const solo_t *solo = arg;
  uint64_t word = 0;
  ucxx_request_t *receive = NULL, *send = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(solo->worker, &word, sizeof word, 6, UINT64_MAX, NULL, &receive);
  CHECK(received == UCXX_OK || received == UCXX_INPROGRESS);
  CHECK_OK(finish(ucxx_tag_send(solo->endpoint, "message", 8, 6, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
  CHECK(memcmp(&word, "message", 8) == 0);
  return NULL;
}

static void *refused_here(void *arg) {
  const solo_t *solo = arg;
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_worker_progress(solo->worker, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_tag_send(solo->endpoint, "message", 8, 6, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_tag_recv(solo->worker, &word, sizeof word, 6, UINT64_MAX, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_tag_probe(solo->worker, 6, UINT64_MAX, &info, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_worker_flush(solo->worker, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_endpoint_flush(solo->endpoint, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("thread");
  CHECK(request == NULL);
  return NULL;
}

static void single(void) {
  STEP("SINGLE: calls of another thread are refused");
  solo_t solo;
  solo_open(&solo, UCXX_THREAD_SINGLE);
  for (int time = 0; time < 3; time++) {
    solo_transfer(&solo);
    start_and_join(refused_here, &solo);
  }
  solo_transfer(&solo);
  solo_close(&solo);
}

static void serialized(void) {
  STEP("SERIALIZED: one thread after another");
  solo_t solo;
  solo_open(&solo, UCXX_THREAD_SERIALIZED);
  for (int time = 0; time < 20; time++) {
    solo_transfer(&solo);
    start_and_join(solo_transfer, &solo);
  }
  solo_close(&solo);
}

/* Another thread calls while this one is inside: it is refused or served, and nothing is
 * damaged. */
static void *intrude(void *arg) {
  const solo_t *solo = arg;
  ucxx_status_t status = ucxx_worker_progress(solo->worker, NULL);
  CHECK(status == UCXX_OK || status == UCXX_ERR_BUSY);
  return NULL;
}

static void intrude_from_inside(void *arg) { start_and_join(intrude, arg); }

static void serialized_intruder(void) {
  STEP("SERIALIZED: a second thread while the first is inside");
  solo_t solo;
  solo_open(&solo, UCXX_THREAD_SERIALIZED);
  CHECK_OK(ucxx_worker_run_pre(solo.worker, intrude_from_inside, &solo, FOR_EVER));
  solo_transfer(&solo);
  solo_close(&solo);
}

static void *create_close(void *arg) {
  for (int time = 0; time < 20; time++) {
    ucxx_worker_t *worker = NULL;
    CHECK_OK(ucxx_worker_create(arg, NULL, &worker));
    ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
    CHECK(ucxx_tag_send(endpoint, "message", 8, 1, NULL, NULL) >= 0);
    ucxx_endpoint_destroy(endpoint);
    ucxx_worker_destroy(worker);
  }
  return NULL;
}

static void workers_come_and_go(void) {
  STEP("threads that create and destroy workers of one context");
  ucxx_context_t *context = NULL;
  pthread_t threads[THREADS];
  CHECK_OK(ucxx_context_create(NULL, &context));
  for (int at = 0; at < THREADS; at++)
    CHECK_EQ(pthread_create(&threads[at], NULL, create_close, context), 0);
  for (int at = 0; at < THREADS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  ucxx_context_destroy(context);
}

static void body(pair_t *pair) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_MULTI;
  pair_connect(pair, NULL, &params, NULL);
  many_threads(pair);
  pair_disconnect(pair);
  if (pair->side == 1) return;
  worker_for_each_thread();
  waiting_elsewhere();
  callbacks_outside_the_lock();
  single();
  serialized();
  serialized_intruder();
  workers_come_and_go();
}

int main(int argc, char **argv) { return pair_main(argc, argv, "threads", body); }
