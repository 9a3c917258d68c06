/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _XOPEN_SOURCE 700
#include "perf_crew.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "perf_ways.h"

int crew_make(struct crew *crew, const struct config *config, struct failure *failure) {
  memset(crew, 0, sizeof *crew);
  crew->config = config;
  crew->size = config->plan.threads;
  crew->lanes = calloc(crew->size, sizeof *crew->lanes);
  pthread_mutex_init(&crew->mutex, NULL);
  pthread_cond_init(&crew->all_here, NULL);
  if (crew->lanes == NULL) return fail(failure, "no memory for %u threads", crew->size);
  for (unsigned i = 0; i < crew->size; i++) {
    struct lane *lane = &crew->lanes[i];
    lane->crew = crew;
    lane->number = i;
    lane->oob.fd = -1;
    lane->bench.session = &lane->session;
    lane->bench.plan = &config->plan;
  }
  return 0;
}

/* The others must not wait for a lane that has failed. */
static void note_failure(struct lane *lane) {
  struct crew *crew = lane->crew;
  if (!failed(&lane->failure)) return;
  pthread_mutex_lock(&crew->mutex);
  fail(&crew->failure, "%s", lane->failure.text);
  pthread_cond_broadcast(&crew->all_here);
  pthread_mutex_unlock(&crew->mutex);
}

static void *run_lane(void *arg) {
  struct lane *lane = arg;
  lane->crew->run(lane);
  note_failure(lane);
  return NULL;
}

/* Before there are threads, as one that allocates meanwhile could damage the heap: see "A context
 * is created while other threads allocate or free" in docs/known-issues.md. */
static void create_contexts(struct crew *crew) {
  for (unsigned i = 0; i < crew->size; i++) {
    struct lane *lane = &crew->lanes[i];
    session_init(&lane->session, crew->config, &crew->config->drive, &lane->oob, &lane->failure);
    session_create_context(&lane->session, crew->test.way->features | UCXX_FEATURE_TAG);
  }
}

void crew_run(struct crew *crew) {
  unsigned started = 1;
  create_contexts(crew);
  for (; started < crew->size; started++) {
    struct lane *lane = &crew->lanes[started];
    if (pthread_create(&lane->thread, NULL, run_lane, lane) == 0) continue;
    fail(&lane->failure, "there is no thread for each of --threads %u", crew->size);
    oob_send_failure(&lane->oob, &lane->failure);
    note_failure(lane);
    break;
  }
  run_lane(&crew->lanes[0]);
  for (unsigned i = 1; i < started; i++) pthread_join(crew->lanes[i].thread, NULL);
  for (unsigned i = started; i < crew->size; i++) session_close(&crew->lanes[i].session);
}

void crew_free(struct crew *crew) {
  for (unsigned i = 0; crew->lanes != NULL && i < crew->size; i++) oob_close(&crew->lanes[i].oob);
  free(crew->lanes);
  pthread_cond_destroy(&crew->all_here);
  pthread_mutex_destroy(&crew->mutex);
}

/* The other side may need this lane's progress in the meantime. */
static void wait_a_moment(struct lane *lane) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)NS_PER_MS;
  if (until.tv_nsec >= (long)NS_PER_SECOND) {
    until.tv_nsec -= (long)NS_PER_SECOND;
    until.tv_sec++;
  }
  pthread_cond_timedwait(&lane->crew->all_here, &lane->crew->mutex, &until);
  if (!lane->session.manual || lane->session.worker == NULL) return;
  pthread_mutex_unlock(&lane->crew->mutex);
  ucxx_worker_progress(lane->session.worker, NULL);
  pthread_mutex_lock(&lane->crew->mutex);
}

int crew_meet(struct lane *lane) {
  struct crew *crew = lane->crew;
  if (crew->size == 1) return 0;
  pthread_mutex_lock(&crew->mutex);
  unsigned meeting = crew->meetings;
  if (++crew->waiting == crew->size) {
    crew->waiting = 0;
    crew->meetings++;
    pthread_cond_broadcast(&crew->all_here);
  }
  while (meeting == crew->meetings && !failed(&crew->failure) && !stopped()) wait_a_moment(lane);
  bool met = meeting != crew->meetings;
  pthread_mutex_unlock(&crew->mutex);
  if (met) return 0;
  return fail(&lane->failure, stopped() ? "interrupted" : "another thread has failed");
}

static struct cost cost_so_far(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (struct cost){(double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
                       (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6};
}

int crew_start(struct lane *lane) {
  if (crew_meet(lane) != 0) return -1;
  if (lane->number == 0) lane->crew->start = cost_so_far();
  return 0;
}

int crew_stop(struct lane *lane) {
  struct crew *crew = lane->crew;
  if (crew_meet(lane) != 0) return -1;
  if (lane->number != 0) return 0;
  struct cost now = cost_so_far();
  crew->cost.user_s = now.user_s - crew->start.user_s;
  crew->cost.system_s = now.system_s - crew->start.system_s;
  return 0;
}
