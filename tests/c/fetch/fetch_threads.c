/*
 * Fetches answered by two threads. If both answer at once, exactly one reply counts, and the
 * fetching side gets all of it. If one answers and the other destroys the fetch right after that
 * call, the reply completes.
 */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
  ID = 5,
  BATCH = 64,
  BATCHES = 8,
  LONG = 300000,
  SHORT = 5000,
  FILLER = 0x77,
  REFUSED = -1003,
  NARROW = 2
};

/* ------------------------------------------------------------------ replies, chosen by each
 * thread */

typedef enum way { REPLY, REPLY_IOV, REPLY_TOO_LONG, REJECT, WAYS } way_t;

typedef struct answer {
  way_t way;
  size_t length;
  uint64_t flags;
  const uint8_t *data;
  ucxx_status_t status; /* what the call returned */
  seen_t sent;
} answer_t;

/* A fetch: sent by the main thread, kept by the handler, answered by the threads. */
typedef struct place {
  uint8_t buffer[LONG];
  size_t capacity;
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  seen_t seen;
  int cancelled;
  _Atomic(ucxx_fetch_t *) fetch;
  atomic_uint here, through;
  answer_t answers[2];
} place_t;

static uint64_t seed;
static place_t places[BATCH];
static uint8_t contents[2][LONG + 4096];
static atomic_uint batch_begun;
static atomic_int both_answer;

static answer_t draw(uint64_t number, int thread, size_t capacity) {
  static const uint64_t protocols[] = {0, 0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  static const size_t lengths[] = {0, 1, 8, 100, SHORT};
  uint64_t random = test_mix(seed + 2 * number + (uint64_t)thread);
  answer_t answer = {.way = (way_t)(random % WAYS),
                     .length = lengths[random / 8 % 5],
                     .flags = protocols[random / 64 % 4]};
  if (random / 256 % 8 == 0) answer.length = LONG;
  if (answer.way == REPLY_TOO_LONG)
    answer.length = capacity + 1;
  else if (answer.length > capacity)
    answer.length = capacity;
  answer.data = contents[thread] + random / 2048 % 4096;
  return answer;
}

static ucxx_status_t give(ucxx_fetch_t *fetch, answer_t *answer) {
  if (answer->way == REJECT) return ucxx_fetch_reject(fetch, REFUSED);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = answer->flags | UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &answer->sent;
  if (answer->way != REPLY_IOV)
    return ucxx_fetch_reply(fetch, answer->data, answer->length, &params, NULL);
  size_t half = answer->length / 2;
  ucxx_buffer_t parts[2] = {
      {.data = (void *)(uintptr_t)answer->data, .length = half},
      {.data = (void *)(uintptr_t)(answer->data + half), .length = answer->length - half}};
  return ucxx_fetch_reply_iov(fetch, parts, 2, &params, NULL);
}

/* ------------------------------------------------------------------ the two threads */

static void meet(atomic_uint *here) {
  unsigned looks = 0;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < 2)
    if (++looks % 256 == 0) sched_yield();
}

static void answer_both(place_t *place, int thread) {
  answer_t *own = &place->answers[thread];
  ucxx_fetch_t *fetch = atomic_load(&place->fetch);
  meet(&place->here);
  own->status = give(fetch, own);
  /* Once a fetch is answered, nobody can answer it again. */
  CHECK_STATUS(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY), UCXX_ERR_ALREADY_EXISTS);
  /* The last thread to finish with it destroys it: in half of the rounds the one that was too
   * late. */
  if (atomic_fetch_add(&place->through, 1) == 1) ucxx_fetch_destroy(fetch);
}

static int is_left_unanswered(unsigned at) { return at % 5 == 3; }

/* The first thread answers and passes the fetch to the second, which destroys it while the first
 * works on the next fetch. */
static void answer_and_destroy(place_t *place, unsigned at, int thread) {
  ucxx_fetch_t *fetch = atomic_load(&place->fetch);
  if (thread == 0) {
    if (!is_left_unanswered(at)) place->answers[0].status = give(fetch, &place->answers[0]);
    atomic_store(&place->here, 1);
    return;
  }
  unsigned looks = 0;
  while (atomic_load(&place->here) == 0)
    if (++looks % 256 == 0) sched_yield();
  ucxx_fetch_destroy(fetch);
  atomic_store(&place->through, 2);
}

