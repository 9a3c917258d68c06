/* Fetches that send data, and replies into buffers allocated on arrival: an allocator makes each
 * buffer, the right caller gets it, and each is freed exactly once. */
#include "counting_allocator.h"

enum { ID = 7, UNKNOWN = 8, LARGE = 3 << 20, WITH_QUESTION = 8 << 20, APPLICATION = -1007 };

typedef struct inbox {
  ucxx_fetch_t *last;
} inbox_t;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  inbox_t *inbox = arg;
  CHECK(inbox->last == NULL);
  inbox->last = fetch;
}

/* ------------------------------------------------------------------ */

typedef struct asked {
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  seen_t seen;
} asked_t;

static ucxx_status_t ask(asked_t *asked, const duo_t *duo, uint16_t id, const void *data,
                         size_t length, const ucxx_allocator_t *allocator) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(asked, 0, sizeof *asked);
  params.recv_info = &asked->info;
  params.callback = see_completion;
  params.callback_arg = &asked->seen;
  return ucxx_am_fetch_alloc(duo->to_right, id, "head", 4, data, length, allocator, &params,
                             &asked->request);
}

/* Waits for the result; keeps the request. */
static ucxx_status_t end_of(const duo_t *duo, asked_t *asked) {
  while (ucxx_request_status(asked->request) == UCXX_INPROGRESS) duo_progress(duo);
  CHECK_EQ(seen_count(&asked->seen), 1);
  return ucxx_request_status(asked->request);
}

static ucxx_fetch_t *question(const duo_t *duo, inbox_t *inbox) {
  while (inbox->last == NULL) duo_progress(duo);
  ucxx_fetch_t *fetch = inbox->last;
  inbox->last = NULL;
  CHECK(ucxx_fetch_capacity(fetch) == SIZE_MAX);
  return fetch;
}

static void reply_ok(const duo_t *duo, ucxx_fetch_t *fetch, const void *data, size_t length,
                     uint64_t flags) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  CHECK_OK(duo_finish(duo, ucxx_fetch_reply(fetch, data, length, &params, &request), &request));
  ucxx_fetch_destroy(fetch);
}

/* ------------------------------------------------------------------ */

static void sizes(const duo_t *duo, inbox_t *inbox) {
  static const size_t lengths[] = {0, 1, 5000, LARGE, WITH_QUESTION},
                      answers[] = {0, 1, 100, 60000, LARGE};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  uint8_t *data = test_alloc(WITH_QUESTION), *answer = test_alloc(LARGE);
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  int made = 0;
  for (int at = 0; at < 5; at++)
    for (int other = 0; other < 5; other++) {
      size_t length = lengths[at], back = answers[other], there = 0;
      STEP("%zu bytes sent, %zu bytes of reply", length, back);
      asked_t asked;
      int own = (at + other) % 2;
      test_fill(data, length, length + 1);
      test_fill(answer, back, back + 2);
      CHECK_STATUS(ask(&asked, duo, ID, length == 0 ? NULL : data, length, own ? &allocator : NULL),
                   UCXX_INPROGRESS);
      ucxx_buffers_t *buffers = NULL;
      CHECK_STATUS(ucxx_request_take_buffers(asked.request, &buffers), UCXX_INPROGRESS);
      ucxx_fetch_t *fetch = question(duo, inbox);
      const void *came = ucxx_fetch_data(fetch, &there);
      CHECK_EQ(there, length);
      CHECK((came == NULL) == (length == 0));
      CHECK_CONTENT(came, length, length + 1);
      CHECK(ucxx_fetch_data(fetch, NULL) == came);
      const void *header = ucxx_fetch_header(fetch, &there);
      CHECK(there == 4 && memcmp(header, "head", 4) == 0);
      reply_ok(duo, fetch, answer, back, protocols[(at + 2 * other) % 3]);
      CHECK_OK(end_of(duo, &asked));
      CHECK_EQ(asked.info.length, back);
      CHECK_OK(ucxx_request_take_buffers(asked.request, &buffers));
      ucxx_request_destroy(asked.request);
      ucxx_buffer_t buffer;
      CHECK_EQ(ucxx_buffers_count(buffers), 1);
      CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
      CHECK(buffer.length == back && (buffer.data == NULL) == (back == 0));
      CHECK_EQ(buffer.memory_type, UCXX_MEMORY_HOST);
      CHECK_EQ(buffer.device_id, 0);
      CHECK_CONTENT(buffer.data, back, back + 2);
      made += own && back > 0;
      CHECK_EQ(maker.made, made);
      CHECK_EQ(maker.freed, made - (own && back > 0));
      ucxx_buffers_destroy(buffers);
      CHECK_EQ(maker.freed, made);
    }
  free(data);
  free(answer);
}

