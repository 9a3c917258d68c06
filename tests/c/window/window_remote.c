/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows whose members pretend to be on several hosts: the paths that are used, refused calls,
 * when results are reported, and that members that reach one target on different paths lose no
 * update.
 */
#include "window.h"

enum { MEMBERS = 5, HELD = 1, HOLDER = 1, VICTIM = 2, SIZE = 1 << 20, ROUNDS = 300 };

static const ucxx_worker_params_t *worker_params;
static struct marks {
  uint64_t opened, ready, met;
} *marks;

static void member_begin(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
}

static void paths(member_t *member) {
  member_begin(member);
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    win_t win;
    STEP("paths: %s", flavor_name(flavor));
    if (flavor == UCXX_WINDOW_FLAVOR_SHARED && test_hosts() > 1) {
      void *base = NULL;
      CHECK_STATUS(ucxx_window_allocate_shared(member->group, 64, 1, NULL, &base, &win.window),
                   UCXX_ERR_UNSUPPORTED);
      CHECK_MESSAGE("rank ");
      continue;
    }
    win_open(&win, member, flavor, 64, 8, NULL);
    for (uint32_t rank = 0; rank < win.ranks; rank++) {
      size_t size = 0;
      void *base = NULL;
      int far = on_another_host(rank, win.rank);
      int asked =
          far || (getenv("UCXX_TEST_FORBID_COPYING") != NULL &&
                  (flavor == UCXX_WINDOW_FLAVOR_CREATE || flavor == UCXX_WINDOW_FLAVOR_DYNAMIC));
      CHECK_EQ(ucxx_window_path(win.window, rank), rank == win.rank ? UCXX_WINDOW_PATH_SELF
                                                   : asked          ? UCXX_WINDOW_PATH_MESSAGE
                                                                    : UCXX_WINDOW_PATH_LOCAL);
      CHECK_OK(ucxx_window_shared_query(win.window, rank, &size, NULL, &base));
      CHECK(!far || base == NULL);
    }
    win_close(&win);
  }
  member_close(member);
}

/* Long and short, contiguous and not, from and to every member, with data that identifies its
 * source. */
static void lengths(member_t *member) {
  static const uint64_t all[] = {1, 7, 8, 4096, 32767, 32768, 32769, 100000, SIZE / 2};
  uint8_t *here = test_alloc(SIZE), *back = test_alloc(SIZE);
  win_t win;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, SIZE, 1, NULL);
  for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
    uint64_t length = all[at];
    ucxx_layout_t one = contiguous(UCXX_TYPE_BYTE, length), strided;
    uint32_t next = (win.rank + 1) % win.ranks;
    for (uint64_t byte = 0; byte < length; byte++)
      here[byte] = (uint8_t)test_mix(member->board->seed + 977 * win.rank + byte + length);
    STEP("lengths: %llu", (unsigned long long)length);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, next, 0));
    CHECK_OK(ucxx_window_put(win.window, here, &one, next, 0, &one));
    CHECK_OK(ucxx_window_flush(win.window, next));
    memset(back, 0, length);
    CHECK_OK(ucxx_window_get(win.window, back, &one, next, 0, &one));
    CHECK_OK(ucxx_window_flush(win.window, next));
    CHECK(memcmp(here, back, length) == 0);
    /* Every other byte at the target. */
    ucxx_layout_init_vector(&strided, UCXX_TYPE_BYTE, length, 1, 2);
    CHECK_OK(ucxx_window_put(win.window, here, &one, next, 0, &strided));
    CHECK_OK(ucxx_window_flush(win.window, next));
    memset(back, 0, length);
    CHECK_OK(ucxx_window_get(win.window, back, &one, next, 0, &strided));
    CHECK_OK(ucxx_window_unlock(win.window, next));
    CHECK(memcmp(here, back, length) == 0);
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  win_close(&win);
  free(here);
  free(back);
  member_close(member);
}

