/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* How a link reports that a lease is available: by its ready callback and by its descriptor. */
#include <poll.h>
#include <pthread.h>

#include "hub.h"

enum { SIZE = 64 };

typedef struct watcher {
  ucxx_link_t *link;
  ucxx_hub_t *next; /* where consumed chunks go */
  ucxx_link_t *hand; /* modifies the chunk meanwhile */
  int ready, closed, act, depth, deepest;
  uint64_t sum;
} watcher_t;

enum {
  LOOK = 0,
  CONSUME = 1,
  GIVE_BACK = 2,
  FORWARD = 3,
  DESTROY = 4,
  DESTROY_ALL = 5,
  DESTROY_HUB = 6,
  CHANGED = 7
};

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  watcher_t *watcher = arg;
  ucxx_envelope_t *envelope = NULL;
  watcher->depth++;
  if (watcher->depth > watcher->deepest) watcher->deepest = watcher->depth;
  CHECK(watcher->link == NULL || watcher->link == link);
  if (status == UCXX_ERR_CLOSED) {
    watcher->closed++;
  } else {
    CHECK_OK(status);
    watcher->ready++;
    if (watcher->act == CONSUME) {
      CHECK_STATUS(ucxx_link_lease(link, FOR_EVER, &envelope), UCXX_ERR_BUSY);
      watcher->sum += consume_word(link);
    } else if (watcher->act == GIVE_BACK) {
      CHECK_OK(ucxx_envelope_abort(lease_now(link), NULL));
    } else if (watcher->act == CHANGED) {
      envelope = lease_now(link);
      watcher->sum = 10 * watcher->sum + *word_of(envelope);
      if (watcher->ready == 1) put_word(lease_now(watcher->hand), 2);
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
    } else if (watcher->act == FORWARD) {
      uint64_t word = consume_word(link);
      watcher->sum += word;
      push_word(watcher->next, on_host, word + 1);
    } else if (watcher->act == DESTROY_ALL) {
      ucxx_link_destroy(link);
      ucxx_hub_destroy(watcher->next);
    } else if (watcher->act == DESTROY_HUB) {
      ucxx_hub_destroy(watcher->next);
      /* No call on the hub from here on. */
      CHECK_EQ(watcher->closed, 0);
      watcher->act = LOOK;
    } else if (watcher->act == DESTROY) {
      ucxx_link_destroy(link);
      watcher->link = NULL;
    }
  }
  watcher->depth--;
}

static ucxx_link_t *watched(ucxx_hub_t *hub, int32_t type, ucxx_memory_kind_t kind,
                            watcher_t *watcher) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.on_ready = on_ready;
  params.on_ready_arg = watcher;
  CHECK_OK(ucxx_link_create(hub, type, kind, &params, &watcher->link));
  return watcher->link;
}

static void once(void) {
  STEP("the callback runs when a lease is available, and again after a lease attempt");
  hub_t hub = hub_open(SIZE, 4, 1);
  watcher_t out = {0}, elsewhere = {0};
  watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
  CHECK_EQ(out.ready, 0);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(out.ready, 1);
  push_word(hub.hub, on_host, 2);
  CHECK_EQ(out.ready, 1);
  CHECK_EQ(consume_word(out.link), 1);
  CHECK_EQ(out.ready, 2);
  CHECK_EQ(consume_word(out.link), 2);
  CHECK_EQ(out.ready, 2);
  lease_none(out.link, UCXX_ERR_NO_RESOURCE);
  push_word(hub.hub, on_host, 3);
  CHECK_EQ(out.ready, 3);
  STEP("a link created when a chunk is queued is called at once; one on another device after the "
       "copy");
  watched(hub.hub, UCXX_LINK_PEEK, on_dummy, &elsewhere);
  CHECK_EQ(elsewhere.ready, 1);
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  ucxx_link_destroy(elsewhere.link);
  STEP("the close is reported once");
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_EQ(out.closed, 0);
  CHECK_EQ(consume_word(out.link), 3);
  CHECK_EQ(out.closed, 1);
  lease_none(out.link, UCXX_ERR_CLOSED);
  CHECK_EQ(out.closed, 1);
  ucxx_link_destroy(out.link);
  hub_close(&hub);
}

