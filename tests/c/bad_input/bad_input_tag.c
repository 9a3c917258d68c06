/* Bad input: tag messages. See bad_input.h. */
#include "bad_input.h"

#define HUGE_SIGNED ((size_t)PTRDIFF_MAX + 1)

enum { TAG_HERE = 0x5151 };

static const char text[] = "twenty-four bytes, just so";

/* Receives on the right what try_send* sent there. */
static ucxx_status_t take(fixture_t *f, ucxx_status_t sent, ucxx_request_t *request,
                          size_t length) {
  char in[64] = {0};
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  ucxx_request_t *receive = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(f->duo.right, in, sizeof in, TAG_HERE, UINT64_MAX, &params, &receive);
  CHECK_OK(duo_finish(&f->duo, received, &receive));
  CHECK_EQ(info.length, length);
  CHECK(memcmp(in, text, length) == 0);
  return duo_finish(&f->duo, sent, &request);
}

static ucxx_status_t try_send(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_tag_send(f->endpoint, text, 24, TAG_HERE, params, &f->out.request);
  return status < 0 ? status : take(f, status, f->out.request, 24);
}

static ucxx_status_t try_empty(fixture_t *f) {
  ucxx_status_t status = ucxx_tag_send(f->endpoint, NULL, 0, TAG_HERE, NULL, &f->out.request);
  return status < 0 ? status : take(f, status, f->out.request, 0);
}

static ucxx_status_t try_send_sync(fixture_t *f, const void *params) {
  ucxx_status_t status =
      ucxx_tag_send_sync(f->endpoint, text, 24, TAG_HERE, params, &f->out.request);
  return status < 0 ? status : take(f, status, f->out.request, 24);
}

static ucxx_status_t try_send_iov(fixture_t *f, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, (void *)(uintptr_t)text, 12, UCXX_MEMORY_AUTO);
  entries[1].data = (void *)(uintptr_t)(text + 12);
  ucxx_status_t status =
      ucxx_tag_send_iov(f->endpoint, entries, 2, TAG_HERE, params, &f->out.request);
  return status < 0 ? status : take(f, status, f->out.request, 24);
}

static ucxx_status_t send_entries(fixture_t *f, void *data, uint64_t length, int32_t memory_type) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, data, length, memory_type);
  return ucxx_tag_send_iov(f->endpoint, entries, 2, TAG_HERE, NULL, &f->out.request);
}

static ucxx_status_t recv_entries(fixture_t *f, void *data, uint64_t length, int32_t memory_type) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, data, length, memory_type);
  return ucxx_tag_recv_iov(f->worker, entries, 2, TAG_HERE, UINT64_MAX, NULL, &f->out.request);
}

static ucxx_status_t send_iov_count(fixture_t *f, size_t count) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, f->bytes, 8, UCXX_MEMORY_AUTO);
  return ucxx_tag_send_iov(f->endpoint, entries, count, TAG_HERE, NULL, &f->out.request);
}

static ucxx_status_t recv_iov_count(fixture_t *f, size_t count) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, f->bytes, 8, UCXX_MEMORY_AUTO);
  return ucxx_tag_recv_iov(f->worker, entries, count, TAG_HERE, UINT64_MAX, NULL, &f->out.request);
}

/* Sends from right to left the message that a receive on `worker` waits for. */
static ucxx_status_t give(fixture_t *f, ucxx_status_t received, ucxx_request_t *request) {
  ucxx_request_t *send = NULL;
  ucxx_status_t sent = ucxx_tag_send(f->duo.to_left, text, 24, TAG_HERE, NULL, &send);
  CHECK_OK(duo_finish(&f->duo, sent, &send));
  ucxx_status_t status = duo_finish(&f->duo, received, &request);
  CHECK(memcmp(f->bytes, text, 24) == 0);
  return status;
}

static ucxx_status_t try_recv(fixture_t *f, const void *params) {
  ucxx_status_t status =
      ucxx_tag_recv(f->worker, f->bytes, 24, TAG_HERE, UINT64_MAX, params, &f->out.request);
  return status < 0 ? status : give(f, status, f->out.request);
}

static ucxx_status_t try_recv_iov(fixture_t *f, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, f->bytes, 12, UCXX_MEMORY_AUTO);
  entries[1].data = f->bytes + 12;
  ucxx_status_t status =
      ucxx_tag_recv_iov(f->worker, entries, 2, TAG_HERE, UINT64_MAX, params, &f->out.request);
  return status < 0 ? status : give(f, status, f->out.request);
}

/* A message for left, removed from matching. */
static ucxx_tag_message_t *take_message(fixture_t *f) {
  ucxx_request_t *send = NULL;
  ucxx_tag_message_t *message = NULL;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_status_t sent = ucxx_tag_send(f->duo.to_left, text, 24, TAG_HERE, NULL, &send);
  CHECK_OK(duo_finish(&f->duo, sent, &send));
  ucxx_status_t status;
  while ((status = ucxx_tag_probe(f->worker, TAG_HERE, UINT64_MAX, &info, &message)) ==
         UCXX_ERR_NO_MESSAGE)
    duo_progress(&f->duo);
  CHECK_OK(status);
  CHECK_EQ(info.length, 24);
  return message;
}

/* After a refused receive the message can still be received. */
static ucxx_status_t message_recv(fixture_t *f, void *buffer, size_t length,
                                  const ucxx_op_params_t *params) {
  ucxx_tag_message_t *message = take_message(f);
  ucxx_status_t status = ucxx_tag_message_recv(message, buffer, length, params, &f->out.request);
  if (status < 0) {
    char said[256];
    snprintf(said, sizeof said, "%s", ucxx_last_error_message());
    ucxx_request_t *request = NULL;
    ucxx_status_t again = ucxx_tag_message_recv(message, f->bytes, 24, NULL, &request);
    CHECK_OK(duo_finish(&f->duo, again, &request));
    CHECK(strcmp(said, ucxx_last_error_message()) == 0);
  } else {
    status = duo_finish(&f->duo, status, &f->out.request);
  }
  CHECK(memcmp(f->bytes, text, 24) == 0);
  memset(f->bytes, 0, 24);
  ucxx_tag_message_destroy(message);
  return status;
}

static ucxx_status_t message_recv_with(fixture_t *f, void *buffer, size_t length) {
  return message_recv(f, buffer, length, NULL);
}

static ucxx_status_t try_message_recv(fixture_t *f, const void *params) {
  return message_recv(f, f->bytes, 24, params);
}

static ucxx_status_t message_recv_twice(fixture_t *f) {
  ucxx_tag_message_t *message = take_message(f);
  ucxx_request_t *request = NULL;
  ucxx_status_t first = ucxx_tag_message_recv(message, f->bytes, 24, NULL, &request);
  CHECK_OK(duo_finish(&f->duo, first, &request));
  ucxx_status_t status = ucxx_tag_message_recv(message, f->bytes, 24, NULL, &f->out.request);
  ucxx_tag_message_destroy(message);
  return status;
}

#define BAD_INPUT_ROWS "bad_input_tag.inc"
#define BAD_INPUT_TABLE bad_input_tag
#include "bad_input_table.h"
