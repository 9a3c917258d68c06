/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_crew.h: the threads of one side. Each has a connection, a context, a worker and endpoints of
 * its own, to a thread of the other side.
 */
#ifndef TOOLS_PERF_CREW_H
#define TOOLS_PERF_CREW_H

#include <pthread.h>

#include "perf_tests.h"

struct crew;

struct lane {
  struct crew *crew;
  unsigned number;
  struct oob oob;
  struct failure failure;
  struct session session;
  struct bench bench;
  pthread_t thread;
};

struct cost {
  double user_s, system_s; /* CPU time of the whole process */
};

struct crew {
  const struct config *config;
  struct test test;
  unsigned size;
  struct lane *lanes;
  void (*run)(struct lane *lane);
  void *arg; /* of `run` */
  struct cost start, cost; /* of this side, in the last round */
  struct failure failure; /* the first one */
  pthread_mutex_t mutex;
  pthread_cond_t all_here;
  unsigned waiting, meetings;
};

/* Returns -1 with the failure of `failure` if there is no memory. */
int crew_make(struct crew *crew, const struct config *config, struct failure *failure);
/* Makes the context of each lane, and runs `run` for it, the first one on this thread. Keeps the
 * first failure. */
void crew_run(struct crew *crew);
/* Closes all connections. */
void crew_free(struct crew *crew);

/* Waits for the other lanes. Returns -1 if one of them has failed. */
int crew_meet(struct lane *lane);
/* Around the counted operations of a round. The first lane measures the CPU time between them. */
int crew_start(struct lane *lane);
int crew_stop(struct lane *lane);

#endif
