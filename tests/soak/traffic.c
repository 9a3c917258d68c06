/*
 * Mixed traffic among the members of a group for a given time, with guests that connect and leave:
 * tags, streams, active messages, fetches, multi-buffer messages, puts and gets, windows and hubs.
 * Contents are checked, and the process's resources at the end are compared with those after a
 * fifth of the time.
 *
 *   scripts/group.sh 4 traffic SECONDS
 */
#include "test_util.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  MEMBERS = 8,
  LARGEST = 1 << 18,
  KEY = 1024,
  HEADER = 24,
  GUEST_EVERY = 25,
  SAMPLES = 200000,
  KEPT_KIB = 32768
};
enum { ID_DATA = 1, ID_GUEST = 2, ID_ANSWER = 3 };

extern char **environ;

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static ucxx_group_t *group;
static uint32_t rank, size;
static ucxx_endpoint_t *to[MEMBERS];
static ucxx_rkey_t *keys[MEMBERS];
static ucxx_memory_t *memory;
static ucxx_window_t *window;
static ucxx_hub_t *hub;
static ucxx_link_t *produce, *consume;
static uint8_t *out_bytes, *in_bytes, *answer_bytes;
static uint64_t seed, turns, guests;
static unsigned data_messages, multi_messages, answers;
static uint32_t latency[SAMPLES];
static size_t latencies;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* The same at all members, so that a receiver knows what is sent. */
static size_t length_of(uint64_t turn, uint32_t from, unsigned what) {
  uint64_t drawn = test_mix(seed + turn * 64 + from * 8 + what);
  return drawn % 4 == 0 ? drawn / 4 % LARGEST : 1 + drawn / 4 % 4096;
}

static uint64_t content_of(uint64_t turn, uint32_t from, unsigned what) {
  return test_mix(turn * 1024 + from * 16 + what);
}

static void on_data(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  size_t length;
  const uint64_t *header = ucxx_am_message_header(message, &length);
  CHECK_EQ(length, HEADER);
  const void *data = ucxx_am_message_data(message);
  if (data != NULL) CHECK_CONTENT(data, ucxx_am_message_length(message), header[0]);
  ucxx_am_message_destroy(message);
  __atomic_add_fetch(&data_messages, 1, __ATOMIC_RELEASE);
}

static void on_guest(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  size_t length;
  const void *header = ucxx_am_message_header(message, &length);
  /* The sender may have disconnected already. */
  ucxx_status_t status =
      ucxx_am_send(ucxx_am_message_reply(message), ID_ANSWER, header, length, NULL, 0, NULL, NULL);
  (void)status;
  ucxx_am_message_destroy(message);
}

static void on_answer(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  ucxx_am_message_destroy(message);
  __atomic_add_fetch(&answers, 1, __ATOMIC_RELEASE);
}

static void on_question(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  size_t length;
  const uint64_t *header = ucxx_fetch_header(fetch, &length);
  CHECK_EQ(length, HEADER);
  CHECK(header[1] <= LARGEST && ucxx_fetch_reply(fetch, answer_bytes, header[1], NULL, NULL) >= 0);
  ucxx_fetch_destroy(fetch);
}

static void on_frames(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                      ucxx_buffers_t *buffers, ucxx_status_t status) {
  (void)arg;
  (void)reply;
  uint64_t content;
  CHECK_OK(status);
  CHECK_EQ(header_length, sizeof content);
  memcpy(&content, header, sizeof content);
  for (size_t at = 0; at < ucxx_buffers_count(buffers); at++) {
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_buffers_get(buffers, at, &buffer));
    CHECK_CONTENT(buffer.data, buffer.length, content);
  }
  ucxx_buffers_destroy(buffers);
  __atomic_add_fetch(&multi_messages, 1, __ATOMIC_RELEASE);
}

