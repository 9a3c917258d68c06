/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * failure.h: keeps the first error of a tool as a message for the user.
 */
#ifndef TOOLS_FAILURE_H
#define TOOLS_FAILURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct failure {
  char text[1024];
};

static inline bool failed(const struct failure *failure) { return failure->text[0] != '\0'; }

#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
/* Keeps the first message only, because later errors usually follow from it. Always returns -1, so
 * that a function can end with `return fail(...)`. */
static inline int
fail(struct failure *failure, const char *format, ...) {
  if (failed(failure)) return -1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(failure->text, sizeof failure->text, format, arguments);
  va_end(arguments);
  return -1;
}

#endif
