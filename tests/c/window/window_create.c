/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Creating windows: every flavour with sizes and units that differ by rank, their attributes,
 * shared memory in one piece or not, and hints that change. After a refused creation the group is
 * unchanged.
 */
#include "window.h"

#include <sys/resource.h>

enum { MEMBERS = 4 };

static const ucxx_worker_params_t *worker_params;
static win_t win;

static void meet(const member_t *member) { CHECK_OK(ucxx_group_barrier(member->group)); }

/* Every member writes its rank to the last word of every member, and finds the highest rank that
 * others wrote. */
static void check_reach(member_t *member) {
  CHECK_OK(ucxx_window_fence(win.window, 0));
  for (uint32_t target = 0; target < win.ranks; target++) {
    uint64_t number = 100 + win.rank;
    ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
    if (win.size[target] >= 16 && win.unit[target] <= 16) {
      uint64_t offset = win.size[target] - 16;
      CHECK_OK(ucxx_window_accumulate(win.window, &number, &one, target,
                                      win_disp(&win, target, offset - offset % win.unit[target]),
                                      &one, UCXX_REDUCE_MAX));
    }
  }
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOSUCCEED));
  if (win.size[win.rank] >= 16 && win.unit[win.rank] <= 16) {
    uint64_t offset = win.size[win.rank] - 16, found;
    memcpy(&found, win.base + offset - offset % win.unit[win.rank], sizeof found);
    CHECK_EQ(found, 100 + win.ranks - 1);
  }
  meet(member);
}

static void check_query(const member_t *member, int32_t flavor, size_t size, uint32_t unit) {
  ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
  CHECK_OK(ucxx_window_query(win.window, &attr));
  CHECK_EQ(attr.struct_size, sizeof attr);
  CHECK_EQ(attr.flavor, flavor);
  CHECK_EQ(attr.sync_type, UCXX_SYNC_NONE);
  CHECK_EQ(attr.disp_unit, flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? 1 : unit);
  CHECK_EQ(attr.size, flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? 0 : size);
  CHECK(size == 0 || attr.data == (flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? NULL : win.base));
  CHECK(ucxx_window_group(win.window) != NULL);
  CHECK_EQ(ucxx_group_size(ucxx_window_group(win.window)), member->size);
  for (uint32_t rank = 0; rank < member->size; rank++) {
    size_t there = 77;
    uint32_t its_unit = 0;
    void *base = &there;
    int32_t path = ucxx_window_path(win.window, rank);
    CHECK(rank == member->rank ? path == UCXX_WINDOW_PATH_SELF
                               : path > UCXX_WINDOW_PATH_SELF && path <= UCXX_WINDOW_PATH_RMA);
    if (flavor == UCXX_WINDOW_FLAVOR_SHARED || flavor == UCXX_WINDOW_FLAVOR_ALLOCATE)
      CHECK(path <= UCXX_WINDOW_PATH_LOCAL);
    CHECK_OK(ucxx_window_shared_query(win.window, rank, &there, &its_unit, &base));
    CHECK_EQ(there, flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? 0 : win.size[rank]);
    CHECK_EQ(its_unit, win.unit[rank]);
    CHECK(there == 0 ? base == NULL : flavor != UCXX_WINDOW_FLAVOR_SHARED || base != NULL);
    CHECK(there == 0 || rank != member->rank || base == win.base);
    CHECK_OK(ucxx_window_shared_query(win.window, rank, NULL, NULL, NULL));
    CHECK_EQ(ucxx_window_sync_type(win.window, rank), UCXX_SYNC_NONE);
  }
}

static void flavours(member_t *member) {
  static const size_t sizes[][MEMBERS] = {
      {64, 64, 64, 64}, {16, 0, 4096, 48}, {0, 0, 0, 0}, {1 << 20, 16, 0, 8192}, {0, 0, 0, 16}};
  static const uint32_t units[][MEMBERS] = {
      {1, 1, 1, 1}, {8, 3, 16, 1}, {1, 2, 3, 4}, {4, 12, 8, 1000}, {1, 1, 1, 5}};
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    for (int row = 0; row < 5; row++) {
      size_t size = sizes[row][member->rank];
      uint32_t unit = units[row][member->rank];
      ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
      params.same_size = params.same_disp_unit = row == 0;
      STEP("%s, row %d", flavor_name(flavor), row);
      win_open(&win, member, flavor, size, unit, &params);
      check_query(member, flavor, size, unit);
      check_reach(member);
      win_close(&win);
    }
  }
}

