/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * traffic.c: two processes that send a little of everything. Rank 0 prints a line of JSON for each
 * message of a user that it sends, and for each answer that it gets. test_dissector.py compares
 * them with what the dissector found.
 *
 *     ./traffic 0 SOCKET & ./traffic 1 SOCKET; wait
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>

#include "pair.h"

enum { MESSAGE_ID = 100, FRAMES_ID = 101, FETCH_ID = 102, NO_ID = 0 };
enum { TAG = 0x1000, SYNC_TAG = 0x2000, FRAMES_TAG = 0x3000 };
#define LONGEST (1u << 20)
#define CHUNK 1000
#define CHUNKS 5
#define STREAMED 100
#define MEMORY 4096

static unsigned char bytes[LONGEST];
static const size_t tagged[] = {0, 8, 1000, 20000, 300000};
static const struct {
  size_t header, length;
  uint64_t flags;
} messages[] = {{0, 0, 0},      {5, 24, 0},   {0, 200, UCXX_FLAG_EAGER},
                {300, 5000, 0}, {4, 5000, 8}, {8, LONGEST, 4 /* eager, in many pieces */}};
static const struct {
  size_t header, room, answer;
  ucxx_status_t status;
} fetches[] = {{0, 64, 8, UCXX_OK},
               {5, 64, 64, UCXX_OK},
               {0, 16, 40, UCXX_ERR_MESSAGE_TRUNCATED},
               {0, 64, 0, UCXX_ERR_NO_ELEM},
               {700, 100000, 100000, UCXX_OK}};
static const size_t frames[] = {10, 0, 2000};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void sent(const char *kind, uint64_t tag_or_id, size_t length) {
  printf("{\"kind\": \"%s\", \"name\": %" PRIu64 ", \"length\": %zu}\n", kind, tag_or_id, length);
}

static void done(ucxx_status_t status, ucxx_request_t *request, const char *what) {
  check(outcome(status, request), what);
}

static void buffers_of_frames(ucxx_buffer_t *buffers) {
  for (size_t at = 0; at < COUNT(frames); at++)
    buffers[at] = (ucxx_buffer_t){bytes, frames[at], UCXX_MEMORY_HOST, 0, {0, 0}};
}

/* ---------------------------------------------------------------- rank 1 */

static size_t handled;

static void on_message(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  if (ucxx_am_message_data(message) == NULL && ucxx_am_message_length(message) > 0) {
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_am_message_recv(message, bytes, sizeof bytes, NULL, &request);
    require(status == UCXX_INPROGRESS || status == UCXX_OK, "the data is fetched");
    ucxx_request_destroy(request); /* goes on without it */
  }
  ucxx_am_message_destroy(message);
  handled++;
}

static void on_frames(void *arg, ucxx_endpoint_t *reply, const void *header, size_t length,
                      ucxx_buffers_t *buffers, ucxx_status_t status) {
  (void)arg, (void)reply, (void)header, (void)length;
  check(status, "frames");
  ucxx_buffers_destroy(buffers);
  handled++;
}

static void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  static size_t number;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  (void)arg;
  if (fetches[number].status == UCXX_ERR_NO_ELEM) {
    check(ucxx_fetch_reject(fetch, UCXX_ERR_NO_ELEM), "a rejection");
  } else {
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        ucxx_fetch_reply(fetch, bytes, fetches[number].answer, &params, &request);
    require(status >= 0, "an answer");
    ucxx_request_destroy(request);
  }
  ucxx_fetch_destroy(fetch);
  number++;
  handled++;
}

static void receive_all(struct pair *pair) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status;
  for (size_t at = 0; at < COUNT(tagged); at++) {
    status =
        ucxx_tag_recv(pair->worker, bytes, sizeof bytes, TAG + at, PAIR_ALL_BITS, NULL, &request);
    done(status, request, "tag");
  }
  status = ucxx_tag_recv(pair->worker, bytes, 16, SYNC_TAG, PAIR_ALL_BITS, NULL, &request);
  done(status, request, "synchronous tag");
  status = ucxx_tag_recv_multi(pair->worker, FRAMES_TAG, PAIR_ALL_BITS, NULL, NULL, &request);
  done(status, request, "frames by tag");
  status = ucxx_stream_recv(pair->endpoint, bytes, STREAMED, NULL, &request);
  done(status, request, "stream");
  status = ucxx_am_queue_recv(pair->endpoint, NULL, NULL, &request);
  done(status, request, "queue");
  while (handled < COUNT(messages) + 1 + COUNT(fetches))
    check(ucxx_worker_progress(pair->worker, NULL), "progress");
}

