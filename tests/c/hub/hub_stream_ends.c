/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Ends of streams: several at a time, full hubs, links and hubs destroyed during the stream, and
 * their successors. No chunk is lost or duplicated. */
#include "hub_stream.h"

enum { SIZE = 70000, ENVELOPES = 5, WINDOW = 3, CHUNKS = 400 };

static pair_t *both;

static end_t open_end(size_t envelopes) {
  return end_open(both->context, both->worker, SIZE, envelopes);
}

static void join(ucxx_link_t *link, uint64_t stream) {
  CHECK_OK(ucxx_link_connect(link, both->endpoint, stream, WINDOW));
}

/* Connects a successor once the previous link of this stream is gone: only one stream of a number
 * may exist. */
static void join_after(ucxx_link_t *link, uint64_t stream) {
  ucxx_status_t status;
  while ((status = ucxx_link_connect(link, both->endpoint, stream, WINDOW)) ==
         UCXX_ERR_ALREADY_EXISTS)
    progress(both->worker);
  CHECK_OK(status);
}

/* Waits until the other side's actions have raised the count of consumed chunks to this. */
static void await_consumed(const end_t *end, uint64_t chunks) {
  while (hub_stats(end->hub).chunks_consumed < chunks) progress(end->worker);
  CHECK_EQ(hub_stats(end->hub).chunks_consumed, chunks);
}

/* Two hubs on each side: chunks that arrive on one stream return on another with the same
 * number. */
static void there_and_back(void) {
  STEP("there and back");
  end_t near = open_end(ENVELOPES), far = open_end(ENVELOPES);
  join(near.out, 1);
  join(far.in, 1);
  uint64_t sent = 0, came = 0;
  while (came < CHUNKS || sent < CHUNKS) {
    ucxx_envelope_t *envelope = NULL;
    if (sent < CHUNKS && ucxx_link_lease(near.in, 0, &envelope) == UCXX_OK)
      fill_chunk(envelope, both->seed, sent++);
    if (ucxx_link_lease(far.out, 0, &envelope) == UCXX_OK) {
      CHECK_EQ(read_chunk(envelope, both->seed, SIZE), came++);
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    }
    progress(both->worker);
  }
  drain(&near);
  CHECK_STATUS(consume_chunk(&far, both->seed, came, SIZE), UCXX_ERR_CLOSED);
  end_close(&near);
  end_close(&far);
  pair_sync(both);
}

/* Nobody consumes: as many chunks arrive as there are envelopes, and the sender keeps the rest. */
static void back_pressure(void) {
  STEP("a hub that is full");
  end_t end = open_end(ENVELOPES);
  if (both->side == 0) {
    join(end.out, 2);
    for (uint64_t number = 0; number < 2; number++) produce_chunk(&end, both->seed, number);
    await_consumed(&end, 2);
    for (uint64_t number = 2; number < 6; number++) produce_chunk(&end, both->seed, number);
    await_consumed(&end, 3);
    while (hub_stats(end.hub).credit_stalls == 0) progress(end.worker);
    CHECK_EQ(ucxx_hub_length(end.hub), 3);
    CHECK_EQ(hub_stats(end.hub).leased_envelopes, 0);
    pair_sync(both);
    drain(&end);
    CHECK_EQ(hub_stats(end.hub).chunks_consumed, 6);
  } else {
    ucxx_hub_destroy(end.hub);
    ucxx_link_destroy(end.in);
    ucxx_link_destroy(end.out);
    end = open_end(3);
    join(end.in, 2);
    pair_sync(both);
    CHECK_EQ(ucxx_hub_length(end.hub), 3);
    for (uint64_t number = 0; number < 6; number++)
      CHECK_OK(consume_chunk(&end, both->seed, number, SIZE));
    CHECK_STATUS(consume_chunk(&end, both->seed, 6, SIZE), UCXX_ERR_CLOSED);
  }
  end_close(&end);
  pair_sync(both);
}

/* The receiving hub counts as drained when it is empty, whatever is leased for arriving chunks. Two
 * streams feed it, and the end of the second closes it. */
