/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Groups from a member's view: collectives of all sizes, subsets, endpoints, the list of members on
 * this host, and leaving right after a barrier.
 */
#include "group.h"

static const ucxx_worker_params_t *worker_params;

static void check_barrier(const member_t *member, ucxx_group_t *group, uint64_t *count) {
  /* A member that leaves the barrier sees that all others have entered it. */
  uint64_t before = __atomic_load_n(count, __ATOMIC_SEQ_CST);
  (void)before;
  for (uint64_t round = 1; round <= 20; round++) {
    uint64_t mine = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    CHECK(mine <= round * ucxx_group_size(group));
    CHECK_OK(ucxx_group_barrier(group));
    CHECK(__atomic_load_n(count, __ATOMIC_SEQ_CST) >= round * ucxx_group_size(group));
    /* A second barrier, so that no member counts for the next round before all have checked. */
    CHECK_OK(ucxx_group_barrier(group));
  }
  (void)member;
}

static void check_allgather(const member_t *member, ucxx_group_t *group, size_t length,
                            int in_place) {
  uint32_t size = ucxx_group_size(group), rank = ucxx_group_rank(group);
  char *out = test_alloc(length * size + 1), *mine = test_alloc(length);
  memset(out, 0x55, length * size + 1);
  char *in = in_place ? out + rank * length : mine;
  test_fill(in, length, member->board->seed + length + rank);
  CHECK_OK(ucxx_group_allgather(group, in_place ? NULL : in, length, out));
  for (uint32_t other = 0; other < size; other++)
    CHECK_CONTENT(out + other * length, length, member->board->seed + length + other);
  CHECK_EQ(out[length * size], 0x55);
  free(out);
  free(mine);
}

static void check_broadcast(const member_t *member, ucxx_group_t *group, size_t length,
                            uint32_t root) {
  char *data = test_alloc(length + 1);
  memset(data, 0x33, length + 1);
  if (ucxx_group_rank(group) == root)
    test_fill(data, length, member->board->seed + length * 7 + root);
  CHECK_OK(ucxx_group_broadcast(group, data, length, root));
  CHECK_CONTENT(data, length, member->board->seed + length * 7 + root);
  CHECK_EQ(data[length], 0x33);
  free(data);
}

