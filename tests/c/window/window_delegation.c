/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Short operations on a target's own memory, while the target waits in the library, where it may
 * execute them itself, and while it does something else. Each is done exactly once and in order,
 * and writes nothing else. A death on either side only affects the operations involved.
 */
#include "window.h"
#include "window_model.h"

enum {
  MEMBERS = 3,
  TARGET = 0,
  REGION = 32 << 10,
  SIZE = 16 + MEMBERS * REGION,
  ROUNDS = 12,
  OPERATIONS = 150,
};

static const ucxx_worker_params_t *worker_params;
static win_t win;

static struct marks {
  uint64_t opened, begun, over, ready, dead, told, ended;
} *marks;

static void member_begin(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_CREATE, SIZE, 1, NULL);
  meet_at(&marks->opened, MEMBERS);
}

/* ------------------------------------------------------------------ each operation is done once */

static uint64_t added; /* by this member, to the sum that all add to */

static void add_to_sum(uint64_t value) {
  uint64_t before = 0;
  CHECK_OK(win_fetch64(&win, TARGET, 0, UCXX_REDUCE_SUM, &value, &before));
  CHECK_OK(ucxx_window_flush(win.window, TARGET));
  added += value;
}

/* `own` is a copy of this member's part of the target's memory. */
static void one_operation(dice_t *dice, uint8_t *own) {
  static const size_t lengths[] = {1,  2,   3,    4,    7,    8,    16,    24,
                                   25, 100, 4096, 8184, 8192, 8193, 20000, REGION};
  static uint8_t data[REGION], back[REGION];
  size_t length = lengths[roll(dice, sizeof lengths / sizeof *lengths)],
         at = (size_t)roll(dice, REGION - length + 1);
  const uint64_t whole = length / 8, begin = 16 + win.rank * (uint64_t)REGION;
  ucxx_layout_t bytes = contiguous(UCXX_TYPE_BYTE, length),
                words = contiguous(UCXX_TYPE_UINT64, whole);
  switch (roll(dice, 6)) {
  case 0:
    test_fill(data, length, dice->state);
    CHECK_OK(ucxx_window_put(win.window, data, &bytes, TARGET, (int64_t)(begin + at), &bytes));
    memcpy(own + at, data, length);
    break;
  case 1:
    CHECK_OK(ucxx_window_get(win.window, back, &bytes, TARGET, (int64_t)(begin + at), &bytes));
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_EQ(memcmp(back, own + at, length), 0);
    break;
  case 2:
  case 3:
    at -= at % 8;
    test_fill(data, 8 * whole, dice->state);
    if (roll(dice, 2) == 0) {
      CHECK_OK(ucxx_window_accumulate(win.window, data, &words, TARGET, (int64_t)(begin + at),
                                      &words, UCXX_REDUCE_SUM));
    } else {
      CHECK_OK(ucxx_window_get_accumulate(win.window, data, &words, back, &words, TARGET,
                                          (int64_t)(begin + at), &words, UCXX_REDUCE_SUM));
      CHECK_OK(ucxx_window_flush(win.window, TARGET));
      CHECK_EQ(memcmp(back, own + at, 8 * whole), 0);
    }
    for (uint64_t word = 0; word < whole; word++) {
      uint64_t here, there;
      memcpy(&here, data + 8 * word, 8);
      memcpy(&there, own + at + 8 * word, 8);
      there += here;
      memcpy(own + at + 8 * word, &there, 8);
    }
    break;
  case 4: {
    uint64_t expected, found = 0, value = test_mix(dice->state);
    int fits = roll(dice, 2) == 0;
    at = (size_t)roll(dice, REGION / 8) * 8;
    memcpy(&expected, own + at, 8);
    const uint64_t compare = fits ? expected : ~expected;
    CHECK_OK(ucxx_window_compare_and_swap(win.window, &value, &compare, &found, UCXX_TYPE_UINT64,
                                          TARGET, (int64_t)(begin + at)));
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_EQ(found, expected);
    if (fits) memcpy(own + at, &value, 8);
    break;
  }
  default: add_to_sum(1 + roll(dice, 1000));
  }
}

/* The target waits here for the others, in ways that execute delegated operations or do not. */
static void wait_for_others(const member_t *member, uint64_t round) {
  const uint64_t all = (round + 1) * (MEMBERS - 1);
  switch (round % 4) {
  case 0: await_mark(&marks->over, all); break;
  case 1:
    while (look(&marks->over) < all) CHECK_OK(ucxx_window_sync(win.window));
    break;
  default: break;
  }
  CHECK_OK(ucxx_group_barrier(member->group));
}

