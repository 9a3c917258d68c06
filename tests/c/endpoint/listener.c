/* Listeners: each request is accepted or rejected once, in the callback or later, on the listener's
 * worker or another one, or stays unanswered. The client sees the result. */
#include "test_util.h"
#include "client_server.h"

#include <unistd.h>

enum { LARGE = 4 << 20, CLIENTS = 20 };

static void accept_at_once(const manner_t *manner, const char *host, const char *bracketed) {
  STEP("%s: accepted in the callback, on %s", manner->name, host);
  site_t site;
  ends_t client;
  char prefix[32], said[64];
  site_open(&site, manner, host, ACCEPT);
  dial(&site, host, &client);
  AWAIT(&site, asked(&site) == 1 && seen_count(&client.open) == 1 &&
                   seen_count(&site.accepted[0].open) == 1);
  CHECK_OK(client.open.status);
  CHECK_OK(ucxx_endpoint_status(client.endpoint));
  transfer(&site, client.endpoint, site.server, 8, 1);
  transfer(&site, site.accepted[0].endpoint, site.client, 8, 2);
  transfer(&site, client.endpoint, site.server, LARGE, 3);
  transfer(&site, site.accepted[0].endpoint, site.client, LARGE, 4);

  ucxx_endpoint_attr_t here = UCXX_ENDPOINT_ATTR_INIT, there = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(client.endpoint, &here));
  CHECK_OK(ucxx_endpoint_query(site.accepted[0].endpoint, &there));
  snprintf(prefix, sizeof prefix, "%s:", bracketed);
  snprintf(said, sizeof said, "%s%d", prefix, ucxx_listener_port(site.listener));
  if (strcmp(here.remote_address, said) != 0 || strcmp(there.local_address, said) != 0)
    FAIL("the server is %s to itself and %s to the client, expected %s", there.local_address,
         here.remote_address, said);
  char bound[64];
  CHECK_OK(ucxx_listener_address(site.listener, bound, sizeof bound));
  CHECK(strcmp(bound, said) == 0);
  CHECK(strncmp(here.local_address, prefix, strlen(prefix)) == 0);
  CHECK(strcmp(here.local_address, there.remote_address) == 0);
  CHECK(here.same_host && there.same_host);
  printf("%s: %s over %s\n", manner->name, host, here.transports);

  hang_up(&site, &client, &site.accepted[0]);
  site_close(&site);
}

static void remote_close(const manner_t *manner) {
  STEP("%s: the other side closes", manner->name);
  site_t site;
  ends_t client;
  site_open(&site, manner, NULL, ACCEPT);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, seen_count(&client.open) == 1 && asked(&site) == 1);
  transfer(&site, client.endpoint, site.server, 100, 1);
  ucxx_request_t *close = NULL;
  CHECK_OK(site_finish(&site, close_patiently(client.endpoint, &close), &close));
  AWAIT(&site, seen_count(&site.accepted[0].close) == 1);
  CHECK(ucxx_endpoint_status(site.accepted[0].endpoint) < 0);
  CHECK(ucxx_tag_send(site.accepted[0].endpoint, "message", 8, 1, NULL, NULL) < 0);
  ucxx_endpoint_destroy(client.endpoint);
  ucxx_endpoint_destroy(site.accepted[0].endpoint);
  CHECK_EQ(seen_count(&site.accepted[0].close), 1);
  site_close(&site);
}

static void check_rejected(const site_t *site, ends_t *client) {
  AWAIT(site, seen_count(&client->close) == 1);
  CHECK_STATUS(client->close.status, UCXX_ERR_REJECTED);
  CHECK_EQ(seen_count(&client->open), 0);
  CHECK_STATUS(ucxx_endpoint_status(client->endpoint), UCXX_ERR_REJECTED);
  CHECK_MESSAGE("refused");
  ucxx_endpoint_destroy(client->endpoint);
}

