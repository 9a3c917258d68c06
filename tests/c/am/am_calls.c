/* Every active-message call does what the header promises, between two workers of one process and
 * on a worker connected to itself. */
#include "test_util.h"

enum { ID = 7, UNKNOWN = 8, LARGE = 3 << 20, AS_UCX_LIKES = 1 << 20 };

typedef struct inbox {
  ucxx_am_message_t *last;
  int count, destroyed;
  ucxx_worker_t *worker;
  uint16_t id;
} inbox_t;

static void hold(void *arg, ucxx_am_message_t *message) {
  inbox_t *inbox = arg;
  ucxx_am_message_destroy(inbox->last);
  inbox->last = message;
  inbox->count++;
}

static void count_destroyed(void *arg) { ((inbox_t *)arg)->destroyed++; }

static void await_count(const duo_t *duo, const inbox_t *inbox, int count) {
  while (inbox->count < count) duo_progress(duo);
  CHECK_EQ(inbox->count, count);
}

static ucxx_op_params_t with_flags(uint64_t flags) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  return params;
}

static void send_to(const duo_t *duo, ucxx_endpoint_t *to, uint16_t id, const void *data,
                    size_t length, uint64_t flags) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = with_flags(flags);
  CHECK_OK(
      duo_finish(duo, ucxx_am_send(to, id, "head", 4, data, length, &params, &request), &request));
}

/* ------------------------------------------------------------------ */

static uint64_t unhandled(const duo_t *duo) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(duo->right, &stats));
  return stats.am_unhandled;
}

static void await_unhandled(const duo_t *duo, uint64_t count) {
  do duo_progress(duo);
  while (unhandled(duo) < count);
  CHECK_EQ(unhandled(duo), count);
}

/* Counts the log's lines about messages without a handler, and keeps the id of the last one. */
typedef struct told {
  int count;
  unsigned id;
} told_t;

static void listen(void *arg, int32_t level, const char *component, const char *message) {
  told_t *told = arg;
  const char *id = strstr(message, "id ");
  if (strstr(message, "no handler") == NULL) return;
  CHECK_EQ(level, UCXX_LOG_INFO);
  CHECK(strcmp(component, "am") == 0);
  CHECK(id != NULL && sscanf(id, "id %u", &told->id) == 1);
  told->count++;
}

/* Forms of data: one UCX fragment (short and longer), several fragments, and rendezvous. */
typedef struct form {
  size_t length;
  uint64_t flags;
} form_t;
static const form_t forms[] = {{0, 0},
                               {10, 0},
                               {3000, UCXX_FLAG_EAGER},
                               {100000, UCXX_FLAG_EAGER},
                               {LARGE, UCXX_FLAG_EAGER},
                               {0, UCXX_FLAG_RNDV},
                               {10, UCXX_FLAG_RNDV},
                               {LARGE, UCXX_FLAG_RNDV},
                               {LARGE, 0},
                               {AS_UCX_LIKES, 0}};
enum { FORMS = sizeof forms / sizeof *forms };

static int waits_at_sender(const form_t *form) {
  return (form->flags & UCXX_FLAG_RNDV) != 0 || (form->length > 1 << 20 && form->flags == 0);
}

static void unknown_id(const duo_t *duo, const form_t *form, uint16_t id, told_t *told,
                       const void *data) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = with_flags(form->flags);
  uint64_t before = unhandled(duo);
  told->count = 0;
  ucxx_status_t status =
      ucxx_am_send(duo->to_right, id, "head", 4, data, form->length, &params, &request);
  status = duo_finish(duo, status, &request);
  if (waits_at_sender(form) || (form->length == AS_UCX_LIKES && status != UCXX_OK)) {
    /* Only the sender's log reports it. */
    char named[32];
    snprintf(named, sizeof named, "id %u,", id);
    CHECK_STATUS(status, UCXX_ERR_NO_ELEM);
    CHECK_MESSAGE(named);
    CHECK_MESSAGE("ucxx_worker_set_am_handler");
    CHECK_EQ(unhandled(duo), before);
    CHECK_EQ(told->count, 0);
    return;
  }
  CHECK_OK(status);
  await_unhandled(duo, before + 1);
  CHECK_EQ(told->count, 1);
  CHECK_EQ(told->id, id);
}

