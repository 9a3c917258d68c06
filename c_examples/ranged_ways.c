/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ranged_ways.c: the ways in which ranged_reads.c reads. Each way has two parts between lines: the
 * server's part, then the client's. The ways share no state. Get and put ask their questions by
 * fetch.
 */
#define _XOPEN_SOURCE 700
#include "ranged_reads.h"

static const struct object *find(const struct side *server, const char *name) {
  for (unsigned at = 0; at < OBJECTS; at++)
    if (strcmp(server->objects[at].name, name) == 0) return &server->objects[at];
  return NULL;
}

/* The server's part of every way in which the server looks up the object. Returns UCXX_OK and where
 * the bytes are, or the status for the client. */
static ucxx_status_t look(const struct side *server, const struct range *range,
                          const unsigned char **data) {
  if (memchr(range->name, 0, sizeof range->name) == NULL) return UCXX_ERR_REJECTED;
  const struct object *object = find(server, range->name);
  if (object == NULL) return UCXX_ERR_NO_ELEM;
  if (range->offset > object->length || range->length > object->length - range->offset)
    return BEYOND_END;
  *data = object->data + range->offset;
  return UCXX_OK;
}

/* ------------------------------------------------------------------ fetch: the server */

static void answer(ucxx_fetch_t *fetch, ucxx_status_t status, const void *data, size_t length) {
  if (status == UCXX_OK) {
    /* `data` is never freed, so the program does not need the completion. */
    status = ucxx_fetch_reply(fetch, data, length, NULL, NULL);
    if (status != UCXX_INPROGRESS) check(status, "answer");
  } else {
    check(ucxx_fetch_reject(fetch, status), "refusal");
  }
  ucxx_fetch_destroy(fetch);
}

static void on_fetch_read(void *arg, ucxx_fetch_t *fetch) {
  const unsigned char *data = NULL;
  struct range range = {0};
  size_t header_length = 0;
  const void *header = ucxx_fetch_header(fetch, &header_length);
  ucxx_status_t status = UCXX_ERR_REJECTED;
  if (header_length == sizeof range) {
    memcpy(&range, header, sizeof range);
    status = look(arg, &range, &data);
  }
  answer(fetch, status, data, (size_t)range.length);
}

static void *fetch_serve(struct side *server, const struct way *way) {
  check(ucxx_worker_set_fetch_handler(server->pair->worker, way->id, on_fetch_read, server, NULL),
        "handler");
  return NULL;
}

/* ------------------------------------------------------------------ fetch: the client */

/* Sends a question and waits for the answer. Returns the server's status if it refused. */
static ucxx_status_t ask(struct side *client, uint16_t id, const void *question,
                         size_t question_length, void *buffer, size_t *length) {
  ucxx_recv_info_t info;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  params.memory_type = UCXX_MEMORY_HOST;
  params.timeout_ns = PAIR_TIMEOUT_NS; /* after that the buffer may be used again */
  params.recv_info = &info;
  ucxx_status_t status = ucxx_am_fetch(client->pair->endpoint, id, question, question_length,
                                       buffer, *length, &params, NULL);
  if (status == UCXX_OK) *length = (size_t)info.length;
  return status;
}

struct fetch_client {
  struct side *side;
  uint16_t id;
};

static void *fetch_begin(struct side *client, const struct way *way, unsigned char **buffer) {
  struct fetch_client *state = zeroed(sizeof *state);
  (void)buffer;
  state->side = client;
  state->id = way->id;
  return state;
}

static ucxx_status_t fetch_read(void *arg, const struct range *range, unsigned char *buffer) {
  struct fetch_client *client = arg;
  size_t length = (size_t)range->length;
  ucxx_status_t status = ask(client->side, client->id, range, sizeof *range, buffer, &length);
  require(status != UCXX_OK || length == range->length, "the length that was asked for");
  return status;
}

/* ------------------------------------------------------------------ tag: both */

