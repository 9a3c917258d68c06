/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* In steady state windows of one host allocate nothing, in epochs of every kind and their
 * operations. The test counts allocations. */
#include "allocations.h"
#include "window.h"

enum { MEMBERS = 3, LONG = 1 << 20, SIZE = 4096 + LONG, WARM = 50, ROUNDS = 500 };

static win_t win;

/* Every member posts to all and starts all; then a fence, and locks. Some targets wait meanwhile
 * and execute delegated operations; others do not. */
static void one_round(uint64_t round) {
  uint32_t others[MEMBERS - 1], count = 0;
  uint64_t number = round, before = 0;
  static const uint64_t data[LONG / 8];
  ucxx_layout_t words = contiguous(UCXX_TYPE_UINT64, 64),
                many = contiguous(UCXX_TYPE_UINT64, LONG / 8);
  for (uint32_t rank = 0; rank < win.ranks; rank++) {
    if (rank != win.rank) others[count++] = rank;
  }
  CHECK_OK(ucxx_window_post(win.window, others, count, 0));
  CHECK_OK(ucxx_window_start(win.window, others, count, 0));
  for (uint32_t i = 0; i < count; i++) CHECK_OK(win_put64(&win, others[i], 8 * win.rank, &number));
  CHECK_OK(ucxx_window_complete(win.window));
  CHECK_OK(ucxx_window_wait(win.window));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOPRECEDE));
  CHECK_OK(win_put64(&win, others[0], 8 * win.rank, &number));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, others[0], 0));
  CHECK_OK(ucxx_window_accumulate(win.window, data, &words, others[0],
                                  win_disp(&win, others[0], 1024), &words, UCXX_REDUCE_SUM));
  if (round % 16 == 0)
    CHECK_OK(ucxx_window_accumulate(win.window, data, &many, others[0],
                                    win_disp(&win, others[0], 4096), &many, UCXX_REDUCE_SUM));
  CHECK_OK(win_fetch64(&win, others[0], 2048, UCXX_REDUCE_SUM, &number, &before));
  CHECK_OK(ucxx_window_flush(win.window, others[0]));
  CHECK_OK(ucxx_window_unlock(win.window, others[0]));
}

static void member_run(member_t *member, int32_t flavor) {
  const ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  member_open(member, &params);
  member_join(member, 0);
  STEP("the counter works: a new window allocates");
  counting = 1;
  win_open(&win, member, flavor, SIZE, 8, NULL);
  counting = 0;
  CHECK(own_allocations > 0);
  for (uint64_t round = 0; round < WARM; round++) one_round(round);
  STEP("%s: steady state", flavor_name(flavor));
  own_allocations = 0;
  counting = 1;
  for (uint64_t round = 0; round < ROUNDS; round++) one_round(round);
  counting = 0;
  CHECK_EQ(own_allocations, 0);
  win_close(&win);
  member_close(member);
}

static void on_allocated(member_t *member) { member_run(member, UCXX_WINDOW_FLAVOR_ALLOCATE); }
static void on_own(member_t *member) { member_run(member, UCXX_WINDOW_FLAVOR_CREATE); }

int main(void) {
  test_begin("window_alloc");
  run_members(MEMBERS, test_seed(), on_allocated);
  run_members(MEMBERS, test_seed(), on_own);
  return 0;
}
