/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_session.h: one side of a measurement: context, worker and endpoint to the other side, and
 * the limits that all waits share.
 */
#ifndef TOOLS_PERF_SESSION_H
#define TOOLS_PERF_SESSION_H

#include <semaphore.h>
#include <stdatomic.h>
#include <ucxx_rs.h>

#include "oob.h"
#include "perf_config.h"
#include "stop.h"

/* Frame types of the out-of-band connection. */
enum {
  FRAME_HELLO = 1,
  FRAME_SETUP,
  FRAME_ADDRESS,
  FRAME_ROUND,
  FRAME_GO,
  FRAME_END,
  FRAME_BYE,
  FRAME_KEY,
  FRAME_GATHER,
  FRAME_COST,
  FRAME_LEAVE
};

struct session {
  const struct config *config;
  struct drive drive; /* no value is "not given" */
  struct oob *oob;
  struct failure *failure;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  /* Several of them go to the same worker of the other side. */
  ucxx_endpoint_t *endpoints[MAX_ENDPOINTS];
  uint32_t endpoint_count;
  ucxx_group_t *group; /* made when a test needs it */
  ucxx_notifier_t *notifier;
  bool manual, submits_delayed;
  /* A callback on the progress thread wakes this thread through it. */
  sem_t wakeup;
  atomic_int sleeping;
  uint64_t waiting_since_ns, looked_ns;
};

void session_init(struct session *session, const struct config *config, const struct drive *drive,
                  struct oob *oob, struct failure *failure);
int session_create_context(struct session *session, uint64_t features);
/* After session_create_context, whatever that returned. */
int session_open(struct session *session);
/* Exchanges addresses and connects. When it returns, the other side is connected too. */
int session_connect(struct session *session);
/* Makes a group of the two sides: the client is rank 0. */
int session_group(struct session *session);
/* Waits until the other side has called it with the same frame. */
int session_meet(struct session *session, uint32_t frame);
/* Flushes, and waits until the other side has done so. */
int session_finish(struct session *session);
void session_close(struct session *session);

/* How operations reach UCX: "direct" or "delayed". */
const char *submission_name(const struct session *session);

/* True if the peer has closed its endpoint or ended. `status` is that of an operation, of a call or
 * of the endpoint. */
bool session_peer_left(const struct session *session, ucxx_status_t status);
/* Fails with the error of a call of the library. */
int session_fail(struct session *session, const char *what, ucxx_status_t status);

/* A wait calls `begin` when it has to wait, and `go_on` repeatedly. That returns -1 if the user,
 * the other side or the time limit ends the wait. */
void patience_begin(struct session *session);
int patience_go_on(struct session *session);

#endif
