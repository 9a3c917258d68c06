/*
 * Two single-threaded workers, endpoints between them and to themselves, and a random sequence of
 * all permitted calls on operations and requests. In any order each completion is reported once,
 * each message is received once, unchanged and in the order of its endpoint and tag, and the
 * counters agree.
 *
 *   random_single [EPISODES [STEPS]]; UCXX_TEST_SEED repeats a run.
 */
#include "test_util.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  WORKERS = 2,
  ENDPOINTS = 4,
  TAGS = 3,
  STREAMS = ENDPOINTS * TAGS,
  MOST = 4096,
  LARGEST = 300000
};
enum kind { SEND, RECEIVE, OTHER };

typedef struct operation {
  enum kind kind;
  int stream;
  uint64_t number; /* in its stream, in the order of submission */
  int worker;
  size_t length;
  uint8_t *buffer;
  ucxx_request_t *request;
  ucxx_recv_info_t info;
  int has_info, has_callback, has_notifier, canceled, timed;
  int returned; /* the submitting call has returned */
  int told; /* by callback or notifier */
  int ended; /* as far as the test can know */
  ucxx_status_t status;
  int64_t received; /* number of the message in its stream; -1 for none, -2 for unknown */
} operation_t;

static ucxx_context_t *context;
static ucxx_worker_t *workers[WORKERS];
static ucxx_endpoint_t *endpoints[ENDPOINTS]; /* i: from worker i / 2 to worker i % 2 */
static ucxx_notifier_t *notifier;
/* As a later release might define it. */
typedef struct wide {
  ucxx_op_params_t now;
  uint64_t later[2];
} wide_t;

static operation_t operations[MOST];
static int count;
static uint64_t sent[STREAMS], posted[STREAMS];
static size_t lengths[STREAMS][MOST];
static int closed[ENDPOINTS], rough, ending, depth;
/* UCX 1.13 can assert when its worker ends (arbiter.c, ucp_ep.c), perhaps during a rendezvous */
static int careful;
static uint64_t state;

static uint64_t draw(uint64_t below) { return test_mix(state++) % below; }

static uint64_t content_of(int stream, uint64_t number) {
  return ((uint64_t)stream << 32) + number;
}

static size_t any_length(void) {
  switch (draw(12)) {
  case 0: return 0;
  case 1: return 8000 + draw(400);
  case 2: return 65000 + draw(1000);
  case 3: return draw(4) == 0 ? 8 + draw(LARGEST - 8) : 9;
  case 4: return 1 + draw(16);
  default: return 8 + draw(2000);
  }
}

/* ------------------------------------------------------------------ completions */

static void check_received(operation_t *op, uint64_t length) {
  op->received = -2;
  if (length < 8) return;
  uint64_t number;
  memcpy(&number, op->buffer, 8);
  if (number >= sent[op->stream])
    FAIL("stream %d has no message %llu", op->stream, (unsigned long long)number);
  CHECK_EQ(length, lengths[op->stream][number]);
  CHECK_CONTENT(op->buffer + 8, length - 8, content_of(op->stream, number));
  op->received = (int64_t)number;
}

/* `length` is UINT64_MAX if it was not reported. */
static void see_end(operation_t *op, ucxx_status_t status, uint64_t length) {
  if (op->ended) {
    CHECK_STATUS(status, op->status);
    return;
  }
  op->ended = 1;
  op->status = status;
  if (status == UCXX_ERR_CANCELED || status == UCXX_ERR_TIMED_OUT)
    CHECK(op->canceled || op->timed || rough);
  else if (status == UCXX_ERR_MESSAGE_TRUNCATED)
    CHECK(op->kind == RECEIVE && (length == UINT64_MAX || length > op->length));
  else if (status != UCXX_OK && !rough)
    FAIL("operation %d ended with %s", (int)(op - operations), ucxx_status_name(status));
  if (op->kind == RECEIVE && status == UCXX_OK) {
    if (op->has_info) length = op->info.length;
    op->received = -2;
    if (length != UINT64_MAX) check_received(op, length);
  }
}

static void anything(void);

