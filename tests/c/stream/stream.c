/* Streams between two processes deliver all bytes in order: cut differently on both sides, empty,
 * partial, posted ahead, cancelled, timed out, and received in callbacks. */
#include "test_util.h"

#include <sched.h>

enum { TAG_BEHIND = 0x5be41, AHEAD = 8, SEVERAL = 4 };

typedef struct manner {
  const char *name;
  int32_t progress_mode, delayed;
} manner_t;
static const manner_t manners[] = {
    {"manual", UCXX_PROGRESS_MANUAL, 0},
    {"thread", UCXX_PROGRESS_THREAD_ADAPTIVE, 1},
    {"blocking thread, direct", UCXX_PROGRESS_THREAD_BLOCKING, -1},
};
enum { MANNERS = sizeof manners / sizeof *manners };

static const manner_t *manner;
static uint64_t dice;

static size_t roll(size_t sides) {
  dice = test_mix(dice + 1);
  return (size_t)(dice % sides);
}

/* Mostly small, sometimes large, sometimes 0. */
static size_t roll_length(void) {
  static const size_t most[] = {1, 9, 100, 3000, 9000, 70000, 300000};
  return roll(most[roll(sizeof most / sizeof *most)] + 1);
}

static void send_on(ucxx_endpoint_t *endpoint, const void *data, size_t length) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_stream_send(endpoint, data, length, NULL, &request);
  CHECK_OK(finish(status, &request));
}

static ucxx_op_params_t with_info(ucxx_recv_info_t *info, uint64_t flags) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = info;
  params.flags = flags;
  return params;
}

static size_t recv_on(ucxx_endpoint_t *endpoint, void *data, size_t length, uint64_t flags) {
  ucxx_recv_info_t info = {77, 77, {0, 0}};
  ucxx_op_params_t params = with_info(&info, flags);
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_stream_recv(endpoint, data, length, &params, &request);
  if (status == UCXX_INPROGRESS) {
    ucxx_recv_info_t queried;
    CHECK_OK(ucxx_request_wait(request, FOR_EVER));
    CHECK_OK(ucxx_request_recv_info(request, &queried));
    CHECK(queried.length == info.length);
  }
  CHECK_OK(finish(status, &request));
  CHECK_EQ(info.sender_tag, 0);
  return info.length;
}

/* Sends a tag message after the stream's data, to show that the data has arrived. */
static void mark_arrival(const pair_t *pair) {
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_tag_send(pair->endpoint, NULL, 0, TAG_BEHIND, NULL, &request), &request));
}

static void await_arrival(const pair_t *pair) {
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_tag_recv(pair->worker, NULL, 0, TAG_BEHIND, UINT64_MAX, NULL, &request),
                  &request));
}

/* One step of a side that sends and receives at the same time, in pieces of random length. */
typedef struct piece {
  ucxx_request_t *request;
  uint8_t *data;
  size_t length;
  ucxx_recv_info_t info;
} piece_t;

