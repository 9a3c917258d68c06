/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Collectives that cannot succeed: a member is killed, leaves early, calls another collective, or
 * never calls. All other members get an error that names its rank; none hangs.
 */
#include "group.h"

static const ucxx_worker_params_t *worker_params;
static const uint32_t victim = 2;

/* The other members get this status from now on, with that word in the message. */
static void check_ended(const member_t *member, ucxx_status_t status, ucxx_status_t expected,
                        const char *word) {
  char byte = 0, *bytes = test_alloc(member->size);
  CHECK_STATUS(status, expected);
  CHECK_MESSAGE(word);
  CHECK_STATUS(ucxx_group_barrier(member->group), expected);
  CHECK_MESSAGE(word);
  CHECK_STATUS(ucxx_group_broadcast(member->group, &byte, 1, 0), expected);
  CHECK_STATUS(ucxx_group_allgather(member->group, &byte, 1, bytes), expected);
  free(bytes);
}

static ucxx_status_t barriers_until_error(const member_t *member) {
  for (;;) {
    ucxx_status_t status = ucxx_group_barrier(member->group);
    if (status != UCXX_OK) return status;
    __atomic_add_fetch(&member->board->count[0], 1, __ATOMIC_SEQ_CST);
  }
}

static uint32_t list_others(const member_t *member, uint32_t *others) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < member->size; rank++) {
    if (rank != victim) others[count++] = rank;
  }
  return count;
}

/* A subset of all members but the victim. */
static ucxx_group_t *make_rest(const member_t *member) {
  uint32_t others[MOST_MEMBERS];
  ucxx_group_t *rest = NULL;
  if (member->rank != victim)
    CHECK_OK(ucxx_group_subset(member->group, others, list_others(member, others), &rest));
  return rest;
}

/* The failure of another group has cut no connection that this one needs. */
static void goes_on(ucxx_group_t *group, char *data, size_t length) {
  for (uint32_t root = 0; root < ucxx_group_size(group); root++) {
    CHECK_OK(ucxx_group_barrier(group));
    CHECK_OK(ucxx_group_broadcast(group, data, length, root));
  }
  CHECK_OK(ucxx_group_barrier(group));
}

/* Killed while all members call barrier after barrier. A subset without the victim keeps
 * working. */
static void killed_in_barriers(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  ucxx_group_t *rest = make_rest(member);
  check_ended(member, barriers_until_error(member), UCXX_ERR_PEER_FAILED, "rank 2");
  for (int round = 0; round < 10; round++) CHECK_OK(ucxx_group_barrier(rest));
  STEP("and new subsets without it can be made");
  ucxx_group_t *again = make_rest(member);
  CHECK_OK(ucxx_group_barrier(again));
  ucxx_group_destroy(again);
  CHECK_OK(ucxx_group_barrier(rest));
  ucxx_group_destroy(rest);
  member_close(member);
}

/* Killed while large data is passed from member to member. The connections between the others stay
 * open. */
static void killed_in_broadcasts(member_t *member) {
  const size_t length = (size_t)24 << 20;
  char *data = test_alloc(length);
  memset(data, 1, length);
  member_open(member, worker_params);
  member_join(member, 0);
  ucxx_group_t *rest = make_rest(member);
  ucxx_status_t status = UCXX_OK;
  for (uint32_t root = 0; status == UCXX_OK; root = (root + 1) % member->size) {
    status = ucxx_group_broadcast(member->group, data, length, root);
    __atomic_add_fetch(&member->board->count[0], 1, __ATOMIC_SEQ_CST);
  }
  check_ended(member, status, UCXX_ERR_PEER_FAILED, "rank 2");
  goes_on(rest, data, length);
  ucxx_group_destroy(rest);
  free(data);
  member_close(member);
}

static void killed_in_allgathers(member_t *member) {
  const size_t length = (size_t)1 << 20;
  char *data = test_alloc(length * member->size);
  memset(data, 1, length * member->size);
  member_open(member, worker_params);
  member_join(member, 0);
  ucxx_group_t *rest = make_rest(member);
  ucxx_status_t status = UCXX_OK;
  while (status == UCXX_OK) {
    status = ucxx_group_allgather(member->group, NULL, length, data);
    __atomic_add_fetch(&member->board->count[0], 1, __ATOMIC_SEQ_CST);
  }
  check_ended(member, status, UCXX_ERR_PEER_FAILED, "rank 2");
  goes_on(rest, data, length);
  ucxx_group_destroy(rest);
  free(data);
  member_close(member);
}