static void done_once(member_t *member) {
  static uint8_t own[REGION], whole[SIZE];
  uint64_t sums[MEMBERS], sum = 0;
  dice_t dice = {member->board->seed + member->rank};
  added = 0;
  member_begin(member);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    STEP("round %d", (int)round);
    if (member->rank == TARGET) {
      wait_for_others(member, round);
      continue;
    }
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    for (int i = 0; i < OPERATIONS; i++) one_operation(&dice, own);
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    __atomic_add_fetch(&marks->over, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  STEP("the result");
  CHECK_OK(ucxx_group_allgather(member->group, &added, sizeof added, sums));
  CHECK_OK(ucxx_group_barrier(member->group));
  ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, SIZE);
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
  CHECK_OK(ucxx_window_get(win.window, whole, &all, TARGET, 0, &all));
  CHECK_OK(ucxx_window_unlock(win.window, TARGET));
  for (uint32_t rank = 0; rank < MEMBERS; rank++) sum += sums[rank];
  uint64_t found;
  memcpy(&found, whole, sizeof found);
  CHECK_EQ(found, sum);
  if (member->rank != TARGET)
    CHECK_EQ(memcmp(whole + 16 + member->rank * (size_t)REGION, own, REGION), 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  win_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ deaths */

/* Puts and gets until one fails; reports after a while that it may be killed. */
static ucxx_status_t go_on(uint64_t most) {
  for (uint64_t count = 0; count < most; count++) {
    uint64_t value = count, back = 0;
    ucxx_status_t status = win_put64(&win, TARGET, 16 + win.rank * (uint64_t)REGION, &value);
    if (status == UCXX_OK)
      status = win_get64(&win, TARGET, 16 + win.rank * (uint64_t)REGION, &back);
    if (status != UCXX_OK) return status;
    CHECK_EQ(back, value);
    if (count == 100) __atomic_add_fetch(&marks->begun, 1, __ATOMIC_SEQ_CST);
  }
  return UCXX_OK;
}

/* The target dies while it waits for the others. */
static void target_dies(member_t *member) {
  member_begin(member);
  if (member->rank == TARGET) {
    FAIL("the barrier is over: %s", ucxx_status_string(ucxx_group_barrier(member->group)));
  }
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
  CHECK_STATUS(go_on(UINT64_MAX), UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 0");
  meet_at(&marks->ended, MEMBERS - 1);
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

static void barrier_fails(const member_t *member) {
  ucxx_status_t status = ucxx_group_barrier(member->group);
  CHECK(status == UCXX_ERR_PEER_FAILED || status == UCXX_ERR_CONNECTION_RESET);
}

/* An origin dies during an operation: the other one continues. */
static void origin_dies(member_t *member) {
  member_begin(member);
  if (member->rank == TARGET) {
    barrier_fails(member);
    mark(&marks->told, 1);
    await_mark(&marks->over, 1);
  } else {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    if (member->rank == 1) {
      go_on(UINT64_MAX);
      FAIL("an operation has failed");
    }
    CHECK_OK(go_on(1000));
    await_mark(&marks->dead, 1);
    CHECK_OK(go_on(2000));
    barrier_fails(member);
    await_mark(&marks->told, 1);
    CHECK_OK(go_on(100));
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    mark(&marks->over, 1);
  }
  meet_at(&marks->ended, MEMBERS - 1);
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

static void kill_one(uint32_t victim, uint64_t seed, void (*body)(member_t *member)) {
  pid_t pids[MOST_MEMBERS];
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(MEMBERS, seed);
  members_start(board, pids, body);
  await_mark(&marks->begun, MEMBERS - 1);
  kill_anywhere(pids[victim]);
  CHECK_EQ(waitid(P_PID, (id_t)pids[victim], &(siginfo_t){.si_pid = 0}, WEXITED | WNOWAIT), 0);
  mark(&marks->dead, 1);
  members_end(board, pids, (int)victim);
  board_close(board);
  munmap(marks, sizeof *marks);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  uint64_t seed = test_seed();
  worker_params = params;
  STEP("%s: each operation is done once", mode);
  marks = shared_open(sizeof *marks);
  run_members(MEMBERS, seed, done_once);
  munmap(marks, sizeof *marks);
  STEP("%s: the target dies", mode);
  kill_one(TARGET, seed, target_dies);
  STEP("%s: an origin dies", mode);
  kill_one(1, seed, origin_dies);
}

int main(void) {
  test_begin("window_delegation");
  in_every_mode(round_in);
  return 0;
}
