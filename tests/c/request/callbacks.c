/* Inside a callback or a message handler every call that does not wait works; calls that would wait
 * are refused. */
#include "test_util.h"

enum { GO = 0x60, NEVER = 0x61, CHAIN = 0x62, HERE = 0x63, LARGE = 4 << 20 };

static duo_t duo;
static int by_message; /* run inside a handler */

typedef struct scene {
  void (*act)(struct scene *scene);
  int ran;
  ucxx_request_t *other; /* unmatched, on the right worker */
  seen_t other_seen;
  ucxx_endpoint_t *endpoint;
  seen_t seen;
  ucxx_request_t *request;
} scene_t;

static void enter(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  scene_t *scene = arg;
  CHECK_OK(status);
  CHECK(request != NULL);
  CHECK_EQ(scene->ran, 0);
  scene->ran = 1;
  scene->act(scene);
}

static void enter_by_message(void *arg, ucxx_am_message_t *message) {
  scene_t *scene = arg;
  CHECK_EQ(ucxx_am_message_length(message), 8);
  ucxx_am_message_destroy(message);
  CHECK_EQ(scene->ran, 0);
  scene->ran = 1;
  scene->act(scene);
}

/* Runs `act` in a callback of the right worker, or in a handler there, and completes the pass. */
static void run_inside(scene_t *scene, void (*act)(scene_t *scene)) {
  static uint64_t word, never;
  scene->act = act;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &scene->other_seen;
  CHECK_STATUS(
      ucxx_tag_recv(duo.right, &never, sizeof never, NEVER, UINT64_MAX, &params, &scene->other),
      UCXX_INPROGRESS);
  if (by_message) {
    CHECK_OK(ucxx_worker_set_am_handler(duo.right, GO, enter_by_message, scene, NULL));
    CHECK_OK(ucxx_am_send(duo.to_right, GO, NULL, 0, "message", 8, NULL, NULL));
  } else {
    params.callback = enter;
    params.callback_arg = scene;
    CHECK_STATUS(ucxx_tag_recv(duo.right, &word, sizeof word, GO, UINT64_MAX, &params, NULL),
                 UCXX_INPROGRESS);
    CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, GO, NULL, NULL));
  }
  while (!scene->ran) {
    progress(duo.left);
    uint32_t events = 0;
    ucxx_status_t status = ucxx_worker_progress(duo.right, &events);
    if (!scene->ran) CHECK_OK(status);
  }
}

static void drop_other(scene_t *scene) {
  CHECK_EQ(seen_count(&scene->other_seen), 0);
  CHECK_OK(ucxx_request_cancel(scene->other));
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &scene->other), UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&scene->other_seen), 1);
}

static void wait_everywhere(scene_t *scene) {
  uint32_t events = 77;
  size_t index = 77;
  uint64_t word = 0;
  CHECK_STATUS(ucxx_worker_progress(duo.right, &events), UCXX_ERR_BUSY);
  CHECK_EQ(events, 77);
  CHECK_STATUS(ucxx_worker_wait(duo.right, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_wait(duo.right, FOR_EVER), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_wait(duo.left, FOR_EVER), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_request_wait(scene->other, FOR_EVER), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_request_wait_all(&scene->other, 1, FOR_EVER), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_request_wait_any(&scene->other, 1, FOR_EVER, &index), UCXX_ERR_BUSY);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  CHECK_STATUS(ucxx_tag_recv(duo.right, &word, sizeof word, NEVER, UINT64_MAX, &params, NULL),
               UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_tag_send(duo.to_left, &word, sizeof word, NEVER, &params, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_endpoint_flush(duo.to_left, &params, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_flush(duo.right, &params, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_endpoint_close(duo.to_left, UCXX_CLOSE_FLUSH, &params, NULL), UCXX_ERR_BUSY);
  CHECK_OK(ucxx_endpoint_status(duo.to_left));
  CHECK_STATUS(ucxx_request_status(scene->other), UCXX_INPROGRESS);
}

static void waiting_is_refused(void) {
  STEP("calls that wait are refused");
  scene_t scene = {0};
  run_inside(&scene, wait_everywhere);
  drop_other(&scene);
  duo_transfer(&duo, 1000, 1);
  /* Nothing was sent by the refused calls. */
  ucxx_recv_info_t info;
  for (int pass = 0; pass < 100; pass++) duo_progress(&duo);
  CHECK_STATUS(ucxx_tag_probe(duo.left, NEVER, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
}

static void submit(scene_t *scene) {
  static uint64_t word;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &scene->seen;
  CHECK_OK(ucxx_tag_send(duo.to_left, "one", 4, HERE, NULL, NULL));
  CHECK_STATUS(
      ucxx_tag_recv(duo.right, &word, sizeof word, HERE, UINT64_MAX, &params, &scene->request),
      UCXX_INPROGRESS);
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_tag_probe(duo.right, NEVER, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  scene->endpoint = connect_workers(duo.right, duo.left);
  CHECK_OK(ucxx_tag_send(duo.to_left, "two", 4, HERE, NULL, NULL));
}

static void submitting_works(void) {
  STEP("sends, receives, probes and new endpoints");
  scene_t scene = {0};
  run_inside(&scene, submit);
  char word[4];
  for (int at = 0; at < 2; at++) {
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_tag_recv(duo.left, word, 4, HERE, UINT64_MAX, NULL, &request);
    CHECK_OK(duo_finish(&duo, status, &request));
    CHECK(strcmp(word, at == 0 ? "one" : "two") == 0);
  }
  CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, HERE, NULL, NULL));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &scene.request));
  CHECK_EQ(seen_count(&scene.seen), 1);
  duo_drop(&duo, scene.endpoint);
  drop_other(&scene);
}

typedef struct chain {
  uint32_t sent, completed;
  uint32_t values[20000];
} chain_t;

enum { CHAIN_LENGTH = 20000, CHAIN_WINDOW = 64 };
static chain_t chain;

static void send_next(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)arg;
  (void)request;
  CHECK_OK(status);
  chain.completed++;
  if (chain.sent == CHAIN_LENGTH) return;
  uint32_t at = chain.sent++;
  chain.values[at] = at;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = send_next;
  CHECK_STATUS(
      ucxx_tag_send(duo.to_left, &chain.values[at], sizeof chain.values[at], CHAIN, &params, NULL),
      UCXX_INPROGRESS);
}

/* Each completion sends the next message. */
static void order_from_callbacks(void) {
  STEP("order of sends from callbacks");
  for (int at = 0; at < CHAIN_WINDOW; at++) send_next(NULL, NULL, UCXX_OK);
  chain.completed = 0;
  for (uint32_t at = 0; at < CHAIN_LENGTH; at++) {
    uint32_t value = UINT32_MAX;
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        ucxx_tag_recv(duo.left, &value, sizeof value, CHAIN, UINT64_MAX, NULL, &request);
    CHECK_OK(duo_finish(&duo, status, &request));
    CHECK_EQ(value, at);
  }
  while (chain.completed < CHAIN_LENGTH) duo_progress(&duo);
  CHECK_EQ(chain.completed, CHAIN_LENGTH);
}

static void cancel_other(scene_t *scene) { CHECK_OK(ucxx_request_cancel(scene->other)); }

static void cancel_works(void) {
  STEP("cancel of another request");
  scene_t scene = {0};
  run_inside(&scene, cancel_other);
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &scene.other), UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&scene.other_seen), 1);
}

