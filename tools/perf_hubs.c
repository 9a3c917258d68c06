/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_hubs.c: chunks from a hub of one side to a hub of the other. Each side has a hub for each
 * direction. A message is a chunk: produced here, and consumed there.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "perf_ways.h"

struct end {
  ucxx_hub_t *hub;
  ucxx_link_t *near, *far; /* near: for this program; far: connected with the other side */
};

struct hubs {
  struct end out, in;
};

static int end_open(struct bench *bench, struct end *end, bool out) {
  struct session *session = bench->session;
  ucxx_memory_kind_t kind = {bench->memory_type, 0};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  uint32_t chunks = 2 * bench->round.window;
  /* Each direction of a round has a stream of its own. */
  bool first = out != session->config->serves;
  uint64_t stream = 2 * bench->rounds + (first ? 0 : 1);
  params.envelope_size = bench->round.size;
  params.worker = session->worker;
  ucxx_status_t status = ucxx_hub_create(session->context, &params, &end->hub);
  if (status == UCXX_OK) status = ucxx_hub_add_envelopes(end->hub, kind, chunks + 1);
  if (status == UCXX_OK)
    status = ucxx_link_create(end->hub, out ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME, kind, NULL,
                              &end->near);
  if (status == UCXX_OK)
    status = ucxx_link_create(end->hub, out ? UCXX_LINK_CONSUME : UCXX_LINK_PRODUCE, kind, NULL,
                              &end->far);
  if (status == UCXX_OK)
    status = ucxx_link_connect(end->far, session->endpoints[0], stream,
                               chunks <= MAX_WINDOW ? chunks : MAX_WINDOW);
  return status == UCXX_OK ? 0 : session_fail(session, "creating a hub", status);
}

static int hub_open(struct bench *bench) {
  struct hubs *hubs = calloc(1, sizeof *hubs);
  if (hubs == NULL) return fail(bench->session->failure, "no memory");
  bench->state = hubs;
  return end_open(bench, &hubs->out, true) != 0 ? -1 : end_open(bench, &hubs->in, false);
}

/* Ends the streams in order: this side's own first, and then it waits for the other side's. */
static int hub_leave(struct bench *bench) {
  struct session *session = bench->session;
  struct hubs *hubs = bench->state;
  ucxx_envelope_t *envelope;
  ucxx_status_t status;
  ucxx_hub_close(hubs->out.hub);
  patience_begin(session);
  while ((status = ucxx_hub_drain(hubs->out.hub, NS_PER_MS)) == UCXX_ERR_TIMED_OUT)
    if (patience_go_on(session) != 0) return -1;
  if (status != UCXX_OK) return session_fail(session, "ending the stream", status);
  while ((status = ucxx_link_lease(hubs->in.near, NS_PER_MS, &envelope)) == UCXX_ERR_TIMED_OUT)
    if (patience_go_on(session) != 0) return -1;
  if (status == UCXX_OK) return fail(session->failure, "a chunk arrived that nobody has sent");
  if (status != UCXX_ERR_CLOSED) return session_fail(session, "waiting for the end", status);
  return session_meet(session, FRAME_LEAVE);
}

static void end_close(struct end *end) {
  ucxx_link_destroy(end->near);
  ucxx_link_destroy(end->far);
  ucxx_hub_destroy(end->hub);
}

static void hub_close(struct bench *bench) {
  struct hubs *hubs = bench->state;
  if (hubs == NULL) return;
  end_close(&hubs->out);
  end_close(&hubs->in);
  free(hubs);
}

static void *data_of(const ucxx_envelope_t *envelope, size_t *length) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  if (ucxx_envelope_query(envelope, &attr) != UCXX_OK) return NULL;
  *length = attr.length;
  return attr.data;
}

static ucxx_status_t hub_send(struct slot *slot, ucxx_request_t **request) {
  struct hubs *hubs = slot->bench->state;
  ucxx_envelope_t *envelope;
  size_t length;
  (void)request;
  ucxx_status_t status = ucxx_link_lease(hubs->out.near, 0, &envelope);
  if (status != UCXX_OK) return status;
  if (slot->bench->plan->verify) memcpy(data_of(envelope, &length), slot->buffer, slot->length);
  return ucxx_envelope_commit(envelope, slot->length, NULL);
}

static ucxx_status_t hub_look(struct slot *slot) {
  struct hubs *hubs = slot->bench->state;
  ucxx_envelope_t *envelope;
  size_t length = 0;
  ucxx_status_t status = ucxx_link_lease(hubs->in.near, slot_patience_ns(slot->session), &envelope);
  if (status == UCXX_ERR_NO_RESOURCE || status == UCXX_ERR_TIMED_OUT) return UCXX_INPROGRESS;
  if (status != UCXX_OK) return status;
  void *data = data_of(envelope, &length);
  if (slot->bench->plan->verify && length == slot->length) memcpy(slot->buffer, data, length);
  status = ucxx_envelope_commit(envelope, 0, NULL);
  return status == UCXX_OK && length != slot->length ? UCXX_ERR_MESSAGE_TRUNCATED : status;
}

static ucxx_status_t hub_receive(struct slot *slot, ucxx_request_t **request) {
  (void)request;
  slot->look = hub_look;
  return UCXX_INPROGRESS;
}

const struct way hub_way = {.name = "hub",
                            .summary = "chunks from a hub to a hub, by a connected link",
                            .features = UCXX_FEATURE_AM,
                            .patterns = ALL_PATTERNS,
                            .least = 1,
                            .cuda = true,
                            .open = hub_open,
                            .leave = hub_leave,
                            .close = hub_close,
                            .send = hub_send,
                            .receive = hub_receive};
