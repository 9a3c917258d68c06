/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * The first and last bytes of windows, and those beyond, on every path: an operation that reaches
 * outside is refused as a whole, any other is done. The test's own memory lies between inaccessible
 * pages.
 */
#include "window.h"

enum { MEMBERS = 3, SIZE = 4800, SMALL_SIZE = 48, NUMBERS = 4 };

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;
static ucxx_status_t outside; /* the status for such a range */

typedef enum action {
  PUT,
  GET,
  RPUT,
  RGET,
  ACCUMULATE,
  RACCUMULATE,
  GET_ACCUMULATE,
  RGET_ACCUMULATE,
  FETCH_AND_OP,
  COMPARE_AND_SWAP,
  ACTIONS
} action_t;

/* The status of the call, its request, or the flush that follows. */
static ucxx_status_t act(action_t action, uint32_t target, int64_t disp, const ucxx_layout_t *there,
                         uint64_t elements, uint64_t *result) {
  static const uint64_t operand[64] = {0};
  ucxx_layout_t here = contiguous(there->element_type, elements);
  ucxx_window_t *w = win.window;
  ucxx_request_t *request = NULL;
  ucxx_status_t status;
  memset(result, WIN_CANARY, 64 * sizeof *result);
  switch (action) {
  case PUT: status = ucxx_window_put(w, operand, &here, target, disp, there); break;
  case GET: status = ucxx_window_get(w, result, &here, target, disp, there); break;
  case RPUT:
    status = ucxx_window_rput(w, operand, &here, target, disp, there, NULL, &request);
    break;
  case RGET:
    status = ucxx_window_rget(w, result, &here, target, disp, there, NULL, &request);
    break;
  case ACCUMULATE:
    status = ucxx_window_accumulate(w, operand, &here, target, disp, there, UCXX_REDUCE_REPLACE);
    break;
  case RACCUMULATE:
    status = ucxx_window_raccumulate(w, operand, &here, target, disp, there, UCXX_REDUCE_REPLACE,
                                     NULL, &request);
    break;
  case GET_ACCUMULATE:
    status = ucxx_window_get_accumulate(w, operand, &here, result, &here, target, disp, there,
                                        UCXX_REDUCE_REPLACE);
    break;
  case RGET_ACCUMULATE:
    status = ucxx_window_rget_accumulate(w, operand, &here, result, &here, target, disp, there,
                                         UCXX_REDUCE_REPLACE, NULL, &request);
    break;
  case FETCH_AND_OP:
    status = ucxx_window_fetch_and_op(w, operand, result, there->element_type, target, disp,
                                      UCXX_REDUCE_REPLACE);
    break;
  default:
    status = ucxx_window_compare_and_swap(w, operand, operand, result, there->element_type, target,
                                          disp);
  }
  if (action == RPUT || action == RGET || action == RACCUMULATE || action == RGET_ACCUMULATE)
    status = finish(status, &request);
  ucxx_status_t later = ucxx_window_flush(w, target);
  /* An error is reported once. */
  CHECK_OK(ucxx_window_flush(w, target));
  return status != UCXX_OK ? status : later;
}

static void check_act(uint32_t target, int64_t disp, const ucxx_layout_t *there, uint64_t elements,
                      ucxx_status_t expected) {
  uint64_t result[64];
  for (action_t action = 0; action < ACTIONS; action++) {
    if (action >= FETCH_AND_OP && (elements != 1 || there->element_type != UCXX_TYPE_UINT64))
      continue;
    ucxx_status_t status = act(action, target, disp, there, elements, result);
    if (status != expected)
      FAIL("operation %d at target %u, displacement %lld, %llu elements gave %s, expected %s",
           (int)action, (unsigned)target, (long long)disp, (unsigned long long)elements,
           ucxx_status_name(status), ucxx_status_name(expected));
  }
}

