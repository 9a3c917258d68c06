/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Limits of the queue hold at every moment; leases through several links get all or nothing; swaps
 * move chunks between hubs without a copy. */
#include "hub.h"

enum { SIZE = 64 };

static void chunks(void) {
  STEP("a limit in chunks: leases count, so that no commit exceeds it");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_chunks = 2;
  hub_t hub = hub_open_with(&params, 8, 0);
  ucxx_link_t *a = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *b = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_envelope_t *first = lease_now(a), *second = lease_now(b), *none = NULL;
  lease_none(a, UCXX_ERR_NO_RESOURCE);
  lease_none(b, UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(ucxx_hub_push(hub.hub, on_host, &none), UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(first, NULL));
  first = lease_now(a);
  put_word(first, 1);
  put_word(second, 2);
  lease_none(a, UCXX_ERR_NO_RESOURCE);
  STEP("a leased chunk is still in the queue");
  ucxx_envelope_t *held = lease_now(out);
  lease_none(a, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(held, 0, NULL));
  produce_word(a, 3);
  CHECK_EQ(hub_stats(hub.hub).queue_high_water, 2);
  ucxx_link_destroy(a);
  ucxx_link_destroy(b);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void bytes(void) {
  STEP("a limit in bytes: a whole envelope for each lease, its length for each chunk");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_bytes = 2 * SIZE;
  hub_t hub = hub_open_with(&params, 8, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_envelope_t *first = lease_now(in), *second = lease_now(in);
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(first, SIZE / 2, NULL));
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(second, SIZE / 2, NULL));
  second = lease_now(in);
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(second, 1, NULL));
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(lease_now(out), 0, NULL));
  CHECK_OK(ucxx_envelope_abort(lease_now(in), NULL));
  STEP("empty chunks need no room");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_OK(ucxx_hub_pop(hub.hub));
  for (int at = 0; at < 8; at++) CHECK_OK(ucxx_envelope_commit(lease_now(in), 0, NULL));
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(ucxx_hub_length(hub.hub), 8);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void at_once(void) {
  STEP("leases through links of two hubs: all or none");
  hub_t from = hub_open(SIZE, 2, 0), to = hub_open(SIZE, 1, 0);
  ucxx_link_t *in = hub_link(from.hub, UCXX_LINK_CONSUME, on_host),
              *out = hub_link(to.hub, UCXX_LINK_PRODUCE, on_host);
  ucxx_link_t *end = hub_link(to.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *both[] = {in, out}, *reversed[] = {out, in};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  CHECK_STATUS(ucxx_link_lease_many(both, 2, 0, envelopes), UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(ucxx_link_lease_many(reversed, 2, MILLISECOND, envelopes), UCXX_ERR_TIMED_OUT);
  CHECK(envelopes[0] == NULL && envelopes[1] == NULL);
  CHECK_EQ(hub_stats(to.hub).free_envelopes, 1);
  push_word(from.hub, on_host, 1);
  push_word(from.hub, on_host, 2);
  for (uint64_t word = 1; word <= 2; word++) {
    CHECK_OK(ucxx_link_lease_many(word == 1 ? both : reversed, 2, 0, envelopes));
    ucxx_envelope_t *source = envelopes[word - 1], *target = envelopes[2 - word];
    CHECK_EQ(*word_of(source), word);
    put_word(target, 10 * word);
    CHECK_OK(ucxx_envelope_commit(source, 0, NULL));
    if (word == 1) {
      ucxx_envelope_t *none[2] = {NULL, NULL};
      CHECK_STATUS(ucxx_link_lease_many(both, 2, 0, none), UCXX_ERR_NO_RESOURCE);
      CHECK(none[0] == NULL && none[1] == NULL);
      CHECK_EQ(hub_stats(from.hub).leased_envelopes, 0);
    }
    CHECK_EQ(consume_word(end), 10 * word);
  }
  STEP("two chunks through one link; one link twice is two leases");
  push_word(from.hub, on_host, 3);
  push_word(from.hub, on_host, 4);
  ucxx_link_t *twice[] = {in, in};
  CHECK_OK(ucxx_link_lease_many(twice, 2, 0, envelopes));
  CHECK_EQ(*word_of(envelopes[0]), 3);
  CHECK_EQ(*word_of(envelopes[1]), 4);
  CHECK_OK(ucxx_envelope_abort(envelopes[0], NULL));
  CHECK_OK(ucxx_envelope_commit(envelopes[1], 0, NULL));
  CHECK_EQ(consume_word(in), 3);
  STEP("two consumers of what is left after a close: enough, too little, and a chunk that a "
       "third one may return");
  hub_t last = hub_open(SIZE, 3, 0);
  ucxx_link_t *rivals[3];
  for (int at = 0; at < 3; at++) {
    rivals[at] = hub_link(last.hub, UCXX_LINK_CONSUME, on_host);
    push_word(last.hub, on_host, 5 + (uint64_t)at);
  }
  CHECK_OK(ucxx_hub_close(last.hub));
  CHECK_OK(ucxx_link_lease_many(rivals, 2, FOR_EVER, envelopes));
  CHECK_EQ(*word_of(envelopes[1]), 6);
  CHECK_EQ(consume_word(rivals[2]), 7);
  lease_none(rivals[0], UCXX_ERR_NO_RESOURCE);
  lease_none(rivals[1], UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(envelopes[0], NULL));
  CHECK_OK(ucxx_envelope_abort(envelopes[1], NULL));
  ucxx_envelope_t *third = lease_now(rivals[2]);
  envelopes[0] = envelopes[1] = NULL;
  CHECK_STATUS(ucxx_link_lease_many(rivals, 2, 0, envelopes), UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_commit(third, 0, NULL));
  CHECK_STATUS(ucxx_link_lease_many(rivals, 2, FOR_EVER, envelopes), UCXX_ERR_CLOSED);
  CHECK(envelopes[0] == NULL && envelopes[1] == NULL);
  CHECK_EQ(consume_word(rivals[1]), 6);
  for (int at = 0; at < 3; at++) ucxx_link_destroy(rivals[at]);
  hub_close(&last);
  STEP("a link that may be served later does not hide one that never will be");
  hub_t over = hub_open(SIZE, 1, 0);
  ucxx_link_t *nowhere = hub_link(over.hub, UCXX_LINK_PRODUCE, on_dummy);
  ucxx_link_t *never = hub_link(over.hub, UCXX_LINK_PRODUCE, on_host),
              *three[] = {out, in, nowhere};
  ucxx_envelope_t *kept[3] = {NULL, NULL, NULL};
  CHECK_STATUS(ucxx_link_lease_many(three, 3, FOR_EVER, kept), UCXX_ERR_STARVED);
  CHECK_MESSAGE("dummy device 0");
  CHECK_EQ(hub_stats(to.hub).leased_envelopes, 0);
  three[2] = never;
  CHECK_STATUS(ucxx_link_lease_many(three, 3, 0, kept), UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_close(over.hub));
  CHECK_STATUS(ucxx_link_lease_many(three, 3, FOR_EVER, kept), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_link_lease_many(three + 1, 2, FOR_EVER, kept), UCXX_ERR_CLOSED);
  CHECK(kept[0] == NULL && kept[1] == NULL && kept[2] == NULL);
  CHECK_EQ(hub_stats(to.hub).leased_envelopes, 0);
  CHECK_EQ(hub_stats(to.hub).free_envelopes, 1);
  ucxx_link_destroy(nowhere);
  ucxx_link_destroy(never);
  hub_close(&over);
  STEP("no links, too many, and a closed hub");
  CHECK_OK(ucxx_link_lease_many(NULL, 0, FOR_EVER, NULL));
  ucxx_link_t *many[65];
  ucxx_envelope_t *places[65] = {NULL};
  for (int at = 0; at < 65; at++) many[at] = in;
  CHECK_STATUS(ucxx_link_lease_many(many, 65, 0, places), UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_STATUS(ucxx_link_lease_many(many, 64, FOR_EVER, places), UCXX_ERR_STARVED);
  CHECK_MESSAGE("62 more");
  CHECK_OK(ucxx_hub_close(from.hub));
  CHECK_STATUS(ucxx_link_lease_many(both, 2, FOR_EVER, envelopes), UCXX_ERR_CLOSED);
  CHECK_EQ(hub_stats(to.hub).free_envelopes, 1);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(end);
  hub_close(&from);
  hub_close(&to);
}

static void swap_between_hubs(void) {
  STEP("a chunk passes from hub to hub by a swap, with its metadata, without a copy");
  hub_t from = hub_open(SIZE, 1, 0), to = hub_open(SIZE, 1, 0);
  ucxx_link_t *in = hub_link(from.hub, UCXX_LINK_CONSUME, on_host),
              *out = hub_link(to.hub, UCXX_LINK_PRODUCE, on_host);
  ucxx_link_t *end = hub_link(to.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_envelope_t *source = NULL;
  CHECK_OK(ucxx_hub_push(from.hub, on_host, &source));
  look_at(source).metadata[63] = 9;
  uint64_t *memory = word_of(source);
  put_word(source, 77);
  source = lease_now(in);
  ucxx_envelope_t *target = lease_now(out);
  CHECK(word_of(source) == memory && word_of(target) != memory);
  CHECK_OK(ucxx_envelope_swap(source, target));
  CHECK(word_of(target) == memory && word_of(source) != memory);
  CHECK_EQ(look_at(target).length, 8);
  CHECK_EQ(look_at(target).metadata[63], 9);
  CHECK_EQ(look_at(source).length, SIZE);
  CHECK_OK(ucxx_envelope_commit(source, 0, NULL));
  CHECK_OK(ucxx_envelope_commit(target, look_at(target).length, NULL));
  STEP("the memory outlives the hub that allocated it");
  ucxx_link_destroy(in);
  hub_close(&from);
  target = lease_now(end);
  CHECK_EQ(*word_of(target), 77);
  CHECK_EQ(look_at(target).metadata[63], 9);
  CHECK_OK(ucxx_envelope_commit(target, 0, NULL));
  ucxx_link_destroy(out);
  ucxx_link_destroy(end);
  hub_close(&to);
}

static void swap_within(void) {
  STEP("swaps within a hub: an accumulator that is replaced");
  hub_t hub = hub_open(SIZE, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host),
              *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_host);
  push_word(hub.hub, on_host, 1);
  ucxx_envelope_t *fresh = lease_now(in), *chunk = lease_now(modify);
  *word_of(fresh) = 2;
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  CHECK_EQ(*word_of(chunk), 2);
  CHECK_OK(ucxx_envelope_swap(chunk, chunk));
  CHECK_OK(ucxx_envelope_commit(chunk, 8, NULL));
  CHECK_EQ(*word_of(fresh), 1);
  CHECK_OK(ucxx_envelope_abort(fresh, NULL));
  CHECK_EQ(peek_word(hub.hub, on_host), 2);
  STEP("a consumer that aborts after a swap: the swapped-in chunk counts, unless the old one "
       "is on another device, too");
  fresh = lease_now(in);
  chunk = lease_now(out);
  *word_of(fresh) = 3;
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(chunk, NULL));
  CHECK_OK(ucxx_envelope_abort(fresh, NULL));
  CHECK_EQ(peek_word(hub.hub, on_host), 3);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 3);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  push_word(hub.hub, on_host, 4);
  CHECK_EQ(peek_word(hub.hub, on_dummy), 4);
  fresh = lease_now(in);
  chunk = lease_now(out);
  *word_of(fresh) = 5;
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  CHECK_OK(ucxx_envelope_abort(chunk, NULL));
  CHECK_OK(ucxx_envelope_abort(fresh, NULL));
  CHECK_EQ(peek_word(hub.hub, on_host), 4);
  STEP("a swapped-away chunk is not offered to another consumer");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  push_word(hub.hub, on_host, 8);
  fresh = lease_now(in);
  chunk = lease_now(out);
  *word_of(fresh) = 9;
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  ucxx_link_t *late = hub_broadcast(hub.hub, on_host);
  CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
  lease_none(late, UCXX_ERR_NO_RESOURCE);
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  put_word(fresh, 8);
  CHECK_EQ(consume_word(late), 8);
  ucxx_link_destroy(late);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  STEP("swaps that are refused: peeked chunks, read-only leases, other devices, another size, "
       "the caller's memory");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  push_word(hub.hub, on_host, 6);
  fresh = lease_now(in);
  ucxx_envelope_t *looking = lease_now(peek);
  chunk = lease_now(out);
  CHECK_STATUS(ucxx_envelope_swap(fresh, chunk), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_envelope_swap(fresh, looking), UCXX_ERR_INVALID_PARAM);
  CHECK_OK(ucxx_envelope_release(looking, NULL));
  ucxx_envelope_t *elsewhere = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &elsewhere));
  CHECK_STATUS(ucxx_envelope_swap(fresh, elsewhere), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("dummy device 0");
  CHECK_OK(ucxx_envelope_abort(elsewhere, NULL));
  hub_t wide = hub_open(2 * SIZE, 1, 0);
  CHECK_OK(ucxx_hub_push(wide.hub, on_host, &elsewhere));
  CHECK_STATUS(ucxx_envelope_swap(fresh, elsewhere), UCXX_ERR_INVALID_PARAM);
  CHECK_OK(ucxx_envelope_abort(elsewhere, NULL));
  hub_close(&wide);
  hub_t mine = hub_open(SIZE, 0, 0);
  uint64_t memory[SIZE / 8] = {0};
  CHECK_OK(ucxx_hub_add_buffer(mine.hub, on_host, memory, NULL, NULL));
  CHECK_OK(ucxx_hub_push(mine.hub, on_host, &elsewhere));
  CHECK_STATUS(ucxx_envelope_swap(fresh, elsewhere), UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_envelope_swap(elsewhere, fresh), UCXX_ERR_UNSUPPORTED);
  CHECK_OK(ucxx_envelope_abort(elsewhere, NULL));
  hub_close(&mine);
  STEP("and a chunk that another consumer still needs there");
  ucxx_link_t *all = hub_broadcast(hub.hub, on_host);
  CHECK_STATUS(ucxx_envelope_swap(fresh, chunk), UCXX_ERR_BUSY);
  CHECK_EQ(consume_word(all), 6);
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  CHECK_EQ(*word_of(fresh), 6);
  CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
  STEP("the rest of the queue is not affected");
  CHECK_OK(ucxx_envelope_commit(fresh, look_at(fresh).length, NULL));
  CHECK_EQ(consume_word(all), 6);
  ucxx_link_destroy(all);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(modify);
  ucxx_link_destroy(peek);
  hub_close(&hub);
}

