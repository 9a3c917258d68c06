/* Bad input: streams. See bad_input.h. */
#include "bad_input.h"

#define HUGE_SIGNED ((size_t)PTRDIFF_MAX + 1)

static const char text[] = "twenty-four bytes, just so";

/* Receives on the right what try_send sent there. */
static ucxx_status_t take(fixture_t *f, ucxx_status_t sent, ucxx_request_t *request) {
  char in[24] = "";
  ucxx_request_t *receive = NULL;
  ucxx_status_t received = ucxx_stream_recv(f->duo.to_left, in, sizeof in, NULL, &receive);
  CHECK_OK(duo_finish(&f->duo, received, &receive));
  CHECK(memcmp(in, text, sizeof in) == 0);
  return duo_finish(&f->duo, sent, &request);
}

static ucxx_status_t try_send(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_stream_send(f->endpoint, text, 24, params, &f->out.request);
  return status < 0 ? status : take(f, status, f->out.request);
}

/* Sends from right to left the bytes that a receive on `endpoint` waits for. */
static ucxx_status_t give(fixture_t *f, ucxx_status_t received, ucxx_request_t *request) {
  ucxx_request_t *send = NULL;
  ucxx_status_t sent = ucxx_stream_send(f->duo.to_left, text, 24, NULL, &send);
  CHECK_OK(duo_finish(&f->duo, sent, &send));
  ucxx_status_t status = duo_finish(&f->duo, received, &request);
  CHECK(memcmp(f->bytes, text, 24) == 0);
  return status;
}

static ucxx_status_t try_recv(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_stream_recv(f->endpoint, f->bytes, 24, params, &f->out.request);
  return status < 0 ? status : give(f, status, f->out.request);
}

static ucxx_status_t try_empty(fixture_t *f) {
  CHECK_OK(ucxx_stream_send(f->endpoint, NULL, 0, NULL, &f->out.request));
  CHECK(f->out.request == NULL);
  return ucxx_stream_recv(f->endpoint, NULL, 0, NULL, &f->out.request);
}

#define BAD_INPUT_ROWS "bad_input_stream.inc"
#define BAD_INPUT_TABLE bad_input_stream
#include "bad_input_table.h"
