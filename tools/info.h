/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info.h: the sections of ucxx_rs_info. Each prints itself; the result says whether something is
 * wrong.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include "info_facts.h"
#include "oob.h"

/* info_library.c */
int print_versions(void);
int print_build(void);
int print_transports(void);
int print_configuration(void);

/* info_environment.c */
int print_environment(void);

/* info_lanes.c: counts the pairs of processes that have no shared memory between them */
int print_lanes_within(void);
int print_lanes_to_child(unsigned *without_shared_memory);
int print_lanes_to_peer(struct oob *oob, size_t kind,
                        unsigned *without_shared_memory); /* 0: PEER, 1: NONE; a connection each */
int answer_lanes(struct oob *oob, struct failure *failure);

/* info_explain.c: true when there is shared memory among the transports */
bool explain_lanes(const struct facts *mine, const struct facts *theirs, int error_handling,
                   const char *transports);
bool explain_failure(const struct facts *mine, const struct facts *theirs, int error_handling,
                     const char *message);

/* The transports of the loaded UCX on this machine, "posix, self, tcp"; false when UCX does not
 * tell. */
bool available_transports(char *text, size_t capacity);

#endif
