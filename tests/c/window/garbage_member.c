/*
 * A group member sends garbage to the others: messages of windows and of collectives, changed,
 * repeated and out of turn. Windows and collectives of the honest members stay correct, and memory
 * outside the garbling member's windows does not change. Inside a window of its own a member may do
 * anything (docs/security.md), so the honest ones do not use that.
 *
 *   UCXX_TEST_HOSTS=64 UCX_TLS=tcp,self garbage_member [ROUNDS]
 */
#include "garbage.h"
#include "window.h"

enum { MEMBERS = 3, GARBLER = 2, SIZE = 4096, ROUNDS = 6, TURNS = 120, AFTERWARDS = 20 };

static struct marks {
  spares_t spared[GARBLER];
  uint64_t ready, numbers, turned, sent, changed;
} *marks;

static uint32_t other_of(uint32_t rank) { return 1 - rank; }

/* The honest members use a window and collectives of their own. */
static void honest_turn(const win_t *win, uint64_t turn) {
  const uint64_t one = 1, number = test_mix(turn * 2 + win->rank);
  uint64_t before = 0, found = 0, all[GARBLER];
  uint32_t other = other_of(win->rank);
  CHECK_OK(
      ucxx_window_lock(win->window, turn % 2 ? UCXX_LOCK_EXCLUSIVE : UCXX_LOCK_SHARED, other, 0));
  CHECK_OK(win_put64(win, other, 64, &number));
  CHECK_OK(ucxx_window_flush(win->window, other));
  CHECK_OK(win_get64(win, other, 64, &found));
  CHECK_OK(win_fetch64(win, other, 8, UCXX_REDUCE_SUM, &one, &before));
  CHECK_OK(ucxx_window_unlock(win->window, other));
  CHECK_EQ(found, number);
  CHECK_EQ(before, turn);
  CHECK_OK(ucxx_group_allgather(win->member->group, &number, sizeof number, all));
  for (uint32_t rank = 0; rank < GARBLER; rank++) CHECK_EQ(all[rank], test_mix(turn * 2 + rank));
  CHECK_OK(ucxx_group_barrier(win->member->group));
}

static void stay_honest(member_t *member, win_t *shared) {
  static const uint32_t ranks[] = {0, 1};
  member_t half = *member;
  win_t win;
  garbage.notes = 1;
  CHECK_OK(ucxx_group_subset(member->group, ranks, 2, &half.group));
  half.size = 2;
  win_open(&win, &half, UCXX_WINDOW_FLAVOR_CREATE, SIZE, 8, NULL);
  for (uint64_t turn = 0; turn < 2; turn++) honest_turn(&win, turn);
  /* Everything was sent to the other peer. */
  garbage.notes = 0;
  CHECK(garbage.spared[0].count > 0);
  marks->spared[other_of(win.rank)] = garbage.spared[0];
  __atomic_add_fetch(&marks->numbers, 1, __ATOMIC_SEQ_CST);
  for (uint64_t turn = 2; turn < TURNS; turn++) {
    if (win.rank == 0) mark(&marks->turned, turn);
    honest_turn(&win, turn);
  }
  win_close(&win);
  ucxx_group_destroy(half.group);
  /* The close may fail for good, or miss another member's. */
  ucxx_status_t status = ucxx_window_close(shared->window);
  CHECK(status != UCXX_OK);
  ucxx_window_destroy(shared->window);
  pages_close(shared);
}

static void ignore(ucxx_status_t status) { CHECK(status <= UCXX_INPROGRESS); }

static void speak_garbage(member_t *member, win_t *win) {
  static const uint64_t words[512];
  static uint64_t room[512];
  (void)member;
  await_mark(&marks->numbers, GARBLER);
  /* Finds out which connection belongs to which peer. */
  for (unsigned target = 0; target < GARBLER; target++) {
    garbage.towards = target;
    garbage.spared[target] = marks->spared[target];
    CHECK_OK(ucxx_window_lock(win->window, UCXX_LOCK_EXCLUSIVE, target, 0));
    CHECK_OK(ucxx_window_unlock(win->window, target));
  }
  garbage.on = 1;
  for (unsigned failed = 0; failed < 200;) {
    uint32_t target = (uint32_t)(draw() % GARBLER);
    int64_t at = (int64_t)(draw() % (SIZE / 8));
    ucxx_layout_t some = contiguous(UCXX_TYPE_UINT64, 1 + draw() % 100);
    ucxx_status_t status =
        ucxx_window_lock(win->window, one_in(2) ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE, target,
                         one_in(4) ? UCXX_ASSERT_NOCHECK : 0);
    failed += status != UCXX_OK;
    for (unsigned many = 0; status == UCXX_OK && many < 10; many++) {
      ignore(ucxx_window_put(win->window, words, &some, target, at, &some));
      ignore(ucxx_window_get(win->window, room, &some, target, at, &some));
      ignore(ucxx_window_accumulate(win->window, words, &some, target, at, &some, UCXX_REDUCE_SUM));
      ignore(ucxx_window_fetch_and_op(win->window, words, room, UCXX_TYPE_UINT64, target, at,
                                      UCXX_REDUCE_SUM));
      ignore(ucxx_window_compare_and_swap(win->window, words, words, room, UCXX_TYPE_UINT64, target,
                                          at));
      ignore(ucxx_window_flush(win->window, target));
    }
    if (status == UCXX_OK) ignore(ucxx_window_unlock(win->window, target));
    mark(&marks->sent, garbage.sent);
    mark(&marks->changed, garbage.changed + garbage.replayed);
  }
  for (;;) pause();
}

static void body(member_t *member) {
  ucxx_window_params_t hints = UCXX_WINDOW_PARAMS_INIT;
  win_t win;
  static const unsigned rates[] = {3, 10, 30, 100};
  hints.lock_timeout_ns = 20 * MILLISECOND;
  garbage.state = member->board->seed;
  garbage.records = member->rank == GARBLER;
  garbage.adds = garbage.blames_nobody = 1;
  garbage_begin(rates[member->board->seed % 4]);
  member_open(member, NULL);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_CREATE, SIZE, 8, &hints);
  CHECK_OK(ucxx_group_barrier(member->group));
  meet_at(&marks->ready, MEMBERS);
  if (member->rank == GARBLER) speak_garbage(member, &win);
  stay_honest(member, &win);
  member_close(member);
}

int main(int argc, char **argv) {
  test_begin("garbage_member");
  uint64_t seed = test_seed(), rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : ROUNDS, sent = 0,
           changed = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    pid_t pids[MOST_MEMBERS];
    STEP("round %d", (int)round);
    marks = mmap(NULL, sizeof *marks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(marks != MAP_FAILED);
    board_t *board = board_open(MEMBERS, test_mix(seed + round));
    members_start(board, pids, body);
    siginfo_t over = {0};
    while (look(&marks->turned) < TURNS - AFTERWARDS &&
           waitid(P_ALL, 0, &over, WEXITED | WNOHANG | WNOWAIT) == 0 && over.si_pid == 0)
      sched_yield();
    sent += look(&marks->sent);
    changed += look(&marks->changed);
    kill_in_a_call(pids[GARBLER]);
    members_end(board, pids, GARBLER);
    board_close(board);
    munmap(marks, sizeof *marks);
  }
  printf("%llu messages, %llu replayed or changed\n", (unsigned long long)sent,
         (unsigned long long)changed);
  CHECK(changed > 0);
  return 0;
}
