/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A link whose progress is a thread's: operations are handed to it by delayed submission, and their
 * end is learnt in one of four ways, the completion of the options:
 *
 *   poll       the request is asked again and again, and others are let run in between
 *   wait       the library's own wait
 *   callback   a callback counts, and the last of a batch posts a semaphore
 *   notifier   the library's completion queue
 *
 * Beside what link.h lists, each implementation gives:
 *
 *   threaded_begin(link, options)        after the link is connected
 *   threaded_recv(link, buffer, length, tag, operation, batch, completion)
 *   threaded_send(link, buffer, length, tag, operation, batch, completion)
 *   threaded_collect(link, operations, count, batch, completion)    until the whole batch has ended
 *   threaded_end(link)                   before the link is closed
 */
#ifndef BENCH_LINK_THREADED_H
#define BENCH_LINK_THREADED_H

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#define LINK_THREADED
#include "link.h"

/* What is handed over together. `count` is what is still to end; used with callbacks only. */
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
