/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Groups with liveness checks, and members on other hosts. One member is stopped, which looks like
 * a host that is down or cut off: the others get an error that names its rank. A member that only
 * computes, with manual progress, is not given up.
 */
#include "window.h"

static const ucxx_worker_params_t *worker_params;
static const uint32_t victim = 2;
static const uint64_t patience = 2 * SECOND;

static void join(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  /* Set before connections exist, or after. */
  if (member->rank % 2 == 0) CHECK_OK(ucxx_group_set_liveness(member->group, patience));
  /* Nobody is stopped before all are connected. */
  for (int round = 0; round < 3; round++) CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_group_set_liveness(member->group, patience));
}

/* The launcher stops this process here, and kills it when the others have been notified. */
static void be_silent(const member_t *member) {
  mark(&member->board->count[0], 1);
  for (;;) pause();
}

static void check_told(member_t *member, ucxx_status_t status) {
  CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 2");
  CHECK_STATUS(ucxx_group_barrier(member->group), UCXX_ERR_PEER_FAILED);
  __atomic_add_fetch(&member->board->count[1], 1, __ATOMIC_SEQ_CST);
}

static void in_a_barrier(member_t *member) {
  join(member);
  if (member->rank == victim) be_silent(member);
  check_told(member, ucxx_group_barrier(member->group));
  member_close(member);
}

/* The victim holds the lock on rank 0's part alone, and another member waits for it. */
static void with_a_lock(member_t *member) {
  uint64_t *base = NULL;
  ucxx_window_t *window = NULL;
  join(member);
  CHECK_OK(ucxx_window_allocate(member->group, 64, 8, NULL, (void **)&base, &window));
  if (member->rank == victim) {
    CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0));
    CHECK_OK(ucxx_group_barrier(member->group));
    be_silent(member);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == 1) {
    CHECK_STATUS(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0), UCXX_ERR_RMA_POISONED);
    /* The members that were not involved keep working. */
    uint64_t found = 0;
    CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 3, 0));
    const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
    CHECK_OK(ucxx_window_get(window, &found, &one, 3, 0, &one));
    CHECK_OK(ucxx_window_unlock(window, 3));
  }
  check_told(member, ucxx_group_barrier(member->group));
  /* Nobody leaves the window while another member uses it. */
  meet_at(&member->board->count[2], member->size - 1);
  ucxx_window_destroy(window);
  member_close(member);
}

static void run_and_stop(uint32_t size, void (*body)(member_t *member)) {
  board_t *board = board_open(size, test_seed());
  pid_t pids[MOST_MEMBERS];
  members_start(board, pids, body);
  await_mark(&board->count[0], 1);
  CHECK_EQ(kill(pids[victim], SIGSTOP), 0);
  await_mark(&board->count[1], size - 1);
  CHECK_EQ(kill(pids[victim], SIGKILL), 0);
  members_end(board, pids, (int)victim);
  board_close(board);
}

/* Computes longer than the others' liveness limit: the group's own thread answers for it. */
static void computes(member_t *member) {
  join(member);
  if (member->rank == victim) {
    volatile uint64_t sum = 0;
    for (uint64_t begin = clock_ns(); clock_ns() - begin < 2 * patience;) sum += begin;
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  /* The group has a thread of its own in each mode, so one mode without a progress thread is
   * enough. */
  if (params->progress_mode == UCXX_PROGRESS_MANUAL && params->thread_mode != UCXX_THREAD_SINGLE)
    return;
  STEP("%s: silent while the others wait in a barrier", mode);
  run_and_stop(4, in_a_barrier);
  STEP("%s: silent while it holds a lock", mode);
  run_and_stop(4, with_a_lock);
  if (params->progress_mode == UCXX_PROGRESS_MANUAL) {
    STEP("%s: computes", mode);
    run_members(4, test_seed(), computes);
  }
}

int main(void) {
  test_begin("group_silent");
  in_every_mode(round_in);
  return 0;
}
