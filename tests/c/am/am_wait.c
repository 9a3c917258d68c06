/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Active messages whose sending call waits for credit. The call returns when the receiver returns
 * credit, when its timeout expires, or at once with NO_WAIT. A message reported as sent arrives
 * once and in order; one that was given up never arrives.
 */
#include "test_util.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  ID = 3,
  TAG = 9,
  CREDIT = 256,
  SENDERS = 3,
  MOST_DATA = 65 << 10,
  NUMBERS = 1 << 17,
  RACED = 1000,
  TIMED_OUT = 50
};
#define GIVEN_UP UINT64_MAX

static uint8_t content[MOST_DATA];

/* Messages that use up the credit, and how many it takes. */
typedef struct shape {
  size_t length;
  uint64_t flags;
  unsigned credit, each;
} shape_t;
/* 8 MiB and 256 KiB of credit; each message takes its length and 1 KiB. */
static const shape_t shapes[] = {
    {100, 0, CREDIT, 2000},
    {MOST_DATA, UCXX_FLAG_EAGER, (8192 + CREDIT) / (MOST_DATA / 1024 + 1), 300}};

typedef struct head {
  uint64_t sender, number;
} head_t;

/* What the receiver does with messages. KEEPS: until `waiters` senders wait for credit; then it
 * destroys them. */
enum { DESTROYS, KEEPS, KEEPS_IN_TURN };

typedef struct receiver {
  duo_t duo;
  const shape_t *shape;
  int is_single;
  ucxx_am_message_t *kept[CREDIT];
  unsigned kept_count;
  uint64_t next[SENDERS];
  atomic_uchar came[NUMBERS];
  uint64_t word;
  int called_for;
  atomic_int does, with_gaps, over;
  atomic_uint received, waiters, let_go;
  seen_t inside;
} receiver_t;
static receiver_t receiver;

/* ------------------------------------------------------------------ the receiver, on its own
 * thread */

static void on_message(void *arg, ucxx_am_message_t *message) {
  head_t head;
  size_t length = 0;
  const void *header = ucxx_am_message_header(message, &length);
  CHECK(arg == &receiver);
  CHECK_EQ(length, sizeof head);
  memcpy(&head, header, sizeof head);
  CHECK(head.sender < SENDERS);
  CHECK_EQ(ucxx_am_message_length(message), receiver.shape->length);
  CHECK(memcmp(ucxx_am_message_data(message), content, receiver.shape->length) == 0);
  if (atomic_load(&receiver.with_gaps)) {
    CHECK(head.number >= receiver.next[head.sender] && head.number < NUMBERS);
    atomic_fetch_add(&receiver.came[head.number], 1);
  } else {
    CHECK_EQ(head.number, receiver.next[head.sender]);
  }
  receiver.next[head.sender] = head.number + 1;
  if (atomic_load(&receiver.does) == DESTROYS) {
    ucxx_am_message_destroy(message);
  } else {
    CHECK(receiver.kept_count < receiver.shape->credit);
    receiver.kept[receiver.kept_count++] = message;
  }
  atomic_fetch_add(&receiver.received, 1);
}

/*
 * Does the sender wait in a call? Other threads may not query a single-threaded worker, but only
 * the waiting call progresses it, so its progress shows the wait.
 */
static int is_waited(unsigned waiters) {
  ucxx_endpoint_load_t load = UCXX_ENDPOINT_LOAD_INIT;
  if (waiters == 0) return 0;
  if (!receiver.is_single) {
    CHECK_OK(ucxx_endpoint_query_load(receiver.duo.to_right, &load));
    return load.queued_operations >= waiters;
  }
  if (!receiver.called_for)
    CHECK(ucxx_tag_send(receiver.duo.to_left, &receiver.word, sizeof receiver.word, TAG, NULL,
                        NULL) >= 0);
  receiver.called_for = 1;
  return seen_count(&receiver.inside) != 0;
}

static void let_go(void) {
  atomic_fetch_add(&receiver.let_go, 1);
  for (unsigned at = 0; at < receiver.kept_count; at++) ucxx_am_message_destroy(receiver.kept[at]);
  receiver.kept_count = 0;
}