static void taken(const duo_t *duo, inbox_t *inbox) {
  STEP("taken out one by one");
  maker_t maker = {0};
  for (int own = 0; own < 2; own++) {
    asked_t asked;
    ucxx_allocator_t allocator = maker_allocator(&maker);
    ucxx_buffers_t *buffers = NULL, *again = NULL;
    ucxx_buffer_t first, buffer;
    CHECK_STATUS(ask(&asked, duo, ID, NULL, 0, own ? &allocator : NULL), UCXX_INPROGRESS);
    reply_ok(duo, question(duo, inbox), "answer", 7, 0);
    CHECK_OK(end_of(duo, &asked));
    CHECK_OK(ucxx_request_take_buffers(asked.request, &buffers));
    CHECK_STATUS(ucxx_request_take_buffers(asked.request, &again), UCXX_ERR_NO_ELEM);
    CHECK(again == NULL);
    ucxx_request_destroy(asked.request);
    CHECK_STATUS(ucxx_buffers_get(buffers, 1, &buffer), UCXX_ERR_OUT_OF_RANGE);
    CHECK_STATUS(ucxx_buffers_take(buffers, 1, &buffer), UCXX_ERR_OUT_OF_RANGE);
    CHECK_OK(ucxx_buffers_take(buffers, 0, &first));
    CHECK(first.length == 7 && strcmp(first.data, "answer") == 0);
    CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
    CHECK(buffer.data == NULL && buffer.length == 7);
    ucxx_buffers_destroy(buffers);
    CHECK(strcmp(first.data, "answer") == 0);
    CHECK_EQ(maker.freed, 0);
    if (own)
      maker_deallocate(&maker, first.data, first.length, first.memory_type, first.device_id);
    else
      free(first.data);
  }
  ucxx_buffers_destroy(NULL);
  CHECK_EQ(ucxx_buffers_count(NULL), 0);
}

static void not_taken(const duo_t *duo, inbox_t *inbox) {
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  asked_t asked;
  static const size_t lengths[] = {100, LARGE};
  uint8_t *answer = calloc(1, LARGE);
  CHECK(answer != NULL);
  for (int at = 0; at < 2; at++) {
    STEP("not taken: the request is destroyed after it has completed, %zu bytes", lengths[at]);
    maker.made = maker.freed = 0;
    CHECK_STATUS(ask(&asked, duo, ID, NULL, 0, &allocator), UCXX_INPROGRESS);
    reply_ok(duo, question(duo, inbox), answer, lengths[at], 0);
    CHECK_OK(end_of(duo, &asked));
    CHECK(maker.made == 1 && maker.freed == 0);
    ucxx_request_destroy(asked.request);
    CHECK_EQ(maker.freed, 1);

    STEP("not taken: the request is destroyed before it has completed");
    CHECK_STATUS(ask(&asked, duo, ID, NULL, 0, &allocator), UCXX_INPROGRESS);
    ucxx_request_destroy(asked.request);
    reply_ok(duo, question(duo, inbox), answer, lengths[at], 0);
    while (seen_count(&asked.seen) == 0 || maker.freed < 2) duo_progress(duo);
    CHECK_OK(asked.seen.status);
    CHECK(maker.made == 2 && maker.freed == 2);
  }
  free(answer);
}

typedef struct taker {
  ucxx_buffers_t *buffers;
  int count;
} taker_t;

