/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ranged_reads.h: shared by the ways of reading (ranged_ways.c) and the program that tests and
 * measures them (ranged_reads.c).
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

/* A struct that is sent must have no padding, because padding would send whatever was in memory. */
struct range {
  uint64_t offset, length;
  char name[NAME]; /* with a NUL */
};

struct object {
  char name[NAME];
  size_t length;
  unsigned char *data;
};

/* One of the two processes. Both have the objects: the server to serve them, the client to
 * compare. */
struct side {
  struct pair *pair;
  struct object objects[OBJECTS];
  bool over;
};

struct way {
  const char *name;
  uint16_t id; /* the first id of its fetches */
  /* Remote memory comes from ucxx_memory_allocate. */
  bool allocated;
  void *(*serve)(struct side *server, const struct way *way);
  void (*serve_no_more)(void *state);
  /* May provide another buffer to read into. */
  void *(*begin)(struct side *client, const struct way *way, unsigned char **buffer);
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