static void acting(void) {
  STEP("a callback that consumes empties the queue, one call after the other");
  hub_t hub = hub_open(SIZE, 8, 0);
  watcher_t out = {.act = LOOK};
  watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
  for (uint64_t word = 1; word <= 8; word++) push_word(hub.hub, on_host, word);
  CHECK_EQ(out.ready, 1);
  out.act = CONSUME;
  CHECK_EQ(consume_word(out.link), 1);
  CHECK_EQ(out.ready, 8);
  CHECK_EQ(out.deepest, 1);
  CHECK_EQ(out.sum, 35);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  ucxx_link_destroy(out.link);
  hub_close(&hub);
}

static void chain(void) {
  STEP("a chain of hubs that runs by callbacks alone");
  hub_t hubs[3] = {hub_open(SIZE, 1, 0), hub_open(SIZE, 1, 0), hub_open(SIZE, 1, 0)};
  watcher_t watchers[3];
  memset(watchers, 0, sizeof watchers);
  for (int at = 0; at < 3; at++) {
    watchers[at].act = at < 2 ? FORWARD : CONSUME;
    watchers[at].next = at < 2 ? hubs[at + 1].hub : NULL;
    watched(hubs[at].hub, UCXX_LINK_CONSUME, on_host, &watchers[at]);
  }
  for (uint64_t word = 1; word <= 100; word++) push_word(hubs[0].hub, on_host, 10 * word);
  CHECK_EQ(watchers[2].ready, 100);
  CHECK_EQ(watchers[2].sum, 10 * 5050 + 2 * 100);
  for (int at = 0; at < 3; at++) {
    CHECK_EQ(watchers[at].deepest, 1);
    ucxx_link_destroy(watchers[at].link);
    hub_close(&hubs[at]);
  }
}

static void giving_back(void) {
  STEP("a link that returns its chunk is not called again and again");
  hub_t hub = hub_open(SIZE, 4, 0);
  watcher_t out = {.act = GIVE_BACK}, in = {.act = GIVE_BACK};
  watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(out.ready, 1);
  push_word(hub.hub, on_host, 2);
  CHECK_EQ(out.ready, 2);
  watched(hub.hub, UCXX_LINK_PRODUCE, on_host, &in);
  CHECK_EQ(in.ready, 1);
  CHECK_EQ(ucxx_hub_length(hub.hub), 2);
  STEP("a link destroyed in its own callback");
  out.act = DESTROY;
  push_word(hub.hub, on_host, 3);
  CHECK_EQ(out.ready, 3);
  CHECK(out.link == NULL);
  push_word(hub.hub, on_host, 4);
  CHECK_EQ(out.ready, 3);
  ucxx_link_destroy(in.link);
  hub_close(&hub);
}

/* What a link of `takers` does in its callback. */
typedef enum deed { PEEKS, CHANGES, CHANGES_NOT, DECLINES, TAKES, MAKES_NOT } deed_t;

typedef struct taker {
  deed_t deed;
  int calls, over;
  ucxx_link_t *link;
} taker_t;

static void on_taker(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  taker_t *taker = arg;
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(status);
  if (taker->over) return;
  taker->calls++;
  CHECK(taker->calls <= 1000);
  if (ucxx_link_lease(link, 0, &envelope) != UCXX_OK) return;
  if (taker->deed == CHANGES || taker->deed == TAKES)
    CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
  else
    CHECK_OK(ucxx_envelope_abort(envelope, NULL));
}

/* Counts the calls of each of `count` links of a hub with one chunk; the chunk is pushed last. */
static void takers(taker_t *all, int count, int left) {
  static const int32_t types[] = {
      [PEEKS] = UCXX_LINK_PEEK,         [CHANGES] = UCXX_LINK_MODIFY,
      [CHANGES_NOT] = UCXX_LINK_MODIFY, [DECLINES] = UCXX_LINK_CONSUME,
      [TAKES] = UCXX_LINK_CONSUME,      [MAKES_NOT] = UCXX_LINK_PRODUCE,
  };
  hub_t hub = hub_open(SIZE, 2, 0);
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.on_ready = on_taker;
  for (int at = 0; at < count; at++) {
    params.on_ready_arg = &all[at];
    CHECK_OK(ucxx_link_create(hub.hub, types[all[at].deed], on_host, &params, &all[at].link));
    CHECK_EQ(all[at].calls, all[at].deed == MAKES_NOT);
    all[at].calls = 0;
  }
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(ucxx_hub_length(hub.hub), left);
  for (int at = 0; at < count; at++) all[at].over = 1;
  for (int at = 0; at < count; at++) ucxx_link_destroy(all[at].link);
  hub_close(&hub);
}

