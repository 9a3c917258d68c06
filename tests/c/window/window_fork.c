/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* In a forked child a window's calls do nothing, and the parent's window does not change. */
#include "window.h"

enum { MEMBERS = 3, SIZE = 64 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;
static uint64_t *held; /* a mark: the progress of both */

static void in_child(const member_t *member) {
  const uint64_t number = 9;
  uint64_t found = 1;
  int32_t done = 3;
  ucxx_window_t *none = NULL;
  ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
  ucxx_window_t *window = win.window;
  CHECK_STATUS(win_put64(&win, 1, 8, &number), UCXX_ERR_FORKED);
  CHECK_STATUS(win_get64(&win, 1, 8, &found), UCXX_ERR_FORKED);
  CHECK_STATUS(win_fetch64(&win, 1, 8, UCXX_REDUCE_SUM, &number, &found), UCXX_ERR_FORKED);
  CHECK_EQ(found, 1);
  CHECK_STATUS(ucxx_window_unlock(window, 1), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_flush(window, 1), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_flush_all(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_lock(window, UCXX_LOCK_SHARED, 2, 0), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_lock_all(window, 0), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_unlock_all(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_fence(window, 0), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_post(window, NULL, 0, 0), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_start(window, NULL, 0, 0), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_complete(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_wait(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_test(window, &done), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_sync(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_set_hints(window, NULL), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_query(window, &attr), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_shared_query(window, 1, NULL, NULL, NULL), UCXX_ERR_FORKED);
  CHECK_EQ(ucxx_window_sync_type(window, 1), UCXX_ERR_FORKED);
  CHECK_EQ(ucxx_window_path(window, 1), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_close(window), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_attach(window, &found, 8), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_detach(window, &found), UCXX_ERR_FORKED);
  CHECK_STATUS(ucxx_window_create_dynamic(member->group, NULL, &none), UCXX_ERR_FORKED);
  CHECK(none == NULL && done == 3);
  ucxx_window_destroy(window);
  ucxx_group_destroy(member->group);
  ucxx_worker_destroy(member->worker);
  ucxx_context_destroy(member->context);
}

static void forked(member_t *member) {
  uint64_t number = 7, found = 0;
  STEP("a forked child, %s", flavor_name(flavor));
  win_open(&win, member, flavor, SIZE, 8, NULL);
  if (member->rank == 0) {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0));
    CHECK_OK(win_put64(&win, 1, 8, &number));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      in_child(member);
      exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    /* The child has released and damaged nothing. */
    CHECK_EQ(ucxx_window_sync_type(win.window, 1), UCXX_SYNC_LOCK);
    mark(held, 1);
    await_mark(held, 2);
    CHECK_OK(win_get64(&win, 1, 8, &found));
    CHECK_OK(ucxx_window_unlock(win.window, 1));
    CHECK_EQ(found, 7);
  } else if (member->rank == 1) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL;
    await_mark(held, 1);
    params.timeout_ns = 20 * MILLISECOND;
    CHECK_STATUS(finish(ucxx_window_lock_nb(win.window, UCXX_LOCK_SHARED, 1, 0, &params, &request),
                        &request),
                 UCXX_ERR_TIMED_OUT);
    mark(held, 2);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_EXCLUSIVE, 1, 0));
  CHECK_OK(ucxx_window_unlock(win.window, 1));
  CHECK_OK(ucxx_window_fence(win.window, 0));
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  win_close(&win);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (flavor = 0; flavor < 4; flavor++) {
    mark(held, 0);
    forked(member);
  }
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  held = shared_open(sizeof *held);
  run_members(MEMBERS, 0, all_of_it);
  munmap(held, sizeof *held);
}

int main(void) {
  test_begin("window_fork");
  in_every_mode(round_in);
  return 0;
}
