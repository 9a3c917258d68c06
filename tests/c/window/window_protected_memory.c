/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows of memory that is read-only or inaccessible: an operation there returns an error on every
 * path, writes nothing, and ends no process. Writable parts of the window work as usual.
 */
#include "window.h"

enum {
  MEMBERS = 2,
  ORIGIN = 1,
  TARGET = 0,
  OPEN = 1 << 20,
  CLOSED = 1 << 20,
  LONG = 1 << 19,
  WAYS = 9
};

static const ucxx_worker_params_t *worker_params;
static ucxx_window_t *window;

/* The page where the writable memory ends; everything behind it has `protection`. */
static uint8_t *memory_open(int protection) {
  uint8_t *memory =
      mmap(NULL, OPEN + CLOSED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  memset(memory, 1, OPEN + CLOSED);
  CHECK_EQ(mprotect(memory + OPEN, CLOSED, protection), 0);
  return memory;
}

/* An operation that begins in that page. */
static ucxx_status_t in_one_way(int way, int64_t disp, uint8_t *data) {
  const ucxx_layout_t one = contiguous(UCXX_TYPE_UINT64, 1),
                      some = contiguous(UCXX_TYPE_UINT8, 100000),
                      much = contiguous(UCXX_TYPE_UINT8, LONG);
  ucxx_request_t *request = NULL;
  ucxx_layout_t blocks;
  ucxx_status_t status;
  uint64_t result = 0, value = 7;
  ucxx_layout_init_vector(&blocks, UCXX_TYPE_UINT64, 100, 1, 3);
  switch (way) {
  case 0: status = ucxx_window_put(window, &value, &one, TARGET, disp, &one); break;
  case 1: status = ucxx_window_put(window, data, &some, TARGET, disp, &some); break;
  case 2: status = ucxx_window_put(window, data, &much, TARGET, disp, &much); break;
  case 3: status = ucxx_window_put(window, data, &blocks, TARGET, disp, &blocks); break;
  case 4:
    status = finish(ucxx_window_rput(window, data, &much, TARGET, disp, &much, NULL, &request),
                    &request);
    break;
  case 5:
    status = ucxx_window_accumulate(window, &value, &one, TARGET, disp, &one, UCXX_REDUCE_SUM);
    break;
  case 6:
    status = ucxx_window_accumulate(window, data, &blocks, TARGET, disp, &blocks, UCXX_REDUCE_SUM);
    break;
  case 7:
    status = ucxx_window_fetch_and_op(window, &value, &result, UCXX_TYPE_UINT64, TARGET, disp,
                                      UCXX_REDUCE_SUM);
    break;
  default:
    memset(&value, 1, sizeof value);
    status =
        ucxx_window_compare_and_swap(window, data, &value, &result, UCXX_TYPE_UINT64, TARGET, disp);
  }
  ucxx_status_t flushed = ucxx_window_flush(window, TARGET);
  return status != UCXX_OK ? status : flushed;
}

static ucxx_status_t read_from(int64_t disp, size_t length, uint8_t *data) {
  const ucxx_layout_t all = contiguous(UCXX_TYPE_UINT8, length);
  ucxx_status_t status = ucxx_window_get(window, data, &all, TARGET, disp, &all),
                flushed = ucxx_window_flush(window, TARGET);
  return status != UCXX_OK ? status : flushed;
}

static void at_the_target(int64_t base, int may_be_read) {
  uint8_t *data = test_alloc(LONG);
  memset(data, 2, LONG);
  CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_SHARED, TARGET, 0));
  for (int way = 0; way < WAYS; way++) {
    STEP("way %d", way);
    CHECK_STATUS(in_one_way(way, base + OPEN, data), UCXX_ERR_INVALID_ADDR);
    CHECK_OK(in_one_way(way, base, data));
  }
  for (size_t length = 8; length <= LONG; length *= LONG / 8)
    CHECK_STATUS(read_from(base + OPEN, length, data),
                 may_be_read ? UCXX_OK : UCXX_ERR_INVALID_ADDR);
  for (size_t at = 0; may_be_read && at < LONG; at++) CHECK_EQ(data[at], 1);
  CHECK_OK(read_from(base, LONG, data));
  CHECK_EQ(data[LONG - 1], 2);
  CHECK_OK(ucxx_window_unlock(window, TARGET));
  free(data);
}

/* The target waits in the library meanwhile, and could execute short operations itself. */
static void guarded(member_t *member, int dynamic, int protection) {
  uint8_t *memory = memory_open(protection);
  uint64_t base = dynamic ? (uint64_t)(uintptr_t)memory : 0;
  const int by_itself = !dynamic && member->rank == TARGET;
  STEP("%s, may be read: %d", dynamic ? "dynamic" : "create", protection != PROT_NONE);
  if (dynamic) {
    CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &window));
    CHECK_OK(ucxx_window_attach(window, memory, OPEN + CLOSED));
  } else {
    ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
    CHECK_OK(ucxx_window_create(member->group, memory, OPEN + CLOSED, 1, NULL, &window));
    CHECK_OK(ucxx_window_query(window, &attr));
    CHECK(attr.data == memory);
  }
  CHECK_OK(ucxx_group_broadcast(member->group, &base, sizeof base, TARGET));
  /* One member at a time, as all add to the same elements. */
  if (member->rank == ORIGIN) at_the_target((int64_t)base, protection != PROT_NONE);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (by_itself) at_the_target((int64_t)base, protection != PROT_NONE);
  CHECK_EQ(mprotect(memory + OPEN, CLOSED, PROT_READ), 0);
  for (size_t at = OPEN; at < OPEN + CLOSED; at++) CHECK_EQ(memory[at], 1);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  CHECK_EQ(munmap(memory, OPEN + CLOSED), 0);
}

static void all_of_it(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (int dynamic = 0; dynamic <= 1; dynamic++) {
    guarded(member, dynamic, PROT_READ);
    guarded(member, dynamic, PROT_NONE);
  }
  member_close(member);
}

int main(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  worker_params = &params;
  test_begin("window_protected_memory");
  run_members(MEMBERS, test_seed(), all_of_it);
  return 0;
}
