/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer's process is killed while fetches are in flight: the replier before or during its replies,
 * or the fetching side with unanswered fetches. Each fetch completes once, cancelled fetches keep
 * their status, and other connections keep working.
 */
#include "killed_peer.h"

#include <sched.h>

enum { ECHO = 1, HOLD = 2, BEGIN = 3, QUESTIONS = 2000, LARGE_ONES = 3 };
static const size_t LARGE = (size_t)48 << 20;

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static const way_t *mode;

/* ------------------------------------------------------------------ the peer, until it is
 * killed */

static uint8_t *source;

static void answer(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  uint64_t length = 0;
  memcpy(&length, ucxx_fetch_header(fetch, NULL), sizeof length);
  ucxx_status_t status = ucxx_fetch_reply(fetch, source, length, NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

/* A reply that is larger than the transport's buffers; after it has begun the peer does nothing
 * more. A reply that this side read while it was written does not count. */
static int begun;

static void begin(void *arg, ucxx_fetch_t *fetch) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  (void)arg;
  params.flags = UCXX_FLAG_EAGER;
  ucxx_status_t status = ucxx_fetch_reply(fetch, source, LARGE, &params, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
  begun = status == UCXX_INPROGRESS;
}

static void never_answer(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  (void)fetch;
}

static ucxx_request_t *ask(ucxx_endpoint_t *to, uint16_t id, void *buffer, uint64_t length,
                           seen_t *seen) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  if (seen != NULL) {
    params.callback = see_completion;
    params.callback_arg = seen;
  }
  ucxx_status_t status;
  while ((status = ucxx_am_fetch(to, id, &length, sizeof length, buffer, length, &params,
                                 &request)) == UCXX_ERR_NO_RESOURCE)
    progress(worker);
  CHECK_STATUS(status, UCXX_INPROGRESS);
  return request;
}

static void live(pair_t pair, int asks) {
  source = test_alloc(LARGE);
  test_fill(source, LARGE, 1);
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ECHO, answer, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, HOLD, never_answer, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, BEGIN, begin, NULL, NULL));
  ucxx_endpoint_t *back = victim_answer(&pair, worker);
  for (int at = 0; asks && at < QUESTIONS; at++) ask(back, HOLD, test_alloc(64), 64, NULL);
  for (int at = 0; asks && at < LARGE_ONES; at++) ask(back, HOLD, test_alloc(LARGE), LARGE, NULL);
  while (!begun) progress(worker);
  pair_tell(&pair);
  for (;;) sched_yield();
}

/* ------------------------------------------------------------------ this side */

static ucxx_fetch_t *kept[QUESTIONS + LARGE_ONES];
static int came;

static void keep(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  kept[__atomic_load_n(&came, __ATOMIC_RELAXED)] = fetch;
  __atomic_fetch_add(&came, 1, __ATOMIC_RELEASE);
}

static void talk(victim_t *peer) {
  uint8_t buffer[100];
  ucxx_request_t *request = ask(peer->endpoint, ECHO, buffer, sizeof buffer, NULL);
  CHECK_OK(finish(UCXX_INPROGRESS, &request));
  CHECK_CONTENT(buffer, sizeof buffer, 1);
}

static void start(victim_t *peer, const char *asks) {
  victim_connect(peer, worker, asks);
  talk(peer);
}

