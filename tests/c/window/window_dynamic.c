/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Dynamic windows: memory is attached and detached in any order, also inside epochs; a call may
 * span adjacent regions. Access to memory that is not attached is refused at both ends. Access to
 * memory that was unmapped without being detached returns an error and ends no process.
 */
#include "window.h"
#include "window_model.h"

enum { MEMBERS = 3, REGIONS = 16, REGION = 256, TURNS = 60 };

static const ucxx_worker_params_t *worker_params;
static ucxx_window_t *window;

/* For each member: where its memory is, and which regions are attached. */
static struct known {
  uint64_t address[MEMBERS];
  uint8_t attached[MEMBERS][REGIONS];
} *known;

static void meet(const member_t *member) { CHECK_OK(ucxx_group_barrier(member->group)); }

static ucxx_status_t reach(uint32_t target, int64_t disp, uint64_t length, uint64_t seed,
                           int writes) {
  uint8_t *bytes = test_alloc(length), *back = test_alloc(length);
  ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, length);
  memset(back, 1, length);
  test_fill(bytes, length, seed);
  ucxx_status_t status =
      writes ? ucxx_window_put(window, bytes, &all, target, disp, &all) : UCXX_OK;
  ucxx_status_t flushed = ucxx_window_flush(window, target);
  status = status != UCXX_OK ? status : flushed;
  if (status == UCXX_OK) {
    status = ucxx_window_get(window, back, &all, target, disp, &all);
    flushed = ucxx_window_flush(window, target);
    status = status != UCXX_OK ? status : flushed;
    if (status == UCXX_OK && writes) CHECK_CONTENT(back, length, seed);
  }
  free(bytes);
  free(back);
  return status;
}

static int is_attached(uint32_t target, uint64_t begin, uint64_t end) {
  for (uint64_t region = begin / REGION; region * REGION < end; region++) {
    if (!known->attached[target][region]) return 0;
  }
  return 1;
}

/* Regions of one piece of memory are attached and detached at random, one or several at a time;
 * then all members try ranges of all lengths. */
static void come_and_go(member_t *member) {
  dice_t dice = {test_mix(member->board->seed + member->rank)};
  uint8_t *memory = test_alloc(REGIONS * REGION);
  uint32_t together[REGIONS] = {0}; /* regions attached as one, noted at the first of them */
  memset(memory, 0, REGIONS * REGION);
  known->address[member->rank] = (uint64_t)(uintptr_t)memory;
  memset(known->attached[member->rank], 0, REGIONS);
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &window));
  CHECK_OK(ucxx_window_lock_all(window, 0));
  for (int turn = 0; turn < TURNS; turn++) {
    STEP("attach and detach: turn %d", turn);
    uint8_t *mine = known->attached[member->rank];
    for (int change = 0; change < 3; change++) {
      uint64_t at = roll(&dice, REGIONS),
               count = 1 + roll(&dice, REGIONS - at < 4 ? REGIONS - at : 4), taken = 0;
      for (uint64_t region = at; region < at + count; region++) taken += mine[region];
      if (together[at] > 0) {
        CHECK_STATUS(ucxx_window_attach(window, memory + at * REGION, REGION), UCXX_ERR_RMA_ATTACH);
        CHECK_STATUS(ucxx_window_detach(window, memory + at * REGION + 1), UCXX_ERR_RMA_ATTACH);
        CHECK_OK(ucxx_window_detach(window, memory + at * REGION));
        memset(mine + at, 0, together[at]);
        together[at] = 0;
      } else if (taken > 0) {
        CHECK_STATUS(ucxx_window_attach(window, memory + at * REGION, count * REGION),
                     UCXX_ERR_RMA_ATTACH);
        CHECK_STATUS(ucxx_window_detach(window, memory + at * REGION), UCXX_ERR_RMA_ATTACH);
      } else {
        CHECK_OK(ucxx_window_attach(window, memory + at * REGION, count * REGION));
        memset(mine + at, 1, count);
        together[at] = (uint32_t)count;
      }
    }
    meet(member);
    for (int trial = 0; trial < 12; trial++) {
      uint32_t target = (uint32_t)roll(&dice, member->size);
      uint64_t begin = roll(&dice, REGIONS * REGION),
               length = 1 + roll(&dice, trial % 2 ? 40 : REGIONS * REGION - begin);
      if (begin + length > REGIONS * REGION) length = REGIONS * REGION - begin;
      ucxx_status_t status =
          reach(target, (int64_t)(known->address[target] + begin), length, (uint64_t)turn, 0);
      CHECK_STATUS(status,
                   is_attached(target, begin, begin + length) ? UCXX_OK : UCXX_ERR_RMA_ATTACH);
    }
    /* In turns, because the ranges overlap. */
    for (uint32_t writer = 0; writer < member->size; writer++) {
      for (uint32_t target = 0; writer == member->rank && target < member->size; target++) {
        uint64_t begin = roll(&dice, REGIONS * REGION),
                 length = 1 + roll(&dice, REGIONS * REGION - begin);
        ucxx_status_t status = reach(target, (int64_t)(known->address[target] + begin), length,
                                     (uint64_t)turn * 7 + writer, 1);
        CHECK_STATUS(status,
                     is_attached(target, begin, begin + length) ? UCXX_OK : UCXX_ERR_RMA_ATTACH);
      }
      meet(member);
    }
  }
  CHECK_OK(ucxx_window_unlock_all(window));
  /* Some are still attached. */
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  free(memory);
}

