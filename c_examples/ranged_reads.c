/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ranged_reads.c: rank 1 has objects in memory, and rank 0 reads ranges of them in four ways: by
 * fetch, by tag messages, by remote get, and by a put of the server. ranged_ways.c has the ways,
 * and docs/object-store.md compares them.
 *
 *     cc -o ranged_reads ranged_reads.c ranged_ways.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./ranged_reads 0|1 SOCKET_PATH
 *     ./ranged_reads 0|1 SOCKET_PATH WAY|all LENGTH READS
 *
 * The first form tries every way, with ranges of many lengths, unknown objects, and ranges beyond
 * the end. Then it measures reads of 4 KiB. In the second form rank 0 prints the median time of
 * READS reads of LENGTH bytes:
 *
 *     ./ranged_reads 0 reads.socket & ./ranged_reads 1 reads.socket; wait
 *     fetch: 38 ranges read, 43 refused
 *
 *     ./ranged_reads 0 reads.socket all 8 1000 & ./ranged_reads 1 reads.socket all 8 1000; wait
 *     fetch                8 bytes:      1.51 us
 *
 * Get and put each have two forms. In the first the program registers memory that it has. In the
 * second ucxx_memory_allocate provides the memory, which other processes of this host can map.
 */
#define _XOPEN_SOURCE 700
#include "ranged_reads.h"

/* The id of an active message: the client is done. */
#define OVER_ID 1

static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static void make_objects(struct side *side) {
  static const size_t lengths[OBJECTS] = {100, 100003, LONGEST + (2u << 20)};
  for (unsigned number = 0; number < OBJECTS; number++) {
    struct object *object = &side->objects[number];
    snprintf(object->name, sizeof object->name, "object-%u", number);
    object->length = lengths[number];
    object->data = zeroed(object->length);
    for (size_t at = 0; at < object->length; at++)
      object->data[at] = (unsigned char)(mix((uint64_t)number << 40 | at / 8) >> at % 8 * 8);
  }
}

static void on_over(void *arg, ucxx_am_message_t *message) {
  struct side *server = arg;
  server->over = true;
  ucxx_am_message_destroy(message);
}

static void meet(struct pair *pair) {
  if (exchange_barrier(&pair->exchange, pair->worker, 5 * PAIR_TIMEOUT_NS) != 0) give_up();
}

/* If the program measures, it polls, because the time to wake up should not be measured.
 * ucxx_worker_wait sleeps when there is nothing to do. */
static void serve(struct side *server, bool polls) {
  void *states[WAYS];
  for (unsigned at = 0; at < WAYS; at++) states[at] = ways[at].serve(server, &ways[at]);
  check(ucxx_worker_set_am_handler(server->pair->worker, OVER_ID, on_over, server, NULL),
        "handler");
  meet(server->pair);
  while (!server->over) {
    ucxx_worker_t *worker = server->pair->worker;
    check(polls ? ucxx_worker_progress(worker, NULL) : ucxx_worker_wait(worker, PAIR_TIMEOUT_NS),
          "waiting for questions");
    /* Without this check the server would wait for a client that has failed. */
    check(ucxx_endpoint_status(server->pair->endpoint), "the client");
  }
  for (unsigned at = 0; at < WAYS; at++)
    if (ways[at].serve_no_more != NULL) ways[at].serve_no_more(states[at]);
}

/* Reads a range, checks every byte, and returns the time of the read. */
static uint64_t read_once(const struct way *way, void *state, const struct object *object,
                          uint64_t offset, size_t length, ucxx_status_t expected,
                          unsigned char *buffer) {
  struct range range = {offset, length, {0}};
  strcpy(range.name, object == NULL ? "object-9" : object->name);
  memset(buffer, UNTOUCHED, length + 1);
  uint64_t start = exchange_now_ns();
  ucxx_status_t status = way->read(state, &range, buffer);
  uint64_t took = exchange_now_ns() - start;
  if (status != expected) {
    fprintf(stderr, "error: %s: %s and not %s\n", way->name, ucxx_error_text(status),
            ucxx_status_name(expected));
    give_up();
  }
  if (status == UCXX_OK)
    require(memcmp(buffer, object->data + offset, length) == 0, "the content is the object's");
  /* All bytes are equal to the one behind them. */
  else
    require(memcmp(buffer, buffer + 1, length) == 0, "nothing came");
  require(buffer[length] == UNTOUCHED, "nothing behind it was touched");
  return took;
}

