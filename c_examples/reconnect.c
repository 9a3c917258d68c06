/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * reconnect.c: how a program continues after a failure of its peer.
 *
 *     cc -o reconnect reconnect.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./reconnect server PORT FILE
 *     ./reconnect client PORT
 *
 * The server appends the records that it receives to FILE. It prints its port (a PORT of 0 is any
 * free one), and ends after a goodbye. The client sends the lines of its input as records, and
 * continues after failures of the server:
 *
 *     ./reconnect server 0 records &
 *     port 38285
 *     seq 1 100 | ./reconnect client 38285
 *     connected: the server has 0 of 0 records
 *     100 records are stored
 *
 * A failed endpoint stays failed: a program creates a new one. A completed send may still be lost,
 * so these two programs agree on more:
 *
 * - records are numbered, and the client keeps each until the server confirms that it is stored
 * - the server begins a connection with the number of the last record that it has stored, and the
 *   client continues from there
 * - a record that arrives again is confirmed, but not stored again
 *
 * So each record is stored once, in order, although either process may be killed at any moment.
 */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "conversation.h"

#define LONGEST 256
#define WINDOW 64 /* records that are sent and not confirmed */
#define TAG_GREETING (UINT64_C(1) << 63)
#define TAG_CONFIRMATION (UINT64_C(1) << 62)
#define FIRST_PAUSE_MS 20
#define LONGEST_PAUSE_MS 1000
#define ATTEMPTS 60

struct record {
  uint64_t number;
  char text[LONGEST]; /* an empty one is the goodbye */
};

struct greeting {
  uint64_t connection; /* the tag of its records */
  uint64_t have; /* the last stored record */
};

/* ------------------------------------------------------------------ client */

struct upload {
  ucxx_context_t *context;
  uint16_t port;
  /* Record n is at n % WINDOW, until it is confirmed. */
  struct record kept[WINDOW];
  uint64_t read, confirmed;
  bool all_read;
};

/* Each connection has a worker of its own, so that a late message of the last connection cannot be
 * taken for an answer of this one. */
struct connection {
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
  uint64_t tag;
};

/* Prints the reason. The operations in progress also fail, each with its status. */
static void on_server_gone(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  if (status != UCXX_OK)
    fprintf(stderr, "the connection has ended: %s, %s\n", ucxx_status_name(status),
            ucxx_status_string(status));
}

static bool open_connection(struct connection *connection, struct upload *upload) {
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  worker_params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  check(ucxx_worker_create(upload->context, &worker_params, &connection->worker), "worker");
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.connect_timeout_ns = UINT64_C(10000000000);
  params.on_close = on_server_gone;
  check(ucxx_endpoint_connect(connection->worker, "127.0.0.1", upload->port, &params,
                              &connection->endpoint),
        "connect");

  struct greeting greeting = {0, 0};
  ucxx_recv_info_t info;
  if (hear(connection->worker, connection->endpoint, &greeting, sizeof greeting, TAG_GREETING,
           &info) != UCXX_OK)
    return false;
  if (greeting.have < upload->confirmed || greeting.have > upload->read) {
    fprintf(stderr, "error: the server has %" PRIu64 " records, and not those it confirmed\n",
            greeting.have);
    give_up();
  }
  printf("connected: the server has %" PRIu64 " of %" PRIu64 " records\n", greeting.have,
         upload->read);
  upload->confirmed = greeting.have;
  connection->tag = greeting.connection;
  return true;
}

static void close_connection(struct connection *connection) {
  ucxx_endpoint_destroy(connection->endpoint);
  ucxx_worker_destroy(connection->worker);
}

static void read_record(struct upload *upload) {
  struct record *record = &upload->kept[(upload->read + 1) % WINDOW];
  if (fgets(record->text, sizeof record->text, stdin) == NULL) {
    upload->all_read = true;
  } else {
    record->number = ++upload->read;
  }
}

static bool send_record(const struct connection *connection, const struct record *record) {
  size_t length = offsetof(struct record, text) + strlen(record->text);
  return say(connection->endpoint, record, length, connection->tag) == UCXX_OK;
}

