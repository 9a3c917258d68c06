/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Windows of one group used by several threads at the same time, in an order that differs from
 * process to process; and one window used by all threads. All results are right. */
#include "window.h"

enum { MEMBERS = 3, THREADS = 3, TURNS = 40, ADDS = 2000 };

static const ucxx_worker_params_t *worker_params;

typedef struct job {
  win_t win;
  member_t *member;
  int number;
} job_t;

static void *fences_of_one(void *arg) {
  job_t *job = arg;
  win_t *win = &job->win;
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    uint64_t value = turn * 100 + win->rank, found;
    CHECK_OK(ucxx_window_fence(win->window, 0));
    for (uint32_t target = 0; target < win->ranks; target++)
      CHECK_OK(win_put64(win, target, 8 * win->rank, &value));
    CHECK_OK(ucxx_window_fence(win->window, 0));
    for (uint32_t from = 0; from < win->ranks; from++) {
      memcpy(&found, win->base + 8 * from, sizeof found);
      CHECK_EQ(found, turn * 100 + from);
    }
  }
  CHECK_OK(ucxx_window_close(win->window));
  return NULL;
}

/* All threads on one window. */
static void *adds(void *arg) {
  win_t *win = arg;
  const uint64_t one = 1;
  uint64_t before = 0, last[MEMBERS] = {0};
  for (int turn = 0; turn < ADDS; turn++) {
    uint32_t target = (uint32_t)turn % win->ranks;
    CHECK_OK(win_fetch64(win, target, 0, UCXX_REDUCE_SUM, &one, &before));
    CHECK_OK(ucxx_window_flush_local(win->window, target));
    CHECK(turn < (int)win->ranks || before > last[target]);
    last[target] = before;
    if (turn % 16 == 0) CHECK_OK(ucxx_window_flush(win->window, target));
  }
  return NULL;
}

static void threads(member_t *member) {
  job_t jobs[THREADS];
  pthread_t ids[THREADS];
  uint64_t counted;
  win_t win;
  member_open(member, worker_params);
  member_join(member, 0);
  for (int round = 0; round < 4; round++) {
    STEP("threads of windows: round %d", round);
    for (int job = 0; job < THREADS; job++) {
      jobs[job].member = member;
      win_open(&jobs[job].win, member, (round + job) % 4, 64, 8, NULL);
    }
    /* The other members begin with another window. */
    for (int job = 0; job < THREADS; job++)
      CHECK_EQ(pthread_create(&ids[job], NULL, fences_of_one,
                              &jobs[(job + (int)member->rank) % THREADS]),
               0);
    for (int job = 0; job < THREADS; job++) CHECK_EQ(pthread_join(ids[job], NULL), 0);
    for (int job = 0; job < THREADS; job++) {
      ucxx_window_destroy(jobs[(job + (int)member->rank) % THREADS].win.window);
      pages_close(&jobs[(job + (int)member->rank) % THREADS].win);
    }
    STEP("threads on one window: round %d", round);
    win_open(&win, member, round, 64, 8, NULL);
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    for (int job = 0; job < THREADS; job++)
      CHECK_EQ(pthread_create(&ids[job], NULL, adds, &win), 0);
    for (int job = 0; job < THREADS; job++) CHECK_EQ(pthread_join(ids[job], NULL), 0);
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_group_barrier(member->group));
    memcpy(&counted, win.base, sizeof counted);
    uint64_t share = ADDS / MEMBERS + (win.rank < ADDS % MEMBERS);
    CHECK_EQ(counted, share * THREADS * win.ranks);
    win_close(&win);
  }
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  if (params->thread_mode != UCXX_THREAD_MULTI) return;
  STEP("%s", mode);
  run_members(MEMBERS, 0, threads);
}

int main(void) {
  test_begin("window_threads");
  in_every_mode(round_in);
  return 0;
}
