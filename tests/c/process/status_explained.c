/* Every negative status has an explanation, even one that is a normal result. An earlier call's
 * message is not shown again. */
#include "test_util.h"

#include <pthread.h>

#include "hub.h"

enum { TAG = 0x77 };

/* An error of another call. */
static void leave_something_old(void) {
  CHECK_STATUS(ucxx_version_query(NULL), UCXX_ERR_INVALID_PARAM);
}

/* The call that just returned `status` left a message with this word, and the text contains
 * both. */
static void check_text(ucxx_status_t status, const char *word) {
  char expected[2048];
  CHECK_MESSAGE(word);
  snprintf(expected, sizeof expected, "%s: %s", ucxx_status_name(status),
           ucxx_last_error_message());
  if (strcmp(ucxx_error_text(status), expected) != 0)
    FAIL("the text is '%s', and not '%s'", ucxx_error_text(status), expected);
}

#define ANSWERS(call, status, word) \
  do {                              \
    STEP("%s", #call);              \
    leave_something_old();          \
    CHECK_STATUS(call, status);     \
    check_text(status, word);       \
  } while (0)

static void worker_answers(const duo_t *duo) {
  ucxx_recv_info_t info;
  ANSWERS(ucxx_tag_probe(duo->left, TAG, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE,
          "no message");
  while (ucxx_worker_wait(duo->left, 0) == UCXX_OK) continue;
  ANSWERS(ucxx_worker_wait(duo->left, 0), UCXX_ERR_TIMED_OUT, "given time");
  leave_something_old();
  CHECK_OK(ucxx_tag_send(duo->to_left, "x", 1, TAG, NULL, NULL));
  CHECK_MESSAGE("version"); /* a successful call leaves it */
  ucxx_status_t status;
  do {
    leave_something_old();
    status = ucxx_worker_arm(duo->left);
    if (status == UCXX_ERR_BUSY)
      check_text(status, "progress first");
    else
      CHECK_OK(ucxx_worker_signal(duo->left));
  } while (status != UCXX_ERR_BUSY);
  while (ucxx_tag_probe(duo->left, TAG, UINT64_MAX, &info, NULL) != UCXX_OK) duo_progress(duo);
  char byte;
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(duo, ucxx_tag_recv(duo->left, &byte, 1, TAG, UINT64_MAX, NULL, &request),
                      &request));
}

static void request_answers(const duo_t *duo) {
  char byte;
  size_t index = 9;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = 1;
  params.flags = UCXX_FLAG_WAIT;
  ANSWERS(ucxx_tag_recv(duo->left, &byte, 1, TAG, UINT64_MAX, &params, NULL), UCXX_ERR_TIMED_OUT,
          "tag receive");
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv(duo->left, &byte, 1, TAG, UINT64_MAX, NULL, &request),
               UCXX_INPROGRESS);
  leave_something_old();
  CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait(request, 0), UCXX_INPROGRESS);
  CHECK_MESSAGE("version");
  CHECK_OK(ucxx_request_cancel(request));
  ANSWERS(ucxx_request_wait(request, FOR_EVER), UCXX_ERR_CANCELED, "tag receive");
  ANSWERS(ucxx_request_status(request), UCXX_ERR_CANCELED, "tag receive");
  ANSWERS(ucxx_request_wait_all(&request, 1, FOR_EVER), UCXX_ERR_CANCELED, "tag receive");
  ANSWERS(ucxx_request_wait_any(&request, 1, FOR_EVER, &index), UCXX_ERR_CANCELED, "tag receive");
  ANSWERS(ucxx_request_wait_all(NULL, 0, 0), UCXX_ERR_NO_ELEM, "request");
  ucxx_request_destroy(request);
}

static void notifier_answers(const duo_t *duo) {
  ucxx_notifier_t *notifier = NULL;
  CHECK_OK(ucxx_notifier_create(duo->context, &notifier));
  ANSWERS(ucxx_notifier_wait(notifier, 0), UCXX_ERR_TIMED_OUT, "completion");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.notifier = notifier;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(ucxx_tag_send(duo->to_left, "x", 1, TAG, &params, NULL), UCXX_INPROGRESS);
  while (ucxx_notifier_wait(notifier, 0) != UCXX_OK) duo_progress(duo);
  ANSWERS(ucxx_notifier_arm(notifier), UCXX_ERR_BUSY, "poll first");
  ucxx_notifier_destroy(notifier);
}

