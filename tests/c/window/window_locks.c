/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Window locks: an exclusive holder is alone and shared holders share, in every form of the calls,
 * with timeouts and with NOCHECK. Counters outside the library and in the window detect a
 * violation.
 */
#include "window.h"
#include "window_model.h"

enum { MEMBERS = 4, TURNS = 800, COUNTS = 200, IMPATIENT = 500, WAYS = 6, WORDS = 8, SIZE = 128 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;

static struct marks {
  uint64_t readers[MEMBERS], writers[MEMBERS], writes[MEMBERS]; /* of each target */
  uint64_t met, step[3 + WAYS], stop;
} *marks;

static uint64_t add(uint64_t *counter, uint64_t value) {
  return __atomic_add_fetch(counter, value, __ATOMIC_SEQ_CST);
}

static void lock(int32_t type, uint32_t target) {
  CHECK_OK(ucxx_window_lock(win.window, type, target, 0));
}
static void unlock(uint32_t target) { CHECK_OK(ucxx_window_unlock(win.window, target)); }

static void meet(const member_t *member) { CHECK_OK(ucxx_group_barrier(member->group)); }

/* ------------------------------------------------------------------ who holds the lock */

/* Yields now and then inside a critical section, so that others run even on few processors. */
static void dawdle(void) {
  static dice_t dice;
  if (roll(&dice, 4) == 0) sched_yield();
}

static void as_writer(uint32_t target) {
  uint64_t words[WORDS];
  ucxx_layout_t all = contiguous(UCXX_TYPE_UINT64, WORDS);
  CHECK_EQ(add(&marks->writers[target], 1), 1);
  CHECK_EQ(look(&marks->readers[target]), 0);
  CHECK_OK(ucxx_window_get(win.window, words, &all, target, win_disp(&win, target, 0), &all));
  CHECK_OK(ucxx_window_flush(win.window, target));
  for (int word = 1; word < WORDS; word++) {
    CHECK_EQ(words[word], words[0]);
    words[word]++;
  }
  words[0]++;
  dawdle();
  CHECK_OK(ucxx_window_put(win.window, words, &all, target, win_disp(&win, target, 0), &all));
  CHECK_EQ(look(&marks->readers[target]), 0);
  CHECK_EQ(add(&marks->writers[target], UINT64_MAX), 0);
  marks->writes[target]++; /* under the lock */
}

static void as_reader(uint32_t target) {
  uint64_t words[WORDS];
  ucxx_layout_t all = contiguous(UCXX_TYPE_UINT64, WORDS);
  add(&marks->readers[target], 1);
  CHECK_EQ(look(&marks->writers[target]), 0);
  CHECK_OK(ucxx_window_get(win.window, words, &all, target, win_disp(&win, target, 0), &all));
  CHECK_OK(ucxx_window_flush_local(win.window, target));
  dawdle();
  for (int word = 0; word < WORDS; word++) CHECK_EQ(words[word], words[0]);
  CHECK_EQ(look(&marks->writers[target]), 0);
  add(&marks->readers[target], UINT64_MAX);
}

/* Some read and some write, with every way to lock, on all targets. A member in lock_all never
 * meets one that holds a lock and waits for another. */
static void readers_and_writers(member_t *member) {
  dice_t dice = {test_mix(member->board->seed + member->rank)};
  win_open(&win, member, flavor, SIZE, 8, NULL);
  for (int turn = 0; turn < TURNS; turn++) {
    uint32_t target = (uint32_t)roll(&dice, win.ranks), second = (target + 1) % win.ranks;
    ucxx_request_t *request = NULL;
    STEP("readers and writers: turn %d", turn);
    uint64_t way = roll(&dice, 5);
    if (turn == TURNS / 2) meet(member);
    switch (way == 4 && turn < TURNS / 2 ? 5 : way) {
    case 0:
    case 1:
      lock(UCXX_LOCK_EXCLUSIVE, target);
      as_writer(target);
      unlock(target);
      break;
    case 2:
      CHECK_OK(
          finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, target, 0, NULL, &request),
                 &request));
      as_writer(target);
      unlock(target);
      break;
    case 3:
      lock(UCXX_LOCK_SHARED, target);
      as_reader(target);
      unlock(target);
      break;
    case 5:
      /* Two at a time, in the order of ranks, which avoids deadlock. */
      lock(UCXX_LOCK_EXCLUSIVE, target < second ? target : second);
      lock(UCXX_LOCK_SHARED, target < second ? second : target);
      as_writer(target < second ? target : second);
      as_reader(target < second ? second : target);
      unlock(target);
      unlock(second);
      break;
    default:
      CHECK_OK(ucxx_window_lock_all(win.window, 0));
      for (uint32_t each = 0; each < win.ranks; each++) as_reader(each);
      CHECK_OK(ucxx_window_unlock_all(win.window));
    }
  }
  meet(member);
  CHECK_EQ(((uint64_t *)(void *)win.base)[0], marks->writes[win.rank]);
  CHECK_EQ(((uint64_t *)(void *)win.base)[WORDS - 1], marks->writes[win.rank]);
  meet(member);
  win_close(&win);
}

