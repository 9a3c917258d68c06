/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Synchronisation of windows: fences with every assertion, post and start among random groups,
 * exposure beside locks, flushes, sync, and requests that outlive their epoch. Counters in shared
 * memory outside the library detect a member that continues too early.
 */
#include "window.h"

enum { MEMBERS = 4, SLOTS = MEMBERS + 2, ROUNDS = 24 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;

/* Outside the library: for each pair of processes, how far they are. */
static struct marks {
  uint64_t posted[MEMBERS][MEMBERS], completing[MEMBERS][MEMBERS], tested[MEMBERS], entered,
      told[MEMBERS], heard[MEMBERS];
} *marks;

static uint64_t own_slot(uint32_t slot) {
  return __atomic_load_n((uint64_t *)(void *)win.base + slot, __ATOMIC_RELAXED);
}

static void put_to(uint32_t target, uint32_t slot, const uint64_t *value) {
  CHECK_OK(win_put64(&win, target, 8 * slot, value));
}

static uint64_t value_of(uint64_t round, uint32_t from, uint32_t to) {
  return (round + 1) * 10000 + from * 100 + to;
}

static void open_window(member_t *member) {
  win_open(&win, member, flavor, 8 * SLOTS, member->rank % 2 ? 8 : 4, NULL);
}

/* ------------------------------------------------------------------ fence */

/* Every member arrives before any continues. */
static void fence_together(uint64_t *count, uint32_t assertions) {
  uint64_t mine = __atomic_add_fetch(&marks->entered, 1, __ATOMIC_SEQ_CST);
  ++*count;
  CHECK(mine <= *count * win.ranks);
  CHECK_OK(ucxx_window_fence(win.window, assertions));
  CHECK(look(&marks->entered) >= *count * win.ranks);
}

static void fences(member_t *member) {
  static const uint32_t closing[] = {0,
                                     UCXX_ASSERT_NOPUT,
                                     UCXX_ASSERT_NOSTORE,
                                     UCXX_ASSERT_NOSTORE | UCXX_ASSERT_NOPUT,
                                     UCXX_ASSERT_NOSUCCEED,
                                     UCXX_ASSERT_NOSUCCEED | UCXX_ASSERT_NOSTORE |
                                         UCXX_ASSERT_NOPUT};
  static const uint32_t opening[] = {
      0, UCXX_ASSERT_NOPRECEDE, UCXX_ASSERT_NOPRECEDE | UCXX_ASSERT_NOSTORE, UCXX_ASSERT_NOSTORE};
  uint64_t values[MEMBERS], count = 0;
  open_window(member);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint32_t end = closing[round % 6];
    STEP("fences: round %d", (int)round);
    fence_together(&count, opening[round % 4]);
    for (uint32_t target = 0; target < win.ranks; target++) {
      values[target] = value_of(round, win.rank, target);
      put_to(target, win.rank, &values[target]);
    }
    fence_together(&count, end);
    for (uint32_t from = 0; from < win.ranks; from++)
      CHECK_EQ(own_slot(from), value_of(round, from, win.rank));
    if (end & UCXX_ASSERT_NOSUCCEED) {
      CHECK_STATUS(win_put64(&win, 0, 0, values), UCXX_ERR_RMA_SYNC);
      /* No operation before and none after: nobody waits for rank 0, which arrives when the others
       * have continued. */
      for (uint32_t other = 1; win.rank == 0 && other < win.ranks; other++)
        await_mark(&marks->heard[other], round + 1);
      CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOPRECEDE | UCXX_ASSERT_NOSUCCEED));
      mark(&marks->heard[win.rank], round + 1);
    }
  }
  win_close(&win);
}

/* ------------------------------------------------------------------ post, start, complete, wait */

static int has_edge(const member_t *member, uint64_t round, uint32_t from, uint32_t to) {
  return round % 5 == 0 || test_mix(member->board->seed + round * 64 + from * 8 + to) % 3 != 0;
}

static void await_completions(uint64_t round) {
  if (round % 2 == 0) {
    CHECK_OK(ucxx_window_wait(win.window));
    return;
  }
  int32_t done = 0;
  while (!done) {
    CHECK_OK(ucxx_window_test(win.window, &done));
    sched_yield();
  }
}

