/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Multi-buffer transfer in tests: frames whose contents identify them, and the header's bytes. */
#ifndef UCXX_RS_TEST_MULTI_H
#define UCXX_RS_TEST_MULTI_H
#include "counting_allocator.h"

enum { HEADER_FRAMES = 100, HEADER_BYTES = 1209, MOST_FRAMES = 300 };

typedef struct frames {
  size_t count;
  ucxx_buffer_t list[MOST_FRAMES];
} frames_t;

static inline uint64_t frame_seed(uint64_t seed, size_t index) {
  return test_mix(seed * 1000 + index);
}

static inline void frames_make(frames_t *frames, size_t count, const size_t *lengths,
                               uint64_t seed) {
  memset(frames, 0, sizeof *frames);
  frames->count = count;
  for (size_t at = 0; at < count; at++) {
    frames->list[at].length = lengths[at];
    frames->list[at].data = lengths[at] == 0 ? NULL : test_alloc(lengths[at]);
    test_fill(frames->list[at].data, lengths[at], frame_seed(seed, at));
  }
}

static inline void frames_free(frames_t *frames) {
  for (size_t at = 0; at < frames->count; at++) free(frames->list[at].data);
}

/* Checks that the received buffers have the contents made from this seed. */
static inline void frames_check(const ucxx_buffers_t *buffers, size_t count, const size_t *lengths,
                                uint64_t seed) {
  CHECK_EQ(ucxx_buffers_count(buffers), count);
  for (size_t at = 0; at < count; at++) {
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_buffers_get(buffers, at, &buffer));
    CHECK_EQ(buffer.length, lengths[at]);
    CHECK((buffer.data == NULL) == (lengths[at] == 0));
    CHECK_EQ(buffer.memory_type, UCXX_MEMORY_HOST);
    CHECK_CONTENT(buffer.data, lengths[at], frame_seed(seed, at));
  }
}

/* Writes a header by hand, as UCXX 0.52 lays it out. */
static inline void header_make(uint8_t *header, int next, uint64_t count, const uint64_t *lengths) {
  memset(header, 0, HEADER_BYTES);
  header[0] = (uint8_t)next;
  memcpy(header + 1, &count, 8);
  for (uint64_t at = 0; lengths != NULL && at < count && at < HEADER_FRAMES; at++)
    memcpy(header + 409 + 8 * at, &lengths[at], 8);
}
#endif
