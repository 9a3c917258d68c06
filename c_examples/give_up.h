/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * give_up.h: how the examples end at an error.
 */
#ifndef EXAMPLES_GIVE_UP_H
#define EXAMPLES_GIVE_UP_H

#include <stdio.h>
#include <stdlib.h>

/* Workers may be alive. exit() would run UCX's destructors while UCX's own thread works for them,
 * which has been seen to abort the program with another status. */
__attribute__((noreturn)) static inline void give_up(void) {
  fflush(NULL);
  _Exit(EXIT_FAILURE);
}

#endif