/* ---------------------------------------------------------------- rank 0 */

static void send_all(struct pair *pair) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_buffer_t buffers[COUNT(frames)];
  ucxx_status_t status;
  for (size_t at = 0; at < COUNT(tagged); at++) {
    status = ucxx_tag_send(pair->endpoint, bytes, tagged[at], TAG + at, NULL, &request);
    done(status, request, "tag");
    sent("tag", TAG + at, tagged[at]);
  }
  status = ucxx_tag_send_sync(pair->endpoint, bytes, 16, SYNC_TAG, NULL, &request);
  done(status, request, "synchronous tag");
  sent("tag", SYNC_TAG, 16);

  buffers_of_frames(buffers);
  status = ucxx_tag_send_multi(pair->endpoint, buffers, COUNT(frames), FRAMES_TAG, NULL, &request);
  done(status, request, "frames by tag");
  sent("tag", FRAMES_TAG, 1209);
  for (size_t at = 0; at < COUNT(frames); at++) sent("tag", FRAMES_TAG, frames[at]);

  status = ucxx_stream_send(pair->endpoint, bytes, STREAMED, NULL, &request);
  done(status, request, "stream");
  sent("stream", NO_ID, STREAMED);
  status = ucxx_am_queue_send(pair->endpoint, bytes, 33, NULL, &request);
  done(status, request, "queue");
  sent("queue", NO_ID, 33);

  for (size_t at = 0; at < COUNT(messages); at++) {
    params.flags = messages[at].flags;
    status = ucxx_am_send(pair->endpoint, MESSAGE_ID, bytes, messages[at].header, bytes,
                          messages[at].length, &params, &request);
    done(status, request, "active message");
    sent("message", MESSAGE_ID, messages[at].length);
  }
  status = ucxx_am_send_multi(pair->endpoint, FRAMES_ID, "head", 4, buffers, COUNT(frames), NULL,
                              &request);
  done(status, request, "frames");
  sent("multi", FRAMES_ID, frames[0] + frames[1] + frames[2]);
  for (size_t at = 0; at < COUNT(fetches); at++) {
    status = ucxx_am_fetch(pair->endpoint, FETCH_ID, bytes, fetches[at].header, bytes,
                           fetches[at].room, NULL, &request);
    require(outcome(status, request) == fetches[at].status, "the answer's status");
    sent("fetch", FETCH_ID, 0);
    printf("{\"kind\": \"answer\", \"name\": %d, \"length\": %zu}\n", (int)fetches[at].status,
           fetches[at].status == UCXX_OK ? fetches[at].answer : 0);
  }
}

/* Rank 0 writes, reads and changes memory of rank 1. */
static void remote_memory(struct pair *pair) {
  unsigned char key[4096];
  size_t length = sizeof key;
  ucxx_memory_t *memory = NULL;
  if (pair->rank == 1) {
    check(ucxx_memory_allocate(pair->context, MEMORY, UCXX_MEMORY_HOST, &memory), "memory");
    check(ucxx_memory_pack(memory, key, &length), "its key");
  } else {
    length = 0;
  }
  void *theirs = NULL;
  size_t their_length = 0;
  require(exchange_swap(&pair->exchange, key, length, &theirs, &their_length) == 0, "keys");
  if (pair->rank == 0) {
    ucxx_rkey_t *rkey = NULL;
    ucxx_request_t *request = NULL;
    uint64_t one = 1;
    check(ucxx_rkey_unpack(pair->endpoint, theirs, their_length, &rkey), "the key");
    ucxx_status_t status = ucxx_rma_put(rkey, bytes, 1000, 8, NULL, &request);
    done(status, request, "put");
    sent("put", NO_ID, 1000);
    status = ucxx_rma_get(rkey, bytes, 500, 0, NULL, &request);
    done(status, request, "get");
    sent("get", NO_ID, 500);
    status = ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, NULL, 0, NULL, &request);
    done(status, request, "atomic");
    sent("atomic", NO_ID, 0);
    status = ucxx_endpoint_flush(pair->endpoint, NULL, &request);
    done(status, request, "flush");
    ucxx_rkey_destroy(rkey);
  }
  free(theirs);
  require(exchange_barrier(&pair->exchange, pair->worker, PAIR_TIMEOUT_NS) == 0, "barrier");
  if (memory != NULL) ucxx_memory_destroy(memory);
}

