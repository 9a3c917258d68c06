/*
 * A server and a client without callbacks: notifiers deliver connection requests, messages, fetches
 * and the closes of endpoints. Events that nobody polls cause no leak.
 */
#include "test_util.h"

#include <sys/resource.h>

enum { MESSAGES = 1, QUESTIONS = 2, COUNT = 600, CREDIT = 256, LARGE = 2 << 20, BACKLOG = 512 };

/* User data that identifies each kind of report. */
static char by_listener, by_message, by_question, by_endpoint;

static size_t poll_some(ucxx_notifier_t *notifier, ucxx_completion_t *completions, size_t max) {
  size_t count = SIZE_MAX;
  CHECK_OK(ucxx_notifier_poll(notifier, completions, sizeof *completions, max, &count));
  CHECK(count <= max);
  return count;
}

/* Returns the next event, which must be of this kind. */
static ucxx_completion_t next(ucxx_worker_t *worker, ucxx_notifier_t *notifier, int32_t event,
                              const void *user_data) {
  ucxx_completion_t got;
  while (poll_some(notifier, &got, 1) == 0) progress(worker);
  CHECK_EQ(got.kind, event);
  CHECK(got.user_data == user_data);
  CHECK(got.request == NULL);
  CHECK((got.handle == NULL) == (event == UCXX_EVENT_ENDPOINT_CLOSED));
  for (size_t at = 0; at < sizeof got.reserved / sizeof *got.reserved; at++)
    CHECK_EQ(got.reserved[at], 0);
  return got;
}

static ucxx_notifier_t *create(ucxx_context_t *context) {
  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  return notifier;
}

static ucxx_endpoint_params_t reporting(ucxx_notifier_t *notifier) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.notifier = notifier;
  params.on_close_arg = &by_endpoint;
  return params;
}

/* ------------------------------------------------------------------ messages and fetches */

static void answer(ucxx_fetch_t *question, size_t number) {
  size_t length = 0;
  const void *header = ucxx_fetch_header(question, &length);
  CHECK(length == sizeof number && memcmp(header, &number, sizeof number) == 0);
  number++;
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_fetch_reply(question, &number, sizeof number, NULL, &request), &request));
  ucxx_fetch_destroy(question);
}

static void serve(const pair_t *pair, ucxx_notifier_t *notifier) {
  static ucxx_completion_t all[COUNT];
  pair_await(pair);
  STEP("the other side has sent its fetches, and waits for credit");
  while (ucxx_notifier_wait(notifier, 0) == UCXX_ERR_TIMED_OUT) progress(pair->worker);
  for (int pass = 0; pass < 2000; pass++) progress(pair->worker);
  size_t taken = poll_some(notifier, all, COUNT);
  if (taken == 0 || taken > CREDIT)
    FAIL("%zu fetches wait here, and the peer may have %d unanswered", taken, CREDIT);
  for (size_t at = 0; at < COUNT; at++) {
    if (at >= taken) all[at] = next(pair->worker, notifier, UCXX_EVENT_FETCH, &by_question);
    CHECK_EQ(all[at].kind, UCXX_EVENT_FETCH);
    answer(all[at].handle, at);
  }
  STEP("messages");
  for (size_t at = 0; at < COUNT; at++) {
    ucxx_completion_t got = next(pair->worker, notifier, UCXX_EVENT_AM_MESSAGE, &by_message);
    const size_t expected = at == COUNT / 2 ? LARGE : at;
    CHECK_EQ(got.length, expected);
    void *data = test_alloc(expected);
    ucxx_request_t *request = NULL;
    CHECK_OK(finish(ucxx_am_message_recv(got.handle, data, expected, NULL, &request), &request));
    CHECK_CONTENT(data, expected, at);
    free(data);
    ucxx_am_message_destroy(got.handle);
  }
}

static void ask(const pair_t *pair) {
  static ucxx_request_t *requests[COUNT];
  static size_t answers[COUNT];
  for (size_t at = 0; at < COUNT; at++)
    CHECK_STATUS(ucxx_am_fetch(pair->endpoint, QUESTIONS, &at, sizeof at, &answers[at],
                               sizeof answers[at], NULL, &requests[at]),
                 UCXX_INPROGRESS);
  pair_tell(pair);
  STEP("answers");
  for (size_t at = 0; at < COUNT; at++) {
    CHECK_OK(finish(UCXX_INPROGRESS, &requests[at]));
    CHECK_EQ(answers[at], at + 1);
  }
  STEP("messages");
  for (size_t at = 0; at < COUNT; at++) {
    const size_t length = at == COUNT / 2 ? LARGE : at;
    void *data = test_alloc(length);
    test_fill(data, length, at);
    ucxx_request_t *request = NULL;
    CHECK_OK(finish(ucxx_am_send(pair->endpoint, MESSAGES, NULL, 0, data, length, NULL, &request),
                    &request));
    free(data);
  }
}

