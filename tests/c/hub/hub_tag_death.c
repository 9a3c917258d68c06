/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer is killed while chunks are sent to it from envelopes, or received from it. Unsent chunks
 * are offered again, in order and unchanged, the envelopes become free, and the hub keeps working
 * with another peer.
 */
#include "hub.h"
#include "killed_peer.h"

enum { TAG = 3, TAG_BACK = 4, TAG_HELLO = 5, ENVELOPES = 3, CHUNKS = 2 };
/* Long enough for rendezvous: the receiver pulls it. */
static const size_t SIZE = (size_t)4 << 20;

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static const way_t *mode;
static ucxx_hub_t *hub;
static ucxx_link_t *in, *out;

/* What a victim does until it is killed. */
enum { IDLES = 'i', RECEIVES = 'r', SENDS = 's', ECHOES = 'e' };

static void live(pair_t pair, char role) {
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_endpoint_t *back = victim_answer(&pair, worker);
  uint8_t *data = test_alloc(SIZE);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_recv_info_t info = {0};
  params.recv_info = &info;
  test_fill(data, SIZE, 7);
  uint64_t word = 0;
  CHECK_OK(finish(ucxx_tag_recv(worker, &word, sizeof word, TAG_HELLO, UINT64_MAX, NULL, &request),
                  &request));
  CHECK_OK(finish(ucxx_tag_send(back, &word, sizeof word, TAG_HELLO, NULL, &request), &request));
  for (;;) {
    if (role == ECHOES) {
      CHECK_OK(
          finish(ucxx_tag_recv(worker, data, SIZE, TAG, UINT64_MAX, &params, &request), &request));
      CHECK_OK(finish(ucxx_tag_send(back, data, info.length, TAG_BACK, NULL, &request), &request));
    } else if (role == RECEIVES) {
      CHECK_OK(
          finish(ucxx_tag_recv(worker, data, SIZE, TAG, UINT64_MAX, NULL, &request), &request));
    } else if (role == SENDS) {
      /* Only once: any further message would match the next receive, from whichever peer. */
      role = IDLES;
      CHECK_OK(finish(ucxx_tag_send(back, data, SIZE, TAG_BACK, NULL, &request), &request));
    } else {
      progress(worker);
    }
  }
}

/*
 * First one message each way: UCX maps the other side's queue during its first writes there, and a
 * process killed at that point blocks the queue for good (docs/known-issues.md).
 */
