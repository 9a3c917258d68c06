/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#include "json.h"

#include <stddef.h>

/* Returns the length of the UTF-8 sequence at `at`, or 0 if there is none. Overlong forms, halves
 * of surrogate pairs and numbers above U+10FFFF are not UTF-8. */
static size_t sequence(const unsigned char *at) {
  unsigned char least = 0x80, most = 0xbf;
  if (at[0] < 0x80) return 1;
  size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
  if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
  if (at[0] == 0xe0) least = 0xa0;
  if (at[0] == 0xed) most = 0x9f;
  if (at[0] == 0xf0) least = 0x90;
  if (at[0] == 0xf4) most = 0x8f;
  for (size_t i = 1; i < length; i++, least = 0x80, most = 0xbf)
    if (at[i] < least || at[i] > most) return 0; /* also at the terminating zero */
  return length;
}

void json_string(FILE *out, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  putc('"', out);
  while (*at != '\0') {
    size_t length = sequence(at);
    if (length == 0) {
      fputs("\\ufffd", out);
      length = 1;
    } else if (*at == '"' || *at == '\\') {
      fprintf(out, "\\%c", *at);
    } else if (*at < ' ') {
      fprintf(out, "\\u%04x", *at);
    } else {
      fwrite(at, 1, length, out);
    }
    at += length;
  }
  putc('"', out);
}
