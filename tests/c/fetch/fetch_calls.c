/* Every fetch call does what the header promises, between two workers of one process and on a
 * worker connected to itself. fetch_alloc covers replies into allocated buffers. */
#include "test_util.h"

enum {
  ID = 7,
  UNKNOWN = 8,
  INNER = 9,
  LARGE = 3 << 20,
  APPLICATION = -1007,
  FILLER = 0x77,
  CREDITS = 256
};

/* Keeps the fetches it receives. */
typedef struct inbox {
  ucxx_fetch_t *last;
  int count, destroyed;
  ucxx_worker_t *worker;
} inbox_t;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  inbox_t *inbox = arg;
  CHECK(inbox->last == NULL);
  inbox->last = fetch;
  inbox->count++;
}

static void count_destroyed(void *arg) { ((inbox_t *)arg)->destroyed++; }

/* The fetch in flight; most steps have only one. */
typedef struct asked {
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  seen_t seen;
} asked_t;

static void ask_with(asked_t *asked, ucxx_endpoint_t *to, uint16_t id, void *buffer,
                     size_t capacity, uint64_t timeout_ns) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(asked, 0, sizeof *asked);
  params.recv_info = &asked->info;
  params.callback = see_completion;
  params.callback_arg = &asked->seen;
  params.timeout_ns = timeout_ns;
  CHECK_STATUS(ucxx_am_fetch(to, id, "head", 4, buffer, capacity, &params, &asked->request),
               UCXX_INPROGRESS);
}

static void ask(asked_t *asked, const duo_t *duo, void *buffer, size_t capacity) {
  ask_with(asked, duo->to_right, ID, buffer, capacity, 0);
}

static ucxx_status_t answer_of(const duo_t *duo, asked_t *asked) {
  while (ucxx_request_status(asked->request) == UCXX_INPROGRESS) duo_progress(duo);
  ucxx_recv_info_t info = {0};
  CHECK_OK(ucxx_request_recv_info(asked->request, &info));
  CHECK_EQ(info.length, asked->info.length);
  CHECK_EQ(info.sender_tag, 0);
  CHECK_EQ(seen_count(&asked->seen), 1);
  ucxx_status_t status = duo_finish(duo, UCXX_INPROGRESS, &asked->request);
  CHECK_STATUS(asked->seen.status, status);
  return status;
}

static ucxx_fetch_t *question(const duo_t *duo, inbox_t *inbox) {
  while (inbox->last == NULL) duo_progress(duo);
  ucxx_fetch_t *fetch = inbox->last;
  inbox->last = NULL;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK(length == 4 && memcmp(header, "head", 4) == 0);
  CHECK(ucxx_fetch_header(fetch, NULL) == header);
  CHECK(ucxx_fetch_data(fetch, &length) == NULL);
  CHECK_EQ(length, 0);
  return fetch;
}

static void reply_ok(const duo_t *duo, ucxx_fetch_t *fetch, const void *data, size_t length) {
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(duo, ucxx_fetch_reply(fetch, data, length, NULL, &request), &request));
  ucxx_fetch_destroy(fetch);
}

static int untouched(const uint8_t *data, size_t length) {
  for (size_t at = 0; at < length; at++)
    if (data[at] != FILLER) return 0;
  return 1;
}

/* ------------------------------------------------------------------ */

static ucxx_status_t reply_in_form(ucxx_fetch_t *fetch, int scattered, const uint8_t *data,
                                   size_t length, uint64_t flags, ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  if (!scattered) return ucxx_fetch_reply(fetch, data, length, &params, request);
  ucxx_buffer_t parts[3] = {
      {.data = (void *)(uintptr_t)data, .length = length / 2},
      {0},
      {.data = (void *)(uintptr_t)(data + length / 2), .length = length - length / 2}};
  return ucxx_fetch_reply_iov(fetch, parts, 3, &params, request);
}

