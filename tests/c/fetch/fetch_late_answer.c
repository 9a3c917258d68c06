/*
 * Replies that arrive late, or are abandoned halfway: once a fetch has completed, nothing writes to
 * its buffer. The test makes the buffer inaccessible at that moment, so that a write faults.
 * Everything runs once with one buffer and once with several on both sides.
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
  uint32_t later; /* answered when the other side asks for it over the channel */
  uint32_t scattered;
} question_t;

/* ------------------------------------------------------------------ the replying side */

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

/* Where the second part begins; both parts' contents come from one seed. */
static size_t first_part(size_t length) { return length / 3 / 8 * 8; }

static ucxx_status_t reply_in_form(ucxx_fetch_t *fetch, const question_t *question,
                                   const ucxx_op_params_t *params) {
  if (!question->scattered) return ucxx_fetch_reply(fetch, answer, question->length, params, NULL);
  size_t half = question->length / 2;
  ucxx_buffer_t parts[3] = {{.data = answer, .length = half},
                            {0},
                            {.data = answer + half, .length = question->length - half}};
  return ucxx_fetch_reply_iov(fetch, parts, 3, params, NULL);
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
  ucxx_status_t status = reply_in_form(fetch, &question, &params);
  /* The fetching side may have closed its endpoint by now. */
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

/* Completion of a reply: OK even if nobody waited for it any more. */
static ucxx_status_t answered(void) {
  while (seen_count(&sent) == 0) progress(pair->worker);
  CHECK_EQ(seen_count(&sent), 1);
  ucxx_status_t status = sent.status;
  memset(&sent, 0, sizeof sent);
  free(answer);
  answer = NULL;
  return status;
}

/* Answers fetches until the other side is done. */
static void serve(void) {
  char more = 0;
  for (;;) {
    channel_get(pair, &more, 1);
    if (!more) return;
    STEP("serving");
    pair_await(pair);
    while (came == 0) /* cancelled ones too: they had been sent by then */
      progress(pair->worker);
    came = 0;
    if (kept != NULL) {
      ucxx_fetch_t *fetch = kept;
      kept = NULL;
      reply(fetch);
    }
    if (answer != NULL) CHECK_OK(answered());
    pair_tell(pair);
  }
}

/* ------------------------------------------------------------------ the fetching side */

/* Memory between two inaccessible pages. */
typedef struct area {
  uint8_t *pages, *data;
  size_t bytes, length;
} area_t;

/* A fetch into one buffer has all data in the first part. */
enum { PARTS = 2, PAGE = 4096 };
typedef struct room {
  area_t parts[PARTS];
  size_t length;
} room_t;

static area_t area_make(size_t length) {
  size_t bytes = (length + PAGE - 1) / PAGE * PAGE;
  area_t area = {.bytes = bytes, .length = length};
  area.pages = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area.pages != MAP_FAILED);
  CHECK_EQ(mprotect(area.pages + PAGE, bytes, PROT_READ | PROT_WRITE), 0);
  area.data = area.pages + PAGE + bytes -
              length; /* at the end, so that a byte too many hits the guard page */
  memset(area.data, FILLER, length);
  return area;
}

static room_t room_make(const question_t *question) {
  size_t first = question->scattered ? first_part(question->length) : question->length;
  return (room_t){{area_make(first), area_make(question->length - first)}, question->length};
}

static void room_protect(const room_t *room, int how) {
  for (int part = 0; part < PARTS; part++)
    CHECK_EQ(mprotect(room->parts[part].pages + PAGE, room->parts[part].bytes, how), 0);
}

static void room_take_away(const room_t *room) { room_protect(room, PROT_NONE); }

static void room_check(const room_t *room) {
  room_protect(room, PROT_READ);
  for (int part = 0; part < PARTS; part++)
    for (size_t at = 0; at < room->parts[part].length; at++)
      CHECK(room->parts[part].data[at] == FILLER);
}

static void room_check_content(const room_t *room, uint64_t seed) {
  CHECK_CONTENT(room->parts[0].data, room->parts[0].length, seed);
  CHECK_CONTENT(room->parts[1].data, room->parts[1].length, seed + room->parts[0].length);
}

static uint8_t room_first(const room_t *room) {
  return room->parts[room->parts[0].length == 0].data[0];
}

static void room_free(const room_t *room) {
  for (int part = 0; part < PARTS; part++)
    CHECK_EQ(munmap(room->parts[part].pages, room->parts[part].bytes + 2 * PAGE), 0);
}

static ucxx_request_t *ask(room_t *room, const question_t *question, uint64_t timeout_ns) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_status_t status;
  params.timeout_ns = timeout_ns;
  if (question->scattered) {
    ucxx_buffer_t parts[3] = {{.data = room->parts[0].data, .length = room->parts[0].length},
                              {0},
                              {.data = room->parts[1].data, .length = room->parts[1].length}};
    status = ucxx_am_fetch_iov(pair->endpoint, ID, question, sizeof *question, parts, 3, &params,
                               &request);
  } else {
    status = ucxx_am_fetch(pair->endpoint, ID, question, sizeof *question, room->parts[0].data,
                           room->length, &params, &request);
  }
  CHECK_STATUS(status, UCXX_INPROGRESS);
  return request;
}

/* Lets the other side answer the kept fetches, and waits until the replies have completed. */
static void let_answer(void) {
  pair_tell(pair);
  pair_await(pair);
}

static uint32_t scattered;
static const char *form_name(void) { return scattered ? "in parts" : "in one piece"; }

static question_t question_for(int way, uint32_t later) {
  static uint64_t number;
  question_t question = {.length = SIZES[way % 4],
                         .flags = PROTOCOLS[way / 4],
                         .later = later,
                         .scattered = scattered};
  question.seed = test_mix(pair->seed + number++);
  return question;
}

