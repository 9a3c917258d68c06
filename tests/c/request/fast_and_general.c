/*
 * The same random operations on the fast path and on the general one, in four pairs of workers that
 * differ only in that. The user-visible results must be equal: status, length, tag, data and error
 * message of every operation, the order in which handlers get messages, and the counters of workers
 * and endpoints.
 *
 *   fast_and_general [ROUNDS]; UCXX_TEST_SEED repeats a run.
 */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* What forces the general path: nothing; a timeout, and data in two parts, which is not short at
 * the receiver either; the lock of a worker for any thread; the submission ring of a progress
 * thread. */
enum way { FAST, PARAMETERS, MULTI, THREAD, WAYS };
static const char *const ways[WAYS] = {"plain", "with a timeout and in parts", "of many threads",
                                       "by a progress thread"};

enum { SIDES = 2, USUAL = 40, CROWD = 330, TAGS = 3, LONGEST_HEADER = 300 };
enum { DESTROYED = 3, HELD, ANSWERED, BARRIER, NOBODYS };
enum kind { TAG_SEND, TAG_RECV, STREAM_SEND, STREAM_RECV, MESSAGE, FETCH };

/* The beginning of a fetch's header. */
typedef struct question {
  uint64_t seed;
  uint32_t length;
  int32_t status; /* status to reject it with; 0 for a reply */
  uint32_t later, left;
} question_t;

typedef struct operation {
  enum kind kind;
  int side, keeps, has_callback, has_info, in_parts;
  int32_t memory_type;
  uint16_t id;
  uint64_t tag, mask;
  uint8_t header[LONGEST_HEADER];
  size_t header_length, length; /* for a receive and a fetch: size of the buffer */
  uint8_t *data;
  unsigned passes;
} operation_t;

/* The user-visible result of one operation; compared as a whole up to `call`. */
typedef struct result {
  ucxx_status_t status;
  ucxx_recv_info_t info, of_request;
  uint64_t data;
  char text[256];
  ucxx_status_t call, said;
  int has_told; /* valid in `of_request` */
  atomic_int told;
  uint8_t *room;
  ucxx_request_t *request;
} result_t;

/* What a handler received. */
typedef struct arrival {
  uint64_t id, header, data, header_length, length, capacity;
  int64_t memory_type, has_reply;
} arrival_t;

typedef struct world {
  enum way way;
  ucxx_worker_t *workers[SIDES];
  ucxx_endpoint_t *endpoints[SIDES];
  result_t results[CROWD + USUAL];
  pthread_mutex_t lock;
  arrival_t arrivals[SIDES][CROWD + USUAL];
  int arrived[SIDES], held, later;
  ucxx_am_message_t *messages[CROWD + USUAL];
  ucxx_fetch_t *fetches[CROWD + USUAL];
  uint8_t *answers[CROWD + USUAL];
  int answered;
  atomic_int barriers;
} world_t;

typedef struct at {
  world_t *world;
  int side;
} at_t;

static world_t worlds[WAYS];
static at_t ends[WAYS][SIDES];
static operation_t operations[CROWD + USUAL];
static int count;
static uint64_t state;

static uint64_t draw(uint64_t below) { return test_mix(state++) % below; }

static uint64_t hash_of(const void *data, size_t length) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
  return hash;
}

/* ------------------------------------------------------------------ one pair of workers */

static ucxx_op_params_t *params_of(const world_t *world, ucxx_op_params_t *params,
                                   int32_t memory_type) {
  ucxx_op_params_init(params, sizeof *params);
  params->memory_type = memory_type;
  if (world->way == PARAMETERS) params->timeout_ns = 3600 * SECOND;
  return params;
}

static size_t in_parts(ucxx_buffer_t parts[2], void *data, size_t length, int32_t memory_type) {
  memset(parts, 0, 2 * sizeof *parts);
  parts[0].data = data;
  parts[0].length = length / 3;
  parts[1].data = (uint8_t *)data + length / 3;
  parts[1].length = length - length / 3;
  parts[0].memory_type = parts[1].memory_type = memory_type;
  return 2;
}

static void on_end(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  result_t *result = arg;
  (void)request;
  result->said = status;
  atomic_fetch_add(&result->told, 1);
}

