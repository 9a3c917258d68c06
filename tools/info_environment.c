/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_environment.c: the environment variables that the library itself looks at, and what else is set for UCX.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "info.h"

extern char **environ;

static const struct variable {
  const char *name, *unset, *meaning;
} variables[] = {
    {"UCXX_RS_LOG_LEVEL", "as the program says", "how much of the log reaches the program's log callback: off, error, warn, info, debug, trace"},
    {"UCXX_RS_DELAYED_SUBMISSION", "1", "0: with a progress thread, submit directly where the program does not say"},
    {"UCX_TLS", "all", "transports; posix, sysv, sm or shm for shared memory, cma for large messages in one copy, tcp"},
    {"UCX_MM_ERROR_HANDLING", "y, by this library", "shared memory under error handling PEER; n makes such endpoints use TCP"},
    {"UCX_ERROR_HANDLING", "y, by this library", "the same for every transport"},
    {"UCX_POSIX_ERROR_HANDLING", "y, by this library", "the same for posix"},
    {"UCX_SYSV_ERROR_HANDLING", "y, by this library", "the same for sysv"},
    {"UCX_CMA_MEMORY_INVALIDATE", "y, by this library", "cma under error handling PEER; n takes large messages through shared memory"},
    {"UCX_MEMORY_INVALIDATE", "y, by this library", "the same, as UCX up to 1.16 calls it"},
    {"UCX_KEEPALIVE_INTERVAL", "1s, by this library", "how often it is looked whether peers are alive"},
    {"UCX_KEEPALIVE_NUM_EPS", "inf, by this library", "how many endpoints are looked at each time"},
    {"UCX_ZCOPY_THRESH", "inf before UCX 1.16", "smallest eager send without a copy"},
    {"UCX_HANDLE_ERRORS", "no handler", "set: UCX's signal handlers stay installed"},
    {"UCX_ERROR_SIGNALS", "no handler", "set: UCX's signal handlers stay installed"},
};
#define VARIABLES (sizeof variables / sizeof variables[0])

static bool is_known(const char *entry) {
  for (size_t i = 0; i < VARIABLES; i++) {
    size_t length = strlen(variables[i].name);
    if (strncmp(entry, variables[i].name, length) == 0 && entry[length] == '=') return true;
  }
  return false;
}

int print_environment(void) {
  bool others = false;
  printf("Environment variables that the library reads\n");
  for (size_t i = 0; i < VARIABLES; i++) {
    const char *value = getenv(variables[i].name);
    if (value != NULL) printf("  %s=%s\n", variables[i].name, value);
    else printf("  %s is not set (%s)\n", variables[i].name, variables[i].unset);
    printf("      %s\n", variables[i].meaning);
  }
  for (char **entry = environ; *entry != NULL; entry++) {
    if ((strncmp(*entry, "UCX_", 4) != 0 && strncmp(*entry, "UCXX_", 5) != 0) || is_known(*entry)) continue;
    if (!others) printf("  Set, and read by UCX alone:\n");
    others = true;
    printf("    %s\n", *entry);
  }
  return 0;
}
