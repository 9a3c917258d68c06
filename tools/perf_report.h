/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_report.h: results as a table, JSON or CSV on stdout.
 */
#ifndef TOOLS_PERF_REPORT_H
#define TOOLS_PERF_REPORT_H

#include "perf_tests.h"

struct report {
  enum output_format format;
  bool begun;
  unsigned rows;
};

void report_begin(struct report *report, const struct session *session, const struct test *test,
                  const struct plan *plan, const char *server);
void report_row(struct report *report, const struct bench *bench, const struct test *test);
void report_end(struct report *report, const struct failure *failure);

#endif
