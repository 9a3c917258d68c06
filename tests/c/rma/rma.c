/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Put, get and atomic operations between two processes give the right results: on registered and on
 * allocated memory, with and without failure detection, in every progress mode. */
#include "rma.h"

enum {
  LENGTH = 3 << 20,
  COUNTER = 64,
  TALLY = 72,
  FLAGS = 80,
  AREA = 4096,
  TRANSFERS = 60,
  COUNTS = 2000,
  AT_ONCE = 64
};

static pair_t *pair;
static int32_t error_handling;
static int played;

typedef struct side {
  ucxx_memory_t *memory;
  uint8_t *bytes; /* of this side */
  uint8_t *owned; /* for registered memory */
  ucxx_rkey_t *rkey;
} side_t;

static void open_side(side_t *side, int allocated) {
  uint8_t key[LONGEST_KEY];
  size_t length;
  memset(side, 0, sizeof *side);
  if (allocated) {
    CHECK_OK(ucxx_memory_allocate(pair->context, LENGTH, UCXX_MEMORY_AUTO, &side->memory));
  } else {
    side->owned = calloc(1, LENGTH);
    CHECK_OK(
        ucxx_memory_register(pair->context, side->owned, LENGTH, UCXX_MEMORY_AUTO, &side->memory));
    CHECK(ucxx_memory_base(side->memory) == side->owned);
  }
  side->bytes = ucxx_memory_base(side->memory);
  CHECK_EQ(ucxx_memory_length(side->memory), LENGTH);
  for (int at = 0; at < LENGTH; at += 997) CHECK_EQ(side->bytes[at], 0);
  length = pack(side->memory, key);
  channel_put(pair, &length, sizeof length);
  channel_put(pair, key, length);
  channel_get(pair, &length, sizeof length);
  CHECK(length <= sizeof key);
  channel_get(pair, key, length);
  CHECK_OK(ucxx_rkey_unpack(pair->endpoint, key, length, &side->rkey));
  /* This side's own key is invalid there. */
  ucxx_rkey_t *own = NULL;
  length = pack(side->memory, key);
  CHECK_STATUS(ucxx_rkey_unpack(pair->endpoint, key, length, &own), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("process");
  CHECK_EQ(ucxx_rkey_length(side->rkey), LENGTH);
  CHECK(ucxx_rkey_base(side->rkey) != 0);
}

static void close_side(side_t *side) {
  ucxx_rkey_destroy(side->rkey);
  pair_sync(pair);
  ucxx_memory_destroy(side->memory);
  free(side->owned);
}

/* Offset and length of transfer `number` of a side. Transfers do not overlap within a round of
 * AT_ONCE. */
static void plan(uint64_t seed, int number, uint64_t *offset, size_t *length) {
  static const size_t sizes[] = {0, 1, 2, 4, 7, 8, 9, 100, 4096, 8192, 20000};
  uint64_t random = test_mix(seed + (uint64_t)number);
  size_t slot = (LENGTH - AREA) / TRANSFERS;
  *length = sizes[random % 11];
  *offset = AREA + (size_t)number * slot + (random >> 8) % (slot - *length);
  if (random % 3 == 0) *offset &= ~(uint64_t)7;
}

static void puts_and_gets(side_t *side, uint64_t seed) {
  uint8_t *data = test_alloc(TRANSFERS * 20000), *back = test_alloc(TRANSFERS * 20000);
  ucxx_request_t *requests[TRANSFERS] = {0};
  ucxx_status_t statuses[TRANSFERS];
  uint64_t offset, mine = test_mix(seed + (uint64_t)pair->side),
                   theirs = test_mix(seed + (uint64_t)(1 - pair->side));
  size_t length;
  for (int at = 0; at < TRANSFERS; at++) {
    plan(mine, at, &offset, &length);
    test_fill(data + at * 20000, length, mine + (uint64_t)at);
    statuses[at] = ucxx_rma_put(side->rkey, data + at * 20000, length, offset, NULL, &requests[at]);
  }
  for (int at = 0; at < TRANSFERS; at++) done(statuses[at], &requests[at]);
  flush(pair->endpoint);
  pair_sync(pair);
  for (int at = 0; at < TRANSFERS; at++) {
    plan(theirs, at, &offset, &length);
    CHECK_CONTENT(side->bytes + offset, length, theirs + (uint64_t)at);
    plan(mine, at, &offset, &length);
    statuses[at] = ucxx_rma_get(side->rkey, back + at * 20000, length, offset, NULL, &requests[at]);
  }
  for (int at = 0; at < TRANSFERS; at++) {
    plan(mine, at, &offset, &length);
    done(statuses[at], &requests[at]);
    CHECK_CONTENT(back + at * 20000, length, mine + (uint64_t)at);
  }
  pair_sync(pair);
  free(data);
  free(back);
}

static void large(side_t *side, uint64_t seed) {
  const size_t length = LENGTH - AREA;
  uint8_t *data = test_alloc(length);
  test_fill(data, length, seed + (uint64_t)pair->side);
  put(side->rkey, data, length, AREA);
  flush(pair->endpoint);
  pair_sync(pair);
  CHECK_CONTENT(side->bytes + AREA, length, seed + 1 - (uint64_t)pair->side);
  memset(data, 0, length);
  get(side->rkey, data, length, AREA);
  CHECK_CONTENT(data, length, seed + (uint64_t)pair->side);
  pair_sync(pair);
  free(data);
}

/* Each atomic operation in turn, on this side's own number: checks its effect and the returned old
 * value. */
static void each_atomic(side_t *side) {
  static const struct {
    int32_t op;
    uint64_t operand, compare, before, after;
  } steps[] = {
      {UCXX_ATOMIC_SWAP, 5, 0, 0, 5},  {UCXX_ATOMIC_ADD, 7, 0, 5, 12},
      {UCXX_ATOMIC_AND, 6, 0, 12, 4},  {UCXX_ATOMIC_OR, 3, 0, 4, 7},
      {UCXX_ATOMIC_XOR, 2, 0, 7, 5},   {UCXX_ATOMIC_CSWAP, 9, 6, 5, 5},
      {UCXX_ATOMIC_CSWAP, 9, 5, 5, 9}, {UCXX_ATOMIC_ADD, ~(uint64_t)0, 0, 9, 8},
      {UCXX_ATOMIC_SWAP, 0, 0, 8, 0},
  };
  for (size_t size = 4; size <= 8; size += 4)
    for (size_t at = 0; at < sizeof steps / sizeof *steps; at++) {
      uint64_t before = atomic(side->rkey, steps[at].op, size, steps[at].operand, steps[at].compare,
                               FLAGS),
               now = 0;
      CHECK_EQ(before, steps[at].before);
      get(side->rkey, &now, size, FLAGS);
      CHECK_EQ(now, steps[at].after);
    }
  /* Without a result: a flush reports when it is done, and nothing beside it has changed. */
  const uint32_t one = 1;
  uint64_t now = 0;
  CHECK(ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 4, &one, NULL, NULL, FLAGS + 4, NULL, NULL) >=
        0);
  flush(pair->endpoint);
  get(side->rkey, &now, 8, FLAGS);
  CHECK_EQ(now, (uint64_t)1 << 32);
  atomic(side->rkey, UCXX_ATOMIC_SWAP, 8, 0, 0, FLAGS);
}

