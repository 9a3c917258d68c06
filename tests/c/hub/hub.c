/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Hubs on one thread: every step of a chunk between its producer and its consumers, and the
 * errors. */
#include "hub.h"

#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 64 };

static void produce_and_consume(void) {
  STEP("chunks are consumed in the order of their commits, and their envelopes become free again");
  hub_t hub = hub_open(SIZE, 2, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  for (uint64_t round = 0; round < 100; round++) {
    produce_word(in, 2 * round);
    produce_word(in, 2 * round + 1);
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_EQ(ucxx_hub_length(hub.hub), 2);
    CHECK_EQ(consume_word(out), 2 * round);
    CHECK_EQ(consume_word(out), 2 * round + 1);
    CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  }
  STEP("commits in another order than the leases: the order of the commits counts");
  ucxx_envelope_t *first = lease_now(in), *second = lease_now(in);
  put_word(second, 2);
  put_word(first, 1);
  CHECK_EQ(consume_word(out), 2);
  CHECK_EQ(consume_word(out), 1);
  STEP("an aborted production is no chunk");
  CHECK_OK(ucxx_envelope_abort(lease_now(in), NULL));
  CHECK_OK(ucxx_envelope_release(lease_now(in), NULL));
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  ucxx_hub_stats_t stats = hub_stats(hub.hub);
  CHECK_EQ(stats.chunks_produced, 202);
  CHECK_EQ(stats.chunks_consumed, 202);
  CHECK_EQ(stats.free_envelopes, 2);
  CHECK_EQ(stats.queue_high_water, 2);
  CHECK_EQ(stats.transfers + stats.leased_envelopes + stats.trashed_envelopes + stats.queued_chunks,
           0);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void envelopes(void) {
  STEP("an envelope's attributes; its metadata is passed on, and is zero at first");
  hub_t hub = hub_open(SIZE, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  for (int round = 0; round < 3; round++) {
    ucxx_envelope_t *envelope = lease_now(in);
    ucxx_envelope_attr_t attr = look_at(envelope);
    CHECK_EQ(attr.length, 0);
    CHECK_EQ(attr.capacity, SIZE);
    CHECK_EQ(attr.kind.memory_type, UCXX_MEMORY_HOST);
    CHECK_EQ(attr.kind.device_id, 0);
    CHECK_EQ(attr.metadata_length, 64);
    CHECK(attr.ready_event == NULL);
    CHECK_EQ((uintptr_t)attr.data % 64, 0);
    for (size_t at = 0; at < attr.metadata_length; at++) CHECK_EQ(attr.metadata[at], 0);
    test_fill(attr.data, SIZE, 5);
    test_fill(attr.metadata, 64, 6);
    CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE + 1, NULL), UCXX_ERR_INVALID_PARAM);
    CHECK_MESSAGE("length");
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE - 1, NULL));
    envelope = lease_now(out);
    attr = look_at(envelope);
    CHECK_EQ(attr.length, SIZE - 1);
    CHECK_EQ(attr.kind.memory_type, UCXX_MEMORY_DUMMY);
    CHECK_CONTENT(attr.data, SIZE - 1, 5);
    CHECK_CONTENT(attr.metadata, 64, 6);
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE_MAX, NULL));
    CHECK_STATUS(ucxx_envelope_commit(envelope, 0, NULL), UCXX_ERR_INVALID_PARAM);
    CHECK_STATUS(ucxx_envelope_query(envelope, &attr), UCXX_ERR_INVALID_PARAM);
  }
  STEP("a stream on memory that is not CUDA");
  ucxx_envelope_t *envelope = lease_now(in);
  CHECK_STATUS(ucxx_envelope_commit(envelope, 1, &hub), UCXX_ERR_NO_DEVICE);
  CHECK_STATUS(ucxx_envelope_release(envelope, &hub), UCXX_ERR_NO_DEVICE);
  CHECK_STATUS(ucxx_envelope_abort(envelope, &hub), UCXX_ERR_NO_DEVICE);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void autocommit(void) {
  STEP("a release commits with an autocommit link, and aborts with others");
  hub_t hub = hub_open(SIZE, 2, 0);
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t *links[3] = {NULL};
  const int32_t types[] = {UCXX_LINK_PRODUCE, UCXX_LINK_MODIFY, UCXX_LINK_CONSUME};
  params.autocommit = 1;
  for (int at = 0; at < 3; at++)
    CHECK_OK(ucxx_link_create(hub.hub, types[at], on_host, &params, &links[at]));
  ucxx_envelope_t *envelope = lease_now(links[0]);
  *word_of(envelope) = 7;
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  envelope = lease_now(links[1]);
  CHECK_EQ(look_at(envelope).length, SIZE);
  (*word_of(envelope))++;
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  STEP("an abort is an abort with autocommit, too");
  envelope = lease_now(links[2]);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  envelope = lease_now(links[2]);
  CHECK_EQ(*word_of(envelope), 8);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  STEP("without autocommit nothing is committed by itself");
  ucxx_link_t *plain = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  produce_word(links[0], 9);
  CHECK_OK(ucxx_envelope_release(lease_now(plain), NULL));
  CHECK_EQ(consume_word(plain), 9);
  ucxx_link_destroy(plain);
  for (int at = 0; at < 3; at++) ucxx_link_destroy(links[at]);
  hub_close(&hub);
}

