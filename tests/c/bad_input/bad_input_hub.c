/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Bad input: hubs, links and envelopes. Errors that depend on the state of a hub are in hub*.c. See
 * bad_input.h. */
#include "bad_input.h"
#include "hub.h"

enum { HUB_BYTES = 64 };

/* A hub with one envelope on the host and one on the dummy device; the first has a chunk. */
typedef struct small {
  ucxx_hub_t *hub;
  ucxx_link_t *produce, *consume;
} small_t;

static small_t small_open(fixture_t *f) {
  small_t small = {NULL, NULL, NULL};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = HUB_BYTES;
  CHECK_OK(ucxx_hub_create(f->context, &params, &small.hub));
  CHECK_OK(ucxx_hub_add_envelopes(small.hub, on_host, 2));
  small.produce = hub_link(small.hub, UCXX_LINK_PRODUCE, on_host);
  small.consume = hub_link(small.hub, UCXX_LINK_CONSUME, on_host);
  produce_word(small.produce, 5);
  return small;
}

/* Checks that the refused call changed nothing. Keeps the thread's error message. */
static ucxx_status_t small_close(small_t *small, ucxx_status_t status) {
  if (status < 0) {
    CHECK_EQ(hub_stats(small->hub).free_envelopes, 1);
    CHECK_EQ(hub_stats(small->hub).leased_envelopes, 0);
    CHECK_EQ(consume_word(small->consume), 5);
    CHECK_EQ(ucxx_hub_length(small->hub), 0);
  }
  ucxx_link_destroy(small->produce);
  ucxx_link_destroy(small->consume);
  ucxx_hub_destroy(small->hub);
  return status;
}

/* ------------------------------------------------------------------ creation */

static ucxx_status_t create_with(fixture_t *f, const ucxx_hub_params_t *params) {
  ucxx_hub_t *hub = NULL;
  ucxx_status_t status = ucxx_hub_create(f->context, params, &hub);
  CHECK((hub != NULL) == (status == UCXX_OK));
  ucxx_hub_destroy(hub);
  return status;
}

/* The sized struct with the envelope_size that a hub needs. */
static ucxx_status_t create_sized(fixture_t *f, void *params) {
  ((ucxx_hub_params_t *)params)->envelope_size = HUB_BYTES;
  return create_with(f, params);
}

#define HUB_WITH(field, value)                     \
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT; \
  params.envelope_size = HUB_BYTES;                \
  params.field = value;                            \
  return create_with(f, &params)
static ucxx_status_t size_of(fixture_t *f, size_t size) { HUB_WITH(envelope_size, size); }
static ucxx_status_t retain_of(fixture_t *f, int32_t retain) { HUB_WITH(retain, retain); }
static ucxx_status_t limit_of(fixture_t *f, size_t bytes) { HUB_WITH(max_queue_bytes, bytes); }
static ucxx_status_t chunks_of(fixture_t *f, size_t chunks) { HUB_WITH(max_queue_chunks, chunks); }
static ucxx_status_t in_flight_of(fixture_t *f, uint32_t count) {
  HUB_WITH(transfers_in_flight, count);
}
static ucxx_status_t worker_of(fixture_t *f, ucxx_worker_t *worker) { HUB_WITH(worker, worker); }

/* ------------------------------------------------------------------ envelopes and links */

static ucxx_memory_kind_t kind_of(int32_t memory_type, int32_t device_id) {
  return (ucxx_memory_kind_t){memory_type, device_id};
}

static ucxx_status_t add_of(fixture_t *f, int32_t memory_type, int32_t device_id, size_t count) {
  small_t small = small_open(f);
  return small_close(&small,
                     ucxx_hub_add_envelopes(small.hub, kind_of(memory_type, device_id), count));
}

static void must_not_be_called(void *arg, void *data) {
  (void)arg;
  (void)data;
  FAIL("a refused buffer was deallocated");
}

static ucxx_status_t buffer_of(fixture_t *f, int32_t memory_type, void *data) {
  small_t small = small_open(f);
  return small_close(&small, ucxx_hub_add_buffer(small.hub, kind_of(memory_type, 0), data,
                                                 must_not_be_called, NULL));
}

static ucxx_status_t link_with(fixture_t *f, int32_t type, int32_t memory_type, int32_t device_id,
                               const ucxx_link_params_t *params) {
  small_t small = small_open(f);
  ucxx_link_t *link = NULL;
  ucxx_status_t status =
      ucxx_link_create(small.hub, type, kind_of(memory_type, device_id), params, &link);
  CHECK((link != NULL) == (status == UCXX_OK));
  ucxx_link_destroy(link);
  return small_close(&small, status);
}

static ucxx_status_t link_sized(fixture_t *f, const void *params) {
  return link_with(f, UCXX_LINK_CONSUME, UCXX_MEMORY_HOST, 0, params);
}