static void one_size(const duo_t *duo, inbox_t *inbox, size_t capacity, size_t length,
                     uint64_t flags, int scattered) {
  STEP("a reply of %zu bytes into %zu, flags %x", length, capacity, (unsigned)flags);
  static uint8_t data[LARGE + 1], buffer[LARGE + 1];
  uint64_t seed = capacity * 3 + length;
  asked_t asked;
  ucxx_request_t *sent = NULL;
  memset(buffer, FILLER, capacity + 1);
  test_fill(data, length, seed);
  ask(&asked, duo, capacity == 0 ? NULL : buffer, capacity);
  ucxx_fetch_t *fetch = question(duo, inbox);
  CHECK_EQ(ucxx_fetch_capacity(fetch), capacity);
  CHECK(ucxx_fetch_endpoint(fetch) == duo->to_left);
  CHECK_OK(duo_finish(duo, reply_in_form(fetch, scattered, data, length, flags, &sent), &sent));
  ucxx_fetch_destroy(fetch);
  CHECK_STATUS(answer_of(duo, &asked), length > capacity ? UCXX_ERR_MESSAGE_TRUNCATED : UCXX_OK);
  if (length > capacity) {
    char lengths[100];
    snprintf(lengths, sizeof lengths, "the reply has %zu bytes, and there is room for %zu", length,
             capacity);
    CHECK_MESSAGE("fetch, id 7,");
    CHECK_MESSAGE(lengths);
  }
  CHECK_EQ(asked.info.length, length);
  size_t filled = length > capacity ? 0 : length;
  CHECK_CONTENT(buffer, filled, seed);
  CHECK(untouched(buffer + filled, capacity + 1 - filled));
}

static void sizes(const duo_t *duo) {
  static const size_t capacities[] = {0, 1, 100, 10000, LARGE};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  inbox_t inbox = {0};
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  for (size_t at = 0; at < sizeof capacities / sizeof *capacities; at++)
    for (size_t protocol = 0; protocol < 3; protocol++) {
      size_t capacity = capacities[at], lengths[] = {0, capacity / 2, capacity, capacity + 1};
      for (int which = 0; which < 4; which++)
        one_size(duo, &inbox, capacity, lengths[which], protocols[protocol], which % 2);
    }
  CHECK_EQ(inbox.count, 60);
}

static void scattered(const duo_t *duo) {
  STEP("into several buffers, some of them empty");
  static uint8_t data[LARGE], buffer[LARGE + 1];
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  inbox_t inbox = {0};
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  test_fill(data, LARGE, 8);
  for (int at = 0; at < 3; at++) {
    asked_t asked = {0};
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_buffer_t parts[4] = {{.data = buffer, .length = 1},
                              {0},
                              {.data = buffer + 1, .length = 1000},
                              {.data = buffer + 1001, .length = LARGE - 1001}};
    params.recv_info = &asked.info;
    params.callback = see_completion;
    params.callback_arg = &asked.seen;
    memset(buffer, FILLER, sizeof buffer);
    CHECK_STATUS(ucxx_am_fetch_iov(duo->to_right, ID, "head", 4, parts, 4, &params, &asked.request),
                 UCXX_INPROGRESS);
    memset(parts, 0, sizeof parts); /* the library has copied the list */
    ucxx_request_t *sent = NULL;
    ucxx_fetch_t *fetch = question(duo, &inbox);
    CHECK_EQ(ucxx_fetch_capacity(fetch), LARGE);
    size_t length = at == 0 ? 500 : LARGE - 7;
    CHECK_OK(
        duo_finish(duo, reply_in_form(fetch, at % 2, data, length, protocols[at], &sent), &sent));
    ucxx_fetch_destroy(fetch);
    CHECK_OK(answer_of(duo, &asked));
    CHECK_EQ(asked.info.length, length);
    CHECK_CONTENT(buffer, length, 8);
    CHECK(untouched(buffer + length, sizeof buffer - length));
  }
}

/* ------------------------------------------------------------------ */

static void unknown_ids(const duo_t *duo) {
  STEP("without a handler");
  static uint8_t buffer[LARGE];
  static const size_t capacities[] = {0, 100, LARGE};
  asked_t asked;
  memset(buffer, FILLER, sizeof buffer);
  for (int at = 0; at < 3; at++) {
    ask_with(&asked, duo->to_right, UNKNOWN, buffer, capacities[at], 0);
    CHECK_STATUS(answer_of(duo, &asked), UCXX_ERR_NO_ELEM);
    CHECK_MESSAGE("fetch, id 8,");
    CHECK_MESSAGE("ucxx_worker_set_fetch_handler");
    CHECK_EQ(asked.info.length, 0);
  }
  CHECK(untouched(buffer, sizeof buffer));
  /* Handlers of active messages are separate. */
  CHECK_OK(ucxx_endpoint_status(duo->to_right));
}