/* Both sides, and the owner's processor, count on the same numbers: by adding, and by
 * compare-and-swap. */
static void count_together(side_t *side) {
  uint64_t before[AT_ONCE], sum = 0, seen, expected;
  ucxx_request_t *requests[AT_ONCE] = {0};
  ucxx_status_t statuses[AT_ONCE];
  const uint64_t one = 1;
  uint64_t *own = (uint64_t *)(void *)(side->bytes + COUNTER);
  for (int round = 0; round < COUNTS / AT_ONCE; round++) {
    for (int at = 0; at < AT_ONCE; at++)
      statuses[at] = ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, &before[at],
                                     COUNTER, NULL, &requests[at]);
    __atomic_fetch_add(own, 1, __ATOMIC_SEQ_CST);
    for (int at = 0; at < AT_ONCE; at++) {
      done(statuses[at], &requests[at]);
      sum += before[at];
    }
    seen = 0;
    do {
      expected = seen;
      seen = atomic(side->rkey, UCXX_ATOMIC_CSWAP, 4, expected + 1, expected, TALLY);
    } while (seen != expected);
    progress(pair->worker);
  }
  CHECK(sum > 0);
  pair_sync(pair);
  CHECK_EQ(*own, COUNTS / AT_ONCE * (AT_ONCE + 1));
  CHECK_EQ(*(uint32_t *)(void *)(side->bytes + TALLY), COUNTS / AT_ONCE);
  pair_sync(pair);
}

