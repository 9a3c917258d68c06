/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Windows of this library or of an MPI. Each implementation defines the same inline functions, so
 * that a program compiles into the direct calls that its author would write:
 *
 *   WINDOW_NAME                          the name of the implementation in the report
 *   struct world                         the processes, with `rank` and `size`
 *   world_start(argc, argv, options)     reads the options; the side is the rank. MPI's launcher
 *                                        starts the processes, and our first process starts the
 *                                        others. They are pinned to the two CPUs in turn
 *   world_open(world, options)
 *   world_barrier(world)
 *   world_broadcast(world, data, length) from rank 0
 *   world_gather(world, in, length, out) to all
 *   world_look(world)                    makes the progress that is possible, and returns
 *   world_close(world)                   ends with the status of the processes that it started
 *
 *   struct window                        allocated by the library; displacements are in bytes;
 *                                        `base` is this process's part
 *   window_open(world, window, size)
 *   window_create(world, window, base, size)   the same with memory of the program
 *   window_close(window)
 *
 *   struct elements                      a number of bytes or numbers, one after the other
 *   elements_set(elements, kind, count)  ELEMENT_*
 *
 *   window_lock(window, exclusive, target), window_unlock(window, target)
 *   window_lock_all(window), window_unlock_all(window)
 *   window_flush(window, target)
 *   window_fence(window, place)          FENCE_FIRST if nothing precedes it, FENCE_LAST if nothing
 *                                        follows it
 *   window_post(window, other), window_start(window, other), window_complete(window),
 *   window_wait(window)
 *
 *   window_put(window, origin, elements, target, at)
 *   window_get(window, result, elements, target, at)
 *   window_accumulate(window, origin, elements, target, at)             a sum
 *   window_get_accumulate(window, origin, result, elements, target, at) also returns what was there
 *   window_fetch_add(window, origin, result, target, at)                of 8 bytes
 *   window_compare_and_swap(window, origin, compare, result, target, at)
 *
 * Every failure ends the program. */
#ifndef BENCH_WINDOW_H
#define BENCH_WINDOW_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { ELEMENT_BYTE, ELEMENT_INT64, ELEMENT_DOUBLE };
enum { FENCE_BETWEEN, FENCE_FIRST, FENCE_LAST };

#if defined(LINK_MPI)
#include "window_mpi.h"
#elif defined(LINK_UCXX_RS)
#include "window_ucxx_rs.h"
#else
#error "define LINK_MPI or LINK_UCXX_RS"
#endif

#endif