/* Context, worker, and their notifier. */
static ucxx_notifier_t *open_side(pair_t *pair, int32_t mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, &params, &pair->worker));
  return create(pair->context);
}

static void close_side(pair_t *pair, ucxx_notifier_t *notifier) {
  ucxx_worker_destroy(pair->worker);
  ucxx_notifier_destroy(notifier);
  ucxx_context_destroy(pair->context);
  pair->worker = NULL;
}

static void talk(pair_t *pair, int32_t mode) {
  ucxx_notifier_t *notifier = open_side(pair, mode);
  ucxx_endpoint_params_t endpoint_params = reporting(notifier);
  CHECK_OK(ucxx_worker_set_am_notifier(pair->worker, MESSAGES, notifier, &by_message));
  CHECK_OK(ucxx_worker_set_fetch_notifier(pair->worker, QUESTIONS, notifier, &by_question));
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &endpoint_params, &pair->endpoint));
  ucxx_address_destroy(address);
  pair_sync(pair);
  if (pair->side == 0)
    serve(pair, notifier);
  else
    ask(pair);
  pair_sync(pair);
  STEP("the end");
  ucxx_request_t *close = NULL;
  if (pair->side == 1) CHECK_OK(finish(close_patiently(pair->endpoint, &close), &close));
  ucxx_completion_t end = next(pair->worker, notifier, UCXX_EVENT_ENDPOINT_CLOSED, &by_endpoint);
  CHECK_STATUS(end.status, pair->side == 1 ? UCXX_OK : UCXX_ERR_CONNECTION_RESET);
  pair_sync(pair);
  ucxx_endpoint_destroy(pair->endpoint);
  CHECK_EQ(poll_some(notifier, &end, 1), 0);
  close_side(pair, notifier);
}

/* ------------------------------------------------------------------ connection requests */

static void dial(const pair_t *pair, ucxx_notifier_t *notifier, uint16_t port,
                 ucxx_status_t expected) {
  ucxx_endpoint_params_t params = reporting(notifier);
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *request = NULL;
  size_t number = 7, reply = 0;
  CHECK_OK(ucxx_endpoint_connect(pair->worker, "127.0.0.1", port, &params, &endpoint));
  if (expected == UCXX_OK) {
    CHECK_OK(finish(ucxx_am_fetch(endpoint, QUESTIONS, &number, sizeof number, &reply, sizeof reply,
                                  NULL, &request),
                    &request));
    CHECK_EQ(reply, 8);
    CHECK_OK(finish(close_patiently(endpoint, &request), &request));
  }
  CHECK_STATUS(next(pair->worker, notifier, UCXX_EVENT_ENDPOINT_CLOSED, &by_endpoint).status,
               expected);
  ucxx_endpoint_destroy(endpoint);
}

static void listen_without_callback(pair_t *pair, int32_t mode) {
  ucxx_notifier_t *notifier = open_side(pair, mode);
  uint16_t port = 0;
  if (pair->side == 1) {
    channel_get(pair, &port, sizeof port);
    STEP("the client is accepted, and fetches");
    dial(pair, notifier, port, UCXX_OK);
    STEP("the client is rejected: by the server, with the notifier, after the notifier");
    for (int time = 0; time < 3; time++) {
      dial(pair, notifier, port, UCXX_ERR_REJECTED);
      pair_sync(pair);
    }
  } else {
    ucxx_notifier_t *requests = create(pair->context);
    ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
    ucxx_listener_t *listener = NULL;
    listening.notifier = requests;
    listening.on_connect_arg = &by_listener;
    CHECK_OK(ucxx_worker_set_fetch_notifier(pair->worker, QUESTIONS, notifier, &by_question));
    CHECK_OK(ucxx_listener_create(pair->worker, &listening, &listener));
    port = ucxx_listener_port(listener);
    channel_put(pair, &port, sizeof port);
    STEP("the server accepts");
    ucxx_conn_request_t *request =
        next(pair->worker, requests, UCXX_EVENT_CONN_REQUEST, &by_listener).handle;
    ucxx_endpoint_params_t accepting = reporting(notifier);
    ucxx_endpoint_t *endpoint = NULL;
    char text[64];
    CHECK_OK(ucxx_conn_request_address(request, text, sizeof text));
    CHECK(strncmp(text, "127.0.0.1:", 10) == 0);
    CHECK_OK(ucxx_endpoint_accept(request, &accepting, &endpoint));
    ucxx_conn_request_destroy(request);
    answer(next(pair->worker, notifier, UCXX_EVENT_FETCH, &by_question).handle, 7);
    CHECK_STATUS(next(pair->worker, notifier, UCXX_EVENT_ENDPOINT_CLOSED, &by_endpoint).status,
                 UCXX_ERR_CONNECTION_RESET);
    ucxx_endpoint_destroy(endpoint);
    STEP("the server rejects");
    request = next(pair->worker, requests, UCXX_EVENT_CONN_REQUEST, &by_listener).handle;
    CHECK_OK(ucxx_conn_request_reject(request));
    ucxx_conn_request_destroy(request);
    pair_sync(pair);
    while (ucxx_notifier_wait(requests, 0) == UCXX_ERR_TIMED_OUT) progress(pair->worker);
    ucxx_notifier_destroy(requests);
    pair_sync(pair);
    pair_sync(pair);
    ucxx_listener_destroy(listener);
  }
  close_side(pair, notifier);
}

