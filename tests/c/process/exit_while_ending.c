/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A program exits while a thread of the library ends a worker. UCX's exit handlers come after that.
 */
#include "test_util.h"
#include <stdatomic.h>
#include <unistd.h>

static atomic_int has_ended;
static uint64_t returned;

/* The last that the library calls at the end of a worker. */
static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg, (void)endpoint, (void)status;
  atomic_store(&has_ended, 1);
}

/* Registered first, so it runs after the library's, which waits for three seconds at most. */
static void at_exit(void) {
  if (!atomic_load(&has_ended) && clock_ns() - returned < 3 * SECOND) {
    fprintf(stderr, "the process ends before its worker\n");
    _exit(1);
  }
}

int main(void) {
  CHECK_EQ(atexit(at_exit), 0);
  test_begin("exit_while_ending");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL, *peer = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_worker_create(context, NULL, &peer));
  /* The peer makes no progress, and the end of the worker waits for it for some time. */
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = on_close;
  connect_workers_as(worker, peer, &params);
  for (int pass = 0; pass < 10; pass++) progress(worker);
  CHECK_OK(ucxx_worker_destroy_nb(worker, NULL, NULL));
  returned = clock_ns();
  return 0;
}
