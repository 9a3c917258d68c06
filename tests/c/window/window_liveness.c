/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A waiting member checks whether the others live. In some rounds the members have no descriptors
 * left, so the usual check fails; in others their main threads have ended while other threads
 * continue. No member takes a lock from a live holder, loses an operation, or waits without end for
 * a dead one.
 */
#include "window.h"

#include <sys/resource.h>

enum { MEMBERS = 3, WAITERS = MEMBERS - 1, ELEMENTS = 4096, SUMS = 1000, HELD = 1, OTHER = 2 };

static ucxx_worker_params_t worker_params; /* not on the main thread's stack, as that thread ends */
static int starved, without_main;
static win_t win;
static member_t self;
static pthread_t main_thread;
static struct rlimit usual;

/* How many members have reached a point, or how far the holder is. */
static struct marks {
  uint64_t opened, begun, alone, shared, asked, free, refused, added, seen, last, told, over;
} *marks;

static void starve(void) {
  struct rlimit none;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  none = usual;
  none.rlim_cur = 0;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  CHECK(dup(STDERR_FILENO) < 0 && errno == EMFILE);
}

static void lock(int32_t type, uint32_t target) {
  CHECK_OK(ucxx_window_lock(win.window, type, target, 0));
}
static void unlock(uint32_t target) { CHECK_OK(ucxx_window_unlock(win.window, target)); }

/* Waits long enough to check whether the holder lives, which it does. */
static void wait_in_vain(int32_t type, uint32_t target) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  params.timeout_ns = 150 * MILLISECOND;
  CHECK_STATUS(ucxx_window_lock_nb(win.window, type, target, 0, &params, &request),
               UCXX_INPROGRESS);
  /* Not by a wait, which may need a descriptor to sleep on. */
  while (ucxx_request_status(request) == UCXX_INPROGRESS) {
    if (worker_params.progress_mode == UCXX_PROGRESS_MANUAL) progress(self.worker);
    sched_yield();
  }
  CHECK_STATUS(ucxx_request_status(request), UCXX_ERR_TIMED_OUT);
  ucxx_request_destroy(request);
}

static void locks(uint32_t rank) {
  if (rank == 0) {
    lock(UCXX_LOCK_EXCLUSIVE, HELD);
    mark(&marks->alone, 1);
    await_mark(&marks->asked, WAITERS);
    unlock(HELD);
    lock(UCXX_LOCK_SHARED, HELD);
    mark(&marks->shared, 1);
    await_mark(&marks->asked, 2 * WAITERS);
    unlock(HELD);
  } else {
    await_mark(&marks->alone, 1);
    wait_in_vain(rank == 1 ? UCXX_LOCK_EXCLUSIVE : UCXX_LOCK_SHARED, HELD);
    __atomic_add_fetch(&marks->asked, 1, __ATOMIC_SEQ_CST);
    await_mark(&marks->shared, 1);
    wait_in_vain(UCXX_LOCK_EXCLUSIVE, HELD);
    __atomic_add_fetch(&marks->asked, 1, __ATOMIC_SEQ_CST);
    lock(UCXX_LOCK_EXCLUSIVE, HELD);
    unlock(HELD);
  }
}

/* Rank 1 waits in a fence for a member that is busy elsewhere. */
static void fences(uint32_t rank) {
  if (rank == 2) {
    lock(UCXX_LOCK_EXCLUSIVE, OTHER);
    mark(&marks->free, 1);
    await_mark(&marks->refused, 1);
    unlock(OTHER);
  } else if (rank == 0) {
    await_mark(&marks->free, 1);
    wait_in_vain(UCXX_LOCK_EXCLUSIVE, OTHER);
    mark(&marks->refused, 1);
  }
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
}

static void sums(uint32_t rank) {
  static int64_t ones[ELEMENTS];
  const ucxx_layout_t layout = contiguous(UCXX_TYPE_INT64, ELEMENTS);
  for (int at = 0; at < ELEMENTS; at++) ones[at] = 1;
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (int sum = 0; sum < SUMS; sum++)
    CHECK_OK(ucxx_window_accumulate(win.window, ones, &layout, 0, 0, &layout, UCXX_REDUCE_SUM));
  CHECK_OK(ucxx_window_unlock_all(win.window));
  meet_at(&marks->added, MEMBERS);
  for (int at = 0; at < ELEMENTS && rank == 0; at++)
    CHECK_EQ(((const int64_t *)win.base)[at], MEMBERS * SUMS);
  meet_at(&marks->seen, MEMBERS);
}

static void death(uint32_t rank) {
  if (rank == 0) {
    lock(UCXX_LOCK_EXCLUSIVE, HELD);
    mark(&marks->last, 1);
    await_mark(&marks->told, WAITERS);
    raise(SIGKILL);
  }
  await_mark(&marks->last, 1);
  __atomic_add_fetch(&marks->told, 1, __ATOMIC_SEQ_CST);
  CHECK_STATUS(
      ucxx_window_lock(win.window, rank == 1 ? UCXX_LOCK_EXCLUSIVE : UCXX_LOCK_SHARED, HELD, 0),
      UCXX_ERR_RMA_POISONED);
}

static void *live(void *none) {
  member_open(&self, &worker_params);
  member_join(&self, 0);
  win_open(&win, &self, UCXX_WINDOW_FLAVOR_ALLOCATE, ELEMENTS * 8, 8, NULL);
  meet_at(&marks->opened, MEMBERS);
  if (self.rank == 0 && without_main) CHECK_EQ(pthread_join(main_thread, NULL), 0);
  if (self.rank != 0 && starved) starve();
  meet_at(&marks->begun, MEMBERS);
  locks(self.rank);
  fences(self.rank);
  sums(self.rank);
  death(self.rank);
  meet_at(&marks->over, WAITERS);
  if (starved) CHECK_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
  ucxx_window_destroy(win.window);
  member_close(&self);
  return none;
}

static void body(member_t *member) {
  pthread_t thread;
  self = *member;
  main_thread = pthread_self();
  if (member->rank == 0 && without_main) {
    CHECK_EQ(pthread_create(&thread, NULL, live, NULL), 0);
    await_mark(&marks->opened, MEMBERS);
    pthread_exit(NULL);
  }
  live(NULL);
}

/* Nobody reaps the dead process before its death has been detected. */
static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = *params;
  /* Only one thread of each process makes calls, so this equals the mode with one thread. */
  if (params->thread_mode == UCXX_THREAD_MULTI && params->progress_mode == UCXX_PROGRESS_MANUAL)
    return;
  for (int which = 1; which <= 3; which++) {
    pid_t pids[MOST_MEMBERS];
    starved = which & 1;
    without_main = which >> 1;
    STEP("%s:%s%s", mode, starved ? " no descriptors" : "", without_main ? " no main thread" : "");
    marks = shared_open(sizeof *marks);
    board_t *board = board_open(MEMBERS, 0);
    members_start(board, pids, body);
    await_mark(&marks->over, WAITERS);
    members_end(board, pids, 0);
    board_close(board);
    munmap(marks, sizeof *marks);
  }
}

int main(void) {
  test_begin("window_liveness");
  in_every_mode(round_in);
  return 0;
}
