/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Sends, receives and flushes, submitted many at a time, each with its own buffer, and counted on
 * completion. A buffer is overwritten as soon as its operation has completed, with any status: the
 * library has released it.
 */
#include "actor.h"

#include <sched.h>

enum kind { PLAIN, SENT, RECEIVED, ADDED };
enum state { UNUSED, PENDING, CHECKING, DONE };
enum { FIRST_SLOTS = 1024 };

typedef struct operation {
  /* given to callbacks: the slot's number and how often it was used, so that a late callback is
   * detected */
  uint64_t ticket;
  enum kind kind;
  enum state state;
  unsigned group;
  ucxx_endpoint_t *closes; /* the endpoint that its callback closes */
  int32_t how;
  bool early; /* its request was destroyed while in progress */
  transfer_t *transfer; /* the transfer, if it has more than one buffer */
  tally_t *tally; /* account of the number it adds to */
  uint8_t *data;
  size_t length, scribbled;
  uint8_t scribble;
  ucxx_request_t *request;
  ucxx_recv_info_t info;
} operation_t;

static operation_t **slots;
static size_t slot_count, free_from;
static uint64_t submitted, inside, called_back, refused, sequence;

/* ------------------------------------------------------------------ slots */

static operation_t *take(enum kind kind, unsigned group, size_t length) {
  pthread_mutex_lock(&tables);
  while (free_from < slot_count && slots[free_from]->state != UNUSED) free_from++;
  if (free_from == slot_count) {
    size_t wanted = slot_count > 0 ? 2 * slot_count : FIRST_SLOTS;
    slots = realloc(slots, wanted * sizeof *slots);
    if (slots == NULL) give_up("no memory");
    for (; slot_count < wanted; slot_count++) {
      /* Allocated separately: recv_info must not move. */
      slots[slot_count] = calloc(1, sizeof **slots);
      if (slots[slot_count] == NULL) give_up("no memory");
      slots[slot_count]->ticket = slot_count;
    }
  }
  operation_t *operation = slots[free_from];
  operation->ticket += UINT64_C(1) << 24;
  operation->kind = kind;
  operation->state = PENDING;
  operation->group = group;
  operation->early = false;
  operation->closes = NULL;
  operation->transfer = NULL;
  operation->tally = NULL;
  operation->length = length;
  operation->scribbled = 0;
  operation->data = NULL;
  operation->request = NULL;
  pthread_mutex_unlock(&tables);
  if (kind != PLAIN) {
    operation->data = malloc(length > 0 ? length : 1);
    if (operation->data == NULL) give_up("no memory");
  }
  return operation;
}

static void give_back(operation_t *operation) {
  free(operation->data);
  operation->data = NULL;
  transfer_destroy(operation->transfer);
  operation->transfer = NULL;
  pthread_mutex_lock(&tables);
  operation->state = UNUSED;
  size_t slot = operation->ticket & 0xffffff;
  if (slot < free_from) free_from = slot;
  pthread_mutex_unlock(&tables);
}

/* ------------------------------------------------------------------ completion */

static void examine(operation_t *operation, ucxx_status_t status) {
  static const char *const names[] = {"intact", "scribbled", "mixed"};
  size_t length = operation->info.length, where = 0;
  if (status != UCXX_OK) return;
  if (length > operation->length) {
    violation("integrity", "received=%zu capacity=%zu", length, operation->length);
    return;
  }
  enum verdict verdict = message_check(operation->data, length, &where);
  if (verdict != INTACT)
    violation("integrity", "verdict=%s group=%u length=%zu where=%zu", names[verdict],
              operation->group, length, where);
}

