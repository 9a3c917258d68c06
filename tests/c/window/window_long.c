/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Long contiguous puts and gets by messages: lengths around the switch of protocols, many at a
 * time, mixed with other operations, with a target that computes, and with a window or a member
 * that ends meanwhile. The data is right, and nothing is written after its completion.
 */
#include "window.h"

enum {
  MEMBERS = 3,
  LONG = 256 << 10,
  SIZE = 4 << 20,
  SLOTS = 4,
  SLOT = SIZE / SLOTS,
  ROUNDS = 3,
  REQUESTS = 8
};

static const ucxx_worker_params_t *worker_params;
static struct marks {
  uint64_t over, number, there, running, stopped, destroyed;
} *marks;

static void begin(member_t *member, win_t *win, int32_t flavor) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(win, member, flavor, SIZE, 1, NULL);
}

/* The value of a byte that a member has put. */
static uint8_t made(uint64_t seed, uint64_t at) {
  return (uint8_t)(test_mix(seed + at / 8) >> (at % 8 * 8));
}

static void make(uint8_t *bytes, uint64_t length, uint64_t seed) {
  for (uint64_t at = 0; at < length; at++) bytes[at] = made(seed, at);
}

static void check_made(const uint8_t *bytes, uint64_t length, uint64_t seed) {
  for (uint64_t at = 0; at < length; at++) {
    if (bytes[at] != made(seed, at))
      FAIL("byte %llu of %llu is %u, expected %u", (unsigned long long)at,
           (unsigned long long)length, bytes[at], made(seed, at));
  }
}

static void check_all(const uint8_t *bytes, uint64_t length, uint8_t value) {
  for (uint64_t at = 0; at < length; at++) CHECK_EQ(bytes[at], value);
}

static ucxx_status_t put(const win_t *win, const void *from, uint64_t length, uint32_t target,
                         uint64_t at) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  return ucxx_window_put(win->window, from, &all, target, win_disp(win, target, at), &all);
}

static ucxx_status_t get(const win_t *win, void *into, uint64_t length, uint32_t target,
                         uint64_t at) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  return ucxx_window_get(win->window, into, &all, target, win_disp(win, target, at), &all);
}

static uint64_t a_length(uint64_t number) {
  static const uint64_t lengths[] = {LONG - 1,    LONG,         LONG + 1,
                                     LONG + 4096, 3 * LONG + 7, SLOT - 64};
  return lengths[number % (sizeof lengths / sizeof *lengths)];
}

/* Every member puts into its own part of all others, and gets what others put, between fences.
 * Short operations, and accumulates at the ends of the parts, are mixed in. */
static void all_to_all(win_t *win) {
  const uint64_t seed = win->member->board->seed;
  uint8_t *mine = test_alloc(SLOT), *got = test_alloc(SLOT);
  const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  const uint64_t counter = SIZE - 64;
  uint64_t sum = 1;
  CHECK_OK(ucxx_window_fence(win->window, 0));
  for (uint64_t round = 0; round < ROUNDS; round++) {
    const uint64_t number = round * MEMBERS + win->rank, length = a_length(test_mix(seed + number)),
                   begins = test_mix(seed - number) % 64;
    make(mine, length, seed ^ number);
    for (uint32_t target = 0; target < win->ranks; target++) {
      CHECK_OK(put(win, mine, length, target, (uint64_t)win->rank * SLOT + begins));
      CHECK_OK(ucxx_window_accumulate(win->window, &sum, &one, target,
                                      win_disp(win, target, counter), &one, UCXX_REDUCE_SUM));
    }
    memset(mine, 0xee, length);
    CHECK_OK(ucxx_window_fence(win->window, 0));
    for (uint32_t who = 0; who < win->ranks; who++) {
      const uint64_t theirs = round * MEMBERS + who, bytes = a_length(test_mix(seed + theirs)),
                     first = test_mix(seed - theirs) % 64;
      const uint32_t where = (who + win->rank) % win->ranks;
      memset(got, 0, SLOT);
      CHECK_OK(get(win, got, bytes, where, (uint64_t)who * SLOT + first));
      CHECK_OK(ucxx_window_fence(win->window, 0));
      check_made(got, bytes, seed ^ theirs);
      if (where == win->rank)
        check_made(win->base + (uint64_t)who * SLOT + first, bytes, seed ^ theirs);
    }
    uint64_t total;
    memcpy(&total, win->base + counter, 8);
    CHECK_EQ(total, (round + 1) * win->ranks);
    /* Before any member begins the next round. */
    CHECK_OK(ucxx_window_fence(win->window, 0));
  }
  CHECK_OK(ucxx_window_fence(win->window, UCXX_ASSERT_NOSUCCEED));
  free(mine);
  free(got);
}

