/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * What many.c does beyond a link, in both implementations:
 *
 *   peer_t                          one endpoint of many
 *   many_connect(from, to)          a further endpoint from one link's worker to another's
 *   many_use(link, peer)            link_send goes to this endpoint from now on
 *   many_close(link, peer, op)      begins an orderly close, which flushes
 *   MANY_BACK                       1 where the program itself makes the endpoint back to each peer
 *   many_gone(peer)                 gives an endpoint back that has been closed
 *   many_flush(link, op)            begins a flush of the whole worker
 *   many_cancel(link, op)           cancels a receive, whose operation then ends
 *   many_probe(link, tag)           1 if such a message has come; it stays
 *   many_ended(op)                  1 when the operation has ended, well or cancelled
 *   many_open(link)                 a further worker in the link's context
 *   many_shut(link)                 destroys it
 *   MANY_OWN                        further measurements, which raw UCP has no counterpart for
 */
#ifndef BENCH_MANY_H
#define BENCH_MANY_H

#ifdef LINK_RAW

typedef ucp_ep_h peer_t;

enum { MANY_BACK = 1 };

static inline void many_use(struct link *link, peer_t peer) { link->endpoint = peer; }

static inline peer_t many_connect(struct link *from, struct link *to) {
  link_connect(from, to->address, to->address_length);
  return from->endpoint;
}

static inline void many_begin(struct operation *operation) {
  operation->pending = 1;
  operation->status = UCS_OK;
}

static inline void many_close(struct link *link, peer_t peer, struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  (void)link;
  many_begin(operation);
  link_started(operation, ucp_ep_close_nbx(peer, &param));
}

static inline void many_gone(peer_t peer) { (void)peer; }

static inline void many_flush(struct link *link, struct operation *operation) {
  ucp_request_param_t param = LINK_PARAM(operation, send, link_sent);
  many_begin(operation);
  link_started(operation, ucp_worker_flush_nbx(link->worker, &param));
}

static inline void many_cancel(struct link *link, struct operation *operation) {
  ucp_request_cancel(link->worker, operation->room + LINK_REQUEST_ROOM);
}

static inline int many_ended(struct operation *operation) { return !operation->pending; }

static inline void many_open(struct link *link) {
  ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SINGLE};
  ucs_status_t status = ucp_worker_create(link->context, &params, &link->worker);
  if (status != UCS_OK) die("ucp_worker_create: %s", ucs_status_string(status));
}

static inline void many_shut(struct link *link) { ucp_worker_destroy(link->worker); }

#define MANY_OWN {"", NULL}

static inline int many_probe(struct link *link, uint64_t tag) {
  ucp_tag_recv_info_t info;
  return ucp_tag_probe_nb(link->worker, tag, UINT64_MAX, 0, &info) != NULL;
}

#else

typedef ucxx_endpoint_t *peer_t;

enum { MANY_BACK = 0 };

static inline void many_use(struct link *link, peer_t peer) { link->endpoint = peer; }

static inline peer_t many_connect(struct link *from, struct link *to) {
  link_connect_to(from, to->address);
  return from->endpoint;
}

static inline void many_close(struct link *link, peer_t peer, struct operation *operation) {
  (void)link;
  ucxx_status_t status = ucxx_endpoint_close(peer, UCXX_CLOSE_FLUSH, NULL, &operation->request);
  link_check(status, "ucxx_endpoint_close");
  if (status == UCXX_OK) operation->request = NULL;
}

static inline void many_gone(peer_t peer) { ucxx_endpoint_destroy(peer); }

static inline void many_flush(struct link *link, struct operation *operation) {
  ucxx_status_t status = ucxx_worker_flush(link->worker, NULL, &operation->request);
  link_check(status, "ucxx_worker_flush");
  if (status == UCXX_OK) operation->request = NULL;
}

static inline void many_cancel(struct link *link, struct operation *operation) {
  (void)link;
  link_check(ucxx_request_cancel(operation->request), "ucxx_request_cancel");
}

static inline int many_ended(struct operation *operation) {
  if (operation->request == NULL) return 1;
  if (ucxx_request_status(operation->request) == UCXX_INPROGRESS) return 0;
  ucxx_request_destroy(operation->request);
  operation->request = NULL;
  return 1;
}

static inline int many_probe(struct link *link, uint64_t tag) {
  ucxx_recv_info_t info;
  ucxx_status_t status = ucxx_tag_probe(link->worker, tag, UINT64_MAX, &info, NULL);
  if (status == UCXX_ERR_NO_MESSAGE) return 0;
  link_check(status, "ucxx_tag_probe");
  return 1;
}

static inline void many_open(struct link *link) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SINGLE;
  link_check(ucxx_worker_create(link->context, &params, &link->worker), "ucxx_worker_create");
}

static inline void many_shut(struct link *link) { ucxx_worker_destroy(link->worker); }

#endif
#endif