/* All members add to the same words, each on its own path; no update is lost. */
static void sums(member_t *member) {
  win_t win;
  double ones[600], found[600];
  const int64_t one = 1;
  int64_t before = 0;
  for (int at = 0; at < 600; at++) ones[at] = 1;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 8192, 8, NULL);
  ucxx_layout_t few = contiguous(UCXX_TYPE_DOUBLE, 3), many = contiguous(UCXX_TYPE_DOUBLE, 600);
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (int round = 0; round < ROUNDS; round++) {
    STEP("sums: round %d", round);
    for (uint32_t target = 0; target < win.ranks; target++) {
      CHECK_OK(ucxx_window_accumulate(win.window, ones, &few, target, 0, &few, UCXX_REDUCE_SUM));
      if (round % 10 == 0)
        CHECK_OK(
            ucxx_window_accumulate(win.window, ones, &many, target, 0, &many, UCXX_REDUCE_SUM));
      CHECK_OK(ucxx_window_fetch_and_op(win.window, &one, &before, UCXX_TYPE_INT64, target, 1000,
                                        UCXX_REDUCE_SUM));
    }
  }
  CHECK_OK(ucxx_window_unlock_all(win.window));
  CHECK_OK(ucxx_group_barrier(member->group));
  memcpy(found, win.base, sizeof found);
  for (int at = 0; at < 600; at++)
    CHECK(found[at] == (double)win.ranks * (at < 3 ? ROUNDS + ROUNDS / 10 : ROUNDS / 10));
  memcpy(&before, win.base + 8000, sizeof before);
  CHECK_EQ(before, (int64_t)win.ranks * ROUNDS);
  CHECK_OK(ucxx_group_barrier(member->group));
  win_close(&win);
  member_close(member);
}

/* Errors that only the target can detect are reported by the flush, once, for every operation. */
static void what_the_target_finds(member_t *member) {
  win_t win;
  uint64_t number = 5;
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_DYNAMIC, 64, 1, NULL);
  uint32_t target = (win.rank + 1) % win.ranks;
  int64_t beyond = (int64_t)(win.address[target] + 4096 * 16);
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, target, 0));
  ucxx_status_t status = ucxx_window_put(win.window, &number, &one, target, beyond, &one);
  if (ucxx_window_path(win.window, target) == UCXX_WINDOW_PATH_MESSAGE) {
    CHECK_OK(status);
    status = ucxx_window_flush(win.window, target);
  }
  CHECK_STATUS(status, UCXX_ERR_RMA_ATTACH);
  CHECK_OK(ucxx_window_flush(win.window, target));
  uint64_t found = 5;
  for (int way = 0; way < 3; way++) {
    if (way == 0)
      status = ucxx_window_get(win.window, &found, &one, target, beyond, &one);
    else if (way == 1)
      status = ucxx_window_fetch_and_op(win.window, &number, &found, UCXX_TYPE_UINT64, target,
                                        beyond, UCXX_REDUCE_SUM);
    else
      status = ucxx_window_compare_and_swap(win.window, &number, &number, &found, UCXX_TYPE_UINT64,
                                            target, beyond);
    if (ucxx_window_path(win.window, target) == UCXX_WINDOW_PATH_MESSAGE) {
      CHECK_OK(status);
      status = ucxx_window_flush(win.window, target);
    }
    CHECK_STATUS(status, UCXX_ERR_RMA_ATTACH);
    CHECK_OK(ucxx_window_flush(win.window, target));
    CHECK_EQ(found, 5);
  }
  CHECK_EQ(number, 5);
  CHECK_OK(win_put64(&win, target, 8, &number));
  CHECK_OK(ucxx_window_unlock(win.window, target));
  CHECK_OK(ucxx_group_barrier(member->group));
  memcpy(&number, win.base + 8, sizeof number);
  CHECK_EQ(number, 5);
  win_close(&win);
  member_close(member);
}

/* A lock that times out, as a call and as a request, and one that is cancelled: they do not block
 * the others. */
