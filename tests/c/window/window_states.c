/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Every call in every state of a window, against a table: an illegal call returns RMA_SYNC and
 * changes nothing; a legal one works and leads to the state in the table. Wrong arguments are
 * reported first, in every state.
 */
#include "window_states.h"

static const ucxx_worker_params_t *worker_params;
static orders_t *all_orders;
static int32_t flavor;
static play_t *play; /* of rank 0 */

/* The effect that the call must have by the end of the epoch. */
static uint64_t operand, result, expected_result, stored, expected_stored;
static const uint64_t untouched = UINT64_C(0x7777777777777777);

/* ------------------------------------------------------------------ the table */

enum {
  LOCK,
  UNLOCK,
  LOCK_ALL,
  UNLOCK_ALL,
  FLUSH,
  FLUSH_ALL,
  SYNC,
  POST,
  START,
  COMPLETE,
  WAIT,
  TEST,
  FENCE,
  CLOSE,
  ACCESS,
  REQUEST,
  COLUMNS
};

/* Calls with a target use the first one. `-` is RMA_SYNC, `?` depends on the call, X is a closed
 * window. */
static const char *const table[] = {
    /*    lock  unlock lockall unlall flush flushall sync post  start compl wait test  fence close
       access request */
    "N..  L?.   -     ?..     -      -     -        N..  N..+  St.   -     -    -     ?..   X..   "
    "-      -",
    "F..  L?.   -     ?..     -      -     -        F..  N..+  St.   -     -    -     ?..   X..   "
    "E..    -",
    "E..  -     -     -       -      -     -        E..  -     -     -     -    -     ?..   -     "
    "E..    -",
    "St.  -     -     -       -      -     -        St.  St.+  -     N..   -    -     -     -     "
    "St.    -",
    "S.t  -     -     -       -      -     -        S.t  S.t+  -     N..   -    -     -     -     "
    "-      -",
    "Stt  -     -     -       -      -     -        Stt  Stt+  -     N..   -    -     -     -     "
    "Stt    -",
    "S..  -     -     -       -      -     -        S..  S..+  -     N..   -    -     -     -     "
    "-      -",
    "Ls.  -     N..   -       -      Ls.   Ls.      Ls.  Ls.+  -     -     -    -     -     -     "
    "Ls.    Ls.",
    "Lx.  -     N..   -       -      Lx.   Lx.      Lx.  Lx.+  -     -     -    -     -     -     "
    "Lx.    Lx.",
    "Ln.  -     N..   -       -      Ln.   Ln.      Ln.  Ln.+  -     -     -    -     -     -     "
    "Ln.    Ln.",
    "Lxs  -     L.s   -       -      Lxs   Lxs      Lxs  Lxs+  -     -     -    -     -     -     "
    "Lxs    Lxs",
    "Lns  -     L.s   -       -      Lns   Lns      Lns  Lns+  -     -     -    -     -     -     "
    "Lns    Lns",
    "Lsn  -     L.n   -       -      Lsn   Lsn      Lsn  Lsn+  -     -     -    -     -     -     "
    "Lsn    Lsn",
    "Lsp  -     L.p   -       -      Lsp   Lsp      Lsp  Lsp+  -     -     -    -     -     -     "
    "Lsp    Lsp",
    "L.s  L?s   -     -       -      -     L.s      L.s  L.s+  -     -     -    -     -     -     "
    "-      -",
    "L.x  L?x   -     -       -      -     L.x      L.x  L.x+  -     -     -    -     -     -     "
    "-      -",
    "L.n  L?n   -     -       -      -     L.n      L.n  L.n+  -     -     -    -     -     -     "
    "-      -",
    "Lp.  -     -     -       -      -     -        Lp.  Lp.+  -     -     -    -     -     -     "
    "-      -",
    "Lps  -     -     -       -      -     Lps      Lps  Lps+  -     -     -    -     -     -     "
    "-      -",
    "L.p  L?p   -     -       -      -     -        L.p  L.p+  -     -     -    -     -     -     "
    "-      -",
    "A..  -     -     -       N..    A..   A..      A..  A..+  -     -     -    -     -     -     "
    "A..    A..",
    "a..  -     -     -       N..    a..   a..      a..  a..+  -     -     -    -     -     -     "
    "a..    a..",
    "N..+ L?.+  -     ?..+    -      -     -        N..+ -     St.+  -     N..  N..+  -     -     "
    "-      -",
    "St.+ -     -     -       -      -     -        St.+ -     -     N..+  St.  St.+  -     -     "
    "St.+   -",
    "S.t+ -     -     -       -      -     -        S.t+ -     -     N..+  S.t  S.t+  -     -     "
    "-      -",
    "Stt+ -     -     -       -      -     -        Stt+ -     -     N..+  Stt  Stt+  -     -     "
    "Stt+   -",
    "S..+ -     -     -       -      -     -        S..+ -     -     N..+  S..  S..+  -     -     "
    "-      -",
    "Ls.+ -     N..+  -       -      Ls.+  Ls.+     Ls.+ -     -     -     Ls.  Ls.+  -     -     "
    "Ls.+   Ls.+",
    "Lx.+ -     N..+  -       -      Lx.+  Lx.+     Lx.+ -     -     -     Lx.  Lx.+  -     -     "
    "Lx.+   Lx.+",
    "Ln.+ -     N..+  -       -      Ln.+  Ln.+     Ln.+ -     -     -     Ln.  Ln.+  -     -     "
    "Ln.+   Ln.+",
    "L.s+ L?s+  -     -       -      -     L.s+     L.s+ -     -     -     L.s  L.s+  -     -     "
    "-      -",
    "Lp.+ -     -     -       -      -     -        Lp.+ -     -     -     Lp.  Lp.+  -     -     "
    "-      -",
    "L.p+ L?p+  -     -       -      -     -        L.p+ -     -     -     L.p  L.p+  -     -     "
    "-      -",
    "Lps+ -     -     -       -      -     Lps+     Lps+ -     -     -     Lps  Lps+  -     -     "
    "-      -",
    "A..+ -     -     -       N..+   A..+  A..+     A..+ -     -     -     A..  A..+  -     -     "
    "A..+   A..+",
    "a..+ -     -     -       N..+   a..+  a..+     a..+ -     -     -     a..  a..+  -     -     "
    "a..+   a..+",
};
enum { STATES = sizeof table / sizeof *table, CELL = 8 };

