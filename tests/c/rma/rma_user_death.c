/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A process is killed while it puts to this one's memory or gets from it: this side detects the
 * failure and keeps working. */
#include "rma.h"
#include "killed_peer.h"

enum { LENGTH = 1 << 20, PIECE = 1 << 16, PIECES = LENGTH / PIECE, ROUNDS = 8 };

static const char *const KINDS[] = {"put", "get"};

/* ------------------------------------------------------------------ the peer, until it is
 * killed */

static void live(pair_t pair, const char *kind) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_rkey_t *rkey = NULL;
  uint8_t key[LONGEST_KEY], *data = test_alloc(LENGTH);
  size_t length;
  const int puts = strcmp(kind, KINDS[0]) == 0;
  params.features = RMA_FEATURES;
  CHECK_OK(ucxx_context_create(&params, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, NULL, &pair.worker));
  ucxx_address_t *address = pair_exchange_address(&pair, pair.worker);
  CHECK_OK(ucxx_endpoint_create(pair.worker, address, NULL, &pair.endpoint));
  ucxx_address_destroy(address);
  channel_get(&pair, &length, sizeof length);
  CHECK(length <= sizeof key);
  channel_get(&pair, key, length);
  CHECK_OK(ucxx_rkey_unpack(pair.endpoint, key, length, &rkey));
  memset(data, 0, LENGTH);
  put(rkey, data, 8, 0);
  flush(pair.endpoint);
  channel_put(&pair, kind, 1);
  for (uint64_t at = 0;; at = (at + 1) % PIECES) {
    ucxx_status_t status = puts ? ucxx_rma_put(rkey, data, PIECE, at * PIECE, NULL, NULL)
                                : ucxx_rma_get(rkey, data, PIECE, at * PIECE, NULL, NULL);
    if (status == UCXX_ERR_NO_RESOURCE || at == 0)
      progress(pair.worker);
    else
      CHECK(status >= 0);
  }
}

/* ------------------------------------------------------------------ this side */

/* A new worker each time: a peer killed between reserving a slot in the worker's queue and filling
 * it blocks the queue for good (UCX). */
static void dies(ucxx_context_t *context, const ucxx_memory_t *memory, const way_t *way,
                 const char *kind, int passes) {
  STEP("%s: dies during a %s, after %d passes", way->name, kind, passes);
  victim_t victim;
  uint8_t key[LONGEST_KEY];
  char mark;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_worker_t *worker = NULL;
  params.progress_mode = way->progress;
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  size_t length = pack(memory, key);
  victim_connect(&victim, worker, kind);
  channel_put(&victim.pair, &length, sizeof length);
  channel_put(&victim.pair, key, length);
  while (recv(victim.pair.channel, &mark, 1, MSG_DONTWAIT) != 1) progress(worker);
  for (int pass = 0; pass < passes; pass++) progress(worker);
  victim_kill(&victim);
  victim_await_end(&victim, worker, way);
  victim_bury(&victim);
  ucxx_worker_destroy(worker);
}

int main(int argc, char **argv) {
  test_begin("rma_user_death");
  if (argc > 2) live(victim_channel(argv[1]), argv[2]);
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  if (version.ucx_major == 1 && version.ucx_minor == 13)
    test_skip("UCX 1.13 crashes in its own answers to puts and gets if the memory was used before: "
              "see docs/known-issues.md");
  for (int allocated = 0; allocated < 2; allocated++)
    for (int way = 0; way < WAYS; way++) {
      ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
      ucxx_context_t *context = NULL;
      ucxx_memory_t *memory = NULL;
      void *owned = allocated ? NULL : test_alloc(LENGTH);
      context_params.features = RMA_FEATURES;
      CHECK_OK(ucxx_context_create(&context_params, &context));
      if (allocated)
        CHECK_OK(ucxx_memory_allocate(context, LENGTH, UCXX_MEMORY_HOST, &memory));
      else
        CHECK_OK(ucxx_memory_register(context, owned, LENGTH, UCXX_MEMORY_HOST, &memory));
      for (int round = 0; round < ROUNDS; round++)
        dies(context, memory, &ways[way], KINDS[round % 2], round * 7);
      ucxx_memory_destroy(memory);
      ucxx_context_destroy(context);
      free(owned);
    }
  return 0;
}
