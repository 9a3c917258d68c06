/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Every form of the operations with requests works; and in a callback, where nothing may wait, a
 * window's calls do what they should. */
#include "window.h"

enum { MEMBERS = 3, SIZE = 64 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;
static uint64_t *held; /* a mark: rank 0 holds the lock of target 1 */

static void meet(const member_t *member) { CHECK_OK(ucxx_group_barrier(member->group)); }

/* ------------------------------------------------------------------ callbacks */

typedef struct called {
  seen_t seen;
  ucxx_group_t *group;
  uint64_t found;
} called_t;

/* In a lock epoch on target 2; another process holds target 1. */
static void in_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  called_t *called = arg;
  ucxx_window_t *none = NULL;
  void *base = NULL;
  ucxx_request_t *nothing = NULL;
  ucxx_op_params_t waiting = UCXX_OP_PARAMS_INIT;
  const uint64_t five = 5;
  waiting.flags = UCXX_FLAG_WAIT;
  CHECK_OK(status);
  CHECK_STATUS(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, 1, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, 1, 0, &waiting, &nothing),
               UCXX_ERR_BUSY);
  CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_NONE);
  CHECK_STATUS(ucxx_window_create(called->group, NULL, 0, 1, NULL, &none), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_window_allocate(called->group, 8, 1, NULL, &base, &none), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_window_allocate_shared(called->group, 8, 1, NULL, &base, &none), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_window_create_dynamic(called->group, NULL, &none), UCXX_ERR_BUSY);
  CHECK(none == NULL && base == NULL);
  CHECK_OK(win_put64(&win, 2, 0, &five));
  CHECK_OK(win_get64(&win, 2, 0, &called->found));
  CHECK_OK(ucxx_window_flush(win.window, 2));
  CHECK_EQ(called->found, 5);
  CHECK_OK(ucxx_window_unlock(win.window, 2));
  CHECK_STATUS(ucxx_window_fence(win.window, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_window_close(win.window), UCXX_ERR_BUSY);
  CHECK_EQ(ucxx_window_sync_type(win.window, 2), UCXX_SYNC_NONE);
  see_completion(&called->seen, request, status);
}

static void callbacks(member_t *member) {
  called_t called = {.group = member->group};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  STEP("callbacks");
  win_open(&win, member, flavor, SIZE, 8, NULL);
  if (member->rank == 0) {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0));
    mark(held, 1);
    await_mark(held, 2);
    CHECK_OK(ucxx_window_unlock(win.window, 1));
  } else if (member->rank == 1) {
    await_mark(held, 1);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 2, 0));
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = in_callback;
    params.callback_arg = &called;
    CHECK_STATUS(ucxx_window_flush_nb(win.window, 2, &params, NULL), UCXX_INPROGRESS);
    while (seen_count(&called.seen) == 0) progress(member->worker);
    mark(held, 2);
  }
  meet(member);
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  if (member->rank == 2) CHECK_EQ(*(uint64_t *)(void *)win.base, 5);
  win_close(&win);
}

/* ------------------------------------------------------------------ forms of operations with
 * requests */

enum { FORMS = 4 };
static const char *const form_names[FORMS] = {"rput", "rget", "raccumulate", "rget_accumulate"};

static ucxx_status_t submit(int form, const uint64_t *operand, uint64_t *result, uint32_t target,
                            const ucxx_op_params_t *params, ucxx_request_t **request) {
  const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  const int64_t disp = win_disp(&win, target, 16);
  switch (form) {
  case 0: return ucxx_window_rput(win.window, operand, &one, target, disp, &one, params, request);
  case 1: return ucxx_window_rget(win.window, result, &one, target, disp, &one, params, request);
  case 2:
    return ucxx_window_raccumulate(win.window, operand, &one, target, disp, &one, UCXX_REDUCE_SUM,
                                   params, request);
  default:
    return ucxx_window_rget_accumulate(win.window, operand, &one, result, &one, target, disp, &one,
                                       UCXX_REDUCE_SUM, params, request);
  }
}

/* By waiting, with a request and a wait, without a request, by callback, and by notifier. */
static void forms(member_t *member) {
  uint64_t expected = 0, operand = 100, result;
  const uint32_t next = (member->rank + 1) % member->size;
  ucxx_notifier_t *notifier = NULL;
  STEP("forms");
  win_open(&win, member, flavor, SIZE, 8, NULL);
  CHECK_OK(ucxx_notifier_create(member->context, &notifier));
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, next, 0));
  for (int turn = 0; turn < 4 * FORMS * 5; turn++) {
    const int form = turn % FORMS, way = turn / FORMS % 5;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL;
    seen_t seen = {0};
    ucxx_completion_t completion = {0};
    size_t count = 0;
    STEP("%s, way %d", form_names[form], way);
    operand += (uint64_t)turn;
    result = 1;
    params.flags = way == 0 ? UCXX_FLAG_WAIT : UCXX_FLAG_ALWAYS_CALLBACK;
    if (way == 3) {
      params.callback = see_completion;
      params.callback_arg = &seen;
    }
    if (way == 4) {
      params.notifier = notifier;
      params.callback_arg = &seen;
    }
    if (way == 1 || way == 2) params.flags = 0;
    ucxx_status_t status =
        submit(form, &operand, &result, next, &params, way == 2 || way == 0 ? NULL : &request);
    if (way == 0) CHECK_OK(status);
    if (way == 1) CHECK_OK(finish(status, &request));
    if (way == 2) CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    if (way >= 3) {
      CHECK_STATUS(status, UCXX_INPROGRESS);
      CHECK(request != NULL);
      while (way == 3 && seen_count(&seen) == 0) progress(member->worker);
      while (way == 4 && count == 0) {
        CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
        progress(member->worker);
      }
      CHECK_OK(finish(status, &request));
      CHECK(way != 3 || (seen_count(&seen) == 1 && seen.status == UCXX_OK));
      CHECK(way != 4 || (completion.user_data == &seen && completion.status == UCXX_OK));
    }
    CHECK_OK(ucxx_window_flush(win.window, next));
    CHECK_EQ(result, form == 1 || form == 3 ? expected : 1);
    expected = form == 0 ? operand : form == 1 ? expected : expected + operand;
  }
  CHECK_OK(ucxx_window_unlock(win.window, next));
  ucxx_notifier_destroy(notifier);
  win_close(&win);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  forms(member);
  callbacks(member);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  held = shared_open(sizeof *held);
  run_members(MEMBERS, 0, all_of_it);
  munmap(held, sizeof *held);
}

int main(int argc, char **argv) {
  test_begin("window_callbacks");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
