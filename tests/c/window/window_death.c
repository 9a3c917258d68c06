/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A process dies while others share windows with it. Locks that it shared become free, the lock
 * that it held alone is poisoned, waiting members get an error, and everything else keeps working.
 * No call waits without end: the guard's limit on a step would report it as a hang.
 */
#include "window.h"
#include "window_model.h"

enum { MEMBERS = 5, SIZE = 256, LOAD_ROUNDS = 2 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static const uint32_t victim = 2, held = 1; /* `held`: the target whose lock the tests use */
static win_t win;

/* `ready`: the victim may be killed; `dead`: it has been; the tests use the other counters. */
static struct marks {
  uint64_t ready, dead, opened, fenced, go, waiting, met, ended;
} *marks;

static void lock(int32_t type, uint32_t target) {
  CHECK_OK(ucxx_window_lock(win.window, type, target, 0));
}
static void unlock(uint32_t target) { CHECK_OK(ucxx_window_unlock(win.window, target)); }

static void member_begin(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, flavor, SIZE, 8, NULL);
  meet_at(&marks->opened, MEMBERS);
}

/* The launcher kills it here, or some time later. */
static void ready_to_die(void) { mark(&marks->ready, 1); }

static void die(void) {
  ready_to_die();
  for (;;) pause();
}

static void check_others_work(void) {
  for (uint32_t target = 0; target < win.ranks; target++) {
    uint64_t number = 0;
    const uint64_t one = 1;
    if (target == victim || target == held) continue;
    lock(UCXX_LOCK_EXCLUSIVE, target);
    CHECK_OK(win_fetch64(&win, target, 0, UCXX_REDUCE_SUM, &one, &number));
    unlock(target);
    lock(UCXX_LOCK_SHARED, target);
    CHECK_OK(win_get64(&win, target, 0, &number));
    unlock(target);
    CHECK(number > 0);
  }
}

/* A barrier of the survivors. */
static void meet_others(uint64_t *count) { meet_at(count, MEMBERS - 1); }

/* All survivors have detected the death: only then may one of them leave. */
static void member_finish(member_t *member) {
  meet_others(&marks->ended);
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 2");
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 0, 0), UCXX_ERR_CLOSED);
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ locks */

static void check_poisoned(void) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, held, 0), UCXX_ERR_RMA_POISONED);
  CHECK_MESSAGE("rank 1");
  CHECK_EQ(ucxx_window_sync_type(win.window, held), UCXX_SYNC_NONE);
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, held, 0), UCXX_ERR_RMA_POISONED);
  CHECK_STATUS(finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, held, 0, NULL, &request),
                      &request),
               UCXX_ERR_RMA_POISONED);
  CHECK_STATUS(ucxx_window_lock_all(win.window, 0), UCXX_ERR_RMA_POISONED);
  for (uint32_t target = 0; target < win.ranks; target++)
    CHECK_EQ(ucxx_window_sync_type(win.window, target), UCXX_SYNC_NONE);
}

/* Each survivor waits in its own way while the holder dies. */
static void holds_alone(member_t *member) {
  ucxx_request_t *request = NULL;
  win_t other;
  member_begin(member);
  win_open(&other, member, flavor, SIZE, 8, NULL);
  if (member->rank == victim) {
    lock(UCXX_LOCK_EXCLUSIVE, held);
    mark(&marks->go, 1);
    await_mark(&marks->waiting, MEMBERS - 1);
    die();
  }
  await_mark(&marks->go, 1);
  __atomic_add_fetch(&marks->waiting, 1, __ATOMIC_SEQ_CST);
  switch (member->rank) {
  case 0:
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, held, 0), UCXX_ERR_RMA_POISONED);
    break;
  case 1:
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, held, 0), UCXX_ERR_RMA_POISONED);
    break;
  case 3: CHECK_STATUS(ucxx_window_lock_all(win.window, 0), UCXX_ERR_RMA_POISONED); break;
  default:
    CHECK_STATUS(finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, held, 0, NULL, &request),
                        &request),
                 UCXX_ERR_RMA_POISONED);
  }
  check_poisoned();
  check_others_work();
  STEP("another window, in which it held nothing");
  CHECK_OK(ucxx_window_lock(other.window, UCXX_LOCK_EXCLUSIVE, held, 0));
  CHECK_OK(ucxx_window_unlock(other.window, held));
  meet_others(&marks->met);
  ucxx_window_destroy(other.window);
  pages_close(&other);
  member_finish(member);
}

