/* UCP's own handles: calls of UCP on a worker, an endpoint, memory, a key, a connection request and
 * a probed message of the library, in every progress mode, and NULL where there is no handle. */
#include "test_util.h"

#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include "rma.h"

#define UCP_OK(call) CHECK_EQ(call, UCS_OK)

enum { TAG = 0x71, PROBED_TAG = 0x72, LENGTH = 200000, AREA = 4096 };

typedef struct transfer {
  const pair_t *pair;
  uint8_t *out, *in;
  ucs_status_ptr_t send, receive;
  void *message;
  ucxx_rkey_t *rkey;
  int left;
} transfer_t;

static ucp_request_param_t no_params(void) {
  ucp_request_param_t params;
  memset(&params, 0, sizeof params);
  return params;
}

/* Where progress happens. */
static void post(void *arg) {
  transfer_t *transfer = arg;
  ucp_request_param_t params = no_params();
  ucp_worker_h worker = ucxx_worker_native(transfer->pair->worker);
  ucp_ep_h endpoint = ucxx_endpoint_native(transfer->pair->endpoint);
  CHECK(worker != NULL && endpoint != NULL);
  CHECK(endpoint == ucxx_endpoint_native(transfer->pair->endpoint));
  transfer->receive = ucp_tag_recv_nbx(worker, transfer->in, LENGTH, TAG, UINT64_MAX, &params);
  transfer->send = ucp_tag_send_nbx(endpoint, transfer->out, LENGTH, TAG, &params);
  transfer->left = 2;
}

static void put_by_ucp(void *arg) {
  transfer_t *transfer = arg;
  ucp_request_param_t params = no_params();
  ucp_ep_h endpoint = ucxx_endpoint_native(transfer->pair->endpoint);
  ucp_rkey_h rkey = ucxx_rkey_native(transfer->rkey);
  CHECK(endpoint != NULL && rkey != NULL);
  transfer->send =
      ucp_put_nbx(endpoint, transfer->out, AREA, ucxx_rkey_base(transfer->rkey), rkey, &params);
  transfer->receive = ucp_ep_flush_nbx(endpoint, &params);
  transfer->left = 2;
}

static void receive_message(void *arg) {
  transfer_t *transfer = arg;
  ucp_request_param_t params = no_params();
  ucp_worker_h worker = ucxx_worker_native(transfer->pair->worker);
  transfer->receive =
      ucp_tag_msg_recv_nbx(worker, transfer->in, LENGTH, transfer->message, &params);
  transfer->left = 1;
}

static void check_one(transfer_t *transfer, ucs_status_ptr_t *request) {
  if (*request == NULL || UCS_PTR_IS_PTR(*request)) {
    ucs_status_t status = *request == NULL ? UCS_OK : ucp_request_check_status(*request);
    if (status == UCS_INPROGRESS) return;
    UCP_OK(status);
    if (*request != NULL) ucp_request_free(*request);
    *request = UCS_STATUS_PTR(UCS_ERR_LAST);
    transfer->left--;
  }
  CHECK_EQ(UCS_PTR_STATUS(*request), UCS_ERR_LAST);
}

static void check(void *arg) {
  transfer_t *transfer = arg;
  check_one(transfer, &transfer->receive);
  check_one(transfer, &transfer->send);
}

static void complete(transfer_t *transfer) {
  do {
    progress(transfer->pair->worker);
    CHECK_OK(ucxx_worker_run_pre(transfer->pair->worker, check, transfer, FOR_EVER));
  } while (transfer->left > 0);
}

static void transfer_by_ucp(transfer_t *transfer) {
  STEP("tag messages by UCP, each way");
  const pair_t *pair = transfer->pair;
  uint64_t seed = pair->seed;
  test_fill(transfer->out, LENGTH, seed + (uint64_t)pair->side);
  CHECK_OK(ucxx_worker_run_pre(pair->worker, post, transfer, FOR_EVER));
  complete(transfer);
  CHECK_CONTENT(transfer->in, LENGTH, seed + 1 - (uint64_t)pair->side);
  pair_sync(pair);
}

