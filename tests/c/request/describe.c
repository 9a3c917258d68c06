/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* What UCX says of requests. Workers keep it that were created for it, until the request is
 * destroyed. What such workers do is the same as everywhere. */
#include "progress_thread.h"
#include "rma.h"

enum {
  LARGE = 1 << 20,
  TAG = 0xa1,
  NEVER = 0xa2,
  ID = 3,
  LONGEST = 1024,
  AT_ONCE = 30000, /* messages, in the round that looks for what UCX has not got back */
  GROWTH_KIB = 5 * 1024,
};
static const size_t sizes[] = {1, 64, 8192, 100000, LARGE, 8 * LARGE};

static const char *const WAITS = "waits in the library";
static const char *const DONE = "completed at once";
static const char *const OTHERS = "UCX does not describe";

typedef struct describing {
  const char *mode;
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_endpoint_t *to_right, *to_left;
  uint8_t *out, *in;
  ucxx_am_message_t *volatile held;
} describing_t;

static int starts(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static void describe(const ucxx_request_t *request, char *text) {
  memset(text, 'x', LONGEST);
  CHECK_OK(ucxx_request_describe(request, text, LONGEST));
  size_t length = strnlen(text, LONGEST);
  CHECK(length > 0 && length < LONGEST);
}

static void refused(const ucxx_request_t *request) {
  char text[LONGEST] = "unchanged";
  CHECK_STATUS(ucxx_request_describe(request, text, sizeof text), UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("describe_requests");
  CHECK(strcmp(text, "unchanged") == 0);
}

static void both_pass(const describing_t *d) {
  progress(d->left);
  progress(d->right);
}

/* Waits until UCX has it; the text must have `word`. */
static void by_ucx(const describing_t *d, const ucxx_request_t *request, const char *word) {
  char text[LONGEST], again[LONGEST];
  for (describe(request, text); starts(text, WAITS); describe(request, text)) both_pass(d);
  STEP("%s: %s", d->mode, text);
  if (starts(text, DONE)) return;
  CHECK(!starts(text, OTHERS));
  if (strstr(text, word) == NULL) FAIL("\"%s\" has no \"%s\"", text, word);
  size_t length = strlen(text);
  memset(again, 'x', sizeof again);
  CHECK_STATUS(ucxx_request_describe(request, again, length), UCXX_ERR_BUFFER_TOO_SMALL);
  CHECK_MESSAGE("capacity");
  CHECK(again[0] == 'x');
  CHECK_OK(ucxx_request_describe(request, again, length + 1));
  CHECK(strcmp(text, again) == 0);
}

static ucxx_status_t ended(const describing_t *d, ucxx_status_t status, ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) return status;
  while ((status = ucxx_request_status(*request)) == UCXX_INPROGRESS) both_pass(d);
  char text[LONGEST];
  describe(*request, text);
  CHECK(!starts(text, WAITS));
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

static void hold(void *arg, ucxx_am_message_t *message) { ((describing_t *)arg)->held = message; }

static void open(describing_t *d, const ucxx_worker_params_t *params, const char *mode) {
  ucxx_worker_params_t with = *params;
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  context.features = UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM | UCXX_FEATURE_RMA |
                     UCXX_FEATURE_WAKEUP;
  memset(d, 0, sizeof *d);
  d->mode = mode;
  with.describe_requests = 1;
  CHECK_OK(ucxx_context_create(&context, &d->context));
  CHECK_OK(ucxx_worker_create(d->context, &with, &d->left));
  CHECK_OK(ucxx_worker_create(d->context, &with, &d->right));
  CHECK_OK(ucxx_worker_set_am_handler(d->right, ID, hold, d, NULL));
  d->to_right = connect_workers(d->left, d->right);
  d->to_left = connect_workers(d->right, d->left);
  d->out = test_alloc(8 * LARGE);
  d->in = test_alloc(8 * LARGE);
  test_fill(d->out, 8 * LARGE, 7);
}

static void close_all(describing_t *d) {
  ucxx_worker_destroy(d->left);
  ucxx_worker_destroy(d->right);
  ucxx_endpoint_destroy(d->to_right);
  ucxx_endpoint_destroy(d->to_left);
  ucxx_context_destroy(d->context);
  free(d->in);
  free(d->out);
}

static ucxx_status_t send_tag(const describing_t *d, size_t length, ucxx_request_t **request) {
  return ucxx_tag_send(d->to_right, d->out, length, TAG, NULL, request);
}

/* It does not complete before its receive, however UCX sends it. */
static ucxx_status_t send_until_received(const describing_t *d, size_t length,
                                         const ucxx_op_params_t *params, ucxx_request_t **request) {
  return ucxx_tag_send_sync(d->to_right, d->out, length, TAG, params, request);
}

static ucxx_status_t receive_tag(const describing_t *d, size_t length, ucxx_request_t **request) {
  return ucxx_tag_recv(d->right, d->in, length, TAG, UINT64_MAX, NULL, request);
}

static void tags(const describing_t *d) {
  for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
    size_t length = sizes[at];
    char word[32];
    snprintf(word, sizeof word, "length %zu", length);
    for (int first = 0; first < 2; first++) {
      ucxx_request_t *send = NULL, *receive = NULL;
      ucxx_status_t received = UCXX_OK, sent = UCXX_OK;
      memset(d->in, 0, length);
      for (int step = 0; step < 2; step++) {
        if (step == first) {
          sent = send_tag(d, length, &send);
          if (sent == UCXX_INPROGRESS) by_ucx(d, send, word);
        } else {
          received = receive_tag(d, length, &receive);
          if (received == UCXX_INPROGRESS) by_ucx(d, receive, word);
        }
      }
      CHECK_OK(ended(d, received, &receive));
      CHECK_OK(ended(d, sent, &send));
      CHECK_CONTENT(d->in, length, 7);
    }
    ucxx_request_t *send = NULL, *receive = NULL;
    ucxx_status_t sent = send_until_received(d, length, NULL, &send);
    CHECK_STATUS(sent, UCXX_INPROGRESS);
    by_ucx(d, send, word);
    CHECK_OK(ended(d, receive_tag(d, length, &receive), &receive));
    CHECK_OK(ended(d, sent, &send));
  }
}

static void cancelled(const describing_t *d) {
  ucxx_request_t *receive = NULL;
  uint64_t value;
  for (int round = 0; round < 3; round++) {
    CHECK_STATUS(ucxx_tag_recv(d->left, &value, 8, NEVER, UINT64_MAX, NULL, &receive),
                 UCXX_INPROGRESS);
    if (round != 1) by_ucx(d, receive, "length 8");
    CHECK_OK(ucxx_request_cancel(receive));
    CHECK_STATUS(ended(d, UCXX_INPROGRESS, &receive), UCXX_ERR_CANCELED);
    /* A time limit ends it in the same way. */
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.timeout_ns = MILLISECOND;
    CHECK_STATUS(ucxx_tag_recv(d->left, &value, 8, NEVER, UINT64_MAX, &params, &receive),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ended(d, UCXX_INPROGRESS, &receive), UCXX_ERR_TIMED_OUT);
  }
}

static void messages(describing_t *d) {
  ucxx_request_t *send = NULL, *receive = NULL;
  for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_RNDV;
    ucxx_status_t sent =
        ucxx_am_send(d->to_right, ID, "head", 4, d->out, sizes[at], &params, &send);
    CHECK_STATUS(sent, UCXX_INPROGRESS);
    by_ucx(d, send, "length");
    while (d->held == NULL) both_pass(d);
    CHECK_STATUS(ucxx_request_status(send), UCXX_INPROGRESS);
    memset(d->in, 0, sizes[at]);
    ucxx_status_t received = ucxx_am_message_recv(d->held, d->in, sizes[at], NULL, &receive);
    if (received == UCXX_INPROGRESS) {
      char text[LONGEST];
      describe(receive, text);
      CHECK(starts(text, OTHERS));
    }
    CHECK_OK(ended(d, received, &receive));
    CHECK_CONTENT(d->in, sizes[at], 7);
    ucxx_am_message_destroy(d->held);
    d->held = NULL;
    CHECK_OK(ended(d, sent, &send));
    sent = ucxx_am_queue_send(d->to_right, d->out, sizes[at], NULL, &send);
    if (sent == UCXX_INPROGRESS) by_ucx(d, send, "length");
    CHECK_OK(ended(d, ucxx_am_queue_recv(d->to_left, NULL, NULL, &receive), &receive));
    CHECK_OK(ended(d, sent, &send));
  }
}

