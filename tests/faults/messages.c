/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Contents of messages, and of buffers that the library has released. */
#include "actor.h"

uint64_t mix(uint64_t value) {
  value += UINT64_C(0x9e3779b97f4a7c15);
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

enum { NAME_BITS = 40 };

static uint64_t name_of(uint64_t sender, uint64_t sequence) {
  return (sender & 0xffff) << 24 | (sequence & 0xffffff);
}

/* 40 bits identify the message and 24 are a checksum, so that no other 8 bytes pass for a message
 * of this length. */
static uint64_t key_of(uint64_t name, size_t length) {
  return name | mix(name ^ ((uint64_t)length << 20)) << NAME_BITS;
}

void message_fill(void *data, size_t length, uint64_t sender, uint64_t sequence) {
  uint8_t *bytes = data;
  uint64_t key = key_of(name_of(sender, sequence), length);
  for (size_t at = 0; at < length; at += 8) {
    uint64_t word = at == 0 ? key : mix(key + at);
    memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
  }
}

void message_name(const void *data, uint64_t *sender, uint64_t *sequence) {
  uint64_t key = 0;
  memcpy(&key, data, sizeof key);
  *sender = key >> 24 & 0xffff;
  *sequence = key & 0xffffff;
}

bool message_is(const void *data, size_t length, uint64_t sender, uint64_t sequence) {
  uint64_t key = key_of(name_of(sender, sequence), length);
  return memcmp(data, &key, length < sizeof key ? length : sizeof key) == 0;
}

enum verdict message_check(const void *data, size_t length, size_t *where) {
  const uint8_t *bytes = data;
  uint64_t key = 0;
  *where = 0;
  if (length < sizeof key) return length == 0 ? INTACT : MIXED;
  memcpy(&key, bytes, sizeof key);
  if (key != key_of(key & ((UINT64_C(1) << NAME_BITS) - 1), length))
    return scribble_stands(data, length, SCRIBBLE_SENT, where) ? SCRIBBLED : MIXED;
  for (size_t at = 8; at < length; at += 8) {
    uint64_t word = mix(key + at);
    if (memcmp(bytes + at, &word, length - at < 8 ? length - at : 8) != 0) {
      *where = at;
      return MIXED;
    }
  }
  return INTACT;
}

bool scribble_stands(const void *data, size_t length, uint8_t byte, size_t *where) {
  const uint8_t *bytes = data;
  for (size_t at = 0; at < length; at++) {
    if (bytes[at] != byte) {
      *where = at;
      return false;
    }
  }
  return true;
}
