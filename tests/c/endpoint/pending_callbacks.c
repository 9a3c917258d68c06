/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Work that is still due when its endpoint changes:
 * - Callbacks of a closed endpoint run after its last handle is destroyed, and touch none of its
 *   memory.
 * - Fetches that another thread drops are answered while the worker sends to itself.
 * - An endpoint to a peer that has already connected here is the same connection, however much
 *   waits on it.
 * - A timeout that closes an endpoint completes its flushes in every state; UCX 1.22 crashed there.
 */
#include "test_util.h"

#include <malloc.h>
#include <pthread.h>

enum { ID = 1, TAG = 5, QUESTIONS = 8, LONG = 4 << 20, ROUNDS = 60, FLUSHES = 5, SENDS = 20 };

static duo_t duo;
static uint8_t data[LONG], room[LONG];

/* ------------------------------------------------------------------ a guard for freed memory */

/* Replaces the C library's free. While it is on, freed blocks are kept and filled with a
 * pattern. */
enum { BLOCKS = 1 << 14, FILLING = 0xa5 };
extern void __libc_free(void *);
static struct {
  uint8_t *data;
  size_t length;
} blocks[BLOCKS];
static int guard_is_on, block_count;

void free(void *block) {
  int at = BLOCKS;
  if (block != NULL && __atomic_load_n(&guard_is_on, __ATOMIC_RELAXED))
    at = __atomic_fetch_add(&block_count, 1, __ATOMIC_RELAXED);
  if (at >= BLOCKS) {
    __libc_free(block);
    return;
  }
  blocks[at].data = block;
  blocks[at].length = malloc_usable_size(block);
  memset(block, FILLING, blocks[at].length);
}

static void guard(int on) { __atomic_store_n(&guard_is_on, on, __ATOMIC_RELAXED); }

static void check_freed(void) {
  guard(0);
  CHECK(block_count < BLOCKS);
  for (; block_count > 0; block_count--) {
    for (size_t at = 0; at < blocks[block_count - 1].length; at++)
      if (blocks[block_count - 1].data[at] != FILLING)
        FAIL("byte %zu of %zu was written after the block was freed", at,
             blocks[block_count - 1].length);
    __libc_free(blocks[block_count - 1].data);
  }
}

/* ------------------------------------------------------------------ callbacks of destroyed
 * endpoints */

static ucxx_status_t close_by(uint32_t mode, const ucxx_op_params_t *params) {
  return ucxx_endpoint_close(duo.to_right, mode, params, NULL);
}
static ucxx_status_t close_flushing(const ucxx_op_params_t *params) {
  return close_by(UCXX_CLOSE_FLUSH, params);
}
static ucxx_status_t close_by_force(const ucxx_op_params_t *params) {
  return close_by(UCXX_CLOSE_FORCE, params);
}
static ucxx_status_t receive_rest(const ucxx_op_params_t *params) {
  return ucxx_stream_recv(duo.to_right, room, 200, params, NULL);
}

static uint64_t endpoints_of(const ucxx_worker_t *worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  return stats.endpoints;
}