/* A message names the peer by its worker's number, which differs in each pair. */
static void keep_text(result_t *result, const char *text) {
  const char *worker = strstr(text, "(worker ");
  size_t before = worker == NULL ? strlen(text) : (size_t)(worker - text) + strlen("(worker ");
  snprintf(result->text, sizeof result->text, "%.*s%s", (int)before, text,
           worker == NULL ? "" : strchr(worker, ')'));
}

static void submit(world_t *world, int index) {
  const operation_t *op = &operations[index];
  result_t *result = &world->results[index];
  memset(result, 0, sizeof *result);
  result->room = test_alloc(op->length);
  memset(result->room, 0xaa, op->length);
  ucxx_op_params_t value, *params = params_of(world, &value, op->memory_type);
  if (op->has_callback) {
    value.callback = on_end;
    value.callback_arg = result;
  }
  if (op->has_info) value.recv_info = &result->info;
  if (!op->has_callback && !op->has_info && op->memory_type == UCXX_MEMORY_AUTO &&
      world->way != PARAMETERS)
    params = NULL;
  ucxx_request_t **out = op->keeps ? &result->request : NULL;
  ucxx_worker_t *worker = world->workers[op->side];
  ucxx_endpoint_t *to = world->endpoints[op->side];
  int brings = op->kind == TAG_RECV || op->kind == FETCH;
  ucxx_buffer_t parts[2];
  size_t n = world->way == PARAMETERS && op->in_parts
                 ? in_parts(parts, brings ? result->room : op->data, op->length, op->memory_type)
                 : 0;
  ucxx_status_t status;
  switch (op->kind) {
  case TAG_SEND:
    status = n ? ucxx_tag_send_iov(to, parts, n, op->tag, params, out)
               : ucxx_tag_send(to, op->data, op->length, op->tag, params, out);
    break;
  case TAG_RECV:
    status = n ? ucxx_tag_recv_iov(worker, parts, n, op->tag, op->mask, params, out)
               : ucxx_tag_recv(worker, result->room, op->length, op->tag, op->mask, params, out);
    break;
  case STREAM_SEND: status = ucxx_stream_send(to, op->data, op->length, params, out); break;
  case STREAM_RECV: status = ucxx_stream_recv(to, result->room, op->length, params, out); break;
  case MESSAGE:
    status = n ? ucxx_am_send_iov(to, op->id, op->header, op->header_length, parts, n, params, out)
               : ucxx_am_send(to, op->id, op->header, op->header_length, op->data, op->length,
                              params, out);
    break;
  default:
    status = n ? ucxx_am_fetch_iov(to, op->id, op->header, op->header_length, parts, n, params, out)
               : ucxx_am_fetch(to, op->id, op->header, op->header_length, result->room, op->length,
                               params, out);
  }
  result->call = status;
  if (status < 0) keep_text(result, ucxx_last_error_message());
  CHECK_EQ(result->request != NULL, op->keeps && status == UCXX_INPROGRESS);
}

static void answer(world_t *world, ucxx_fetch_t *fetch) {
  question_t question;
  memcpy(&question, ucxx_fetch_header(fetch, NULL), sizeof question);
  if (question.status != 0) {
    CHECK_OK(ucxx_fetch_reject(fetch, question.status));
  } else if (!question.left) {
    uint8_t *data = test_alloc(question.length);
    test_fill(data, question.length, question.seed);
    pthread_mutex_lock(&world->lock);
    world->answers[world->answered++] = data;
    pthread_mutex_unlock(&world->lock);
    ucxx_op_params_t params;
    params_of(world, &params, UCXX_MEMORY_HOST);
    ucxx_buffer_t parts[2];
    ucxx_status_t status =
        world->way == PARAMETERS && question.seed % 2
            ? ucxx_fetch_reply_iov(fetch, parts,
                                   in_parts(parts, data, question.length, UCXX_MEMORY_HOST),
                                   &params, NULL)
            : ucxx_fetch_reply(fetch, data, question.length, &params, NULL);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_fetch_reply(fetch, data, question.length, NULL, NULL),
                 UCXX_ERR_ALREADY_EXISTS);
    CHECK_MESSAGE("answered already");
  }
  ucxx_fetch_destroy(fetch);
}

static void note(const at_t *at, const arrival_t *arrival) {
  world_t *world = at->world;
  pthread_mutex_lock(&world->lock);
  CHECK(world->arrived[at->side] < CROWD + USUAL);
  world->arrivals[at->side][world->arrived[at->side]++] = *arrival;
  pthread_mutex_unlock(&world->lock);
}

