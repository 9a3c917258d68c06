/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Functions of the stand-in for the CUDA driver that a driver does not have. */
#ifndef UCXX_RS_TEST_CUDA_DOUBLE_H
#define UCXX_RS_TEST_CUDA_DOUBLE_H
#include <stddef.h>
#include <stdint.h>

/* Counts of live objects. The last four count events: threads that waited for a GPU, copies made,
 * memory freed too early, calls in a context. */
enum {
  DOUBLE_CONTEXTS,
  DOUBLE_STREAMS,
  DOUBLE_EVENTS,
  DOUBLE_BLOCKS,
  DOUBLE_WAITS,
  DOUBLE_COPIES,
  DOUBLE_MISUSES,
  DOUBLE_CALLS,
  DOUBLE_COUNTS
};

long double_count(int what);
/* From the `after`th call on, so many calls of this name return the code. "copy" and "fill" fail
 * while running, with everything behind them. */
void double_fail(const char *call, int after, int times, int code);
/* Everything on the device fails from now on. 0: works again. */
void double_lose(int device, int code);
/* Each piece of work takes up to this time. */
void double_delay(unsigned up_to_ns, uint64_t with_seed);
/* From now on cuPointerGetAttribute reports this device memory as managed, or not. */
void double_manage(uint64_t address, int managed);
/* Copies wait while `hold` is set. */
void double_hold(int hold);
#endif
