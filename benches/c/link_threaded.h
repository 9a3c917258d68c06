/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A link with a progress thread. Operations reach it by delayed submission. A thread learns of
 * their completion in one of four ways, which the options select:
 *
 *   poll       check the request repeatedly, and let other threads run in between
 *   wait       the library's wait
 *   callback   a callback counts, and the last one of a batch posts a semaphore
 *   notifier   the library's completion queue
 *
 * In addition to the functions in link.h, each implementation defines:
 *
 *   threaded_begin(link, options)        call it after the link is connected
 *   threaded_recv(link, buffer, length, tag, operation, batch, completion)
 *   threaded_send(link, buffer, length, tag, operation, batch, completion)
 *   threaded_collect(link, operations, count, batch, completion)    waits for the whole batch
 *   threaded_end(link)                   call it before the link is closed */
#ifndef BENCH_LINK_THREADED_H
#define BENCH_LINK_THREADED_H

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#define LINK_THREADED
#include "link.h"

/* The operations that are submitted together. `count` is the number that have not completed; used
 * only with callbacks. */
struct batch {
  long count;
  sem_t ended;
};

static inline void batch_create(struct batch *batch) {
  if (sem_init(&batch->ended, 0, 0) != 0) die("no semaphore");
}

static inline void batch_begin(struct batch *batch, long count) {
  __atomic_store_n(&batch->count, count, __ATOMIC_RELAXED);
}

static inline void batch_one_ended(struct batch *batch) {
  if (__atomic_sub_fetch(&batch->count, 1, __ATOMIC_ACQ_REL) == 0) sem_post(&batch->ended);
}

static inline void batch_wait(struct batch *batch) {
  while (sem_wait(&batch->ended) != 0)
    if (errno != EINTR) die("cannot wait for a semaphore");
}

/* Zeroed in C, constructed in C++. */
#ifdef __cplusplus
static inline struct operation *new_operations(size_t count) {
  return new struct operation[count]();
}
static inline void delete_operations(struct operation *operations) { delete[] operations; }
#else
static inline struct operation *new_operations(size_t count) {
  struct operation *operations = (struct operation *)calloc(count, sizeof *operations);
  if (operations == NULL) die("no memory");
  return operations;
}
static inline void delete_operations(struct operation *operations) { free(operations); }
#endif

#if defined(LINK_RAW)
#include "threaded_raw.h"
#elif defined(LINK_UCXX_RS)
#include "threaded_ucxx_rs.h"
#else
#include "threaded_ucxx.h"
#endif

#endif
