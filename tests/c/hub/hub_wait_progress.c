/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A thread that waits for a hub whose worker has manual progress makes that progress itself, and is
 * woken by other threads' calls on the hub. */
#include "hub_stream.h"

#include <pthread.h>

enum { SIZE = 40000, ENVELOPES = 4, WINDOW = 2, CHUNKS = 60, TURNS = 300, CHANGES = 30, TAG = 77 };

typedef enum way { BY_LEASE, BY_MANY, BY_MANY_ELSEWHERE, BY_PEEK, WAYS } way_t;

static pair_t *both;

static end_t open_end(void) { return end_open(both->context, both->worker, SIZE, ENVELOPES); }

static ucxx_envelope_t *lease_soon(ucxx_link_t *link) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(link, FOR_EVER, &envelope));
  return envelope;
}

/* Waits for the next chunk together with an envelope of another hub, with or without a worker. */
static ucxx_status_t lease_with(ucxx_link_t *link, ucxx_link_t *other, ucxx_envelope_t **envelope) {
  ucxx_link_t *links[] = {link, other};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  ucxx_status_t status = ucxx_link_lease_many(links, 2, FOR_EVER, envelopes);
  if (status == UCXX_OK) CHECK_OK(ucxx_envelope_abort(envelopes[1], NULL));
  *envelope = envelopes[0];
  return status;
}

static ucxx_status_t next_chunk(const end_t *end, const end_t *other, way_t way, uint64_t number) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  if (way == BY_PEEK) {
    if ((status = ucxx_hub_peek(end->hub, on_host, FOR_EVER, &envelope)) != UCXX_OK) return status;
    CHECK_EQ(read_chunk(envelope, both->seed, SIZE), number);
    CHECK_OK(ucxx_envelope_release(envelope, NULL));
  }
  status = way == BY_LEASE || way == BY_PEEK ? ucxx_link_lease(end->out, FOR_EVER, &envelope)
                                             : lease_with(end->out, other->in, &envelope);
  if (status != UCXX_OK) return status;
  CHECK_EQ(read_chunk(envelope, both->seed, SIZE), number);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  return UCXX_OK;
}

/* All progress is made by waiting calls. */
static void stream(way_t way) {
  static const char *const names[WAYS] = {"a lease", "several", "several, of a hub without worker",
                                          "a peek"};
  STEP("a stream, by waiting alone: for %s", names[way]);
  end_t end = open_end(),
        other = end_open(both->context, way == BY_MANY ? both->worker : NULL, SIZE, 1);
  CHECK_OK(ucxx_link_connect(both->side == 0 ? end.out : end.in, both->endpoint, way, WINDOW));
  if (both->side == 0) {
    for (uint64_t number = 0; number < CHUNKS; number++)
      fill_chunk(lease_soon(end.in), both->seed, number);
    CHECK_OK(ucxx_hub_close(end.hub));
    CHECK_OK(ucxx_hub_drain(end.hub, FOR_EVER));
  } else {
    for (uint64_t number = 0; number < CHUNKS; number++)
      CHECK_OK(next_chunk(&end, &other, way, number));
    CHECK_STATUS(next_chunk(&end, &other, way, CHUNKS), UCXX_ERR_CLOSED);
  }
  end_close(&other);
  end_close(&end);
  pair_sync(both);
}

static void message(void) {
  STEP("a message arrives during a wait for a chunk");
  end_t end = open_end();
  ucxx_request_t *request = NULL;
  if (both->side == 0) {
    fill_chunk(lease_soon(end.in), both->seed, 3);
    ucxx_status_t status = ucxx_link_send(end.out, both->endpoint, TAG, NULL, &request);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    CHECK_OK(ucxx_hub_drain(end.hub, FOR_EVER));
    CHECK_OK(finish(status, &request));
  } else {
    ucxx_status_t status = ucxx_link_recv(end.in, TAG, UINT64_MAX, NULL, &request);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    ucxx_envelope_t *envelope = lease_soon(end.out);
    size_t length = chunk_length(both->seed, 3, SIZE);
    CHECK_EQ(look_at(envelope).length, length);
    CHECK_CONTENT(look_at(envelope).data, length, both->seed ^ 3);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    CHECK_OK(finish(status, &request));
  }
  end_close(&end);
  pair_sync(both);
}