static void complete(uint64_t ticket, ucxx_request_t *request, ucxx_status_t status, bool within) {
  uint64_t at = now_ns();
  pthread_mutex_lock(&tables);
  operation_t *operation = slots[ticket & 0xffffff];
  bool expected = operation->ticket == ticket && operation->state == PENDING;
  if (expected) {
    operation->state = CHECKING;
    *(within ? &inside : &called_back) += 1;
  }
  pthread_mutex_unlock(&tables);
  if (!expected) {
    violation("completion", "twice=1 slot=%" PRIu64 " status=%s", ticket & 0xffffff,
              ucxx_status_name(status));
    return;
  }
  if (operation->kind == RECEIVED) examine(operation, status);
  if (operation->tally != NULL && status == UCXX_OK) rma_added(operation->tally, operation->data);
  if (operation->transfer != NULL)
    transfer_completed(operation->transfer, operation->group, request, status);
  if (operation->kind != PLAIN) {
    operation->scribble = operation->kind == SENT ? SCRIBBLE_SENT : SCRIBBLE_RECEIVED;
    memset(operation->data, operation->scribble, operation->length);
    operation->scribbled = operation->length;
  }
  unsigned group = operation->group;
  pthread_mutex_lock(&tables);
  operation->state = DONE;
  pthread_mutex_unlock(&tables);
  group_completed(group, status, within, at);
}

static void on_completion(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  uint64_t ticket = (uint64_t)(uintptr_t)arg;
  if (status == UCXX_INPROGRESS || status > 0)
    violation("completion", "status=%s", ucxx_status_name(status));
  if (request != NULL && ucxx_request_status(request) != status)
    violation("completion", "status=%s request=%s", ucxx_status_name(status),
              ucxx_status_name(ucxx_request_status(request)));
  /* Another thread may be enlarging the table. */
  pthread_mutex_lock(&tables);
  ucxx_endpoint_t *closes = slots[ticket & 0xffffff]->closes;
  int32_t how = slots[ticket & 0xffffff]->how;
  pthread_mutex_unlock(&tables);
  complete(ticket, request, status, false);
  if (closes != NULL) {
    ucxx_status_t closed = ucxx_endpoint_close(closes, how, NULL, NULL);
    if (closed != UCXX_OK && closed != UCXX_INPROGRESS && ucxx_endpoint_status(closes) == UCXX_OK)
      violation("completion", "close=%s from=callback", ucxx_status_name(closed));
  }
}

/* ------------------------------------------------------------------ submission */

static void prepare(operation_t *operation, ucxx_op_params_t *params) {
  params->callback = on_completion;
  params->callback_arg = (void *)(uintptr_t)operation->ticket;
}

/* After the call: its status decides whether a callback follows, which may have run already. */
static void settle(operation_t *operation, uint64_t ticket, ucxx_status_t status,
                   ucxx_request_t *request) {
  if (status == UCXX_OK) {
    if (request != NULL) violation("completion", "request=1 status=OK");
    complete(ticket, NULL, UCXX_OK, true);
  } else if (status < 0) {
    pthread_mutex_lock(&tables);
    submitted--;
    refused++;
    pthread_mutex_unlock(&tables);
    group_refused(operation->group);
    if (operation->tally != NULL) rma_refused(operation->tally);
    give_back(operation);
  } else if (operation->early) {
    ucxx_request_destroy(request);
  } else {
    operation->request = request;
  }
}

static void begin(operation_t *operation) {
  pthread_mutex_lock(&tables);
  submitted++;
  pthread_mutex_unlock(&tables);
  group_submitted(operation->group);
}

void operation_plain(unsigned group, const char *handle, ucxx_op_params_t *params,
                     uint64_t *ticket) {
  operation_t *operation = take(PLAIN, group, 0);
  operation->early = word_is(handle, "early");
  *ticket = operation->ticket;
  prepare(operation, params);
  begin(operation);
}

void operation_transfer(unsigned group, const char *handle, transfer_t *transfer,
                        ucxx_op_params_t *params, uint64_t *ticket) {
  operation_plain(group, handle, params, ticket);
  pthread_mutex_lock(&tables);
  slots[*ticket & 0xffffff]->transfer = transfer;
  pthread_mutex_unlock(&tables);
}

