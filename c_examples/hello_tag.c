/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * hello_tag.c: two processes greet each other with tagged messages. Read this example first.
 *
 *     cc -o hello_tag hello_tag.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./hello_tag 0 hello.socket & ./hello_tag 1 hello.socket; wait
 *
 * Each process sends one message and prints the one that it received:
 *
 *     rank 1 received 32 bytes: hello from rank 0, process 25232
 *     rank 0 received 32 bytes: hello from rank 1, process 25233
 *
 * The objects that every program of this library has:
 *
 * - context: the library's use of UCX in this process, and its configuration
 * - worker: sends and receives, and keeps the queues for both; "progress" is the work that a worker
 *   has to do to move messages, and somebody must call for it
 * - worker address: some hundred bytes that tell another process how to reach a worker
 * - endpoint: a connection from a worker to one peer; sends go through it
 * - request: an operation that has not completed yet
 *
 * The other examples use pair.h, which does the same setup as main() here.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>

#include "exchange.h"
#include "give_up.h"

#define GREETING_TAG UINT64_C(42)
#define ALL_BITS UINT64_MAX
#define TIMEOUT_NS (30u * UINT64_C(1000000000))

/* Every function that can fail returns a status. ucxx_error_text() describes the last failure of
 * the calling thread. */
static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "hello_tag: %s: %s\n", what, ucxx_error_text(status));
  give_up();
}

/* An operation returns in one of three ways. UCXX_OK: it completed inside the call, and there is no
 * request. An error: it was not started. UCXX_INPROGRESS: it continues, and the request reports its
 * final status. The program must destroy that request. */
static void finish(ucxx_status_t status, ucxx_request_t *request, const char *what) {
  if (status == UCXX_INPROGRESS) {
    /* This worker makes progress only inside calls. Waiting is such a call. */
    status = ucxx_request_wait(request, TIMEOUT_NS);
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

  /* A structure of parameters begins as UCXX_..._INIT, which sets its size and all defaults. NULL
   * instead of a structure also means "all defaults". The features are what this program will use:
   * tagged messages, and waiting without polling. */
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  ucxx_context_t *context = NULL;
  check(ucxx_context_create(&context_params, &context), "context");
  ucxx_worker_t *worker = NULL;
  check(ucxx_worker_create(context, NULL, &worker), "worker");

  /* Each process sends its worker address to the other one, here through a Unix socket
   * (exchange.h). */
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

  /* An endpoint is made from the peer's address. No message is needed to make it. */
  ucxx_address_t *theirs = NULL;
  check(ucxx_address_from_bytes(bytes, length, &theirs), "the peer's address");
  free(bytes);
  ucxx_endpoint_t *endpoint = NULL;
  check(ucxx_endpoint_create(worker, theirs, NULL, &endpoint), "endpoint");
  ucxx_address_destroy(theirs);

  /* Post the receive before the send, so that the message is received directly into the buffer. A
   * tag receive takes the first message whose tag equals GREETING_TAG in the bits of the mask, here
   * all of them, from any peer. `source` does not restrict that. It ends the receive with an error
   * if this peer fails. */
  char heard[128];
  ucxx_recv_info_t info = {0};
  ucxx_op_params_t receive = UCXX_OP_PARAMS_INIT;
  receive.source = endpoint;
  receive.recv_info = &info;
  ucxx_request_t *receiving = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(worker, heard, sizeof heard - 1, GREETING_TAG, ALL_BITS, &receive, &receiving);

  /* The buffer must stay valid until the send completes. */
  char said[128];
  snprintf(said, sizeof said, "hello from rank %d, process %ld", rank, (long)getpid());
  ucxx_request_t *sending = NULL;
  ucxx_status_t sent = ucxx_tag_send(endpoint, said, strlen(said), GREETING_TAG, NULL, &sending);

  finish(sent, sending, "send");
  finish(received, receiving, "receive");
  heard[info.length] = '\0';
  printf("rank %d received %" PRIu64 " bytes: %s\n", rank, info.length, heard);

  /* A completed send means that the buffer is free, not that the message has arrived. The flush
   * waits until everything sent on the endpoint has arrived. The barrier waits until the peer is
   * also done. After both, each side can destroy its endpoint. */
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
