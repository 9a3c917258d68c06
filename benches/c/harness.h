/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* What every benchmark program shares: options, the two processes and the socket between them,
 * time, and the report. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How progress is made, and how a thread learns that its operations have ended; of use where a
 * program says so. */
enum { PROGRESS_MANUAL, PROGRESS_ADAPTIVE, PROGRESS_POLLING, PROGRESS_BLOCKING };
enum { COMPLETION_POLL, COMPLETION_WAIT, COMPLETION_CALLBACK, COMPLETION_NOTIFIER };

/* What is done with the other side's memory, and where that comes from; of use where a program says
 * so. */
enum { OPERATION_PUT, OPERATION_GET, OPERATION_ADD };
enum { MEMORY_ALLOCATED, MEMORY_REGISTERED };

struct options {
  size_t size; /* bytes of one message */
  long iterations; /* operations in one batch */
  long batches; /* batches that are timed */
  long warmup; /* operations before the first batch */
  long window; /* messages in flight, where the program has a window */
  int protocol; /* what answers to fetches ask UCX for: 0 nothing, 1 eager, 2 rendezvous */
  long producers; /* threads that submit */
  long seconds; /* how long, or at most how long, the measured part takes */
  int progress; /* PROGRESS_* */
  int completion; /* COMPLETION_* */
  int operation; /* OPERATION_* */
  int memory; /* MEMORY_* */
  long processes; /* of a world; see window.h */
  int own_memory; /* 1: windows of memory that the program has, not of what the library allocates */
  long busy_us; /* a target computes so long between two looks at the library; 0: it waits in a
                   collective */
  long hosts; /* the processes count as those of so many; ucxx_rs alone */
  const char *
      only; /* names of measurements, with commas between them; NULL for all that the program has */
  int peer_errors; /* 1: endpoints detect that their peer died; 0: they do not */
  int cpu[2]; /* CPU of each side; -1 leaves it unpinned */
  int thread_cpu; /* CPU of the progress thread; -1 leaves it where the process is */
  int markers; /* bracket the measured part for a counting tool instead of timing it */
  int side; /* 0 measures and reports, 1 answers */
  int socket; /* to the other side; -1 in programs of one process */
};

/* Ends the process with a message. A benchmark that meets an error has no result to give. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Reads the options, and does nothing else: for programs that are started in another way. */
void harness_read(int argc, char **argv, struct options *options);

/* Reads the options and, for programs of two processes, starts the other side: a fresh execution of
 * the same program, so that neither inherits anything of the other but a socket. Returns in both
 * processes, each pinned to its CPU. */
void harness_start(int argc, char **argv, int two_processes, struct options *options);

/* Exchanges addresses: sends `mine`, returns the other's in memory that the caller frees. */
void *harness_exchange(const struct options *options, const void *mine, size_t length,
                       size_t *other_length);

/* Leaves a mark for the other side, and asks, without waiting, whether the other side has left its
 * own. */
void harness_signal(const struct options *options);
int harness_signalled(const struct options *options);
/* Sleeps until it has. */
void harness_await(const struct options *options);

/* Lets the calling thread, and those it makes, run on this CPU alone; nothing when it is -1. */
void harness_pin(int cpu);

/* Waits for the other process and ends with its status when that is not 0. Nothing to do on side 1.
 */
void harness_finish(const struct options *options);

/* Whether `name` is among the measurements that are asked for. */
int harness_wants(const struct options *options, const char *name);

/* Nanoseconds of a monotonic clock. */
uint64_t now_ns(void);

/* Memory for message buffers: page-aligned, every page touched. */
unsigned char *buffer_create(size_t length);

/* One line `key=value` of the report; only side 0 reports. */
void report_text(const struct options *options, const char *key, const char *value);
void report_number(const struct options *options, const char *key, double value);
/* The lower median of `count` samples, which it sorts, and their extremes as key_min and key_max.
 */
void report_samples(const struct options *options, const char *key, double *samples, size_t count);

/* The sample below which 99 of 100 lie; sorts them. */
double percentile_99(double *samples, size_t count);

/* Marks for strace(1), which shows the calls, and for the allocation counter, when one is
 * preloaded. */
void mark_begin(void);
void mark_end(void);

/* Finds the transports in the text that UCX prints about an endpoint: "posix/memory,cma/memory". */
void transports_from_text(const char *text, char *out, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