static void random_cuts(const pair_t *pair, size_t total) {
  STEP("%zu bytes each way, cut at random", total);
  uint8_t *out = test_alloc(total), *in = test_alloc(total);
  uint64_t out_seed = test_mix(pair->seed + (uint64_t)pair->side),
           in_seed = test_mix(pair->seed + (uint64_t)!pair->side);
  piece_t sends[AHEAD], receives[AHEAD];
  size_t sent = 0, asked = 0, received = 0, sending = 0, receiving = 0;
  memset(sends, 0, sizeof sends);
  memset(receives, 0, sizeof receives);
  test_fill(out, total, out_seed);
  memset(in, 0, total);
  while (sent < total || received < total || sending > 0) {
    for (size_t at = 0; at < AHEAD; at++) {
      if (sends[at].request != NULL && ucxx_request_status(sends[at].request) != UCXX_INPROGRESS) {
        CHECK_OK(finish(UCXX_INPROGRESS, &sends[at].request));
        sending--;
      }
      if (sends[at].request == NULL && sent < total) {
        size_t length = roll_length();
        if (length > total - sent) length = total - sent;
        ucxx_status_t status =
            ucxx_stream_send(pair->endpoint, out + sent, length, NULL, &sends[at].request);
        CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
        sending += status == UCXX_INPROGRESS;
        sent += length;
      }
    }
    /* A partial receive, or one whose length is known only on completion. */
    if (receiving == 0 && received < total) {
      size_t count = roll(3) == 0 ? 1 : 1 + roll(AHEAD);
      uint64_t flags = count == 1 ? UCXX_FLAG_STREAM_PARTIAL : 0;
      for (asked = received; receiving < count && asked < total; receiving++) {
        piece_t *piece = &receives[receiving];
        piece->length = roll_length();
        if (piece->length > total - asked) piece->length = total - asked;
        piece->data = in + asked;
        ucxx_op_params_t params = with_info(&piece->info, flags);
        ucxx_status_t status =
            ucxx_stream_recv(pair->endpoint, piece->data, piece->length, &params, &piece->request);
        CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
        asked += piece->length;
      }
    }
    size_t open = 0;
    for (size_t at = 0; at < receiving; at++)
      open += receives[at].request != NULL &&
              ucxx_request_status(receives[at].request) == UCXX_INPROGRESS;
    if (open == 0) {
      for (size_t at = 0; at < receiving; at++) {
        CHECK_OK(finish(receives[at].request == NULL ? UCXX_OK : UCXX_INPROGRESS,
                        &receives[at].request));
        CHECK(receives[at].info.length <= receives[at].length);
        CHECK(receives[at].info.length > 0 || receives[at].length == 0);
        CHECK(receiving == 1 || receives[at].info.length == receives[at].length);
        received += receives[at].info.length;
      }
      receiving = 0;
    }
    progress(pair->worker);
  }
  CHECK_EQ(received, total);
  CHECK_CONTENT(in, total, in_seed);
  CHECK_CONTENT(out, total, out_seed);
  free(out);
  free(in);
  pair_sync(pair);
}

/* After a send completes its buffer may be reused. */
static void large(const pair_t *pair, size_t length, int posted_first) {
  STEP("%zu bytes in one send, receive posted %s", length, posted_first ? "first" : "later");
  uint8_t *data = test_alloc(length);
  if (pair->side == 0) {
    if (posted_first) pair_await(pair);
    test_fill(data, length, pair->seed);
    send_on(pair->endpoint, data, length);
    memset(data, 0xee, length);
    send_on(pair->endpoint, "end", 4);
  } else {
    char end[4] = "";
    ucxx_request_t *request = NULL;
    memset(data, 0, length);
    if (posted_first) {
      CHECK_STATUS(ucxx_stream_recv(pair->endpoint, data, length, NULL, &request), UCXX_INPROGRESS);
      pair_tell(pair);
      CHECK_OK(finish(UCXX_INPROGRESS, &request));
    } else {
      CHECK_EQ(recv_on(pair->endpoint, data, length, 0), length);
    }
    CHECK_EQ(recv_on(pair->endpoint, end, 4, 0), 4);
    CHECK(strcmp(end, "end") == 0);
    CHECK_CONTENT(data, length, pair->seed);
  }
  free(data);
  pair_sync(pair);
}

static void empty(const pair_t *pair) {
  STEP("nothing");
  ucxx_request_t *first = NULL, *second = NULL;
  ucxx_recv_info_t info = {77, 77, {0, 0}};
  ucxx_op_params_t params = with_info(&info, 0);
  char byte = 0;
  ucxx_status_t sent = ucxx_stream_send(pair->endpoint, NULL, 0, NULL, &first);
  if (manner->progress_mode == UCXX_PROGRESS_MANUAL) CHECK_OK(sent);
  CHECK_OK(finish(sent, &first));
  ucxx_status_t received = ucxx_stream_recv(pair->endpoint, NULL, 0, &params, &first);
  if (manner->progress_mode == UCXX_PROGRESS_MANUAL) CHECK_OK(received);
  CHECK_OK(finish(received, &first));
  CHECK_EQ(info.length, 0);
  CHECK_EQ(recv_on(pair->endpoint, NULL, 0, UCXX_FLAG_STREAM_PARTIAL), 0);
  pair_sync(pair);
  if (pair->side == 0) {
    /* Receives complete in their order only. */
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, &byte, 1, NULL, &first), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, NULL, 0, NULL, &second), UCXX_INPROGRESS);
    progress(pair->worker);
    CHECK_STATUS(ucxx_request_status(second), UCXX_INPROGRESS);
    pair_tell(pair);
    CHECK_OK(finish(UCXX_INPROGRESS, &second));
    CHECK_OK(ucxx_request_status(first));
    CHECK_OK(finish(UCXX_INPROGRESS, &first));
    CHECK_EQ(byte, 'x');
  } else {
    pair_await(pair);
    send_on(pair->endpoint, NULL, 0);
    send_on(pair->endpoint, "x", 1);
  }
  pair_sync(pair);
}