static void replace_inside(void *arg, ucxx_fetch_t *fetch) {
  inbox_t *inbox = arg;
  CHECK_OK(ucxx_worker_set_fetch_handler(inbox->worker, ID, NULL, NULL, NULL));
  CHECK_EQ(inbox->destroyed, 0); /* a fetch for it is still unanswered */
  CHECK_OK(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY));
  ucxx_fetch_destroy(fetch);
  inbox->count++;
}

static void handlers(const duo_t *duo) {
  STEP("handlers are replaced and removed, their arguments destroyed once");
  inbox_t first = {0}, second = {0}, third = {0};
  asked_t asked[2];
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &first, count_destroyed));
  ask(&asked[0], duo, NULL, 0);
  ucxx_fetch_t *fetch = question(duo, &first);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &second, count_destroyed));
  CHECK_EQ(first.destroyed, 1);
  ask(&asked[1], duo, NULL, 0);
  reply_ok(duo, question(duo, &second), NULL, 0);
  CHECK_OK(answer_of(duo, &asked[1]));
  /* A fetch given to the first handler is still its own. */
  reply_ok(duo, fetch, NULL, 0);
  CHECK_OK(answer_of(duo, &asked[0]));
  CHECK(first.count == 1 && second.count == 1);

  third.worker = duo->right;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, replace_inside, &third, count_destroyed));
  CHECK_EQ(second.destroyed, 1);
  ask(&asked[0], duo, NULL, 0);
  CHECK_STATUS(answer_of(duo, &asked[0]), UCXX_ERR_BUSY);
  while (third.destroyed == 0) duo_progress(duo);
  ask(&asked[0], duo, NULL, 0);
  CHECK_STATUS(answer_of(duo, &asked[0]), UCXX_ERR_NO_ELEM);
  CHECK(third.count == 1 && third.destroyed == 1);
  for (uint32_t id = 0; id < 65536; id += 65535) {
    CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, (uint16_t)id, hold, &first, NULL));
    ask_with(&asked[0], duo->to_right, (uint16_t)id, NULL, 0, 0);
    reply_ok(duo, question(duo, &first), NULL, 0);
    CHECK_OK(answer_of(duo, &asked[0]));
    CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, (uint16_t)id, NULL, NULL, NULL));
  }
}

/* ------------------------------------------------------------------ */

static void rejections(const duo_t *duo) {
  STEP("rejected with a status");
  static const ucxx_status_t allowed[] = {UCXX_ERR_NO_ELEM,  UCXX_ERR_REJECTED,    UCXX_ERR_BUSY,
                                          UCXX_ERR_CANCELED, UCXX_ERR_APPLICATION, APPLICATION,
                                          INT32_MIN};
  static const ucxx_status_t refused[] = {UCXX_OK,
                                          UCXX_INPROGRESS,
                                          5,
                                          UCXX_ERR_TIMED_OUT,
                                          UCXX_ERR_PEER_FAILED,
                                          UCXX_ERR_MESSAGE_TRUNCATED,
                                          UCXX_ERR_CLOSED,
                                          UCXX_ERR_APPLICATION + 1};
  static uint8_t buffer[64];
  inbox_t inbox = {0};
  asked_t asked;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  memset(buffer, FILLER, sizeof buffer);
  for (size_t at = 0; at < sizeof allowed / sizeof *allowed; at++) {
    ask(&asked, duo, buffer, sizeof buffer);
    ucxx_fetch_t *fetch = question(duo, &inbox);
    for (size_t other = 0; other < sizeof refused / sizeof *refused; other++) {
      CHECK_STATUS(ucxx_fetch_reject(fetch, refused[other]), UCXX_ERR_INVALID_PARAM);
      CHECK_MESSAGE("status");
    }
    CHECK_OK(ucxx_fetch_reject(fetch, allowed[at]));
    if (at % 2 == 0) /* whether the fetch has been destroyed or not */
      CHECK_STATUS(answer_of(duo, &asked), allowed[at]);
    ucxx_fetch_destroy(fetch);
    if (at % 2 != 0) CHECK_STATUS(answer_of(duo, &asked), allowed[at]);
    if (allowed[at] == APPLICATION)
      CHECK_MESSAGE("rejected it with a status of the application's, -1007");
    if (allowed[at] == UCXX_ERR_BUSY) CHECK_MESSAGE("rejected it with UCXX_ERR_BUSY");
    CHECK_EQ(asked.info.length, 0);
  }
  STEP("a refused status leaves the fetch unanswered");
  ask(&asked, duo, buffer, sizeof buffer);
  ucxx_fetch_t *fetch = question(duo, &inbox);
  CHECK_STATUS(ucxx_fetch_reject(fetch, UCXX_OK), UCXX_ERR_INVALID_PARAM);
  CHECK(untouched(buffer, sizeof buffer));
  reply_ok(duo, fetch, "12345678", 8);
  CHECK_OK(answer_of(duo, &asked));
  CHECK(memcmp(buffer, "12345678", 8) == 0 && untouched(buffer + 8, sizeof buffer - 8));
}

