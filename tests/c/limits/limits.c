/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Each documented limit is reached, and one more is refused: docs/reliability.md lists the limits,
 * and the tests of those that are not here. Data over 4 GiB is in memory that is never touched, or
 * that maps one piece many times.
 */
#include "group.h"
#include "hub_stream.h"
#include "counting_allocator.h"

#include <sys/resource.h>

static const size_t WIDE = ((size_t)1 << 32) + 8;
enum { ID = 7, PAGE = 4096, PIECE = 16 << 20 };

/* Reserves bytes that take no memory until they are touched. */
static uint8_t *wide_open(size_t length) {
  uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

/* The same, with everything but the last page mapped to one piece of memory again and again. */
static uint8_t *folded_open(size_t length) {
  const size_t folded = (length - PAGE) / PIECE * PIECE;
  uint8_t *memory = wide_open(length);
  int file = memfd_create("limits", MFD_CLOEXEC);
  CHECK(file >= 0);
  CHECK_EQ(ftruncate(file, PIECE), 0);
  for (size_t at = 0; at < folded; at += PIECE)
    CHECK(mmap(memory + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
          memory + at);
  close(file);
  return memory;
}

/* ------------------------------------------------------------------ windows */

/* Displacements and layouts beyond 4 GiB in the memory of rank 0. */
static void wide_window(member_t *member) {
  const uint64_t half = (uint64_t)1 << 32;
  const size_t size = WIDE + PAGE;
  member_open(member, NULL);
  member_join(member, 0);
  uint8_t *memory = member->rank == 0 ? wide_open(size) : NULL;
  ucxx_window_t *window = NULL;
  CHECK_OK(
      ucxx_window_create(member->group, memory, member->rank == 0 ? size : 0, 1, NULL, &window));
  CHECK_OK(ucxx_window_fence(window, 0));
  ucxx_layout_t one, bytes;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  ucxx_layout_init_contiguous(&bytes, UCXX_TYPE_BYTE, 8);
  const uint64_t numbers[3] = {0x1111111111111111, 0x2222222222222222, 0x3333333333333333},
                 more = 1;
  if (member->rank == 1) {
    STEP("beyond 4 GiB");
    CHECK_OK(ucxx_window_put(window, &numbers[0], &one, 0, (int64_t)(size - 8), &one));
    CHECK_OK(ucxx_window_put(window, &numbers[1], &bytes, 0, (int64_t)half - 4, &bytes));
    CHECK_OK(ucxx_window_accumulate(window, &more, &one, 0, (int64_t)(size - 16), &one,
                                    UCXX_REDUCE_SUM));
    STEP("one past the end");
    CHECK_STATUS(ucxx_window_put(window, &numbers[0], &one, 0, (int64_t)(size - 7), &one),
                 UCXX_ERR_RMA_RANGE);
    CHECK_STATUS(
        ucxx_window_accumulate(window, &more, &one, 0, (int64_t)size, &one, UCXX_REDUCE_SUM),
        UCXX_ERR_RMA_RANGE);
  }
  CHECK_OK(ucxx_window_fence(window, 0));
  uint64_t found = 0;
  if (member->rank == 0) {
    CHECK(memcmp(memory + size - 8, &numbers[0], 8) == 0 &&
          memcmp(memory + half - 4, &numbers[1], 8) == 0);
    CHECK(memcmp(memory + size - 16, &more, 8) == 0);
    CHECK(memory[0] == 0 && memory[8] == 0);
  }
  CHECK_OK(ucxx_window_fence(window, 0));
  if (member->rank == 1) {
    STEP("blocks that are 4 GiB apart");
    uint64_t two[2] = {0, 0};
    ucxx_layout_t here, there;
    ucxx_layout_init_contiguous(&here, UCXX_TYPE_UINT64, 2);
    ucxx_layout_init_vector(&there, UCXX_TYPE_UINT64, 2, 1, (int64_t)(half / 8));
    CHECK_OK(ucxx_window_get(window, two, &here, 0, (int64_t)PAGE, &there));
    CHECK_OK(ucxx_window_get(window, &found, &one, 0, (int64_t)(size - 8), &one));
    CHECK_OK(ucxx_window_put(window, &numbers[1], &here, 0, 8, &there));
    there.stride += PAGE / 8;
    CHECK_STATUS(ucxx_window_get(window, two, &here, 0, 8, &there), UCXX_ERR_RMA_RANGE);
  }
  CHECK_OK(ucxx_window_fence(window, 0));
  if (member->rank == 0)
    CHECK(memcmp(memory + 8, &numbers[1], 8) == 0 &&
          memcmp(memory + 8 + half, &numbers[2], 8) == 0);
  else
    CHECK(found == numbers[0]);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  member_close(member);
}

/* The most regions that a dynamic window takes, none adjacent to another, and one more. */
static void regions(member_t *member) {
  enum { REGIONS = 1024 };
  ucxx_window_t *window = NULL;
  member_open(member, NULL);
  member_join(member, 0);
  uint8_t *memory = wide_open((REGIONS + 1) * 64);
  STEP("%d regions, and one", REGIONS);
  CHECK_OK(ucxx_window_create_dynamic(member->group, NULL, &window));
  for (int at = 0; at < REGIONS; at++) CHECK_OK(ucxx_window_attach(window, memory + at * 64, 32));
  CHECK_STATUS(ucxx_window_attach(window, memory + REGIONS * 64, 32), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("regions");
  uint64_t number = 7, last = (uint64_t)(uintptr_t)(memory + (REGIONS - 1) * 64), all[2];
  CHECK_OK(ucxx_group_allgather(member->group, &last, sizeof last, all));
  CHECK_OK(ucxx_window_fence(window, 0));
  ucxx_layout_t one;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  CHECK_OK(ucxx_window_put(window, &number, &one, 1 - member->rank, (int64_t)all[1 - member->rank],
                           &one));
  CHECK_OK(ucxx_window_fence(window, 0));
  CHECK(memcmp(memory + (REGIONS - 1) * 64, &number, sizeof number) == 0);
  CHECK_OK(ucxx_window_detach(window, memory));
  CHECK_OK(ucxx_window_attach(window, memory + REGIONS * 64, 32));
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  member_close(member);
}

/* More than 4 GiB in one call. */
static void wide_put(member_t *member) {
  member_open(member, NULL);
  member_join(member, 0);
  uint8_t *memory = folded_open(WIDE);
  const uint64_t numbers[2] = {0x1111111111111111, 0x2222222222222222};
  ucxx_window_t *window = NULL;
  if (member->rank == 1) {
    memcpy(memory, &numbers[0], 8);
    memcpy(memory + WIDE - 8, &numbers[1], 8);
  }
  STEP("%zu bytes in one put", WIDE);
  CHECK_OK(ucxx_window_create(member->group, memory, WIDE, 1, NULL, &window));
  CHECK_OK(ucxx_window_fence(window, 0));
  ucxx_layout_t all;
  ucxx_layout_init_contiguous(&all, UCXX_TYPE_BYTE, WIDE);
  if (member->rank == 1) CHECK_OK(ucxx_window_put(window, memory, &all, 0, 0, &all));
  CHECK_OK(ucxx_window_fence(window, 0));
  CHECK(memcmp(memory, &numbers[0], 8) == 0 && memcmp(memory + WIDE - 8, &numbers[1], 8) == 0);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  member_close(member);
}

/* ------------------------------------------------------------------ messages */

static ucxx_am_message_t *came;
static void keep(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK(came == NULL);
  came = message;
}

static ucxx_am_message_t *await_message(const duo_t *duo) {
  while (came == NULL) duo_progress(duo);
  ucxx_am_message_t *message = came;
  came = NULL;
  return message;
}

static ucxx_buffers_t *multi_came;
static ucxx_status_t multi_status;
static int multi_count;
static void keep_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                       ucxx_buffers_t *buffers, ucxx_status_t status) {
  (void)arg, (void)reply, (void)header, (void)header_length;
  multi_count++;
  multi_came = buffers;
  multi_status = status;
}

static ucxx_fetch_t *asked;
static void keep_question(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  asked = fetch;
}

/* Lengths of more than 32 bits. Nothing is copied, unless `copied`: then the whole message
 * arrives. */
static void wide_messages(const duo_t *duo, int copied) {
  uint8_t *from = folded_open(WIDE), *to = folded_open(WIDE), little[8];
  const uint64_t number = 0x4444444444444444;
  ucxx_recv_info_t info;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT, rndv = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *sent = NULL, *received = NULL;
  params.recv_info = &info;
  rndv.flags = UCXX_FLAG_RNDV;
  memcpy(from + WIDE - 8, &number, 8);
  STEP("a message of %zu bytes into 8", WIDE);
  memset(&info, 0, sizeof info);
  ucxx_status_t status =
      ucxx_tag_recv(duo->right, little, sizeof little, 1, UINT64_MAX, &params, &received);
  ucxx_status_t sending = ucxx_tag_send(duo->to_right, from, WIDE, 1, NULL, &sent);
  CHECK_STATUS(duo_finish(duo, status, &received), UCXX_ERR_MESSAGE_TRUNCATED);
  CHECK(info.length == WIDE);
  duo_finish(duo, sending, &sent);
  STEP("an active message of that length");
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, keep, NULL, NULL));
  sending = ucxx_am_send(duo->to_right, ID, NULL, 0, from, WIDE, &rndv, &sent);
  ucxx_am_message_t *message = await_message(duo);
  CHECK(ucxx_am_message_length(message) == WIDE);
  CHECK_STATUS(ucxx_am_message_recv(message, little, sizeof little, NULL, &received),
               UCXX_ERR_MESSAGE_TRUNCATED);
  if (copied)
    CHECK_OK(duo_finish(duo, ucxx_am_message_recv(message, to, WIDE, NULL, &received), &received));
  ucxx_am_message_destroy(message);
  CHECK_OK(duo_finish(duo, sending, &sent));
  CHECK(!copied || memcmp(to + WIDE - 8, &number, 8) == 0);
  STEP("a reply of that length");
  CHECK_OK(ucxx_worker_set_fetch_handler(duo->right, ID, keep_question, NULL, NULL));
  memset(&info, 0, sizeof info);
  status = ucxx_am_fetch(duo->to_right, ID, NULL, 0, little, sizeof little, &params, &received);
  while (asked == NULL) duo_progress(duo);
  sending = ucxx_fetch_reply(asked, from, WIDE, NULL, &sent);
  CHECK_STATUS(duo_finish(duo, status, &received), UCXX_ERR_MESSAGE_TRUNCATED);
  CHECK(info.length == WIDE);
  duo_finish(duo, sending, &sent);
  ucxx_fetch_destroy(asked);
  asked = NULL;
  STEP("a buffer of that length among others, with a limit of 1 MiB");
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  allocator.max_total_bytes = 1 << 20;
  const ucxx_buffer_t buffers[2] = {{.data = little, .length = 8}, {.data = from, .length = WIDE}};
  multi_count = 0;
  CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID, keep_multi, NULL, NULL, &allocator));
  sending = ucxx_am_send_multi(duo->to_right, ID, NULL, 0, buffers, 2, NULL, &sent);
  while (multi_count == 0) duo_progress(duo);
  CHECK_STATUS(multi_status, UCXX_ERR_EXCEEDS_LIMIT);
  CHECK(multi_came == NULL && maker.calls == 0);
  duo_finish(duo, sending, &sent);
  CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID, NULL, NULL, NULL, NULL));
  STEP("a length that no memory has");
  CHECK_STATUS(ucxx_tag_send(duo->to_right, from, ((size_t)1 << 47) + 1, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("length");
  if (copied) {
    STEP("%zu bytes that arrive", WIDE);
    memset(to + WIDE - 8, 0, 8);
    status = ucxx_tag_recv(duo->right, to, WIDE, 1, UINT64_MAX, &params, &received);
    sending = ucxx_tag_send(duo->to_right, from, WIDE, 1, NULL, &sent);
    CHECK_OK(duo_finish(duo, status, &received));
    CHECK_OK(duo_finish(duo, sending, &sent));
    CHECK(info.length == WIDE && memcmp(to + WIDE - 8, &number, 8) == 0);
  }
  duo_transfer(duo, 1000, 1);
  CHECK_EQ(munmap(from, WIDE), 0);
  CHECK_EQ(munmap(to, WIDE), 0);
}

/* The longest header of each kind arrives; one byte more is refused. */
static void headers(const duo_t *duo) {
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(duo->left, &attr));
  const size_t most = attr.max_am_header;
  uint8_t *header = test_alloc(most + 1), little[8] = {0};
  ucxx_buffer_t one = {.data = little, .length = 8};
  ucxx_request_t *sent = NULL;
  size_t length = 0;
  STEP("headers of %zu bytes, and one more", most);
  test_fill(header, most, 3);
  ucxx_status_t sending = ucxx_am_send(duo->to_right, ID, header, most, little, 8, NULL, &sent);
  ucxx_am_message_t *message = await_message(duo);
  CHECK_CONTENT(ucxx_am_message_header(message, &length), most, 3);
  CHECK_EQ(length, most);
  ucxx_am_message_destroy(message);
  CHECK_OK(duo_finish(duo, sending, &sent));
  ucxx_status_t status = ucxx_am_fetch(duo->to_right, ID, header, most, little, 8, NULL, &sent);
  while (asked == NULL) duo_progress(duo);
  CHECK_CONTENT(ucxx_fetch_header(asked, &length), most, 3);
  CHECK_EQ(length, most);
  ucxx_fetch_destroy(asked);
  asked = NULL;
  CHECK_STATUS(duo_finish(duo, status, &sent), UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_am_send(duo->to_right, ID, header, most + 1, little, 8, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  CHECK_STATUS(ucxx_am_send_iov(duo->to_right, ID, header, most + 1, &one, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, ID, header, most + 1, &one, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_fetch(duo->to_right, ID, header, most + 1, little, 8, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_fetch_iov(duo->to_right, ID, header, most + 1, &one, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(
      ucxx_am_fetch_alloc(duo->to_right, ID, header, most + 1, little, 8, NULL, NULL, &sent),
      UCXX_ERR_INVALID_PARAM);
  CHECK(sent == NULL);
  free(header);
}

/* The most buffers for an allocator with defaults, one more, and more than any call takes. */
static void counts(const duo_t *duo) {
  enum { FRAMES = 65536, PARTS = 1 << 20 };
  ucxx_buffer_t *list = test_alloc(((size_t)PARTS + 1) * sizeof *list);
  uint8_t *bytes = test_alloc(FRAMES + 1), *there = test_alloc(FRAMES + 1);
  ucxx_request_t *sent = NULL, *received = NULL;
  memset(list, 0, ((size_t)PARTS + 1) * sizeof *list);
  test_fill(bytes, FRAMES + 1, 4);
  for (size_t at = 0; at <= FRAMES; at++)
    list[at] = (ucxx_buffer_t){.data = bytes + at, .length = 1};
  STEP("a message of %d buffers", FRAMES);
  ucxx_status_t status = ucxx_tag_recv(duo->right, there, FRAMES, 1, UINT64_MAX, NULL, &received);
  ucxx_status_t sending = ucxx_tag_send_iov(duo->to_right, list, FRAMES, 1, NULL, &sent);
  CHECK_OK(duo_finish(duo, status, &received));
  CHECK_OK(duo_finish(duo, sending, &sent));
  CHECK(memcmp(bytes, there, FRAMES) == 0);
  for (size_t count = FRAMES; count <= FRAMES + 1; count++) {
    STEP("%zu separate buffers", count);
    multi_count = 0;
    CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID, keep_multi, NULL, NULL, NULL));
    sending = ucxx_am_send_multi(duo->to_right, ID, NULL, 0, list, count, NULL, &sent);
    while (multi_count == 0) duo_progress(duo);
    CHECK_OK(duo_finish(duo, sending, &sent));
    CHECK_STATUS(multi_status, count == FRAMES ? UCXX_OK : UCXX_ERR_EXCEEDS_LIMIT);
    CHECK_EQ(ucxx_buffers_count(multi_came), count == FRAMES ? FRAMES : 0);
    ucxx_buffers_destroy(multi_came);
  }
  STEP("%d buffers, and one more", PARTS);
  CHECK_STATUS(ucxx_tag_send_iov(duo->to_right, list, PARTS + 1, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("count");
  CHECK_STATUS(ucxx_tag_recv_iov(duo->right, list, PARTS + 1, 1, UINT64_MAX, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_send_multi(duo->to_right, list, PARTS + 1, 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, ID, NULL, 0, list, PARTS + 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_iov(duo->to_right, ID, NULL, 0, list, PARTS + 1, NULL, &sent),
               UCXX_ERR_INVALID_PARAM);
  duo_transfer(duo, 1000, 2);
  free(list);
  free(bytes);
  free(there);
}

/* A window and a queue of default length, both full, and receives, which have no limit. */
static void in_flight(const duo_t *duo) {
  enum { SENDS = 256 + 16384, RECEIVES = 100000, TAG = 1 << 20 };
  ucxx_request_t **requests = test_alloc(RECEIVES * sizeof *requests), *none = NULL;
  uint8_t byte = 9, *there = test_alloc(RECEIVES);
  STEP("%d sends, and one more", SENDS);
  for (int at = 0; at < SENDS; at++)
    CHECK_STATUS(ucxx_tag_send_sync(duo->to_right, &byte, 1, TAG, NULL, &requests[at]),
                 UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send_sync(duo->to_right, &byte, 1, TAG, NULL, &none), UCXX_ERR_NO_RESOURCE);
  CHECK(none == NULL);
  for (int at = 0; at < SENDS; at++) {
    ucxx_status_t status = ucxx_tag_recv(duo->right, there, 1, TAG, UINT64_MAX, NULL, &none);
    CHECK_OK(duo_finish(duo, status, &none));
  }
  for (int at = 0; at < SENDS; at++) CHECK_OK(duo_finish(duo, UCXX_INPROGRESS, &requests[at]));
  STEP("%d receives", RECEIVES);
  memset(there, 0, RECEIVES);
  for (int at = 0; at < RECEIVES; at++)
    CHECK_STATUS(ucxx_tag_recv(duo->right, there + at, 1, (uint64_t)(TAG + at), UINT64_MAX, NULL,
                               &requests[at]),
                 UCXX_INPROGRESS);
  CHECK_OK(duo_finish(duo, ucxx_tag_send(duo->to_right, &byte, 1, TAG + RECEIVES - 1, NULL, &none),
                      &none));
  CHECK_OK(duo_finish(duo, UCXX_INPROGRESS, &requests[RECEIVES - 1]));
  CHECK_EQ(there[RECEIVES - 1], 9);
  for (int at = 0; at < RECEIVES - 1; at++) {
    CHECK_OK(ucxx_request_cancel(requests[at]));
    CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &requests[at]), UCXX_ERR_CANCELED);
  }
  CHECK_STATUS(ucxx_request_wait_all(requests, SIZE_MAX / 8, 0), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("count");
  duo_transfer(duo, 1000, 3);
  free(requests);
  free(there);
}

/* ------------------------------------------------------------------ endpoints */

/* Many endpoints of one worker, all used; then one without descriptors left for it, where
 * connections need them. */
static void endpoints(const duo_t *duo, unsigned count) {
  ucxx_endpoint_t **list = test_alloc(count * sizeof *list);
  struct rlimit limit;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  STEP("%u endpoints of a worker", count);
  if (limit.rlim_cur < 4 * (rlim_t)count + 100) {
    fprintf(stderr, "skipped: %u endpoints, with %llu descriptors\n", count,
            (unsigned long long)limit.rlim_cur);
    free(list);
    return;
  }
  for (unsigned at = 0; at < count; at++) list[at] = connect_workers(duo->left, duo->right);
  for (unsigned at = 0; at < count; at++) {
    uint64_t out = at, in = 0;
    ucxx_request_t *sent = NULL, *received = NULL;
    ucxx_status_t status =
        ucxx_tag_recv(duo->right, &in, sizeof in, at, UINT64_MAX, NULL, &received);
    ucxx_status_t sending = ucxx_tag_send(list[at], &out, sizeof out, at, NULL, &sent);
    CHECK_OK(duo_finish(duo, status, &received));
    CHECK_OK(duo_finish(duo, sending, &sent));
    CHECK_EQ(in, at);
  }
  for (unsigned at = 0; at < count; at++) duo_drop(duo, list[at]);
  duo_transfer(duo, 1000, 4);
  free(list);
}

/* ------------------------------------------------------------------ hubs */

static void hubs(void) {
  enum { KINDS = 32, ENVELOPES = 1 << 24 };
  ucxx_context_t *context = NULL;
  ucxx_hub_t *hub = NULL;
  ucxx_envelope_t *envelope = NULL;
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  CHECK_OK(ucxx_context_create(NULL, &context));
  STEP("a chunk of %zu bytes", WIDE);
  uint8_t *memory = wide_open(2 * (WIDE + 56));
  params.envelope_size = WIDE;
  params.max_queue_bytes = 2 * WIDE;
  CHECK_OK(ucxx_hub_create(context, &params, &hub));
  CHECK_OK(ucxx_hub_add_buffer(hub, on_host, memory, NULL, NULL));
  CHECK_OK(ucxx_hub_add_buffer(hub, on_host, memory + WIDE + 56, NULL, NULL));
  for (int at = 0; at < 2; at++) {
    CHECK_OK(ucxx_hub_push(hub, on_host, &envelope));
    CHECK(look_at(envelope).capacity == WIDE);
    ((uint8_t *)look_at(envelope).data)[WIDE - 1] = (uint8_t)(5 + at);
    CHECK_STATUS(ucxx_envelope_commit(envelope, WIDE + 1, NULL), UCXX_ERR_INVALID_PARAM);
    CHECK_OK(ucxx_envelope_commit(envelope, WIDE, NULL));
  }
  CHECK_STATUS(ucxx_hub_push(hub, on_host, &envelope), UCXX_ERR_NO_RESOURCE);
  ucxx_link_t *out = hub_link(hub, UCXX_LINK_CONSUME, on_host);
  for (int at = 0; at < 2; at++) {
    envelope = lease_now(out);
    CHECK(look_at(envelope).length == WIDE);
    CHECK_EQ(((uint8_t *)look_at(envelope).data)[WIDE - 1], 5 + at);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  ucxx_link_destroy(out);
  ucxx_hub_destroy(hub);
  CHECK_EQ(munmap(memory, 2 * (WIDE + 56)), 0);
  STEP("%d kinds of memory, and one more", KINDS);
  params.envelope_size = 1;
  params.max_queue_bytes = 0;
  CHECK_OK(ucxx_hub_create(context, &params, &hub));
  for (int32_t device = 0; device < KINDS; device++)
    CHECK_OK(ucxx_hub_add_envelopes(hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, device}, 1));
  CHECK_STATUS(ucxx_hub_add_envelopes(hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, KINDS}, 1),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("kind");
  CHECK_STATUS(ucxx_link_create(hub, UCXX_LINK_CONSUME,
                                (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, KINDS}, NULL, &out),
               UCXX_ERR_EXCEEDS_LIMIT);
  STEP("more than %d envelopes in all", ENVELOPES);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, 0},
                                      ENVELOPES - KINDS + 1),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("envelopes");
  CHECK_STATUS(
      ucxx_hub_add_envelopes(hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, 0}, ENVELOPES + 1),
      UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub, (ucxx_memory_kind_t){UCXX_MEMORY_DUMMY, 0}, SIZE_MAX),
               UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_EQ(hub_stats(hub).free_envelopes, KINDS);
  ucxx_hub_destroy(hub);
  STEP("the largest envelope, and one more byte");
  params.envelope_size = (size_t)1 << 47;
  CHECK_OK(ucxx_hub_create(context, &params, &hub));
  CHECK_STATUS(ucxx_hub_add_envelopes(hub, on_host, 1), UCXX_ERR_NO_MEMORY);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub, on_host, 1 << 20), UCXX_ERR_NO_MEMORY);
  ucxx_hub_destroy(hub);
  params.envelope_size++;
  CHECK_STATUS(ucxx_hub_create(context, &params, &hub), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("envelope_size");
  ucxx_context_destroy(context);
}

/* The largest window of a stream. */
static void streams(const duo_t *duo) {
  STEP("a stream's window of 65536, and one more");
  end_t end = end_open(duo->context, duo->right, 8, 4);
  ucxx_endpoint_t *back = connect_workers(duo->right, duo->left);
  CHECK_STATUS(ucxx_link_connect(end.in, back, 1, 65537), UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_MESSAGE("window");
  CHECK_OK(ucxx_link_connect(end.in, back, 1, 65536));
  end_close(&end);
  duo_drop(duo, back);
}

/* ------------------------------------------------------------------ groups and names */

/* An allgather that returns this member's data for every member. */
static ucxx_status_t all_alike(void *arg, const void *data, size_t length, void *out) {
  for (uint32_t rank = 0; rank < *(const uint32_t *)arg; rank++)
    memcpy((char *)out + rank * length, data, length);
  return UCXX_OK;
}

static void group_sizes(ucxx_worker_t *worker) {
  uint32_t size = 4096;
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  ucxx_group_t *group = NULL;
  ucxx_endpoint_t *last = NULL;
  STEP("the data of a group of %u", (unsigned)size);
  const footprint_t before = footprint_now();
  params.bootstrap = UCXX_BOOTSTRAP_CALLBACKS;
  params.allgather = all_alike;
  params.allgather_arg = &size;
  params.size = size;
  params.rank = size - 1;
  CHECK_OK(ucxx_group_create(worker, &params, &group));
  CHECK_EQ(ucxx_group_size(group), size);
  CHECK_EQ(ucxx_group_same_host(group, size - 1), 1);
  CHECK_OK(ucxx_group_endpoint(group, size - 1, &last));
  CHECK_STATUS(ucxx_group_endpoint(group, size, &last), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS((ucxx_status_t)ucxx_group_same_host(group, size), UCXX_ERR_INVALID_PARAM);
  const footprint_t after = footprint_now();
  printf("%u members: %ld KiB, %ld descriptors\n", (unsigned)size,
         after.resident_kib - before.resident_kib, after.descriptors - before.descriptors);
  ucxx_group_destroy(group);
  STEP("too many");
  params.size = (1 << 20) + 1;
  CHECK_STATUS(ucxx_group_create(worker, &params, &group), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("size");
}

static void somebody(void *arg, ucxx_conn_request_t *conn_request) {
  (void)arg;
  ucxx_conn_request_destroy(conn_request);
}

/* Names of 1 MiB. */
static void names(ucxx_context_t *context, ucxx_worker_t *worker) {
  enum { LONG = 1 << 20 };
  char *name = test_alloc(LONG + 1);
  memset(name, 'a', LONG);
  name[LONG] = 0;
  STEP("names of %d bytes", LONG);
  ucxx_context_params_t with_name = UCXX_CONTEXT_PARAMS_INIT;
  with_name.name = name;
  ucxx_context_t *named = NULL;
  CHECK_OK(ucxx_context_create(&with_name, &named));
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  worker_params.name = name;
  worker_params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  ucxx_worker_t *other = NULL;
  CHECK_OK(ucxx_worker_create(named, &worker_params, &other));
  ucxx_worker_destroy(other);
  ucxx_context_destroy(named);
  STEP("the longest queue, and one more");
  worker_params.name = NULL;
  worker_params.submission_queue_depth = 1 << 20;
  CHECK_OK(ucxx_worker_create(context, &worker_params, &other));
  ucxx_worker_destroy(other);
  worker_params.submission_queue_depth++;
  CHECK_STATUS(ucxx_worker_create(context, &worker_params, &other), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("submission_queue_depth");
  STEP("names of hosts, of variables, and values");
  ucxx_listener_params_t listen = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_group_t *group = NULL;
  listen.host = name;
  listen.on_connect = somebody;
  CHECK_STATUS(ucxx_listener_create(worker, &listen, &listener), UCXX_ERR_UNREACHABLE);
  CHECK_STATUS(ucxx_endpoint_connect(worker, name, 1, NULL, &endpoint), UCXX_ERR_UNREACHABLE);
  ucxx_group_params_t join = UCXX_GROUP_PARAMS_INIT;
  join.bootstrap = UCXX_BOOTSTRAP_TCP;
  join.size = 2;
  join.root = name;
  CHECK_STATUS(ucxx_group_create(worker, &join, &group), UCXX_ERR_INVALID_PARAM);
  ucxx_context_params_t strange = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_config_entry_t entry = {"TLS", name};
  strange.config = &entry;
  strange.config_count = 1;
  named = NULL;
  ucxx_status_t status = ucxx_context_create(&strange, &named);
  CHECK(status < 0 && named == NULL);
  entry = (ucxx_config_entry_t){name, "1"};
  status = ucxx_context_create(&strange, &named);
  if (status == UCXX_OK) {
    status = ucxx_worker_create(named, NULL, &other);
    ucxx_context_destroy(named);
    named = NULL;
  }
  CHECK_STATUS(status, UCXX_ERR_INVALID_PARAM);
  strange.config_count = 10001;
  CHECK_STATUS(ucxx_context_create(&strange, &named), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("config_count");
  STEP("an address of 1 MiB and a byte");
  ucxx_address_t *address = NULL;
  CHECK_STATUS(ucxx_address_from_bytes(name, LONG + 1, &address), UCXX_ERR_INVALID_ADDR);
  CHECK_STATUS(ucxx_address_from_bytes(name, SIZE_MAX, &address), UCXX_ERR_INVALID_PARAM);
  free(name);
}

/* limits [ENDPOINTS]: with an argument this many endpoints, and also the parts that take
 * seconds. */
int main(int argc, char **argv) {
  const unsigned many = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 200;
  const int over_network = test_hosts() > 1;
  test_begin("limits");
  void *most = mmap(NULL, 2 * WIDE + PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (most == MAP_FAILED) test_skip("cannot reserve 8 GiB of address space");
  CHECK_EQ(munmap(most, 2 * WIDE + PAGE), 0);
  run_members(2, test_seed(), wide_window);
  run_members(2, test_seed(), regions);
  if (argc > 1 || !over_network) run_members(2, test_seed(), wide_put);
  duo_t duo;
  duo_open(&duo, NULL);
  wide_messages(&duo, argc > 1);
  headers(&duo);
  counts(&duo);
  in_flight(&duo);
  endpoints(&duo, many);
  streams(&duo);
  group_sizes(duo.left);
  names(duo.context, duo.left);
  duo_close(&duo);
  hubs();
  return 0;
}