static void on_end(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  operation_t *op = arg;
  CHECK_EQ(op->told, 0);
  CHECK(op->has_callback);
  op->told = 1;
  if (op->returned) CHECK(request == op->request || request == NULL || op->request == NULL);
  uint64_t length = UINT64_MAX;
  ucxx_recv_info_t info;
  if (request != NULL) {
    CHECK_STATUS(ucxx_request_status(request), status);
    CHECK_STATUS(ucxx_request_wait(request, 0), UCXX_ERR_BUSY);
    if (op->kind == RECEIVE) {
      CHECK_OK(ucxx_request_recv_info(request, &info));
      length = info.length;
    }
  }
  see_end(op, status, length);
  if (request != NULL && draw(4) == 0) {
    op->request = NULL;
    ucxx_request_destroy(request);
  }
  if (depth == 0 && !ending && draw(2) == 0) {
    depth++;
    CHECK_STATUS(ucxx_worker_progress(workers[op->worker], NULL), UCXX_ERR_BUSY);
    anything();
    depth--;
  }
}

static void poll_notifier(void) {
  ucxx_completion_t found[3];
  size_t taken = 0;
  CHECK_OK(ucxx_notifier_poll(notifier, found, sizeof found[0], 1 + draw(3), &taken));
  for (size_t i = 0; i < taken; i++) {
    operation_t *op = found[i].user_data;
    CHECK(op->has_notifier);
    CHECK_EQ(op->told, 0);
    op->told = 1;
    if (found[i].request != NULL) CHECK(found[i].request == op->request);
    see_end(op, found[i].status, op->kind == RECEIVE ? found[i].length : UINT64_MAX);
  }
}

static void look(operation_t *op) {
  if (op->request == NULL) return;
  ucxx_status_t status = ucxx_request_status(op->request);
  if (status == UCXX_INPROGRESS) return;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  if (op->kind == RECEIVE) {
    CHECK_OK(ucxx_request_recv_info(op->request, &info));
    if (status == UCXX_OK) CHECK_EQ(info.sender_tag, op->stream);
  }
  CHECK_EQ(*ucxx_request_error_message(op->request) != 0, status < 0);
  see_end(op, status, op->kind == RECEIVE ? info.length : UINT64_MAX);
}

static void let_go(operation_t *op) {
  look(op);
  ucxx_request_destroy(op->request);
  op->request = NULL;
}

/* ------------------------------------------------------------------ submissions */

static operation_t *begin(enum kind kind, int worker, int stream, size_t length, wide_t *wide,
                          ucxx_request_t ***out) {
  ucxx_op_params_t *params = &wide->now;
  operation_t *op = &operations[count++];
  memset(op, 0, sizeof *op);
  op->kind = kind;
  op->worker = worker;
  op->stream = stream;
  op->length = length;
  op->buffer = length > 0 || draw(2) ? test_alloc(length) : NULL;
  op->received = -1;
  memset(wide, 0, sizeof *wide);
  params->struct_size = draw(8) ? sizeof *params : sizeof *wide;
  if (draw(3) == 0) params->memory_type = UCXX_MEMORY_HOST;
  if (draw(8) == 0) params->flags |= UCXX_FLAG_ALWAYS_CALLBACK;
  if (draw(6) == 0) params->timeout_ns = draw(2) ? 1 : FOR_EVER;
  op->timed = params->timeout_ns != 0;
  if (kind == RECEIVE && draw(3) == 0) {
    params->recv_info = &op->info;
    op->has_info = 1;
  }
  uint64_t report = draw(10);
  params->callback_arg = op;
  if (report < 2) {
    params->callback = on_end;
    op->has_callback = 1;
  } else if (report == 2) {
    params->notifier = notifier;
    op->has_notifier = 1;
  }
  *out = draw(4) == 0 ? NULL : &op->request;
  return op;
}

static void submitted(operation_t *op, ucxx_status_t status, const ucxx_op_params_t *params,
                      int out) {
  op->returned = 1;
  if (status < 0) {
    /* Not submitted: allowed only if its endpoint is closed. */
    if (!rough)
      FAIL("operation %d: %s: %s", (int)(op - operations), ucxx_status_name(status),
           ucxx_last_error_message());
    CHECK(op->request == NULL);
    CHECK_EQ(op->told, 0);
    op->ended = 1;
    op->status = status;
    op->has_callback = op->has_notifier = 0;
    return;
  }
  if (status == UCXX_OK) {
    CHECK(op->request == NULL);
    CHECK((params->flags & UCXX_FLAG_ALWAYS_CALLBACK) == 0);
    CHECK_EQ(op->told, 0);
    op->has_callback = op->has_notifier = 0;
    see_end(op, UCXX_OK, op->has_info ? op->info.length : UINT64_MAX);
    return;
  }
  CHECK_STATUS(status, UCXX_INPROGRESS);
  CHECK_EQ(out, op->request != NULL);
}