/* Many requests at a time; the flush completes all. The buffer of a cancelled request is not
 * written after its completion. */
static void requests(win_t *win) {
  const uint32_t target = (win->rank + 1) % win->ranks;
  const uint64_t seed = win->member->board->seed + win->rank, length = LONG + 8;
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  ucxx_request_t *puts[REQUESTS] = {NULL}, *gets[REQUESTS] = {NULL};
  ucxx_status_t statuses[REQUESTS];
  uint8_t *data = test_alloc(REQUESTS * length), *got = test_alloc(REQUESTS * length);
  make(data, REQUESTS * length, seed);
  memset(got, 0, REQUESTS * length);
  CHECK_OK(ucxx_window_lock_all(win->window, 0));
  for (uint64_t which = 0; which < REQUESTS; which++)
    statuses[which] =
        ucxx_window_rput(win->window, data + which * length, &all, target,
                         win_disp(win, target, which * length), &all, NULL, &puts[which]);
  for (int which = 0; which < REQUESTS; which++) CHECK_OK(finish(statuses[which], &puts[which]));
  CHECK_OK(ucxx_window_flush(win->window, target));
  for (uint64_t which = 0; which < REQUESTS; which++)
    statuses[which] =
        ucxx_window_rget(win->window, got + which * length, &all, target,
                         win_disp(win, target, which * length), &all, NULL, &gets[which]);
  const int some = (int)(test_mix(seed) % REQUESTS);
  if (gets[some] != NULL) (void)ucxx_request_cancel(gets[some]);
  for (int which = 0; which < REQUESTS; which++) {
    ucxx_status_t status = finish(statuses[which], &gets[which]);
    CHECK(status == UCXX_OK || (which == some && status == UCXX_ERR_CANCELED));
    if (status != UCXX_OK) memset(got + (uint64_t)which * length, 0x11, length);
  }
  CHECK_OK(ucxx_window_unlock_all(win->window));
  for (uint64_t which = 0; which < REQUESTS; which++) {
    if (got[which * length] == 0x11 && got[which * length + 1] == 0x11) {
      check_all(got + which * length, length, 0x11);
    } else {
      CHECK_EQ(memcmp(got + which * length, data + which * length, length), 0);
    }
  }
  CHECK_OK(ucxx_group_barrier(win->member->group));
  free(data);
  free(got);
}

/* The target makes no calls until everything is complete on both sides. */
static void at_who_computes(win_t *win) {
  const uint64_t seed = win->member->board->seed, length = 2 * LONG + 3;
  uint8_t *data = test_alloc(length);
  CHECK_OK(ucxx_group_barrier(win->member->group));
  if (win->rank == 1) {
    await_mark(&marks->over, 1);
    check_made(win->base, length, seed);
  } else if (win->rank == 0) {
    make(data, length, seed);
    CHECK_OK(ucxx_window_lock(win->window, UCXX_LOCK_EXCLUSIVE, 1, 0));
    CHECK_OK(put(win, data, length, 1, 0));
    CHECK_OK(ucxx_window_flush(win->window, 1));
    memset(data, 0, length);
    CHECK_OK(get(win, data, length, 1, 0));
    CHECK_OK(ucxx_window_flush_local(win->window, 1));
    check_made(data, length, seed);
    CHECK_OK(ucxx_window_unlock(win->window, 1));
    mark(&marks->over, 1);
  }
  CHECK_OK(ucxx_group_barrier(win->member->group));
  free(data);
}

/* After wait returns the target may overwrite its memory at once, whatever the origin still has to
 * receive. */