static void impatience(member_t *member) {
  ucxx_window_params_t hints = UCXX_WINDOW_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  win_t win;
  member_begin(member);
  hints.lock_timeout_ns = member->rank == 0 ? 0 : 20 * MILLISECOND;
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, &hints);
  if (win.rank == 0) {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, HELD, 0));
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_window_unlock(win.window, HELD));
  } else {
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, HELD, 0), UCXX_ERR_TIMED_OUT);
    CHECK_STATUS(
        finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, HELD, 0, NULL, &request),
               &request),
        UCXX_ERR_TIMED_OUT);
    ucxx_status_t status;
    do {
      /* A slow machine cancels it too late. */
      CHECK_EQ(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, HELD, 0, NULL, &request),
               UCXX_INPROGRESS);
      CHECK_OK(ucxx_request_cancel(request));
      status = finish(UCXX_INPROGRESS, &request);
    } while (status == UCXX_ERR_TIMED_OUT);
    CHECK_STATUS(status, UCXX_ERR_CANCELED);
    CHECK_EQ(ucxx_window_sync_type(win.window, HELD), UCXX_SYNC_NONE);
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  hints.lock_timeout_ns = 0;
  CHECK_OK(ucxx_window_set_hints(win.window, &hints));
  for (int turn = 0; turn < 20; turn++) {
    CHECK_OK(ucxx_window_lock(win.window, turn % 3 == 0 ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE,
                              HELD, 0));
    CHECK_OK(ucxx_window_unlock(win.window, HELD));
  }
  hints.no_locks = win.rank == 3;
  CHECK_STATUS(ucxx_window_set_hints(win.window, &hints), UCXX_ERR_INVALID_PARAM);
  win_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ the update lock */

static struct {
  uint8_t *page;
  size_t length;
} forbidden;

/* Interrupts an accumulate while it holds the target's update lock, until the others have seen that
 * they can continue. */
static void on_forbidden(int number) {
  (void)number;
  mark(&marks->ready, 1);
  await_mark(&marks->met, 1);
  if (mprotect(forbidden.page, forbidden.length, PROT_READ | PROT_WRITE) != 0) _exit(1);
}

/* A process on rank 0's host holds rank 0's update lock for a while. Its service still handles all
 * other operations, and keeps the order of each member's. */