static void two_answers(const duo_t *duo) {
  STEP("answered twice");
  inbox_t inbox = {0};
  asked_t asked;
  char byte = 0;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  for (int rejected = 0; rejected < 2; rejected++)
    for (int early = 0; early < 2; early++) {
      ask(&asked, duo, &byte, 1);
      ucxx_fetch_t *fetch = question(duo, &inbox);
      ucxx_op_params_t wrong = UCXX_OP_PARAMS_INIT;
      wrong.flags = UCXX_FLAG_EAGER | UCXX_FLAG_RNDV;
      /* A refused reply is no reply. */
      CHECK_STATUS(ucxx_fetch_reply(fetch, "x", 1, &wrong, NULL), UCXX_ERR_INVALID_PARAM);
      CHECK_STATUS(ucxx_fetch_reply(fetch, NULL, 1, NULL, NULL), UCXX_ERR_INVALID_PARAM);
      if (rejected) {
        CHECK_OK(ucxx_fetch_reject(fetch, APPLICATION));
      } else {
        ucxx_status_t status = ucxx_fetch_reply(fetch, "a", 1, NULL, NULL);
        CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
      }
      if (early) CHECK_STATUS(answer_of(duo, &asked), rejected ? APPLICATION : UCXX_OK);
      ucxx_request_t *request = NULL;
      ucxx_buffer_t part = {.data = "b", .length = 1};
      CHECK_STATUS(ucxx_fetch_reply(fetch, "b", 1, NULL, &request), UCXX_ERR_ALREADY_EXISTS);
      CHECK_MESSAGE("answered");
      CHECK_STATUS(ucxx_fetch_reply_iov(fetch, &part, 1, NULL, &request), UCXX_ERR_ALREADY_EXISTS);
      CHECK_STATUS(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY), UCXX_ERR_ALREADY_EXISTS);
      CHECK(request == NULL);
      ucxx_fetch_destroy(fetch);
      if (!early) CHECK_STATUS(answer_of(duo, &asked), rejected ? APPLICATION : UCXX_OK);
      CHECK(rejected || byte == 'a');
    }
}

static void unanswered(const duo_t *duo) {
  STEP("destroyed without a reply");
  static uint8_t buffer[LARGE];
  inbox_t inbox = {0};
  asked_t asked;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  memset(buffer, FILLER, sizeof buffer);
  ask(&asked, duo, buffer, sizeof buffer);
  ucxx_fetch_destroy(question(duo, &inbox));
  CHECK_STATUS(answer_of(duo, &asked), UCXX_ERR_CANCELED);
  CHECK(untouched(buffer, sizeof buffer));

  STEP("never answered");
  ask_with(&asked, duo->to_right, ID, buffer, sizeof buffer, 20 * MILLISECOND);
  ucxx_fetch_t *fetch = question(duo, &inbox);
  CHECK_STATUS(answer_of(duo, &asked), UCXX_ERR_TIMED_OUT);
  CHECK(untouched(buffer, sizeof buffer));
  reply_ok(duo, fetch, buffer,
           sizeof buffer / 2); /* the fetch has timed out by now, and the replier is not notified */
  ask_with(&asked, duo->to_right, ID, buffer, sizeof buffer, 20 * MILLISECOND);
  CHECK_STATUS(answer_of(duo, &asked), UCXX_ERR_TIMED_OUT);
  ucxx_fetch_destroy(question(duo, &inbox));
  ask_with(&asked, duo->to_right, ID, buffer, sizeof buffer, 600 * SECOND);
  reply_ok(duo, question(duo, &inbox), "answered in time", 8);
  CHECK_OK(answer_of(duo, &asked));
}