/* The holder has forked: the child lives on with everything it inherited, and must not be mistaken
 * for the holder. */
static void leaves_a_child(member_t *member) {
  member_begin(member);
  if (member->rank == victim) {
    lock(UCXX_LOCK_EXCLUSIVE, held);
    if (fork() == 0) {
      mark(&marks->go, 1);
      await_mark(&marks->ended, MEMBERS - 1);
      _exit(0);
    }
    await_mark(&marks->go, 1);
    die();
  }
  await_mark(&marks->go, 1);
  check_poisoned();
  check_others_work();
  member_finish(member);
}

/* The holder is stopped, not dead: a waiting member waits longer than the detection of a death
 * takes, and gets the lock after the holder continues. */
static void is_stopped(member_t *member) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  member_begin(member);
  if (member->rank == victim) {
    lock(UCXX_LOCK_EXCLUSIVE, held);
    mark(&marks->go, 1);
    ready_to_die();
    await_mark(&marks->met, MEMBERS - 1);
    unlock(held);
  } else {
    await_mark(&marks->dead, 1);
    params.timeout_ns = 3 * SECOND;
    CHECK_STATUS(
        finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, held, 0, &params, &request),
               &request),
        UCXX_ERR_TIMED_OUT);
    __atomic_add_fetch(&marks->met, 1, __ATOMIC_SEQ_CST);
    lock(UCXX_LOCK_EXCLUSIVE, held);
    unlock(held);
  }
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  win_close(&win);
  member_close(member);
}

/* Readers, of which one dies; then a writer. */
static void holds_with_others(member_t *member) {
  member_begin(member);
  if (member->rank == victim) {
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    mark(&marks->go, 1);
    await_mark(&marks->waiting, 1);
    die();
  }
  await_mark(&marks->go, 1);
  if (member->rank == 0) {
    lock(UCXX_LOCK_SHARED, held);
    mark(&marks->waiting, 1);
    await_mark(&marks->dead, 1);
    unlock(held);
  }
  /* A dead process's memory stays accessible on its own host only. */
  int lost = on_another_host(member->rank, victim);
  for (uint32_t target = 0; target < win.ranks; target++) {
    if (target == victim && lost) {
      CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, target, 0),
                   UCXX_ERR_PEER_FAILED);
      CHECK_MESSAGE("rank 2");
      continue;
    }
    lock(UCXX_LOCK_EXCLUSIVE, target);
    unlock(target);
  }
  CHECK_STATUS(ucxx_window_lock_all(win.window, 0), lost ? UCXX_ERR_PEER_FAILED : UCXX_OK);
  if (!lost) CHECK_OK(ucxx_window_unlock_all(win.window));
  check_others_work();
  member_finish(member);
}

/* The victim waited for a lock; the members behind it in the queue get it. */
static void waits_in_line(member_t *member) {
  member_begin(member);
  if (member->rank == 0) {
    lock(UCXX_LOCK_EXCLUSIVE, held);
    mark(&marks->go, 1);
    await_mark(&marks->dead, 1);
    unlock(held);
  } else {
    await_mark(&marks->go, 1);
    if (member->rank == victim) ready_to_die();
  }
  ucxx_status_t status = ucxx_window_lock(
      win.window, member->rank == 3 ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE, held, 0);
  CHECK(member->rank != victim);
  CHECK_OK(status);
  unlock(held);
  check_others_work();
  member_finish(member);
}

/* ------------------------------------------------------------------ active target */

static void before_a_fence(member_t *member) {
  member_begin(member);
  CHECK_OK(ucxx_window_fence(win.window, 0));
  meet_at(&marks->fenced, MEMBERS);
  if (member->rank == victim) die();
  CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 2");
  CHECK_STATUS(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED), UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 2");
  check_others_work();
  member_finish(member);
}