static void probed(transfer_t *transfer) {
  STEP("a probed message, received by UCP");
  const pair_t *pair = transfer->pair;
  ucxx_request_t *request = NULL;
  ucxx_status_t sent =
      ucxx_tag_send(pair->endpoint, transfer->out, LENGTH, PROBED_TAG, NULL, &request);
  ucxx_tag_message_t *message = NULL;
  ucxx_recv_info_t info;
  while (ucxx_tag_probe(pair->worker, PROBED_TAG, UINT64_MAX, &info, &message) != UCXX_OK)
    progress(pair->worker);
  CHECK_EQ(info.length, LENGTH);
  transfer->message = ucxx_tag_message_native(message);
  CHECK(transfer->message != NULL);
  CHECK(ucxx_tag_message_native(message) == NULL);
  ucxx_request_t *second = NULL;
  CHECK_STATUS(ucxx_tag_message_recv(message, transfer->in, LENGTH, NULL, &second),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("received already");
  ucxx_tag_message_destroy(message);
  memset(transfer->in, 0, LENGTH);
  CHECK_OK(ucxx_worker_run_post(pair->worker, receive_message, transfer, FOR_EVER));
  complete(transfer);
  CHECK_CONTENT(transfer->in, LENGTH, pair->seed + 1 - (uint64_t)pair->side);
  CHECK_OK(finish(sent, &request));
  pair_sync(pair);
}

static void memory_and_key(transfer_t *transfer) {
  STEP("memory and a key");
  const pair_t *pair = transfer->pair;
  uint8_t key[LONGEST_KEY];
  ucxx_memory_t *memory = NULL;
  CHECK_OK(ucxx_memory_allocate(pair->context, AREA, UCXX_MEMORY_AUTO, &memory));
  ucp_mem_attr_t attr;
  memset(&attr, 0, sizeof attr);
  attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  UCP_OK(ucp_mem_query(ucxx_memory_native(memory), &attr));
  CHECK(attr.address == ucxx_memory_base(memory));
  CHECK(attr.length >= AREA);
  size_t length = pack(memory, key);
  channel_put(pair, &length, sizeof length);
  channel_put(pair, key, length);
  channel_get(pair, &length, sizeof length);
  channel_get(pair, key, length);
  CHECK_OK(ucxx_rkey_unpack(pair->endpoint, key, length, &transfer->rkey));
  CHECK_OK(ucxx_worker_run_pre(pair->worker, put_by_ucp, transfer, FOR_EVER));
  complete(transfer);
  pair_sync(pair);
  CHECK_CONTENT(ucxx_memory_base(memory), AREA, pair->seed + 1 - (uint64_t)pair->side);
  ucxx_rkey_destroy(transfer->rkey);
  pair_sync(pair);
  ucxx_memory_destroy(memory);
}

static void elsewhere(const pair_t *pair, const ucxx_worker_params_t *params) {
  STEP("on the thread that calls");
  ucp_context_attr_t attr;
  memset(&attr, 0, sizeof attr);
  attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  UCP_OK(ucp_context_query(ucxx_context_native(pair->context), &attr));
  CHECK(attr.request_size > 0);
  CHECK(ucxx_worker_native(pair->worker) != NULL);
  int manual = params->progress_mode == UCXX_PROGRESS_MANUAL;
  CHECK_EQ(ucxx_endpoint_native(pair->endpoint) != NULL, manual);
}

static pair_t *both;

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s", mode);
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  context.features = RMA_FEATURES;
  pair_connect(both, &context, params, NULL);
  transfer_t transfer = {.pair = both, .out = test_alloc(LENGTH), .in = test_alloc(LENGTH)};
  transfer.send = transfer.receive = UCS_STATUS_PTR(UCS_ERR_LAST);
  elsewhere(both, params);
  transfer_by_ucp(&transfer);
  probed(&transfer);
  memory_and_key(&transfer);
  free(transfer.out);
  free(transfer.in);
  pair_disconnect(both);
}

static void on_request(void *arg, ucxx_conn_request_t *request) {
  *(ucxx_conn_request_t **)arg = request;
}

static void connection_request(void) {
  STEP("a connection request");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *server = NULL, *client = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &server));
  CHECK_OK(ucxx_worker_create(context, NULL, &client));
  ucxx_conn_request_t *request = NULL;
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = on_request;
  params.on_connect_arg = &request;
  ucxx_listener_t *listener = NULL;
  CHECK_OK(ucxx_listener_create(server, &params, &listener));
  ucxx_endpoint_t *endpoint = NULL, *accepted = NULL;
  CHECK_OK(
      ucxx_endpoint_connect(client, "127.0.0.1", ucxx_listener_port(listener), NULL, &endpoint));
  CHECK(ucxx_endpoint_native(endpoint) == NULL);
  while (request == NULL) {
    progress(client);
    progress(server);
  }
  ucp_conn_request_attr_t attr;
  memset(&attr, 0, sizeof attr);
  attr.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  UCP_OK(ucp_conn_request_query(ucxx_conn_request_native(request), &attr));
  CHECK_EQ(attr.client_address.ss_family, AF_INET);
  CHECK_OK(ucxx_endpoint_accept(request, NULL, &accepted));
  CHECK(ucxx_conn_request_native(request) == NULL);
  ucxx_conn_request_destroy(request);
  while (ucxx_endpoint_native(endpoint) == NULL || ucxx_endpoint_native(accepted) == NULL) {
    progress(client);
    progress(server);
  }
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(client);
  CHECK(ucxx_endpoint_native(endpoint) == NULL);
  ucxx_endpoint_destroy(endpoint);
  ucxx_endpoint_destroy(accepted);
  ucxx_worker_destroy(server);
  ucxx_context_destroy(context);
}

static void nothing(void) {
  STEP("NULL for NULL");
  CHECK(ucxx_context_native(NULL) == NULL);
  CHECK(ucxx_worker_native(NULL) == NULL);
  CHECK(ucxx_endpoint_native(NULL) == NULL);
  CHECK(ucxx_conn_request_native(NULL) == NULL);
  CHECK(ucxx_tag_message_native(NULL) == NULL);
  CHECK(ucxx_memory_native(NULL) == NULL);
  CHECK(ucxx_rkey_native(NULL) == NULL);
}

static void body(pair_t *pair) {
  both = pair;
  nothing();
  if (has_tcp()) connection_request();
  in_every_mode(round_in);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "native", body); }
