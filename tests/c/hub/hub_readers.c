/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Several links that read one hub: competing and broadcast consumers, peeks, modifiers, dataflow
 * strategies, and what becomes of replicas. */
#include "hub.h"

enum { SIZE = 64 };

static hub_t hub_retaining(int32_t retain, size_t host, size_t dummy) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.retain = retain;
  return hub_open_with(&params, host, dummy);
}

static void competing(void) {
  STEP("competing consumers hold different chunks at once, and may consume them in any order");
  hub_t hub = hub_open(SIZE, 4, 0);
  ucxx_link_t *a = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host),
              *b = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  for (uint64_t word = 1; word <= 4; word++) push_word(hub.hub, on_host, word);
  ucxx_envelope_t *first = lease_now(a), *second = lease_now(b), *third = lease_now(a);
  CHECK_EQ(*word_of(first), 1);
  CHECK_EQ(*word_of(second), 2);
  CHECK_EQ(*word_of(third), 3);
  CHECK_OK(ucxx_envelope_commit(second, 0, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 3);
  CHECK_OK(ucxx_envelope_abort(third, NULL));
  CHECK_OK(ucxx_envelope_abort(first, NULL));
  CHECK_EQ(consume_word(b), 1);
  CHECK_EQ(consume_word(b), 3);
  CHECK_EQ(consume_word(a), 4);
  lease_none(a, UCXX_ERR_NO_RESOURCE);
  ucxx_link_destroy(a);
  ucxx_link_destroy(b);
  hub_close(&hub);
}

static void broadcast(void) {
  STEP("a broadcast consumer sees every chunk at its own pace; envelopes are free when all have");
  hub_t hub = hub_open(SIZE, 3, 3);
  ucxx_link_t *fast = hub_broadcast(hub.hub, on_host), *slow = hub_broadcast(hub.hub, on_dummy);
  ucxx_link_t *competitor = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  for (uint64_t word = 1; word <= 3; word++) push_word(hub.hub, on_host, word);
  for (uint64_t word = 1; word <= 3; word++) CHECK_EQ(consume_word(fast), word);
  lease_none(fast, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(consume_word(competitor), 1);
  CHECK_EQ(ucxx_hub_length(hub.hub), 3);
  ucxx_envelope_t *first = lease_now(slow), *second = lease_now(slow);
  CHECK_OK(ucxx_envelope_commit(second, 0, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 3);
  CHECK_OK(ucxx_envelope_commit(first, 0, NULL));
  CHECK_EQ(ucxx_hub_length(hub.hub), 2);
  CHECK_EQ(consume_word(competitor), 2);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  STEP("a late consumer sees the queued chunks; a destroyed one is not waited for");
  ucxx_link_t *late = hub_broadcast(hub.hub, on_host);
  CHECK_EQ(consume_word(slow), 3);
  CHECK_EQ(consume_word(competitor), 3);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  push_word(hub.hub, on_host, 4);
  CHECK_EQ(consume_word(late), 3);
  CHECK_EQ(consume_word(slow), 4);
  CHECK_EQ(consume_word(fast), 4);
  CHECK_EQ(consume_word(competitor), 4);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  ucxx_link_destroy(late);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 6);
  STEP("63 broadcast consumers, and no more");
  ucxx_link_t *many[62], *last = NULL;
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.broadcast = 1;
  for (int at = 0; at < 61; at++) many[at] = hub_broadcast(hub.hub, on_host);
  CHECK_STATUS(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_host, &params, &last),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK(last == NULL);
  push_word(hub.hub, on_host, 5);
  for (int at = 0; at < 61; at++) CHECK_EQ(consume_word(many[at]), 5);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  ucxx_link_destroy(competitor);
  CHECK_EQ(consume_word(fast), 5);
  CHECK_EQ(consume_word(slow), 5);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  for (int at = 0; at < 61; at++) ucxx_link_destroy(many[at]);
  ucxx_link_destroy(fast);
  ucxx_link_destroy(slow);
  hub_close(&hub);
}

static void peeking(void) {
  STEP("any number of peeks see the top chunk, also while it is consumed: then it is trashed "
       "until they end");
  hub_t hub = hub_open(SIZE, 2, 2);
  ucxx_link_t *here = hub_link(hub.hub, UCXX_LINK_PEEK, on_host),
              *there = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  lease_none(here, UCXX_ERR_NO_RESOURCE);
  push_word(hub.hub, on_host, 1);
  push_word(hub.hub, on_host, 2);
  ucxx_envelope_t *a = lease_now(here), *b = lease_now(here), *c = lease_now(there),
                  *d = lease_now(out);
  CHECK(word_of(a) == word_of(b) && word_of(a) == word_of(d) && word_of(a) != word_of(c));
  CHECK_EQ(*word_of(c), 1);
  CHECK_EQ(hub_stats(hub.hub).leased_envelopes, 2);
  CHECK_OK(ucxx_envelope_commit(d, 0, NULL));
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes, 2);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 0);
  STEP("meanwhile the next one is the top chunk");
  CHECK_EQ(peek_word(hub.hub, on_host), 2);
  ucxx_envelope_t *pushed = NULL;
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_host, &pushed), UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(*word_of(a), 1);
  CHECK_EQ(*word_of(c), 1);
  CHECK_OK(ucxx_envelope_commit(a, 0, NULL));
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes, 2);
  CHECK_OK(ucxx_envelope_abort(b, NULL));
  CHECK_OK(ucxx_envelope_release(c, NULL));
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes, 0);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  ucxx_link_destroy(here);
  ucxx_link_destroy(there);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

