/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * conversation.h: one message at a time, waited for. What the clients in client_server.c and
 * reconnect.c share.
 *
 * A client has one endpoint, and a worker with a progress thread, so that the connection stays
 * alive while it waits for its input.
 */
#ifndef EXAMPLES_CONVERSATION_H
#define EXAMPLES_CONVERSATION_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucxx_rs.h>

#include "give_up.h"

#define ALL_BITS UINT64_MAX
#define TIMEOUT_NS (60u * UINT64_C(1000000000))

/* For what does not fail on a healthy machine: says what did, and ends the program. */
static inline void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "error: %s: %s\n", what, ucxx_error_text(status));
  give_up();
}

/* The final status of an operation, given what its call returned. A failure is printed: operation,
 * peer and cause. */
static inline ucxx_status_t outcome(ucxx_status_t status, ucxx_request_t *request) {
  if (status < 0) fprintf(stderr, "error: %s\n", ucxx_error_text(status));
  if (status != UCXX_INPROGRESS) return status;
  status = ucxx_request_wait(request, TIMEOUT_NS);
  if (status == UCXX_INPROGRESS) {
    fprintf(stderr, "error: no answer for a minute\n");
    ucxx_request_cancel(request); /* gives the buffer back */
    status = ucxx_request_wait(request, UINT64_MAX);
  } else if (status < 0) {
    fprintf(stderr, "error: %s\n", ucxx_request_error_message(request));
  }
  ucxx_request_destroy(request);
  return status;
}

static inline ucxx_status_t hear(ucxx_worker_t *worker, ucxx_endpoint_t *from, void *data,
                                 size_t capacity, uint64_t tag, ucxx_recv_info_t *info) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = from; /* the receive ends with the connection */
  params.recv_info = info;
  ucxx_status_t status = ucxx_tag_recv(worker, data, capacity, tag, ALL_BITS, &params, &request);
  return outcome(status, request);
}

static inline ucxx_status_t say(ucxx_endpoint_t *to, const void *data, size_t length,
                                uint64_t tag) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_send(to, data, length, tag, NULL, &request);
  return outcome(status, request);
}

/* Waits until everything that was said has arrived. To destroy the endpoint would wait too, but not
 * tell the outcome. */
static inline ucxx_status_t hang_up(ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, NULL, &request);
  return outcome(status, request);
}

#endif