/* ------------------------------------------------------------------ events that nobody polls */

static void notifier_goes_first(void) {
  STEP("messages and fetches are dropped with their notifier");
  duo_t duo;
  size_t reply = 0;
  ucxx_request_t *question = NULL, *message = NULL;
  uint8_t *data = test_alloc(LARGE);
  test_fill(data, LARGE, 1);
  duo_open(&duo, NULL);
  ucxx_notifier_t *notifier = create(duo.context);
  CHECK_OK(ucxx_worker_set_am_notifier(duo.right, MESSAGES, notifier, NULL));
  CHECK_OK(ucxx_worker_set_fetch_notifier(duo.right, QUESTIONS, notifier, NULL));
  ucxx_status_t sent = ucxx_am_send(duo.to_right, MESSAGES, NULL, 0, data, LARGE, NULL, &message);
  ucxx_status_t asked =
      ucxx_am_fetch(duo.to_right, QUESTIONS, NULL, 0, &reply, sizeof reply, NULL, &question);
  /* In the order in which they were sent. */
  ucxx_completion_t first;
  while (poll_some(notifier, &first, 1) == 0) duo_progress(&duo);
  CHECK_EQ(first.kind, UCXX_EVENT_AM_MESSAGE);
  ucxx_am_message_destroy(first.handle);
  CHECK_OK(duo_finish(&duo, sent, &message));
  sent = ucxx_am_send(duo.to_right, MESSAGES, NULL, 0, data, LARGE, NULL, &message);
  while (ucxx_notifier_wait(notifier, 0) == UCXX_ERR_TIMED_OUT) duo_progress(&duo);
  CHECK_STATUS(ucxx_request_status(question), UCXX_INPROGRESS);
  ucxx_notifier_destroy(notifier);
  CHECK_STATUS(duo_finish(&duo, asked, &question), UCXX_ERR_CANCELED);
  CHECK_OK(duo_finish(&duo, sent, &message));
  STEP("messages and fetches that arrive later");
  asked = ucxx_am_fetch(duo.to_right, QUESTIONS, NULL, 0, &reply, sizeof reply, NULL, &question);
  CHECK_STATUS(duo_finish(&duo, asked, &question), UCXX_ERR_NO_ELEM);
  sent = ucxx_am_send(duo.to_right, MESSAGES, NULL, 0, data, LARGE, NULL, &message);
  CHECK_OK(duo_finish(&duo, sent, &message));
  STEP("removed");
  CHECK_OK(ucxx_worker_set_am_notifier(duo.right, MESSAGES, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_notifier(duo.right, QUESTIONS, NULL, NULL));
  sent = ucxx_am_send(duo.to_right, MESSAGES, NULL, 0, data, LARGE, NULL, &message);
  CHECK_STATUS(duo_finish(&duo, sent, &message), UCXX_ERR_NO_ELEM);
  STEP("refused");
  notifier = create(duo.context);
  CHECK_OK(ucxx_notifier_stop(notifier));
  CHECK_STATUS(ucxx_worker_set_am_notifier(duo.right, MESSAGES, notifier, NULL), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_worker_set_fetch_notifier(duo.right, QUESTIONS, notifier, NULL),
               UCXX_ERR_CLOSED);
  ucxx_notifier_destroy(notifier);
  duo_close(&duo);
  free(data);
}

static void worker_goes_first(void) {
  STEP("events outlive their worker");
  duo_t duo;
  ucxx_request_t *question = NULL;
  uint64_t word = 5, reply = 0;
  size_t length = 0;
  ucxx_completion_t got;
  ucxx_context_t *context = NULL;
  duo_open(&duo, NULL);
  context = duo.context;
  ucxx_notifier_t *notifier = create(context);
  ucxx_endpoint_params_t params = reporting(notifier);
  CHECK_OK(ucxx_worker_set_am_notifier(duo.right, MESSAGES, notifier, NULL));
  CHECK_OK(ucxx_worker_set_fetch_notifier(duo.right, QUESTIONS, notifier, NULL));
  ucxx_endpoint_t *watched = connect_workers_as(duo.right, duo.left, &params);
  CHECK(ucxx_am_send(duo.to_right, MESSAGES, &word, sizeof word, NULL, 0, NULL, NULL) >= 0);
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, QUESTIONS, &word, sizeof word, &reply, sizeof reply,
                             NULL, &question),
               UCXX_INPROGRESS);
  while (poll_some(notifier, &got, 1) == 0) duo_progress(&duo);
  CHECK_EQ(got.kind, UCXX_EVENT_AM_MESSAGE);
  while (ucxx_notifier_wait(notifier, 0) == UCXX_ERR_TIMED_OUT) duo_progress(&duo);
  ucxx_worker_destroy(duo.right);
  CHECK(memcmp(ucxx_am_message_header(got.handle, &length), &word, sizeof word) == 0 &&
        length == sizeof word);
  ucxx_am_message_destroy(got.handle);
  CHECK_EQ(poll_some(notifier, &got, 1), 1);
  CHECK_EQ(got.kind, UCXX_EVENT_FETCH);
  CHECK(memcmp(ucxx_fetch_header(got.handle, &length), &word, sizeof word) == 0 &&
        length == sizeof word);
  ucxx_fetch_destroy(got.handle);
  CHECK_EQ(poll_some(notifier, &got, 1), 1);
  CHECK_EQ(got.kind, UCXX_EVENT_ENDPOINT_CLOSED);
  ucxx_endpoint_destroy(watched);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_request_destroy(question);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_notifier_destroy(notifier);
  ucxx_context_destroy(context);
}

