/*
 * One side sends messages without pause; the other destroys them and sends fetches meanwhile. The
 * fetches do not delay the credit updates to the sender. Fetches kept unanswered on both sides
 * block neither.
 */
#include "test_util.h"

enum { ID = 1, MESSAGES = 3000, EACH = 600 };

static pair_t *pair;
static const ucxx_worker_params_t *params;
static int arrived, came;
static ucxx_fetch_t *kept[EACH];

static void count(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  ucxx_am_message_destroy(message);
  __atomic_fetch_add(&arrived, 1, __ATOMIC_RELEASE);
}

static void answer(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  static const uint64_t word = 42;
  ucxx_status_t status = ucxx_fetch_reply(fetch, &word, sizeof word, NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

static void keep(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  kept[__atomic_load_n(&came, __ATOMIC_RELAXED)] = fetch;
  __atomic_fetch_add(&came, 1, __ATOMIC_RELEASE);
}

static void await(const int *number, int least) {
  while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < least) progress(pair->worker);
}

static ucxx_request_t *ask(uint64_t *word) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_am_fetch(pair->endpoint, ID, NULL, 0, word, sizeof *word, NULL, &request),
               UCXX_INPROGRESS);
  return request;
}

static void send_all(void) {
  for (int at = 0; at < MESSAGES; at++) {
    ucxx_request_t *request = NULL;
    uint64_t word = (uint64_t)at;
    CHECK_OK(finish(ucxx_am_send(pair->endpoint, ID, NULL, 0, &word, sizeof word, NULL, &request),
                    &request));
  }
}

/* Fetches once every few messages: more often than credit is returned by itself. */
static void take_all(int every) {
  for (int taken = 0; taken < MESSAGES; taken += every) {
    uint64_t word = 0;
    await(&arrived, taken + every < MESSAGES ? taken + every : MESSAGES);
    ucxx_request_t *request = ask(&word);
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
    CHECK_EQ(word, 42);
  }
}

static void round_of(const ucxx_worker_params_t *given, const char *mode) {
  params = given;
  arrived = came = 0;
  pair_connect(pair, NULL, params, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, count, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, answer, NULL, NULL));
  pair_sync(pair);
  for (int every = 1; every <= 100; every = every * 3 + 1) {
    STEP("%s: a fetch for every %d messages", mode, every);
    if (pair->side == 0)
      send_all();
    else
      take_all(every);
    arrived = 0;
    pair_sync(pair);
  }
  STEP("%s: %d fetches each, none answered until all have arrived", mode, (int)EACH);
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, ID, keep, NULL, NULL));
  pair_sync(pair);
  static uint64_t words[EACH];
  ucxx_request_t *requests[EACH];
  for (int at = 0; at < EACH; at++) requests[at] = ask(&words[at]);
  await(&came, EACH);
  for (int at = 0; at < EACH; at++) answer(NULL, kept[at]);
  for (int at = 0; at < EACH; at++) CHECK_OK(finish(UCXX_INPROGRESS, &requests[at]));
  pair_disconnect(pair);
}

static void body(pair_t *own) {
  pair = own;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fetch_credit", body); }
