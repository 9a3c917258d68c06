/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_names.h: the words of the command line for the library's constants.
 */
#ifndef TOOLS_PERF_NAMES_H
#define TOOLS_PERF_NAMES_H

#include "perf_config.h"

struct choice {
  const char *word;
  int value;
};

extern const struct choice progress_choices[], wait_choices[], thread_choices[], error_choices[],
    delayed_choices[], memory_choices[];

int choose(const struct choice *choices, const char *word, int *value);

#endif
