/* Tag messages between two processes arrive whole, in order and as the tag mask selects them: all
 * sizes, synchronous sends, truncation, probes, and many messages at once. */
#include "test_util.h"

enum { TAG_BACK = 0x100000 };

static const size_t sizes[] = {0, 1, 8, 64, 1 << 10, 8 << 10, 9 << 10, 64 << 10, 1 << 20, 32 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static ucxx_op_params_t with_info(ucxx_recv_info_t *info) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = info;
  return params;
}

static void send_now(const pair_t *pair, const void *data, size_t length, uint64_t tag) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_send(pair->endpoint, data, length, tag, NULL, &request);
  CHECK_OK(finish(status, &request));
}

static void recv_now(const pair_t *pair, void *data, size_t length, uint64_t tag, uint64_t tag_mask,
                     ucxx_recv_info_t *info) {
  ucxx_op_params_t params = with_info(info);
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_tag_recv(pair->worker, data, length, tag, tag_mask, &params, &request);
  CHECK_OK(finish(status, &request));
}

/* Waits until a message with this tag can be received. */
static ucxx_recv_info_t await_message(const pair_t *pair, uint64_t tag) {
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_status_t status;
  while ((status = ucxx_tag_probe(pair->worker, tag, UINT64_MAX, &info, NULL)) ==
         UCXX_ERR_NO_MESSAGE)
    progress(pair->worker);
  CHECK_OK(status);
  CHECK(info.sender_tag == tag);
  return info;
}

/* Both directions at once. The two sides are not synchronised, so receives are expected and
 * unexpected. */
static void every_size(const pair_t *pair) {
  for (size_t at = 0; at < SIZES; at++) {
    size_t length = sizes[at];
    STEP("%zu bytes both ways", length);
    uint8_t *out = test_alloc(length), *in = test_alloc(length + 64);
    uint64_t out_seed = test_mix(pair->seed + length * 2 + (uint64_t)pair->side);
    uint64_t in_seed = test_mix(pair->seed + length * 2 + (uint64_t)!pair->side);
    test_fill(out, length, out_seed);
    memset(in, 0x5a, length + 64);
    ucxx_recv_info_t info = {0, 0, {0, 0}};
    ucxx_op_params_t params = with_info(&info);
    ucxx_request_t *send = NULL, *receive = NULL;
    uint64_t tag = 0x1000 + at;
    ucxx_status_t sent = ucxx_tag_send(pair->endpoint, out, length, tag, NULL, &send);
    ucxx_status_t received =
        ucxx_tag_recv(pair->worker, in, length + 32, tag, UINT64_MAX, &params, &receive);
    if (received == UCXX_INPROGRESS) {
      ucxx_recv_info_t queried = {0, 0, {0, 0}};
      CHECK_OK(ucxx_request_wait(receive, FOR_EVER));
      CHECK_OK(ucxx_request_recv_info(receive, &queried));
      CHECK_EQ(queried.length, length);
      CHECK(queried.sender_tag == tag);
    }
    CHECK_OK(finish(received, &receive));
    CHECK_OK(finish(sent, &send));
    CHECK_EQ(info.length, length);
    CHECK(info.sender_tag == tag);
    CHECK_CONTENT(in, length, in_seed);
    for (size_t beyond = length; beyond < length + 64; beyond++) CHECK_EQ(in[beyond], 0x5a);
    CHECK_CONTENT(out, length, out_seed);
    free(out);
    free(in);
  }
}

static void empty_messages(const pair_t *pair) {
  STEP("empty messages without a buffer");
  ucxx_recv_info_t info = {77, 77, {0, 0}};
  ucxx_request_t *request = NULL;
  if (pair->side == 0) {
    send_now(pair, NULL, 0, 1);
    ucxx_status_t status = ucxx_tag_send_iov(pair->endpoint, NULL, 0, 2, NULL, &request);
    CHECK_OK(finish(status, &request));
    status = ucxx_tag_send_sync(pair->endpoint, NULL, 0, 3, NULL, &request);
    CHECK_OK(finish(status, &request));
  } else {
    recv_now(pair, NULL, 0, 1, UINT64_MAX, &info);
    CHECK_EQ(info.length, 0);
    CHECK_EQ(info.sender_tag, 1);
    ucxx_op_params_t params = with_info(&info);
    ucxx_status_t status =
        ucxx_tag_recv_iov(pair->worker, NULL, 0, 2, UINT64_MAX, &params, &request);
    CHECK_OK(finish(status, &request));
    CHECK_EQ(info.length, 0);
    CHECK_EQ(info.sender_tag, 2);
    recv_now(pair, NULL, 0, 3, UINT64_MAX, &info);
    CHECK_EQ(info.sender_tag, 3);
  }
  pair_sync(pair);
}