static void declining(void) {
  STEP("links that decline the same chunk do not trigger each other without end");
  taker_t consumers[] = {{.deed = DECLINES}, {.deed = DECLINES}};
  takers(consumers, 2, 1);
  CHECK(consumers[0].calls == 1 && consumers[1].calls == 1);
  taker_t modifiers[] = {{.deed = CHANGES_NOT}, {.deed = DECLINES}, {.deed = CHANGES_NOT}};
  takers(modifiers, 3, 1);
  CHECK(modifiers[0].calls == 1 && modifiers[1].calls == 1 && modifiers[2].calls == 1);
  taker_t producers[] = {{.deed = MAKES_NOT}, {.deed = MAKES_NOT}, {.deed = MAKES_NOT}};
  takers(producers, 3, 1);
  CHECK(producers[0].calls == 1 && producers[1].calls == 1 && producers[2].calls == 1);
  STEP("a change triggers each link that saw the old contents, once");
  taker_t reader[] = {{.deed = PEEKS}, {.deed = CHANGES}};
  takers(reader, 2, 1);
  CHECK(reader[0].calls == 2 && reader[1].calls == 1);
  taker_t reader_apart[] = {{.deed = PEEKS}, {.deed = CHANGES_NOT}};
  takers(reader_apart, 2, 1);
  CHECK(reader_apart[0].calls == 1 && reader_apart[1].calls == 1);
  taker_t changed[] = {{.deed = DECLINES}, {.deed = CHANGES}};
  takers(changed, 2, 1);
  CHECK(changed[0].calls == 2 && changed[1].calls == 1);
  STEP("later links get their turn");
  taker_t behind[] = {{.deed = DECLINES}, {.deed = DECLINES}, {.deed = TAKES}};
  takers(behind, 3, 0);
  CHECK(behind[0].calls == 1 && behind[1].calls == 1 && behind[2].calls == 1);
  taker_t behind_changes[] = {{.deed = CHANGES}, {.deed = CHANGES}, {.deed = TAKES}};
  takers(behind_changes, 3, 0);
  CHECK(behind_changes[0].calls == 1 && behind_changes[1].calls == 1 &&
        behind_changes[2].calls == 1);
  STEP("links that modify the same chunk are called 64 times each");
  taker_t endless[] = {{.deed = CHANGES}, {.deed = CHANGES}};
  takers(endless, 2, 1);
  CHECK(endless[0].calls == 64 && endless[1].calls == 64);
}

static void missed(void) {
  STEP("a link that declined a chunk, then failed to lease it, is called when it is back");
  hub_t hub = hub_open(SIZE, 2, 0);
  watcher_t out = {.act = GIVE_BACK};
  ucxx_link_t *other = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(out.ready, 1);
  ucxx_envelope_t *envelope = lease_now(other);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  CHECK_EQ(out.ready, 1);
  envelope = lease_now(other);
  lease_none(out.link, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  CHECK_EQ(out.ready, 2);
  STEP("a link that declined one chunk is called for another");
  push_word(hub.hub, on_host, 2);
  CHECK_EQ(out.ready, 3);
  envelope = lease_now(other);
  CHECK_EQ(out.ready, 4);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  ucxx_link_destroy(out.link);
  ucxx_link_destroy(other);
  hub_close(&hub);
}

static void changed_meanwhile(void) {
  STEP("a change made during a peek elsewhere triggers the callback");
  hub_t hub = hub_open(SIZE, 1, 2);
  watcher_t eye = {.act = CHANGED, .hand = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host)};
  watched(hub.hub, UCXX_LINK_PEEK, on_dummy, &eye);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(eye.ready, 2);
  CHECK_EQ(eye.sum, 12);
  ucxx_link_destroy(eye.hand);
  ucxx_link_destroy(eye.link);
  hub_close(&hub);
}