static void exchange_tag(uint64_t turn, uint32_t right, uint32_t left) {
  ucxx_request_t *receive = NULL, *send = NULL;
  size_t length = length_of(turn, rank, 0), theirs = length_of(turn, left, 0);
  test_fill(out_bytes, length, content_of(turn, rank, 0));
  ucxx_status_t received =
      ucxx_tag_recv(worker, in_bytes, LARGEST, turn * MEMBERS + left, UINT64_MAX, NULL, &receive);
  CHECK_OK(finish(ucxx_tag_send(to[right], out_bytes, length, turn * MEMBERS + rank, NULL, &send),
                  &send));
  CHECK_OK(finish(received, &receive));
  CHECK_CONTENT(in_bytes, theirs, content_of(turn, left, 0));
}

static void exchange_stream(uint64_t turn, uint32_t right, uint32_t left) {
  ucxx_request_t *receive = NULL, *send = NULL;
  size_t length = length_of(turn, rank, 1), theirs = length_of(turn, left, 1);
  test_fill(out_bytes, length, content_of(turn, rank, 1));
  ucxx_status_t received = ucxx_stream_recv(to[left], in_bytes, theirs, NULL, &receive);
  CHECK_OK(finish(ucxx_stream_send(to[right], out_bytes, length, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
  CHECK_CONTENT(in_bytes, theirs, content_of(turn, left, 1));
}

static void send_messages(uint64_t turn, uint32_t right) {
  ucxx_request_t *send = NULL;
  uint64_t header[3] = {content_of(turn, rank, 2)};
  size_t length = length_of(turn, rank, 2);
  test_fill(out_bytes, length, header[0]);
  CHECK_OK(finish(
      ucxx_am_send(to[right], ID_DATA, header, sizeof header, out_bytes, length, NULL, &send),
      &send));
  ucxx_buffer_t frames[3];
  memset(frames, 0, sizeof frames);
  uint64_t content = content_of(turn, rank, 3);
  test_fill(out_bytes, LARGEST, content);
  for (int at = 0; at < 3; at++)
    frames[at] = (ucxx_buffer_t){.data = out_bytes,
                                 .length = length_of(turn, rank, 3 + (unsigned)at),
                                 .memory_type = UCXX_MEMORY_HOST};
  CHECK_OK(finish(
      ucxx_am_send_multi(to[right], ID_DATA, &content, sizeof content, frames, 3, NULL, &send),
      &send));
}

static void fetch_from(uint64_t turn, uint32_t right) {
  ucxx_request_t *request = NULL;
  uint64_t header[3] = {0, length_of(turn, rank, 6)};
  CHECK_OK(finish(
      ucxx_am_fetch(to[right], ID_DATA, header, sizeof header, in_bytes, LARGEST, NULL, &request),
      &request));
  CHECK_CONTENT(in_bytes, header[1], right);
  header[1] = 8;
  uint64_t begun = now_ns();
  CHECK_OK(
      finish(ucxx_am_fetch(to[right], ID_DATA, header, sizeof header, in_bytes, 8, NULL, &request),
             &request));
  if (latencies < SAMPLES) latency[latencies++] = (uint32_t)(now_ns() - begun);
}

/* Each member has its own part of every member's memory; all add to the first word. */
static void put_and_get(uint64_t turn, uint32_t right) {
  ucxx_request_t *request = NULL;
  size_t length = 1 + length_of(turn, rank, 7) % 32768;
  uint64_t one = 1, offset = 4096 + rank * 32768;
  test_fill(out_bytes, length, content_of(turn, rank, 7));
  CHECK_OK(finish(ucxx_rma_put(keys[right], out_bytes, length, offset, NULL, &request), &request));
  CHECK_OK(finish(ucxx_endpoint_flush(to[right], NULL, &request), &request));
  CHECK_OK(finish(ucxx_rma_get(keys[right], in_bytes, length, offset, NULL, &request), &request));
  CHECK_CONTENT(in_bytes, length, content_of(turn, rank, 7));
  CHECK_OK(
      finish(ucxx_rma_atomic(keys[right], UCXX_ATOMIC_ADD, 8, &one, NULL, NULL, 0, NULL, &request),
             &request));
}

static void use_window(uint64_t turn, uint32_t right) {
  ucxx_layout_t words;
  uint64_t value[8], back[8], before, one = 1;
  ucxx_layout_init_contiguous(&words, UCXX_TYPE_UINT64, 8);
  test_fill(value, sizeof value, content_of(turn, rank, 8));
  CHECK_OK(ucxx_window_lock(window, turn % 2 ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE, right, 0));
  CHECK_OK(ucxx_window_put(window, value, &words, right, 64 + rank * 64, &words));
  CHECK_OK(ucxx_window_flush(window, right));
  CHECK_OK(ucxx_window_get(window, back, &words, right, 64 + rank * 64, &words));
  CHECK_OK(ucxx_window_flush(window, right));
  CHECK(memcmp(value, back, sizeof value) == 0);
  CHECK_OK(
      ucxx_window_fetch_and_op(window, &one, &before, UCXX_TYPE_UINT64, right, 0, UCXX_REDUCE_SUM));
  CHECK_OK(ucxx_window_unlock(window, right));
  /* Only one neighbour adds there. */
  CHECK_EQ(before, turn);
}

static void pass_chunk(uint64_t turn, uint32_t right, uint32_t left) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  ucxx_request_t *receive = NULL, *send = NULL;
  CHECK_OK(ucxx_link_lease(produce, FOR_EVER, &envelope));
  CHECK_OK(ucxx_envelope_query(envelope, &attr));
  test_fill(attr.data, 4096, content_of(turn, rank, 9));
  CHECK_OK(ucxx_envelope_commit(envelope, 4096, NULL));
  CHECK_OK(finish(ucxx_link_send(consume, to[right], UINT64_MAX - rank, NULL, &send), &send));
  CHECK_OK(
      finish(ucxx_link_recv(produce, UINT64_MAX - left, UINT64_MAX, NULL, &receive), &receive));
  CHECK_OK(ucxx_link_lease(consume, FOR_EVER, &envelope));
  CHECK_OK(ucxx_envelope_query(envelope, &attr));
  CHECK_EQ(attr.length, 4096);
  CHECK_CONTENT(attr.data, 4096, content_of(turn, left, 9));
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
}

/* ------------------------------------------------------------------ guests */

/* Connects, fetches, and leaves: with a close, without one, or by a signal. */
static int be_guest(const char *text, uint64_t how) {
  static uint8_t bytes[4096];
  size_t length = strlen(text) / 2;
  unsigned byte;
  CHECK(length <= sizeof bytes);
  for (size_t at = 0; at < length; at++) {
    CHECK(sscanf(text + 2 * at, "%2x", &byte) == 1);
    bytes[at] = (uint8_t)byte;
  }
  ucxx_address_t *address;
  ucxx_endpoint_t *endpoint;
  ucxx_request_t *request = NULL;
  in_bytes = test_alloc(LARGEST);
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_ANSWER, on_answer, NULL, NULL));
  CHECK_OK(ucxx_address_from_bytes(bytes, length, &address));
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &endpoint));
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_AM_REPLY;
  uint64_t header[3] = {0, 20000};
  CHECK_OK(
      finish(ucxx_am_send(endpoint, ID_GUEST, header, sizeof header, NULL, 0, &params, &request),
             &request));
  while (__atomic_load_n(&answers, __ATOMIC_ACQUIRE) == 0) progress(worker);
  CHECK_OK(finish(
      ucxx_am_fetch(endpoint, ID_DATA, header, sizeof header, in_bytes, LARGEST, NULL, &request),
      &request));
  if (how % 3 == 0) raise(SIGKILL);
  if (how % 3 == 1) _exit(0);
  CHECK_OK(finish(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, NULL, &request), &request));
  ucxx_endpoint_destroy(endpoint);
  ucxx_address_destroy(address);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}