static void *receive(void *arg) {
  (void)arg;
  while (!atomic_load(&receiver.over)) {
    progress(receiver.duo.right);
    int does = atomic_load(&receiver.does);
    if (does == KEEPS && is_waited(atomic_load(&receiver.waiters))) {
      CHECK_EQ(receiver.kept_count, receiver.shape->credit);
      atomic_store(&receiver.waiters, 0);
      atomic_store(&receiver.does, DESTROYS);
      let_go();
    }
    if (does == KEEPS_IN_TURN && receiver.kept_count == receiver.shape->credit) let_go();
  }
  let_go();
  return NULL;
}

/* ------------------------------------------------------------------ the sender */

static ucxx_status_t send_one(uint64_t sender, uint64_t number, uint64_t flags,
                              uint64_t timeout_ns) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  head_t head = {sender, number};
  params.flags = receiver.shape->flags | flags;
  params.timeout_ns = timeout_ns;
  return ucxx_am_send(receiver.duo.to_right, ID, &head, sizeof head, content,
                      receiver.shape->length, &params, NULL);
}

static void await_received(unsigned count) {
  while (atomic_load(&receiver.received) < count) progress(receiver.duo.left);
  CHECK_EQ(atomic_load(&receiver.received), count);
}

/* Uses up all credit. The receiver keeps the messages. */
static void use_up(uint64_t *number) {
  atomic_store(&receiver.does, KEEPS);
  for (unsigned at = 0; at < receiver.shape->credit; at++)
    CHECK_OK(send_one(0, (*number)++, UCXX_FLAG_WAIT, 0));
  await_received((unsigned)*number);
}

static void without_credit(void) {
  ucxx_endpoint_load_t load = UCXX_ENDPOINT_LOAD_INIT;
  for (int again = 0; again < 3; again++) {
    CHECK_STATUS(send_one(0, GIVEN_UP, UCXX_FLAG_NO_WAIT, 0), UCXX_ERR_NO_RESOURCE);
    CHECK_STATUS(send_one(0, GIVEN_UP, UCXX_FLAG_WAIT | UCXX_FLAG_NO_WAIT, 0),
                 UCXX_ERR_NO_RESOURCE);
    CHECK_MESSAGE("256 or 8 MiB");
    CHECK_STATUS(send_one(0, GIVEN_UP, UCXX_FLAG_WAIT, (uint64_t)again * 3 * MILLISECOND + 1),
                 UCXX_ERR_TIMED_OUT);
    CHECK_OK(ucxx_endpoint_query_load(receiver.duo.to_right, &load));
    CHECK_EQ(load.queued_operations, 0);
    CHECK(!ucxx_endpoint_writable(receiver.duo.to_right));
  }
}

typedef struct sender {
  pthread_t thread;
  uint64_t which, number;
} sender_t;

static void *send_each(void *arg) {
  sender_t *sender = arg;
  for (unsigned at = 0; at < receiver.shape->each; at++)
    CHECK_OK(send_one(sender->which, sender->number++, UCXX_FLAG_WAIT, at % 2 ? 0 : 600 * SECOND));
  return NULL;
}

static atomic_int driven;
static void *drive(void *arg) {
  while (atomic_load(&driven)) progress(arg);
  return NULL;
}

/* Several threads wait in the call at once, while another thread progresses as well. */
static void several(uint64_t *number) {
  sender_t senders[SENDERS];
  pthread_t driver;
  await_received((unsigned)*number);
  use_up(number);
  unsigned before = atomic_load(&receiver.let_go);
  atomic_store(&driven, 1);
  CHECK_EQ(pthread_create(&driver, NULL, drive, receiver.duo.left), 0);
  for (unsigned at = 0; at < SENDERS; at++) {
    senders[at] = (sender_t){.which = at, .number = at == 0 ? *number : 0};
    CHECK_EQ(pthread_create(&senders[at].thread, NULL, send_each, &senders[at]), 0);
  }
  atomic_store(&receiver.waiters, SENDERS);
  for (unsigned at = 0; at < SENDERS; at++) CHECK_EQ(pthread_join(senders[at].thread, NULL), 0);
  CHECK_EQ(atomic_load(&receiver.let_go), before + 1);
  atomic_store(&driven, 0);
  CHECK_EQ(pthread_join(driver, NULL), 0);
  await_received((unsigned)*number + SENDERS * receiver.shape->each);
  *number = senders[0].number;
}