static void on_message(void *arg, ucxx_am_message_t *message, uint16_t id) {
  const at_t *at = arg;
  size_t length = 0;
  const void *header = ucxx_am_message_header(message, &length);
  arrival_t arrival = {.id = id,
                       .header = hash_of(header, length),
                       .header_length = length,
                       .length = ucxx_am_message_length(message)};
  arrival.data = hash_of(ucxx_am_message_data(message), arrival.length);
  arrival.memory_type = ucxx_am_message_memory_type(message);
  arrival.has_reply = ucxx_am_message_reply(message) != NULL;
  note(at, &arrival);
  if (id == DESTROYED) {
    ucxx_am_message_destroy(message);
    return;
  }
  pthread_mutex_lock(&at->world->lock);
  at->world->messages[at->world->held++] = message;
  pthread_mutex_unlock(&at->world->lock);
}

static void on_destroyed(void *arg, ucxx_am_message_t *message) {
  on_message(arg, message, DESTROYED);
}
static void on_held(void *arg, ucxx_am_message_t *message) { on_message(arg, message, HELD); }

static void on_barrier(void *arg, ucxx_am_message_t *message) {
  atomic_fetch_add(&((const at_t *)arg)->world->barriers, 1);
  ucxx_am_message_destroy(message);
}

static void on_question(void *arg, ucxx_fetch_t *fetch) {
  const at_t *at = arg;
  world_t *world = at->world;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  arrival_t arrival = {.id = ANSWERED,
                       .header = hash_of(header, length),
                       .header_length = length,
                       .capacity = ucxx_fetch_capacity(fetch)};
  arrival.has_reply = ucxx_fetch_endpoint(fetch) == world->endpoints[at->side];
  note(at, &arrival);
  question_t question;
  memcpy(&question, header, sizeof question);
  if (!question.later) {
    answer(world, fetch);
    return;
  }
  pthread_mutex_lock(&world->lock);
  world->fetches[world->later++] = fetch;
  pthread_mutex_unlock(&world->lock);
}

static void pass(const world_t *world) {
  uint32_t left = 0, right = 0;
  if (world->way != THREAD) {
    CHECK_OK(ucxx_worker_progress(world->workers[0], &left));
    CHECK_OK(ucxx_worker_progress(world->workers[1], &right));
  }
  if (left + right == 0) sched_yield();
}

/* Makes passes, and does the work that handlers deferred. */
static void drive(world_t *world) {
  for (;;) {
    pthread_mutex_lock(&world->lock);
    ucxx_am_message_t *message = world->held > 0 ? world->messages[--world->held] : NULL;
    ucxx_fetch_t *fetch = world->later > 0 ? world->fetches[--world->later] : NULL;
    pthread_mutex_unlock(&world->lock);
    if (message == NULL && fetch == NULL) break;
    if (message != NULL) ucxx_am_message_destroy(message);
    if (fetch != NULL) answer(world, fetch);
  }
  pass(world);
}

static ucxx_status_t end_of(world_t *world, ucxx_status_t status, ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) return status;
  while ((status = ucxx_request_status(*request)) == UCXX_INPROGRESS) drive(world);
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

static int has_ended(const operation_t *op, result_t *result) {
  if (result->call != UCXX_INPROGRESS) return 1;
  if (result->request != NULL && ucxx_request_status(result->request) == UCXX_INPROGRESS) return 0;
  return !op->has_callback || atomic_load(&result->told) > 0;
}

