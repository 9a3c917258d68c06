/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Of many.c: what raw UCP has no counterpart for. */
#ifndef BENCH_MANY_OWN_H
#define BENCH_MANY_OWN_H

static const uint64_t HOUR_NS = 3600000000000u;

static void recv_within(uint64_t *into, uint64_t tag, uint64_t timeout_ns,
                        struct operation *operation) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = UCXX_MEMORY_HOST;
  params.timeout_ns = timeout_ns;
  ucxx_status_t status =
      ucxx_tag_recv(ends[1].worker, into, 8, tag, UINT64_MAX, &params, &operation->request);
  link_check(status, "ucxx_tag_recv");
}

/* Receives with an hour to go: one after the other is matched and posted again, oldest first. */
static void timeouts(const struct options *options) {
  const long n = options->window;
  struct operation *posted = calloc((size_t)n, sizeof *posted);
  uint64_t *into = calloc((size_t)n, sizeof *into);
  static struct operation sent;
  for (long i = 0; i < n; i++) recv_within(&into[i], TAG + 1 + (uint64_t)i, HOUR_NS, &posted[i]);
  uint64_t posting = 0;
  const long turns = 4 * n + SAMPLES;
  for (long i = 0; i < turns; i++) {
    const uint64_t tag = TAG + 1 + (uint64_t)(i % n);
    link_send(&ends[0], &payload[0], 8, tag, &sent);
    while (!many_ended(&posted[i % n])) link_progress(&ends[1]);
    until_done(&sent);
    const uint64_t start = now_ns();
    recv_within(&into[i % n], tag, HOUR_NS, &posted[i % n]);
    posting += now_ns() - start;
  }
  /* The mean: what is done once in a while counts. */
  report_number(options, "post_with_timeout_ns", (double)posting / (double)turns);
  report_idle_pass(options, "pass_with_timeouts_ns", &ends[1]);
  cancel_all(posted, n);
  free(into);
  free(posted);
}

/* All of them expire at once. */
static void expiries(const struct options *options) {
  const long n = options->window;
  struct operation *posted = calloc((size_t)n, sizeof *posted);
  uint64_t *into = calloc((size_t)n, sizeof *into);
  const uint64_t begin = now_ns(), room = 20000000u + 2000u * (uint64_t)n;
  for (long i = 0; i < n; i++) {
    const uint64_t now = now_ns();
    if (now >= begin + room) die("%ld receives could not be posted in time", n);
    recv_within(&into[i], TAG + 1 + (uint64_t)i, begin + room - now, &posted[i]);
  }
  while (now_ns() < begin + room) continue;
  double slowest = 0;
  for (long left = n; left > 0;) {
    slowest = slowest_pass(&ends[1], slowest);
    while (left > 0 && many_ended(&posted[left - 1])) left--;
  }
  report_number(options, "slowest_expiry_pass_ns", slowest);
  free(into);
  free(posted);
}