static void cells_of(int row, char state[CELL], char cells[COLUMNS][CELL]) {
  const char *text = table[row];
  int length = 0;
  CHECK_EQ(sscanf(text, "%7s%n", state, &length), 1);
  text += length;
  for (int column = 0; column < COLUMNS; column++, text += length)
    CHECK_EQ(sscanf(text, "%7s%n", cells[column], &length), 1);
}

/* ------------------------------------------------------------------ the calls */

static ucxx_window_t *window(void) { return play->win.window; }

static ucxx_status_t locks(int32_t type, uint32_t assertions, int nonblocking) {
  ucxx_request_t *request = NULL;
  if (!nonblocking) return ucxx_window_lock(window(), type, FIRST, assertions);
  return finish(ucxx_window_lock_nb(window(), type, FIRST, assertions, NULL, &request), &request);
}
static ucxx_status_t lock_shared(void) { return locks(UCXX_LOCK_SHARED, 0, 0); }
static ucxx_status_t lock_exclusive(void) { return locks(UCXX_LOCK_EXCLUSIVE, 0, 0); }
static ucxx_status_t lock_nocheck(void) {
  return locks(UCXX_LOCK_EXCLUSIVE, UCXX_ASSERT_NOCHECK, 0);
}
static ucxx_status_t lock_nb_shared(void) { return locks(UCXX_LOCK_SHARED, 0, 1); }
static ucxx_status_t lock_nb_exclusive(void) { return locks(UCXX_LOCK_EXCLUSIVE, 0, 1); }
static ucxx_status_t lock_nb_nocheck(void) {
  return locks(UCXX_LOCK_SHARED, UCXX_ASSERT_NOCHECK, 1);
}
static ucxx_status_t unlock(void) { return ucxx_window_unlock(window(), FIRST); }
static ucxx_status_t lock_all(void) { return ucxx_window_lock_all(window(), 0); }
static ucxx_status_t lock_all_nocheck(void) {
  return ucxx_window_lock_all(window(), UCXX_ASSERT_NOCHECK);
}
static ucxx_status_t unlock_all(void) { return ucxx_window_unlock_all(window()); }
static ucxx_status_t flush(void) { return ucxx_window_flush(window(), FIRST); }
static ucxx_status_t flush_nb(void) {
  ucxx_request_t *request = NULL;
  return finish(ucxx_window_flush_nb(window(), FIRST, NULL, &request), &request);
}
static ucxx_status_t flush_local(void) { return ucxx_window_flush_local(window(), FIRST); }
static ucxx_status_t flush_all(void) { return ucxx_window_flush_all(window()); }
static ucxx_status_t flush_local_all(void) { return ucxx_window_flush_local_all(window()); }
static ucxx_status_t sync_it(void) { return ucxx_window_sync(window()); }
static ucxx_status_t post(void) {
  const uint32_t group[] = {OTHER};
  return ucxx_window_post(window(), group, 1, UCXX_ASSERT_NOSTORE | UCXX_ASSERT_NOPUT);
}
static ucxx_status_t start(void) {
  const uint32_t group[] = {FIRST};
  return ucxx_window_start(window(), group, 1, 0);
}
static ucxx_status_t complete(void) { return ucxx_window_complete(window()); }
static ucxx_status_t wait_it(void) { return ucxx_window_wait(window()); }
static ucxx_status_t test_until_done(void) {
  int32_t done = 0;
  ucxx_status_t status;
  do status = ucxx_window_test(window(), &done);
  while (status == UCXX_OK && !done);
  return status;
}
/* Nobody has been told to complete. */
static ucxx_status_t test_too_early(void) {
  int32_t done = 77;
  ucxx_status_t status = ucxx_window_test(window(), &done);
  CHECK_EQ(done, status == UCXX_OK ? 0 : 77);
  return status;
}
static ucxx_status_t fence(void) { return ucxx_window_fence(window(), 0); }
static ucxx_status_t fence_all_promises(void) {
  return ucxx_window_fence(window(), UCXX_ASSERT_NOSTORE | UCXX_ASSERT_NOPUT);
}
static ucxx_status_t fence_noprecede(void) {
  return ucxx_window_fence(window(), UCXX_ASSERT_NOPRECEDE);
}
static ucxx_status_t fence_nosucceed(void) {
  return ucxx_window_fence(window(), UCXX_ASSERT_NOSUCCEED);
}
static ucxx_status_t fence_neither(void) {
  return ucxx_window_fence(window(), UCXX_ASSERT_NOPRECEDE | UCXX_ASSERT_NOSUCCEED);
}
static ucxx_status_t close_it(void) { return ucxx_window_close(window()); }

