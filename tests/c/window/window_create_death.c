/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A member is killed while the group creates windows. The other members' call fails with its rank
 * and the reason, whichever window they were creating. */
#include "window.h"

enum { MEMBERS = 3, VICTIM = 2, SLOW = 1, ROUNDS = 36, MOST_WINDOWS = 20 };

static void makes_windows(member_t *member) {
  member_open(member, NULL);
  member_join(member, 20 * SECOND);
  ucxx_status_t status;
  do {
    void *base = NULL;
    ucxx_window_t *window = NULL;
    status = ucxx_window_allocate(member->group, 4096, 1, NULL, &base, &window);
    if (member->rank == VICTIM) __atomic_add_fetch(&member->board->count[0], 1, __ATOMIC_SEQ_CST);
    if (status == UCXX_OK) status = ucxx_window_close(window);
    /* Or the error names another member, which detected the death in the previous window's close
     * and left. */
    else if (strstr(ucxx_last_error_message(), "had left the group") == NULL)
      CHECK_MESSAGE("rank 2");
    ucxx_window_destroy(window);
  } while (status == UCXX_OK);
  CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
  member_close(member);
}

int main(void) {
  test_begin("window_create_death");
  uint64_t seed = test_seed();
  for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
    STEP("round %u", round);
    board_t *board = board_open(MEMBERS, seed);
    pid_t pids[MOST_MEMBERS];
    members_start(board, pids, makes_windows);
    uint64_t windows = test_mix(seed + round) % MOST_WINDOWS + 1,
             turns = test_mix(seed - round) % 2000;
    while (__atomic_load_n(&board->count[0], __ATOMIC_SEQ_CST) < windows) sched_yield();
    while (turns-- > 0) sched_yield();
    /* The others continue as far as they can without this one. */
    stop_in_a_call(pids[SLOW]);
    kill_in_a_call(pids[VICTIM]);
    CHECK_EQ(kill(pids[SLOW], SIGCONT), 0);
    members_end(board, pids, VICTIM);
    board_close(board);
  }
  return 0;
}