static void masks(const pair_t *pair) {
  STEP("tag masks");
  static const uint64_t tags[] = {0x0101, 0x0202, UINT64_C(0xff00000000000203), 0x0304, 0};
  enum { TAGS = sizeof tags / sizeof *tags };
  if (pair->side == 0) {
    for (size_t at = 0; at < TAGS; at++) send_now(pair, &tags[at], sizeof tags[at], tags[at]);
  } else {
    uint64_t word = 0;
    ucxx_recv_info_t info;
    await_message(pair, tags[TAGS - 1]);
    recv_now(pair, &word, sizeof word, 0x0200, 0xff00, &info);
    CHECK(word == tags[1] && info.sender_tag == tags[1]);
    recv_now(pair, &word, sizeof word, UINT64_C(0xff00000000000000), UINT64_C(0xff) << 56, &info);
    CHECK(word == tags[2] && info.sender_tag == tags[2]);
    recv_now(pair, &word, sizeof word, 0x0004, 0x000f, &info);
    CHECK(word == tags[3] && info.sender_tag == tags[3]);
    ucxx_request_t *nothing = NULL;
    CHECK_STATUS(
        ucxx_tag_recv(pair->worker, &word, sizeof word, 0x0202, UINT64_MAX, NULL, &nothing),
        UCXX_INPROGRESS);
    recv_now(pair, &word, sizeof word, 0xabcd, 0, &info);
    CHECK(word == tags[0] && info.sender_tag == tags[0]);
    recv_now(pair, &word, sizeof word, 0, UINT64_MAX, &info);
    CHECK(word == tags[4] && info.sender_tag == tags[4]);
    CHECK_STATUS(ucxx_request_wait(nothing, 0), UCXX_INPROGRESS);
    CHECK_OK(ucxx_request_cancel(nothing));
    CHECK_STATUS(finish(UCXX_INPROGRESS, &nothing), UCXX_ERR_CANCELED);
  }
  pair_sync(pair);
}

/* A synchronous send completes only when the receiver has matched it, however small it is. */
static void synchronous(const pair_t *pair, size_t length) {
  STEP("synchronous send of %zu bytes", length);
  uint8_t *data = test_alloc(length);
  uint64_t seed = test_mix(pair->seed + length);
  if (pair->side == 0) {
    test_fill(data, length, seed);
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, data, length, 5, NULL, &request),
                 UCXX_INPROGRESS);
    CHECK(request != NULL);
    pair_await(pair);
    for (int pass = 0; pass < 1000; pass++) progress(pair->worker);
    CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
    pair_tell(pair);
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
  } else {
    await_message(pair, 5);
    pair_sync(pair);
    ucxx_recv_info_t info;
    recv_now(pair, data, length, 5, UINT64_MAX, &info);
    CHECK_EQ(info.length, length);
    CHECK_CONTENT(data, length, seed);
  }
  free(data);
  pair_sync(pair);
}

/* The message arrives before the receive is posted: length and tag are reported however the receive
 * completes. */
static void already_arrived(const pair_t *pair, size_t length, int inside_call) {
  STEP("receive of %zu bytes that have arrived", length);
  uint8_t *data = test_alloc(length);
  uint64_t seed = test_mix(pair->seed ^ length), tag = UINT64_C(0xabcdef0123456789) ^ length;
  if (pair->side == 0) {
    test_fill(data, length, seed);
    send_now(pair, data, length, tag);
  } else {
    CHECK_EQ(await_message(pair, tag).length, length);
    ucxx_recv_info_t info = {0, 0, {0, 0}};
    seen_t seen = {0, 0, UCXX_OK};
    ucxx_op_params_t params = with_info(&info);
    params.callback = see_completion;
    params.callback_arg = &seen;
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        ucxx_tag_recv(pair->worker, data, length, tag, UINT64_MAX, &params, &request);
    if (inside_call) CHECK_OK(status);
    if (status == UCXX_OK) {
      CHECK(request == NULL);
      CHECK_EQ(info.length, length);
      CHECK(info.sender_tag == tag);
    }
    int completed_inside = status == UCXX_OK;
    CHECK_OK(finish(status, &request));
    for (int pass = 0; pass < 10; pass++) progress(pair->worker);
    CHECK_EQ(seen_count(&seen), !completed_inside);
    CHECK_EQ(info.length, length);
    CHECK(info.sender_tag == tag);
    CHECK_CONTENT(data, length, seed);
  }
  free(data);
  pair_sync(pair);
}

/* A message longer than the buffer: its full length is reported, and nothing is written behind the
 * buffer. */
