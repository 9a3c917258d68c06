/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_config.h: the options of ucxx_rs_perftest.
 */
#ifndef TOOLS_PERF_CONFIG_H
#define TOOLS_PERF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#define MAX_SIZES 64u
#define MAX_WINDOW 65536u
#define MAX_ENDPOINTS 64u
#define MAX_THREADS 64u
#define MAX_FRAMES 256u
#define DEFAULT_PORT 13338

enum wait_kind { WAIT_POLL, WAIT_REQUEST, WAIT_CALLBACK, WAIT_NOTIFIER };
enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_CSV };

/* How one side makes progress and waits. -1 means "not given". The server uses the client's value
 * for what its own command line does not give. */
struct drive {
  int progress; /* UCXX_PROGRESS_* */
  int wait; /* enum wait_kind */
  int thread; /* UCXX_THREAD_* */
  int delayed; /* ucxx_worker_params_t.delayed_submission + 1 */
  int error_handling; /* UCXX_ENDPOINT_ERROR_HANDLING_* */
  int64_t spin_ns;
};

/* The client decides these. */
struct plan {
  char test[24];
  uint64_t sizes[MAX_SIZES];
  uint32_t size_count;
  uint64_t iterations, warmup; /* iterations 0: chosen for each size */
  bool warmup_given;
  uint32_t window; /* 0: the default of the test */
  uint32_t threads, endpoints, frames;
  int memory[2]; /* UCXX_MEMORY_*: of the client and of the server */
  bool verify, own_buffers;
};

struct config {
  struct plan plan;
  struct drive drive;
  const char *host, *bind; /* host NULL: this is the server */
  uint16_t port;
  int family; /* AF_* */
  bool self, loop;
  bool serves; /* this process is the server, or the half of --self that is */
  int cpu[2]; /* for the main thread and the progress thread; -1: any */
  int peer_cpu[2]; /* for the forked process of --self */
  enum output_format output;
  const char *plot; /* a file to draw, or NULL */
  char **compare; /* files to compare, up to a NULL; NULL: measure */
  uint64_t timeout_ns, max_memory;
};

/* Returns 0 to continue, 1 if answered (--help, --version), and -1 on failure. */
int config_parse(struct config *config, int argc, char **argv, struct failure *failure);

/* Writes the client's options as text for the server, and reads them. */
void config_write(const struct config *config, char *text, size_t capacity);
int config_read(struct config *server, const char *text, struct failure *failure);

const char *progress_name(int mode);
const char *wait_name(int kind);
const char *thread_name(int mode);
const char *error_handling_name(int mode);
const char *memory_name(int type);

#endif
