/* A close reaches the peer: its endpoint closes once, with CONNECTION_RESET, and all its operations
 * complete. Other endpoints stay open. */
#include "test_util.h"

#include "client_server.h"

enum { SEVERAL = 3, SENDS = 20, LARGE = 4 << 20 };

typedef struct sides {
  const manner_t *manner;
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_address_t *to_left, *to_right;
} sides_t;

static void sides_open(sides_t *sides, const manner_t *manner) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  memset(sides, 0, sizeof *sides);
  sides->manner = manner;
  params.thread_mode = manner->thread_mode;
  params.progress_mode = manner->progress_mode;
  params.delayed_submission = manner->delayed;
  CHECK_OK(ucxx_context_create(NULL, &sides->context));
  CHECK_OK(ucxx_worker_create(sides->context, &params, &sides->left));
  CHECK_OK(ucxx_worker_create(sides->context, &params, &sides->right));
  CHECK_OK(ucxx_worker_address(sides->left, &sides->to_left));
  CHECK_OK(ucxx_worker_address(sides->right, &sides->to_right));
}

static void sides_progress(const sides_t *sides) {
  progress(sides->left);
  progress(sides->right);
}

#define UNTIL(sides, condition) \
  do sides_progress(sides);     \
  while (!(condition))

static void sides_close(sides_t *sides) {
  ucxx_worker_destroy(sides->left);
  ucxx_worker_destroy(sides->right);
  ucxx_address_destroy(sides->to_left);
  ucxx_address_destroy(sides->to_right);
  ucxx_context_destroy(sides->context);
}

static void reach(ucxx_worker_t *worker, const ucxx_address_t *address, int32_t error_handling,
                  ends_t *ends) {
  ucxx_endpoint_params_t params = watching(ends);
  params.error_handling = error_handling;
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &ends->endpoint));
}

static void finished(const sides_t *sides, ucxx_status_t status, ucxx_request_t **request,
                     ucxx_status_t expected) {
  if (status == UCXX_INPROGRESS) UNTIL(sides, ucxx_request_status(*request) != UCXX_INPROGRESS);
  CHECK_STATUS(finish(status, request), expected);
}

static void say(const sides_t *sides, const ends_t *from, ucxx_worker_t *to, uint64_t word) {
  uint64_t got = 0;
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t received = ucxx_tag_recv(to, &got, sizeof got, word, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_tag_send(from->endpoint, &word, sizeof word, word, NULL, &send);
  finished(sides, sent, &send, UCXX_OK);
  finished(sides, received, &receive, UCXX_OK);
  CHECK_EQ(got, word);
}

static void close_it(const sides_t *sides, ends_t *ends, int32_t how) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = how == UCXX_CLOSE_FLUSH
                             ? close_patiently(ends->endpoint, &request)
                             : ucxx_endpoint_close(ends->endpoint, how, NULL, &request);
  finished(sides, status, &request, UCXX_OK);
  UNTIL(sides, seen_count(&ends->close) > 0);
  CHECK_OK(ends->close.status);
  ucxx_endpoint_destroy(ends->endpoint);
  CHECK_EQ(seen_count(&ends->close), 1);
}

/* The peer of `ends` has closed its endpoint. */
static void left_alone(const sides_t *sides, ends_t *ends) {
  UNTIL(sides, seen_count(&ends->close) > 0);
  CHECK_STATUS(ends->close.status, UCXX_ERR_CONNECTION_RESET);
  CHECK_STATUS(ucxx_endpoint_status(ends->endpoint), UCXX_ERR_CONNECTION_RESET);
  CHECK_STATUS(ucxx_tag_send(ends->endpoint, "message", 8, 1, NULL, NULL),
               UCXX_ERR_CONNECTION_RESET);
  CHECK_MESSAGE("closed by its peer");
  ucxx_endpoint_destroy(ends->endpoint);
  CHECK_EQ(seen_count(&ends->close), 1);
}

/* Both sides have created their endpoints; the other one waits for a message. */
static void both_ends(const manner_t *manner, int32_t error_handling, int32_t how) {
  STEP("%s: both endpoints, error handling %d, close %d", manner->name, error_handling, how);
  sides_t sides;
  ends_t here, there;
  uint64_t word = 0;
  ucxx_request_t *waiting = NULL;
  ucxx_op_params_t from = UCXX_OP_PARAMS_INIT;
  sides_open(&sides, manner);
  reach(sides.left, sides.to_right, error_handling, &here);
  reach(sides.right, sides.to_left, error_handling, &there);
  UNTIL(&sides, seen_count(&here.open) + seen_count(&there.open) == 2);
  say(&sides, &here, sides.right, 1);
  say(&sides, &there, sides.left, 2);
  from.source = there.endpoint;
  CHECK_STATUS(ucxx_tag_recv(sides.right, &word, 8, 3, UINT64_MAX, &from, &waiting),
               UCXX_INPROGRESS);
  close_it(&sides, &here, how);
  finished(&sides, UCXX_INPROGRESS, &waiting, UCXX_ERR_CONNECTION_RESET);
  left_alone(&sides, &there);
  sides_close(&sides);
}

static void count_unclaimed(void *arg, const char *text) {
  *(int *)arg += strstr(text, ", unclaimed,") != NULL;
}

/* Endpoints that a peer's Hello created and that no call here has claimed yet. */
static int unclaimed(ucxx_worker_t *worker) {
  int count = 0;
  CHECK_OK(ucxx_worker_dump(worker, count_unclaimed, &count));
  return count;
}

