/*
 * Fetches of random sizes, both ways at once, into one buffer, several, or allocated ones, with
 * data attached. They are answered in the handler, later, by another thread, with a status, or
 * destroyed. Each completes once, with the requested result.
 */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { FETCHES = 1200, UNDER_WAY = 64, ID = 9, LONGEST = 2 << 20, APPLICATION = -1007 };

enum answer { NOW, LATER, ELSEWHERE, REJECT, LET_GO, SHORTER, LONGER, ANSWERS };

typedef struct question {
  uint64_t seed, length;
  uint32_t answer, data_length;
} question_t;

typedef struct fetch {
  question_t question;
  uint8_t *buffer, *data;
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  int made;
  size_t room;
} fetch_t;

typedef struct todo {
  ucxx_fetch_t *fetch;
  struct todo *next;
} todo_t;

static pair_t *pair;
static todo_t *later, *elsewhere;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;
static atomic_uint answered;
static int threads;
static int made_now; /* buffers that the allocator has made */

static question_t question_of(const ucxx_fetch_t *fetch) {
  question_t question;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK_EQ(length, sizeof question);
  memcpy(&question, header, sizeof question);
  const void *data = ucxx_fetch_data(fetch, &length);
  CHECK_EQ(length, question.data_length);
  CHECK_CONTENT(data, length, question.seed + 1);
  CHECK(ucxx_fetch_endpoint(fetch) == pair->endpoint);
  return question;
}

static size_t answer_length(const question_t *question) {
  return question->answer == SHORTER  ? question->length / 2
         : question->answer == LONGER ? question->length + 1
                                      : question->length;
}

typedef struct sent {
  uint8_t *data;
} sent_t;

static void reply_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  free(arg);
  atomic_fetch_add(&answered, 1);
}

static void reply(ucxx_fetch_t *fetch) {
  question_t question = question_of(fetch);
  size_t length = answer_length(&question);
  uint8_t *data = test_alloc(length);
  test_fill(data, length, question.seed);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  static const uint64_t protocols[] = {0, 0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK | protocols[test_mix(question.seed) % 4];
  params.callback = reply_sent;
  params.callback_arg = data;
  ucxx_status_t status;
  if (question.seed % 2 == 0) {
    status = ucxx_fetch_reply(fetch, data, length, &params, NULL);
  } else {
    ucxx_buffer_t parts[2] = {{.data = data, .length = length / 3},
                              {.data = data + length / 3, .length = length - length / 3}};
    status = ucxx_fetch_reply_iov(fetch, parts, 2, &params, NULL);
  }
  CHECK_STATUS(status, UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_fetch_reply(fetch, "x", 1, NULL, NULL), UCXX_ERR_ALREADY_EXISTS);
  CHECK_STATUS(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY), UCXX_ERR_ALREADY_EXISTS);
  ucxx_fetch_destroy(fetch);
}

static void put(todo_t **list, ucxx_fetch_t *fetch) {
  todo_t *entry = test_alloc(sizeof *entry);
  entry->fetch = fetch;
  pthread_mutex_lock(&lock);
  entry->next = *list;
  *list = entry;
  pthread_mutex_unlock(&lock);
}

static int reply_next(todo_t **list) {
  pthread_mutex_lock(&lock);
  todo_t *entry = *list;
  if (entry != NULL) *list = entry->next;
  pthread_mutex_unlock(&lock);
  if (entry == NULL) return 0;
  reply(entry->fetch);
  free(entry);
  return 1;
}

static void handle(void *arg, ucxx_fetch_t *fetch) {
  question_t question = question_of(fetch);
  CHECK(arg == pair);
  switch (question.answer) {
  case LATER: put(&later, fetch); break;
  case ELSEWHERE: put(threads ? &elsewhere : &later, fetch); break;
  case REJECT:
    CHECK_STATUS(ucxx_fetch_reject(fetch, UCXX_ERR_TIMED_OUT), UCXX_ERR_INVALID_PARAM);
    CHECK_OK(ucxx_fetch_reject(fetch, question.seed % 2 ? APPLICATION : UCXX_ERR_REJECTED));
    ucxx_fetch_destroy(fetch);
    atomic_fetch_add(&answered, 1);
    break;
  case LET_GO:
    ucxx_fetch_destroy(fetch);
    atomic_fetch_add(&answered, 1);
    break;
  default: reply(fetch);
  }
}

static void *answer_elsewhere(void *arg) {
  (void)arg;
  while (!atomic_load(&stop))
    if (!reply_next(&elsewhere)) sched_yield();
  return NULL;
}

static ucxx_status_t allocate(void *arg, size_t length, int32_t memory_type, int32_t device_id,
                              void **data) {
  CHECK(arg == &made_now && length > 0 && memory_type == UCXX_MEMORY_HOST && device_id == 0);
  *data = malloc(length);
  __atomic_fetch_add(&made_now, 1, __ATOMIC_RELAXED);
  return UCXX_OK;
}

static void deallocate(void *arg, void *data, size_t length, int32_t memory_type,
                       int32_t device_id) {
  CHECK(arg == &made_now && length > 0 && memory_type == UCXX_MEMORY_HOST && device_id == 0);
  free(data);
  __atomic_fetch_sub(&made_now, 1, __ATOMIC_RELAXED);
}

