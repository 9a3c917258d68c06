/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Questions and answers over a link. A question is a number of 8 bytes, and its answer arrives in
 * the asker's buffer of that number. Include it instead of link.h:
 *
 *   struct fetches                  the questions of one side, and its answer
 *   fetch_open(link, fetches)       answers the questions of the other side; call it before
 *                                   there are any
 *   fetch_begin(fetches, number)    asks
 *   fetch_done(fetches, number)     1 if the answer is in its buffer
 *   fetch_advance(fetches)          what both sides do while they wait; it answers
 *   fetch_close(fetches)            waits until the last answer has been sent
 *
 * With plain UCP it is written by hand, as a careful program would: it sends nothing from inside a
 * handler of UCP, because such messages may overtake others. */
#ifndef BENCH_LINK_FETCH_H
#define BENCH_LINK_FETCH_H

#include <string.h>

#define LINK_AM 1
#include "link.h"

enum { MAX_FETCHES = 256, QUESTION_ID = 7, ANSWER_ID = 8 };

struct fetches {
  struct link *link;
  unsigned char *buffers; /* `count` buffers of `size` bytes, one after the other */
  const unsigned char *answer; /* the answer of this side: `size` bytes */
  size_t size;
  long count;
  int protocol; /* as in the options */
  long answered; /* questions of the other side */
  struct operation operations[MAX_FETCHES];
#ifdef LINK_RAW
  /* 0, 1, 2, ...: headers, which UCP may read until it has sent them. */
  uint64_t numbers[MAX_FETCHES];
  int waiting[MAX_FETCHES]; /* for the answer */
  uint64_t questions[MAX_FETCHES]; /* that arrived in this pass */
  long asked;
  long sending; /* answers that UCP still reads */
#endif
};

static inline unsigned char *fetch_buffer(struct fetches *fetches, uint64_t number) {
  if (number >= (uint64_t)fetches->count) die("there is no question of that number");
  return fetches->buffers + number * fetches->size;
}

#if defined(LINK_RAW)

static ucs_status_t question_came(void *arg, const void *header, size_t header_length, void *data,
                                  size_t length, const ucp_am_recv_param_t *attributes) {
  struct fetches *fetches = (struct fetches *)arg;
  (void)data;
  (void)attributes;
  if (header_length != sizeof *fetches->questions || length != 0 || fetches->asked == MAX_FETCHES)
    die("what came is no question");
  memcpy(&fetches->questions[fetches->asked++], header, sizeof *fetches->questions);
  return UCS_OK;
}

/* `user_data` points to the entry of `waiting` of this number. */
static void answer_pulled(void *request, ucs_status_t status, size_t length, void *user_data) {
  (void)length;
  if (status != UCS_OK) die("an answer was not received: %s", ucs_status_string(status));
  *(int *)user_data = 0;
  ucp_request_free(request);
}

static ucs_status_t answer_came(void *arg, const void *header, size_t header_length, void *data,
                                size_t length, const ucp_am_recv_param_t *attributes) {
  struct fetches *fetches = (struct fetches *)arg;
  uint64_t number;
  if (header_length != sizeof number) die("what came is no answer");
  memcpy(&number, header, sizeof number);
  unsigned char *buffer = fetch_buffer(fetches, number);
  if (length > fetches->size) die("an answer is too long");
  if (!(attributes->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
    LINK_COPY(buffer, data, length);
    fetches->waiting[number] = 0;
    return UCS_OK;
  }
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                               UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb = {.recv_am = answer_pulled},
                               .user_data = &fetches->waiting[number],
                               .memory_type = LINK_UCP_MEMORY};
  ucs_status_ptr_t result =
      ucp_am_recv_data_nbx(fetches->link->worker, data, buffer, length, &param);
  if (UCS_PTR_IS_ERR(result))
    die("ucp_am_recv_data_nbx: %s", ucs_status_string(UCS_PTR_STATUS(result)));
  if (result == NULL) fetches->waiting[number] = 0;
  return UCS_INPROGRESS;
}

static inline void fetch_handle(struct fetches *fetches, unsigned id,
                                ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                  .id = id,
                                  .cb = callback,
                                  .arg = fetches};
  ucs_status_t status = ucp_worker_set_am_recv_handler(fetches->link->worker, &param);
  if (status != UCS_OK) die("ucp_worker_set_am_recv_handler: %s", ucs_status_string(status));
}