static void unknown_ids(const duo_t *duo) {
  STEP("without a handler");
  static char data[LARGE], buffer[LARGE];
  told_t told = {0};
  CHECK_OK(ucxx_log_set_callback(listen, &told, UCXX_LOG_INFO));
  test_fill(data, sizeof data, 21);
  for (int at = 0; at < FORMS; at++) {
    uint16_t id = (uint16_t)(UNKNOWN + 1000 * at);
    inbox_t inbox = {0};
    for (int round = 0; round < 3; round++) unknown_id(duo, &forms[at], id, &told, data);

    STEP("a handler receives later messages, %zu bytes, flags %x", forms[at].length,
         (unsigned)forms[at].flags);
    for (int round = 1; round <= 3; round++) {
      ucxx_request_t *sent = NULL, *received = NULL;
      ucxx_op_params_t params = with_flags(forms[at].flags);
      ucxx_status_t status =
          ucxx_am_send(duo->to_right, id, "head", 4, data, forms[at].length, &params, &sent);
      /* The first message is in flight by now. */
      if (round == 1) CHECK_OK(ucxx_worker_set_am_handler(duo->right, id, hold, &inbox, NULL));
      await_count(duo, &inbox, round);
      CHECK_EQ(ucxx_am_message_length(inbox.last), forms[at].length);
      memset(buffer, 0, forms[at].length);
      CHECK_OK(duo_finish(
          duo, ucxx_am_message_recv(inbox.last, buffer, forms[at].length, NULL, &received),
          &received));
      CHECK_CONTENT(buffer, forms[at].length, 21);
      ucxx_am_message_destroy(inbox.last);
      inbox.last = NULL;
      CHECK_OK(duo_finish(duo, status, &sent));
    }
    CHECK_OK(ucxx_worker_set_am_handler(duo->right, id, NULL, NULL, NULL));
    unknown_id(duo, &forms[at], id, &told, data);
    CHECK_EQ(inbox.count, 3);
  }
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  CHECK_OK(ucxx_endpoint_status(duo->to_right));
}

static void replace_inside(void *arg, ucxx_am_message_t *message) {
  inbox_t *inbox = arg;
  CHECK_OK(ucxx_worker_set_am_handler(inbox->worker, inbox->id, NULL, NULL, NULL));
  CHECK_EQ(inbox->destroyed, 0); /* it is still running */
  ucxx_am_message_destroy(message);
  inbox->count++;
}

static void handlers(const duo_t *duo) {
  STEP("handlers are replaced and removed, their arguments destroyed once");
  inbox_t first = {0}, second = {0}, third = {0};
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, hold, &first, count_destroyed));
  send_to(duo, duo->to_right, ID, "1", 1, 0);
  await_count(duo, &first, 1);
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, hold, &second, count_destroyed));
  CHECK_EQ(first.destroyed, 1);
  send_to(duo, duo->to_right, ID, "2", 1, 0);
  await_count(duo, &second, 1);
  CHECK_EQ(first.count, 1);
  CHECK(memcmp(ucxx_am_message_data(first.last), "1", 1) == 0);
  ucxx_am_message_destroy(first.last);
  ucxx_am_message_destroy(second.last);

  third.worker = duo->right;
  third.id = ID;
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, replace_inside, &third, count_destroyed));
  CHECK_EQ(second.destroyed, 1);
  send_to(duo, duo->to_right, ID, "3", 1, 0);
  await_count(duo, &third, 1);
  while (third.destroyed == 0) duo_progress(duo);
  uint64_t before = unhandled(duo);
  send_to(duo, duo->to_right, ID, "4", 1, 0);
  await_unhandled(duo, before + 1);
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, NULL, NULL, NULL));
  CHECK_EQ(third.destroyed, 1);
  for (uint32_t id = 0; id < 65536; id += 65535)
    CHECK_OK(ucxx_worker_set_am_handler(duo->right, (uint16_t)id, hold, &first, count_destroyed));
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, 0, NULL, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, 65535, NULL, NULL, NULL));
  CHECK_EQ(first.destroyed, 3);
}

