/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Buffers received without an allocator have the sender's memory type: host memory, or a GPU's if
 * UCX can reach one. Otherwise the message is refused. */
#include "../c/common/multi.h"

#include "driver.h"

enum { ID = 9, TAG = 5, FRAMES = 5, LARGE = 1 << 20 };
static const size_t lengths[FRAMES] = {100, 0, 70000, LARGE, 3};

static int32_t kind;
static void *stream;

static ucxx_buffer_t give(size_t length, uint64_t seed) {
  ucxx_buffer_t buffer;
  memset(&buffer, 0, sizeof buffer);
  buffer.length = length;
  buffer.memory_type = kind;
  if (length == 0) return buffer;
  void *bytes = test_alloc(length);
  test_fill(bytes, length, seed);
  buffer.data = bytes;
  if (kind == UCXX_MEMORY_CUDA) {
    uint64_t device = 0;
    CHECK_CUDA(cuda.allocate(&device, length));
    CHECK_CUDA(cuda.to_device(device, bytes, length, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
    free(bytes);
    buffer.data = (void *)(uintptr_t)device;
  }
  return buffer;
}

static void give_back(const ucxx_buffer_t *buffer) {
  if (buffer->memory_type != UCXX_MEMORY_CUDA)
    free(buffer->data);
  else if (buffer->data != NULL)
    CHECK_CUDA(cuda.free((uint64_t)(uintptr_t)buffer->data));
}

static void check_one(const ucxx_buffers_t *buffers, size_t index, size_t length, uint64_t seed) {
  ucxx_buffer_t buffer;
  CHECK_OK(ucxx_buffers_get(buffers, index, &buffer));
  CHECK_EQ(buffer.length, length);
  CHECK_EQ(buffer.memory_type, kind);
  CHECK_EQ(buffer.device_id, 0);
  CHECK((buffer.data == NULL) == (length == 0));
  void *bytes = test_alloc(length);
  if (kind != UCXX_MEMORY_CUDA) {
    if (length > 0) memcpy(bytes, buffer.data, length);
  } else if (length > 0) {
    CHECK_CUDA(cuda.to_host(bytes, (uint64_t)(uintptr_t)buffer.data, length, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
  }
  CHECK_CONTENT(bytes, length, seed);
  free(bytes);
}

static void check_frames(ucxx_buffers_t *buffers, uint64_t seed) {
  CHECK_EQ(ucxx_buffers_count(buffers), FRAMES);
  for (size_t at = 0; at < FRAMES; at++) check_one(buffers, at, lengths[at], seed + at);
  /* One buffer outlives the others. */
  ucxx_buffer_t taken;
  CHECK_OK(ucxx_buffers_take(buffers, 2, &taken));
  ucxx_buffers_destroy(buffers);
  give_back(&taken);
}

/* The buffers of a request that ends with this status. */
static ucxx_buffers_t *end_of(const duo_t *duo, ucxx_request_t *request, ucxx_status_t expected) {
  ucxx_buffers_t *buffers = NULL;
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  CHECK_STATUS(ucxx_request_status(request), expected);
  if (expected == UCXX_OK) CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  ucxx_request_destroy(request);
  return buffers;
}

static void make_frames(ucxx_buffer_t *frames, uint64_t seed) {
  for (size_t at = 0; at < FRAMES; at++) frames[at] = give(lengths[at], seed + at);
}

static void by_tag(const duo_t *duo) {
  STEP("frames by tag");
  ucxx_buffer_t frames[FRAMES];
  ucxx_request_t *sent = NULL, *received = NULL;
  make_frames(frames, 10);
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, TAG, UINT64_MAX, NULL, NULL, &received),
               UCXX_INPROGRESS);
  CHECK_OK(
      duo_finish(duo, ucxx_tag_send_multi(duo->to_right, frames, FRAMES, TAG, NULL, &sent), &sent));
  check_frames(end_of(duo, received, UCXX_OK), 10);
  for (size_t at = 0; at < FRAMES; at++) give_back(&frames[at]);
}

static void on_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                     ucxx_buffers_t *buffers, ucxx_status_t status) {
  (void)reply;
  (void)header;
  CHECK_OK(status);
  CHECK_EQ(header_length, 4);
  *(ucxx_buffers_t **)arg = buffers;
}

static void by_message(const duo_t *duo) {
  STEP("frames in one active message");
  ucxx_buffer_t frames[FRAMES];
  ucxx_buffers_t *came = NULL;
  ucxx_request_t *sent = NULL;
  make_frames(frames, 20);
  CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID, on_multi, &came, NULL, NULL));
  CHECK_OK(duo_finish(
      duo, ucxx_am_send_multi(duo->to_right, ID, "head", 4, frames, FRAMES, NULL, &sent), &sent));
  while (came == NULL) duo_progress(duo);
  check_frames(came, 20);
  CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID, NULL, NULL, NULL, NULL));
  for (size_t at = 0; at < FRAMES; at++) give_back(&frames[at]);
}

/* Eager data would be in host memory in any case. */
static ucxx_op_params_t waiting(void) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_RNDV;
  params.memory_type = kind;
  return params;
}

