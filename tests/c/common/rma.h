/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Shared by the tests of registered memory. */
#ifndef RMA_H
#define RMA_H

#include "test_util.h"

enum { LONGEST_KEY = 4096 };

static const uint64_t RMA_FEATURES =
    UCXX_FEATURE_TAG | UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC | UCXX_FEATURE_WAKEUP;

static inline size_t pack(const ucxx_memory_t *memory, uint8_t *bytes) {
  size_t needed = 0, length = LONGEST_KEY;
  CHECK_OK(ucxx_memory_pack(memory, NULL, &needed));
  CHECK_OK(ucxx_memory_pack(memory, bytes, &length));
  CHECK(needed == length && length > 0);
  return length;
}

/* Completes a request by waiting alone. */
static inline void done(ucxx_status_t status, ucxx_request_t **request) {
  CHECK_OK(finish(status, request));
}

static inline void flush(ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  done(ucxx_endpoint_flush(endpoint, NULL, &request), &request);
}

static inline void put(ucxx_rkey_t *rkey, const void *data, size_t length, uint64_t offset) {
  ucxx_request_t *request = NULL;
  done(ucxx_rma_put(rkey, data, length, offset, NULL, &request), &request);
}

static inline void get(ucxx_rkey_t *rkey, void *data, size_t length, uint64_t offset) {
  ucxx_request_t *request = NULL;
  done(ucxx_rma_get(rkey, data, length, offset, NULL, &request), &request);
}

/* Returns the previous value. */
static inline uint64_t atomic(ucxx_rkey_t *rkey, int32_t op, size_t size, uint64_t operand,
                              uint64_t compare, uint64_t offset) {
  uint32_t narrow_operand = (uint32_t)operand, narrow_compare = (uint32_t)compare,
           narrow_before = 0;
  uint64_t before = 0;
  ucxx_request_t *request = NULL;
  if (size == 4)
    done(ucxx_rma_atomic(rkey, op, 4, &narrow_operand, &narrow_compare, &narrow_before, offset,
                         NULL, &request),
         &request);
  else
    done(ucxx_rma_atomic(rkey, op, 8, &operand, &compare, &before, offset, NULL, &request),
         &request);
  return size == 4 ? narrow_before : before;
}
#endif