static void at_target(uint32_t target) {
  const int64_t unit = win.unit[target], size = (int64_t)win.size[target],
                base = (int64_t)win.address[target], units = size / unit;
  const uint64_t per_unit = (uint64_t)unit;
  const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1),
                      bytes = contiguous(UCXX_TYPE_BYTE, per_unit),
                      more = contiguous(UCXX_TYPE_BYTE, per_unit + 1);
  ucxx_layout_t there;
  STEP("contiguous");
  check_act(target, base, &bytes, per_unit, UCXX_OK);
  check_act(target, base + units - 1, &bytes, per_unit, UCXX_OK);
  check_act(target, base + units - 1, &more, per_unit + 1, outside);
  check_act(target, base + units, &bytes, per_unit, outside);
  check_act(target, base - 1, &bytes, per_unit, outside);
  check_act(target, base - 1, &more, per_unit + 1, outside);
  if (8 % unit == 0) {
    check_act(target, base, &one, 1, UCXX_OK);
    check_act(target, base + units - 8 / unit, &one, 1, UCXX_OK);
    check_act(target, base + units, &one, 1, outside);
    check_act(target, base - 8 / unit, &one, 1, outside);
  }
  STEP("vectors that go forwards and backwards");
  for (int backwards = 0; backwards < 2; backwards++) {
    /* Covers `first` bytes before the address and `extent` bytes after it. */
    const int64_t stride = 3, extent = 2 + (NUMBERS - 1) * stride,
                  first = backwards ? extent - 2 : 0;
    const int64_t lowest = (first + unit - 1) / unit, highest = (size - extent + first) / unit;
    ucxx_layout_init_vector(&there, UCXX_TYPE_BYTE, NUMBERS, 2, backwards ? -stride : stride);
    check_act(target, base + lowest, &there, 2 * NUMBERS, UCXX_OK);
    check_act(target, base + highest, &there, 2 * NUMBERS, UCXX_OK);
    check_act(target, base + lowest - 1, &there, 2 * NUMBERS, outside);
    check_act(target, base + highest + 1, &there, 2 * NUMBERS, outside);
  }
  STEP("blocks, of which one is outside");
  for (int position = 0; position < 3; position++) {
    ucxx_block_t blocks[3] = {{0, 1}, {8, 2}, {4, 1}};
    ucxx_layout_init_blocks(&there, UCXX_TYPE_BYTE, blocks, 3);
    check_act(target, base, &there, 4, UCXX_OK);
    blocks[position].offset = -1;
    check_act(target, base, &there, 4, outside);
    blocks[position].offset = size - 1;
    blocks[position].length = 2;
    check_act(target, base, &there, position == 1 ? 4 : 5, outside);
    blocks[position].length = 0;
    check_act(target, base, &there, position == 1 ? 2 : 3, UCXX_OK);
  }
  STEP("empty operations, at any place");
  there = contiguous(UCXX_TYPE_UINT64, 0);
  check_act(target, base, &there, 0, UCXX_OK);
  check_act(target, base + units + 100, &there, 0, UCXX_OK);
  check_act(target, base - 100, &there, 0, UCXX_OK);
  ucxx_block_t unused = {INT64_MAX, 1};
  ucxx_layout_init_blocks(&there, UCXX_TYPE_UINT64, &unused, 0);
  check_act(target, base, &there, 0, UCXX_OK);
  ucxx_layout_init_blocks(&there, UCXX_TYPE_UINT64, NULL, 0);
  check_act(target, base, &there, 0, UCXX_OK);
  STEP("numbers that overflow");
  there = contiguous(UCXX_TYPE_BYTE, 1);
  if (flavor != UCXX_WINDOW_FLAVOR_DYNAMIC) {
    check_act(target, INT64_MAX, &there, 1, outside);
    check_act(target, INT64_MIN, &there, 1, outside);
    check_act(target, INT64_MAX / unit, &there, 1, outside);
    check_act(target, INT64_MAX / unit + (unit > 1), &there, 1, outside);
  }
}

/* Layouts that reach beyond the address space are wrong arguments at any place. */
static void absurd_layouts(void) {
  uint64_t number = 0;
  ucxx_layout_t layout;
  ucxx_block_t blocks[2] = {{0, 1}, {INT64_MAX, 1}};
  ucxx_layout_init_vector(&layout, UCXX_TYPE_UINT64, UINT64_C(1) << 40, UINT64_C(1) << 40, 1);
  CHECK_STATUS(ucxx_window_put(win.window, &number, &layout, 0, 0, &layout),
               UCXX_ERR_INVALID_PARAM);
  ucxx_layout_init_vector(&layout, UCXX_TYPE_UINT64, 3, 1, INT64_MIN);
  CHECK_STATUS(ucxx_window_put(win.window, &number, &layout, 0, 0, &layout),
               UCXX_ERR_INVALID_PARAM);
  ucxx_layout_init_contiguous(&layout, UCXX_TYPE_UINT64, UINT64_MAX);
  CHECK_STATUS(ucxx_window_put(win.window, &number, &layout, 0, 0, &layout),
               UCXX_ERR_INVALID_PARAM);
  ucxx_layout_init_blocks(&layout, UCXX_TYPE_UINT64, blocks, 2);
  CHECK_STATUS(ucxx_window_put(win.window, &number, &layout, 0, 0, &layout),
               UCXX_ERR_INVALID_PARAM);
}

/* Accumulates need the alignment that C has for the type. */
static void unaligned(uint32_t target) {
  const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1);
  uint64_t number = 0, result = 0;
  if (win.unit[target] % 8 == 0) return;
  int64_t disp = (int64_t)win.address[target] + 1;
  CHECK_STATUS(
      ucxx_window_accumulate(win.window, &number, &one, target, disp, &one, UCXX_REDUCE_SUM),
      UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_window_get_accumulate(win.window, &number, &one, &result, &one, target, disp,
                                          &one, UCXX_REDUCE_SUM),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_window_fetch_and_op(win.window, &number, &result, UCXX_TYPE_UINT64, target,
                                        disp, UCXX_REDUCE_SUM),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_window_compare_and_swap(win.window, &number, &number, &result, UCXX_TYPE_UINT64,
                                            target, disp),
               UCXX_ERR_INVALID_PARAM);
}

static void edges(member_t *member) {
  static const uint32_t units[] = {1, 8, 3, 16, 4};
  member_open(member, worker_params);
  member_join(member, 0);
  for (uint32_t shift = 0; shift < 3; shift++) {
    /* A multiple of all units, so that a displacement can reach the end. */
    win_open(&win, member, flavor, member->rank == shift ? SMALL_SIZE : SIZE,
             units[(member->rank + shift) % 5], NULL);
    outside = flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? UCXX_ERR_RMA_ATTACH : UCXX_ERR_RMA_RANGE;
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    for (uint32_t target = 0; target < win.ranks; target++) {
      at_target(target);
      unaligned(target);
    }
    absurd_layouts();
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_group_barrier(member->group));
    /* Only zeros were written. */
    for (uint64_t byte = 0; byte < win.size[win.rank]; byte++) CHECK_EQ(win.base[byte], 0);
    win_close(&win);
  }
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  run_members(MEMBERS, 0, edges);
}

int main(int argc, char **argv) {
  test_begin("window_bounds");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