static void held_up(member_t *member) {
  const uint32_t holder = test_hosts(), far = 1, other = test_hosts() + 1;
  const struct sigaction action = {.sa_handler = on_forbidden};
  ucxx_layout_t one = contiguous(UCXX_TYPE_COMPLEX_DOUBLE, 1);
  const double unit[2] = {1, -1}, ten[2] = {10, -10};
  ucxx_request_t *request = NULL;
  struct sigaction before;
  uint64_t number = 5, found = 0;
  double sums[2], then[2];
  win_t win, second;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 128, 8, NULL);
  win_open(&second, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 128, 8, NULL);
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  CHECK_OK(ucxx_window_lock_all(second.window, 0));
  CHECK_OK(ucxx_group_barrier(member->group));
  if (win.rank == holder) {
    forbidden.length = (size_t)sysconf(_SC_PAGESIZE);
    forbidden.page =
        mmap(NULL, forbidden.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(forbidden.page != MAP_FAILED);
    memcpy(forbidden.page, unit, sizeof unit);
    CHECK_EQ(mprotect(forbidden.page, forbidden.length, PROT_NONE), 0);
    CHECK_EQ(sigaction(SIGSEGV, &action, &before), 0);
    CHECK_OK(ucxx_window_accumulate(win.window, forbidden.page, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    CHECK_EQ(sigaction(SIGSEGV, &before, NULL), 0);
    CHECK_EQ(munmap(forbidden.page, forbidden.length), 0);
  } else if (win.rank == far) {
    await_mark(&marks->ready, 1);
    CHECK_OK(ucxx_window_accumulate(win.window, ten, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_accumulate(win.window, unit, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_get_accumulate(win.window, unit, &one, then, &one, 0, 0, &one,
                                        UCXX_REDUCE_SUM));
    CHECK_STATUS(ucxx_window_flush_nb(win.window, 0, NULL, &request), UCXX_INPROGRESS);
    /* Another window. */
    CHECK_OK(win_put64(&second, 0, 0, &number));
    CHECK_OK(ucxx_window_flush(second.window, 0));
    mark(&marks->ready, 2);
  } else if (win.rank == other) {
    /* Another member, in the same window: operations that do not take the lock. */
    await_mark(&marks->ready, 2);
    CHECK_OK(win_put64(&win, 0, 64, &number));
    CHECK_OK(win_get64(&win, 0, 64, &found));
    CHECK_OK(ucxx_window_flush(win.window, 0));
    CHECK_EQ(found, number);
    CHECK_OK(ucxx_window_accumulate(win.window, unit, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    mark(&marks->met, 1);
  }
  if (win.rank == far) {
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
    /* This member's 11, and what the others have added by then. */
    CHECK(then[0] >= 12 && then[0] <= 13 && then[0] == -then[1]);
  }
  CHECK_OK(ucxx_window_unlock_all(second.window));
  CHECK_OK(ucxx_window_unlock_all(win.window));
  CHECK_OK(ucxx_group_barrier(member->group));
  memcpy(sums, win.base, sizeof sums);
  CHECK(win.rank != 0 || (sums[0] == 14 && sums[1] == -14));
  win_close(&second);
  win_close(&win);
  member_close(member);
}

/* The same, but nobody waits for the end: the target leaves its window with deferred operations. */
static void left_aside(member_t *member) {
  const uint32_t holder = test_hosts(), far = 1;
  const struct sigaction action = {.sa_handler = on_forbidden};
  ucxx_layout_t one = contiguous(UCXX_TYPE_COMPLEX_DOUBLE, 1);
  const double unit[2] = {1, -1};
  win_t win, second;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 128, 8, NULL);
  win_open(&second, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 128, 8, NULL);
  meet_at(&marks->opened, member->size);
  if (win.rank == holder) {
    struct sigaction before;
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 0, 0));
    forbidden.length = (size_t)sysconf(_SC_PAGESIZE);
    forbidden.page = mmap(NULL, forbidden.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(forbidden.page != MAP_FAILED);
    CHECK_EQ(sigaction(SIGSEGV, &action, &before), 0);
    CHECK_OK(ucxx_window_accumulate(win.window, forbidden.page, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    CHECK_EQ(sigaction(SIGSEGV, &before, NULL), 0);
    CHECK_EQ(munmap(forbidden.page, forbidden.length), 0);
    CHECK_OK(ucxx_window_unlock(win.window, 0));
  } else if (win.rank == far) {
    uint64_t found;
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 0, 0));
    CHECK_OK(ucxx_window_lock(second.window, UCXX_LOCK_SHARED, 0, 0));
    await_mark(&marks->ready, 1);
    CHECK_OK(ucxx_window_accumulate(win.window, unit, &one, 0, 0, &one, UCXX_REDUCE_SUM));
    /* Arrives after it. */
    CHECK_OK(win_get64(&second, 0, 0, &found));
    CHECK_OK(ucxx_window_flush(second.window, 0));
    mark(&marks->ready, 2);
    CHECK_STATUS(ucxx_window_unlock(win.window, 0), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank 0");
    mark(&marks->met, 1);
    CHECK_OK(ucxx_window_unlock(second.window, 0));
  } else if (win.rank == 0) {
    await_mark(&marks->ready, 2);
    ucxx_window_destroy(win.window);
    win.window = NULL;
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  if (win.window != NULL) ucxx_window_destroy(win.window);
  win_close(&second);
  member_close(member);
}

/* ------------------------------------------------------------------ hints */

enum { WHOLE = 8192 };

/* Long enough that another member's set_hints, if it returned early, would find this one inside. */
static void in_set_hints(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  const uint64_t until = clock_ns() + 200 * MILLISECOND;
  (void)request;
  CHECK_OK(status);
  mark(&marks->ready, 2);
  while (look(&marks->met) == 0 && clock_ns() < until) sched_yield();
  mark(arg, 1);
}

/* Two members. One of them is held up in set_hints: the other one does not reach it before it has
 * the new hints. */
static void hints_of_both(member_t *member) {
  ucxx_window_params_t hints = UCXX_WINDOW_PARAMS_INIT;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_layout_t all = contiguous(UCXX_TYPE_INT64, WHOLE);
  ucxx_request_t *request = NULL;
  int64_t *ones = test_alloc(WHOLE * sizeof *ones);
  ucxx_endpoint_t *endpoint = NULL;
  uint64_t called = 0;
  char byte = 0;
  win_t win;
  for (int at = 0; at < WHOLE; at++) ones[at] = 1;
  hints.accumulate_granularity = UINT64_MAX;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, WHOLE * sizeof *ones, 8, NULL);
  if (win.rank == 1) {
    params.callback = in_set_hints;
    params.callback_arg = &called;
    CHECK_STATUS(ucxx_tag_recv(member->worker, &byte, 1, 5, UINT64_MAX, &params, &request),
                 UCXX_INPROGRESS);
    mark(&marks->ready, 1);
    CHECK_OK(ucxx_window_set_hints(win.window, &hints));
    while (look(&called) == 0) progress(member->worker);
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
  } else {
    await_mark(&marks->ready, 1);
    /* Gives the other one time to reach its wait. If it does not, the test shows less. */
    for (const uint64_t until = clock_ns() + 30 * MILLISECOND; clock_ns() < until;)
      progress(member->worker);
    CHECK_OK(ucxx_group_endpoint(member->group, 1, &endpoint));
    ucxx_status_t status = ucxx_tag_send(endpoint, &byte, 1, 5, NULL, &request);
    while (look(&marks->ready) < 2) progress(member->worker);
    CHECK_OK(finish(status, &request));
    CHECK_OK(ucxx_window_set_hints(win.window, &hints));
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0));
    CHECK_OK(ucxx_window_accumulate(win.window, ones, &all, 1, 0, &all, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_unlock(win.window, 1));
    mark(&marks->met, 1);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK(win.rank == 0 || memcmp(win.base, ones, WHOLE * sizeof *ones) == 0);
  win_close(&win);
  free(ones);
  member_close(member);
}

/* The target dies during all kinds of operations: each member that uses it gets an error with its
 * rank, and the others keep working. */
static void target_dies(member_t *member) {
  static const uint64_t one = 1;
  uint64_t number = 0;
  win_t win;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, NULL);
  meet_at(&marks->opened, MEMBERS);
  CHECK_OK(ucxx_window_lock_all(win.window, UCXX_ASSERT_NOCHECK));
  if (win.rank == VICTIM) {
    for (;;) pause();
  }
  ucxx_status_t status = UCXX_OK;
  for (int turn = 0; status == UCXX_OK && on_another_host(VICTIM, win.rank); turn++) {
    switch (turn % 3) {
    case 0: status = win_put64(&win, VICTIM, 0, &one); break;
    case 1: status = win_fetch64(&win, VICTIM, 8, UCXX_REDUCE_SUM, &one, &number); break;
    default: status = ucxx_window_flush(win.window, VICTIM);
    }
    __atomic_add_fetch(&marks->ready, 1, __ATOMIC_SEQ_CST);
  }
  if (status != UCXX_OK) {
    CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank 2");
    CHECK_STATUS(win_get64(&win, VICTIM, 0, &number), UCXX_ERR_PEER_FAILED);
  }
  for (uint32_t target = 0; target < win.ranks; target++) {
    if (target != VICTIM) CHECK_OK(win_fetch64(&win, target, 16, UCXX_REDUCE_SUM, &one, &number));
  }
  status = ucxx_window_unlock_all(win.window);
  CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
  meet_at(&marks->met, MEMBERS - 1);
  CHECK_EQ(*(uint64_t *)(void *)(win.base + 16), MEMBERS - 1);
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
  ucxx_window_destroy(win.window);
  member_close(member);
}

/* A member on another host holds a lock of a target that died or left, and cannot release it any
 * more. Members that map the target's memory do not wait for it. */
static void holder_elsewhere(member_t *member, int dies) {
  win_t win;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, NULL);
  if (win.rank == HOLDER) CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, VICTIM, 0));
  meet_at(&marks->ready, MEMBERS);
  while (win.rank == VICTIM && dies) pause();
  if (win.rank == VICTIM)
    ucxx_window_destroy(win.window);
  else if (win.rank != HOLDER) {
    ucxx_status_t status = ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, VICTIM, 0);
    CHECK_STATUS(status, on_another_host(VICTIM, win.rank) ? UCXX_ERR_PEER_FAILED
                         : dies                            ? UCXX_ERR_RMA_POISONED
                                                           : UCXX_OK);
    if (status == UCXX_OK) CHECK_OK(ucxx_window_unlock(win.window, VICTIM));
  }
  meet_at(&marks->met, dies ? MEMBERS - 1 : MEMBERS);
  if (win.rank == HOLDER) {
    ucxx_status_t status = ucxx_window_unlock(win.window, VICTIM);
    CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
  }
  if (win.rank != VICTIM) {
    CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
    ucxx_window_destroy(win.window);
  }
  member_close(member);
}