/* Origins and targets are drawn anew each time; a member may access itself, or nobody. */
static void groups(member_t *member) {
  uint64_t values[MEMBERS];
  open_window(member);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint32_t origins[MEMBERS], targets[MEMBERS];
    size_t origin_count = 0, target_count = 0;
    STEP("groups: round %d", (int)round);
    for (uint32_t at = 0; at < win.ranks; at++) {
      uint32_t other = (at + (uint32_t)round) % win.ranks;
      if (has_edge(member, round, other, win.rank)) origins[origin_count++] = other;
      if (has_edge(member, round, win.rank, other)) targets[target_count++] = other;
    }
    for (size_t at = 0; at < origin_count; at++)
      mark(&marks->posted[win.rank][origins[at]], round + 1);
    CHECK_OK(ucxx_window_post(win.window, origins, origin_count,
                              round % 3 == 0 ? UCXX_ASSERT_NOSTORE : 0));
    CHECK_OK(ucxx_window_start(win.window, targets, target_count, 0));
    for (size_t at = 0; at < target_count; at++) {
      /* Not before it has posted. */
      CHECK(look(&marks->posted[targets[at]][win.rank]) == round + 1);
      values[at] = value_of(round, win.rank, targets[at]);
      put_to(targets[at], win.rank, &values[at]);
    }
    for (size_t at = 0; at < target_count; at++)
      mark(&marks->completing[win.rank][targets[at]], round + 1);
    CHECK_OK(ucxx_window_complete(win.window));
    await_completions(round);
    for (size_t at = 0; at < origin_count; at++) {
      CHECK(look(&marks->completing[origins[at]][win.rank]) == round + 1);
      CHECK_EQ(own_slot(origins[at]), value_of(round, origins[at], win.rank));
    }
  }
  win_close(&win);
}

/* With NOCHECK at both sides: the targets have posted already. */
static void groups_unchecked(member_t *member) {
  uint32_t all[MEMBERS] = {0, 1, 2, 3};
  uint64_t value;
  open_window(member);
  for (uint64_t round = 0; round < ROUNDS; round++) {
    STEP("groups unchecked: round %d", (int)round);
    CHECK_OK(ucxx_window_post(win.window, all, win.ranks, UCXX_ASSERT_NOCHECK));
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_window_start(win.window, all, win.ranks, UCXX_ASSERT_NOCHECK));
    value = value_of(round, win.rank, 0);
    for (uint32_t target = 0; target < win.ranks; target++) put_to(target, win.rank, &value);
    CHECK_OK(ucxx_window_complete(win.window));
    await_completions(round);
    for (uint32_t from = 0; from < win.ranks; from++)
      CHECK_EQ(own_slot(from), value_of(round, from, 0));
  }
  win_close(&win);
}

/* test returns 0 until every origin has completed, and the exposure lasts until it returns 1. */
static void tests(member_t *member) {
  uint32_t origins[MEMBERS] = {1, 2, 3}, target = 0;
  open_window(member);
  for (uint64_t round = 1; round <= 6; round++) {
    uint32_t late = 1 + (uint32_t)round % 3;
    int32_t done = 0;
    STEP("tests: round %d", (int)round);
    if (win.rank == target) {
      CHECK_OK(ucxx_window_post(win.window, origins, 3, 0));
      for (int turn = 0; turn < 200; turn++) {
        CHECK_OK(ucxx_window_test(win.window, &done));
        CHECK(!done);
      }
      CHECK_EQ(ucxx_window_sync_type(win.window, late), UCXX_SYNC_PSCW);
      mark(&marks->tested[0], round);
      await_completions(1);
      CHECK_EQ(ucxx_window_sync_type(win.window, late), UCXX_SYNC_NONE);
      CHECK_STATUS(ucxx_window_test(win.window, &done), UCXX_ERR_RMA_SYNC);
    } else {
      CHECK_OK(ucxx_window_start(win.window, &target, 1, 0));
      if (win.rank == late) await_mark(&marks->tested[0], round);
      CHECK_OK(ucxx_window_complete(win.window));
    }
  }
  win_close(&win);
}

/* Memory is exposed to one member while this process locks others' memory and its own. */
static void exposure_beside_locks(member_t *member) {
  uint64_t value, now = 0;
  uint32_t left, right;
  open_window(member);
  left = (win.rank + win.ranks - 1) % win.ranks;
  right = (win.rank + 1) % win.ranks;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    STEP("exposure beside locks: round %d", (int)round);
    CHECK_OK(ucxx_window_post(win.window, &left, 1, 0));
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, right, 0));
    value = value_of(round, win.rank, right);
    put_to(right, MEMBERS, &value);
    CHECK_OK(ucxx_window_unlock(win.window, right));
    CHECK_OK(ucxx_window_start(win.window, &right, 1, 0));
    put_to(right, MEMBERS + 1, &value);
    CHECK_OK(ucxx_window_complete(win.window));
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, right, 0));
    CHECK_OK(win_get64(&win, right, 8 * (MEMBERS + 1), &now));
    CHECK_OK(ucxx_window_unlock(win.window, right));
    CHECK_EQ(now, value);
    CHECK_OK(ucxx_window_wait(win.window));
    CHECK_EQ(own_slot(MEMBERS), value_of(round, left, win.rank));
    CHECK_EQ(own_slot(MEMBERS + 1), value_of(round, left, win.rank));
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  win_close(&win);
}