static void partial(const pair_t *pair) {
  STEP("partial");
  char data[128] = "";
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_op_params_t params = with_info(&info, UCXX_FLAG_STREAM_PARTIAL);
  ucxx_request_t *request = NULL;
  if (pair->side == 0) {
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, data, 100, &params, &request), UCXX_INPROGRESS);
    pair_tell(pair);
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
    CHECK_EQ(info.length, 10);
    CHECK(memcmp(data, "0123456789", 10) == 0);
    pair_tell(pair);
    await_arrival(pair);
    /* First reads what has arrived in two pieces, across their border. Then reads the rest of the
     * second, which the library still holds. */
    CHECK_EQ(recv_on(pair->endpoint, data, 8, UCXX_FLAG_STREAM_PARTIAL), 8);
    CHECK(memcmp(data, "abcdefgh", 8) == 0);
    CHECK_EQ(recv_on(pair->endpoint, data, 100, UCXX_FLAG_STREAM_PARTIAL), 2);
    CHECK(memcmp(data, "ij", 2) == 0);
  } else {
    pair_await(pair);
    send_on(pair->endpoint, "0123456789", 10);
    pair_await(pair);
    send_on(pair->endpoint, "abcde", 5);
    send_on(pair->endpoint, "fghij", 5);
    mark_arrival(pair);
  }
  pair_sync(pair);
}

/* A receive that ends before it is full has taken the bytes that had arrived. */
static void cut_short(const pair_t *pair, int by_timeout) {
  STEP("%s", by_timeout ? "timed out" : "cancelled");
  ucxx_status_t expected = by_timeout ? UCXX_ERR_TIMED_OUT : UCXX_ERR_CANCELED;
  uint8_t data[100] = "", rest[60] = "", behind[4] = "";
  ucxx_recv_info_t info = {77, 77, {0, 0}}, queried = {77, 77, {0, 0}};
  ucxx_op_params_t params = with_info(&info, 0);
  ucxx_request_t *taken = NULL, *next = NULL;
  if (by_timeout) params.timeout_ns = SECOND / 2;
  if (pair->side == 0) {
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, data, 100, &params, &taken), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, rest, 60, NULL, &next), UCXX_INPROGRESS);
    if (!by_timeout) {
      pair_tell(pair);
      await_arrival(pair);
      progress(pair->worker);
      CHECK_OK(ucxx_request_cancel(taken));
    }
    CHECK_STATUS(ucxx_request_wait(taken, FOR_EVER), expected);
    CHECK_OK(ucxx_request_recv_info(taken, &queried));
    CHECK(strstr(ucxx_request_error_message(taken), "stream receive of 100 bytes") != NULL);
    CHECK_STATUS(finish(UCXX_INPROGRESS, &taken), expected);
    CHECK_EQ(info.length, by_timeout ? 0 : 40);
    CHECK_EQ(queried.length, info.length);
    for (size_t at = 0; at < 100; at++) CHECK_EQ(data[at], at < info.length ? 'a' : 0);
    if (by_timeout) pair_tell(pair);
    pair_tell(pair);
    CHECK_OK(finish(UCXX_INPROGRESS, &next));
    for (size_t at = 0; at < 60; at++) CHECK_EQ(rest[at], by_timeout && at < 40 ? 'a' : 'b');
    if (by_timeout) {
      uint8_t last[40];
      CHECK_EQ(recv_on(pair->endpoint, last, 40, 0), 40);
    }
    CHECK_EQ(recv_on(pair->endpoint, behind, 4, 0), 4);
    CHECK(memcmp(behind, "end", 4) == 0);
  } else {
    memset(data, 'a', 40);
    memset(rest, 'b', 60);
    pair_await(pair);
    send_on(pair->endpoint, data, 40);
    mark_arrival(pair);
    pair_await(pair);
    send_on(pair->endpoint, rest, 60);
    send_on(pair->endpoint, "end", 4);
  }
  if (pair->side == 0 && by_timeout) await_arrival(pair);
  pair_sync(pair);
}

typedef struct chain {
  const pair_t *pair;
  uint8_t *data;
  size_t total, done;
  uint64_t flags;
  ucxx_recv_info_t info;
  int calls, finished; /* `finished` is atomic */
} chain_t;