static void by_queue(const duo_t *duo) {
  STEP("a message in a queue");
  ucxx_buffer_t data = give(LARGE, 30);
  ucxx_op_params_t params = waiting();
  ucxx_request_t *sent = NULL, *received = NULL;
  ucxx_status_t status = ucxx_am_queue_send(duo->to_right, data.data, LARGE, &params, &sent);
  CHECK_STATUS(ucxx_am_queue_recv(duo->to_left, NULL, NULL, &received), UCXX_INPROGRESS);
  ucxx_buffers_t *buffers = end_of(duo, received, UCXX_OK);
  CHECK_OK(duo_finish(duo, status, &sent));
  check_one(buffers, 0, LARGE, 30);
  ucxx_buffers_destroy(buffers);
  give_back(&data);
}

static void on_message(void *arg, ucxx_am_message_t *message) {
  *(ucxx_am_message_t **)arg = message;
}

static void on_question(void *arg, ucxx_fetch_t *fetch) { *(ucxx_fetch_t **)arg = fetch; }

static void by_fetch(const duo_t *duo) {
  STEP("a reply");
  ucxx_buffer_t data = give(LARGE, 40);
  ucxx_op_params_t params = waiting();
  ucxx_fetch_t *fetch = NULL;
  ucxx_request_t *answered = NULL, *asked = NULL;
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, on_question, &fetch, NULL));
  CHECK_STATUS(ucxx_am_fetch_alloc(duo->to_right, ID, NULL, 0, NULL, 0, NULL, NULL, &asked),
               UCXX_INPROGRESS);
  while (fetch == NULL) duo_progress(duo);
  CHECK_OK(
      duo_finish(duo, ucxx_fetch_reply(fetch, data.data, LARGE, &params, &answered), &answered));
  ucxx_fetch_destroy(fetch);
  ucxx_buffers_t *buffers = end_of(duo, asked, UCXX_OK);
  check_one(buffers, 0, LARGE, 40);
  ucxx_buffers_destroy(buffers);
  give_back(&data);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, NULL, NULL, NULL));
}

/* Eager data is copied to the requested memory, whatever UCX can reach. */
static void along_with_it(const duo_t *duo, void *handed) {
  STEP("an eager message, received on a GPU");
  uint8_t bytes[3000], back[sizeof bytes];
  uint64_t device = 0;
  ucxx_am_message_t *message = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *sent = NULL, *received = NULL;
  test_fill(bytes, sizeof bytes, 50);
  CHECK_CUDA(cuda.allocate(&device, sizeof bytes));
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, on_message, &message, NULL));
  CHECK_OK(duo_finish(
      duo, ucxx_am_send(duo->to_right, ID, NULL, 0, bytes, sizeof bytes, NULL, &sent), &sent));
  while (message == NULL) duo_progress(duo);
  CHECK(ucxx_am_message_data(message) != NULL);
  /* A buffer of another type than stated: nothing is written, and the message can still be
   * received. */
  params.memory_type = UCXX_MEMORY_CUDA;
  CHECK_STATUS(ucxx_am_message_recv(message, handed, sizeof bytes, &params, &received),
               UCXX_ERR_INVALID_PARAM);
  CHECK_OK(duo_finish(
      duo,
      ucxx_am_message_recv(message, (void *)(uintptr_t)device, sizeof bytes, &params, &received),
      &received));
  ucxx_am_message_destroy(message);
  CHECK_CUDA(cuda.to_host(back, device, sizeof back, stream));
  CHECK_CUDA(cuda.stream_synchronize(stream));
  CHECK_CONTENT(back, sizeof back, 50);
  CHECK_CUDA(cuda.free(device));
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, NULL, NULL, NULL));
}

/* A peer whose UCX can reach more memory types. */
static void refused(const duo_t *duo) {
  STEP("frames on a device that this side's UCX cannot reach");
  long calls = cuda.count == NULL ? 0 : cuda.count(DOUBLE_CALLS),
       contexts = cuda.count == NULL ? 0 : cuda.count(DOUBLE_CONTEXTS);
  static const uint64_t length = 100;
  uint8_t header[HEADER_BYTES], frame[100] = {0};
  ucxx_request_t *received = NULL, *sent = NULL;
  header_make(header, 0, 1, &length);
  header[9] = 1;
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, TAG, UINT64_MAX, NULL, NULL, &received),
               UCXX_INPROGRESS);
  CHECK_OK(duo_finish(duo, ucxx_tag_send(duo->to_right, header, sizeof header, TAG, NULL, &sent),
                      &sent));
  CHECK_OK(
      duo_finish(duo, ucxx_tag_send(duo->to_right, frame, sizeof frame, TAG, NULL, &sent), &sent));
  CHECK(end_of(duo, received, UCXX_ERR_UNSUPPORTED) == NULL);
  if (cuda.count != NULL)
    CHECK(cuda.count(DOUBLE_CALLS) == calls && cuda.count(DOUBLE_CONTEXTS) == contexts);
}

static void everything(const duo_t *duo) {
  by_tag(duo);
  by_message(duo);
  by_queue(duo);
  by_fetch(duo);
}

int main(void) {
  test_begin("cuda_frames");
  cuda_open(0);
  stream = cuda_stream();
  duo_t duo;
  duo_open(&duo, NULL);
  kind = UCXX_MEMORY_HOST;
  everything(&duo);
  static uint8_t host[3000];
  along_with_it(&duo, host);
  if (ucxx_context_has_cuda(duo.context)) {
    kind = UCXX_MEMORY_CUDA;
    everything(&duo);
  } else {
    printf("cuda_frames: the loaded UCX cannot reach CUDA memory: no frames on a GPU\n");
    refused(&duo);
    /* The tag still works. */
    by_tag(&duo);
  }
  duo_close(&duo);
  CHECK_CUDA(cuda.stream_destroy(stream));
  cuda_close();
  return 0;
}
