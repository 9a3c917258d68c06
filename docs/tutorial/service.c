/* service.c: a server that turns words into capitals, for any number of clients at a time.
 *
 *     ./service                  the server: prints its port, and ends when no client is left
 *     ./service PORT WORD ...    a client
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#define CAPITALS 1 /* the id of the service: client and server agree on it */
#define LONGEST 64

static void check(ucxx_status_t status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

struct server {
  int clients; /* connected now */
  int served; /* since the start */
};

/* A client has left, or has died. Its endpoint is destroyed here, in its last callback. */
static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  struct server *server = arg;
  server->clients--;
  printf("a client has left: %s\n", ucxx_status_name(status));
  ucxx_endpoint_destroy(endpoint);
}

static void on_connect(void *arg, ucxx_conn_request_t *request) {
  struct server *server = arg;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_endpoint_t *endpoint;
  params.on_close = on_close;
  params.on_close_arg = server;
  ucxx_status_t status = ucxx_endpoint_accept(request, &params, &endpoint);
  if (status == UCXX_OK) {
    server->clients++;
    server->served++;
  } else {
    fprintf(stderr, "accept: %s\n", ucxx_error_text(status)); /* the server goes on */
  }
  ucxx_conn_request_destroy(request);
}

/* The reply has been sent, or has failed: its buffer is free. */
static void on_replied(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  (void)status;
  free(arg);
}

static void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  size_t length;
  const char *word = ucxx_fetch_header(fetch, &length);
  char *reply = malloc(length + 1);
  (void)arg;
  if (reply == NULL) {
    ucxx_fetch_reject(fetch, UCXX_ERR_BUSY);
  } else {
    for (size_t at = 0; at < length; at++) reply[at] = (char)toupper((unsigned char)word[at]);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK; /* also if it completes inside the call */
    params.callback = on_replied;
    params.callback_arg = reply;
    if (ucxx_fetch_reply(fetch, reply, length, &params, NULL) < 0) free(reply);
  }
  ucxx_fetch_destroy(fetch);
}

static void serve(ucxx_worker_t *worker) {
  struct server server = {0, 0};
  ucxx_listener_params_t listen = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener;
  listen.on_connect = on_connect;
  listen.on_connect_arg = &server;
  check(ucxx_worker_set_fetch_handler(worker, CAPITALS, on_fetch, NULL, NULL), "handler");
  check(ucxx_listener_create(worker, &listen, &listener), "listener");
  printf("port %d\n", ucxx_listener_port(listener));
  fflush(stdout);
  /* All callbacks run inside this call, on this thread. */
  while (server.served == 0 || server.clients > 0) {
    check(ucxx_worker_wait(worker, UINT64_MAX), "wait");
    fflush(stdout);
  }
  ucxx_listener_destroy(listener);
}

static void ask(ucxx_worker_t *worker, uint16_t port, char **words, int count) {
  ucxx_endpoint_t *endpoint;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_recv_info_t info;
  check(ucxx_endpoint_connect(worker, "127.0.0.1", port, NULL, &endpoint), "connect");
  params.flags = UCXX_FLAG_WAIT;
  params.timeout_ns = 10000000000; /* ten seconds */
  params.recv_info = &info;
  for (int at = 0; at < count; at++) {
    char reply[LONGEST];
    check(ucxx_am_fetch(endpoint, CAPITALS, words[at], strlen(words[at]), reply, sizeof reply,
                        &params, NULL),
          words[at]);
    printf("%.*s\n", (int)info.length, reply);
  }
  ucxx_endpoint_destroy(endpoint);
}

int main(int argc, char **argv) {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_worker_create(context, NULL, &worker), "worker");
  if (argc < 2)
    serve(worker);
  else
    ask(worker, (uint16_t)atoi(argv[1]), argv + 2, argc - 2);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
