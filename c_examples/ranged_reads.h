/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ranged_reads.h: what the ways of reading (ranged_ways.c) and the program that tries and measures
 * them (ranged_reads.c) have in common.
 */
#ifndef EXAMPLES_RANGED_READS_H
#define EXAMPLES_RANGED_READS_H

#include "pair.h"

#define OBJECTS 3
#define NAME 24
#define LONGEST (4u << 20) /* of a range */
#define UNTOUCHED 0x77

#define BEYOND_END (UCXX_ERR_APPLICATION - 1)
#define NOT_DELIVERED (UCXX_ERR_APPLICATION - 2)

/* Structs that travel have no gaps, whose bytes would be whatever was in memory. */
struct range {
  uint64_t offset, length;
  char name[NAME]; /* with a NUL */
};

struct object {
  char name[NAME];
  size_t length;
  unsigned char *data;
};

/* Both have the objects: the server to serve them, the client to compare with. */
struct side {
  struct pair *pair;
  struct object objects[OBJECTS];
  bool over;
};

struct way {
  const char *name;
  uint16_t id; /* the first of the ids of its questions */
  bool allocated; /* remote memory: it is ucxx_memory_allocate's */
  void *(*serve)(struct side *server, const struct way *way);
  void (*serve_no_more)(void *state);
  void *(*begin)(struct side *client, const struct way *way,
                 unsigned char **buffer); /* may give another buffer to read into */
  ucxx_status_t (*read)(void *state, const struct range *range, unsigned char *buffer);
  void (*end)(void *state);
};

#define WAYS 6
extern const struct way ways[WAYS];

static inline void *zeroed(size_t length) {
  void *memory = calloc(1, length);
  require(memory != NULL, "memory");
  return memory;
}

#endif
