/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Accumulates of many blocks at the caller's memory: one system call handles many blocks, and the
 * result is the same as block by block, even if blocks are in any order, overlap or repeat.
 */
#include "window.h"
#include "window_model.h"

#include <sys/uio.h>

enum { MEMBERS = 2, ORIGIN = 1, TARGET = 0, WORDS = 1 << 14, BLOCKS = 1 << 12, ROUNDS = 40 };

static const ucxx_worker_params_t *worker_params;
static win_t win;

/* Counts this process's calls. These functions replace the C library's. */
static uint64_t calls;

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long count,
                         const struct iovec *there, unsigned long count_there,
                         unsigned long flags) {
  __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  return syscall(SYS_process_vm_readv, pid, here, count, there, count_there, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long count,
                          const struct iovec *there, unsigned long count_there,
                          unsigned long flags) {
  __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  return syscall(SYS_process_vm_writev, pid, here, count, there, count_there, flags);
}

static uint64_t operands[WORDS], results[WORDS], expected[WORDS], before[WORDS];

/* Adds to those blocks, in the model too; every other round fetches the old values. */
static void add(const ucxx_block_t *blocks, size_t count, int fetches) {
  ucxx_layout_t here, there;
  uint64_t elements = 0;
  for (size_t block = 0; block < count; block++) {
    for (uint64_t at = 0; at < blocks[block].length; at++, elements++) {
      uint64_t *place = &expected[(uint64_t)blocks[block].offset + at];
      before[elements] = *place;
      *place += operands[elements];
    }
  }
  here = contiguous(UCXX_TYPE_UINT64, elements);
  ucxx_layout_init_blocks(&there, UCXX_TYPE_UINT64, blocks, count);
  if (fetches) {
    CHECK_OK(ucxx_window_get_accumulate(win.window, operands, &here, results, &here, TARGET,
                                        win_disp(&win, TARGET, 0), &there, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
    CHECK_EQ(memcmp(results, before, elements * 8), 0);
  } else {
    CHECK_OK(ucxx_window_accumulate(win.window, operands, &here, TARGET, win_disp(&win, TARGET, 0),
                                    &there, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_flush(win.window, TARGET));
  }
}

static void check_sums(void) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_UINT64, WORDS);
  CHECK_OK(ucxx_window_get(win.window, results, &all, TARGET, win_disp(&win, TARGET, 0), &all));
  CHECK_OK(ucxx_window_flush(win.window, TARGET));
  CHECK_EQ(memcmp(results, expected, sizeof results), 0);
}

/* Every third element, upwards, downwards, and one element again and again. */
static void regular(void) {
  static ucxx_block_t blocks[BLOCKS];
  for (int way = 0; way < 3; way++) {
    STEP("regular: way %d", way);
    for (int64_t at = 0; at < BLOCKS; at++)
      blocks[at] = (ucxx_block_t){.offset = way == 0   ? 3 * at
                                            : way == 1 ? 3 * (BLOCKS - at)
                                                       : 5,
                                  .length = 1};
    add(blocks, BLOCKS, 0);
    add(blocks, BLOCKS, 1);
  }
  check_sums();
}

/* Few places, so that blocks overlap in every way; some blocks are long. */
static void at_random(dice_t *dice) {
  ucxx_block_t blocks[64];
  STEP("at random");
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t range = round % 3 == 0 ? 40 : 1000, most = round % 8 == 0 ? 9000 : 8;
    uint64_t elements = 0;
    size_t count = 0;
    for (; count < 64; count++) {
      uint64_t length = roll(dice, most);
      if (elements + length > WORDS) break;
      elements += length;
      blocks[count] = (ucxx_block_t){.offset = (int64_t)roll(dice, range), .length = length};
    }
    add(blocks, count, round % 2);
  }
  check_sums();
}

static void blocks_of_all_kinds(member_t *member, int32_t flavor) {
  STEP("%s", flavor_name(flavor));
  win_open(&win, member, flavor, WORDS * 8, 1, NULL);
  memset(expected, 0, sizeof expected);
  CHECK_OK(ucxx_group_barrier(member->group));
  const uint64_t begun = calls;
  if (member->rank == ORIGIN) {
    dice_t dice = {test_mix(member->board->seed)};
    for (uint64_t at = 0; at < WORDS; at++) operands[at] = test_mix(at);
    CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, TARGET, 0));
    regular();
    at_random(&dice);
    CHECK_OK(ucxx_window_unlock(win.window, TARGET));
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  /* Six times as many blocks were accessed. */
  if (calls - begun > BLOCKS)
    FAIL("%s: rank %u made %llu system calls", flavor_name(flavor), (unsigned)member->rank,
         (unsigned long long)(calls - begun));
  win_close(&win);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  blocks_of_all_kinds(member, UCXX_WINDOW_FLAVOR_CREATE);
  blocks_of_all_kinds(member, UCXX_WINDOW_FLAVOR_DYNAMIC);
  member_close(member);
}

int main(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  worker_params = &params;
  test_begin("window_gather");
  run_members(MEMBERS, test_seed(), all_of_it);
  return 0;
}
