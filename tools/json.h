/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * json.h: strings of JSON documents.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdio.h>

/* Writes `text` in quotes. Bytes that are not UTF-8 become U+FFFD, because a document that contains
 * them is not JSON. */
void json_string(FILE *out, const char *text);

#endif
