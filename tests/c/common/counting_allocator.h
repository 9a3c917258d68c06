/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* An allocator that counts its calls, checks that it gets its own buffers back, and fails on
 * request. */
#ifndef UCXX_RS_TEST_MAKER_H
#define UCXX_RS_TEST_MAKER_H
#include "test_util.h"

typedef struct maker {
  int made, freed, calls;
  size_t length; /* of the last call */
  int fails_at; /* the call that fails, counted from 1 */
  ucxx_status_t fails; /* every call fails with this status */
  int nothing; /* returns OK with NULL */
} maker_t;

/* Precedes each buffer and keeps it aligned. */
typedef union maker_front {
  size_t length;
  uint8_t room[16];
} maker_front_t;

static inline ucxx_status_t maker_allocate(void *arg, size_t length, int32_t memory_type,
                                           int32_t device_id, void **data) {
  maker_t *maker = (maker_t *)arg;
  CHECK(length > 0 && memory_type == UCXX_MEMORY_HOST && device_id == 0);
  maker->length = length;
  if (++maker->calls == maker->fails_at) return UCXX_ERR_NO_MEMORY;
  if (maker->fails != UCXX_OK || maker->nothing) return maker->fails;
  maker_front_t *front = (maker_front_t *)test_alloc(sizeof *front + length);
  front->length = length;
  *data = front + 1;
  maker->made++;
  return UCXX_OK;
}

static inline void maker_deallocate(void *arg, void *data, size_t length, int32_t memory_type,
                                    int32_t device_id) {
  maker_t *maker = (maker_t *)arg;
  CHECK(data != NULL && memory_type == UCXX_MEMORY_HOST && device_id == 0);
  maker_front_t *front = (maker_front_t *)data - 1;
  CHECK_EQ(length, front->length);
  free(front);
  __atomic_fetch_add(&maker->freed, 1, __ATOMIC_RELAXED);
}

static inline ucxx_allocator_t maker_allocator(maker_t *maker) {
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.allocate = maker_allocate;
  allocator.deallocate = maker_deallocate;
  allocator.arg = maker;
  return allocator;
}
#endif