/* Flushes that cannot end, as nobody receives what was sent before, and then messages that do. */
static void flushes(const struct options *options) {
  enum { LONG = 1 << 20 };
  const long n = options->window;
  unsigned char *data = buffer_create(LONG), *into = buffer_create(LONG);
  struct operation *sent = calloc((size_t)n, sizeof *sent);
  struct operation *flushed = calloc((size_t)n, sizeof *flushed);
  peer_t *peers = calloc((size_t)n, sizeof *peers), own = ends[0].endpoint;
  for (long i = 0; i < n; i++) {
    peers[i] = many_connect(&ends[0], &ends[1]);
    link_send(&ends[0], data, LONG, TAG + 1, &sent[i]);
    ucxx_status_t status = ucxx_endpoint_flush(peers[i], NULL, &flushed[i].request);
    link_check(status, "ucxx_endpoint_flush");
    if (i % PASSES == 0) both_pass();
  }
  many_use(&ends[0], own);
  for (int i = 0; i < SAMPLES; i++) {
    static struct operation one, received;
    link_recv(&ends[1], &payload[1], 8, TAG, &received);
    const uint64_t start = now_ns();
    /* One that is in flight for a moment, so that its completion looks at the flushes. */
    ucxx_status_t status = ucxx_tag_send_sync(own, &payload[0], 8, TAG, NULL, &one.request);
    link_check(status, "ucxx_tag_send_sync");
    until_done(&one);
    samples[i] = (double)(now_ns() - start);
    until_done(&received);
  }
  report_samples(options, "send_while_flushing_ns", samples, SAMPLES);
  for (long i = 0; i < n; i++) {
    static struct operation received;
    link_recv(&ends[1], into, LONG, TAG + 1, &received);
    until_done(&received);
  }
  for (long i = 0; i < n; i++) {
    until_done(&sent[i]);
    until_done(&flushed[i]);
    many_close(&ends[0], peers[i], &sent[i]);
  }
  for (long i = 0; i < n; i++) {
    until_done(&sent[i]);
    ucxx_endpoint_destroy(peers[i]);
  }
  free(peers);
  free(flushed);
  free(sent);
  free(into);
  free(data);
}

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  (void)arg;
  (void)link;
  link_check(status, "on_ready");
}

/* Consumers of one hub that compete for its chunks, each with an on_ready. */
static void links(const struct options *options) {
  const long n = options->window;
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_link_params_t link_params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t **consumers = calloc((size_t)n, sizeof(ucxx_link_t *)), *producer;
  ucxx_envelope_t *envelope;
  ucxx_hub_t *hub;
  params.envelope_size = 64;
  params.worker = ends[0].worker;
  link_check(ucxx_hub_create(ends[0].context, &params, &hub), "ucxx_hub_create");
  link_check(ucxx_hub_add_envelopes(hub, host, 64), "ucxx_hub_add_envelopes");
  link_check(ucxx_link_create(hub, UCXX_LINK_PRODUCE, host, NULL, &producer), "ucxx_link_create");
  link_params.on_ready = on_ready;
  uint64_t start = now_ns();
  for (long i = 0; i < n; i++)
    link_check(ucxx_link_create(hub, UCXX_LINK_CONSUME, host, &link_params, &consumers[i]),
               "ucxx_link_create");
  report_each(options, "link_create_ns", start, n);
  for (int i = 0; i < 101; i++) {
    start = now_ns();
    link_check(ucxx_link_lease(producer, 0, &envelope), "ucxx_link_lease");
    link_check(ucxx_envelope_commit(envelope, 8, NULL), "ucxx_envelope_commit");
    link_check(ucxx_link_lease(consumers[i % n], 0, &envelope), "ucxx_link_lease");
    link_check(ucxx_envelope_commit(envelope, 0, NULL), "ucxx_envelope_commit");
    samples[i] = (double)(now_ns() - start);
  }
  report_samples(options, "chunk_ns", samples, 101);
  start = now_ns();
  for (long i = 0; i < n; i++) ucxx_link_destroy(consumers[i]);
  report_each(options, "link_destroy_ns", start, n);
  ucxx_link_destroy(producer);
  ucxx_hub_destroy(hub);
  free(consumers);
}

static void refuse(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  (void)ucxx_conn_request_reject(request);
}

static void listeners(const struct options *options) {
  const long n = options->window;
  ucxx_listener_t **all = calloc((size_t)n, sizeof(ucxx_listener_t *));
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  params.on_connect = refuse;
  uint64_t start = now_ns();
  for (long i = 0; i < n; i++)
    link_check(ucxx_listener_create(ends[0].worker, &params, &all[i]), "ucxx_listener_create");
  report_each(options, "listener_create_ns", start, n);
  start = now_ns();
  for (long i = 0; i < n; i++) ucxx_listener_destroy(all[i]);
  report_number(options, "listeners_destroy_ns", (double)(now_ns() - start));
  free(all);
}

#define MANY_OWN                                                                            \
  {"timeouts", timeouts}, {"expiries", expiries}, {"flushes", flushes}, {"links", links}, { \
    "listeners", listeners                                                                  \
  }

#endif