static void truncated(const pair_t *pair, size_t length, int arrived_first) {
  STEP("truncation of %zu bytes, %s", length, arrived_first ? "arrived first" : "expected");
  enum { ROOM = 16, GUARD = 256 };
  uint64_t tag = 0x7000 + length;
  if (pair->side == 0) {
    uint8_t *data = test_alloc(length);
    test_fill(data, length, pair->seed);
    if (!arrived_first) pair_await(pair);
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        finish(ucxx_tag_send(pair->endpoint, data, length, tag, NULL, &request), &request);
    CHECK(status == UCXX_OK || status == UCXX_ERR_MESSAGE_TRUNCATED);
    free(data);
  } else {
    uint8_t in[ROOM + GUARD];
    memset(in, 0x5a, sizeof in);
    ucxx_recv_info_t info = {0, 0, {0, 0}}, queried = {0, 0, {0, 0}};
    ucxx_op_params_t params = with_info(&info);
    ucxx_request_t *request = NULL;
    if (arrived_first) await_message(pair, tag);
    ucxx_status_t status =
        ucxx_tag_recv(pair->worker, in, ROOM, tag, UINT64_MAX, &params, &request);
    if (!arrived_first) {
      CHECK_STATUS(status, UCXX_INPROGRESS);
      pair_tell(pair);
    }
    if (status == UCXX_INPROGRESS) {
      CHECK_STATUS(ucxx_request_wait(request, FOR_EVER), UCXX_ERR_MESSAGE_TRUNCATED);
      CHECK_OK(ucxx_request_recv_info(request, &queried));
      CHECK_EQ(queried.length, length);
      CHECK(strlen(ucxx_request_error_message(request)) > 0);
    }
    CHECK_STATUS(finish(status, &request), UCXX_ERR_MESSAGE_TRUNCATED);
    CHECK_EQ(info.length, length);
    CHECK(info.sender_tag == tag);
    for (int at = ROOM; at < ROOM + GUARD; at++) CHECK_EQ(in[at], 0x5a);
  }
  pair_sync(pair);
}

/* Messages with one tag arrive in the order sent, whatever their sizes, with receives posted early
 * or late. */
static void order(const pair_t *pair, int posted_first) {
  STEP("order on one tag, receives posted %s", posted_first ? "first" : "later");
  enum { MESSAGES = 1000 };
  static const size_t lengths[] = {8, 24000, 100, 700000, 2000, 9000};
  enum { LENGTHS = sizeof lengths / sizeof *lengths };
  ucxx_request_t *requests[MESSAGES];
  ucxx_status_t status[MESSAGES];
  uint8_t *data[MESSAGES];
  for (size_t at = 0; at < MESSAGES; at++) {
    requests[at] = NULL;
    /* The largest sizes are rare, to keep the total moderate. */
    size_t length = lengths[test_mix(pair->seed + at) % LENGTHS];
    if (length > 100000 && at % 20 != 0) length = 16;
    data[at] = test_alloc(length);
    if (pair->side == 0) test_fill(data[at], length, pair->seed + at);
    if (pair->side == 0 && at == 0 && posted_first) pair_await(pair);
    if (pair->side == 1 && at == 0 && !posted_first) await_message(pair, 9);
    status[at] =
        pair->side == 0
            ? ucxx_tag_send(pair->endpoint, data[at], length, 9, NULL, &requests[at])
            : ucxx_tag_recv(pair->worker, data[at], length, 9, UINT64_MAX, NULL, &requests[at]);
    CHECK(status[at] == UCXX_OK || status[at] == UCXX_INPROGRESS);
  }
  if (pair->side == 1 && posted_first) pair_tell(pair);
  for (size_t at = 0; at < MESSAGES; at++) {
    size_t length = lengths[test_mix(pair->seed + at) % LENGTHS];
    if (length > 100000 && at % 20 != 0) length = 16;
    CHECK_OK(finish(status[at], &requests[at]));
    CHECK_CONTENT(data[at], length, pair->seed + at);
    free(data[at]);
  }
  pair_sync(pair);
}