/* ------------------------------------------------------------------ nobody polls */

static void backlog(void) {
  STEP("connection requests that nobody polls");
  struct rlimit limit;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < 8 * BACKLOG || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    printf("skipped: the backlog, which needs more descriptors than this process may have\n");
    return;
  }
  static ucxx_endpoint_t *endpoints[BACKLOG + 1];
  ucxx_context_t *context = NULL;
  ucxx_worker_t *server = NULL, *client = NULL;
  ucxx_listener_t *listener = NULL;
  ucxx_completion_t got;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &server));
  CHECK_OK(ucxx_worker_create(context, NULL, &client));
  ucxx_notifier_t *requests = create(context), *ends = create(context);
  ucxx_endpoint_params_t params = reporting(ends);
  ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
  listening.notifier = requests;
  CHECK_OK(ucxx_listener_create(server, &listening, &listener));
  for (int at = 0; at <= BACKLOG; at++) {
    CHECK_OK(ucxx_endpoint_connect(client, "127.0.0.1", ucxx_listener_port(listener), &params,
                                   &endpoints[at]));
    progress(client);
    progress(server);
  }
  while (poll_some(ends, &got, 1) == 0) {
    progress(client);
    progress(server);
  }
  CHECK_EQ(got.kind, UCXX_EVENT_ENDPOINT_CLOSED);
  CHECK_STATUS(got.status, UCXX_ERR_REJECTED);
  CHECK_EQ(poll_some(ends, &got, 1), 0);
  size_t waiting = 0;
  while (poll_some(requests, &got, 1) == 1) {
    ucxx_conn_request_destroy(got.handle);
    waiting++;
  }
  CHECK_EQ(waiting, BACKLOG);
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(server);
  ucxx_worker_destroy(client);
  for (int at = 0; at <= BACKLOG; at++) ucxx_endpoint_destroy(endpoints[at]);
  ucxx_notifier_destroy(requests);
  ucxx_notifier_destroy(ends);
  ucxx_context_destroy(context);
}

static void body(pair_t *pair) {
  static const int32_t modes[] = {UCXX_PROGRESS_MANUAL, UCXX_PROGRESS_THREAD_ADAPTIVE};
  for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
    STEP("progress mode %d", modes[at]);
    talk(pair, modes[at]);
    if (has_tcp()) listen_without_callback(pair, modes[at]);
  }
  if (pair->side == 0) {
    notifier_goes_first();
    worker_goes_first();
  } else if (has_tcp() && getenv("UCX_TLS") != NULL) {
    /* Takes seconds, so only once. */
    backlog();
  }
}

int main(int argc, char **argv) { return pair_main(argc, argv, "no_callbacks", body); }