/* The chunk {1,2,3} is pushed on the host, modified on the device, and peeked at on the host. */
static void modify_elsewhere(void) {
  STEP("a change on the device is what a peek on the host sees");
  hub_t hub = hub_open(SIZE, 1, 1);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy);
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
  for (uint64_t at = 0; at < 3; at++) word_of(envelope)[at] = at + 1;
  CHECK_OK(ucxx_envelope_commit(envelope, 24, NULL));
  envelope = lease_now(modify);
  for (int at = 0; at < 3; at++) word_of(envelope)[at]++;
  CHECK_OK(ucxx_envelope_commit(envelope, 24, NULL));
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 1);
  CHECK_OK(ucxx_hub_peek(hub.hub, on_host, 0, &envelope));
  for (uint64_t at = 0; at < 3; at++) CHECK_EQ(word_of(envelope)[at], at + 2);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  ucxx_link_destroy(modify);
  hub_close(&hub);
}

static void modifying(void) {
  STEP("a peek elsewhere keeps the old contents, in an envelope that is trashed until it ends");
  hub_t hub = hub_open(SIZE, 2, 1);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy),
              *other = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host);
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  push_word(hub.hub, on_host, 1);
  ucxx_envelope_t *before = lease_now(peek), *changing = lease_now(modify);
  *word_of(changing) = 2;
  CHECK_EQ(*word_of(before), 1);
  STEP("meanwhile it is not consumed, nor modified on another device; on the same one it may be");
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  lease_none(other, UCXX_ERR_NO_RESOURCE);
  ucxx_envelope_t *together = lease_now(modify);
  CHECK(word_of(together) == word_of(changing));
  word_of(together)[1] = 3;
  CHECK_OK(ucxx_envelope_commit(changing, 16, NULL));
  CHECK_EQ(*word_of(before), 1);
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes, 1);
  CHECK_OK(ucxx_envelope_release(before, NULL));
  CHECK_OK(ucxx_envelope_commit(together, 16, NULL));
  STEP("the changes of both are visible everywhere");
  ucxx_envelope_t *after = lease_now(out);
  CHECK_EQ(look_at(after).length, 16);
  CHECK_EQ(word_of(after)[0], 2);
  CHECK_EQ(word_of(after)[1], 3);
  STEP("a chunk being consumed is not modified");
  lease_none(modify, UCXX_ERR_NO_RESOURCE);
  lease_none(other, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(after, NULL));
  STEP("a chunk being read is not modified in the same envelope, and vice versa");
  before = lease_now(peek);
  lease_none(other, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_release(before, NULL));
  changing = lease_now(other);
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  STEP("an aborted change has no effect if the chunk has another replica");
  *word_of(changing) = 99;
  CHECK_OK(ucxx_envelope_abort(changing, NULL));
  CHECK_EQ(peek_word(hub.hub, on_host), 2);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 2);
  ucxx_link_destroy(modify);
  ucxx_link_destroy(other);
  STEP("without another replica, what was written stays");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host);
  push_word(hub.hub, on_host, 4);
  changing = lease_now(modify);
  *word_of(changing) = 5;
  CHECK_OK(ucxx_envelope_abort(changing, NULL));
  CHECK_EQ(consume_word(out), 5);
  ucxx_link_destroy(modify);
  ucxx_link_destroy(peek);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void alternating_flow(void) {
  STEP("the flow alternates between a modifier and a consumer, with one chunk in the queue at a "
       "time");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_chunks = 1;
  hub_t hub = hub_open_with(&params, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *square = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  for (uint64_t word = 1; word <= 5; word++) {
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &square, 1));
    produce_word(in, word);
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    lease_none(out, UCXX_ERR_NO_RESOURCE);
    ucxx_envelope_t *envelope = lease_now(square);
    *word_of(envelope) *= *word_of(envelope);
    CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
    lease_none(square, UCXX_ERR_NO_RESOURCE);
    CHECK_EQ(consume_word(out), word * word);
  }
  CHECK_EQ(hub_stats(hub.hub).transfers, 10);
  STEP("links are added to a flow; the first one creates it; a count of 0 removes it");
  CHECK_OK(ucxx_hub_set_flow(hub.hub, NULL, 0));
  push_word(hub.hub, on_host, 6);
  CHECK_OK(ucxx_envelope_abort(lease_now(out), NULL));
  CHECK_OK(ucxx_hub_add_flow(hub.hub, square));
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_add_flow(hub.hub, out));
  CHECK_OK(ucxx_envelope_abort(lease_now(square), NULL));
  STEP("a refused flow leaves the previous one");
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_host), *wrong[] = {peek, in};
  CHECK_STATUS(ucxx_hub_set_flow(hub.hub, wrong, 2), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_hub_add_flow(hub.hub, in), UCXX_ERR_INVALID_PARAM);
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(lease_now(square), NULL));
  CHECK_EQ(consume_word(out), 6);
  STEP("two consumers in one flow compete; a hub that only produces is complete");
  ucxx_link_t *other = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy), *two[] = {out, other};
  CHECK_OK(ucxx_hub_set_flow(hub.hub, two, 2));
  for (uint64_t word = 7; word <= 10; word++) {
    produce_word(in, word);
    lease_none(square, UCXX_ERR_NO_RESOURCE);
    CHECK_EQ(consume_word(two[word % 2]), word);
  }
  ucxx_link_destroy(other);
  ucxx_link_destroy(peek);
  ucxx_link_destroy(square);
  ucxx_link_destroy(out);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, NULL, 0));
  CHECK_OK(ucxx_hub_validate(hub.hub));
  produce_word(in, 11);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 11);
  ucxx_link_destroy(in);
  hub_close(&hub);
}

