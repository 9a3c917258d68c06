/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Atomic operations of four processes on a few elements, recorded as random histories: begin,
 * completion, and the value found. Each element's history must be linearizable. The elements cover
 * all ways to be atomic: words of several sizes, several in one word, larger than a word, and
 * several that are updated as one.
 */
#include "window.h"
#include "linearizability.h"
#include "window_model.h"

enum {
  MEMBERS = 4,
  LOCATIONS = 5,
  ROUNDS = 30,
  SETS = 32,
  SET_SIZE = 64,
  LENGTH = 24,
  AT_ONCE = 5,
  SPINS = 2000
};

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;
static int
    with_granularity; /* then one element of 8 bytes, and two of them, are each updated as one */

/* Two elements of one location are updated as one unit, which takes granularity. */
static const struct location {
  int32_t type;
  uint32_t target;
  uint64_t offset, most; /* elements */
} locations[LOCATIONS] = {{UCXX_TYPE_INT64, 0, 0, 1},
                          {UCXX_TYPE_INT32, 1, 16, 1},
                          {UCXX_TYPE_INT32, 1, 20, 1},
                          {UCXX_TYPE_COMPLEX_DOUBLE, 2, 32, 1},
                          {UCXX_TYPE_INT64, 3, 48, 2}};

static uint64_t count_of(const struct location *location) {
  return with_granularity ? location->most : 1;
}

/* Does a value have two parts? */
static int is_double(const struct location *location) {
  return location->type == UCXX_TYPE_COMPLEX_DOUBLE || count_of(location) > 1;
}

/* The histories of a round; each set has its own elements in the windows, and begins when all
 * members have reached it. */
typedef struct gathered {
  history_t histories[SETS][LOCATIONS];
  uint64_t come;
} gathered_t;
static gathered_t *gathered;

/* ------------------------------------------------------------------ a test of the check */

static event_t event(event_kind_t kind, int64_t operand, int64_t result, uint64_t begin,
                     uint64_t end) {
  return (event_t){
      .kind = kind, .operand = {operand, 0}, .result = {result, 0}, .begin = begin, .end = end};
}

static int judge(event_t first, event_t second, event_t third) {
  history_t history = {.count = {1, 1, 1}};
  history.events[0][0] = first;
  history.events[1][0] = second;
  history.events[2][0] = third;
  return is_linearisable(&history);
}

static void check_the_check(void) {
  const event_t write = event(WRITE, 5, 0, 10, 30), early_read = event(READ, 0, 0, 1, 2);
  /* A lost update, and none. */
  CHECK(!judge(event(FETCH_AND_ADD, 1, 0, 1, 9), event(FETCH_AND_ADD, 1, 0, 2, 8), early_read));
  CHECK(judge(event(FETCH_AND_ADD, 1, 0, 1, 9), event(FETCH_AND_ADD, 1, 1, 2, 8), early_read));
  CHECK(judge(event(FETCH_AND_ADD, 1, 1, 1, 9), event(FETCH_AND_ADD, 1, 0, 2, 8), early_read));
  CHECK(!judge(event(FETCH_AND_ADD, 1, 1, 1, 2), event(FETCH_AND_ADD, 1, 0, 3, 8), early_read));
  /* During a write either value may be read; after it only the new one, and never the old one after
   * the new one. */
  CHECK(judge(write, event(READ, 0, 5, 11, 12), event(READ, 0, 5, 13, 14)));
  CHECK(judge(write, event(READ, 0, 0, 11, 12), event(READ, 0, 5, 13, 14)));
  CHECK(!judge(write, event(READ, 0, 5, 11, 12), event(READ, 0, 0, 13, 14)));
  CHECK(judge(write, event(READ, 0, 5, 11, 14), event(READ, 0, 0, 13, 14)));
  CHECK(!judge(write, event(READ, 0, 0, 31, 32), event(READ, 0, 5, 33, 34)));
  CHECK(!judge(write, event(READ, 0, 5, 8, 9), early_read));
  /* A value that nobody wrote. */
  CHECK(!judge(write, event(READ, 0, 4, 11, 12), early_read));
  /* A compare-and-swap that should have succeeded, or failed. */
  event_t swap = event(COMPARE_AND_SWAP, 7, 0, 1, 2);
  CHECK(judge(swap, event(READ, 0, 7, 3, 4), event(READ, 0, 7, 5, 6)));
  CHECK(!judge(swap, event(READ, 0, 0, 3, 4), event(READ, 0, 7, 5, 6)));
  swap.compare.a = 1;
  CHECK(!judge(swap, event(READ, 0, 7, 3, 4), early_read));
  /* One process's order counts, even for overlapping operations. */
  history_t history = {.count = {2}};
  history.events[0][0] = event(ADD, 1, 0, 1, 9);
  history.events[0][1] = event(READ, 0, 0, 2, 9);
  CHECK(!is_linearisable(&history));
  history.events[0][1].result.a = 1;
  CHECK(is_linearisable(&history));
  /* Halves of two values. */
  history.events[0][0].kind = WRITE;
  history.events[0][0].operand = (value_t){3, 4};
  history.events[0][1].result = (value_t){3, 0};
  CHECK(!is_linearisable(&history));
}

