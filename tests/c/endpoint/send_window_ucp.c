/*
 * However many sends are offered, UCP never holds more than the window, and the library never sends
 * from inside UCP's progress, where messages lose their order. This program replaces UCP's send
 * functions, and counts.
 */
#include "test_util.h"

#include "send_window.h"

#include <dlfcn.h>
#include <ucp/api/ucp.h>

static int under_way, most; /* sends that UCP has not completed */
static int progressing;
static ucp_send_nbx_callback_t library_callback;

static void on_end(void *request, ucs_status_t status, void *user_data) {
  under_way--;
  library_callback(request, status, user_data);
}

typedef ucs_status_ptr_t (*send_t)(ucp_ep_h, const void *, size_t, ucp_tag_t,
                                   const ucp_request_param_t *);

static ucs_status_ptr_t counted(const char *name, ucp_ep_h endpoint, const void *buffer,
                                size_t count, ucp_tag_t tag, const ucp_request_param_t *param) {
  send_t send;
  *(void **)&send = dlsym(RTLD_NEXT, name);
  CHECK(send != NULL);
  CHECK(!progressing);
  CHECK(param->op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK);
  CHECK(library_callback == NULL || library_callback == param->cb.send);
  library_callback = param->cb.send;
  ucp_request_param_t mine = *param;
  mine.cb.send = on_end;
  ucs_status_ptr_t result = send(endpoint, buffer, count, tag, &mine);
  if (UCS_PTR_IS_PTR(result)) under_way++;
  if (under_way > most) most = under_way;
  return result;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h endpoint, const void *buffer, size_t count,
                                  ucp_tag_t tag, const ucp_request_param_t *param) {
  return counted("ucp_tag_send_nbx", endpoint, buffer, count, tag, param);
}

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h endpoint, const void *buffer, size_t count,
                                       ucp_tag_t tag, const ucp_request_param_t *param) {
  return counted("ucp_tag_send_sync_nbx", endpoint, buffer, count, tag, param);
}

unsigned ucp_worker_progress(ucp_worker_h worker) {
  unsigned (*real)(ucp_worker_h);
  *(void **)&real = dlsym(RTLD_NEXT, "ucp_worker_progress");
  CHECK(real != NULL && !progressing);
  progressing = 1;
  unsigned events = real(worker);
  progressing = 0;
  return events;
}

static void send_more(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  line_t *line = arg;
  static const uint64_t number = 0;
  (void)request;
  CHECK_OK(status);
  ucxx_status_t sent = ucxx_tag_send_sync(line->endpoint, &number, 8, TAG, NULL, NULL);
  CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
}

/* Lengths for all protocols, synchronous or not, with or without a callback that sends. */
static void offer(line_t *line, unsigned window, uint64_t seed) {
  enum { OFFERS = 2000, LONGEST = 100000 };
  static const size_t lengths[] = {8, 200, 6000, 20000, LONGEST};
  STEP("a window of %u", window);
  static uint8_t out[LONGEST], in[LONGEST];
  memset(out, 0, sizeof out);
  most = 0;
  unsigned messages = 0, full = 0;
  for (unsigned i = 0; i < OFFERS; i++) {
    seed = test_mix(seed);
    size_t length = lengths[seed % 5];
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    if ((seed >> 8) % 8 == 0) {
      params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
      params.callback = send_more;
      params.callback_arg = line;
      messages++;
    }
    ucxx_status_t sent = (seed >> 16) % 2
                             ? ucxx_tag_send(line->endpoint, out, length, TAG, &params, NULL)
                             : ucxx_tag_send_sync(line->endpoint, out, length, TAG, &params, NULL);
    CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
    messages++;
    standing_t attr = attr_of(line->endpoint);
    CHECK_EQ(attr.window_operations, under_way);
    full += attr.queued_operations > 0;
    if ((seed >> 24) % 4 == 0) drive(line);
  }
  for (unsigned i = 0; i < messages; i++) {
    ucxx_request_t *receive = NULL;
    CHECK_OK(line_finish(
        line, ucxx_tag_recv(line->to, in, sizeof in, TAG, UINT64_MAX, NULL, &receive), &receive));
  }
  ucxx_request_t *flush = NULL;
  CHECK_OK(line_finish(line, ucxx_endpoint_flush(line->endpoint, NULL, &flush), &flush));
  CHECK(nothing_arrived(line));
  CHECK_EQ(under_way, 0);
  CHECK_EQ(attr_of(line->endpoint).in_flight, 0);
  printf("window %u: %u messages, at most %d in UCP, %u offers refused\n", window, messages, most,
         full);
  CHECK_EQ(most, window);
  CHECK(full > OFFERS / 2);
}

int main(void) {
  test_begin("send_window_ucp");
  uint64_t seed = test_seed();
  for (unsigned way = 0; way < 2; way++) {
    static const unsigned windows[] = {1, 2, 17, 256};
    for (unsigned i = 0; i < sizeof windows / sizeof *windows; i++) {
      line_t line;
      line_open(&line, &ways[way], limits(windows[i] == 256 ? 0 : windows[i], 0, 0, 0));
      offer(&line, windows[i], seed + i);
      line_close(&line);
    }
  }
  return 0;
}