/* A hub of rank 0 sends chunks to a hub of rank 1. */
static void stream_between_hubs(struct pair *pair) {
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub = NULL;
  ucxx_link_t *far = NULL, *near = NULL;
  ucxx_envelope_t *envelope = NULL;
  params.envelope_size = CHUNK;
  params.worker = pair->worker;
  check(ucxx_hub_create(pair->context, &params, &hub), "a hub");
  check(ucxx_hub_add_envelopes(hub, host, CHUNKS), "envelopes");
  const bool sends = pair->rank == 0;
  check(ucxx_link_create(hub, sends ? UCXX_LINK_CONSUME : UCXX_LINK_PRODUCE, host, NULL, &far),
        "the link to the other side");
  check(ucxx_link_create(hub, sends ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME, host, NULL, &near),
        "the link here");
  check(ucxx_link_connect(far, pair->endpoint, 1, CHUNKS), "the stream");
  if (sends) {
    for (size_t at = 0; at < CHUNKS; at++) {
      check(ucxx_link_lease(near, UINT64_MAX, &envelope), "an envelope");
      check(ucxx_envelope_commit(envelope, CHUNK - at, NULL), "a chunk");
      sent("hub", NO_ID, CHUNK - at);
    }
    check(ucxx_hub_close(hub), "the end");
    check(ucxx_hub_drain(hub, PAIR_TIMEOUT_NS), "everything has arrived");
  } else {
    ucxx_status_t status;
    while ((status = ucxx_link_lease(near, UINT64_MAX, &envelope)) == UCXX_OK)
      check(ucxx_envelope_commit(envelope, 0, NULL), "a chunk is read");
    require(status == UCXX_ERR_CLOSED, "the end");
  }
  require(exchange_barrier(&pair->exchange, pair->worker, PAIR_TIMEOUT_NS) == 0, "barrier");
  ucxx_link_destroy(near);
  ucxx_link_destroy(far);
  ucxx_hub_destroy(hub);
}

int main(int argc, char **argv) {
  struct pair pair;
  const uint64_t features = UCXX_FEATURE_TAG | UCXX_FEATURE_AM | UCXX_FEATURE_STREAM |
                            UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC | UCXX_FEATURE_WAKEUP;
  pair_open_for(&pair, argc, argv, features, NULL, NULL);
  if (pair.rank == 1) {
    check(ucxx_worker_set_am_handler(pair.worker, MESSAGE_ID, on_message, NULL, NULL), "handler");
    check(ucxx_worker_set_multi_handler(pair.worker, FRAMES_ID, on_frames, NULL, NULL, NULL),
          "handler of frames");
    check(ucxx_worker_set_fetch_handler(pair.worker, FETCH_ID, on_fetch, NULL, NULL),
          "handler of fetches");
  }
  require(exchange_barrier(&pair.exchange, pair.worker, PAIR_TIMEOUT_NS) == 0, "barrier");
  if (pair.rank == 0) {
    send_all(&pair);
  } else {
    receive_all(&pair);
  }
  require(exchange_barrier(&pair.exchange, pair.worker, PAIR_TIMEOUT_NS) == 0, "barrier");
  remote_memory(&pair);
  stream_between_hubs(&pair);
  pair_close(&pair);
  return 0;
}
