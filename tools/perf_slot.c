/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _XOPEN_SOURCE 700
#include "perf_tests.h"

#include <errno.h>
#include <time.h>

/* The longest sleep. After it the program checks whether to wait further. */
#define SLEEP_NS (20 * NS_PER_MS)
#define SPINS 1024 /* turns of a polling loop between two reads of the clock */
#define BATCH 64

static void wake(struct session *session) {
  if (atomic_load(&session->sleeping) != 0 && atomic_exchange(&session->sleeping, 0) != 0)
    sem_post(&session->wakeup);
}

void slot_complete(struct slot *slot, ucxx_status_t status) {
  slot->status = status;
  atomic_store(&slot->done, 1);
  wake(slot->session);
}

void slot_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  slot_complete(arg, status);
}

void slot_init(struct slot *slot, struct bench *bench, void *buffer, size_t index,
               int memory_type) {
  struct session *session = bench->session;
  ucxx_op_params_init(&slot->params, sizeof slot->params);
  slot->session = session;
  slot->bench = bench;
  slot->buffer = buffer;
  slot->index = index;
  slot->request = NULL;
  slot->status = UCXX_OK;
  atomic_init(&slot->done, 1);
  slot->params.memory_type = memory_type;
  if (session->drive.wait == WAIT_CALLBACK) slot->params.callback = slot_callback;
  if (session->drive.wait == WAIT_NOTIFIER) slot->params.notifier = session->notifier;
  slot->params.callback_arg = slot;
}

static bool keeps_request(const struct session *session) {
  return session->drive.wait == WAIT_POLL || session->drive.wait == WAIT_REQUEST;
}

static int slot_failed(struct slot *slot, const char *what) {
  struct session *session = slot->session;
  const char *detail = slot->request != NULL ? ucxx_request_error_message(slot->request) : "";
  /* A side that fails sends the reason out of band. The end of its endpoint is only the
   * consequence. */
  if (session_peer_left(session, slot->status))
    return oob_last_words(session->oob, session->failure);
  return fail(session->failure, "%s: %s (%s)", what,
              detail[0] != '\0' ? detail : ucxx_status_string(slot->status),
              ucxx_status_name(slot->status));
}

/* Handles the return value of an operation. */
static int slot_started(struct slot *slot, ucxx_status_t status, const char *what) {
  if (status == UCXX_INPROGRESS) return 0;
  slot->status = status;
  atomic_store_explicit(&slot->done, 1, memory_order_relaxed);
  if (status == UCXX_OK) return 0;
  return session_fail(slot->session, what, status);
}

/* Returns true if the call should be repeated: the submission queue was full, and others empty
 * it. */
static bool comes_again(struct session *session, ucxx_status_t status, bool *waiting) {
  if (status != UCXX_ERR_NO_RESOURCE) return false;
  if (!*waiting) patience_begin(session);
  *waiting = true;
  if (session->manual) ucxx_worker_progress(session->worker, NULL);
  return patience_go_on(session) == 0;
}

int slot_submit(struct slot *slot, submit_t submit, size_t length, uint64_t message,
                const char *what) {
  struct session *session = slot->session;
  ucxx_request_t **request = keeps_request(session) ? &slot->request : NULL;
  ucxx_status_t status;
  bool waiting = false;
  slot->length = length;
  slot->message = message;
  slot->endpoint = (uint32_t)(message % session->endpoint_count);
  slot->by_event = false;
  slot->look = NULL;
  slot->finish = NULL;
  /* Before the call, because a progress thread may complete the operation before the call
   * returns. */
  atomic_store_explicit(&slot->done, 0, memory_order_relaxed);
  do status = submit(slot, request);
  while (comes_again(session, status, &waiting));
  return slot_started(slot, status, what);
}

uint64_t slot_patience_ns(const struct session *session) {
  return session->manual || session->drive.wait == WAIT_POLL ? 0 : SLEEP_NS;
}

static int progress(struct session *session) {
  if (!session->manual) return 0;
  ucxx_status_t status = ucxx_worker_progress(session->worker, NULL);
  return status == UCXX_OK ? 0 : session_fail(session, "progress", status);
}

static ucxx_status_t look(struct slot *slot) {
  if (slot->look != NULL) return slot->look(slot);
  if (!slot->by_event) return ucxx_request_status(slot->request);
  return atomic_load_explicit(&slot->done, memory_order_acquire) != 0 ? slot->status
                                                                      : UCXX_INPROGRESS;
}