static void limits(const duo_t *duo) {
  STEP("headers up to the limit, and one more byte");
  inbox_t inbox = {0};
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_worker_query(duo->left, &attr));
  uint8_t *header = test_alloc(attr.max_am_header + 1);
  test_fill(header, attr.max_am_header + 1, 5);
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, hold, &inbox, NULL));
  ucxx_status_t status =
      ucxx_am_send(duo->to_right, ID, header, attr.max_am_header, NULL, 0, NULL, &request);
  CHECK_OK(duo_finish(duo, status, &request));
  await_count(duo, &inbox, 1);
  size_t length = 0;
  const void *got = ucxx_am_message_header(inbox.last, &length);
  CHECK_EQ(length, attr.max_am_header);
  CHECK_CONTENT(got, length, 5);
  CHECK(ucxx_am_message_data(inbox.last) == NULL);
  CHECK_EQ(ucxx_am_message_length(inbox.last), 0);
  CHECK(ucxx_am_message_header(inbox.last, NULL) == got);

  status = ucxx_am_send(duo->to_right, ID, header, attr.max_am_header + 1, NULL, 0, NULL, &request);
  CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  CHECK_STATUS(ucxx_am_send(duo->to_right, ID, NULL, 1, NULL, 0, NULL, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send(duo->to_right, ID, NULL, 0, NULL, 1, NULL, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send(NULL, ID, NULL, 0, NULL, 0, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  ucxx_op_params_t both = with_flags(UCXX_FLAG_EAGER | UCXX_FLAG_RNDV);
  CHECK_STATUS(ucxx_am_send(duo->to_right, ID, NULL, 0, "x", 1, &both, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("flags");
  ucxx_op_params_t partial = with_flags(UCXX_FLAG_STREAM_PARTIAL);
  CHECK_STATUS(ucxx_am_send(duo->to_right, ID, NULL, 0, "x", 1, &partial, NULL),
               UCXX_ERR_INVALID_PARAM);
  send_to(duo, duo->to_right, ID, NULL, 0, 0);
  await_count(duo, &inbox, 2);
  ucxx_am_message_destroy(inbox.last);
  free(header);
}

static void receiving(const duo_t *duo) {
  STEP("a receive into a short buffer, a second receive, and one of an empty message");
  static char data[LARGE], buffer[LARGE];
  static const uint64_t protocols[] = {UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  inbox_t inbox = {0};
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, hold, &inbox, NULL));
  test_fill(data, sizeof data, 11);
  for (int protocol = 0; protocol < 2; protocol++) {
    ucxx_request_t *sent = NULL, *received = NULL;
    ucxx_op_params_t params = with_flags(protocols[protocol]);
    params.memory_type = UCXX_MEMORY_HOST;
    ucxx_status_t status =
        ucxx_am_send(duo->to_right, ID, NULL, 0, data, sizeof data, &params, &sent);
    await_count(duo, &inbox, protocol + 1);
    CHECK((ucxx_am_message_data(inbox.last) == NULL) == (protocols[protocol] == UCXX_FLAG_RNDV));
    CHECK_EQ(ucxx_am_message_memory_type(inbox.last), UCXX_MEMORY_HOST);
    CHECK(ucxx_am_message_reply(inbox.last) == NULL);
    CHECK_STATUS(ucxx_am_message_recv(inbox.last, buffer, sizeof buffer - 1, NULL, &received),
                 UCXX_ERR_MESSAGE_TRUNCATED);
    CHECK_MESSAGE("length");
    CHECK_STATUS(ucxx_am_message_recv(inbox.last, NULL, sizeof buffer, NULL, &received),
                 UCXX_ERR_INVALID_PARAM);
    ucxx_status_t pulled = ucxx_am_message_recv(inbox.last, buffer, sizeof buffer, NULL, &received);
    CHECK_OK(duo_finish(duo, pulled, &received));
    CHECK_CONTENT(buffer, sizeof data, 11);
    memset(buffer, 0, sizeof buffer);
    CHECK_STATUS(ucxx_am_message_recv(inbox.last, buffer, sizeof buffer, NULL, &received),
                 UCXX_ERR_INVALID_PARAM);
    CHECK_OK(duo_finish(duo, status, &sent));
  }
  ucxx_am_message_destroy(inbox.last);
  inbox.last = NULL;
  ucxx_am_message_destroy(NULL);

  STEP("a message that nobody receives");
  ucxx_request_t *sent = NULL;
  ucxx_op_params_t params = with_flags(UCXX_FLAG_RNDV);
  ucxx_status_t status =
      ucxx_am_send(duo->to_right, ID, NULL, 0, data, sizeof data, &params, &sent);
  await_count(duo, &inbox, 3);
  CHECK_STATUS(ucxx_request_status(sent), UCXX_INPROGRESS);
  ucxx_am_message_destroy(inbox.last);
  inbox.last = NULL;
  CHECK_OK(duo_finish(duo, status, &sent));
}

/* Credit of small messages that the receiver has not returned yet must not block a large one for
 * good. */
static void large_after_small(const duo_t *duo) {
  STEP("a message that needs all credit, after one too small for a credit update");
  enum { ALL = 9 << 20 };
  char *data = test_alloc(ALL);
  inbox_t inbox = {0};
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, hold, &inbox, NULL));
  for (int round = 0; round < 3; round++) {
    send_to(duo, duo->to_right, ID, data, round == 1 ? 300 << 10 : 1, UCXX_FLAG_EAGER);
    await_count(duo, &inbox, 2 * round + 1);
    ucxx_am_message_destroy(inbox.last);
    inbox.last = NULL;
    send_to(duo, duo->to_right, ID, data, ALL, UCXX_FLAG_EAGER);
    await_count(duo, &inbox, 2 * round + 2);
    CHECK_EQ(ucxx_am_message_length(inbox.last), ALL);
    ucxx_am_message_destroy(inbox.last);
    inbox.last = NULL;
  }
  free(data);
}

static void answer(void *arg, ucxx_am_message_t *message) {
  inbox_t *inbox = arg;
  ucxx_endpoint_t *reply = ucxx_am_message_reply(message);
  CHECK(reply != NULL);
  ucxx_status_t status =
      ucxx_am_send(reply, ID, "answer", 6, ucxx_am_message_data(message), 1, NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  CHECK_OK(ucxx_endpoint_retain(reply, &reply));
  ucxx_am_message_destroy(message);
  CHECK_OK(ucxx_endpoint_status(reply));
  ucxx_endpoint_destroy(reply);
  inbox->count++;
}

/* The right worker has no endpoint: it replies on the one that the message brings. */
static void replies(void) {
  STEP("a reply on the endpoint that the message brings");
  duo_t duo = {0};
  inbox_t left = {0}, right = {0};
  static const char byte = 'x';
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ID, hold, &left, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, answer, &right, NULL));
  for (int round = 1; round <= 1000; round++) {
    ucxx_op_params_t params = with_flags(UCXX_FLAG_AM_REPLY);
    ucxx_status_t status = ucxx_am_send(duo.to_right, ID, NULL, 0, &byte, 1, &params, NULL);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    await_count(&duo, &left, round);
  }
  CHECK_EQ(right.count, 1000);
  ucxx_am_message_destroy(left.last);
  duo_drop(&duo, duo.to_right);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

static void to_itself(void) {
  STEP("a worker to itself");
  static char data[LARGE], buffer[LARGE];
  duo_t duo = {0};
  inbox_t inbox = {0};
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  duo.right = duo.left;
  duo.to_left = duo.to_right = connect_workers(duo.left, duo.left);
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ID, hold, &inbox, NULL));
  test_fill(data, sizeof data, 3);
  for (int round = 1; round <= 300; round++) {
    ucxx_request_t *sent = NULL, *received = NULL;
    ucxx_op_params_t params = with_flags(UCXX_FLAG_AM_REPLY | (round % 2 ? 0 : UCXX_FLAG_RNDV));
    size_t length = (size_t)round * 1000;
    ucxx_status_t status = ucxx_am_send(duo.to_right, ID, "h", 1, data, length, &params, &sent);
    await_count(&duo, &inbox, round);
    CHECK(ucxx_am_message_reply(inbox.last) == duo.to_left);
    CHECK_OK(duo_finish(&duo, ucxx_am_message_recv(inbox.last, buffer, length, NULL, &received),
                        &received));
    CHECK_CONTENT(buffer, length, 3);
    CHECK_OK(duo_finish(&duo, status, &sent));
  }
  ucxx_am_message_destroy(inbox.last);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_context_destroy(duo.context);
}