static void refusals(side_t *side) {
  uint64_t number = 0;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_rma_put(side->rkey, &number, 8, LENGTH - 7, NULL, &request),
               UCXX_ERR_OUT_OF_RANGE);
  CHECK_STATUS(ucxx_rma_get(side->rkey, &number, 1, LENGTH, NULL, &request), UCXX_ERR_OUT_OF_RANGE);
  CHECK_STATUS(ucxx_rma_get(side->rkey, &number, 8, UINT64_MAX - 3, NULL, &request),
               UCXX_ERR_OUT_OF_RANGE);
  put(side->rkey, NULL, 0, LENGTH);
  CHECK_STATUS(
      ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 8, &number, NULL, NULL, LENGTH, NULL, &request),
      UCXX_ERR_OUT_OF_RANGE);
  CHECK_STATUS(
      ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 8, &number, NULL, NULL, 4, NULL, &request),
      UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("aligned");
  CHECK_STATUS(ucxx_rma_atomic(side->rkey, 6, 8, &number, NULL, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(
      ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 2, &number, NULL, NULL, 0, NULL, &request),
      UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL);
}

/* Loads and stores, where both processes map the memory. */
static void by_pointer(side_t *side, int allocated) {
  void *there = NULL;
  ucxx_status_t status = ucxx_rkey_pointer(side->rkey, &there);
  if (!allocated || status != UCXX_OK) {
    CHECK_STATUS(status, UCXX_ERR_UNREACHABLE);
    return;
  }
  CHECK(there != NULL);
  __atomic_store_n((uint64_t *)(void *)((uint8_t *)there + 128), pair->seed + (uint64_t)pair->side,
                   __ATOMIC_RELEASE);
  pair_sync(pair);
  CHECK_EQ(*(uint64_t *)(void *)(side->bytes + 128), pair->seed + 1 - (uint64_t)pair->side);
}

/* Each operation in its asynchronous form, on every path. */
static void with_callbacks(side_t *side) {
  seen_t seen[3] = {{0}};
  uint64_t numbers[3] = {1, 0, 2}, before = 99;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &seen[0];
  CHECK_STATUS(ucxx_rma_put(side->rkey, &numbers[0], 8, 256, &params, NULL), UCXX_INPROGRESS);
  flush(pair->endpoint);
  params.callback_arg = &seen[1];
  CHECK_STATUS(ucxx_rma_get(side->rkey, &numbers[1], 8, 256, &params, NULL), UCXX_INPROGRESS);
  while (seen_count(&seen[0]) + seen_count(&seen[1]) < 2) progress(pair->worker);
  CHECK_EQ(numbers[1], 1);
  params.callback_arg = &seen[2];
  ucxx_status_t status = ucxx_rma_atomic(side->rkey, UCXX_ATOMIC_ADD, 8, &numbers[2], NULL, &before,
                                         256, &params, NULL);
  while (status == UCXX_INPROGRESS && seen_count(&seen[2]) < 1) progress(pair->worker);
  CHECK_OK(seen[0].status);
  CHECK_OK(seen[1].status);
  CHECK_OK(seen[2].status);
  CHECK_EQ(before, 1);
  flush(pair->endpoint);
  pair_sync(pair);
  CHECK_EQ(*(uint64_t *)(void *)(side->bytes + 256), 3);
}

static void ordered(side_t *side) {
  uint64_t back = 0;
  for (uint64_t at = 1; at < 20; at++) {
    put(side->rkey, &at, 8, 512);
    CHECK_OK(ucxx_worker_fence(pair->worker));
    get(side->rkey, &back, 8, 512);
    CHECK_EQ(back, at);
  }
  pair_sync(pair);
}

static void in_mode(const ucxx_worker_params_t *params, const char *mode) {
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_endpoint_params_t endpoint = UCXX_ENDPOINT_PARAMS_INIT;
  context.features = RMA_FEATURES;
  endpoint.error_handling = error_handling;
  pair_connect(pair, &context, params, &endpoint);
  for (int allocated = 0; allocated < 2; allocated++) {
    side_t side;
    STEP("%s, %s, %s memory", mode,
         error_handling == UCXX_ENDPOINT_ERROR_HANDLING_PEER ? "PEER" : "NONE",
         allocated ? "allocated" : "registered");
    open_side(&side, allocated);
    pair_sync(pair);
    for (uint64_t round = 0; round < 3; round++) puts_and_gets(&side, pair->seed + round);
    large(&side, pair->seed);
    each_atomic(&side);
    count_together(&side);
    refusals(&side);
    by_pointer(&side, allocated);
    with_callbacks(&side);
    ordered(&side);
    pair_sync(pair);
    close_side(&side);
    played++;
  }
  pair_disconnect(pair);
}

static void body(pair_t *both) {
  pair = both;
  error_handling = UCXX_ENDPOINT_ERROR_HANDLING_PEER;
  in_every_mode(in_mode);
  error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  in_every_mode(in_mode);
  CHECK_EQ(played, 12);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "rma", body); }
