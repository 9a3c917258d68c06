/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A link is one worker and its endpoint to the other side. Each implementation defines the same
 * inline functions, so that a program compiles into the direct calls that its author would write:
 *
 *   LINK_NAME                            the name of the implementation in the report
 *   struct link, struct operation        an operation is used again for one receive or send after
 *                                        another
 *   link_version(text, capacity)         the version of the loaded UCX
 *   link_open(link, options)             context and worker; the calling thread makes progress
 *                                        unless the options name a thread
 *   link_address(link, &length)          the worker's address, valid until the link is closed
 *   link_connect(link, bytes, length)    the endpoint to the worker with that address
 *   link_recv(link, buffer, length, tag, operation)
 *   link_send(link, buffer, length, tag, operation)
 *   link_progress(link)
 *   link_done(operation)                 1 if the operation has succeeded; then it also frees what
 *                                        the operation held
 *   link_advance(link)                   what a thread does while it waits: link_progress, or let
 *                                        the progress thread run
 *   link_transports(link, text, capacity)
 *   link_close(link)
 *
 * A program that defines LINK_STREAM sends and receives on streams, in the order of its calls, and
 * tags have no meaning. A program with progress threads includes link_threaded.h instead.
 *
 * Every failure ends the program. All implementations declare buffers as host memory, so that UCX
 * need not detect it. With LINK_DETECT they do not: then --where may put them elsewhere. */
#ifndef BENCH_LINK_H
#define BENCH_LINK_H

#include <sched.h>
#include <stdlib.h>

#include "harness.h"

#ifdef LINK_DETECT
#define LINK_UCP_MEMORY UCS_MEMORY_TYPE_UNKNOWN
#define LINK_MEMORY UCXX_MEMORY_AUTO
#define LINK_COPY(buffer, data, length) buffer_write(buffer, data, length)
#else
#define LINK_UCP_MEMORY UCS_MEMORY_TYPE_HOST
#define LINK_MEMORY UCXX_MEMORY_HOST
#define LINK_COPY(buffer, data, length) memcpy(buffer, data, length)
#endif

/* Set to use active messages: see link_am.h. */
#ifndef LINK_AM
#define LINK_AM 0
#endif

/* Set to access memory of the other side: see link_rma.h. */
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
/* This library uses active messages too. Request them everywhere, so that UCX opens the same
 * transports. */
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

/* Makes progress until the other side is here too, because the other side may still need it. */
static inline void link_meet(struct link *link, const struct options *options) {
  harness_signal(options);
  while (!harness_signalled(options)) link_advance(link);
}

/* Reports the implementation and the version of UCX. */
static inline void link_report_version(const struct options *options) {
  char text[512];
  report_text(options, "implementation", LINK_NAME);
  link_version(text, sizeof text);
  report_text(options, "ucx", text);
}

/* Reports the same, and the transports. */
static inline void link_report(struct link *link, const struct options *options) {
  char text[512];
  link_report_version(options);
  link_transports(link, text, sizeof text);
  report_text(options, "transports", text);
}

/* Opens a link to the other process, sends one message in each direction to connect the transports,
 * and reports what the link uses. */
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