/* A region that is detached, or attached to another window, is not part of this one. */
static void two_windows(member_t *member) {
  uint64_t *numbers = test_alloc(64);
  ucxx_window_t *first = NULL, *second = NULL;
  const uint32_t next = (member->rank + 1) % member->size;
  STEP("two windows");
  memset(numbers, 0, 64);
  known->address[member->rank] = (uint64_t)(uintptr_t)numbers;
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &first));
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &second));
  CHECK_OK(ucxx_window_attach(first, numbers, 32));
  /* may overlap a region of another window */
  CHECK_OK(ucxx_window_attach(second, numbers + 2, 32));
  CHECK_STATUS(ucxx_window_detach(second, numbers), UCXX_ERR_RMA_ATTACH);
  CHECK_STATUS(ucxx_window_attach(first, NULL, 8), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_window_attach(first, numbers, SIZE_MAX), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_window_detach(first, NULL), UCXX_ERR_INVALID_PARAM);
  meet(member);
  CHECK_OK(ucxx_window_lock_all(first, 0));
  CHECK_OK(ucxx_window_lock_all(second, 0));
  window = first;
  CHECK_OK(reach(next, (int64_t)known->address[next], 32, 0, 0));
  CHECK_STATUS(reach(next, (int64_t)known->address[next] + 16, 32, 0, 0), UCXX_ERR_RMA_ATTACH);
  window = second;
  CHECK_OK(reach(next, (int64_t)known->address[next] + 16, 32, 0, 0));
  CHECK_STATUS(reach(next, (int64_t)known->address[next], 32, 0, 0), UCXX_ERR_RMA_ATTACH);
  CHECK_STATUS(reach(next, 0, 8, 0, 0), UCXX_ERR_RMA_ATTACH);
  CHECK_STATUS(reach(next, -8, 8, 0, 0), UCXX_ERR_RMA_ATTACH);
  CHECK_OK(ucxx_window_unlock_all(first));
  CHECK_OK(ucxx_window_unlock_all(second));
  CHECK_OK(ucxx_window_close(second));
  CHECK_STATUS(ucxx_window_attach(second, numbers, 8), UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_window_close(first));
  ucxx_window_destroy(first);
  ucxx_window_destroy(second);
  free(numbers);
}

/* Memory beyond the end of a file is attached: it does not exist, and nothing else can be mapped
 * there. */
static void gone(member_t *member) {
  const size_t half = 1 << 16;
  const uint32_t target = (member->rank + 1) % member->size;
  uint64_t number = 5, found = 5;
  uint64_t numbers[2048] = {0};
  ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1), many = contiguous(UCXX_TYPE_UINT64, 2048);
  STEP("gone");
  int file = memfd_create("gone", MFD_CLOEXEC);
  CHECK(file >= 0);
  CHECK_EQ(ftruncate(file, (off_t)half), 0);
  uint8_t *memory = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(memory != MAP_FAILED);
  CHECK_EQ(close(file), 0);
  known->address[member->rank] = (uint64_t)(uintptr_t)memory;
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &window));
  CHECK_OK(ucxx_window_attach(window, memory, 2 * half));
  meet(member);
  const int64_t there = (int64_t)known->address[target], edge = there + (int64_t)half;
  CHECK_OK(ucxx_window_lock_all(window, 0));
  for (int way = 0; way < 7; way++) {
    ucxx_status_t status;
    switch (way) {
    case 0: status = ucxx_window_put(window, &number, &one, target, edge, &one); break;
    case 1: status = ucxx_window_get(window, &found, &one, target, edge, &one); break;
    case 2:
      status = ucxx_window_accumulate(window, &number, &one, target, edge, &one, UCXX_REDUCE_SUM);
      break;
    case 3:
      status = ucxx_window_fetch_and_op(window, &number, &found, UCXX_TYPE_UINT64, target, edge,
                                        UCXX_REDUCE_SUM);
      break;
    case 4:
      status = ucxx_window_compare_and_swap(window, &number, &number, &found, UCXX_TYPE_UINT64,
                                            target, edge);
      break;
    case 5: /* across the edge */
      status = ucxx_window_put(window, numbers, &many, target, edge - 4096, &many);
      break;
    default:
      status = ucxx_window_accumulate(window, numbers, &many, target, edge - 4096, &many,
                                      UCXX_REDUCE_SUM);
    }
    ucxx_status_t flushed = ucxx_window_flush(window, target);
    CHECK_STATUS(status != UCXX_OK ? status : flushed, UCXX_ERR_INVALID_ADDR);
    CHECK_OK(ucxx_window_flush(window, target));
    CHECK_EQ(found, 5);
  }
  CHECK_OK(ucxx_window_put(window, &number, &one, target, there, &one));
  CHECK_OK(ucxx_window_accumulate(window, &number, &one, target, there, &one, UCXX_REDUCE_SUM));
  CHECK_OK(ucxx_window_flush(window, target));
  CHECK_OK(ucxx_window_get(window, &found, &one, target, there, &one));
  CHECK_OK(ucxx_window_unlock_all(window));
  CHECK_EQ(found, 10);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  CHECK_EQ(munmap(memory, 2 * half), 0);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  come_and_go(member);
  two_windows(member);
  gone(member);
  meet(member);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  known = shared_open(sizeof *known);
  run_members(MEMBERS, test_seed(), all_of_it);
  munmap(known, sizeof *known);
}

int main(void) {
  test_begin("window_dynamic");
  in_every_mode(round_in);
  return 0;
}
