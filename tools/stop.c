/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _XOPEN_SOURCE 700
#include "stop.h"

#include <string.h>
#include <time.h>

volatile sig_atomic_t stop_signal;

static void on_signal(int number) { stop_signal = number; }

void stop_on_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  /* Reset the handler, so that a second Ctrl-C ends the process even if it hangs. Without
   * SA_RESTART, so that blocking calls return. */
  action.sa_flags = (int)SA_RESETHAND;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

uint64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}
