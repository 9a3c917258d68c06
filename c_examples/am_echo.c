/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * am_echo.c: active messages. Rank 1 returns each message to its sender, and rank 0 checks the
 * data.
 *
 *     cc -o am_echo am_echo.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./am_echo 0 am.socket & ./am_echo 1 am.socket; wait
 *
 * It prints a line for each message, and a summary:
 *
 *     client:       24 bytes came back: a short one
 *     client:  4194304 bytes came back: longer than 1 MiB: always rendezvous
 *     server: 7 messages answered, 4 from where they lay, 3 pulled first
 *
 * An active message has an id. The receiver registers a handler for the id, and the library calls
 * it with each message. A message consists of a header, which always arrives with it, and data. The
 * data arrives with the header ("eager"), or stays at the sender until the receiver provides a
 * buffer ("rendezvous").
 *
 * The handler owns its message until it destroys it. Rank 1 shows both cases. Eager data stays
 * where it is, and rank 1 sends it back from there. Rendezvous data is first received into memory
 * of rank 1. In both cases the message must exist until the answer has been sent, because the reply
 * endpoint belongs to it.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#define ECHO_ID 100 /* handled by rank 1 */
#define REPLY_ID 101 /* handled by rank 0 */
#define LONGEST (4u << 20)

/* The messages: the library chooses the protocol, or the flag does. */
static const struct {
  uint64_t length, flags;
  const char *text;
} questions[] = {{0, 0, "nothing"},
                 {24, 0, "a short one"},
                 {5000, UCXX_FLAG_EAGER, "eager"},
                 {5000, UCXX_FLAG_RNDV, "rendezvous"},
                 {300000, UCXX_FLAG_EAGER, "eager, in many pieces"},
                 {300000, 0, "the library's choice"},
                 {LONGEST, 0, "longer than 1 MiB: always rendezvous"}};
#define QUESTIONS (sizeof questions / sizeof *questions)

/* The header, in both directions. The library copies it when it is sent. The receiver reads it in
 * place. */
struct head {
  uint64_t number, length;
};

static unsigned char pattern(uint64_t number, uint64_t at) {
  return (unsigned char)((at * 131 + number * 7919) >> 3);
}

static struct head head_of(const ucxx_am_message_t *message) {
  struct head head;
  size_t length = 0;
  const void *bytes = ucxx_am_message_header(message, &length);
  /* Check what a peer sends before it is used. */
  require(length == sizeof head, "the header is complete");
  memcpy(&head, bytes, sizeof head);
  require(head.number < QUESTIONS, "the number is one of ours");
  require(head.length == ucxx_am_message_length(message), "the header tells the length");
  return head;
}

/* ---------------------------------------------------------------- rank 1: echo */

struct echo {
  struct server *server;
  ucxx_am_message_t *message;
  struct head head;
  unsigned char *own; /* the received data; NULL if the message holds the data */
};

struct server {
  unsigned answered, in_place, pulled;
};

static void on_answered(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct echo *echo = arg;
  check_completion(request, status, "an answer was sent");
  echo->server->answered++;
  /* Destroying the message also ends the use of its reply endpoint, and returns the sender's credit
   * (docs/flow-control.md). */
  ucxx_am_message_destroy(echo->message);
  free(echo->own);
  free(echo);
}

static void send_answer(struct echo *echo, const void *data) {
  ucxx_endpoint_t *reply = ucxx_am_message_reply(echo->message);
  require(reply != NULL, "the sender has asked for an endpoint to answer on");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  /* ALWAYS_CALLBACK: the callback also runs if the send completes inside the call, so there is one
   * path for completions. */
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_answered;
  params.callback_arg = echo;
  ucxx_status_t status = ucxx_am_send(reply, REPLY_ID, &echo->head, sizeof echo->head, data,
                                      (size_t)echo->head.length, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "answer");
}

static void on_pulled(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct echo *echo = arg;
  check_completion(request, status, "the data was pulled");
  send_answer(echo, echo->own);
}