/* The peer holds these fetches and answers none. */
static void dies_silent(victim_t *survivor) {
  STEP("%s: dies with %d unanswered fetches", mode->name, QUESTIONS);
  victim_t peer;
  static uint8_t buffers[QUESTIONS][64];
  static seen_t seen[QUESTIONS];
  ucxx_request_t *requests[QUESTIONS];
  memset(buffers, 0x77, sizeof buffers);
  memset(seen, 0, sizeof seen);
  start(&peer, "0");
  for (int at = 0; at < QUESTIONS; at++)
    requests[at] = ask(peer.endpoint, HOLD, buffers[at], sizeof buffers[at], &seen[at]);
  talk(&peer); /* arrives after all of them: no credit was withheld */
  /* Requests cancelled while the peer lived do not report its death. */
  CHECK_OK(ucxx_request_cancel(requests[0]));
  while (seen_count(&seen[0]) == 0) move_on(worker, mode);
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  for (int at = 0; at < QUESTIONS; at++) {
    CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[at]),
                 at == 0 ? UCXX_ERR_CANCELED : UCXX_ERR_PEER_FAILED);
    CHECK_EQ(seen_count(&seen[at]), 1);
    for (size_t byte = 0; byte < sizeof buffers[at]; byte++) CHECK(buffers[at][byte] == 0x77);
  }
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_am_fetch(peer.endpoint, ECHO, NULL, 0, NULL, 0, NULL, &request),
               UCXX_ERR_PEER_FAILED);
  CHECK(request == NULL);
  talk(survivor);
  victim_bury(&peer);
}

/* The peer's replies are partly in flight. */
static void dies_answering(victim_t *survivor, int passes) {
  STEP("%s: dies after %d passes of replying", mode->name, passes);
  victim_t peer;
  uint8_t *buffers[LARGE_ONES];
  ucxx_request_t *requests[LARGE_ONES];
  seen_t seen[LARGE_ONES];
  memset(seen, 0, sizeof seen);
  start(&peer, "0");
  for (int at = 0; at < LARGE_ONES; at++) {
    buffers[at] = test_alloc(LARGE);
    requests[at] = ask(peer.endpoint, ECHO, buffers[at], LARGE, &seen[at]);
  }
  for (int pass = 0; pass < passes; pass++) progress(worker);
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  int complete = 0;
  for (int at = 0; at < LARGE_ONES; at++) {
    ucxx_status_t status = finish(UCXX_INPROGRESS, &requests[at]);
    CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
    CHECK_EQ(seen_count(&seen[at]), 1);
    CHECK_STATUS(seen[at].status, status);
    if (status == UCXX_OK) CHECK_CONTENT(buffers[at], LARGE, 1);
    complete += status == UCXX_OK;
    memset(buffers[at], 0xee, LARGE);
  }
  talk(survivor);
  victim_bury(&peer);
  for (int at = 0; at < LARGE_ONES; at++) {
    for (size_t byte = 0; byte < LARGE; byte += 512) CHECK(buffers[at][byte] == 0xee);
    free(buffers[at]);
  }
  printf("%s, %d passes: %d of %d replies complete\n", mode->name, passes, complete, LARGE_ONES);
}

/* The peer has announced that it is in the middle of a reply. */
static int is_told(const victim_t *peer) {
  char byte = 0;
  ssize_t got = recv(peer->pair.channel, &byte, 1, MSG_DONTWAIT);
  CHECK(got == 1 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
  return got == 1;
}

/* At least one reply is here, and a part of the next. */
static void dies_within(victim_t *survivor) {
  STEP("%s: dies in the middle of a reply", mode->name);
  victim_t peer;
  uint8_t *buffer = test_alloc(LARGE);
  seen_t seen[2] = {{0}};
  start(&peer, "0");
  ucxx_request_t *request = ask(peer.endpoint, ECHO, buffer, LARGE, &seen[0]);
  CHECK_OK(finish(UCXX_INPROGRESS, &request));
  CHECK_CONTENT(buffer, LARGE, 1);
  request = ask(peer.endpoint, BEGIN, buffer, LARGE, &seen[1]);
  while (!is_told(&peer)) {
    progress(worker);
    if (seen_count(&seen[1]) == 0) continue;
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
    memset(&seen[1], 0, sizeof seen[1]);
    request = ask(peer.endpoint, BEGIN, buffer, LARGE, &seen[1]);
  }
  /* Reads what has arrived of it. */
  for (int pass = 0; pass < 100; pass++) progress(worker);
  CHECK_EQ(seen_count(&seen[1]), 0);
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_PEER_FAILED);
  CHECK(seen_count(&seen[0]) == 1 && seen_count(&seen[1]) == 1);
  CHECK_STATUS(seen[1].status, UCXX_ERR_PEER_FAILED);
  memset(buffer, 0xee, LARGE);
  talk(survivor);
  victim_bury(&peer);
  for (size_t byte = 0; byte < LARGE; byte++) CHECK(buffer[byte] == 0xee);
  free(buffer);
}

