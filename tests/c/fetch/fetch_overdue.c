/*
 * Late replies, reserved places and on_writable notifications never leave a connection without
 * credit, or an accepted fetch without its place.
 */
#include "test_util.h"

#include <sched.h>

enum { ID = 7, CREDITS = 256, LARGE = 64 << 10 };

static ucxx_fetch_t *last;
static ucxx_am_message_t *kept[CREDITS];
static unsigned arrived;

static void hold(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  last = fetch;
}

static void keep(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK(arrived < CREDITS);
  kept[arrived++] = message;
}

static ucxx_fetch_t *question(const duo_t *duo) {
  while (last == NULL) duo_progress(duo);
  ucxx_fetch_t *fetch = last;
  last = NULL;
  return fetch;
}

/* A reply's credit update counts, even if its fetch has already ended. */
static void late_in_a_row(void) {
  duo_t duo;
  uint64_t word = 0;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, NULL, NULL));
  for (int at = 0; at < 3 * CREDITS; at++) {
    STEP("late reply %d in a row", at);
    ucxx_request_t *request = NULL, *answer = NULL;
    CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, &word, sizeof word, NULL, &request),
                 UCXX_INPROGRESS);
    ucxx_fetch_t *fetch = question(&duo);
    CHECK_OK(ucxx_request_cancel(request));
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
    if (at % 2)
      CHECK_OK(ucxx_fetch_reject(fetch, UCXX_ERR_BUSY));
    else
      CHECK_OK(
          duo_finish(&duo, ucxx_fetch_reply(fetch, &word, sizeof word, NULL, &answer), &answer));
    ucxx_fetch_destroy(fetch);
    duo_progress(&duo);
  }
  duo_close(&duo);
}

static int released;

static void hold_up(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE)) sched_yield();
}

static void answer_all(void *arg, ucxx_fetch_t *fetch) {
  static const uint64_t word = 42;
  (void)arg;
  ucxx_status_t status = ucxx_fetch_reply(fetch, &word, sizeof word, NULL, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

/* The progress thread is blocked in a callback while more fetches are submitted than their endpoint
 * has room for. Every accepted fetch has its place. */
static void promised(void) {
  STEP("fetches accepted by the submission queue, on an endpoint with little room");
  enum { QUEUE = 4, MANY = CREDITS + 100 };
  duo_t duo = {0};
  ucxx_worker_params_t threaded = UCXX_WORKER_PARAMS_INIT;
  ucxx_endpoint_params_t narrow = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t callback = UCXX_OP_PARAMS_INIT;
  ucxx_address_t *address = NULL;
  ucxx_request_t *requests[MANY] = {NULL}, *receive = NULL, *sent = NULL;
  static uint64_t words[MANY];
  uint64_t word = 0;
  int held = 0;
  threaded.thread_mode = UCXX_THREAD_MULTI;
  threaded.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  threaded.delayed_submission = 1;
  narrow.send_queue_ops = QUEUE;
  callback.callback = hold_up;
  callback.callback_arg = &held;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &threaded, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_endpoint_create(duo.left, address, &narrow, &duo.to_right));
  ucxx_address_destroy(address);
  duo.to_left = connect_workers(duo.right, duo.left);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, answer_all, NULL, NULL));
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, words, sizeof word, NULL, &requests[0]),
               UCXX_INPROGRESS);
  while (ucxx_request_status(requests[0]) == UCXX_INPROGRESS) progress(duo.right);
  ucxx_request_destroy(requests[0]);
  CHECK_STATUS(ucxx_tag_recv(duo.left, &word, sizeof word, 1, UINT64_MAX, &callback, &receive),
               UCXX_INPROGRESS);
  CHECK(ucxx_tag_send(duo.to_left, &word, sizeof word, 1, NULL, &sent) >= 0);
  while (!__atomic_load_n(&held, __ATOMIC_ACQUIRE)) progress(duo.right);
  int taken = 0;
  ucxx_status_t status = UCXX_INPROGRESS;
  while (taken < MANY && status == UCXX_INPROGRESS) {
    status = ucxx_am_fetch(duo.to_right, ID, NULL, 0, &words[taken], sizeof word, NULL,
                           &requests[taken]);
    taken += status == UCXX_INPROGRESS;
  }
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
  /* The first one's credit may not have come back. */
  CHECK(taken == CREDITS + QUEUE || taken == CREDITS - 1 + QUEUE);
  __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
  for (int at = 0; at < taken; at++) {
    while (ucxx_request_status(requests[at]) == UCXX_INPROGRESS) progress(duo.right);
    CHECK_OK(ucxx_request_status(requests[at]));
    ucxx_request_destroy(requests[at]);
  }
  while (sent != NULL && ucxx_request_status(sent) == UCXX_INPROGRESS) progress(duo.right);
  ucxx_request_destroy(sent);
  ucxx_request_destroy(receive);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

static unsigned told;

static void tell(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  CHECK_OK(status);
  told++;
}

static ucxx_status_t offer(const duo_t *duo, size_t length, ucxx_request_t **request) {
  static uint8_t bytes[LARGE];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT | UCXX_FLAG_EAGER;
  return ucxx_am_send(duo->to_right, ID, NULL, 0, bytes, length, &params, request);
}

/* The credit suffices for short messages and not for a long one. A sender of a refused long message
 * is notified when that has changed, and not before. */
static void room_for_what_was_refused(void) {
  STEP("a long message is refused for lack of credit");
  duo_t duo;
  ucxx_request_t *requests[CREDITS] = {NULL}, *more = NULL;
  unsigned sent = 0;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, keep, NULL, NULL));
  while (sent < CREDITS && offer(&duo, LARGE, &requests[sent]) >= 0) {
    sent++;
    duo_progress(&duo);
  }
  CHECK(sent > 0 && sent < CREDITS);
  while (arrived < sent) duo_progress(&duo);
  CHECK_STATUS(offer(&duo, LARGE, &more), UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_endpoint_on_writable(duo.to_right, tell, NULL));
  for (int pass = 0; pass < 1000; pass++) duo_progress(&duo);
  CHECK_EQ(told, 0);
  CHECK(!ucxx_endpoint_writable(duo.to_right));
  ucxx_status_t short_one = offer(&duo, 8, &more);
  CHECK(short_one >= 0);
  CHECK_OK(duo_finish(&duo, short_one, &more));
  while (arrived < sent + 1) duo_progress(&duo);
  for (unsigned at = 0; at < arrived; at++) ucxx_am_message_destroy(kept[at]);
  while (told == 0) duo_progress(&duo);
  CHECK(ucxx_endpoint_writable(duo.to_right));
  ucxx_status_t again = offer(&duo, LARGE, &more);
  CHECK(again >= 0);
  CHECK_OK(duo_finish(&duo, again, &more));
  for (unsigned at = 0; at < sent; at++)
    if (requests[at] != NULL) CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &requests[at]));
  CHECK_EQ(told, 1);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, NULL, NULL, NULL));
  duo_close(&duo);
}

int main(void) {
  test_begin("fetch_overdue");
  late_in_a_row();
  promised();
  room_for_what_was_refused();
  return 0;
}