/* Messages of every form stay valid after their connection and their worker have ended. */
static void ends(int worker_too) {
  STEP("messages are kept beyond the end of %s", worker_too ? "the worker" : "the connection");
  static char data[LARGE], buffer[LARGE];
  duo_t duo;
  inbox_t inboxes[4] = {{0}};
  ucxx_request_t *requests[4] = {0};
  static const uint64_t flags[4] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV | UCXX_FLAG_AM_REPLY,
                                    UCXX_FLAG_AM_REPLY};
  static const size_t lengths[4] = {8, 300000, LARGE, 5000};
  duo_open(&duo, NULL);
  for (int at = 0; at < 4; at++) {
    ucxx_op_params_t params = with_flags(flags[at]);
    CHECK_OK(
        ucxx_worker_set_am_handler(duo.right, (uint16_t)at, hold, &inboxes[at], count_destroyed));
    ucxx_status_t status = ucxx_am_send(duo.to_right, (uint16_t)at, "head", 4, data, lengths[at],
                                        &params, &requests[at]);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    await_count(&duo, &inboxes[at], 1);
  }
  if (worker_too) {
    ucxx_worker_destroy(duo.right);
    for (int at = 0; at < 4; at++) {
      CHECK(ucxx_am_message_data(inboxes[at].last) == NULL);
      CHECK_STATUS(ucxx_am_message_recv(inboxes[at].last, buffer, sizeof buffer, NULL, NULL),
                   UCXX_ERR_CLOSED);
      CHECK_EQ(inboxes[at].destroyed, 1);
    }
  } else {
    duo_drop(&duo, duo.to_left);
    duo.to_left = NULL;
    while (ucxx_endpoint_status(duo.to_right) == UCXX_OK) duo_progress(&duo);
    CHECK_OK(ucxx_am_message_recv(inboxes[1].last, buffer, sizeof buffer, NULL, NULL));
    CHECK_EQ(memcmp(buffer, data, 300000), 0);
    CHECK(ucxx_am_message_recv(inboxes[2].last, buffer, sizeof buffer, NULL, NULL) < 0);
  }
  for (int at = 0; at < 4; at++) {
    size_t length = 0;
    const void *header = ucxx_am_message_header(inboxes[at].last, &length);
    CHECK(length == 4 && memcmp(header, "head", 4) == 0);
    if (flags[at] & UCXX_FLAG_AM_REPLY)
      CHECK(ucxx_endpoint_status(ucxx_am_message_reply(inboxes[at].last)) < 0);
    ucxx_am_message_destroy(inboxes[at].last);
    if (requests[at] != NULL) {
      while (ucxx_request_status(requests[at]) == UCXX_INPROGRESS)
        CHECK_OK(ucxx_worker_progress(duo.left, NULL));
      ucxx_request_destroy(requests[at]);
    }
  }
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_worker_destroy(duo.left);
  ucxx_endpoint_destroy(duo.to_left);
  if (!worker_too) ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