static void transfers(void) {
  STEP("a transfer copies ahead of time to a consumer's device");
  hub_t hub = hub_open(SIZE, 3, 2);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  for (uint64_t word = 1; word <= 3; word++) produce_word(in, word);
  CHECK_EQ(hub_stats(hub.hub).transfers, 2);
  CHECK_EQ(hub_stats(hub.hub).transfer_bytes, 16);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 0);
  for (uint64_t word = 1; word <= 3; word++) CHECK_EQ(consume_word(out), word);
  CHECK_EQ(hub_stats(hub.hub).transfers, 3);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 5);
  STEP("consumption of a chunk during the lease of another one");
  produce_word(in, 4);
  produce_word(in, 5);
  ucxx_envelope_t *older = lease_now(out), *younger = lease_now(out);
  CHECK_EQ(*word_of(older), 4);
  CHECK_OK(ucxx_envelope_commit(younger, 0, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  STEP("an aborted consumption is offered first");
  produce_word(in, 6);
  CHECK_OK(ucxx_envelope_abort(older, NULL));
  CHECK_EQ(consume_word(out), 4);
  CHECK_EQ(consume_word(out), 6);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void manual(void) {
  STEP("push, peek and pop by hand; a peek copies to the requested device");
  hub_t hub = hub_open(SIZE, 2, 1);
  ucxx_envelope_t *envelope = NULL;
  CHECK_STATUS(ucxx_hub_pop(hub.hub), UCXX_ERR_NO_ELEM);
  CHECK_STATUS(ucxx_hub_peek(hub.hub, on_host, 0, &envelope), UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(ucxx_hub_peek(hub.hub, on_host, MILLISECOND, &envelope), UCXX_ERR_TIMED_OUT);
  push_word(hub.hub, on_host, 1);
  push_word(hub.hub, on_host, 2);
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_host, &envelope), UCXX_ERR_NO_RESOURCE);
  CHECK(envelope == NULL);
  CHECK_EQ(hub_stats(hub.hub).transfers, 0);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 1);
  CHECK_EQ(peek_word(hub.hub, on_host), 1);
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  CHECK_OK(ucxx_hub_peek(hub.hub, on_dummy, 0, &envelope));
  CHECK_STATUS(ucxx_hub_pop(hub.hub), UCXX_ERR_BUSY);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_EQ(peek_word(hub.hub, on_dummy), 2);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  STEP("a peek on a device without an envelope");
  push_word(hub.hub, on_host, 3);
  envelope = NULL;
  CHECK_STATUS(ucxx_hub_peek(hub.hub, on_other_dummy, FOR_EVER, &envelope), UCXX_ERR_STARVED);
  CHECK(envelope == NULL);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
  STEP("a pushed envelope that is released without a commit is no chunk");
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &envelope));
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  hub_close(&hub);
}

static int deallocated;

static void deallocate(void *arg, void *data) {
  CHECK(arg == &deallocated);
  free(data);
  deallocated++;
}