static void start(victim_t *peer, char role) {
  char roles[] = {role, 0};
  uint64_t word = 1;
  ucxx_request_t *receive = NULL, *send = NULL;
  victim_connect(peer, worker, roles);
  ucxx_status_t received =
      ucxx_tag_recv(worker, &word, sizeof word, TAG_HELLO, UINT64_MAX, NULL, &receive);
  CHECK_OK(
      finish(ucxx_tag_send(peer->endpoint, &word, sizeof word, TAG_HELLO, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
}

static void put_chunk(uint64_t number) {
  ucxx_envelope_t *envelope = lease_now(in);
  ucxx_envelope_attr_t attr = look_at(envelope);
  test_fill(attr.data, SIZE - number, number);
  memcpy(attr.metadata, &number, sizeof number);
  CHECK_OK(ucxx_envelope_commit(envelope, SIZE - number, NULL));
}

static void take_chunk(uint64_t number) {
  ucxx_envelope_t *envelope = lease_now(out);
  ucxx_envelope_attr_t attr = look_at(envelope);
  CHECK_EQ(attr.length, SIZE - number);
  CHECK(memcmp(attr.metadata, &number, sizeof number) == 0);
  CHECK_CONTENT(attr.data, SIZE - number, number);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
}

static void is_empty(void) {
  ucxx_hub_stats_t stats = hub_stats(hub);
  CHECK_EQ(stats.free_envelopes, ENVELOPES);
  CHECK_EQ(stats.leased_envelopes + stats.queued_chunks, 0);
}

/* A chunk each way with a live peer. */
static void goes_on(victim_t *survivor) {
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  put_chunk(5);
  params.source = survivor->endpoint;
  ucxx_status_t received = ucxx_link_recv(in, TAG_BACK, UINT64_MAX, &params, &receive);
  CHECK_OK(finish(ucxx_link_send(out, survivor->endpoint, TAG, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
  ucxx_envelope_t *envelope = lease_now(out);
  CHECK_EQ(look_at(envelope).length, SIZE - 5);
  CHECK_CONTENT(look_at(envelope).data, SIZE - 5, 5);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  is_empty();
}

/* If the peer receives nothing, both chunks come back; if it receives, any number may. Returns how
 * many came back. */
static int dies_receiving(victim_t *survivor, char role, int passes) {
  STEP("%s: chunks to a peer that is killed after %d passes, and %s", mode->name, passes,
       role == IDLES ? "receives none" : "may have received some");
  victim_t peer;
  ucxx_request_t *requests[CHUNKS] = {NULL};
  ucxx_status_t statuses[CHUNKS];
  seen_t seen[CHUNKS] = {{0}};
  start(&peer, role);
  for (int at = 0; at < CHUNKS; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &seen[at];
    put_chunk((uint64_t)at);
    statuses[at] = ucxx_link_send(out, peer.endpoint, TAG, &params, &requests[at]);
    CHECK_STATUS(statuses[at], UCXX_INPROGRESS);
  }
  for (int pass = 0; pass < passes; pass++) progress(worker);
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  int back = 0;
  for (int at = 0; at < CHUNKS; at++) {
    ucxx_status_t status = finish(statuses[at], &requests[at]);
    CHECK(status == UCXX_ERR_PEER_FAILED || (status == UCXX_OK && role != IDLES));
    CHECK_EQ(seen_count(&seen[at]), 1);
    CHECK_STATUS(seen[at].status, status);
    statuses[at] = status;
    back += status != UCXX_OK;
  }
  CHECK_EQ(ucxx_hub_length(hub), back);
  CHECK_EQ(hub_stats(hub).free_envelopes, ENVELOPES - back);
  /* A send to a dead peer takes no chunk. */
  ucxx_request_t *request = NULL;
  if (back > 0)
    CHECK_STATUS(ucxx_link_send(out, peer.endpoint, TAG, NULL, &request), UCXX_ERR_PEER_FAILED);
  CHECK_EQ(ucxx_hub_length(hub), back);
  for (int at = 0; at < CHUNKS; at++)
    if (statuses[at] != UCXX_OK) take_chunk((uint64_t)at);
  is_empty();
  goes_on(survivor);
  victim_bury(&peer);
  return back;
}

/* Receives into an envelope from a peer that is killed. Returns whether it failed. */
static int dies_sending(victim_t *survivor, char role, int passes) {
  STEP("%s: a chunk from a peer that is killed after %d passes, and %s", mode->name, passes,
       role == IDLES ? "sends none" : "may have sent it");
  victim_t peer;
  seen_t seen = {0};
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  start(&peer, role);
  params.source = peer.endpoint;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &seen;
  CHECK_STATUS(ucxx_link_recv(in, TAG_BACK, UINT64_MAX, &params, &request), UCXX_INPROGRESS);
  for (int pass = 0; pass < passes; pass++) progress(worker);
  victim_kill(&peer);
  victim_await_end(&peer, worker, mode);
  ucxx_status_t status = finish(UCXX_INPROGRESS, &request);
  CHECK(status == UCXX_ERR_PEER_FAILED || (status == UCXX_OK && role != IDLES));
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_STATUS(seen.status, status);
  CHECK_EQ(ucxx_hub_length(hub), status == UCXX_OK);
  if (status == UCXX_OK) {
    ucxx_envelope_t *envelope = lease_now(out);
    CHECK_EQ(look_at(envelope).length, SIZE);
    CHECK_CONTENT(look_at(envelope).data, SIZE, 7);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  is_empty();
  goes_on(survivor);
  victim_bury(&peer);
  return status != UCXX_OK;
}

static void round_of(void) {
  victim_t survivor;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_hub_params_t hub_params = UCXX_HUB_PARAMS_INIT;
  int back = 0, failed = 0, rounds = 0;
  params.progress_mode = mode->progress;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  hub_params.envelope_size = SIZE;
  hub_params.worker = worker;
  CHECK_OK(ucxx_hub_create(context, &hub_params, &hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub, on_host, ENVELOPES));
  in = hub_link(hub, UCXX_LINK_PRODUCE, on_host);
  out = hub_link(hub, UCXX_LINK_CONSUME, on_host);
  start(&survivor, ECHOES);
  goes_on(&survivor);
  for (int passes = 0; passes < 100; passes = 1 + 4 * passes) {
    CHECK_EQ(dies_receiving(&survivor, IDLES, passes), CHUNKS);
    back += dies_receiving(&survivor, RECEIVES, passes);
    CHECK_EQ(dies_sending(&survivor, IDLES, passes), 1);
    failed += dies_sending(&survivor, SENDS, passes);
    rounds++;
  }
  printf("%s: %d of %d chunks came back; %d of %d receives failed\n", mode->name, back,
         CHUNKS * rounds, failed, rounds);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_hub_destroy(hub);
  victim_kill(&survivor);
  victim_await_end(&survivor, worker, mode);
  victim_bury(&survivor);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

int main(int argc, char **argv) {
  if (argc > 2) live(victim_channel(argv[1]), argv[2][0]);
  test_begin("hub_tag_death");
  for (size_t at = 0; at < WAYS; at++) {
    mode = &ways[at];
    footprint_t before = footprint_now();
    round_of();
    /* The first context opens what UCX keeps open for the process. */
    if (at > 0) CHECK_EQ(footprint_now().descriptors, before.descriptors);
  }
  return 0;
}