enum {
  CREDIT = 256,
  RETURNED = 10,
  BEHIND = 2,
  FROM_HANDLER = 5,
  NUMBERS = CREDIT + BEHIND + FROM_HANDLER
};

typedef struct numbers {
  ucxx_am_message_t *messages[NUMBERS];
  unsigned count;
  const duo_t *duo;
  unsigned sent;
} numbers_t;

static void keep_numbered(void *arg, ucxx_am_message_t *message) {
  numbers_t *numbers = arg;
  unsigned number = 0;
  CHECK(numbers->count < NUMBERS);
  memcpy(&number, ucxx_am_message_header(message, NULL), sizeof number);
  CHECK_EQ(number, numbers->count);
  numbers->messages[numbers->count++] = message;
}

static ucxx_status_t send_number(numbers_t *numbers) {
  unsigned number = numbers->sent++;
  ucxx_status_t status =
      ucxx_am_send(numbers->duo->to_right, ID, &number, sizeof number, NULL, 0, NULL, NULL);
  CHECK(status >= 0);
  return status;
}

static void send_numbers(void *arg, ucxx_am_message_t *message) {
  ucxx_am_message_destroy(message);
  for (int i = 0; i < FROM_HANDLER; i++) send_number(arg);
}

/* A message returns credit, and its handler sends before the pass has served the messages that wait
 * for that credit. */