static void between_start_and_complete(win_t *win) {
  const uint64_t length = 3 * LONG;
  uint8_t *got = test_alloc(length);
  const uint32_t origin = 0, target = 1;
  for (int round = 1; round <= 8; round++) {
    if (win->rank == target) {
      memset(win->base, round, length);
      CHECK_OK(ucxx_window_post(win->window, &origin, 1, 0));
      CHECK_OK(ucxx_window_wait(win->window));
      memset(win->base, 0xff, length);
    } else if (win->rank == origin) {
      CHECK_OK(ucxx_window_start(win->window, &target, 1, 0));
      CHECK_OK(get(win, got, length, target, 0));
      CHECK_OK(ucxx_window_complete(win->window));
      check_all(got, length, (uint8_t)round);
    }
  }
  CHECK_OK(ucxx_group_barrier(win->member->group));
  free(got);
}

/* A lock is passed on when all operations of its holder are done, waited for or not: each holder
 * finds the previous number, and writes the next. */
static void from_lock_to_lock(win_t *win) {
  const uint64_t length = 2 * LONG;
  const uint32_t target = 1;
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  uint8_t *found = test_alloc(length), *left = test_alloc(length);
  if (win->rank == target) memset(win->base, 0, length);
  CHECK_OK(ucxx_group_barrier(win->member->group));
  for (int turn = 0; turn < 10 && win->rank != target; turn++) {
    ucxx_request_t *request = NULL, *read = NULL;
    CHECK_OK(ucxx_window_lock(win->window, UCXX_LOCK_EXCLUSIVE, target, 0));
    const uint8_t last = (uint8_t)look(&marks->number);
    memset(left, last + 1, length);
    ucxx_status_t reading = ucxx_window_rget(win->window, found, &all, target,
                                             win_disp(win, target, 0), &all, NULL, &read);
    CHECK(reading >= UCXX_OK);
    CHECK_OK(ucxx_window_flush(win->window, target));
    ucxx_status_t status = ucxx_window_rput(win->window, left, &all, target,
                                            win_disp(win, target, 0), &all, NULL, &request);
    mark(&marks->number, last + 1u);
    CHECK_OK(ucxx_window_unlock(win->window, target));
    CHECK_OK(finish(reading, &read));
    CHECK_OK(finish(status, &request));
    check_all(found, length, last);
  }
  CHECK_OK(ucxx_group_barrier(win->member->group));
  free(found);
  free(left);
}

/* A flush with a request completes when all earlier operations are done. */
static void flushes_with_requests(win_t *win) {
  const uint64_t length = 2 * LONG;
  const uint32_t target = 1;
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  uint8_t *data = test_alloc(length), *got = test_alloc(length);
  CHECK_OK(ucxx_group_barrier(win->member->group));
  for (uint64_t round = 1; round <= 8; round++) {
    if (win->rank == 0) {
      ucxx_request_t *put = NULL, *first = NULL, *second = NULL;
      memset(data, (int)round, length);
      memset(got, 0, length);
      CHECK_OK(ucxx_window_lock(win->window, UCXX_LOCK_SHARED, target, 0));
      ucxx_status_t putting = ucxx_window_rput(win->window, data, &all, target,
                                               win_disp(win, target, 0), &all, NULL, &put);
      CHECK_OK(finish(ucxx_window_flush_nb(win->window, target, NULL, &first), &first));
      mark(&marks->there, round);
      CHECK_OK(get(win, got, length, target, 0));
      CHECK_OK(finish(ucxx_window_flush_nb(win->window, target, NULL, &second), &second));
      check_all(got, length, (uint8_t)round);
      CHECK_OK(finish(putting, &put));
      CHECK_OK(ucxx_window_unlock(win->window, target));
    } else if (win->rank == target) {
      await_mark(&marks->there, round);
      check_all(win->base, length, (uint8_t)round);
    }
    CHECK_OK(ucxx_group_barrier(win->member->group));
  }
  free(data);
  free(got);
}

