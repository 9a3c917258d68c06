/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * conversation.h: sends and receives of one message at a time, each waited for. client_server.c,
 * reconnect.c and others share it.
 *
 * A client has one endpoint, and a worker with a progress thread. The thread keeps the connection
 * alive while the client waits for its input.
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

/* For calls that do not fail on a healthy machine: prints the error, and ends the program. */
static inline void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "error: %s: %s\n", what, ucxx_error_text(status));
  give_up();
}

/* Waits for an operation, given what its call returned, and returns its final status. An error is
 * printed with the operation, the peer and the cause. */
static inline ucxx_status_t outcome(ucxx_status_t status, ucxx_request_t *request) {
  if (status < 0) fprintf(stderr, "error: %s\n", ucxx_error_text(status));
  if (status != UCXX_INPROGRESS) return status;
  status = ucxx_request_wait(request, TIMEOUT_NS);
  if (status == UCXX_INPROGRESS) {
    fprintf(stderr, "error: no answer for a minute\n");
    ucxx_request_cancel(request); /* after it the buffer may be used again */
    status = ucxx_request_wait(request, UINT64_MAX);
  } else if (status < 0) {
    fprintf(stderr, "error: %s\n", ucxx_request_error_message(request));
  }
  ucxx_request_destroy(request);
  return status;
}

/* Receives one message. */
static inline ucxx_status_t hear(ucxx_worker_t *worker, ucxx_endpoint_t *from, void *data,
                                 size_t capacity, uint64_t tag, ucxx_recv_info_t *info) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = from; /* the receive fails if the connection does */
  params.recv_info = info;
  ucxx_status_t status = ucxx_tag_recv(worker, data, capacity, tag, ALL_BITS, &params, &request);
  return outcome(status, request);
}

/* Sends one message. */
static inline ucxx_status_t say(ucxx_endpoint_t *to, const void *data, size_t length,
                                uint64_t tag) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_send(to, data, length, tag, NULL, &request);
  return outcome(status, request);
}

/* Waits until everything that was sent has arrived, and closes the endpoint. ucxx_endpoint_destroy
 * also waits, but does not return the outcome. */
static inline ucxx_status_t hang_up(ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = TIMEOUT_NS; /* without it, a peer that does not answer has one second */
  ucxx_status_t status = ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &params, &request);
  return outcome(status, request);
}

#endif
