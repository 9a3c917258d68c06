/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_remote.c: operations of the client alone: fetches, and puts, gets and atomic operations on
 * memory of the server.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf_ways.h"

#define FETCH_ID 1

int audit_count(struct bench *bench, const char *what, uint64_t found, uint64_t operations) {
  if (found == operations) return 0;
  return fail(bench->session->failure,
              "%s: the server has seen %" PRIu64 " of %" PRIu64 " operations", what, found,
              operations);
}

int audit_places(struct bench *bench, char *memory, uint64_t operations) {
  uint64_t first = operations > bench->slot_count ? operations - bench->slot_count : 0;
  for (uint64_t message = first; message < operations; message++)
    if (check(bench, memory + message % bench->slot_count * bench->stride, message) != 0) return -1;
  return 0;
}

static size_t region_bytes(const struct bench *bench) {
  size_t bytes = bench->stride * (bench->slot_count - 1) + bench->round.size;
  return bytes > 0 ? bytes : 1;
}

/* ------------------------------------------------------------------ fetches */

struct desk {
  atomic_uint_fast64_t answered;
};

static void fetch_arrived(void *arg, ucxx_fetch_t *fetch) {
  struct bench *bench = arg;
  struct desk *desk = bench->state;
  size_t length;
  uint64_t index = UINT64_MAX;
  const void *header = ucxx_fetch_header(fetch, &length);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = bench->memory_type;
  if (length == sizeof index) memcpy(&index, header, sizeof index);
  /* Before the reply, after which the client may finish and this side count. */
  atomic_fetch_add(&desk->answered, 1);
  /* The index is the client's, so it is checked. */
  if (length != sizeof index || index >= bench->slot_count)
    ucxx_fetch_reject(fetch, UCXX_ERR_NO_ELEM);
  else if (ucxx_fetch_reply(fetch, bench->slots[index].buffer, bench->round.size, &params, NULL) <
           0)
    ucxx_fetch_reject(fetch, UCXX_ERR_BUSY);
  ucxx_fetch_destroy(fetch);
}

static int fetch_open(struct bench *bench) {
  struct session *session = bench->session;
  if (!session->config->serves) return 0;
  struct desk *desk = calloc(1, sizeof *desk);
  if (desk == NULL) return fail(session->failure, "no memory");
  bench->state = desk;
  for (size_t i = 0; i < bench->slot_count; i++) fill(bench, bench->slots[i].buffer, i);
  ucxx_status_t status =
      ucxx_worker_set_fetch_handler(session->worker, FETCH_ID, fetch_arrived, bench, NULL);
  return status == UCXX_OK ? 0 : session_fail(session, "ucxx_worker_set_fetch_handler", status);
}

static int fetch_leave(struct bench *bench) {
  ucxx_worker_set_fetch_handler(bench->session->worker, FETCH_ID, NULL, NULL, NULL);
  return 0;
}

static void free_state(struct bench *bench) { free(bench->state); }

static ucxx_status_t fetch_start(struct slot *slot, ucxx_request_t **request) {
  uint64_t index = slot->index;
  return ucxx_am_fetch(slot_endpoint(slot), FETCH_ID, &index, sizeof index, slot->buffer,
                       slot->length, &slot->params, request);
}

static void fetch_expect(struct bench *bench) {
  struct desk *desk = bench->state;
  atomic_store(&desk->answered, 0);
}

static int fetch_audit(struct bench *bench, uint64_t operations) {
  struct desk *desk = bench->state;
  return audit_count(bench, "fetches", atomic_load(&desk->answered), operations);
}

const struct way fetch_way = {.name = "fetch",
                              .summary = "a question, whose answer has the bytes",
                              .features = UCXX_FEATURE_AM,
                              .patterns = ALL_PATTERNS,
                              .cuda = true,
                              .several_endpoints = true,
                              .open = fetch_open,
                              .leave = fetch_leave,
                              .close = free_state,
                              .start = fetch_start,
                              .reads = true,
                              .expect = fetch_expect,
                              .audit = fetch_audit};

/* ------------------------------------------------------------------ remote memory */

struct region {
  ucxx_memory_t *memory; /* server */
  ucxx_rkey_t *keys[MAX_ENDPOINTS]; /* client */
};

static char *region_base(const struct bench *bench) {
  return ucxx_memory_base(((struct region *)bench->state)->memory);
}

static int offer_memory(struct bench *bench, struct region *region) {
  struct session *session = bench->session;
  char key[4096];
  size_t length = sizeof key;
  ucxx_status_t status = ucxx_memory_allocate(session->context, region_bytes(bench),
                                              bench->memory_type, &region->memory);
  if (status == UCXX_OK) status = ucxx_memory_pack(region->memory, key, &length);
  if (status != UCXX_OK) return session_fail(session, "the memory for the client", status);
  for (size_t i = 0; i < bench->slot_count; i++)
    fill(bench, region_base(bench) + i * bench->stride, i);
  return oob_send(session->oob, FRAME_KEY, key, length, session->failure);
}

static int take_keys(struct bench *bench, struct region *region) {
  struct session *session = bench->session;
  char key[4096];
  size_t length;
  if (oob_receive(session->oob, FRAME_KEY, key, sizeof key, &length, session->config->timeout_ns,
                  session->failure) != 0)
    return -1;
  for (uint32_t i = 0; i < session->endpoint_count; i++) {
    ucxx_status_t status = ucxx_rkey_unpack(session->endpoints[i], key, length, &region->keys[i]);
    if (status != UCXX_OK) return session_fail(session, "the server's memory", status);
  }
  return 0;
}