static size_t length_for(uint64_t random) {
  static const size_t edges[] = {0, 1, 8, 60, 92, 1024, 8192, 65536, 1 << 20, (1 << 20) + 1};
  if (random % 6 == 0) return edges[(random >> 8) % (sizeof edges / sizeof *edges)];
  return random % 50 == 1  ? (random >> 8) % LONGEST
         : random % 6 == 1 ? (random >> 8) % 60000
                           : (random >> 8) % 400;
}

static void ask(fetch_t *fetch, uint64_t number) {
  uint64_t random = test_mix(pair->seed + 2 * number + (uint64_t)pair->side);
  question_t *question = &fetch->question;
  memset(fetch, 0, sizeof *fetch);
  question->seed = random;
  question->length = length_for(test_mix(random));
  question->answer = (uint32_t)(test_mix(random + 1) % ANSWERS);
  fetch->made = test_mix(random + 2) % 4 == 0;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &fetch->info;
  params.memory_type = random % 2 ? UCXX_MEMORY_HOST : UCXX_MEMORY_AUTO;
  ucxx_status_t status;
  if (fetch->made) {
    ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
    question->data_length = (uint32_t)length_for(test_mix(random + 3));
    fetch->data = test_alloc(question->data_length);
    test_fill(fetch->data, question->data_length, random + 1);
    allocator.allocate = allocate;
    allocator.deallocate = deallocate;
    allocator.arg = &made_now;
    status = ucxx_am_fetch_alloc(pair->endpoint, ID, question, sizeof *question, fetch->data,
                                 question->data_length, random % 3 ? &allocator : NULL, &params,
                                 &fetch->request);
  } else {
    fetch->room = question->length;
    fetch->buffer = test_alloc(fetch->room + 1);
    memset(fetch->buffer, 0x77, fetch->room + 1);
    if (random % 3 == 0) {
      size_t half = fetch->room / 2;
      ucxx_buffer_t parts[3] = {{.data = fetch->buffer, .length = half},
                                {0},
                                {.data = fetch->buffer + half, .length = fetch->room - half}};
      status = ucxx_am_fetch_iov(pair->endpoint, ID, question, sizeof *question, parts, 3, &params,
                                 &fetch->request);
    } else {
      status = ucxx_am_fetch(pair->endpoint, ID, question, sizeof *question, fetch->buffer,
                             fetch->room, &params, &fetch->request);
    }
  }
  CHECK_STATUS(status, UCXX_INPROGRESS);
}

static void check(fetch_t *fetch) {
  const question_t *question = &fetch->question;
  ucxx_status_t status = ucxx_request_status(fetch->request);
  size_t length = answer_length(question);
  if (question->answer == REJECT) {
    CHECK_STATUS(status, question->seed % 2 ? APPLICATION : UCXX_ERR_REJECTED);
  } else if (question->answer == LET_GO) {
    CHECK_STATUS(status, UCXX_ERR_CANCELED);
  } else if (question->answer == LONGER && !fetch->made) {
    CHECK_STATUS(status, UCXX_ERR_MESSAGE_TRUNCATED);
    CHECK_EQ(fetch->info.length, length);
  } else {
    CHECK_OK(status);
    CHECK_EQ(fetch->info.length, length);
    if (fetch->made) {
      ucxx_buffers_t *buffers = NULL;
      ucxx_buffer_t buffer;
      if (question->seed % 5 != 0) { /* otherwise they are destroyed with the request */
        CHECK_OK(ucxx_request_take_buffers(fetch->request, &buffers));
        CHECK_EQ(ucxx_buffers_count(buffers), 1);
        CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
        CHECK_EQ(buffer.length, length);
        CHECK_CONTENT(buffer.data, length, question->seed);
        ucxx_buffers_t *again = NULL;
        CHECK_STATUS(ucxx_request_take_buffers(fetch->request, &again), UCXX_ERR_NO_ELEM);
        ucxx_buffers_destroy(buffers);
      }
    } else {
      CHECK_CONTENT(fetch->buffer, length, question->seed);
      if (length < fetch->room) CHECK_EQ(fetch->buffer[length], 0x77);
    }
  }
  if (!fetch->made) CHECK_EQ(fetch->buffer[fetch->room], 0x77);
  ucxx_request_destroy(fetch->request);
  free(fetch->buffer);
  free(fetch->data);
  memset(fetch, 0, sizeof *fetch);
}

static void round_of(const ucxx_worker_params_t *params, const char *how) {
  STEP("%s", how);
  fetch_t fetches[UNDER_WAY];
  memset(fetches, 0, sizeof fetches);
  atomic_store(&stop, 0);
  atomic_store(&answered, 0);
  threads = params->progress_mode != UCXX_PROGRESS_MANUAL;
  pair_connect(pair, NULL, params, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, handle, pair, NULL));
  pair_sync(pair);
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, answer_elsewhere, NULL), 0);
  unsigned asked = 0, complete = 0;
  while (complete < FETCHES || atomic_load(&answered) < FETCHES) {
    for (int at = 0; at < UNDER_WAY; at++) {
      if (fetches[at].request != NULL &&
          ucxx_request_status(fetches[at].request) != UCXX_INPROGRESS) {
        check(&fetches[at]);
        complete++;
      }
      if (fetches[at].request == NULL && asked < FETCHES) ask(&fetches[at], asked++);
    }
    reply_next(&later);
    progress(pair->worker);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  pair_sync(pair);
  pair_disconnect(pair);
  CHECK_EQ(__atomic_load_n(&made_now, __ATOMIC_RELAXED), 0);
}

static void body(pair_t *own) {
  pair = own;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fetch_random", body); }
