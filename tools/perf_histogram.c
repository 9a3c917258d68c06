/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#include "perf_histogram.h"

#include <string.h>

void histogram_clear(struct histogram *histogram) {
  memset(histogram, 0, sizeof *histogram);
  histogram->min = UINT64_MAX;
}

/* Values below 2 to the power HISTOGRAM_BITS have a bucket each. Above that, each power of two is
 * divided into as many buckets. */
static unsigned bucket_of(uint64_t value) {
  if (value < (UINT64_C(1) << HISTOGRAM_BITS)) return (unsigned)value;
  unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_BITS;
  return (shift << HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

static uint64_t upper_end(unsigned bucket) {
  if (bucket < (2u << HISTOGRAM_BITS)) return bucket;
  unsigned shift = (bucket >> HISTOGRAM_BITS) - 1u;
  uint64_t lower = (uint64_t)(bucket - (shift << HISTOGRAM_BITS)) << shift;
  return lower + ((UINT64_C(1) << shift) - 1u);
}

void histogram_add(struct histogram *histogram, uint64_t value, uint64_t times) {
  histogram->count += times;
  histogram->buckets[bucket_of(value)] += times;
  if (value < histogram->min) histogram->min = value;
  if (value > histogram->max) histogram->max = value;
}

uint64_t histogram_quantile(const struct histogram *histogram, double share) {
  if (histogram->count == 0) return 0;
  uint64_t seen = 0, wanted = (uint64_t)(share * (double)histogram->count);
  if (wanted >= histogram->count) return histogram->max;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    seen += histogram->buckets[bucket];
    if (seen > wanted) {
      uint64_t value = upper_end(bucket);
      return value < histogram->max ? value : histogram->max;
    }
  }
  return histogram->max;
}
