/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A process to be killed: starts this program again, connects to it, waits until its failure is
 * detected, and reaps it. */
#ifndef UCXX_RS_TEST_VICTIM_H
#define UCXX_RS_TEST_VICTIM_H
#include "test_util.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct victim {
  pair_t pair; /* only `channel` is used */
  pid_t pid;
  ucxx_endpoint_t *endpoint;
  seen_t closed;
} victim_t;

/* How the survivor's worker is driven. */
typedef struct way {
  const char *name;
  int progress;
  int waits; /* sleeps between passes, with manual progress */
} way_t;
static const way_t ways[] = {{"polling", UCXX_PROGRESS_MANUAL, 0},
                             {"waiting", UCXX_PROGRESS_MANUAL, 1},
                             {"thread", UCXX_PROGRESS_THREAD_ADAPTIVE, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

static inline void move_on(ucxx_worker_t *worker, const way_t *way) {
  if (way->waits) {
    ucxx_status_t status = ucxx_worker_wait(worker, UINT64_MAX);
    CHECK(status == UCXX_OK || status == UCXX_ERR_TIMED_OUT);
  } else {
    progress(worker);
  }
}

/* Runs in the victim; its first argument is the descriptor. The victim dies with its parent. */
static inline pair_t victim_channel(const char *descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return (pair_t){.channel = atoi(descriptor)};
}

/* Runs in the victim: sends its address to the parent and connects back. */
static inline ucxx_endpoint_t *victim_answer(pair_t *pair, ucxx_worker_t *worker) {
  ucxx_endpoint_t *back = NULL;
  ucxx_address_t *address = pair_exchange_address(pair, worker);
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &back));
  ucxx_address_destroy(address);
  return back;
}

/* Starts the victim and returns its address. The second argument may be NULL. */
static inline ucxx_address_t *victim_start(victim_t *victim, ucxx_worker_t *worker,
                                           const char *argument) {
  int ends[2];
  memset(victim, 0, sizeof *victim);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  victim->pid = fork();
  CHECK(victim->pid >= 0);
  if (victim->pid == 0) {
    char number[16];
    /* dup clears close-on-exec. */
    snprintf(number, sizeof number, "%d", dup(ends[1]));
    execlp(program_invocation_name, program_invocation_name, number, argument, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  victim->pair.channel = ends[0];
  return pair_exchange_address(&victim->pair, worker);
}

static inline void victim_connect(victim_t *victim, ucxx_worker_t *worker, const char *argument) {
  ucxx_address_t *address = victim_start(victim, worker, argument);
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = see_endpoint;
  params.on_close_arg = &victim->closed;
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &victim->endpoint));
  ucxx_address_destroy(address);
}

static inline void victim_kill(const victim_t *victim) { kill_in_a_call(victim->pid); }

/* Waits until the endpoint has closed. The process is not reaped earlier: one that nobody has
 * reaped is dead as well. */
static inline void victim_await_end(victim_t *victim, ucxx_worker_t *worker, const way_t *way) {
  while (seen_count(&victim->closed) == 0) move_on(worker, way);
  CHECK_STATUS(victim->closed.status, UCXX_ERR_PEER_FAILED);
  CHECK_STATUS(ucxx_endpoint_status(victim->endpoint), UCXX_ERR_PEER_FAILED);
}

static inline void victim_reap(victim_t *victim) {
  CHECK(waitpid(victim->pid, NULL, 0) == victim->pid);
  close(victim->pair.channel);
}

/* Reaps the victim and destroys its endpoint, whose on_close must have run once. */
static inline void victim_bury(victim_t *victim) {
  victim_reap(victim);
  ucxx_endpoint_destroy(victim->endpoint);
  CHECK_EQ(seen_count(&victim->closed), 1);
}
#endif
