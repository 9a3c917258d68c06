/* Bad input: endpoints. See bad_input.h. */
#include "bad_input.h"

static ucxx_status_t create_endpoint(fixture_t *f, ucxx_worker_t *worker, const void *params) {
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(f->duo.right, &address));
  ucxx_status_t status = ucxx_endpoint_create(worker, address, params, &f->out.endpoint);
  ucxx_address_destroy(address);
  return status;
}

static ucxx_status_t create_endpoint_nowhere(fixture_t *f) {
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(f->duo.right, &address));
  ucxx_status_t status = ucxx_endpoint_create(f->worker, address, NULL, NULL);
  ucxx_address_destroy(address);
  return status;
}

static ucxx_status_t try_endpoint(fixture_t *f, const void *params) {
  ucxx_status_t status = create_endpoint(f, f->worker, params);
  if (status == UCXX_OK) duo_drop(&f->duo, f->out.endpoint);
  return status;
}

static ucxx_status_t try_error_handling(fixture_t *f, int32_t error_handling) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = error_handling;
  return try_endpoint(f, &params);
}

static ucxx_status_t query_endpoint(fixture_t *f, void *out) {
  return ucxx_endpoint_query(f->endpoint, out);
}

static ucxx_status_t query_load(fixture_t *f, void *out) {
  return ucxx_endpoint_query_load(f->endpoint, out);
}

static ucxx_status_t query_endpoint_of(const ucxx_endpoint_t *endpoint) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  return ucxx_endpoint_query(endpoint, &attr);
}

static ucxx_status_t try_endpoint_flush(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_endpoint_flush(f->endpoint, params, &f->out.request);
  return status < 0 ? status : duo_finish(&f->duo, status, &f->out.request);
}

/* On an endpoint of its own, which must stay usable when the close is refused. */
static ucxx_status_t try_endpoint_close(fixture_t *f, const void *params) {
  ucxx_endpoint_t *endpoint = connect_workers(f->duo.left, f->duo.right);
  ucxx_status_t status = ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, params, &f->out.request);
  if (status < 0) {
    char said[256];
    snprintf(said, sizeof said, "%s", ucxx_last_error_message());
    CHECK_OK(ucxx_endpoint_status(endpoint));
    duo_drop(&f->duo, endpoint);
    CHECK(strcmp(said, ucxx_last_error_message()) == 0);
    return status;
  }
  status = duo_finish(&f->duo, status, &f->out.request);
  ucxx_endpoint_destroy(endpoint);
  return status;
}

static ucxx_status_t create_from(fixture_t *f, const char *local_address) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.local_address = local_address;
  return try_endpoint(f, &params);
}

static void never(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg, (void)endpoint, (void)status;
  FAIL("called");
}

static void reject(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  CHECK_OK(ucxx_conn_request_reject(request));
  ucxx_conn_request_destroy(request);
}

/* Connects to a listener that rejects. Without TCP in UCX the attempt fails by itself. */
static ucxx_status_t try_connect(fixture_t *f, const void *params) {
  ucxx_listener_params_t listener_params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  listener_params.on_connect = reject;
  CHECK_OK(ucxx_listener_create(f->duo.right, &listener_params, &listener));
  ucxx_status_t status = ucxx_endpoint_connect(f->worker, "127.0.0.1", ucxx_listener_port(listener),
                                               params, &f->out.endpoint);
  if (status == UCXX_OK) {
    while (ucxx_endpoint_status(f->out.endpoint) == UCXX_OK) duo_progress(&f->duo);
    ucxx_endpoint_destroy(f->out.endpoint);
  }
  ucxx_listener_destroy(listener);
  return status;
}

static ucxx_status_t connect_handling(fixture_t *f, int32_t error_handling) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = error_handling;
  return try_connect(f, &params);
}

static ucxx_status_t connect_from(fixture_t *f, const char *local_address) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.local_address = local_address;
  return try_connect(f, &params);
}

static ucxx_status_t try_retain(ucxx_endpoint_t *endpoint) {
  ucxx_endpoint_t *own = NULL;
  ucxx_status_t status = ucxx_endpoint_retain(endpoint, &own);
  ucxx_endpoint_destroy(own);
  return status;
}

#define BAD_INPUT_ROWS "bad_input_endpoint.inc"
#define BAD_INPUT_TABLE bad_input_endpoint
#include "bad_input_table.h"
