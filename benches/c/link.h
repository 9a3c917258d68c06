/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A link is one worker and its endpoint to the other side, as the benchmark programs see it. Each
 * implementation gives the same functions, inline, so that a program compiles into the direct calls
 * its author would have written:
 *
 *   LINK_NAME                            what the implementation is called in the report
 *   struct link, struct operation        `struct operation` is reused for one receive or send after
 * another link_version(text, capacity)         version of the UCX that is loaded link_open(link,
 * options)             context and worker; progress by the calling thread unless the options name a
 * thread link_address(link, &length)          the worker's address, valid until the link is closed
 *   link_connect(link, bytes, length)    endpoint to the worker with that address
 *   link_recv(link, buffer, length, tag, operation)
 *   link_send(link, buffer, length, tag, operation)
 *   link_progress(link)
 *   link_done(operation)                 1 when the operation has ended well; what it held is then
 * given back link_advance(link)                   what a thread does while it waits: link_progress,
 * or let the progress thread run link_transports(link, text, capacity) link_close(link)
 *
 * A program that defines LINK_STREAM sends and receives on streams, in the order of its calls, and
 * tags mean nothing. A program with progress threads includes link_threaded.h in its place.
 *
 * Every failure ends the program. All say that buffers are host memory, which saves its detection.
 */
#ifndef BENCH_LINK_H
#define BENCH_LINK_H

#include <sched.h>
#include <stdlib.h>

#include "harness.h"

/* Active messages are wanted, too: see link_am.h. */
#ifndef LINK_AM
#define LINK_AM 0
#endif

/* Memory of the other side is touched, too: see link_rma.h. */
#ifndef LINK_RMA
#define LINK_RMA 0
#endif

/* Plain UCP has a thread only while nothing is submitted: see threaded_raw.h. */
#if defined(LINK_THREADED) && !defined(LINK_RAW)
#define link_advance(link) ((void)(link), (void)sched_yield())
#else
#define link_advance(link) link_progress(link)
#endif

#ifdef LINK_STREAM
/* Ours uses active messages, which makes UCX open the same transports to both. */
#define LINK_FEATURE(library) (library##_FEATURE_STREAM | library##_FEATURE_AM)
#else
#define LINK_FEATURE(library) library##_FEATURE_TAG
#endif

#if defined(LINK_RAW)
#include "link_raw.h"
#elif defined(LINK_UCXX_RS)
#include "link_ucxx_rs.h"
#elif defined(LINK_UCXX)
#include "link_ucxx.h"
#else
#error "define LINK_RAW, LINK_UCXX_RS or LINK_UCXX"
#endif

static inline void link_finish(struct link *link, struct operation *operation) {
  while (!link_done(operation)) link_advance(link);
}

/* Goes on progressing until the other side is here too: the other side may still need this side's
 * progress. */
static inline void link_meet(struct link *link, const struct options *options) {
  harness_signal(options);
  while (!harness_signalled(options)) link_advance(link);
}

/* Which implementation it is, on which UCX. */
static inline void link_report_version(const struct options *options) {
  char text[512];
  report_text(options, "implementation", LINK_NAME);
  link_version(text, sizeof text);
  report_text(options, "ucx", text);
}

/* The same, and over what. */
static inline void link_report(struct link *link, const struct options *options) {
  char text[512];
  link_report_version(options);
  link_transports(link, text, sizeof text);
  report_text(options, "transports", text);
}

/* Opens a link to the other process, sends one message each way so that the transports are wired
 * up, and reports what the link is made of. */
static inline void link_establish(struct link *link, const struct options *options) {
  static uint64_t sent, received;
  static struct operation send_operation, recv_operation;
  size_t length, other_length;
  link_open(link, options);
  const void *mine = link_address(link, &length);
  void *other = harness_exchange(options, mine, length, &other_length);
  link_connect(link, other, other_length);
  free(other);
  link_recv(link, &received, sizeof received, 99, &recv_operation);
  link_send(link, &sent, sizeof sent, 99, &send_operation);
  link_finish(link, &send_operation);
  link_finish(link, &recv_operation);
  link_meet(link, options);
  link_report(link, options);
}

#endif
