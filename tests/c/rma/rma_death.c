/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The process that owns the memory is killed with puts, gets and atomic operations of all kinds in
 * flight: each completes once, in time, and its keys stay safe to use. */
#include "rma.h"
#include "killed_peer.h"

enum { LENGTH = 4 << 20, PIECE = 1 << 18, AT_ONCE = 16 };

static int threaded;

/* ------------------------------------------------------------------ the owner, until it is
 * killed */

static void live(pair_t pair) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_memory_t *memory[2] = {0};
  params.features = RMA_FEATURES;
  CHECK_OK(ucxx_context_create(&params, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, NULL, &pair.worker));
  ucxx_address_t *address = pair_exchange_address(&pair, pair.worker);
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_memory_allocate(pair.context, LENGTH, UCXX_MEMORY_HOST, &memory[0]));
  CHECK_OK(
      ucxx_memory_register(pair.context, calloc(1, LENGTH), LENGTH, UCXX_MEMORY_HOST, &memory[1]));
  for (int at = 0; at < 2; at++) {
    uint8_t key[LONGEST_KEY];
    size_t length = pack(memory[at], key);
    channel_put(&pair, &length, sizeof length);
    channel_put(&pair, key, length);
  }
  for (;;) progress(pair.worker);
}

/* ------------------------------------------------------------------ this side */

typedef struct operation {
  ucxx_request_t *request;
  ucxx_status_t status;
  seen_t seen;
} operation_t;

static void post(operation_t *operation, ucxx_rkey_t *rkey, int kind, uint8_t *data,
                 uint64_t offset) {
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
    operation->status = ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, data, offset, &params,
                                        &operation->request);
}

static void dies(int rounds) {
  STEP("%s: dies after %d rounds", threaded ? "thread" : "manual", rounds);
  victim_t victim;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  ucxx_rkey_t *rkeys[2] = {0};
  operation_t operations[2][3][AT_ONCE];
  uint8_t *data = test_alloc(2 * 3 * AT_ONCE * (size_t)PIECE), key[LONGEST_KEY];
  size_t length;
  context_params.features = RMA_FEATURES;
  worker_params.progress_mode = threaded ? UCXX_PROGRESS_THREAD_ADAPTIVE : UCXX_PROGRESS_MANUAL;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_worker_create(context, &worker_params, &worker));
  victim_connect(&victim, worker, NULL);
  for (int at = 0; at < 2; at++) {
    channel_get(&victim.pair, &length, sizeof length);
    CHECK(length <= sizeof key);
    channel_get(&victim.pair, key, length);
    CHECK_OK(ucxx_rkey_unpack(victim.endpoint, key, length, &rkeys[at]));
  }
  memset(data, 7, 2 * 3 * AT_ONCE * (size_t)PIECE);
  for (int round = 0;; round++) {
    for (int memory = 0; memory < 2; memory++)
      for (int kind = 0; kind < 3; kind++)
        for (int at = 0; at < AT_ONCE; at++)
          post(&operations[memory][kind][at], rkeys[memory], kind,
               data + (size_t)((memory * 3 + kind) * AT_ONCE + at) * PIECE, (uint64_t)at * PIECE);
    if (round == rounds) break;
    for (int memory = 0; memory < 2; memory++)
      for (int kind = 0; kind < 3; kind++)
        for (int at = 0; at < AT_ONCE; at++)
          CHECK_OK(
              finish(operations[memory][kind][at].status, &operations[memory][kind][at].request));
  }
  victim_kill(&victim);
  victim_await_end(&victim, worker, &ways[0]);
  int well = 0;
  for (int memory = 0; memory < 2; memory++)
    for (int kind = 0; kind < 3; kind++)
      for (int at = 0; at < AT_ONCE; at++) {
        operation_t *operation = &operations[memory][kind][at];
        CHECK_STATUS(operation->status, UCXX_INPROGRESS);
        ucxx_status_t status = finish(operation->status, &operation->request);
        CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED);
        while (seen_count(&operation->seen) == 0) progress(worker);
        CHECK_EQ(seen_count(&operation->seen), 1);
        well += status == UCXX_OK;
      }
  printf("%d of %d succeeded\n", well, 2 * 3 * AT_ONCE);
  for (int at = 0; at < 2; at++) {
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_rma_put(rkeys[at], data, 8, 0, NULL, &request), UCXX_ERR_PEER_FAILED);
    CHECK_STATUS(ucxx_rma_get(rkeys[at], data, 8, 0, NULL, &request), UCXX_ERR_PEER_FAILED);
  }
  ucxx_rkey_destroy(rkeys[0]);
  victim_bury(&victim);
  ucxx_worker_destroy(worker);
  ucxx_rkey_destroy(rkeys[1]);
  ucxx_context_destroy(context);
  free(data);
}

int main(int argc, char **argv) {
  test_begin("rma_death");
  if (argc > 1) live(victim_channel(argv[1]));
  for (threaded = 0; threaded < 2; threaded++)
    for (int rounds = 0; rounds < 8; rounds = 1 + 2 * rounds) dies(rounds);
  return 0;
}
