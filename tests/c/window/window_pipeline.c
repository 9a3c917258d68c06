/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows over messages: a fetching call returns while its operation is in flight, and the flush
 * waits for the result. The target is stopped and answers nothing, which shows what waits and what
 * does not, and that nothing is written after a flush, a request or the window has ended.
 */
#include "window.h"

#include <errno.h>
#include <poll.h>

enum {
  ORIGIN = 0,
  TARGET = 1,
  WORDS = 16384,
  SIZE = WORDS * 8,
  FEW = 15,
  MANY = 1000,
  THREADS = 4,
  TURNS = 100
};

/* The value before any write. */
static const uint64_t UNTOUCHED = UINT64_C(0xeeeeeeeeeeeeeeee);

static const ucxx_worker_params_t *worker_params;
static struct marks {
  uint64_t stop, stopped, go, gone_on, over, killed;
} *marks;

/* ------------------------------------------------------------------ a stopped target */

static uint64_t stops;

static void stop(void) {
  mark(&marks->stop, ++stops);
  await_mark(&marks->stopped, stops);
}

static void go_on(void) {
  mark(&marks->go, stops);
  await_mark(&marks->gone_on, stops);
}

static void begin(member_t *member, win_t *win) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(win, member, UCXX_WINDOW_FLAVOR_CREATE, SIZE, 8, NULL);
  CHECK_EQ(ucxx_window_path(win->window, 1 - win->rank), UCXX_WINDOW_PATH_MESSAGE);
  for (uint64_t word = 0; word < WORDS / 2; word++) memcpy(win->base + 8 * word, &word, 8);
  CHECK_OK(ucxx_group_barrier(member->group));
}

/* One page that is unmapped when closed: a later write ends the process. */
static uint64_t *page_open(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  memset(page, 0xee, 4096);
  return page;
}

static void page_close(uint64_t *page) {
  for (int word = 0; word < 512; word++) CHECK(page[word] == UNTOUCHED);
  CHECK_EQ(mprotect(page, 4096, PROT_NONE), 0);
}

static ucxx_status_t get_at(const win_t *win, uint64_t word, uint64_t *into, uint64_t count) {
  ucxx_layout_t some = contiguous(UCXX_TYPE_UINT64, count);
  return ucxx_window_get(win->window, into, &some, TARGET, (int64_t)word, &some);
}

static ucxx_status_t rget_at(const win_t *win, uint64_t word, uint64_t *into,
                             const ucxx_op_params_t *params, ucxx_request_t **request) {
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  return ucxx_window_rget(win->window, into, &one, TARGET, (int64_t)word, &one, params, request);
}

