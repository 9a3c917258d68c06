/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_session.h: one side of a measurement: context, worker, endpoint to the other side, and what
 * all waits share: patience.
 */
#ifndef TOOLS_PERF_SESSION_H
#define TOOLS_PERF_SESSION_H

#include <semaphore.h>
#include <stdatomic.h>
#include <ucxx_rs.h>

#include "oob.h"
#include "perf_config.h"
#include "stop.h"

/* Frames of the out-of-band connection. */
enum { FRAME_HELLO = 1, FRAME_SETUP, FRAME_ADDRESS, FRAME_ROUND, FRAME_GO, FRAME_END, FRAME_BYE };

struct session {
  const struct config *config;
  struct drive drive; /* nothing left at "not told" */
  struct oob *oob;
  struct failure *failure;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  ucxx_notifier_t *notifier;
  bool manual, submits_delayed;
  /* Where a callback of the progress thread wakes this thread. */
  sem_t wakeup;
  atomic_int sleeping;
  uint64_t waiting_since_ns, looked_ns;
};

void session_init(struct session *session, const struct config *config, const struct drive *drive,
                  struct oob *oob, struct failure *failure);
int session_open(struct session *session, uint64_t features);
/* Swaps addresses and connects: when it returns, the other side is connected, too. */
int session_connect(struct session *session);
/* Flushes, and lets go in step with the other side. */
int session_finish(struct session *session);
void session_close(struct session *session);

/* How its operations reach UCX: "direct" or "delayed". */
const char *submission_name(const struct session *session);

/* For the failure of a call on the library. */
/* The peer has closed its endpoint, or ended: `status` is what an operation or the endpoint says.
 */
bool session_peer_left(const struct session *session, ucxx_status_t status);
int session_fail(struct session *session, const char *what, ucxx_status_t status);

/* A wait calls `begin` once it has to wait, and `go_on` now and then: -1 when the user, the other
 * side, or the clock ends it. */
void patience_begin(struct session *session);
int patience_go_on(struct session *session);

#endif