static void multi_flow(void) {
  STEP("a flow with several links: chunks are copied to each one's device");
  hub_t hub = hub_open(SIZE, 3, 3);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_other_dummy, 3));
  ucxx_link_t *links[] = {hub_broadcast(hub.hub, on_dummy), hub_broadcast(hub.hub, on_other_dummy),
                          hub_link(hub.hub, UCXX_LINK_PEEK, on_host)};
  CHECK_OK(ucxx_hub_set_flow(hub.hub, links, 2));
  push_word(hub.hub, on_host, 1);
  push_word(hub.hub, on_host, 2);
  CHECK_EQ(hub_stats(hub.hub).transfers, 4);
  CHECK_EQ(consume_word(links[0]), 1);
  CHECK_EQ(ucxx_hub_length(hub.hub), 2);
  lease_none(links[2], UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, links, 3));
  CHECK_OK(ucxx_envelope_release(lease_now(links[2]), NULL));
  CHECK_EQ(consume_word(links[1]), 1);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  STEP("from device to device, without an envelope on the host");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &links[1], 1));
  push_word(hub.hub, on_dummy, 3);
  CHECK_EQ(consume_word(links[1]), 3);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 7);
  for (int at = 0; at < 3; at++) ucxx_link_destroy(links[at]);
  hub_close(&hub);
}