/* Each operation uses the first number at the first target. */
static void fetches(uint64_t stores) {
  expected_result = stored;
  expected_stored = stores;
}
static int64_t there(void) { return win_disp(&play->win, FIRST, 0); }
static ucxx_layout_t one_number(void) { return contiguous(UCXX_TYPE_UINT64, 1); }

static ucxx_status_t put(void) {
  expected_stored = operand;
  return win_put64(&play->win, FIRST, 0, &operand);
}
static ucxx_status_t get(void) {
  fetches(stored);
  return win_get64(&play->win, FIRST, 0, &result);
}
static ucxx_status_t accumulate(void) {
  ucxx_layout_t one = one_number();
  expected_stored = stored + operand;
  return ucxx_window_accumulate(window(), &operand, &one, FIRST, there(), &one, UCXX_REDUCE_SUM);
}
static ucxx_status_t get_accumulate(void) {
  ucxx_layout_t one = one_number();
  fetches(stored ^ operand);
  return ucxx_window_get_accumulate(window(), &operand, &one, &result, &one, FIRST, there(), &one,
                                    UCXX_REDUCE_BXOR);
}
static ucxx_status_t fetch_and_op(void) {
  fetches(operand);
  return win_fetch64(&play->win, FIRST, 0, UCXX_REDUCE_REPLACE, &operand, &result);
}
static ucxx_status_t compare_and_swap(void) {
  fetches(operand);
  return ucxx_window_compare_and_swap(window(), &operand, &stored, &result, UCXX_TYPE_UINT64, FIRST,
                                      there());
}
static ucxx_status_t rput(void) {
  ucxx_layout_t one = one_number();
  ucxx_request_t *request = NULL;
  expected_stored = operand;
  return finish(ucxx_window_rput(window(), &operand, &one, FIRST, there(), &one, NULL, &request),
                &request);
}
static ucxx_status_t rget(void) {
  ucxx_layout_t one = one_number();
  ucxx_request_t *request = NULL;
  fetches(stored);
  return finish(ucxx_window_rget(window(), &result, &one, FIRST, there(), &one, NULL, &request),
                &request);
}
static ucxx_status_t raccumulate(void) {
  ucxx_layout_t one = one_number();
  ucxx_request_t *request = NULL;
  expected_stored = stored | operand;
  return finish(ucxx_window_raccumulate(window(), &operand, &one, FIRST, there(), &one,
                                        UCXX_REDUCE_BOR, NULL, &request),
                &request);
}
static ucxx_status_t rget_accumulate(void) {
  ucxx_layout_t one = one_number();
  ucxx_request_t *request = NULL;
  fetches(stored * operand);
  return finish(ucxx_window_rget_accumulate(window(), &operand, &one, &result, &one, FIRST, there(),
                                            &one, UCXX_REDUCE_PROD, NULL, &request),
                &request);
}