static void send_one(void) {
  int endpoint = (int)draw(ENDPOINTS), stream = endpoint * TAGS + (int)draw(TAGS);
  size_t length = any_length();
  wide_t wide;
  ucxx_op_params_t *params = &wide.now;
  ucxx_request_t **out;
  operation_t *op = begin(SEND, endpoint / 2, stream, length, &wide, &out);
  op->number = sent[stream];
  if (length >= 8) {
    memcpy(op->buffer, &op->number, 8);
    test_fill(op->buffer + 8, length - 8, content_of(stream, op->number));
  } else if (length > 0) {
    memset(op->buffer, 0, length);
  }
  lengths[stream][sent[stream]++] = length;
  const ucxx_op_params_t *given = draw(4) == 0 && params->callback == NULL &&
                                          params->notifier == NULL && params->flags == 0 &&
                                          params->timeout_ns == 0
                                      ? NULL
                                      : params;
  ucxx_status_t status;
  ucxx_buffer_t parts[2];
  memset(parts, 0, sizeof parts);
  switch (draw(8)) {
  case 0:
    status =
        ucxx_tag_send_sync(endpoints[endpoint], op->buffer, length, (uint64_t)stream, given, out);
    break;
  case 1:
    parts[0].data = op->buffer;
    parts[0].length = length / 3;
    parts[1].data = op->buffer == NULL ? NULL : op->buffer + length / 3;
    parts[1].length = length - length / 3;
    status = ucxx_tag_send_iov(endpoints[endpoint], parts, 2, (uint64_t)stream, given, out);
    break;
  default:
    status = ucxx_tag_send(endpoints[endpoint], op->buffer, length, (uint64_t)stream, given, out);
  }
  if (status < 0) sent[stream]--;
  submitted(op, status, params, out != NULL);
}

static void receive_one(int stream, size_t length) {
  wide_t wide;
  ucxx_op_params_t *params = &wide.now;
  ucxx_request_t **out;
  operation_t *op = begin(RECEIVE, stream / TAGS % 2, stream, length, &wide, &out);
  op->number = posted[stream]++;
  if (rough && draw(4) == 0) params->source = endpoints[op->worker * 2 + (int)draw(2)];
  ucxx_status_t status = ucxx_tag_recv(workers[op->worker], op->buffer, length, (uint64_t)stream,
                                       UINT64_MAX, params, out);
  submitted(op, status, params, out != NULL);
}

static void flush_one(void) {
  wide_t wide;
  ucxx_op_params_t *params = &wide.now;
  ucxx_request_t **out;
  int endpoint = (int)draw(ENDPOINTS);
  operation_t *op = begin(OTHER, endpoint / 2, 0, 0, &wide, &out);
  ucxx_status_t status = draw(2) ? ucxx_worker_flush(workers[op->worker], params, out)
                                 : ucxx_endpoint_flush(endpoints[endpoint], params, out);
  submitted(op, status, params, out != NULL);
}

static void close_one(void) {
  wide_t wide;
  ucxx_op_params_t *params = &wide.now;
  ucxx_request_t **out;
  int endpoint = (int)draw(ENDPOINTS);
  if (!rough || closed[endpoint]) return;
  closed[endpoint] = 1;
  operation_t *op = begin(OTHER, endpoint / 2, 0, 0, &wide, &out);
  submitted(op,
            ucxx_endpoint_close(endpoints[endpoint], draw(2) ? UCXX_CLOSE_FORCE : UCXX_CLOSE_FLUSH,
                                params, out),
            params, out != NULL);
}

/* ------------------------------------------------------------------ other calls */

static operation_t *any_with_request(void) {
  for (int tries = 0; tries < 20 && count > 0; tries++) {
    operation_t *op = &operations[draw((uint64_t)count)];
    if (op->request != NULL && op->returned) return op;
  }
  return NULL;
}