static void chain_on(chain_t *chain);

static void link_done(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  chain_t *chain = arg;
  (void)request;
  CHECK_OK(status);
  chain->calls++;
  chain->done += chain->info.length;
  chain_on(chain);
}

/* The callback of each receive posts the next one. */
static void chain_on(chain_t *chain) {
  while (chain->done < chain->total) {
    ucxx_op_params_t params = with_info(&chain->info, chain->flags);
    params.callback = link_done;
    params.callback_arg = chain;
    size_t length = 1 + roll_length(), left = chain->total - chain->done;
    if (length > left) length = left;
    ucxx_status_t status =
        ucxx_stream_recv(chain->pair->endpoint, chain->data + chain->done, length, &params, NULL);
    if (status == UCXX_INPROGRESS) return;
    CHECK_OK(status);
    chain->done += chain->info.length;
  }
  __atomic_store_n(&chain->finished, 1, __ATOMIC_RELEASE);
}

static void from_callbacks(const pair_t *pair, uint64_t flags) {
  STEP("receives from callbacks, flags %llx", (unsigned long long)flags);
  chain_t chain = {.pair = pair, .total = 2 << 20, .flags = flags};
  chain.data = test_alloc(chain.total);
  if (pair->side == 0) {
    memset(chain.data, 0, chain.total);
    chain_on(&chain);
    while (!__atomic_load_n(&chain.finished, __ATOMIC_ACQUIRE)) progress(pair->worker);
    if (flags & UCXX_FLAG_ALWAYS_CALLBACK) CHECK(chain.calls > 0);
    CHECK_CONTENT(chain.data, chain.total, pair->seed + 3);
  } else {
    test_fill(chain.data, chain.total, pair->seed + 3);
    for (size_t done = 0, length; done < chain.total; done += length) {
      length = roll_length();
      if (length > chain.total - done) length = chain.total - done;
      send_on(pair->endpoint, chain.data + done, length);
    }
  }
  free(chain.data);
  pair_sync(pair);
}

/* Blocking calls, and completions through a notifier. */
static void other_ways(const pair_t *pair) {
  STEP("WAIT and a notifier");
  ucxx_notifier_t *notifier = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  char data[8] = "";
  params.flags = UCXX_FLAG_WAIT;
  CHECK_OK(ucxx_notifier_create(pair->context, &notifier));
  if (pair->side == 0) {
    params.recv_info = &info;
    CHECK_OK(ucxx_stream_recv(pair->endpoint, data, 8, &params, NULL));
    CHECK(info.length == 8 && memcmp(data, "eightby", 8) == 0);
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.notifier = notifier;
    params.callback_arg = data;
    memset(data, 0, 8);
    CHECK_STATUS(ucxx_stream_recv(pair->endpoint, data, 8, &params, NULL), UCXX_INPROGRESS);
    pair_tell(pair);
    ucxx_completion_t completion;
    size_t count = 0;
    while (count == 0) {
      progress(pair->worker);
      CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
    }
    CHECK_OK(completion.status);
    CHECK(completion.user_data == data && completion.length == 8);
    CHECK(memcmp(data, "eightby", 8) == 0);
  } else {
    CHECK_OK(ucxx_stream_send(pair->endpoint, "eightby", 8, &params, NULL));
    pair_await(pair);
    CHECK_OK(ucxx_stream_send(pair->endpoint, "eightby", 8, &params, NULL));
  }
  ucxx_notifier_destroy(notifier);
  pair_sync(pair);
}