/* Timeouts of all lengths expire at about the time when credit returns. */
static void race(uint64_t number) {
  static uint8_t sent[NUMBERS];
  unsigned timed_out = 0, succeeded = 0;
  uint64_t timeout_ns = 1, first = number;
  memset(sent, 0, sizeof sent);
  atomic_store(&receiver.with_gaps, 1);
  atomic_store(&receiver.does, KEEPS_IN_TURN);
  while (timed_out < TIMED_OUT || succeeded < RACED) {
    CHECK(number < NUMBERS);
    ucxx_status_t status = send_one(0, number, UCXX_FLAG_WAIT, timeout_ns);
    if (status == UCXX_OK) {
      sent[number] = 1;
      succeeded++;
      timeout_ns = 1;
    } else {
      CHECK_STATUS(status, UCXX_ERR_TIMED_OUT);
      timed_out++;
      timeout_ns *= 2;
    }
    number++;
  }
  /* A last message after all others. */
  atomic_store(&receiver.does, DESTROYS);
  CHECK_OK(send_one(0, number, UCXX_FLAG_WAIT, 0));
  while (atomic_load(&receiver.came[number]) == 0) progress(receiver.duo.left);
  for (uint64_t at = first; at < number; at++)
    CHECK(atomic_load(&receiver.came[at]) == 1 ||
          (!sent[at] && atomic_load(&receiver.came[at]) == 0));
  printf("%u sent, %u timed out\n", succeeded, timed_out);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  for (size_t which = 0; which < sizeof shapes / sizeof *shapes; which++) {
    pthread_t thread;
    ucxx_request_t *request = NULL;
    uint64_t number = 0, word = 0;
    memset(&receiver, 0, sizeof receiver);
    receiver.shape = &shapes[which];
    receiver.is_single = params->thread_mode == UCXX_THREAD_SINGLE;
    CHECK_OK(ucxx_context_create(NULL, &receiver.duo.context));
    CHECK_OK(ucxx_worker_create(receiver.duo.context, params, &receiver.duo.left));
    CHECK_OK(ucxx_worker_create(receiver.duo.context, NULL, &receiver.duo.right));
    receiver.duo.to_right = connect_workers(receiver.duo.left, receiver.duo.right);
    receiver.duo.to_left = connect_workers(receiver.duo.right, receiver.duo.left);
    CHECK_OK(ucxx_worker_set_am_handler(receiver.duo.right, ID, on_message, &receiver, NULL));
    CHECK_EQ(pthread_create(&thread, NULL, receive, NULL), 0);
    STEP("%s, %zu bytes: no credit, timed out or refused", mode, receiver.shape->length);
    use_up(&number);
    without_credit();
    STEP("%s, %zu bytes: waits until credit returns", mode, receiver.shape->length);
    if (receiver.is_single) {
      ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
      op.callback = see_completion;
      op.callback_arg = &receiver.inside;
      CHECK_STATUS(
          ucxx_tag_recv(receiver.duo.left, &word, sizeof word, TAG, UINT64_MAX, &op, &request),
          UCXX_INPROGRESS);
    }
    atomic_store(&receiver.waiters, 1);
    CHECK_OK(send_one(0, number++, UCXX_FLAG_WAIT, which % 2 ? 600 * SECOND : 0));
    CHECK_EQ(atomic_load(&receiver.let_go), 1);
    for (unsigned at = 0; at < receiver.shape->each; at++)
      CHECK_OK(send_one(0, number++, UCXX_FLAG_WAIT, 0));
    await_received((unsigned)number);
    if (receiver.is_single) CHECK_OK(finish(UCXX_INPROGRESS, &request));
    if (!receiver.is_single) {
      STEP("%s, %zu bytes: %d threads wait at once", mode, receiver.shape->length, SENDERS);
      several(&number);
    }
    if (which == 0) {
      STEP("%s: timeouts that expire as credit returns", mode);
      race(number);
    }
    STEP("%s, %zu bytes: the end", mode, receiver.shape->length);
    /* Progresses the other side until it has nothing left to send. */
    CHECK_OK(finish(close_patiently(receiver.duo.to_right, &request), &request));
    atomic_store(&receiver.over, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    ucxx_endpoint_destroy(receiver.duo.to_right);
    ucxx_endpoint_destroy(receiver.duo.to_left);
    ucxx_worker_destroy(receiver.duo.left);
    ucxx_worker_destroy(receiver.duo.right);
    ucxx_context_destroy(receiver.duo.context);
  }
}

int main(void) {
  test_begin("am_wait");
  test_fill(content, sizeof content, 1);
  in_every_mode(round_of);
  return 0;
}
