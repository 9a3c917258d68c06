/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * accumulator.c: a hub that holds one value, which each step replaces. The program does it in two
 * ways.
 *
 *     cc -o accumulator accumulator.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./accumulator
 *
 *     consumed and produced: 1000 steps make 1000, with 0 copies between devices
 *     modified in place: 1000 steps make 1000, with 2 copies between devices
 *
 * A hub is a queue of chunks. Each chunk is in an envelope, which is a buffer of the hub. A link
 * gives access to the hub, on one kind of memory. To "lease" is to get an envelope through a link,
 * and to "commit" is to give it back (docs/hub.md).
 *
 * First way: a step consumes the old value and produces the new one. It needs two envelopes at
 * once, and leases both with one call. Second way: a step changes the value in place, on a device,
 * through one link that modifies. Before the first step the program puts a value into the hub, and
 * after the last step it reads the value on the host.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

#define STEPS 1000

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
/* A device that every machine has: host memory that the library treats as a device. */
static const ucxx_memory_kind_t device = {UCXX_MEMORY_DUMMY, 0};

static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "accumulator: %s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

/* The memory of an envelope, as a number. */
static int64_t *value_in(ucxx_envelope_t *envelope) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  check(ucxx_envelope_query(envelope, &attr), "an envelope's memory");
  return attr.data;
}

static ucxx_hub_t *make_hub(ucxx_context_t *context, int64_t initial) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub;
  ucxx_envelope_t *envelope;
  params.envelope_size = sizeof initial;
  check(ucxx_hub_create(context, &params, &hub), "a hub");
  /* Two envelopes on the host and one on the device. The hub copies a chunk where it is needed. */
  check(ucxx_hub_add_envelopes(hub, host, 2), "envelopes on the host");
  check(ucxx_hub_add_envelopes(hub, device, 1), "an envelope on the device");
  /* Gets an empty envelope without a link. The commit puts it into the queue. */
  check(ucxx_hub_push(hub, host, &envelope), "the first value");
  *value_in(envelope) = initial;
  check(ucxx_envelope_commit(envelope, sizeof initial, NULL), "the first value");
  return hub;
}

static ucxx_link_t *make_link(ucxx_hub_t *hub, int32_t type, ucxx_memory_kind_t kind) {
  ucxx_link_t *link;
  check(ucxx_link_create(hub, type, kind, NULL, &link), "a link");
  return link;
}

/* Reads the value, destroys the hub, and prints the result. */
static void finish(ucxx_hub_t *hub, const char *how) {
  ucxx_envelope_t *envelope;
  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
  /* Reads the oldest chunk without consuming it. The hub copies it to the host if necessary. */
  check(ucxx_hub_peek(hub, host, UINT64_MAX, &envelope), "the last value");
  int64_t value = *value_in(envelope);
  check(ucxx_envelope_release(envelope, NULL), "the last value");
  check(ucxx_hub_query_stats(hub, &stats), "figures");
  printf("%s: %d steps make %lld, with %llu copies between devices\n", how, STEPS, (long long)value,
         (unsigned long long)stats.transfers);
  ucxx_hub_destroy(hub);
  if (value != STEPS) {
    fprintf(stderr, "accumulator: that is not so\n");
    exit(1);
  }
}

static void consume_and_produce(ucxx_context_t *context) {
  ucxx_hub_t *hub = make_hub(context, 0);
  ucxx_link_t *links[] = {make_link(hub, UCXX_LINK_CONSUME, host),
                          make_link(hub, UCXX_LINK_PRODUCE, host)};
  for (int step = 0; step < STEPS; step++) {
    /* Both envelopes or none, so that a step never holds one while it waits for the other. */
    ucxx_envelope_t *envelopes[2];
    check(ucxx_link_lease_many(links, 2, UINT64_MAX, envelopes),
          "the value and room for the next one");
    *value_in(envelopes[1]) = *value_in(envelopes[0]) + 1;
    check(ucxx_envelope_commit(envelopes[1], sizeof(int64_t), NULL), "the next value");
    check(ucxx_envelope_commit(envelopes[0], 0, NULL), "the value is consumed");
  }
  ucxx_link_destroy(links[0]);
  ucxx_link_destroy(links[1]);
  finish(hub, "consumed and produced");
}

/* The chunk stays in the queue, and the lease gives exclusive access to it. */
static void modify(ucxx_context_t *context) {
  ucxx_hub_t *hub = make_hub(context, 0);
  ucxx_link_t *link = make_link(hub, UCXX_LINK_MODIFY, device);
  for (int step = 0; step < STEPS; step++) {
    ucxx_envelope_t *envelope;
    check(ucxx_link_lease(link, UINT64_MAX, &envelope), "the value");
    *value_in(envelope) += 1;
    check(ucxx_envelope_commit(envelope, sizeof(int64_t), NULL), "it is changed");
  }
  ucxx_link_destroy(link);
  finish(hub, "modified in place");
}

int main(void) {
  ucxx_context_t *context;
  check(ucxx_context_create(NULL, &context), "a context");
  consume_and_produce(context);
  modify(context);
  ucxx_context_destroy(context);
  return 0;
}