static void take_inside(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  taker_t *taker = arg;
  CHECK_OK(status);
  CHECK(request != NULL);
  CHECK_OK(ucxx_request_take_buffers(request, &taker->buffers));
  taker->count++;
}

static void from_callback(const duo_t *duo, inbox_t *inbox) {
  for (int kept = 0; kept < 2; kept++) {
    STEP("taken in the callback, %s request", kept ? "with a" : "without a");
    maker_t maker = {0};
    ucxx_allocator_t allocator = maker_allocator(&maker);
    taker_t taker = {0};
    ucxx_request_t *request = NULL;
    ucxx_buffers_t *again = NULL;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = take_inside;
    params.callback_arg = &taker;
    CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, "head", 4, "data", 4, &allocator, &params,
                                     kept ? &request : NULL),
                 UCXX_INPROGRESS);
    reply_ok(duo, question(duo, inbox), "answer", 7, 0);
    while (taker.count == 0) duo_progress(duo);
    if (kept) {
      CHECK_OK(ucxx_request_status(request));
      CHECK_STATUS(ucxx_request_take_buffers(request, &again), UCXX_ERR_NO_ELEM);
      ucxx_request_destroy(request);
    }
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_buffers_get(taker.buffers, 0, &buffer));
    CHECK(strcmp(buffer.data, "answer") == 0);
    ucxx_buffers_destroy(taker.buffers);
    CHECK(maker.made == 1 && maker.freed == 1);
  }
}

static void failures(const duo_t *duo, inbox_t *inbox) {
  static const struct {
    const char *name;
    ucxx_status_t fails, expected;
    int nothing;
    size_t most;
    const char *told;
  } ways[] = {{"the allocator fails", UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_MEMORY, 0, 0,
               "`allocate` has returned UCXX_ERR_NO_MEMORY for"},
              {"with a status of its own", APPLICATION, APPLICATION, 0, 0,
               "`allocate` has returned status -1007 for"},
              {"the allocator returns NULL", UCXX_OK, UCXX_ERR_NO_MEMORY, 1, 0, "no memory for"},
              {"more than max_total_bytes", UCXX_OK, UCXX_ERR_EXCEEDS_LIMIT, 0, 99,
               "max_total_bytes is 99"}};
  static const size_t lengths[] = {100, LARGE};
  uint8_t *answer = calloc(1, LARGE);
  CHECK(answer != NULL);
  for (int at = 0; at < 8; at++) {
    STEP("%s, of %zu bytes", ways[at / 2].name, lengths[at % 2]);
    maker_t maker = {.fails = ways[at / 2].fails, .nothing = ways[at / 2].nothing};
    ucxx_allocator_t allocator = maker_allocator(&maker);
    ucxx_buffers_t *buffers = NULL;
    asked_t asked;
    allocator.max_total_bytes = ways[at / 2].most;
    CHECK_STATUS(ask(&asked, duo, ID, "data", 4, &allocator), UCXX_INPROGRESS);
    reply_ok(duo, question(duo, inbox), answer, lengths[at % 2],
             0); /* the other side is not notified */
    CHECK_STATUS(end_of(duo, &asked), ways[at / 2].expected);
    char length[40];
    snprintf(length, sizeof length, "%zu bytes", lengths[at % 2]);
    CHECK_MESSAGE(ways[at / 2].told);
    CHECK_MESSAGE(length);
    CHECK_MESSAGE("fetch, id 7,");
    CHECK_EQ(asked.info.length, lengths[at % 2]);
    CHECK_EQ(maker.made, 0);
    CHECK((maker.length == 0) == (ways[at / 2].most != 0));
    CHECK_STATUS(ucxx_request_take_buffers(asked.request, &buffers), ways[at / 2].expected);
    CHECK(buffers == NULL);
    ucxx_request_destroy(asked.request);
  }
  STEP("exactly max_total_bytes");
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  asked_t asked;
  allocator.max_total_bytes = 99;
  CHECK_STATUS(ask(&asked, duo, ID, NULL, 0, &allocator), UCXX_INPROGRESS);
  reply_ok(duo, question(duo, inbox), answer, 99, 0);
  CHECK_OK(end_of(duo, &asked));
  ucxx_request_destroy(asked.request);
  CHECK(maker.made == 1 && maker.freed == 1);

  STEP("replies without data");
  ucxx_buffers_t *buffers = NULL;
  CHECK_STATUS(ask(&asked, duo, UNKNOWN, "data", 4, &allocator), UCXX_INPROGRESS);
  CHECK_STATUS(end_of(duo, &asked), UCXX_ERR_NO_ELEM);
  CHECK_STATUS(ucxx_request_take_buffers(asked.request, &buffers), UCXX_ERR_NO_ELEM);
  ucxx_request_destroy(asked.request);
  CHECK_STATUS(ask(&asked, duo, ID, answer, LARGE, &allocator), UCXX_INPROGRESS);
  ucxx_fetch_t *fetch = question(duo, inbox);
  CHECK_OK(ucxx_fetch_reject(fetch, APPLICATION));
  ucxx_fetch_destroy(fetch);
  CHECK_STATUS(end_of(duo, &asked), APPLICATION);
  ucxx_request_destroy(asked.request);
  CHECK_STATUS(ask(&asked, duo, ID, answer, LARGE, &allocator), UCXX_INPROGRESS);
  fetch = question(duo, inbox);
  CHECK_OK(ucxx_request_cancel(asked.request));
  CHECK_STATUS(end_of(duo, &asked), UCXX_ERR_CANCELED);
  ucxx_request_destroy(asked.request);
  reply_ok(duo, fetch, answer, LARGE, 0);
  CHECK(maker.made == 1 && buffers == NULL);
  free(answer);
}