/* The library calls it while it makes progress. It may call any function that does not wait. */
static void on_question(void *arg, ucxx_am_message_t *message) {
  struct server *server = arg;
  struct echo *echo = calloc(1, sizeof *echo);
  require(echo != NULL, "memory");
  echo->server = server;
  echo->message = message;
  echo->head = head_of(message);
  /* Data that arrived with the header is available at once. NULL means that it has to be
   * received. */
  const void *data = ucxx_am_message_data(message);
  if (data != NULL || echo->head.length == 0) {
    server->in_place++;
    send_answer(echo, data);
    return;
  }
  server->pulled++;
  require(echo->head.length <= LONGEST, "nobody makes us allocate more than this");
  echo->own = malloc((size_t)echo->head.length);
  require(echo->own != NULL, "memory");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_pulled;
  params.callback_arg = echo;
  ucxx_status_t status =
      ucxx_am_message_recv(message, echo->own, (size_t)echo->head.length, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "receive");
}

/* ---------------------------------------------------------------- rank 0: send and check */

struct client {
  struct pair *pair;
  unsigned expected; /* answers arrive in the order of the messages, because ask() waits for each */
  unsigned char *data, *back;
};

static void check_answer(const struct client *client, const unsigned char *data,
                         const struct head *head) {
  for (uint64_t at = 0; at < head->length; at++)
    require(data[at] == pattern(head->number, at), "the data is what we sent");
  printf("client: %8lu bytes came back: %s\n", (unsigned long)head->length,
         questions[client->expected].text);
}

static void on_answer_pulled(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct client *client = arg;
  check_completion(request, status, "an answer was pulled");
  struct head head = {client->expected, questions[client->expected].length};
  check_answer(client, client->back, &head);
  client->expected++;
}

static void on_answer(void *arg, ucxx_am_message_t *message) {
  struct client *client = arg;
  struct head head = head_of(message);
  require(head.number == client->expected, "each answer comes once");
  require(head.length == questions[head.number].length, "and is as long as its question");
  require(ucxx_am_message_reply(message) == NULL, "nobody asked to be answered");
  const void *data = ucxx_am_message_data(message);
  if (data != NULL || head.length == 0) {
    check_answer(client, data, &head);
    client->expected++;
  } else {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = on_answer_pulled;
    params.callback_arg = client;
    ucxx_status_t status =
        ucxx_am_message_recv(message, client->back, (size_t)head.length, &params, NULL);
    if (status != UCXX_INPROGRESS) check(status, "receive");
  }
  /* A receive that was started continues without the message. */
  ucxx_am_message_destroy(message);
}

static void ask(struct client *client, unsigned number) {
  struct head head = {number, questions[number].length};
  for (uint64_t at = 0; at < head.length; at++) client->data[at] = pattern(number, at);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = questions[number].flags | UCXX_FLAG_AM_REPLY;
  ucxx_request_t *request = NULL;
  ucxx_endpoint_t *endpoint = client->pair->endpoint;
  ucxx_status_t status = ucxx_am_send(endpoint, ECHO_ID, &head, sizeof head, client->data,
                                      (size_t)head.length, &params, &request);
  /* After completion the buffer may be used again. A rendezvous send completes when rank 1 has
   * received the data. */
  check(outcome(status, request), "send");
  while (client->expected <= number)
    check(ucxx_worker_wait(client->pair->worker, PAIR_TIMEOUT_NS), "waiting for the answer");
}

int main(int argc, char **argv) {
  struct pair pair;
  pair_open(&pair, argc, argv);
  struct server server = {0};
  struct client client = {&pair, 0, malloc(LONGEST), malloc(LONGEST)};
  require(client.data != NULL && client.back != NULL, "memory");
  /* Register the handler before the peer sends. Without one an eager message is dropped, and a
   * rendezvous message is refused. */
  if (pair.rank == 0) {
    check(ucxx_worker_set_am_handler(pair.worker, REPLY_ID, on_answer, &client, NULL), "handler");
  } else {
    check(ucxx_worker_set_am_handler(pair.worker, ECHO_ID, on_question, &server, NULL), "handler");
  }
  if (exchange_barrier(&pair.exchange, pair.worker, PAIR_TIMEOUT_NS) != 0) return EXIT_FAILURE;

  if (pair.rank == 0) {
    for (unsigned number = 0; number < QUESTIONS; number++) ask(&client, number);
  } else {
    while (server.answered < QUESTIONS)
      check(ucxx_worker_wait(pair.worker, PAIR_TIMEOUT_NS), "waiting for questions");
    require(server.in_place >= 4 && server.pulled >= 2, "data has come both ways");
    printf("server: %u messages answered, %u from where they lay, %u pulled first\n",
           server.answered, server.in_place, server.pulled);
  }
  pair_close(&pair);
  free(client.data);
  free(client.back);
  return EXIT_SUCCESS;
}
