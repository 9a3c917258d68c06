/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * param_server.c: several workers train vectors of numbers together.
 *
 *     cc -o param_server param_server.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./param_server server WORKERS ROUNDS
 *     ./param_server worker PORT [LAST]
 *
 * The server prints its port first, and ends after its workers. With LAST a worker kills itself
 * after that round. Two workers and three rounds:
 *
 *     ./param_server server 2 3 &
 *     port 33443
 *     ./param_server worker 33443 & ./param_server worker 33443; wait
 *     worker 0: 3 rounds, every sum is right
 *     worker 1: 3 rounds, every sum is right
 *     complete: 2 workers, 3 of 3 rounds, 30 pulls answered
 *
 * In each round each worker pushes a gradient for every key, and pulls the new vector. Both are
 * fetches, which are questions with answers. A push carries data with the question, and its answer
 * is empty. The answer to a pull goes into the worker's vector. The server keeps a pull until all
 * workers have pushed, and answers then. So nobody needs a barrier, and nobody asks twice. If a
 * worker is lost, the round cannot be completed: the server answers the pulls that it keeps, and
 * all later questions, with WORKER_LOST.
 */
#define _XOPEN_SOURCE 700
#include <signal.h>

#include "conversation.h"

/* The id of a fetch without a header. The answer is a struct setup, sent when all workers are
 * there. */
#define JOIN_ID 1
/* The header is a struct place, the data is the gradient, and the answer is empty. */
#define PUSH_ID 2
/* The header is a struct place. The answer is the vector after that round. */
#define PULL_ID 3

#define WORKER_LOST (UCXX_ERR_APPLICATION - 1)
#define EXIT_LOST 4

#define MOST_WORKERS 8
static const uint32_t lengths[] = {
    /* Lengths of the vectors, short and long, so that answers use different protocols. */
    1, 100, 3000, 20000, 100000};
#define KEYS (sizeof lengths / sizeof *lengths)

struct setup {
  uint32_t worker, workers, rounds;
};

struct place {
  uint32_t key, round;
};

/* Small whole numbers: their sums are exact in a float, in any order. */
static float gradient(uint32_t worker, struct place place, uint32_t at) {
  return (float)((at * 7 + worker * 13 + place.round * 5 + place.key * 3) % 17) - 8;
}

static void *zeros(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (memory != NULL) return memory;
  fprintf(stderr, "error: no memory\n");
  give_up();
}

/* ---------------------------------------- server: one thread, everything in callbacks */

struct server;

struct member {
  struct server *server;
  ucxx_endpoint_t *endpoint;
  uint32_t pushed[KEYS]; /* rounds */
  ucxx_fetch_t *join; /* questions that the server keeps */
  ucxx_fetch_t *pulls[KEYS];
};

struct vector {
  struct server *server;
  float *values, *sum; /* the sum of the gradients of this round */
  uint32_t round, pushes; /* complete rounds; gradients in the sum */
  uint32_t sending; /* answers that still read the values */
};

struct server {
  ucxx_worker_t *worker;
  uint32_t workers, rounds, joined, present, pulls;
  bool lost;
  struct member members[MOST_WORKERS];
  struct vector vectors[KEYS];
};

static void refuse(ucxx_fetch_t *fetch, ucxx_status_t status) {
  /* The call fails if the worker is gone. Then nobody waits for the answer. */
  ucxx_fetch_reject(fetch, status);
  ucxx_fetch_destroy(fetch);
}

static struct member *asker(struct server *server, const ucxx_fetch_t *fetch) {
  for (uint32_t at = 0; at < server->joined; at++)
    if (server->members[at].endpoint == ucxx_fetch_endpoint(fetch)) return &server->members[at];
  return NULL;
}

/* Returns false for a header that no worker of this program sends. */
static bool read_place(const ucxx_fetch_t *fetch, struct place *place) {
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  if (length != sizeof *place) return false;
  memcpy(place, header, sizeof *place);
  return place->key < KEYS;
}

static void end_round(struct vector *vector);

static void on_vector_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct vector *vector = arg;
  (void)request;
  /* If it failed, on_close reports the reason. */
  (void)status;
  vector->sending--;
  end_round(vector);
}

