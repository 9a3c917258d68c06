/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Registered memory and remote keys: lifetimes in every order, and no leaks. bad_input_memory.inc
 * has the refused calls. */
#include "rma.h"

#include <pthread.h>

enum { LENGTH = 1 << 16, CYCLES = 300 };

typedef struct fixture {
  duo_t duo;
  ucxx_memory_t *memory; /* of this process, which is also the peer */
  uint64_t *words;
  uint8_t key[LONGEST_KEY];
  size_t key_length;
} fixture_t;

static void open_with(fixture_t *f, uint64_t features, int allocated) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = features;
  duo_open(&f->duo, &params);
  if (allocated)
    CHECK_OK(ucxx_memory_allocate(f->duo.context, LENGTH, UCXX_MEMORY_HOST, &f->memory));
  else
    CHECK_OK(ucxx_memory_register(f->duo.context, test_alloc(LENGTH), LENGTH, UCXX_MEMORY_HOST,
                                  &f->memory));
  f->words = ucxx_memory_base(f->memory);
  memset(f->words, 0, LENGTH);
  f->key_length = pack(f->memory, f->key);
}

static void close_it(fixture_t *f, int allocated) {
  void *owned = allocated ? NULL : ucxx_memory_base(f->memory);
  ucxx_memory_destroy(f->memory);
  duo_close(&f->duo);
  free(owned);
}

static ucxx_rkey_t *unpack(const fixture_t *f) {
  ucxx_rkey_t *rkey = NULL;
  CHECK_OK(ucxx_rkey_unpack(f->duo.to_right, f->key, f->key_length, &rkey));
  return rkey;
}

static int is_seen(const ucxx_rkey_t *rkey) {
  void *local;
  return ucxx_rkey_pointer(rkey, &local) == UCXX_OK;
}

/* Registered anywhere, adjacent and overlapping: each key gives access to exactly what was
 * registered. */
static void anywhere(void) {
  STEP("anywhere");
  static const size_t begins[] = {0, 4096, 4, 65537, 100},
                      lengths[] = {8192, 16384, 1000, 3, 50000};
  enum { RANGES = 5, WHOLE = 1 << 17 };
  fixture_t f;
  ucxx_request_t *request = NULL;
  ucxx_memory_t *memory[RANGES];
  uint8_t *whole = test_alloc(WHOLE);
  open_with(&f, RMA_FEATURES, 1);
  memset(whole, 0, WHOLE);
  for (int at = 0; at < RANGES; at++) {
    uint8_t key[LONGEST_KEY], mark = (uint8_t)(at + 1), last = (uint8_t)(at + 101);
    ucxx_rkey_t *rkey = NULL;
    CHECK_OK(ucxx_memory_register(f.duo.context, whole + begins[at], lengths[at], UCXX_MEMORY_AUTO,
                                  &memory[at]));
    CHECK(ucxx_memory_base(memory[at]) == whole + begins[at]);
    CHECK_EQ(ucxx_memory_length(memory[at]), lengths[at]);
    size_t length = pack(memory[at], key);
    CHECK_OK(ucxx_rkey_unpack(f.duo.to_right, key, length, &rkey));
    CHECK_EQ(ucxx_rkey_base(rkey), (uint64_t)(uintptr_t)(whole + begins[at]));
    CHECK_OK(duo_finish(&f.duo, ucxx_rma_put(rkey, &mark, 1, 0, NULL, &request), &request));
    CHECK_OK(duo_finish(&f.duo, ucxx_rma_put(rkey, &last, 1, lengths[at] - 1, NULL, &request),
                        &request));
    CHECK_OK(duo_finish(&f.duo, ucxx_endpoint_flush(f.duo.to_right, NULL, &request), &request));
    CHECK_EQ(whole[begins[at]], mark);
    CHECK_EQ(whole[begins[at] + lengths[at] - 1], last);
    CHECK_STATUS(ucxx_rma_put(rkey, &mark, 1, lengths[at], NULL, &request), UCXX_ERR_OUT_OF_RANGE);
    ucxx_rkey_destroy(rkey);
  }
  for (int at = 0; at < RANGES; at++) ucxx_memory_destroy(memory[at]);
  close_it(&f, 1);
  free(whole);
}

