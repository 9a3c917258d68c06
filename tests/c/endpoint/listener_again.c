/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A listener on the port of one that was just closed, and that closed its connections first: the
 * kernel keeps those in TIME_WAIT for a minute. By default the library binds the port all the same.
 * A caller that opted out gets an error that names the reason.
 */
#include "test_util.h"

#include "client_server.h"

/* Closes a connection from the listener's side, and destroys everything. */
static uint16_t use_port(site_t *site) {
  ends_t client;
  uint16_t port = ucxx_listener_port(site->listener);
  dial(site, "127.0.0.1", &client);
  AWAIT(site, seen_count(&client.open) == 1 && asked(site) == 1 &&
                  seen_count(&site->accepted[0].open) == 1);
  ucxx_endpoint_destroy(site->accepted[0].endpoint);
  AWAIT(site, seen_count(&client.close) == 1);
  ucxx_listener_destroy(site->listener);
  ucxx_worker_destroy(site->server);
  ucxx_endpoint_destroy(client.endpoint);
  ucxx_worker_destroy(site->client);
  ucxx_context_destroy(site->context);
  return port;
}

static ucxx_status_t listen_again(uint16_t port, const ucxx_config_entry_t *entry) {
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_listener_t *listener = NULL;
  site_t site;
  context_params.config = entry;
  context_params.config_count = entry != NULL;
  params.port = port;
  params.on_connect = on_connect;
  params.on_connect_arg = &site;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_status_t status = ucxx_listener_create(worker, &params, &listener);
  if (status == UCXX_ERR_BUSY && entry != NULL) CHECK_MESSAGE("UCX_TCP_CM_REUSEADDR");
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return status;
}

int main(void) {
  static const ucxx_config_entry_t without = {"TCP_CM_REUSEADDR", "n"};
  test_begin("listener_again");
  site_t site;
  STEP("a port used a moment ago");
  site_open(&site, &manners[0], NULL, ACCEPT);
  uint16_t port = use_port(&site);
  CHECK_OK(listen_again(port, NULL));
  STEP("the same without reuse of the port");
  CHECK_STATUS(listen_again(port, &without), UCXX_ERR_BUSY);
  return 0;
}
