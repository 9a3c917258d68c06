/* Bad input: fetches, replies and buffers. See bad_input.h. */
#include "bad_input.h"

#define HUGE_SIGNED ((size_t)PTRDIFF_MAX + 1)

enum { ID = 21 };

static const char text[] = "twenty-four bytes, just so";

static ucxx_fetch_t *kept;

static void keep(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  kept = fetch;
}

static ucxx_fetch_t *next_question(fixture_t *f) {
  while (kept == NULL) duo_progress(&f->duo);
  ucxx_fetch_t *fetch = kept;
  kept = NULL;
  return fetch;
}

static void give(fixture_t *f) {
  ucxx_request_t *request = NULL;
  ucxx_fetch_t *fetch = next_question(f);
  CHECK_OK(duo_finish(&f->duo, ucxx_fetch_reply(fetch, text, 24, NULL, &request), &request));
  ucxx_fetch_destroy(fetch);
}

static void serve(fixture_t *f) {
  CHECK_OK(ucxx_worker_set_fetch_handler(f->duo.right, ID, keep, NULL, NULL));
}

/* A blocking fetch would never get a reply, as one thread drives both workers, so none is tried
 * with success. */
static ucxx_status_t finish_fetch(fixture_t *f, ucxx_status_t status) {
  if (status < 0) return status;
  give(f);
  status = duo_finish(&f->duo, status, &f->out.request);
  CHECK(memcmp(f->bytes, text, 24) == 0);
  memset(f->bytes, 0, 24);
  return status;
}

static ucxx_status_t try_fetch(fixture_t *f, const void *params) {
  serve(f);
  return finish_fetch(
      f, ucxx_am_fetch(f->endpoint, ID, text, 4, f->bytes, 24, params, &f->out.request));
}

static ucxx_status_t try_fetch_iov(fixture_t *f, const void *params) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, f->bytes, 12, UCXX_MEMORY_AUTO);
  entries[1].data = f->bytes + 12;
  serve(f);
  return finish_fetch(
      f, ucxx_am_fetch_iov(f->endpoint, ID, text, 4, entries, 2, params, &f->out.request));
}

static ucxx_status_t fetch_entries(fixture_t *f, void *data, uint64_t length, int32_t memory_type,
                                   size_t count) {
  ucxx_buffer_t entries[2];
  fill_entries(entries, data, length, memory_type);
  return ucxx_am_fetch_iov(f->endpoint, ID, text, 4, entries, count, NULL, &f->out.request);
}

/* The buffers of a successful fetch. */
static ucxx_buffers_t *fetched(fixture_t *f, ucxx_status_t status, ucxx_request_t *request) {
  ucxx_buffers_t *buffers = NULL;
  CHECK_STATUS(status, UCXX_INPROGRESS);
  give(f);
  while ((status = ucxx_request_status(request)) == UCXX_INPROGRESS) duo_progress(&f->duo);
  CHECK_OK(status);
  CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  ucxx_request_destroy(request);
  return buffers;
}

static ucxx_status_t try_alloc(fixture_t *f, const void *allocator, const void *params) {
  serve(f);
  ucxx_status_t status =
      ucxx_am_fetch_alloc(f->endpoint, ID, text, 4, text, 24, allocator, params, &f->out.request);
  if (status < 0) return status;
  ucxx_buffer_t buffer;
  ucxx_buffers_t *buffers = fetched(f, status, f->out.request);
  CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
  CHECK(buffer.length == 24 && memcmp(buffer.data, text, 24) == 0);
  ucxx_buffers_destroy(buffers);
  return UCXX_OK;
}

static ucxx_status_t try_fetch_alloc(fixture_t *f, const void *params) {
  return try_alloc(f, NULL, params);
}

static ucxx_status_t try_allocator(fixture_t *f, const void *allocator) {
  return try_alloc(f, allocator, NULL);
}

static void never(void *arg, void *data, size_t length, int32_t memory_type, int32_t device_id) {
  (void)arg;
  (void)memory_type;
  FAIL("freed %p, %zu bytes, of %d", data, length, device_id);
}

static ucxx_status_t half_allocator(fixture_t *f) {
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.deallocate = never;
  return try_alloc(f, &allocator, NULL);
}

typedef ucxx_status_t (*buffer_call_t)(ucxx_buffers_t *buffers, size_t index,
                                       ucxx_buffer_t *buffer);

static ucxx_status_t ucxx_buffers_get_index(ucxx_buffers_t *buffers, size_t index,
                                            ucxx_buffer_t *buffer) {
  return ucxx_buffers_get(buffers, index, buffer);
}

