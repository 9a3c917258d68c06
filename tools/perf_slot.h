/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_slot.h: one operation in flight, and the four ways to wait for it.
 */
#ifndef TOOLS_PERF_SLOT_H
#define TOOLS_PERF_SLOT_H

#include "perf_session.h"

struct slot {
  struct session *session;
  void *buffer;
  ucxx_op_params_t params;
  ucxx_request_t *request; /* with WAIT_POLL and WAIT_REQUEST, while in flight */
  ucxx_status_t status;
  atomic_int done;
};

void slot_init(struct slot *slot, struct session *session, void *buffer);
int slot_send(struct slot *slot, size_t length, uint64_t tag);
int slot_receive(struct slot *slot, size_t length, uint64_t tag);
/* Waits until the slot's operation has completed. Returns 0 at once if none is in flight. */
int slot_wait(struct slot *slot);

#endif