static const size_t sizes[] = {0, 1, 8, 1000, 8192, 100003, (size_t)3 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_collectives(const member_t *member, ucxx_group_t *group) {
  for (int i = 0; i < SIZES; i++) {
    check_allgather(member, group, sizes[i], 0);
    check_allgather(member, group, sizes[i], 1);
    for (uint32_t root = 0; root < ucxx_group_size(group); root++)
      check_broadcast(member, group, sizes[i], root);
  }
}

static void collectives(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  STEP("barrier");
  check_barrier(member, member->group, &member->board->count[0]);
  STEP("allgather and broadcast");
  check_collectives(member, member->group);
  for (uint32_t rank = 0; rank < member->size; rank++)
    CHECK_EQ(ucxx_group_same_host(member->group, rank), 1);
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

/* The root runs ahead of the others as far as it can. */
static void ahead(member_t *member) {
  enum { ROUNDS = 3000, LENGTH = 5000 };
  char *data = test_alloc(LENGTH);
  member_open(member, worker_params);
  member_join(member, 0);
  for (uint64_t round = 0; round < test_rounds(ROUNDS); round++) {
    if (member->rank == 1) test_fill(data, LENGTH, round);
    CHECK_OK(ucxx_group_broadcast(member->group, data, round % 3 ? LENGTH : 0, 1));
    if (round % 3) CHECK_CONTENT(data, LENGTH, round);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  free(data);
  member_close(member);
}

/* The same in many groups, with more messages than a connection has credit for, of lengths that no
 * root waits for. Meanwhile another group completes a collective on the same connections. */
static void ahead_in_many(member_t *member) {
  enum { GROUPS = 8, ROUNDS = 2, LONG = 4000 };
  static const struct {
    unsigned broadcasts;
    size_t length;
  } rounds[ROUNDS] = {{60, 8}, {60, LONG}};
  ucxx_group_t *groups[GROUPS];
  char *data = test_alloc(LONG);
  member_open(member, worker_params);
  member_join(member, 0);
  uint32_t all[MOST_MEMBERS];
  for (uint32_t rank = 0; rank < member->size; rank++) all[rank] = rank;
  for (unsigned i = 0; i < GROUPS; i++)
    CHECK_OK(ucxx_group_subset(member->group, all, member->size, &groups[i]));
  for (unsigned round = 0; round < ROUNDS; round++) {
    if (member->rank != 0) CHECK_OK(ucxx_group_barrier(member->group));
    for (unsigned i = 0; i < GROUPS; i++) {
      for (unsigned n = 0; n < rounds[round].broadcasts; n++) {
        uint64_t seed = member->board->seed + n * GROUPS + i;
        if (member->rank == 0) test_fill(data, rounds[round].length, seed);
        CHECK_OK(ucxx_group_broadcast(groups[i], data, rounds[round].length, 0));
        CHECK_CONTENT(data, rounds[round].length, seed);
      }
    }
    if (member->rank == 0) CHECK_OK(ucxx_group_barrier(member->group));
    for (unsigned i = 0; i < GROUPS; i++) CHECK_OK(ucxx_group_barrier(groups[i]));
  }
  for (unsigned i = 0; i < GROUPS; i++) ucxx_group_destroy(groups[i]);
  free(data);
  member_close(member);
}

static void subsets(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  uint32_t half[MOST_MEMBERS], count = 0;
  /* Even and odd ranks at the same time, in reverse order. */
  for (uint32_t rank = member->size; rank-- > 0;) {
    if (rank % 2 == member->rank % 2) half[count++] = rank;
  }
  ucxx_group_t *group = NULL, *again = NULL, *nested = NULL;
  CHECK_OK(ucxx_group_subset(member->group, half, count, &group));
  CHECK_EQ(ucxx_group_size(group), count);
  CHECK_EQ(half[ucxx_group_rank(group)], member->rank);
  check_barrier(member, group, &member->board->count[member->rank % 2]);
  check_collectives(member, group);
  STEP("the same list again is another group");
  CHECK_OK(ucxx_group_subset(member->group, half, count, &again));
  CHECK_OK(ucxx_group_barrier(again));
  CHECK_OK(ucxx_group_barrier(group));
  STEP("subsets of a subset, of one member each");
  uint32_t mine = ucxx_group_rank(group);
  CHECK_OK(ucxx_group_subset(group, &mine, 1, &nested));
  CHECK_EQ(ucxx_group_size(nested), 1);
  check_collectives(member, nested);
  STEP("the endpoints are the same in all of them");
  ucxx_endpoint_t *first = NULL, *second = NULL;
  CHECK_OK(ucxx_group_endpoint(member->group, half[0], &first));
  CHECK_OK(ucxx_group_endpoint(group, 0, &second));
  CHECK(first == second);
  CHECK_OK(ucxx_group_barrier(member->group));
  STEP("a subset outlives its group");
  ucxx_group_destroy(member->group);
  ucxx_group_destroy(nested);
  ucxx_group_destroy(again);
  check_collectives(member, group);
  CHECK_OK(ucxx_group_barrier(group));
  member->group = group;
  member_close(member);
}

/* Messages on the group's endpoints, around the ring and to the member itself, before and after a
 * collective. */
static void endpoints(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  for (uint32_t distance = 0; distance < member->size; distance++) {
    uint32_t to = (member->rank + distance) % member->size;
    uint64_t out = member->rank + 100, in = 0;
    ucxx_endpoint_t *endpoint = NULL, *same = NULL;
    ucxx_request_t *sending = NULL, *receiving = NULL;
    CHECK_OK(ucxx_group_endpoint(member->group, to, &endpoint));
    CHECK_OK(ucxx_group_endpoint(member->group, to, &same));
    CHECK(endpoint == same);
    ucxx_status_t received =
        ucxx_tag_recv(member->worker, &in, sizeof in, distance, UINT64_MAX, NULL, &receiving);
    ucxx_status_t sent = ucxx_tag_send(endpoint, &out, sizeof out, distance, NULL, &sending);
    CHECK_OK(finish(received, &receiving));
    CHECK_OK(finish(sent, &sending));
    CHECK_EQ(in, (member->rank + member->size - distance) % member->size + 100);
    check_broadcast(member, member->group, 64, distance);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

/* A worker makes progress while its member waits in a collective: another member needs its message
 * before it can enter. */
static void progress_meanwhile(member_t *member) {
  enum { LENGTH = 4 << 20 };
  char *data = test_alloc(LENGTH);
  member_open(member, worker_params);
  member_join(member, 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  ucxx_request_t *request = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  uint32_t last = member->size - 1;
  if (member->rank == 0) {
    test_fill(data, LENGTH, 3);
    CHECK_OK(ucxx_group_endpoint(member->group, last, &endpoint));
    ucxx_status_t sent = ucxx_tag_send(endpoint, data, LENGTH, 1, NULL, &request);
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(finish(sent, &request));
  } else {
    if (member->rank == last) {
      CHECK_OK(finish(ucxx_tag_recv(member->worker, data, LENGTH, 1, UINT64_MAX, NULL, &request),
                      &request));
      CHECK_CONTENT(data, LENGTH, 3);
    }
    CHECK_OK(ucxx_group_barrier(member->group));
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  free(data);
  member_close(member);
}

static void *barriers(void *arg) {
  for (int round = 0; round < 10; round++) CHECK_OK(ucxx_group_barrier(arg));
  return NULL;
}

/* Two threads, each with its own group, use members for the first time at once. */
static void two_threads(member_t *member) {
  uint32_t turned[MOST_MEMBERS];
  if (worker_params->thread_mode != UCXX_THREAD_MULTI) return;
  for (uint32_t rank = 0; rank < member->size; rank++) turned[rank] = (rank + 1) % member->size;
  member_open(member, worker_params);
  for (int round = 0; round < 15; round++) {
    pthread_t thread;
    ucxx_group_t *subset = NULL;
    member_join(member, 0);
    CHECK_EQ(pthread_create(&thread, NULL, barriers, member->group), 0);
    CHECK_OK(ucxx_group_subset(member->group, turned, member->size, &subset));
    barriers(subset);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(ucxx_group_barrier(member->group));
    ucxx_group_destroy(subset);
    ucxx_group_destroy(member->group);
  }
  member->group = NULL;
  member_close(member);
}

/* Groups are created and destroyed; each time members leave right after a barrier, and some
 * processes exit at once. */
static void come_and_go(member_t *member) {
  member_open(member, worker_params);
  for (int round = 0; round < 5; round++) {
    member_join(member, 0);
    CHECK_OK(ucxx_group_barrier(member->group));
    CHECK_OK(ucxx_group_barrier(member->group));
    ucxx_group_destroy(member->group);
  }
  member_join(member, 0);
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

static void bad_arguments(member_t *member) {
  member_open(member, worker_params);
  /* A callback that fails makes the group fail. */
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  ucxx_group_t *group = NULL;
  params.size = 0;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &group), UCXX_ERR_INVALID_PARAM);
  params = by_callbacks(member);
  params.rank = params.size;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("rank");
  params = by_callbacks(member);
  params.allgather = NULL;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("allgather");
  params = by_callbacks(member);
  params.bootstrap = 17;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("bootstrap");
  CHECK(group == NULL);
  member_join(member, 0);
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_STATUS(ucxx_group_endpoint(member->group, member->size, &endpoint), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("rank");
  CHECK_STATUS(ucxx_group_same_host(member->group, member->size), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_broadcast(member->group, &params, 1, member->size),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("root");
  CHECK_STATUS(ucxx_group_broadcast(member->group, NULL, 1, 0), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_allgather(member->group, &params, 1, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_allgather(member->group, &params, SIZE_MAX / 2, &params),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_barrier(NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_set_liveness(NULL, 1), UCXX_ERR_INVALID_PARAM);
  uint32_t twice[] = {member->rank, member->rank}, others = (member->rank + 1) % member->size,
           beyond = member->size;
  CHECK_STATUS(ucxx_group_subset(member->group, twice, 2, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_subset(member->group, &others, 1, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_subset(member->group, &beyond, 1, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_subset(member->group, NULL, 1, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_group_subset(member->group, twice, 0, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_EQ(ucxx_group_size(NULL), 0);
  CHECK_EQ(ucxx_group_rank(NULL), 0);
  ucxx_group_destroy(NULL);
  /* None of this disturbed the group. */
  CHECK_OK(ucxx_group_barrier(member->group));
  member_close(member);
}

static void missing_feature(member_t *member) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_AM;
  CHECK_OK(ucxx_context_create(&params, &member->context));
  CHECK_OK(ucxx_worker_create(member->context, NULL, &member->worker));
  ucxx_group_params_t group_params = by_callbacks(member);
  CHECK_STATUS(ucxx_group_create(member->worker, &group_params, &member->group),
               UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("WAKEUP");
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  uint64_t seed = test_seed();
  worker_params = params;
  for (uint32_t size = 1; size <= 8; size += size < 3 ? 1 : size) {
    STEP("%s, %u members", mode, (unsigned)size);
    run_members(size, seed, collectives);
  }
  STEP("%s, subsets", mode);
  run_members(5, seed, subsets);
  STEP("%s, endpoints", mode);
  run_members(3, seed, endpoints);
  STEP("%s, progress meanwhile", mode);
  run_members(4, seed, progress_meanwhile);
  STEP("%s, two threads", mode);
  run_members(3, seed, two_threads);
  STEP("%s, create and destroy", mode);
  run_members(4, seed, come_and_go);
  STEP("%s, a root far ahead", mode);
  run_members(3, seed, ahead);
  STEP("%s, a root ahead in many groups", mode);
  run_members(2, seed, ahead_in_many);
  run_members(5, seed, ahead_in_many);
  STEP("%s, bad arguments", mode);
  run_members(2, seed, bad_arguments);
}

int main(void) {
  test_begin("group");
  in_every_mode(round_in);
  STEP("without the features a group needs");
  run_members(1, 0, missing_feature);
  return 0;
}