static void retention(void) {
  STEP("a transfer's copy is kept, returned, or dropped when its envelope is needed");
  const struct {
    int32_t retain;
    uint64_t free_after, produced;
  } rows[] = {{UCXX_HUB_RETAIN_ALWAYS, 0, 2},
              {UCXX_HUB_RETAIN_UNTIL_COPIED, 2, 4},
              {UCXX_HUB_RETAIN_AUTO, 0, 4}};
  for (size_t row = 0; row < 3; row++) {
    hub_t hub = hub_retaining(rows[row].retain, 2, 2);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
                *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
    produce_word(in, 1);
    produce_word(in, 2);
    CHECK_EQ(hub_stats(hub.hub).free_envelopes, rows[row].free_after);
    uint64_t produced = 2;
    ucxx_envelope_t *envelope = NULL;
    while (ucxx_link_lease(in, 0, &envelope) == UCXX_OK) put_word(envelope, ++produced);
    CHECK_EQ(produced, rows[row].produced);
    for (uint64_t word = 1; word <= produced; word++) CHECK_EQ(consume_word(out), word);
    CHECK_EQ(hub_stats(hub.hub).free_envelopes, 4);
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    hub_close(&hub);
  }
  STEP("a copy that another link still reads stays");
  hub_t hub = hub_retaining(UCXX_HUB_RETAIN_UNTIL_COPIED, 2, 2);
  ucxx_link_t *a = hub_broadcast(hub.hub, on_host), *b = hub_broadcast(hub.hub, on_dummy);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 2);
  CHECK_EQ(consume_word(a), 1);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
  CHECK_EQ(consume_word(b), 1);
  ucxx_link_destroy(a);
  ucxx_link_destroy(b);
  hub_close(&hub);
  STEP("an older chunk gets an envelope from a newer one that does not need it");
  hub = hub_retaining(UCXX_HUB_RETAIN_AUTO, 2, 2);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &modify, 1));
  push_word(hub.hub, on_host, 1);
  ucxx_envelope_t *envelope = lease_now(modify);
  *word_of(envelope) = 10;
  CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
  push_word(hub.hub, on_host, 2);
  push_word(hub.hub, on_host, 3);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 0);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
  CHECK_EQ(consume_word(out), 10);
  CHECK_EQ(consume_word(out), 2);
  CHECK_EQ(consume_word(out), 3);
  ucxx_link_destroy(modify);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void in_place(ucxx_memory_kind_t kind) {
  STEP("ten changes in place, on memory type %d", kind.memory_type);
  hub_t hub = hub_open(SIZE, 1, 1);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, kind);
  push_word(hub.hub, on_host, 3);
  for (int round = 0; round < 10; round++) {
    ucxx_envelope_t *envelope = lease_now(modify);
    *word_of(envelope) *= 2;
    CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
  }
  CHECK_EQ(hub_stats(hub.hub).transfers, kind.memory_type == UCXX_MEMORY_HOST ? 0 : 1);
  CHECK_EQ(peek_word(hub.hub, on_host), 3 * 1024);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 3 * 1024);
  ucxx_link_destroy(modify);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_readers");
  competing();
  broadcast();
  peeking();
  modify_elsewhere();
  modifying();
  alternating_flow();
  multi_flow();
  retention();
  in_place(on_host);
  in_place(on_dummy);
  return 0;
}
