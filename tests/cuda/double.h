/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* What the stand-in for the CUDA driver does for tests beside what a driver does. */
#ifndef UCXX_RS_TEST_CUDA_DOUBLE_H
#define UCXX_RS_TEST_CUDA_DOUBLE_H
#include <stddef.h>
#include <stdint.h>

/* Alive, but for the last four: threads that waited for a GPU, copies that were made, memory that
 * was freed too early, calls in a context. */
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
/* From the `after`th on, so many calls of this name return the code; "copy" and "fill" fail in
 * their course, with all that is behind them. */
void double_fail(const char *call, int after, int times, int code);
/* All that a device does fails from now on. 0: as it was. */
void double_lose(int device, int code);
/* Each piece of work takes up to so long. */
void double_delay(unsigned up_to_ns, uint64_t with_seed);
/* To cuPointerGetAttribute memory of a device is managed memory from now on, or is not. */
void double_manage(uint64_t address, int managed);
/* Copies wait. */
void double_hold(int hold);
#endif
