/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Bad input: registered memory, remote keys, also forged ones, and RMA. See bad_input.h. */
#include "bad_input.h"
#include "rma.h"

#define HUGE_SIGNED ((size_t)PTRDIFF_MAX + 1)

enum { AT = 64 /* offset in the memory that rows read and write, aligned */ };

static const char text[] = "twenty-four bytes, just so";
static const uint64_t one = 1;

/* ------------------------------------------------------------------ memory */

static ucxx_status_t register_here(fixture_t *f, void *base, size_t length, int32_t memory_type) {
  return ucxx_memory_register(f->context, base, length, memory_type, &f->out.memory);
}

/* Deregisters memory that was registered after all. */
static ucxx_status_t done_with(fixture_t *f, ucxx_status_t status) {
  if (status >= 0) ucxx_memory_destroy(f->out.memory);
  return status;
}

/* The buffer is `missing` bytes too short: nothing is written, and the needed length is
 * returned. */
static ucxx_status_t pack_into(fixture_t *f, size_t missing) {
  uint8_t key[LONGEST_KEY], bytes[LONGEST_KEY];
  size_t needed = pack(f->remote[ALLOCATED].memory, key),
         length = missing < needed ? needed - missing : 0, room = length;
  memset(bytes, 0x77, sizeof bytes);
  ucxx_status_t status = ucxx_memory_pack(f->remote[ALLOCATED].memory, bytes, &length);
  CHECK_EQ(length, needed);
  for (size_t at = status == UCXX_OK ? room : 0; at < sizeof bytes; at++) CHECK_EQ(bytes[at], 0x77);
  return status;
}

static ucxx_status_t pack_without_feature(fixture_t *f) {
  ucxx_memory_t *memory = NULL;
  uint8_t bytes[LONGEST_KEY] = {0};
  size_t length = sizeof bytes;
  CHECK_OK(ucxx_memory_allocate(f->bare.context, 8, UCXX_MEMORY_HOST, &memory));
  ucxx_status_t status = ucxx_memory_pack(memory, bytes, &length);
  CHECK_EQ(length, sizeof bytes);
  CHECK_EQ(bytes[0], 0);
  ucxx_memory_destroy(memory);
  return status;
}

/* The getters return a value for NULL as well. */
static ucxx_status_t ask_nothing(void) {
  CHECK(ucxx_memory_base(NULL) == NULL);
  CHECK_EQ(ucxx_memory_length(NULL), 0);
  CHECK_EQ(ucxx_rkey_base(NULL), 0);
  CHECK_EQ(ucxx_rkey_length(NULL), 0);
  ucxx_memory_destroy(NULL);
  ucxx_rkey_destroy(NULL);
  return UCXX_OK;
}

/* ------------------------------------------------------------------ keys */

typedef struct packed {
  uint8_t bytes[LONGEST_KEY];
  size_t length;
} packed_t;

static packed_t key_of(fixture_t *f, enum remote which) {
  packed_t key;
  key.length = pack(f->remote[which].memory, key.bytes);
  return key;
}

static uint32_t checksum(const uint8_t *bytes, size_t length) {
  uint32_t sum = UINT32_MAX;
  for (size_t at = 0; at < length; at++) {
    sum ^= bytes[at];
    for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? UINT32_C(0xedb88320) : 0);
  }
  return ~sum;
}

static void write_number(uint8_t *bytes, uint64_t number, size_t length) {
  for (size_t at = 0; at < length; at++) bytes[at] = (uint8_t)(number >> 8 * at);
}

/* Offsets of the fields of a key: see docs/wire-formats.md. */
enum {
  MAGIC = 0,
  VERSION = 8,
  HEADER = 10,
  UCX = 12,
  BASE = 16,
  LENGTH = 24,
  NUMBER = 32,
  BOOT = 40,
  NAMESPACE = 56,
  STARTED = 64,
  PID = 72,
  TYPE = 76,
  BEHIND = 80,
  SUM = 4
};

static ucxx_status_t unpack(fixture_t *f, const packed_t *key) {
  return ucxx_rkey_unpack(f->endpoint, key->bytes, key->length, &f->out.rkey);
}

/* A key with another number in it and a matching checksum: forged, not damaged. */
static packed_t forge(fixture_t *f, size_t at, size_t length, uint64_t number) {
  packed_t key = key_of(f, REGISTERED);
  CHECK_EQ(checksum(key.bytes, key.length - SUM), (uint32_t)key.bytes[key.length - 4] |
                                                      (uint32_t)key.bytes[key.length - 3] << 8 |
                                                      (uint32_t)key.bytes[key.length - 2] << 16 |
                                                      (uint32_t)key.bytes[key.length - 1] << 24);
  write_number(key.bytes + at, number, length);
  write_number(key.bytes + key.length - SUM, checksum(key.bytes, key.length - SUM), SUM);
  return key;
}

static ucxx_status_t unpack_forged(fixture_t *f, size_t at, size_t length, uint64_t number) {
  packed_t key = forge(f, at, length, number);
  return unpack(f, &key);
}