static void holding_the_last(void) {
  STEP("the close is reported when no chunk can be returned, not even by the link itself");
  for (int broadcast = 0; broadcast < 2; broadcast++) {
    hub_t hub = hub_open(SIZE, 2, 0);
    watcher_t out = {0}, other = {0};
    ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
    params.broadcast = (uint8_t)broadcast;
    params.on_ready = on_ready;
    params.on_ready_arg = &out;
    CHECK_OK(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_host, &params, &out.link));
    push_word(hub.hub, on_host, 1);
    CHECK_EQ(out.ready, 1);
    ucxx_envelope_t *last = lease_now(out.link);
    watched(hub.hub, UCXX_LINK_PEEK, on_host, &other);
    CHECK_OK(ucxx_hub_close(hub.hub));
    lease_none(out.link, UCXX_ERR_CLOSED);
    CHECK_EQ(out.closed, 0);
    CHECK_OK(ucxx_envelope_abort(last, NULL));
    CHECK_EQ(out.ready, 1);
    last = lease_now(out.link);
    CHECK_EQ(out.closed, 0);
    CHECK_OK(ucxx_envelope_commit(last, 0, NULL));
    CHECK_EQ(out.closed, 1);
    CHECK_EQ(other.closed, 1);
    ucxx_link_destroy(out.link);
    ucxx_link_destroy(other.link);
    hub_close(&hub);
  }
  STEP("after a hub is destroyed nothing can be returned");
  hub_t hub = hub_open(SIZE, 1, 0);
  watcher_t out = {0};
  watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
  push_word(hub.hub, on_host, 1);
  ucxx_envelope_t *last = lease_now(out.link);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_EQ(out.closed, 0);
  ucxx_hub_destroy(hub.hub);
  CHECK_EQ(out.closed, 1);
  CHECK_OK(ucxx_envelope_release(last, NULL));
  CHECK_EQ(out.closed, 1);
  ucxx_link_destroy(out.link);
  ucxx_context_destroy(hub.context);
}

static void ending_all(void) {
  STEP("a callback that destroys the hub inside the commit that called it");
  hub_t hub = hub_open(SIZE, 1, 1);
  watcher_t out = {.act = DESTROY_ALL, .next = hub.hub};
  watched(hub.hub, UCXX_LINK_CONSUME, on_dummy, &out);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(out.ready, 1);
  CHECK_EQ(out.closed, 0);
  ucxx_context_destroy(hub.context);
}