static ucxx_status_t with_buffers(fixture_t *f, buffer_call_t call, size_t index,
                                  ucxx_buffer_t *buffer) {
  serve(f);
  ucxx_request_t *request = NULL;
  ucxx_status_t asked =
      ucxx_am_fetch_alloc(f->endpoint, ID, text, 4, NULL, 0, NULL, NULL, &request);
  ucxx_buffers_t *buffers = fetched(f, asked, request);
  ucxx_status_t status = call(buffers, index, buffer);
  ucxx_buffers_destroy(buffers);
  return status;
}

/* ------------------------------------------------------------------ replies */

static ucxx_fetch_t *question(fixture_t *f, ucxx_request_t **request) {
  *request = NULL;
  serve(f);
  CHECK_STATUS(ucxx_am_fetch(f->endpoint, ID, text, 4, f->bytes, 24, NULL, request),
               UCXX_INPROGRESS);
  return next_question(f);
}

/* After a refused reply the fetch can still be answered, and no other message was sent
 * meanwhile. */
static ucxx_status_t answer_after(fixture_t *f, ucxx_fetch_t *fetch, ucxx_request_t *asked,
                                  ucxx_status_t status) {
  if (status < 0) {
    char said[256];
    snprintf(said, sizeof said, "%s", ucxx_last_error_message());
    ucxx_request_t *request = NULL;
    CHECK_OK(duo_finish(&f->duo, ucxx_fetch_reply(fetch, text, 24, NULL, &request), &request));
    CHECK_OK(duo_finish(&f->duo, UCXX_INPROGRESS, &asked));
    CHECK(strcmp(said, ucxx_last_error_message()) == 0);
  } else {
    status = duo_finish(&f->duo, status, &f->out.request);
    CHECK_OK(duo_finish(&f->duo, UCXX_INPROGRESS, &asked));
  }
  CHECK(memcmp(f->bytes, text, 24) == 0);
  memset(f->bytes, 0, 24);
  ucxx_fetch_destroy(fetch);
  return status;
}

static ucxx_status_t try_reply(fixture_t *f, const void *params) {
  ucxx_request_t *asked;
  ucxx_fetch_t *fetch = question(f, &asked);
  return answer_after(f, fetch, asked, ucxx_fetch_reply(fetch, text, 24, params, &f->out.request));
}

static ucxx_status_t reply_with(fixture_t *f, const void *buffer, size_t length) {
  ucxx_request_t *asked;
  ucxx_fetch_t *fetch = question(f, &asked);
  return answer_after(f, fetch, asked,
                      ucxx_fetch_reply(fetch, buffer, length, NULL, &f->out.request));
}

static ucxx_status_t reply_entries(fixture_t *f, const void *buffers, size_t count) {
  ucxx_request_t *asked;
  ucxx_fetch_t *fetch = question(f, &asked);
  return answer_after(f, fetch, asked,
                      ucxx_fetch_reply_iov(fetch, buffers, count, NULL, &f->out.request));
}

static ucxx_status_t reject_with(fixture_t *f, ucxx_status_t status) {
  ucxx_request_t *asked;
  ucxx_fetch_t *fetch = question(f, &asked);
  return answer_after(f, fetch, asked, ucxx_fetch_reject(fetch, status));
}

static ucxx_status_t reply_twice(fixture_t *f) {
  ucxx_request_t *asked, *request = NULL;
  ucxx_fetch_t *fetch = question(f, &asked);
  CHECK_OK(duo_finish(&f->duo, ucxx_fetch_reply(fetch, text, 24, NULL, &request), &request));
  CHECK_OK(duo_finish(&f->duo, UCXX_INPROGRESS, &asked));
  ucxx_status_t status = ucxx_fetch_reply(fetch, text, 24, NULL, &f->out.request);
  ucxx_fetch_destroy(fetch);
  return status;
}

/* Takes buffers from a fetch into the caller's own memory. */
static ucxx_status_t take_of_plain(fixture_t *f) {
  ucxx_request_t *asked;
  ucxx_buffers_t *buffers = NULL;
  ucxx_fetch_t *fetch = question(f, &asked);
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(&f->duo, ucxx_fetch_reply(fetch, text, 24, NULL, &request), &request));
  ucxx_fetch_destroy(fetch);
  while (ucxx_request_status(asked) == UCXX_INPROGRESS) duo_progress(&f->duo);
  ucxx_status_t status = ucxx_request_take_buffers(asked, &buffers);
  CHECK(buffers == NULL);
  ucxx_request_destroy(asked);
  return status;
}

#define BAD_INPUT_ROWS "bad_input_fetch.inc"
#define BAD_INPUT_TABLE bad_input_fetch
#include "bad_input_table.h"
