/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * pair.h: the setup and shutdown that the examples with two processes share. hello_tag.c explains
 * each step.
 *
 * An example ends at its first error: check() prints the error and ends the program. send_files.c
 * shows error handling for a program that has something to clean up.
 */
#ifndef EXAMPLES_PAIR_H
#define EXAMPLES_PAIR_H

#include "exchange.h"
#include "give_up.h"

#define PAIR_TIMEOUT_NS (60u * UINT64_C(1000000000))
#define PAIR_ALL_BITS UINT64_MAX

struct pair {
  int rank;
  struct exchange exchange;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
};

static inline void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "error: %s: %s\n", what, ucxx_error_text(status));
  give_up();
}

/* For use in a callback. ucxx_error_text() describes failures of calls, and this is the failure
 * of an operation, so its text is in the request. The request is NULL if the program did not
 * keep one. */
static inline void check_completion(const ucxx_request_t *request, ucxx_status_t status,
                                    const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "error: %s: %s (%s)\n", what, ucxx_status_name(status),
          request == NULL ? "" : ucxx_request_error_message(request));
  give_up();
}

static inline void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "error: expected otherwise: %s\n", what);
  give_up();
}

/* Waits for an operation, given what its call returned, and returns its final status. */
static inline ucxx_status_t outcome(ucxx_status_t status, ucxx_request_t *request) {
  if (status != UCXX_INPROGRESS) return status;
  status = ucxx_request_wait(request, PAIR_TIMEOUT_NS);
  ucxx_request_destroy(request);
  return status;
}

/* Makes the context, the worker and the endpoint to the other process. */
static inline void pair_open_for(struct pair *pair, int argc, char **argv, uint64_t features,
                                 const ucxx_worker_params_t *worker_params,
                                 const ucxx_endpoint_params_t *endpoint_params) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s 0|1 SOCKET_PATH\n", argv[0]);
    exit(2);
  }
  pair->rank = atoi(argv[1]);

  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = features;
  check(ucxx_context_create(&params, &pair->context), "context");
  check(ucxx_worker_create(pair->context, worker_params, &pair->worker), "worker");

  ucxx_address_t *mine = NULL, *theirs = NULL;
  void *bytes = NULL;
  size_t length = 0;
  check(ucxx_worker_address(pair->worker, &mine), "worker address");
  if (exchange_open(&pair->exchange, pair->rank == 0, argv[2]) != 0) give_up();
  if (exchange_swap(&pair->exchange, ucxx_address_data(mine), ucxx_address_length(mine), &bytes,
                    &length) != 0)
    give_up();
  check(ucxx_address_from_bytes(bytes, length, &theirs), "the peer's address");
  free(bytes);
  check(ucxx_endpoint_create(pair->worker, theirs, endpoint_params, &pair->endpoint), "endpoint");
  ucxx_address_destroy(theirs);
  ucxx_address_destroy(mine);
}

static inline void pair_open_with(struct pair *pair, int argc, char **argv,
                                  const ucxx_worker_params_t *worker_params,
                                  const ucxx_endpoint_params_t *endpoint_params) {
  pair_open_for(pair, argc, argv, UCXX_FEATURE_TAG | UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP,
                worker_params, endpoint_params);
}

static inline void pair_open(struct pair *pair, int argc, char **argv) {
  pair_open_with(pair, argc, argv, NULL, NULL);
}

/* Call it after everything that was expected from the peer has arrived. */
static inline void pair_close(struct pair *pair) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_endpoint_flush(pair->endpoint, NULL, &request);
  check(outcome(status, request), "flush");
  if (exchange_barrier(&pair->exchange, pair->worker, PAIR_TIMEOUT_NS) != 0) give_up();
  ucxx_endpoint_destroy(pair->endpoint);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
  exchange_close(&pair->exchange);
}

#endif
