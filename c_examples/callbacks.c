/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * callbacks.c: many operations in progress, each with a callback that starts the next one.
 *
 *     cc -o callbacks callbacks.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./callbacks 0 callbacks.socket & ./callbacks 1 callbacks.socket; wait
 *
 * Both processes send MESSAGES numbered messages to each other, and keep IN_FLIGHT sends and
 * IN_FLIGHT receives in progress. Each prints one line:
 *
 *     rank 0: 2000 messages sent, 2000 received, 30441600 bytes
 *
 * The program keeps no requests. If the last argument of an operation is NULL, the library frees
 * the request after its callback.
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

/* Short, medium and long messages in turn. The library copies the short ones inside the call, and
 * the receiver reads the long ones from the sender's buffer. */
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
  /* Without this flag, a send that completes inside the call returns UCXX_OK and its callback does
   * not run. With it every completion arrives by the callback, and a callback never runs inside
   * on_sent's own send. */
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
  /* Messages of one sender with one tag match receives in the order in which the receives were
   * posted. So the number of the message that this buffer will hold is known now. */
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

/* Callbacks run on the thread that makes progress, here inside ucxx_worker_wait. They may start
 * operations. They must not wait. */
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
  /* Makes progress, and sleeps while there is nothing to do. */
  while (traffic->sends_done < MESSAGES || traffic->receives_done < MESSAGES) {
    check(ucxx_worker_wait(traffic->pair.worker, PAIR_TIMEOUT_NS), "waiting for traffic");
  }
  printf("rank %d: %u messages sent, %u received, %llu bytes\n", traffic->pair.rank,
         traffic->sends_done, traffic->receives_done, (unsigned long long)traffic->bytes_received);

  pair_close(&traffic->pair);
  free(traffic);
  return EXIT_SUCCESS;
}
