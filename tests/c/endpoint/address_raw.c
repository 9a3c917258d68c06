/* An address from a program that uses UCP alone: ucxx_address_from_bytes refuses it,
 * ucxx_address_from_ucp_bytes accepts it, and messages arrive. */
#include "test_util.h"

#include <sys/socket.h>
#include <ucp/api/ucp.h>

enum { TAG = 0x7a3, COUNT = 3 };

static const size_t lengths[COUNT] = {8, 5000, 1 << 20};

#define UCP_OK(call) CHECK((call) == UCS_OK)

static void raw_receive(const pair_t *pair, ucp_worker_h worker, size_t length, uint64_t seed) {
  STEP("raw receive of %zu bytes", length);
  uint8_t *data = test_alloc(length);
  ucp_request_param_t params;
  memset(&params, 0, sizeof params);
  ucs_status_ptr_t request = ucp_tag_recv_nbx(worker, data, length, TAG, UINT64_MAX, &params);
  CHECK(!UCS_PTR_IS_ERR(request));
  if (request != NULL) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    UCP_OK(ucp_request_check_status(request));
    ucp_request_free(request);
  }
  CHECK_CONTENT(data, length, seed);
  free(data);
  /* Until the other side continues: a rendezvous completes there later than here. */
  pair_tell(pair);
}

static void raw_side(pair_t *pair) {
  ucp_params_t params;
  ucp_worker_params_t worker_params;
  ucp_context_h context = NULL;
  ucp_worker_h worker = NULL;
  ucp_address_t *address = NULL;
  size_t length = 0;
  memset(&params, 0, sizeof params);
  memset(&worker_params, 0, sizeof worker_params);
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  UCP_OK(ucp_init(&params, NULL, &context));
  UCP_OK(ucp_worker_create(context, &worker_params, &worker));
  UCP_OK(ucp_worker_get_address(worker, &address, &length));
  uint64_t sent_length = length;
  channel_put(pair, &sent_length, sizeof sent_length);
  channel_put(pair, address, length);
  ucp_worker_release_address(worker, address);
  for (int at = 0; at < COUNT; at++)
    raw_receive(pair, worker, lengths[at], pair->seed + (uint64_t)at);
  char byte = 0;
  while (recv(pair->channel, &byte, 1, MSG_DONTWAIT) != 1) ucp_worker_progress(worker);
  ucp_worker_destroy(worker);
  ucp_cleanup(context);
}

static void library_side(pair_t *pair) {
  uint64_t length = 0;
  channel_get(pair, &length, sizeof length);
  uint8_t *bytes = test_alloc(length);
  channel_get(pair, bytes, length);
  ucxx_address_t *address = NULL;
  STEP("the checked function refuses an address without the trailer");
  CHECK_STATUS(ucxx_address_from_bytes(bytes, length, &address), UCXX_ERR_INVALID_ADDR);
  CHECK_OK(ucxx_address_from_ucp_bytes(bytes, length, &address));
  free(bytes);
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, NULL, &pair->worker));
  /* The other side does not close in step with this one. Without failure detection that causes no
   * event. */
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &pair->endpoint));
  ucxx_address_destroy(address);
  for (int at = 0; at < COUNT; at++) {
    STEP("send of %zu bytes to a raw UCP worker", lengths[at]);
    uint8_t *data = test_alloc(lengths[at]);
    test_fill(data, lengths[at], pair->seed + (uint64_t)at);
    ucxx_request_t *request = NULL;
    CHECK_OK(
        finish(ucxx_tag_send(pair->endpoint, data, lengths[at], TAG, NULL, &request), &request));
    pair_await(pair);
    free(data);
  }
  STEP("closing the endpoint to a raw UCP worker");
  ucxx_endpoint_destroy(pair->endpoint);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
  pair->worker = NULL;
  pair_tell(pair);
}

static void body(pair_t *pair) {
  if (pair->side == 0)
    library_side(pair);
  else
    raw_side(pair);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "address_raw", body); }