static bool hear_confirmation(const struct connection *connection, struct upload *upload) {
  ucxx_recv_info_t info;
  uint64_t have = 0;
  if (hear(connection->worker, connection->endpoint, &have, sizeof have, TAG_CONFIRMATION, &info) !=
      UCXX_OK)
    return false;
  if (have > upload->confirmed && have <= upload->read) upload->confirmed = have;
  return true;
}

/* Returns true when the server has everything, and false if the connection was lost. */
static bool go_on(const struct connection *connection, struct upload *upload) {
  uint64_t sent = upload->confirmed;
  while (!upload->all_read || upload->confirmed < upload->read) {
    if (sent < upload->read) {
      sent++;
      if (!send_record(connection, &upload->kept[sent % WINDOW])) return false;
    } else if (!upload->all_read && upload->read - upload->confirmed < WINDOW) {
      read_record(upload);
    } else if (!hear_confirmation(connection, upload)) {
      return false;
    }
  }
  const struct record goodbye = {upload->read + 1, ""};
  return send_record(connection, &goodbye) && hear_confirmation(connection, upload) &&
         hang_up(connection->endpoint) == UCXX_OK;
}

/* A random pause, so that a thousand clients do not reconnect at the same moment. */
static void pause_for(unsigned milliseconds) {
  unsigned some = milliseconds / 2 + (unsigned)rand() % (milliseconds / 2 + 1);
  const struct timespec pause = {some / 1000, some % 1000 * 1000000L};
  nanosleep(&pause, NULL);
}

static int be_client(ucxx_context_t *context, uint16_t port) {
  static struct upload upload;
  unsigned pause = FIRST_PAUSE_MS;
  upload.context = context;
  upload.port = port;
  srand((unsigned)getpid());
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    struct connection connection = {NULL, NULL, 0};
    bool complete = false;
    if (open_connection(&connection, &upload)) {
      attempt = 0;
      pause = FIRST_PAUSE_MS;
      complete = go_on(&connection, &upload);
    }
    close_connection(&connection);
    if (complete) {
      printf("%" PRIu64 " records are stored\n", upload.confirmed);
      return EXIT_SUCCESS;
    }
    pause_for(pause);
    pause = 2 * pause < LONGEST_PAUSE_MS ? 2 * pause : LONGEST_PAUSE_MS;
  }
  fprintf(stderr, "error: given up after %d attempts; %" PRIu64 " records are stored\n", ATTEMPTS,
          upload.confirmed);
  return EXIT_FAILURE;
}

/* ------------------------------------------------------------------ server */

struct server {
  ucxx_worker_t *worker;
  int file;
  uint64_t have, connections;
  unsigned present;
  bool finished;
};

/* As in client_server.c: one operation at a time, and on_close. */
struct client {
  struct server *server;
  ucxx_endpoint_t *endpoint;
  struct greeting greeting;
  struct record record;
  ucxx_recv_info_t info;
  uint64_t have;
  bool under_way, closed;
};

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status);
static void on_record(void *arg, ucxx_request_t *request, ucxx_status_t status);

/* If an operation is refused or fails, the endpoint has failed or is about to, and on_close
 * follows. */
static void client_send(struct client *client, const void *data, size_t length, uint64_t tag) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_sent;
  params.callback_arg = client;
  client->under_way =
      ucxx_tag_send(client->endpoint, data, length, tag, &params, NULL) == UCXX_INPROGRESS;
}

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
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_record;
  params.callback_arg = client;
  params.recv_info = &client->info;
  params.source = client->endpoint;
  client->under_way =
      ucxx_tag_recv(client->server->worker, &client->record, sizeof client->record,
                    client->greeting.connection, ALL_BITS, &params, NULL) == UCXX_INPROGRESS;
}

/* Stores a record before it is confirmed. With fsync() it would also survive a failure of the
 * machine. */
static void store(struct server *server, const struct record *record, size_t length) {
  if (write(server->file, record->text, length) != (ssize_t)length) {
    perror("error: the file");
    give_up();
  }
  server->have = record->number;
  if (server->have % 100 == 0) printf("stored %" PRIu64 "\n", server->have);
}

