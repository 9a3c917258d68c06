/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * States of a window, reached by real calls. Rank 0 makes the calls, and the others follow orders:
 * ranks 1 and 2 are its targets, rank 2 also accesses its memory, and rank 3 holds locks to make it
 * wait.
 *
 * A state is written as three parts:
 * - the access epoch: N none, F permitted by a fence, E begun, S start, L lock, A lock_all, a the
 *   same with NOCHECK
 * - the two targets: . nothing, t started, s and x locked, n locked with NOCHECK, p lock requested
 * - + if memory is exposed
 */
#ifndef UCXX_RS_TEST_WIN_STATES_H
#define UCXX_RS_TEST_WIN_STATES_H
#include "window.h"

enum {
  ACTOR = 0,
  FIRST = 1,
  OTHER = 2,
  HOLDER = 3,
  PLAYERS = 4,
  WINDOW_SIZE = 64,
  WINDOW_UNIT = 8
};

typedef enum order {
  ORDER_FENCE,
  ORDER_POST,
  ORDER_WAIT,
  ORDER_ACCESS,
  ORDER_HOLD,
  ORDER_RELEASE,
  ORDER_REOPEN,
  ORDER_CLOSE
} order_t;
enum { ORDERS_AHEAD = 64 };

/* Orders to a member, executed in sequence. */
typedef struct orders {
  uint64_t given, done;
  uint32_t what[ORDERS_AHEAD], argument[ORDERS_AHEAD];
} orders_t;

typedef struct play {
  win_t win;
  orders_t *orders; /* of each member */
  ucxx_request_t *pending; /* of the lock that is waited for */
  int32_t flavor;
  ucxx_window_params_t params;
} play_t;

static inline void play_open(play_t *play, member_t *member) {
  win_open(&play->win, member, play->flavor, WINDOW_SIZE, WINDOW_UNIT, &play->params);
}

static inline void tell(play_t *play, uint32_t player, order_t what, uint32_t argument) {
  orders_t *orders = &play->orders[player];
  CHECK(orders->given - look(&orders->done) < ORDERS_AHEAD);
  orders->what[orders->given % ORDERS_AHEAD] = what;
  orders->argument[orders->given % ORDERS_AHEAD] = argument;
  mark(&orders->given, orders->given + 1);
}

static inline void tell_all(play_t *play, order_t what, uint32_t argument) {
  for (uint32_t player = 1; player < PLAYERS; player++) tell(play, player, what, argument);
}

static inline void await_player(play_t *play, uint32_t player) {
  await_mark(&play->orders[player].done, play->orders[player].given);
}

/* What the others do until the last window is closed. */
static inline void follow(play_t *play, member_t *member) {
  static const uint32_t actor[] = {ACTOR};
  orders_t *orders = &play->orders[member->rank];
  for (;;) {
    await_mark(&orders->given, orders->done + 1);
    uint32_t argument = orders->argument[orders->done % ORDERS_AHEAD];
    order_t what = (order_t)orders->what[orders->done % ORDERS_AHEAD];
    ucxx_window_t *window = play->win.window;
    switch (what) {
    case ORDER_FENCE: CHECK_OK(ucxx_window_fence(window, argument)); break;
    case ORDER_POST: CHECK_OK(ucxx_window_post(window, actor, 1, 0)); break;
    case ORDER_WAIT: CHECK_OK(ucxx_window_wait(window)); break;
    case ORDER_ACCESS:
      CHECK_OK(ucxx_window_start(window, actor, 1, 0));
      CHECK_OK(ucxx_window_complete(window));
      break;
    case ORDER_HOLD: CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, argument, 0)); break;
    case ORDER_RELEASE: CHECK_OK(ucxx_window_unlock(window, argument)); break;
    case ORDER_REOPEN:
    case ORDER_CLOSE:
      win_close(&play->win);
      if (what == ORDER_REOPEN) play_open(play, member);
    }
    mark(&orders->done, orders->done + 1);
    if (what == ORDER_CLOSE) return;
  }
}

/* ------------------------------------------------------------------ what is reported */

static inline int32_t reported_access(const char *state) {
  switch (state[0]) {
  case 'F': return UCXX_SYNC_FENCE;
  case 'E': return UCXX_SYNC_FENCE_EPOCH;
  case 'A': return UCXX_SYNC_LOCK_ALL;
  case 'a': return UCXX_SYNC_LOCK_ALL_NO_CHECK;
  default: return UCXX_SYNC_NONE;
  }
}

static inline int32_t reported_of(const char *state, uint32_t target) {
  char how = target == FIRST || target == OTHER ? state[target] : '.';
  if (how == 't') return UCXX_SYNC_PSCW;
  if (how == 's' || how == 'x') return UCXX_SYNC_LOCK;
  if (how == 'n') return UCXX_SYNC_LOCK_NO_CHECK;
  if (target == OTHER && state[3] == '+' && reported_access(state) == UCXX_SYNC_NONE)
    return UCXX_SYNC_PSCW;
  return reported_access(state);
}

