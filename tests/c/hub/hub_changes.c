/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Chunks that are modified, swapped and consumed while they are copied, or on several devices; and
 * leases that are aborted. Readers see whole states only, and no change is lost. */
#include <pthread.h>
#include <sched.h>

#include "hub.h"

enum {
  SIZE = 64,
  THREADS = 4,
  EACH = 250,
  CHANGED = 64 << 10,
  READ = 600,
  WIDE = 16384,
  LARGE = 8 << 20
};

static void give_up(ucxx_envelope_t *envelope, int releases) {
  CHECK_OK(releases ? ucxx_envelope_release(envelope, NULL) : ucxx_envelope_abort(envelope, NULL));
}

static void consumers(int releases) {
  STEP("a consumer that %s: the chunk is offered again, first and complete",
       releases ? "releases" : "aborts");
  hub_t hub = hub_open(SIZE, 3, 3);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *here = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *there = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  for (uint64_t word = 1; word <= 3; word++) {
    ucxx_envelope_t *envelope = lease_now(in);
    look_at(envelope).metadata[5] = (unsigned char)word;
    put_word(envelope, word);
  }
  /* The second is returned before the first, and is offered after it. */
  ucxx_envelope_t *first = lease_now(here), *second = lease_now(there), *third = lease_now(here);
  CHECK_EQ(*word_of(second), 2);
  give_up(second, releases);
  give_up(first, releases);
  CHECK_EQ(ucxx_hub_length(hub.hub), 3);
  CHECK_EQ(hub_stats(hub.hub).chunks_consumed, 0);
  for (uint64_t word = 1; word <= 2; word++) {
    ucxx_envelope_t *envelope = lease_now(there);
    CHECK_EQ(*word_of(envelope), word);
    CHECK_EQ(look_at(envelope).length, 8);
    CHECK_EQ(look_at(envelope).metadata[5], word);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  give_up(third, releases);
  CHECK_EQ(consume_word(here), 3);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 6);
  CHECK_EQ(hub_stats(hub.hub).transfers, 3);
  ucxx_link_destroy(in);
  ucxx_link_destroy(here);
  ucxx_link_destroy(there);
  hub_close(&hub);
}

/* A chunk of one word and one byte of metadata. */
static void write_both(ucxx_envelope_t *envelope, uint64_t word) {
  word_of(envelope)[0] = word;
  look_at(envelope).metadata[0] = (unsigned char)word;
}

static void shows(hub_t *hub, ucxx_memory_kind_t kind, uint64_t word, size_t length) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_peek(hub->hub, kind, 0, &envelope));
  CHECK_EQ(*word_of(envelope), word);
  CHECK_EQ(look_at(envelope).metadata[0], word);
  CHECK_EQ(look_at(envelope).length, length);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
}

static void modifiers(int releases) {
  STEP("a modifier that %s: no effect if the chunk has another replica, whatever was "
       "written",
       releases ? "releases" : "aborts");
  hub_t hub = hub_open(SIZE, 2, 2);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy);
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
  write_both(envelope, 1);
  CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
  for (int round = 0; round < 3; round++) {
    envelope = lease_now(modify);
    CHECK_EQ(*word_of(envelope), 1);
    write_both(envelope, 99);
    give_up(envelope, releases);
    shows(&hub, on_host, 1, 8);
    shows(&hub, on_dummy, 1, 8);
  }
  STEP("two modifiers on one device: what one commits is the chunk, after the other's end and "
       "before it");
  for (int first = 0; first < 2; first++) {
    for (int last = 0; last < 2; last++) {
      uint64_t before = peek_word(hub.hub, on_host), word = 10 + before;
      ucxx_envelope_t *both[] = {lease_now(modify), lease_now(modify)};
      CHECK(word_of(both[0]) == word_of(both[1]));
      write_both(both[first], word);
      /* The committing modifier ends last or first. */
      if (last) {
        give_up(both[1 - first], releases);
        shows(&hub, on_host, before, 8);
      }
      CHECK_OK(ucxx_envelope_commit(both[first], 8, NULL));
      CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
      if (!last) give_up(both[1 - first], releases);
      CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
      shows(&hub, on_host, word, 8);
      shows(&hub, on_dummy, word, 8);
    }
  }
  STEP("two modifiers that both abort change nothing");
  uint64_t word = peek_word(hub.hub, on_host);
  ucxx_envelope_t *both[] = {lease_now(modify), lease_now(modify)};
  write_both(both[0], 200);
  give_up(both[0], releases);
  write_both(both[1], 201);
  give_up(both[1], releases);
  shows(&hub, on_dummy, word, 8);
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes + hub_stats(hub.hub).leased_envelopes, 0);
  STEP("nobody modifies it on another device meanwhile, whichever was first");
  ucxx_link_t *here = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host), *two[] = {modify, here};
  for (int first = 0; first < 2; first++) {
    /* The chunk is on both. */
    shows(&hub, on_host, word, 8);
    shows(&hub, on_dummy, word, 8);
    envelope = lease_now(two[first]);
    lease_none(two[1 - first], UCXX_ERR_NO_RESOURCE);
    write_both(envelope, ++word);
    CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
    envelope = lease_now(two[1 - first]);
    CHECK_EQ(*word_of(envelope), word);
    lease_none(two[first], UCXX_ERR_NO_RESOURCE);
    give_up(envelope, releases);
    shows(&hub, on_host, word, 8);
  }
  ucxx_link_destroy(here);
  STEP("without another replica, what was written stays, and is not copied earlier");
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &envelope));
  write_both(envelope, 1);
  CHECK_OK(ucxx_envelope_commit(envelope, 16, NULL));
  envelope = lease_now(modify);
  write_both(envelope, 2);
  uint64_t transfers = hub_stats(hub.hub).transfers;
  ucxx_envelope_t *none = NULL;
  CHECK_STATUS(ucxx_hub_peek(hub.hub, on_host, 0, &none), UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(hub_stats(hub.hub).transfers, transfers);
  give_up(envelope, releases);
  shows(&hub, on_host, 2, 16);
  ucxx_link_destroy(modify);
  hub_close(&hub);
}