static int region_open(struct bench *bench) {
  struct region *region = calloc(1, sizeof *region);
  if (region == NULL) return fail(bench->session->failure, "no memory");
  bench->state = region;
  return bench->session->config->serves ? offer_memory(bench, region) : take_keys(bench, region);
}

/* The server keeps the memory until the client uses it no more. */
static int region_leave(struct bench *bench) { return session_meet(bench->session, FRAME_LEAVE); }

static void region_close(struct bench *bench) {
  struct region *region = bench->state;
  if (region == NULL) return;
  for (uint32_t i = 0; i < MAX_ENDPOINTS; i++) ucxx_rkey_destroy(region->keys[i]);
  ucxx_memory_destroy(region->memory);
  free(region);
}

static ucxx_rkey_t *key_of(const struct slot *slot) {
  return ((struct region *)slot->bench->state)->keys[slot->endpoint];
}

static uint64_t place_of(const struct slot *slot) { return slot->index * slot->bench->stride; }

static ucxx_status_t put_start(struct slot *slot, ucxx_request_t **request) {
  return ucxx_rma_put(key_of(slot), slot->buffer, slot->length, place_of(slot), &slot->params,
                      request);
}

static ucxx_status_t get_start(struct slot *slot, ucxx_request_t **request) {
  return ucxx_rma_get(key_of(slot), slot->buffer, slot->length, place_of(slot), &slot->params,
                      request);
}

static ucxx_status_t endpoint_flush(struct slot *slot, ucxx_request_t **request) {
  return ucxx_endpoint_flush(slot_endpoint(slot), &slot->params, request);
}

static int put_audit(struct bench *bench, uint64_t operations) {
  return audit_places(bench, region_base(bench), operations);
}

const struct way put_way = {.name = "put",
                            .summary = "puts into memory of the server",
                            .features = UCXX_FEATURE_RMA,
                            .patterns = ALL_PATTERNS,
                            .least = 1,
                            .cuda = true,
                            .several_endpoints = true,
                            .open = region_open,
                            .leave = region_leave,
                            .close = region_close,
                            .start = put_start,
                            .flush = endpoint_flush,
                            .writes = true,
                            .audit = put_audit};

const struct way get_way = {.name = "get",
                            .summary = "gets from memory of the server",
                            .features = UCXX_FEATURE_RMA,
                            .patterns = ALL_PATTERNS,
                            .least = 1,
                            .cuda = true,
                            .several_endpoints = true,
                            .open = region_open,
                            .leave = region_leave,
                            .close = region_close,
                            .start = get_start,
                            .reads = true};

/* ------------------------------------------------------------------ atomic operations */

static uint64_t counter_of(const struct bench *bench) {
  uint64_t value = 0;
  uint32_t half;
  if (bench->round.size == sizeof value) {
    memcpy(&value, region_base(bench), sizeof value);
  } else {
    memcpy(&half, region_base(bench), sizeof half);
    value = half;
  }
  return value;
}

/* All operations are on one integer, the counter. It ends as the number of operations. */
static ucxx_status_t atomic(struct slot *slot, int32_t op, bool result, ucxx_request_t **request) {
  union {
    uint64_t whole;
    uint32_t half;
  } operand = {0}, compare = {0};
  uint64_t value = op == UCXX_ATOMIC_ADD ? 1 : slot->message + 1;
  if (slot->length == sizeof operand.whole) {
    operand.whole = value;
    compare.whole = slot->message;
  } else {
    operand.half = (uint32_t)value;
    compare.half = (uint32_t)slot->message;
  }
  return ucxx_rma_atomic(key_of(slot), op, slot->length, &operand,
                         op == UCXX_ATOMIC_CSWAP ? &compare : NULL, result ? slot->buffer : NULL, 0,
                         &slot->params, request);
}

static ucxx_status_t add_start(struct slot *slot, ucxx_request_t **request) {
  return atomic(slot, UCXX_ATOMIC_ADD, false, request);
}

static ucxx_status_t fadd_start(struct slot *slot, ucxx_request_t **request) {
  return atomic(slot, UCXX_ATOMIC_ADD, true, request);
}

static ucxx_status_t swap_start(struct slot *slot, ucxx_request_t **request) {
  return atomic(slot, UCXX_ATOMIC_SWAP, true, request);
}

static ucxx_status_t cswap_start(struct slot *slot, ucxx_request_t **request) {
  return atomic(slot, UCXX_ATOMIC_CSWAP, true, request);
}

static void counter_expect(struct bench *bench) {
  memset(region_base(bench), 0, bench->round.size);
}

static int counter_audit(struct bench *bench, uint64_t operations) {
  uint64_t mask = bench->round.size == 8 ? UINT64_MAX : UINT32_MAX;
  return audit_count(bench, "atomic operations", counter_of(bench), operations & mask);
}

#define ATOMIC_WAY(called, text, which, begin)         \
  {.name = called,                                     \
   .summary = text,                                    \
   .features = UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC, \
   .patterns = which,                                  \
   .least = 4,                                         \
   .most = 8,                                          \
   .multiple = 4,                                      \
   .several_endpoints = true,                          \
   .open = region_open,                                \
   .leave = region_leave,                              \
   .close = region_close,                              \
   .start = begin,                                     \
   .expect = counter_expect,                           \
   .audit = counter_audit}

const struct way add_way =
    ATOMIC_WAY("add", "atomic additions to an integer of the server", RATE | LATENCY, add_start);
const struct way fadd_way =
    ATOMIC_WAY("fadd", "the same, with the previous value", RATE | LATENCY, fadd_start);
const struct way swap_way = ATOMIC_WAY("swap", "atomic exchanges", LATENCY, swap_start);
const struct way cswap_way =
    ATOMIC_WAY("cswap", "atomic exchanges of an expected value", LATENCY, cswap_start);
