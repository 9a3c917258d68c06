/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Active messages over a link: one id, no header, and data that arrives with its message or is
 * received into a buffer. Include it instead of link.h:
 *
 *   struct inbox                         the messages that have arrived at one side
 *   am_open(link, inbox)                 counts the link's messages; call it before the other side
 *                                        sends
 *   am_send(link, buffer, length, operation)
 *   inbox_await(link, inbox, count)      waits until this many more have arrived than were awaited
 *                                        before
 *
 * The data of a message is used in place. Rendezvous data is received into the next buffer of the
 * inbox. Then one byte of each cache line is read: data that was copied is in the reader's cache,
 * data that is lent may not be. */
#ifndef BENCH_LINK_AM_H
#define BENCH_LINK_AM_H

#define LINK_AM 1
#include "link.h"

enum { AM_ID = 7, MOST_PULLS = 512 };

/* A message that is being received into a buffer. */
struct pull {
  struct inbox *inbox;
  unsigned char *buffer;
  size_t length;
};

struct inbox {
  struct link *link;
  long arrived; /* messages whose data has arrived */
  long awaited; /* messages that have been waited for */
  unsigned sum; /* of the bytes read, so that they are read */
  unsigned char *buffers;
  size_t size; /* of one buffer */
  long count; /* buffers */
  long next;
  struct pull pulls[MOST_PULLS];
};

static inline struct pull *inbox_pull(struct inbox *inbox, size_t length) {
  if (length > inbox->size || inbox->count > MOST_PULLS)
    die("a message of %zu bytes has no buffer", length);
  struct pull *pull = &inbox->pulls[inbox->next];
  *pull = (struct pull){inbox, inbox->buffers + (size_t)inbox->next * inbox->size, length};
  inbox->next = inbox->next + 1 == inbox->count ? 0 : inbox->next + 1;
  return pull;
}

static inline void inbox_take(struct inbox *inbox, const unsigned char *data, size_t length) {
  for (size_t at = 0; at < length; at += 64) inbox->sum += data[at];
  inbox->arrived++;
}

/* Counts from the beginning, because the first messages may arrive before anything waits for
 * them. */
static inline void inbox_await(struct link *link, struct inbox *inbox, long count) {
  inbox->awaited += count;
  while (inbox->arrived < inbox->awaited) link_advance(link);
}

#if defined(LINK_RAW)

static inline void am_pulled(void *request, ucs_status_t status, size_t length, void *user_data) {
  const struct pull *pull = (const struct pull *)user_data;
  if (status != UCS_OK)
    die("the data of a message was not received: %s", ucs_status_string(status));
  inbox_take(pull->inbox, pull->buffer, length);
  ucp_request_free(request);
}

static ucs_status_t am_arrived(void *arg, const void *header, size_t header_length, void *data,
                               size_t length, const ucp_am_recv_param_t *attributes) {
  struct inbox *inbox = (struct inbox *)arg;
  (void)header;
  (void)header_length;
  if (attributes->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
    struct pull *pull = inbox_pull(inbox, length);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                                 UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb = {.recv_am = am_pulled},
                                 .user_data = pull,
                                 .memory_type = LINK_UCP_MEMORY};
    ucs_status_ptr_t result =
        ucp_am_recv_data_nbx(inbox->link->worker, data, pull->buffer, length, &param);
    if (UCS_PTR_IS_ERR(result))
      die("ucp_am_recv_data_nbx: %s", ucs_status_string(UCS_PTR_STATUS(result)));
    if (result == NULL) inbox_take(inbox, pull->buffer, length);
    return UCS_INPROGRESS;
  }
  inbox_take(inbox, (const unsigned char *)data, length);
  return UCS_OK;
}

static inline void am_open(struct link *link, struct inbox *inbox) {
  ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                  .id = AM_ID,
                                  .cb = am_arrived,
                                  .arg = inbox};
  inbox->link = link;
  ucs_status_t status = ucp_worker_set_am_recv_handler(link->worker, &param);
  if (status != UCS_OK) die("ucp_worker_set_am_recv_handler: %s", ucs_status_string(status));
}

static inline void am_send(struct link *link, const void *buffer, size_t length,
                           struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
#ifndef LINK_RAW_POLL
  operation->pending = 1;
  operation->status = UCS_OK;
#endif
  link_started(operation, ucp_am_send_nbx(link->endpoint, AM_ID, NULL, 0, buffer, length, &param));
}

#elif defined(LINK_UCXX_RS)

static inline void am_pulled(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  const struct pull *pull = (const struct pull *)arg;
  (void)request;
  link_check(status, "the data of a message");
  inbox_take(pull->inbox, pull->buffer, pull->length);
}

static void am_arrived(void *arg, ucxx_am_message_t *message) {
  struct inbox *inbox = (struct inbox *)arg;
  const unsigned char *data = (const unsigned char *)ucxx_am_message_data(message);
  const size_t length = ucxx_am_message_length(message);
  if (data == NULL) {
    struct pull *pull = inbox_pull(inbox, length);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.memory_type = LINK_MEMORY;
    params.callback = am_pulled;
    params.callback_arg = pull;
    ucxx_status_t status = ucxx_am_message_recv(message, pull->buffer, length, &params, NULL);
    link_check(status, "ucxx_am_message_recv");
    if (status == UCXX_OK) inbox_take(inbox, pull->buffer, length);
  } else {
    inbox_take(inbox, data, length);
  }
  ucxx_am_message_destroy(message);
}

static inline void am_open(struct link *link, struct inbox *inbox) {
  inbox->link = link;
  link_check(ucxx_worker_set_am_handler(link->worker, AM_ID, am_arrived, inbox, NULL),
             "ucxx_worker_set_am_handler");
}

static inline void am_send(struct link *link, const void *buffer, size_t length,
                           struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = LINK_MEMORY;
  ucxx_status_t status;
  while ((status = ucxx_am_send(link->endpoint, AM_ID, NULL, 0, buffer, length, &params,
                                &operation->request)) == UCXX_ERR_NO_RESOURCE)
    link_advance(link);
  if (status < 0) link_check(status, "ucxx_am_send");
  if (status == UCXX_OK) operation->request = NULL;
}

#else
#error "active messages are measured against raw UCP alone"
#endif

#endif
