/*
 * Shared by the tests of the send window: a sender driven in one of several ways, and a receiver in
 * the same process that progresses only on request. Synchronous sends stay in flight until they are
 * received, on every transport. Include after test_util.h.
 */
#ifndef UCXX_RS_WINDOW_H
#define UCXX_RS_WINDOW_H
#include <sched.h>

typedef struct way {
  const char *name;
  int32_t thread_mode, progress_mode, delayed;
} way_t;
static const way_t ways[] = {
    {"SINGLE", UCXX_THREAD_SINGLE, UCXX_PROGRESS_MANUAL, 0},
    {"MULTI", UCXX_THREAD_MULTI, UCXX_PROGRESS_MANUAL, 0},
    {"progress thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_ADAPTIVE, 1},
    {"progress thread, direct submission", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_BLOCKING, -1},
};
enum { WAYS = sizeof ways / sizeof *ways, TAG = 7 };

typedef struct line {
  const way_t *way;
  ucxx_context_t *context;
  ucxx_worker_t *from, *to;
  ucxx_endpoint_t *endpoint;
  seen_t closed;
} line_t;

static inline int is_threaded(const line_t *line) {
  return line->way->progress_mode != UCXX_PROGRESS_MANUAL;
}

static inline int is_delayed(const line_t *line) {
  return is_threaded(line) && line->way->delayed == 1;
}

/* Progresses only the sender. */
static inline void drive_sender(const line_t *line) { progress(line->from); }

static inline void drive(const line_t *line) {
  drive_sender(line);
  progress(line->to);
}

/* From ucxx_endpoint_query and ucxx_endpoint_query_load. */
typedef struct standing {
  uint64_t operations_sent, bytes_sent, in_flight, window_operations, window_bytes,
      queued_operations, queued_bytes;
} standing_t;

static inline standing_t attr_of(const ucxx_endpoint_t *endpoint) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  ucxx_endpoint_load_t load = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_endpoint_query(endpoint, &attr));
  CHECK_OK(ucxx_endpoint_query_load(endpoint, &load));
  standing_t standing = {attr.operations_sent,   attr.bytes_sent,   attr.in_flight,
                         load.window_operations, load.window_bytes, load.queued_operations,
                         load.queued_bytes};
  return standing;
}

static inline ucxx_endpoint_t *add_endpoint(line_t *line, const ucxx_endpoint_params_t *params) {
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(ucxx_worker_address(line->to, &address));
  CHECK_OK(ucxx_endpoint_create(line->from, address, params, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

/* Transfers one message, so that the connection is established and nothing is in flight. */
static inline void touch(line_t *line, ucxx_endpoint_t *endpoint) {
  uint64_t out = 1, in = 0;
  ucxx_request_t *receive = NULL, *send = NULL;
  ucxx_status_t received = ucxx_tag_recv(line->to, &in, sizeof in, 1, UINT64_MAX, NULL, &receive);
  CHECK_EQ(received, UCXX_INPROGRESS);
  ucxx_status_t sent = ucxx_tag_send_sync(endpoint, &out, sizeof out, 1, NULL, &send);
  CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
  while (ucxx_request_status(receive) == UCXX_INPROGRESS ||
         (send != NULL && ucxx_request_status(send) == UCXX_INPROGRESS))
    drive(line);
  CHECK_OK(ucxx_request_status(receive));
  CHECK_EQ(in, 1);
  ucxx_request_destroy(receive);
  ucxx_request_destroy(send);
  while (attr_of(endpoint).in_flight != 0) drive(line);
}

static inline void line_open(line_t *line, const way_t *way, ucxx_endpoint_params_t params) {
  memset(line, 0, sizeof *line);
  line->way = way;
  CHECK_OK(ucxx_context_create(NULL, &line->context));
  ucxx_worker_params_t worker = UCXX_WORKER_PARAMS_INIT;
  worker.thread_mode = way->thread_mode;
  worker.progress_mode = way->progress_mode;
  worker.delayed_submission = way->delayed;
  CHECK_OK(ucxx_worker_create(line->context, &worker, &line->from));
  CHECK_OK(ucxx_worker_create(line->context, NULL, &line->to));
  if (params.on_close == NULL) {
    params.on_close = see_endpoint;
    params.on_close_arg = &line->closed;
  }
  line->endpoint = add_endpoint(line, &params);
  touch(line, line->endpoint);
}

/* Both sides progress until the operation completes; returns its status. */
static inline ucxx_status_t line_finish(const line_t *line, ucxx_status_t status,
                                        ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) return status;
  while ((status = ucxx_request_status(*request)) == UCXX_INPROGRESS) drive(line);
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

static inline void line_close(line_t *line) {
  if (line->endpoint != NULL) {
    ucxx_request_t *close = NULL;
    ucxx_status_t status = close_patiently(line->endpoint, &close);
    if (status != UCXX_ERR_CLOSED) CHECK_OK(line_finish(line, status, &close));
    ucxx_endpoint_destroy(line->endpoint);
  }
  ucxx_worker_destroy(line->from);
  ucxx_worker_destroy(line->to);
  ucxx_context_destroy(line->context);
}

static inline ucxx_endpoint_params_t limits(uint32_t window_ops, uint64_t window_bytes,
                                            uint32_t queue_ops, uint64_t queue_bytes) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.send_window_ops = window_ops;
  params.send_window_bytes = window_bytes;
  params.send_queue_ops = queue_ops;
  params.send_queue_bytes = queue_bytes;
  return params;
}

/* Waits for the count: a progress thread takes submitted operations in its own time. */
static inline void await_in_flight(const line_t *line, uint64_t count) {
  while (attr_of(line->endpoint).in_flight != count) drive_sender(line);
}

/* Receives the next message on TAG and checks the number in its first eight bytes. */
static inline void receive_number(const line_t *line, uint64_t number) {
  uint64_t in[64] = {UINT64_MAX};
  ucxx_request_t *receive = NULL;
  ucxx_status_t status = ucxx_tag_recv(line->to, in, sizeof in, TAG, UINT64_MAX, NULL, &receive);
  CHECK_OK(line_finish(line, status, &receive));
  CHECK_EQ(in[0], number);
}

static inline ucxx_status_t send_sync(const line_t *line, const uint64_t *number, size_t length,
                                      ucxx_request_t **request) {
  return ucxx_tag_send_sync(line->endpoint, number, length, TAG, NULL, request);
}

/* Sends numbers[0..count) and waits until each is in the window or in the queue. */
static inline void fill(const line_t *line, uint64_t *numbers, ucxx_request_t **requests,
                        unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    numbers[i] = i;
    CHECK_EQ(send_sync(line, &numbers[i], 8, &requests[i]), UCXX_INPROGRESS);
  }
  await_in_flight(line, count);
}

static inline void check_window(const line_t *line, uint64_t operations, uint64_t queued) {
  standing_t attr = attr_of(line->endpoint);
  CHECK_EQ(attr.window_operations, operations);
  CHECK_EQ(attr.window_bytes, 8 * operations);
  CHECK_EQ(attr.queued_operations, queued);
  CHECK_EQ(attr.queued_bytes, 8 * queued);
  CHECK_EQ(attr.in_flight, operations + queued);
}

static inline int nothing_arrived(const line_t *line) {
  ucxx_recv_info_t info;
  return ucxx_tag_probe(line->to, TAG, UINT64_MAX, &info, NULL) == UCXX_ERR_NO_MESSAGE;
}
#endif