static void on_record(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct client *client = arg;
  struct server *server = client->server;
  (void)request;
  client->under_way = false;
  if (client_is_gone(client)) return;
  size_t prefix = offsetof(struct record, text);
  if (status == UCXX_OK && client->info.length >= prefix &&
      client->record.number <= server->have + 1) {
    if (client->info.length == prefix) {
      server->finished = true;
    } else if (client->record.number == server->have + 1) {
      store(server, &client->record, client->info.length - prefix);
    }
    client->have = server->have;
    client_send(client, &client->have, sizeof client->have, TAG_CONFIRMATION);
  } else if (status == UCXX_OK || status == UCXX_ERR_MESSAGE_TRUNCATED) {
    fprintf(stderr, "a client sends what is no record\n");
    ucxx_endpoint_close(client->endpoint, UCXX_CLOSE_FORCE, NULL, NULL);
  }
}

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  struct client *client = arg;
  printf("connection %" PRIu64 " has ended: %s\n", client->greeting.connection,
         ucxx_status_name(status));
  ucxx_endpoint_destroy(endpoint);
  client->closed = true;
  client_is_gone(client);
}

static void on_connect(void *arg, ucxx_conn_request_t *conn_request) {
  struct server *server = arg;
  struct client *client = calloc(1, sizeof *client);
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = on_close;
  params.on_close_arg = client;
  ucxx_status_t status = client == NULL
                             ? UCXX_ERR_NO_MEMORY
                             : ucxx_endpoint_accept(conn_request, &params, &client->endpoint);
  ucxx_conn_request_destroy(conn_request); /* rejects it if it was not accepted */
  if (status != UCXX_OK) {
    fprintf(stderr, "a client could not be let in: %s\n", ucxx_status_name(status));
    free(client);
    return;
  }
  server->present++;
  client->server = server;
  client->greeting.connection = ++server->connections;
  client->greeting.have = server->have;
  client_send(client, &client->greeting, sizeof client->greeting, TAG_GREETING);
}

/* Continues with what was stored before: whole lines. The rest of a line was never confirmed, and
 * is cut off. */
static void open_file(struct server *server, const char *path) {
  char block[4096];
  ssize_t length;
  off_t at = 0, whole = 0;
  server->file = open(path, O_RDWR | O_CREAT | O_APPEND, 0666);
  while ((length = server->file < 0 ? -1 : read(server->file, block, sizeof block)) > 0) {
    for (ssize_t i = 0; i < length; i++) {
      at++;
      if (block[i] != '\n') continue;
      server->have++;
      whole = at;
    }
  }
  if (length < 0 || ftruncate(server->file, whole) != 0) {
    perror(path);
    give_up();
  }
}

static int serve(ucxx_context_t *context, uint16_t port, const char *path) {
  struct server server = {.file = -1};
  ucxx_listener_t *listener = NULL;
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  open_file(&server, path);
  params.port = port;
  params.on_connect = on_connect;
  params.on_connect_arg = &server;
  check(ucxx_worker_create(context, NULL, &server.worker), "worker");
  check(ucxx_listener_create(server.worker, &params, &listener), "listener");
  printf("port %u\n", ucxx_listener_port(listener));
  while (!server.finished || server.present > 0) {
    ucxx_status_t status = ucxx_worker_wait(server.worker, TIMEOUT_NS);
    if (status != UCXX_ERR_TIMED_OUT) check(status, "wait");
  }
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(server.worker);
  if (close(server.file) != 0) {
    perror(path);
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  bool is_server = argc == 4 && strcmp(argv[1], "server") == 0;
  if (!is_server && !(argc == 3 && strcmp(argv[1], "client") == 0)) {
    fprintf(stderr, "usage: %s server PORT FILE | client PORT\n", argv[0]);
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  ucxx_context_t *context = NULL;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  check(ucxx_context_create(&params, &context), "context");
  uint16_t port = (uint16_t)atoi(argv[2]);
  int result = is_server ? serve(context, port, argv[3]) : be_client(context, port);
  ucxx_context_destroy(context);
  return result;
}
