/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Registered memory that is partly read-only: its key allows gets only, and no process is ended by
 * a signal. */
#include "rma.h"

#include <sys/mman.h>

enum { PAGE = 65536, LENGTH = 2 * PAGE };

static void key_to(duo_t *duo, void *base, int may_write) {
  ucxx_memory_t *memory = NULL;
  ucxx_rkey_t *rkey = NULL;
  ucxx_request_t *request = NULL;
  uint8_t key[LONGEST_KEY], data[8] = {0};
  uint64_t operand = 1;
  CHECK_OK(ucxx_memory_register(duo->context, base, LENGTH, UCXX_MEMORY_HOST, &memory));
  size_t length = pack(memory, key);
  CHECK_OK(ucxx_rkey_unpack(duo->to_right, key, length, &rkey));
  CHECK_OK(duo_finish(duo, ucxx_rma_get(rkey, data, sizeof data, PAGE, NULL, &request), &request));
  CHECK_EQ(data[0], 7);
  ucxx_status_t expected = may_write ? UCXX_OK : UCXX_ERR_INVALID_ADDR;
  CHECK_STATUS(duo_finish(duo, ucxx_rma_put(rkey, data, sizeof data, 0, NULL, &request), &request),
               expected);
  CHECK_STATUS(
      duo_finish(duo,
                 ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &operand, NULL, NULL, 0, NULL, &request),
                 &request),
      expected);
  CHECK_OK(duo_finish(duo, ucxx_endpoint_flush(duo->to_right, NULL, &request), &request));
  CHECK_EQ(((const uint8_t *)base)[0], may_write ? 8 : 7);
  ucxx_rkey_destroy(rkey);
  ucxx_memory_destroy(memory);
}

int main(void) {
  duo_t duo;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  test_begin("rma_read_only");
  params.features = RMA_FEATURES;
  duo_open(&duo, &params);
  uint8_t *base = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(base != MAP_FAILED);
  memset(base, 7, LENGTH);
  STEP("partly read-only");
  CHECK(mprotect(base, PAGE, PROT_READ) == 0);
  key_to(&duo, base, 0);
  STEP("writable");
  CHECK(mprotect(base, PAGE, PROT_READ | PROT_WRITE) == 0);
  key_to(&duo, base, 1);
  duo_close(&duo);
  munmap(base, LENGTH);
  return 0;
}