static ucxx_status_t link_flags(fixture_t *f, int32_t type, uint8_t broadcast, uint8_t autocommit) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.broadcast = broadcast;
  params.autocommit = autocommit;
  return link_with(f, type, UCXX_MEMORY_HOST, 0, &params);
}

static ucxx_status_t lease_into_nothing(fixture_t *f) {
  small_t small = small_open(f);
  return small_close(&small, ucxx_link_lease(small.consume, 0, NULL));
}

static ucxx_status_t push_of(fixture_t *f, int32_t memory_type, int32_t device_id, int nowhere) {
  small_t small = small_open(f);
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status =
      ucxx_hub_push(small.hub, kind_of(memory_type, device_id), nowhere ? NULL : &envelope);
  CHECK(envelope == NULL);
  return small_close(&small, status);
}

static ucxx_status_t peek_of(fixture_t *f, int32_t memory_type, int32_t device_id, int nowhere) {
  small_t small = small_open(f);
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status =
      ucxx_hub_peek(small.hub, kind_of(memory_type, device_id), 0, nowhere ? NULL : &envelope);
  CHECK(envelope == NULL);
  return small_close(&small, status);
}

/* The links passed to the call: valid, none, with a NULL, or of another hub. */
enum given { GOOD, NOTHING, WITH_NULL, OF_ANOTHER };

static ucxx_status_t many_of(fixture_t *f, enum given given, size_t count, int nowhere) {
  small_t small = small_open(f);
  ucxx_link_t *links[] = {small.consume, given == WITH_NULL ? NULL : small.produce};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  ucxx_status_t status =
      ucxx_link_lease_many(given == NOTHING ? NULL : links, count, 0, nowhere ? NULL : envelopes);
  CHECK(envelopes[0] == NULL && envelopes[1] == NULL);
  return small_close(&small, status);
}

static ucxx_status_t flow_of(fixture_t *f, enum given given, size_t count) {
  small_t small = small_open(f), other = small_open(f);
  ucxx_link_t *second = given == OF_ANOTHER  ? other.consume
                        : given == WITH_NULL ? NULL
                                             : small.produce;
  ucxx_link_t *links[] = {small.consume, second};
  ucxx_status_t status = ucxx_hub_set_flow(small.hub, given == NOTHING ? NULL : links, count);
  small_close(&other, UCXX_OK);
  return small_close(&small, status);
}

static ucxx_status_t add_flow_of(fixture_t *f, enum given given) {
  small_t small = small_open(f), other = small_open(f);
  ucxx_status_t status = ucxx_hub_add_flow(small.hub, given == OF_ANOTHER  ? other.consume
                                                      : given == WITH_NULL ? NULL
                                                                           : small.produce);
  small_close(&other, UCXX_OK);
  return small_close(&small, status);
}

/* ------------------------------------------------------------------ messages */

/* A hub of the fixture's worker. If the call succeeds, one word is transferred. */
static ucxx_status_t message_with(fixture_t *f, const ucxx_op_params_t *params, int sends) {
  small_t small = {NULL, NULL, NULL};
  ucxx_hub_params_t hub = UCXX_HUB_PARAMS_INIT;
  ucxx_request_t *request = NULL, *other = NULL;
  uint64_t word = 5;
  hub.envelope_size = HUB_BYTES;
  hub.worker = f->worker;
  CHECK_OK(ucxx_hub_create(f->context, &hub, &small.hub));
  CHECK_OK(ucxx_hub_add_envelopes(small.hub, on_host, 2));
  small.produce = hub_link(small.hub, UCXX_LINK_PRODUCE, on_host);
  small.consume = hub_link(small.hub, UCXX_LINK_CONSUME, on_host);
  if (sends) produce_word(small.produce, word);
  ucxx_status_t status = sends ? ucxx_link_send(small.consume, f->endpoint, 70, params, &request)
                               : ucxx_link_recv(small.produce, 70, UINT64_MAX, params, &request);
  if (status >= 0) {
    word = 0;
    ucxx_status_t back =
        sends ? ucxx_tag_recv(f->duo.right, &word, sizeof word, 70, UINT64_MAX, NULL, &other)
              : ucxx_tag_send(f->duo.to_left, &(uint64_t){5}, sizeof word, 70, NULL, &other);
    CHECK_OK(duo_finish(&f->duo, back, &other));
    status = duo_finish(&f->duo, status, &request);
    CHECK_EQ(sends ? word : consume_word(small.consume), 5);
    CHECK_EQ(hub_stats(small.hub).free_envelopes, 2);
    ucxx_link_destroy(small.produce);
    ucxx_link_destroy(small.consume);
    ucxx_hub_destroy(small.hub);
    return status;
  }
  CHECK(request == NULL);
  CHECK_EQ(hub_stats(small.hub).leased_envelopes, 0);
  CHECK_EQ(ucxx_hub_length(small.hub), sends);
  ucxx_link_destroy(small.produce);
  ucxx_link_destroy(small.consume);
  ucxx_hub_destroy(small.hub);
  return status;
}

