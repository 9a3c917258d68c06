/*
 * A peer with another version of the library's protocol, or one that sends nonsense, is refused
 * with a message that names both versions, and nothing else happens to the worker. The peer is a
 * plain UCP worker in this process; docs/wire-formats.md has the layouts.
 */
#include "test_util.h"

#include <ucp/api/ucp.h>

enum {
  AM_ID = 1,
  HEADER = 24,
  HELLO = 1,
  REFUSAL = 3,
  OURS = 1,
  THEIRS = 9,
  NUMBER = 77,
  TRAILER = 80
};

static ucp_worker_h raw;
static ucxx_worker_t *worker;
static uint8_t heard[HEADER]; /* the last header that the raw worker received */
static int hearings;
static int refuses;

#define UCP_OK(call) CHECK((call) == UCS_OK)

static void both_progress(void) {
  ucp_worker_progress(raw);
  progress(worker);
}

#define UNTIL(condition) \
  do both_progress();    \
  while (!(condition))

static void settle(ucs_status_ptr_t request) {
  CHECK(!UCS_PTR_IS_ERR(request));
  if (request != NULL) {
    UNTIL(ucp_request_check_status(request) != UCS_INPROGRESS);
    UCP_OK(ucp_request_check_status(request));
    ucp_request_free(request);
  }
}

static ucs_status_ptr_t speak(ucp_ep_h endpoint, const uint8_t *header, size_t length,
                              const char *data, size_t size) {
  ucp_request_param_t params;
  memset(&params, 0, sizeof params);
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_REPLY;
  return ucp_am_send_nbx(endpoint, AM_ID, header, length, data, size, &params);
}

static ucs_status_t on_message(void *arg, const void *header, size_t length, void *data,
                               size_t size, const ucp_am_recv_param_t *param) {
  static uint8_t refusal[HEADER] = {THEIRS, REFUSAL};
  (void)arg;
  (void)data;
  (void)size;
  CHECK_EQ(length, HEADER);
  memcpy(heard, header, HEADER);
  hearings++;
  if (refuses && heard[1] == HELLO) {
    memcpy(refusal + 8, heard + 20, 4); /* addressed by the sender's number for the connection */
    CHECK(!UCS_PTR_IS_ERR(speak(param->reply_ep, refusal, HEADER, NULL, 0)));
  }
  return UCS_OK;
}

static ucp_context_h raw_open(void) {
  ucp_params_t params;
  ucp_worker_params_t worker_params;
  ucp_am_handler_param_t handler;
  ucp_context_h context = NULL;
  memset(&params, 0, sizeof params);
  memset(&worker_params, 0, sizeof worker_params);
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM;
  UCP_OK(ucp_init(&params, NULL, &context));
  UCP_OK(ucp_worker_create(context, &worker_params, &raw));
  /* From 0 on: UCX up to 1.16 leaves unused ids uninitialised. */
  for (unsigned id = 0; id <= AM_ID; id++) {
    memset(&handler, 0, sizeof handler);
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    handler.id = id;
    handler.cb = on_message;
    UCP_OK(ucp_worker_set_am_recv_handler(raw, &handler));
  }
  return context;
}