static void holder_of_the_dead(member_t *member) { holder_elsewhere(member, 1); }
static void holder_of_one_that_leaves(member_t *member) { holder_elsewhere(member, 0); }

/* Windows of a group and of a subset, created at the same time in any order: their messages do not
 * mix. */
static struct twin {
  member_t member;
  uint64_t seed;
} twins[2];

static void *make_and_use(void *arg) {
  struct twin *twin = arg;
  for (uint64_t round = 0; round < 20; round++) {
    win_t win;
    uint64_t number = twin->seed + round, found = 0;
    win_open(&win, &twin->member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, NULL);
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    for (uint32_t target = 0; target < win.ranks; target++)
      CHECK_OK(win_put64(&win, target, 8 * win.rank, &number));
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_group_barrier(twin->member.group));
    for (uint32_t from = 0; from < win.ranks; from++) {
      memcpy(&found, win.base + 8 * from, sizeof found);
      CHECK_EQ(found, number);
    }
    win_close(&win);
  }
  return NULL;
}

static void two_groups(member_t *member) {
  const uint32_t all[] = {0, 1, 2};
  pthread_t threads[2];
  member_begin(member);
  for (int which = 0; which < 2; which++)
    twins[which] = (struct twin){.member = *member, .seed = 1000 * (uint64_t)(1 + which)};
  CHECK_OK(ucxx_group_subset(member->group, all, 3, &twins[1].member.group));
  for (int which = 0; which < 2; which++)
    CHECK_EQ(pthread_create(&threads[which], NULL, make_and_use, &twins[which]), 0);
  for (int which = 0; which < 2; which++) CHECK_EQ(pthread_join(threads[which], NULL), 0);
  ucxx_group_destroy(twins[1].member.group);
  member_close(member);
}

