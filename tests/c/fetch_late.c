/*
 * Answers that come too late, or are given up when they have begun to come: whatever is sent by then, the buffer of a fetch that has
 * ended is its owner's. Here it is taken away at once (no access), so that whoever touches it gets a fault.
 */
#include "test_util.h"

#include <sched.h>
#include <sys/mman.h>

enum { ID = 3, FILLER = 0x77 };

static const size_t SIZES[] = {1, 100, 60000, 8 << 20};
static const uint64_t PROTOCOLS[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
enum { WAYS = 12 };

typedef struct question {
  uint64_t length, flags, seed;
  uint32_t later; /* answered when the other side says so over the channel */
} question_t;

/* ------------------------------------------------------------------ who answers */

static pair_t *pair;
static ucxx_fetch_t *kept;
static uint8_t *answer;
static seen_t sent;
static int came;

static question_t question_of(const ucxx_fetch_t *fetch) {
  question_t question;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK_EQ(length, sizeof question);
  memcpy(&question, header, sizeof question);
  return question;
}

static void reply(ucxx_fetch_t *fetch) {
  question_t question = question_of(fetch);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  CHECK(answer == NULL);
  answer = test_alloc(question.length);
  test_fill(answer, question.length, question.seed);
  params.flags = question.flags | UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &sent;
  ucxx_status_t status = ucxx_fetch_reply(fetch, answer, question.length, &params, NULL);
  /* Who asked may have closed its end by now. */
  if (status == UCXX_ERR_CONNECTION_RESET)
    see_completion(&sent, NULL, status);
  else
    CHECK_STATUS(status, UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

static void handle(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  came++;
  if (question_of(fetch).later)
    kept = fetch;
  else
    reply(fetch);
}

/* The end of an answer: OK also where nobody wanted it any more. */
static ucxx_status_t answered(void) {
  while (seen_count(&sent) == 0)
    progress(pair->worker);
  CHECK_EQ(seen_count(&sent), 1);
  ucxx_status_t status = sent.status;
  memset(&sent, 0, sizeof sent);
  free(answer);
  answer = NULL;
  return status;
}

/* Question after question until the other side has had enough. */
static void serve(void) {
  char more = 0;
  for (;;) {
    channel_get(pair, &more, 1);
    if (!more)
      return;
    pair_await(pair);
    while (came == 0) /* also what was cancelled: it had left by then */
      progress(pair->worker);
    came = 0;
    if (kept != NULL) {
      ucxx_fetch_t *fetch = kept;
      kept = NULL;
      reply(fetch);
    }
    if (answer != NULL)
      CHECK_OK(answered());
    pair_tell(pair);
  }
}

/* ------------------------------------------------------------------ who asks */

/* Memory with nothing before it and nothing behind it. */
typedef struct room {
  uint8_t *pages, *data;
  size_t bytes, length;
} room_t;

static room_t room_make(size_t length) {
  size_t page = 4096, bytes = (length + page - 1) / page * page;
  room_t room = {.bytes = bytes, .length = length};
  room.pages = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(room.pages != MAP_FAILED);
  CHECK_EQ(mprotect(room.pages + page, bytes, PROT_READ | PROT_WRITE), 0);
  room.data = room.pages + page + bytes - length; /* at the end, so that a byte too much is one in the guard */
  memset(room.data, FILLER, length);
  return room;
}

static void room_take_away(const room_t *room) {
  CHECK_EQ(mprotect(room->pages + 4096, room->bytes, PROT_NONE), 0);
}

static void room_check(const room_t *room) {
  CHECK_EQ(mprotect(room->pages + 4096, room->bytes, PROT_READ), 0);
  for (size_t at = 0; at < room->length; at++)
    CHECK(room->data[at] == FILLER);
}

static void room_free(const room_t *room) {
  CHECK_EQ(munmap(room->pages, room->bytes + 2 * 4096), 0);
}

static ucxx_request_t *ask(room_t *room, const question_t *question, uint64_t timeout_ns) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = timeout_ns;
  CHECK_STATUS(ucxx_am_fetch(pair->endpoint, ID, question, sizeof *question, room->data, room->length, &params, &request), UCXX_INPROGRESS);
  return request;
}

/* The other side answers what was kept, and goes on when its answers are complete. */
static void let_answer(void) {
  pair_tell(pair);
  pair_await(pair);
}

static question_t question_for(int way, uint32_t later) {
  static uint64_t number;
  question_t question = {.length = SIZES[way % 4], .flags = PROTOCOLS[way / 4], .later = later};
  question.seed = test_mix(pair->seed + number++);
  return question;
}

static void next_question(void) {
  channel_put(pair, "\1", 1);
}

static void too_late(int way, int cancelled) {
  question_t question = question_for(way, 1);
  STEP("%zu bytes, flags %x, after the fetch was %s", (size_t)question.length, (unsigned)question.flags, cancelled ? "cancelled" : "out of time");
  room_t room = room_make(question.length);
  next_question();
  ucxx_request_t *request = ask(&room, &question, cancelled ? 0 : 5 * MILLISECOND);
  if (cancelled)
    CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), cancelled ? UCXX_ERR_CANCELED : UCXX_ERR_TIMED_OUT);
  room_take_away(&room);
  let_answer();
  for (int pass = 0; pass < 100; pass++)
    progress(pair->worker);
  room_check(&room);
  room_free(&room);
}

