/* A worker ends while the closes of its endpoints cannot: without error handling nothing forces
 * them, and the peer does not progress while its queue is full. The process lives, with a UCX that
 * checks itself, too. */
#include "test_util.h"

/* More than UCX's shared memory queue holds. */
enum { ENDPOINTS = 96, SENDS = 200 };

static ucxx_endpoint_t *endpoints[ENDPOINTS];
static uint64_t word;

static void start(void) {
  duo_t duo;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t send = UCXX_OP_PARAMS_INIT;
  ucxx_address_t *address;
  params.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  STEP("connections");
  for (int i = 0; i < ENDPOINTS; i++) {
    ucxx_request_t *receive = NULL;
    CHECK_OK(ucxx_endpoint_create(duo.left, address, &params, &endpoints[i]));
    CHECK_STATUS(ucxx_tag_recv(duo.right, &word, sizeof word, 1, UINT64_MAX, NULL, &receive),
                 UCXX_INPROGRESS);
    CHECK(ucxx_tag_send(endpoints[i], &word, sizeof word, 1, &send, NULL) >= 0);
    while (ucxx_request_status(receive) == UCXX_INPROGRESS) {
      progress(duo.left);
      progress(duo.right);
    }
    ucxx_request_destroy(receive);
  }
  for (int i = 0; i < 1000; i++) {
    progress(duo.left);
    progress(duo.right);
  }
  STEP("closes that cannot end");
  for (int i = 0; i < ENDPOINTS; i++)
    CHECK(ucxx_endpoint_close(endpoints[i], UCXX_CLOSE_FLUSH, NULL, NULL) >= 0);
  ucxx_address_destroy(address);
  STEP("the end of the worker");
  for (int i = 0; i < ENDPOINTS; i++) ucxx_endpoint_destroy(endpoints[i]);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

int main(void) {
  test_begin("close_unread");
  start();
  return 0;
}
