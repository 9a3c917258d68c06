/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Leases through several links: if they can never be served together, the call returns STARVED at
 * once; if they may be served later, it waits; if they can be served, it succeeds. */
#include <pthread.h>

#include "hub.h"

enum { SIZE = 64 };

/* A link of a row of `never`, by its letter. */
static ucxx_link_t *lettered(ucxx_hub_t *hub, char letter) {
  switch (letter) {
  case 'P':
  case 'Q': return hub_link(hub, UCXX_LINK_PRODUCE, on_host);
  case 'C':
  case 'D': return hub_link(hub, UCXX_LINK_CONSUME, on_host);
  case 'c': return hub_link(hub, UCXX_LINK_CONSUME, on_dummy);
  case 'B': return hub_broadcast(hub, on_host);
  case 'K': return hub_link(hub, UCXX_LINK_PEEK, on_host);
  case 'k': return hub_link(hub, UCXX_LINK_PEEK, on_dummy);
  case 'M': return hub_link(hub, UCXX_LINK_MODIFY, on_host);
  default: CHECK_EQ(letter, 'm'); return hub_link(hub, UCXX_LINK_MODIFY, on_dummy);
  }
}

static void never(void) {
  static const struct {
    const char *what, *call, *beside; /* links of the call, and other links of the hub */
    size_t max_chunks, max_bytes, host, queued, length;
    ucxx_status_t status;
    const char *told[2];
  } rows[] = {
      {"two producers and room for one chunk",
       "PQ",
       "",
       1,
       0,
       4,
       0,
       0,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "produces on the host"}},
      {"and room for two", "PQ", "", 2, 0, 4, 0, 0, UCXX_OK, {NULL}},
      {"the accumulator and room for one chunk",
       "CP",
       "",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "produces on the host"}},
      {"before there is a chunk",
       "CP",
       "D",
       1,
       0,
       4,
       0,
       0,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "produces on the host"}},
      {"and room for two", "CP", "", 2, 0, 4, 1, 8, UCXX_OK, {NULL}},
      {"one consumer twice, and room for one chunk",
       "CC",
       "D",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "consumes on the host"}},
      {"two competing consumers",
       "CD",
       "",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "consumes on the host"}},
      {"one broadcast consumer, twice",
       "BB",
       "C",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "consumes on the host"}},
      {"two links that get the same chunk", "BC", "", 1, 0, 4, 1, 8, UCXX_OK, {NULL}},
      {"the top chunk and a new one",
       "KP",
       "C",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "produces on the host"}},
      {"the same, modified",
       "MP",
       "C",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "produces on the host"}},
      {"one chunk that is consumed, and peeked at there and elsewhere",
       "CKk",
       "",
       1,
       0,
       4,
       1,
       8,
       UCXX_OK,
       {NULL}},
      {"bytes of one envelope and of two productions",
       "PQ",
       "",
       0,
       2 * SIZE - 1,
       4,
       0,
       0,
       UCXX_ERR_STARVED,
       {"max_queue_bytes is 127, and they need 128", "produces on the host"}},
      {"of two", "PQ", "", 0, 2 * SIZE, 4, 0, 0, UCXX_OK, {NULL}},
      {"the accumulator and bytes of one envelope",
       "CP",
       "",
       0,
       SIZE,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_bytes is 64, and they need 72", "and 8 for those"}},
      {"two chunks, and not enough for the second",
       "CCP",
       "",
       0,
       SIZE + 8,
       4,
       2,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_bytes is 72, and they need 80", "and 16 for those"}},
      {"enough", "CCP", "", 0, SIZE + 16, 4, 2, 8, UCXX_OK, {NULL}},
      {"a third one, which another link may consume first",
       "CCP",
       "",
       0,
       SIZE + 16,
       4,
       3,
       8,
       UCXX_ERR_NO_RESOURCE,
       {NULL}},
      {"a chunk that is peeked at",
       "KP",
       "",
       0,
       SIZE,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_bytes is 64, and they need 72", "produces on the host"}},
      {"the same, and another link may consume it",
       "KP",
       "C",
       0,
       SIZE,
       4,
       1,
       8,
       UCXX_ERR_NO_RESOURCE,
       {NULL}},
      {"a chunk that another link may consume",
       "CP",
       "D",
       0,
       SIZE,
       4,
       1,
       8,
       UCXX_ERR_NO_RESOURCE,
       {NULL}},
      {"a chunk that another link may shorten",
       "CP",
       "m",
       0,
       SIZE,
       4,
       1,
       8,
       UCXX_ERR_NO_RESOURCE,
       {NULL}},
      {"an empty chunk", "CP", "", 0, SIZE, 4, 1, 0, UCXX_OK, {NULL}},
      {"an empty chunk that may still arrive",
       "CP",
       "",
       0,
       SIZE,
       4,
       0,
       0,
       UCXX_ERR_NO_RESOURCE,
       {NULL}},
      {"the consumed chunk is also modified",
       "MC",
       "",
       0,
       0,
       4,
       2,
       8,
       UCXX_ERR_STARVED,
       {"modifies on the host", "consumes on the host, as they get the same chunk"}},
      {"elsewhere",
       "mC",
       "",
       0,
       0,
       4,
       2,
       8,
       UCXX_ERR_STARVED,
       {"modifies on dummy device 0", "consumes on the host, as they get the same chunk"}},
      {"by a broadcast consumer",
       "MB",
       "",
       0,
       0,
       4,
       2,
       8,
       UCXX_ERR_STARVED,
       {"modifies on the host", "as they get the same chunk"}},
      {"by all broadcast consumers",
       "MBC",
       "",
       0,
       0,
       4,
       2,
       8,
       UCXX_ERR_STARVED,
       {"modifies on the host", "as they get the same chunk"}},
      {"while it waits for another link", "MC", "B", 0, 0, 4, 2, 8, UCXX_ERR_NO_RESOURCE, {NULL}},
      {"modifiers on two devices",
       "Mm",
       "C",
       0,
       0,
       4,
       1,
       8,
       UCXX_ERR_INVALID_PARAM,
       {"modifies on the host, ", "modified on one device at a time"}},
      {"a modified chunk, peeked at there",
       "MK",
       "C",
       0,
       0,
       4,
       1,
       8,
       UCXX_ERR_INVALID_PARAM,
       {"modifies on the host, and the link", "nobody peeks"}},
      {"elsewhere", "Mk", "C", 0, 0, 4, 1, 8, UCXX_OK, {NULL}},
      {"one broadcast consumer twice, and one envelope",
       "BB",
       "",
       0,
       0,
       1,
       0,
       0,
       UCXX_ERR_STARVED,
       {"1 more envelope needed", "consumes on the host"}},
      {"one consumer on each device", "BK", "C", 0, 0, 1, 1, 8, UCXX_OK, {NULL}},
      {"a modification, and the next chunk",
       "MB",
       "C",
       0,
       0,
       1,
       1,
       8,
       UCXX_ERR_STARVED,
       {"1 more envelope needed", "on the host"}},
      {"and room for it",
       "MB",
       "C",
       1,
       0,
       4,
       1,
       8,
       UCXX_ERR_STARVED,
       {"max_queue_chunks is 1, and they need 2", "on the host"}},
  };
  for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
    STEP("starved, or served later: %s (%s)", rows[row].what, rows[row].call);
    ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
    params.envelope_size = SIZE;
    params.max_queue_chunks = rows[row].max_chunks;
    params.max_queue_bytes = rows[row].max_bytes;
    hub_t hub = hub_open_with(&params, rows[row].host, 2);
    ucxx_link_t *by_letter[128] = {NULL}, *call[4];
    size_t count = strlen(rows[row].call);
    for (int part = 0; part < 2; part++)
      for (const char *letter = part == 0 ? rows[row].call : rows[row].beside; *letter != 0;
           letter++)
        if (by_letter[(int)*letter] == NULL) by_letter[(int)*letter] = lettered(hub.hub, *letter);
    for (size_t chunk = 0; chunk < rows[row].queued; chunk++) {
      ucxx_envelope_t *envelope = NULL;
      CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
      CHECK_OK(ucxx_envelope_commit(envelope, rows[row].length, NULL));
    }
    uint64_t timeout = rows[row].told[0] == NULL ? 0 : FOR_EVER;
    for (int backwards = 0; backwards < 2; backwards++) {
      ucxx_envelope_t *envelopes[4] = {NULL};
      for (size_t at = 0; at < count; at++)
        call[at] = by_letter[(int)rows[row].call[backwards ? count - 1 - at : at]];
      CHECK_STATUS(ucxx_link_lease_many(call, count, timeout, envelopes), rows[row].status);
      for (int told = 0; told < 2 && rows[row].told[told] != NULL; told++)
        CHECK_MESSAGE(rows[row].told[told]);
      for (size_t at = 0; at < count; at++) {
        CHECK((envelopes[at] != NULL) == (rows[row].status == UCXX_OK));
        if (envelopes[at] != NULL) CHECK_OK(ucxx_envelope_abort(envelopes[at], NULL));
      }
    }
    CHECK_OK(ucxx_hub_validate(hub.hub));
    CHECK_EQ(hub_stats(hub.hub).leased_envelopes, 0);
    for (int letter = 0; letter < 128; letter++) ucxx_link_destroy(by_letter[letter]);
    hub_close(&hub);
  }
}