static void features(void) {
  STEP("without the features");
  fixture_t f;
  uint64_t number = 1;
  ucxx_request_t *request = NULL;
  ucxx_rkey_t *rkey;
  duo_t plain;
  ucxx_memory_t *memory = NULL;
  size_t length = 0;
  open_with(&f, UCXX_FEATURE_TAG | UCXX_FEATURE_RMA, 1);
  rkey = unpack(&f);
  CHECK_STATUS(ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &number, NULL, NULL, 0, NULL, &request),
               UCXX_ERR_UNSUPPORTED);
  ucxx_rkey_destroy(rkey);
  duo_open(&plain, NULL);
  CHECK_STATUS(ucxx_rkey_unpack(plain.to_right, f.key, f.key_length, &rkey), UCXX_ERR_UNSUPPORTED);
  CHECK_OK(ucxx_memory_allocate(plain.context, 8, UCXX_MEMORY_AUTO, &memory));
  CHECK_STATUS(ucxx_memory_pack(memory, NULL, &length), UCXX_ERR_UNSUPPORTED);
  /* Registering works without the features, and the handle can be named in operations of the same
   * context. */
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  uint8_t in[8];
  params.memory = memory;
  CHECK_STATUS(ucxx_tag_send(f.duo.to_right, ucxx_memory_base(memory), 8, 1, &params, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("context");
  ucxx_status_t sent =
      ucxx_tag_send(plain.to_right, ucxx_memory_base(memory), 8, 1, &params, &request);
  ucxx_request_t *received = NULL;
  CHECK_OK(duo_finish(&plain, ucxx_tag_recv(plain.right, in, 8, 1, UINT64_MAX, NULL, &received),
                      &received));
  CHECK_OK(duo_finish(&plain, sent, &request));
  ucxx_memory_destroy(memory);
  duo_close(&plain);
  close_it(&f, 1);
  open_with(&f, UCXX_FEATURE_TAG | UCXX_FEATURE_ATOMIC, 1);
  rkey = unpack(&f);
  CHECK_STATUS(ucxx_rma_put(rkey, &number, 8, 0, NULL, &request), UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_rma_get(rkey, &number, 8, 0, NULL, &request), UCXX_ERR_UNSUPPORTED);
  ucxx_rkey_destroy(rkey);
  close_it(&f, 1);
}

/* Key, endpoint, worker and memory are destroyed in every order. */
static void outliving(int allocated) {
  STEP("every order of destruction, %s", allocated ? "allocated" : "registered");
  fixture_t f;
  uint64_t number = 1;
  ucxx_request_t *request = NULL;
  void *local;
  open_with(&f, RMA_FEATURES, allocated);
  ucxx_rkey_t *rkey = unpack(&f), *other = unpack(&f);
  int seen = is_seen(rkey);
  void *owned = allocated ? NULL : ucxx_memory_base(f.memory);
  ucxx_memory_destroy(f.memory);
  f.memory = NULL;
  ucxx_status_t status =
      ucxx_rma_atomic(other, UCXX_ATOMIC_ADD, 8, &number, NULL, NULL, 0, NULL, &request);
  CHECK_STATUS(duo_finish(&f.duo, status, &request), seen ? UCXX_OK : UCXX_ERR_NO_ELEM);
  free(owned);
  CHECK_OK(duo_finish(&f.duo, close_patiently(f.duo.to_right, &request), &request));
  CHECK_STATUS(ucxx_rma_put(rkey, &number, 8, 0, NULL, &request), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &number, NULL, NULL, 0, NULL, &request),
               UCXX_ERR_CLOSED);
  ucxx_rkey_destroy(other);
  ucxx_worker_destroy(f.duo.left);
  ucxx_worker_destroy(f.duo.right);
  CHECK_STATUS(ucxx_rma_get(rkey, &number, 8, 0, NULL, &request), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_rkey_pointer(rkey, &local), UCXX_ERR_CLOSED);
  CHECK_EQ(ucxx_rkey_length(rkey), LENGTH);
  ucxx_rkey_destroy(rkey);
  ucxx_endpoint_destroy(f.duo.to_right);
  ucxx_endpoint_destroy(f.duo.to_left);
  ucxx_context_destroy(f.duo.context);
}

/* The key's handle is destroyed while operations with it are in flight. */
static void let_go(int allocated) {
  STEP("key destroyed with operations in flight, %s", allocated ? "allocated" : "registered");
  enum { AT_ONCE = 8, PIECE = LENGTH / AT_ONCE };
  fixture_t f;
  uint8_t *data = test_alloc(LENGTH), *back = test_alloc(LENGTH);
  ucxx_request_t *requests[2 * AT_ONCE] = {0};
  ucxx_status_t statuses[2 * AT_ONCE];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  open_with(&f, RMA_FEATURES, allocated);
  ucxx_rkey_t *rkey = unpack(&f);
  test_fill(data, LENGTH, 1);
  for (int at = 0; at < AT_ONCE; at++)
    statuses[at] =
        ucxx_rma_put(rkey, data + at * PIECE, PIECE, (uint64_t)at * PIECE, &params, &requests[at]);
  ucxx_rkey_destroy(rkey);
  for (int at = 0; at < AT_ONCE; at++) CHECK_OK(duo_finish(&f.duo, statuses[at], &requests[at]));
  ucxx_request_t *flushed = NULL;
  CHECK_OK(duo_finish(&f.duo, ucxx_endpoint_flush(f.duo.to_right, NULL, &flushed), &flushed));
  CHECK_CONTENT(f.words, LENGTH, 1);
  rkey = unpack(&f);
  for (int at = 0; at < AT_ONCE; at++) {
    statuses[at] =
        ucxx_rma_get(rkey, back + at * PIECE, PIECE, (uint64_t)at * PIECE, &params, &requests[at]);
    statuses[AT_ONCE + at] = ucxx_rma_atomic(rkey, UCXX_ATOMIC_OR, 8, "\0\0\0\0\0\0\0", NULL, NULL,
                                             8 * (uint64_t)at, &params, &requests[AT_ONCE + at]);
  }
  ucxx_rkey_destroy(rkey);
  for (int at = 0; at < 2 * AT_ONCE; at++)
    CHECK_OK(duo_finish(&f.duo, statuses[at], &requests[at]));
  CHECK_CONTENT(back, LENGTH, 1);
  close_it(&f, allocated);
  free(data);
  free(back);
}