static void refused(const duo_t *duo) {
  STEP("refused calls");
  static const char data[8] = "";
  ucxx_notifier_t *notifier = NULL;
  ucxx_request_t *request = NULL;
  asked_t asked;
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, NULL, 0, data, 8, NULL, NULL, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("request: is NULL");
  params.flags = UCXX_FLAG_WAIT;
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, NULL, 0, data, 8, NULL, &params, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, NULL, 0, data, 8, NULL, &params, &request),
               UCXX_ERR_INVALID_PARAM);
  params.flags = 0;
  CHECK_OK(ucxx_notifier_create(duo->context, &notifier));
  params.notifier = notifier;
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, NULL, 0, data, 8, NULL, &params, NULL),
               UCXX_ERR_INVALID_PARAM);
  ucxx_notifier_destroy(notifier);
  void *much = calloc(1, WITH_QUESTION + 1);
  CHECK(much != NULL);
  CHECK_STATUS(ask(&asked, duo, ID, much, WITH_QUESTION + 1, NULL), UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("data_length");
  free(much);
  allocator.deallocate = NULL;
  CHECK_STATUS(ask(&asked, duo, ID, data, 8, &allocator), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("allocator");
  allocator.allocate = NULL;
  allocator.deallocate = maker_deallocate;
  CHECK_STATUS(ask(&asked, duo, ID, data, 8, &allocator), UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL && asked.request == NULL);
}

int main(void) {
  duo_t duo;
  inbox_t inbox = {0};
  test_begin("fetch_alloc");
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, &inbox, NULL));
  sizes(&duo, &inbox);
  taken(&duo, &inbox);
  not_taken(&duo, &inbox);
  from_callback(&duo, &inbox);
  failures(&duo, &inbox);
  refused(&duo);
  /* They complete when their worker is destroyed. */
  STEP("in flight when everything is destroyed");
  asked_t asked;
  CHECK_STATUS(ask(&asked, &duo, ID, "data", 4, NULL), UCXX_INPROGRESS);
  ucxx_fetch_t *fetch = question(&duo, &inbox);
  duo_close(&duo);
  CHECK(ucxx_request_status(asked.request) < 0);
  CHECK_EQ(seen_count(&asked.seen), 1);
  ucxx_request_destroy(asked.request);
  ucxx_fetch_destroy(fetch);
  return 0;
}
