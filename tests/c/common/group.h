/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Processes that form a group. A launcher, which never uses UCX, forks them and checks how they
 * exit. They bootstrap through callbacks on memory shared with the launcher.
 */
#ifndef UCXX_RS_TEST_GROUP_H
#define UCXX_RS_TEST_GROUP_H
#include "test_util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_MEMBERS = 64, MOST_SHARED = 1 << 16 };

/* Shared by the launcher and the members. */
typedef struct board {
  pthread_barrier_t all; /* of the members */
  uint32_t size;
  uint64_t seed;
  uint64_t count[8]; /* for the tests */
  unsigned char cards[MOST_MEMBERS][MOST_SHARED];
} board_t;

/* Counts of the board, between processes. */
static inline void mark(uint64_t *place, uint64_t value) {
  __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t look(const uint64_t *place) {
  return __atomic_load_n(place, __ATOMIC_SEQ_CST);
}

static inline void await_mark(const uint64_t *place, uint64_t value) {
  for (int turn = 0; look(place) < value; turn++) {
    if (turn < 100)
      sched_yield();
    else
      usleep(200);
  }
}

typedef struct member {
  board_t *board;
  uint32_t rank, size;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
} member_t;

static ucxx_status_t gather_on_board(void *arg, const void *in, size_t length, void *out) {
  member_t *member = arg;
  if (length > MOST_SHARED) return UCXX_ERR_EXCEEDS_LIMIT;
  memcpy(member->board->cards[member->rank], in, length);
  pthread_barrier_wait(&member->board->all);
  for (uint32_t rank = 0; rank < member->size; rank++)
    memcpy((char *)out + rank * length, member->board->cards[rank], length);
  pthread_barrier_wait(&member->board->all);
  return UCXX_OK;
}

/* Enables RMA. */
static inline void member_open_for_rma(member_t *member,
                                       const ucxx_worker_params_t *worker_params) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP | UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC;
  CHECK_OK(ucxx_context_create(&params, &member->context));
  CHECK_OK(ucxx_worker_create(member->context, worker_params, &member->worker));
}

static inline void member_open(member_t *member, const ucxx_worker_params_t *worker_params) {
  if (getenv("UCXX_TEST_WIN_MEMORY") != NULL) {
    member_open_for_rma(member, worker_params);
    return;
  }
  CHECK_OK(ucxx_context_create(NULL, &member->context));
  CHECK_OK(ucxx_worker_create(member->context, worker_params, &member->worker));
}

static inline ucxx_group_params_t by_callbacks(member_t *member) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_CALLBACKS;
  params.rank = member->rank;
  params.size = member->size;
  params.allgather = gather_on_board;
  params.allgather_arg = member;
  return params;
}

static inline void member_join(member_t *member, uint64_t collective_timeout_ns) {
  ucxx_group_params_t params = by_callbacks(member);
  params.collective_timeout_ns = collective_timeout_ns;
  CHECK_OK(ucxx_group_create(member->worker, &params, &member->group));
  CHECK_EQ(ucxx_group_rank(member->group), member->rank);
  CHECK_EQ(ucxx_group_size(member->group), member->size);
}

static inline void member_close(member_t *member) {
  ucxx_group_destroy(member->group);
  ucxx_worker_destroy(member->worker);
  ucxx_context_destroy(member->context);
}

static inline board_t *board_open(uint32_t size, uint64_t seed) {
  board_t *board =
      mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(board != MAP_FAILED);
  pthread_barrierattr_t attr;
  CHECK_EQ(pthread_barrierattr_init(&attr), 0);
  CHECK_EQ(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
  CHECK_EQ(pthread_barrier_init(&board->all, &attr, size), 0);
  board->size = size;
  board->seed = seed;
  return board;
}

static inline void board_close(board_t *board) { munmap(board, sizeof *board); }

/* With UCXX_TEST_HOSTS=N the members pretend to be on N hosts, round robin. */
static inline uint32_t test_hosts(void) {
  const char *hosts = getenv("UCXX_TEST_HOSTS");
  return hosts == NULL ? 1 : (uint32_t)strtoul(hosts, NULL, 10);
}

static inline int on_another_host(uint32_t rank, uint32_t other) {
  return rank % test_hosts() != other % test_hosts();
}

/* With UCXX_TEST_FORBID_COPYING the kernel denies copying to or from another process's memory, as
 * in some containers. */
static inline void forbid_copying(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

/* With UCXX_TEST_NAMESPACES=NAME,NAME,... the hosts are these network namespaces, round robin.
 * tests/faults/namespaces.py creates them with `ip netns`. */
static inline void enter_namespace(uint32_t host) {
  char names[512], path[600], *rest = NULL, *name[8];
  uint32_t count = 0;
  snprintf(names, sizeof names, "%s", getenv("UCXX_TEST_NAMESPACES"));
  for (char *next = strtok_r(names, ",", &rest); next != NULL && count < 8;
       next = strtok_r(NULL, ",", &rest))
    name[count++] = next;
  CHECK(count > 0);
  snprintf(path, sizeof path, "/run/netns/%s", name[host % count]);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  CHECK_EQ(setns(fd, CLONE_NEWNET), 0);
  close(fd);
  /* UCX looks for devices in /sys and must find those of the namespace. */
  CHECK_EQ(unshare(CLONE_NEWNS), 0);
  CHECK_EQ(mount("", "/", "none", MS_SLAVE | MS_REC, NULL), 0);
  (void)umount2("/sys", MNT_DETACH);
  CHECK_EQ(mount("sysfs", "/sys", "sysfs", 0, NULL), 0);
}

static inline void member_settle(uint32_t rank) {
  if (getenv("UCXX_TEST_NAMESPACES") != NULL) enter_namespace(rank % test_hosts());
  if (getenv("UCXX_TEST_FORBID_COPYING") != NULL) forbid_copying();
  char host[16];
  snprintf(host, sizeof host, "%u", (unsigned)(rank % test_hosts()));
  if (test_hosts() > 1) setenv("UCXX_RS_HOST_ID", host, 1);
}

/* Forks the members; each runs `body` and exits. */
static inline void members_start(board_t *board, pid_t *pids, void (*body)(member_t *member)) {
  fflush(NULL);
  for (uint32_t rank = 0; rank < board->size; rank++) {
    pids[rank] = fork();
    CHECK(pids[rank] >= 0);
    if (pids[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char name[64];
      snprintf(name, sizeof name, "rank %u of %u", (unsigned)rank, (unsigned)board->size);
      test_begin(name);
      member_settle(rank);
      member_t member = {.board = board, .rank = rank, .size = board->size};
      body(&member);
      exit(0);
    }
  }
}

/* Waits for all members. `killed` is the rank that a signal must have ended, or -1. */
static inline void members_end(const board_t *board, const pid_t *pids, int killed) {
  for (uint32_t rank = 0; rank < board->size; rank++) {
    int status = 0;
    CHECK_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    if ((int)rank == killed) {
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    } else if (status != 0) {
      FAIL("rank %u ended with 0x%x", (unsigned)rank, (unsigned)status);
    }
  }
}

static inline void run_members(uint32_t size, uint64_t seed, void (*body)(member_t *member)) {
  board_t *board = board_open(size, seed);
  pid_t pids[MOST_MEMBERS];
  members_start(board, pids, body);
  members_end(board, pids, -1);
  board_close(board);
}
#endif