typedef struct waiting {
  ucxx_link_t *links[2];
  ucxx_status_t status;
  char told[256];
} waiting_t;

static void *wait_for_both(void *arg) {
  waiting_t *waiting = arg;
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  waiting->status = ucxx_link_lease_many(waiting->links, 2, FOR_EVER, envelopes);
  snprintf(waiting->told, sizeof waiting->told, "%s", ucxx_last_error_message());
  CHECK((envelopes[0] != NULL) == (waiting->status == UCXX_OK) &&
        (envelopes[1] != NULL) == (waiting->status == UCXX_OK));
  for (int at = 0; at < 2; at++)
    if (envelopes[at] != NULL) CHECK_OK(ucxx_envelope_commit(envelopes[at], at == 0 ? 0 : 8, NULL));
  return NULL;
}

/* A waiting call returns as soon as what it waits for has become impossible. */
static void never_any_more(void) {
  STEP("a chunk arrives that is too long for its replacement");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_bytes = SIZE;
  hub_t hub = hub_open_with(&params, 4, 0);
  waiting_t waiting = {.links = {hub_link(hub.hub, UCXX_LINK_CONSUME, on_host),
                                 hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host)}};
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, wait_for_both, &waiting), 0);
  push_word(hub.hub, on_host, 1);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_STATUS(waiting.status, UCXX_ERR_STARVED);
  CHECK(strstr(waiting.told, "max_queue_bytes is 64") != NULL);
  for (int at = 0; at < 2; at++) ucxx_link_destroy(waiting.links[at]);
  hub_close(&hub);
  STEP("a modification and the next chunk, while another link needs the first: then never");
  hub = hub_open(SIZE, 4, 0);
  ucxx_link_t *all = hub_broadcast(hub.hub, on_host);
  waiting.links[0] = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  waiting.links[1] = hub_link(hub.hub, UCXX_LINK_MODIFY, on_host);
  push_word(hub.hub, on_host, 1);
  push_word(hub.hub, on_host, 2);
  for (int round = 0; round < 2; round++) {
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_both, &waiting), 0);
    if (round == 0)
      CHECK_EQ(consume_word(waiting.links[0]), 1);
    else
      ucxx_link_destroy(all);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_STATUS(waiting.status, round == 0 ? UCXX_OK : UCXX_ERR_STARVED);
  }
  CHECK(strstr(waiting.told, "get the same chunk") != NULL);
  for (int at = 0; at < 2; at++) ucxx_link_destroy(waiting.links[at]);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_starvation");
  never();
  never_any_more();
  return 0;
}
