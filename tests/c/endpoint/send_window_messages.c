/*
 * UCP never holds more active messages, fetches, replies and refusals than the send window allows,
 * plus the few refusals that may bypass it. This program replaces UCP's function that sends them,
 * and counts.
 */
#include "test_util.h"

#include "send_window.h"

#include <dlfcn.h>
#include <ucp/api/ucp.h>

enum { ID = 3, QUESTIONS = 3000, MESSAGES = 2000, WINDOW = 16, BEYOND = 64 };

static int under_way, most; /* sends that UCP has not completed */
static ucp_send_nbx_callback_t library_callback;

static void on_end(void *request, ucs_status_t status, void *user_data) {
  under_way--;
  library_callback(request, status, user_data);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h endpoint, unsigned id, const void *header,
                                 size_t header_length, const void *buffer, size_t count,
                                 const ucp_request_param_t *param) {
  ucs_status_ptr_t (*send)(ucp_ep_h, unsigned, const void *, size_t, const void *, size_t,
                           const ucp_request_param_t *);
  *(void **)&send = dlsym(RTLD_NEXT, "ucp_am_send_nbx");
  CHECK(send != NULL);
  CHECK(param->op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK);
  CHECK(library_callback == NULL || library_callback == param->cb.send);
  library_callback = param->cb.send;
  ucp_request_param_t mine = *param;
  mine.cb.send = on_end;
  ucs_status_ptr_t result = send(endpoint, id, header, header_length, buffer, count, &mine);
  if (UCS_PTR_IS_PTR(result)) under_way++;
  if (under_way > most) most = under_way;
  return result;
}

static ucxx_fetch_t *held[QUESTIONS];
static unsigned questions, messages, ended[3];

static void hold(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  CHECK(questions < QUESTIONS);
  held[questions++] = fetch;
}

static void take(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  messages++;
  ucxx_am_message_destroy(message);
}

static void count_end(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK(status == UCXX_OK || status == UCXX_ERR_BUSY || status == UCXX_ERR_NO_ELEM);
  (*(unsigned *)arg)++;
}

static void ask(const duo_t *duo, uint16_t id, unsigned count, unsigned *counter) {
  static uint8_t nothing[8];
  for (unsigned at = 0; at < count; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = count_end;
    params.callback_arg = counter;
    CHECK_STATUS(ucxx_am_fetch(duo->to_right, id, NULL, 0, nothing, sizeof nothing, &params, NULL),
                 UCXX_INPROGRESS);
  }
}

/* The fetching side does not progress while the other one refuses. */
static void refuse(const duo_t *duo) {
  STEP("fetches that are all refused at once");
  ask(duo, ID, QUESTIONS, &ended[0]);
  while (questions < QUESTIONS) duo_progress(duo);
  /* Everything sent has arrived. */
  for (int quiet = 0; quiet < 1000; quiet++) duo_progress(duo);
  CHECK_EQ(under_way, 0);
  most = 0;
  for (unsigned at = 0; at < QUESTIONS; at++) {
    CHECK_OK(ucxx_fetch_reject(held[at], UCXX_ERR_BUSY));
    ucxx_fetch_destroy(held[at]);
    if (at % 100 == 0) progress(duo->right);
  }
  for (int pass = 0; pass < 100; pass++) progress(duo->right);
  printf("%d of %d refusals in UCP at a time\n", most, QUESTIONS);
  CHECK(most <= WINDOW + BEYOND);
  while (ended[0] < QUESTIONS) duo_progress(duo);
}

/* Both sides at once, with messages among the fetches: neither side's UCP has more. */
static void both_ways(const duo_t *duo) {
  STEP("messages, and fetches that nobody answers, with a receiver that pauses now and "
       "then");
  most = 0;
  for (unsigned at = 0; at < MESSAGES; at++) {
    static const uint8_t bytes[100];
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = count_end;
    params.callback_arg = &ended[1];
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    ucxx_status_t status =
        ucxx_am_send(duo->to_right, ID, NULL, 0, bytes, sizeof bytes, &params, NULL);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    ask(duo, ID + 1, 1, &ended[2]);
    progress(duo->left);
    if (at % 200 >= 100) progress(duo->right);
  }
  while (ended[1] < MESSAGES || ended[2] < MESSAGES || messages < MESSAGES) duo_progress(duo);
  printf("%d of %d messages, fetches and refusals in UCP at a time\n", most, 3 * MESSAGES);
  CHECK(most <= 2 * WINDOW + BEYOND);
  CHECK_EQ(messages, MESSAGES);
}

int main(void) {
  test_begin("send_window_messages");
  duo_t duo = {0};
  ucxx_endpoint_params_t narrow = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_address_t *address = NULL;
  narrow.send_window_ops = WINDOW;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_endpoint_create(duo.left, address, &narrow, &duo.to_right));
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_worker_address(duo.left, &address));
  CHECK_OK(ucxx_endpoint_create(duo.right, address, &narrow, &duo.to_left));
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, hold, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, take, NULL, NULL));
  refuse(&duo);
  both_ways(&duo);
  duo_close(&duo);
  return 0;
}
