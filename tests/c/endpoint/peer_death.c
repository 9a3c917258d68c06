/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer's process is killed: its endpoint closes once, with PEER_FAILED, all operations on it
 * complete with an error, and other connections are not affected. The test reaps the process only
 * afterwards, because a dead process that nobody has reaped must be detected as well.
 */
#include "killed_peer.h"

#include <time.h>

enum { TAG_THERE = 1, TAG_BACK = 2, TAG_NEVER = 3, MANY = 10000 };
static const size_t LARGE = (size_t)64 << 20, MEDIUM = (size_t)256 << 10;

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static const way_t *mode;

/* The peer: echoes what it receives, until it is killed or its parent exits. */
static void echo(pair_t pair) {
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_endpoint_t *back = victim_answer(&pair, worker);
  for (;;) {
    uint64_t word = 0;
    ucxx_request_t *request = NULL;
    CHECK_OK(
        finish(ucxx_tag_recv(worker, &word, sizeof word, TAG_THERE, UINT64_MAX, NULL, &request),
               &request));
    CHECK_OK(finish(ucxx_tag_send(back, &word, sizeof word, TAG_BACK, NULL, &request), &request));
  }
}

static void talk(victim_t *peer, uint64_t word) {
  uint64_t answer = 0;
  ucxx_request_t *receive = NULL, *send = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(worker, &answer, sizeof answer, TAG_BACK, UINT64_MAX, NULL, &receive);
  CHECK_OK(
      finish(ucxx_tag_send(peer->endpoint, &word, sizeof word, TAG_THERE, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
  CHECK_EQ(answer, word);
}

static void start(victim_t *peer) {
  victim_connect(peer, worker, NULL);
  talk(peer, (uint64_t)peer->pid);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Kills a peer with so many sends of this size in flight, and a receive that ends with its
 * endpoint. */
static void kill_one(victim_t *survivor, int sends, size_t size) {
  STEP("%s: killed with %d sends of %zu bytes in flight", mode->name, sends, size);
  victim_t victim;
  start(&victim);
  uint8_t *data = test_alloc(size + 1);
  ucxx_request_t **requests = calloc((size_t)sends + 1, sizeof *requests);
  CHECK(requests != NULL);
  seen_t *seen = calloc((size_t)sends + 1, sizeof *seen);
  CHECK(seen != NULL);
  uint64_t word = 0;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = victim.endpoint;
  params.callback = see_completion;
  params.callback_arg = &seen[sends];
  CHECK_STATUS(
      ucxx_tag_recv(worker, &word, sizeof word, TAG_NEVER, UINT64_MAX, &params, &requests[sends]),
      UCXX_INPROGRESS);
  params.source = NULL;
  for (int at = 0; at < sends; at++) {
    ucxx_status_t status;
    params.callback_arg = &seen[at];
    while ((status = ucxx_tag_send(victim.endpoint, data, size, TAG_NEVER, &params,
                                   &requests[at])) == UCXX_ERR_NO_RESOURCE)
      progress(worker);
    /* TCP copies some into its own buffers at once. */
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    /*
     * A process killed in the middle of a write to its peer's shared-memory queue blocks that queue
     * for good, with any library on top of UCX. After this exchange the victim has finished its
     * part of the first send.
     */
    if (at == 0) talk(&victim, 99);
  }
  victim_kill(&victim);
  double killed = now();
  victim_await_end(&victim, worker, mode);
  double closed = now();
  for (int at = 0; at <= sends; at++) {
    if (requests[at] == NULL) continue;
    /* Over TCP a send completes when the kernel has taken it, even if its receiver is already
     * dead. */
    ucxx_status_t status = finish(UCXX_INPROGRESS, &requests[at]);
    CHECK(status == UCXX_ERR_PEER_FAILED || (status == UCXX_OK && at < sends));
    CHECK_EQ(seen_count(&seen[at]), 1);
    CHECK_STATUS(seen[at].status, status);
  }
  printf("%s: %d sends of %zu bytes: closed after %.3f s, everything complete after %.3f s\n",
         mode->name, sends, size, closed - killed, now() - killed);
  /* UCX no longer accesses the buffer. */
  memset(data, 0xee, size);
  CHECK_STATUS(ucxx_tag_send(victim.endpoint, data, 8, TAG_NEVER, NULL, NULL),
               UCXX_ERR_PEER_FAILED);
  talk(survivor, (uint64_t)sends);
  victim_bury(&victim);
  free(seen);
  free(requests);
  free(data);
}

/* The on_writable callback, and whether it ran before on_close. */
typedef struct told {
  seen_t seen;
  const victim_t *victim;
  int before_close, writable;
} told_t;

static void tell(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  told_t *told = arg;
  CHECK(endpoint == told->victim->endpoint);
  told->before_close = seen_count(&told->victim->closed) == 0;
  told->writable = ucxx_endpoint_writable(endpoint);
  see_endpoint(&told->seen, endpoint, status);
}

/* Killed while this side waits for room: in the send window, or for credit, with active messages
 * that the peer never reads. */
static void kill_armed(victim_t *survivor, int by_credit) {
  enum { CREDIT = 256, AM_ID = 3 };
  STEP("%s: killed while a sender waits for %s", mode->name, by_credit ? "credit" : "its window");
  victim_t victim;
  told_t told = {.victim = &victim};
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  ucxx_address_t *address = victim_start(&victim, worker, NULL);
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t impatient = UCXX_OP_PARAMS_INIT;
  params.on_close = see_endpoint;
  params.on_close_arg = &victim.closed;
  params.send_window_ops = by_credit ? 0 : 1;
  impatient.flags = UCXX_FLAG_NO_WAIT;
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &victim.endpoint));
  ucxx_address_destroy(address);
  talk(&victim, 1);
  if (by_credit) {
    /* The peer has no handler for them, and once stopped it cannot report that. */
    stop_in_a_call(victim.pid);
    for (int at = 0; at < CREDIT; at++)
      CHECK(ucxx_am_send(victim.endpoint, AM_ID, &word, sizeof word, NULL, 0, NULL, NULL) >= 0);
    CHECK_STATUS(
        ucxx_am_send(victim.endpoint, AM_ID, &word, sizeof word, NULL, 0, &impatient, NULL),
        UCXX_ERR_NO_RESOURCE);
  } else {
    CHECK_STATUS(ucxx_tag_send_sync(victim.endpoint, &word, sizeof word, TAG_NEVER, NULL, &request),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_send(victim.endpoint, &word, sizeof word, TAG_NEVER, &impatient, NULL),
                 UCXX_ERR_NO_RESOURCE);
  }
  CHECK_OK(ucxx_endpoint_on_writable(victim.endpoint, tell, &told));
  /* So that the failure triggers the callback, and not the registration. */
  for (int pass = 0; pass < 50; pass++) progress(worker);
  CHECK_EQ(seen_count(&told.seen), 0);
  if (by_credit)
    CHECK_EQ(kill(victim.pid, SIGKILL), 0);
  else
    victim_kill(&victim);
  victim_await_end(&victim, worker, mode);
  CHECK_EQ(seen_count(&told.seen), 1);
  CHECK_STATUS(told.seen.status, UCXX_ERR_PEER_FAILED);
  CHECK(told.before_close && !told.writable);
  if (!by_credit) CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_PEER_FAILED);
  CHECK_STATUS(ucxx_endpoint_on_writable(victim.endpoint, tell, &told), UCXX_ERR_PEER_FAILED);
  talk(survivor, 2);
  victim_bury(&victim);
  CHECK_EQ(seen_count(&told.seen), 1);
}

/* Connects to the address of a process that has exited. */
static void too_late(victim_t *survivor) {
  STEP("%s: an endpoint to a process that has exited", mode->name);
  victim_t gone;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_address_t *address = victim_start(&gone, worker, NULL);
  victim_kill(&gone);
  victim_reap(&gone);
  CHECK_STATUS(ucxx_endpoint_create(worker, address, NULL, &endpoint), UCXX_ERR_UNREACHABLE);
  CHECK_MESSAGE("has ended");
  CHECK(endpoint == NULL);
  ucxx_address_destroy(address);
  talk(survivor, 77);
}

int main(int argc, char **argv) {
  test_begin("peer_death");
  if (argc > 1) echo(victim_channel(argv[1]));
  for (size_t at = 0; at < WAYS; at++) {
    victim_t survivor;
    mode = &ways[at];
    footprint_t before = footprint_now();
    CHECK_OK(ucxx_context_create(NULL, &context));
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = mode->progress;
    params.submission_queue_depth = 2 * MANY;
    CHECK_OK(ucxx_worker_create(context, &params, &worker));
    start(&survivor);
    kill_one(&survivor, 0, 0);
    for (int round = 0; round < 4; round++) kill_one(&survivor, 1, LARGE);
    kill_one(&survivor, MANY, MEDIUM);
    kill_armed(&survivor, 0);
    kill_armed(&survivor, 1);
    too_late(&survivor);
    ucxx_endpoint_destroy(survivor.endpoint);
    victim_kill(&survivor);
    victim_reap(&survivor);
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
    /* The first context opens what UCX keeps open for the process. */
    if (at > 0) CHECK_EQ(footprint_now().descriptors, before.descriptors);
  }
  return 0;
}