/* Everything has arrived, and every operation that can complete has completed. */
static void settle(world_t *world) {
  uint8_t room[SIDES][8];
  ucxx_request_t *receives[SIDES] = {NULL}, *request = NULL;
  ucxx_status_t status[SIDES];
  for (int side = 0; side < SIDES; side++)
    status[side] = ucxx_tag_recv(world->workers[side], room[side], 8, BARRIER, UINT64_MAX, NULL,
                                 &receives[side]);
  for (int side = 0; side < SIDES; side++) {
    CHECK_OK(end_of(world,
                    ucxx_tag_send(world->endpoints[side], "barrier", 8, BARRIER, NULL, &request),
                    &request));
    CHECK_OK(end_of(world,
                    ucxx_am_send(world->endpoints[side], BARRIER, NULL, 0, NULL, 0, NULL, &request),
                    &request));
  }
  for (int side = 0; side < SIDES; side++) CHECK_OK(end_of(world, status[side], &receives[side]));
  while (atomic_load(&world->barriers) < SIDES) drive(world);
  atomic_store(&world->barriers, 0);
  for (int index = 0; index < count; index++)
    while (operations[index].kind != TAG_RECV &&
           !has_ended(&operations[index], &world->results[index]))
      drive(world);
  for (int side = 0; side < SIDES; side++)
    CHECK_OK(end_of(world, ucxx_worker_flush(world->workers[side], NULL, &request), &request));
  for (int index = 0; index < count; index++) {
    const operation_t *op = &operations[index];
    result_t *result = &world->results[index];
    if (!has_ended(op, result)) ucxx_request_cancel(result->request);
    while (!has_ended(op, result)) drive(world);
    if (op->has_callback) CHECK_EQ(atomic_load(&result->told), result->call == UCXX_INPROGRESS);
    /* A flush reports failures of sends without requests. */
    result->status = result->call != UCXX_INPROGRESS ? result->call
                     : op->has_callback              ? result->said
                                                     : UCXX_OK;
    int brings = op->kind == TAG_RECV || op->kind == STREAM_RECV || op->kind == FETCH;
    if (result->request != NULL) {
      result->status = ucxx_request_status(result->request);
      keep_text(result, ucxx_request_error_message(result->request));
      if (brings) CHECK_OK(ucxx_request_recv_info(result->request, &result->of_request));
      ucxx_request_destroy(result->request);
    } else {
      result->of_request = result->info;
    }
    result->has_told = result->request != NULL || op->has_info;
    if (brings && result->status == UCXX_OK) result->data = hash_of(result->room, op->length);
    free(result->room);
  }
  while (world->answered > 0) free(world->answers[--world->answered]);
}

/* ------------------------------------------------------------------ the same for all pairs */

static size_t any_length(void) {
  switch (draw(12)) {
  case 0: return 0;
  case 1: return 300 + draw(1800);
  case 2: return 100 + draw(60);
  default: return 1 + draw(110);
  }
}

static operation_t *add(enum kind kind, int side, size_t length) {
  operation_t *op = &operations[count++];
  free(op->data);
  memset(op, 0, sizeof *op);
  op->kind = kind;
  op->side = side;
  op->length = length;
  op->data = test_alloc(length);
  test_fill(op->data, length, state);
  op->mask = UINT64_MAX;
  op->keeps = kind == TAG_RECV || draw(2);
  op->has_callback =
      draw(4) == 0 || (kind != TAG_SEND && kind != STREAM_SEND && kind != MESSAGE && !op->keeps);
  op->has_info = draw(4) == 0 && (kind == TAG_RECV || kind == FETCH);
  op->in_parts = length > 1 && draw(2);
  op->memory_type = draw(2) ? UCXX_MEMORY_HOST : UCXX_MEMORY_AUTO;
  op->passes = draw(3) ? 0 : (unsigned)draw(4);
  return op;
}

static void add_message(int side, uint16_t id, size_t header_length, size_t length) {
  operation_t *op = add(MESSAGE, side, length);
  op->id = id;
  op->header_length = header_length;
  test_fill(op->header, header_length, state);
}

static void add_fetch(int side) {
  operation_t *op = add(FETCH, side, any_length());
  question_t question = {.seed = draw(UINT64_MAX), .length = (uint32_t)op->length};
  op->id = draw(8) ? ANSWERED : NOBODYS;
  op->header_length = sizeof question + (draw(3) ? 0 : draw(LONGEST_HEADER - sizeof question));
  test_fill(op->header, op->header_length, state);
  switch (draw(8)) {
  case 0: question.status = draw(2) ? UCXX_ERR_REJECTED : -1007; break;
  case 1: question.length += 1 + (uint32_t)draw(100); break;
  case 2: question.left = 1; break;
  default: question.length -= (uint32_t)draw(question.length + 1) / 2;
  }
  question.later = draw(3) == 0;
  memcpy(op->header, &question, sizeof question);
}

