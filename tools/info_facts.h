/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_facts.h: facts about a process that decide whether it can share memory with another one.
 */
#ifndef TOOLS_INFO_FACTS_H
#define TOOLS_INFO_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#define FACT_LINES 64
#define FACT_LENGTH 256

/* Lines of "key=value"; keys in capitals are environment variables. */
struct facts {
  unsigned count;
  char lines[FACT_LINES][FACT_LENGTH];
};

void facts_gather(struct facts *facts);
void facts_write(const struct facts *facts, char *text, size_t capacity);
void facts_read(struct facts *facts, const char *text);
const char *fact(const struct facts *facts, const char *key); /* NULL if unknown */
/* An unknown fact counts as the same. */
bool same_fact(const struct facts *mine, const struct facts *theirs, const char *key);

/* Whether the kernel lets this process read the other one's memory, as the cma transport does.
 * Returns 0 for yes, or an errno. */
int facts_try_reading(const struct facts *theirs);

#endif