typedef struct changer {
  ucxx_link_t *link;
  ucxx_hub_t *hub;
  int slot, *over;
} changer_t;

/* Each thread counts up its own word in the chunk. */
static void *count_up(void *arg) {
  changer_t *changer = arg;
  for (uint64_t round = 0; round < EACH; round++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(changer->link, FOR_EVER, &envelope));
    uint64_t *word = &word_of(envelope)[changer->slot];
    CHECK_EQ(__atomic_load_n(word, __ATOMIC_RELAXED), round);
    if (round % 16 == 0) sched_yield();
    __atomic_store_n(word, round + 1, __ATOMIC_RELAXED);
    CHECK_OK(ucxx_envelope_commit(envelope, CHANGED, NULL));
  }
  return NULL;
}

/* An observed change is never undone. */
static void *look_on(void *arg) {
  changer_t *changer = arg;
  uint64_t seen[THREADS] = {0};
  while (!__atomic_load_n(changer->over, __ATOMIC_ACQUIRE)) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status = ucxx_link_lease(changer->link, MILLISECOND, &envelope);
    if (status == UCXX_ERR_TIMED_OUT) continue;
    CHECK_OK(status);
    uint64_t now[THREADS];
    memcpy(now, look_at(envelope).data, sizeof now);
    for (int at = 0; at < THREADS; at++) {
      CHECK(now[at] >= seen[at]);
      seen[at] = now[at];
    }
    CHECK(memcmp(now, look_at(envelope).data, sizeof now) == 0);
    CHECK_OK(ucxx_envelope_release(envelope, NULL));
  }
  return NULL;
}

static void several_devices(int32_t retain) {
  STEP("threads that modify one chunk on three devices: each change builds on all earlier "
       "ones, retain %d",
       retain);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = CHANGED;
  params.retain = retain;
  hub_t hub = hub_open_with(&params, 2, 2);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_other_dummy, 1));
  const ucxx_memory_kind_t kinds[] = {on_host, on_dummy, on_dummy, on_other_dummy, on_host};
  changer_t changers[THREADS + 1];
  pthread_t threads[THREADS + 1];
  int over = 0;
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
  memset(word_of(envelope), 0, CHANGED);
  CHECK_OK(ucxx_envelope_commit(envelope, CHANGED, NULL));
  for (int at = 0; at <= THREADS; at++) {
    changers[at] =
        (changer_t){hub_link(hub.hub, at < THREADS ? UCXX_LINK_MODIFY : UCXX_LINK_PEEK, kinds[at]),
                    hub.hub, at, &over};
    CHECK_EQ(pthread_create(&threads[at], NULL, at < THREADS ? count_up : look_on, &changers[at]),
             0);
  }
  for (int at = 0; at <= THREADS; at++) {
    if (at == THREADS) __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(threads[at], NULL), 0);
  }
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_other_dummy);
  envelope = lease_now(out);
  for (int at = 0; at < THREADS; at++) CHECK_EQ(word_of(envelope)[at], EACH);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  ucxx_hub_stats_t stats = hub_stats(hub.hub);
  CHECK_EQ(stats.free_envelopes, 5);
  CHECK_EQ(stats.leased_envelopes + stats.trashed_envelopes, 0);
  for (int at = 0; at <= THREADS; at++) ucxx_link_destroy(changers[at].link);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static size_t wide_length(uint64_t number) { return 8 + test_mix(number) % (WIDE - 7); }