static void answer_pull(struct vector *vector, ucxx_fetch_t *fetch) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = UCXX_MEMORY_HOST;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_vector_sent;
  params.callback_arg = vector;
  uint32_t length = lengths[vector - vector->server->vectors];
  vector->sending++;
  vector->server->pulls++;
  if (ucxx_fetch_reply(fetch, vector->values, length * sizeof(float), &params, NULL) !=
      UCXX_INPROGRESS)
    vector->sending--;
  ucxx_fetch_destroy(fetch);
}

/* Only this function changes the values, and never while an answer reads them. */
static void end_round(struct vector *vector) {
  struct server *server = vector->server;
  size_t key = (size_t)(vector - server->vectors);
  if (vector->pushes < server->workers || vector->sending > 0) return;
  for (uint32_t at = 0; at < lengths[key]; at++) {
    vector->values[at] += vector->sum[at];
    vector->sum[at] = 0;
  }
  vector->pushes = 0;
  vector->round++;
  for (uint32_t at = 0; at < server->joined; at++) {
    ucxx_fetch_t *pull = server->members[at].pulls[key];
    server->members[at].pulls[key] = NULL;
    if (pull != NULL) answer_pull(vector, pull);
  }
}

static void on_push(void *arg, ucxx_fetch_t *fetch) {
  struct server *server = arg;
  struct member *member = asker(server, fetch);
  struct place place;
  size_t length = 0;
  const unsigned char *data = ucxx_fetch_data(fetch, &length);
  bool fits =
      member != NULL && read_place(fetch, &place) && length == lengths[place.key] * sizeof(float);
  if (server->lost || !fits || place.round != member->pushed[place.key] ||
      place.round != server->vectors[place.key].round) {
    refuse(fetch, server->lost ? WORKER_LOST : UCXX_ERR_REJECTED);
    return;
  }
  struct vector *vector = &server->vectors[place.key];
  for (uint32_t at = 0; at < lengths[place.key]; at++) {
    float value; /* the received data has no alignment */
    memcpy(&value, data + at * sizeof value, sizeof value);
    vector->sum[at] += value;
  }
  member->pushed[place.key]++;
  vector->pushes++;
  ucxx_fetch_reply(fetch, NULL, 0, NULL, NULL);
  ucxx_fetch_destroy(fetch);
  end_round(vector);
}

static void on_pull(void *arg, ucxx_fetch_t *fetch) {
  struct server *server = arg;
  struct member *member = asker(server, fetch);
  struct place place;
  bool fits = member != NULL && read_place(fetch, &place);
  if (server->lost || !fits || member->pulls[place.key] != NULL ||
      place.round >= member->pushed[place.key]) {
    refuse(fetch, server->lost ? WORKER_LOST : UCXX_ERR_REJECTED);
    return;
  }
  struct vector *vector = &server->vectors[place.key];
  if (place.round < vector->round)
    answer_pull(vector, fetch);
  else
    member->pulls[place.key] = fetch; /* end_round answers it */
}

static void on_join(void *arg, ucxx_fetch_t *fetch) {
  struct server *server = arg;
  struct member *member = asker(server, fetch);
  if (server->lost || member == NULL || member->join != NULL) {
    refuse(fetch, server->lost ? WORKER_LOST : UCXX_ERR_REJECTED);
    return;
  }
  member->join = fetch;
  for (uint32_t at = 0; at < server->workers; at++)
    if (server->members[at].join == NULL) return;
  for (uint32_t at = 0; at < server->workers; at++) {
    /* The answers are sent from here. They must stay valid until they have been sent, and nothing
     * reports when, so they live as long as the program. */
    static struct setup setups[MOST_WORKERS];
    setups[at] = (struct setup){at, server->workers, server->rounds};
    ucxx_fetch_reply(server->members[at].join, &setups[at], sizeof *setups, NULL, NULL);
    ucxx_fetch_destroy(server->members[at].join);
    server->members[at].join = NULL;
  }
}

static bool has_finished(const struct member *member) {
  for (size_t key = 0; key < KEYS; key++)
    if (member->pushed[key] < member->server->rounds || member->pulls[key] != NULL) return false;
  return true;
}

/* The library calls it once for each worker, after a close and after a failure. The server does not
 * answer this worker's questions any more, but still has to destroy them. */
