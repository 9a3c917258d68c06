/* Several handles for one endpoint: it is destroyed with the last of them, whichever that is. */
#include "test_util.h"
#include "client_server.h"

enum { THREADS = 4, HANDLES = 200 };

/* The handle that a callback retains of the endpoint it is given. */
typedef struct keeper {
  seen_t seen;
  ucxx_endpoint_t *kept;
  ucxx_endpoint_t **destroyed; /* a handle to destroy in the callback, or NULL */
} keeper_t;

static void keep(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  keeper_t *keeper = arg;
  CHECK_OK(ucxx_endpoint_retain(endpoint, &keeper->kept));
  CHECK(keeper->kept == endpoint);
  if (keeper->destroyed != NULL) ucxx_endpoint_destroy(*keeper->destroyed);
  see_completion(&keeper->seen, (ucxx_request_t *)endpoint, status);
}

/* Connects the client's worker to the server's. */
static ucxx_endpoint_t *reach(const site_t *site, keeper_t *opened, seen_t *closed,
                              keeper_t *closing) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  if (opened != NULL) {
    memset(opened, 0, sizeof *opened);
    params.on_open = keep;
    params.on_open_arg = opened;
  }
  params.on_close = closing != NULL ? keep : see_endpoint;
  params.on_close_arg = closing != NULL ? (void *)closing : closed;
  memset(params.on_close_arg, 0, closing != NULL ? sizeof *closing : sizeof *closed);
  CHECK_OK(ucxx_worker_address(site->server, &address));
  CHECK_OK(ucxx_endpoint_create(site->client, address, &params, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

static void close_last(const site_t *site, ucxx_endpoint_t *endpoint, const seen_t *closed) {
  ucxx_request_t *close = NULL;
  CHECK_EQ(seen_count(closed), 0);
  CHECK_OK(site_finish(site, close_patiently(endpoint, &close), &close));
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(closed), 1);
  CHECK_OK(closed->status);
}

static void kept_in_on_open(const manner_t *manner, int borrowed_last) {
  STEP("%s: kept in on_open, the %s handle destroyed first", manner->name,
       borrowed_last ? "new" : "old");
  site_t site;
  keeper_t opened;
  seen_t closed;
  site_open(&site, manner, NULL, HOLD);
  ucxx_endpoint_t *endpoint = reach(&site, &opened, &closed, NULL);
  AWAIT(&site, seen_count(&opened.seen) == 1);
  ucxx_endpoint_t *first = borrowed_last ? opened.kept : endpoint,
                  *second = borrowed_last ? endpoint : opened.kept;
  transfer(&site, first, site.server, 1000, 1);
  ucxx_endpoint_destroy(first);
  CHECK_OK(ucxx_endpoint_status(second));
  transfer(&site, second, site.server, 1000, 2);
  transfer(&site, second, site.server, 4 << 20, 3);
  close_last(&site, second, &closed);
  site_close(&site);
}

/* The callback destroys the old handle: only the retained one remains, of a closed endpoint. */
static void kept_in_on_close(const manner_t *manner) {
  STEP("%s: kept in on_close", manner->name);
  site_t site;
  keeper_t closing;
  ucxx_request_t *close = NULL;
  site_open(&site, manner, NULL, HOLD);
  ucxx_endpoint_t *endpoint = reach(&site, NULL, NULL, &closing);
  closing.destroyed = &endpoint;
  transfer(&site, endpoint, site.server, 1000, 1);
  CHECK_OK(site_finish(&site, close_patiently(endpoint, &close), &close));
  AWAIT(&site, seen_count(&closing.seen) == 1);
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_STATUS(ucxx_endpoint_status(closing.kept), UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_endpoint_query(closing.kept, &attr));
  CHECK_EQ(attr.operations_sent, 1);
  CHECK_STATUS(ucxx_tag_send(closing.kept, "message", 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(closing.kept);
  CHECK_EQ(seen_count(&closing.seen), 1);
  site_close(&site);
}

static void outlives_the_worker(const manner_t *manner) {
  STEP("%s: handles that outlive the worker", manner->name);
  site_t site;
  seen_t closed;
  ucxx_endpoint_t *more[2] = {NULL};
  site_open(&site, manner, NULL, HOLD);
  ucxx_endpoint_t *endpoint = reach(&site, NULL, &closed, NULL);
  CHECK_OK(ucxx_endpoint_retain(endpoint, &more[0]));
  ucxx_worker_destroy(site.client);
  site.client = NULL;
  CHECK_EQ(seen_count(&closed), 1);
  CHECK_OK(ucxx_endpoint_retain(endpoint, &more[1]));
  ucxx_endpoint_destroy(endpoint);
  for (int at = 0; at < 2; at++) {
    CHECK_STATUS(ucxx_endpoint_status(more[at]), UCXX_ERR_CLOSED);
    ucxx_endpoint_destroy(more[at]);
  }
  CHECK_EQ(seen_count(&closed), 1);
  site_close(&site);
}

typedef struct holder {
  ucxx_endpoint_t *endpoint;
  const seen_t *closed;
} holder_t;

/* Always holds a handle, and sends on each new one that it derives from it. */
static void *hold(void *arg) {
  holder_t *holder = arg;
  for (int at = 0; at < HANDLES; at++) {
    ucxx_endpoint_t *next = NULL;
    ucxx_request_t *request = NULL;
    CHECK_OK(ucxx_endpoint_retain(holder->endpoint, &next));
    CHECK_OK(finish(ucxx_tag_send(next, &at, sizeof at, 7, NULL, &request), &request));
    CHECK_EQ(seen_count(holder->closed), 0);
    ucxx_endpoint_destroy(holder->endpoint);
    holder->endpoint = next;
  }
  ucxx_endpoint_destroy(holder->endpoint);
  return NULL;
}

static void on_threads(const manner_t *manner) {
  STEP("%s: handles on %d threads", manner->name, THREADS);
  site_t site;
  seen_t closed;
  pthread_t threads[THREADS];
  holder_t holders[THREADS];
  site_open(&site, manner, NULL, HOLD);
  ucxx_endpoint_t *endpoint = reach(&site, NULL, &closed, NULL);
  transfer(&site, endpoint, site.server, 8, 1);
  for (int at = 0; at < THREADS; at++) {
    holders[at].closed = &closed;
    CHECK_OK(ucxx_endpoint_retain(endpoint, &holders[at].endpoint));
  }
  /* Before the threads run: the last one waits for the server, which only this thread drives. */
  ucxx_endpoint_destroy(endpoint);
  for (int at = 0; at < THREADS; at++)
    CHECK_EQ(pthread_create(&threads[at], NULL, hold, &holders[at]), 0);
  for (int at = 0; at < THREADS * HANDLES; at++) {
    int number = -1;
    ucxx_request_t *request = NULL;
    CHECK_OK(site_finish(
        &site, ucxx_tag_recv(site.server, &number, sizeof number, 7, UINT64_MAX, NULL, &request),
        &request));
    CHECK(number >= 0 && number < HANDLES);
  }
  AWAIT(&site, seen_count(&closed) == 1);
  for (int at = 0; at < THREADS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  CHECK_EQ(seen_count(&closed), 1);
  CHECK_OK(closed.status);
  site_close(&site);
}

int main(void) {
  test_begin("endpoint_retain");
  for (int at = 0; at < MANNERS; at++) {
    kept_in_on_open(&manners[at], 0);
    kept_in_on_open(&manners[at], 1);
    kept_in_on_close(&manners[at]);
    outlives_the_worker(&manners[at]);
    if (manners[at].thread_mode == UCXX_THREAD_MULTI) on_threads(&manners[at]);
  }
  return 0;
}