/* Two bits of a tag are the kind of message. The others are the number of the question. */
#define TAG_QUESTION (UINT64_C(1) << 62)
#define TAG_STATUS (UINT64_C(2) << 62)
#define TAG_DATA (UINT64_C(3) << 62)
#define TAG_KIND (UINT64_C(3) << 62)

struct tag_question {
  struct range range;
  uint64_t number;
  /* The client's number. A tag message does not tell the server who sent it. */
  uint64_t client;
};

/* ------------------------------------------------------------------ tag: the server */

#define TAG_RECEIVES 8
#define TAG_CLIENTS 1

struct tag_slot {
  struct side *server;
  ucxx_endpoint_t **clients;
  ucxx_request_t *request; /* NULL while an answer is sent */
  struct tag_question question;
  ucxx_recv_info_t info;
  ucxx_status_t status;
  unsigned busy;
};

struct tag_server {
  ucxx_endpoint_t *clients[TAG_CLIENTS];
  struct tag_slot slots[TAG_RECEIVES];
};

static void on_tag_question(void *arg, ucxx_request_t *request, ucxx_status_t status);

static void tag_post(struct tag_slot *slot) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  /* Also for a question that has arrived already. */
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.memory_type = UCXX_MEMORY_HOST;
  params.callback = on_tag_question;
  params.callback_arg = slot;
  params.recv_info = &slot->info;
  ucxx_worker_t *worker = slot->server->pair->worker;
  ucxx_status_t status = ucxx_tag_recv(worker, &slot->question, sizeof slot->question, TAG_QUESTION,
                                       TAG_KIND, &params, &slot->request);
  if (status != UCXX_INPROGRESS) check(status, "receive of a question");
}

/* The status is sent from the slot, so the slot is used again only when nothing is sent from it any
 * more. If a client gives up, a long answer never completes. Its slot is lost until the connection
 * ends. */
static void tag_part_done(struct tag_slot *slot) {
  if (--slot->busy == 0) tag_post(slot);
}

static void on_tag_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  check_completion(request, status, "answer");
  tag_part_done(arg);
}

static void tag_answer(struct tag_slot *slot, const void *data, size_t length, uint64_t kind) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = UCXX_MEMORY_HOST;
  params.callback = on_tag_sent;
  params.callback_arg = slot;
  uint64_t tag = kind | (slot->question.number & ~TAG_KIND);
  ucxx_status_t status =
      ucxx_tag_send(slot->clients[slot->question.client], data, length, tag, &params, NULL);
  if (status == UCXX_INPROGRESS)
    slot->busy++;
  else
    check(status, "answer");
}

static void on_tag_question(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct tag_slot *slot = arg;
  const unsigned char *data = NULL;
  /* tag_serve_no_more cancelled it, and waits for it. */
  if (status == UCXX_ERR_CANCELED) return;
  ucxx_request_destroy(request);
  slot->request = NULL;
  slot->busy = 1;
  /* A message that is not a question gets no answer: without the client's number the server cannot
   * send one. */
  if (status == UCXX_OK && slot->info.length == sizeof slot->question &&
      slot->question.client < TAG_CLIENTS) {
    slot->status = look(slot->server, &slot->question.range, &data);
    tag_answer(slot, &slot->status, sizeof slot->status, TAG_STATUS);
    if (slot->status == UCXX_OK)
      tag_answer(slot, data, (size_t)slot->question.range.length, TAG_DATA);
  }
  tag_part_done(slot);
}

static void *tag_serve(struct side *server, const struct way *way) {
  struct tag_server *state = zeroed(sizeof *state);
  (void)way;
  state->clients[0] = server->pair->endpoint;
  for (unsigned at = 0; at < TAG_RECEIVES; at++) {
    state->slots[at].server = server;
    state->slots[at].clients = state->clients;
    tag_post(&state->slots[at]);
  }
  return state;
}