static void streams(const describing_t *d) {
  ucxx_request_t *send = NULL, *receive = NULL;
  for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
    char text[LONGEST];
    memset(d->in, 0, sizes[at]);
    ucxx_status_t sent = ucxx_stream_send(d->to_right, d->out, sizes[at], NULL, &send);
    if (sent == UCXX_INPROGRESS) describe(send, text);
    CHECK_OK(ended(d, ucxx_stream_recv(d->to_left, d->in, sizes[at], NULL, &receive), &receive));
    CHECK_OK(ended(d, sent, &send));
    CHECK_CONTENT(d->in, sizes[at], 7);
  }
}

static void remote_memory(const describing_t *d) {
  ucxx_memory_t *memory = NULL;
  ucxx_rkey_t *rkey = NULL;
  uint8_t key[LONGEST_KEY];
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  CHECK_OK(ucxx_memory_register(d->context, d->in, 8 * LARGE, UCXX_MEMORY_AUTO, &memory));
  size_t length = pack(memory, key);
  CHECK_OK(ucxx_rkey_unpack(d->to_right, key, length, &rkey));
  for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
    uint8_t *read = test_alloc(sizes[at]);
    for (int gets = 0; gets < 2; gets++) {
      ucxx_request_t *request = NULL;
      ucxx_status_t status = gets ? ucxx_rma_get(rkey, read, sizes[at], 0, NULL, &request)
                                  : ucxx_rma_put(rkey, d->out, sizes[at], 0, NULL, &request);
      char text[LONGEST] = "";
      if (status == UCXX_INPROGRESS) {
        if (version.ucx_minor >= 16 && getenv("UCX_PROTO_ENABLE") == NULL)
          by_ucx(d, request, "length");
        else
          describe(request, text);
      }
      CHECK_OK(ended(d, status, &request));
      CHECK_OK(ended(d, ucxx_endpoint_flush(d->to_right, NULL, &request), &request));
    }
    CHECK_CONTENT(read, sizes[at], 7);
    free(read);
  }
  ucxx_rkey_destroy(rkey);
  ucxx_memory_destroy(memory);
}

