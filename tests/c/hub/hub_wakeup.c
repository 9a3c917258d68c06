/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Every call that makes a lease possible, or impossible for good, wakes the threads that wait in
 * the hub. */
#include "hub.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 64 };

/* How a thread waits. */
typedef enum way { LEASE, LEASE_MANY, PEEK } way_t;

typedef struct waiter {
  way_t way;
  ucxx_link_t *link;
  ucxx_hub_t *hub; /* for a peek, on the device */
  pthread_t thread;
  long id;
  ucxx_status_t status;
  uint64_t word; /* 0 for an empty envelope */
} waiter_t;

static void *wait_for_one(void *arg) {
  waiter_t *waiter = arg;
  ucxx_envelope_t *envelope = NULL;
  __atomic_store_n(&waiter->id, syscall(SYS_gettid), __ATOMIC_RELEASE);
  if (waiter->way == PEEK)
    waiter->status = ucxx_hub_peek(waiter->hub, on_dummy, FOR_EVER, &envelope);
  else if (waiter->way == LEASE_MANY)
    waiter->status = ucxx_link_lease_many(&waiter->link, 1, FOR_EVER, &envelope);
  else
    waiter->status = ucxx_link_lease(waiter->link, FOR_EVER, &envelope);
  if (waiter->status != UCXX_OK) return NULL;
  waiter->word = look_at(envelope).length == 0 ? 0 : *word_of(envelope);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  return NULL;
}

static char state_of(long id) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%ld/stat", id);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  const char *after = strrchr(text, ')');
  CHECK(after != NULL);
  return after[2];
}

/* Returns when the thread sleeps. The next call must wake it; it must also work if the thread does
 * not sleep yet. */
static waiter_t *begin(waiter_t *waiter, way_t way, hub_t *hub, ucxx_link_t *link) {
  *waiter = (waiter_t){.way = way, .link = link, .hub = hub->hub};
  CHECK_EQ(pthread_create(&waiter->thread, NULL, wait_for_one, waiter), 0);
  long id = 0;
  while ((id = __atomic_load_n(&waiter->id, __ATOMIC_ACQUIRE)) == 0) sched_yield();
  while (state_of(id) != 'S') sched_yield();
  return waiter;
}

static void ends_with(waiter_t *waiter, ucxx_status_t status, uint64_t word) {
  CHECK_EQ(pthread_join(waiter->thread, NULL), 0);
  CHECK_STATUS(waiter->status, status);
  CHECK_EQ(waiter->word, word);
}

/* A chunk has replicas on the host and the device, and a producer wants the only host envelope. It
 * gets that when no link reads on the host any more. */
static void producers(way_t way) {
  STEP("a producer sleeps while a link reads there: a new flow, a link added to it, the "
       "destruction of that link; way %d",
       way);
  for (int what = 0; what < 3; what++) {
    hub_t hub = hub_open(SIZE, 1, 2);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
                *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
    ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_host);
    waiter_t waiter;
    produce_word(in, 1);
    CHECK_EQ(hub_stats(hub.hub).transfers, 1);
    begin(&waiter, way, &hub, in);
    if (what == 0)
      CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
    else if (what == 1)
      CHECK_OK(ucxx_hub_add_flow(hub.hub, out));
    else
      ucxx_link_destroy(peek);
    ends_with(&waiter, UCXX_OK, 0);
    CHECK_EQ(consume_word(out), 1);
    if (what != 2) ucxx_link_destroy(peek);
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    hub_close(&hub);
  }
}

/* Each call that can make a lease possible, one by one. */
static void wakeups(way_t way) {
  STEP("envelopes, flows, links and closes that sleeping threads wait for; way %d", way);
  hub_t hub = hub_open(SIZE, 1, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  ucxx_link_t *here = hub_link(hub.hub, UCXX_LINK_PEEK, on_host),
              *there = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  waiter_t waiter;
  ucxx_envelope_t *held = lease_now(in);
  begin(&waiter, way, &hub, in);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_host, 1));
  ends_with(&waiter, UCXX_OK, 0);
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  STEP("another envelope on the device, where the only one is leased");
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_dummy, 1));
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &held));
  produce_word(in, 2);
  begin(&waiter, way, &hub, out);
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_dummy, 1));
  ends_with(&waiter, UCXX_OK, 2);
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  STEP("a flow that includes it");
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &here, 1));
  begin(&waiter, way, &hub, out);
  CHECK_OK(ucxx_hub_add_flow(hub.hub, out));
  ends_with(&waiter, UCXX_OK, 2);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, &here, 1));
  begin(&waiter, way, &hub, there);
  CHECK_OK(ucxx_hub_set_flow(hub.hub, NULL, 0));
  ends_with(&waiter, UCXX_OK, 2);
  STEP("destruction of the last consumer that needed the chunk");
  ucxx_link_t *slow = hub_broadcast(hub.hub, on_host);
  CHECK_EQ(consume_word(out), 2);
  CHECK_EQ(ucxx_hub_length(hub.hub), 1);
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &held));
  begin(&waiter, way, &hub, in);
  ucxx_link_destroy(slow);
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  ends_with(&waiter, UCXX_OK, 0);
  STEP("a close, then an aborted production");
  begin(&waiter, way, &hub, out);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  ends_with(&waiter, UCXX_ERR_CLOSED, 0);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(here);
  ucxx_link_destroy(there);
  hub_close(&hub);
}

