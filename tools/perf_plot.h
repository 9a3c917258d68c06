/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_plot.h: calls ucxx_rs_perfplot, the script beside this program that draws and compares
 * results.
 */
#ifndef TOOLS_PERF_PLOT_H
#define TOOLS_PERF_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "failure.h"

/* `files`: results as JSON, up to a NULL. `plot`: the picture to draw, or NULL. */
int run_plotter(const char *const *files, const char *plot, bool compare, struct failure *failure);
/* Draws what a temporary file has. */
int plot_results(FILE *results, const char *plot, struct failure *failure);

#endif
