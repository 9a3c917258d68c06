/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Tag messages sent directly from envelopes and received directly into them, in every progress
 * mode. */
#include "hub.h"

enum { SIZE = 100000, ENVELOPES = 4, MESSAGES = 200 };

typedef struct side {
  ucxx_worker_t *worker;
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
} side_t;

typedef struct ends {
  ucxx_context_t *context;
  side_t left, right;
  ucxx_endpoint_t *to_right, *to_left;
} ends_t;

static side_t side_open(ucxx_context_t *context, const ucxx_worker_params_t *params) {
  side_t side;
  ucxx_hub_params_t hub = UCXX_HUB_PARAMS_INIT;
  CHECK_OK(ucxx_worker_create(context, params, &side.worker));
  hub.envelope_size = SIZE;
  hub.worker = side.worker;
  CHECK_OK(ucxx_hub_create(context, &hub, &side.hub));
  CHECK_OK(ucxx_hub_add_envelopes(side.hub, on_host, ENVELOPES));
  side.in = hub_link(side.hub, UCXX_LINK_PRODUCE, on_host);
  side.out = hub_link(side.hub, UCXX_LINK_CONSUME, on_host);
  return side;
}

static void side_close(side_t *side) {
  ucxx_link_destroy(side->in);
  ucxx_link_destroy(side->out);
  ucxx_hub_destroy(side->hub);
}

static ends_t ends_open(const ucxx_worker_params_t *params) {
  ends_t ends;
  CHECK_OK(ucxx_context_create(NULL, &ends.context));
  ends.left = side_open(ends.context, params);
  ends.right = side_open(ends.context, params);
  ends.to_right = connect_workers(ends.left.worker, ends.right.worker);
  ends.to_left = connect_workers(ends.right.worker, ends.left.worker);
  return ends;
}

static void ends_progress(const ends_t *ends) {
  progress(ends->left.worker);
  progress(ends->right.worker);
}

static ucxx_status_t ends_finish(const ends_t *ends, ucxx_status_t status,
                                 ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) return status;
  while ((status = ucxx_request_status(*request)) == UCXX_INPROGRESS) ends_progress(ends);
  /* The callback may still be running. */
  CHECK_STATUS(ucxx_request_wait(*request, FOR_EVER), status);
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

static size_t length_of(uint64_t number) { return number % 5 == 0 ? 0 : test_mix(number) % SIZE; }

static void push_message(side_t *side, uint64_t number) {
  ucxx_envelope_t *envelope = lease_now(side->in);
  test_fill(look_at(envelope).data, length_of(number), number);
  CHECK_OK(ucxx_envelope_commit(envelope, length_of(number), NULL));
}

static void take_message(side_t *side, uint64_t number) {
  ucxx_envelope_t *envelope = lease_now(side->out);
  CHECK_EQ(look_at(envelope).length, length_of(number));
  CHECK_CONTENT(look_at(envelope).data, length_of(number), number);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
}

static void stream_of_messages(ends_t *ends) {
  ucxx_request_t *sends[2] = {NULL}, *receives[2] = {NULL};
  ucxx_status_t sent[2], received[2];
  for (uint64_t number = 0; number < MESSAGES; number += 2) {
    for (int at = 0; at < 2; at++)
      received[at] = ucxx_link_recv(ends->right.in, 3, UINT64_MAX, NULL, &receives[at]);
    for (int at = 0; at < 2; at++) {
      push_message(&ends->left, number + (uint64_t)at);
      sent[at] = ucxx_link_send(ends->left.out, ends->to_right, 3, NULL, &sends[at]);
    }
    for (int at = 0; at < 2; at++) {
      CHECK_OK(ends_finish(ends, received[at], &receives[at]));
      CHECK_OK(ends_finish(ends, sent[at], &sends[at]));
    }
    /* A short message may complete before a long one sent earlier. */
    ucxx_envelope_t *first = lease_now(ends->right.out);
    int swapped = look_at(first).length != length_of(number);
    CHECK_OK(ucxx_envelope_abort(first, NULL));
    take_message(&ends->right, number + (swapped ? 1 : 0));
    take_message(&ends->right, number + (swapped ? 0 : 1));
    CHECK_EQ(ucxx_hub_length(ends->left.hub), 0);
  }
  CHECK_EQ(hub_stats(ends->left.hub).free_envelopes, ENVELOPES);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
}