/* ------------------------------------------------------------------ making a history */

static void encode(const struct location *location, value_t value, uint8_t *bytes) {
  if (location->type == UCXX_TYPE_COMPLEX_DOUBLE) {
    put_real(bytes, 8, (double)value.a);
    put_real(bytes + 8, 8, (double)value.b);
  } else {
    size_t size = kinds[location->type].size;
    put_whole(bytes, size, (uint64_t)value.a);
    if (count_of(location) > 1) put_whole(bytes + size, size, (uint64_t)value.b);
  }
}

static value_t decode(const struct location *location, const uint8_t *bytes) {
  size_t size = kinds[location->type].size;
  if (location->type == UCXX_TYPE_COMPLEX_DOUBLE)
    return (value_t){(int64_t)get_real(bytes, 8), (int64_t)get_real(bytes + 8, 8)};
  return (value_t){(int64_t)get_whole(bytes, size, 1),
                   count_of(location) > 1 ? (int64_t)get_whole(bytes + size, size, 1) : 0};
}

typedef struct flight {
  const struct location *location;
  event_t *event;
  uint8_t operand[16], compare[16], result[16];
} flight_t;

static void launch(flight_t *flight, int set) {
  const struct location *location = flight->location;
  const event_kind_t kind = flight->event->kind;
  const ucxx_layout_t layout = contiguous(location->type, count_of(location));
  const int64_t disp =
      win_disp(&win, location->target, location->offset + (uint64_t)set * SET_SIZE);
  const int replaces = kind == SWAP || kind == WRITE;
  int32_t op = kind == READ ? UCXX_REDUCE_NO_OP : replaces ? UCXX_REDUCE_REPLACE : UCXX_REDUCE_SUM;
  encode(location, flight->event->operand, flight->operand);
  encode(location, flight->event->compare, flight->compare);
  ucxx_status_t status;
  if (kind == COMPARE_AND_SWAP)
    status = ucxx_window_compare_and_swap(win.window, flight->operand, flight->compare,
                                          flight->result, location->type, location->target, disp);
  else if (kind == ADD || kind == WRITE)
    status = ucxx_window_accumulate(win.window, flight->operand, &layout, location->target, disp,
                                    &layout, op);
  else if (count_of(location) > 1 || kind == READ)
    status = ucxx_window_get_accumulate(win.window, flight->operand, &layout, flight->result,
                                        &layout, location->target, disp, &layout, op);
  else
    status = ucxx_window_fetch_and_op(win.window, flight->operand, flight->result, location->type,
                                      location->target, disp, op);
  CHECK_OK(status);
}

/* Several operations at once, which are ordered within one location, then a flush. Most use one
 * location, so that they conflict. */
