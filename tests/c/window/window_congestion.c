/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows over messages: a member whose connection's send queue is full still answers requests, and
 * can still send its own. If an answer were lost, its requester would wait without end.
 */
#include "window.h"

enum {
  CROWDING = 0,
  ASKING = 1,
  WORDS = 4096,
  SIZE = WORDS * 8,
  REQUESTS = 28000,
  FULL = 22000,
  GETS = 48,
};

static struct marks {
  uint64_t begun, over;
} *marks;

/* More slow work for the target than a connection's send queue holds: from then on the queue is
 * nearly always full. */
static void crowd(const win_t *win, const win_t *other) {
  static double ones[WORDS];
  static ucxx_request_t *requests[REQUESTS];
  ucxx_layout_t all = contiguous(UCXX_TYPE_DOUBLE, WORDS);
  uint64_t number = 7;
  for (int word = 0; word < WORDS; word++) ones[word] = 1;
  CHECK_OK(ucxx_window_lock(win->window, UCXX_LOCK_SHARED, ASKING, 0));
  for (int at = 0; at < REQUESTS; at++) {
    ucxx_status_t status =
        ucxx_window_raccumulate(win->window, ones, &all, ASKING, win_disp(win, ASKING, 0), &all,
                                UCXX_REDUCE_SUM, NULL, &requests[at]);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    if (at == FULL) mark(&marks->begun, 1);
  }
  STEP("its own requests, behind all that");
  CHECK_OK(ucxx_window_lock(other->window, UCXX_LOCK_EXCLUSIVE, ASKING, 0));
  CHECK_OK(win_put64(other, ASKING, 0, &number));
  CHECK_OK(ucxx_window_unlock(other->window, ASKING));
  for (int at = 0; at < REQUESTS; at++)
    CHECK_OK(finish(requests[at] == NULL ? UCXX_OK : UCXX_INPROGRESS, &requests[at]));
  CHECK_OK(ucxx_window_unlock(win->window, ASKING));
  mark(&marks->over, 1);
}

/* Many replies at once; every other time preceded by that of a lock. */
static void ask(const win_t *other) {
  uint64_t turns = 0, numbers[GETS], one = 1, before = 0;
  await_mark(&marks->begun, 1);
  while (look(&marks->over) == 0) {
    CHECK_OK(ucxx_window_lock(other->window, UCXX_LOCK_SHARED, CROWDING,
                              turns % 2 == 0 ? UCXX_ASSERT_NOCHECK : 0));
    for (int at = 0; at < GETS; at++) {
      numbers[at] = UINT64_MAX;
      CHECK_OK(win_get64(other, CROWDING, 8, &numbers[at]));
    }
    CHECK_OK(win_fetch64(other, CROWDING, 8, UCXX_REDUCE_SUM, &one, &before));
    CHECK_OK(ucxx_window_unlock(other->window, CROWDING));
    for (int at = 0; at < GETS; at++) CHECK_EQ(numbers[at], turns);
    CHECK_EQ(before, turns++);
  }
}

static void body(member_t *member) {
  const ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  win_t win, other;
  member_open(member, &params);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, SIZE, 8, NULL);
  win_open(&other, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, NULL);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == CROWDING)
    crowd(&win, &other);
  else
    ask(&other);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == ASKING) {
    uint64_t number;
    memcpy(&number, other.base, 8);
    CHECK_EQ(number, 7);
    for (int word = 0; word < WORDS; word++) {
      double sum;
      memcpy(&sum, win.base + 8 * word, 8);
      CHECK(sum == REQUESTS);
    }
  }
  win_close(&other);
  win_close(&win);
  member_close(member);
}

int main(void) {
  test_begin("window_congestion");
  marks = shared_open(sizeof *marks);
  run_members(2, test_seed(), body);
  munmap(marks, sizeof *marks);
  return 0;
}
