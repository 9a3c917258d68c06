/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows of every flavour, with one interface for the tests: each member has some bytes, which all
 * members address by offset. Memory that the test provides lies between inaccessible pages.
 */
#ifndef UCXX_RS_TEST_WIN_H
#define UCXX_RS_TEST_WIN_H
#include "group.h"

#include <sched.h>

enum { WIN_CANARY = 0x5a, WIN_ALIGNMENT = 16 };

typedef struct win {
  member_t *member;
  ucxx_window_t *window;
  int32_t flavor;
  uint32_t ranks, rank;
  uint8_t *base; /* of this member */
  uint64_t size[MOST_MEMBERS]; /* of each member */
  uint32_t unit[MOST_MEMBERS];
  uint64_t address[MOST_MEMBERS]; /* of each member, where displacements are addresses */
  uint8_t *pages; /* from one inaccessible page to the other, or all of `memory` */
  size_t pages_length;
  ucxx_memory_t *memory;
} win_t;

static inline const char *flavor_name(int32_t flavor) {
  static const char *const names[] = {"create", "allocate", "shared", "dynamic"};
  return names[flavor];
}

static inline int32_t flavor_named(const char *name) {
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    if (strcmp(name, flavor_name(flavor)) == 0) return flavor;
  }
  FAIL("%s is not a flavour", name);
}

/* With UCXX_TEST_WIN_MEMORY windows on the caller's memory use memory that the library has
 * registered, which other members of the host can map. */
static inline int on_library_memory(const win_t *win) {
  return win->flavor == UCXX_WINDOW_FLAVOR_CREATE && getenv("UCXX_TEST_WIN_MEMORY") != NULL;
}