static int readable(int fd) {
  struct pollfd entry = {fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

static void ended_by_a_callback(void) {
  STEP("a hub destroyed in a callback makes no more callbacks");
  for (int which = 0; which < 2; which++) {
    hub_t hub = hub_open(SIZE, 4, 0);
    watcher_t out[2] = {{0}, {0}};
    out[which].act = DESTROY_HUB;
    out[which].next = hub.hub;
    for (int at = 0; at < 2; at++) watched(hub.hub, UCXX_LINK_PEEK, on_host, &out[at]);
    push_word(hub.hub, on_host, 1);
    for (int at = 0; at < 2; at++) {
      CHECK_EQ(out[at].closed, 0);
      CHECK_EQ(out[at].ready, at <= which);
      ucxx_link_destroy(out[at].link);
    }
    ucxx_context_destroy(hub.context);
  }
}

static void descriptor(void) {
  STEP("the descriptor is signalled when armed, and only then");
  hub_t hub = hub_open(SIZE, 2, 0);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host),
              *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  int fd = -1, same = -1, room = -1;
  CHECK_OK(ucxx_link_event_fd(out, &fd));
  CHECK_OK(ucxx_link_event_fd(out, &same));
  CHECK_OK(ucxx_link_event_fd(in, &room));
  CHECK_EQ(fd, same);
  CHECK(fd != room);
  push_word(hub.hub, on_host, 1);
  CHECK(!readable(fd));
  CHECK_STATUS(ucxx_link_arm(out), UCXX_ERR_BUSY);
  CHECK_EQ(consume_word(out), 1);
  CHECK_OK(ucxx_link_arm(out));
  CHECK_OK(ucxx_link_arm(out));
  CHECK(!readable(fd));
  CHECK_STATUS(ucxx_link_arm(in), UCXX_ERR_BUSY);
  push_word(hub.hub, on_host, 2);
  CHECK(readable(fd));
  push_word(hub.hub, on_host, 3);
  CHECK_OK(ucxx_link_arm(in));
  CHECK(!readable(room));
  CHECK_STATUS(ucxx_link_arm(out), UCXX_ERR_BUSY);
  CHECK(!readable(fd));
  CHECK_EQ(consume_word(out), 2);
  CHECK(readable(room));
  CHECK_EQ(consume_word(out), 3);
  CHECK_OK(ucxx_link_arm(out));
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK(readable(fd));
  CHECK_STATUS(ucxx_link_arm(out), UCXX_ERR_CLOSED);
  lease_none(out, UCXX_ERR_CLOSED);
  ucxx_link_destroy(out);
  ucxx_link_destroy(in);
  hub_close(&hub);
}

typedef struct sleeper {
  ucxx_link_t *link;
  uint64_t taken;
} sleeper_t;

static void *sleep_in_poll(void *arg) {
  sleeper_t *sleeper = arg;
  struct pollfd entry = {-1, POLLIN, 0};
  CHECK_OK(ucxx_link_event_fd(sleeper->link, &entry.fd));
  for (;;) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status = ucxx_link_lease(sleeper->link, 0, &envelope);
    if (status == UCXX_ERR_CLOSED) return NULL;
    if (status == UCXX_OK) {
      CHECK_EQ(*word_of(envelope), sleeper->taken);
      sleeper->taken++;
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
      continue;
    }
    CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
    status = ucxx_link_arm(sleeper->link);
    if (status == UCXX_OK)
      CHECK(poll(&entry, 1, -1) == 1);
    else
      CHECK(status == UCXX_ERR_BUSY || status == UCXX_ERR_CLOSED);
  }
}

static void sleeping(void) {
  STEP("a consumer that sleeps in poll misses no chunk");
  enum { COUNT = 30000 };
  hub_t hub = hub_open(SIZE, 2, 2);
  sleeper_t sleeper = {hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy), 0};
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, sleep_in_poll, &sleeper), 0);
  for (uint64_t word = 0; word < COUNT; word++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(in, FOR_EVER, &envelope));
    put_word(envelope, word);
  }
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(sleeper.taken, COUNT);
  ucxx_link_destroy(in);
  ucxx_link_destroy(sleeper.link);
  hub_close(&hub);
}

typedef struct loop {
  ucxx_hub_t *hub;
  uint64_t count;
} loop_t;

static void *push_many(void *arg) {
  loop_t *loop = arg;
  for (uint64_t at = 0; at < loop->count; at++) {
    ucxx_envelope_t *envelope = NULL;
    while (ucxx_hub_push(loop->hub, on_host, &envelope) != UCXX_OK) sched_yield();
    put_word(envelope, 1);
  }
  return NULL;
}

static void called_on_threads(void) {
  STEP("callbacks on producer threads: one at a time for a link, none after its destruction");
  for (int round = 0; round < 20; round++) {
    enum { COUNT = 500 };
    hub_t hub = hub_open(SIZE, 4, 0);
    watcher_t out = {.act = CONSUME};
    loop_t loop = {hub.hub, COUNT};
    pthread_t threads[2];
    watched(hub.hub, UCXX_LINK_CONSUME, on_host, &out);
    for (int at = 0; at < 2; at++)
      CHECK_EQ(pthread_create(&threads[at], NULL, push_many, &loop), 0);
    for (int at = 0; at < 2; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
    CHECK_EQ(out.sum, 2 * COUNT);
    CHECK_EQ(out.deepest, 1);
    ucxx_link_destroy(out.link);
    hub_close(&hub);
  }
}

int main(void) {
  test_begin("hub_ready");
  once();
  acting();
  chain();
  giving_back();
  declining();
  missed();
  changed_meanwhile();
  holding_the_last();
  ending_all();
  ended_by_a_callback();
  descriptor();
  sleeping();
  called_on_threads();
  return 0;
}