/* Without a limit newer chunks, which are on the device only, hold all host envelopes that the
 * oldest one needs for its copy back. A reader that waits for it gets STARVED. */
static void a_way_back(void) {
  STEP("a limit equal to the host's envelopes: the flow can return to the host");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  for (uint64_t limit = 0; limit <= 2; limit += 2) {
    params.max_queue_chunks = limit;
    hub_t hub = hub_open_with(&params, 2, 1);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
                *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
    ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy);
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &modify, 1));
    ucxx_envelope_t *next = NULL;
    uint64_t produced = 0;
    while (ucxx_link_lease(in, 0, &next) == UCXX_OK) put_word(next, ++produced);
    CHECK_EQ(produced, limit == 0 ? 3 : 2);
    put_word(lease_now(modify), 10);
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
    if (limit == 0) {
      ucxx_envelope_t *envelope = NULL;
      char named[40];
      snprintf(named, sizeof named, "the link %p,", (void *)out);
      for (int by = 0; by < 3; by++) {
        CHECK_STATUS(by == 0   ? ucxx_hub_validate(hub.hub)
                     : by == 1 ? ucxx_link_lease(out, FOR_EVER, &envelope)
                               : ucxx_link_lease_many(&out, 1, FOR_EVER, &envelope),
                     UCXX_ERR_STARVED);
        CHECK_MESSAGE(named);
        CHECK_MESSAGE("consumes on the host");
        CHECK_MESSAGE("1 more envelope needed");
        CHECK_MESSAGE("max_queue_chunks");
      }
      CHECK_STATUS(ucxx_hub_peek(hub.hub, on_host, FOR_EVER, &envelope), UCXX_ERR_STARVED);
      CHECK(envelope == NULL);
      /* A lease elsewhere may still free what is needed. */
      CHECK_OK(ucxx_hub_peek(hub.hub, on_dummy, 0, &envelope));
      lease_none(out, UCXX_ERR_NO_RESOURCE);
      CHECK_OK(ucxx_hub_validate(hub.hub));
      CHECK_OK(ucxx_envelope_release(envelope, NULL));
      /* Or a consumer on the device where the chunk is. */
      ucxx_link_t *there = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
      lease_none(out, UCXX_ERR_NO_RESOURCE);
      CHECK_OK(ucxx_hub_validate(hub.hub));
      ucxx_link_destroy(there);
      lease_none(out, UCXX_ERR_STARVED);
      CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_host, 1));
      CHECK_OK(ucxx_hub_validate(hub.hub));
    }
    CHECK_EQ(consume_word(out), 10);
    for (uint64_t word = 2; word <= produced; word++) CHECK_EQ(consume_word(out), word);
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    ucxx_link_destroy(modify);
    hub_close(&hub);
  }
}

