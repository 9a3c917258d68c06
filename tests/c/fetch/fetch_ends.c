/*
 * Fetches of a worker to itself, blocking fetches, and fetches whose connection or worker ends
 * first: each completes once, on both sides.
 */
#include "test_util.h"

#include <sched.h>

enum { ID = 7, LARGE = 3 << 20, FILLER = 0x77, KINDS = 5 };

typedef struct inbox {
  ucxx_fetch_t *kept[2 * KINDS];
  int count, destroyed;
} inbox_t;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  inbox_t *inbox = arg;
  CHECK(inbox->count < 2 * KINDS);
  inbox->kept[inbox->count++] = fetch;
}

static void count_destroyed(void *arg) { ((inbox_t *)arg)->destroyed++; }

/* ------------------------------------------------------------------ a worker connected to
 * itself */

typedef struct question {
  uint64_t length, flags;
  ucxx_status_t rejected;
} question_t;

static uint8_t source[LARGE];

static void answer_at_once(void *arg, ucxx_fetch_t *fetch) {
  question_t question;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK_EQ(length, sizeof question);
  memcpy(&question, header, sizeof question);
  CHECK(ucxx_fetch_endpoint(fetch) == arg);
  if (question.rejected != UCXX_OK) {
    CHECK_OK(ucxx_fetch_reject(fetch, question.rejected));
  } else {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = question.flags;
    ucxx_status_t status = ucxx_fetch_reply(fetch, source, question.length, &params, NULL);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  }
  ucxx_fetch_destroy(fetch);
}

static void to_itself(int progress_mode) {
  STEP("a worker to itself, progress mode %d", progress_mode);
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  uint8_t *buffer = test_alloc(LARGE);
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t how = UCXX_WORKER_PARAMS_INIT;
  how.progress_mode = progress_mode;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &how, &worker));
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID, answer_at_once, endpoint, NULL));
  test_fill(source, LARGE, 3);
  ucxx_recv_info_t info;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  for (int round = 0; round < 300; round++) {
    question_t question = {.length = (size_t)round * 10000, .flags = protocols[round % 3]};
    ucxx_request_t *request = NULL;
    memset(buffer, FILLER, LARGE);
    params.flags = round % 2 ? UCXX_FLAG_WAIT : 0;
    ucxx_status_t status =
        ucxx_am_fetch(endpoint, ID, &question, sizeof question, buffer, LARGE, &params, &request);
    CHECK(status == (round % 2 ? UCXX_OK : UCXX_INPROGRESS));
    CHECK((request == NULL) == (round % 2 != 0));
    CHECK_OK(finish(status, &request));
    CHECK_EQ(info.length, question.length);
    CHECK_CONTENT(buffer, question.length, 3);
    CHECK(buffer[question.length] == FILLER);
  }
  STEP("blocking, and what it returns");
  params.flags = UCXX_FLAG_WAIT;
  question_t question = {.length = 100, .rejected = -1234};
  CHECK_STATUS(
      ucxx_am_fetch(endpoint, ID, &question, sizeof question, buffer, LARGE, &params, NULL), -1234);
  question.rejected = UCXX_OK;
  CHECK_STATUS(ucxx_am_fetch(endpoint, ID, &question, sizeof question, buffer, 99, &params, NULL),
               UCXX_ERR_MESSAGE_TRUNCATED);
  CHECK_EQ(info.length, 100);
  CHECK_STATUS(
      ucxx_am_fetch(endpoint, ID + 1, &question, sizeof question, buffer, 99, &params, NULL),
      UCXX_ERR_NO_ELEM);
  inbox_t inbox = {0};
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID + 1, hold, &inbox, NULL));
  params.timeout_ns = 20 * MILLISECOND;
  /* On a busy machine the timeout may expire before the fetch is sent. */
  do {
    CHECK_STATUS(
        ucxx_am_fetch(endpoint, ID + 1, &question, sizeof question, buffer, 99, &params, NULL),
        UCXX_ERR_TIMED_OUT);
    progress(worker);
  } while (__atomic_load_n(&inbox.count, __ATOMIC_ACQUIRE) == 0);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  for (int at = 0; at < inbox.count; at++) ucxx_fetch_destroy(inbox.kept[at]);
  ucxx_context_destroy(context);
  free(buffer);
}