/* Thousands are posted both ways before the test waits for any. */
static void many(const pair_t *pair, size_t length) {
  STEP("many messages of %zu bytes in flight", length);
  enum { MESSAGES = 4000 };
  static ucxx_request_t *sends[MESSAGES], *receives[MESSAGES];
  uint8_t *out = test_alloc(length * MESSAGES), *in = test_alloc(length * MESSAGES);
  uint64_t out_seed = pair->seed + (uint64_t)pair->side,
           in_seed = pair->seed + (uint64_t)!pair->side;
  test_fill(out, length * MESSAGES, out_seed);
  memset(in, 0, length * MESSAGES);
  for (size_t at = 0; at < MESSAGES; at++) {
    sends[at] = receives[at] = NULL;
    ucxx_status_t received = ucxx_tag_recv(pair->worker, in + at * length, length, TAG_BACK + at,
                                           UINT64_MAX, NULL, &receives[at]);
    ucxx_status_t sent =
        ucxx_tag_send(pair->endpoint, out + at * length, length, TAG_BACK + at, NULL, &sends[at]);
    CHECK(received == UCXX_OK || received == UCXX_INPROGRESS);
    CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
    CHECK((received == UCXX_INPROGRESS) == (receives[at] != NULL));
    CHECK((sent == UCXX_INPROGRESS) == (sends[at] != NULL));
  }
  ucxx_status_t status = ucxx_request_wait_all(receives, MESSAGES, FOR_EVER);
  CHECK(status == UCXX_OK || status == UCXX_ERR_NO_ELEM);
  status = ucxx_request_wait_all(sends, MESSAGES, FOR_EVER);
  CHECK(status == UCXX_OK || status == UCXX_ERR_NO_ELEM);
  for (size_t at = 0; at < MESSAGES; at++) {
    ucxx_request_destroy(sends[at]);
    ucxx_request_destroy(receives[at]);
  }
  CHECK_CONTENT(in, length * MESSAGES, in_seed);
  free(out);
  free(in);
  pair_sync(pair);
}

/* A probe that returns a message removes it from matching; the test then receives or drops it. */
static void messages(const pair_t *pair, size_t length) {
  STEP("probed message of %zu bytes", length);
  uint8_t *data = test_alloc(length);
  if (pair->side == 0) {
    test_fill(data, length, pair->seed);
    ucxx_request_t *first = NULL, *second = NULL;
    ucxx_status_t one = ucxx_tag_send(pair->endpoint, data, length, 21, NULL, &first);
    ucxx_status_t two = ucxx_tag_send(pair->endpoint, data, length, 22, NULL, &second);
    CHECK_OK(finish(one, &first));
    CHECK_OK(finish(two, &second));
  } else {
    ucxx_recv_info_t info = await_message(pair, 21), again;
    ucxx_tag_message_t *message = NULL, *dropped = NULL;
    CHECK_EQ(info.length, length);
    await_message(pair, 22);
    CHECK_OK(ucxx_tag_probe(pair->worker, 21, UINT64_MAX, &info, &message));
    CHECK(message != NULL);
    CHECK_STATUS(ucxx_tag_probe(pair->worker, 21, UINT64_MAX, &again, NULL), UCXX_ERR_NO_MESSAGE);
    memset(&info, 0, sizeof info);
    ucxx_op_params_t params = with_info(&info);
    ucxx_request_t *request = NULL;
    memset(data, 0, length);
    ucxx_status_t status = ucxx_tag_message_recv(message, data, length, &params, &request);
    CHECK_OK(finish(status, &request));
    ucxx_tag_message_destroy(message);
    CHECK_EQ(info.length, length);
    CHECK_EQ(info.sender_tag, 21);
    CHECK_CONTENT(data, length, pair->seed);
    CHECK_OK(ucxx_tag_probe(pair->worker, 22, UINT64_MAX, &info, &dropped));
    ucxx_tag_message_destroy(dropped);
    CHECK_STATUS(ucxx_tag_probe(pair->worker, 22, UINT64_MAX, &again, NULL), UCXX_ERR_NO_MESSAGE);
  }
  free(data);
  pair_sync(pair);
}

static void body(pair_t *pair) {
  pair_connect(pair, NULL, NULL, NULL);
  every_size(pair);
  empty_messages(pair);
  masks(pair);
  synchronous(pair, 0);
  synchronous(pair, 8);
  synchronous(pair, 100000);
  already_arrived(pair, 0, 1);
  already_arrived(pair, 8, 1);
  already_arrived(pair, 1000, 1);
  already_arrived(pair, 100000, 0);
  already_arrived(pair, 4 << 20, 0);
  for (int arrived_first = 0; arrived_first < 2; arrived_first++) {
    truncated(pair, 17, arrived_first);
    truncated(pair, 1000, arrived_first);
    truncated(pair, 100000, arrived_first);
    truncated(pair, 4 << 20, arrived_first);
  }
  order(pair, 0);
  order(pair, 1);
  many(pair, 8);
  many(pair, 3000);
  many(pair, 20000);
  messages(pair, 8);
  messages(pair, 8000);
  messages(pair, 4 << 20);
  pair_disconnect(pair);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "tag_transfer", body); }