static void order_when_credit_returns(void) {
  STEP("messages that waited for credit are not overtaken when it returns");
  duo_t duo;
  numbers_t numbers = {.duo = &duo};
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, keep_numbered, &numbers, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ID, send_numbers, &numbers, NULL));
  while (numbers.sent < CREDIT) send_number(&numbers);
  for (int i = 0; i < BEHIND; i++) CHECK_EQ(send_number(&numbers), UCXX_INPROGRESS);
  while (numbers.count < CREDIT) duo_progress(&duo);
  /* Too few to make the library send a credit update. */
  for (unsigned at = 0; at < RETURNED; at++) ucxx_am_message_destroy(numbers.messages[at]);
  CHECK_OK(ucxx_am_send(duo.to_left, ID, NULL, 0, NULL, 0, NULL, NULL));
  while (numbers.count < NUMBERS) duo_progress(&duo);
  CHECK_EQ(numbers.sent, NUMBERS);
  for (unsigned at = RETURNED; at < NUMBERS; at++) ucxx_am_message_destroy(numbers.messages[at]);
  duo_close(&duo);
}

static void unsupported(void) {
  STEP("a context without active messages");
  duo_t duo;
  inbox_t inbox = {0};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG;
  duo_open(&duo, &params);
  CHECK_STATUS(ucxx_worker_set_am_handler(duo.left, ID, hold, &inbox, count_destroyed),
               UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_am_send(duo.to_right, ID, NULL, 0, NULL, 0, NULL, NULL), UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("UCXX_FEATURE_AM");
  CHECK_EQ(inbox.destroyed, 0);
  duo_close(&duo);
}

int main(void) {
  duo_t duo;
  test_begin("am_calls");
  duo_open(&duo, NULL);
  unknown_ids(&duo);
  handlers(&duo);
  limits(&duo);
  receiving(&duo);
  large_after_small(&duo);
  duo_close(&duo);
  replies();
  to_itself();
  order_when_credit_returns();
  ends(0);
  ends(1);
  unsupported();
  return 0;
}
