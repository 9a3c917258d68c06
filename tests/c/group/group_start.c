/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Bootstrap of groups: by TCP with a secret, by the launchers' environment variables, and with many
 * members. Strangers and wrong secrets disturb nobody; missing members are named.
 */
#include "group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static const char secret[] = "what only the members know";
static char root[64];

static void choose_root(void) { snprintf(root, sizeof root, "127.0.0.1:%d", test_free_port()); }

static ucxx_group_params_t by_tcp(const member_t *member) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_TCP;
  params.rank = member->rank;
  params.size = member->size;
  params.root = root;
  params.secret = secret;
  return params;
}

static void use(const member_t *member, ucxx_group_t *group) {
  uint32_t mine = member->rank, all[MOST_MEMBERS];
  CHECK_EQ(ucxx_group_rank(group), member->rank);
  CHECK_EQ(ucxx_group_size(group), member->size);
  CHECK_OK(ucxx_group_allgather(group, &mine, sizeof mine, all));
  for (uint32_t rank = 0; rank < member->size; rank++) CHECK_EQ(all[rank], rank);
  CHECK_OK(ucxx_group_barrier(group));
}

static void join_by_tcp(member_t *member) {
  member_open(member, NULL);
  ucxx_group_params_t params = by_tcp(member);
  CHECK_OK(ucxx_group_create(member->worker, &params, &member->group));
  use(member, member->group);
  member_close(member);
}

/* A client with another secret, and one that sends nothing, connect before the last member does. */
static void with_strangers(member_t *member) {
  member_open(member, NULL);
  ucxx_group_params_t params = by_tcp(member);
  if (member->rank == 1) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    address.sin_port = htons((uint16_t)atoi(strchr(root, ':') + 1));
    int silent[20];
    for (int i = 0; i < 20; i++) {
      silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      /* Rank 0 may not listen yet. */
      while (connect(silent[i], (struct sockaddr *)&address, sizeof address) != 0) usleep(1000);
    }
    CHECK_EQ(send(silent[0], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    params.secret = "another one";
    CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_REJECTED);
    CHECK_MESSAGE("secret");
    params.secret = secret;
    params.rank = member->size;
    CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group),
                 UCXX_ERR_INVALID_PARAM);
    params.rank = 1;
    CHECK_OK(ucxx_group_create(member->worker, &params, &member->group));
    for (int i = 0; i < 20; i++) close(silent[i]);
  } else {
    CHECK_OK(ucxx_group_create(member->worker, &params, &member->group));
  }
  use(member, member->group);
  member_close(member);
}

static void some_missing(member_t *member) {
  member_open(member, NULL);
  ucxx_group_params_t params = by_tcp(member);
  params.size = 6;
  params.rank = member->rank == 2 ? 4 : member->rank;
  /* Only rank 0 has a limit. The others have connected by then, and it tells them. */
  if (params.rank == 0) params.timeout_ns = 3 * SECOND;
  pthread_barrier_wait(&member->board->all);
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_TIMED_OUT);
  CHECK_MESSAGE("not connected: rank 2, 3, 5");
  CHECK(member->group == NULL);
  member_close(member);
}

static void without_root(member_t *member) {
  member_open(member, NULL);
  ucxx_group_params_t params = by_tcp(member);
  params.rank = 1;
  params.size = 2;
  params.timeout_ns = 200 * MILLISECOND;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_TIMED_OUT);
  CHECK_MESSAGE("127.0.0.1");
  params.root = NULL;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("root");
  params.root = "192.0.2.1:4711";
  params.secret = NULL;
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("secret");
  member_close(member);
}

static const char *const launchers[][2] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };
static int launcher;

static void by_environment(member_t *member) {
  char rank[16], size[16];
  for (int i = 0; i < LAUNCHERS; i++) {
    unsetenv(launchers[i][0]);
    unsetenv(launchers[i][1]);
  }
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  member_open(member, NULL);
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("RANK");
  snprintf(rank, sizeof rank, "%u", (unsigned)member->rank);
  snprintf(size, sizeof size, "%u", (unsigned)member->size);
  setenv(launchers[launcher][0], rank, 1);
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_INVALID_PARAM);
  setenv(launchers[launcher][1], size, 1);
  unsetenv("MASTER_ADDR");
  CHECK_STATUS(ucxx_group_create(member->worker, &params, &member->group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("MASTER_ADDR");
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", strchr(root, ':') + 1, 1);
  setenv("UCXX_RS_GROUP_SECRET", secret, 1);
  CHECK_OK(ucxx_group_create(member->worker, &params, &member->group));
  use(member, member->group);
  member_close(member);
}

static void start(uint32_t size, void (*body)(member_t *member)) {
  choose_root();
  run_members(size, 0, body);
}

int main(void) {
  test_begin("group_start");
  STEP("by TCP");
  start(1, join_by_tcp);
  start(4, join_by_tcp);
  STEP("strangers");
  start(4, with_strangers);
  STEP("some are missing");
  start(3, some_missing);
  STEP("nobody listens");
  start(1, without_root);
  for (launcher = 0; launcher < LAUNCHERS; launcher++) {
    STEP("environment of %s", launchers[launcher][0]);
    start(3, by_environment);
  }
  STEP("sixty-four");
  start(64, join_by_tcp);
  return 0;
}