/* Ends it after so many passes; was it complete by then? */
static int given_up(int way, long passes, uint64_t timeout_ns) {
  question_t question = question_for(way, 0);
  room_t room = room_make(question.length);
  next_question();
  ucxx_request_t *request = ask(&room, &question, timeout_ns);
  for (long pass = 0; pass < passes; pass++)
    progress(pair->worker);
  int complete = 0;
  if (timeout_ns == 0) {
    complete = ucxx_request_status(request) != UCXX_INPROGRESS;
    CHECK_OK(ucxx_request_cancel(request));
  }
  ucxx_status_t status = finish(UCXX_INPROGRESS, &request);
  if (timeout_ns != 0)
    complete = status == UCXX_OK;
  if (status == UCXX_OK) {
    CHECK_CONTENT(room.data, room.length, question.seed);
    room_take_away(&room);
    let_answer();
  } else {
    CHECK_STATUS(status, timeout_ns != 0 ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
    CHECK(!complete);
    room_take_away(&room);
    let_answer();
    for (int pass = 0; pass < 20; pass++)
      progress(pair->worker);
    room_check(&room);
  }
  room_free(&room);
  return complete;
}

static void close_forced(void) {
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_endpoint_close(pair->endpoint, UCXX_CLOSE_FORCE, NULL, &request), &request));
}

static void await_end(void) {
  while (ucxx_endpoint_status(pair->endpoint) == UCXX_OK)
    progress(pair->worker);
}

/* One side closes its endpoint by force when the answer may be half there: 0 the one that asks, 1 the one that answers. */
static void closed_under_way(int way, int passes, int closes) {
  question_t question = question_for(way, 0);
  pair_connect(pair, NULL, NULL, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, handle, NULL, NULL));
  pair_sync(pair);
  STEP("%zu bytes, flags %x, closed by side %d after %d passes", (size_t)question.length, (unsigned)question.flags, closes, passes);
  if (pair->side == 0) {
    room_t room = room_make(question.length);
    ucxx_request_t *request = ask(&room, &question, 0);
    for (int pass = 0; pass < passes; pass++)
      progress(pair->worker);
    if (closes == 0)
      close_forced();
    ucxx_status_t status = finish(UCXX_INPROGRESS, &request);
    uint8_t first = room.data[0];
    if (status == UCXX_OK)
      CHECK_CONTENT(room.data, room.length, question.seed);
    else
      CHECK(closes ? status == UCXX_ERR_CONNECTION_RESET : status == UCXX_ERR_CLOSED || status == UCXX_ERR_CANCELED);
    room_take_away(&room);
    if (closes == 1)
      await_end();
    pair_sync(pair);
    CHECK_EQ(mprotect(room.pages + 4096, room.bytes, PROT_READ), 0);
    CHECK_EQ(room.data[0], first);
    room_free(&room);
  } else {
    if (closes == 1) {
      while (came == 0)
        progress(pair->worker);
      for (int pass = 0; pass < passes; pass++)
        progress(pair->worker);
      close_forced();
    } else {
      await_end();
    }
    if (answer != NULL) {
      ucxx_status_t status = answered();
      CHECK(status == UCXX_OK || (closes ? status == UCXX_ERR_CLOSED || status == UCXX_ERR_CANCELED : status == UCXX_ERR_CONNECTION_RESET));
    }
    came = 0;
    pair_sync(pair);
  }
  ucxx_endpoint_destroy(pair->endpoint);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
  pair->worker = NULL;
}

static void body(pair_t *own) {
  pair = own;
  pair_connect(pair, NULL, NULL, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, handle, NULL, NULL));
  pair_sync(pair);
  if (pair->side == 1) {
    serve();
  } else {
    for (int way = 0; way < WAYS; way++) {
      too_late(way, 0);
      too_late(way, 1);
    }
    for (int way = 0; way < WAYS; way++) {
      STEP("way %d: cancelled after ever more passes", way);
      for (long passes = 0; !given_up(way, passes, 0);)
        passes += 1 + passes / 3;
      STEP("way %d: out of time after ever longer", way);
      for (uint64_t timeout = 1; !given_up(way, 0, timeout);)
        timeout += 1 + timeout / 2;
    }
    STEP("all is well afterwards");
    question_t question = question_for(3, 0);
    room_t room = room_make(question.length);
    next_question();
    ucxx_request_t *request = ask(&room, &question, 0);
    let_answer();
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
    CHECK_CONTENT(room.data, room.length, question.seed);
    room_free(&room);
    channel_put(pair, "\0", 1);
  }
  pair_disconnect(pair);
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  const char *transports = getenv("UCX_TLS");
  /* UCX 1.13 uses an endpoint that it has freed when a TCP peer's socket closes while much is left to be written to it. */
  int careful = version.ucx_major == 1 && version.ucx_minor < 14 && transports != NULL && strstr(transports, "tcp") != NULL;
  for (int closes = 0; closes < 2; closes++)
    for (int way = 0; way < WAYS; way += careful && way % 4 == 2 ? 2 : 1)
      for (int passes = 0; passes <= 64; passes = 1 + 3 * passes)
        closed_under_way(way, passes, closes);
}

int main(int argc, char **argv) {
  return pair_main(argc, argv, "fetch_late", 60, body);
}
