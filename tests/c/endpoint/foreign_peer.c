/*
 * Peers that do not use this library, connected by host and port in both directions and by worker
 * address: messages both ways, and each way to end. What the library promises here is best effort:
 * see docs/wire-formats.md.
 *
 *   foreign_peer peer|none PROGRAM [ARGUMENT...]     PROGRAM: such as foreign_raw.c, which
 *                                                    describes its commands
 */
#include "foreign_program.h"

enum {
  TRAILER = 80 /* docs/wire-formats.md */,
  LENGTHS = 4,
  TAG_NEVER = 0x777,
  PATIENCE_NS = 20000000
};
static const size_t lengths[LENGTHS] = {0, 8, 5000, 1 << 20};

static int32_t handling;
static ucxx_context_t *context;

/* ------------------------------------------------------------------ this side */

typedef struct ends {
  ucxx_endpoint_t *endpoint;
  seen_t open, close;
} ends_t;

static ucxx_endpoint_params_t watching(ends_t *ends) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  memset(ends, 0, sizeof *ends);
  params.error_handling = handling;
  params.liveness_ns = handling == UCXX_ENDPOINT_ERROR_HANDLING_NONE ? 0 : PATIENCE_NS;
  params.on_open = params.on_close = see_endpoint;
  params.on_open_arg = &ends->open;
  params.on_close_arg = &ends->close;
  return params;
}

static void accept_it(void *arg, ucxx_conn_request_t *request) {
  ends_t *ends = arg;
  ucxx_endpoint_params_t params = watching(ends);
  CHECK_OK(ucxx_endpoint_accept(request, &params, &ends->endpoint));
  ucxx_conn_request_destroy(request);
}

static void transfer(const foreigner_t *other, const ends_t *ends, int to_them, size_t length,
                     unsigned seed) {
  uint8_t *data = test_alloc(length + 1);
  ucxx_request_t *request = NULL;
  memset(data, 0, length + 1);
  for (size_t at = 0; to_them && at < length; at++) data[at] = pattern(seed, at);
  TELL(other, "%s %u %zu %u\n", to_them ? "recv" : "send", seed, length, seed);
  ucxx_status_t status =
      to_them ? ucxx_tag_send(ends->endpoint, data, length, seed, NULL, &request)
              : ucxx_tag_recv(worker, data, length, seed, UINT64_MAX, NULL, &request);
  CHECK_OK(finish(status, &request));
  expect(other, "ok");
  for (size_t at = 0; !to_them && at < length; at++)
    if (data[at] != pattern(seed, at)) FAIL("byte %zu of %zu is wrong", at, length);
  free(data);
}

static void both_ways(const foreigner_t *other, const ends_t *ends) {
  for (int at = 0; at < LENGTHS; at++) {
    transfer(other, ends, 1, lengths[at], 100 + (unsigned)at);
    transfer(other, ends, 0, lengths[at], 200 + (unsigned)at);
  }
}

/* A foreign peer does not answer liveness checks, and must not be given up for that. */
static void wait_in_vain(const ends_t *ends) {
  static uint8_t word[8];
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = ends->endpoint;
  CHECK_STATUS(ucxx_tag_recv(worker, word, sizeof word, TAG_NEVER, UINT64_MAX, &params, &request),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait(request, 10 * (uint64_t)PATIENCE_NS), UCXX_INPROGRESS);
  CHECK_OK(ucxx_endpoint_status(ends->endpoint));
  ucxx_request_cancel(request);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
}

/* ------------------------------------------------------------------ ways to connect and to end */

enum way { THEY_CONNECT, WE_CONNECT, BY_ADDRESS, WAYS };
static const char *const way_names[] = {"they connect", "we connect", "by address"};
enum end { THEY_CLOSE, WE_CLOSE, THEY_DIE, THEY_DIE_BUSY, ENDS };
static const char *const end_names[] = {"they close", "we close", "they die",
                                        "they die with operations in flight"};

static void they_connect(const foreigner_t *other, ends_t *ends) {
  ucxx_listener_t *listener = NULL;
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = accept_it;
  params.on_connect_arg = ends;
  ends->endpoint = NULL;
  CHECK_OK(ucxx_listener_create(worker, &params, &listener));
  TELL(other, "connect %u\n", ucxx_listener_port(listener));
  expect(other, "ok");
  while (ends->endpoint == NULL) progress(worker);
  ucxx_listener_destroy(listener);
}

static void we_connect(const foreigner_t *other, ends_t *ends) {
  ucxx_endpoint_params_t params = watching(ends);
  TELL(other, "listen\n");
  CHECK_OK(
      ucxx_endpoint_connect(worker, "127.0.0.1", answer_port(other), &params, &ends->endpoint));
  while (seen_count(&ends->open) == 0) {
    if (seen_count(&ends->close) > 0)
      FAIL("no connection: on_close got %s", ucxx_status_name(ends->close.status));
    progress(worker);
  }
}