/* Streams of several endpoints between the same two workers do not mix. */
static void kept_apart(const pair_t *pair) {
  STEP("%d endpoints between two workers", SEVERAL);
  enum { TOTAL = 300000 };
  ucxx_endpoint_t *endpoints[SEVERAL];
  uint8_t *out[SEVERAL], *in[SEVERAL];
  size_t sent[SEVERAL] = {0};
  ucxx_request_t *requests[SEVERAL] = {NULL}, *request = NULL;
  ucxx_status_t status[SEVERAL];
  for (int at = 0; at < SEVERAL; at++) {
    ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
    CHECK_OK(ucxx_endpoint_create(pair->worker, address, NULL, &endpoints[at]));
    ucxx_address_destroy(address);
  }
  pair_sync(pair);
  for (int at = 0; at < SEVERAL; at++) {
    out[at] = test_alloc(TOTAL);
    in[at] = test_alloc(TOTAL);
    test_fill(out[at], TOTAL, test_mix(pair->seed + (uint64_t)(2 * at + pair->side)));
    memset(in[at], 0, TOTAL);
    status[at] = ucxx_stream_recv(endpoints[at], in[at], TOTAL, NULL, &requests[at]);
  }
  for (int left = SEVERAL; left > 0;) {
    size_t at = roll(SEVERAL), length = roll_length();
    if (sent[at] == TOTAL) continue;
    if (length > TOTAL - sent[at]) length = TOTAL - sent[at];
    send_on(endpoints[at], out[at] + sent[at], length);
    sent[at] += length;
    left -= sent[at] == TOTAL;
  }
  for (int at = 0; at < SEVERAL; at++) {
    CHECK_OK(finish(status[at], &requests[at]));
    CHECK_CONTENT(in[at], TOTAL, test_mix(pair->seed + (uint64_t)(2 * at + !pair->side)));
    free(out[at]);
    free(in[at]);
  }
  pair_sync(pair);
  for (int at = 0; at < SEVERAL; at++)
    CHECK_OK(finish(close_patiently(endpoints[at], &request), &request));
  pair_sync(pair);
  for (int at = 0; at < SEVERAL; at++) ucxx_endpoint_destroy(endpoints[at]);
}

/* Sends beyond the send window wait on this side, in order. A send with NO_WAIT is refused and
 * leaves no gap. */
static void behind_a_window(const pair_t *pair) {
  STEP("behind a send window");
  enum { SENDS = 200, LENGTH = 30000 };
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t never = UCXX_OP_PARAMS_INIT;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *request = NULL;
  uint8_t *data = test_alloc(SENDS * LENGTH);
  size_t taken = 0, refused = 0;
  params.send_window_ops = 2;
  never.flags = UCXX_FLAG_NO_WAIT;
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &endpoint));
  ucxx_address_destroy(address);
  pair_sync(pair);
  if (pair->side == 0) {
    test_fill(data, SENDS * LENGTH, pair->seed);
    for (size_t at = 0; at < SENDS; at++) {
      /* Every second send uses NO_WAIT; a refused one is sent again without it. */
      ucxx_status_t status = UCXX_ERR_NO_RESOURCE;
      if (at % 2 == 0)
        status = ucxx_stream_send(endpoint, data + at * LENGTH, LENGTH, &never, NULL);
      if (status == UCXX_ERR_NO_RESOURCE) {
        refused += at % 2 == 0;
        status = ucxx_stream_send(endpoint, data + at * LENGTH, LENGTH, NULL, NULL);
      }
      CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    }
    /* The number depends on how fast the other side reads. */
    printf("%zu sends were refused\n", refused);
    CHECK_OK(finish(ucxx_endpoint_flush(endpoint, NULL, &request), &request));
  } else {
    memset(data, 0, SENDS * LENGTH);
    while (taken < SENDS * LENGTH)
      taken += recv_on(endpoint, data + taken, SENDS * LENGTH - taken, UCXX_FLAG_STREAM_PARTIAL);
    CHECK_CONTENT(data, SENDS * LENGTH, pair->seed);
  }
  pair_sync(pair);
  CHECK_OK(finish(close_patiently(endpoint, &request), &request));
  pair_sync(pair);
  ucxx_endpoint_destroy(endpoint);
  free(data);
}

static void body(pair_t *pair) {
  for (int at = 0; at < MANNERS; at++) {
    manner = &manners[at];
    printf("%s\n", manner->name);
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = manner->progress_mode;
    params.delayed_submission = manner->delayed;
    dice = pair->seed + (uint64_t)(2 * at + pair->side);
    pair_connect(pair, NULL, &params, NULL);
    random_cuts(pair, 8 << 20);
    large(pair, (size_t)64 << 20, 0);
    large(pair, (size_t)64 << 20, 1);
    empty(pair);
    partial(pair);
    cut_short(pair, 0);
    cut_short(pair, 1);
    from_callbacks(pair, 0);
    from_callbacks(pair, UCXX_FLAG_STREAM_PARTIAL);
    from_callbacks(pair, UCXX_FLAG_ALWAYS_CALLBACK);
    other_ways(pair);
    kept_apart(pair);
    behind_a_window(pair);
    pair_disconnect(pair);
  }
}

int main(int argc, char **argv) { return pair_main(argc, argv, "stream", body); }
