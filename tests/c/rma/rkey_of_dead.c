/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * The remote key of a process that is killed: unpacking it before, during or after the death, with
 * or without progress in between, gives a key or an error that the owner has ended. Memory mapped
 * by an earlier key stays mapped.
 */
#include "test_util.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60, LENGTH = 1 << 16, MOST_BYTES = 4096 };

static ucxx_context_t *context;
static ucxx_worker_t *worker;

typedef struct shown {
  uint64_t address_length, key_length;
  char address[MOST_BYTES], key[MOST_BYTES];
} shown_t;

static void make(int32_t mode) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_AM | UCXX_FEATURE_RMA | UCXX_FEATURE_WAKEUP;
  worker_params.progress_mode = mode;
  CHECK_OK(ucxx_context_create(&params, &context));
  CHECK_OK(ucxx_worker_create(context, &worker_params, &worker));
}

static void own(int channel) {
  static shown_t shown;
  ucxx_address_t *address = NULL;
  ucxx_memory_t *memory = NULL;
  make(UCXX_PROGRESS_THREAD_ADAPTIVE);
  CHECK_OK(ucxx_worker_address(worker, &address));
  CHECK_OK(ucxx_memory_allocate(context, LENGTH, UCXX_MEMORY_HOST, &memory));
  memset(ucxx_memory_base(memory), 0x3c, LENGTH);
  shown.address_length = ucxx_address_length(address);
  CHECK(shown.address_length <= MOST_BYTES);
  memcpy(shown.address, ucxx_address_data(address), shown.address_length);
  size_t key_length = MOST_BYTES;
  CHECK_OK(ucxx_memory_pack(memory, shown.key, &key_length));
  shown.key_length = key_length;
  CHECK_EQ(write(channel, &shown, sizeof shown), sizeof shown);
  for (;;) pause();
}

/* Makes progress in between only if `looks`; otherwise the endpoint does not know of the death
 * either. */
static void unpack_until_it_ends(int channel, int looks) {
  static shown_t shown;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_rkey_t *first = NULL;
  ucxx_request_t *request = NULL;
  make(UCXX_PROGRESS_MANUAL);
  CHECK_EQ(recv(channel, &shown, sizeof shown, MSG_WAITALL), sizeof shown);
  CHECK_OK(ucxx_address_from_bytes(shown.address, shown.address_length, &address));
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &endpoint));
  ucxx_address_destroy(address);
  CHECK_OK(finish(ucxx_am_send(endpoint, 1, NULL, 0, "x", 1, NULL, &request), &request));
  CHECK_OK(finish(ucxx_endpoint_flush(endpoint, NULL, &request), &request));
  CHECK_OK(ucxx_rkey_unpack(endpoint, shown.key, shown.key_length, &first));
  void *local = NULL;
  int is_seen = ucxx_rkey_pointer(first, &local) == UCXX_OK;
  CHECK_EQ(write(channel, "k", 1), 1);
  ucxx_status_t status = UCXX_OK;
  while (status == UCXX_OK) {
    ucxx_rkey_t *key = NULL;
    status = ucxx_rkey_unpack(endpoint, shown.key, shown.key_length, &key);
    ucxx_rkey_destroy(key);
    if (looks) ucxx_worker_progress(worker, NULL);
  }
  CHECK_STATUS(status, UCXX_ERR_PEER_FAILED);
  CHECK_STATUS(ucxx_rkey_unpack(endpoint, shown.key, shown.key_length, &(ucxx_rkey_t *){NULL}),
               UCXX_ERR_PEER_FAILED);
  for (size_t at = 0; is_seen && at < LENGTH; at++) CHECK_EQ(((volatile char *)local)[at], 0x3c);
  ucxx_rkey_destroy(first);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

static pid_t start(int channel, int owns, int looks) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (owns) own(channel);
    unpack_until_it_ends(channel, looks);
    exit(0);
  }
  return pid;
}

int main(void) {
  test_begin("rkey_of_dead");
  uint64_t seed = test_seed();
  for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
    STEP("round %u", round);
    int channels[2], status = 0;
    char byte = 0;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, channels), 0);
    pid_t owner = start(channels[0], 1, 0), user = start(channels[1], 0, round % 2 == 0);
    /* The last process must see the channel end if one of the two has failed. */
    close(channels[1]);
    CHECK_EQ(recv(channels[0], &byte, 1, MSG_WAITALL), 1);
    for (uint64_t turns = test_mix(seed + round) % 20000; turns > 0; turns--)
      __asm__ volatile("" ::: "memory");
    CHECK_EQ(kill(owner, SIGKILL), 0);
    CHECK_EQ(waitpid(owner, &status, 0), owner);
    CHECK_EQ(waitpid(user, &status, 0), user);
    CHECK_EQ(status, 0);
    close(channels[0]);
  }
  return 0;
}
