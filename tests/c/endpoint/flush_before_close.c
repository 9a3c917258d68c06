/* Everything sent before a close with flush arrives, also in a receive that ends with its endpoint,
 * and the peer sees an orderly close. If the peer does not progress, the close waits as long as the
 * caller's timeout says. Without a timeout it waits the library's own limit, and then returns
 * TIMED_OUT. */
#include "test_util.h"

#include <stdbool.h>

enum { ROUNDS = 200, VISITS = ROUNDS + 2, TAG = 0x1a57 };

typedef struct guest {
  ucxx_endpoint_t *endpoint;
  seen_t received, closed;
  uint64_t word;
} guest_t;

static ucxx_worker_t *worker;
static guest_t guests[VISITS];
static int accepted;

static void on_connect(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  guest_t *guest = &guests[accepted];
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = see_endpoint;
  params.on_close_arg = &guest->closed;
  CHECK(accepted < VISITS);
  CHECK_OK(ucxx_endpoint_accept(request, &params, &guest->endpoint));
  ucxx_conn_request_destroy(request);
  ucxx_op_params_t receive = UCXX_OP_PARAMS_INIT;
  receive.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  receive.callback = see_completion;
  receive.callback_arg = &guest->received;
  receive.source = guest->endpoint;
  CHECK_STATUS(ucxx_tag_recv(worker, &guest->word, sizeof guest->word, TAG + (uint64_t)accepted,
                             UINT64_MAX, &receive, NULL),
               UCXX_INPROGRESS);
  accepted++;
}

/* Makes no progress from the guest's connection until told to continue. */
static void serve_late(pair_t *pair, guest_t *guest, bool waits) {
  char go = 0;
  STEP("late, %s", waits ? "with a timeout" : "without");
  while (guest->endpoint == NULL) progress(worker);
  pair_await(pair);
  channel_put(pair, &go, 1);
  channel_get(pair, &go, 1);
  while (seen_count(&guest->received) == 0 || seen_count(&guest->closed) == 0) progress(worker);
  if (waits) {
    CHECK_STATUS(guest->received.status, UCXX_OK);
    CHECK_STATUS(guest->closed.status, UCXX_ERR_CONNECTION_RESET);
  }
  ucxx_endpoint_destroy(guest->endpoint);
}

static void serve(pair_t *pair) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  params.on_connect = on_connect;
  CHECK_OK(ucxx_listener_create(worker, &params, &listener));
  uint16_t port = ucxx_listener_port(listener);
  channel_put(pair, &port, sizeof port);
  int lost = 0, otherwise = 0;
  for (int at = 0; at < ROUNDS; at++) {
    guest_t *guest = &guests[at];
    STEP("guest %d", at);
    while (seen_count(&guest->received) == 0 || seen_count(&guest->closed) == 0) progress(worker);
    if (guest->received.status == UCXX_OK) CHECK_EQ(guest->word, at);
    if (guest->received.status != UCXX_OK || guest->closed.status != UCXX_ERR_CONNECTION_RESET)
      fprintf(stderr, "guest %d: received %s, closed %s\n", at,
              ucxx_status_string(guest->received.status), ucxx_status_string(guest->closed.status));
    lost += guest->received.status != UCXX_OK;
    otherwise += guest->closed.status != UCXX_ERR_CONNECTION_RESET;
    ucxx_endpoint_destroy(guest->endpoint);
  }
  serve_late(pair, &guests[ROUNDS], true);
  serve_late(pair, &guests[ROUNDS + 1], false);
  ucxx_listener_destroy(listener);
  if (lost + otherwise > 0)
    FAIL("of %d last messages %d are lost; %d closes have another status", ROUNDS, lost, otherwise);
}

static void visit_late(pair_t *pair, uint16_t port, uint64_t at, bool waits) {
  char go = 0;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  STEP("late, %s", waits ? "with a timeout" : "without");
  CHECK_OK(ucxx_endpoint_connect(worker, "127.0.0.1", port, NULL, &endpoint));
  /* A peer that has not yet identified itself as using this library counts as foreign, and a close
   * does not wait for it. */
  while (CHECK_OK(ucxx_endpoint_query(endpoint, &attr)), attr.peer_id == 0) progress(worker);
  pair_tell(pair);
  channel_get(pair, &go, 1);
  CHECK_OK(finish(ucxx_tag_send(endpoint, &at, sizeof at, TAG + at, NULL, &request), &request));
  params.timeout_ns = waits ? 60 * SECOND : 0;
  CHECK_STATUS(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &params, &request), UCXX_INPROGRESS);
  if (waits) {
    /* Longer than a close without a timeout waits. */
    for (uint64_t begun = clock_ns(); clock_ns() - begun < 3 * SECOND / 2;) {
      progress(worker);
      CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
    }
    channel_put(pair, &go, 1);
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
  } else {
    CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_TIMED_OUT);
    channel_put(pair, &go, 1);
  }
  ucxx_endpoint_destroy(endpoint);
}

static void visit(pair_t *pair) {
  uint16_t port = 0;
  channel_get(pair, &port, sizeof port);
  for (uint64_t at = 0; at < ROUNDS; at++) {
    STEP("visit %d", (int)at);
    ucxx_endpoint_t *endpoint = NULL;
    ucxx_request_t *request = NULL;
    CHECK_OK(ucxx_endpoint_connect(worker, "127.0.0.1", port, NULL, &endpoint));
    CHECK_OK(finish(ucxx_tag_send(endpoint, &at, sizeof at, TAG + at, NULL, &request), &request));
    CHECK_OK(finish(close_patiently(endpoint, &request), &request));
    ucxx_endpoint_destroy(endpoint);
  }
  visit_late(pair, port, ROUNDS, true);
  visit_late(pair, port, ROUNDS + 1, false);
}

static void body(pair_t *pair) {
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, NULL, &worker));
  pair->worker = worker;
  if (pair->side == 0)
    serve(pair);
  else
    visit(pair);
  pair_sync(pair);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(pair->context);
}

int main(int argc, char **argv) {
  if (!has_tcp()) test_skip("UCX connects by host and port over TCP, which UCX_TLS excludes");
  return pair_main(argc, argv, "flush_before_close", body);
}
