/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Connections so busy that short messages go through fast boxes, memory shared by both processes.
 * Other messages and replies do not fit there, and both sides alternate between sleeping and
 * polling. Every message arrives once and in order, none fails to wake a sleeper, and none sent
 * right before a close is lost.
 */
#include "test_util.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  ID = 11,
  REPLY = 12,
  ASKED = 13,
  PARTING = 14,
  NAP = 15,
  BUSY = 1000, /* four times what opens a box */
  BURSTS = 500,
  MOST_IN_BURST = 60,
  NAPS = 500,
  SPIN = 4000,
  PARTINGS = 100,
  LONGEST = 1200 << 10,
  OFFSETS = 64
};
enum { OVER = UINT32_MAX, SHORT_ONES = 1 << 24 };

static uint8_t content[LONGEST + OFFSETS];
static pair_t *pair;
/* Changed by handlers and callbacks. */
static atomic_ullong received, came_back, answered, parting, nap, nap_before;
static atomic_int over, closed;
static uint64_t dice;

static uint64_t draw(uint64_t limit) {
  dice = test_mix(dice);
  return dice % limit;
}

/* The first ones are short; later nine of ten are. */
static size_t length_of(uint64_t number) {
  const uint64_t random = test_mix(number ^ pair->seed);
  const size_t limits[] = {500, 9000, 70000, LONGEST};
  if (number < SHORT_ONES || random % 10 != 0) return random / 1000 % 105;
  return random / 1000 % limits[random / 10 % 4];
}

static const uint8_t *data_of(uint64_t number) { return content + number % OFFSETS; }

static void send_message(uint16_t id, uint64_t number) {
  /* With a progress thread the queue may be full. */
  ucxx_status_t status;
  do {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    status = ucxx_am_send(pair->endpoint, id, &number, sizeof number, data_of(number),
                          length_of(number), &params, NULL);
    if (status == UCXX_ERR_NO_RESOURCE) progress(pair->worker);
  } while (status == UCXX_ERR_NO_RESOURCE);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
}

static uint64_t number_of(const ucxx_am_message_t *message) {
  uint64_t number;
  size_t length = 0;
  const void *header = ucxx_am_message_header(message, &length);
  CHECK_EQ(length, sizeof number);
  memcpy(&number, header, sizeof number);
  CHECK_EQ(ucxx_am_message_length(message), length_of(number));
  return number;
}

typedef struct pulled {
  uint64_t number;
  uint16_t id;
  uint8_t *buffer;
} pulled_t;

static void message_is_here(uint16_t id, uint64_t number, const void *data) {
  const size_t length = length_of(number);
  CHECK(length == 0 || memcmp(data, data_of(number), length) == 0);
  if (id == ID)
    send_message(REPLY, number);
  else
    came_back++;
}

static void on_pulled(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  pulled_t *pulled = arg;
  (void)request;
  CHECK_OK(status);
  message_is_here(pulled->id, pulled->number, pulled->buffer);
  free(pulled->buffer);
  free(pulled);
}

static void take(uint16_t id, ucxx_am_message_t *message) {
  const uint64_t number = number_of(message);
  if (ucxx_am_message_data(message) != NULL || length_of(number) == 0) {
    message_is_here(id, number, ucxx_am_message_data(message));
  } else {
    pulled_t *pulled = test_alloc(sizeof *pulled);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    *pulled = (pulled_t){number, id, test_alloc(length_of(number))};
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = on_pulled;
    params.callback_arg = pulled;
    CHECK_STATUS(ucxx_am_message_recv(message, pulled->buffer, length_of(number), &params, NULL),
                 UCXX_INPROGRESS);
  }
  ucxx_am_message_destroy(message);
}

static void on_message(void *arg, ucxx_am_message_t *message) {
  uint64_t number;
  (void)arg;
  memcpy(&number, ucxx_am_message_header(message, NULL), sizeof number);
  if (number == OVER) {
    ucxx_am_message_destroy(message);
    over = 1;
    return;
  }
  CHECK_EQ(number, received);
  received++;
  take(ID, message);
}

