/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A thousand windows created and closed leave nothing behind, and handles may be destroyed in every
 * order, even during epochs. */
#include "window.h"

enum { MEMBERS = 3, WARM_UP = 60, WINDOWS = 1000 };

static const ucxx_worker_params_t *worker_params;

static void meet(const member_t *member) { CHECK_OK(ucxx_group_barrier(member->group)); }

/* ------------------------------------------------------------------ a thousand windows */

/* All flavours in turns; shared ones on one host only. */
static int32_t flavor_of(int number) {
  int32_t flavor = number % 4;
  return flavor == UCXX_WINDOW_FLAVOR_SHARED && test_hosts() > 1 ? UCXX_WINDOW_FLAVOR_ALLOCATE
                                                                 : flavor;
}

static void use_one(member_t *member, int number) {
  win_t win;
  uint64_t value = (uint64_t)number, found = 0;
  const uint32_t next = (member->rank + 1) % member->size;
  win_open(&win, member, flavor_of(number), 16 + (size_t)(number % 7) * 4096, 8, NULL);
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, next, 0));
  CHECK_OK(win_put64(&win, next, 8, &value));
  CHECK_OK(ucxx_window_unlock(win.window, next));
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(win_fetch64(&win, next, 8, UCXX_REDUCE_SUM, &value, &found));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  CHECK_EQ(found, value);
  win_close(&win);
}

static void thousand(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (int number = 0; number < WARM_UP; number++) use_one(member, number);
  footprint_t before = footprint_now();
  for (int number = 0; number < WINDOWS; number++) {
    if (number % 50 == 0) STEP("window %d", number);
    use_one(member, number);
  }
  footprint_t after = footprint_now();
  /* A worker that slept for the first time has created its sleep descriptors. */
  CHECK(after.descriptors <= before.descriptors + 8);
  CHECK_EQ(after.threads, before.threads);
  /* And two mappings for each pair of fast boxes that the workers of the members, and of the group,
   * have created meanwhile. */
  CHECK(after.mappings <= before.mappings + 2 + 2 * 2 * (MEMBERS - 1));
  /* UCX's pools and the C library's heap grow with use. A thousand leaked windows would take far
   * more than this. */
  if (after.resident_kib > before.resident_kib + 4096)
    FAIL("memory grew by %ld KiB over a thousand windows",
         after.resident_kib - before.resident_kib);
  meet(member);
  member_close(member);
}

/* ------------------------------------------------------------------ orders of destruction */

static void destroy_in_order(member_t *member, win_t *win, int order) {
  int left[4] = {0, 1, 2, 3};
  for (int count = 4; count > 0; count--) {
    int at = order % count, what = left[at];
    order /= count;
    left[at] = left[count - 1];
    switch (what) {
    case 0:
      ucxx_window_destroy(win->window);
      pages_close(win);
      break;
    case 1: ucxx_group_destroy(member->group); break;
    case 2: ucxx_worker_destroy(member->worker); break;
    default: ucxx_context_destroy(member->context);
    }
  }
}

static void destroy_orders(member_t *member) {
  for (int order = 0; order < 24; order++) {
    win_t win;
    uint64_t value = 5;
    const uint32_t next = (member->rank + 1) % member->size;
    STEP("order %d", order);
    member_open(member, worker_params);
    member_join(member, 0);
    win_open(&win, member, flavor_of((int)order), 64, 8, NULL);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, next, 0));
    CHECK_OK(win_put64(&win, next, 0, &value));
    CHECK_OK(ucxx_window_unlock(win.window, next));
    meet(member);
    if (order % 3 == 0) CHECK_OK(ucxx_window_close(win.window));
    /* Each process uses another order. */
    destroy_in_order(member, &win, (order + 7 * (int)member->rank) % 24);
  }
}

/* One member leaves during an epoch: its locks become free, and the others' close reports it. */
static void leave(member_t *member, int how, int32_t flavor) {
  ucxx_request_t *request = NULL;
  win_t win;
  static const uint32_t last[] = {MEMBERS - 1};
  STEP("leaves, way %d, %s", how, flavor_name(flavor));
  win_open(&win, member, flavor, 64, 8, NULL);
  if (member->rank == 0) {
    switch (how) {
    case 0: CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0)); break;
    case 1:
      CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0));
      CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 0, 0));
      break;
    case 2: CHECK_OK(ucxx_window_lock_all(win.window, 0)); break;
    case 3: CHECK_OK(ucxx_window_post(win.window, last, 1, 0)); break;
    case 4:
      /* A lock that another member holds as long as this one is here. */
      meet(member);
      CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0, NULL, &request),
                   UCXX_INPROGRESS);
      break;
    default: break;
    }
  }
  if (how == 4 && member->rank > 0) {
    if (member->rank == 1) CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0));
    meet(member);
  }
  meet(member);
  if (member->rank == 0) {
    ucxx_window_destroy(win.window);
    if (request != NULL) CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
    meet(member);
    if (test_hosts() > 1) meet(member);
  } else {
    meet(member);
    if (how == 4 && member->rank == 1) CHECK_OK(ucxx_window_unlock(win.window, 1));
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0));
    CHECK_OK(ucxx_window_unlock(win.window, 1));
    /* a member that has left grants no lock to members on other hosts */
    if (test_hosts() > 1) meet(member);
    if (member->rank == 1) {
      CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_PEER_FAILED);
      CHECK_MESSAGE("rank 0");
    }
    CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank ");
    CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0), UCXX_ERR_CLOSED);
    ucxx_window_destroy(win.window);
  }
  meet(member);
  pages_close(&win);
}

static void leaving(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (int how = 0; how < 6; how++)
    leave(member, how, how % 2 ? UCXX_WINDOW_FLAVOR_CREATE : UCXX_WINDOW_FLAVOR_ALLOCATE);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s: a thousand", mode);
  run_members(MEMBERS, 0, thousand);
  STEP("%s: orders of destruction", mode);
  run_members(MEMBERS, 0, destroy_orders);
  STEP("%s: leaving", mode);
  run_members(MEMBERS, 0, leaving);
}

int main(void) {
  test_begin("window_cycles");
  in_every_mode(round_in);
  return 0;
}
