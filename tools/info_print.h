/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_print.h: prints what ucxx_rs_info finds, as text or as one JSON document.
 *
 * Each fact is passed once. `key` is its name in the document, and is not used inside a list. The
 * format is what the text prints for it. A text format of NULL prints nothing.
 */
#ifndef TOOLS_INFO_PRINT_H
#define TOOLS_INFO_PRINT_H

#include <stdarg.h>
#include <stdbool.h>

#ifdef __GNUC__
#define PRINTS(at, first) __attribute__((format(printf, at, first)))
#else
#define PRINTS(at, first)
#endif

/* Call these before anything else, and at the end. `error`: why the program gave up, or "". */
void print_begin(bool json);
void print_end(const char *error);

/* What only the text has: headings, and words around the facts. */
PRINTS(1, 2) void print_text(const char *format, ...);

void print_object(const char *key);
void print_list(const char *key);
void print_close(void);

/* The value of the document is `value`; NULL is null. The text is printed as the format says. */
PRINTS(3, 4) void print_string(const char *key, const char *value, const char *format, ...);
PRINTS(3, 4) void print_number(const char *key, unsigned long value, const char *format, ...);
PRINTS(3, 4) void print_bool(const char *key, bool value, const char *format, ...);

/* A string of a list that is made by a format. The text is `before`, the string and a newline. */
PRINTS(2, 3) void print_sentence(const char *before, const char *format, ...);
void print_sentence_list(const char *before, const char *format, va_list arguments);

/* The text prints the problem where it is found. The document has a list of all of them. */
PRINTS(2, 3) void print_problem(const char *indent, const char *format, ...);

#endif
