/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * member.h: a process that is a member of a group. The examples with windows share it.
 *
 * The environment says who the members are: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
 * UCXX_RS_GROUP_SECRET, or the variables that mpirun, mpiexec and srun set. On one machine:
 *
 *     export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711
 *     for rank in 0 1 2 3; do RANK=$rank ./stencil & done; wait
 *
 * If a call fails, the member prints the call, the reason and the peer, and ends. The others depend
 * on it, so their calls fail as well and they end in the same way.
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

/* Makes the group. Every member calls it, and it returns when all of them have. */
static inline void join(struct member *member) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  check(ucxx_context_create(NULL, &member->context), "context");
  check(ucxx_worker_create(member->context, NULL, &member->worker), "worker");
  check(ucxx_group_create(member->worker, &params, &member->group), "group");
  member->rank = ucxx_group_rank(member->group);
  member->size = ucxx_group_size(member->group);
}

/* Leaves the group. Close all windows first. */
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

/* Returns false if the text is not a whole number from `least` to `most`. */
static inline bool read_number(const char *text, uint32_t least, uint32_t most, uint32_t *number) {
  char *end = NULL;
  unsigned long long read = strtoull(text, &end, 10);
  *number = (uint32_t)read;
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && read >= least && read <= most;
}

#endif