/* The wrong thread is refused, except for queries and destroys. */
static void *wrong_thread(void *arg) {
  operation_t *op = arg;
  ucxx_request_t *request = NULL;
  uint64_t word = 0;
  CHECK_STATUS(ucxx_worker_progress(workers[0], NULL), UCXX_ERR_INVALID_PARAM);
  if (!closed[0])
    CHECK_STATUS(ucxx_tag_send(endpoints[0], &word, 8, 0, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_recv(workers[1], &word, 8, 0, 0, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL);
  if (op != NULL) {
    ucxx_status_t status = ucxx_request_status(op->request);
    if (status == UCXX_INPROGRESS)
      CHECK_STATUS(ucxx_request_cancel(op->request), UCXX_ERR_INVALID_PARAM);
    let_go(op);
  }
  return NULL;
}

static void from_another_thread(void) {
  pthread_t thread;
  if (draw(10) != 0) return;
  CHECK_EQ(pthread_create(&thread, NULL, wrong_thread, any_with_request()), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void from_a_child(void) {
  if (draw(100) != 0) return;
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    uint64_t word = 0;
    for (int i = 0; i < count; i++) {
      if (operations[i].request != NULL && operations[i].returned) {
        CHECK_STATUS(ucxx_request_status(operations[i].request), UCXX_ERR_FORKED);
        ucxx_request_destroy(operations[i].request);
      }
    }
    CHECK_STATUS(ucxx_tag_send(endpoints[0], &word, 8, 0, NULL, NULL), UCXX_ERR_FORKED);
    CHECK_STATUS(ucxx_tag_recv(workers[0], &word, 8, 0, 0, NULL, NULL), UCXX_ERR_FORKED);
    CHECK_STATUS(ucxx_worker_progress(workers[0], NULL), UCXX_ERR_FORKED);
    _exit(0);
  }
  int ended = -1;
  CHECK_EQ(waitpid(child, &ended, 0), child);
  CHECK_EQ(ended, 0);
}

/* ------------------------------------------------------------------ a sequence */

static void count_line(void *arg, const char *text) { *(int *)arg += text != NULL; }

static uint64_t in_flight(int worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(workers[worker], &stats));
  CHECK_EQ(stats.submitted, stats.in_flight + stats.completed + stats.failed + stats.canceled);
  CHECK(stats.in_flight <= MOST);
  return stats.in_flight;
}

static void cancel_one(operation_t *op) {
  if (op == NULL) return;
  op->canceled = 1;
  CHECK_OK(ucxx_request_cancel(op->request));
}

static void anything(void) {
  if (count > MOST - 64) return;
  operation_t *op;
  int lines = 0;
  switch (draw(24)) {
  case 0:
  case 1:
  case 2:
  case 3:
  case 4:
  case 5: send_one(); break;
  case 6:
  case 7:
  case 8:
  case 9:
  case 10:
  case 11: receive_one((int)draw(STREAMS), draw(4) == 0 ? any_length() : LARGEST); break;
  case 12:
  case 13:
    if ((op = any_with_request()) != NULL) let_go(op);
    break;
  case 14: cancel_one(any_with_request()); break;
  case 15: flush_one(); break;
  case 16: poll_notifier(); break;
  case 17: from_another_thread(); break;
  case 18: from_a_child(); break;
  case 19:
    if (draw(20) == 0) close_one();
    break;
  case 20:
    CHECK_OK(ucxx_worker_dump(workers[draw(WORKERS)], count_line, &lines));
    CHECK(lines > 0);
    break;
  case 21:
    if ((op = any_with_request()) != NULL && depth == 0) {
      ucxx_status_t status = ucxx_request_wait(op->request, draw(2) * draw(1000));
      CHECK(status != UCXX_ERR_BUSY);
    }
    break;
  default:
    if (depth == 0) CHECK_OK(ucxx_worker_progress(workers[draw(WORKERS)], NULL));
  }
  in_flight((int)draw(WORKERS));
  if ((op = any_with_request()) != NULL) look(op);
}

static void progress_all(void) {
  for (int i = 0; i < WORKERS; i++) progress(workers[i]);
  poll_notifier();
}

static void check_all(void) {
  int64_t last[STREAMS];
  for (int stream = 0; stream < STREAMS; stream++) last[stream] = -1;
  for (int i = 0; i < count; i++) {
    operation_t *op = &operations[i];
    look(op);
    if (op->request != NULL) CHECK(op->ended);
    if (op->has_callback || op->has_notifier) CHECK_EQ(op->told, 1);
    /* `operations` is in the order of submission. */
    if (op->kind == RECEIVE && op->received >= 0) {
      if (op->received <= last[op->stream])
        FAIL("stream %d: message %lld after %lld", op->stream, (long long)op->received,
             (long long)last[op->stream]);
      last[op->stream] = op->received;
    }
  }
}

static int all_sent(void) {
  for (int i = 0; i < count; i++) {
    operation_t *op = &operations[i];
    look(op);
    if (op->kind != RECEIVE && !op->ended &&
        (op->request != NULL || op->has_callback || op->has_notifier))
      return 0;
  }
  return 1;
}

/* Once every message has a receive, each send and each flush completes. */
static void finish_all(void) {
  ending = 1;
  for (int stream = 0; stream < STREAMS; stream++)
    for (uint64_t left = sent[stream]; left > 0 && count < MOST; left--)
      receive_one(stream, LARGEST);
  if (rough) return;
  do progress_all();
  while (!all_sent());
  /* Nothing reports the completion of sends without a request. */
  for (int pass = 0; pass < 1000; pass++) progress_all();
  for (int i = 0; i < count; i++)
    if (operations[i].request != NULL) cancel_one(&operations[i]);
  for (int i = 0; i < count; i++)
    while (operations[i].request != NULL && !operations[i].ended) {
      progress_all();
      look(&operations[i]);
    }
}

static void episode(int number, int steps) {
  ending = 0;
  rough = draw(3) == 0 && !careful;
  count = 0;
  memset(sent, 0, sizeof sent);
  memset(posted, 0, sizeof posted);
  memset(closed, 0, sizeof closed);
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.features = draw(2) ? UCXX_FEATURE_TAG : UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SINGLE;
  for (int i = 0; i < WORKERS; i++) CHECK_OK(ucxx_worker_create(context, &params, &workers[i]));
  for (int i = 0; i < ENDPOINTS; i++)
    endpoints[i] = connect_workers(workers[i / 2], workers[i % 2]);
  STEP("episode %d: %d steps%s", number, steps, rough ? ", endpoints may close" : "");
  for (int step = 0; step < steps && count < MOST / 3; step++) anything();
  STEP("episode %d: the end", number);
  if (draw(4) != 0 || careful) {
    finish_all();
    if (draw(2) && !careful)
      for (int i = 0; i < ENDPOINTS; i++)
        if (!closed[i]) {
          ucxx_request_t *request = NULL;
          closed[i] = 1;
          rough = 1;
          ucxx_status_t status =
              ucxx_endpoint_close(endpoints[i], UCXX_CLOSE_FORCE, NULL, &request);
          while (status == UCXX_INPROGRESS) {
            progress_all();
            status = ucxx_request_status(request);
          }
          ucxx_request_destroy(request);
        }
  }
  rough = ending = 1; /* operations in flight end with their worker */
  int first = (int)draw(2), early = (int)draw(2);
  if (early)
    for (int i = 0; i < ENDPOINTS; i++)
      if (closed[i]) ucxx_endpoint_destroy(endpoints[i]), endpoints[i] = NULL;
  for (int i = 0; i < WORKERS; i++) ucxx_worker_destroy(workers[i ^ first]);
  for (int taken = 0; taken < MOST; taken++) poll_notifier();
  check_all();
  for (int i = 0; i < ENDPOINTS; i++) ucxx_endpoint_destroy(endpoints[i]);
  if (draw(2)) ucxx_context_destroy(context), context = NULL;
  for (int i = 0; i < count; i++) {
    ucxx_request_destroy(operations[i].request);
    free(operations[i].buffer);
  }
  ucxx_notifier_destroy(notifier);
  ucxx_context_destroy(context);
}

int main(int argc, char **argv) {
  int episodes = argc > 1 ? atoi(argv[1]) : 6, steps = argc > 2 ? atoi(argv[2]) : 800;
  test_begin("random_single");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  careful = version.ucx_major == 1 && version.ucx_minor < 14;
  state = test_seed() * UINT64_C(1000000);
  for (int number = 0; number < episodes; number++) episode(number, steps);
  return 0;
}
