/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * version.h: what --version prints.
 */
#ifndef TOOLS_VERSION_H
#define TOOLS_VERSION_H

#include <stdio.h>
#include <ucxx_rs.h>

static inline void print_version(const char *program) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  if (ucxx_version_query(&version) != UCXX_OK) return;
  printf("%s %s on UCX %u.%u.%u\n", program, version.version_string, version.ucx_major,
         version.ucx_minor, version.ucx_patch);
}

#endif
