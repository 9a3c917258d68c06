/* Bad input: active messages. See bad_input.h. */
#include "bad_input.h"

#define HUGE_SIGNED ((size_t)PTRDIFF_MAX + 1)

enum { ID_HERE = 0x5151 };

static const char text[] = "twenty-four bytes, just so";
static ucxx_am_message_t *arrived;

static void keep(void *arg, ucxx_am_message_t *message) {
  CHECK(arg == &arrived && arrived == NULL);
  arrived = message;
}

static void no_handler(ucxx_worker_t *worker) {
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_HERE, NULL, NULL, NULL));
}

/* Waits for the message sent to `worker`. */
static ucxx_am_message_t *await(fixture_t *f, ucxx_worker_t *worker) {
  while (arrived == NULL) duo_progress(&f->duo);
  no_handler(worker);
  ucxx_am_message_t *message = arrived;
  arrived = NULL;
  return message;
}

static void expect(ucxx_worker_t *worker) {
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_HERE, keep, &arrived, NULL));
}

/* Receives on the right what a send on `endpoint` sent, if it was accepted. */
static ucxx_status_t take(fixture_t *f, ucxx_status_t sent, ucxx_request_t *request,
                          size_t header_length, size_t length) {
  if (sent < 0) {
    no_handler(f->duo.right);
    return sent;
  }
  ucxx_am_message_t *message = await(f, f->duo.right);
  ucxx_request_t *receive = NULL;
  char in[64] = {0};
  size_t headed = 0;
  const void *header = ucxx_am_message_header(message, &headed);
  CHECK_EQ(headed, header_length);
  CHECK((header == NULL) == (headed == 0));
  CHECK(headed == 0 || memcmp(header, text, headed) == 0);
  CHECK_EQ(ucxx_am_message_length(message), length);
  CHECK_OK(
      duo_finish(&f->duo, ucxx_am_message_recv(message, in, sizeof in, NULL, &receive), &receive));
  CHECK(memcmp(in, text, length) == 0);
  ucxx_am_message_destroy(message);
  return duo_finish(&f->duo, sent, &request);
}

static ucxx_status_t try_am_send(fixture_t *f, const void *params) {
  expect(f->duo.right);
  ucxx_status_t status =
      ucxx_am_send(f->endpoint, ID_HERE, text, 8, text, 24, params, &f->out.request);
  return take(f, status, f->out.request, 8, 24);
}

static ucxx_status_t try_am_empty(fixture_t *f) {
  expect(f->duo.right);
  ucxx_status_t status =
      ucxx_am_send(f->endpoint, ID_HERE, NULL, 0, NULL, 0, NULL, &f->out.request);
  return take(f, status, f->out.request, 0, 0);
}

static ucxx_status_t try_am_send_iov(fixture_t *f, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, (void *)(uintptr_t)text, 12, UCXX_MEMORY_AUTO);
  entries[1].data = (void *)(uintptr_t)(text + 12);
  expect(f->duo.right);
  ucxx_status_t status =
      ucxx_am_send_iov(f->endpoint, ID_HERE, text, 8, entries, 2, params, &f->out.request);
  return take(f, status, f->out.request, 8, 24);
}

static ucxx_status_t am_send_entries(fixture_t *f, void *data, uint64_t length, int32_t memory_type,
                                     size_t count) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, data, length, memory_type);
  return ucxx_am_send_iov(f->endpoint, ID_HERE, NULL, 0, entries, count, NULL, &f->out.request);
}

static ucxx_status_t queue_entries(fixture_t *f, void *data, uint64_t length, size_t count) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, data, length, UCXX_MEMORY_AUTO);
  return ucxx_am_queue_send_iov(f->endpoint, NULL, entries, count, NULL, &f->out.request);
}

static ucxx_status_t queue_cover(fixture_t *f, const char *owner, uint64_t id,
                                 size_t header_length) {
  ucxx_am_queue_cover_t cover = UCXX_AM_QUEUE_COVER_INIT;
  cover.owner = owner;
  cover.id = id;
  cover.header_length = header_length;
  return ucxx_am_queue_send_iov(f->endpoint, &cover, NULL, 0, NULL, &f->out.request);
}