static int wait_by_polling(struct slot *slot) {
  struct session *session = slot->session;
  ucxx_status_t status;
  for (unsigned spins = 1; (status = look(slot)) == UCXX_INPROGRESS; spins++) {
    if (progress(session) != 0) return -1;
    if (spins == SPINS) patience_begin(session);
    if (spins % SPINS == 0 && patience_go_on(session) != 0) return -1;
  }
  slot->status = status;
  return 0;
}

static int wait_for_request(struct slot *slot) {
  struct session *session = slot->session;
  bool waiting = false;
  while ((slot->status = ucxx_request_wait(slot->request, SLEEP_NS)) == UCXX_INPROGRESS) {
    if (!waiting) patience_begin(session);
    waiting = true;
    if (patience_go_on(session) != 0) return -1;
  }
  return 0;
}

/* Sleeps until a callback reports a completion, or a short time has passed. */
static void sleep_for_callback(struct session *session, struct slot *slot) {
  struct timespec until;
  atomic_store(&session->sleeping, 1);
  if (atomic_load(&slot->done) == 0) {
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)SLEEP_NS;
    if (until.tv_nsec >= (long)NS_PER_SECOND) {
      until.tv_nsec -= (long)NS_PER_SECOND;
      until.tv_sec++;
    }
    while (sem_timedwait(&session->wakeup, &until) != 0 && errno == EINTR && !stopped()) {}
  }
  atomic_store(&session->sleeping, 0);
}

static int wait_for_callback(struct slot *slot) {
  struct session *session = slot->session;
  for (unsigned spins = 1; atomic_load_explicit(&slot->done, memory_order_acquire) == 0; spins++) {
    if (progress(session) != 0) return -1;
    if (!session->manual) sleep_for_callback(session, slot);
    if (spins == 1) patience_begin(session);
    if ((!session->manual || spins % SPINS == 0) && patience_go_on(session) != 0) return -1;
  }
  return 0;
}

static int take_completions(struct session *session, size_t *count) {
  ucxx_completion_t batch[BATCH];
  ucxx_status_t status =
      ucxx_notifier_poll(session->notifier, batch, sizeof batch[0], BATCH, count);
  if (status != UCXX_OK) return session_fail(session, "polling the notifier", status);
  for (size_t i = 0; i < *count; i++) {
    struct slot *slot = batch[i].user_data;
    slot->status = batch[i].status;
    atomic_store_explicit(&slot->done, 1, memory_order_relaxed);
  }
  return 0;
}

static int wait_for_notifier(struct slot *slot) {
  struct session *session = slot->session;
  for (unsigned spins = 1; atomic_load_explicit(&slot->done, memory_order_relaxed) == 0; spins++) {
    size_t count = 0;
    if (progress(session) != 0 || take_completions(session, &count) != 0) return -1;
    if (spins == 1) patience_begin(session);
    if (count > 0) continue;
    if (!session->manual) {
      ucxx_status_t status = ucxx_notifier_wait(session->notifier, SLEEP_NS);
      if (status != UCXX_OK && status != UCXX_ERR_TIMED_OUT)
        return session_fail(session, "waiting for the notifier", status);
    }
    if ((!session->manual || spins % SPINS == 0) && patience_go_on(session) != 0) return -1;
  }
  return 0;
}

static int wait_as_asked(struct slot *slot) {
  int wait = slot->session->drive.wait;
  if (slot->look != NULL || wait == WAIT_POLL) return wait_by_polling(slot);
  if (slot->by_event || wait == WAIT_CALLBACK) return wait_for_callback(slot);
  return wait == WAIT_REQUEST ? wait_for_request(slot) : wait_for_notifier(slot);
}

int slot_wait(struct slot *slot) {
  if (atomic_load_explicit(&slot->done, memory_order_acquire) == 0 && wait_as_asked(slot) != 0)
    return -1;
  int result = slot->status == UCXX_OK ? 0 : slot_failed(slot, "an operation failed");
  int (*finish)(struct slot *) = slot->finish;
  slot->finish = NULL;
  if (result == 0 && finish != NULL) result = finish(slot);
  atomic_store_explicit(&slot->done, 1, memory_order_relaxed);
  if (slot->request != NULL) ucxx_request_destroy(slot->request);
  slot->request = NULL;
  return result;
}
