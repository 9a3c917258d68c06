/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * accumulator.c: a hub that holds one value, which each step replaces. Twice.
 *
 * First a step consumes the value and produces the one that takes its place: it needs two envelopes
 * at once, one with the old value and one for the new one, and leases both with one call. Then a
 * step changes the value where it is, on a device, with one link that modifies. Either way the
 * value is put there by hand before the first step, and read by hand after the last one; the second
 * time that brings it back to the host.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

#define STEPS 1000

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
static const ucxx_memory_kind_t device = {UCXX_MEMORY_DUMMY,
                                          0}; /* host memory that poses as a device */

static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "accumulator: %s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

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
  check(ucxx_hub_add_envelopes(hub, host, 2), "envelopes on the host");
  check(ucxx_hub_add_envelopes(hub, device, 1), "an envelope on the device");
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

/* Looks at the value, takes the hub down, and tells. */
static void finish(ucxx_hub_t *hub, const char *how) {
  ucxx_envelope_t *envelope;
  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
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