static void run_and_kill(uint32_t size, uint64_t seed, uint64_t after,
                         void (*body)(member_t *member)) {
  board_t *board = board_open(size, seed);
  pid_t pids[MOST_MEMBERS];
  members_start(board, pids, body);
  await_mark(&board->count[0], after);
  kill_in_a_call(pids[victim]);
  members_end(board, pids, (int)victim);
  board_close(board);
}

/* Killed before any member has connected to it. */
static void killed_before(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  if (member->rank == victim) {
    mark(&member->board->count[0], 1);
    for (;;) pause();
  }
  check_ended(member, barriers_until_error(member), UCXX_ERR_PEER_FAILED, "rank 2");
  member_close(member);
}

/* The same, and the others' first call creates a subset with the victim, where it has another rank:
 * the message names its rank in the original group. */
static void killed_before_subset(member_t *member) {
  uint32_t turned[MOST_MEMBERS];
  ucxx_group_t *subset = NULL;
  member_open(member, worker_params);
  member_join(member, 0);
  for (uint32_t rank = 0; rank < member->size; rank++) turned[rank] = (rank + 1) % member->size;
  if (member->rank == victim) {
    mark(&member->board->count[0], 1);
    for (;;) pause();
  }
  CHECK_STATUS(ucxx_group_subset(member->group, turned, member->size, &subset),
               UCXX_ERR_PEER_FAILED);
  CHECK_MESSAGE("group: rank 2 (");
  CHECK(subset == NULL);
  member_close(member);
}

static void leaves_early(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank != victim)
    check_ended(member, ucxx_group_barrier(member->group), UCXX_ERR_PEER_FAILED, "rank 2");
  member_close(member);
}

