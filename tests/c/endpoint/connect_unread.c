/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A worker connects to one that makes no progress, and is destroyed before that one has read
 * anything of the connection. When it makes progress again it lives on, and others can reach it.
 */
#include "test_util.h"

enum { TAG = 7, ID = 3 };

static char buffer[64];
static const char text[] = "0123456789";

static ucxx_status_t by_tag(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  return ucxx_tag_send(endpoint, text, sizeof text, TAG, NULL, request);
}

static ucxx_status_t by_am(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  return ucxx_am_send(endpoint, ID, NULL, 0, text, sizeof text, NULL, request);
}

static ucxx_status_t by_fetch(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  return ucxx_am_fetch(endpoint, ID, NULL, 0, buffer, sizeof buffer, NULL, request);
}

static ucxx_status_t by_stream(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  return ucxx_stream_recv(endpoint, buffer, sizeof buffer, NULL, request);
}

static ucxx_status_t by_flush(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  ucxx_request_t *send = NULL;
  CHECK(by_tag(endpoint, &send) >= 0);
  ucxx_request_destroy(send);
  return ucxx_endpoint_flush(endpoint, NULL, request);
}

static const struct {
  const char *name;
  ucxx_status_t (*begin)(ucxx_endpoint_t *, ucxx_request_t **);
} operations[] = {
    {"a tag send", by_tag},          {"an active message", by_am}, {"a fetch", by_fetch},
    {"a stream receive", by_stream}, {"a flush", by_flush},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* What happens to the endpoint before its worker is destroyed. */
typedef enum end { STAYS, FORCED, DESTROYED, ENDS } end_t;
static const char *const end_names[ENDS] = {"open", "closed by force", "destroyed"};

static void connect_unread(const duo_t *duo, int operation, end_t end, uint64_t passes) {
  STEP("%s, the endpoint is %s, %d passes", operations[operation].name, end_names[end],
       (int)passes);
  ucxx_worker_t *worker = NULL;
  ucxx_request_t *request = NULL, *close = NULL;
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &worker));
  ucxx_endpoint_t *endpoint = connect_workers(worker, duo->right);
  CHECK(operations[operation].begin(endpoint, &request) >= 0);
  for (; passes > 0; passes--) progress(worker);
  if (end == FORCED) {
    CHECK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close) >= 0);
    while (close != NULL && ucxx_request_status(close) == UCXX_INPROGRESS) progress(worker);
    ucxx_request_destroy(close);
  }
  if (end == DESTROYED) ucxx_endpoint_destroy(endpoint);
  ucxx_request_destroy(request);
  ucxx_worker_destroy(worker);
  if (end != DESTROYED) ucxx_endpoint_destroy(endpoint);
}

int main(void) {
  test_begin("connect_unread");
  uint64_t seed = test_seed();
  /* The end of each takes a second, so each operation has one of the ends. */
  for (int operation = 0; operation < OPERATIONS; operation++) {
    uint64_t random = test_mix(seed + (uint64_t)operation);
    duo_t duo;
    duo_open(&duo, NULL);
    connect_unread(&duo, operation, (end_t)(random % ENDS), random / ENDS % 2 * 100);
    /* The other worker reads it now. Its two peers are one that is there and one that is not. */
    duo_transfer(&duo, sizeof text, random);
    duo_close(&duo);
  }
  return 0;
}