/* Every call on a target that does not answer returns; the flush completes them in order. */
static void calls_return(const win_t *win) {
  const int64_t counter = WORDS - 1, swapped = WORDS - 2, sums = WORDS / 2;
  uint64_t got[FEW], before[FEW], found[FEW], compare[FEW], value[FEW],
      one = 1, four[4] = {1, 2, 3, 4}, fetched[FEW][8], whole = UNTOUCHED;
  ucxx_layout_t here, there = contiguous(UCXX_TYPE_UINT64, 4);
  memset(got, 0xee, sizeof got);
  memset(before, 0xee, sizeof before);
  memset(found, 0xee, sizeof found);
  memset(fetched, 0xee, sizeof fetched);
  stop();
  for (uint64_t turn = 0; turn < FEW; turn++) {
    ucxx_block_t list[] = {{6, 1}, {0, 2}, {3, 1}};
    ucxx_layout_init_blocks(&here, UCXX_TYPE_UINT64, list, 3);
    compare[turn] = turn;
    value[turn] = turn + 1;
    CHECK_OK(get_at(win, 7 * turn, &got[turn], 1));
    CHECK_OK(ucxx_window_fetch_and_op(win->window, &one, &before[turn], UCXX_TYPE_UINT64, TARGET,
                                      counter, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_compare_and_swap(win->window, &value[turn], &compare[turn], &found[turn],
                                          UCXX_TYPE_UINT64, TARGET, swapped));
    CHECK_OK(ucxx_window_get_accumulate(win->window, four, &there, fetched[turn], &here, TARGET,
                                        sums, &there, UCXX_REDUCE_SUM));
    /* The caller may reuse the layout. */
    memset(list, 0x7f, sizeof list);
  }
  for (int turn = 0; turn < FEW; turn++)
    CHECK(got[turn] == UNTOUCHED && before[turn] == UNTOUCHED && found[turn] == UNTOUCHED &&
          fetched[turn][6] == UNTOUCHED);
  go_on();
  CHECK_OK(ucxx_window_flush_local(win->window, TARGET));
  for (uint64_t turn = 0; turn < FEW; turn++) {
    CHECK_EQ(got[turn], 7 * turn);
    CHECK_EQ(before[turn], turn);
    CHECK_EQ(found[turn], turn);
    CHECK(fetched[turn][6] == turn && fetched[turn][0] == 2 * turn &&
          fetched[turn][1] == 3 * turn && fetched[turn][3] == 4 * turn);
    CHECK(fetched[turn][2] == UNTOUCHED && fetched[turn][4] == UNTOUCHED &&
          fetched[turn][5] == UNTOUCHED && fetched[turn][7] == UNTOUCHED);
  }
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_OK(get_at(win, counter, &whole, 1));
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_EQ(whole, FEW);
}

/* Requests complete when they should: local ones at once, those that need an answer with it. */
static void requests_wait(const win_t *win) {
  const int64_t place = WORDS - 64;
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  ucxx_request_t *get = NULL, *fetch = NULL, *flush = NULL, *local = NULL;
  uint64_t got = UNTOUCHED, before = UNTOUCHED, number = 40, two = 2;
  seen_t seen = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &seen;
  stop();
  CHECK_OK(finish(ucxx_window_rput(win->window, &number, &one, TARGET, place, &one, NULL, &local),
                  &local));
  CHECK_OK(finish(ucxx_window_raccumulate(win->window, &two, &one, TARGET, place, &one,
                                          UCXX_REDUCE_SUM, NULL, &local),
                  &local));
  CHECK_EQ(rget_at(win, (uint64_t)place, &got, NULL, &get), UCXX_INPROGRESS);
  CHECK_EQ(ucxx_window_rget_accumulate(win->window, &two, &one, &before, &one, TARGET, place, &one,
                                       UCXX_REDUCE_PROD, &params, &fetch),
           UCXX_INPROGRESS);
  CHECK_EQ(ucxx_window_flush_nb(win->window, TARGET, NULL, &flush), UCXX_INPROGRESS);
  for (int turn = 0; turn < 10; turn++) progress(win->member->worker);
  CHECK_EQ(ucxx_request_status(get), UCXX_INPROGRESS);
  CHECK_EQ(ucxx_request_status(fetch), UCXX_INPROGRESS);
  CHECK_EQ(ucxx_request_status(flush), UCXX_INPROGRESS);
  CHECK(got == UNTOUCHED && before == UNTOUCHED && seen_count(&seen) == 0);
  go_on();
  CHECK_OK(finish(UCXX_INPROGRESS, &flush));
  CHECK(got == 42 && before == 42);
  CHECK_OK(finish(UCXX_INPROGRESS, &get));
  CHECK_OK(finish(UCXX_INPROGRESS, &fetch));
  CHECK(seen_count(&seen) == 1 && seen.status == UCXX_OK);
  CHECK_OK(get_at(win, (uint64_t)place, &got, 1));
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_EQ(got, 84);
  /* Nothing is in flight. */
  CHECK_OK(ucxx_window_flush_nb(win->window, TARGET, NULL, NULL));
}

/* The completion of a request makes the worker's descriptor readable, as every event of the worker
 * does. */
static void by_descriptor(const win_t *win) {
  ucxx_worker_t *worker = win->member->worker;
  ucxx_request_t *get = NULL;
  uint64_t got = UNTOUCHED;
  int fd = -1;
  CHECK_OK(ucxx_worker_event_fd(worker, &fd));
  stop();
  CHECK_EQ(rget_at(win, 30, &got, NULL, &get), UCXX_INPROGRESS);
  while (ucxx_request_status(get) == UCXX_INPROGRESS) {
    ucxx_status_t status = ucxx_worker_arm(worker);
    if (status == UCXX_ERR_BUSY) {
      progress(worker);
      continue;
    }
    CHECK_OK(status);
    mark(&marks->go, stops);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    int found = poll(&entry, 1, 60000);
    CHECK(found == 1 || (found < 0 && errno == EINTR));
    progress(worker);
  }
  CHECK_OK(finish(UCXX_INPROGRESS, &get));
  CHECK_EQ(got, 30);
  await_mark(&marks->gone_on, stops);
}

/* A late answer does not write to the buffer of a request that was cancelled or has timed out. */
static void nothing_comes_late(const win_t *win) {
  uint64_t *pages[3] = {page_open(), page_open(), page_open()}, got = 0;
  ucxx_request_t *requests[3] = {NULL, NULL, NULL}, *flush = NULL;
  ucxx_op_params_t hurry = UCXX_OP_PARAMS_INIT;
  hurry.timeout_ns = MILLISECOND;
  stop();
  for (int which = 0; which < 3; which++)
    CHECK_EQ(rget_at(win, 5, pages[which] + 511, which == 1 ? &hurry : NULL, &requests[which]),
             UCXX_INPROGRESS);
  CHECK_STATUS(finish(ucxx_window_flush_nb(win->window, TARGET, &hurry, &flush), &flush),
               UCXX_ERR_TIMED_OUT);
  CHECK_OK(ucxx_request_cancel(requests[0]));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[0]), UCXX_ERR_CANCELED);
  page_close(pages[0]);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[1]), UCXX_ERR_TIMED_OUT);
  page_close(pages[1]);
  go_on();
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_OK(finish(UCXX_INPROGRESS, &requests[2]));
  CHECK_EQ(pages[2][511], 5);
  CHECK_OK(get_at(win, 6, &got, 1));
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_EQ(got, 6);
}