/* Allocated memory is zeroed, and each window has its own. */
static void fresh_memory(member_t *member) {
  ucxx_window_t *windows[3];
  uint8_t *bases[3];
  STEP("memory of several windows");
  for (int i = 0; i < 3; i++) {
    void *base = NULL;
    CHECK_OK((i == 1 ? ucxx_window_allocate_shared
                     : ucxx_window_allocate)(member->group, 10000, 1, NULL, &base, &windows[i]));
    bases[i] = base;
    for (int byte = 0; byte < 10000; byte++) CHECK_EQ(bases[i][byte], 0);
    memset(bases[i], i + 1, 10000);
  }
  meet(member);
  for (int i = 0; i < 3; i++) {
    uint8_t byte = 0;
    ucxx_layout_t one = contiguous(UCXX_TYPE_BYTE, 1);
    CHECK_OK(ucxx_window_lock(windows[i], UCXX_LOCK_SHARED, (member->rank + 1) % member->size, 0));
    CHECK_OK(
        ucxx_window_get(windows[i], &byte, &one, (member->rank + 1) % member->size, 9999, &one));
    CHECK_OK(ucxx_window_unlock(windows[i], (member->rank + 1) % member->size));
    CHECK_EQ(byte, i + 1);
    CHECK_EQ(bases[i][0], i + 1);
  }
  for (int i = 3; i-- > 0;) {
    CHECK_OK(ucxx_window_close(windows[i]));
    ucxx_window_destroy(windows[i]);
  }
}

