/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_sides.h: the two sides of a measurement. They agree over out-of-band connections, one for
 * each thread.
 */
#ifndef TOOLS_PERF_SIDES_H
#define TOOLS_PERF_SIDES_H

#include "perf_crew.h"

/* With another number, the sides do not speak to each other. */
#define PROTOCOL "ucxx_rs_perftest 2 "
#define JOIN "ucxx_rs_perftest 2 join %llx %u"
#define HELLO_NS (30 * NS_PER_SECOND)
#define TEXT_BYTES 1024

/* Measures, and prints the results. `pairs`: connections of --self, or NULL to connect. */
void run_client(const struct config *config, struct oob *pairs, struct failure *failure);

/* Serves the client of the first connection, until it has finished. The others come from `pairs`,
 * or from the listener. */
void serve_client(const struct config *own, struct oob *first, struct oob *pairs, int listener,
                  struct failure *failure);

#endif