/* ------------------------------------------------------------------ flush and sync */

static void flush_way(uint64_t way, uint32_t target) {
  ucxx_request_t *request = NULL;
  switch (way % 4) {
  case 0: CHECK_OK(ucxx_window_flush(win.window, target)); break;
  case 1: CHECK_OK(ucxx_window_flush_all(win.window)); break;
  case 2:
    CHECK_OK(finish(ucxx_window_flush_nb(win.window, target, NULL, &request), &request));
    break;
  default:
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
  }
}

/* Flushed data has arrived: the target, notified outside the library, finds it in its own memory;
 * and its stores are found by get. */
static void flushes(member_t *member) {
  uint64_t value, seen;
  open_window(member);
  const uint32_t next = (win.rank + 1) % win.ranks,
                 previous = (win.rank + win.ranks - 1) % win.ranks;
  mark(&marks->heard[win.rank], 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (uint64_t round = 0; round < 5 * ROUNDS; round++) {
    STEP("flushes: round %d", (int)round);
    value = value_of(round, win.rank, next);
    put_to(next, 0, &value);
    CHECK_OK(ucxx_window_flush_local(win.window, next));
    value = 0;
    flush_way(round, next);
    mark(&marks->told[next], round + 1);
    await_mark(&marks->told[win.rank], round + 1);
    CHECK_OK(ucxx_window_sync(win.window));
    CHECK_EQ(own_slot(0), value_of(round, previous, win.rank));
    __atomic_store_n((uint64_t *)(void *)win.base + 1, round + 7, __ATOMIC_RELAXED);
    CHECK_OK(ucxx_window_sync(win.window));
    mark(&marks->heard[win.rank], round + 1);
    await_mark(&marks->heard[next], round + 1);
    seen = 0;
    CHECK_OK(win_get64(&win, next, 8, &seen));
    CHECK_OK(round % 2 ? ucxx_window_flush_local(win.window, next)
                       : ucxx_window_flush_local_all(win.window));
    CHECK_EQ(seen, round + 7);
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  CHECK_OK(ucxx_window_unlock_all(win.window));
  win_close(&win);
}

/* Requests complete and may be waited for after their epoch has ended, and after the window has
 * been closed and destroyed. */
static void requests_outlive(member_t *member) {
  enum { LENGTH = 1 << 20 };
  uint8_t *out = test_alloc(LENGTH), *in = test_alloc(LENGTH);
  ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, LENGTH);
  for (int round = 0; round < 3; round++) {
    ucxx_request_t *put = NULL, *get = NULL;
    STEP("requests that outlive: round %d", round);
    win_open(&win, member, flavor, 2 * LENGTH, 1, NULL);
    const uint32_t next = (win.rank + 1) % win.ranks,
                   previous = (win.rank + win.ranks - 1) % win.ranks;
    test_fill(win.base + LENGTH, LENGTH, 1000 + win.rank);
    test_fill(out, LENGTH, 2000 + win.rank);
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, next, 0));
    ucxx_status_t putting =
        ucxx_window_rput(win.window, out, &all, next, win_disp(&win, next, 0), &all, NULL, &put);
    ucxx_status_t getting = ucxx_window_rget(win.window, in, &all, next,
                                             win_disp(&win, next, LENGTH), &all, NULL, &get);
    CHECK_OK(ucxx_window_unlock(win.window, next));
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_CONTENT(win.base, LENGTH, 2000 + previous);
    if (round == 1) CHECK_OK(finish(putting, &put));
    CHECK_OK(ucxx_window_close(win.window));
    if (round == 2) CHECK_OK(finish(getting, &get));
    ucxx_window_destroy(win.window);
    pages_close(&win);
    if (round != 1) CHECK_OK(finish(putting, &put));
    if (round != 2) CHECK_OK(finish(getting, &get));
    CHECK_CONTENT(in, LENGTH, 1000 + next);
  }
  free(out);
  free(in);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  fences(member);
  groups(member);
  groups_unchecked(member);
  tests(member);
  exposure_beside_locks(member);
  flushes(member);
  requests_outlive(member);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  marks = shared_open(sizeof *marks);
  run_members(MEMBERS, test_seed(), all_of_it);
  munmap(marks, sizeof *marks);
  if (params->progress_mode == UCXX_PROGRESS_MANUAL) return;
  STEP("%s, interrupted", mode);
  marks = shared_open(sizeof *marks);
  run_interrupted(MEMBERS, test_seed(), all_of_it);
  munmap(marks, sizeof *marks);
}

int main(int argc, char **argv) {
  test_begin("window_sync");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