static void reject_at_once(const manner_t *manner) {
  STEP("%s: rejected in the callback, with operations in flight", manner->name);
  site_t site;
  ends_t client;
  uint64_t word = 5;
  seen_t fired;
  memset(&fired, 0, sizeof fired);
  ucxx_op_params_t from = UCXX_OP_PARAMS_INIT, callback = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *requests[4] = {NULL};
  callback.callback = see_completion;
  callback.callback_arg = &fired;
  site_open(&site, manner, NULL, REJECT);
  dial(&site, "127.0.0.1", &client);
  from.source = client.endpoint;
  /* With a progress thread it may be rejected before the next call. */
  const ucxx_status_t begun[] = {
      ucxx_tag_send(client.endpoint, &word, 8, 1, NULL, &requests[0]),
      ucxx_tag_recv(site.client, &word, 8, 1, UINT64_MAX, &from, &requests[1]),
      ucxx_endpoint_flush(client.endpoint, NULL, &requests[2]),
      ucxx_tag_send_sync(client.endpoint, &word, 8, 1, NULL, &requests[3]),
  };
  const ucxx_status_t told = ucxx_tag_send(client.endpoint, &word, 8, 1, &callback, NULL);
  for (int at = 0; at < 4; at++) {
    CHECK(begun[at] == UCXX_INPROGRESS || begun[at] == UCXX_ERR_REJECTED);
    CHECK_STATUS(site_finish(&site, begun[at], &requests[at]), UCXX_ERR_REJECTED);
  }
  if (told == UCXX_INPROGRESS) {
    AWAIT(&site, seen_count(&fired) == 1);
    CHECK_STATUS(fired.status, UCXX_ERR_REJECTED);
  } else {
    CHECK_STATUS(told, UCXX_ERR_REJECTED);
  }
  CHECK_STATUS(ucxx_tag_send(client.endpoint, &word, 8, 1, NULL, NULL), UCXX_ERR_REJECTED);
  check_rejected(&site, &client);
  site_close(&site);
}

/* A request to be answered later; on a thread of its own where the worker allows that. */
typedef struct errand {
  site_t *site;
  int accept;
} errand_t;

static void *answer(void *arg) {
  errand_t *errand = arg;
  site_t *site = errand->site;
  ucxx_conn_request_t *request = site->held[0];
  ucxx_endpoint_t *none = (ucxx_endpoint_t *)arg;
  if (errand->accept) {
    ucxx_endpoint_params_t params = watching(&site->accepted[0]);
    CHECK_OK(ucxx_endpoint_accept(request, &params, &site->accepted[0].endpoint));
  } else {
    CHECK_OK(ucxx_conn_request_reject(request));
  }
  CHECK_STATUS(ucxx_endpoint_accept(request, NULL, &none), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("already");
  CHECK(none == (ucxx_endpoint_t *)arg);
  CHECK_STATUS(ucxx_conn_request_reject(request), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("already");
  ucxx_conn_request_destroy(request);
  return NULL;
}

static void answer_later(const manner_t *manner, int accept, int elsewhere) {
  STEP("%s: %s later, %s", manner->name, accept ? "accepted" : "rejected",
       elsewhere ? "on another thread" : "here");
  site_t site;
  ends_t client;
  site_open(&site, manner, NULL, HOLD);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, asked(&site) == 1);
  CHECK_EQ(seen_count(&client.open) + seen_count(&client.close), 0);
  char text[64], prefix[] = "127.0.0.1:";
  CHECK_OK(ucxx_conn_request_address(site.held[0], text, sizeof text));
  CHECK(strncmp(text, prefix, strlen(prefix)) == 0 && strlen(text) > strlen(prefix));
  size_t length = strlen(text);
  memset(text, 'x', sizeof text);
  CHECK_STATUS(ucxx_conn_request_address(site.held[0], text, length), UCXX_ERR_BUFFER_TOO_SMALL);
  CHECK(text[0] == 'x');
  CHECK_OK(ucxx_conn_request_address(site.held[0], text, length + 1));
  errand_t errand = {&site, accept};
  if (elsewhere) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, answer, &errand), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  } else {
    answer(&errand);
  }
  if (accept) {
    AWAIT(&site, seen_count(&client.open) == 1);
    transfer(&site, client.endpoint, site.server, 1000, 1);
    hang_up(&site, &client, &site.accepted[0]);
  } else {
    check_rejected(&site, &client);
  }
  site_close(&site);
}