static inline void fetch_open(struct link *link, struct fetches *fetches) {
  fetches->link = link;
  for (uint64_t number = 0; number < MAX_FETCHES; number++) fetches->numbers[number] = number;
  fetch_handle(fetches, QUESTION_ID, question_came);
  fetch_handle(fetches, ANSWER_ID, answer_came);
}

static inline void fetch_begin(struct fetches *fetches, uint64_t number) {
  struct operation *operation = &fetches->operations[number];
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  operation->pending = 1;
  operation->status = UCS_OK;
  fetches->waiting[number] = 1;
  link_started(operation,
               ucp_am_send_nbx(fetches->link->endpoint, QUESTION_ID, &fetches->numbers[number],
                               sizeof number, NULL, 0, &param));
}

/* The answer may arrive before UCP reports that the question has been sent. */
static inline int fetch_done(struct fetches *fetches, uint64_t number) {
  return !fetches->waiting[number] && link_done(&fetches->operations[number]);
}

static void answer_sent(void *request, ucs_status_t status, void *user_data) {
  struct fetches *fetches = (struct fetches *)user_data;
  if (status != UCS_OK) die("an answer was not sent: %s", ucs_status_string(status));
  fetches->sending--;
  ucp_request_free(request);
}

static inline void fetch_answer(struct fetches *fetches, uint64_t number) {
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                               UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb = {.send = answer_sent},
                               .user_data = fetches,
                               .memory_type = LINK_UCP_MEMORY};
  static const uint32_t protocols[] = {0, UCP_AM_SEND_FLAG_EAGER, UCP_AM_SEND_FLAG_RNDV};
  if (fetches->protocol != 0) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = protocols[fetches->protocol];
  }
  if (number >= (uint64_t)fetches->count) die("there is no question of that number");
  ucs_status_ptr_t result =
      ucp_am_send_nbx(fetches->link->endpoint, ANSWER_ID, &fetches->numbers[number], sizeof number,
                      fetches->answer, fetches->size, &param);
  if (UCS_PTR_IS_ERR(result))
    die("an answer was refused: %s", ucs_status_string(UCS_PTR_STATUS(result)));
  if (result != NULL) fetches->sending++;
  fetches->answered++;
}

static inline void fetch_advance(struct fetches *fetches) {
  link_progress(fetches->link);
  if (fetches->asked == 0) return;
  for (long i = 0; i < fetches->asked; i++) fetch_answer(fetches, fetches->questions[i]);
  fetches->asked = 0;
}

static inline void fetch_close(struct fetches *fetches) {
  while (fetches->sending > 0) link_progress(fetches->link);
}

#elif defined(LINK_UCXX_RS)

static void question_came(void *arg, ucxx_fetch_t *fetch) {
  struct fetches *fetches = (struct fetches *)arg;
  size_t length;
  uint64_t number;
  const void *header = ucxx_fetch_header(fetch, &length);
  if (length != sizeof number) die("what came is no question");
  memcpy(&number, header, sizeof number);
  if (number >= (uint64_t)fetches->count) die("there is no question of that number");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  params.flags = protocols[fetches->protocol];
  link_check(ucxx_fetch_reply(fetch, fetches->answer, fetches->size, &params, NULL),
             "ucxx_fetch_reply");
  ucxx_fetch_destroy(fetch);
  fetches->answered++;
}

static inline void fetch_open(struct link *link, struct fetches *fetches) {
  fetches->link = link;
  link_check(ucxx_worker_set_fetch_handler(link->worker, QUESTION_ID, question_came, fetches, NULL),
             "ucxx_worker_set_fetch_handler");
}

static inline void fetch_begin(struct fetches *fetches, uint64_t number) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  unsigned char *buffer = fetch_buffer(fetches, number);
  ucxx_status_t status;
  while ((status = ucxx_am_fetch(fetches->link->endpoint, QUESTION_ID, &number, sizeof number,
                                 buffer, fetches->size, &params,
                                 &fetches->operations[number].request)) == UCXX_ERR_NO_RESOURCE)
    link_progress(fetches->link);
  if (status < 0) link_check(status, "ucxx_am_fetch");
}

static inline int fetch_done(struct fetches *fetches, uint64_t number) {
  return link_done(&fetches->operations[number]);
}

static inline void fetch_advance(struct fetches *fetches) { link_progress(fetches->link); }

/* Destroying the endpoint waits for what was sent. */
static inline void fetch_close(struct fetches *fetches) { (void)fetches; }

#else
#error "fetches are measured against raw UCP alone"
#endif

#endif
