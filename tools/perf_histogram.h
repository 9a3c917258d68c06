/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_histogram.h: times, counted in buckets that are exact to a thousandth, so that any number of
 * them takes the same room.
 */
#ifndef TOOLS_PERF_HISTOGRAM_H
#define TOOLS_PERF_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BITS 10u
#define HISTOGRAM_BUCKETS ((64u - HISTOGRAM_BITS + 1u) << HISTOGRAM_BITS)

/* Picoseconds: an average over a window of messages may lie below a nanosecond. */
struct histogram {
  uint64_t count, min, max;
  uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times);
/* The smallest value that `share` (0 to 1) of all do not exceed. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
