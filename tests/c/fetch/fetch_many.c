/*
 * A hundred thousand fetches in flight at once, none answered until all have arrived; then they are
 * answered in another order. The rounds repeat without growth of memory.
 */
#include "test_util.h"

#include <malloc.h>

enum { ID = 1, FETCHES = 100000, ROUNDS = 4, REFUSED = -1001 };
/* For rounds that need some hundred MiB. Objects change their roles from round to round, until each
 * has been large enough for all of them. */
static const long GROWTH_KIB = 32 * 1024;
static const long LEFT_KIB = 16 * 1024;

typedef struct question {
  uint32_t number, length;
} question_t;

typedef struct fetch {
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  uint8_t buffer[48];
} fetch_t;

static pair_t *pair;
static ucxx_fetch_t **kept;
static uint32_t came;

static uint32_t length_of(uint32_t number) {
  return (uint32_t)(test_mix(pair->seed + number) % 49);
}

static void keep(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  question_t question;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK_EQ(length, sizeof question);
  memcpy(&question, header, sizeof question);
  CHECK_EQ(question.number, came); /* in the order in which they were sent */
  CHECK_EQ(question.length, length_of(question.number));
  CHECK_EQ(ucxx_fetch_capacity(fetch), 48);
  kept[came++] = fetch;
}

static void answer(uint32_t number) {
  uint8_t data[48];
  uint32_t length = length_of(number);
  ucxx_status_t status;
  if (number % 10 == 9) {
    CHECK_OK(ucxx_fetch_reject(kept[number], REFUSED));
  } else {
    test_fill(data, length, number);
    ucxx_request_t *request = NULL;
    status = ucxx_fetch_reply(kept[number], data, length, NULL, &request);
    CHECK_OK(finish(status, &request));
  }
  ucxx_fetch_destroy(kept[number]);
}

static void answer_round(uint32_t round) {
  while (came < FETCHES) progress(pair->worker);
  /* Reset here: the next round's first fetch may arrive while this side still waits at the end of
   * this round. */
  came = 0;
  STEP("round %u: all have arrived", round);
  pair_sync(pair);
  uint32_t *order = test_alloc(FETCHES * sizeof *order);
  for (uint32_t at = 0; at < FETCHES; at++) {
    uint32_t other = (uint32_t)(test_mix(pair->seed * 3 + at + round) % (at + 1));
    order[at] = order[other];
    order[other] = at;
  }
  for (uint32_t at = 0; at < FETCHES; at++) answer(order[at]);
  free(order);
}

static void ask_round(uint32_t round, fetch_t *fetches) {
  for (uint32_t at = 0; at < FETCHES; at++) {
    question_t question = {at, length_of(at)};
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.recv_info = &fetches[at].info;
    params.memory_type = UCXX_MEMORY_HOST;
    memset(fetches[at].buffer, 0x77, sizeof fetches[at].buffer);
    ucxx_status_t status;
    while ((status = ucxx_am_fetch(pair->endpoint, ID, &question, sizeof question,
                                   fetches[at].buffer, 48, &params, &fetches[at].request)) ==
           UCXX_ERR_NO_RESOURCE)
      progress(pair->worker); /* the send queue is full */
    CHECK_STATUS(status, UCXX_INPROGRESS);
  }
  STEP("round %u: all are sent", round);
  pair_sync(pair);
  ucxx_endpoint_load_t attr = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_endpoint_query_load(pair->endpoint, &attr));
  CHECK_EQ(attr.queued_operations, 0);
  for (uint32_t at = 0; at < FETCHES; at++) {
    ucxx_status_t status = finish(UCXX_INPROGRESS, &fetches[at].request);
    if (at % 10 == 9) {
      CHECK_STATUS(status, REFUSED);
      continue;
    }
    uint32_t length = length_of(at);
    CHECK_OK(status);
    CHECK_EQ(fetches[at].info.length, length);
    CHECK_CONTENT(fetches[at].buffer, length, at);
    for (uint32_t byte = length; byte < 48; byte++) CHECK_EQ(fetches[at].buffer[byte], 0x77);
  }
}

static void body(pair_t *own) {
  pair = own;
  footprint_t before = footprint_now();
  pair_connect(pair, NULL, NULL, NULL);
  kept = calloc(FETCHES, sizeof *kept);
  fetch_t *fetches = calloc(FETCHES, sizeof *fetches);
  CHECK(kept != NULL && fetches != NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, keep, NULL, NULL));
  pair_sync(pair);
  footprint_t first = before;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    if (pair->side == 0)
      ask_round(round, fetches);
    else
      answer_round(round);
    pair_sync(pair);
    footprint_t now = footprint_now();
    if (round == 0)
      first = now;
    else
      CHECK(now.resident_kib <= first.resident_kib + GROWTH_KIB);
  }
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair->worker, &stats));
  CHECK_EQ(stats.in_flight, 0);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, NULL, NULL, NULL));
  pair_disconnect(pair);
  free(kept);
  free(fetches);
  malloc_trim(0);
  footprint_t last = footprint_now();
  printf("side %d: %ld KiB resident before, %ld in the middle, %ld at the end\n", pair->side,
         before.resident_kib, first.resident_kib, last.resident_kib);
  CHECK(last.resident_kib <= before.resident_kib + LEFT_KIB);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fetch_many", body); }
