/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Checks whether the history of one location is linearizable: each operation took effect at one
 * moment between its begin and its end, those of one process in program order. A search from the
 * first operation on, with a table of the states that led nowhere.
 */
#ifndef UCXX_RS_TEST_WIN_LINEAR_H
#define UCXX_RS_TEST_WIN_LINEAR_H
#include "test_util.h"

enum { MOST_PROCESSES = 5, MOST_EVENTS = 48, PLACES = 1 << 20 };

typedef struct value {
  int64_t a, b;
} value_t;

typedef enum event_kind {
  FETCH_AND_ADD,
  SWAP,
  READ,
  ADD,
  WRITE,
  COMPARE_AND_SWAP,
  EVENT_KINDS
} event_kind_t;

typedef struct event {
  event_kind_t kind;
  value_t operand, compare, result; /* `result`: the old value, if the operation returns it */
  uint64_t begin, end;
} event_t;

typedef struct history {
  value_t first;
  uint32_t count[MOST_PROCESSES];
  event_t events[MOST_PROCESSES][MOST_EVENTS];
} history_t;

static inline int value_eq(value_t left, value_t right) {
  return left.a == right.a && left.b == right.b;
}

/* Computes the value after the event; 0 if the event could not have found this value. */
static inline int event_applies(const event_t *event, value_t *value) {
  int tells = event->kind != ADD && event->kind != WRITE;
  if (tells && !value_eq(event->result, *value)) return 0;
  switch (event->kind) {
  case FETCH_AND_ADD:
  case ADD:
    value->a += event->operand.a;
    value->b += event->operand.b;
    break;
  case SWAP:
  case WRITE: *value = event->operand; break;
  case COMPARE_AND_SWAP:
    if (value_eq(event->compare, *value)) *value = event->operand;
    break;
  default: break;
  }
  return 1;
}

typedef struct place {
  uint32_t round, next[MOST_PROCESSES];
  value_t value;
} place_t;

typedef struct search {
  const history_t *history;
  place_t *places;
  uint32_t round, used;
} search_t;

/* 1 the first time. */
static inline int search_is_new(search_t *search, const uint32_t *next, value_t value) {
  uint64_t hash = test_mix((uint64_t)value.a ^ test_mix((uint64_t)value.b));
  for (int process = 0; process < MOST_PROCESSES; process++) hash = test_mix(hash ^ next[process]);
  for (size_t at = hash % PLACES;; at = (at + 1) % PLACES) {
    place_t *place = &search->places[at];
    if (place->round != search->round) {
      if (++search->used > PLACES / 2) FAIL("the history is too large to search");
      place->round = search->round;
      memcpy(place->next, next, sizeof place->next);
      place->value = value;
      return 1;
    }
    if (memcmp(place->next, next, sizeof place->next) == 0 && value_eq(place->value, value))
      return 0;
  }
}

static inline int search_from(search_t *search, uint32_t *next, value_t value) {
  const history_t *history = search->history;
  uint64_t first_end = UINT64_MAX;
  int done = 1;
  for (int process = 0; process < MOST_PROCESSES; process++) {
    if (next[process] == history->count[process]) continue;
    done = 0;
    if (history->events[process][next[process]].end < first_end)
      first_end = history->events[process][next[process]].end;
  }
  if (done) return 1;
  if (!search_is_new(search, next, value)) return 0;
  for (int process = 0; process < MOST_PROCESSES; process++) {
    const event_t *event = &history->events[process][next[process]];
    value_t after = value;
    /* An operation that ended before this one began comes before it. */
    if (next[process] == history->count[process] || event->begin > first_end ||
        !event_applies(event, &after))
      continue;
    next[process]++;
    int found = search_from(search, next, after);
    next[process]--;
    if (found) return 1;
  }
  return 0;
}

static inline int is_linearisable(const history_t *history) {
  static place_t *places;
  static uint32_t round;
  uint32_t next[MOST_PROCESSES] = {0};
  if (places == NULL) {
    places = calloc(PLACES, sizeof *places);
    CHECK(places != NULL);
  }
  search_t search = {.history = history, .places = places, .round = ++round};
  return search_from(&search, next, history->first);
}
#endif