static void all_live(member_t *member) {
  static const int32_t flavors[] = {UCXX_WINDOW_FLAVOR_ALLOCATE, UCXX_WINDOW_FLAVOR_CREATE,
                                    UCXX_WINDOW_FLAVOR_DYNAMIC};
  member_open(member, worker_params);
  member_join(member, 0);
  for (int which = 0; which < 3; which++) {
    win_t win;
    STEP("%s", flavor_name(flavors[which]));
    win_open(&win, member, flavors[which], SIZE, 1, NULL);
    all_to_all(&win);
    requests(&win);
    if (which == 0) {
      at_who_computes(&win);
      between_start_and_complete(&win);
      from_lock_to_lock(&win);
      flushes_with_requests(&win);
    }
    CHECK_OK(ucxx_group_barrier(member->group));
    win_close(&win);
  }
  member_close(member);
}

/* Memory where a late write ends the process. */
static uint8_t *own_pages(size_t length) {
  void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  return pages;
}

/* Both members keep getting from each other's memory. Rank 1 is stopped meanwhile, and rank 0
 * destroys the window: a later access to its memory ends the process. */
static void window_goes(member_t *member) {
  win_t win;
  begin(member, &win, UCXX_WINDOW_FLAVOR_CREATE);
  CHECK_OK(ucxx_group_barrier(member->group));
  const uint32_t other = 1 - win.rank;
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, SLOT);
  uint8_t *into = own_pages(2 * SLOT);
  ucxx_request_t *gets[2] = {NULL, NULL};
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (uint64_t turn = 0; win.rank == 1 || look(&marks->stopped) == 0; turn++) {
    /* Operations begun before the other member stops stay in flight. */
    for (int which = 0; which < 2; which++) {
      ucxx_status_t status = ucxx_window_rget(win.window, into + which * SLOT, &all, other,
                                              win_disp(&win, other, 0), &all, NULL, &gets[which]);
      if (win.rank == 1 && status < 0) break;
      CHECK(status >= UCXX_OK);
    }
    if (win.rank == 0) mark(&marks->running, turn + 1);
    for (int which = 0; which < 2; which++) {
      while (gets[which] != NULL && ucxx_request_status(gets[which]) == UCXX_INPROGRESS &&
             (win.rank == 1 || look(&marks->stopped) == 0))
        progress(member->worker);
    }
    if (win.rank == 0 && look(&marks->stopped) != 0) break;
    for (int which = 0; which < 2; which++) {
      ucxx_status_t status = gets[which] == NULL ? UCXX_OK : ucxx_request_status(gets[which]);
      ucxx_request_destroy(gets[which]);
      gets[which] = NULL;
      if (win.rank == 1 && status != UCXX_OK) goto done;
    }
    if (win.rank == 1 && look(&marks->destroyed) != 0) break;
  }
done:
  ucxx_window_destroy(win.window);
  CHECK_EQ(munmap(into, 2 * SLOT), 0);
  win.window = NULL;
  CHECK_EQ(munmap(win.pages, win.pages_length), 0);
  if (win.rank == 0) mark(&marks->destroyed, 1);
  for (int which = 0; which < 2; which++) ucxx_request_destroy(gets[which]);
  member_close(member);
}

static void run_and_stop(uint64_t after) {
  pid_t pids[MOST_MEMBERS];
  marks = shared_open(sizeof *marks);
  board_t *board = board_open(2, test_seed());
  members_start(board, pids, window_goes);
  int status = 0;
  await_mark(&marks->running, after);
  CHECK_EQ(kill(pids[1], SIGSTOP), 0);
  CHECK_EQ(waitpid(pids[1], &status, WUNTRACED), pids[1]);
  CHECK(WIFSTOPPED(status));
  mark(&marks->stopped, 1);
  await_mark(&marks->destroyed, 1);
  CHECK_EQ(kill(pids[1], SIGCONT), 0);
  members_end(board, pids, -1);
  board_close(board);
  munmap(marks, sizeof *marks);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  const uint64_t seed = test_seed();
  worker_params = params;
  STEP("%s: all members live", mode);
  marks = shared_open(sizeof *marks);
  run_members(MEMBERS, seed, all_live);
  munmap(marks, sizeof *marks);
  for (uint64_t turn = 0; turn < 2; turn++) {
    STEP("%s: the window is destroyed", mode);
    run_and_stop(1 + test_mix(seed + turn) % 40);
  }
}

int main(void) {
  test_begin("window_long");
  in_every_mode(round_in);
  return 0;
}