/* Some operations that complete in any case. */
static void add_some(uint64_t round) {
  int side = (int)draw(SIDES);
  size_t length = draw(20) ? any_length() : 8000 + draw(90000);
  uint64_t tag = 1000 + round * 1000 + (uint64_t)count;
  operation_t *op;
  switch (draw(10)) {
  case 0: /* A send and its receive; the message may be long, or longer than the buffer. */
    op = add(TAG_SEND, side, length);
    op->tag = tag;
    op = add(TAG_RECV, !side, draw(6) ? length : length - draw(length + 1) / 2);
    op->tag = tag;
    break;
  case 1:
  case 2:
    op = add(TAG_SEND, side, any_length());
    op->tag = 100 + draw(TAGS);
    break;
  case 3:
  case 4:
    op = add(TAG_RECV, side, any_length());
    op->tag = 100 + draw(TAGS);
    op->mask = draw(4) ? UINT64_MAX : ~UINT64_C(3);
    break;
  case 5:
    add(STREAM_SEND, side, length + 1);
    add(STREAM_RECV, !side, length + 1);
    break;
  case 6: add_fetch(side); break;
  default:
    add_message(side, (uint16_t)(draw(9) == 0 ? NOBODYS : DESTROYED + draw(2)),
                draw(3) ? draw(60) : draw(LONGEST_HEADER), any_length());
  }
}

static void compare(world_t *world) {
  const world_t *fast = &worlds[FAST];
  for (int index = 0; index < count; index++) {
    const result_t *a = &fast->results[index];
    result_t *b = &world->results[index];
    /* An operation that completed inside its call reports its message only if asked. */
    if (!a->has_told || !b->has_told) b->of_request = a->of_request;
    if (memcmp(a, b, offsetof(result_t, call)) != 0)
      FAIL("operation %d, kind %d, length %zu: plain gives status %d, length %llu or %llu, tag "
           "0x%llx, data %llx, \"%s\"; "
           "%s status %d, length %llu or %llu, tag 0x%llx, data %llx, \"%s\"",
           index, (int)operations[index].kind, operations[index].length, a->status,
           (unsigned long long)a->info.length, (unsigned long long)a->of_request.length,
           (unsigned long long)a->of_request.sender_tag, (unsigned long long)a->data, a->text,
           ways[world->way], b->status, (unsigned long long)b->info.length,
           (unsigned long long)b->of_request.length, (unsigned long long)b->of_request.sender_tag,
           (unsigned long long)b->data, b->text);
  }
  for (int side = 0; side < SIDES; side++) {
    CHECK_EQ(world->arrived[side], fast->arrived[side]);
    for (int i = 0; i < world->arrived[side]; i++) {
      const arrival_t *a = &fast->arrivals[side][i], *b = &world->arrivals[side][i];
      if (memcmp(a, b, sizeof *a) != 0)
        FAIL("arrival %d at side %d: plain id %llu, header of %llu, %llu bytes, room "
             "%llu, memory %lld, endpoint %lld; "
             "%s id %llu, header of %llu, %llu bytes, room %llu, memory %lld, endpoint %lld; or "
             "the contents differ",
             i, side, (unsigned long long)a->id, (unsigned long long)a->header_length,
             (unsigned long long)a->length, (unsigned long long)a->capacity,
             (long long)a->memory_type, (long long)a->has_reply, ways[world->way],
             (unsigned long long)b->id, (unsigned long long)b->header_length,
             (unsigned long long)b->length, (unsigned long long)b->capacity,
             (long long)b->memory_type, (long long)b->has_reply);
    }
    ucxx_worker_stats_t a = UCXX_WORKER_STATS_INIT, b = UCXX_WORKER_STATS_INIT;
    CHECK_OK(ucxx_worker_query_stats(fast->workers[side], &a));
    CHECK_OK(ucxx_worker_query_stats(world->workers[side], &b));
    ucxx_endpoint_attr_t c = UCXX_ENDPOINT_ATTR_INIT, d = UCXX_ENDPOINT_ATTR_INIT;
    CHECK_OK(ucxx_endpoint_query(fast->endpoints[side], &c));
    CHECK_OK(ucxx_endpoint_query(world->endpoints[side], &d));
#define SAME(left, right, member)                                                            \
  if ((left).member != (right).member)                                                       \
  FAIL("side %d: " #member ": plain %llu, %s %llu", side, (unsigned long long)(left).member, \
       ways[world->way], (unsigned long long)(right).member)
    SAME(a, b, submitted);
    SAME(a, b, completed);
    SAME(a, b, failed);
    SAME(a, b, canceled);
    SAME(a, b, in_flight);
    SAME(a, b, bytes_sent);
    SAME(a, b, bytes_received);
    SAME(a, b, endpoints);
    SAME(a, b, endpoint_failures);
    SAME(a, b, am_unhandled);
    SAME(c, d, operations_sent);
    SAME(c, d, bytes_sent);
    SAME(c, d, in_flight);
  }
}