/* More operations than can be in flight at a time, and split ones with gaps between the parts, all
 * at once. */
static void many(const win_t *win) {
  enum { LONG = 10000 };
  uint64_t *got = test_alloc(MANY * 8), *spread = test_alloc(3 * LONG * 8),
           *nulls = calloc(LONG, 8);
  CHECK(nulls != NULL);
  ucxx_layout_t all = contiguous(UCXX_TYPE_UINT64, LONG), third;
  ucxx_request_t *request = NULL;
  ucxx_layout_init_vector(&third, UCXX_TYPE_UINT64, LONG, 1, 3);
  memset(spread, 0xee, 3 * LONG * 8);
  for (uint64_t at = 0; at < MANY; at++) CHECK_OK(get_at(win, at, &got[at], 1));
  CHECK_OK(ucxx_window_get(win->window, spread, &third, TARGET, 0, &all));
  ucxx_status_t status =
      ucxx_window_rget_accumulate(win->window, nulls, &all, spread + 1, &third, TARGET, 0, &all,
                                  UCXX_REDUCE_SUM, NULL, &request);
  for (int at = 0; at < MANY; at++)
    CHECK(ucxx_window_flush_nb(win->window, TARGET, NULL, NULL) >= UCXX_OK);
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_OK(finish(status, &request));
  for (uint64_t at = 0; at < MANY; at++) CHECK_EQ(got[at], at);
  for (uint64_t at = 0; at < LONG; at++) {
    const uint64_t expected = at < WORDS / 2 ? at : spread[3 * at];
    CHECK(spread[3 * at] == expected && spread[3 * at + 1] == expected &&
          spread[3 * at + 2] == UNTOUCHED);
  }
  free(got);
  free(spread);
  free(nulls);
}

/* Requests with long data that is not contiguous, all in flight, in order, as they are
 * accumulates. */