static void hub_answers(void) {
  hub_t hub = hub_open(64, 1, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_envelope_t *envelope = NULL;
  ANSWERS(ucxx_link_lease(out, 0, &envelope), UCXX_ERR_NO_RESOURCE, "leased");
  ANSWERS(ucxx_link_lease(out, 1, &envelope), UCXX_ERR_TIMED_OUT, "given time");
  ANSWERS(ucxx_link_lease_many(&out, 1, 0, &envelope), UCXX_ERR_NO_RESOURCE, "leased");
  ANSWERS(ucxx_hub_peek(hub.hub, on_host, 0, &envelope), UCXX_ERR_NO_RESOURCE, "leased");
  ANSWERS(ucxx_link_arm(in), UCXX_ERR_BUSY, "lease first");
  produce_word(in, 1);
  ANSWERS(ucxx_hub_push(hub.hub, on_host, &envelope), UCXX_ERR_NO_RESOURCE, "leased");
  ANSWERS(ucxx_hub_drain(hub.hub, 0), UCXX_ERR_TIMED_OUT, "hub");
  CHECK(envelope == NULL);
  CHECK_EQ(consume_word(out), 1);
  ANSWERS(ucxx_hub_pop(hub.hub), UCXX_ERR_NO_ELEM, "hub");
  CHECK_OK(ucxx_hub_close(hub.hub));
  ANSWERS(ucxx_link_lease(out, 0, &envelope), UCXX_ERR_CLOSED, "hub");
  ANSWERS(ucxx_link_arm(out), UCXX_ERR_CLOSED, "hub");
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void *on_another_thread(void *arg) {
  ucxx_worker_t *worker = arg;
  CHECK(strcmp(ucxx_last_error_message(), "") == 0);
  CHECK_STATUS(ucxx_worker_wait(worker, 0), UCXX_ERR_TIMED_OUT);
  check_text(UCXX_ERR_TIMED_OUT, "given time");
  return NULL;
}

static void texts(const duo_t *duo) {
  STEP("each thread has its own");
  leave_something_old();
  while (ucxx_worker_wait(duo->right, 0) == UCXX_OK) continue;
  leave_something_old();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, on_another_thread, duo->right) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  check_text(UCXX_ERR_INVALID_PARAM, "version");
  STEP("another status than the last one has its sentence");
  CHECK(strcmp(ucxx_error_text(UCXX_ERR_BUSY),
               "UCXX_ERR_BUSY: not possible at the moment: something else is under way") == 0);
  CHECK(strcmp(ucxx_error_text(UCXX_OK), "UCXX_OK: done") == 0);
  CHECK(strstr(ucxx_error_text(7), "UCXX_ERR_UNKNOWN: ") != NULL);
  check_text(UCXX_ERR_INVALID_PARAM, "version");
  STEP("the application's own statuses");
  static const int own[] = {UCXX_ERR_APPLICATION, UCXX_ERR_APPLICATION - 1,
                            UCXX_ERR_APPLICATION - 123456, INT32_MIN};
  for (size_t at = 0; at < sizeof own / sizeof *own; at++) {
    CHECK(strcmp(ucxx_status_name(own[at]), "UCXX_ERR_APPLICATION") == 0);
    CHECK(strstr(ucxx_error_text(own[at]), "UCXX_ERR_APPLICATION: ") != NULL);
  }
  CHECK(strcmp(ucxx_status_name(UCXX_ERR_APPLICATION + 1), "UCXX_ERR_UNKNOWN") == 0);
  STEP("no request");
  ANSWERS(ucxx_request_wait(NULL, 0), UCXX_ERR_INVALID_PARAM, "has not succeeded");
  ANSWERS(ucxx_worker_signal(NULL), UCXX_ERR_INVALID_PARAM, "has not succeeded");
}

int main(void) {
  duo_t duo;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  test_begin("status_explained");
  duo_open(&duo, &params);
  worker_answers(&duo);
  request_answers(&duo);
  notifier_answers(&duo);
  hub_answers();
  texts(&duo);
  duo_close(&duo);
  return 0;
}