static const struct call {
  const char *name;
  int column;
  char becomes; /* replaces ? */
  ucxx_status_t (*make)(void);
  order_t order; /* what all other members do meanwhile */
  uint32_t argument;
} calls[] = {
    {"lock shared", LOCK, 's', lock_shared, 0, 0},
    {"lock exclusive", LOCK, 'x', lock_exclusive, 0, 0},
    {"lock NOCHECK", LOCK, 'n', lock_nocheck, 0, 0},
    {"lock_nb shared", LOCK, 's', lock_nb_shared, 0, 0},
    {"lock_nb exclusive", LOCK, 'x', lock_nb_exclusive, 0, 0},
    {"lock_nb NOCHECK", LOCK, 'n', lock_nb_nocheck, 0, 0},
    {"unlock", UNLOCK, 0, unlock, 0, 0},
    {"lock_all", LOCK_ALL, 'A', lock_all, 0, 0},
    {"lock_all NOCHECK", LOCK_ALL, 'a', lock_all_nocheck, 0, 0},
    {"unlock_all", UNLOCK_ALL, 0, unlock_all, 0, 0},
    {"flush", FLUSH, 0, flush, 0, 0},
    {"flush_nb", FLUSH, 0, flush_nb, 0, 0},
    {"flush_local", FLUSH, 0, flush_local, 0, 0},
    {"flush_all", FLUSH_ALL, 0, flush_all, 0, 0},
    {"flush_local_all", FLUSH_ALL, 0, flush_local_all, 0, 0},
    {"sync", SYNC, 0, sync_it, 0, 0},
    {"post", POST, 0, post, 0, 0},
    {"start", START, 0, start, 0, 0},
    {"complete", COMPLETE, 0, complete, 0, 0},
    {"wait", WAIT, 0, wait_it, 0, 0},
    {"test until done", WAIT, 0, test_until_done, 0, 0},
    {"test", TEST, 0, test_too_early, 0, 0},
    {"fence", FENCE, 'F', fence, ORDER_FENCE, 0},
    {"fence NOSTORE NOPUT", FENCE, 'F', fence_all_promises, ORDER_FENCE,
     UCXX_ASSERT_NOSTORE | UCXX_ASSERT_NOPUT},
    {"fence NOPRECEDE", FENCE, 'F', fence_noprecede, ORDER_FENCE, UCXX_ASSERT_NOPRECEDE},
    {"fence NOSUCCEED", FENCE, 'N', fence_nosucceed, ORDER_FENCE, UCXX_ASSERT_NOSUCCEED},
    {"fence NOPRECEDE NOSUCCEED", FENCE, 'N', fence_neither, ORDER_FENCE,
     UCXX_ASSERT_NOPRECEDE | UCXX_ASSERT_NOSUCCEED},
    {"close", CLOSE, 0, close_it, ORDER_REOPEN, 0},
    {"put", ACCESS, 0, put, 0, 0},
    {"get", ACCESS, 0, get, 0, 0},
    {"accumulate", ACCESS, 0, accumulate, 0, 0},
    {"get_accumulate", ACCESS, 0, get_accumulate, 0, 0},
    {"fetch_and_op", ACCESS, 0, fetch_and_op, 0, 0},
    {"compare_and_swap", ACCESS, 0, compare_and_swap, 0, 0},
    {"rput", REQUEST, 0, rput, 0, 0},
    {"rget", REQUEST, 0, rget, 0, 0},
    {"raccumulate", REQUEST, 0, raccumulate, 0, 0},
    {"rget_accumulate", REQUEST, 0, rget_accumulate, 0, 0},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* ------------------------------------------------------------------ running the table */

static void expect_nothing(uint64_t number) {
  operand = test_mix(play->win.member->board->seed + number) | 1;
  result = expected_result = untouched;
  expected_stored = stored;
}

static void refused(const char *state, const struct call *call) {
  expect_nothing((uint64_t)(call - calls));
  ucxx_status_t status = call->make();
  if (status != UCXX_ERR_RMA_SYNC)
    FAIL("%s in state %s gave %s, expected UCXX_ERR_RMA_SYNC", call->name, state,
         ucxx_status_name(status));
  CHECK(strlen(ucxx_last_error_message()) > 0);
  CHECK_EQ(result, untouched);
  check_state(play, state, call->name);
}

static void check_stored(void) {
  uint64_t now = 0;
  CHECK_OK(ucxx_window_lock(window(), UCXX_LOCK_SHARED, FIRST, 0));
  CHECK_OK(win_get64(&play->win, FIRST, 0, &now));
  CHECK_OK(ucxx_window_unlock(window(), FIRST));
  CHECK_EQ(now, expected_stored);
  stored = now;
}

static void worked(const char *state, const struct call *call, const char *cell, int number) {
  char next[CELL];
  snprintf(next, sizeof next, "%s", cell);
  if (strchr(next, '?') != NULL) *strchr(next, '?') = call->becomes;
  enter(play, state, number % 2 && strcmp(state, "N..") != 0);
  expect_nothing((uint64_t)number);
  if (call->column == START) tell(play, FIRST, ORDER_POST, 0);
  if (call->column == WAIT) tell(play, OTHER, ORDER_ACCESS, 0);
  if (call->column == FENCE || call->column == CLOSE) tell_all(play, call->order, call->argument);
  ucxx_status_t status = call->make();
  if (status != UCXX_OK)
    FAIL("%s in state %s gave %s", call->name, state, ucxx_status_name(status));
  if (call->column == COMPLETE) {
    for (uint32_t target = FIRST; target <= OTHER; target++) {
      if (state[target] == 't') tell(play, target, ORDER_WAIT, 0);
    }
  }
  if (call->column == CLOSE) {
    CHECK_STATUS(ucxx_window_lock(window(), UCXX_LOCK_SHARED, FIRST, 0), UCXX_ERR_CLOSED);
    CHECK_STATUS(ucxx_window_fence(window(), 0), UCXX_ERR_CLOSED);
    CHECK_STATUS(win_put64(&play->win, FIRST, 0, &operand), UCXX_ERR_CLOSED);
    CHECK_STATUS(ucxx_window_close(window()), UCXX_ERR_CLOSED);
    ucxx_window_destroy(window());
    pages_close(&play->win);
    play_open(play, play->win.member);
    stored = expected_stored = 0;
    snprintf(next, sizeof next, "N..");
  }
  check_state(play, next, call->name);
  leave(play, next, number % 2);
  CHECK_EQ(result, expected_result);
  check_stored();
}

static void play_table(play_t *mine) {
  int number = 0, refusals = 0;
  play = mine;
  stored = 0;
  for (int row = 0; row < STATES; row++) {
    char state[CELL], cells[COLUMNS][CELL];
    cells_of(row, state, cells);
    STEP("state %s: refused calls", state);
    enter(play, state, 0);
    for (int call = 0; call < CALLS; call++) {
      if (strcmp(cells[calls[call].column], "-") == 0) {
        refused(state, &calls[call]);
        refusals++;
      }
    }
    leave(play, state, row % 2);
    for (int call = 0; call < CALLS; call++) {
      if (strcmp(cells[calls[call].column], "-") != 0) {
        STEP("state %s: %s", state, calls[call].name);
        worked(state, &calls[call], cells[calls[call].column], number++);
      }
    }
  }
  CHECK_EQ(number + refusals, STATES * CALLS);
}

/* With the hint no_locks all calls about locks are refused, and the others are not affected. */
static void play_no_locks(play_t *mine) {
  static const char *const states[] = {"N..", "F..", "N..+", "St."};
  play = mine;
  for (size_t at = 0; at < sizeof states / sizeof *states; at++) {
    STEP("state %s without locks", states[at]);
    enter(play, states[at], 0);
    for (int call = 0; call < CALLS; call++) {
      if (calls[call].column <= FLUSH_ALL || calls[call].column == REQUEST)
        refused(states[at], &calls[call]);
    }
    leave(play, states[at], 0);
  }
}

static void members(member_t *member) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  member_open(member, worker_params);
  member_join(member, 0);
  play_one(member, all_orders, flavor, &params, play_table);
  params.no_locks = 1;
  play_one(member, all_orders, flavor, &params, play_no_locks);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  all_orders = shared_open(PLAYERS * sizeof *all_orders);
  run_members(PLAYERS, test_seed(), members);
  munmap(all_orders, PLAYERS * sizeof *all_orders);
}

int main(int argc, char **argv) {
  test_begin("window_states");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
