/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * member.h: a process that is a member of a group. What the examples of windows share.
 *
 * Who is a member is what the environment says: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
 * UCXX_RS_GROUP_SECRET, or what mpirun, mpiexec and srun set. On one machine:
 *
 *     for rank in 0 1 2 3; do RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711
 * ./stencil & done; wait
 *
 * A call that fails says which, why, and in whom, and ends the member; the others cannot go on
 * without it, and end in the same way.
 */
#ifndef EXAMPLES_MEMBER_H
#define EXAMPLES_MEMBER_H

#include "conversation.h"

struct member {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
  uint32_t rank, size;
};

static inline void join(struct member *member) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  check(ucxx_context_create(NULL, &member->context), "context");
  check(ucxx_worker_create(member->context, NULL, &member->worker), "worker");
  check(ucxx_group_create(member->worker, &params, &member->group), "group");
  member->rank = ucxx_group_rank(member->group);
  member->size = ucxx_group_size(member->group);
}

/* Windows are closed before. */
static inline void leave(struct member *member) {
  ucxx_group_destroy(member->group);
  ucxx_worker_destroy(member->worker);
  ucxx_context_destroy(member->context);
}

static inline void *zeros(size_t count, size_t size) {
  void *memory = calloc(count > 0 ? count : 1, size);
  if (memory != NULL) return memory;
  fprintf(stderr, "error: no memory\n");
  give_up();
}

/* False for what is no whole number from `least` to `most`. */
static inline bool read_number(const char *text, uint32_t least, uint32_t most, uint32_t *number) {
  char *end = NULL;
  unsigned long long read = strtoull(text, &end, 10);
  *number = (uint32_t)read;
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && read >= least && read <= most;
}

#endif