/* Numbers in a window are incremented by load and store, some of them by their owner. */
static void counters(member_t *member) {
  win_open(&win, member, flavor, SIZE, 8, NULL);
  for (int turn = 0; turn < COUNTS; turn++) {
    STEP("counters: turn %d", turn);
    for (uint32_t target = 0; target < win.ranks; target++) {
      uint64_t now = 0;
      lock(UCXX_LOCK_EXCLUSIVE, target);
      if (target == win.rank) {
        ((volatile uint64_t *)(void *)win.base)[0]++;
      } else {
        CHECK_OK(win_get64(&win, target, 0, &now));
        CHECK_OK(ucxx_window_flush_local(win.window, target));
        now++;
        CHECK_OK(win_put64(&win, target, 0, &now));
      }
      unlock(target);
    }
  }
  meet(member);
  CHECK_EQ(((uint64_t *)(void *)win.base)[0], (uint64_t)COUNTS * win.ranks);
  meet(member);
  win_close(&win);
}

/* All hold the lock at once: if it were not shared, none would continue. Then one member wants it
 * exclusively, while readers keep coming. */
static void shared_is_shared(member_t *member) {
  win_open(&win, member, flavor, SIZE, 8, NULL);
  STEP("all share");
  if (member->rank % 2 == 0)
    lock(UCXX_LOCK_SHARED, 1);
  else
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
  add(&marks->met, 1);
  await_mark(&marks->met, win.ranks);
  if (member->rank % 2 == 0)
    unlock(1);
  else
    CHECK_OK(ucxx_window_unlock_all(win.window));
  meet(member);
  STEP("a writer among readers");
  if (member->rank == 0) {
    await_mark(&marks->step[0], 2);
    for (int turn = 0; turn < 5; turn++) {
      lock(UCXX_LOCK_EXCLUSIVE, 1);
      as_writer(1);
      unlock(1);
    }
    mark(&marks->stop, 1);
  } else if (member->rank != 1) {
    add(&marks->step[0], 1);
    while (!look(&marks->stop)) {
      lock(UCXX_LOCK_SHARED, 1);
      as_reader(1);
      unlock(1);
    }
  }
  meet(member);
  win_close(&win);
}

/* NOCHECK takes no lock and waits for nobody. */
static void without_checks(member_t *member) {
  uint64_t value = 4711, now = 0;
  win_open(&win, member, flavor, SIZE, 8, NULL);
  STEP("NOCHECK");
  if (member->rank == 0) {
    lock(UCXX_LOCK_EXCLUSIVE, 1);
    mark(&marks->step[1], 1);
    await_mark(&marks->step[1], 2);
    unlock(1);
  } else if (member->rank == 2) {
    await_mark(&marks->step[1], 1);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, UCXX_ASSERT_NOCHECK));
    CHECK_OK(win_put64(&win, 1, 8 * WORDS, &value));
    unlock(1);
    CHECK_OK(ucxx_window_lock_all(win.window, UCXX_ASSERT_NOCHECK));
    CHECK_OK(win_get64(&win, 1, 8 * WORDS, &now));
    CHECK_OK(ucxx_window_flush_all(win.window));
    CHECK_EQ(now, value);
    CHECK_OK(ucxx_window_unlock_all(win.window));
    mark(&marks->step[1], 2);
  }
  meet(member);
  /* A lock that was not taken is not released either. */
  lock(UCXX_LOCK_EXCLUSIVE, 1);
  as_writer(1);
  unlock(1);
  meet(member);
  win_close(&win);
}

/* ------------------------------------------------------------------ locks as requests */

static void hold_while(uint64_t *step) {
  lock(UCXX_LOCK_EXCLUSIVE, 1);
  mark(step, 1);
  await_mark(step, 2);
  unlock(1);
}

