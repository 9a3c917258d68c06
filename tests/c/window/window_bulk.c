/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Accumulates of very many elements, which use another path than short ones, beside single
 * operations on the same elements. Processes and their threads add in every way at once, and the
 * sums are right. Then one process is killed meanwhile: the others continue, and each element is a
 * value that some of the additions give.
 */
#include "window.h"

enum {
  MEMBERS = 4,
  THREADS = 3,
  ELEMENTS = 3000,
  TURNS = 800,
  PHASE = 160,
  BLOCKS = 1000,
  MOST_TURNS = 1 << 20
};

static const ucxx_worker_params_t *worker_params;
static win_t win;

static struct shared {
  uint64_t added[2][ELEMENTS]; /* to the integers and the doubles */
  uint64_t opened, ready, over, met;
} *shared;

/* The doubles follow the integers. */
static const uint64_t target = 1, doubles_at = ELEMENTS * 8;

static uint64_t next(uint64_t *random) { return *random = test_mix(*random + 1); }

static void count(int which, uint64_t from, uint64_t to, uint64_t times) {
  for (uint64_t at = from; at < to; at++)
    __atomic_add_fetch(&shared->added[which][at], times, __ATOMIC_RELAXED);
}

static void add_all(int which, int fetches) {
  const ucxx_layout_t layout = contiguous(which ? UCXX_TYPE_DOUBLE : UCXX_TYPE_INT64, ELEMENTS);
  int64_t ones[ELEMENTS], before[ELEMENTS];
  double real_ones[ELEMENTS];
  for (int at = 0; at < ELEMENTS; at++) {
    ones[at] = 1;
    real_ones[at] = 1;
  }
  const void *origin = which ? (void *)real_ones : (void *)ones;
  const int64_t disp = win_disp(&win, target, which ? doubles_at : 0);
  if (fetches) {
    CHECK_OK(ucxx_window_get_accumulate(win.window, origin, &layout, before, &layout, target, disp,
                                        &layout, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_flush_local(win.window, target));
  } else
    CHECK_OK(ucxx_window_accumulate(win.window, origin, &layout, target, disp, &layout,
                                    UCXX_REDUCE_SUM));
  count(which, 0, ELEMENTS, 1);
}

/* Every third element. */
static void add_scattered(void) {
  int64_t twos[BLOCKS];
  for (int at = 0; at < BLOCKS; at++) twos[at] = 2;
  const ucxx_layout_t here = contiguous(UCXX_TYPE_INT64, BLOCKS);
  ucxx_layout_t there;
  ucxx_layout_init_vector(&there, UCXX_TYPE_INT64, BLOCKS, 1, ELEMENTS / BLOCKS);
  CHECK_OK(ucxx_window_accumulate(win.window, twos, &here, target, win_disp(&win, target, 0),
                                  &there, UCXX_REDUCE_SUM));
  for (uint64_t at = 0; at < BLOCKS; at++)
    count(0, at * (ELEMENTS / BLOCKS), at * (ELEMENTS / BLOCKS) + 1, 2);
}

static void add_some(uint64_t from, uint64_t number) {
  double ones[100];
  for (uint64_t at = 0; at < number; at++) ones[at] = 1;
  const ucxx_layout_t layout = contiguous(UCXX_TYPE_DOUBLE, number);
  CHECK_OK(ucxx_window_accumulate(win.window, ones, &layout, target,
                                  win_disp(&win, target, doubles_at + from * 8), &layout,
                                  UCXX_REDUCE_SUM));
  count(1, from, from + number, 1);
}

static void add_one(uint64_t at) {
  const uint64_t one = 1;
  uint64_t before;
  CHECK_OK(win_fetch64(&win, target, at * 8, UCXX_REDUCE_SUM, &one, &before));
  CHECK_OK(ucxx_window_flush_local(win.window, target));
  count(0, at, at + 1, 1);
}

static void swap_one(uint64_t at) {
  int64_t expected = 0, found = 0, wanted;
  do {
    expected = found;
    wanted = expected + 1;
    CHECK_OK(ucxx_window_compare_and_swap(win.window, &wanted, &expected, &found, UCXX_TYPE_INT64,
                                          target, win_disp(&win, target, at * 8)));
    CHECK_OK(ucxx_window_flush_local(win.window, target));
  } while (found != expected);
  count(0, at, at + 1, 1);
}

/* An accumulate of few elements. */
static void single_turn(uint64_t *random) {
  const uint64_t at = next(random) % ELEMENTS;
  if (next(random) % 4 == 0)
    swap_one(at);
  else
    add_one(at);
}

static void turn(uint64_t *random) {
  const uint64_t at = next(random) % ELEMENTS;
  switch (next(random) % 16) {
  case 0: add_all(0, 0); break;
  case 1: add_all(1, 0); break;
  case 2: add_all((int)(at % 2), 1); break;
  case 3: add_scattered(); break;
  case 4:
  case 5: swap_one(at); break;
  case 6:
  case 7:
  case 8: add_some(at % (ELEMENTS - 100), 1 + at % 100); break;
  default: add_one(at);
  }
}

static void *one_thread(void *arg) {
  uint64_t *random = arg;
  /* No long accumulates for so long that the short ones return to their fast path. */
  for (int number = 0; number < TURNS; number++) {
    if (number / PHASE % 2)
      single_turn(random);
    else
      turn(random);
  }
  return NULL;
}

/* ------------------------------------------------------------------ sums */

static void all_at_once(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 2 * doubles_at, 8, NULL);
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  pthread_t threads[THREADS];
  uint64_t random[THREADS];
  for (int thread = 0; thread < THREADS; thread++) {
    random[thread] = member->board->seed + member->rank * THREADS + (uint64_t)thread + 1;
    CHECK_EQ(pthread_create(&threads[thread], NULL, one_thread, &random[thread]), 0);
  }
  for (int thread = 0; thread < THREADS; thread++) CHECK_EQ(pthread_join(threads[thread], NULL), 0);
  CHECK_OK(ucxx_window_unlock_all(win.window));
  CHECK_OK(ucxx_group_barrier(member->group));
  for (uint64_t at = 0; member->rank == target && at < ELEMENTS; at++) {
    CHECK_EQ(((uint64_t *)(void *)win.base)[at], shared->added[0][at]);
    CHECK(((double *)(void *)(win.base + doubles_at))[at] == (double)shared->added[1][at]);
  }
  win_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ one process dies */

enum { VICTIM = 2 };

static void one_dies(member_t *member) {
  uint64_t random = member->board->seed + member->rank + 1;
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 2 * doubles_at, 8, NULL);
  meet_at(&shared->opened, MEMBERS);
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (int number = 0; number < MOST_TURNS; number++) {
    if (member->rank == VICTIM && number == 30) mark(&shared->ready, 1);
    if (member->rank == VICTIM && number % 3 == 2)
      add_some((uint64_t)number % (ELEMENTS - 100), 16);
    else if (member->rank == VICTIM)
      add_all(number % 2, 0);
    else if (number / PHASE % 2)
      single_turn(&random);
    else
      turn(&random);
    if (member->rank != VICTIM && look(&shared->over)) break;
  }
  /* The survivors continue, each in its own way and alone. */
  add_all(0, 0);
  swap_one(member->rank);
  CHECK_OK(ucxx_window_unlock_all(win.window));
  meet_at(&shared->met, MEMBERS - 1);
  for (uint64_t at = 0; member->rank == target && at < ELEMENTS; at++) {
    /* Additions of the killed process that it had not counted yet. */
    const uint64_t number = ((uint64_t *)(void *)win.base)[at];
    const double real = ((double *)(void *)(win.base + doubles_at))[at];
    CHECK(number == shared->added[0][at] || number == shared->added[0][at] + 1);
    CHECK(real == (double)shared->added[1][at] || real == (double)shared->added[1][at] + 1);
  }
  meet_at(&shared->met, 2 * (MEMBERS - 1));
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

static void run_with_one_that_dies(uint64_t seed) {
  pid_t pids[MOST_MEMBERS];
  memset(shared, 0, sizeof *shared);
  board_t *board = board_open(MEMBERS, seed);
  members_start(board, pids, one_dies);
  await_mark(&shared->ready, 1);
  kill_anywhere(pids[VICTIM]);
  siginfo_t info;
  CHECK_EQ(waitid(P_PID, (id_t)pids[VICTIM], &info, WEXITED | WNOWAIT), 0);
  mark(&shared->over, 1);
  members_end(board, pids, VICTIM);
  board_close(board);
}

int main(void) {
  test_begin("window_bulk");
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_MULTI;
  worker_params = &params;
  shared = shared_open(sizeof *shared);
  const uint64_t seed = test_seed();
  STEP("sums");
  run_members(MEMBERS, seed, all_at_once);
  for (uint64_t round = 0; round < 5; round++) {
    STEP("one process dies, round %d", (int)round);
    /* A dead process's memory stays accessible on its own host only. */
    if (test_hosts() == 1) run_with_one_that_dies(seed + round);
  }
  return 0;
}
