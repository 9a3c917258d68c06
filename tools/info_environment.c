/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_environment.c: prints the environment variables that the library reads, and what is set for
 * UCX. It does not print secrets.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "info_print.h"

extern char **environ;

#define SECRET "UCXX_RS_GROUP_SECRET"

static const struct variable {
  const char *name, *unset, *meaning;
} variables[] = {
    {"UCXX_RS_LOG", "as the program says",
     "how much is logged: off, error, warn, info, debug or trace, and component=level, with "
     "commas; "
     "to stderr where the program has no log callback"},
    {"UCXX_RS_LOG_LEVEL", "as the program says",
     "the older name: the same, but nothing goes to stderr"},
    {"UCXX_RS_TRACE", "none",
     "a file for a timeline of the program, for ui.perfetto.dev; %p: the number of the process"},
    {"UCXX_RS_DEBUG_SOCKET", "none",
     "a folder, or a path with %p for the pid: a socket there tells ucxx_rs_info --attach what the "
     "process does and waits for"},
    {"UCXX_RS_STALL_MS", "none",
     "after so many milliseconds without an end of any operation in flight, the log says what "
     "waits, and for what"},
    {"UCXX_RS_METRICS", "none",
     "an address such as :9400, or a path with %p for the pid: metrics for Prometheus over HTTP, "
     "or "
     "in a file"},
    {"UCXX_RS_METRICS_LATENCY", "0",
     "1: metrics have histograms of how long operations take, and short messages no shortcuts"},
    {"UCXX_RS_DELAYED_SUBMISSION", "1",
     "0: with a progress thread, submit directly where the program does not say"},
    {"UCXX_RS_FAST_BOXES", "1",
     "0: short active messages between busy workers of a host go through UCX, too"},
    {"UCXX_RS_HOST_ID", "none",
     "processes of one kernel that have different values here count as those of different hosts"},
    {"UCX_TLS", "all",
     "transports; posix, sysv, sm or shm for shared memory, cma for large messages in one copy, "
     "tcp"},
    {"UCX_MM_ERROR_HANDLING", "y, by this library",
     "shared memory under error handling PEER; n makes such endpoints use TCP"},
    {"UCX_ERROR_HANDLING", "y, by this library", "the same for every transport"},
    {"UCX_POSIX_ERROR_HANDLING", "y, by this library", "the same for posix"},
    {"UCX_SYSV_ERROR_HANDLING", "y, by this library", "the same for sysv"},
    {"UCX_CMA_MEMORY_INVALIDATE", "y, by this library",
     "cma under error handling PEER; n takes large messages through shared memory"},
    {"UCX_MEMORY_INVALIDATE", "y, by this library", "the same, as UCX up to 1.16 calls it"},
    {"UCX_KEEPALIVE_INTERVAL", "1s, by this library",
     "how often it is looked whether peers are alive"},
    {"UCX_KEEPALIVE_NUM_EPS", "inf, by this library", "how many endpoints are looked at each time"},
    {"UCX_ZCOPY_THRESH", "inf before UCX 1.16", "smallest eager send without a copy"},
    {"UCX_TCP_TX_SEG_SIZE", "64k, by this library",
     "what goes out over TCP at a time, where it is copied"},
    {"UCX_TX_SEG_SIZE", "as UCX says", "the same for every transport"},
    {"UCX_TCP_RX_SEG_SIZE", "as UCX says",
     "what is taken in from TCP at a time; set: the library leaves UCX_TCP_TX_SEG_SIZE alone"},
    {"UCX_RX_SEG_SIZE", "as UCX says", "the same for every transport"},
    {"UCX_TCP_CM_REUSEADDR", "y, by this library", "a listener finds its port free again at once"},
    {"UCX_TCP_AF_PRIO", "inet,inet6",
     "families of TCP's addresses; inet first: ucxx_endpoint_connect goes over IPv4, inet6 alone: "
     "over IPv6"},
    {"UCX_AF_PRIO", "inet,inet6", "the same for every transport"},
    {"UCX_HANDLE_ERRORS", "no handler", "set: UCX's signal handlers stay installed"},
    {"UCX_ERROR_SIGNALS", "no handler", "set: UCX's signal handlers stay installed"},
    {SECRET, "none", "groups by UCXX_BOOTSTRAP_ENV: what the members know and others do not"},
    {"MASTER_ADDR", "none",
     "groups by UCXX_BOOTSTRAP_ENV: the host where rank 0 listens, unless the program says"},
    {"MASTER_PORT", "none", "the same: the port"},
    {"RANK", "as below",
     "groups by UCXX_BOOTSTRAP_ENV: this process's rank; the first pair of which either is set "
     "counts"},
    {"WORLD_SIZE", "as below", "the size with it"},
    {"OMPI_COMM_WORLD_RANK", "as below", "rank, as Open MPI's mpirun says"},
    {"OMPI_COMM_WORLD_SIZE", "as below", "the size with it"},
    {"PMI_RANK", "as below", "rank, as MPICH's mpiexec says"},
    {"PMI_SIZE", "as below", "the size with it"},
    {"SLURM_PROCID", "no such group", "rank, as srun says"},
    {"SLURM_NTASKS", "no such group", "the size with it"},
    {"PMIX_RANK", "none", "rank, where a size of the above is set without one"},
};
#define VARIABLES (sizeof variables / sizeof variables[0])

static bool is_known(const char *entry) {
  for (size_t i = 0; i < VARIABLES; i++) {
    size_t length = strlen(variables[i].name);
    if (strncmp(entry, variables[i].name, length) == 0 && entry[length] == '=') return true;
  }
  return false;
}

static void print_known(const struct variable *variable) {
  const char *name = variable->name, *value = getenv(name);
  bool set = value != NULL, hidden = set && strcmp(name, SECRET) == 0;
  print_object(NULL);
  print_string("name", name, "  %s", name);
  print_bool("set", set, set ? (hidden ? " is set (not shown)\n" : NULL) : " is not set");
  print_string("value", hidden ? NULL : value, set && !hidden ? "=%s\n" : NULL, value);
  print_string("unset", variable->unset, set ? NULL : " (%s)\n", variable->unset);
  print_string("meaning", variable->meaning, "      %s\n", variable->meaning);
  print_close();
}

int print_environment(void) {
  bool others = false;
  print_text("Environment variables that the library reads\n");
  print_list("variables");
  for (size_t i = 0; i < VARIABLES; i++) print_known(&variables[i]);
  print_close();
  print_list("of_ucx_alone");
  for (char **entry = environ; *entry != NULL; entry++) {
    if ((strncmp(*entry, "UCX_", 4) != 0 && strncmp(*entry, "UCXX_", 5) != 0) || is_known(*entry))
      continue;
    if (!others) print_text("  Set, and read by UCX alone:\n");
    others = true;
    print_string(NULL, *entry, "    %s\n", *entry);
  }
  print_close();
  return 0;
}
