/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_histogram.h: a histogram of times. Its buckets are exact to a thousandth, so any number of
 * times takes the same memory.
 */
#ifndef TOOLS_PERF_HISTOGRAM_H
#define TOOLS_PERF_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BITS 10u
#define HISTOGRAM_BUCKETS ((64u - HISTOGRAM_BITS + 1u) << HISTOGRAM_BITS)

/* In picoseconds, because an average over a window of messages can be less than a nanosecond. */
struct histogram {
  uint64_t count, min, max;
  uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times);
/* The smallest value that a share (0 to 1) of all values do not exceed. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