static void on_parting(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK_EQ(number_of(message), parting);
  ucxx_am_message_destroy(message);
  parting++;
}

/* As on_message; the receiver then sleeps before the next one. */
static void on_nap(void *arg, ucxx_am_message_t *message) {
  on_message(arg, message);
  nap_before = received;
  nap++;
}

static void on_reply(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  take(REPLY, message);
}

static void on_asked(void *arg, ucxx_fetch_t *fetch) {
  uint64_t number;
  (void)arg;
  memcpy(&number, ucxx_fetch_header(fetch, NULL), sizeof number);
  const ucxx_status_t status =
      ucxx_fetch_reply(fetch, data_of(number), length_of(number), NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

typedef struct question {
  uint64_t number;
  ucxx_recv_info_t info;
  uint8_t *buffer;
} question_t;

static void on_answer(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  question_t *question = arg;
  const size_t length = length_of(question->number);
  (void)request;
  CHECK_OK(status);
  CHECK_EQ(question->info.length, length);
  CHECK(memcmp(question->buffer, data_of(question->number), length) == 0);
  free(question->buffer);
  free(question);
  answered++;
}

static void ask(uint64_t number) {
  question_t *question = test_alloc(sizeof *question);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(question, 0, sizeof *question);
  question->number = number;
  question->buffer = test_alloc(length_of(number));
  params.callback = on_answer;
  params.callback_arg = question;
  params.recv_info = &question->info;
  ucxx_status_t status;
  do {
    status = ucxx_am_fetch(pair->endpoint, ASKED, &number, sizeof number, question->buffer,
                           length_of(number), &params, NULL);
    if (status == UCXX_ERR_NO_RESOURCE) progress(pair->worker);
  } while (status == UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(status, UCXX_INPROGRESS);
}

/* Sleeps until a message arrives. If one is lost it never returns, and the guard ends the test. */
static void sleep_on_worker(void) {
  if (draw(2) == 0) {
    CHECK_OK(ucxx_worker_wait(pair->worker, FOR_EVER));
    return;
  }
  struct pollfd events = {.events = POLLIN};
  CHECK_OK(ucxx_worker_event_fd(pair->worker, &events.fd));
  const ucxx_status_t armed = ucxx_worker_arm(pair->worker);
  CHECK(armed == UCXX_OK || armed == UCXX_ERR_BUSY);
  if (armed == UCXX_OK) CHECK(poll(&events, 1, -1) == 1 || errno == EINTR);
}

typedef int (*condition_t)(uint64_t);
/* Idle passes before a sleep: more than writers need to be let in again, or about as many as a
 * reply takes. */
enum { LONG = 1500, SHORT = 12 };

/* Progresses until the condition holds. After so many idle passes, up to `most`, it sleeps. */
static void progress_until(condition_t holds, uint64_t arg, int is_manual, uint64_t most) {
  uint64_t patience = draw(4) == 0 ? 0 : draw(most);
  while (!holds(arg)) {
    uint32_t events = 0;
    if (!is_manual) {
      sched_yield();
      continue;
    }
    CHECK_OK(ucxx_worker_progress(pair->worker, &events));
    if (events == 0 && patience-- == 0) {
      if (!holds(arg)) sleep_on_worker();
      patience = draw(4) == 0 ? 0 : draw(most);
    }
  }
}

static int all_came_back(uint64_t count) { return came_back + answered == count; }
static int have_come(uint64_t count) { return received >= count; }
static int is_over(uint64_t unused) {
  (void)unused;
  return over;
}
static int is_closed(uint64_t unused) {
  (void)unused;
  return closed;
}

static void find_box(void *arg, const char *text) {
  int *found = arg;
  *found |= strstr(text, "through fast boxes") != NULL;
}

/* Both sides must use the fast box; otherwise the test proves nothing. Some kernels lack what it
 * needs. */
static void check_box(void) {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const char *wanted = getenv("UCXX_RS_FAST_BOXES");
  const int is_off = wanted != NULL && strcmp(wanted, "0") == 0;
  const int is_shared =
      !is_off && commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
  int found = 0;
  CHECK_OK(ucxx_worker_dump(pair->worker, find_box, &found));
  CHECK_EQ(found, is_shared);
}

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  (void)status;
  closed = 1;
}

/* Everything of one mode. */
static void round_in_mode(const ucxx_worker_params_t *worker_params, const char *mode) {
  const int is_manual = worker_params->progress_mode == UCXX_PROGRESS_MANUAL;
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  context_params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP;
  endpoint_params.on_close = on_close;
  ucxx_worker_params_t sleepy = *worker_params;
  sleepy.spin_ns = SPIN;
  received = came_back = answered = parting = nap = 0;
  over = closed = 0;
  pair_connect(pair, &context_params, &sleepy, &endpoint_params);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, on_message, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, REPLY, on_reply, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, PARTING, on_parting, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, NAP, on_nap, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ASKED, on_asked, NULL, NULL));
  pair_sync(pair);
  uint64_t sent = 0, asked = 0;

  STEP("%s: one message at a time, until the connection is busy", mode);
  while (sent < BUSY) {
    if (pair->side == 0) send_message(ID, sent);
    sent++;
    while (pair->side == 0 ? came_back < sent : received < sent) progress(pair->worker);
  }
  pair_sync(pair);
  check_box();
  pair_sync(pair);

  STEP("%s: naps, each as a message arrives", mode);
  uint64_t naps_taken = 0;
  while (naps_taken < NAPS) {
    /* Long enough for the fast box to open again after the last nap. */
    const uint64_t until = clock_ns() + 3 * MILLISECOND;
    while (pair->side == 0 ? clock_ns() < until : nap == naps_taken) {
      if (pair->side == 0) send_message(ID, sent++);
      while (pair->side == 0 && came_back < sent) progress(pair->worker);
      if (pair->side == 1) progress(pair->worker);
    }
    naps_taken++;
    if (pair->side == 0) {
      send_message(NAP, sent++);
      while (came_back < sent) progress(pair->worker);
      const uint64_t moment = clock_ns() + draw(2 * SPIN);
      while (clock_ns() < moment) {}
      send_message(ID, sent++);
      progress_until(all_came_back, sent, is_manual, SHORT);
    } else {
      progress_until(have_come, nap_before + 1, is_manual, SHORT);
    }
  }
  pair_sync(pair);
  if (pair->side == 0)
    sent = SHORT_ONES;
  else
    received = SHORT_ONES;
  came_back = SHORT_ONES;
  pair_sync(pair);

  STEP("%s: bursts of all sizes, both sides sleep now and then", mode);
  if (pair->side == 0) {
    for (int burst = 0; burst < BURSTS; burst++) {
      for (uint64_t left = draw(MOST_IN_BURST) + 1; left > 0; left--) {
        if (draw(3) == 0)
          ask(sent + asked++);
        else
          send_message(ID, sent++);
      }
      progress_until(all_came_back, sent + asked, is_manual, LONG);
    }
    send_message(ID, OVER);
  } else {
    progress_until(is_over, 0, is_manual, LONG);
  }
  pair_sync(pair);
  check_box();

  STEP("%s: the last messages before a close", mode);
  pair_sync(pair);
  ucxx_request_t *request = NULL;
  if (pair->side == 0) {
    for (uint64_t at = 0; at < PARTINGS; at++) send_message(PARTING, at);
    CHECK_OK(finish(close_patiently(pair->endpoint, &request), &request));
  } else {
    progress_until(is_closed, 0, is_manual, LONG);
    CHECK_EQ(parting, PARTINGS);
  }
  pair_sync(pair);
  ucxx_endpoint_destroy(pair->endpoint);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
}

static void body(pair_t *both) {
  pair = both;
  dice = pair->seed + (uint64_t)pair->side;
  test_fill(content, sizeof content, 5);
  in_every_mode(round_in_mode);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fast_box", body); }