/* A member leaves a subset; the original group keeps working. */
static void leaves_subset(member_t *member) {
  uint32_t all[MOST_MEMBERS];
  ucxx_group_t *subset = NULL;
  for (uint32_t rank = 0; rank < member->size; rank++) all[rank] = member->size - 1 - rank;
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_OK(ucxx_group_subset(member->group, all, member->size, &subset));
  CHECK_OK(ucxx_group_barrier(subset));
  if (member->rank != victim) {
    CHECK_STATUS(ucxx_group_barrier(subset), UCXX_ERR_PEER_FAILED);
    CHECK_MESSAGE("rank ");
  }
  ucxx_group_destroy(subset);
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

static void calls_something_else(member_t *member) {
  char in[16] = {0}, *out = test_alloc(sizeof in * member->size);
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  ucxx_status_t status = member->rank == victim
                             ? ucxx_group_allgather(member->group, in, sizeof in, out)
                             : ucxx_group_barrier(member->group);
  CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("rank ");
  CHECK_STATUS(ucxx_group_barrier(member->group), UCXX_ERR_INVALID_PARAM);
  free(out);
  member_close(member);
}

static void other_length(member_t *member) {
  size_t length = member->rank == victim ? 100 : 50;
  char *in = test_alloc(100), *out = test_alloc(100 * member->size);
  memset(in, 0, 100);
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_STATUS(ucxx_group_allgather(member->group, in, length, out), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("rank ");
  free(in);
  free(out);
  member_close(member);
}

/* With large data, in a subset where some never enter the collective: what was sent is dropped at
 * its receiver, and the connections still serve the group. */
static void other_large_length(member_t *member) {
  const size_t length = (size_t)8 << 20;
  char *data = test_alloc(length);
  uint32_t all[MOST_MEMBERS];
  ucxx_group_t *subset = NULL;
  for (uint32_t rank = 0; rank < member->size; rank++) all[rank] = rank;
  memset(data, 1, length);
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_OK(ucxx_group_subset(member->group, all, member->size, &subset));
  if (member->rank != 0 && member->rank != victim) {
    /* Not before the root has returned. */
    await_mark(&member->board->count[0], 1);
  }
  ucxx_status_t status =
      ucxx_group_broadcast(subset, data, member->rank == victim ? length - 1 : length, 0);
  /* A root may return before the others have entered, even if they never will; then its next
   * collective fails. */
  if (member->rank == 0 && status == UCXX_OK) status = ucxx_group_barrier(subset);
  CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
  memset(data, 2, length);
  if (member->rank == 0) mark(&member->board->count[0], 1);
  ucxx_group_destroy(subset);
  goes_on(member->group, data, length);
  free(data);
  member_close(member);
}

static void does_not_come(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 300 * MILLISECOND);
  if (member->rank == victim) {
    /* Not before the others have given up. */
    await_mark(&member->board->count[0], member->size - 1);
  }
  ucxx_status_t status = ucxx_group_barrier(member->group);
  __atomic_add_fetch(&member->board->count[0], 1, __ATOMIC_SEQ_CST);
  check_ended(member, status, UCXX_ERR_TIMED_OUT, "rank ");
  member_close(member);
}

/* Large data is sent and nobody receives it: after the call the buffer belongs to the caller
 * again. */
static void nobody_takes_it(member_t *member) {
  const size_t length = (size_t)8 << 20;
  char *data = test_alloc(length);
  memset(data, 1, length);
  member_open(member, worker_params);
  member_join(member, 3000 * MILLISECOND);
  CHECK_OK(ucxx_group_barrier(member->group));
  if (member->rank == 0) {
    check_ended(member, ucxx_group_broadcast(member->group, data, length, 0), UCXX_ERR_TIMED_OUT,
                "rank ");
    mark(&member->board->count[0], 1);
  } else {
    await_mark(&member->board->count[0], 1);
    ucxx_status_t status = ucxx_group_broadcast(member->group, data, length, 0);
    CHECK_STATUS(status, UCXX_ERR_TIMED_OUT);
  }
  memset(data, 2, length);
  free(data);
  member_close(member);
}

/* Some create a subset that the others do not create. */
static void other_subset(member_t *member) {
  uint32_t mine[2] = {0, 1}, theirs[2] = {1, 0};
  ucxx_group_t *subset = NULL;
  member_open(member, worker_params);
  member_join(member, 3000 * MILLISECOND);
  CHECK_STATUS(ucxx_group_subset(member->group, member->rank == 0 ? mine : theirs, 2, &subset),
               UCXX_ERR_TIMED_OUT);
  CHECK_MESSAGE("subset");
  CHECK(subset == NULL);
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

/* With UCX 1.13 over TCP a death during connection setup, or with large data in flight, can end
 * other processes: see docs/known-issues.md. */
static int ucx_copes_with_deaths(void) {
  const char *transports = getenv("UCX_TLS");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  return version.ucx_major > 1 || version.ucx_minor >= 16 || transports == NULL ||
         strncmp(transports, "tcp", 3) != 0;
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  uint64_t seed = test_seed();
  worker_params = params;
  STEP("%s: killed in barriers", mode);
  run_and_kill(8, seed, 40 + test_mix(seed) % 400, killed_in_barriers);
  if (ucx_copes_with_deaths()) {
    STEP("%s: killed before any member has connected", mode);
    run_and_kill(5, seed, 1, killed_before);
    STEP("%s: killed before a subset is made with it", mode);
    run_and_kill(5, seed, 1, killed_before_subset);
    STEP("%s: killed in broadcasts", mode);
    run_and_kill(4, seed, 6 + test_mix(seed + 1) % 20, killed_in_broadcasts);
    STEP("%s: killed in allgathers", mode);
    run_and_kill(4, seed, 6 + test_mix(seed + 2) % 20, killed_in_allgathers);
  } else {
    printf("%s: skipped with this UCX over TCP: killed while others connect, or with large data "
           "in flight\n",
           mode);
  }
  STEP("%s: leaves early", mode);
  run_members(6, seed, leaves_early);
  STEP("%s: leaves a subset", mode);
  run_members(4, seed, leaves_subset);
  STEP("%s: calls something else", mode);
  run_members(6, seed, calls_something_else);
  STEP("%s: gives another length", mode);
  run_members(3, seed, other_length);
  STEP("%s: gives another length with large data in flight", mode);
  run_members(4, seed, other_large_length);
  STEP("%s: never calls", mode);
  run_members(5, seed, does_not_come);
  STEP("%s: nobody receives what is sent", mode);
  run_members(2, seed, nobody_takes_it);
  STEP("%s: another subset", mode);
  run_members(2, seed, other_subset);
}

int main(void) {
  test_begin("group_death");
  in_every_mode(round_in);
  return 0;
}