static uint64_t read_wide(const ucxx_envelope_t *envelope) {
  unsigned char expected[WIDE];
  ucxx_envelope_attr_t attr = look_at(envelope);
  uint64_t number = *(const uint64_t *)attr.data;
  CHECK_EQ(attr.length, wide_length(number));
  test_fill(expected, attr.length, number);
  CHECK(memcmp((const char *)attr.data + 8, expected + 8, attr.length - 8) == 0);
  CHECK_EQ(*(const uint64_t *)(const void *)attr.metadata, number);
  return number;
}

static void *produce_wide(void *arg) {
  changer_t *changer = arg;
  for (uint64_t number = 1; number <= READ; number++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(changer->link, FOR_EVER, &envelope));
    ucxx_envelope_attr_t attr = look_at(envelope);
    test_fill(attr.data, wide_length(number), number);
    memcpy(attr.data, &number, 8);
    memcpy(attr.metadata, &number, 8);
    CHECK_OK(ucxx_envelope_commit(envelope, wide_length(number), NULL));
  }
  CHECK_OK(ucxx_hub_close(changer->hub));
  return NULL;
}

/* The chunks that a reader got, in its order. Peeks skip some and see some twice. */
typedef struct reader {
  ucxx_link_t *link;
  int32_t type;
  uint64_t count, last, sum;
} reader_t;

static void *read_all(void *arg) {
  reader_t *reader = arg;
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  while ((status = ucxx_link_lease(reader->link, FOR_EVER, &envelope)) == UCXX_OK) {
    uint64_t number = read_wide(envelope);
    CHECK(reader->type == UCXX_LINK_PEEK ? number >= reader->last : number > reader->last);
    reader->last = number;
    reader->count++;
    reader->sum += number;
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  return NULL;
}

static void read_everywhere(int32_t retain) {
  STEP("readers of each kind on three devices: chunks are consumed while being copied, and "
       "readers see only whole chunks, retain %d",
       retain);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = WIDE;
  params.retain = retain;
  hub_t hub = hub_open_with(&params, 3, 2);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_other_dummy, 1));
  /* Two broadcast consumers, two that compete, and one that peeks. */
  reader_t readers[] = {
      {.link = hub_broadcast(hub.hub, on_dummy)},
      {.link = hub_broadcast(hub.hub, on_host)},
      {.link = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host)},
      {.link = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy)},
      {.link = hub_link(hub.hub, UCXX_LINK_PEEK, on_other_dummy), .type = UCXX_LINK_PEEK}};
  enum { READERS = sizeof readers / sizeof *readers };
  changer_t producer = {.link = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host), .hub = hub.hub};
  pthread_t threads[READERS], producing;
  for (int at = 0; at < READERS; at++)
    CHECK_EQ(pthread_create(&threads[at], NULL, read_all, &readers[at]), 0);
  CHECK_EQ(pthread_create(&producing, NULL, produce_wide, &producer), 0);
  CHECK_EQ(pthread_join(producing, NULL), 0);
  for (int at = 0; at < READERS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  for (int at = 0; at < 2; at++) CHECK_EQ(readers[at].count, READ);
  CHECK_EQ(readers[2].count + readers[3].count, READ);
  CHECK_EQ(readers[2].sum + readers[3].sum, (uint64_t)READ * (READ + 1) / 2);
  ucxx_hub_stats_t stats = hub_stats(hub.hub);
  CHECK_EQ(stats.free_envelopes, 6);
  CHECK_EQ(stats.chunks_consumed, READ);
  CHECK_EQ(stats.leased_envelopes + stats.trashed_envelopes, 0);
  for (int at = 0; at < READERS; at++) ucxx_link_destroy(readers[at].link);
  ucxx_link_destroy(producer.link);
  hub_close(&hub);
}

static void *produce_large(void *arg) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(arg, FOR_EVER, &envelope));
  memset(word_of(envelope), 'o', LARGE);
  CHECK_OK(ucxx_envelope_commit(envelope, LARGE, NULL));
  return NULL;
}

static int is_all(const ucxx_envelope_t *envelope, char letter) {
  const char *data = look_at(envelope).data;
  return data[0] == letter && memcmp(data, data + 1, LARGE - 1) == 0;
}