static void gone(const char *what, ucxx_status_t (*operate)(const ucxx_op_params_t *params),
                 ucxx_status_t expected) {
  STEP("%s with a callback, on a closed endpoint that is then destroyed", what);
  ucxx_context_params_t features = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  seen_t seen = {0};
  features.features = UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_WAKEUP;
  params.callback = see_completion;
  params.callback_arg = &seen;
  duo_open(&duo, &features);
  CHECK_OK(duo_finish(&duo, ucxx_stream_send(duo.to_left, data, 100, NULL, &request), &request));
  duo_drop(&duo, duo.to_left);
  while (endpoints_of(duo.left) > 0) duo_progress(&duo);
  CHECK_STATUS(operate(&params), UCXX_INPROGRESS);
  guard(1);
  ucxx_endpoint_destroy(duo.to_right);
  for (int pass = 0; pass < 100 || seen.count == 0; pass++) duo_progress(&duo);
  check_freed();
  CHECK_EQ(seen.count, 1);
  CHECK_STATUS(seen.status, expected);
  duo.to_right = connect_workers(duo.left, duo.right);
  duo.to_left = connect_workers(duo.right, duo.left);
  duo_transfer(&duo, 100, 2);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ a worker connected to
 * itself */

static ucxx_fetch_t *questions[QUESTIONS];
static int asked;

static void ask(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  questions[asked++] = fetch;
}

static void *drop_questions(void *arg) {
  for (int at = 0; at < QUESTIONS; at++) ucxx_fetch_destroy(questions[at]);
  return arg;
}

static void to_oneself(void) {
  STEP("a send to the same worker, and fetches dropped by another thread");
  ucxx_context_params_t features = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_request_t *fetches[QUESTIONS], *receive = NULL, *send = NULL;
  uint64_t words[QUESTIONS];
  pthread_t thread;
  params.thread_mode = UCXX_THREAD_SINGLE;
  memset(&duo, 0, sizeof duo);
  features.features = UCXX_FEATURE_TAG | UCXX_FEATURE_AM;
  CHECK_OK(ucxx_context_create(&features, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  duo.to_left = connect_workers(duo.right, duo.left);
  duo_transfer(&duo, 8, 1);
  ucxx_endpoint_t *self = connect_workers(duo.left, duo.left);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.left, ID, ask, NULL, NULL));
  for (int at = 0; at < QUESTIONS; at++)
    CHECK_STATUS(
        ucxx_am_fetch(duo.to_left, ID, NULL, 0, &words[at], sizeof *words, NULL, &fetches[at]),
        UCXX_INPROGRESS);
  while (asked < QUESTIONS) duo_progress(&duo);
  /* The window to right is full: the replies must wait. */
  while (ucxx_tag_send(duo.to_right, data, 4000, TAG, NULL, NULL) == UCXX_OK) continue;
  CHECK_EQ(pthread_create(&thread, NULL, drop_questions, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  /* The receive fails within UCX's call. None of this needs right. */
  CHECK_STATUS(ucxx_tag_recv(duo.left, room, 10, TAG, UINT64_MAX, NULL, &receive), UCXX_INPROGRESS);
  ucxx_status_t sent = ucxx_tag_send(self, data, LONG, TAG, NULL, &send);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_MESSAGE_TRUNCATED);
  CHECK_OK(finish(sent, &send));
  for (int at = 0; at < QUESTIONS; at++)
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &fetches[at]), UCXX_ERR_CANCELED);
  duo_drop(&duo, self);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ the same connection */

static ucxx_endpoint_t *reply;

static void keep_reply(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK_OK(ucxx_endpoint_retain(ucxx_am_message_reply(message), &reply));
  ucxx_am_message_destroy(message);
}

static void same_connection(void) {
  STEP("an endpoint to a peer with many waiting sends");
  enum { LENGTH = 1 << 20 };
  ucxx_context_params_t features = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  char text[8] = "";
  int sent = 0;
  memset(&duo, 0, sizeof duo);
  features.features =
      UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP;
  params.flags = UCXX_FLAG_AM_REPLY;
  CHECK_OK(ucxx_context_create(&features, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, keep_reply, NULL, NULL));
  duo.to_right = connect_workers(duo.left, duo.right);
  CHECK(ucxx_am_send(duo.to_right, ID, NULL, 0, NULL, 0, &params, NULL) >= 0);
  while (reply == NULL) duo_progress(&duo);
  for (; ucxx_endpoint_writable(reply); sent++)
    CHECK(ucxx_tag_send(reply, data, LENGTH, TAG, NULL, NULL) >= 0);
  duo.to_left = connect_workers(duo.right, duo.left);
  CHECK_OK(duo_finish(&duo, ucxx_stream_send(duo.to_right, "message", sizeof text, NULL, &request),
                      &request));
  CHECK_OK(
      duo_finish(&duo, ucxx_stream_recv(duo.to_left, text, sizeof text, NULL, &request), &request));
  CHECK(strcmp(text, "message") == 0);
  for (; sent > 0; sent--)
    CHECK_OK(duo_finish(
        &duo, ucxx_tag_recv(duo.left, room, LENGTH, TAG, UINT64_MAX, NULL, &request), &request));
  ucxx_endpoint_destroy(reply);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ flushes when a timeout
 * expires */

static void out_of_time(void) {
  ucxx_context_t *context = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  for (int round = 0; round < ROUNDS; round++) {
    STEP("flushes on an endpoint closed by a timeout: round %d", round);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *flushes[FLUSHES] = {NULL}, *fetch = NULL, *close = NULL;
    ucxx_status_t statuses[FLUSHES];
    uint64_t word = 0;
    duo = (duo_t){.context = context};
    CHECK_OK(ucxx_worker_create(context, NULL, &duo.left));
    CHECK_OK(ucxx_worker_create(context, NULL, &duo.right));
    CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, ask, NULL, NULL));
    asked = 0;
    duo.to_right = connect_workers(duo.left, duo.right);
    CHECK(ucxx_tag_send(duo.to_right, data, 8, TAG, NULL, NULL) >= 0);
    /* During UCX's connection setup, or later. */
    for (int pass = 0; pass < round % 40; pass++) duo_progress(&duo);
    for (int sent = 0; sent < SENDS; sent++)
      CHECK(ucxx_tag_send(duo.to_right, data, 8000, TAG, NULL, NULL) >= 0);
    for (int at = 0; at < FLUSHES; at++)
      statuses[at] = ucxx_endpoint_flush(duo.to_right, NULL, &flushes[at]);
    params.timeout_ns = 1000 + (uint64_t)round * 500;
    params.flags = UCXX_FLAG_TIMEOUT_CLOSES;
    /* Nobody replies, and nobody receives. */
    CHECK_STATUS(ucxx_am_fetch(duo.to_right, ID, NULL, 0, &word, sizeof word, &params, &fetch),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_send(duo.to_right, data, LONG, TAG, &params, NULL), UCXX_INPROGRESS);
    while (ucxx_endpoint_status(duo.to_right) == UCXX_OK) duo_progress(&duo);
    CHECK_STATUS(ucxx_endpoint_status(duo.to_right), UCXX_ERR_TIMED_OUT);
    for (int at = 0; at < FLUSHES; at++) {
      ucxx_status_t status = duo_finish(&duo, statuses[at], &flushes[at]);
      CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT);
    }
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &fetch), UCXX_ERR_TIMED_OUT);
    ucxx_status_t status =
        duo_finish(&duo, ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FORCE, NULL, &close), &close);
    CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT);
    ucxx_endpoint_destroy(duo.to_right);
    if (asked > 0) ucxx_fetch_destroy(questions[0]);
    ucxx_worker_destroy(duo.left);
    ucxx_worker_destroy(duo.right);
  }
  ucxx_context_destroy(context);
}

int main(void) {
  test_begin("pending_callbacks");
  gone("a close", close_flushing, UCXX_OK);
  gone("a close by force", close_by_force, UCXX_OK);
  gone("a receive of a stream's rest", receive_rest, UCXX_ERR_CONNECTION_RESET);
  to_oneself();
  same_connection();
  out_of_time();
  return 0;
}