/* ------------------------------------------------------------------ ends */

enum end { ASKER_CLOSES, ANSWERER_CLOSES, ASKER_WORKER, ANSWERER_WORKER, ENDS };

typedef struct asked {
  ucxx_request_t *request;
  seen_t seen;
} asked_t;

static void close_forced(const duo_t *duo, ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  CHECK_OK(
      duo_finish(duo, ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &request), &request));
}

/* Half of the fetches are held by their handler; most others have not been read. */
static void ends(int how) {
  static const char *const names[] = {"the fetching endpoint", "the replying endpoint",
                                      "the fetching worker", "the replying worker"};
  STEP("fetches outlive %s on both sides", names[how]);
  duo_t duo;
  inbox_t inbox = {0};
  asked_t asked[2 * KINDS];
  static uint8_t buffer[LARGE], data[LARGE];
  memset(buffer, FILLER, sizeof buffer);
  memset(asked, 0, sizeof asked);
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, &inbox, count_destroyed));
  for (int at = 0; at < 2 * KINDS; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = see_completion;
    params.callback_arg = &asked[at].seen;
    ucxx_status_t status;
    if (at % KINDS < 2)
      status = ucxx_am_fetch(duo.to_right, ID, "head", 4, buffer, at % KINDS == 0 ? 10 : LARGE,
                             &params, &asked[at].request);
    else
      status = ucxx_am_fetch_alloc(duo.to_right, ID, "head", 4, data,
                                   at % KINDS == 2   ? 0
                                   : at % KINDS == 3 ? 5000
                                                     : LARGE,
                                   NULL, &params, &asked[at].request);
    CHECK_STATUS(status, UCXX_INPROGRESS);
    /* A worker destroyed behind megabytes of data cannot notify a peer that does not progress. */
    int looks = at == KINDS - 1 || how == ASKER_WORKER;
    while (looks && inbox.count <= at) duo_progress(&duo);
  }
  switch (how) {
  case ASKER_CLOSES: close_forced(&duo, duo.to_right); break;
  case ANSWERER_CLOSES: close_forced(&duo, duo.to_left); break;
  case ASKER_WORKER: ucxx_worker_destroy(duo.left); break;
  default: ucxx_worker_destroy(duo.right);
  }
  for (int at = 0; at < 2 * KINDS; at++) {
    while (ucxx_request_status(asked[at].request) == UCXX_INPROGRESS)
      CHECK_OK(ucxx_worker_progress(duo.left, NULL));
    ucxx_status_t status = ucxx_request_status(asked[at].request);
    if (how == ANSWERER_CLOSES || how == ANSWERER_WORKER)
      CHECK_STATUS(status, UCXX_ERR_CONNECTION_RESET);
    else
      CHECK(status == UCXX_ERR_CLOSED || status == UCXX_ERR_CANCELED);
    CHECK_EQ(seen_count(&asked[at].seen), 1);
    ucxx_request_destroy(asked[at].request);
  }
  for (size_t at = 0; at < sizeof buffer; at++) CHECK(buffer[at] == FILLER);
  STEP("the remaining fetches");
  if (how == ASKER_CLOSES || how == ASKER_WORKER)
    while (ucxx_endpoint_status(duo.to_left) == UCXX_OK)
      CHECK_OK(ucxx_worker_progress(duo.right, NULL));
  CHECK(inbox.count >= KINDS);
  for (int at = 0; at < inbox.count; at++) {
    ucxx_fetch_t *fetch = inbox.kept[at];
    size_t length = 0;
    const void *header = ucxx_fetch_header(fetch, &length);
    CHECK(length == 4 && memcmp(header, "head", 4) == 0);
    const void *came = ucxx_fetch_data(fetch, &length);
    if (how == ANSWERER_WORKER)
      CHECK(came == NULL); /* its data was UCX's memory, which the worker freed */
    else
      CHECK((came == NULL) == (at % KINDS < 3) &&
            (came == NULL || memcmp(came, data, length) == 0));
    CHECK(ucxx_endpoint_status(ucxx_fetch_endpoint(fetch)) < 0);
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_fetch_reply(fetch, data, 10, NULL, &request);
    CHECK(status == (how == ANSWERER_WORKER || how == ANSWERER_CLOSES ? UCXX_ERR_CLOSED
                                                                      : UCXX_ERR_CONNECTION_RESET));
    CHECK(request == NULL);
    CHECK(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY) < 0);
    if (at % 2) ucxx_fetch_destroy(fetch);
  }
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  if (how != ASKER_WORKER) ucxx_worker_destroy(duo.left);
  if (how != ANSWERER_WORKER) ucxx_worker_destroy(duo.right);
  CHECK_EQ(inbox.destroyed, 1);
  ucxx_context_destroy(duo.context);
  /* Some are destroyed after everything else. */
  for (int at = 0; at < inbox.count; at += 2) ucxx_fetch_destroy(inbox.kept[at]);
}