void *operation_data(bool sends, unsigned group, size_t length, uint64_t sender,
                     ucxx_op_params_t *params, uint64_t *ticket) {
  operation_t *operation = take(sends ? SENT : RECEIVED, group, length);
  operation->early = false;
  *ticket = operation->ticket;
  prepare(operation, params);
  if (sends)
    message_fill(operation->data, length, sender,
                 __atomic_fetch_add(&sequence, 1, __ATOMIC_RELAXED));
  else
    params->recv_info = &operation->info;
  begin(operation);
  return operation->data;
}

void operation_called(uint64_t ticket, ucxx_status_t status, ucxx_request_t *request) {
  /* Another thread may be enlarging the table. */
  pthread_mutex_lock(&tables);
  operation_t *operation = slots[ticket & 0xffffff];
  pthread_mutex_unlock(&tables);
  settle(operation, ticket, status, request);
}

bool make_room(uint64_t deadline) {
  if (now_ns() > deadline) return false;
  progress_once();
  if (threaded) sched_yield();
  return true;
}

/* Submits one of many operations; its length is the header if there is one. */
static ucxx_status_t submit(const command_t *command, const operation_t *operation, uint64_t index,
                            ucxx_endpoint_t *endpoint, uint64_t tag, const ucxx_op_params_t *params,
                            ucxx_request_t **place) {
  uint64_t length = operation->length;
  if (rma_is(command->verb))
    return rma_submit(command, operation->data, length, index, params, place);
  if (word_is(command->verb, "recv"))
    return ucxx_tag_recv(worker, operation->data, length, tag, UINT64_MAX, params, place);
  if (word_is(command->verb, "active"))
    return ucxx_am_send(endpoint, ACTIVE, &length, sizeof length, operation->data, length, params,
                        place);
  if (word_is(command->verb, "fetch"))
    return ucxx_am_fetch(endpoint, ACTIVE, &length, sizeof length, operation->data, length, params,
                         place);
  if (number_of(command, "sync", 0) != 0)
    return ucxx_tag_send_sync(endpoint, operation->data, length, tag, params, place);
  return ucxx_tag_send(endpoint, operation->data, length, tag, params, place);
}

static void many(const command_t *command, enum kind kind) {
  uint64_t count = number_of(command, "count", 1), done = 0, tag = number_of(command, "tag", 1);
  size_t size = kind == ADDED ? sizeof(uint64_t) : (size_t)number_of(command, "size", 8);
  unsigned group = (unsigned)number_of(command, "group", 0) % GROUPS;
  uint64_t sender = number_of(command, "sender", 0),
           deadline = now_ns() + 20 * UINT64_C(1000000000);
  const char *handle = text_of(command, "handle", "keep");
  const char *closing = text_of(command, "closing", "no");
  bool mixed = number_of(command, "mixed", 0) != 0, matched = word_is(command->verb, "recv");
  ucxx_endpoint_t *endpoint = endpoint_of(command, matched ? "from" : "ep");
  ucxx_status_t first = UCXX_OK;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  if (number_of(command, "always", 0) != 0) params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.timeout_ns = number_of(command, "timeout", 0);
  while (done < count) {
    /* Up to the size, and most of them short. */
    uint64_t random = mix(sender << 32 | done);
    operation_t *operation = take(
        kind, group, mixed ? 8 + (size_t)((random >> 8) % (random % 4 == 0 ? size : 300)) : size);
    ucxx_request_t *request = NULL, **place = word_is(handle, "none") ? NULL : &request;
    uint64_t ticket = operation->ticket;
    ucxx_status_t status;
    operation->early = word_is(handle, "early");
    if (done == 0 && !word_is(closing, "no")) {
      operation->closes = endpoint;
      operation->how = word_is(closing, "force") ? UCXX_CLOSE_FORCE : UCXX_CLOSE_FLUSH;
    }
    prepare(operation, &params);
    if (kind == SENT) {
      message_fill(operation->data, operation->length, sender,
                   __atomic_fetch_add(&sequence, 1, __ATOMIC_RELAXED));
    } else {
      params.source = matched ? endpoint : NULL;
      /* One-sided operations do not report through it. */
      params.recv_info = rma_is(command->verb) ? NULL : &operation->info;
      operation->info.length = operation->length;
      operation->tally = kind == ADDED ? rma_asks(command, done) : NULL;
    }
    begin(operation);
    status = submit(command, operation, done, endpoint, tag, &params, place);
    settle(operation, ticket, status, request);
    if (status == UCXX_ERR_NO_RESOURCE && make_room(deadline)) continue;
    if (status < 0) {
      first = status;
      break;
    }
    done++;
    /* A manual worker serves its peers while it submits thousands. */
    if (done % 64 == 0) progress_once();
  }
  answer(command, UCXX_OK, "submitted=%" PRIu64 " refusal=%s", done, short_name(first));
}