static void to_itself(void) {
  STEP("a worker's own memory");
  fixture_t f;
  open_with(&f, RMA_FEATURES, 0);
  ucxx_endpoint_t *self = connect_workers(f.duo.left, f.duo.left);
  ucxx_rkey_t *rkey = NULL;
  void *local = NULL;
  uint64_t number = 41, back = 0;
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_rkey_unpack(self, f.key, f.key_length, &rkey));
  CHECK_OK(ucxx_rkey_pointer(rkey, &local));
  CHECK(local == f.words);
  CHECK_OK(ucxx_rma_put(rkey, &number, 8, 8, NULL, &request));
  number = 1;
  CHECK_OK(ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &number, NULL, &back, 8, NULL, &request));
  CHECK_EQ(back, 41);
  CHECK_EQ(f.words[1], 42);
  ucxx_rkey_destroy(rkey);
  void *owned = ucxx_memory_base(f.memory);
  ucxx_memory_destroy(f.memory);
  CHECK_STATUS(ucxx_rkey_unpack(self, f.key, f.key_length, &rkey), UCXX_ERR_NO_ELEM);
  free(owned);
  ucxx_endpoint_destroy(self);
  duo_close(&f.duo);
}

/* Keys and memory are created and destroyed: the process's resources stay constant. */
static void cycles(void) {
  STEP("cycles");
  fixture_t f;
  footprint_t before = {0}, after;
  open_with(&f, RMA_FEATURES, 1);
  for (int cycle = 0; cycle < 2 * CYCLES; cycle++) {
    ucxx_memory_t *memory = NULL;
    ucxx_rkey_t *rkey = NULL;
    uint8_t key[LONGEST_KEY];
    ucxx_request_t *request = NULL;
    if (cycle == CYCLES) before = footprint_now();
    CHECK_OK(ucxx_memory_allocate(f.duo.context, LENGTH, UCXX_MEMORY_HOST, &memory));
    size_t length = pack(memory, key);
    CHECK_OK(ucxx_rkey_unpack(f.duo.to_right, key, length, &rkey));
    CHECK_OK(
        duo_finish(&f.duo, ucxx_rma_put(rkey, &cycle, sizeof cycle, 0, NULL, &request), &request));
    CHECK_OK(duo_finish(&f.duo, ucxx_endpoint_flush(f.duo.to_right, NULL, &request), &request));
    CHECK_EQ(*(int *)ucxx_memory_base(memory), cycle);
    ucxx_rkey_destroy(rkey);
    ucxx_memory_destroy(memory);
  }
  after = footprint_now();
  CHECK(after.mappings <= before.mappings + 4);
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.resident_kib <= before.resident_kib + 1024);
  close_it(&f, 1);
}

static void *destroy_key(void *rkey) {
  ucxx_rkey_destroy(rkey);
  return NULL;
}

/* From a thread other than the worker's, with a progress thread. */
static void other_threads(void) {
  STEP("other threads");
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *left = NULL, *right = NULL;
  ucxx_memory_t *memory = NULL;
  uint8_t key[LONGEST_KEY];
  context_params.features = RMA_FEATURES;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &left));
  CHECK_OK(ucxx_worker_create(context, &params, &right));
  ucxx_endpoint_t *endpoint = connect_workers(left, right);
  CHECK_OK(ucxx_memory_allocate(context, LENGTH, UCXX_MEMORY_HOST, &memory));
  size_t length = pack(memory, key);
  for (int cycle = 0; cycle < CYCLES; cycle++) {
    pthread_t thread;
    ucxx_rkey_t *rkey = NULL;
    CHECK_OK(ucxx_rkey_unpack(endpoint, key, length, &rkey));
    put(rkey, &cycle, sizeof cycle, 0);
    CHECK(pthread_create(&thread, NULL, destroy_key, rkey) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(left);
  ucxx_worker_destroy(right);
  ucxx_memory_destroy(memory);
  ucxx_context_destroy(context);
}

int main(void) {
  test_begin("rma_calls");
  anywhere();
  features();
  for (int allocated = 0; allocated < 2; allocated++) {
    outliving(allocated);
    let_go(allocated);
  }
  to_itself();
  cycles();
  other_threads();
  return 0;
}
