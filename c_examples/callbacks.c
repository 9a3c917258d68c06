/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * callbacks.c: many operations in flight, each reported by a callback that posts the next one.
 *
 * Both processes send MESSAGES numbered messages to each other and keep IN_FLIGHT sends and
 * IN_FLIGHT receives going. No request is kept: with `request` NULL the library frees it after the
 * callback, which is all this program needs.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#define MESSAGES 2000
#define IN_FLIGHT 32
#define LONGEST (64 * 1024)
#define TAG UINT64_C(7)

struct slot {
  struct traffic *traffic;
  ucxx_recv_info_t info;
  uint32_t number;
  unsigned char buffer[LONGEST];
};

struct traffic {
  struct pair pair;
  uint32_t sends_posted, sends_done, receives_posted, receives_done;
  uint64_t bytes_received;
  struct slot sending[IN_FLIGHT], receiving[IN_FLIGHT];
};

/* Short, medium and long messages in turn, so that some are copied in the call and some are pulled
 * by the peer. */
static size_t message_length(uint32_t number) {
  static const size_t lengths[] = {4, 64, 1500, LONGEST, 9000};
  return lengths[number % (sizeof lengths / sizeof lengths[0])];
}

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status);
static void on_received(void *arg, ucxx_request_t *request, ucxx_status_t status);

static void post_send(struct slot *slot) {
  struct traffic *traffic = slot->traffic;
  if (traffic->sends_posted == MESSAGES) return;
  slot->number = traffic->sends_posted++;
  size_t length = message_length(slot->number);
  memset(slot->buffer, (int)(slot->number & 0xff), length);
  memcpy(slot->buffer, &slot->number, sizeof slot->number);

  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  /* Without this flag a send that completes inside the call returns UCXX_OK and calls nothing back.
   * With it there is one way for all completions to come, and no recursion from a callback into
   * itself. */
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_sent;
  params.callback_arg = slot;
  ucxx_status_t status =
      ucxx_tag_send(traffic->pair.endpoint, slot->buffer, length, TAG, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "send");
}

static void post_receive(struct slot *slot) {
  struct traffic *traffic = slot->traffic;
  if (traffic->receives_posted == MESSAGES) return;
  /* Messages of one sender with one tag match receives in the order in which these were posted, so
   * the number of the message that will land here is known now. */
  slot->number = traffic->receives_posted++;

  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_received;
  params.callback_arg = slot;
  params.recv_info = &slot->info;
  params.source = traffic->pair.endpoint;
  ucxx_status_t status = ucxx_tag_recv(traffic->pair.worker, slot->buffer, sizeof slot->buffer, TAG,
                                       PAIR_ALL_BITS, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "receive");
}

/* Callbacks run on the thread that makes progress, here inside ucxx_worker_progress or
 * ucxx_worker_wait. They may submit; they may not wait. */
static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct slot *slot = arg;
  check_completion(request, status, "a send completed");
  slot->traffic->sends_done++;
  post_send(slot);
}

static void on_received(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct slot *slot = arg;
  struct traffic *traffic = slot->traffic;
  check_completion(request, status, "a receive completed");

  size_t length = message_length(slot->number);
  uint32_t number;
  memcpy(&number, slot->buffer, sizeof number);
  require(number == slot->number, "messages match in the order they were sent");
  require(slot->info.length == length && slot->info.sender_tag == TAG,
          "length and tag are those of the message");
  require(length == sizeof number || slot->buffer[length - 1] == (number & 0xff),
          "contents arrive intact");

  traffic->receives_done++;
  traffic->bytes_received += slot->info.length;
  post_receive(slot);
}

int main(int argc, char **argv) {
  struct traffic *traffic = calloc(1, sizeof *traffic);
  require(traffic != NULL, "memory");
  pair_open(&traffic->pair, argc, argv);

  for (int i = 0; i < IN_FLIGHT; i++) {
    traffic->receiving[i].traffic = traffic;
    post_receive(&traffic->receiving[i]);
  }
  for (int i = 0; i < IN_FLIGHT; i++) {
    traffic->sending[i].traffic = traffic;
    post_send(&traffic->sending[i]);
  }
  while (traffic->sends_done < MESSAGES || traffic->receives_done < MESSAGES) {
    check(ucxx_worker_wait(traffic->pair.worker, PAIR_TIMEOUT_NS), "waiting for traffic");
  }
  printf("rank %d: %u messages sent, %u received, %llu bytes\n", traffic->pair.rank,
         traffic->sends_done, traffic->receives_done, (unsigned long long)traffic->bytes_received);

  pair_close(&traffic->pair);
  free(traffic);
  return EXIT_SUCCESS;
}
