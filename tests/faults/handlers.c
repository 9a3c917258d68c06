/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Handlers of active messages and fetches: they read them, keep them, pull their data, reply at
 * once, later or never. An operation that a handler submits is counted like any other.
 */
#include "actor.h"

enum { KEPT = 48 };

/* Kept objects, oldest first. */
typedef struct shelf {
  void *things[KEPT];
  size_t first, count;
} shelf_t;

static pthread_mutex_t shelves = PTHREAD_MUTEX_INITIALIZER;
static shelf_t messages, questions;
static unsigned group;
static uint64_t own_number;
static enum { READ, KEEP, PULL, MIXED_UP } with_messages;
static enum { NOW, LATER, NEVER } with_questions;

/* Stores it; returns the object that must make room. */
static void *put(shelf_t *shelf, void *thing) {
  void *oldest = NULL;
  pthread_mutex_lock(&shelves);
  if (shelf->count == KEPT) {
    oldest = shelf->things[shelf->first];
    shelf->first = (shelf->first + 1) % KEPT;
    shelf->count--;
  }
  shelf->things[(shelf->first + shelf->count++) % KEPT] = thing;
  pthread_mutex_unlock(&shelves);
  return oldest;
}

static void *take(shelf_t *shelf) {
  void *oldest = NULL;
  pthread_mutex_lock(&shelves);
  if (shelf->count > 0) {
    oldest = shelf->things[shelf->first];
    shelf->first = (shelf->first + 1) % KEPT;
    shelf->count--;
  }
  pthread_mutex_unlock(&shelves);
  return oldest;
}

/* ------------------------------------------------------------------ active messages */

static void examine(const ucxx_am_message_t *message) {
  size_t length = ucxx_am_message_length(message), header = 0, where = 0;
  const void *data = ucxx_am_message_data(message),
             *told = ucxx_am_message_header(message, &header);
  uint64_t said = 0;
  if (header != sizeof said || (memcpy(&said, told, sizeof said), said != length))
    violation("integrity", "header=%zu said=%" PRIu64 " length=%zu", header, said, length);
  else if (data != NULL && message_check(data, length, &where) != INTACT)
    violation("integrity", "active=1 length=%zu where=%zu", length, where);
}

static void pull(ucxx_am_message_t *message) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  size_t length = ucxx_am_message_length(message);
  uint64_t ticket = 0;
  void *data = operation_data(false, group, length, 0, &params, &ticket);
  operation_called(ticket, ucxx_am_message_recv(message, data, length, &params, NULL), NULL);
  ucxx_am_message_destroy(message);
}

static void on_message(void *arg, ucxx_am_message_t *message) {
  static uint64_t count;
  (void)arg;
  examine(message);
  switch (with_messages == MIXED_UP ? mix(__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED)) % 3
                                    : with_messages) {
  case KEEP: ucxx_am_message_destroy(put(&messages, message)); break;
  case PULL: pull(message); break;
  default: ucxx_am_message_destroy(message);
  }
}

/* ------------------------------------------------------------------ fetches */

static void answer_question(ucxx_fetch_t *question) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  size_t length = ucxx_fetch_capacity(question);
  uint64_t ticket = 0;
  void *data = operation_data(true, group, length, own_number, &params, &ticket);
  operation_called(ticket, ucxx_fetch_reply(question, data, length, &params, NULL), NULL);
  ucxx_fetch_destroy(question);
}

static void on_question(void *arg, ucxx_fetch_t *question) {
  uint64_t said = 0;
  size_t header = 0;
  (void)arg;
  const void *told = ucxx_fetch_header(question, &header);
  if (header != sizeof said ||
      (memcpy(&said, told, sizeof said), said != ucxx_fetch_capacity(question)))
    violation("integrity", "header=%zu said=%" PRIu64 " capacity=%zu", header, said,
              ucxx_fetch_capacity(question));
  if (with_questions == NOW) {
    answer_question(question);
    return;
  }
  ucxx_fetch_t *oldest = put(&questions, question);
  if (oldest == NULL) return;
  if (with_questions == LATER)
    answer_question(oldest);
  else
    ucxx_fetch_destroy(oldest);
}

/* ------------------------------------------------------------------ commands */

static void serve(const command_t *command) {
  const char *how = text_of(command, "messages", "read"),
             *then = text_of(command, "questions", "now");
  with_messages = word_is(how, "keep")    ? KEEP
                  : word_is(how, "pull")  ? PULL
                  : word_is(how, "mixed") ? MIXED_UP
                                          : READ;
  with_questions = word_is(then, "later") ? LATER : word_is(then, "never") ? NEVER : NOW;
  group = (unsigned)number_of(command, "group", 0) % GROUPS;
  own_number = number_of(command, "sender", 0);
  ucxx_status_t status = ucxx_worker_set_am_handler(worker, ACTIVE, on_message, NULL, NULL);
  if (status == UCXX_OK)
    status = ucxx_worker_set_fetch_handler(worker, ACTIVE, on_question, NULL, NULL);
  answer(command, status, " ");
}

bool command_handlers(const command_t *command) {
  if (!word_is(command->verb, "serve")) return false;
  serve(command);
  return true;
}

size_t handlers_release(void) {
  size_t released = 0;
  for (void *thing; (thing = take(&messages)) != NULL; released++) ucxx_am_message_destroy(thing);
  for (void *thing; (thing = take(&questions)) != NULL; released++) ucxx_fetch_destroy(thing);
  return released;
}