static void run_all(void) {
  for (int way = 0; way < WAYS; way++) {
    world_t *world = &worlds[way];
    world->arrived[0] = world->arrived[1] = 0;
    for (int index = 0; index < count; index++) {
      submit(world, index);
      for (unsigned i = 0; i < operations[index].passes; i++) pass(world);
    }
    settle(world);
    compare(world);
  }
}

static void open_world(ucxx_context_t *context, enum way way) {
  world_t *world = &worlds[way];
  world->way = way;
  CHECK_EQ(pthread_mutex_init(&world->lock, NULL), 0);
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = way == MULTI || way == THREAD ? UCXX_THREAD_MULTI : UCXX_THREAD_SINGLE;
  params.progress_mode = way == THREAD ? UCXX_PROGRESS_THREAD_ADAPTIVE : UCXX_PROGRESS_MANUAL;
  params.delayed_submission = 1;
  for (int side = 0; side < SIDES; side++) {
    CHECK_OK(ucxx_worker_create(context, &params, &world->workers[side]));
    at_t *at = &ends[way][side];
    *at = (at_t){world, side};
    CHECK_OK(ucxx_worker_set_am_handler(world->workers[side], DESTROYED, on_destroyed, at, NULL));
    CHECK_OK(ucxx_worker_set_am_handler(world->workers[side], HELD, on_held, at, NULL));
    CHECK_OK(ucxx_worker_set_am_handler(world->workers[side], BARRIER, on_barrier, at, NULL));
    CHECK_OK(ucxx_worker_set_fetch_handler(world->workers[side], ANSWERED, on_question, at, NULL));
  }
  for (int side = 0; side < SIDES; side++)
    world->endpoints[side] = connect_workers(world->workers[side], world->workers[!side]);
}

/* Each path refuses with the same message. */
static void close_world(world_t *world) {
  ucxx_request_t *request = NULL;
  for (int side = 0; side < SIDES; side++)
    CHECK_OK(end_of(world, close_patiently(world->endpoints[side], &request), &request));
  ucxx_op_params_t value, *params = params_of(world, &value, UCXX_MEMORY_HOST);
  uint8_t room[8];
  CHECK_STATUS(ucxx_tag_send(world->endpoints[0], "", 1, 1, params, NULL), UCXX_ERR_CLOSED);
  CHECK_MESSAGE("has been closed");
  CHECK_STATUS(ucxx_am_send(world->endpoints[0], DESTROYED, NULL, 0, "", 1, params, NULL),
               UCXX_ERR_CLOSED);
  CHECK_MESSAGE("has been closed");
  CHECK_STATUS(ucxx_am_fetch(world->endpoints[0], ANSWERED, NULL, 0, room, 8, params, NULL),
               UCXX_ERR_CLOSED);
  CHECK_MESSAGE("has been closed");
  for (int side = 0; side < SIDES; side++) ucxx_endpoint_destroy(world->endpoints[side]);
  for (int side = 0; side < SIDES; side++) ucxx_worker_destroy(world->workers[side]);
}

int main(int argc, char **argv) {
  test_begin("fast_and_general");
  unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : test_rounds(60);
  state = test_seed();
  ucxx_context_t *context;
  CHECK_OK(ucxx_context_create(NULL, &context));
  for (int way = 0; way < WAYS; way++) open_world(context, (enum way)way);
  for (unsigned round = 0; round < rounds; round++) {
    STEP("round %u", round);
    count = 0;
    while (count < USUAL) add_some(round);
    run_all();
    if (round % 16 != 0) continue;
    STEP("more messages than the peer has credit for");
    count = 0;
    while (count < CROWD) add_message((int)(round / 16 % SIDES), HELD, draw(20), any_length());
    run_all();
  }
  for (int way = 0; way < WAYS; way++) close_world(&worlds[way]);
  ucxx_context_destroy(context);
  for (int i = 0; i < CROWD + USUAL; i++) free(operations[i].data);
  return 0;
}
