/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * probe.c: receives messages whose length and tag are not known in advance.
 *
 *     cc -o probe probe.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./probe 0 probe.socket & ./probe 1 probe.socket; wait
 *
 * Rank 0 sends four messages. Rank 1 prints how it found each:
 *
 *     rank 1: probed, then received: tag 100000000, 13 bytes
 *     rank 1: taken and received: tag 100000001, 100000 bytes
 *     rank 1: taken and received: tag 100000002, 3000000 bytes
 *     rank 1: dropped: tag 200000000, 18 bytes
 *
 * A probe looks for a message that has arrived and that no receive has taken. It has two forms:
 *
 * - without a handle: the message stays, and a later receive gets the oldest message that matches
 * - with a handle: the message is removed from matching and belongs to the caller, who receives
 *   exactly this message into a buffer of the right size, or drops it
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

/* The upper half of a tag is the kind of message, the lower half the message's number. */
#define KIND_DATA (UINT64_C(1) << 32)
#define KIND_JUNK (UINT64_C(2) << 32)
#define KIND_MASK (UINT64_C(0xffffffff) << 32)

static const size_t lengths[] = {13, 100 * 1000, 3 * 1000 * 1000};
enum { DATA_MESSAGES = sizeof lengths / sizeof lengths[0] };

static void fill(unsigned char *bytes, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; i++) bytes[i] = (unsigned char)(seed * 31 + i * 7);
}

static void verify(const unsigned char *bytes, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; i++)
    require(bytes[i] == (unsigned char)(seed * 31 + i * 7), "contents arrive intact");
}

static void send_all(struct pair *pair) {
  unsigned char *buffers[DATA_MESSAGES];
  ucxx_request_t *requests[DATA_MESSAGES] = {NULL};
  static const char junk[] = "nobody wants this";
  ucxx_status_t status =
      ucxx_tag_send(pair->endpoint, junk, sizeof junk, KIND_JUNK, NULL, &requests[0]);
  check(outcome(status, requests[0]), "send");
  requests[0] = NULL;

  for (size_t i = 0; i < DATA_MESSAGES; i++) {
    buffers[i] = malloc(lengths[i]);
    require(buffers[i] != NULL, "memory");
    fill(buffers[i], lengths[i], i);
    status =
        ucxx_tag_send(pair->endpoint, buffers[i], lengths[i], KIND_DATA | i, NULL, &requests[i]);
    if (status != UCXX_INPROGRESS) check(status, "send");
  }
  /* ucxx_request_wait_all skips entries that are NULL, whose sends have completed already. If all
   * are NULL it returns UCXX_ERR_NO_ELEM. */
  status = ucxx_request_wait_all(requests, DATA_MESSAGES, PAIR_TIMEOUT_NS);
  if (status != UCXX_ERR_NO_ELEM) check(status, "sends");
  for (size_t i = 0; i < DATA_MESSAGES; i++) {
    ucxx_request_destroy(requests[i]);
    free(buffers[i]);
  }
}

/* A probe makes no progress. It finds a message only after progress has received it, so wait and
 * probe again. */
static void wait_for_message(struct pair *pair, uint64_t tag, uint64_t mask, ucxx_recv_info_t *info,
                             ucxx_tag_message_t **message) {
  for (;;) {
    ucxx_status_t status = ucxx_tag_probe(pair->worker, tag, mask, info, message);
    if (status == UCXX_OK) return;
    require(status == UCXX_ERR_NO_MESSAGE, "a probe finds a message or none");
    check(ucxx_worker_wait(pair->worker, PAIR_TIMEOUT_NS), "waiting for a message");
  }
}

static void receive_all(struct pair *pair) {
  ucxx_recv_info_t info = {0};

  /* Without a handle: probe, then receive as usual into a buffer of the length from the probe. */
  wait_for_message(pair, KIND_DATA, KIND_MASK, &info, NULL);
  unsigned char *buffer = malloc((size_t)info.length);
  require(buffer != NULL, "memory");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = pair->endpoint;
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, buffer, (size_t)info.length, info.sender_tag,
                                       PAIR_ALL_BITS, &params, &request);
  check(outcome(status, request), "receive after a probe");
  require(info.length == lengths[info.sender_tag & ~KIND_MASK], "the probe tells the length");
  verify(buffer, (size_t)info.length, info.sender_tag & ~KIND_MASK);
  printf("rank 1: probed, then received: tag %llx, %llu bytes\n",
         (unsigned long long)info.sender_tag, (unsigned long long)info.length);
  free(buffer);

  /* With a handle: only the caller can receive the message, whatever other receives are posted
   * meanwhile. */
  for (int i = 1; i < DATA_MESSAGES; i++) {
    ucxx_tag_message_t *message = NULL;
    wait_for_message(pair, KIND_DATA, KIND_MASK, &info, &message);
    ucxx_recv_info_t nothing;
    status = ucxx_tag_probe(pair->worker, info.sender_tag, PAIR_ALL_BITS, &nothing, NULL);
    require(status == UCXX_ERR_NO_MESSAGE, "a message taken by a probe is found no more");
    buffer = malloc((size_t)info.length);
    require(buffer != NULL, "memory");
    request = NULL;
    status = ucxx_tag_message_recv(message, buffer, (size_t)info.length, &params, &request);
    check(outcome(status, request), "receive of a probed message");
    /* The receive consumed the message. The handle still has to be freed. */
    ucxx_tag_message_destroy(message);
    verify(buffer, (size_t)info.length, info.sender_tag & ~KIND_MASK);
    printf("rank 1: taken and received: tag %llx, %llu bytes\n",
           (unsigned long long)info.sender_tag, (unsigned long long)info.length);
    free(buffer);
  }

  /* Destroying a handle without a receive drops its message. */
  ucxx_tag_message_t *message = NULL;
  wait_for_message(pair, KIND_JUNK, KIND_MASK, &info, &message);
  ucxx_tag_message_destroy(message);
  ucxx_recv_info_t nothing;
  status = ucxx_tag_probe(pair->worker, 0, 0, &nothing, NULL);
  require(status == UCXX_ERR_NO_MESSAGE, "nothing is left");
  printf("rank 1: dropped: tag %llx, %llu bytes\n", (unsigned long long)info.sender_tag,
         (unsigned long long)info.length);
}

int main(int argc, char **argv) {
  struct pair pair;
  pair_open(&pair, argc, argv);
  if (pair.rank == 0) {
    send_all(&pair);
  } else {
    receive_all(&pair);
  }
  pair_close(&pair);
  return EXIT_SUCCESS;
}
