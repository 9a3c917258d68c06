/* A server's worker with a listener, and a client's worker, driven in one of several ways. Include
 * after test_util.h. */
#ifndef UCXX_RS_CLIENT_SERVER_H
#define UCXX_RS_CLIENT_SERVER_H
#include <pthread.h>

typedef struct manner {
  const char *name;
  int32_t thread_mode, progress_mode, delayed;
} manner_t;
static const manner_t manners[] = {
    {"SINGLE", UCXX_THREAD_SINGLE, UCXX_PROGRESS_MANUAL, 0},
    {"SERIALIZED", UCXX_THREAD_SERIALIZED, UCXX_PROGRESS_MANUAL, 0},
    {"MULTI", UCXX_THREAD_MULTI, UCXX_PROGRESS_MANUAL, 0},
    {"progress thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_ADAPTIVE, 1},
    {"progress thread, direct submission", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_BLOCKING, -1},
};
enum { MANNERS = sizeof manners / sizeof *manners, HELD = 64 };

typedef struct ends {
  seen_t open, close;
  ucxx_endpoint_t *endpoint;
} ends_t;

/* What on_connect does with a request. */
enum answer { ACCEPT, REJECT, HOLD };

typedef struct site {
  const manner_t *manner;
  ucxx_context_t *context;
  ucxx_worker_t *server, *client;
  ucxx_listener_t *listener;
  enum answer answer;
  ends_t accepted[HELD];
  ucxx_conn_request_t *held[HELD];
  int asked; /* counted with atomic operations */
} site_t;

static inline ucxx_endpoint_params_t watching(ends_t *ends) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  memset(ends, 0, sizeof *ends);
  params.on_open = params.on_close = see_endpoint;
  params.on_open_arg = &ends->open;
  params.on_close_arg = &ends->close;
  return params;
}

static inline int asked(site_t *site) { return __atomic_load_n(&site->asked, __ATOMIC_ACQUIRE); }

static inline void on_connect(void *arg, ucxx_conn_request_t *request) {
  site_t *site = arg;
  int at = asked(site);
  CHECK(at < HELD);
  if (site->answer == ACCEPT) {
    ucxx_endpoint_params_t params = watching(&site->accepted[at]);
    CHECK_OK(ucxx_endpoint_accept(request, &params, &site->accepted[at].endpoint));
    ucxx_conn_request_destroy(request);
  } else if (site->answer == REJECT) {
    CHECK_OK(ucxx_conn_request_reject(request));
    ucxx_conn_request_destroy(request);
  } else {
    site->held[at] = request;
  }
  __atomic_store_n(&site->asked, at + 1, __ATOMIC_RELEASE);
}

static inline ucxx_listener_t *listen_on(site_t *site, const char *host) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  params.host = host;
  params.port = test_free_port();
  params.on_connect = on_connect;
  params.on_connect_arg = site;
  CHECK_OK(ucxx_listener_create(site->server, &params, &listener));
  CHECK_EQ(ucxx_listener_port(listener), params.port);
  return listener;
}

/* IPv6 if `host` is an IPv6 address. */
static inline void site_open(site_t *site, const manner_t *manner, const char *host,
                             enum answer answer) {
  static const ucxx_config_entry_t ipv6 = {"TCP_AF_PRIO", "inet6"};
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.config = &ipv6;
  context_params.config_count = host != NULL && strchr(host, ':') != NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  memset(site, 0, sizeof *site);
  site->manner = manner;
  site->answer = answer;
  params.thread_mode = manner->thread_mode;
  params.progress_mode = manner->progress_mode;
  params.delayed_submission = manner->delayed;
  CHECK_OK(ucxx_context_create(&context_params, &site->context));
  CHECK_OK(ucxx_worker_create(site->context, &params, &site->server));
  CHECK_OK(ucxx_worker_create(site->context, &params, &site->client));
  site->listener = listen_on(site, host);
}

static inline void site_progress(const site_t *site) {
  progress(site->server);
  progress(site->client);
}

/* Both sides make progress until `condition` holds. Only the guard limits the wait. */
#define AWAIT(site, condition) \
  do site_progress(site);      \
  while (!(condition))

static inline ucxx_status_t site_finish(const site_t *site, ucxx_status_t status,
                                        ucxx_request_t **request) {
  if (status == UCXX_INPROGRESS) AWAIT(site, ucxx_request_status(*request) != UCXX_INPROGRESS);
  return finish(status, request);
}

static inline ucxx_endpoint_t *dial(const site_t *site, const char *host, ends_t *ends) {
  ucxx_endpoint_params_t params = watching(ends);
  CHECK_OK(ucxx_endpoint_connect(site->client, host, ucxx_listener_port(site->listener), &params,
                                 &ends->endpoint));
  return ends->endpoint;
}

/* Closes both ends at once and waits until on_close has run on each. */
static inline void hang_up(const site_t *site, ends_t *left, ends_t *right) {
  ends_t *both[] = {left, right};
  ucxx_request_t *requests[2] = {NULL};
  ucxx_status_t status[2] = {UCXX_OK, UCXX_OK};
  for (int at = 0; at < 2; at++) {
    if (both[at] != NULL && both[at]->endpoint != NULL &&
        ucxx_endpoint_status(both[at]->endpoint) != UCXX_ERR_CLOSED)
      status[at] = close_patiently(both[at]->endpoint, &requests[at]);
  }
  for (int at = 0; at < 2; at++) {
    CHECK_OK(site_finish(site, status[at], &requests[at]));
    if (both[at] != NULL && both[at]->endpoint != NULL) {
      AWAIT(site, seen_count(&both[at]->close) > 0);
      ucxx_endpoint_destroy(both[at]->endpoint);
      CHECK_EQ(seen_count(&both[at]->close), 1);
      both[at]->endpoint = NULL;
    }
  }
}

static inline void transfer(const site_t *site, ucxx_endpoint_t *from, ucxx_worker_t *to,
                            size_t length, uint64_t tag) {
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  ucxx_request_t *send = NULL, *receive = NULL;
  test_fill(out, length, tag);
  ucxx_status_t received = ucxx_tag_recv(to, in, length, tag, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_tag_send(from, out, length, tag, NULL, &send);
  CHECK_OK(site_finish(site, sent, &send));
  CHECK_OK(site_finish(site, received, &receive));
  CHECK_CONTENT(in, length, tag);
  free(out);
  free(in);
}

static inline void site_close(site_t *site) {
  ucxx_listener_destroy(site->listener);
  ucxx_worker_destroy(site->client);
  ucxx_worker_destroy(site->server);
  ucxx_context_destroy(site->context);
}
#endif