/* A flush does not wait for a fetch held by its handler; a close ends the fetch. */
static void flushed(void) {
  STEP("a flush does not wait for replies");
  duo_t duo;
  inbox_t inbox = {0};
  ucxx_request_t *request = NULL, *flush = NULL;
  char byte = 0;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, &inbox, NULL));
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, &byte, 1, NULL, &request), UCXX_INPROGRESS);
  while (inbox.count == 0) duo_progress(&duo);
  CHECK_OK(duo_finish(&duo, ucxx_endpoint_flush(duo.to_right, NULL, &flush), &flush));
  CHECK_OK(duo_finish(&duo, ucxx_worker_flush(duo.left, NULL, &flush), &flush));
  CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
  ucxx_fetch_destroy(inbox.kept[0]);
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ in the submission queue */

typedef struct gate {
  int inside, open, asked;
} gate_t;

static void block(void *arg, ucxx_fetch_t *fetch) {
  gate_t *gate = arg;
  __atomic_store_n(&gate->inside, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE)) sched_yield();
  ucxx_fetch_destroy(fetch);
}

static void count_asked(void *arg, ucxx_fetch_t *fetch) {
  __atomic_fetch_add(&((gate_t *)arg)->asked, 1, __ATOMIC_RELEASE);
  CHECK_OK(ucxx_fetch_reply(fetch, "x", 1, NULL, NULL));
  ucxx_fetch_destroy(fetch);
}

/* The progress thread is blocked in a handler, so fetches submitted meanwhile wait. */
static void queued(void) {
  STEP("cancelled while it waits for the progress thread");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t how = UCXX_WORKER_PARAMS_INIT;
  how.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  how.delayed_submission = 1;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &how, &worker));
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  gate_t gate = {0};
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID, block, &gate, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID + 1, count_asked, &gate, NULL));
  ucxx_request_t *blocking = NULL, *requests[6] = {0};
  char bytes[6] = "......";
  CHECK_STATUS(ucxx_am_fetch(endpoint, ID, NULL, 0, NULL, 0, NULL, &blocking), UCXX_INPROGRESS);
  while (!__atomic_load_n(&gate.inside, __ATOMIC_ACQUIRE)) sched_yield();
  for (int at = 0; at < 6; at++) {
    if (at % 2 == 0)
      CHECK_STATUS(ucxx_am_fetch(endpoint, ID + 1, "head", 4, &bytes[at], 1, NULL, &requests[at]),
                   UCXX_INPROGRESS);
    else
      CHECK_STATUS(
          ucxx_am_fetch_alloc(endpoint, ID + 1, "head", 4, "data", 4, NULL, NULL, &requests[at]),
          UCXX_INPROGRESS);
  }
  for (int at = 0; at < 4; at++) CHECK_OK(ucxx_request_cancel(requests[at]));
  CHECK_EQ(__atomic_load_n(&gate.asked, __ATOMIC_ACQUIRE), 0);
  __atomic_store_n(&gate.open, 1, __ATOMIC_RELEASE);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &blocking), UCXX_ERR_CANCELED);
  for (int at = 0; at < 6; at++)
    CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[at]), at < 4 ? UCXX_ERR_CANCELED : UCXX_OK);
  CHECK_EQ(__atomic_load_n(&gate.asked, __ATOMIC_ACQUIRE), 2);
  CHECK(memcmp(bytes, "....x.", 6) == 0);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

int main(void) {
  test_begin("fetch_ends");
  to_itself(UCXX_PROGRESS_MANUAL);
  to_itself(UCXX_PROGRESS_THREAD_ADAPTIVE);
  for (int how = 0; how < ENDS; how++) ends(how);
  flushed();
  queued();
  return 0;
}