/* A key with `length` bytes for UCX's key, and a header that says so. */
static ucxx_status_t unpack_sized(fixture_t *f, size_t length) {
  static uint8_t bytes[BEHIND + (1 << 14) + 1 + SUM];
  packed_t key = key_of(f, REGISTERED);
  CHECK(BEHIND + length + SUM <= sizeof bytes);
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes, key.bytes, BEHIND);
  write_number(bytes + UCX, length, 4);
  write_number(bytes + BEHIND + length, checksum(bytes, BEHIND + length), SUM);
  return ucxx_rkey_unpack(f->endpoint, bytes, BEHIND + length + SUM, &f->out.rkey);
}

static ucxx_status_t unpack_each_bit(fixture_t *f) {
  packed_t key = key_of(f, ALLOCATED);
  ucxx_status_t status = UCXX_OK;
  for (size_t bit = 0; bit < key.length * 8; bit++) {
    key.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    status = unpack(f, &key);
    CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
    key.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  return status;
}

/* Truncated at every length, and with trailing bytes. */
static ucxx_status_t unpack_each_length(fixture_t *f) {
  packed_t key = key_of(f, ALLOCATED);
  const size_t right = key.length;
  ucxx_status_t status = UCXX_OK;
  memset(key.bytes + right, 0, sizeof key.bytes - right);
  for (key.length = 0; key.length < right + 20; key.length++)
    if (key.length != right) {
      status = unpack(f, &key);
      CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
    }
  return status;
}

static ucxx_status_t unpack_on(fixture_t *f, ucxx_endpoint_t *endpoint, size_t length,
                               ucxx_rkey_t **place) {
  packed_t key = key_of(f, ALLOCATED);
  return ucxx_rkey_unpack(endpoint, key.bytes, length > 0 ? length : key.length, place);
}

static ucxx_status_t unpack_address(fixture_t *f) {
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(f->worker, &address));
  ucxx_status_t status = ucxx_rkey_unpack(f->endpoint, ucxx_address_data(address),
                                          ucxx_address_length(address), &f->out.rkey);
  ucxx_address_destroy(address);
  return status;
}

static void turn_away(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  ucxx_conn_request_destroy(request);
}

/* On an endpoint that cannot be open yet, as the other side has not progressed. */
static ucxx_status_t unpack_early(fixture_t *f) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_endpoint_params_t connecting = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  seen_t closed = {0};
  if (!has_tcp()) return LEFT_OUT;
  params.on_connect = turn_away;
  connecting.on_close = see_endpoint;
  connecting.on_close_arg = &closed;
  CHECK_OK(ucxx_listener_create(f->duo.right, &params, &listener));
  CHECK_OK(ucxx_endpoint_connect(f->worker, "127.0.0.1", ucxx_listener_port(listener), &connecting,
                                 &endpoint));
  ucxx_status_t status = unpack_on(f, endpoint, 0, &f->out.rkey);
  char said[256];
  snprintf(said, sizeof said, "%s", ucxx_last_error_message());
  while (seen_count(&closed) == 0) duo_progress(&f->duo);
  ucxx_endpoint_destroy(endpoint);
  ucxx_listener_destroy(listener);
  CHECK(strcmp(said, ucxx_last_error_message()) == 0);
  return status;
}

/* ------------------------------------------------------------------ put, get and atomic operations
 */

static const ucxx_op_params_t *op_memory_of_other(fixture_t *f, ucxx_memory_t **memory) {
  CHECK_OK(ucxx_memory_allocate(f->bare.context, 64, UCXX_MEMORY_HOST, memory));
  op_flags(f, 0);
  f->op.memory = *memory;
  return &f->op;
}

/* Waits until the put or the atomic operation has taken effect. */
static void settle(fixture_t *f) {
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(&f->duo, ucxx_endpoint_flush(f->endpoint, NULL, &request), &request));
}

static ucxx_status_t put_there(fixture_t *f, enum remote which, const void *params) {
  ucxx_status_t status = ucxx_rma_put(f->remote[which].rkey, text, 24, AT, params, &f->out.request);
  if (status < 0) return status;
  status = duo_finish(&f->duo, status, &f->out.request);
  settle(f);
  CHECK(memcmp(f->remote[which].bytes + AT, text, 24) == 0);
  fill_remote(f, which);
  return status;
}

/* A refused get writes nothing. */
static ucxx_status_t get_range(fixture_t *f, enum remote which, size_t length, uint64_t offset,
                               const void *params) {
  memset(f->bytes, 0x11, sizeof f->bytes);
  ucxx_status_t status =
      ucxx_rma_get(f->remote[which].rkey, f->bytes, length, offset, params, &f->out.request);
  const size_t got = status < 0 ? 0 : length;
  if (status >= 0) status = duo_finish(&f->duo, status, &f->out.request);
  CHECK(memcmp(f->bytes, f->remote[which].bytes + (got > 0 ? offset : 0), got) == 0);
  for (size_t at = got; at < sizeof f->bytes; at++) CHECK_EQ(f->bytes[at], 0x11);
  return status;
}