/* A peek by the hub itself: nothing is copied for it before the call. */
static void peeks(void) {
  STEP("a peek that waits for a chunk, an envelope for its copy, its change, or the close");
  hub_t hub = hub_open(SIZE, 2, 1);
  waiter_t waiter;
  ucxx_envelope_t *held = NULL;
  begin(&waiter, PEEK, &hub, NULL);
  push_word(hub.hub, on_host, 1);
  ends_with(&waiter, UCXX_OK, 1);
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_OK(ucxx_hub_push(hub.hub, on_dummy, &held));
  push_word(hub.hub, on_host, 2);
  begin(&waiter, PEEK, &hub, NULL);
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  ends_with(&waiter, UCXX_OK, 2);
  CHECK_EQ(hub_stats(hub.hub).transfers, 2);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  push_word(hub.hub, on_host, 3);
  ucxx_link_t *modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host);
  held = lease_now(modify);
  begin(&waiter, PEEK, &hub, NULL);
  put_word(held, 4);
  ends_with(&waiter, UCXX_OK, 4);
  CHECK_OK(ucxx_hub_pop(hub.hub));
  begin(&waiter, PEEK, &hub, NULL);
  CHECK_OK(ucxx_hub_close(hub.hub));
  ends_with(&waiter, UCXX_ERR_CLOSED, 0);
  ucxx_link_destroy(modify);
  hub_close(&hub);
}

/* A connected link's chunks go to its peer alone, whatever waited for them before. */
static void connected(way_t way) {
  STEP("a thread in a lease through a link that gets connected receives BUSY; way %d", way);
  duo_t duo = {0};
  duo_open(&duo, NULL);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.worker = duo.left;
  for (int produces = 0; produces < 2; produces++) {
    hub_t hub = {duo.context, NULL};
    waiter_t waiter;
    ucxx_envelope_t *held = NULL, *none = NULL;
    CHECK_OK(ucxx_hub_create(duo.context, &params, &hub.hub));
    CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_host, 1));
    ucxx_link_t *link =
        hub_link(hub.hub, produces ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME, on_host);
    CHECK_OK(ucxx_hub_push(hub.hub, on_host, &held));
    begin(&waiter, way, &hub, link);
    CHECK_OK(ucxx_link_connect(link, duo.to_right, 1 + (uint64_t)produces, 1));
    ends_with(&waiter, UCXX_ERR_BUSY, 0);
    CHECK_STATUS(ucxx_link_lease(link, 0, &none), UCXX_ERR_BUSY);
    CHECK_STATUS(ucxx_link_lease_many(&link, 1, 0, &none), UCXX_ERR_BUSY);
    CHECK_OK(ucxx_envelope_abort(held, NULL));
    ucxx_link_destroy(link);
    ucxx_hub_destroy(hub.hub);
  }
  duo_close(&duo);
}

typedef struct busy {
  ucxx_link_t *in, *out;
  int over;
} busy_t;

static void *keep_busy(void *arg) {
  busy_t *busy = arg;
  for (uint64_t word = 0; !__atomic_load_n(&busy->over, __ATOMIC_ACQUIRE); word++) {
    produce_word(busy->in, word);
    CHECK_EQ(consume_word(busy->out), word);
  }
  return NULL;
}

/* In the child, a lock held by another thread at the fork is never released. */
static void forked(void) {
  STEP("a child forked while another thread is inside the hub does not wait for it");
  duo_t duo = {0};
  duo_open(&duo, NULL);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.worker = duo.left;
  hub_t hub = {duo.context, NULL};
  CHECK_OK(ucxx_hub_create(duo.context, &params, &hub.hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_host, 1));
  busy_t busy = {hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
                 hub_link(hub.hub, UCXX_LINK_CONSUME, on_host), 0};
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, keep_busy, &busy), 0);
  for (int at = 0; at < 30; at++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      ucxx_request_t *request = NULL;
      alarm(20);
      if (ucxx_link_recv(busy.in, 1, UINT64_MAX, NULL, &request) != UCXX_ERR_FORKED) _exit(1);
      if (ucxx_link_send(busy.out, duo.to_right, 1, NULL, &request) != UCXX_ERR_FORKED) _exit(2);
      _exit(request == NULL ? 0 : 3);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
  }
  __atomic_store_n(&busy.over, 1, __ATOMIC_RELEASE);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  ucxx_link_destroy(busy.in);
  ucxx_link_destroy(busy.out);
  ucxx_hub_destroy(hub.hub);
  duo_close(&duo);
}

int main(void) {
  test_begin("hub_wakeup");
  for (way_t way = LEASE; way < PEEK; way++) {
    producers(way);
    wakeups(way);
    connected(way);
  }
  peeks();
  forked();
  return 0;
}