static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  struct member *member = arg;
  struct server *server = member->server;
  server->present--;
  if (!server->lost && !has_finished(member)) {
    printf("worker %u is lost: %s\n", (unsigned)(member - server->members),
           ucxx_status_name(status));
    server->lost = true;
  }
  for (uint32_t at = 0; server->lost && at < server->joined; at++) {
    struct member *other = &server->members[at];
    if (other->join != NULL) refuse(other->join, WORKER_LOST);
    other->join = NULL;
    for (size_t key = 0; key < KEYS; key++) {
      if (other->pulls[key] != NULL) refuse(other->pulls[key], WORKER_LOST);
      other->pulls[key] = NULL;
    }
  }
  member->endpoint = NULL;
  /* Inside a callback this takes effect after the callback returns. */
  ucxx_endpoint_destroy(endpoint);
}

static void on_connect(void *arg, ucxx_conn_request_t *conn_request) {
  struct server *server = arg;
  if (server->joined == server->workers) {
    ucxx_conn_request_reject(conn_request);
  } else {
    struct member *member = &server->members[server->joined];
    ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
    params.on_close = on_close;
    params.on_close_arg = member;
    member->server = server;
    check(ucxx_endpoint_accept(conn_request, &params, &member->endpoint), "accept");
    server->joined++;
    server->present++;
  }
  ucxx_conn_request_destroy(conn_request);
}

static int serve(ucxx_context_t *context, uint32_t workers, uint32_t rounds) {
  static struct server server;
  server.workers = workers;
  server.rounds = rounds;
  for (size_t key = 0; key < KEYS; key++) {
    struct vector vector = {
        &server, zeros(lengths[key], sizeof(float)), zeros(lengths[key], sizeof(float)), 0, 0, 0};
    server.vectors[key] = vector;
  }
  check(ucxx_worker_create(context, NULL, &server.worker), "worker");
  check(ucxx_worker_set_fetch_handler(server.worker, JOIN_ID, on_join, &server, NULL), "handler");
  check(ucxx_worker_set_fetch_handler(server.worker, PUSH_ID, on_push, &server, NULL), "handler");
  check(ucxx_worker_set_fetch_handler(server.worker, PULL_ID, on_pull, &server, NULL), "handler");
  ucxx_listener_t *listener = NULL;
  /* The defaults: 127.0.0.1, and any free port. */
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = on_connect;
  params.on_connect_arg = &server;
  check(ucxx_listener_create(server.worker, &params, &listener), "listener");
  printf("port %u\n", ucxx_listener_port(listener));

  while (server.present > 0 || server.joined < workers) {
    ucxx_status_t status = ucxx_worker_wait(server.worker, TIMEOUT_NS);
    if (status != UCXX_ERR_TIMED_OUT) check(status, "wait");
  }
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(server.worker);
  for (size_t key = 0; key < KEYS; key++) {
    free(server.vectors[key].values);
    free(server.vectors[key].sum);
  }
  printf("%s: %u workers, %u of %u rounds, %u pulls answered\n",
         server.lost ? "gave up" : "complete", workers, server.vectors[KEYS - 1].round, rounds,
         server.pulls);
  return server.lost ? EXIT_LOST : EXIT_SUCCESS;
}

/* ---------------------------------------- worker: one thread that waits for its answers */

struct training {
  ucxx_endpoint_t *endpoint;
  struct setup setup;
  float *gradients[KEYS], *values[KEYS], *expected[KEYS];
};

/* Pushes and pulls all keys at once. The pull follows its push without a wait, because the server
 * gets the questions of one thread in order. */