static void timeouts(void) {
  STEP("the timeout expires");
  enum { SHORT = 1000000 };
  end_t end = open_end();
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  ucxx_link_t *links[] = {end.out, end.in};
  CHECK_STATUS(ucxx_link_lease(end.out, SHORT, envelopes), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_link_lease_many(links, 2, SHORT, envelopes), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_hub_peek(end.hub, on_host, SHORT, envelopes), UCXX_ERR_TIMED_OUT);
  fill_chunk(lease_soon(end.in), both->seed, 0);
  CHECK_STATUS(ucxx_hub_drain(end.hub, SHORT), UCXX_ERR_TIMED_OUT);
  CHECK(envelopes[0] == NULL && envelopes[1] == NULL);
  end_close(&end);
  pair_sync(both);
}

/* Two threads that wake each other through two hubs. */
typedef struct game {
  end_t there, back;
} game_t;

static void *answer(void *arg) {
  game_t *game = arg;
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    ucxx_envelope_t *envelope = lease_soon(game->there.out);
    CHECK_EQ(*word_of(envelope), turn);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    put_word(lease_soon(game->back.in), turn);
  }
  return NULL;
}

static void two_threads(void) {
  STEP("another thread's calls on the hub wake the waiting thread");
  game_t game = {open_end(), open_end()};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, answer, &game) == 0);
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    ucxx_envelope_t *envelope = NULL;
    put_word(lease_soon(game.there.in), turn);
    switch (turn % 3) {
    case 0: envelope = lease_soon(game.back.out); break;
    case 1: CHECK_OK(lease_with(game.back.out, game.there.in, &envelope)); break;
    default:
      CHECK_OK(ucxx_hub_drain(game.there.hub, FOR_EVER));
      CHECK_OK(ucxx_hub_peek(game.back.hub, on_host, FOR_EVER, &envelope));
      CHECK_OK(ucxx_envelope_release(envelope, NULL));
      envelope = lease_now(game.back.out);
    }
    CHECK_EQ(*word_of(envelope), turn);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  pthread_join(thread, NULL);
  end_close(&game.there);
  end_close(&game.back);
  pair_sync(both);
}

/* The progress thread starts and stops while others wait; what they wait for is sent after it has
 * stopped. */
typedef struct reader {
  end_t *end, *other;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t had;
} reader_t;

static void *read_all(void *arg) {
  reader_t *reader = arg;
  ucxx_status_t status;
  uint64_t number = 0;
  while ((status = next_chunk(reader->end, reader->other, number % 2 ? BY_MANY : BY_LEASE,
                              number)) == UCXX_OK) {
    pthread_mutex_lock(&reader->lock);
    reader->had = ++number;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  CHECK_EQ(number, CHANGES);
  return NULL;
}

static void changes(void) {
  STEP("a progress thread that starts and stops");
  end_t end = open_end(), other = open_end();
  CHECK_OK(ucxx_link_connect(both->side == 0 ? end.out : end.in, both->endpoint, 9, WINDOW));
  if (both->side == 0) {
    for (uint64_t number = 0; number < CHANGES; number++) {
      pair_await(both);
      fill_chunk(lease_soon(end.in), both->seed, number);
      CHECK_OK(ucxx_hub_drain(end.hub, FOR_EVER));
    }
    CHECK_OK(ucxx_hub_close(end.hub));
    CHECK_OK(ucxx_hub_drain(end.hub, FOR_EVER));
  } else {
    reader_t reader = {&end, &other, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_all, &reader) == 0);
    for (uint64_t change = 1; change <= CHANGES; change++) {
      CHECK_OK(ucxx_worker_start_progress_thread(both->worker, UCXX_PROGRESS_THREAD_ADAPTIVE));
      if (change % 3) sched_yield();
      CHECK_OK(ucxx_worker_stop_progress_thread(both->worker));
      pair_tell(both);
      pthread_mutex_lock(&reader.lock);
      while (reader.had < change) pthread_cond_wait(&reader.changed, &reader.lock);
      pthread_mutex_unlock(&reader.lock);
    }
    pthread_join(thread, NULL);
  }
  end_close(&other);
  end_close(&end);
  pair_sync(both);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s", mode);
  int is_changed =
      params->thread_mode == UCXX_THREAD_MULTI && params->progress_mode == UCXX_PROGRESS_MANUAL;
  pair_connect(both, NULL, params, NULL);
  for (way_t way = BY_LEASE; way < WAYS; way++) stream(way);
  message();
  timeouts();
  two_threads();
  if (is_changed) changes();
  pair_disconnect(both);
}

static void body(pair_t *pair) {
  both = pair;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "hub_wait_progress", body); }