static void run_and_kill(uint64_t seed, void (*body)(member_t *member), uint64_t when) {
  pid_t pids[MOST_MEMBERS];
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(MEMBERS, seed);
  members_start(board, pids, body);
  await_mark(&marks->ready, when);
  kill_in_a_call(pids[VICTIM]);
  members_end(board, pids, VICTIM);
  board_close(board);
  munmap(marks, sizeof *marks);
}

/* A member leaves while others have sent it requests. */
static void one_leaves(member_t *member) {
  uint64_t number = 1;
  win_t win;
  member_begin(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_CREATE, 64, 8, NULL);
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  CHECK_OK(win_put64(&win, VICTIM, 8, &number));
  CHECK_OK(ucxx_window_unlock_all(win.window));
  CHECK_OK(ucxx_group_barrier(member->group));
  if (win.rank != VICTIM) {
    CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank ");
  }
  ucxx_window_destroy(win.window);
  /* The memory may be used until here. */
  CHECK_OK(ucxx_group_barrier(member->group));
  pages_close(&win);
  member_close(member);
}

/* On one host a dead process's memory stays accessible; window_death.c tests that. */
static void deaths(uint64_t seed, const char *mode) {
  for (uint64_t round = 0; round < 3; round++) {
    STEP("%s: target dies, round %d", mode, (int)round);
    run_and_kill(seed + round, target_dies, 1 + test_mix(seed + round) % 1000);
  }
  STEP("%s: a lock of a member that dies", mode);
  run_and_kill(seed, holder_of_the_dead, MEMBERS);
  STEP("%s: a lock of a member that leaves", mode);
  marks = shared_open(sizeof *marks);
  run_members(MEMBERS, seed, holder_of_one_that_leaves);
  munmap(marks, sizeof *marks);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  uint64_t seed = test_seed();
  worker_params = params;
  STEP("%s", mode);
  run_members(MEMBERS, seed, paths);
  run_members(3, seed, lengths);
  run_members(MEMBERS, seed, sums);
  run_members(3, seed, what_the_target_finds);
  run_members(4, seed, impatience);
  marks = shared_open(sizeof *marks);
  run_members(2, seed, hints_of_both);
  munmap(marks, sizeof *marks);
  if (test_hosts() > 1 && test_hosts() < MEMBERS - 1) {
    STEP("%s: the update lock", mode);
    marks = shared_open(sizeof *marks);
    run_members(MEMBERS, seed, held_up);
    munmap(marks, sizeof *marks);
    marks = shared_open(sizeof *marks);
    run_members(MEMBERS, seed, left_aside);
    munmap(marks, sizeof *marks);
  }
  if (test_hosts() > 1) deaths(seed, mode);
  if (params->thread_mode == UCXX_THREAD_MULTI) {
    STEP("%s: windows of two groups", mode);
    run_members(3, seed, two_groups);
  }
  STEP("%s: one leaves", mode);
  run_members(4, seed, one_leaves);
}

int main(void) {
  test_begin("window_remote");
  in_every_mode(round_in);
  return 0;
}