static void close_endpoint(scene_t *scene) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &scene->seen;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.timeout_ns = PATIENTLY;
  CHECK_STATUS(ucxx_endpoint_close(scene->endpoint, UCXX_CLOSE_FLUSH, &params, &scene->request),
               UCXX_INPROGRESS);
}

/* A connected endpoint from right to left, to be closed or destroyed in a callback. */
static ucxx_endpoint_t *endpoint_with_on_close(seen_t *seen) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = see_endpoint;
  params.on_close_arg = seen;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(ucxx_worker_address(duo.left, &address));
  CHECK_OK(ucxx_endpoint_create(duo.right, address, &params, &endpoint));
  ucxx_address_destroy(address);
  duo_t way = {duo.context, duo.right, duo.left, endpoint, NULL};
  duo_transfer(&way, 100, 5);
  return endpoint;
}

static void close_works(void) {
  STEP("close of an endpoint");
  scene_t scene = {0};
  seen_t closed = {0, 0, UCXX_OK};
  scene.endpoint = endpoint_with_on_close(&closed);
  run_inside(&scene, close_endpoint);
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &scene.request));
  CHECK_EQ(seen_count(&scene.seen), 1);
  CHECK_STATUS(ucxx_endpoint_status(scene.endpoint), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(scene.endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  drop_other(&scene);
}

static void destroy_endpoint(scene_t *scene) { ucxx_endpoint_destroy(scene->endpoint); }

static void destroy_endpoint_works(void) {
  STEP("destroy of an endpoint");
  scene_t scene = {0};
  seen_t closed = {0, 0, UCXX_OK};
  scene.endpoint = endpoint_with_on_close(&closed);
  run_inside(&scene, destroy_endpoint);
  while (seen_count(&closed) == 0) duo_progress(&duo);
  duo_transfer(&duo, 1000, 2);
  CHECK_EQ(seen_count(&closed), 1);
  drop_other(&scene);
}

static void destroy_worker(scene_t *scene) {
  ucxx_worker_destroy(duo.right);
  /* Takes effect at the end of the pass; handles stay valid until then. */
  CHECK(ucxx_request_status(scene->other) == UCXX_INPROGRESS ||
        ucxx_request_status(scene->other) == UCXX_ERR_CANCELED);
}

static void destroy_worker_works(void) {
  STEP("destroy of the callback's own worker");
  scene_t scene = {0};
  seen_t closed = {0, 0, UCXX_OK};
  scene.endpoint = endpoint_with_on_close(&closed);
  run_inside(&scene, destroy_worker);
  CHECK_EQ(seen_count(&scene.other_seen), 1);
  CHECK_STATUS(scene.other_seen.status, UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_request_status(scene.other), UCXX_ERR_CANCELED);
  ucxx_request_destroy(scene.other);
  CHECK_EQ(seen_count(&closed), 1);
  CHECK_STATUS(ucxx_endpoint_status(scene.endpoint), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_tag_send(scene.endpoint, "message", 8, HERE, NULL, NULL), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(scene.endpoint);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_worker_destroy(duo.left);
  ucxx_context_destroy(duo.context);
}

static void everything(void) {
  waiting_is_refused();
  submitting_works();
  order_from_callbacks();
  cancel_works();
  close_works();
  destroy_endpoint_works();
  destroy_worker_works();
}

/* Workers of one thread, which receive short messages on a path of their own. */
static void open_single(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SINGLE;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  duo.to_left = connect_workers(duo.right, duo.left);
  duo_transfer(&duo, 8, 1);
}

int main(void) {
  test_begin("callbacks");
  duo_open(&duo, NULL);
  everything();
  STEP("workers of one thread");
  memset(&chain, 0, sizeof chain);
  open_single();
  everything();
  for (by_message = 1; by_message <= 2; by_message++) {
    STEP(by_message == 1 ? "in a handler" : "in a handler, on a worker of one thread");
    memset(&chain, 0, sizeof chain);
    if (by_message == 1)
      duo_open(&duo, NULL);
    else
      open_single();
    everything();
  }
  return 0;
}
