/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * client_server.c: one server and many clients. The server rejects some clients, and some fail.
 *
 *     cc -o client_server client_server.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./client_server server MOST TOTAL
 *     ./client_server client PORT
 *
 * The server serves MOST clients at a time, and ends after TOTAL clients. It prints its port first.
 * The client sends the lines of its input, and prints the answers, which are the same lines in
 * capitals:
 *
 *     ./client_server server 4 1 &
 *     port 43301
 *     echo "good night" | ./client_server client 43301
 *     client 1 is at 127.0.0.1:39820
 *     GOOD NIGHT
 *     client 1 left after a goodbye: UCXX_ERR_CONNECTION_RESET
 *     accepted 1, rejected 0, finished 1, lost 0, answers 1
 *
 * The server sends a greeting with the client's number first. Then questions and answers alternate.
 * An empty question is the goodbye, and gets an answer like the others. The client's number is the
 * tag of its questions, because a tagged message does not tell the receiver which endpoint it came
 * from.
 */
#define _XOPEN_SOURCE 700
#include <ctype.h>

#include "conversation.h"

#define LONGEST 256
#define TAG_GREETING (UINT64_C(1) << 63)
#define TAG_ANSWER (UINT64_C(1) << 62)
#define EXIT_REJECTED 3

/* ---------------------------------------- server: one thread, everything in callbacks */

struct server {
  ucxx_worker_t *worker;
  unsigned most, present;
  /* Clients: accepted; rejected; closed after a goodbye; closed or failed without one. */
  unsigned accepted, rejected, finished, lost;
  uint64_t answers;
};

struct client {
  struct server *server;
  ucxx_endpoint_t *endpoint;
  uint64_t number;
  ucxx_recv_info_t info;
  char text[LONGEST];
  bool under_way; /* an operation is in progress; there is at most one */
  bool closed, finished;
};

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status);
static void on_question(void *arg, ucxx_request_t *request, ucxx_status_t status);

/* If an operation is refused or fails, the endpoint has failed or is about to. on_close reports the
 * reason, so nothing is done about it here. */
static void client_send(struct client *client, const void *data, size_t length, uint64_t tag) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_sent;
  params.callback_arg = client;
  client->under_way =
      ucxx_tag_send(client->endpoint, data, length, tag, &params, NULL) == UCXX_INPROGRESS;
}

static void client_receive(struct client *client) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_question;
  params.callback_arg = client;
  params.recv_info = &client->info;
  params.source = client->endpoint; /* the receive fails if the client does */
  client->under_way = ucxx_tag_recv(client->server->worker, client->text, sizeof client->text,
                                    client->number, ALL_BITS, &params, NULL) == UCXX_INPROGRESS;
}

/* Both the last completion and on_close call it, in either order. The second one frees the
 * client. */
static bool client_is_gone(struct client *client) {
  if (!client->closed || client->under_way) return false;
  client->server->present--;
  free(client);
  return true;
}

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct client *client = arg;
  (void)request;
  client->under_way = false;
  if (client_is_gone(client) || status != UCXX_OK) return;
  client_receive(client);
}

static void on_question(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct client *client = arg;
  (void)request;
  client->under_way = false;
  if (client_is_gone(client)) return;
  if (status == UCXX_ERR_MESSAGE_TRUNCATED) {
    fprintf(stderr, "client %" PRIu64 " asks too long a question\n", client->number);
    ucxx_endpoint_close(client->endpoint, UCXX_CLOSE_FORCE, NULL, NULL);
    return;
  }
  if (status != UCXX_OK) return;
  client->finished = client->info.length == 0;
  for (size_t i = 0; i < client->info.length; i++)
    client->text[i] = (char)toupper((unsigned char)client->text[i]);
  if (!client->finished) client->server->answers++;
  client_send(client, client->text, client->info.length, TAG_ANSWER);
}

/* The library calls it once for each accepted client, after a close and after a failure. */
static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  struct client *client = arg;
  const char *how = status == UCXX_ERR_CONNECTION_RESET ? "left"
                    : status == UCXX_ERR_PEER_FAILED    ? "died"
                                                        : "was sent away";
  printf("client %" PRIu64 " %s %s: %s\n", client->number, how,
         client->finished ? "after a goodbye" : "without a goodbye", ucxx_status_name(status));
  if (client->finished)
    client->server->finished++;
  else
    client->server->lost++;
  /* Inside a callback this takes effect after the callback returns. */
  ucxx_endpoint_destroy(endpoint);
  client->closed = true;
  client_is_gone(client);
}

/* A client wants to connect. A program may also accept or reject it later, and from another
 * thread. */