static void many_requests(const win_t *win) {
  enum { LONG = 6000, REQUESTS = 8 };
  ucxx_layout_t all = contiguous(UCXX_TYPE_UINT64, LONG), third;
  ucxx_request_t *requests[REQUESTS] = {NULL};
  ucxx_status_t statuses[REQUESTS];
  uint64_t *values = test_alloc(REQUESTS * 3 * LONG * 8), *back = test_alloc(LONG * 8);
  ucxx_layout_init_vector(&third, UCXX_TYPE_UINT64, LONG, 1, 3);
  /* The last one is unchanged. */
  for (uint64_t turn = 0; turn < REQUESTS; turn++) {
    uint64_t *mine = values + turn * 3 * LONG;
    for (uint64_t at = 0; at < LONG; at++) mine[3 * at] = at + REQUESTS - 1 - turn;
    statuses[turn] = ucxx_window_raccumulate(win->window, mine, &third, TARGET, 0, &all,
                                             UCXX_REDUCE_REPLACE, NULL, &requests[turn]);
    if (turn == REQUESTS - 2) CHECK_OK(ucxx_window_get(win->window, back, &all, TARGET, 0, &all));
  }
  for (int turn = 0; turn < REQUESTS; turn++) CHECK_OK(finish(statuses[turn], &requests[turn]));
  memset(values, 0xee, REQUESTS * 3 * LONG * 8);
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  for (uint64_t at = 0; at < LONG; at++) CHECK_EQ(back[at], at + 1);
  CHECK_OK(get_at(win, 0, back, LONG));
  CHECK_OK(ucxx_window_flush_local(win->window, TARGET));
  for (uint64_t at = 0; at < LONG; at++) CHECK_EQ(back[at], at);
  free(values);
  free(back);
}

static void *get_by_thread(void *arg) {
  const win_t *win = arg;
  uint64_t got[16], before = 0, last = 0, one = 1;
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    for (uint64_t at = 0; at < 16; at++) CHECK_OK(get_at(win, 16 * turn + at, &got[at], 1));
    CHECK_OK(ucxx_window_fetch_and_op(win->window, &one, &before, UCXX_TYPE_UINT64, TARGET,
                                      WORDS - 3, UCXX_REDUCE_SUM));
    CHECK_OK(turn % 2 ? ucxx_window_flush(win->window, TARGET)
                      : ucxx_window_flush_local(win->window, TARGET));
    for (uint64_t at = 0; at < 16; at++) CHECK_EQ(got[at], 16 * turn + at);
    CHECK(turn == 0 || before > last);
    last = before;
  }
  return NULL;
}

static void threads(win_t *win) {
  pthread_t ids[THREADS];
  uint64_t count = 0;
  for (int thread = 0; thread < THREADS; thread++)
    CHECK_EQ(pthread_create(&ids[thread], NULL, get_by_thread, win), 0);
  for (int thread = 0; thread < THREADS; thread++) CHECK_EQ(pthread_join(ids[thread], NULL), 0);
  CHECK_OK(get_at(win, WORDS - 3, &count, 1));
  CHECK_OK(ucxx_window_flush(win->window, TARGET));
  CHECK_EQ(count, THREADS * TURNS);
}

/* A request reports its own error at the target, and the flush does not repeat it. */
static void what_requests_tell(member_t *member) {
  win_t win;
  uint64_t number = 5;
  ucxx_request_t *request = NULL, *flush = NULL;
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_DYNAMIC, 64, 1, NULL);
  if (win.rank == ORIGIN) {
    const int64_t beyond = (int64_t)(win.address[TARGET] + 4096 * 16);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    ucxx_status_t status =
        ucxx_window_rget(win.window, &number, &one, TARGET, beyond, &one, NULL, &request);
    CHECK_STATUS(finish(status, &request), UCXX_ERR_RMA_ATTACH);
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_OK(ucxx_window_put(win.window, &number, &one, TARGET, beyond, &one));
    CHECK_STATUS(finish(ucxx_window_flush_nb(win.window, TARGET, NULL, &flush), &flush),
                 UCXX_ERR_RMA_ATTACH);
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    CHECK_EQ(number, 5);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  win_close(&win);
}

static void both_live(member_t *member) {
  win_t win;
  begin(member, &win);
  if (win.rank == ORIGIN) {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, TARGET, 0));
    STEP("calls return");
    calls_return(&win);
    STEP("requests wait");
    requests_wait(&win);
    if (worker_params->progress_mode == UCXX_PROGRESS_MANUAL) {
      STEP("by descriptor");
      by_descriptor(&win);
    }
    STEP("no late writes");
    nothing_comes_late(&win);
    STEP("many");
    many(&win);
    many_requests(&win);
    STEP("threads");
    if (worker_params->thread_mode == UCXX_THREAD_MULTI) threads(&win);
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    mark(&marks->over, 1);
  } else {
    await_mark(&marks->over, 1);
  }
  win_close(&win);
  STEP("errors of requests");
  what_requests_tell(member);
  member_close(member);
}