static void invite_guest(uint64_t how) {
  ucxx_address_t *address;
  CHECK_OK(ucxx_worker_address(worker, &address));
  size_t length = ucxx_address_length(address);
  const uint8_t *bytes = ucxx_address_data(address);
  char *text = test_alloc(2 * length + 1), number[24];
  for (size_t at = 0; at < length; at++) sprintf(text + 2 * at, "%02x", bytes[at]);
  ucxx_address_destroy(address);
  snprintf(number, sizeof number, "%llu", (unsigned long long)how);
  char *arguments[] = {"traffic", "--guest", text, number, NULL};
  pid_t guest;
  int status = 0;
  CHECK(posix_spawn(&guest, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
  CHECK(waitpid(guest, &status, 0) == guest);
  CHECK(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : how % 3 == 0 && WTERMSIG(status) == SIGKILL);
  free(text);
  guests++;
}

/* ------------------------------------------------------------------ the group */

static void open_all(void) {
  ucxx_context_params_t all = UCXX_CONTEXT_PARAMS_INIT;
  all.features = UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM | UCXX_FEATURE_RMA |
                 UCXX_FEATURE_ATOMIC | UCXX_FEATURE_WAKEUP;
  ucxx_worker_params_t threaded = UCXX_WORKER_PARAMS_INIT;
  threaded.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  ucxx_group_params_t launched = UCXX_GROUP_PARAMS_INIT;
  launched.bootstrap = UCXX_BOOTSTRAP_ENV;
  CHECK_OK(ucxx_context_create(&all, &context));
  CHECK_OK(ucxx_worker_create(context, &threaded, &worker));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_DATA, on_data, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_GUEST, on_guest, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID_DATA, on_question, NULL, NULL));
  CHECK_OK(ucxx_worker_set_multi_handler(worker, ID_DATA, on_frames, NULL, NULL, NULL));
  CHECK_OK(ucxx_group_create(worker, &launched, &group));
  rank = ucxx_group_rank(group);
  size = ucxx_group_size(group);
  CHECK(size >= 2 && size <= MEMBERS);
  CHECK_OK(ucxx_group_broadcast(group, &seed, sizeof seed, 0));
  out_bytes = test_alloc(LARGEST);
  in_bytes = test_alloc(LARGEST);
  answer_bytes = test_alloc(LARGEST);
  test_fill(answer_bytes, LARGEST, rank);
  static uint8_t own[KEY], packed[MEMBERS * KEY];
  size_t length = KEY - 8;
  CHECK_OK(ucxx_memory_allocate(context, 4096 + MEMBERS * 32768, UCXX_MEMORY_HOST, &memory));
  CHECK_OK(ucxx_memory_pack(memory, own + 8, &length));
  memcpy(own, &length, sizeof length);
  CHECK_OK(ucxx_group_allgather(group, own, KEY, packed));
  for (uint32_t at = 0; at < size; at++) {
    CHECK_OK(ucxx_group_endpoint(group, at, &to[at]));
    memcpy(&length, packed + at * KEY, sizeof length);
    CHECK_OK(ucxx_rkey_unpack(to[at], packed + at * KEY + 8, length, &keys[at]));
  }
  void *base;
  CHECK_OK(ucxx_window_allocate(group, 4096, 1, NULL, &base, &window));
  ucxx_hub_params_t hub_params = UCXX_HUB_PARAMS_INIT;
  hub_params.envelope_size = 4096;
  hub_params.worker = worker;
  ucxx_memory_kind_t kind = {.memory_type = UCXX_MEMORY_HOST};
  CHECK_OK(ucxx_hub_create(context, &hub_params, &hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub, kind, 4));
  CHECK_OK(ucxx_link_create(hub, UCXX_LINK_PRODUCE, kind, NULL, &produce));
  CHECK_OK(ucxx_link_create(hub, UCXX_LINK_CONSUME, kind, NULL, &consume));
}