static void on_connect(void *arg, ucxx_conn_request_t *conn_request) {
  struct server *server = arg;
  char address[64];
  check(ucxx_conn_request_address(conn_request, address, sizeof address), "address of a client");
  struct client *client = server->present < server->most ? calloc(1, sizeof *client) : NULL;
  if (client == NULL) {
    printf("the client at %s is turned away: there are %u already\n", address, server->present);
    server->rejected++;
    check(ucxx_conn_request_reject(conn_request), "reject");
    ucxx_conn_request_destroy(conn_request);
    return;
  }
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = on_close;
  params.on_close_arg = client;
  client->server = server;
  ucxx_status_t status = ucxx_endpoint_accept(conn_request, &params, &client->endpoint);
  ucxx_conn_request_destroy(conn_request);
  /* The client is gone already, for example because it was killed while it connected. */
  if (status != UCXX_OK) {
    printf("the client at %s could not be let in: %s\n", address, ucxx_error_text(status));
    server->rejected++;
    free(client);
    return;
  }
  server->present++;
  client->number = ++server->accepted;
  printf("client %" PRIu64 " is at %s\n", client->number, address);
  client_send(client, &client->number, sizeof client->number, TAG_GREETING);
}

static int serve(ucxx_context_t *context, unsigned most, unsigned total) {
  struct server server = {.most = most};
  ucxx_listener_t *listener = NULL;
  /* The defaults: 127.0.0.1, and any free port. */
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = on_connect;
  params.on_connect_arg = &server;
  check(ucxx_worker_create(context, NULL, &server.worker), "worker");
  check(ucxx_listener_create(server.worker, &params, &listener), "listener");
  printf("port %u\n", ucxx_listener_port(listener));

  while (server.present > 0 || server.accepted + server.rejected < total) {
    ucxx_status_t status = ucxx_worker_wait(server.worker, TIMEOUT_NS);
    if (status != UCXX_ERR_TIMED_OUT) check(status, "wait");
  }
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(server.worker);
  printf("accepted %u, rejected %u, finished %u, lost %u, answers %" PRIu64 "\n", server.accepted,
         server.rejected, server.finished, server.lost, server.answers);
  return server.finished + server.lost == server.accepted ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---------------------------------------- client: blocking calls, with a progress thread */

static void on_server_gone(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  if (status != UCXX_OK)
    fprintf(stderr, "the connection has ended: %s, %s\n", ucxx_status_name(status),
            ucxx_status_string(status));
}

static int converse(ucxx_worker_t *worker, ucxx_endpoint_t *endpoint) {
  char text[LONGEST + 1];
  uint64_t number = 0;
  ucxx_recv_info_t info;
  ucxx_status_t status = hear(worker, endpoint, &number, sizeof number, TAG_GREETING, &info);
  if (status == UCXX_ERR_REJECTED) return EXIT_REJECTED;
  while (status == UCXX_OK && fgets(text, sizeof text, stdin) != NULL) {
    status = say(endpoint, text, strlen(text), number);
    if (status == UCXX_OK)
      status = hear(worker, endpoint, text, sizeof text - 1, TAG_ANSWER, &info);
    if (status == UCXX_OK) printf("%.*s", (int)info.length, text);
  }
  if (status == UCXX_OK) status = say(endpoint, NULL, 0, number);
  if (status == UCXX_OK) status = hear(worker, endpoint, NULL, 0, TAG_ANSWER, &info);
  if (status == UCXX_OK) status = hang_up(endpoint);
  return status == UCXX_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int be_client(ucxx_context_t *context, uint16_t port) {
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  /* A thread of the library makes progress. It polls while there is traffic, and sleeps
   * otherwise. */
  worker_params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  check(ucxx_worker_create(context, &worker_params, &worker), "worker");

  ucxx_endpoint_t *endpoint = NULL;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.connect_timeout_ns = TIMEOUT_NS;
  params.on_close = on_server_gone;
  check(ucxx_endpoint_connect(worker, "127.0.0.1", port, &params, &endpoint), "connect");
  int result = converse(worker, endpoint);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  return result;
}

int main(int argc, char **argv) {
  bool is_server = argc == 4 && strcmp(argv[1], "server") == 0;
  if (!is_server && !(argc == 3 && strcmp(argv[1], "client") == 0)) {
    fprintf(stderr, "usage: %s server MOST TOTAL | client PORT\n", argv[0]);
    return 2;
  }
  /* Print each line at once, also into a pipe. */
  setvbuf(stdout, NULL, _IOLBF, 0);
  ucxx_context_t *context = NULL;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  check(ucxx_context_create(&params, &context), "context");
  int result = is_server ? serve(context, (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]))
                         : be_client(context, (uint16_t)atoi(argv[2]));
  ucxx_context_destroy(context);
  return result;
}