/* The window is destroyed while answers are missing. */
static void window_goes(member_t *member) {
  win_t win;
  begin(member, &win);
  if (win.rank == ORIGIN) {
    uint64_t *pages[2] = {page_open(), page_open()};
    ucxx_request_t *request = NULL;
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    stop();
    for (uint64_t at = 0; at < FEW; at++) CHECK_OK(get_at(&win, at, pages[0] + at, 1));
    CHECK_EQ(rget_at(&win, 3, pages[1], NULL, &request), UCXX_INPROGRESS);
    ucxx_window_destroy(win.window);
    page_close(pages[0]);
    CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
    page_close(pages[1]);
    go_on();
    mark(&marks->over, 1);
  } else {
    await_mark(&marks->over, 1);
    CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_PEER_FAILED);
    ucxx_window_destroy(win.window);
  }
  /* The target's answers arrive before the barrier completes. */
  CHECK_OK(ucxx_group_barrier(member->group));
  pages_close(&win);
  member_close(member);
}

/* The target dies while answers are missing: one flush reports it, and each request does. */
static void target_goes(member_t *member) {
  win_t win;
  begin(member, &win);
  CHECK_OK(ucxx_window_lock_all(win.window, UCXX_ASSERT_NOCHECK));
  while (win.rank == TARGET) pause();
  uint64_t *pages[2] = {page_open(), page_open()}, number = 0;
  ucxx_request_t *request = NULL, *flush = NULL;
  CHECK_OK(get_at(&win, 9, &number, 1));
  CHECK_OK(ucxx_window_flush(win.window, TARGET));
  CHECK_EQ(number, 9);
  stop();
  for (uint64_t at = 0; at < FEW; at++) CHECK_OK(get_at(&win, at, pages[0] + at, 1));
  CHECK_EQ(rget_at(&win, 3, pages[1], NULL, &request), UCXX_INPROGRESS);
  CHECK_EQ(ucxx_window_flush_nb(win.window, TARGET, NULL, &flush), UCXX_INPROGRESS);
  mark(&marks->killed, 1);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &flush), UCXX_ERR_PEER_FAILED);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_PEER_FAILED);
  page_close(pages[1]);
  ucxx_status_t status = ucxx_window_flush_local(win.window, TARGET);
  CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
  page_close(pages[0]);
  CHECK_OK(ucxx_window_flush(win.window, TARGET));
  CHECK_STATUS(get_at(&win, 1, &number, 1), UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("rank 1");
  CHECK_STATUS(rget_at(&win, 1, &number, NULL, &request), UCXX_ERR_PEER_FAILED);
  CHECK_OK(ucxx_window_unlock_all(win.window));
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
  ucxx_window_destroy(win.window);
  member_close(member);
}

/* Runs `body` while the target is stopped so many times; with `kills` the last stop is a kill. */
static void run(void (*body)(member_t *member), uint64_t times, int kills) {
  pid_t pids[MOST_MEMBERS];
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(2, test_seed());
  members_start(board, pids, body);
  for (uint64_t time = 1; time <= times; time++) {
    int status = 0;
    await_mark(&marks->stop, time);
    CHECK_EQ(kill(pids[TARGET], SIGSTOP), 0);
    CHECK_EQ(waitpid(pids[TARGET], &status, WUNTRACED), pids[TARGET]);
    CHECK(WIFSTOPPED(status));
    mark(&marks->stopped, time);
    if (kills && time == times) {
      await_mark(&marks->killed, 1);
      CHECK_EQ(kill(pids[TARGET], SIGKILL), 0);
      break;
    }
    await_mark(&marks->go, time);
    CHECK_EQ(kill(pids[TARGET], SIGCONT), 0);
    mark(&marks->gone_on, time);
  }
  members_end(board, pids, kills ? TARGET : -1);
  board_close(board);
  munmap(marks, sizeof *marks);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s: both live", mode);
  run(both_live, params->progress_mode == UCXX_PROGRESS_MANUAL ? 4 : 3, 0);
  STEP("%s: the window is destroyed", mode);
  run(window_goes, 1, 0);
  STEP("%s: the target dies", mode);
  run(target_goes, 1, 1);
}

int main(void) {
  test_begin("window_pipeline");
  in_every_mode(round_in);
  return 0;
}