static ucxx_status_t queue_memory(fixture_t *f, int32_t memory_policy, uint32_t reserved) {
  ucxx_am_queue_cover_t cover = UCXX_AM_QUEUE_COVER_INIT;
  cover.memory_policy = memory_policy;
  cover.reserved = reserved;
  return ucxx_am_queue_send_to(f->endpoint, &cover, NULL, 0, NULL, &f->out.request);
}

/* Sends a header `more` bytes longer than the worker's limit, then one of the allowed length. */
static ucxx_status_t am_send_header(fixture_t *f, size_t more) {
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(f->worker, &attr));
  CHECK(attr.max_am_header > 24);
  uint8_t *header = test_alloc(attr.max_am_header + more);
  memset(header, 1, attr.max_am_header + more);
  memcpy(header, text, 24);
  expect(f->duo.right);
  ucxx_status_t status = ucxx_am_send(f->endpoint, ID_HERE, header, attr.max_am_header + more, text,
                                      24, NULL, &f->out.request);
  free(header);
  if (status < 0) {
    no_handler(f->duo.right);
    return status;
  }
  ucxx_am_message_t *message = await(f, f->duo.right);
  size_t length = 0;
  CHECK(memcmp(ucxx_am_message_header(message, &length), text, 24) == 0);
  CHECK_EQ(length, attr.max_am_header);
  ucxx_am_message_destroy(message);
  return duo_finish(&f->duo, status, &f->out.request);
}

enum call { SEND, SEND_IOV, SET_HANDLER };

/* On workers of a context without UCXX_FEATURE_AM. */
static ucxx_status_t am_without_feature(fixture_t *f, enum call call) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG;
  duo_t duo;
  duo_open(&duo, &params);
  CHECK_STATUS(ucxx_version_query(NULL), UCXX_ERR_INVALID_PARAM);
  ucxx_status_t status =
      call == SEND ? ucxx_am_send(duo.to_right, 1, NULL, 0, text, 8, NULL, &f->out.request)
      : call == SEND_IOV
          ? ucxx_am_send_iov(duo.to_right, 1, NULL, 0, NULL, 0, NULL, &f->out.request)
          : ucxx_worker_set_am_handler(duo.left, 1, keep, NULL, NULL);
  char said[256];
  snprintf(said, sizeof said, "%s", ucxx_last_error_message());
  duo_close(&duo);
  CHECK(strcmp(said, ucxx_last_error_message()) == 0);
  return status;
}

static void count_destroyed(void *arg) { ++*(int *)arg; }

/* After an error destroy_arg is not called. */
static ucxx_status_t set_handler_null_worker(void) {
  int destroyed = 0;
  ucxx_status_t status =
      ucxx_worker_set_am_handler(NULL, ID_HERE, keep, &destroyed, count_destroyed);
  CHECK_EQ(destroyed, 0);
  return status;
}

static ucxx_status_t set_handler_again(fixture_t *f) {
  int destroyed = 0;
  CHECK_OK(ucxx_worker_set_am_handler(f->worker, ID_HERE, keep, &destroyed, count_destroyed));
  CHECK_OK(ucxx_worker_set_am_handler(f->worker, ID_HERE, keep, &destroyed, count_destroyed));
  CHECK_EQ(destroyed, 1);
  no_handler(f->worker);
  CHECK_EQ(destroyed, 2);
  no_handler(f->worker);
  CHECK_EQ(destroyed, 2);
  return UCXX_OK;
}

/* A message for left, eager or rendezvous. */
static ucxx_am_message_t *message_for_left(fixture_t *f, uint64_t flags, ucxx_request_t **send,
                                           ucxx_status_t *sent) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  expect(f->worker);
  *sent = ucxx_am_send(f->duo.to_left, ID_HERE, NULL, 0, text, 24, &params, send);
  CHECK(*sent >= 0);
  ucxx_am_message_t *message = await(f, f->worker);
  CHECK((ucxx_am_message_data(message) == NULL) == (flags == UCXX_FLAG_RNDV));
  return message;
}

typedef ucxx_status_t receive_t(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                size_t length, const void *params);

static ucxx_status_t receive_plain(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                   size_t length, const void *params) {
  return ucxx_am_message_recv(message, buffer, length, params, &f->out.request);
}

