/* Bad input: listeners and connection requests. See bad_input.h. */
#include "bad_input.h"

static ucxx_listener_params_t answering(ucxx_listener_callback_t on_connect, void *arg) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = on_connect;
  params.on_connect_arg = arg;
  return params;
}

static void must_not_ask(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  (void)request;
  FAIL("a refused listener got a connection request");
}

static ucxx_status_t try_listener(fixture_t *f, void *any) {
  ucxx_listener_params_t *params = any;
  params->on_connect = must_not_ask;
  ucxx_status_t status = ucxx_listener_create(f->worker, params, &f->out.listener);
  if (status == UCXX_OK) ucxx_listener_destroy(f->out.listener);
  return status;
}

static ucxx_status_t listen_on(fixture_t *f, const char *host) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.host = host;
  return try_listener(f, &params);
}

static ucxx_status_t listen_without_callback(fixture_t *f) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  return ucxx_listener_create(f->worker, &params, &f->out.listener);
}

static ucxx_status_t listen_with(ucxx_worker_t *worker, ucxx_listener_t **listener) {
  ucxx_listener_params_t params = answering(must_not_ask, NULL);
  return ucxx_listener_create(worker, &params, listener);
}

static ucxx_status_t listen_twice(fixture_t *f) {
  ucxx_listener_params_t params = answering(must_not_ask, NULL);
  ucxx_listener_t *first = NULL;
  CHECK_OK(ucxx_listener_create(f->worker, &params, &first));
  params.port = ucxx_listener_port(first);
  ucxx_status_t status = ucxx_listener_create(f->worker, &params, &f->out.listener);
  ucxx_listener_destroy(first);
  return status;
}

static ucxx_status_t listener_address(fixture_t *f, char *text, size_t capacity) {
  ucxx_listener_params_t params = answering(must_not_ask, NULL);
  ucxx_listener_t *listener = NULL;
  CHECK_OK(ucxx_listener_create(f->worker, &params, &listener));
  ucxx_status_t status = ucxx_listener_address(listener, text, capacity);
  ucxx_listener_destroy(listener);
  return status;
}

/* ------------------------------------------------------------------ connection requests */

static void hold(void *arg, ucxx_conn_request_t *request) {
  *(ucxx_conn_request_t **)arg = request;
}

/* A call on a pending connection request. */
typedef ucxx_status_t (*attempt_t)(fixture_t *f, ucxx_conn_request_t *request, void *params);

/* A client connects and gets an endpoint, whatever becomes of the attempt. */
static ucxx_status_t on_request(fixture_t *f, attempt_t attempt, void *params) {
  if (!has_tcp()) return LEFT_OUT;
  ucxx_conn_request_t *request = NULL;
  ucxx_listener_params_t listener_params = answering(hold, &request);
  ucxx_endpoint_params_t client_params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *client = NULL;
  seen_t closed = {0, 0, UCXX_OK};
  client_params.on_close = see_endpoint;
  client_params.on_close_arg = &closed;
  CHECK_OK(ucxx_listener_create(f->duo.right, &listener_params, &listener));
  CHECK_OK(ucxx_endpoint_connect(f->worker, "127.0.0.1", ucxx_listener_port(listener),
                                 &client_params, &client));
  while (request == NULL) duo_progress(&f->duo);
  ucxx_status_t status = attempt(f, request, params);
  ucxx_conn_request_destroy(request);
  while (seen_count(&closed) == 0) duo_progress(&f->duo);
  ucxx_endpoint_destroy(client);
  ucxx_listener_destroy(listener);
  return status;
}

static ucxx_status_t accept_with(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  ucxx_status_t status = ucxx_endpoint_accept(request, params, &f->out.endpoint);
  if (status == UCXX_OK) duo_drop(&f->duo, f->out.endpoint);
  return status;
}

static ucxx_status_t try_accept(fixture_t *f, void *params) {
  return on_request(f, accept_with, params);
}

static ucxx_status_t accept_nowhere(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  (void)f;
  return ucxx_endpoint_accept(request, params, NULL);
}

static ucxx_status_t accept_rejected(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  CHECK_OK(ucxx_conn_request_reject(request));
  return ucxx_endpoint_accept(request, params, &f->out.endpoint);
}

static ucxx_status_t reject_twice(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  (void)f;
  (void)params;
  CHECK_OK(ucxx_conn_request_reject(request));
  return ucxx_conn_request_reject(request);
}

static ucxx_status_t accept_from(fixture_t *f, const char *local_address) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.local_address = local_address;
  return try_accept(f, &params);
}

static ucxx_status_t accept_handling(fixture_t *f, int32_t error_handling) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = error_handling;
  return try_accept(f, &params);
}

static ucxx_status_t address_nowhere(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  (void)f;
  (void)params;
  return ucxx_conn_request_address(request, NULL, 64);
}

/* `params` is the capacity. A buffer that is too small stays unchanged. */
static ucxx_status_t address_into(fixture_t *f, ucxx_conn_request_t *request, void *params) {
  const size_t *capacity = params;
  char text[64];
  (void)f;
  memset(text, 'x', sizeof text);
  ucxx_status_t status = ucxx_conn_request_address(request, text, *capacity);
  for (size_t at = 0; status < 0 && at < sizeof text; at++) CHECK_EQ(text[at], 'x');
  return status;
}

static ucxx_status_t try_address(fixture_t *f, size_t capacity) {
  return on_request(f, address_into, &capacity);
}

#define BAD_INPUT_ROWS "bad_input_listener.inc"
#define BAD_INPUT_TABLE bad_input_listener
#include "bad_input_table.h"
