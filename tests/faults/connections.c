/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Endpoints and listeners: each on_open and on_close is reported when it runs, and may run only
 * once. */
#include "actor.h"

enum { ENDPOINTS = 1024, HELD = 64 };

typedef struct connection {
  ucxx_endpoint_t *endpoint;
  /* the harness's number; 0 in an unused slot. A dropped endpoint keeps its slot until it is
   * forgotten */
  uint64_t id;
  uint64_t generation;
  int opened, closed;
  bool drop_on_close;
} connection_t;

static connection_t connections[ENDPOINTS];
static ucxx_listener_t *listener;
static uint64_t first_accepted, accepted, listener_liveness;
static char manner[16];
static ucxx_conn_request_t *held[HELD];
static int asked;

/* ------------------------------------------------------------------ slots */

/* Call with the lock held. */
static connection_t *find(uint64_t id) {
  for (size_t at = 0; at < ENDPOINTS; at++)
    if (connections[at].id == id) return &connections[at];
  return NULL;
}

static connection_t *enter(uint64_t id) {
  pthread_mutex_lock(&tables);
  connection_t *connection = find(0);
  if (connection == NULL) give_up("too many endpoints");
  *connection = (connection_t){.id = id, .generation = connection->generation + 1};
  pthread_mutex_unlock(&tables);
  return connection;
}

ucxx_endpoint_t *endpoint_of(const command_t *command, const char *name) {
  uint64_t id = number_of(command, name, 0);
  if (id == 0) return NULL;
  pthread_mutex_lock(&tables);
  connection_t *connection = find(id);
  ucxx_endpoint_t *endpoint = connection != NULL ? connection->endpoint : NULL;
  pthread_mutex_unlock(&tables);
  if (endpoint == NULL) give_up("no such endpoint");
  return endpoint;
}

/* ------------------------------------------------------------------ callbacks */

static void *arg_of(const connection_t *connection) {
  return (void *)(uintptr_t)(connection->generation << 16 | (uint64_t)(connection - connections));
}

/* The slot that the argument was made for, if it still has the same endpoint. */
static connection_t *meant(void *arg, const char *callback) {
  uint64_t number = (uint64_t)(uintptr_t)arg;
  connection_t *connection = &connections[number & 0xffff];
  pthread_mutex_lock(&tables);
  bool right = connection->id != 0 && connection->generation == number >> 16;
  pthread_mutex_unlock(&tables);
  if (!right) violation("completion", "callback=%s endpoint=forgotten", callback);
  return right ? connection : NULL;
}

static void on_open(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  connection_t *connection = meant(arg, "on_open");
  if (connection == NULL) return;
  if (++connection->opened > 1 || connection->closed > 0)
    violation("completion", "on_open=%d on_close=%d ep=%" PRIu64, connection->opened,
              connection->closed, connection->id);
  say("event opened ep=%" PRIu64 " status=%s", connection->id, short_name(status));
}

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  uint64_t at = now_ns();
  connection_t *connection = meant(arg, "on_close");
  if (connection == NULL) return;
  if (++connection->closed > 1)
    violation("completion", "on_close=%d ep=%" PRIu64, connection->closed, connection->id);
  if (ucxx_endpoint_status(endpoint) == UCXX_OK)
    violation("completion", "on_close=1 status=OK ep=%" PRIu64, connection->id);
  hubs_endpoint_closed(connection->id);
  say("event closed ep=%" PRIu64 " status=%s at=%" PRIu64, connection->id, short_name(status), at);
  if (connection->drop_on_close) {
    connection->endpoint = NULL;
    ucxx_endpoint_destroy(endpoint);
  }
}

static void set_up(connection_t *connection, ucxx_endpoint_params_t *params) {
  params->on_open = on_open;
  params->on_close = on_close;
  params->on_open_arg = params->on_close_arg = arg_of(connection);
}

/* ------------------------------------------------------------------ listener */

static void accept_one(ucxx_conn_request_t *request) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  uint64_t id = first_accepted + accepted++;
  connection_t *connection = enter(id);
  set_up(connection, &params);
  params.liveness_ns = listener_liveness;
  ucxx_status_t status = ucxx_endpoint_accept(request, &params, &connection->endpoint);
  if (status != UCXX_OK) connection->id = 0;
  say("event accepted ep=%" PRIu64 " status=%s", id, short_name(status));
}

/* Answers as given in `listen`, or later for held requests. */
static void respond(ucxx_conn_request_t *request, const char *how) {
  if (word_is(how, "accept")) {
    accept_one(request);
  } else if (word_is(how, "reject")) {
    ucxx_status_t status = ucxx_conn_request_reject(request);
    if (status != UCXX_OK && status != UCXX_ERR_CLOSED)
      violation("completion", "reject=%s", ucxx_status_name(status));
  }
  ucxx_conn_request_destroy(request);
}

static void on_connect(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  if (!word_is(manner, "hold")) {
    respond(request, manner);
  } else if (asked < HELD) {
    held[asked] = request;
  } else {
    give_up("too many requests for connections");
  }
  say("event asked n=%d", asked++);
}

static void listen_here(const command_t *command) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.host = text_of(command, "host", "127.0.0.1");
  params.on_connect = on_connect;
  first_accepted = number_of(command, "first", 0);
  listener_liveness = number_of(command, "liveness", 0);
  accepted = 0;
  asked = 0;
  snprintf(manner, sizeof manner, "%s", text_of(command, "answer", "accept"));
  ucxx_status_t status = ucxx_listener_create(worker, &params, &listener);
  answer(command, status, "port=%u", status == UCXX_OK ? ucxx_listener_port(listener) : 0);
}