static void by_callback(member_t *member, uint64_t *step) {
  seen_t seen = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &seen;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  await_mark(step, 1);
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, 1, 0, &params, NULL),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0), UCXX_ERR_RMA_SYNC);
  CHECK_STATUS(ucxx_window_unlock(win.window, 1), UCXX_ERR_RMA_SYNC);
  for (int turn = 0; turn < 100; turn++) progress(member->worker);
  CHECK_EQ(seen_count(&seen), 0);
  mark(step, 2);
  while (seen_count(&seen) == 0) progress(member->worker);
  CHECK_OK(seen.status);
  CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_LOCK);
  seen.count = 0;
  CHECK_STATUS(ucxx_window_flush_nb(win.window, 1, &params, NULL), UCXX_INPROGRESS);
  while (seen_count(&seen) == 0) progress(member->worker);
  CHECK_OK(seen.status);
  unlock(1);
}

static void by_notifier(member_t *member, uint64_t *step) {
  ucxx_notifier_t *notifier = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_completion_t completion;
  size_t count = 0;
  int32_t number = 5;
  CHECK_OK(ucxx_notifier_create(member->context, &notifier));
  params.notifier = notifier;
  params.callback_arg = &number;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  await_mark(step, 1);
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0, &params, NULL),
               UCXX_INPROGRESS);
  mark(step, 2);
  for (int operation = 0; operation < 2; operation++) {
    for (count = 0; count == 0; progress(member->worker))
      CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_OK(completion.status);
    CHECK(completion.user_data == &number);
    if (operation == 0)
      CHECK_STATUS(ucxx_window_flush_nb(win.window, 1, &params, NULL), UCXX_INPROGRESS);
  }
  unlock(1);
  ucxx_notifier_destroy(notifier);
}

static void by_waiting(member_t *member, uint64_t *step) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  (void)member;
  params.flags = UCXX_FLAG_WAIT;
  await_mark(step, 1);
  mark(step, 2);
  CHECK_OK(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0, &params, NULL));
  CHECK_OK(ucxx_window_flush_nb(win.window, 1, &params, NULL));
  unlock(1);
}

/* A lock request that is given up leaves no trace. */
static void given_up(member_t *member, uint64_t *step) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  (void)member;
  await_mark(step, 1);
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0, NULL, &request),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait(request, MILLISECOND), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
  params.timeout_ns = 20 * MILLISECOND;
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, 1, 0, &params, &request),
               UCXX_INPROGRESS);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_TIMED_OUT);
  CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
  /* An epoch of another kind may begin. */
  CHECK_OK(ucxx_window_start(win.window, NULL, 0, 0));
  CHECK_OK(ucxx_window_complete(win.window));
  mark(step, 2);
  lock(UCXX_LOCK_EXCLUSIVE, 1);
  unlock(1);
}

/* Without a request the lock is granted all the same. */
static void forgotten(member_t *member, uint64_t *step) {
  ucxx_request_t *request = NULL;
  await_mark(step, 1);
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0, NULL, &request),
               UCXX_INPROGRESS);
  ucxx_request_destroy(request);
  CHECK_STATUS(ucxx_window_unlock(win.window, 1), UCXX_ERR_RMA_SYNC);
  mark(step, 2);
  while (ucxx_window_sync_type(win.window, 1) != UCXX_SYNC_LOCK) progress(member->worker);
  as_writer(1);
  unlock(1);
}

/* Several of one process, granted one by one. */
static void several(member_t *member, uint64_t *step) {
  ucxx_request_t *requests[MEMBERS] = {NULL};
  ucxx_status_t statuses[MEMBERS];
  (void)member;
  await_mark(step, 1);
  for (uint32_t target = win.ranks; target-- > 0;)
    statuses[target] =
        ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, target, 0, NULL, &requests[target]);
  CHECK_STATUS(statuses[1], UCXX_INPROGRESS);
  for (uint32_t target = 0; target < win.ranks; target++) {
    if (target == 1) continue;
    CHECK_OK(finish(statuses[target], &requests[target]));
    as_writer(target);
    unlock(target);
  }
  CHECK_STATUS(ucxx_request_status(requests[1]), UCXX_INPROGRESS);
  mark(step, 2);
  CHECK_OK(finish(statuses[1], &requests[1]));
  as_writer(1);
  unlock(1);
}

static void as_requests(member_t *member) {
  static void (*const ways[])(member_t *member, uint64_t *step) = {
      by_callback, by_notifier, by_waiting, given_up, forgotten, several};
  win_open(&win, member, flavor, SIZE, 8, NULL);
  for (int way = 0; way < WAYS; way++) {
    STEP("as a request, way %d", way);
    if (member->rank == 0) hold_while(&marks->step[3 + way]);
    if (member->rank == 2) ways[way](member, &marks->step[3 + way]);
    meet(member);
  }
  /* The lock was released each time. */
  lock(UCXX_LOCK_EXCLUSIVE, 1);
  unlock(1);
  meet(member);
  win_close(&win);
}