static void tag_serve_no_more(void *arg) {
  struct tag_server *state = arg;
  for (unsigned at = 0; at < TAG_RECEIVES; at++) {
    struct tag_slot *slot = &state->slots[at];
    while (slot->request == NULL)
      check(ucxx_worker_wait(slot->server->pair->worker, PAIR_TIMEOUT_NS), "answers go out");
    check(ucxx_request_cancel(slot->request), "cancel");
    require(ucxx_request_wait(slot->request, PAIR_TIMEOUT_NS) == UCXX_ERR_CANCELED,
            "nobody asks any more");
    ucxx_request_destroy(slot->request);
  }
  free(state);
}

/* ------------------------------------------------------------------ tag: the client */

struct tag_client {
  struct side *side;
  /* The number of the last question. A number is never used again, because the answer to an
   * abandoned question could still arrive. */
  uint64_t number;
};

static void *tag_begin(struct side *client, const struct way *way, unsigned char **buffer) {
  struct tag_client *state = zeroed(sizeof *state);
  (void)way;
  (void)buffer;
  state->side = client;
  return state;
}

static ucxx_status_t tag_read(void *arg, const struct range *range, unsigned char *buffer) {
  struct tag_client *client = arg;
  struct pair *pair = client->side->pair;
  struct tag_question question = {*range, ++client->number, 0};
  ucxx_status_t said = UCXX_OK;
  ucxx_recv_info_t info;
  ucxx_request_t *told = NULL, *filled = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = UCXX_MEMORY_HOST;
  params.timeout_ns = PAIR_TIMEOUT_NS;
  /* Without it the receives would continue after the server has failed. */
  params.source = pair->endpoint;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, &said, sizeof said,
                                       TAG_STATUS | client->number, UINT64_MAX, &params, &told);
  if (status != UCXX_INPROGRESS) return status;
  params.recv_info = &info;
  status = ucxx_tag_recv(pair->worker, buffer, (size_t)range->length, TAG_DATA | client->number,
                         UINT64_MAX, &params, &filled);
  if (status == UCXX_INPROGRESS) {
    ucxx_op_params_t send_params = UCXX_OP_PARAMS_INIT;
    send_params.flags = UCXX_FLAG_WAIT;
    send_params.memory_type = UCXX_MEMORY_HOST;
    status =
        ucxx_tag_send(pair->endpoint, &question, sizeof question, TAG_QUESTION, &send_params, NULL);
  }
  /* Both receives must end before this call returns, because they write into its variables. */
  if (status != UCXX_OK) check(ucxx_request_cancel(told), "cancel");
  ucxx_status_t ended = ucxx_request_wait(told, UINT64_MAX);
  if (status == UCXX_OK) status = ended == UCXX_OK ? said : ended;
  ucxx_request_destroy(told);
  if (filled == NULL) return status;
  if (status != UCXX_OK) check(ucxx_request_cancel(filled), "cancel");
  ended = ucxx_request_wait(filled, UINT64_MAX);
  if (status == UCXX_OK) status = ended;
  ucxx_request_destroy(filled);
  require(status != UCXX_OK || info.length == range->length, "the length that was asked for");
  return status;
}

/* ------------------------------------------------------------------ get: both */

#define KEY 512 /* room for one */
#define GET_OPEN 0 /* the header is a name, and the answer is the key */
#define GET_CLOSE 1 /* no header: the client does not use a key any more */

/* ------------------------------------------------------------------ get: the server */

struct get_server {
  struct side *side;
  ucxx_memory_t *memories[OBJECTS];
  unsigned char keys[OBJECTS][KEY]; /* answers are sent from these */
  size_t key_lengths[OBJECTS];
  unsigned lent;
};

static void on_get_open(void *arg, ucxx_fetch_t *fetch) {
  struct get_server *server = arg;
  size_t header_length = 0;
  const char *name = ucxx_fetch_header(fetch, &header_length);
  if (header_length != NAME || memchr(name, 0, NAME) == NULL) {
    answer(fetch, UCXX_ERR_REJECTED, NULL, 0);
    return;
  }
  const struct object *object = find(server->side, name);
  if (object == NULL) {
    answer(fetch, UCXX_ERR_NO_ELEM, NULL, 0);
    return;
  }
  size_t at = (size_t)(object - server->side->objects);
  server->lent++;
  answer(fetch, UCXX_OK, server->keys[at], server->key_lengths[at]);
}

