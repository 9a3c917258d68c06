/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Registered memory, both at its owner and at the users of its keys. It begins with numbers that
 * users add to. Then come messages that only the owner writes, so that a get can be checked for
 * integrity. Then comes one area for each user, so that puts do not overlap.
 */
#include "actor.h"

enum { MEMORIES = 16, KEYS = 32, LONGEST_KEY = 2048, MOST_ADDED = 1 << 16 };

typedef struct memory {
  uint64_t id; /* the harness's number; 0 in an unused slot */
  ucxx_memory_t *memory;
  uint8_t *bytes;
  /* registered memory: stays mapped until the round is over, as late puts and gets may still
   * arrive */
  void *owned;
} memory_t;

/* Additions to one number by one key: each must find another old value, or an addition was lost. */
struct tally {
  uint64_t asked, done;
  uint8_t found[MOST_ADDED / 8];
};

typedef struct key {
  uint64_t id;
  ucxx_rkey_t *rkey;
  tally_t own, shared;
} rkey_t;

static memory_t memories[MEMORIES];
static rkey_t keys[KEYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static memory_t *memory_of(const command_t *command) {
  uint64_t id = number_of(command, "memory", 0);
  for (size_t at = 0; at < MEMORIES; at++)
    if (memories[at].id == id) return &memories[at];
  give_up("no such memory");
}

static rkey_t *key_of(const command_t *command) {
  uint64_t id = number_of(command, "key", 0);
  for (size_t at = 0; at < KEYS; at++)
    if (keys[at].id == id) return &keys[at];
  give_up("no such key");
}

/* ------------------------------------------------------------------ the owner */

static void expose(const command_t *command) {
  memory_t *memory = NULL;
  for (size_t at = 0; at < MEMORIES && memory == NULL; at++)
    if (memories[at].id == 0) memory = &memories[at];
  if (memory == NULL) give_up("too much memory");
  size_t length = (size_t)number_of(command, "length", 0),
         size = (size_t)number_of(command, "size", 8), key_length = LONGEST_KEY;
  uint8_t key[LONGEST_KEY];
  char hex[2 * LONGEST_KEY + 1] = "";
  ucxx_status_t status;
  if (word_is(text_of(command, "how", "allocated"), "allocated")) {
    status = ucxx_memory_allocate(context, length, UCXX_MEMORY_HOST, &memory->memory);
  } else {
    memory->owned = calloc(1, length);
    if (memory->owned == NULL) give_up("no memory");
    status =
        ucxx_memory_register(context, memory->owned, length, UCXX_MEMORY_HOST, &memory->memory);
  }
  if (status == UCXX_OK) status = ucxx_memory_pack(memory->memory, key, &key_length);
  if (status != UCXX_OK) {
    answer(command, status, " ");
    return;
  }
  memory->id = number_of(command, "memory", 0);
  memory->bytes = ucxx_memory_base(memory->memory);
  uint64_t at = number_of(command, "at", 0);
  for (uint64_t number = 0; number < number_of(command, "count", 0); number++)
    message_fill(memory->bytes + at + number * size, size, number_of(command, "sender", 0), number);
  for (size_t byte = 0; byte < key_length; byte++) snprintf(hex + 2 * byte, 3, "%02x", key[byte]);
  answer(command, UCXX_OK, "bytes=%s", hex);
}

/* Registered memory keeps its bytes. */
static void unregister(const command_t *command) {
  memory_t *memory = memory_of(command);
  ucxx_memory_destroy(memory->memory);
  memory->memory = NULL;
  answer(command, UCXX_OK, " ");
}

static void tell_number(const command_t *command) {
  const memory_t *memory = memory_of(command);
  answer(command, UCXX_OK, "value=%" PRIu64,
         __atomic_load_n((uint64_t *)(void *)(memory->bytes + number_of(command, "at", 0)),
                         __ATOMIC_SEQ_CST));
}

/* Counts the messages put here by a user that are intact, blank or something else. */
static void audit(const command_t *command) {
  const memory_t *memory = memory_of(command);
  size_t size = (size_t)number_of(command, "size", 8), intact = 0, blank = 0, where = 0;
  uint64_t count = number_of(command, "count", 0), at = number_of(command, "at", 0);
  for (uint64_t number = 0; number < count; number++) {
    const uint8_t *place = memory->bytes + at + number * size;
    if (scribble_stands(place, size, 0, &where))
      blank++;
    else
      intact += message_check(place, size, &where) == INTACT;
  }
  answer(command, UCXX_OK, "intact=%zu blank=%zu other=%zu", intact, blank,
         (size_t)count - intact - blank);
}

/* ------------------------------------------------------------------ users of a key */

static void unpack(const command_t *command) {
  rkey_t *key = NULL;
  for (size_t at = 0; at < KEYS && key == NULL; at++)
    if (keys[at].id == 0) key = &keys[at];
  if (key == NULL) give_up("too many keys");
  const char *hex = text_of(command, "bytes", "");
  uint8_t bytes[LONGEST_KEY];
  size_t length = strlen(hex) / 2;
  void *local = NULL;
  for (size_t at = 0; at < length && at < sizeof bytes; at++) {
    unsigned byte = 0;
    if (sscanf(hex + 2 * at, "%2x", &byte) != 1) give_up("bad hexadecimal key");
    bytes[at] = (uint8_t)byte;
  }
  ucxx_status_t status = ucxx_rkey_unpack(endpoint_of(command, "ep"), bytes, length, &key->rkey);
  if (status == UCXX_OK) key->id = number_of(command, "key", 0);
  answer(command, status, "seen=%d",
         status == UCXX_OK && ucxx_rkey_pointer(key->rkey, &local) == UCXX_OK);
}

static void added(const command_t *command) {
  const rkey_t *key = key_of(command);
  pthread_mutex_lock(&lock);
  uint64_t own_asked = key->own.asked, own_done = key->own.done, shared_asked = key->shared.asked,
           shared_done = key->shared.done;
  pthread_mutex_unlock(&lock);
  answer(command, UCXX_OK,
         "own_asked=%" PRIu64 " own_done=%" PRIu64 " shared_asked=%" PRIu64 " shared_done=%" PRIu64,
         own_asked, own_done, shared_asked, shared_done);
}

static size_t lose_keys(void) {
  size_t lost = 0;
  for (size_t at = 0; at < KEYS; at++) {
    lost += keys[at].rkey != NULL;
    ucxx_rkey_destroy(keys[at].rkey);
    keys[at].rkey = NULL;
  }
  return lost;
}

/* ------------------------------------------------------------------ operations */

bool rma_is(const char *verb) {
  return word_is(verb, "put") || word_is(verb, "get") || word_is(verb, "add");
}

/* Every other addition uses the number that all users share. */
tally_t *rma_asks(const command_t *command, uint64_t index) {
  rkey_t *key = key_of(command);
  tally_t *tally = index % 2 == 0 ? &key->own : &key->shared;
  pthread_mutex_lock(&lock);
  tally->asked++;
  pthread_mutex_unlock(&lock);
  return tally;
}

void rma_refused(tally_t *tally) {
  pthread_mutex_lock(&lock);
  tally->asked--;
  pthread_mutex_unlock(&lock);
}

void rma_added(tally_t *tally, const void *result) {
  uint64_t before;
  memcpy(&before, result, sizeof before);
  pthread_mutex_lock(&lock);
  tally->done++;
  bool possible = before < MOST_ADDED,
       again = possible && (tally->found[before / 8] >> before % 8 & 1) != 0;
  if (possible) tally->found[before / 8] |= (uint8_t)(1 << before % 8);
  pthread_mutex_unlock(&lock);
  if (!possible || again) violation("integrity", "added_to=%" PRIu64 " again=%d", before, again);
}

ucxx_status_t rma_submit(const command_t *command, void *data, size_t length, uint64_t index,
                         const ucxx_op_params_t *params, ucxx_request_t **request) {
  static const uint64_t one = 1;
  ucxx_rkey_t *rkey = key_of(command)->rkey;
  if (word_is(command->verb, "add"))
    return ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, sizeof one, &one, NULL, data,
                           index % 2 == 0 ? number_of(command, "number", 0) : 0, params, request);
  uint64_t place = number_of(command, "at", 0) + index * length;
  return word_is(command->verb, "put") ? ucxx_rma_put(rkey, data, length, place, params, request)
                                       : ucxx_rma_get(rkey, data, length, place, params, request);
}

bool command_rma(const command_t *command) {
  if (word_is(command->verb, "expose"))
    expose(command);
  else if (word_is(command->verb, "unregister"))
    unregister(command);
  else if (word_is(command->verb, "number"))
    tell_number(command);
  else if (word_is(command->verb, "audit"))
    audit(command);
  else if (word_is(command->verb, "unpack"))
    unpack(command);
  else if (word_is(command->verb, "added"))
    added(command);
  else if (word_is(command->verb, "lose"))
    answer(command, UCXX_OK, "lost=%zu", lose_keys());
  else
    return false;
  return true;
}

/* ------------------------------------------------------------------ the end of a round, and of the
 * worker */

void rma_forget(void) {
  lose_keys();
  memset(keys, 0, sizeof keys);
  for (size_t at = 0; at < MEMORIES; at++) {
    ucxx_memory_destroy(memories[at].memory);
    free(memories[at].owned);
    memories[at] = (memory_t){0};
  }
}