static void next_question(void) { channel_put(pair, "\1", 1); }

static void too_late(int way, int cancelled) {
  question_t question = question_for(way, 1);
  STEP("%zu bytes %s, flags %x, after the fetch was %s", (size_t)question.length, form_name(),
       (unsigned)question.flags, cancelled ? "cancelled" : "timed out");
  room_t room = room_make(&question);
  next_question();
  ucxx_request_t *request = ask(&room, &question, cancelled ? 0 : 5 * MILLISECOND);
  if (cancelled) CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request),
               cancelled ? UCXX_ERR_CANCELED : UCXX_ERR_TIMED_OUT);
  room_take_away(&room);
  let_answer();
  for (int pass = 0; pass < 100; pass++) progress(pair->worker);
  room_check(&room);
  room_free(&room);
}

/* Ends the fetch after so many passes. Returns whether it had completed by then. */
static int given_up(int way, long passes, uint64_t timeout_ns) {
  question_t question = question_for(way, 0);
  room_t room = room_make(&question);
  next_question();
  ucxx_request_t *request = ask(&room, &question, timeout_ns);
  for (long pass = 0; pass < passes; pass++) progress(pair->worker);
  int complete = 0;
  if (timeout_ns == 0) {
    complete = ucxx_request_status(request) != UCXX_INPROGRESS;
    CHECK_OK(ucxx_request_cancel(request));
  }
  ucxx_status_t status = finish(UCXX_INPROGRESS, &request);
  if (timeout_ns != 0) complete = status == UCXX_OK;
  if (status == UCXX_OK) {
    room_check_content(&room, question.seed);
    room_take_away(&room);
    let_answer();
  } else {
    CHECK_STATUS(status, timeout_ns != 0 ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED);
    CHECK(!complete);
    room_take_away(&room);
    let_answer();
    for (int pass = 0; pass < 20; pass++) progress(pair->worker);
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
  while (ucxx_endpoint_status(pair->endpoint) == UCXX_OK) progress(pair->worker);
}

/* One side closes its endpoint by force when the reply may be half transferred: 0 the fetching
 * side, 1 the replying side. */
static void closed_under_way(int way, int passes, int closes) {
  question_t question = question_for(way, 0);
  pair_connect(pair, NULL, NULL, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, handle, NULL, NULL));
  pair_sync(pair);
  STEP("%zu bytes %s, flags %x, closed by side %d after %d passes", (size_t)question.length,
       form_name(), (unsigned)question.flags, closes, passes);
  if (pair->side == 0) {
    room_t room = room_make(&question);
    ucxx_request_t *request = ask(&room, &question, 0);
    for (int pass = 0; pass < passes; pass++) progress(pair->worker);
    if (closes == 0) close_forced();
    ucxx_status_t status = finish(UCXX_INPROGRESS, &request);
    uint8_t first = room_first(&room);
    if (status == UCXX_OK)
      room_check_content(&room, question.seed);
    else
      CHECK(closes ? status == UCXX_ERR_CONNECTION_RESET
                   : status == UCXX_ERR_CLOSED || status == UCXX_ERR_CANCELED);
    room_take_away(&room);
    if (closes == 1) await_end();
    pair_sync(pair);
    room_protect(&room, PROT_READ);
    CHECK_EQ(room_first(&room), first);
    room_free(&room);
  } else {
    if (closes == 1) {
      while (came == 0) progress(pair->worker);
      for (int pass = 0; pass < passes; pass++) progress(pair->worker);
      close_forced();
    } else {
      await_end();
    }
    if (answer != NULL) {
      ucxx_status_t status = answered();
      CHECK(status == UCXX_OK || (closes ? status == UCXX_ERR_CLOSED || status == UCXX_ERR_CANCELED
                                         : status == UCXX_ERR_CONNECTION_RESET));
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
    for (scattered = 0; scattered < 2; scattered++) {
      for (int way = 0; way < WAYS; way++) {
        too_late(way, 0);
        too_late(way, 1);
      }
      for (int way = 0; way < WAYS; way++) {
        STEP("way %d %s: cancelled after more and more passes", way, form_name());
        for (long passes = 0; !given_up(way, passes, 0);) passes += 1 + passes / 3;
        STEP("way %d %s: timed out after longer and longer", way, form_name());
        for (uint64_t timeout = 1; !given_up(way, 0, timeout);) timeout += 500 + timeout / 2;
      }
      STEP("the connection works afterwards");
      question_t question = question_for(3, 0);
      room_t room = room_make(&question);
      next_question();
      ucxx_request_t *request = ask(&room, &question, 0);
      let_answer();
      CHECK_OK(finish(UCXX_INPROGRESS, &request));
      room_check_content(&room, question.seed);
      room_free(&room);
    }
    channel_put(pair, "\0", 1);
  }
  pair_disconnect(pair);
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  const char *transports = getenv("UCX_TLS");
  /* UCX 1.13 uses a freed endpoint if a TCP peer's socket closes with much left to write. */
  int careful = version.ucx_major == 1 && version.ucx_minor < 14 && transports != NULL &&
                strstr(transports, "tcp") != NULL;
  for (int closes = 0; closes < 4; closes++) {
    scattered = closes / 2;
    for (int way = 0; way < WAYS; way++) {
      if ((careful && way % 4 == 3) || (scattered && way % 2 == 0)) continue;
      for (int passes = 0; passes <= 64; passes = 1 + (scattered ? 12 : 3) * passes)
        closed_under_way(way, passes, closes % 2);
    }
  }
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fetch_late_answer", body); }