static ucxx_status_t recv_with(fixture_t *f, const void *params) {
  return message_with(f, params, 0);
}
static ucxx_status_t send_with(fixture_t *f, const void *params) {
  return message_with(f, params, 1);
}

static ucxx_status_t send_to_nobody(fixture_t *f) {
  small_t small = small_open(f);
  ucxx_hub_params_t hub = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *with_worker = NULL;
  hub.envelope_size = HUB_BYTES;
  hub.worker = f->worker;
  CHECK_OK(ucxx_hub_create(f->context, &hub, &with_worker));
  ucxx_link_t *link = hub_link(with_worker, UCXX_LINK_CONSUME, on_host);
  ucxx_status_t status = ucxx_link_send(link, NULL, 70, NULL, NULL);
  ucxx_link_destroy(link);
  ucxx_hub_destroy(with_worker);
  return small_close(&small, status);
}

/* On a hub without a worker. */
static ucxx_status_t message_without_worker(fixture_t *f, int sends) {
  small_t small = small_open(f);
  ucxx_request_t *request = NULL;
  ucxx_status_t status = sends ? ucxx_link_send(small.consume, f->endpoint, 70, NULL, &request)
                               : ucxx_link_recv(small.produce, 70, UINT64_MAX, NULL, &request);
  CHECK(request == NULL);
  return small_close(&small, status);
}

/* A link of this type, of a hub with this worker. After a refused call the link still works. */
static ucxx_status_t connect_with(fixture_t *f, int32_t type, ucxx_worker_t *worker,
                                  ucxx_endpoint_t *endpoint, uint32_t window) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub = NULL;
  ucxx_envelope_t *envelope = NULL;
  params.envelope_size = HUB_BYTES;
  params.worker = worker;
  CHECK_OK(ucxx_hub_create(f->context, &params, &hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub, on_host, 2));
  push_word(hub, on_host, 5);
  ucxx_link_t *link = hub_link(hub, type, on_host);
  ucxx_status_t status = ucxx_link_connect(link, endpoint, UINT64_MAX, window);
  if (status < 0) {
    CHECK_OK(ucxx_link_lease(link, 0, &envelope));
    CHECK_OK(ucxx_envelope_abort(envelope, NULL));
    /* Makes the refused call's message the thread's last one again. */
    CHECK_STATUS(ucxx_link_connect(link, endpoint, UINT64_MAX, window), status);
  }
  ucxx_link_destroy(link);
  ucxx_hub_destroy(hub);
  return status;
}

/* ------------------------------------------------------------------ statistics and wakeup */

static ucxx_status_t stats_into(fixture_t *f, void *stats) {
  small_t small = small_open(f);
  return small_close(&small, ucxx_hub_query_stats(small.hub, stats));
}

static ucxx_status_t query_into(fixture_t *f, void *attr) {
  small_t small = small_open(f);
  ucxx_envelope_t *envelope = lease_now(small.consume);
  ucxx_status_t status = ucxx_envelope_query(envelope, attr);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  return small_close(&small, status);
}

static ucxx_status_t swap_with_null(fixture_t *f, int first) {
  small_t small = small_open(f);
  ucxx_envelope_t *envelope = lease_now(small.consume);
  ucxx_status_t status =
      first ? ucxx_envelope_swap(NULL, envelope) : ucxx_envelope_swap(envelope, NULL);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  return small_close(&small, status);
}

static ucxx_status_t fd_into_nothing(fixture_t *f) {
  small_t small = small_open(f);
  return small_close(&small, ucxx_link_event_fd(small.consume, NULL));
}

/* On a context without UCXX_FEATURE_WAKEUP. */
static ucxx_status_t without_wakeup(fixture_t *f, int arm) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub = NULL;
  int fd = -1;
  params.envelope_size = HUB_BYTES;
  CHECK_OK(ucxx_hub_create(f->bare.context, &params, &hub));
  ucxx_link_t *link = hub_link(hub, UCXX_LINK_CONSUME, on_host);
  ucxx_status_t status = arm ? ucxx_link_arm(link) : ucxx_link_event_fd(link, &fd);
  CHECK_EQ(fd, -1);
  ucxx_link_destroy(link);
  ucxx_hub_destroy(hub);
  return status;
}

static ucxx_status_t nothing_is_destroyed(fixture_t *f) {
  (void)f;
  ucxx_hub_destroy(NULL);
  ucxx_link_destroy(NULL);
  ucxx_hub_params_init(NULL, 8);
  ucxx_link_params_init(NULL, 8);
  ucxx_envelope_attr_init(NULL, 8);
  ucxx_hub_stats_init(NULL, 8);
  return ucxx_hub_length(NULL) == 0 ? UCXX_OK : UCXX_ERR_IO_ERROR;
}

#define BAD_INPUT_ROWS "bad_input_hub.inc"
#define BAD_INPUT_TABLE bad_input_hub
#include "bad_input_table.h"
