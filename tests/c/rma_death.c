/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The process that has the memory is killed with puts, gets and atomic operations of all kinds under way: each ends once, in time, and keys stay harmless. */
#include "rma.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 4 << 20, PIECE = 1 << 18, AT_ONCE = 16 };

static int threaded;

/* ------------------------------------------------------------------ the other side, until it is killed */

static void victim(int channel) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pair_t pair = {.channel = channel};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_memory_t *memory[2] = {0};
  params.features = RMA_FEATURES;
  CHECK_OK(ucxx_context_create(&params, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, NULL, &pair.worker));
  ucxx_address_t *address = pair_exchange_address(&pair, pair.worker);
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_memory_allocate(pair.context, LENGTH, UCXX_MEMORY_HOST, &memory[0]));
  CHECK_OK(ucxx_memory_register(pair.context, calloc(1, LENGTH), LENGTH, UCXX_MEMORY_HOST, &memory[1]));
  for (int at = 0; at < 2; at++) {
    uint8_t key[LONGEST_KEY];
    size_t length = pack(memory[at], key);
    channel_put(&pair, &length, sizeof length);
    channel_put(&pair, key, length);
  }
  for (;;)
    progress(pair.worker);
}

/* ------------------------------------------------------------------ this side */

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  see_completion(arg, NULL, status);
}

typedef struct operation {
  ucxx_request_t *request;
  ucxx_status_t status;
  seen_t seen;
} operation_t;

static void post(operation_t *operation, ucxx_rkey_t *rkey, int kind, uint8_t *data, uint64_t offset) {
  static const uint64_t one = 1;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(operation, 0, sizeof *operation);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = see_completion;
  params.callback_arg = &operation->seen;
  if (kind == 0)
    operation->status = ucxx_rma_put(rkey, data, PIECE, offset, &params, &operation->request);
  else if (kind == 1)
    operation->status = ucxx_rma_get(rkey, data, PIECE, offset, &params, &operation->request);
  else
    operation->status = ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, data, offset, &params, &operation->request);
}

static void dies(int rounds) {
  STEP("%s: dies after %d rounds", threaded ? "thread" : "manual", rounds);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", dup(ends[1]));
    execl("/proc/self/exe", "rma_death", number, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  pair_t pair = {.channel = ends[0]};
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  seen_t closed = {0};
  ucxx_rkey_t *rkeys[2] = {0};
  operation_t operations[2][3][AT_ONCE];
  uint8_t *data = test_alloc(2 * 3 * AT_ONCE * (size_t)PIECE), key[LONGEST_KEY];
  size_t length;
  context_params.features = RMA_FEATURES;
  worker_params.progress_mode = threaded ? UCXX_PROGRESS_THREAD_ADAPTIVE : UCXX_PROGRESS_MANUAL;
  CHECK_OK(ucxx_context_create(&context_params, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, &worker_params, &pair.worker));
  ucxx_address_t *address = pair_exchange_address(&pair, pair.worker);
  params.on_close = on_close;
  params.on_close_arg = &closed;
  CHECK_OK(ucxx_endpoint_create(pair.worker, address, &params, &pair.endpoint));
  ucxx_address_destroy(address);
  for (int at = 0; at < 2; at++) {
    channel_get(&pair, &length, sizeof length);
    CHECK(length <= sizeof key);
    channel_get(&pair, key, length);
    CHECK_OK(ucxx_rkey_unpack(pair.endpoint, key, length, &rkeys[at]));
  }
  memset(data, 7, 2 * 3 * AT_ONCE * (size_t)PIECE);
  for (int round = 0;; round++) {
    for (int memory = 0; memory < 2; memory++)
      for (int kind = 0; kind < 3; kind++)
        for (int at = 0; at < AT_ONCE; at++)
          post(&operations[memory][kind][at], rkeys[memory], kind, data + (size_t)((memory * 3 + kind) * AT_ONCE + at) * PIECE, (uint64_t)at * PIECE);
    if (round == rounds)
      break;
    for (int memory = 0; memory < 2; memory++)
      for (int kind = 0; kind < 3; kind++)
        for (int at = 0; at < AT_ONCE; at++)
          CHECK_OK(finish(operations[memory][kind][at].status, &operations[memory][kind][at].request));
  }
  CHECK(kill(pid, SIGKILL) == 0);
  while (seen_count(&closed) == 0)
    progress(pair.worker);
  CHECK_STATUS(closed.status, UCXX_ERR_PEER_FAILED);
  int well = 0;
  for (int memory = 0; memory < 2; memory++)
    for (int kind = 0; kind < 3; kind++)
      for (int at = 0; at < AT_ONCE; at++) {
        operation_t *operation = &operations[memory][kind][at];
        CHECK_STATUS(operation->status, UCXX_INPROGRESS);
        ucxx_status_t status = finish(operation->status, &operation->request);
        CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
        while (seen_count(&operation->seen) == 0)
          progress(pair.worker);
        CHECK_EQ(seen_count(&operation->seen), 1);
        well += status == UCXX_OK;
      }
  printf("%d of %d ended well\n", well, 2 * 3 * AT_ONCE);
  for (int at = 0; at < 2; at++) {
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_rma_put(rkeys[at], data, 8, 0, NULL, &request), UCXX_ERR_PEER_FAILED);
    CHECK_STATUS(ucxx_rma_get(rkeys[at], data, 8, 0, NULL, &request), UCXX_ERR_PEER_FAILED);
  }
  CHECK(waitpid(pid, NULL, 0) == pid);
  ucxx_rkey_destroy(rkeys[0]);
  ucxx_endpoint_destroy(pair.endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  ucxx_worker_destroy(pair.worker);
  ucxx_rkey_destroy(rkeys[1]);
  ucxx_context_destroy(pair.context);
  close(ends[0]);
  free(data);
}

int main(int argc, char **argv) {
  test_begin("rma_death", 120);
  if (argc > 1) victim(atoi(argv[1]));
  for (threaded = 0; threaded < 2; threaded++)
    for (int rounds = 0; rounds < 8; rounds = 1 + 2 * rounds)
      dies(rounds);
  return 0;
}