static void *answer_batches(void *arg) {
  int thread = *(const int *)arg;
  for (unsigned batch = 1; batch <= 2 * BATCHES; batch++) {
    for (unsigned at = 0; at < BATCH; at++) {
      place_t *place = &places[at];
      while (atomic_load(&batch_begun) < batch || atomic_load(&place->fetch) == NULL) sched_yield();
      if (atomic_load(&both_answer))
        answer_both(place, thread);
      else
        answer_and_destroy(place, at, thread);
    }
    /* The next batch reuses these slots, and begins when all of them are done. */
    while (atomic_load(&batch_begun) == batch) sched_yield();
  }
  return NULL;
}

/* ------------------------------------------------------------------ the fetching side, which
 * progresses */

typedef struct question {
  uint32_t at, capacity;
} question_t;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  question_t question;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK(arg == NULL);
  CHECK_EQ(length, sizeof question);
  memcpy(&question, header, sizeof question);
  CHECK(question.at < BATCH);
  CHECK_EQ(ucxx_fetch_capacity(fetch), question.capacity);
  atomic_store(&places[question.at].fetch, fetch);
}

static void ask(ucxx_endpoint_t *to, uint64_t number, uint32_t at) {
  place_t *place = &places[at];
  place->capacity = test_mix(seed * 5 + number) % 8 == 0 ? LONG : SHORT;
  memset(place->buffer, FILLER, place->capacity);
  memset(&place->seen, 0, sizeof place->seen);
  memset(&place->info, 0, sizeof place->info);
  place->cancelled = 0;
  place->request = NULL;
  atomic_store(&place->fetch, NULL);
  atomic_store(&place->here, 0);
  atomic_store(&place->through, 0);
  for (int thread = 0; thread < 2; thread++)
    place->answers[thread] = draw(number, thread, place->capacity);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &place->seen;
  params.recv_info = &place->info;
  params.memory_type = UCXX_MEMORY_HOST;
  question_t question = {at, (uint32_t)place->capacity};
  CHECK_STATUS(ucxx_am_fetch(to, ID, &question, sizeof question, place->buffer, place->capacity,
                             &params, &place->request),
               UCXX_INPROGRESS);
}

/* Checks that exactly this reply arrived, complete. */
static void check_answer(place_t *place, const answer_t *answer) {
  ucxx_status_t expected = answer->way == REJECT           ? REFUSED
                           : answer->way == REPLY_TOO_LONG ? UCXX_ERR_MESSAGE_TRUNCATED
                                                           : UCXX_OK;
  CHECK_STATUS(ucxx_request_status(place->request), expected);
  CHECK_EQ(place->info.length, answer->way == REJECT ? 0 : answer->length);
  size_t filled = expected == UCXX_OK ? answer->length : 0;
  CHECK(memcmp(place->buffer, answer->data, filled) == 0);
  for (size_t at = filled; at < place->capacity; at++) CHECK(place->buffer[at] == FILLER);
}

static void check_cancelled(const place_t *place) {
  CHECK_STATUS(ucxx_request_status(place->request), UCXX_ERR_CANCELED);
  for (size_t at = 0; at < place->capacity; at++) CHECK(place->buffer[at] == FILLER);
}

/* The index of the one reply that counts. */
static int winner(const place_t *place) {
  const answer_t *answers = place->answers;
  int first = answers[0].status >= 0;
  CHECK(first != (answers[1].status >= 0));
  CHECK_STATUS(answers[first ? 1 : 0].status, UCXX_ERR_ALREADY_EXISTS);
  return first ? 0 : 1;
}

static void check_place(place_t *place, unsigned at, int both) {
  CHECK_EQ(seen_count(&place->seen), 1);
  if (!both && is_left_unanswered(at)) {
    check_cancelled(place);
  } else {
    int which = both ? winner(place) : 0;
    CHECK(place->answers[which].status >= 0);
    if (ucxx_request_status(place->request) == UCXX_ERR_CANCELED) {
      CHECK(place->cancelled);
      check_cancelled(place);
    } else {
      check_answer(place, &place->answers[which]);
    }
    CHECK_EQ(seen_count(&place->answers[which].sent), place->answers[which].way != REJECT);
    CHECK_OK(place->answers[which].sent.status);
    CHECK_EQ(seen_count(&place->answers[1 - which].sent), 0);
  }
  ucxx_request_destroy(place->request);
}