/* All members load and store in the memory of all. */
static void shared_memory(member_t *member, int noncontiguous) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  uint8_t *bases[MEMBERS], *expected = NULL;
  STEP("shared, %s", noncontiguous ? "apart" : "in one piece");
  params.shared_noncontiguous = (uint8_t)noncontiguous;
  win_open(&win, member, UCXX_WINDOW_FLAVOR_SHARED,
           member->rank == 2 ? 0 : 1000 * WIN_ALIGNMENT * (member->rank + 1), 8, &params);
  for (uint32_t rank = 0; rank < member->size; rank++) {
    size_t size = 0;
    void *base = NULL;
    CHECK_OK(ucxx_window_shared_query(win.window, rank, &size, NULL, &base));
    CHECK_EQ(size, win.size[rank]);
    bases[rank] = base;
    if (!noncontiguous && size > 0) {
      CHECK(expected == NULL || bases[rank] == expected);
      expected = bases[rank] + size;
    }
    if (noncontiguous && size > 0) CHECK_EQ((uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
  }
  meet(member);
  for (uint32_t rank = 0; rank < member->size; rank++) {
    if (win.size[rank] > 0)
      bases[rank][win.size[rank] - 1 - member->rank] = (uint8_t)(10 + member->rank);
  }
  CHECK_OK(ucxx_window_sync(win.window));
  meet(member);
  for (uint32_t rank = 0; rank < member->size; rank++) {
    for (uint32_t by = 0; by < member->size && win.size[rank] > 0; by++)
      CHECK_EQ(bases[rank][win.size[rank] - 1 - by], 10 + by);
  }
  meet(member);
  win_close(&win);
}

static int sees_memory(void) {
  const char *transports = getenv("UCX_TLS");
  return transports == NULL || strncmp(transports, "tcp", 3) != 0;
}

/* On memory that the library has registered. */
static void with_library_memory(member_t *member) {
  enum { LENGTH = 8192, BEGIN = 4096, SIZE = 1024 };
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  ucxx_window_t *window = NULL;
  uint64_t number = member->rank + 5, found = 0;
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  const uint32_t next = (member->rank + 1) % member->size;
  STEP("on library memory");
  CHECK_OK(ucxx_memory_allocate(member->context, LENGTH, UCXX_MEMORY_AUTO, &params.memory));
  uint8_t *base = (uint8_t *)ucxx_memory_base(params.memory) + BEGIN;
  CHECK_STATUS(ucxx_window_create(member->group, base + LENGTH, SIZE, 8, &params, &window),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("memory");
  CHECK(window == NULL);
  CHECK_OK(ucxx_window_create(member->group, base, SIZE, 8, &params, &window));
  /* If UCX can map another process's memory, the window does as well. */
  for (uint32_t rank = 0; rank < member->size; rank++) {
    void *there = NULL;
    CHECK_OK(ucxx_window_shared_query(window, rank, NULL, NULL, &there));
    CHECK(rank != member->rank || there == base);
    CHECK((there != NULL) == (rank == member->rank || sees_memory()));
    CHECK_EQ(ucxx_window_path(window, rank),
             rank == member->rank ? UCXX_WINDOW_PATH_SELF : UCXX_WINDOW_PATH_LOCAL);
  }
  CHECK_OK(ucxx_window_fence(window, 0));
  CHECK_OK(ucxx_window_put(window, &number, &one, next, SIZE / 8 - 1, &one));
  CHECK_OK(ucxx_window_fence(window, UCXX_ASSERT_NOSUCCEED));
  memcpy(&found, base + SIZE - 8, sizeof found);
  CHECK_EQ(found, (member->rank + member->size - 1) % member->size + 5);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  STEP("on library memory, at some members");
  if (member->rank % 2 == 1) {
    ucxx_memory_destroy(params.memory);
    params.memory = NULL;
    base = test_alloc(SIZE);
  }
  memset(base, 0, SIZE);
  CHECK_OK(ucxx_window_create(member->group, base, SIZE, 8, &params, &window));
  number = 1;
  CHECK_OK(ucxx_window_lock_all(window, 0));
  for (int round = 0; round < 200; round++)
    CHECK_OK(ucxx_window_accumulate(window, &number, &one, (uint32_t)round % member->size, 0, &one,
                                    UCXX_REDUCE_SUM));
  CHECK_OK(ucxx_window_unlock_all(window));
  meet(member);
  memcpy(&found, base, sizeof found);
  CHECK_EQ(found, 200);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  if (params.memory == NULL) free(base);
  ucxx_memory_destroy(params.memory);
}

static void hints(member_t *member) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  STEP("hints");
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, member->rank == 1 ? 32 : 64,
           member->rank == 1 ? 4 : 8, NULL);
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  params.accumulate_ordering = UCXX_ORDER_NONE;
  params.accumulate_granularity = 16;
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  check_reach(member);
  STEP("hints that are wrong, or not the same everywhere");
  params.same_size = 1;
  CHECK_STATUS(ucxx_window_set_hints(win.window, &params), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("same_size");
  params.same_size = 0;
  params.same_disp_unit = 1;
  CHECK_STATUS(ucxx_window_set_hints(win.window, &params), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("same_disp_unit");
  params.same_disp_unit = 0;
  params.accumulate_granularity = member->rank == 3 ? 8 : 16;
  CHECK_STATUS(ucxx_window_set_hints(win.window, &params), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("hints");
  params.accumulate_granularity = 0;
  params.accumulate_ordering = 17;
  CHECK_STATUS(ucxx_window_set_hints(win.window, &params), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("accumulate_ordering");
  params.accumulate_ordering = UCXX_ORDER_ALL;
  STEP("hints inside epochs");
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  CHECK_STATUS(ucxx_window_set_hints(win.window, &params), UCXX_ERR_RMA_SYNC);
  CHECK_OK(ucxx_window_unlock_all(win.window));
  meet(member);
  CHECK_OK(ucxx_window_set_hints(win.window, &params));
  check_reach(member);
  win_close(&win);
}

/* ------------------------------------------------------------------ refused creations */

static ucxx_window_t *none;
static void *no_base;

#define REFUSED(expression, status, word)   \
  do {                                      \
    CHECK_STATUS(expression, status);       \
    CHECK_MESSAGE(word);                    \
    CHECK(none == NULL && no_base == NULL); \
  } while (0)

static void bad_arguments(member_t *member) {
  uint64_t memory[8] = {0};
  ucxx_group_t *group = member->group;
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT, defaults = UCXX_WINDOW_PARAMS_INIT;
  STEP("bad arguments");
  REFUSED(ucxx_window_create(NULL, memory, 64, 1, NULL, &none), UCXX_ERR_INVALID_PARAM, "group");
  REFUSED(ucxx_window_create(group, memory, 64, 1, NULL, NULL), UCXX_ERR_INVALID_PARAM, "window");
  REFUSED(ucxx_window_create(group, NULL, 64, 1, NULL, &none), UCXX_ERR_INVALID_PARAM, "base");
  REFUSED(ucxx_window_create(group, memory, 64, 0, NULL, &none), UCXX_ERR_INVALID_PARAM,
          "disp_unit");
  REFUSED(ucxx_window_create(group, memory, SIZE_MAX, 1, NULL, &none), UCXX_ERR_INVALID_PARAM,
          "size");
  REFUSED(ucxx_window_allocate(NULL, 64, 1, NULL, &no_base, &none), UCXX_ERR_INVALID_PARAM,
          "group");
  REFUSED(ucxx_window_allocate(group, 64, 0, NULL, &no_base, &none), UCXX_ERR_INVALID_PARAM,
          "disp_unit");
  REFUSED(ucxx_window_allocate(group, 64, 1, NULL, NULL, &none), UCXX_ERR_INVALID_PARAM, "base");
  REFUSED(ucxx_window_allocate(group, 64, 1, NULL, &no_base, NULL), UCXX_ERR_INVALID_PARAM,
          "window");
  REFUSED(ucxx_window_allocate_shared(NULL, 64, 1, NULL, &no_base, &none), UCXX_ERR_INVALID_PARAM,
          "group");
  REFUSED(ucxx_window_allocate_shared(group, 64, 0, NULL, &no_base, &none), UCXX_ERR_INVALID_PARAM,
          "disp_unit");
  REFUSED(ucxx_window_allocate_shared(group, 64, 1, NULL, NULL, &none), UCXX_ERR_INVALID_PARAM,
          "base");
  REFUSED(ucxx_window_create_dynamic(NULL, NULL, &none), UCXX_ERR_INVALID_PARAM, "group");
  REFUSED(ucxx_window_create_dynamic(group, NULL, NULL), UCXX_ERR_INVALID_PARAM, "window");
  params.struct_size = 5;
  REFUSED(ucxx_window_create_dynamic(group, &params, &none), UCXX_ERR_INVALID_PARAM, "struct_size");
  params = defaults;
  params.no_locks = 2;
  REFUSED(ucxx_window_create_dynamic(group, &params, &none), UCXX_ERR_INVALID_PARAM, "no_locks");
  params = defaults;
  params.accumulate_ordering = -1;
  REFUSED(ucxx_window_create(group, memory, 64, 1, &params, &none), UCXX_ERR_INVALID_PARAM,
          "accumulate_ordering");
  meet(member);
  STEP("parameters that contradict each other");
  params = defaults;
  params.same_size = 1;
  REFUSED(ucxx_window_allocate(group, member->rank == 1 ? 64 : 128, 1, &params, &no_base, &none),
          UCXX_ERR_INVALID_PARAM, "same_size");
  params = defaults;
  params.same_disp_unit = 1;
  REFUSED(ucxx_window_create(group, memory, 64, member->rank + 1, &params, &none),
          UCXX_ERR_INVALID_PARAM, "same_disp_unit");
  params = defaults;
  params.no_locks = member->rank == 2;
  REFUSED(ucxx_window_allocate_shared(group, 64, 1, &params, &no_base, &none),
          UCXX_ERR_INVALID_PARAM, "rank");
  params = defaults;
  params.accumulate_granularity = member->rank;
  REFUSED(ucxx_window_create_dynamic(group, &params, &none), UCXX_ERR_INVALID_PARAM, "rank");
  if (member->rank == 0)
    REFUSED(ucxx_window_create_dynamic(group, NULL, &none), UCXX_ERR_INVALID_PARAM, "rank");
  else
    REFUSED(ucxx_window_create(group, memory, 64, 1, NULL, &none), UCXX_ERR_INVALID_PARAM, "rank");
  STEP("too much memory at one member");
  ucxx_status_t status = ucxx_window_allocate(group, member->rank == 3 ? (size_t)1 << 46 : 64, 1,
                                              NULL, &no_base, &none);
  CHECK(status == UCXX_ERR_NO_MEMORY || status == UCXX_ERR_NO_RESOURCE);
  CHECK(none == NULL && no_base == NULL);
  STEP("the group is unchanged");
  meet(member);
  win_open(&win, member, UCXX_WINDOW_FLAVOR_ALLOCATE, 64, 8, NULL);
  check_reach(member);
  win_close(&win);
}

/* Not under valgrind, which has limits of its own. */
static int limits_hold(void) {
  struct rlimit usual, none;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  none = usual;
  none.rlim_cur = (rlim_t)(footprint_now().descriptors - 3);
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  int one = dup(STDERR_FILENO);
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  if (one >= 0) close(one);
  return one < 0;
}

/* One member has no descriptors, or too few: the creation fails at all members with its error, and
 * leaks nothing. */
static void out_of_descriptors(member_t *member) {
  uint64_t memory[8];
  int refused = 0;
  sleep_once(member);
  const footprint_t before = footprint_now();
  for (int round = 0; round < 5 * 4; round++) {
    struct rlimit usual, low;
    ucxx_window_t *window = NULL;
    void *base = NULL;
    int32_t statuses[MEMBERS], status;
    STEP("descriptors: round %d", round);
    meet(member);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
    low = usual;
    /* footprint_now has counted its own descriptor and two names that are none. */
    low.rlim_cur = (rlim_t)(footprint_now().descriptors - 3 + round / 4);
    if (member->rank == 1) CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    switch (round % 4) {
    case 0:
      status = ucxx_window_create(member->group, memory, sizeof memory, 8, NULL, &window);
      break;
    case 1: status = ucxx_window_allocate(member->group, 64, 8, NULL, &base, &window); break;
    case 2: status = ucxx_window_allocate_shared(member->group, 64, 8, NULL, &base, &window); break;
    default: status = ucxx_window_create_dynamic(member->group, NULL, &window);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    CHECK((window != NULL) == (status == UCXX_OK));
    CHECK_OK(ucxx_group_allgather(member->group, &status, sizeof status, statuses));
    for (uint32_t rank = 0; rank < member->size; rank++) CHECK_EQ(statuses[rank], status);
    if (status == UCXX_OK) {
      CHECK_OK(ucxx_window_close(window));
      ucxx_window_destroy(window);
    } else {
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
      refused++;
    }
  }
  CHECK(refused > 0 || !limits_hold());
  CHECK(footprint_now().descriptors <= before.descriptors + 8);
}

/* Windows of subsets of a group, at the same time. */
static void subsets(member_t *member) {
  uint32_t mine[2] = {member->rank % 2 + 2, member->rank % 2};
  ucxx_group_t *half = NULL;
  STEP("windows of subsets");
  CHECK_OK(ucxx_group_subset(member->group, mine, 2, &half));
  member_t as_half = *member;
  as_half.group = half;
  as_half.rank = ucxx_group_rank(half);
  as_half.size = 2;
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    win_open(&win, &as_half, flavor, 64, 8, NULL);
    check_query(&as_half, flavor, 64, 8);
    check_reach(&as_half);
    win_close(&win);
  }
  ucxx_group_destroy(half);
  meet(member);
}

static void all_of_it(member_t *member) {
  member_open_for_rma(member, worker_params);
  member_join(member, 0);
  flavours(member);
  fresh_memory(member);
  shared_memory(member, 0);
  shared_memory(member, 1);
  with_library_memory(member);
  hints(member);
  bad_arguments(member);
  out_of_descriptors(member);
  subsets(member);
  member_close(member);
}

static void alone(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    STEP("alone: %s", flavor_name(flavor));
    win_open(&win, member, flavor, 64, 8, NULL);
    check_query(member, flavor, 64, 8);
    check_reach(member);
    win_close(&win);
  }
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  run_members(MEMBERS, 0, all_of_it);
  run_members(1, 0, alone);
}

int main(void) {
  test_begin("window_create");
  /* UCX's keepalive needs a descriptor to see that a peer lives, so a round of it in
   * out_of_descriptors would take peers for dead. */
  setenv("UCX_KEEPALIVE_INTERVAL", "inf", 1);
  in_every_mode(round_in);
  return 0;
}