static void wrapped(void) {
  STEP("the caller's memory serves as an envelope, and is returned at the end");
  hub_t hub = hub_open(SIZE, 0, 0);
  uint64_t *mine = test_alloc(SIZE), kept[SIZE / 8] = {0};
  CHECK_OK(ucxx_hub_add_buffer(hub.hub, on_host, mine, deallocate, &deallocated));
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
  CHECK(word_of(envelope) == mine);
  put_word(envelope, 11);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host);
  envelope = lease_now(modify);
  CHECK(word_of(envelope) == mine);
  CHECK_EQ(*mine, 11);
  put_word(envelope, 12);
  CHECK_EQ(*mine, 12);
  CHECK_EQ(peek_word(hub.hub, on_host), 12);
  CHECK_OK(ucxx_hub_add_buffer(hub.hub, on_dummy, kept, NULL, NULL));
  CHECK_EQ(peek_word(hub.hub, on_dummy), 12);
  CHECK_EQ(kept[0], 12);
  CHECK_EQ(deallocated, 0);
  STEP("a lease keeps the memory in use");
  envelope = lease_now(modify);
  hub_close(&hub);
  CHECK_EQ(deallocated, 0);
  CHECK_EQ(*word_of(envelope), 12);
  CHECK_STATUS(ucxx_envelope_commit(envelope, 8, NULL), UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  CHECK_EQ(deallocated, 1);
  lease_none(modify, UCXX_ERR_CLOSED);
  ucxx_link_destroy(modify);
  CHECK_EQ(deallocated, 1);
}

static void end_of_stream(void) {
  STEP("after a close readers get the remaining chunks, then CLOSED");
  hub_t hub = hub_open(SIZE, 4, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_host);
  ucxx_envelope_t *envelope = lease_now(in), *late = lease_now(in);
  produce_word(in, 1);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_OK(ucxx_hub_close(hub.hub));
  lease_none(in, UCXX_ERR_CLOSED);
  ucxx_envelope_t *pushed = NULL;
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_host, &pushed), UCXX_ERR_CLOSED);
  CHECK_EQ(consume_word(out), 1);
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(ucxx_hub_drain(hub.hub, 0), UCXX_ERR_TIMED_OUT);
  put_word(envelope, 2);
  ucxx_envelope_t *held = lease_now(out);
  CHECK_OK(ucxx_envelope_abort(late, NULL));
  CHECK_STATUS(ucxx_hub_drain(hub.hub, MILLISECOND), UCXX_ERR_TIMED_OUT);
  STEP("no CLOSED while another consumer may still return a chunk; its own leases do not count");
  ucxx_link_t *other = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  lease_none(other, UCXX_ERR_NO_RESOURCE);
  lease_none(out, UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  CHECK_EQ(consume_word(other), 2);
  lease_none(out, UCXX_ERR_CLOSED);
  lease_none(other, UCXX_ERR_CLOSED);
  lease_none(peek, UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_hub_drain(hub.hub, 0));
  ucxx_hub_destroy(hub.hub);
  STEP("links outlive their hub, and return CLOSED");
  lease_none(in, UCXX_ERR_CLOSED);
  lease_none(out, UCXX_ERR_CLOSED);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(other);
  ucxx_link_destroy(peek);
  ucxx_context_destroy(hub.context);
}

/* A broadcast consumer's own leases do not delay its CLOSED, as with competing consumers. */
static void end_of_broadcast(void) {
  STEP("a broadcast consumer that holds its last chunks gets CLOSED; one that has not seen them "
       "does not");
  hub_t hub = hub_open(SIZE, 3, 0);
  ucxx_link_t *all = hub_broadcast(hub.hub, on_host), *late = hub_broadcast(hub.hub, on_host);
  ucxx_link_t *one = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host),
              *two = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_envelope_t *made = NULL, *none = NULL;
  push_word(hub.hub, on_host, 1);
  push_word(hub.hub, on_host, 2);
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &made));
  ucxx_envelope_t *first = lease_now(all), *second = lease_now(all), *competed = lease_now(one);
  CHECK_OK(ucxx_hub_close(hub.hub));
  lease_none(all, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(made, NULL));
  CHECK_STATUS(ucxx_link_lease(all, FOR_EVER, &none), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_link_lease_many(&all, 1, FOR_EVER, &none), UCXX_ERR_CLOSED);
  STEP("what it returns it can lease again");
  CHECK_OK(ucxx_envelope_commit(second, 0, NULL));
  lease_none(all, UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_envelope_abort(first, NULL));
  CHECK_EQ(consume_word(all), 1);
  lease_none(all, UCXX_ERR_CLOSED);
  CHECK_EQ(consume_word(late), 1);
  CHECK_EQ(consume_word(late), 2);
  lease_none(late, UCXX_ERR_CLOSED);
  CHECK_EQ(consume_word(two), 2);
  lease_none(two, UCXX_ERR_NO_RESOURCE);
  lease_none(one, UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_envelope_commit(competed, 0, NULL));
  lease_none(two, UCXX_ERR_CLOSED);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  ucxx_link_destroy(all);
  ucxx_link_destroy(late);
  ucxx_link_destroy(one);
  ucxx_link_destroy(two);
  hub_close(&hub);
}