static ucp_ep_h raw_reach(void) {
  ucxx_address_t *address = NULL;
  ucp_ep_params_t params;
  ucp_ep_h endpoint = NULL;
  CHECK_OK(ucxx_worker_address(worker, &address));
  memset(&params, 0, sizeof params);
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = ucxx_address_data(address);
  UCP_OK(ucp_ep_create(raw, &params, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

static void check_alive(ucp_ep_h endpoint) {
  uint64_t word = 5, got = 0;
  ucxx_request_t *receive = NULL;
  ucp_request_param_t params;
  memset(&params, 0, sizeof params);
  ucxx_status_t status = ucxx_tag_recv(worker, &got, sizeof got, 1, UINT64_MAX, NULL, &receive);
  settle(ucp_tag_send_nbx(endpoint, &word, sizeof word, 1, &params));
  UNTIL(status != UCXX_INPROGRESS || ucxx_request_status(receive) != UCXX_INPROGRESS);
  CHECK_OK(finish(status, &receive));
  CHECK_EQ(got, word);
}

/* Sends a Hello with a version that this library does not know. */
static void they_are_newer(ucp_ep_h endpoint) {
  STEP("a Hello of version %d", THEIRS);
  uint8_t hello[HEADER] = {THEIRS, HELLO};
  uint32_t number = NUMBER;
  memcpy(hello + 20, &number, 4);
  hearings = 0;
  settle(speak(endpoint, hello, HEADER, "messages after the refusal", 24));
  UNTIL(hearings > 0);
  CHECK_EQ(heard[0], OURS);
  CHECK_EQ(heard[1], REFUSAL);
  CHECK(memcmp(heard + 8, &number, 4) == 0);
  check_alive(endpoint);
}

static void they_are_confused(ucp_ep_h endpoint) {
  static const uint8_t headers[][HEADER] = {
      {OURS, HELLO, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, /* and no address */
      {OURS, 200}, /* unknown kind */
      {OURS, 4, 0, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff}, /* Bye to nobody */
      {OURS, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, /* Welcome to nobody */
      {OURS, 6},
      {OURS, 7},
      {OURS, 5},
      {THEIRS, REFUSAL},
      {0}};
  for (size_t at = 0; at < sizeof headers / sizeof *headers; at++) {
    STEP("nonsense, number %zu", at);
    settle(speak(endpoint, headers[at], HEADER, "rubbish", 7));
    check_alive(endpoint);
  }
  for (size_t length = 0; length < HEADER; length += 5) {
    STEP("a header of %zu bytes", length);
    settle(speak(endpoint, headers[0], length, NULL, 0));
    check_alive(endpoint);
  }
}

static uint32_t crc32(const uint8_t *data, size_t length) {
  uint32_t crc = UINT32_MAX;
  for (size_t at = 0; at < length; at++) {
    crc ^= data[at];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* The raw worker's address with a trailer like this library's. */
static ucxx_address_t *disguised(ucxx_context_t *context) {
  ucxx_worker_t *model = NULL;
  ucxx_address_t *real = NULL, *made = NULL;
  ucp_address_t *address = NULL;
  size_t length = 0;
  CHECK_OK(ucxx_worker_create(context, NULL, &model));
  CHECK_OK(ucxx_worker_address(model, &real));
  UCP_OK(ucp_worker_get_address(raw, &address, &length));
  uint8_t *bytes = test_alloc(length + TRAILER);
  memcpy(bytes, address, length);
  memcpy(bytes + length,
         (const uint8_t *)ucxx_address_data(real) + ucxx_address_length(real) - TRAILER, TRAILER);
  uint32_t ucp_length = (uint32_t)length;
  memcpy(bytes + length, &ucp_length, 4);
  /* The checksum covers everything before it, and the four bytes after it. */
  uint8_t *covered = test_alloc(length + 68);
  memcpy(covered, bytes, length + 64);
  memcpy(covered + length + 64, bytes + length + 68, 4);
  uint32_t checksum = crc32(covered, length + 68);
  memcpy(bytes + length + 64, &checksum, 4);
  CHECK_OK(ucxx_address_from_bytes(bytes, length + TRAILER, &made));
  free(covered);
  free(bytes);
  ucp_worker_release_address(raw, address);
  ucxx_address_destroy(real);
  ucxx_worker_destroy(model);
  return made;
}

static void we_are_older(ucxx_context_t *context) {
  STEP("our Hello is refused by version %d", THEIRS);
  seen_t closed;
  memset(&closed, 0, sizeof closed);
  ucxx_address_t *address = disguised(context);
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_endpoint_t *endpoint = NULL;
  params.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  params.on_close = see_endpoint;
  params.on_close_arg = &closed;
  refuses = 1;
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &endpoint));
  UNTIL(seen_count(&closed) > 0);
  CHECK_STATUS(closed.status, UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_endpoint_status(endpoint), UCXX_ERR_UNSUPPORTED);
  CHECK_STATUS(ucxx_tag_send(endpoint, "message", 8, 1, NULL, NULL), UCXX_ERR_UNSUPPORTED);
  CHECK_MESSAGE("version 9");
  CHECK_MESSAGE("version 1");
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  ucxx_address_destroy(address);
}

int main(void) {
  test_begin("other_version");
  ucxx_context_t *context = NULL;
  ucp_context_h raw_context = raw_open();
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucp_ep_h endpoint = raw_reach();
  check_alive(endpoint);
  they_are_newer(endpoint);
  they_are_confused(endpoint);
  we_are_older(context);
  check_alive(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  ucp_worker_destroy(raw);
  ucp_cleanup(raw_context);
  return 0;
}
