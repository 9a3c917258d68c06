/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Groups of processes: joining one, a subset, and loops of collectives whose contents follow from
 * seed, number and rank. A command waits until its collectives are over. (groups.c is about groups
 * of operations.)
 */
#include "actor.h"

static const char *const names[KINDS_OF_GROUP] = {"whole", "rest"};
static ucxx_group_t *group_of[KINDS_OF_GROUP];
/* Receive buffer of a failed loop: it belongs to the caller again, so nothing may be written
 * there. */
static uint8_t *released[KINDS_OF_GROUP];
static size_t released_length[KINDS_OF_GROUP];

static int kind_of(const command_t *command) {
  const char *name = text_of(command, "which", names[WHOLE]);
  for (int kind = 0; kind < KINDS_OF_GROUP; kind++)
    if (word_is(name, names[kind])) return kind;
  give_up("no such kind of group");
}

ucxx_group_t *process_group(const command_t *command, int *kind) {
  *kind = kind_of(command);
  return group_of[*kind];
}

int blamed_rank(void) {
  const char *found = strstr(ucxx_last_error_message(), "rank ");
  return found != NULL ? atoi(found + strlen("rank ")) : -1;
}

static uint8_t *room(size_t length) {
  uint8_t *data = malloc(length > 0 ? length : 1);
  if (data == NULL) give_up("no memory");
  return data;
}

static void join(const command_t *command) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_TCP;
  params.rank = (uint32_t)number_of(command, "rank", 0);
  params.size = (uint32_t)number_of(command, "size", 0);
  params.root = text_of(command, "root", NULL);
  params.secret = text_of(command, "secret", NULL);
  params.timeout_ns = number_of(command, "patience", 0);
  params.collective_timeout_ns = number_of(command, "timeout", 0);
  ucxx_status_t status = ucxx_group_create(worker, &params, &group_of[WHOLE]);
  if (status == UCXX_OK)
    status = ucxx_group_set_liveness(group_of[WHOLE], number_of(command, "liveness", 0));
  answer(command, status, " ");
}

static void make_rest(const command_t *command) {
  uint32_t ranks[64], count = 0, except = (uint32_t)number_of(command, "except", 0);
  for (uint32_t rank = 0; rank < ucxx_group_size(group_of[WHOLE]); rank++)
    if (rank != except) ranks[count++] = rank;
  answer(command, ucxx_group_subset(group_of[WHOLE], ranks, count, &group_of[REST]), " ");
}

/* ------------------------------------------------------------------ the group's endpoints */

static ucxx_status_t finish(ucxx_status_t status, ucxx_request_t *request) {
  if (status != UCXX_INPROGRESS) return status;
  status = ucxx_request_wait(request, UINT64_MAX);
  ucxx_request_destroy(request);
  return status;
}

/* Sends a message to the next member, and receives one from the previous. */
static void meet(const command_t *command) {
  enum { LENGTH = 30000 };
  const uint64_t tag = UINT64_C(3) << 40;
  ucxx_group_t *group = group_of[WHOLE];
  uint32_t rank = ucxx_group_rank(group), size = ucxx_group_size(group),
           before = (rank + size - 1) % size;
  ucxx_endpoint_t *next = NULL, *previous = NULL;
  ucxx_request_t *sending = NULL, *receiving = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  uint8_t *leaving = room(LENGTH), *coming = room(LENGTH);
  size_t where = 0;
  message_fill(leaving, LENGTH, rank, 0);
  ucxx_status_t status = ucxx_group_endpoint(group, (rank + 1) % size, &next);
  if (status == UCXX_OK) status = ucxx_group_endpoint(group, before, &previous);
  if (status == UCXX_OK) {
    params.source = previous;
    ucxx_status_t received =
        ucxx_tag_recv(worker, coming, LENGTH, tag, UINT64_MAX, &params, &receiving);
    ucxx_status_t sent = ucxx_tag_send(next, leaving, LENGTH, tag, NULL, &sending);
    received = finish(received, receiving);
    sent = finish(sent, sending);
    status = received != UCXX_OK ? received : sent;
    if (status == UCXX_OK &&
        (message_check(coming, LENGTH, &where) != INTACT || !message_is(coming, LENGTH, before, 0)))
      violation("integrity", "what=meeting where=%zu", where);
  }
  free(leaving);
  free(coming);
  answer(command, status, " ");
}

/* ------------------------------------------------------------------ collectives */