static void on_get_close(void *arg, ucxx_fetch_t *fetch) {
  struct get_server *server = arg;
  if (server->lent > 0) server->lent--;
  answer(fetch, UCXX_OK, NULL, 0);
}

static void *get_serve(struct side *server, const struct way *way) {
  struct get_server *state = zeroed(sizeof *state);
  state->side = server;
  /* Each object is registered separately, so that the key to one does not give access to
   * another. */
  for (unsigned at = 0; at < OBJECTS; at++) {
    const struct object *object = &server->objects[at];
    ucxx_memory_t **memory = &state->memories[at];
    if (way->allocated) {
      check(ucxx_memory_allocate(server->pair->context, object->length, UCXX_MEMORY_HOST, memory),
            "memory");
      memcpy(ucxx_memory_base(*memory), object->data, object->length);
    } else {
      check(ucxx_memory_register(server->pair->context, object->data, object->length,
                                 UCXX_MEMORY_HOST, memory),
            "registration");
    }
    state->key_lengths[at] = KEY;
    check(ucxx_memory_pack(*memory, state->keys[at], &state->key_lengths[at]), "key");
  }
  check(ucxx_worker_set_fetch_handler(server->pair->worker, (uint16_t)(way->id + GET_OPEN),
                                      on_get_open, state, NULL),
        "handler");
  check(ucxx_worker_set_fetch_handler(server->pair->worker, (uint16_t)(way->id + GET_CLOSE),
                                      on_get_close, state, NULL),
        "handler");
  return state;
}

static void get_serve_no_more(void *arg) {
  struct get_server *state = arg;
  require(state->lent == 0, "no key is in use");
  for (unsigned at = 0; at < OBJECTS; at++) ucxx_memory_destroy(state->memories[at]);
  free(state);
}

/* ------------------------------------------------------------------ get: the client */

struct get_client {
  struct side *side;
  uint16_t id;
  unsigned count;
  char names[OBJECTS][NAME];
  ucxx_rkey_t *keys[OBJECTS];
};

static void *get_begin(struct side *client, const struct way *way, unsigned char **buffer) {
  struct get_client *state = zeroed(sizeof *state);
  (void)buffer;
  state->side = client;
  state->id = way->id;
  return state;
}

static ucxx_status_t get_key(struct get_client *client, const char *name, ucxx_rkey_t **key) {
  unsigned char bytes[KEY];
  size_t length = sizeof bytes;
  for (unsigned at = 0; at < client->count; at++) {
    if (strcmp(client->names[at], name) != 0) continue;
    *key = client->keys[at];
    return UCXX_OK;
  }
  ucxx_status_t status =
      ask(client->side, (uint16_t)(client->id + GET_OPEN), name, NAME, bytes, &length);
  if (status != UCXX_OK) return status;
  require(client->count < OBJECTS, "a place for a key");
  check(ucxx_rkey_unpack(client->side->pair->endpoint, bytes, length, key), "the server's key");
  memcpy(client->names[client->count], name, NAME);
  client->keys[client->count++] = *key;
  return UCXX_OK;
}

static ucxx_status_t get_read(void *arg, const struct range *range, unsigned char *buffer) {
  ucxx_rkey_t *key = NULL;
  ucxx_status_t status = get_key(arg, range->name, &key);
  if (status != UCXX_OK) return status;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  params.memory_type = UCXX_MEMORY_HOST;
  status = ucxx_rma_get(key, buffer, (size_t)range->length, range->offset, &params, NULL);
  /* The library compares the range with the length in the key. The server is not asked. */
  return status == UCXX_ERR_OUT_OF_RANGE ? BEYOND_END : status;
}