/* Flushes the worker, or the named endpoint. */
static void flush(const command_t *command) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  uint64_t ticket = 0;
  ucxx_endpoint_t *endpoint = endpoint_of(command, "ep");
  operation_plain((unsigned)number_of(command, "group", 0) % GROUPS,
                  text_of(command, "handle", "keep"), &params, &ticket);
  ucxx_status_t status = endpoint != NULL ? ucxx_endpoint_flush(endpoint, &params, &request)
                                          : ucxx_worker_flush(worker, &params, &request);
  operation_called(ticket, status, request);
  answer(command, UCXX_OK, "status=%s", short_name(status));
}

/* Cancels kept requests; with a progress thread they may complete meanwhile, which is harmless. */
static void cancel(const command_t *command) {
  unsigned group = (unsigned)number_of(command, "group", 0) % GROUPS;
  size_t asked = 0, most = (size_t)number_of(command, "most", SIZE_MAX);
  for (size_t slot = 0; slot < slot_count && asked < most; slot++) {
    operation_t *operation = slots[slot];
    pthread_mutex_lock(&tables);
    bool pending =
        operation->state == PENDING && operation->group == group && operation->request != NULL;
    pthread_mutex_unlock(&tables);
    if (!pending) continue;
    ucxx_status_t status = ucxx_request_cancel(operation->request);
    asked++;
    if (status != UCXX_OK && status != UCXX_ERR_CLOSED)
      violation("completion", "cancel=%s", ucxx_status_name(status));
  }
  answer(command, UCXX_OK, "asked=%zu", asked);
}

bool command_operations(const command_t *command) {
  if (word_is(command->verb, "send") || word_is(command->verb, "active") ||
      word_is(command->verb, "put"))
    many(command, SENT);
  else if (word_is(command->verb, "recv") || word_is(command->verb, "fetch") ||
           word_is(command->verb, "get"))
    many(command, RECEIVED);
  else if (word_is(command->verb, "add"))
    many(command, ADDED);
  else if (word_is(command->verb, "flush"))
    flush(command);
  else if (word_is(command->verb, "cancel"))
    cancel(command);
  else
    return false;
  return true;
}

/* ------------------------------------------------------------------ the end of a round */

size_t operations_forget(void) {
  size_t left = 0, where = 0;
  for (size_t slot = 0; slot < slot_count; slot++) {
    operation_t *operation = slots[slot];
    pthread_mutex_lock(&tables);
    enum state state = operation->state;
    pthread_mutex_unlock(&tables);
    if (state == UNUSED) continue;
    if (state != DONE) {
      left++;
      continue;
    }
    if (operation->request != NULL) {
      if (ucxx_request_status(operation->request) == UCXX_INPROGRESS)
        violation("completion", "status=INPROGRESS after=callback");
      ucxx_request_destroy(operation->request);
    }
    if (!scribble_stands(operation->data, operation->scribbled, operation->scribble, &where))
      violation("integrity", "written_after_completion=1 kind=%s group=%u length=%zu where=%zu",
                operation->kind == SENT ? "send" : "receive", operation->group, operation->length,
                where);
    give_back(operation);
  }
  return left;
}

void operations_totals(char *text, size_t capacity) {
  pthread_mutex_lock(&tables);
  snprintf(text, capacity,
           "submitted=%" PRIu64 " inside=%" PRIu64 " called_back=%" PRIu64 " refused=%" PRIu64,
           submitted, inside, called_back, refused);
  pthread_mutex_unlock(&tables);
}
