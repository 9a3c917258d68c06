/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Shared by all benchmark programs: options, the two processes and the socket between them, time,
 * and the report. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How progress is made, and how a thread learns that its operations have completed. Used only by
 * programs that say so. */
enum { PROGRESS_MANUAL, PROGRESS_ADAPTIVE, PROGRESS_POLLING, PROGRESS_BLOCKING };
enum { COMPLETION_POLL, COMPLETION_WAIT, COMPLETION_CALLBACK, COMPLETION_NOTIFIER };

/* The operation on the other side's memory, and where that memory comes from. Used only by programs
 * that say so. */
enum { OPERATION_PUT, OPERATION_GET, OPERATION_ADD };
enum { MEMORY_ALLOCATED, MEMORY_REGISTERED };
/* Where buffers are. Others than WHERE_HOST need the driver of a GPU, and LINK_DETECT. */
enum { WHERE_HOST, WHERE_PINNED, WHERE_CUDA, WHERE_MANAGED };

struct options {
  size_t size; /* bytes of one message */
  long iterations; /* operations in one batch */
  long batches; /* timed batches */
  long warmup; /* operations before the first batch */
  long window; /* messages in flight, if the program has a window */
  int protocol; /* the protocol of answers to fetches: 0 UCX's choice, 1 eager, 2 rendezvous */
  long producers; /* threads that submit */
  long seconds; /* the time, or the most time, of the measured part */
  int progress; /* PROGRESS_* */
  int completion; /* COMPLETION_* */
  int operation; /* OPERATION_* */
  int memory; /* MEMORY_* */
  long processes; /* in a world; see window.h */
  int own_memory; /* 1: windows are memory of the program; 0: the library allocates it */
  /* A target computes for this long between two calls of the library. 0: it waits in a
   * collective. */
  long busy_us;
  long hosts; /* the processes count as processes of this many hosts; ucxx_rs only */
  /* Names of measurements, separated by commas. NULL: all of the program. */
  const char *only;
  int peer_errors; /* 1: endpoints detect that their peer died; 0: they do not */
  int cpu[2]; /* CPU of each side; -1 leaves it unpinned */
  int thread_cpu; /* CPU of the progress thread; -1 leaves it unpinned */
  int markers; /* mark the measured part for a counting tool instead of timing it */
  int side; /* 0 measures and reports, 1 answers */
  int socket; /* to the other side; -1 in programs of one process */
};

/* Ends the process with a message. After an error a benchmark has no result. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Only reads the options, for programs that are started in another way. */
void harness_read(int argc, char **argv, struct options *options);

/* Reads the options. For programs of two processes it starts the other side as a new execution of
 * the same program, so that it inherits only a socket. Returns in both processes, each pinned to
 * its CPU. */
void harness_start(int argc, char **argv, int two_processes, struct options *options);

/* Sends `mine`, and returns the other side's bytes in memory that the caller frees. */
void *harness_exchange(const struct options *options, const void *mine, size_t length,
                       size_t *other_length);

/* Sends a signal to the other side, and checks, without waiting, whether the other side has sent
 * one. */
void harness_signal(const struct options *options);
int harness_signalled(const struct options *options);
/* Sleeps until the other side has sent one. */
void harness_await(const struct options *options);

/* Pins the calling thread, and threads that it creates, to this CPU. -1 does nothing. */
void harness_pin(int cpu);

/* Waits for the other process, and ends with its status if that is not 0. Does nothing on side
 * 1. */
void harness_finish(const struct options *options);

/* Whether `name` is among the selected measurements. */
int harness_wants(const struct options *options, const char *name);

/* Nanoseconds of a monotonic clock. */
uint64_t now_ns(void);

/* Allocates memory for messages where the option --where says, such as "cuda", or "cuda,host" for
 * the two sides: page-aligned, with every page touched. On side 1 it is on the second GPU, if there
 * are several. */
unsigned char *buffer_create(size_t length);
void buffer_destroy(unsigned char *buffer);
void buffer_write(unsigned char *buffer, const void *bytes, size_t length);
void buffer_fill(unsigned char *buffer, unsigned char byte, size_t length);
/* Ends the program if a byte is another one. */
void buffer_check(const unsigned char *buffer, unsigned char byte, size_t length, const char *what);

/* Prints a line `key=value` of the report. Only side 0 prints. */
void report_text(const struct options *options, const char *key, const char *value);
void report_number(const struct options *options, const char *key, double value);
/* Sorts the samples, and reports their lower median, and the extremes as key_min and key_max. */
void report_samples(const struct options *options, const char *key, double *samples, size_t count);

/* Sorts the samples, and returns the value below which 99 of 100 are. */
double percentile_99(double *samples, size_t count);

/* Marks for strace(1), and for the allocation counter if it is preloaded. */
void mark_begin(void);
void mark_end(void);

/* Extracts the transports from the text that UCX prints about an endpoint:
 * "posix/memory,cma/memory". */
void transports_from_text(const char *text, char *out, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