static void make_histories(dice_t *dice, int set) {
  flight_t flights[AT_ONCE];
  value_t seen[LOCATIONS] = {{0, 0}};
  uint64_t at_once = 1 + (roll(dice, 2) == 0 ? 0 : roll(dice, AT_ONCE));
  for (int operation = 0; operation < LENGTH;) {
    uint64_t count = 0;
    for (; count < at_once && operation < LENGTH; count++, operation++) {
      int at = roll(dice, 4) == 0 ? (int)roll(dice, LOCATIONS) : set % LOCATIONS;
      history_t *history = &gathered->histories[set][at];
      flight_t *flight = &flights[count];
      flight->location = &locations[at];
      CHECK(history->count[win.rank] < MOST_EVENTS);
      flight->event = &history->events[win.rank][history->count[win.rank]++];
      memset(flight->event, 0, sizeof *flight->event);
      flight->event->kind = (event_kind_t)roll(dice, EVENT_KINDS);
      if (flight->event->kind == COMPARE_AND_SWAP && is_double(flight->location))
        flight->event->kind = READ;
      flight->event->operand.a = roll_between(dice, 1, 9);
      flight->event->compare.a = seen[at].a;
      if (is_double(flight->location)) flight->event->operand.b = -flight->event->operand.a;
      flight->event->begin = clock_ns();
      launch(flight, set);
    }
    if (at_once == 1)
      CHECK_OK(ucxx_window_flush(win.window, flights[0].location->target));
    else
      CHECK_OK(ucxx_window_flush_all(win.window));
    uint64_t end = clock_ns();
    for (uint64_t at = 0; at < count; at++) {
      event_t *event = flights[at].event;
      event->end = end;
      if (event->kind != ADD && event->kind != WRITE) {
        event->result = decode(flights[at].location, flights[at].result);
        seen[flights[at].location - locations] = event->result;
      }
    }
  }
}

/* ------------------------------------------------------------------ all together */

/* The final contents count as one more read, by one more process. */
static void add_last_read(int set, int at) {
  history_t *history = &gathered->histories[set][at];
  value_t last = decode(&locations[at], win.base + set * SET_SIZE + locations[at].offset);
  history->count[MEMBERS] = 1;
  history->events[MEMBERS][0] =
      (event_t){.kind = READ, .begin = UINT64_MAX, .end = UINT64_MAX, .result = last};
}

static void show(const history_t *history) {
  for (int process = 0; process < MOST_PROCESSES; process++) {
    for (uint32_t at = 0; at < history->count[process]; at++) {
      const event_t *event = &history->events[process][at];
      fprintf(stderr,
              "process %d: kind %d, %lld %lld, compare %lld: found %lld %lld, from %llu to %llu\n",
              process, (int)event->kind, (long long)event->operand.a, (long long)event->operand.b,
              (long long)event->compare.a, (long long)event->result.a, (long long)event->result.b,
              (unsigned long long)event->begin, (unsigned long long)event->end);
    }
  }
}

/* All at once, as far as there are processors. */
static void begin_together(uint64_t number) {
  __atomic_add_fetch(&gathered->come, 1, __ATOMIC_SEQ_CST);
  for (int spin = 0; look(&gathered->come) < number * MEMBERS; spin++) {
    if (spin >= SPINS) sched_yield();
  }
}

static void check_histories(int round) {
  for (int set = 0; set < SETS; set++) {
    for (int at = 0; at < LOCATIONS; at++) {
      history_t *history = &gathered->histories[set][at];
      if (locations[at].target != win.rank) continue;
      add_last_read(set, at);
      if (!is_linearisable(history)) {
        show(history);
        FAIL("round %d, set %d: the history of location %d is not linearizable", round, set, at);
      }
      /* The same history with another final value must be refused. */
      history->events[MEMBERS][0].result.a += 1000000;
      CHECK(!is_linearisable(history));
    }
  }
}

static void histories(member_t *member) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  dice_t dice = {test_mix(member->board->seed + member->rank)};
  uint64_t number = 0;
  params.accumulate_granularity = with_granularity ? 16 : 0;
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, flavor, SETS * SET_SIZE, 4, &params);
  for (int round = 0; round < (int)test_rounds(ROUNDS); round++) {
    STEP("round %d", round);
    memset(win.base, 0, win.size[win.rank]);
    for (int set = 0; set < SETS; set++) {
      for (int at = 0; at < LOCATIONS; at++)
        gathered->histories[set][at].count[win.rank] = gathered->histories[set][at].count[MEMBERS] =
            0;
    }
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    CHECK_OK(ucxx_window_sync(win.window));
    CHECK_OK(ucxx_group_barrier(member->group));
    for (int set = 0; set < SETS; set++) {
      begin_together(++number);
      make_histories(&dice, set);
    }
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_group_barrier(member->group));
    check_histories(round);
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  win_close(&win);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  for (with_granularity = 0; with_granularity < 2; with_granularity++) {
    STEP("%s, with%s granularity", mode, with_granularity ? "" : "out");
    gathered = shared_open(sizeof *gathered);
    run_members(MEMBERS, test_seed(), histories);
    munmap(gathered, sizeof *gathered);
  }
}

int main(int argc, char **argv) {
  test_begin("window_linearizability");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  STEP("a test of the check");
  check_the_check();
  in_every_mode(round_in);
  return 0;
}
