/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * give_up.h: ends an example after an error.
 */
#ifndef EXAMPLES_GIVE_UP_H
#define EXAMPLES_GIVE_UP_H

#include <stdio.h>
#include <stdlib.h>

/* _Exit() instead of exit(): workers may still exist, and exit() runs UCX's destructors while UCX's
 * own thread still works. That can abort the program with another exit status. */
__attribute__((noreturn)) static inline void give_up(void) {
  fflush(NULL);
  _Exit(EXIT_FAILURE);
}

#endif