static inline int32_t reported_of_window(const char *state) {
  if (state[0] == 'L') return UCXX_SYNC_LOCK;
  if (state[0] == 'S' || (state[0] == 'N' && state[3] == '+')) return UCXX_SYNC_PSCW;
  return reported_access(state);
}

static inline void check_state(const play_t *play, const char *state, const char *when) {
  ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
  for (uint32_t target = 0; target < PLAYERS; target++) {
    int32_t now = ucxx_window_sync_type(play->win.window, target);
    if (now != reported_of(state, target))
      FAIL("%s: state %s: target %u is %d, expected %d", when, state, (unsigned)target, (int)now,
           (int)reported_of(state, target));
  }
  CHECK_OK(ucxx_window_query(play->win.window, &attr));
  if (attr.sync_type != reported_of_window(state))
    FAIL("%s: state %s: the window is %d, expected %d", when, state, (int)attr.sync_type,
         (int)reported_of_window(state));
}

/* ------------------------------------------------------------------ entering and leaving states */

static inline void enter_lock(play_t *play, uint32_t target, char how) {
  ucxx_window_t *window = play->win.window;
  switch (how) {
  case 's': CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_SHARED, target, 0)); break;
  case 'x': CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, target, 0)); break;
  case 'n':
    CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_SHARED, target, UCXX_ASSERT_NOCHECK));
    break;
  case 'p':
    tell(play, HOLDER, ORDER_HOLD, target);
    await_player(play, HOLDER);
    CHECK_STATUS(ucxx_window_lock_nb(window, UCXX_LOCK_EXCLUSIVE, target, 0, NULL, &play->pending),
                 UCXX_INPROGRESS);
    break;
  default: CHECK_EQ(how, '.');
  }
}

/* From N..; with `before_fence` from F.. if that leads there as well. */
static inline void enter(play_t *play, const char *state, int before_fence) {
  ucxx_window_t *window = play->win.window;
  uint32_t started[2], count = 0;
  uint64_t zero = 0;
  if (state[0] == 'F' || state[0] == 'E' || before_fence) {
    tell_all(play, ORDER_FENCE, 0);
    CHECK_OK(ucxx_window_fence(window, 0));
  }
  switch (state[0]) {
  case 'E': CHECK_OK(win_put64(&play->win, OTHER, 32, &zero)); break;
  case 'S':
    for (uint32_t target = FIRST; target <= OTHER; target++) {
      if (state[target] == 't') {
        tell(play, target, ORDER_POST, 0);
        started[count++] = target;
      }
    }
    CHECK_OK(ucxx_window_start(window, started, count, 0));
    break;
  case 'L':
    enter_lock(play, FIRST, state[FIRST]);
    enter_lock(play, OTHER, state[OTHER]);
    break;
  case 'A':
  case 'a': CHECK_OK(ucxx_window_lock_all(window, state[0] == 'a' ? UCXX_ASSERT_NOCHECK : 0));
  }
  if (state[3] == '+') {
    static const uint32_t group[] = {OTHER};
    CHECK_OK(ucxx_window_post(window, group, 1, 0));
  }
  check_state(play, state, "on entering");
}

static inline void leave_exposure(play_t *play) {
  tell(play, OTHER, ORDER_ACCESS, 0);
  CHECK_OK(ucxx_window_wait(play->win.window));
}

/* To N.., in one of two orders. */
static inline void leave(play_t *play, const char *state, int exposure_first) {
  ucxx_window_t *window = play->win.window;
  if (play->pending != NULL) {
    tell(play, HOLDER, ORDER_RELEASE, state[FIRST] == 'p' ? FIRST : OTHER);
    CHECK_OK(finish(UCXX_INPROGRESS, &play->pending));
  }
  if (state[3] == '+' && exposure_first) leave_exposure(play);
  switch (state[0]) {
  case 'F':
  case 'E':
    tell_all(play, ORDER_FENCE, UCXX_ASSERT_NOSUCCEED);
    CHECK_OK(ucxx_window_fence(window, UCXX_ASSERT_NOSUCCEED));
    break;
  case 'S':
    CHECK_OK(ucxx_window_complete(window));
    for (uint32_t target = FIRST; target <= OTHER; target++) {
      if (state[target] == 't') tell(play, target, ORDER_WAIT, 0);
    }
    break;
  case 'L':
    for (uint32_t target = FIRST; target <= OTHER; target++) {
      if (state[target] != '.') CHECK_OK(ucxx_window_unlock(window, target));
    }
    break;
  case 'A':
  case 'a': CHECK_OK(ucxx_window_unlock_all(window));
  }
  if (state[3] == '+' && !exposure_first) leave_exposure(play);
  check_state(play, "N..", "on leaving");
}

/* What a member does: rank 0 acts on one window, and the others follow. */
static inline void play_one(member_t *member, orders_t *orders, int32_t flavor,
                            const ucxx_window_params_t *params, void (*act)(play_t *play)) {
  play_t play = {.orders = orders, .flavor = flavor, .params = *params};
  play_open(&play, member);
  if (member->rank == ACTOR) {
    check_state(&play, "N..", "at first");
    act(&play);
    tell_all(&play, ORDER_CLOSE, 0);
    win_close(&play.win);
  } else {
    follow(&play, member);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
}
#endif
