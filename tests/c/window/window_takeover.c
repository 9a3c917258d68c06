/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Callbacks that run inside a wait of the group. The waiting thread makes progress for all objects;
 * a callback there may take long, wait for another thread, and access other members, which access
 * this process meanwhile.
 */
#include "window.h"

/* CALLBACKS one after the other, each in a later pass. Some run before the waiting thread takes
 * over progress, at least two while it makes progress, and the rest later. A get of LONG bytes
 * takes longer than that. */
enum { MEMBERS = 2, CALLBACKS = 6, LONG = 4 << 20 };
enum { FAR, HERE };

static const ucxx_worker_params_t *worker_params;
/* Callbacks that have begun, and those in which the other member has been served. */
static struct marks {
  uint64_t begun, served;
} *marks;

typedef struct play {
  member_t *member;
  win_t data; /* FAR holds a lock of HERE, and HERE of both */
  win_t other; /* the window whose calls wait */
  uint8_t *expected, *fetched, *fetched_beside;
  uint64_t begun, ended; /* callbacks */
  uint64_t asked, beside; /* requests to the second thread, and those it has done */
  uint64_t last; /* the last callback of this wait */
} play_t;

static void get_long(play_t *play, uint8_t *to) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, LONG);
  memset(to, 0, LONG);
  CHECK_OK(ucxx_window_get(play->data.window, to, &all, FAR, 0, &all));
  CHECK_OK(ucxx_window_flush(play->data.window, FAR));
  CHECK(memcmp(to, play->expected, LONG) == 0);
}

static void next_callback(play_t *play);

static void in_a_wait(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  play_t *play = arg;
  (void)request;
  CHECK_OK(status);
  const uint64_t here = ++play->begun;
  STEP("callback %llu", (unsigned long long)here);
  /* The other member's operation at this one completes before the callback returns. */
  mark(&marks->begun, here);
  await_mark(&marks->served, here);
  /* And this member's operation at the other. */
  get_long(play, play->fetched);
  /* And another thread's. */
  if (worker_params->thread_mode == UCXX_THREAD_MULTI) {
    mark(&play->asked, here);
    await_mark(&play->beside, here);
  }
  if (here < play->last) next_callback(play);
  mark(&play->ended, here);
}

/* Sends to this process, so that the callback is due at once. */
static void next_callback(play_t *play) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = in_a_wait;
  params.callback_arg = play;
  CHECK_STATUS(ucxx_window_flush_nb(play->data.window, HERE, &params, NULL), UCXX_INPROGRESS);
}

enum { WAITS = 4 };
static const char *const wait_names[WAITS] = {"barrier", "fence", "start", "wait"};

/* One kind of wait: HERE waits in it for FAR, which calls late. */
static void wait_in(int wait, play_t *play) {
  const uint32_t far = FAR, here = HERE;
  ucxx_window_t *window = play->other.window;
  const int is_late = play->member->rank == FAR;
  switch (wait) {
  case 0: CHECK_OK(ucxx_group_barrier(play->member->group)); break;
  case 1: CHECK_OK(ucxx_window_fence(window, UCXX_ASSERT_NOSUCCEED)); break;
  case 2:
    if (is_late) {
      CHECK_OK(ucxx_window_post(window, &here, 1, 0));
      CHECK_OK(ucxx_window_wait(window));
    } else {
      CHECK_OK(ucxx_window_start(window, &far, 1, 0));
      CHECK_OK(ucxx_window_complete(window));
    }
    break;
  default:
    if (is_late) {
      CHECK_OK(ucxx_window_start(window, &here, 1, 0));
      CHECK_OK(ucxx_window_complete(window));
    } else {
      CHECK_OK(ucxx_window_post(window, &far, 1, 0));
      CHECK_OK(ucxx_window_wait(window));
    }
  }
}

static void *beside(void *arg) {
  play_t *play = arg;
  for (uint64_t here = 1; here <= WAITS * CALLBACKS; here++) {
    await_mark(&play->asked, here);
    get_long(play, play->fetched_beside);
    mark(&play->beside, here);
  }
  return NULL;
}

static void be_here(play_t *play) {
  const int has_thread = worker_params->thread_mode == UCXX_THREAD_MULTI;
  pthread_t thread;
  CHECK_OK(ucxx_window_lock(play->data.window, UCXX_LOCK_SHARED, HERE, 0));
  CHECK_OK(ucxx_window_lock(play->data.window, UCXX_LOCK_SHARED, FAR, 0));
  if (has_thread) CHECK_EQ(pthread_create(&thread, NULL, beside, play), 0);
  for (int wait = 0; wait < WAITS; wait++) {
    STEP("%s", wait_names[wait]);
    play->last += CALLBACKS;
    next_callback(play);
    wait_in(wait, play);
    /* A progress thread may still be in it. */
    CHECK_EQ(look(&marks->begun), play->last);
    await_mark(&play->ended, play->last);
  }
  if (has_thread) CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_OK(ucxx_window_unlock(play->data.window, FAR));
  CHECK_OK(ucxx_window_unlock(play->data.window, HERE));
}

static void be_far(play_t *play) {
  uint64_t here = 0;
  CHECK_OK(ucxx_window_lock(play->data.window, UCXX_LOCK_SHARED, HERE, 0));
  for (int wait = 0; wait < WAITS; wait++) {
    STEP("%s", wait_names[wait]);
    for (int turn = 0; turn < CALLBACKS; turn++) {
      uint64_t found = 0;
      await_mark(&marks->begun, ++here);
      CHECK_OK(win_put64(&play->data, HERE, 8, &here));
      CHECK_OK(win_get64(&play->data, HERE, 8, &found));
      CHECK_OK(ucxx_window_flush(play->data.window, HERE));
      CHECK_EQ(found, here);
      mark(&marks->served, here);
    }
    wait_in(wait, play);
  }
  CHECK_OK(ucxx_window_unlock(play->data.window, HERE));
}

static void all_of_it(member_t *member) {
  play_t play = {.member = member};
  member_open(member, worker_params);
  member_join(member, 0);
  play.expected = test_alloc(LONG);
  play.fetched = test_alloc(LONG);
  play.fetched_beside = test_alloc(LONG);
  test_fill(play.expected, LONG, member->board->seed);
  win_open(&play.data, member, UCXX_WINDOW_FLAVOR_ALLOCATE, LONG, 1, NULL);
  win_open(&play.other, member, UCXX_WINDOW_FLAVOR_ALLOCATE, WIN_ALIGNMENT, 1, NULL);
  if (member->rank == FAR) memcpy(play.data.base, play.expected, LONG);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == HERE)
    be_here(&play);
  else
    be_far(&play);
  win_close(&play.other);
  win_close(&play.data);
  free(play.expected);
  free(play.fetched);
  free(play.fetched_beside);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  marks = shared_open(sizeof *marks);
  run_members(MEMBERS, 0, all_of_it);
  munmap(marks, sizeof *marks);
}

int main(void) {
  test_begin("window_takeover");
  in_every_mode(round_in);
  return 0;
}
