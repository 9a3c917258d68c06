/* Handles destroyed in every order: calls on a child of a destroyed object return CLOSED, and
 * nothing crashes. */
#include "test_util.h"

enum { CONTEXT, LEFT, RIGHT, ENDPOINT, ADDRESS, RECEIVE, OBJECTS };

static const char *const names[OBJECTS] = {"context",  "left worker", "right worker",
                                           "endpoint", "address",     "receive"};

typedef struct scene {
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_endpoint_t *endpoint; /* of left, to right */
  ucxx_address_t *address; /* of right */
  ucxx_request_t *receive; /* on left, unmatched */
  seen_t received, closed;
  uint64_t word;
  int gone[OBJECTS];
} scene_t;

/*
 * Over TCP the other worker must answer a flush. When everything is flushed, no destroy below waits
 * for a worker that makes no progress, and then closes by force after seconds.
 */
static void settle(const duo_t *way) {
  ucxx_request_t *flush = NULL;
  CHECK_OK(duo_finish(way, ucxx_endpoint_flush(way->to_right, NULL, &flush), &flush));
}

static void open_scene(scene_t *scene) {
  memset(scene, 0, sizeof *scene);
  CHECK_OK(ucxx_context_create(NULL, &scene->context));
  CHECK_OK(ucxx_worker_create(scene->context, NULL, &scene->left));
  CHECK_OK(ucxx_worker_create(scene->context, NULL, &scene->right));
  CHECK_OK(ucxx_worker_address(scene->right, &scene->address));
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint_params.on_close = see_endpoint;
  endpoint_params.on_close_arg = &scene->closed;
  CHECK_OK(ucxx_endpoint_create(scene->left, scene->address, &endpoint_params, &scene->endpoint));
  duo_t way = {scene->context, scene->left, scene->right, scene->endpoint, NULL};
  duo_transfer(&way, 8, 1);
  settle(&way);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &scene->received;
  CHECK_STATUS(ucxx_tag_recv(scene->left, &scene->word, sizeof scene->word, 77, UINT64_MAX, &params,
                             &scene->receive),
               UCXX_INPROGRESS);
}

static void destroy(scene_t *scene, int object) {
  scene->gone[object] = 1;
  switch (object) {
  case CONTEXT: ucxx_context_destroy(scene->context); break;
  case LEFT: ucxx_worker_destroy(scene->left); break;
  case RIGHT: ucxx_worker_destroy(scene->right); break;
  case ENDPOINT: ucxx_endpoint_destroy(scene->endpoint); break;
  case ADDRESS: ucxx_address_destroy(scene->address); break;
  default: ucxx_request_destroy(scene->receive); break;
  }
}

/* The remaining objects work, or report that their parent is closed. */
static void look(scene_t *scene) {
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  if (!scene->gone[LEFT]) CHECK_OK(ucxx_worker_progress(scene->left, NULL));
  if (!scene->gone[RIGHT]) CHECK_OK(ucxx_worker_progress(scene->right, NULL));
  if (!scene->gone[ADDRESS]) {
    CHECK(ucxx_address_length(scene->address) > 0);
    CHECK(ucxx_address_data(scene->address) != NULL);
  }
  if (scene->gone[LEFT]) {
    /* Each pending operation completes exactly once, and has done so by now. */
    CHECK_EQ(seen_count(&scene->received), 1);
    CHECK_STATUS(scene->received.status, UCXX_ERR_CANCELED);
    if (!scene->gone[RECEIVE]) {
      CHECK_STATUS(ucxx_request_status(scene->receive), UCXX_ERR_CANCELED);
      CHECK_STATUS(ucxx_request_wait(scene->receive, FOR_EVER), UCXX_ERR_CANCELED);
    }
    if (!scene->gone[ENDPOINT]) {
      CHECK_STATUS(ucxx_endpoint_status(scene->endpoint), UCXX_ERR_CLOSED);
      CHECK_STATUS(ucxx_tag_send(scene->endpoint, "message", 8, 1, NULL, &request),
                   UCXX_ERR_CLOSED);
      CHECK_STATUS(ucxx_endpoint_flush(scene->endpoint, NULL, &request), UCXX_ERR_CLOSED);
      CHECK_STATUS(ucxx_endpoint_close(scene->endpoint, UCXX_CLOSE_FLUSH, NULL, &request),
                   UCXX_ERR_CLOSED);
      CHECK(request == NULL);
    }
  } else {
    CHECK_EQ(seen_count(&scene->received), 0);
    if (!scene->gone[RECEIVE]) CHECK_STATUS(ucxx_request_status(scene->receive), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_recv(scene->left, &word, sizeof word, 78, UINT64_MAX, NULL, &request),
                 UCXX_INPROGRESS);
    CHECK_OK(ucxx_request_cancel(request));
    CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
  }
  if (scene->gone[LEFT] || scene->gone[ENDPOINT]) CHECK_EQ(seen_count(&scene->closed), 1);
  if (!scene->gone[LEFT] && !scene->gone[RIGHT] && !scene->gone[ENDPOINT]) {
    duo_t way = {scene->context, scene->left, scene->right, scene->endpoint, NULL};
    duo_transfer(&way, 100, 3);
    settle(&way);
  }
}

static void run(const int *order) {
  char text[200] = "";
  for (int at = 0; at < OBJECTS; at++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", at > 0 ? ", " : "",
             names[order[at]]);
  STEP("%s", text);
  scene_t scene;
  open_scene(&scene);
  for (int at = 0; at < OBJECTS; at++) {
    destroy(&scene, order[at]);
    look(&scene);
  }
  CHECK_EQ(seen_count(&scene.received), 1);
  CHECK_EQ(seen_count(&scene.closed), 1);
}

/* Runs a third of the orders, unless all are requested. */
static uint64_t which;

static int permute(int *order, int fixed) {
  if (fixed == OBJECTS) {
    static uint64_t number;
    if (number++ % 3 == which || test_rounds(3) == 3) run(order);
    return 1;
  }
  int count = 0;
  for (int at = fixed; at < OBJECTS; at++) {
    int held = order[fixed];
    order[fixed] = order[at];
    order[at] = held;
    count += permute(order, fixed + 1);
    order[at] = order[fixed];
    order[fixed] = held;
  }
  return count;
}

int main(void) {
  test_begin("destroy_order");
  int order[OBJECTS];
  which = test_seed() % 3;
  for (int at = 0; at < OBJECTS; at++) order[at] = at;
  int count = permute(order, 0);
  CHECK_EQ(count, 720);
  printf("%d orders of %d\n", (int)test_rounds((unsigned)count), count);
  return 0;
}
