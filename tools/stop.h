/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * stop.h: a flag for Ctrl-C and SIGTERM, and the clock.
 */
#ifndef TOOLS_STOP_H
#define TOOLS_STOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

extern volatile sig_atomic_t stop_signal; /* 0, or the signal that was received */

void stop_on_signals(void);
uint64_t clock_ns(void);

static inline bool stopped(void) { return stop_signal != 0; }

#endif