typedef struct arrival {
  ucxx_hub_t *hub;
  size_t length; /* queue length of the hub when the callback ran */
  seen_t seen;
} arrival_t;

static void on_arrival(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  arrival_t *arrival = arg;
  arrival->length = ucxx_hub_length(arrival->hub);
  see_completion(&arrival->seen, request, status);
}

static void callbacks(ends_t *ends) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_recv_info_t info = {0};
  arrival_t arrival = {.hub = ends->right.hub}, departure = {.hub = ends->left.hub};
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_arrival;
  params.callback_arg = &arrival;
  params.recv_info = &info;
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 0, 0, &params, NULL), UCXX_INPROGRESS);
  params.callback_arg = &departure;
  params.recv_info = NULL;
  push_message(&ends->left, 7);
  CHECK_STATUS(ucxx_link_send(ends->left.out, ends->to_right, 99, &params, NULL), UCXX_INPROGRESS);
  while (seen_count(&arrival.seen) == 0 || seen_count(&departure.seen) == 0) ends_progress(ends);
  CHECK_OK(arrival.seen.status);
  CHECK_OK(departure.seen.status);
  CHECK_EQ(arrival.length, 1);
  CHECK_EQ(departure.length, 0);
  CHECK_EQ(info.length, length_of(7));
  CHECK_EQ(info.sender_tag, 99);
  take_message(&ends->right, 7);
}

static void notified(ends_t *ends) {
  ucxx_notifier_t *notifier = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  int mark = 0;
  CHECK_OK(ucxx_notifier_create(ends->context, &notifier));
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.notifier = notifier;
  params.callback_arg = &mark;
  for (int keep = 0; keep < 2; keep++) {
    ucxx_completion_t completion;
    size_t count = 0;
    CHECK_STATUS(ucxx_link_recv(ends->right.in, 4, UINT64_MAX, &params, keep ? &request : NULL),
                 UCXX_INPROGRESS);
    push_message(&ends->left, 8);
    ucxx_request_t *send = NULL;
    CHECK_OK(
        ends_finish(ends, ucxx_link_send(ends->left.out, ends->to_right, 4, NULL, &send), &send));
    while (count == 0) {
      ends_progress(ends);
      CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
    }
    CHECK_OK(completion.status);
    CHECK(completion.user_data == &mark);
    CHECK(completion.request == (keep ? request : NULL));
    CHECK_EQ(completion.length, length_of(8));
    CHECK_EQ(completion.sender_tag, 4);
    take_message(&ends->right, 8);
    ucxx_request_destroy(request);
  }
  ucxx_notifier_destroy(notifier);
}