static void two_sources(void) {
  STEP("two streams into one hub");
  end_t one = open_end(ENVELOPES), other = open_end(ENVELOPES);
  if (both->side == 0) {
    join(one.out, 3);
    join(other.out, 4);
    pair_sync(both);
    produce_chunk(&one, both->seed, 0);
    drain(&one);
    pair_sync(both);
    pair_sync(both);
    produce_chunk(&other, both->seed, 1);
    drain(&other);
  } else {
    ucxx_link_t *second = hub_link(one.hub, UCXX_LINK_PRODUCE, on_host);
    join(one.in, 3);
    join(second, 4);
    /* The end of an only stream would close the hub. */
    pair_sync(both);
    CHECK_OK(consume_chunk(&one, both->seed, 0, SIZE));
    pair_sync(both);
    while (hub_stats(one.hub).leased_envelopes == 0) progress(both->worker);
    CHECK_OK(ucxx_hub_drain(one.hub, 0));
    lease_none(one.out, UCXX_ERR_NO_RESOURCE);
    pair_sync(both);
    CHECK_OK(consume_chunk(&one, both->seed, 1, SIZE));
    CHECK_STATUS(consume_chunk(&one, both->seed, 2, SIZE), UCXX_ERR_CLOSED);
    ucxx_link_destroy(second);
  }
  end_close(&one);
  end_close(&other);
  pair_sync(both);
}

/* The receiver stops after some chunks: it destroys its link or its hub, or closes the hub. A
 * successor gets the rest, and no chunk is lost or duplicated. */
static void receiver_goes(const char *how, char way) {
  STEP("a receiver stops: %s", how);
  end_t end = open_end(ENVELOPES);
  if (both->side == 0) {
    join(end.out, 5);
    for (uint64_t number = 0; number < CHUNKS; number++) produce_chunk(&end, both->seed, number);
    drain(&end);
    CHECK_EQ(hub_stats(end.hub).chunks_consumed, CHUNKS);
  } else {
    uint64_t number = 0;
    ucxx_envelope_t *envelope = NULL;
    join(end.in, 5);
    while (number < CHUNKS / 2) CHECK_OK(consume_chunk(&end, both->seed, number++, SIZE));
    if (way == 'l') {
      ucxx_link_destroy(end.in);
      end.in = hub_link(end.hub, UCXX_LINK_PRODUCE, on_host);
      join_after(end.in, 5);
    } else {
      CHECK_OK(ucxx_hub_close(end.hub));
      while (ucxx_link_lease(end.out, 0, &envelope) != UCXX_ERR_CLOSED) {
        if (envelope != NULL) {
          CHECK_EQ(read_chunk(envelope, both->seed, SIZE), number++);
          CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
          envelope = NULL;
        }
        progress(both->worker);
      }
      end_close(&end);
      end = open_end(2);
      join_after(end.in, 5);
    }
    while (number < CHUNKS) CHECK_OK(consume_chunk(&end, both->seed, number++, SIZE));
    CHECK_STATUS(consume_chunk(&end, both->seed, number, SIZE), UCXX_ERR_CLOSED);
  }
  end_close(&end);
  pair_sync(both);
}

/* The sender's link or hub is destroyed: the receiver has everything that was sent, and continues
 * with the next sender. */
static void sender_goes(const char *how, int hub) {
  STEP("a sender stops: %s", how);
  end_t end = open_end(ENVELOPES);
  if (both->side == 0) {
    uint64_t number = 0;
    join(end.out, 6);
    while (number < CHUNKS / 2) produce_chunk(&end, both->seed, number++);
    if (hub) {
      while (ucxx_hub_drain(end.hub, 0) != UCXX_OK) progress(both->worker);
      end_close(&end);
      end = open_end(ENVELOPES);
    } else {
      ucxx_link_destroy(end.out);
      end.out = hub_link(end.hub, UCXX_LINK_CONSUME, on_host);
    }
    join_after(end.out, 6);
    while (number < CHUNKS) produce_chunk(&end, both->seed, number++);
    drain(&end);
  } else {
    join(end.in, 6);
    for (uint64_t number = 0; number < CHUNKS; number++)
      CHECK_OK(consume_chunk(&end, both->seed, number, SIZE));
    CHECK_STATUS(consume_chunk(&end, both->seed, CHUNKS, SIZE), UCXX_ERR_CLOSED);
  }
  end_close(&end);
  pair_sync(both);
}

