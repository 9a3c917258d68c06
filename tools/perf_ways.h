/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_ways.h: the ways to move data: a row for each in a table of perf_ways.c.
 */
#ifndef TOOLS_PERF_WAYS_H
#define TOOLS_PERF_WAYS_H

#include "perf_tests.h"

enum { LATENCY = 1, BANDWIDTH = 2, RATE = 4, ALL_PATTERNS = 7 };

struct way {
  const char *name, *summary;
  uint64_t features;
  unsigned patterns;
  uint64_t least, most, multiple; /* sizes; 0: any */
  bool cuda, several_endpoints;
  /* All of these may be NULL. The first three are those of bench_open, bench_leave and
   * bench_release. */
  int (*open)(struct bench *bench);
  int (*leave)(struct bench *bench);
  void (*close)(struct bench *bench);
  /* Both sides take part: */
  submit_t send, receive;
  /* Or the client alone: `start` begins an operation, and `flush` completes all at the server. */
  submit_t start, flush;
  bool writes; /* `start` reads the slot's buffer; otherwise it writes there, or uses none */
  bool reads;
  /* Server: before and after a number of operations. The audit fails if it misses any. */
  void (*expect)(struct bench *bench);
  int (*audit)(struct bench *bench, uint64_t operations);
};

extern const struct way tag_way, am_way, stream_way, multi_way, hub_way;
extern const struct way fetch_way, put_way, get_way, add_way, fadd_way, swap_way, cswap_way;
extern const struct way window_put_way, window_get_way, window_acc_way, window_lock_way;

/* For audits of memory into which the client wrote. Where an operation has a place of its own, the
 * place is that of its slot. */
int audit_count(struct bench *bench, const char *what, uint64_t found, uint64_t operations);
int audit_places(struct bench *bench, char *memory, uint64_t operations);

#endif