static void get_end(void *arg) {
  struct get_client *client = arg;
  for (unsigned at = 0; at < client->count; at++) {
    size_t none = 0;
    ucxx_rkey_destroy(client->keys[at]);
    check(ask(client->side, (uint16_t)(client->id + GET_CLOSE), NULL, 0, NULL, &none),
          "the key is given back");
  }
  free(client);
}

/* ------------------------------------------------------------------ put: both */

/* The header is the key to a buffer. The answer is the buffer's number. */
#define PUT_OFFER 0
/* The header is a struct put_question. The answer is empty, and means that the bytes have
 * arrived. */
#define PUT_READ 1
#define PUT_FORGET 2 /* the header is the number */

struct put_question {
  struct range range;
  uint64_t place; /* in the buffer */
  uint64_t number;
};

/* ------------------------------------------------------------------ put: the server */

#define PUT_BUFFERS 4

struct put_server {
  struct side *side;
  /* One number each, because answers are sent from here. */
  uint64_t numbers[PUT_BUFFERS];
  ucxx_rkey_t *keys[PUT_BUFFERS];
};

/* A key is valid only on the endpoint to the process that made it. That is the endpoint of the
 * question. */
static void on_put_offer(void *arg, ucxx_fetch_t *fetch) {
  struct put_server *server = arg;
  size_t length = 0, at = 0;
  const void *bytes = ucxx_fetch_header(fetch, &length);
  while (at < PUT_BUFFERS && server->keys[at] != NULL) at++;
  ucxx_status_t status = UCXX_ERR_BUSY;
  if (at < PUT_BUFFERS)
    status = ucxx_rkey_unpack(ucxx_fetch_endpoint(fetch), bytes, length, &server->keys[at]);
  if (status == UCXX_OK) server->numbers[at] = at;
  answer(fetch, status == UCXX_OK || status == UCXX_ERR_BUSY ? status : UCXX_ERR_REJECTED,
         &server->numbers[at], sizeof server->numbers[at]);
}

/* A message may overtake a put. So the server answers after a flush, which confirms that the bytes
 * have arrived. */
static void on_put_flushed(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  answer(arg, status == UCXX_OK ? UCXX_OK : NOT_DELIVERED, NULL, 0);
}

static void on_put_read(void *arg, ucxx_fetch_t *fetch) {
  struct put_server *server = arg;
  const unsigned char *data = NULL;
  struct put_question question;
  size_t header_length = 0;
  const void *header = ucxx_fetch_header(fetch, &header_length);
  ucxx_status_t status = UCXX_ERR_REJECTED;
  if (header_length == sizeof question) {
    memcpy(&question, header, sizeof question);
    status = look(server->side, &question.range, &data);
    /* A server for several clients must also check that the number belongs to this client. */
    if (status == UCXX_OK &&
        (question.number >= PUT_BUFFERS || server->keys[question.number] == NULL))
      status = UCXX_ERR_REJECTED;
  }
  if (status != UCXX_OK) {
    answer(fetch, status, NULL, 0);
    return;
  }
  /* There is no request, so a failure of the put is reported by the flush. */
  status = ucxx_rma_put(server->keys[question.number], data, (size_t)question.range.length,
                        question.place, NULL, NULL);
  if (status == UCXX_OK || status == UCXX_INPROGRESS) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = on_put_flushed;
    params.callback_arg = fetch;
    status = ucxx_endpoint_flush(ucxx_fetch_endpoint(fetch), &params, NULL);
  }
  if (status != UCXX_INPROGRESS) on_put_flushed(fetch, NULL, status);
}

static void on_put_forget(void *arg, ucxx_fetch_t *fetch) {
  struct put_server *server = arg;
  uint64_t number = PUT_BUFFERS;
  size_t header_length = 0;
  const void *header = ucxx_fetch_header(fetch, &header_length);
  if (header_length == sizeof number) memcpy(&number, header, sizeof number);
  if (number < PUT_BUFFERS) {
    ucxx_rkey_destroy(server->keys[number]);
    server->keys[number] = NULL;
  }
  answer(fetch, number < PUT_BUFFERS ? UCXX_OK : UCXX_ERR_REJECTED, NULL, 0);
}