/* Both threads are done with it, the fetch has completed, and so has the reply. */
static int is_complete(const place_t *place, unsigned at, int both) {
  if (atomic_load(&place->through) < 2 || ucxx_request_status(place->request) == UCXX_INPROGRESS)
    return 0;
  if (!both && is_left_unanswered(at)) return 1;
  const answer_t *answer = &place->answers[both && place->answers[0].status < 0 ? 1 : 0];
  return answer->way == REJECT || seen_count(&answer->sent) > 0;
}

static void run_batch(const duo_t *duo, unsigned batch, int both) {
  atomic_store(&both_answer, both);
  for (uint32_t at = 0; at < BATCH; at++) ask(duo->to_right, (uint64_t)batch * BATCH + at, at);
  atomic_store(&batch_begun, batch);
  for (unsigned at = 0; at < BATCH; at++) {
    place_t *place = &places[at];
    /* Some are cancelled when they may be half answered. */
    if (test_mix(seed * 7 + (uint64_t)batch * BATCH + at) % 4 == 0) {
      while (atomic_load(&place->fetch) == NULL) {
        progress(duo->left);
        progress(duo->right);
      }
      place->cancelled = 1;
      CHECK_OK(ucxx_request_cancel(place->request));
    }
    while (!is_complete(place, at, both)) {
      progress(duo->left);
      progress(duo->right);
    }
    check_place(place, at, both);
  }
}

static void one_mode(const ucxx_worker_params_t *params, const char *mode) {
  if (params->thread_mode != UCXX_THREAD_MULTI) return;
  for (int narrow = 0; narrow < 2; narrow++) {
    duo_t duo = {0};
    pthread_t threads[2];
    static const int numbers[2] = {0, 1};
    ucxx_address_t *address = NULL;
    ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
    /* Replies that must wait for the window are not sent when their call returns. */
    endpoint_params.send_window_ops = narrow ? NARROW : 0;
    STEP("%s, %s window: connecting", mode, narrow ? "a narrow" : "the usual");
    CHECK_OK(ucxx_context_create(NULL, &duo.context));
    CHECK_OK(ucxx_worker_create(duo.context, params, &duo.left));
    CHECK_OK(ucxx_worker_create(duo.context, params, &duo.right));
    duo.to_right = connect_workers(duo.left, duo.right);
    CHECK_OK(ucxx_worker_address(duo.left, &address));
    CHECK_OK(ucxx_endpoint_create(duo.right, address, &endpoint_params, &duo.to_left));
    ucxx_address_destroy(address);
    CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, NULL, NULL));
    atomic_store(&batch_begun, 0);
    for (int thread = 0; thread < 2; thread++)
      CHECK_EQ(pthread_create(&threads[thread], NULL, answer_batches,
                              (void *)(uintptr_t)&numbers[thread]),
               0);
    for (unsigned batch = 1; batch <= 2 * BATCHES; batch++) {
      STEP("%s, %s window: batch %u", mode, narrow ? "a narrow" : "the usual", batch);
      run_batch(&duo, batch, batch % 2);
    }
    atomic_fetch_add(&batch_begun, 1);
    for (int thread = 0; thread < 2; thread++) CHECK_EQ(pthread_join(threads[thread], NULL), 0);
    ucxx_endpoint_destroy(duo.to_right);
    ucxx_endpoint_destroy(duo.to_left);
    ucxx_worker_destroy(duo.left);
    ucxx_worker_destroy(duo.right);
    ucxx_context_destroy(duo.context);
  }
}

int main(void) {
  test_begin("fetch_threads");
  seed = test_seed();
  for (int thread = 0; thread < 2; thread++)
    test_fill(contents[thread], sizeof contents[thread], seed + (uint64_t)thread);
  in_every_mode(one_mode);
  return 0;
}