static void others(const describing_t *d) {
  ucxx_request_t *request = NULL, *receive = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  seen_t seen = {0};
  char text[LONGEST];
  if (ucxx_endpoint_flush(d->to_right, NULL, &request) == UCXX_INPROGRESS) {
    describe(request, text);
    CHECK(starts(text, OTHERS));
    CHECK_OK(ended(d, UCXX_INPROGRESS, &request));
  }
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &seen;
  CHECK_STATUS(ucxx_tag_send(d->to_right, d->out, 8, TAG, &params, &request), UCXX_INPROGRESS);
  while (seen_count(&seen) == 0) both_pass(d);
  describe(request, text);
  STEP("%s: with a callback in any case: %s", d->mode, text);
  CHECK(!starts(text, WAITS) && !starts(text, OTHERS));
  CHECK_OK(ended(d, UCXX_INPROGRESS, &request));
  CHECK_OK(ended(d, receive_tag(d, 8, &receive), &receive));
  /* Nobody has the request. */
  params.flags = 0;
  seen.count = 0;
  CHECK_STATUS(send_until_received(d, LARGE, &params, NULL), UCXX_INPROGRESS);
  CHECK_OK(ended(d, receive_tag(d, LARGE, &receive), &receive));
  while (seen_count(&seen) == 0) both_pass(d);
  CHECK_OK(seen.status);
}

/* UCX gets its requests back: also those that complete inside the call. */
static void given_back(const describing_t *d) {
  long before = 0;
  for (int round = 0; round < AT_ONCE + AT_ONCE / 10; round++) {
    ucxx_request_t *send = NULL, *receive = NULL;
    if (round == AT_ONCE / 10) before = footprint_now().resident_kib;
    ucxx_status_t sent = ucxx_tag_send(d->to_right, d->out, 8, TAG, NULL, &send);
    both_pass(d);
    ucxx_status_t received = receive_tag(d, 8, &receive);
    CHECK_OK(ended(d, sent, &send));
    CHECK_OK(ended(d, received, &receive));
  }
  long grown = footprint_now().resident_kib - before;
  if (grown > GROWTH_KIB) FAIL("%ld KiB more", grown);
}

static void all_kinds(const ucxx_worker_params_t *params, const char *mode) {
  describing_t d;
  STEP("%s", mode);
  open(&d, params, mode);
  /* Before the peer has answered. */
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t sent = send_tag(&d, LARGE, &send);
  if (sent == UCXX_INPROGRESS) by_ucx(&d, send, "length");
  CHECK_OK(ended(&d, receive_tag(&d, LARGE, &receive), &receive));
  CHECK_OK(ended(&d, sent, &send));
  tags(&d);
  cancelled(&d);
  messages(&d);
  streams(&d);
  remote_memory(&d);
  others(&d);
  if (params->progress_mode == UCXX_PROGRESS_MANUAL) given_back(&d);
  close_all(&d);
}

