/* Bad input: notifiers. See bad_input.h. */
#include "bad_input.h"

enum what { CREATE, WAIT, POLL, EVENT_FD, ARM, STOP };

/* On a notifier of its own, in a context with or without UCXX_FEATURE_WAKEUP. */
static ucxx_status_t on_context(ucxx_context_t *context, enum what what) {
  ucxx_notifier_t *notifier = NULL;
  ucxx_completion_t completion;
  size_t count = 77;
  int fd = 77;
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  ucxx_status_t status = UCXX_OK;
  if (what == WAIT) status = ucxx_notifier_wait(notifier, 0);
  if (what == POLL)
    status = ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count);
  if (what == EVENT_FD) status = ucxx_notifier_event_fd(notifier, &fd);
  if (what == ARM) status = ucxx_notifier_arm(notifier);
  if (what == STOP) status = ucxx_notifier_stop(notifier);
  if (status < 0) CHECK(count == 77 && fd == 77);
  ucxx_notifier_destroy(notifier);
  return status;
}

static ucxx_status_t poll_with(fixture_t *f, ucxx_completion_t *completions, size_t size,
                               size_t max, int with_count) {
  ucxx_notifier_t *notifier = NULL;
  size_t count = 77;
  CHECK_OK(ucxx_notifier_create(f->context, &notifier));
  ucxx_status_t status =
      ucxx_notifier_poll(notifier, completions, size, max, with_count ? &count : NULL);
  CHECK_EQ(count, status == UCXX_OK && with_count ? 0 : 77);
  ucxx_notifier_destroy(notifier);
  return status;
}

static ucxx_status_t event_fd_nowhere(fixture_t *f) {
  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(f->context, &notifier));
  ucxx_status_t status = ucxx_notifier_event_fd(notifier, NULL);
  ucxx_notifier_destroy(notifier);
  return status;
}

static void must_not_run(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)arg;
  (void)request;
  FAIL("the callback of a refused operation ran with %s", ucxx_status_name(status));
}

/* An operation that names a notifier of this context; no event may be reported. */
static ucxx_status_t name_it(fixture_t *f, ucxx_context_t *context, uint64_t flags, int stop,
                             int callback) {
  ucxx_notifier_t *notifier = NULL;
  ucxx_completion_t completion;
  size_t count = 0;
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = flags;
  op.notifier = notifier;
  op.callback = callback ? must_not_run : NULL;
  if (stop) CHECK_OK(ucxx_notifier_stop(notifier));
  ucxx_status_t status =
      ucxx_tag_recv(f->worker, f->bytes, 8, UINT64_C(0x6e6f7468), UINT64_MAX, &op, &f->out.request);
  if (!stop) {
    CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
    CHECK_EQ(count, 0);
  }
  ucxx_notifier_destroy(notifier);
  return status;
}

static void must_not_connect(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  (void)request;
  FAIL("the callback of a refused listener ran");
}

static void must_not_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  FAIL("the callback of a refused endpoint ran with %s", ucxx_status_name(status));
}

enum event { LISTEN, LISTEN_BOTH, CREATE_ENDPOINT, CREATE_BOTH, CONNECT, MESSAGES, QUESTIONS };

/* An object whose events a notifier of this context should report. */
static ucxx_status_t events_with(fixture_t *f, ucxx_context_t *context, enum event event) {
  ucxx_notifier_t *notifier = NULL;
  ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  listening.notifier = params.notifier = notifier;
  listening.on_connect = event == LISTEN_BOTH ? must_not_connect : NULL;
  params.on_close = event == CREATE_BOTH ? must_not_close : NULL;
  ucxx_status_t status = UCXX_OK;
  switch (event) {
  case LISTEN:
  case LISTEN_BOTH: status = ucxx_listener_create(f->worker, &listening, &f->out.listener); break;
  case CREATE_ENDPOINT:
  case CREATE_BOTH: {
    ucxx_address_t *address = NULL;
    CHECK_OK(ucxx_worker_address(f->duo.right, &address));
    status = ucxx_endpoint_create(f->worker, address, &params, &f->out.endpoint);
    ucxx_address_destroy(address);
    break;
  }
  case CONNECT:
    status = ucxx_endpoint_connect(f->worker, "127.0.0.1", 1, &params, &f->out.endpoint);
    break;
  case MESSAGES: status = ucxx_worker_set_am_notifier(f->worker, 77, notifier, NULL); break;
  case QUESTIONS: status = ucxx_worker_set_fetch_notifier(f->worker, 77, notifier, NULL); break;
  }
  ucxx_notifier_destroy(notifier);
  return status;
}

#define BAD_INPUT_ROWS "bad_input_notifier.inc"
#define BAD_INPUT_TABLE bad_input_notifier
#include "bad_input_table.h"