/* All want the lock, and most give up after a while, in one way or another: exclusive holders are
 * still alone, and shared ones share. */
static void impatient(member_t *member) {
  dice_t dice = {test_mix(member->board->seed + 50 + member->rank)};
  uint32_t granted = 0;
  win_open(&win, member, flavor, SIZE, 8, NULL);
  for (int turn = 0; turn < IMPATIENT; turn++) {
    uint32_t target = (uint32_t)roll(&dice, 2);
    int32_t type = roll(&dice, 3) ? UCXX_LOCK_EXCLUSIVE : UCXX_LOCK_SHARED;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL;
    uint64_t way = roll(&dice, 3);
    STEP("impatient: turn %d", turn);
    params.timeout_ns = way == 0 ? 1 + roll(&dice, MILLISECOND / 4) : 0;
    ucxx_status_t status = ucxx_window_lock_nb(win.window, type, target, 0, &params, &request);
    for (uint64_t look = roll(&dice, 20); way == 1 && look > 0; look--) progress(member->worker);
    if (way == 1 && status == UCXX_INPROGRESS) CHECK_OK(ucxx_request_cancel(request));
    status = finish(status, &request);
    if (status != UCXX_OK) {
      CHECK_STATUS(status, way == 0 ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
      CHECK(way != 2);
      CHECK_EQ(ucxx_window_sync_type(win.window, target), UCXX_SYNC_NONE);
      CHECK_STATUS(ucxx_window_unlock(win.window, target), UCXX_ERR_RMA_SYNC);
      continue;
    }
    granted++;
    if (type == UCXX_LOCK_EXCLUSIVE)
      as_writer(target);
    else
      as_reader(target);
    unlock(target);
  }
  CHECK(granted > 0);
  meet(member);
  win_close(&win);
}

/* ------------------------------------------------------------------ hints */

static void limited(member_t *member) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  params.lock_timeout_ns = 30 * MILLISECOND;
  win_open(&win, member, flavor, SIZE, 8, &params);
  STEP("a time limit");
  if (member->rank == 0) {
    /* On a busy machine the limit expires even where nobody holds the lock. */
    ucxx_status_t first;
    do first = ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0);
    while (first == UCXX_ERR_TIMED_OUT);
    CHECK_OK(first);
    mark(&marks->step[2], 1);
    await_mark(&marks->step[2], 1 + 2);
    unlock(1);
  } else if (member->rank >= 2) {
    await_mark(&marks->step[2], 1);
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0), UCXX_ERR_TIMED_OUT);
    CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0), UCXX_ERR_TIMED_OUT);
    /* It holds the locks it was granted, and no others. */
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 0, UCXX_ASSERT_NOCHECK));
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0), UCXX_ERR_TIMED_OUT);
    CHECK_EQ(ucxx_window_sync_type(win.window, 0), UCXX_SYNC_LOCK_NO_CHECK);
    CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
    unlock(0);
    /* A path that takes locks on demand may report the error at the first operation, or at the
     * end. */
    uint64_t number = 0;
    ucxx_status_t status = ucxx_window_lock_all(win.window, 0);
    if (status == UCXX_OK) {
      CHECK(ucxx_window_path(win.window, 1) == UCXX_WINDOW_PATH_MESSAGE);
      status = win_get64(&win, 1, 0, &number);
      ucxx_status_t ended = ucxx_window_unlock_all(win.window);
      status = status != UCXX_OK ? status : ended;
    }
    CHECK_STATUS(status, UCXX_ERR_TIMED_OUT);
    CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
    add(&marks->step[2], 1);
  }
  meet(member);
  STEP("hints that change");
  params.lock_timeout_ns = 0;
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  for (uint32_t target = 0; target < win.ranks; target++) {
    /* No member has left a lock behind. */
    lock(UCXX_LOCK_EXCLUSIVE, target);
    as_writer(target);
    unlock(target);
  }
  meet(member);
  params.no_locks = 1;
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0), UCXX_ERR_RMA_SYNC);
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, UCXX_ASSERT_NOCHECK),
               UCXX_ERR_RMA_SYNC);
  CHECK_STATUS(ucxx_window_lock_all(win.window, 0), UCXX_ERR_RMA_SYNC);
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  params.no_locks = 0;
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  for (int turn = 0; turn < 20; turn++) {
    lock(UCXX_LOCK_EXCLUSIVE, 1);
    as_writer(1);
    unlock(1);
  }
  meet(member);
  win_close(&win);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  readers_and_writers(member);
  counters(member);
  shared_is_shared(member);
  without_checks(member);
  as_requests(member);
  impatient(member);
  limited(member);
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
  test_begin("window_locks");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
