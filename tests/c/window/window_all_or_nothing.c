/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Operations take effect completely or not at all, on every path: accumulates with
 * `accumulate_granularity` that name an element so often that they cover more bytes than the
 * window, and operations of which only the last part is not attached.
 */
#include "window.h"

enum {
  MEMBERS = 2,
  ORIGIN = 1,
  TARGET = 0,
  WORDS = 512,
  TIMES = 20000,
  MEMORY = 1 << 16,
  ATTACHED = 40960,
  CALL = 49152,
  BLOCKS = 2048,
  TAIL = 4096
};

static const ucxx_worker_params_t *worker_params;
static win_t win;

static uint64_t sum_at(uint64_t offset) {
  uint64_t found = 0;
  CHECK_OK(win_fetch64(&win, TARGET, offset, UCXX_REDUCE_NO_OP, NULL, &found));
  CHECK_OK(ucxx_window_flush(win.window, TARGET));
  return found;
}

/* Each element's sum grows by one for each time it is named, and a fetch returns the old value. */
static void named_often(member_t *member, int32_t flavor, uint64_t granularity) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  params.accumulate_granularity = granularity;
  STEP("%s: named often", flavor_name(flavor));
  win_open(&win, member, flavor, WORDS * 8, 1, &params);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == ORIGIN) {
    const uint64_t one = 1;
    const ucxx_layout_t results = contiguous(UCXX_TYPE_UINT64, TIMES);
    uint64_t *before = test_alloc(TIMES * 8);
    ucxx_layout_t often;
    ucxx_layout_init_vector(&often, UCXX_TYPE_UINT64, TIMES, 1, 0);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    CHECK_OK(ucxx_window_accumulate(win.window, &one, &often, TARGET, win_disp(&win, TARGET, 0),
                                    &often, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_EQ(sum_at(0), TIMES);
    for (int reads = 0; reads <= 1; reads++) {
      int32_t op = reads ? UCXX_REDUCE_NO_OP : UCXX_REDUCE_SUM;
      CHECK_OK(ucxx_window_get_accumulate(win.window, &one, &often, before, &results, TARGET,
                                          win_disp(&win, TARGET, 0), &often, op));
      CHECK_OK(ucxx_window_flush(win.window, TARGET));
      for (uint64_t at = 0; at < TIMES; at++) CHECK_EQ(before[at], reads ? 2 * TIMES : TIMES + at);
    }
    CHECK_EQ(sum_at(0), 2 * TIMES);
    CHECK_EQ(sum_at(8), 0);
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    free(before);
  }
  win_close(&win);
}

static void untouched(const uint8_t *bytes, size_t length, uint8_t value, const char *what) {
  for (size_t at = 0; at < length; at++) {
    if (bytes[at] != value) FAIL("%s: byte %zu is %d", what, at, bytes[at]);
  }
}

enum { PUT, GET, ACCUMULATE, FETCH, RPUT, RGET, PUT_BLOCKS, GAP, BEFORE, WAYS };

/* The status of the call, its request, or the flush. Fetched data follows the sent data. */
static ucxx_status_t in_one_way(int way, uint8_t *data, int64_t disp) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_UINT8, CALL),
                      few = contiguous(UCXX_TYPE_UINT8, BLOCKS),
                      two = contiguous(UCXX_TYPE_UINT8, 2);
  ucxx_layout_t blocks;
  ucxx_request_t *request = NULL;
  ucxx_status_t status;
  ucxx_window_t *window = win.window;
  switch (way) {
  case PUT: status = ucxx_window_put(window, data, &all, TARGET, disp, &all); break;
  case GET: status = ucxx_window_get(window, data, &all, TARGET, disp, &all); break;
  case ACCUMULATE:
    status = ucxx_window_accumulate(window, data, &all, TARGET, disp, &all, UCXX_REDUCE_SUM);
    break;
  case FETCH:
    status = ucxx_window_get_accumulate(window, data, &all, data + MEMORY, &all, TARGET, disp, &all,
                                        UCXX_REDUCE_SUM);
    break;
  case RPUT:
    status =
        finish(ucxx_window_rput(window, data, &all, TARGET, disp, &all, NULL, &request), &request);
    break;
  case RGET:
    status =
        finish(ucxx_window_rget(window, data, &all, TARGET, disp, &all, NULL, &request), &request);
    break;
  case PUT_BLOCKS: /* the last ones are beyond the end */
    ucxx_layout_init_vector(&blocks, UCXX_TYPE_UINT8, BLOCKS, 1, 30);
    status = ucxx_window_put(window, data, &few, TARGET, disp, &blocks);
    break;
  case GAP: /* the gap between them is not attached */
    ucxx_layout_init_vector(&blocks, UCXX_TYPE_UINT8, 2, 1, MEMORY);
    status = ucxx_window_put(window, data, &two, TARGET, disp, &blocks);
    break;
  default: /* the second one is before the start */
    ucxx_layout_init_vector(&blocks, UCXX_TYPE_UINT8, 2, 1, -MEMORY);
    status = ucxx_window_put(window, data, &two, TARGET, disp, &blocks);
  }
  ucxx_status_t flushed = ucxx_window_flush(window, TARGET);
  return status != UCXX_OK ? status : flushed;
}

static void not_attached(member_t *member) {
  uint8_t *memory = test_alloc(MEMORY + TAIL), *data = test_alloc(2 * MEMORY);
  uint64_t here = (uint64_t)(uintptr_t)memory, there[MEMBERS];
  memset(&win, 0, sizeof win);
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &win.window));
  CHECK_OK(ucxx_window_attach(win.window, memory, ATTACHED));
  CHECK_OK(ucxx_window_attach(win.window, memory + MEMORY, TAIL));
  CHECK_OK(ucxx_group_allgather(member->group, &here, sizeof here, there));
  for (int way = 0; way < WAYS; way++) {
    STEP("not attached: way %d", way);
    memset(memory, 1, MEMORY + TAIL);
    memset(data, 2, 2 * MEMORY);
    CHECK_OK(ucxx_group_barrier(member->group));
    if (member->rank == ORIGIN) {
      CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
      CHECK_STATUS(in_one_way(way, data, (int64_t)there[TARGET]), UCXX_ERR_RMA_ATTACH);
      untouched(data, 2 * MEMORY, 2, "at the origin");
      CHECK_OK(ucxx_window_unlock(win.window, TARGET));
    }
    CHECK_OK(ucxx_group_barrier(member->group));
    untouched(memory, MEMORY + TAIL, 1, "at the target");
  }
  /* Succeeds completely, as one region follows the other. */
  CHECK_OK(ucxx_window_attach(win.window, memory + ATTACHED, MEMORY - ATTACHED));
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == ORIGIN) {
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    for (int way = 0; way < BEFORE; way++) CHECK_OK(in_one_way(way, data, (int64_t)there[TARGET]));
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_close(win.window));
  ucxx_window_destroy(win.window);
  free(memory);
  free(data);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (int32_t flavor = 0; flavor < 4; flavor++) {
    if (flavor == UCXX_WINDOW_FLAVOR_SHARED && test_hosts() > 1) continue;
    named_often(member, flavor, UINT64_MAX);
    named_often(member, flavor, 16);
  }
  not_attached(member);
  member_close(member);
}

int main(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  worker_params = &params;
  test_begin("window_all_or_nothing");
  run_members(MEMBERS, test_seed(), all_of_it);
  return 0;
}