/* The fetching peer is killed before or during the replies. */
static void dies_asking(victim_t *survivor) {
  STEP("%s: dies with %d replies outstanding", mode->name, QUESTIONS + LARGE_ONES);
  victim_t peer;
  ucxx_request_t *replies[LARGE_ONES] = {0};
  ucxx_status_t statuses[LARGE_ONES];
  seen_t seen[LARGE_ONES];
  memset(seen, 0, sizeof seen);
  __atomic_store_n(&came, 0, __ATOMIC_RELAXED);
  start(&peer, "1");
  while (__atomic_load_n(&came, __ATOMIC_ACQUIRE) < QUESTIONS + LARGE_ONES) move_on(worker, mode);
  for (int at = 0; at < LARGE_ONES; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &seen[at];
    statuses[at] = ucxx_fetch_reply(kept[QUESTIONS + at], source, LARGE, &params, &replies[at]);
    CHECK(statuses[at] == UCXX_OK || statuses[at] == UCXX_INPROGRESS);
  }
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  for (int at = 0; at < LARGE_ONES; at++) {
    int given = replies[at] != NULL;
    ucxx_status_t status = finish(statuses[at], &replies[at]);
    CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
    CHECK_EQ(seen_count(&seen[at]), given);
  }
  for (int at = 0; at < QUESTIONS; at++) {
    ucxx_request_t *request = NULL;
    CHECK(ucxx_fetch_endpoint(kept[at]) == peer.endpoint);
    CHECK_EQ(ucxx_fetch_capacity(kept[at]), 64);
    if (at % 3 == 0)
      CHECK_STATUS(ucxx_fetch_reply(kept[at], source, 64, NULL, &request), UCXX_ERR_PEER_FAILED);
    if (at % 3 == 1) CHECK_STATUS(ucxx_fetch_reject(kept[at], UCXX_ERR_BUSY), UCXX_ERR_PEER_FAILED);
    CHECK(request == NULL);
    if (at % 2) ucxx_fetch_destroy(kept[at]);
  }
  talk(survivor);
  victim_bury(&peer);
  for (int at = 0; at < QUESTIONS + LARGE_ONES; at++)
    if (at % 2 == 0 || at >= QUESTIONS) ucxx_fetch_destroy(kept[at]);
}

int main(int argc, char **argv) {
  test_begin("fetch_death");
  if (argc > 2) live(victim_channel(argv[1]), atoi(argv[2]));
  source = calloc(1, LARGE);
  CHECK(source != NULL);
  for (size_t at = 0; at < WAYS; at++) {
    victim_t survivor;
    mode = &ways[at];
    footprint_t before = footprint_now();
    CHECK_OK(ucxx_context_create(NULL, &context));
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = mode->progress;
    CHECK_OK(ucxx_worker_create(context, &params, &worker));
    CHECK_OK(ucxx_worker_set_fetch_handler(worker, HOLD, keep, NULL, NULL));
    start(&survivor, "0");
    dies_silent(&survivor);
    for (int passes = 0; passes < 1000; passes = 1 + 4 * passes) dies_answering(&survivor, passes);
    dies_within(&survivor);
    dies_asking(&survivor);
    victim_kill(&survivor);
    victim_await_end(&survivor, worker, mode);
    victim_bury(&survivor);
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
    /* The first context opens what UCX keeps open for the process. */
    if (at > 0) CHECK_EQ(footprint_now().descriptors, before.descriptors);
  }
  free(source);
  return 0;
}
