/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A peer is killed while large messages from its GPU arrive on this one. The receive ends, the
 * memory is the program's again, and the worker goes on. With the stand-in for the driver, which
 * UCX does not reach, the memory is on the host. */
#include "driver.h"

#include "../c/common/killed_peer.h"

enum { LENGTH = 64 << 20, BEFORE = 3 };

static void *stream;

static void *allocate(int on_device) {
  uint64_t address = 0;
  if (!on_device) return malloc(LENGTH);
  CHECK_CUDA(cuda.allocate(&address, LENGTH));
  return (void *)(uintptr_t)address;
}

static void fill(void *memory, int on_device, uint32_t word) {
  if (on_device) {
    CHECK_CUDA(cuda.fill((uint64_t)(uintptr_t)memory, word, LENGTH / 4, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
    return;
  }
  for (size_t at = 0; at < LENGTH / 4; at++) ((uint32_t *)memory)[at] = word;
}

static uint32_t first_word(const void *memory, int on_device) {
  uint32_t word = 0;
  if (on_device) {
    CHECK_CUDA(cuda.to_host(&word, (uint64_t)(uintptr_t)memory, sizeof word, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
  } else {
    memcpy(&word, memory, sizeof word);
  }
  return word;
}

static void victim(const char *descriptor, ucxx_worker_t *worker, void *memory) {
  pair_t pair = victim_channel(descriptor);
  ucxx_endpoint_t *back = victim_answer(&pair, worker);
  for (;;) {
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_tag_send(back, memory, LENGTH, 7, NULL, &request);
    if (status == UCXX_INPROGRESS) {
      while (ucxx_request_status(request) == UCXX_INPROGRESS) progress(worker);
      ucxx_request_destroy(request);
    } else {
      CHECK_OK(status);
    }
  }
}

int main(int argc, char **argv) {
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  test_begin("cuda_killed");
  cuda_open(0);
  stream = cuda_stream();
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  const int on_device = ucxx_context_has_cuda(context);
  void *memory = allocate(on_device);
  fill(memory, on_device, 0x1234);
  if (argc > 1) victim(argv[1], worker, memory);
  STEP("the memory is on the %s", on_device ? "GPU" : "host");

  victim_t peer;
  victim_connect(&peer, worker, NULL);
  for (int number = 0; number <= BEFORE; number++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL;
    params.source = peer.endpoint;
    fill(memory, on_device, 0);
    ucxx_status_t status = ucxx_tag_recv(worker, memory, LENGTH, 7, UINT64_MAX, &params, &request);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    /* The last message is on its way when its sender dies. */
    if (number == BEFORE) victim_kill(&peer);
    while (status == UCXX_INPROGRESS && (status = ucxx_request_status(request)) == UCXX_INPROGRESS)
      progress(worker);
    if (number < BEFORE) {
      CHECK_STATUS(status, UCXX_OK);
      CHECK_EQ(first_word(memory, on_device), 0x1234);
    } else {
      STEP("the receive has ended with %s", ucxx_status_name(status));
      CHECK(status == UCXX_OK || status == UCXX_ERR_PEER_FAILED || status == UCXX_ERR_CANCELED);
    }
    ucxx_request_destroy(request);
  }
  victim_await_end(&peer, worker, &ways[0]);
  victim_bury(&peer);

  STEP("the memory can be used again");
  fill(memory, on_device, 0x4321);
  CHECK_EQ(first_word(memory, on_device), 0x4321);
  if (on_device)
    CHECK_CUDA(cuda.free((uint64_t)(uintptr_t)memory));
  else
    free(memory);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  CHECK_CUDA(cuda.stream_destroy(stream));
  cuda_close();
  return 0;
}