static ucxx_status_t get_here(fixture_t *f, enum remote which, const void *params) {
  return get_range(f, which, 24, AT, params);
}

/* Adds one with this key. After a failure the result stays unchanged. */
static ucxx_status_t add_by(fixture_t *f, ucxx_rkey_t *rkey, enum remote which, uint64_t offset,
                            const void *params, ucxx_request_t **request) {
  uint64_t before = 0x1111, was = 0, is = 0;
  memcpy(&was, f->remote[which].bytes + AT, 8);
  ucxx_status_t status =
      ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, &before, offset, params, request);
  const int refused = status < 0;
  if (!refused) status = duo_finish(&f->duo, status, request);
  if (status != UCXX_OK) {
    CHECK_EQ(before, 0x1111);
    return status;
  }
  memcpy(&is, f->remote[which].bytes + AT, 8);
  CHECK_EQ(before, was);
  CHECK_EQ(is, was + 1);
  fill_remote(f, which);
  return status;
}

static ucxx_status_t add(fixture_t *f, enum remote which, uint64_t offset, const void *params) {
  return add_by(f, f->remote[which].rkey, which, offset, params, &f->out.request);
}

static ucxx_status_t add_there(fixture_t *f, enum remote which, const void *params) {
  return add(f, which, AT, params);
}

static ucxx_status_t atomic_of(fixture_t *f, enum remote which, int32_t op, size_t size) {
  uint64_t before[2] = {7, 7}, operand[2] = {1, 1};
  ucxx_status_t status = ucxx_rma_atomic(f->remote[which].rkey, op, size, operand, operand, before,
                                         AT, NULL, &f->out.request);
  CHECK(before[0] == 7 && before[1] == 7);
  return status;
}

/* With a key that ucxx_memory_pack did not make: the owner of the memory checks it. */
static ucxx_status_t add_forged(fixture_t *f, size_t at, size_t length, uint64_t number,
                                uint64_t offset) {
  packed_t key = forge(f, at, length, number);
  ucxx_rkey_t *rkey = NULL;
  ucxx_request_t *request = NULL;
  void *local = NULL;
  CHECK_OK(ucxx_rkey_unpack(f->endpoint, key.bytes, key.length, &rkey));
  CHECK_STATUS(ucxx_rkey_pointer(rkey, &local), UCXX_ERR_UNREACHABLE);
  ucxx_status_t status = add_by(f, rkey, REGISTERED, offset, NULL, &request);
  char said[256];
  snprintf(said, sizeof said, "%s", ucxx_last_error_message());
  ucxx_rkey_destroy(rkey);
  CHECK(strcmp(said, ucxx_last_error_message()) == 0);
  return status;
}

/* The address must be aligned, not the offset. */
static ucxx_status_t add_at_odd_base(fixture_t *f, uint64_t offset) {
  uint64_t words[4] = {0};
  uint8_t key[LONGEST_KEY];
  ucxx_memory_t *memory = NULL;
  ucxx_rkey_t *rkey = NULL;
  CHECK_OK(ucxx_memory_register(f->context, (uint8_t *)words + 4, 24, UCXX_MEMORY_HOST, &memory));
  size_t length = pack(memory, key);
  CHECK_OK(ucxx_rkey_unpack(f->endpoint, key, length, &rkey));
  ucxx_status_t status =
      ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, NULL, offset, NULL, &f->out.request);
  if (status >= 0) status = duo_finish(&f->duo, status, &f->out.request);
  CHECK(words[0] == 0 && words[1] == (status == UCXX_OK) && words[2] == 0 && words[3] == 0);
  ucxx_rkey_destroy(rkey);
  ucxx_memory_destroy(memory);
  return status;
}

static ucxx_status_t put_memory_of_other(fixture_t *f, enum remote which) {
  ucxx_memory_t *memory = NULL;
  const ucxx_op_params_t *params = op_memory_of_other(f, &memory);
  ucxx_status_t status = put_there(f, which, params);
  ucxx_memory_destroy(memory);
  return status;
}

#define TRIES(kind, WHICH)                                                   \
  static ucxx_status_t try_put_##kind(fixture_t *f, const void *params) {    \
    return put_there(f, WHICH, params);                                      \
  }                                                                          \
  static ucxx_status_t try_get_##kind(fixture_t *f, const void *params) {    \
    return get_here(f, WHICH, params);                                       \
  }                                                                          \
  static ucxx_status_t try_atomic_##kind(fixture_t *f, const void *params) { \
    return add_there(f, WHICH, params);                                      \
  }
TRIES(registered, REGISTERED)
TRIES(allocated, ALLOCATED)

#define BAD_INPUT_ROWS "bad_input_memory.inc"
#define BAD_INPUT_TABLE bad_input_memory
#include "bad_input_table.h"