static void *put_serve(struct side *server, const struct way *way) {
  struct put_server *state = zeroed(sizeof *state);
  state->side = server;
  check(ucxx_worker_set_fetch_handler(server->pair->worker, (uint16_t)(way->id + PUT_OFFER),
                                      on_put_offer, state, NULL),
        "handler");
  check(ucxx_worker_set_fetch_handler(server->pair->worker, (uint16_t)(way->id + PUT_READ),
                                      on_put_read, state, NULL),
        "handler");
  check(ucxx_worker_set_fetch_handler(server->pair->worker, (uint16_t)(way->id + PUT_FORGET),
                                      on_put_forget, state, NULL),
        "handler");
  return state;
}

static void put_serve_no_more(void *arg) {
  struct put_server *state = arg;
  for (unsigned at = 0; at < PUT_BUFFERS; at++) require(state->keys[at] == NULL, "no key is left");
  free(state);
}

/* ------------------------------------------------------------------ put: the client */

struct put_client {
  struct side *side;
  uint16_t id;
  ucxx_memory_t *memory; /* contains the buffer that is read into */
  uint64_t number;
};

static void *put_begin(struct side *client, const struct way *way, unsigned char **buffer) {
  struct put_client *state = zeroed(sizeof *state);
  unsigned char key[KEY];
  size_t length = sizeof key, number_length = sizeof state->number;
  state->side = client;
  state->id = way->id;
  if (way->allocated) {
    check(
        ucxx_memory_allocate(client->pair->context, LONGEST + 1, UCXX_MEMORY_HOST, &state->memory),
        "memory");
    *buffer = ucxx_memory_base(state->memory);
  } else {
    check(ucxx_memory_register(client->pair->context, *buffer, LONGEST + 1, UCXX_MEMORY_HOST,
                               &state->memory),
          "registration");
  }
  check(ucxx_memory_pack(state->memory, key, &length), "key");
  check(ask(client, (uint16_t)(way->id + PUT_OFFER), key, length, &state->number, &number_length),
        "the server takes the key");
  require(number_length == sizeof state->number, "the answer is a number");
  return state;
}

static ucxx_status_t put_read(void *arg, const struct range *range, unsigned char *buffer) {
  struct put_client *client = arg;
  size_t none = 0;
  struct put_question question = {
      *range, (uint64_t)(buffer - (unsigned char *)ucxx_memory_base(client->memory)),
      client->number};
  /* After a timeout the server may still put. So the buffer must stay valid until put_end, or until
   * the endpoint is destroyed. */
  return ask(client->side, (uint16_t)(client->id + PUT_READ), &question, sizeof question, NULL,
             &none);
}

static void put_end(void *arg) {
  struct put_client *client = arg;
  size_t none = 0;
  check(ask(client->side, (uint16_t)(client->id + PUT_FORGET), &client->number,
            sizeof client->number, NULL, &none),
        "the key is forgotten");
  ucxx_memory_destroy(client->memory);
  free(client);
}

/* ------------------------------------------------------------------ all of them */

const struct way ways[WAYS] = {
    {"fetch", 1, false, fetch_serve, NULL, fetch_begin, fetch_read, free},
    {"tag", 0, false, tag_serve, tag_serve_no_more, tag_begin, tag_read, free},
    {"get", 2, false, get_serve, get_serve_no_more, get_begin, get_read, get_end},
    {"get_allocated", 4, true, get_serve, get_serve_no_more, get_begin, get_read, get_end},
    {"put", 6, false, put_serve, put_serve_no_more, put_begin, put_read, put_end},
    {"put_allocated", 9, true, put_serve, put_serve_no_more, put_begin, put_read, put_end},
};