/* ------------------------------------------------------------------ */

static void cancels(const duo_t *duo) {
  STEP("cancelled before it is sent");
  enum { MANY = CREDITS + 40 };
  static char buffer[100];
  static asked_t asked[MANY];
  inbox_t inbox = {0};
  ucxx_endpoint_load_t attr = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, UNKNOWN, NULL, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  /* The other side does not progress, so the last ones wait for credit. */
  for (int at = 0; at < MANY; at++)
    ask_with(&asked[at], duo->to_right, at < CREDITS ? UNKNOWN : ID, buffer, sizeof buffer, 0);
  CHECK_OK(ucxx_endpoint_query_load(duo->to_right, &attr));
  CHECK_EQ(attr.queued_operations, MANY - CREDITS);
  CHECK_EQ(ucxx_endpoint_writable(duo->to_right), 0);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *refused = NULL;
  params.flags = UCXX_FLAG_NO_WAIT;
  CHECK_STATUS(
      ucxx_am_fetch(duo->to_right, ID, "head", 4, buffer, sizeof buffer, &params, &refused),
      UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("256 or 8 MiB");
  for (int at = CREDITS; at < MANY; at++) {
    CHECK_OK(ucxx_request_cancel(asked[at].request));
    CHECK_OK(ucxx_request_cancel(asked[at].request)); /* a second cancel has no effect */
    while (ucxx_request_status(asked[at].request) == UCXX_INPROGRESS)
      CHECK_OK(ucxx_worker_progress(duo->left, NULL));
    CHECK_STATUS(answer_of(duo, &asked[at]), UCXX_ERR_CANCELED);
  }
  CHECK_OK(ucxx_endpoint_query_load(duo->to_right, &attr));
  CHECK_EQ(attr.queued_operations, 0);
  for (int at = 0; at < CREDITS; at++) CHECK_STATUS(answer_of(duo, &asked[at]), UCXX_ERR_NO_ELEM);
  CHECK_EQ(inbox.count, 0);

  STEP("cancelled after it is sent");
  ask(&asked[0], duo, buffer, sizeof buffer);
  ucxx_fetch_t *fetch = question(duo, &inbox);
  CHECK_EQ(inbox.count, 1);
  CHECK_OK(ucxx_request_cancel(asked[0].request));
  CHECK_STATUS(answer_of(duo, &asked[0]), UCXX_ERR_CANCELED);
  reply_ok(duo, fetch, buffer, 10);
  /* Their credit has come back. */
  for (int at = 0; at < 2 * MANY; at++) {
    ask(&asked[0], duo, buffer, sizeof buffer);
    reply_ok(duo, question(duo, &inbox), buffer, 10);
    CHECK_OK(answer_of(duo, &asked[0]));
  }
}

/* The reply to a cancelled fetch is dropped, however many fetches came in between. */
static void late_answers(const duo_t *duo) {
  STEP("late replies match no other fetch");
  enum { LATE = 4096 /* a power of two, where counters wrap */ };
  static ucxx_fetch_t *late[LATE];
  inbox_t inbox = {0};
  asked_t asked;
  char buffer[8] = "";
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  for (int at = 0; at < LATE; at++) {
    ask(&asked, duo, buffer, sizeof buffer);
    late[at] = question(duo, &inbox);
    CHECK_OK(ucxx_request_cancel(asked.request));
    CHECK_STATUS(answer_of(duo, &asked), UCXX_ERR_CANCELED);
  }
  for (int at = 0; at < LATE; at++) {
    ask(&asked, duo, buffer, sizeof buffer);
    ucxx_fetch_t *fetch = question(duo, &inbox);
    reply_ok(duo, late[at], "late", 5);
    reply_ok(duo, fetch, "right", 6);
    CHECK_OK(answer_of(duo, &asked));
    CHECK_EQ(asked.info.length, 6);
  }
}

/* ------------------------------------------------------------------ */

typedef struct nested {
  duo_t *duo;
  ucxx_fetch_t *outer;
  asked_t inner;
  char word[8];
  int done;
} nested_t;

static void inner_came(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  nested_t *nested = arg;
  (void)request;
  CHECK_OK(status);
  CHECK(strcmp(nested->word, "inner") == 0);
  nested->word[0] = 'I';
  CHECK_OK(ucxx_fetch_reply(nested->outer, nested->word, 6, NULL,
                            NULL)); /* short, so it completes at once */
  ucxx_fetch_destroy(nested->outer);
  nested->done++;
}

static void ask_inside(void *arg, ucxx_fetch_t *fetch) {
  nested_t *nested = arg;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  nested->outer = fetch;
  params.callback = inner_came;
  params.callback_arg = nested;
  ucxx_endpoint_t *back = ucxx_fetch_endpoint(fetch);
  CHECK_STATUS(
      ucxx_am_fetch(back, INNER, "head", 4, nested->word, sizeof nested->word, &params, NULL),
      UCXX_INPROGRESS);
}

static void answer_inner(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  CHECK_OK(ucxx_fetch_reply(fetch, "inner", 6, NULL, NULL));
  ucxx_fetch_destroy(fetch);
}

/* Calls that would have to wait for their own callback to return. */
static void wait_inside(void *arg, ucxx_fetch_t *fetch) {
  inbox_t *inbox = arg;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_buffer_t part = {.data = &params, .length = 0};
  ucxx_endpoint_t *back = ucxx_fetch_endpoint(fetch);
  params.flags = UCXX_FLAG_WAIT;
  for (int timed = 0; timed < 2; timed++) {
    params.timeout_ns = timed ? 600 * SECOND : 0;
    CHECK_STATUS(ucxx_am_fetch(back, INNER, "head", 4, NULL, 0, &params, NULL), UCXX_ERR_BUSY);
    CHECK_STATUS(ucxx_am_fetch_iov(back, INNER, "head", 4, &part, 1, &params, NULL), UCXX_ERR_BUSY);
    CHECK_STATUS(ucxx_am_send(back, INNER, "head", 4, NULL, 0, &params, NULL), UCXX_ERR_BUSY);
    CHECK_STATUS(ucxx_am_send_iov(back, INNER, "head", 4, &part, 1, &params, NULL), UCXX_ERR_BUSY);
  }
  CHECK_MESSAGE("callback");
  inbox->count++;
  /* Arrives after anything that a refused call had sent. */
  params.flags = 0;
  params.timeout_ns = 0;
  CHECK(ucxx_am_send(back, INNER, "last", 4, NULL, 0, &params, NULL) >= 0);
  CHECK_OK(ucxx_fetch_reply(fetch, NULL, 0, NULL, NULL));
  ucxx_fetch_destroy(fetch);
}

static void count_last(void *arg, ucxx_am_message_t *message) {
  size_t length = 0;
  const void *header = ucxx_am_message_header(message, &length);
  CHECK(length == 4 && memcmp(header, "last", 4) == 0);
  ucxx_am_message_destroy(message);
  ((inbox_t *)arg)->count++;
}

static void waiting_inside(duo_t *duo) {
  STEP("calls that would block in a handler return BUSY and send nothing");
  inbox_t inbox = {0}, fetched = {0}, messages = {0};
  asked_t asked;
  ucxx_endpoint_load_t load = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, wait_inside, &inbox, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->left, INNER, hold, &fetched, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo->left, INNER, count_last, &messages, NULL));
  for (int round = 1; round <= 100; round++) {
    ask(&asked, duo, NULL, 0);
    CHECK_OK(answer_of(duo, &asked));
    CHECK_EQ(inbox.count, round);
    while (messages.count < round) duo_progress(duo);
  }
  CHECK_OK(ucxx_endpoint_query_load(duo->to_left, &load));
  CHECK_EQ(load.queued_operations, 0);
  CHECK_EQ(messages.count, 100);
  CHECK_EQ(fetched.count, 0);
  CHECK_OK(ucxx_worker_set_am_handler(duo->left, INNER, NULL, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->left, INNER, NULL, NULL, NULL));
}