static void answer_held(const command_t *command) {
  int answered = 0;
  for (int at = 0; at < HELD; at++) {
    if (held[at] == NULL) continue;
    ucxx_conn_request_t *request = held[at];
    held[at] = NULL;
    respond(request, text_of(command, "how", "destroy"));
    answered++;
  }
  answer(command, UCXX_OK, "answered=%d", answered);
}

/* ------------------------------------------------------------------ commands */

static ucxx_address_t *address_from(const char *hex) {
  ucxx_address_t *address = NULL;
  size_t length = strlen(hex) / 2;
  uint8_t *bytes = malloc(length + 1);
  if (bytes == NULL) give_up("no memory");
  for (size_t at = 0; at < length; at++) {
    unsigned byte = 0;
    if (sscanf(hex + 2 * at, "%2x", &byte) != 1) give_up("bad hexadecimal address");
    bytes[at] = (uint8_t)byte;
  }
  ucxx_status_t status = ucxx_address_from_bytes(bytes, length, &address);
  free(bytes);
  return status == UCXX_OK ? address : NULL;
}

static void create(const command_t *command) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  connection_t *connection = enter(number_of(command, "ep", 1));
  ucxx_status_t status = UCXX_ERR_INVALID_ADDR;
  set_up(connection, &params);
  connection->drop_on_close = number_of(command, "drop_on_close", 0) != 0;
  params.error_handling =
      word_is(text_of(command, "errors", "peer"), "none") ? UCXX_ENDPOINT_ERROR_HANDLING_NONE : 0;
  params.liveness_ns = number_of(command, "liveness", 0);
  params.connect_timeout_ns = number_of(command, "timeout", 0);
  if (word_is(command->verb, "connect")) {
    status = ucxx_endpoint_connect(worker, text_of(command, "host", "127.0.0.1"),
                                   (uint16_t)number_of(command, "port", 0), &params,
                                   &connection->endpoint);
  } else {
    ucxx_address_t *address = address_from(text_of(command, "address", ""));
    if (address != NULL)
      status = ucxx_endpoint_create(worker, address, &params, &connection->endpoint);
    ucxx_address_destroy(address);
  }
  if (status != UCXX_OK) connection->id = 0;
  answer(command, status, " ");
}

static void close_one(const command_t *command) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  uint64_t ticket = 0;
  params.timeout_ns = number_of(command, "timeout", 0);
  ucxx_endpoint_t *endpoint = endpoint_of(command, "ep");
  operation_plain((unsigned)number_of(command, "group", 0) % GROUPS,
                  text_of(command, "handle", "keep"), &params, &ticket);
  ucxx_status_t status = ucxx_endpoint_close(
      endpoint,
      word_is(text_of(command, "how", "flush"), "force") ? UCXX_CLOSE_FORCE : UCXX_CLOSE_FLUSH,
      &params, &request);
  operation_called(ticket, status, request);
  answer(command, UCXX_OK, "status=%s", short_name(status));
}

static void drop(const command_t *command) {
  uint64_t start = now_ns(), id = number_of(command, "ep", 1);
  ucxx_endpoint_t *endpoint = endpoint_of(command, "ep");
  ucxx_endpoint_destroy(endpoint);
  uint64_t took = now_ns() - start;
  pthread_mutex_lock(&tables);
  connection_t *connection = find(id);
  connection->endpoint = NULL;
  int closed = connection->closed;
  pthread_mutex_unlock(&tables);
  if (closed != 1) violation("completion", "on_close=%d after=destroy ep=%" PRIu64, closed, id);
  answer(command, UCXX_OK, "took=%" PRIu64, took);
}

bool command_connections(const command_t *command) {
  if (word_is(command->verb, "ep") || word_is(command->verb, "connect")) {
    create(command);
  } else if (word_is(command->verb, "close")) {
    close_one(command);
  } else if (word_is(command->verb, "drop")) {
    drop(command);
  } else if (word_is(command->verb, "status")) {
    answer(command, UCXX_OK, "status=%s",
           short_name(ucxx_endpoint_status(endpoint_of(command, "ep"))));
  } else if (word_is(command->verb, "listen")) {
    listen_here(command);
  } else if (word_is(command->verb, "unlisten")) {
    ucxx_listener_destroy(listener);
    listener = NULL;
    answer(command, UCXX_OK, " ");
  } else if (word_is(command->verb, "held")) {
    answer_held(command);
  } else {
    return false;
  }
  return true;
}

/* ------------------------------------------------------------------ the end */

/* Frees slots of closed endpoints; returns how many endpoints are left. */
size_t connections_forget(void) {
  size_t left = 0;
  for (size_t at = 0; at < ENDPOINTS; at++) {
    pthread_mutex_lock(&tables);
    if (connections[at].id != 0 && connections[at].endpoint == NULL) connections[at].id = 0;
    left += connections[at].id != 0;
    pthread_mutex_unlock(&tables);
  }
  return left;
}

void connections_leave(void) {
  ucxx_listener_destroy(listener);
  listener = NULL;
  for (size_t at = 0; at < ENDPOINTS; at++) {
    ucxx_endpoint_t *endpoint = connections[at].endpoint;
    if (connections[at].id == 0 || endpoint == NULL) continue;
    ucxx_endpoint_destroy(endpoint);
    connections[at].endpoint = NULL;
    if (connections[at].closed != 1)
      violation("completion", "on_close=%d after=destroy ep=%" PRIu64, connections[at].closed,
                connections[at].id);
  }
}