static void starvation(void) {
  STEP("a link that can never be served: validate names it, a lease says how many envelopes are "
       "missing");
  hub_t hub = hub_open(SIZE, 1, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  CHECK_OK(ucxx_hub_validate(hub.hub));
  ucxx_link_t *hungry = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  char named[40];
  snprintf(named, sizeof named, "the link %p,", (void *)hungry);
  CHECK_STATUS(ucxx_hub_validate(hub.hub), UCXX_ERR_STARVED);
  CHECK_MESSAGE(named);
  CHECK_MESSAGE("consumes");
  CHECK_MESSAGE("dummy device 0");
  CHECK_MESSAGE("1 more");
  ucxx_envelope_t *envelope = NULL;
  CHECK_STATUS(ucxx_link_lease(hungry, FOR_EVER, &envelope), UCXX_ERR_STARVED);
  CHECK_MESSAGE("dummy device 0");
  produce_word(in, 1);
  lease_none(hungry, UCXX_ERR_STARVED);
  STEP("it is outside the flow, or gets envelopes");
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
  CHECK_OK(ucxx_hub_validate(hub.hub));
  CHECK_OK(ucxx_hub_set_flow(hub.hub, NULL, 0));
  CHECK_STATUS(ucxx_hub_validate(hub.hub), UCXX_ERR_STARVED);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_dummy, 1));
  CHECK_OK(ucxx_hub_validate(hub.hub));
  CHECK_EQ(consume_word(hungry), 1);
  STEP("nobody is served when the last link of a dataflow strategy is destroyed, nor the links "
       "outside the strategy");
  ucxx_link_t *only = hub_link(hub.hub, UCXX_LINK_PEEK, on_host);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &only, 1));
  CHECK_OK(ucxx_hub_add_flow(hub.hub, hungry));
  ucxx_link_destroy(only);
  CHECK_OK(ucxx_hub_validate(hub.hub));
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
  ucxx_link_destroy(out);
  push_word(hub.hub, on_host, 2);
  CHECK_STATUS(ucxx_hub_validate(hub.hub), UCXX_ERR_STARVED);
  CHECK_MESSAGE("dataflow strategy");
  lease_none(hungry, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, NULL, 0));
  CHECK_OK(ucxx_hub_validate(hub.hub));
  CHECK_EQ(consume_word(hungry), 2);
  out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  STEP("producers are starved, too");
  ucxx_link_t *producer = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_other_dummy);
  CHECK_STATUS(ucxx_hub_validate(hub.hub), UCXX_ERR_STARVED);
  CHECK_MESSAGE("produces on dummy device 1");
  lease_none(producer, UCXX_ERR_STARVED);
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_other_dummy, &envelope), UCXX_ERR_STARVED);
  STEP("each link can be served alone, both together never");
  ucxx_link_t *both[] = {out, in};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  CHECK_STATUS(ucxx_link_lease_many(both, 2, FOR_EVER, envelopes), UCXX_ERR_STARVED);
  CHECK_MESSAGE("1 more envelope");
  CHECK(envelopes[0] == NULL && envelopes[1] == NULL);
  ucxx_link_destroy(producer);
  ucxx_link_destroy(hungry);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