/* Nobody answers: the request, the listener or the worker is destroyed. */
static void unanswered(const manner_t *manner, int what) {
  static const char *const names[] = {"request", "listener", "worker"};
  STEP("%s: unanswered when the %s is destroyed", manner->name, names[what]);
  site_t site;
  ends_t clients[2];
  site_open(&site, manner, NULL, HOLD);
  dial(&site, "127.0.0.1", &clients[0]);
  dial(&site, "127.0.0.1", &clients[1]);
  AWAIT(&site, asked(&site) == 2);
  if (what == 0) {
    ucxx_conn_request_destroy(site.held[0]);
    ucxx_conn_request_destroy(site.held[1]);
    check_rejected(&site, &clients[0]);
    check_rejected(&site, &clients[1]);
  } else {
    if (what == 1) {
      ucxx_listener_destroy(site.listener);
      site.listener = NULL;
      check_rejected(&site, &clients[0]);
      check_rejected(&site, &clients[1]);
    } else {
      ucxx_worker_destroy(site.server);
      site.server = site.client;
      for (int at = 0; at < 2; at++) {
        AWAIT(&site, seen_count(&clients[at].close) == 1);
        CHECK(clients[at].close.status == UCXX_ERR_REJECTED ||
              clients[at].close.status == UCXX_ERR_UNREACHABLE);
        ucxx_endpoint_destroy(clients[at].endpoint);
      }
      site.server = NULL;
    }
    ucxx_endpoint_t *none = NULL;
    char text[64];
    CHECK_OK(ucxx_conn_request_address(site.held[0], text, sizeof text));
    CHECK_STATUS(ucxx_endpoint_accept(site.held[0], NULL, &none), UCXX_ERR_CLOSED);
    CHECK_STATUS(ucxx_conn_request_reject(site.held[1]), UCXX_ERR_CLOSED);
    CHECK(none == NULL);
    ucxx_conn_request_destroy(site.held[0]);
    ucxx_conn_request_destroy(site.held[1]);
  }
  site_close(&site);
}

static void many_clients(const manner_t *manner) {
  STEP("%s: many clients, every third rejected", manner->name);
  site_t site;
  ends_t clients[CLIENTS];
  site_open(&site, manner, NULL, HOLD);
  for (int at = 0; at < CLIENTS; at++) dial(&site, "localhost", &clients[at]);
  AWAIT(&site, asked(&site) == CLIENTS);
  int accepted = 0;
  for (int at = 0; at < CLIENTS; at++) {
    if (at % 3 == 2) {
      CHECK_OK(ucxx_conn_request_reject(site.held[at]));
    } else {
      CHECK_OK(ucxx_endpoint_accept(site.held[at], NULL, &site.accepted[accepted].endpoint));
      accepted++;
    }
    ucxx_conn_request_destroy(site.held[at]);
  }
  /* Accepted connections outlive their listener. */
  ucxx_listener_destroy(site.listener);
  site.listener = NULL;
  int open = 0, closed = 0;
  do {
    site_progress(&site);
    open = closed = 0;
    for (int at = 0; at < CLIENTS; at++) {
      open += seen_count(&clients[at].open);
      closed += seen_count(&clients[at].close);
    }
  } while (open + closed < CLIENTS);
  CHECK_EQ(open, accepted);
  for (int at = 0; at < CLIENTS; at++) {
    if (seen_count(&clients[at].open) == 1) {
      transfer(&site, clients[at].endpoint, site.server, 5000, (uint64_t)at);
      hang_up(&site, &clients[at], NULL);
    } else {
      check_rejected(&site, &clients[at]);
    }
  }
  for (int at = 0; at < accepted; at++) ucxx_endpoint_destroy(site.accepted[at].endpoint);
  site_close(&site);
}

static ucxx_listener_t *self_destroyed;
static int self_calls;
static void destroy_in_callback(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  ucxx_listener_destroy(self_destroyed);
  CHECK_STATUS(ucxx_conn_request_reject(request), UCXX_ERR_CLOSED);
  ucxx_conn_request_destroy(request);
  __atomic_add_fetch(&self_calls, 1, __ATOMIC_RELEASE);
}