static void try_one(struct side *client, const struct way *way, void *state,
                    unsigned char *buffer) {
  static const size_t lengths[] = {0, 1, 8, 100, 8191, 65536, 100003, LONGEST};
  unsigned read = 0, refused = 0;
  for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
    for (unsigned number = 0; number < OBJECTS; number++) {
      const struct object *object = &client->objects[number];
      size_t length = lengths[at];
      if (length > object->length) {
        read_once(way, state, object, 0, length, BEYOND_END, buffer);
        refused++;
        continue;
      }
      size_t room = object->length - length;
      read_once(way, state, object, mix(at * OBJECTS + number) % (room + 1), length, UCXX_OK,
                buffer);
      read_once(way, state, object, room, length, UCXX_OK, buffer);
      read_once(way, state, object, room + 1, length, BEYOND_END, buffer);
      read_once(way, state, NULL, 0, length, UCXX_ERR_NO_ELEM, buffer);
      read += 2;
      refused += 2;
    }
  }
  printf("%s: %u ranges read, %u refused\n", way->name, read, refused);
}

static int by_time(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

/* Each way does a few reads in turn, so that other load on the machine affects all ways alike. The
 * first read of a turn does not count: it waits for what the previous turn left at the server. */
#define TURN 10

static void measure(struct side *client, const char *which, size_t length, unsigned reads,
                    void **states, unsigned char **buffers) {
  const struct object *object = &client->objects[OBJECTS - 1];
  uint64_t *times = zeroed(WAYS * reads * sizeof *times);
  for (unsigned done = 0; done < reads; done += TURN) {
    for (unsigned next = 0; next < WAYS; next++) {
      unsigned at = (next + done / TURN) % WAYS; /* another way begins each time */
      if (strcmp(which, "all") != 0 && strcmp(which, ways[at].name) != 0) continue;
      for (unsigned turn = 0; turn <= TURN && done + turn <= reads; turn++) {
        /* Each read uses another place, so that no way finds data in the caches that another way
         * has just read. The place is a multiple of 64, like most fields of records and parts of
         * arrays. */
        uint64_t offset = mix((uint64_t)(done + turn) * WAYS + at) % (object->length - length + 1) &
                          ~UINT64_C(63);
        uint64_t took =
            read_once(&ways[at], states[at], object, offset, length, UCXX_OK, buffers[at]);
        if (turn > 0) times[at * reads + done + turn - 1] = took;
      }
    }
  }
  for (unsigned at = 0; at < WAYS; at++) {
    uint64_t *of_way = times + at * reads;
    qsort(of_way, reads, sizeof *of_way, by_time);
    if (of_way[0] > 0)
      printf("%-13s %8zu bytes: %9.2f us\n", ways[at].name, length,
             (double)of_way[reads / 2] / 1e3);
  }
  free(times);
}

static void read_all(struct side *client, const char *which, size_t length, unsigned reads) {
  unsigned char *own = zeroed(LONGEST + 1), *buffers[WAYS];
  void *states[WAYS];
  meet(client->pair);
  for (unsigned at = 0; at < WAYS; at++) {
    buffers[at] = own;
    states[at] = ways[at].begin(client, &ways[at], &buffers[at]);
    if (which == NULL) try_one(client, &ways[at], states[at], buffers[at]);
  }
  measure(client, which == NULL ? "all" : which, length, reads, states, buffers);
  for (unsigned at = 0; at < WAYS; at++) ways[at].end(states[at]);
  ucxx_request_t *request = NULL;
  check(outcome(ucxx_am_send(client->pair->endpoint, OVER_ID, NULL, 0, NULL, 0, NULL, &request),
                request),
        "the end is told");
  free(own);
}

int main(int argc, char **argv) {
  struct pair pair;
  struct side side = {.pair = &pair};
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  const char *which = argc == 6 ? argv[3] : NULL;
  size_t length = argc == 6 ? strtoul(argv[4], NULL, 10) : 4096;
  unsigned reads = argc == 6 ? (unsigned)strtoul(argv[5], NULL, 10) : 2 * TURN;
  bool known = which == NULL || strcmp(which, "all") == 0;
  for (unsigned at = 0; at < WAYS && !known; at++) known = strcmp(which, ways[at].name) == 0;
  if ((argc != 3 && argc != 6) || !known || length > LONGEST || reads == 0) {
    fprintf(stderr,
            "usage: %s 0|1 SOCKET_PATH [fetch|tag|get|get_allocated|put|put_allocated|all LENGTH "
            "READS]\n",
            argv[0]);
    return 2;
  }
  params.thread_mode = UCXX_THREAD_SINGLE;
  /* Poll for a second before sleeping, because the time to wake up should not be measured. */
  if (which != NULL) params.spin_ns = UINT64_C(1000000000);
  pair_open_for(&pair, 3, argv,
                UCXX_FEATURE_TAG | UCXX_FEATURE_AM | UCXX_FEATURE_RMA | UCXX_FEATURE_WAKEUP,
                &params, NULL);
  make_objects(&side);
  if (pair.rank == 1)
    serve(&side, which != NULL);
  else
    read_all(&side, which, length, reads);
  pair_close(&pair);
  for (unsigned at = 0; at < OBJECTS; at++) free(side.objects[at].data);
  return EXIT_SUCCESS;
}