static ucxx_status_t receive_iov(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                 size_t length, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, buffer, length / 2, UCXX_MEMORY_AUTO);
  entries[1].data = (char *)buffer + length / 2;
  return ucxx_am_message_recv_iov(message, entries, 2, params, &f->out.request);
}

static ucxx_status_t receive_count(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                   size_t count, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, buffer, 12, UCXX_MEMORY_AUTO);
  return ucxx_am_message_recv_iov(message, entries, count, params, &f->out.request);
}

static ucxx_status_t receive_entries(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                     size_t length, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, buffer, length, UCXX_MEMORY_AUTO);
  return ucxx_am_message_recv_iov(message, entries, 2, params, &f->out.request);
}

static ucxx_status_t receive_type(fixture_t *f, ucxx_am_message_t *message, void *buffer,
                                  size_t type, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, buffer, 12, (int32_t)type);
  return ucxx_am_message_recv_iov(message, entries, 2, params, &f->out.request);
}

/* After a refused receive the message can still be received, in either form. */
static ucxx_status_t am_recv(fixture_t *f, receive_t *receive, void *buffer, size_t length,
                             const void *params) {
  static const uint64_t forms[] = {UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  ucxx_status_t first = UCXX_OK;
  for (int form = 0; form < 2; form++) {
    ucxx_request_t *send = NULL, *again = NULL;
    ucxx_status_t sent;
    ucxx_am_message_t *message = message_for_left(f, forms[form], &send, &sent);
    memset(f->bytes, 0, 24);
    ucxx_status_t status = receive(f, message, buffer, length, params);
    char said[256];
    snprintf(said, sizeof said, "%s", ucxx_last_error_message());
    if (status < 0) {
      CHECK_OK(
          duo_finish(&f->duo, ucxx_am_message_recv(message, f->bytes, 24, NULL, &again), &again));
    } else {
      /* Other rows check the pattern in f->out. */
      ucxx_request_t *request = f->out.request;
      status = duo_finish(&f->duo, status, &request);
    }
    CHECK(memcmp(f->bytes, text, 24) == 0);
    ucxx_am_message_destroy(message);
    CHECK_OK(duo_finish(&f->duo, sent, &send));
    CHECK(status >= 0 || strcmp(said, ucxx_last_error_message()) == 0);
    if (form == 0)
      first = status;
    else
      CHECK_STATUS(status, first);
  }
  return first;
}

static ucxx_status_t try_am_recv(fixture_t *f, const void *params) {
  return am_recv(f, receive_plain, f->bytes, 24, params);
}

static ucxx_status_t try_am_recv_iov(fixture_t *f, const void *params) {
  return am_recv(f, receive_iov, f->bytes, 24, params);
}

static ucxx_status_t am_recv_twice(fixture_t *f, uint64_t flags) {
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t sent;
  ucxx_am_message_t *message = message_for_left(f, flags, &send, &sent);
  CHECK_OK(
      duo_finish(&f->duo, ucxx_am_message_recv(message, f->bytes, 24, NULL, &receive), &receive));
  CHECK_OK(duo_finish(&f->duo, sent, &send));
  ucxx_status_t status = ucxx_am_message_recv(message, f->bytes, 24, NULL, &f->out.request);
  ucxx_am_message_destroy(message);
  return status;
}

/* The getters return a value for NULL as well. */
static ucxx_status_t ask_nothing(void) {
  size_t length = 7;
  CHECK(ucxx_am_message_header(NULL, &length) == NULL);
  CHECK_EQ(length, 0);
  CHECK(ucxx_am_message_header(NULL, NULL) == NULL);
  CHECK_EQ(ucxx_am_message_length(NULL), 0);
  CHECK(ucxx_am_message_data(NULL) == NULL);
  CHECK_EQ(ucxx_am_message_memory_type(NULL), 0);
  CHECK(ucxx_am_message_reply(NULL) == NULL);
  ucxx_am_message_destroy(NULL);
  return UCXX_OK;
}

#define BAD_INPUT_ROWS "bad_input_am.inc"
#define BAD_INPUT_TABLE bad_input_am
#include "bad_input_table.h"