static ucxx_envelope_t *made(ucxx_hub_t *hub, size_t length) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub, on_host, &envelope));
  CHECK_OK(ucxx_envelope_commit(envelope, length, NULL));
  CHECK_OK(ucxx_hub_peek(hub, on_host, 0, &envelope));
  return envelope;
}

static void swap_and_bytes(void) {
  STEP("a swapped-in chunk counts for the limit in bytes, even if its lease is aborted");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_bytes = 2 * SIZE;
  for (int modifies = 0; modifies < 2; modifies++) {
    hub_t hub = hub_open_with(&params, 4, 0), other = hub_open(SIZE, 2, 0);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
    ucxx_link_t *out = hub_link(hub.hub, modifies ? UCXX_LINK_MODIFY : UCXX_LINK_CONSUME, on_host);
    ucxx_link_t *from = hub_link(other.hub, UCXX_LINK_CONSUME, on_host);
    CHECK_OK(ucxx_envelope_release(made(hub.hub, SIZE), NULL));
    CHECK_OK(ucxx_envelope_release(made(other.hub, 8), NULL));
    ucxx_envelope_t *first = lease_now(in), *large = lease_now(out), *little = lease_now(from);
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_envelope_commit(first, 8, NULL));
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_envelope_swap(large, little));
    CHECK_OK(ucxx_envelope_abort(large, NULL));
    /* 8 and 8 bytes now, where it was a whole envelope and 8. */
    first = lease_now(in);
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_envelope_abort(first, NULL));
    STEP("a longer chunk exceeds the limit, and blocks producers");
    CHECK_OK(ucxx_envelope_commit(lease_now(in), SIZE, NULL));
    large = lease_now(out);
    CHECK_EQ(look_at(large).length, 8);
    CHECK_EQ(look_at(little).length, SIZE);
    CHECK_OK(ucxx_envelope_swap(large, little));
    CHECK_OK(ucxx_envelope_abort(large, NULL));
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_hub_pop(hub.hub));
    lease_none(in, UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_hub_pop(hub.hub));
    CHECK_OK(ucxx_envelope_abort(lease_now(in), NULL));
    CHECK_OK(ucxx_envelope_abort(little, NULL));
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    ucxx_link_destroy(from);
    hub_close(&hub);
    hub_close(&other);
  }
}

static void too_many(void) {
  STEP("the limits on broadcast consumers and kinds of memory");
  enum { CONSUMERS = 63, KINDS = 32 };
  hub_t hub = hub_open(SIZE, 1, 0);
  ucxx_link_t *links[CONSUMERS], *none = NULL;
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.broadcast = 1;
  for (int at = 0; at < CONSUMERS; at++) links[at] = hub_broadcast(hub.hub, on_host);
  CHECK_STATUS(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_host, &params, &none),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("broadcast: the hub has 63");
  for (int at = 0; at < CONSUMERS; at++) ucxx_link_destroy(links[at]);
  for (int device = 0; device < KINDS - 1; device++)
    CHECK_OK(ucxx_hub_add_envelopes(hub.hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, device}, 1));
  ucxx_memory_kind_t another = {UCXX_MEMORY_DUMMY, KINDS - 1};
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, another, 1), UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("32 kinds of memory");
  CHECK_MESSAGE("dummy device 31");
  CHECK_STATUS(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, another, NULL, &none),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("32 kinds of memory");
  CHECK(none == NULL);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_limits");
  chunks();
  bytes();
  at_once();
  swap_between_hubs();
  swap_within();
  swap_and_bytes();
  a_way_back();
  too_many();
  return 0;
}