static ucxx_status_t push_and_pull(struct training *training, uint32_t round) {
  ucxx_request_t *pushes[KEYS] = {NULL}, *pulls[KEYS] = {NULL};
  ucxx_status_t pushed[KEYS], pulled[KEYS], result = UCXX_OK;
  ucxx_recv_info_t infos[KEYS];
  for (uint32_t key = 0; key < KEYS; key++) {
    struct place place = {key, round};
    size_t length = lengths[key] * sizeof(float);
    for (uint32_t at = 0; at < lengths[key]; at++)
      training->gradients[key][at] = gradient(training->setup.worker, place, at);
    pushed[key] = ucxx_am_fetch_alloc(training->endpoint, PUSH_ID, &place, sizeof place,
                                      training->gradients[key], length, NULL, NULL, &pushes[key]);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.recv_info = &infos[key];
    pulled[key] = ucxx_am_fetch(training->endpoint, PULL_ID, &place, sizeof place,
                                training->values[key], length, &params, &pulls[key]);
  }
  for (uint32_t key = 0; key < KEYS; key++) {
    ucxx_status_t push = outcome(pushed[key], pushes[key]), pull = outcome(pulled[key], pulls[key]);
    if (result == UCXX_OK) result = push != UCXX_OK ? push : pull;
    if (pull == UCXX_OK && infos[key].length != lengths[key] * sizeof(float))
      result = UCXX_ERR_MESSAGE_TRUNCATED;
  }
  return result;
}

static bool sums_are_right(struct training *training, uint32_t round) {
  for (uint32_t key = 0; key < KEYS; key++) {
    struct place place = {key, round};
    for (uint32_t at = 0; at < lengths[key]; at++) {
      for (uint32_t worker = 0; worker < training->setup.workers; worker++)
        training->expected[key][at] += gradient(worker, place, at);
      if (training->values[key][at] == training->expected[key][at]) continue;
      fprintf(stderr, "error: round %u, key %u, place %u: %g, and not %g\n", round, key, at,
              training->values[key][at], training->expected[key][at]);
      return false;
    }
  }
  return true;
}

static int train(struct training *training, uint32_t last) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_am_fetch(training->endpoint, JOIN_ID, NULL, 0, &training->setup,
                                       sizeof training->setup, NULL, &request);
  status = outcome(status, request);
  for (uint32_t round = 0; status == UCXX_OK && round < training->setup.rounds; round++) {
    status = push_and_pull(training, round);
    if (status == UCXX_OK && !sums_are_right(training, round)) return EXIT_FAILURE;
    if (round == last) raise(SIGKILL);
  }
  if (status == WORKER_LOST) return EXIT_LOST;
  if (status == UCXX_OK) status = hang_up(training->endpoint);
  if (status == UCXX_OK)
    printf("worker %u: %u rounds, every sum is right\n", training->setup.worker,
           training->setup.rounds);
  return status == UCXX_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int be_worker(ucxx_context_t *context, uint16_t port, uint32_t last) {
  struct training training;
  ucxx_worker_t *worker = NULL;
  memset(&training, 0, sizeof training);
  for (size_t key = 0; key < KEYS; key++) {
    training.gradients[key] = zeros(lengths[key], sizeof(float));
    training.values[key] = zeros(lengths[key], sizeof(float));
    training.expected[key] = zeros(lengths[key], sizeof(float));
  }
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  worker_params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  check(ucxx_worker_create(context, &worker_params, &worker), "worker");
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.connect_timeout_ns = TIMEOUT_NS;
  check(ucxx_endpoint_connect(worker, "127.0.0.1", port, &params, &training.endpoint), "connect");
  int result = train(&training, last);
  ucxx_endpoint_destroy(training.endpoint);
  ucxx_worker_destroy(worker);
  for (size_t key = 0; key < KEYS; key++) {
    free(training.gradients[key]);
    free(training.values[key]);
    free(training.expected[key]);
  }
  return result;
}

int main(int argc, char **argv) {
  bool is_server = argc == 4 && strcmp(argv[1], "server") == 0 && atoi(argv[2]) > 0 &&
                   atoi(argv[2]) <= MOST_WORKERS;
  if (!is_server && !((argc == 3 || argc == 4) && strcmp(argv[1], "worker") == 0)) {
    fprintf(stderr, "usage: %s server WORKERS(1..%d) ROUNDS | worker PORT [LAST]\n", argv[0],
            MOST_WORKERS);
    return 2;
  }
  /* Print each line at once, also into a pipe. */
  setvbuf(stdout, NULL, _IOLBF, 0);
  ucxx_context_t *context = NULL;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP;
  check(ucxx_context_create(&params, &context), "context");
  int result = is_server ? serve(context, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]))
                         : be_worker(context, (uint16_t)atoi(argv[2]),
                                     argc == 4 ? (uint32_t)atoi(argv[3]) : UINT32_MAX);
  ucxx_context_destroy(context);
  return result;
}