static void look(const char *what, const uint8_t *data, size_t length, uint32_t rank,
                 uint64_t number) {
  size_t where = 0;
  if (message_check(data, length, &where) != INTACT && length >= 8)
    violation("integrity", "what=%s number=%" PRIu64 " rank=%u length=%zu where=%zu", what, number,
              rank, length, where);
  else if (!message_is(data, length, rank, number))
    violation("integrity", "what=%s number=%" PRIu64 " rank=%u length=%zu: another one's", what,
              number, rank, length);
}

/* All members call the same collective, derived from seed and number. */
static ucxx_status_t collective(ucxx_group_t *group, uint64_t seed, uint64_t number, size_t largest,
                                uint8_t *data) {
  uint64_t chance = mix(seed ^ mix(number));
  uint32_t rank = ucxx_group_rank(group), size = ucxx_group_size(group),
           root = (uint32_t)(chance >> 40) % size;
  size_t length =
      (chance & 12) == 0 ? (chance >> 8) % (largest + 1) : (chance >> 8) % (largest / 100 + 9);
  ucxx_status_t status;
  if (chance % 4 == 0) return ucxx_group_barrier(group);
  if (chance % 4 == 1) {
    memset(data, SCRIBBLE_RECEIVED, length * size);
    message_fill(data + length * rank, length, rank, number);
    status = ucxx_group_allgather(group, NULL, length, data);
    for (uint32_t other = 0; status == UCXX_OK && other < size; other++)
      look("allgather", data + length * other, length, other, number);
    return status;
  }
  memset(data, SCRIBBLE_RECEIVED, length);
  if (rank == root) message_fill(data, length, rank, number);
  status = ucxx_group_broadcast(group, data, length, root);
  if (status == UCXX_OK) look("broadcast", data, length, root, number);
  return status;
}

static void destroy(int kind) {
  size_t where = 0;
  ucxx_group_destroy(group_of[kind]);
  group_of[kind] = NULL;
  if (released[kind] != NULL &&
      !scribble_stands(released[kind], released_length[kind], SCRIBBLE_RECEIVED, &where))
    violation("integrity", "what=%s where=%zu: written after the collective had failed",
              names[kind], where);
  free(released[kind]);
  released[kind] = NULL;
}

/* Calls so many collectives, or until one fails; reports when, the status, and the blamed rank. */
static void loop(const command_t *command) {
  int kind = kind_of(command);
  ucxx_group_t *group = group_of[kind];
  uint64_t rounds = number_of(command, "rounds", 0), seed = number_of(command, "seed", 0),
           number = 0;
  size_t largest = number_of(command, "largest", 0), length = largest * ucxx_group_size(group);
  uint8_t *data = room(length);
  ucxx_status_t status = UCXX_OK;
  while (number < rounds && (status = collective(group, seed, number, largest, data)) == UCXX_OK)
    number++;
  uint64_t at = now_ns();
  char message[512] = "";
  int blamed = -1;
  if (status != UCXX_OK) {
    snprintf(message, sizeof message, "%s", ucxx_last_error_message());
    blamed = blamed_rank();
    ucxx_status_t again = ucxx_group_barrier(group);
    if (again != status)
      violation("completion", "what=%s status=%s: afterwards a barrier returns another one: %s",
                names[kind], short_name(status), short_name(again));
    memset(data, SCRIBBLE_RECEIVED, length);
    released[kind] = data;
    released_length[kind] = length;
    fprintf(stderr, "collective %" PRIu64 " of the %s: %s: %s\n", number, names[kind],
            short_name(status), message);
  } else {
    free(data);
  }
  if (number_of(command, "leaves", 0)) destroy(kind);
  answer(command, UCXX_OK, "rounds=%" PRIu64 " status=%s blamed=%d at=%" PRIu64, number,
         short_name(status), blamed, at);
}

static void leave(const command_t *command) {
  uint64_t start = now_ns();
  for (int kind = 0; kind < KINDS_OF_GROUP; kind++) destroy(kind);
  answer(command, UCXX_OK, "took=%" PRIu64, now_ns() - start);
}

bool command_process_groups(const command_t *command) {
  if (word_is(command->verb, "join_group")) {
    join(command);
  } else if (word_is(command->verb, "make_rest")) {
    make_rest(command);
  } else if (word_is(command->verb, "meet")) {
    meet(command);
  } else if (word_is(command->verb, "collectives")) {
    loop(command);
  } else if (word_is(command->verb, "leave_group")) {
    leave(command);
  } else {
    return false;
  }
  return true;
}