/* The other side creates its endpoints after the first side has created and used its own: they pair
 * up. */
static void made_later(const manner_t *manner) {
  STEP("%s: endpoints created later", manner->name);
  sides_t sides;
  ends_t here[SEVERAL], there[SEVERAL];
  int lost = 0;
  sides_open(&sides, manner);
  for (int at = 0; at < SEVERAL; at++)
    reach(sides.left, sides.to_right, UCXX_ENDPOINT_ERROR_HANDLING_PEER, &here[at]);
  for (int at = 0; at < SEVERAL; at++) UNTIL(&sides, seen_count(&here[at].open) == 1);
  /* Hellos that arrived out of order are sorted out one pass later. */
  UNTIL(&sides, unclaimed(sides.right) == SEVERAL);
  CHECK_EQ(unclaimed(sides.left), 0);
  for (int at = 0; at < SEVERAL; at++)
    reach(sides.right, sides.to_left, UCXX_ENDPOINT_ERROR_HANDLING_PEER, &there[at]);
  CHECK_EQ(unclaimed(sides.right), 0);
  for (int at = 0; at < SEVERAL; at++) UNTIL(&sides, seen_count(&there[at].open) == 1);
  close_it(&sides, &here[1], UCXX_CLOSE_FLUSH);
  UNTIL(&sides,
        seen_count(&there[0].close) + seen_count(&there[1].close) + seen_count(&there[2].close) >
            0);
  for (int at = 0; at < SEVERAL; at++)
    say(&sides, &here[at == 1 ? 0 : at], sides.right, 10 + (uint64_t)at);
  for (int at = 0; at < SEVERAL; at++) {
    if (seen_count(&there[at].close) > 0) {
      left_alone(&sides, &there[at]);
      there[at].endpoint = NULL;
      lost++;
    }
  }
  CHECK_EQ(lost, 1);
  for (int at = 0; at < SEVERAL; at++) {
    if (there[at].endpoint != NULL) {
      say(&sides, &there[at], sides.left, 20 + (uint64_t)at);
      close_it(&sides, &there[at], UCXX_CLOSE_FORCE);
    }
  }
  left_alone(&sides, &here[0]);
  left_alone(&sides, &here[2]);
  sides_close(&sides);
}

static void worker_goes(const manner_t *manner) {
  STEP("%s: the peer's worker is destroyed", manner->name);
  sides_t sides;
  ends_t here;
  sides_open(&sides, manner);
  reach(sides.left, sides.to_right, UCXX_ENDPOINT_ERROR_HANDLING_PEER, &here);
  UNTIL(&sides, seen_count(&here.open) == 1);
  ucxx_worker_destroy(sides.right);
  sides.right = NULL;
  while (seen_count(&here.close) == 0) progress(sides.left);
  CHECK_STATUS(here.close.status, UCXX_ERR_CONNECTION_RESET);
  ucxx_endpoint_destroy(here.endpoint);
  sides_close(&sides);
}

/* Destroying a worker cuts its sends short, even if the peer has closed as well by then. */
static void worker_goes_with_sends(const manner_t *manner) {
  STEP("%s: a worker is destroyed with sends in flight", manner->name);
  site_t site;
  ends_t client;
  uint8_t *data = test_alloc(LARGE);
  seen_t seen[SENDS];
  ucxx_request_t *requests[SENDS];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(seen, 0, sizeof seen);
  site_open(&site, manner, NULL, ACCEPT);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, seen_count(&client.open) == 1 && asked(&site) == 1 &&
                   seen_count(&site.accepted[0].open) == 1);
  transfer(&site, client.endpoint, site.server, 100, 1);
  params.callback = see_completion;
  for (int at = 0; at < SENDS; at++) {
    params.callback_arg = &seen[at];
    CHECK_STATUS(ucxx_tag_send(site.accepted[0].endpoint, data, LARGE, 2, &params, &requests[at]),
                 UCXX_INPROGRESS);
  }
  ucxx_worker_destroy(site.server);
  site.server = NULL;
  for (int at = 0; at < SENDS; at++) {
    CHECK_EQ(seen_count(&seen[at]), 1);
    CHECK_STATUS(seen[at].status, UCXX_ERR_CANCELED);
    ucxx_request_destroy(requests[at]);
  }
  CHECK_OK(site.accepted[0].close.status);
  while (seen_count(&client.close) == 0) progress(site.client);
  CHECK_STATUS(client.close.status, UCXX_ERR_CONNECTION_RESET);
  ucxx_endpoint_destroy(client.endpoint);
  ucxx_endpoint_destroy(site.accepted[0].endpoint);
  site_close(&site);
  free(data);
}

int main(void) {
  test_begin("close_handshake");
  for (int at = 0; at < MANNERS; at++) {
    both_ends(&manners[at], UCXX_ENDPOINT_ERROR_HANDLING_PEER, UCXX_CLOSE_FLUSH);
    both_ends(&manners[at], UCXX_ENDPOINT_ERROR_HANDLING_PEER, UCXX_CLOSE_FORCE);
    both_ends(&manners[at], UCXX_ENDPOINT_ERROR_HANDLING_NONE, UCXX_CLOSE_FLUSH);
    made_later(&manners[at]);
    worker_goes(&manners[at]);
    /* The peer must answer while this side waits in destroy. */
    if (has_tcp() && manners[at].progress_mode != UCXX_PROGRESS_MANUAL)
      worker_goes_with_sends(&manners[at]);
  }
  return 0;
}
