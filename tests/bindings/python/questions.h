/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers
 *
 * A queue of peers' fetches (questions), from the progress thread to the event loop's thread. The
 * progress thread must never wait for the interpreter's lock. So its handler is C, and takes no
 * lock that another thread could hold while it waits for the interpreter's.
 */
#ifndef UCXX_RS_CLIENT_QUESTIONS_H
#define UCXX_RS_CLIENT_QUESTIONS_H

#include <ucxx_rs.h>

typedef struct client_questions client_questions_t;

/* A question that has arrived, and the next one. */
typedef struct client_question {
  struct client_question *next;
  ucxx_fetch_t *fetch;
  uint16_t id;
} client_question_t;

/* An empty queue, or NULL without memory. Writes to the eventfd `wake_fd` whenever the queue stops
 * being empty. */
client_questions_t *client_questions_create(int wake_fd);

/* From now on the worker's questions with this id are put into the queue. */
ucxx_status_t client_questions_listen(client_questions_t *questions, ucxx_worker_t *worker,
                                      uint16_t id);

/* Takes all questions, the oldest first; NULL if there are none. */
client_question_t *client_questions_take(client_questions_t *questions);

/* Frees an entry, but not its question; returns the next entry. */
client_question_t *client_question_next(client_question_t *question);

/* Frees the queue and ends its questions. Call after its workers have been destroyed. NULL is
 * ignored. */
void client_questions_destroy(client_questions_t *questions);

#endif