static void inside_handlers(duo_t *duo) {
  STEP("a fetch from a handler, answered before the handler replies");
  nested_t nested = {.duo = duo};
  char buffer[8] = "";
  asked_t asked;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, ask_inside, &nested, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->left, INNER, answer_inner, NULL, NULL));
  for (int round = 1; round <= 500; round++) {
    ask(&asked, duo, buffer, sizeof buffer);
    CHECK_OK(answer_of(duo, &asked));
    CHECK(strcmp(buffer, "Inner") == 0);
    CHECK_EQ(nested.done, round);
  }
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->left, INNER, NULL, NULL, NULL));
}

/* ------------------------------------------------------------------ */

static void limits(const duo_t *duo) {
  STEP("headers up to the limit, and one more byte");
  inbox_t inbox = {0};
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  ucxx_request_t *request = NULL;
  char byte = 0;
  CHECK_OK(ucxx_worker_query(duo->left, &attr));
  uint8_t *header = test_alloc(attr.max_am_header + 1);
  test_fill(header, attr.max_am_header + 1, 5);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  ucxx_status_t status =
      ucxx_am_fetch(duo->to_right, ID, header, attr.max_am_header, &byte, 1, NULL, &request);
  while (inbox.last == NULL) duo_progress(duo);
  size_t length = 0;
  const void *got = ucxx_fetch_header(inbox.last, &length);
  CHECK_EQ(length, attr.max_am_header);
  CHECK_CONTENT(got, length, 5);
  reply_ok(duo, inbox.last, "x", 1);
  inbox.last = NULL;
  CHECK_OK(duo_finish(duo, status, &request));
  status = ucxx_am_fetch(duo->to_right, ID, NULL, 0, &byte, 1, NULL, &request);
  while (inbox.last == NULL) duo_progress(duo);
  CHECK(ucxx_fetch_header(inbox.last, &length) == NULL && length == 0);
  reply_ok(duo, inbox.last, "y", 1);
  inbox.last = NULL;
  CHECK_OK(duo_finish(duo, status, &request));
  CHECK_EQ(byte, 'y');
  CHECK_STATUS(
      ucxx_am_fetch(duo->to_right, ID, header, attr.max_am_header + 1, &byte, 1, NULL, &request),
      UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  CHECK_STATUS(
      ucxx_am_fetch_iov(duo->to_right, ID, header, attr.max_am_header + 1, NULL, 0, NULL, &request),
      UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, header, attr.max_am_header + 1, NULL, 0, NULL,
                                   NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL);
  CHECK_EQ(inbox.count, 2);
  free(header);
}

static void notified(const duo_t *duo) {
  STEP("by a notifier, without a request, and destroyed before completion");
  inbox_t inbox = {0};
  ucxx_notifier_t *notifier = NULL;
  char buffer[8] = "";
  CHECK_OK(ucxx_notifier_create(duo->context, &notifier));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, hold, &inbox, NULL));
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.notifier = notifier;
  params.callback_arg = buffer;
  CHECK_STATUS(ucxx_am_fetch(duo->to_right, ID, "head", 4, buffer, sizeof buffer, &params, NULL),
               UCXX_INPROGRESS);
  reply_ok(duo, question(duo, &inbox), "12345", 6);
  ucxx_completion_t completion;
  size_t count = 0;
  do {
    duo_progress(duo);
    CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
  } while (count == 0);
  CHECK_OK(completion.status);
  CHECK(completion.user_data == buffer && completion.request == NULL);
  CHECK_EQ(completion.length, 6);
  CHECK(strcmp(buffer, "12345") == 0);
  ucxx_notifier_destroy(notifier);

  asked_t asked;
  CHECK_STATUS(ucxx_am_fetch(duo->to_right, ID, "head", 4, buffer, sizeof buffer, NULL, NULL),
               UCXX_INPROGRESS);
  reply_ok(duo, question(duo, &inbox), "nobody", 7);
  ask(&asked, duo, buffer, sizeof buffer);
  ucxx_request_destroy(asked.request);
  reply_ok(duo, question(duo, &inbox), "later", 6);
  while (seen_count(&asked.seen) == 0) duo_progress(duo);
  CHECK_OK(asked.seen.status);
  CHECK_EQ(asked.seen.null_requests, 1);
  CHECK(strcmp(buffer, "later") == 0);
}

