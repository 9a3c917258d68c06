/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _XOPEN_SOURCE 700
#include "info_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define DEPTH 8u
#define LONGEST 4096u

static struct {
  bool json;
  bool first[DEPTH]; /* nothing has been printed at this depth */
  char closes[DEPTH];
  unsigned depth;
  char *problems[64];
  unsigned problem_count;
} printer;

static void begin_value(const char *key) {
  if (!printer.first[printer.depth]) putchar(',');
  printer.first[printer.depth] = false;
  printf("\n%*s", (int)printer.depth * 2, "");
  if (printer.closes[printer.depth] != '}') return;
  json_string(stdout, key);
  fputs(": ", stdout);
}

static void open(char opens, char closes) {
  putchar(opens);
  printer.depth++;
  printer.first[printer.depth] = true;
  printer.closes[printer.depth] = closes;
}

void print_begin(bool json) {
  printer.json = json;
  if (json) open('{', '}');
}

void print_end(const char *error) {
  if (!printer.json) return;
  print_list("problems");
  for (unsigned i = 0; i < printer.problem_count; i++) {
    print_string(NULL, printer.problems[i], NULL);
    free(printer.problems[i]);
  }
  print_close();
  print_string("error", error[0] != '\0' ? error : NULL, NULL);
  printf("\n}\n");
  fflush(stdout);
}

void print_object(const char *key) {
  if (!printer.json) return;
  begin_value(key);
  open('{', '}');
}

void print_list(const char *key) {
  if (!printer.json) return;
  begin_value(key);
  open('[', ']');
}

void print_close(void) {
  if (!printer.json) return;
  bool empty = printer.first[printer.depth];
  char closes = printer.closes[printer.depth];
  printer.depth--;
  if (!empty) printf("\n%*s", (int)printer.depth * 2, "");
  putchar(closes);
}

/* True if the text is printed; then there is no value to print. */
static bool as_text(const char *format, va_list arguments) {
  if (printer.json) return false;
  if (format != NULL) vprintf(format, arguments);
  return true;
}

void print_text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  as_text(format, arguments);
  va_end(arguments);
}

void print_string(const char *key, const char *value, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!as_text(format, arguments)) {
    begin_value(key);
    if (value != NULL)
      json_string(stdout, value);
    else
      fputs("null", stdout);
  }
  va_end(arguments);
}

void print_number(const char *key, unsigned long value, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!as_text(format, arguments)) {
    begin_value(key);
    printf("%lu", value);
  }
  va_end(arguments);
}

void print_bool(const char *key, bool value, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!as_text(format, arguments)) {
    begin_value(key);
    fputs(value ? "true" : "false", stdout);
  }
  va_end(arguments);
}

void print_sentence_list(const char *before, const char *format, va_list arguments) {
  char text[LONGEST];
  vsnprintf(text, sizeof text, format, arguments);
  print_string(NULL, text, "%s%s\n", before, text);
}

void print_sentence(const char *before, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_sentence_list(before, format, arguments);
  va_end(arguments);
}

void print_problem(const char *indent, const char *format, ...) {
  char text[LONGEST];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_text("%sPROBLEM: %s\n", indent, text);
  if (printer.json && printer.problem_count < sizeof printer.problems / sizeof printer.problems[0])
    printer.problems[printer.problem_count++] = strdup(text);
}
