/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Requests of windows that are cancelled, or time out, just when their reply arrives. Each
 * completes once. Later requests complete too, and not before their data has arrived.
 */
#include "window.h"

enum { MEMBERS = 2, TARGET = 0, WORDS = 9, CANCELED = 0, SIZE = 4096, ROUNDS = 20000 };

static const ucxx_worker_params_t *worker_params;
static int by_timeout;

static uint64_t word_at(uint64_t index) { return 1000 + index; }

/* One request that is given up at some moment, and others behind it that are not. */
static void one_round(const win_t *win, uint32_t round) {
  static uint64_t got[WORDS];
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  ucxx_request_t *requests[WORDS] = {NULL};
  ucxx_status_t statuses[WORDS];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  if (by_timeout) params.timeout_ns = 1000 + round % 60 * 1000;
  got[CANCELED] = 0;
  statuses[CANCELED] =
      ucxx_window_rget(win->window, &got[CANCELED], &one, TARGET, win_disp(win, TARGET, 0), &one,
                       &params, &requests[CANCELED]);
  CHECK(statuses[CANCELED] >= 0);
  if (requests[CANCELED] != NULL && !by_timeout) {
    for (volatile uint32_t turn = 0; turn < round % 400 * 20; turn++);
    CHECK_OK(ucxx_request_cancel(requests[CANCELED]));
  }
  statuses[CANCELED] = finish(statuses[CANCELED], &requests[CANCELED]);
  if (statuses[CANCELED] != UCXX_OK)
    CHECK_STATUS(statuses[CANCELED], by_timeout ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
  else
    CHECK_EQ(got[CANCELED], word_at(0));
  for (uint32_t index = 1; index < WORDS; index++) {
    got[index] = 0;
    statuses[index] =
        ucxx_window_rget(win->window, &got[index], &one, TARGET, win_disp(win, TARGET, 8 * index),
                         &one, NULL, &requests[index]);
  }
  for (uint32_t index = 1; index < WORDS; index++) {
    CHECK_OK(finish(statuses[index], &requests[index]));
    CHECK_EQ(got[index], word_at(index));
  }
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
}

static void give_up(member_t *member) {
  win_t win;
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, SIZE, 1, NULL);
  for (uint64_t index = 0; index < SIZE / 8; index++)
    memcpy(win.base + 8 * index, &(uint64_t){word_at(index)}, 8);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank != TARGET) {
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    for (uint32_t round = 0; round < test_rounds(ROUNDS); round++) {
      if (round % 1000 == 0) STEP("round %u", (unsigned)round);
      one_round(&win, round);
    }
    CHECK_OK(ucxx_window_unlock_all(win.window));
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  win_close(&win);
  member_close(member);
}

int main(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  worker_params = &params;
  test_begin("window_cancel");
  for (by_timeout = 0; by_timeout <= 1; by_timeout++) {
    STEP("%s", by_timeout ? "timed out" : "cancelled");
    run_members(MEMBERS, test_seed(), give_up);
  }
  return 0;
}