/* Sends our address without its trailer: only UCP's part. */
static void by_address(const foreigner_t *other, ends_t *ends) {
  ucxx_address_t *own = NULL, *theirs = NULL;
  ucxx_endpoint_params_t params = watching(ends);
  static uint8_t bytes[ANSWER / 2];
  TELL(other, "address\n");
  const char *line = answer(other);
  size_t length = 0;
  CHECK(strncmp(line, "address ", 8) == 0);
  for (const char *digits = line + 8; digits[0] != '\0'; digits += 2) {
    unsigned byte = 0;
    CHECK(sscanf(digits, "%2x", &byte) == 1);
    bytes[length++] = (uint8_t)byte;
  }
  CHECK_STATUS(ucxx_address_from_bytes(bytes, length, &theirs), UCXX_ERR_INVALID_ADDR);
  CHECK_OK(ucxx_address_from_ucp_bytes(bytes, length, &theirs));
  CHECK_OK(ucxx_endpoint_create(worker, theirs, &params, &ends->endpoint));
  ucxx_address_destroy(theirs);

  CHECK_OK(ucxx_worker_address(worker, &own));
  const uint8_t *data = ucxx_address_data(own);
  length = ucxx_address_length(own) - TRAILER;
  fprintf(other->to, "reach ");
  for (size_t at = 0; at < length; at++) fprintf(other->to, "%02x", data[at]);
  TELL(other, "\n");
  expect(other, "ok");
  ucxx_address_destroy(own);
}

/* on_close must run. The test prints its status, which must be that of an end caused by the
 * peer. */
static void await_close(const ends_t *ends, const char *what) {
  while (seen_count(&ends->close) == 0) progress(worker);
  printf("%s: on_close got %s\n", what, ucxx_status_name(ends->close.status));
  if (ends->close.status != UCXX_ERR_PEER_FAILED && ends->close.status != UCXX_ERR_CONNECTION_RESET)
    FAIL("on_close got %s", ucxx_status_name(ends->close.status));
  CHECK(ucxx_endpoint_status(ends->endpoint) < 0);
}

static void they_die(foreigner_t *other, ends_t *ends, int busy) {
  enum { SENDS = 20 };
  static uint8_t data[SENDS][1 << 20], word[8];
  seen_t fired[SENDS + 1];
  memset(fired, 0, sizeof fired);
  for (int at = 0; busy && at <= SENDS; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = see_completion;
    params.callback_arg = &fired[at];
    params.source = at == SENDS ? ends->endpoint : NULL;
    if (at < SENDS)
      CHECK_STATUS(
          ucxx_tag_send(ends->endpoint, data[at], sizeof data[at], TAG_NEVER, &params, NULL),
          UCXX_INPROGRESS);
    else
      CHECK_STATUS(ucxx_tag_recv(worker, word, sizeof word, TAG_NEVER, UINT64_MAX, &params, NULL),
                   UCXX_INPROGRESS);
  }
  stop(other, 1);
  await_close(ends, busy ? end_names[THEY_DIE_BUSY] : end_names[THEY_DIE]);
  CHECK_STATUS(ends->close.status, UCXX_ERR_PEER_FAILED);
  for (int at = 0; busy && at <= SENDS; at++) {
    while (seen_count(&fired[at]) == 0) progress(worker);
    CHECK_STATUS(fired[at].status, UCXX_ERR_PEER_FAILED);
  }
}

static void meet(enum way way, enum end end) {
  STEP("%s, %s", way_names[way], end_names[end]);
  foreigner_t other;
  ends_t ends;
  ucxx_request_t *close = NULL;
  start(&other);
  if (way == THEY_CONNECT)
    they_connect(&other, &ends);
  else if (way == WE_CONNECT)
    we_connect(&other, &ends);
  else
    by_address(&other, &ends);
  both_ways(&other, &ends);
  if (end == WE_CLOSE) wait_in_vain(&ends);
  if (end == THEY_DIE || end == THEY_DIE_BUSY) {
    they_die(&other, &ends, end == THEY_DIE_BUSY);
  } else if (end == WE_CLOSE) {
    /* Without error handling UCP's close needs both sides. */
    if (handling == UCXX_ENDPOINT_ERROR_HANDLING_NONE) TELL(&other, "close\n");
    CHECK_OK(finish(close_patiently(ends.endpoint, &close), &close));
    while (seen_count(&ends.close) == 0) progress(worker);
    CHECK_OK(ends.close.status);
    if (handling == UCXX_ENDPOINT_ERROR_HANDLING_NONE)
      printf("both close at once: the peer reports %s\n", answer(&other));
    stop(&other, 0);
  } else {
    TELL(&other, "close\n");
    expect(&other, "ok");
    if (way == BY_ADDRESS) /* a foreign peer's close arrives without its reason */
      stop(&other, 0);
    await_close(&ends, end_names[THEY_CLOSE]);
    if (way != BY_ADDRESS) stop(&other, 0);
  }
  ucxx_endpoint_destroy(ends.endpoint);
  CHECK_EQ(seen_count(&ends.close), 1);
}

int main(int argc, char **argv) {
  test_begin("foreign_peer");
  if (argc < 3) {
    fprintf(stderr, "usage: %s peer|none PROGRAM [ARGUMENT...]\n", argv[0]);
    return 2;
  }
  int none = strcmp(argv[1], "none") == 0;
  handling = none ? UCXX_ENDPOINT_ERROR_HANDLING_NONE : UCXX_ENDPOINT_ERROR_HANDLING_PEER;
  command = argv + 2;
  signal(SIGPIPE, SIG_IGN);
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  for (int way = has_tcp() ? 0 : BY_ADDRESS; way < WAYS; way++)
    for (int end = none ? WE_CLOSE : 0; end < (none ? THEY_DIE : ENDS); end++)
      meet((enum way)way, (enum end)end);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