static void close_all(void) {
  ucxx_link_destroy(produce);
  ucxx_link_destroy(consume);
  ucxx_hub_destroy(hub);
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  for (uint32_t at = 0; at < size; at++) ucxx_rkey_destroy(keys[at]);
  CHECK_OK(ucxx_group_barrier(group));
  ucxx_memory_destroy(memory);
  ucxx_group_destroy(group);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

static void one_turn(uint64_t turn) {
  uint32_t right = (rank + 1) % size, left = (rank + size - 1) % size;
  exchange_tag(turn, right, left);
  exchange_stream(turn, right, left);
  send_messages(turn, right);
  fetch_from(turn, right);
  put_and_get(turn, right);
  use_window(turn, right);
  pass_chunk(turn, right, left);
  if (turn % GUEST_EVERY == 0 && turn / GUEST_EVERY % size == rank)
    invite_guest(turn / GUEST_EVERY / size);
}

static int by_value(const void *left, const void *right) {
  const uint32_t *one = left, *other = right;
  return (*one > *other) - (*one < *other);
}

static double median_us(size_t from, size_t to_) {
  if (from >= to_) return 0;
  uint32_t *sorted = test_alloc((to_ - from) * sizeof *sorted);
  memcpy(sorted, latency + from, (to_ - from) * sizeof *sorted);
  qsort(sorted, to_ - from, sizeof *sorted, by_value);
  double middle = sorted[(to_ - from) / 2] / 1000.0;
  free(sorted);
  return middle;
}

static footprint_t settled(void) {
  malloc_trim(0);
  return footprint_now();
}

int main(int argc, char **argv) {
  test_begin("traffic");
  if (argc == 4 && strcmp(argv[1], "--guest") == 0)
    return be_guest(argv[2], strtoull(argv[3], NULL, 10));
  uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
  seed = test_seed();
  open_all();
  uint64_t begun = now_ns();
  footprint_t first = {0};
  size_t warm = 0;
  for (uint8_t on = 1;; turns++) {
    STEP("turn %llu of seed 0x%llx", (unsigned long long)turns, (unsigned long long)seed);
    uint64_t passed = now_ns() - begun;
    on = passed < seconds * SECOND;
    CHECK_OK(ucxx_group_broadcast(group, &on, 1, 0));
    if (!on) break;
    if (warm == 0 && passed > seconds * SECOND / 5) {
      first = settled();
      warm = latencies;
    }
    one_turn(turns);
  }
  CHECK_OK(ucxx_group_barrier(group));
  /* Everything sent has arrived. */
  while (__atomic_load_n(&data_messages, __ATOMIC_ACQUIRE) < turns ||
         __atomic_load_n(&multi_messages, __ATOMIC_ACQUIRE) < turns)
    usleep(1000);
  footprint_t last = settled();
  size_t fifth = (latencies - warm) / 4;
  printf(
      "member %u: %llu turns, %llu guests; %ld to %ld KiB resident, %ld to %ld mappings, %ld to "
      "%ld descriptors, %ld to %ld threads; a fetch of 8 bytes %.1f us at first, %.1f us at last\n",
      rank, (unsigned long long)turns, (unsigned long long)guests, first.resident_kib,
      last.resident_kib, first.mappings, last.mappings, first.descriptors, last.descriptors,
      first.threads, last.threads, median_us(warm, warm + fifth),
      median_us(latencies - fifth, latencies));
  CHECK(turns > 0 && warm > 0);
  if (last.resident_kib > first.resident_kib + KEPT_KIB ||
      last.descriptors > first.descriptors + 8 || last.threads > first.threads)
    FAIL("the process's resources have grown");
  close_all();
  return 0;
}