static void what_does_not_end_well(ends_t *ends) {
  ucxx_request_t *request = NULL, *send = NULL;
  ucxx_envelope_t *envelopes[ENVELOPES];
  STEP("without an envelope or a chunk nothing is submitted");
  for (int at = 0; at < ENVELOPES; at++) envelopes[at] = lease_now(ends->right.in);
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 5, UINT64_MAX, NULL, &request), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("no empty envelope");
  CHECK_STATUS(ucxx_link_send(ends->left.out, ends->to_right, 5, NULL, &request),
               UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("no chunk");
  CHECK(request == NULL);
  for (int at = 0; at < ENVELOPES; at++) CHECK_OK(ucxx_envelope_abort(envelopes[at], NULL));
  STEP("a cancelled receive releases its envelope");
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 5, UINT64_MAX, NULL, &request), UCXX_INPROGRESS);
  CHECK_EQ(hub_stats(ends->right.hub).leased_envelopes, 1);
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(ends_finish(ends, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
  STEP("a receive of a longer message releases its envelope");
  char *large = test_alloc(SIZE + 1);
  test_fill(large, SIZE + 1, 1);
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 5, UINT64_MAX, NULL, &request), UCXX_INPROGRESS);
  ucxx_status_t status = ucxx_tag_send(ends->to_right, large, SIZE + 1, 5, NULL, &send);
  CHECK_STATUS(ends_finish(ends, UCXX_INPROGRESS, &request), UCXX_ERR_MESSAGE_TRUNCATED);
  ends_finish(ends, status, &send);
  free(large);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
  CHECK_EQ(ucxx_hub_length(ends->right.hub), 0);
  STEP("a chunk that cannot be sent is offered again");
  push_message(&ends->left, 9);
  ucxx_endpoint_t *closed = connect_workers(ends->left.worker, ends->right.worker);
  CHECK_OK(ends_finish(ends, ucxx_endpoint_close(closed, UCXX_CLOSE_FORCE, NULL, &send), &send));
  CHECK(ucxx_link_send(ends->left.out, closed, 5, NULL, &send) < 0);
  ucxx_endpoint_destroy(closed);
  CHECK_EQ(ucxx_hub_length(ends->left.hub), 1);
  take_message(&ends->left, 9);
  STEP("links and endpoints that do not allow it");
  CHECK_STATUS(ucxx_link_recv(ends->right.out, 5, UINT64_MAX, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("produces");
  CHECK_STATUS(ucxx_link_send(ends->left.in, ends->to_right, 5, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("consumes");
  CHECK_STATUS(ucxx_link_send(ends->left.out, ends->to_left, 5, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("endpoint");
  hub_t bare = hub_open(SIZE, 1, 0);
  ucxx_link_t *link = hub_link(bare.hub, UCXX_LINK_PRODUCE, on_host);
  CHECK_STATUS(ucxx_link_recv(link, 5, UINT64_MAX, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("worker");
  ucxx_link_destroy(link);
  hub_close(&bare);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_EAGER;
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 5, UINT64_MAX, &params, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
}

static void blocking(ends_t *ends) {
  /* The short message has arrived before the call that waits for it. */
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_recv_info_t info = {0};
  ucxx_request_t *send = NULL;
  uint64_t word = 42;
  CHECK_OK(
      ends_finish(ends, ucxx_tag_send(ends->to_right, &word, sizeof word, 6, NULL, &send), &send));
  params.flags = UCXX_FLAG_WAIT;
  params.recv_info = &info;
  CHECK_OK(ucxx_link_recv(ends->right.in, 6, UINT64_MAX, &params, NULL));
  CHECK_EQ(info.length, sizeof word);
  CHECK_EQ(consume_word(ends->right.out), 42);
  params.timeout_ns = MILLISECOND;
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 6, UINT64_MAX, &params, NULL), UCXX_ERR_TIMED_OUT);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
}

/* One message into an envelope; each number has another length. */
static void one_message(ends_t *ends, uint64_t number) {
  ucxx_request_t *send = NULL, *receive = NULL;
  push_message(&ends->left, number);
  ucxx_status_t received = ucxx_link_recv(ends->right.in, 8, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_link_send(ends->left.out, ends->to_right, 8, NULL, &send);
  CHECK_OK(ends_finish(ends, sent, &send));
  CHECK_OK(ends_finish(ends, received, &receive));
  take_message(&ends->right, number);
}

static void swap_memory(ucxx_link_t *one, ucxx_link_t *other) {
  ucxx_envelope_t *first = lease_now(one), *second = lease_now(other);
  void *here = look_at(first).data, *there = look_at(second).data;
  CHECK_OK(ucxx_envelope_swap(first, second));
  CHECK(look_at(first).data == there && look_at(second).data == here);
  CHECK_OK(ucxx_envelope_abort(first, NULL));
  CHECK_OK(ucxx_envelope_abort(second, NULL));
}

/* A received chunk is sent on from another hub without a copy. */
static void forwarded(ends_t *ends, ucxx_link_t *bare_in, ucxx_link_t *bare_out, uint64_t number) {
  ucxx_envelope_t *came = NULL, *empty = lease_now(bare_in);
  ucxx_request_t *send = NULL, *receive = NULL;
  push_message(&ends->left, number);
  ucxx_status_t received = ucxx_link_recv(ends->right.in, 8, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_link_send(ends->left.out, ends->to_right, 8, NULL, &send);
  CHECK_OK(ends_finish(ends, sent, &send));
  CHECK_OK(ends_finish(ends, received, &receive));
  /* Through a hub without a worker back to the first one, which sends it again. */
  came = lease_now(ends->right.out);
  CHECK_OK(ucxx_envelope_swap(came, empty));
  CHECK_OK(ucxx_envelope_commit(came, 0, NULL));
  CHECK_OK(ucxx_envelope_commit(empty, length_of(number), NULL));
  came = lease_now(bare_out);
  empty = lease_now(ends->left.in);
  CHECK_OK(ucxx_envelope_swap(came, empty));
  CHECK_OK(ucxx_envelope_commit(came, 0, NULL));
  CHECK_OK(ucxx_envelope_commit(empty, length_of(number), NULL));
  received = ucxx_link_recv(ends->right.in, 8, UINT64_MAX, NULL, &receive);
  sent = ucxx_link_send(ends->left.out, ends->to_right, 8, NULL, &send);
  CHECK_OK(ends_finish(ends, sent, &send));
  CHECK_OK(ends_finish(ends, received, &receive));
  take_message(&ends->right, number);
}

/* An envelope registered by one hub belongs to another one by now, and survives the hub that made
 * it. */
static void swapped(ends_t *ends) {
  enum { SWAPS = 60 };
  uint64_t number = 1;
  hub_t bare = {.context = ends->context};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  CHECK_OK(ucxx_hub_create(ends->context, &params, &bare.hub));
  CHECK_OK(ucxx_hub_add_envelopes(bare.hub, on_host, ENVELOPES));
  ucxx_link_t *in = hub_link(bare.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(bare.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *links[] = {ends->left.in, ends->right.in, in};
  for (int at = 0; at < SWAPS; at++) {
    swap_memory(links[at % 3], links[(at + 1 + at / 3 % 2) % 3]);
    one_message(ends, number++);
    if (at % 4 == 0) forwarded(ends, in, out, number++);
  }
  CHECK_EQ(hub_stats(bare.hub).free_envelopes, ENVELOPES);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_hub_destroy(bare.hub);
  for (int at = 0; at < 4 * ENVELOPES; at++) one_message(ends, number++);
  CHECK_EQ(hub_stats(ends->left.hub).free_envelopes, ENVELOPES);
  CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
}

/* The hub is destroyed first, or the worker, with a receive in flight. */
static void ends_close(ends_t *ends, int hub_first) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_link_recv(ends->right.in, 1234, UINT64_MAX, NULL, &request), UCXX_INPROGRESS);
  if (hub_first) {
    side_close(&ends->right);
    CHECK_OK(ucxx_request_cancel(request));
    CHECK_STATUS(ends_finish(ends, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  }
  ucxx_endpoint_t *endpoints[] = {ends->to_left, ends->to_right};
  for (int at = 0; at < 2; at++) {
    ucxx_request_t *close = NULL;
    CHECK_OK(ends_finish(ends, ucxx_endpoint_close(endpoints[at], UCXX_CLOSE_FORCE, NULL, &close),
                         &close));
    ucxx_endpoint_destroy(endpoints[at]);
  }
  ucxx_worker_destroy(ends->right.worker);
  if (!hub_first) {
    CHECK_STATUS(ucxx_request_status(request), UCXX_ERR_CANCELED);
    ucxx_request_destroy(request);
    CHECK_EQ(hub_stats(ends->right.hub).free_envelopes, ENVELOPES);
    side_close(&ends->right);
  }
  ucxx_worker_destroy(ends->left.worker);
  side_close(&ends->left);
  ucxx_context_destroy(ends->context);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  for (int hub_first = 0; hub_first < 2; hub_first++) {
    STEP("%s: a stream of messages from hub to hub", mode);
    ends_t ends = ends_open(params);
    stream_of_messages(&ends);
    STEP("%s: in the callback the chunk is in the queue, or removed from it", mode);
    callbacks(&ends);
    STEP("%s: notifiers report the caller's value", mode);
    notified(&ends);
    what_does_not_end_well(&ends);
    STEP("%s: calls that wait", mode);
    blocking(&ends);
    STEP("%s: memory that has moved between hubs", mode);
    swapped(&ends);
    STEP("%s: the end, the %s first", mode, hub_first ? "hub" : "worker");
    ends_close(&ends, hub_first);
  }
}

int main(void) {
  test_begin("hub_tag");
  in_every_mode(round_of);
  return 0;
}
