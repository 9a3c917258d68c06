/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_report.h: results as a table, JSON or CSV.
 */
#ifndef TOOLS_PERF_REPORT_H
#define TOOLS_PERF_REPORT_H

#include "perf_crew.h"

struct report {
  FILE *out;
  enum output_format format;
  bool begun;
  unsigned rows;
};

/* `server`: how the server describes itself. */
void report_begin(struct report *report, const struct crew *crew, const char *server);
/* The round that all lanes have done, in each of `count` reports. `peer`: the server's CPU time. */
void report_row(struct report *reports, unsigned count, const struct crew *crew,
                const struct cost *peer);
void report_end(struct report *report, const struct failure *failure);

#endif
