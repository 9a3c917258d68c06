/* first.c: a message from one process to another, and an answer.
 *
 *     ./first            waits for a connection, and prints its port
 *     ./first PORT       connects to that port
 */
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

static void check(ucxx_status_t status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

/* Runs inside ucxx_worker_wait. The connection request is ours from here on. */
static void on_connect(void *arg, ucxx_conn_request_t *request) {
  *(ucxx_conn_request_t **)arg = request;
}

/* Runs once, when the connection has ended. */
static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  *(ucxx_status_t *)arg = status;
}

int main(int argc, char **argv) {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  ucxx_status_t end = UCXX_INPROGRESS;
  char text[32];

  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_worker_create(context, NULL, &worker), "worker");

  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = on_close;
  params.on_close_arg = &end;
  ucxx_op_params_t wait = UCXX_OP_PARAMS_INIT;
  wait.flags = UCXX_FLAG_WAIT; /* a call returns when its operation is complete */

  if (argc < 2) {
    ucxx_conn_request_t *request = NULL;
    ucxx_listener_params_t listen = UCXX_LISTENER_PARAMS_INIT; /* 127.0.0.1, any free port */
    ucxx_listener_t *listener;
    listen.on_connect = on_connect;
    listen.on_connect_arg = &request;
    check(ucxx_listener_create(worker, &listen, &listener), "listener");
    printf("port %d\n", ucxx_listener_port(listener));
    fflush(stdout);
    while (request == NULL) check(ucxx_worker_wait(worker, UINT64_MAX), "wait");
    check(ucxx_endpoint_accept(request, &params, &endpoint), "accept");
    ucxx_conn_request_destroy(request);
    ucxx_listener_destroy(listener);

    wait.source = endpoint; /* if this peer dies, the receive ends */
    check(ucxx_tag_recv(worker, text, sizeof text, 1, UINT64_MAX, &wait, NULL), "receive");
    printf("received: %s\n", text);
    check(ucxx_tag_send(endpoint, "pleased to meet you", 20, 2, &wait, NULL), "send");
    /* The client closes first. Until then this side makes progress. */
    while (end == UCXX_INPROGRESS) check(ucxx_worker_wait(worker, UINT64_MAX), "wait");
    printf("the client has closed: %s\n", ucxx_status_name(end));
  } else {
    uint16_t port = (uint16_t)atoi(argv[1]);
    check(ucxx_endpoint_connect(worker, "127.0.0.1", port, &params, &endpoint), "connect");
    wait.source = endpoint;
    check(ucxx_tag_send(endpoint, "hello", 6, 1, &wait, NULL), "send");
    check(ucxx_tag_recv(worker, text, sizeof text, 2, UINT64_MAX, &wait, NULL), "receive");
    printf("received: %s\n", text);
  }

  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
