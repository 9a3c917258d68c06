/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A stream on an endpoint whose send queue is full of user messages. The stream's control messages
 * and chunks with credit are sent nevertheless: the stream continues, ends, and duplicates nothing.
 */
#include "hub_stream.h"

enum { SIZE = 100, ENVELOPES = 4, CHUNKS = 9, MOST = 16, LARGE = 1 << 20, TAG = 77 };

static unsigned char large[LARGE];

/* Sends messages that nobody receives until one is refused. */
static int fill_queue(ucxx_endpoint_t *endpoint, ucxx_request_t **requests) {
  int count = 0;
  ucxx_status_t status = UCXX_INPROGRESS;
  while (status == UCXX_INPROGRESS) {
    CHECK(count < MOST);
    status = ucxx_tag_send(endpoint, large, sizeof large, TAG, NULL, &requests[count]);
    count += status == UCXX_INPROGRESS;
  }
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
  return count;
}

static void empty_queue(const duo_t *duo, ucxx_worker_t *to, ucxx_request_t **requests, int count) {
  static unsigned char in[LARGE];
  for (int at = 0; at < count; at++) {
    ucxx_request_t *request = NULL;
    CHECK_OK(duo_finish(duo, ucxx_tag_recv(to, in, sizeof in, TAG, UINT64_MAX, NULL, &request),
                        &request));
    CHECK_OK(duo_finish(duo, UCXX_INPROGRESS, &requests[at]));
  }
}

/* Fills the sender's queue (at_sender) or the receiver's. */
static void round_of(int at_sender) {
  duo_t duo;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_request_t *requests[MOST] = {0};
  uint64_t seed = test_seed(), made = 0, taken = 0;
  STEP("the %s's queue is full", at_sender ? "sender" : "receiver");
  params.send_window_ops = 2;
  params.send_queue_ops = 2;
  duo_open_as(&duo, NULL, &params);
  end_t source = end_open(duo.context, duo.left, SIZE, ENVELOPES),
        sink = end_open(duo.context, duo.right, SIZE, ENVELOPES);
  CHECK_OK(ucxx_link_connect(source.out, duo.to_right, 7, 2));
  CHECK_OK(ucxx_link_connect(sink.in, duo.to_left, 7, 2));
  produce_chunk(&source, seed, made++);
  while (hub_stats(source.hub).chunks_consumed < 1) duo_progress(&duo);

  ucxx_worker_t *other = at_sender ? duo.right : duo.left;
  int count = fill_queue(at_sender ? duo.to_right : duo.to_left, requests);
  produce_chunk(&source, seed, made++);
  /* The receiver has the chunk, or it waits in the sender's queue. In both cases a message must be
   * sent while the queue is full. */
  for (int pass = 0; pass < 1000; pass++) duo_progress(&duo);
  empty_queue(&duo, other, requests, count);

  STEP("the stream continues");
  while (made < CHUNKS || taken < CHUNKS) {
    ucxx_envelope_t *envelope = NULL;
    if (made < CHUNKS && ucxx_link_lease(source.in, 0, &envelope) == UCXX_OK)
      fill_chunk(envelope, seed, made++);
    if (ucxx_link_lease(sink.out, 0, &envelope) == UCXX_OK) {
      CHECK_EQ(read_chunk(envelope, seed, SIZE), taken);
      taken++;
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    }
    duo_progress(&duo);
  }
  CHECK_OK(ucxx_hub_close(source.hub));
  ucxx_status_t status;
  while ((status = ucxx_hub_drain(source.hub, 0)) == UCXX_ERR_TIMED_OUT) duo_progress(&duo);
  CHECK_OK(status);
  end_close(&source);
  end_close(&sink);
  duo_close(&duo);
}

int main(void) {
  test_begin("hub_stream_queue");
  round_of(0);
  round_of(1);
  return 0;
}