/* Size of the inaccessible area before and behind the memory. */
static inline size_t pages_edge(const win_t *win) {
  return win->memory == NULL ? (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Maps memory between two inaccessible pages. It ends at the second one, or begins behind the
 * first. */
static inline uint8_t *pages_open(win_t *win, size_t size, int at_end) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page) / page * page;
  if (on_library_memory(win)) {
    CHECK_OK(ucxx_memory_allocate(win->member->context, inner, UCXX_MEMORY_HOST, &win->memory));
    win->pages = ucxx_memory_base(win->memory);
    win->pages_length = inner;
  } else {
    win->pages_length = inner + 2 * page;
    win->pages = mmap(NULL, win->pages_length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(win->pages != MAP_FAILED);
    CHECK_EQ(mprotect(win->pages + page, inner, PROT_READ | PROT_WRITE), 0);
  }
  uint8_t *begin = win->pages + pages_edge(win);
  memset(begin, WIN_CANARY, inner);
  return begin + (at_end ? inner - size : 0);
}

/* Checks that nothing beside the window was written in its own pages. */
static inline void pages_close(win_t *win) {
  if (win->pages == NULL) return;
  const size_t edge = pages_edge(win);
  for (uint8_t *byte = win->pages + edge; byte < win->pages + win->pages_length - edge; byte++) {
    if ((byte < win->base || byte >= win->base + win->size[win->rank]) && *byte != WIN_CANARY)
      FAIL("%s: the byte at offset %td from the start was written", flavor_name(win->flavor),
           byte - win->base);
  }
  if (win->memory != NULL)
    ucxx_memory_destroy(win->memory);
  else
    CHECK_EQ(munmap(win->pages, win->pages_length), 0);
  win->pages = NULL;
  win->memory = NULL;
}

/* Collective. Sizes are multiples of WIN_ALIGNMENT, and units may differ by rank. The memory is
 * zeroed, and all members have joined. */
static inline void win_open(win_t *win, member_t *member, int32_t flavor, size_t size,
                            uint32_t unit, const ucxx_window_params_t *hints) {
  ucxx_window_params_t given = UCXX_WINDOW_PARAMS_INIT, *params = NULL;
  void *base = NULL;
  memset(win, 0, sizeof *win);
  win->member = member;
  win->flavor = flavor;
  win->rank = member->rank;
  win->ranks = member->size;
  if (hints != NULL) {
    given = *hints;
    params = &given;
  }
  switch (flavor) {
  case UCXX_WINDOW_FLAVOR_CREATE:
    base = pages_open(win, size, (int)(member->rank % 2));
    if (win->memory != NULL) {
      given.memory = win->memory;
      params = &given;
    }
    CHECK_OK(ucxx_window_create(member->group, base, size, unit, params, &win->window));
    break;
  case UCXX_WINDOW_FLAVOR_ALLOCATE:
    CHECK_OK(ucxx_window_allocate(member->group, size, unit, params, &base, &win->window));
    break;
  case UCXX_WINDOW_FLAVOR_SHARED:
    CHECK_OK(ucxx_window_allocate_shared(member->group, size, unit, params, &base, &win->window));
    break;
  default:
    unit = 1;
    base = pages_open(win, size, (int)(member->rank % 2));
    CHECK_OK(ucxx_window_create_dynamic(member->group, params, &win->window));
    if (size > 0) CHECK_OK(ucxx_window_attach(win->window, base, size));
  }
  win->base = base;
  if (size > 0) {
    CHECK(base != NULL);
    CHECK_EQ((uintptr_t)base % WIN_ALIGNMENT, 0);
    memset(base, 0, size);
  }
  uint64_t mine[3] = {size, unit, (uint64_t)(uintptr_t)base}, all[MOST_MEMBERS][3];
  CHECK_OK(ucxx_group_allgather(member->group, mine, sizeof mine, all));
  for (uint32_t rank = 0; rank < member->size; rank++) {
    win->size[rank] = all[rank][0];
    win->unit[rank] = (uint32_t)all[rank][1];
    win->address[rank] = flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? all[rank][2] : 0;
  }
}

/* Collective. */
static inline void win_close(win_t *win) {
  CHECK_OK(ucxx_window_close(win->window));
  ucxx_window_destroy(win->window);
  win->window = NULL;
  pages_close(win);
}

/* Displacement of a byte at the target; the byte must begin a unit. */
static inline int64_t win_disp(const win_t *win, uint32_t target, uint64_t offset) {
  CHECK_EQ(offset % win->unit[target], 0);
  return (int64_t)(win->address[target] + offset / win->unit[target]);
}

static inline ucxx_layout_t contiguous(int32_t type, uint64_t count) {
  ucxx_layout_t layout;
  ucxx_layout_init_contiguous(&layout, type, count);
  return layout;
}

/* One 8-byte number, by put and get. */
static inline ucxx_status_t win_put64(const win_t *win, uint32_t target, uint64_t offset,
                                      const uint64_t *value) {
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  return ucxx_window_put(win->window, value, &one, target, win_disp(win, target, offset), &one);
}

static inline ucxx_status_t win_get64(const win_t *win, uint32_t target, uint64_t offset,
                                      uint64_t *value) {
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  return ucxx_window_get(win->window, value, &one, target, win_disp(win, target, offset), &one);
}

static inline ucxx_status_t win_fetch64(const win_t *win, uint32_t target, uint64_t offset,
                                        int32_t op, const uint64_t *operand, uint64_t *before) {
  return ucxx_window_fetch_and_op(win->window, operand, before, UCXX_TYPE_UINT64, target,
                                  win_disp(win, target, offset), op);
}

/* ------------------------------------------------------------------ outside the library */

/*
 * A barrier: no member continues before all have arrived. Used before a kill, where a collective of
 * the group would not do: some members may have left it while others still need a message from the
 * killed one.
 */
static inline void meet_at(uint64_t *count, uint64_t members) {
  __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  await_mark(count, members);
}

/* Kills the process wherever it is; across hosts not inside UCX's own work: see kill_in_a_call. */
static inline void kill_anywhere(pid_t pid) {
  if (test_hosts() > 1)
    kill_in_a_call(pid);
  else
    CHECK_EQ(kill(pid, SIGKILL), 0);
}

/* A worker creates its sleep descriptors at its first sleep. Call this before counting
 * descriptors. */
static inline void sleep_once(const member_t *member) {
  ucxx_status_t status = ucxx_worker_wait(member->worker, MILLISECOND);
  CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT || status == UCXX_ERR_BUSY);
}

static inline void on_interrupt(int number) { (void)number; }

/* As run_members, with a stream of signals that interrupt every wait; each wait must resume. */
static inline void run_interrupted(uint32_t size, uint64_t seed, void (*body)(member_t *member)) {
  const struct sigaction action = {.sa_handler = on_interrupt};
  struct sigaction before;
  pid_t pids[MOST_MEMBERS];
  CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
  board_t *board = board_open(size, seed);
  members_start(board, pids, body);
  pid_t pest = fork();
  CHECK(pest >= 0);
  while (pest == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t rank = 0; rank < size; rank++) kill(pids[rank], SIGUSR1);
    usleep(200);
  }
  /* Their process ids cannot be reused before they are reaped. */
  for (uint32_t rank = 0; rank < size; rank++) {
    siginfo_t info;
    CHECK_EQ(waitid(P_PID, (id_t)pids[rank], &info, WEXITED | WNOWAIT), 0);
  }
  CHECK_EQ(kill(pest, SIGKILL), 0);
  CHECK_EQ(waitpid(pest, NULL, 0), pest);
  members_end(board, pids, -1);
  board_close(board);
  CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

/* Zeroed memory that the launcher shares with the members it forks later. */
static inline void *shared_open(size_t length) {
  void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}
#endif
