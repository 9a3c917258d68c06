/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info.h: the sections of ucxx_rs_info. Each function prints its section. The result tells whether
 * it found a problem.
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
/* `kind`: 0 is PEER, 1 is NONE. Each kind has a connection of its own. */
int print_lanes_to_peer(struct oob *oob, size_t kind, unsigned *without_shared_memory);
int answer_lanes(struct oob *oob, struct failure *failure);

/* info_explain.c: returns true if there is shared memory among the transports */
bool explain_lanes(const struct facts *mine, const struct facts *theirs, int error_handling,
                   const char *transports);
bool explain_failure(const struct facts *mine, const struct facts *theirs, int error_handling,
                     const char *message);

/* info_attach.c: a process by its pid, or a socket by its path */
int attach(const char *whom, struct failure *failure);

/* The transports of the loaded UCX on this machine, as "posix, self, tcp". False if UCX does not
 * list them. */
bool available_transports(char *text, size_t capacity);

#endif