static void swap_while_copied(void) {
  STEP("a consumer that swaps while its chunk is copied elsewhere waits for the copy, which "
       "has the old contents");
  hub_t hub = hub_open(LARGE, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  uint64_t refused = 0;
  for (int round = 0; refused == 0; round++) {
    pthread_t thread;
    ucxx_envelope_t *fresh = NULL, *chunk = NULL;
    CHECK_OK(ucxx_hub_push(hub.hub, on_host, &fresh));
    memset(word_of(fresh), 'n', LARGE);
    CHECK_EQ(pthread_create(&thread, NULL, produce_large, in), 0);
    CHECK_OK(ucxx_link_lease(out, FOR_EVER, &chunk));
    ucxx_status_t status;
    while ((status = ucxx_envelope_swap(fresh, chunk)) != UCXX_OK) {
      CHECK_STATUS(status, UCXX_ERR_BUSY);
      CHECK(is_all(fresh, 'n') && is_all(chunk, 'o'));
      refused++;
    }
    CHECK(is_all(fresh, 'o') && is_all(chunk, 'n'));
    memset(word_of(fresh), 'x', LARGE);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    /* The old contents are on the device only, so they are the chunk. */
    ucxx_envelope_t *looking = lease_now(peek);
    CHECK(is_all(looking, 'o'));
    CHECK_OK(ucxx_envelope_abort(chunk, NULL));
    CHECK(is_all(looking, 'o'));
    CHECK_OK(ucxx_envelope_release(looking, NULL));
    chunk = lease_now(out);
    CHECK(is_all(chunk, 'o'));
    CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
    CHECK_OK(ucxx_envelope_abort(fresh, NULL));
    CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
    CHECK_EQ(hub_stats(hub.hub).stale_transfers, 0);
  }
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(peek);
  hub_close(&hub);
}

static void swap_without_copy(int32_t retain) {
  STEP("a consumer's swapped-away chunk is not copied for it again unless returned: retain %d",
       retain);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.retain = retain;
  hub_t hub = hub_open_with(&params, 2, 3);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  int is_kept = retain != UCXX_HUB_RETAIN_UNTIL_COPIED;
  for (int aborts = 0; aborts < 2; aborts++) {
    uint64_t before = hub_stats(hub.hub).transfers;
    ucxx_envelope_t *fresh = NULL;
    CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &fresh));
    *word_of(fresh) = 2;
    produce_word(in, 1);
    ucxx_envelope_t *chunk = lease_now(out);
    CHECK_OK(ucxx_envelope_swap(fresh, chunk));
    CHECK_EQ(*word_of(fresh), 1);
    CHECK_OK(ucxx_envelope_abort(fresh, NULL));
    CHECK_EQ(hub_stats(hub.hub).transfers, before + 1);
    if (aborts) {
      CHECK_OK(ucxx_envelope_abort(chunk, NULL));
      CHECK_EQ(hub_stats(hub.hub).transfers, before + (is_kept ? 2 : 1));
      chunk = lease_now(out);
      CHECK_EQ(*word_of(chunk), is_kept ? 1 : 2);
      CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
    } else {
      CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
      CHECK_EQ(hub_stats(hub.hub).transfers, before + 1);
    }
    CHECK_EQ(hub_stats(hub.hub).free_envelopes, 5);
  }
  STEP("except for other readers there");
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  ucxx_envelope_t *fresh = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &fresh));
  produce_word(in, 3);
  CHECK_EQ(peek_word(hub.hub, on_host), 3);
  ucxx_envelope_t *chunk = lease_now(out);
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  if (is_kept) CHECK_OK(ucxx_envelope_release(lease_now(peek), NULL));
  CHECK_OK(ucxx_envelope_abort(fresh, NULL));
  CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(peek);
  hub_close(&hub);
  STEP("a returned chunk gets an envelope there, however much was produced and copied meanwhile");
  hub = hub_open_with(&params, 2, 2);
  in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  produce_word(in, 1);
  chunk = lease_now(out);
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &fresh));
  *word_of(fresh) = 1;
  CHECK_OK(ucxx_envelope_swap(fresh, chunk));
  CHECK_OK(ucxx_envelope_abort(fresh, NULL));
  uint64_t last = 1;
  while (ucxx_link_lease(in, 0, &fresh) == UCXX_OK) put_word(fresh, ++last);
  CHECK(last > 1);
  CHECK_OK(ucxx_envelope_abort(chunk, NULL));
  chunk = lease_now(out);
  CHECK_EQ(*word_of(chunk), 1);
  CHECK_OK(ucxx_envelope_commit(chunk, 0, NULL));
  for (uint64_t word = 2; word <= last; word++) CHECK_EQ(consume_word(out), word);
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 4);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_changes");
  for (int releases = 0; releases < 2; releases++) {
    consumers(releases);
    modifiers(releases);
  }
  for (int32_t retain = UCXX_HUB_RETAIN_AUTO; retain <= UCXX_HUB_RETAIN_UNTIL_COPIED; retain++) {
    swap_without_copy(retain);
    several_devices(retain);
    read_everywhere(retain);
  }
  swap_while_copied();
  return 0;
}