/* What is in flight when the worker, or its peer, or only the endpoint ends. */
static void ends_early(const ucxx_worker_params_t *params, const char *mode) {
  for (int how = 0; how < 4; how++) {
    describing_t d;
    STEP("%s: end %d", mode, how);
    open(&d, params, mode);
    ucxx_request_t *send = NULL, *receive = NULL, *requests[6] = {NULL};
    uint64_t value;
    ucxx_status_t sent = send_tag(&d, 8, &send);
    CHECK_OK(ended(&d, receive_tag(&d, 8, &receive), &receive));
    CHECK_OK(ended(&d, sent, &send));
    ucxx_op_params_t late = UCXX_OP_PARAMS_INIT;
    late.flags = UCXX_FLAG_RNDV;
    CHECK_STATUS(send_until_received(&d, LARGE, NULL, &requests[0]), UCXX_INPROGRESS);
    CHECK_STATUS(send_until_received(&d, 8, NULL, &requests[1]), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_recv(d.left, &value, 8, NEVER, UINT64_MAX, NULL, &requests[2]),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_am_send(d.to_right, ID, "head", 4, d.out, LARGE, &late, &requests[3]),
                 UCXX_INPROGRESS);
    /* UCX may copy these. */
    CHECK(ucxx_am_queue_send(d.to_right, d.out, LARGE, NULL, &requests[4]) >= UCXX_OK);
    CHECK(send_tag(&d, 8 * LARGE, &requests[5]) >= UCXX_OK);
    for (int at = 0; at < 6; at++)
      if (requests[at] != NULL) by_ucx(&d, requests[at], "length");
    if (how == 1) {
      ucxx_worker_destroy(d.right);
      d.right = NULL;
    } else if (how == 2) {
      ucxx_request_t *closing = NULL;
      ucxx_status_t status = ucxx_endpoint_close(d.to_right, UCXX_CLOSE_FORCE, NULL, &closing);
      CHECK(ended(&d, status, &closing) <= UCXX_OK);
    } else if (how == 3) {
      while (d.held == NULL) both_pass(&d);
      for (int at = 0; at < 6; at++) ucxx_request_destroy(requests[at]);
    }
    ucxx_worker_destroy(d.left);
    d.left = NULL;
    for (int at = 0; how < 3 && at < 6; at++) {
      if (requests[at] == NULL) continue;
      char text[LONGEST];
      CHECK(ucxx_request_status(requests[at]) != UCXX_INPROGRESS);
      describe(requests[at], text);
      ucxx_request_destroy(requests[at]);
    }
    ucxx_am_message_destroy(d.held);
    close_all(&d);
  }
}

/* The text is there for any thread while the progress thread gives the operation to UCX. */
static void beside_a_thread(void) {
  STEP("beside the progress thread");
  describing_t d;
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  open(&d, &params, "beside a thread");
  for (unsigned round = 0; round < test_rounds(3000); round++) {
    ucxx_request_t *send = NULL, *receive = NULL;
    char text[LONGEST];
    ucxx_status_t sent = send_tag(&d, sizes[round % 5], &send);
    ucxx_status_t received = receive_tag(&d, sizes[round % 5], &receive);
    while (sent == UCXX_INPROGRESS && ucxx_request_status(send) == UCXX_INPROGRESS)
      describe(send, text);
    CHECK_OK(ended(&d, received, &receive));
    CHECK_OK(ended(&d, sent, &send));
  }
  close_all(&d);
}

static void without_the_option(void) {
  STEP("a worker that does not describe");
  duo_t duo;
  ucxx_request_t *send = NULL, *receive = NULL;
  uint8_t *data = test_alloc(LARGE);
  duo_open(&duo, NULL);
  duo_transfer(&duo, 8, 1);
  CHECK_STATUS(ucxx_tag_send_sync(duo.to_right, data, LARGE, TAG, NULL, &send), UCXX_INPROGRESS);
  refused(send);
  CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, data, LARGE, TAG, UINT64_MAX, NULL, &receive),
                      &receive));
  while (ucxx_request_status(send) == UCXX_INPROGRESS) duo_progress(&duo);
  refused(send);
  ucxx_request_destroy(send);
  free(data);
  duo_close(&duo);
}

int main(void) {
  test_begin("describe");
  without_the_option();
  in_every_mode(all_kinds);
  in_every_mode(ends_early);
  beside_a_thread();
  return 0;
}