static void destroyed_by_itself(const manner_t *manner) {
  STEP("%s: a listener destroyed in its own callback", manner->name);
  site_t site;
  ends_t client;
  site_open(&site, manner, NULL, ACCEPT);
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = destroy_in_callback;
  ucxx_listener_destroy(site.listener);
  CHECK_OK(ucxx_listener_create(site.server, &params, &self_destroyed));
  site.listener = self_destroyed;
  self_calls = 0;
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, __atomic_load_n(&self_calls, __ATOMIC_ACQUIRE) == 1);
  site.listener = NULL;
  check_rejected(&site, &client);
  site_close(&site);
}

static void port_taken(void) {
  STEP("a port that is taken");
  site_t site;
  site_open(&site, &manners[0], NULL, ACCEPT);
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *second = NULL;
  params.port = ucxx_listener_port(site.listener);
  params.on_connect = on_connect;
  CHECK_STATUS(ucxx_listener_create(site.server, &params, &second), UCXX_ERR_BUSY);
  CHECK_MESSAGE("127.0.0.1");
  CHECK(second == NULL);
  CHECK_EQ(ucxx_listener_port(NULL), 0);

  STEP("the address of a listener");
  char expected[64], text[64];
  snprintf(expected, sizeof expected, "127.0.0.1:%d", ucxx_listener_port(site.listener));
  memset(text, 'x', sizeof text);
  size_t length = strlen(expected);
  CHECK_STATUS(ucxx_listener_address(site.listener, text, length), UCXX_ERR_BUFFER_TOO_SMALL);
  CHECK_MESSAGE("capacity");
  CHECK(text[0] == 'x');
  CHECK_OK(ucxx_listener_address(site.listener, text, length + 1));
  CHECK(strcmp(text, expected) == 0);
  site_close(&site);
}

/* UCX 1.13 has no TCP device with the IPv6 address of the loopback interface. */
static int has_ipv6(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  return access("/proc/net/if_inet6", F_OK) == 0 &&
         (version.ucx_major > 1 || version.ucx_minor > 16);
}

/* UCX writes out of bounds if the address families differ, so such addresses must not reach it. */
static void other_family(void) {
  STEP("addresses of a family that UCX's TCP does not support");
  site_t site;
  ends_t client;
  site_open(&site, &manners[0], NULL, ACCEPT);
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *none = NULL;
  params.host = "::1";
  params.on_connect = on_connect;
  CHECK_STATUS(ucxx_listener_create(site.server, &params, &none), UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("TCP_AF_PRIO");
  client.endpoint = NULL;
  CHECK_STATUS(ucxx_endpoint_connect(site.client, "::1", 4711, NULL, &client.endpoint),
               UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("TCP_AF_PRIO");
  CHECK(none == NULL && client.endpoint == NULL);
  site_close(&site);
}

static void without_tcp(void) {
  STEP("no TCP device for UCX to connect over");
  site_t site;
  ends_t client;
  site_open(&site, &manners[0], NULL, ACCEPT);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, seen_count(&client.close) == 1);
  CHECK_STATUS(client.close.status, UCXX_ERR_UNREACHABLE);
  ucxx_endpoint_destroy(client.endpoint);
  site_close(&site);
}

int main(void) {
  test_begin("listener");
  if (!has_tcp()) {
    without_tcp();
    return 0;
  }
  port_taken();
  other_family();
  for (int at = 0; at < MANNERS; at++) {
    const manner_t *manner = &manners[at];
    accept_at_once(manner, "127.0.0.1", "127.0.0.1");
    if (has_ipv6()) accept_at_once(manner, "::1", "[::1]");
    remote_close(manner);
    reject_at_once(manner);
    for (int variant = 0; variant < 4; variant++) {
      if (variant < 2 || manner->thread_mode != UCXX_THREAD_SINGLE)
        answer_later(manner, variant % 2, variant / 2);
    }
    for (int what = 0; what < 3; what++) unanswered(manner, what);
    many_clients(manner);
    destroyed_by_itself(manner);
  }
  return 0;
}