/* For every type of link and every kind of lease call. */
static void starved_links(void) {
  static const struct {
    int32_t type;
    uint8_t broadcast;
    const char *role;
  } rows[] = {{UCXX_LINK_PRODUCE, 0, "produces"},
              {UCXX_LINK_CONSUME, 0, "consumes"},
              {UCXX_LINK_CONSUME, 1, "consumes"},
              {UCXX_LINK_PEEK, 0, "peeks"},
              {UCXX_LINK_MODIFY, 0, "modifies"}};
  hub_t hub = hub_open(SIZE, 2, 0);
  push_word(hub.hub, on_host, 1);
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    STEP("a link that %s on a device without envelopes%s", rows[row].role,
         rows[row].broadcast ? ", as others do" : "");
    ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
    params.broadcast = rows[row].broadcast;
    ucxx_link_t *link = NULL;
    ucxx_envelope_t *envelopes[3] = {NULL};
    CHECK_OK(ucxx_link_create(hub.hub, rows[row].type, on_other_dummy, &params, &link));
    for (int by = 0; by < 3; by++) {
      CHECK_STATUS(by == 0   ? ucxx_hub_validate(hub.hub)
                   : by == 1 ? ucxx_link_lease(link, FOR_EVER, envelopes)
                             : ucxx_link_lease_many(&link, 1, FOR_EVER, envelopes),
                   UCXX_ERR_STARVED);
      CHECK_MESSAGE(rows[row].role);
      CHECK_MESSAGE("dummy device 1");
      CHECK_MESSAGE("1 more envelope needed");
    }
    /* Producers and consumers need one envelope each, as they get another with each lease. Peeks
     * can share one. */
    int is_one_each = rows[row].type == UCXX_LINK_PRODUCE || rows[row].type == UCXX_LINK_CONSUME;
    ucxx_link_t *three[] = {link, link, link};
    CHECK_STATUS(ucxx_link_lease_many(three, 3, FOR_EVER, envelopes), UCXX_ERR_STARVED);
    CHECK_MESSAGE(is_one_each ? "3 more envelopes needed" : "1 more envelope needed");
    CHECK(envelopes[0] == NULL && envelopes[1] == NULL && envelopes[2] == NULL);
    ucxx_link_destroy(link);
    CHECK_OK(ucxx_hub_validate(hub.hub));
  }
  STEP("the hub's own calls");
  ucxx_envelope_t *none = NULL;
  CHECK_STATUS(ucxx_hub_peek(hub.hub, on_other_dummy, FOR_EVER, &none), UCXX_ERR_STARVED);
  CHECK_MESSAGE("a call that peeks on dummy device 1 can never be served");
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_other_dummy, &none), UCXX_ERR_STARVED);
  CHECK_MESSAGE("produces on dummy device 1");
  CHECK(none == NULL);
  STEP("enough for one link, and too little for others by so much");
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_other_dummy, 1));
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_other_dummy),
              *three[] = {out, out, out};
  ucxx_envelope_t *envelopes[3] = {NULL};
  CHECK_STATUS(ucxx_link_lease_many(three, 3, FOR_EVER, envelopes), UCXX_ERR_STARVED);
  CHECK_MESSAGE("2 more envelopes needed");
  CHECK_EQ(hub_stats(hub.hub).leased_envelopes, 0);
  CHECK_EQ(consume_word(out), 1);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

/* In the child every call only returns an error. */
static int in_child(hub_t *hub, ucxx_link_t *link, ucxx_envelope_t *held) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
  ucxx_envelope_t *envelope = NULL;
  ucxx_link_t *other = NULL;
  const ucxx_status_t statuses[] = {
      ucxx_link_lease(link, FOR_EVER, &envelope),
      ucxx_link_lease_many(&link, 1, 0, &envelope),
      ucxx_envelope_query(held, &attr),
      ucxx_envelope_commit(held, 8, NULL),
      ucxx_envelope_abort(held, NULL),
      ucxx_envelope_release(held, NULL),
      ucxx_envelope_swap(held, held),
      ucxx_link_create(hub->hub, UCXX_LINK_PEEK, on_host, NULL, &other),
      ucxx_link_arm(link),
      ucxx_hub_add_envelopes(hub->hub, on_host, 1),
      ucxx_hub_set_flow(hub->hub, NULL, 0),
      ucxx_hub_validate(hub->hub),
      ucxx_hub_push(hub->hub, on_host, &envelope),
      ucxx_hub_peek(hub->hub, on_host, FOR_EVER, &envelope),
      ucxx_hub_pop(hub->hub),
      ucxx_hub_close(hub->hub),
      ucxx_hub_drain(hub->hub, FOR_EVER),
      ucxx_hub_query_stats(hub->hub, &stats)};
  for (size_t at = 0; at < sizeof statuses / sizeof *statuses; at++)
    if (statuses[at] != UCXX_ERR_FORKED) return 10 + (int)at;
  if (envelope != NULL || other != NULL || ucxx_hub_length(hub->hub) != 0) return 1;
  ucxx_link_destroy(link);
  ucxx_hub_destroy(hub->hub);
  return 0;
}

static void forked(void) {
  STEP("in a forked child all calls return an error, and destroys do nothing");
  hub_t hub = hub_open(SIZE, 2, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  ucxx_envelope_t *held = lease_now(in);
  push_word(hub.hub, on_host, 1);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(in_child(&hub, in, held));
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  put_word(held, 2);
  CHECK_EQ(ucxx_hub_length(hub.hub), 2);
  ucxx_link_destroy(in);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub");
  produce_and_consume();
  envelopes();
  autocommit();
  transfers();
  manual();
  wrapped();
  end_of_stream();
  end_of_broadcast();
  starvation();
  starved_links();
  forked();
  return 0;
}
