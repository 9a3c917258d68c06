/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * hello_tag.c: two processes greet each other with tagged messages.
 *
 *     hello_tag 0 hello.socket &
 *     hello_tag 1 hello.socket
 *
 * The program shows all that a transfer needs: a context (UCX as a whole), a worker (the place
 * where progress is made), the peer's worker address, an endpoint (the way to that peer), a send, a
 * receive, and the orderly end. The other examples leave the setting up to pair.h, which does the
 * same as main() here.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>

#include "exchange.h"
#include "give_up.h"

#define GREETING_TAG UINT64_C(42)
#define ALL_BITS UINT64_MAX
#define TIMEOUT_NS (30u * UINT64_C(1000000000))

/* Every function that can fail returns a status; the detail is kept for the calling thread. */
static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "hello_tag: %s: %s\n", what, ucxx_error_text(status));
  give_up();
}

/* An operation has three outcomes: done inside the call (no request was made), refused (neither),
 * or in progress: then there is a request, which tells the final status and must be destroyed. */
static void finish(ucxx_status_t status, ucxx_request_t *request, const char *what) {
  if (status == UCXX_INPROGRESS) {
    status = ucxx_request_wait(
        request, TIMEOUT_NS); /* progress is manual here: waiting also makes progress */
    if (status < 0) fprintf(stderr, "hello_tag: %s\n", ucxx_request_error_message(request));
    ucxx_request_destroy(request);
  }
  check(status, what);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s 0|1 SOCKET_PATH\n", argv[0]);
    return 2;
  }
  int rank = atoi(argv[1]);

  /* A zeroed structure with its size set means "all defaults"; so does NULL for the whole
   * structure. */
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  ucxx_context_t *context = NULL;
  check(ucxx_context_create(&context_params, &context), "context");
  ucxx_worker_t *worker = NULL;
  check(ucxx_worker_create(context, NULL, &worker), "worker");

  /* Our address goes out, the peer's comes in. */
  ucxx_address_t *mine = NULL;
  check(ucxx_worker_address(worker, &mine), "worker address");
  struct exchange exchange;
  void *bytes = NULL;
  size_t length = 0;
  if (exchange_open(&exchange, rank == 0, argv[2]) != 0) return EXIT_FAILURE;
  if (exchange_swap(&exchange, ucxx_address_data(mine), ucxx_address_length(mine), &bytes,
                    &length) != 0)
    return EXIT_FAILURE;
  ucxx_address_destroy(mine);

  ucxx_address_t *theirs = NULL;
  check(ucxx_address_from_bytes(bytes, length, &theirs), "the peer's address");
  free(bytes);
  ucxx_endpoint_t *endpoint = NULL;
  check(ucxx_endpoint_create(worker, theirs, NULL, &endpoint), "endpoint");
  ucxx_address_destroy(theirs);

  /* The receive is posted before the send: whatever arrives goes straight into the buffer. Tag
   * receives match messages from any peer; `source` does not narrow that, but ends the receive if
   * this peer dies. */
  char heard[128];
  ucxx_recv_info_t info = {0};
  ucxx_op_params_t receive = UCXX_OP_PARAMS_INIT;
  receive.source = endpoint;
  receive.recv_info = &info;
  ucxx_request_t *receiving = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(worker, heard, sizeof heard - 1, GREETING_TAG, ALL_BITS, &receive, &receiving);

  char said[128];
  snprintf(said, sizeof said, "hello from rank %d, process %ld", rank, (long)getpid());
  ucxx_request_t *sending = NULL;
  ucxx_status_t sent = ucxx_tag_send(endpoint, said, strlen(said), GREETING_TAG, NULL, &sending);

  finish(sent, sending, "send");
  finish(received, receiving, "receive");
  heard[info.length] = '\0';
  printf("rank %d received %" PRIu64 " bytes: %s\n", rank, info.length, heard);

  /* A send that is complete may still be under way: the flush waits for it, the barrier for the
   * peer. */
  ucxx_request_t *flushing = NULL;
  ucxx_status_t flushed = ucxx_endpoint_flush(endpoint, NULL, &flushing);
  finish(flushed, flushing, "flush");
  if (exchange_barrier(&exchange, worker, TIMEOUT_NS) != 0) return EXIT_FAILURE;

  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  exchange_close(&exchange);
  return EXIT_SUCCESS;
}
