/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * notifier.c: completions in batches, on a thread that sleeps in poll(2).
 *
 *     cc -o notifier notifier.c $(pkg-config --cflags --libs ucxx_rs) -pthread
 *     ./notifier 0 notifier.socket & ./notifier 1 notifier.socket; wait
 *
 * Each process prints one line:
 *
 *     rank 0: 1000 sends and 1000 receives were reported in 89 batches
 *
 * A notifier is a queue of completions. The main thread starts receives and sends and makes
 * progress, but looks at no request. Each operation names the notifier. The second thread reads its
 * completion from there, with the pointer that was given as callback_arg. Bindings for other
 * languages need this if their code must not run on the thread that makes progress. The order of
 * the steps in deliver() matters:
 *
 *     1. poll the notifier until it is empty
 *     2. arm the notifier; UCXX_ERR_BUSY means that a completion arrived meanwhile: go back to 1
 *     3. sleep in poll(2), which may watch other descriptors as well
 *
 * UCXX_ERR_CLOSED ends the loop: the notifier was stopped, and it is empty.
 */
#define _XOPEN_SOURCE 700
#include <pthread.h>

#include "pair.h"

#define MESSAGES 1000
#define BATCH 64
#define TAG UINT64_C(5)

struct operation {
  bool is_send;
  uint32_t number, word;
};

struct delivery {
  ucxx_notifier_t *notifier;
  uint32_t sent, received, batches; /* the main thread reads these after the join */
};

static void handle(struct delivery *delivery, const ucxx_completion_t *completion) {
  const struct operation *operation = completion->user_data;
  check(completion->status, operation->is_send ? "a send completed" : "a receive completed");
  if (operation->is_send) {
    delivery->sent++;
    return;
  }
  require(completion->length == sizeof operation->word && completion->sender_tag == TAG,
          "length and tag of the message");
  require(operation->word == operation->number, "messages arrive in order");
  delivery->received++;
}

static void *deliver(void *arg) {
  struct delivery *delivery = arg;
  struct pollfd entry = {-1, POLLIN, 0};
  /* The descriptor belongs to the library: do not close it. */
  check(ucxx_notifier_event_fd(delivery->notifier, &entry.fd), "the notifier's descriptor");
  for (;;) {
    ucxx_completion_t batch[BATCH];
    size_t count = 0;
    ucxx_status_t status =
        ucxx_notifier_poll(delivery->notifier, batch, sizeof batch[0], BATCH, &count);
    if (status == UCXX_ERR_CLOSED) return NULL;
    check(status, "poll of the notifier");
    for (size_t i = 0; i < count; i++) handle(delivery, &batch[i]);
    if (count > 0) {
      delivery->batches++;
      continue;
    }
    status = ucxx_notifier_arm(delivery->notifier);
    if (status == UCXX_ERR_BUSY || status == UCXX_ERR_CLOSED) continue;
    check(status, "arm");
    require(poll(&entry, 1, -1) > 0 || errno == EINTR, "poll(2)");
  }
}

/* With ALWAYS_CALLBACK every operation gives one completion, also if it completes inside its call.
 * There is no request to keep or destroy. */
static void submit(struct pair *pair, ucxx_notifier_t *notifier, struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.notifier = notifier;
  params.callback_arg = operation;
  ucxx_status_t status;
  if (operation->is_send) {
    status =
        ucxx_tag_send(pair->endpoint, &operation->word, sizeof operation->word, TAG, &params, NULL);
  } else {
    params.source = pair->endpoint;
    status = ucxx_tag_recv(pair->worker, &operation->word, sizeof operation->word, TAG,
                           PAIR_ALL_BITS, &params, NULL);
  }
  if (status != UCXX_INPROGRESS) check(status, "submit");
}

/* Makes progress until everything that was submitted has completed. The other thread reads the
 * completions meanwhile. */
static void drive(struct pair *pair) {
  uint64_t deadline_ns = exchange_now_ns() + PAIR_TIMEOUT_NS;
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  for (;;) {
    check(ucxx_worker_query_stats(pair->worker, &stats), "counters");
    if (stats.in_flight == 0) return;
    ucxx_status_t status = ucxx_worker_wait(pair->worker, PAIR_TIMEOUT_NS);
    if (status != UCXX_ERR_TIMED_OUT) check(status, "wait");
    require(exchange_now_ns() < deadline_ns, "the peer answers in time");
  }
}

int main(int argc, char **argv) {
  static struct operation operations[2 * MESSAGES];
  struct pair pair;
  struct delivery delivery = {NULL, 0, 0, 0};
  pthread_t thread;
  pair_open(&pair, argc, argv);
  check(ucxx_notifier_create(pair.context, &delivery.notifier), "notifier");
  require(pthread_create(&thread, NULL, deliver, &delivery) == 0, "a thread");

  for (uint32_t i = 0; i < MESSAGES; i++) {
    struct operation *receive = &operations[2 * i], *send = &operations[2 * i + 1];
    receive->number = i;
    send->is_send = true;
    send->number = send->word = i;
    submit(&pair, delivery.notifier, receive);
    submit(&pair, delivery.notifier, send);
  }
  drive(&pair);

  /* The other thread reads what is left, and then gets UCXX_ERR_CLOSED. */
  check(ucxx_notifier_stop(delivery.notifier), "stop");
  pthread_join(thread, NULL);
  require(delivery.sent == MESSAGES && delivery.received == MESSAGES,
          "every operation is reported once");
  printf("rank %d: %u sends and %u receives were reported in %u batches\n", pair.rank,
         delivery.sent, delivery.received, delivery.batches);
  ucxx_notifier_destroy(delivery.notifier);
  pair_close(&pair);
  return EXIT_SUCCESS;
}