/* A chunk too long for the receiver ends the stream, and stays in the sender's hub. */
static void too_long(void) {
  STEP("a chunk that is too long");
  end_t end = both->side == 0 ? open_end(2) : end_open(both->context, both->worker, 100, 2);
  join(both->side == 0 ? end.out : end.in, 7);
  if (both->side == 0) {
    ucxx_envelope_t *envelope = lease_now(end.in);
    CHECK_OK(ucxx_envelope_commit(envelope, 100, NULL));
    envelope = lease_now(end.in);
    memset(look_at(envelope).data, 'x', 101);
    CHECK_OK(ucxx_envelope_commit(envelope, 101, NULL));
    while (ucxx_link_lease(end.out, 0, &envelope) == UCXX_ERR_BUSY) progress(both->worker);
    CHECK_EQ(look_at(envelope).length, 101);
    CHECK_EQ(((const char *)look_at(envelope).data)[100], 'x');
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    CHECK_EQ(hub_stats(end.hub).chunks_consumed, 2);
  } else {
    ucxx_envelope_t *envelope = NULL;
    while (ucxx_link_lease(end.out, 0, &envelope) == UCXX_ERR_NO_RESOURCE) progress(both->worker);
    CHECK_EQ(look_at(envelope).length, 100);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  pair_sync(both);
  end_close(&end);
  pair_sync(both);
}

/* A chunk goes to the other side and to a local broadcast reader. Devices are local to each
 * side. */
static void devices_and_others(void) {
  STEP("to a device, and to a reader on this side");
  end_t end = open_end(ENVELOPES);
  CHECK_OK(ucxx_hub_add_envelopes(end.hub, on_dummy, ENVELOPES));
  if (both->side == 0) {
    ucxx_link_t *reader = hub_broadcast(end.hub, on_host),
                *there = hub_broadcast(end.hub, on_dummy);
    ucxx_link_destroy(end.out);
    end.out = reader;
    join(there, 8);
    for (uint64_t number = 0; number < CHUNKS; number++) {
      produce_chunk(&end, both->seed, number);
      CHECK_OK(consume_chunk(&end, both->seed, number, SIZE));
    }
    drain(&end);
    ucxx_link_destroy(there);
  } else {
    ucxx_link_t *in = hub_link(end.hub, UCXX_LINK_PRODUCE, on_dummy);
    join(in, 8);
    for (uint64_t number = 0; number < CHUNKS; number++)
      CHECK_OK(consume_chunk(&end, both->seed, number, SIZE));
    CHECK_STATUS(consume_chunk(&end, both->seed, CHUNKS, SIZE), UCXX_ERR_CLOSED);
    ucxx_link_destroy(in);
  }
  end_close(&end);
  pair_sync(both);
}

/* Links whose peer never connects are destroyed; some end with their worker. */
static void never_met(void) {
  STEP("links whose peer never connects");
  end_t end = open_end(1);
  join(end.in, 100 + (uint64_t)both->side);
  join(end.out, 200 + (uint64_t)both->side);
  CHECK_STATUS(ucxx_link_connect(end.in, both->endpoint, 1, 1), UCXX_ERR_BUSY);
  ucxx_link_t *other = hub_link(end.hub, UCXX_LINK_CONSUME, on_host);
  CHECK_STATUS(ucxx_link_connect(other, both->endpoint, 200 + (uint64_t)both->side, 1),
               UCXX_ERR_ALREADY_EXISTS);
  CHECK_MESSAGE("stream_id");
  ucxx_link_destroy(other);
  pair_sync(both);
  end_close(&end);
  pair_sync(both);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s", mode);
  pair_connect(both, NULL, params, NULL);
  there_and_back();
  back_pressure();
  two_sources();
  receiver_goes("its link", 'l');
  receiver_goes("its hub is closed", 'c');
  sender_goes("its link", 0);
  sender_goes("its hub", 1);
  too_long();
  devices_and_others();
  never_met();
  pair_disconnect(both);
}

static void body(pair_t *pair) {
  both = pair;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "hub_stream_ends", body); }