static void among_others(void) {
  uint32_t others[MEMBERS], count = 0;
  for (uint32_t rank = 0; rank < win.ranks; rank++) {
    if (rank != victim) others[count++] = rank;
  }
  for (uint64_t round = 0; round < 5; round++) {
    uint64_t number = round + 1, found;
    CHECK_OK(ucxx_window_post(win.window, others, count, 0));
    CHECK_OK(ucxx_window_start(win.window, others, count, 0));
    for (uint32_t at = 0; at < count; at++)
      CHECK_OK(win_put64(&win, others[at], 8 * (win.rank + 1), &number));
    CHECK_OK(ucxx_window_complete(win.window));
    CHECK_OK(ucxx_window_wait(win.window));
    for (uint32_t at = 0; at < count; at++) {
      memcpy(&found, win.base + 8 * (others[at] + 1), sizeof found);
      CHECK_EQ(found, number);
    }
  }
}

static void before_it_posts(member_t *member) {
  uint32_t group[] = {0, victim};
  int posts = member->rank == 0;
  member_begin(member);
  if (member->rank == victim) die();
  if (posts) {
    static const uint32_t origins[] = {1, 3, 4};
    CHECK_OK(ucxx_window_post(win.window, origins, 3, 0));
    /* No member gets into an epoch, so none completes one either. */
    CHECK_STATUS(ucxx_window_start(win.window, &victim, 1, 0), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank 2");
  } else {
    CHECK_STATUS(ucxx_window_start(win.window, group, 2, 0), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank 2");
    CHECK_EQ(ucxx_window_sync_type(win.window, 0), UCXX_SYNC_NONE);
    CHECK_STATUS(ucxx_window_complete(win.window), UCXX_ERR_RMA_SYNC);
    /* The epoch that rank 0 has posted is still open. */
    CHECK_OK(ucxx_window_start(win.window, group, 1, 0));
    CHECK_OK(ucxx_window_complete(win.window));
  }
  if (posts) CHECK_OK(ucxx_window_wait(win.window));
  among_others();
  check_others_work();
  member_finish(member);
}

static void before_it_completes(member_t *member) {
  int32_t done = 0;
  member_begin(member);
  if (member->rank == victim) {
    static const uint32_t targets[] = {0, 1, 3, 4};
    CHECK_OK(ucxx_window_start(win.window, targets, 4, 0));
    die();
  }
  CHECK_OK(ucxx_window_post(win.window, &victim, 1, 0));
  ucxx_status_t status = UCXX_OK;
  if (member->rank % 2 == 0) {
    status = ucxx_window_wait(win.window);
  } else {
    while (status == UCXX_OK && !done) status = ucxx_window_test(win.window, &done);
    CHECK(!done);
  }
  CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 2");
  CHECK_EQ(ucxx_window_sync_type(win.window, victim), UCXX_SYNC_NONE);
  CHECK_STATUS(ucxx_window_wait(win.window), UCXX_ERR_RMA_SYNC);
  among_others();
  check_others_work();
  member_finish(member);
}

/* One of two awaited origins dies. The other one's complete of this epoch must not count for the
 * next. */
static void before_both_complete(member_t *member) {
  static const uint32_t targets[] = {0, 1}, origins[] = {2, 3};
  const uint32_t other = origins[1];
  const uint64_t number = 77;
  uint64_t found;
  int32_t done = 0;
  member_begin(member);
  if (member->rank == victim) {
    CHECK_OK(ucxx_window_start(win.window, targets, 2, 0));
    die();
  }
  if (member->rank < 2) {
    ucxx_status_t status = UCXX_OK;
    CHECK_OK(ucxx_window_post(win.window, origins, 2, 0));
    if (member->rank == 0) {
      status = ucxx_window_wait(win.window);
    } else {
      while (status == UCXX_OK && !done) status = ucxx_window_test(win.window, &done);
      CHECK(!done);
    }
    CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank 2");
    __atomic_add_fetch(&marks->go, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(ucxx_window_post(win.window, &other, 1, 0));
    await_mark(&marks->waiting, 1);
    for (int look = 0; look < 500; look++) {
      CHECK_OK(ucxx_window_test(win.window, &done));
      CHECK(!done);
      sched_yield();
    }
    __atomic_add_fetch(&marks->fenced, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(ucxx_window_wait(win.window));
    memcpy(&found, win.base, sizeof found);
    CHECK_EQ(found, number);
  } else if (member->rank == other) {
    CHECK_OK(ucxx_window_start(win.window, targets, 2, 0));
    await_mark(&marks->go, 2);
    CHECK_OK(ucxx_window_complete(win.window));
    CHECK_OK(ucxx_window_start(win.window, targets, 2, 0));
    mark(&marks->waiting, 1);
    await_mark(&marks->fenced, 2);
    for (uint32_t at = 0; at < 2; at++) CHECK_OK(win_put64(&win, targets[at], 0, &number));
    CHECK_OK(ucxx_window_complete(win.window));
  }
  meet_others(&marks->met);
  among_others();
  check_others_work();
  member_finish(member);
}

/* The member lives and never calls: the group's time limit ends this fence, all later ones, and the
 * close. */
static void does_not_come(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 3 * SECOND);
  win_open(&win, member, flavor, SIZE, 8, NULL);
  if (member->rank == victim) {
    await_mark(&marks->met, MEMBERS - 1);
    CHECK(ucxx_window_close(win.window) < 0);
  } else {
    CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_TIMED_OUT);
    CHECK_MESSAGE("rank ");
    CHECK(ucxx_window_fence(win.window, 0) < 0);
    __atomic_add_fetch(&marks->met, 1, __ATOMIC_SEQ_CST);
    CHECK(ucxx_window_close(win.window) < 0);
    CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_CLOSED);
  }
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ under load */

static int is_fine(ucxx_status_t status, int *poisoned) {
  if (status == UCXX_OK) {
    CHECK(!*poisoned);
    return 1;
  }
  CHECK_STATUS(status, UCXX_ERR_RMA_POISONED);
  *poisoned = 1;
  return 0;
}

static ucxx_status_t lock_somehow(dice_t *dice, uint32_t target) {
  int32_t type = roll(dice, 2) ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  uint64_t way = roll(dice, 3);
  if (way == 0) return ucxx_window_lock(win.window, type, target, 0);
  params.timeout_ns = way == 1 ? 1 + roll(dice, MILLISECOND) : 0;
  ucxx_status_t status =
      finish(ucxx_window_lock_nb(win.window, type, target, 0, &params, &request), &request);
  CHECK(way == 1 || status != UCXX_ERR_TIMED_OUT);
  return status;
}

/* All lock, update and unlock; one is killed anywhere. Its locks are free or poisoned, and poisoned
 * ones stay poisoned. */
static void under_load(member_t *member) {
  int locks_poisoned[MEMBERS] = {0}, updates_poisoned[MEMBERS] = {0};
  dice_t dice = {test_mix(member->board->seed + member->rank)};
  const double numbers[2] = {1, -1};
  const ucxx_layout_t one = contiguous(UCXX_TYPE_COMPLEX_DOUBLE, 1);
  member_begin(member);
  for (uint64_t turn = 0, after = 0; after < 300 || member->rank == victim;
       turn++, after += look(&marks->dead)) {
    /* Whether unmapped memory of a dead process can be reached is not tested here. */
    uint32_t target = (uint32_t)roll(&dice, win.ranks - 1);
    target += target >= victim;
    int all = roll(&dice, 20) == 0;
    ucxx_status_t status = all ? ucxx_window_lock_all(win.window, 0) : lock_somehow(&dice, target);
    if (member->rank == victim) __atomic_add_fetch(&marks->ready, 1, __ATOMIC_SEQ_CST);
    if (all) {
      if (status != UCXX_OK) {
        CHECK(status == UCXX_ERR_RMA_POISONED ||
              (status == UCXX_ERR_PEER_FAILED && on_another_host(member->rank, victim)));
        continue;
      }
    } else if (status == UCXX_ERR_TIMED_OUT || !is_fine(status, &locks_poisoned[target])) {
      continue;
    }
    status = ucxx_window_accumulate(win.window, numbers, &one, target, win_disp(&win, target, 64),
                                    &one, UCXX_REDUCE_SUM);
    /* Errors of requests to the target are reported at the end of the epoch. */
    int asked = ucxx_window_path(win.window, target) == UCXX_WINDOW_PATH_MESSAGE;
    if (asked)
      CHECK_OK(status);
    else
      is_fine(status, &updates_poisoned[target]);
    status = all ? ucxx_window_unlock_all(win.window) : ucxx_window_unlock(win.window, target);
    if (all && status == UCXX_ERR_PEER_FAILED) {
      CHECK(on_another_host(member->rank, victim));
      CHECK_MESSAGE("rank 2");
    } else if (all && status != UCXX_OK) {
      CHECK(asked && status == UCXX_ERR_RMA_POISONED);
    } else if (!all && asked) {
      is_fine(status, &updates_poisoned[target]);
    } else {
      CHECK_OK(status);
    }
  }
  meet_others(&marks->met);
  double found[2];
  memcpy(found, win.base + 64, sizeof found);
  /* If no update was cut short, none is visible half done. */
  CHECK(updates_poisoned[win.rank] || locks_poisoned[win.rank] || found[0] == -found[1]);
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
  ucxx_window_destroy(win.window);
  pages_close(&win);
  member_close(member);
}

/* ------------------------------------------------------------------ the launcher's side */

static void kill_after(uint64_t ready, uint64_t seed, void (*body)(member_t *member)) {
  pid_t pids[MOST_MEMBERS];
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(MEMBERS, seed);
  members_start(board, pids, body);
  await_mark(&marks->ready, ready);
  kill_anywhere(pids[victim]);
  CHECK_EQ(waitid(P_PID, (id_t)pids[victim], &(siginfo_t){.si_pid = 0}, WEXITED | WNOWAIT), 0);
  mark(&marks->dead, 1);
  members_end(board, pids, (int)victim);
  board_close(board);
  munmap(marks, sizeof *marks);
}

static void stop_meanwhile(uint64_t seed) {
  pid_t pids[MOST_MEMBERS];
  int status = 0;
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(MEMBERS, seed);
  members_start(board, pids, is_stopped);
  await_mark(&marks->ready, 1);
  CHECK_EQ(kill(pids[victim], SIGSTOP), 0);
  CHECK_EQ(waitpid(pids[victim], &status, WUNTRACED), pids[victim]);
  CHECK(WIFSTOPPED(status));
  mark(&marks->dead, 1);
  await_mark(&marks->met, MEMBERS - 1);
  CHECK_EQ(kill(pids[victim], SIGCONT), 0);
  members_end(board, pids, -1);
  board_close(board);
  munmap(marks, sizeof *marks);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  uint64_t seed = test_seed();
  worker_params = params;
  STEP("%s: holds alone", mode);
  kill_after(1, seed, holds_alone);
  if (test_hosts() == 1) {
    /* On another host the death is detected by its connections, which the child has as well. */
    STEP("%s: leaves a child", mode);
    kill_after(1, seed, leaves_a_child);
  }
  if (params->progress_mode != UCXX_PROGRESS_MANUAL) {
    STEP("%s: is stopped", mode);
    stop_meanwhile(seed);
    STEP("%s: never calls", mode);
    marks = shared_open(sizeof *marks);
    run_members(MEMBERS, seed, does_not_come);
    munmap(marks, sizeof *marks);
  }
  STEP("%s: holds with others", mode);
  kill_after(1, seed, holds_with_others);
  STEP("%s: waits in line", mode);
  kill_after(1, seed, waits_in_line);
  STEP("%s: before a fence", mode);
  kill_after(1, seed, before_a_fence);
  STEP("%s: before it posts", mode);
  kill_after(1, seed, before_it_posts);
  STEP("%s: before it completes", mode);
  kill_after(1, seed, before_it_completes);
  STEP("%s: before both complete", mode);
  kill_after(1, seed, before_both_complete);
  for (uint64_t round = 0; round < LOAD_ROUNDS; round++) {
    STEP("%s: under load, round %d", mode, (int)round);
    kill_after(1 + test_mix(seed + round) % 500, seed + round, under_load);
  }
}

int main(int argc, char **argv) {
  test_begin("window_death");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
