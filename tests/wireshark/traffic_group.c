/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * traffic_group.c: the members of a group, with collectives and a window. Each member prints a line
 * of JSON for each operation whose messages test_dissector.py counts.
 *
 *     ucxx_rs_group 2 ./traffic_group
 *
 * With different values of UCXX_RS_HOST_ID the members count as on different hosts, so that they
 * access the window by messages.
 */
#define _XOPEN_SOURCE 700
#include "member.h"

#define ELEMENTS 16
#define BARRIERS 3

static void sent(const char *kind) { printf("{\"kind\": \"%s\"}\n", kind); }

int main(void) {
  struct member member;
  /* Rank 1 is on another host than rank 0. */
  const char *rank = getenv("RANK");
  if (rank != NULL) setenv("UCXX_RS_HOST_ID", rank, 1);
  join(&member);
  for (int at = 0; at < BARRIERS; at++) check(ucxx_group_barrier(member.group), "barrier");
  uint64_t mine = member.rank, all[2] = {0};
  check(ucxx_group_allgather(member.group, &mine, sizeof mine, all), "allgather");
  check(ucxx_group_broadcast(member.group, &mine, sizeof mine, 0), "broadcast");

  uint64_t *base = NULL, values[ELEMENTS] = {1}, old = 0, one = 1, zero = 0;
  ucxx_window_t *window = NULL;
  check(ucxx_window_allocate(member.group, sizeof values, sizeof *values, NULL, (void **)&base,
                             &window),
        "window");
  if (member.rank == 0) {
    ucxx_layout_t layout, single;
    ucxx_layout_init_contiguous(&layout, UCXX_TYPE_UINT64, ELEMENTS);
    ucxx_layout_init_contiguous(&single, UCXX_TYPE_UINT64, 1);
    check(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 1, 0), "lock");
    sent("lock");
    check(ucxx_window_put(window, values, &layout, 1, 0, &layout), "put");
    sent("put");
    check(ucxx_window_get(window, values, &layout, 1, 0, &layout), "get");
    sent("get");
    check(ucxx_window_accumulate(window, &one, &single, 1, 1, &single, UCXX_REDUCE_SUM),
          "accumulate");
    sent("accumulate");
    check(ucxx_window_fetch_and_op(window, &one, &old, UCXX_TYPE_UINT64, 1, 2, UCXX_REDUCE_SUM),
          "fetch");
    sent("fetch");
    check(ucxx_window_compare_and_swap(window, &one, &zero, &old, UCXX_TYPE_UINT64, 1, 3), "swap");
    sent("swap");
    check(ucxx_window_unlock(window, 1), "unlock");
    sent("unlock");
  }
  check(ucxx_window_close(window), "close");
  ucxx_window_destroy(window);
  leave(&member);
  return 0;
}