static void nothing(void) {
  STEP("getters and destroy with NULL");
  size_t length = 7;
  CHECK(ucxx_fetch_header(NULL, &length) == NULL && length == 0);
  length = 7;
  CHECK(ucxx_fetch_data(NULL, &length) == NULL && length == 0);
  CHECK_EQ(ucxx_fetch_capacity(NULL), 0);
  CHECK(ucxx_fetch_endpoint(NULL) == NULL);
  ucxx_fetch_destroy(NULL);
}

/* If a waiting reply is given up, the fetching side is notified at least of that. */
static void dropped_answers(int timed) {
  STEP("a reply that is %s before it is sent", timed ? "timed out" : "cancelled");
  duo_t duo = {0};
  inbox_t inbox = {0};
  asked_t asked;
  char buffer[8] = "", word[8] = "";
  ucxx_address_t *address = NULL;
  ucxx_request_t *filler = NULL, *answer = NULL, *receive = NULL;
  ucxx_endpoint_params_t narrow = UCXX_ENDPOINT_PARAMS_INIT;
  narrow.send_window_ops = 1;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  CHECK_OK(ucxx_worker_address(duo.left, &address));
  CHECK_OK(ucxx_endpoint_create(duo.right, address, &narrow, &duo.to_left));
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, &inbox, NULL));
  ask(&asked, &duo, buffer, sizeof buffer);
  ucxx_fetch_t *fetch = question(&duo, &inbox);
  CHECK(ucxx_fetch_endpoint(fetch) == duo.to_left);
  CHECK_STATUS(ucxx_tag_send_sync(duo.to_left, word, sizeof word, 1, NULL, &filler),
               UCXX_INPROGRESS);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = timed ? 1000000 : 0;
  CHECK_STATUS(ucxx_fetch_reply(fetch, "answer", 7, &params, &answer), UCXX_INPROGRESS);
  if (!timed) CHECK_OK(ucxx_request_cancel(answer));
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &answer),
               timed ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
  CHECK_STATUS(answer_of(&duo, &asked), UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_fetch_reply(fetch, "again", 6, NULL, NULL), UCXX_ERR_ALREADY_EXISTS);
  ucxx_fetch_destroy(fetch);
  CHECK_OK(duo_finish(
      &duo, ucxx_tag_recv(duo.left, word, sizeof word, 1, UINT64_MAX, NULL, &receive), &receive));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &filler));
  duo_close(&duo);
}

