/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_slot.h: one operation in flight, and the four ways to wait for it.
 */
#ifndef TOOLS_PERF_SLOT_H
#define TOOLS_PERF_SLOT_H

#include "perf_session.h"

struct bench;

struct slot {
  struct session *session;
  struct bench *bench;
  void *buffer;
  size_t index; /* of this slot among those of the bench */
  ucxx_op_params_t params;
  ucxx_request_t *request; /* while in flight, if there is one */
  ucxx_status_t status;
  atomic_int done;
  /* The operation in flight: */
  size_t length;
  uint64_t message; /* number of the message in its round */
  uint32_t endpoint; /* number of the endpoint */
  /* Set by the function that submits it, if a request does not report its end: */
  bool by_event; /* slot_complete does */
  ucxx_status_t (*look)(struct slot *slot); /* this function does */
  int (*finish)(struct slot *slot); /* runs after a success, in slot_wait */
};

/* Starts the operation of a slot. With a `request` of NULL it must not make one. */
typedef ucxx_status_t (*submit_t)(struct slot *slot, ucxx_request_t **request);

void slot_init(struct slot *slot, struct bench *bench, void *buffer, size_t index, int memory_type);
int slot_submit(struct slot *slot, submit_t submit, size_t length, uint64_t message,
                const char *what);
/* Reports the end of an operation, on any thread. */
void slot_complete(struct slot *slot, ucxx_status_t status);
/* Waits until the slot's operation has completed. Returns 0 at once if none is in flight. */
int slot_wait(struct slot *slot);

static inline ucxx_endpoint_t *slot_endpoint(const struct slot *slot) {
  return slot->session->endpoints[slot->endpoint];
}

/* How long a call of the library that waits may wait in one go. */
uint64_t slot_patience_ns(const struct session *session);
/* The callback of slot_complete, for operations whose callback is not that of the slot. */
void slot_callback(void *arg, ucxx_request_t *request, ucxx_status_t status);

#endif
