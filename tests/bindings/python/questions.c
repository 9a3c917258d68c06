/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers
 */
/* The queue of fetches between the library's handler, on the progress thread, and the event loop's
 * thread; see questions.h. */
#include "questions.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct client_questions {
  pthread_mutex_t lock;
  client_question_t *first;
  client_question_t **last;
  int wake_fd;
};

/* The argument of a registered handler: a question does not contain its id. */
typedef struct registration {
  client_questions_t *questions;
  uint16_t id;
} registration_t;

client_questions_t *client_questions_create(int wake_fd) {
  client_questions_t *questions = malloc(sizeof *questions);
  if (questions == NULL) return NULL;
  pthread_mutex_init(&questions->lock, NULL);
  questions->first = NULL;
  questions->last = &questions->first;
  questions->wake_fd = wake_fd;
  return questions;
}

static void on_question(void *arg, ucxx_fetch_t *fetch) {
  registration_t *registration = arg;
  client_questions_t *questions = registration->questions;
  client_question_t *question = malloc(sizeof *question);
  if (question == NULL) {
    ucxx_fetch_reject(fetch, UCXX_ERR_BUSY);
    ucxx_fetch_destroy(fetch);
    return;
  }
  question->next = NULL;
  question->fetch = fetch;
  question->id = registration->id;
  pthread_mutex_lock(&questions->lock);
  bool was_empty = questions->first == NULL;
  *questions->last = question;
  questions->last = &question->next;
  pthread_mutex_unlock(&questions->lock);
  if (was_empty) eventfd_write(questions->wake_fd, 1);
}

ucxx_status_t client_questions_listen(client_questions_t *questions, ucxx_worker_t *worker,
                                      uint16_t id) {
  registration_t *registration = malloc(sizeof *registration);
  if (registration == NULL) return UCXX_ERR_NO_MEMORY;
  registration->questions = questions;
  registration->id = id;
  ucxx_status_t status = ucxx_worker_set_fetch_handler(worker, id, on_question, registration, free);
  if (status != UCXX_OK) free(registration);
  return status;
}

client_question_t *client_questions_take(client_questions_t *questions) {
  pthread_mutex_lock(&questions->lock);
  client_question_t *first = questions->first;
  questions->first = NULL;
  questions->last = &questions->first;
  pthread_mutex_unlock(&questions->lock);
  return first;
}

client_question_t *client_question_next(client_question_t *question) {
  client_question_t *next = question->next;
  free(question);
  return next;
}

void client_questions_destroy(client_questions_t *questions) {
  if (questions == NULL) return;
  client_question_t *question = questions->first;
  while (question != NULL) {
    ucxx_fetch_destroy(question->fetch);
    question = client_question_next(question);
  }
  pthread_mutex_destroy(&questions->lock);
  free(questions);
}