/* Fetches that wait for credit, with callbacks and without requests, complete once when their
 * worker is destroyed. */
static void destroyed_in_the_queue(void) {
  STEP("the worker is destroyed while fetches wait for credit");
  enum { MANY = CREDITS + 50 };
  duo_t duo;
  static seen_t seen[MANY];
  static char buffers[MANY][8];
  memset(seen, 0, sizeof seen);
  duo_open(&duo, NULL);
  for (int at = 0; at < MANY; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &seen[at];
    CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, buffers[at], 8, &params, NULL),
                 UCXX_INPROGRESS);
  }
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(duo.left, &stats));
  CHECK_EQ(stats.in_flight, MANY);
  ucxx_worker_destroy(duo.left);
  for (int at = 0; at < MANY; at++)
    CHECK(seen_count(&seen[at]) == 1 && seen[at].status == UCXX_ERR_CANCELED);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

static void unsupported(void) {
  STEP("a context without active messages");
  duo_t duo;
  inbox_t inbox = {0};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG;
  duo_open(&duo, &params);
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_worker_set_fetch_handler(duo.left, ID, hold, &inbox, count_destroyed),
               UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, NULL, 0, NULL, &request),
               UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("UCXX_FEATURE_AM");
  CHECK_STATUS(ucxx_am_fetch_alloc(duo.to_right, ID, NULL, 0, NULL, 0, NULL, NULL, &request),
               UCXX_ERR_UNSUPPORTED);
  CHECK(inbox.destroyed == 0 && request == NULL);
  duo_close(&duo);
}

int main(void) {
  duo_t duo;
  test_begin("fetch_calls");
  duo_open(&duo, NULL);
  sizes(&duo);
  scattered(&duo);
  unknown_ids(&duo);
  handlers(&duo);
  rejections(&duo);
  two_answers(&duo);
  unanswered(&duo);
  cancels(&duo);
  late_answers(&duo);
  inside_handlers(&duo);
  waiting_inside(&duo);
  limits(&duo);
  notified(&duo);
  duo_close(&duo);
  nothing();
  destroyed_in_the_queue();
  dropped_answers(0);
  dropped_answers(1);
  unsupported();
  return 0;
}
