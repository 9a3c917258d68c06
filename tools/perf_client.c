/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_client.c: the side that chooses the test and prints the results.
 */
#define _GNU_SOURCE /* getentropy */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf_plot.h"
#include "perf_report.h"
#include "perf_sides.h"
#include "perf_ways.h"

#define CONNECT_NS (5 * NS_PER_SECOND) /* time for a server to start */

/* For the first lane, which reports. */
struct desk {
  struct report reports[2];
  unsigned count;
  char server[TEXT_BYTES];
};

static int receive_cost(struct session *session, struct cost *cost) {
  char text[TEXT_BYTES];
  if (oob_receive(session->oob, FRAME_COST, text, sizeof text, NULL, session->config->timeout_ns,
                  session->failure) != 0)
    return -1;
  if (sscanf(text, "user_s=%lf system_s=%lf", &cost->user_s, &cost->system_s) == 2) return 0;
  return fail(session->failure, "the server's CPU time makes no sense: %.100s", text);
}

static int run_round(struct lane *lane, const struct round *round, struct cost *peer) {
  char text[128];
  struct bench *bench = &lane->bench;
  struct session *session = bench->session;
  if (bench_prepare(bench, &lane->crew->test, round) != 0) return -1;
  snprintf(text, sizeof text,
           "size=%" PRIu64 " iterations=%" PRIu64 " warmup=%" PRIu64 " window=%u", round->size,
           round->iterations, round->warmup, (unsigned)round->window);
  if (oob_send_text(session->oob, FRAME_ROUND, text, session->failure) != 0 ||
      bench_open(bench) != 0)
    return -1;
  histogram_clear(bench->times);
  if (round->warmup > 0 && bench_client(bench, round->warmup, false) != 0) return -1;
  if (crew_start(lane) != 0 || bench_client(bench, round->iterations, true) != 0 ||
      crew_stop(lane) != 0)
    return -1;
  return receive_cost(session, peer);
}

static int measure(struct lane *lane, struct desk *desk) {
  struct session *session = &lane->session;
  const struct plan *plan = &lane->crew->config->plan;
  if (session_connect(session) != 0) return -1;
  for (unsigned i = 0; lane->number == 0 && i < desk->count; i++)
    report_begin(&desk->reports[i], lane->crew, desk->server);
  for (uint32_t i = 0; i < plan->size_count; i++) {
    struct round round = plan_round(&lane->crew->test, plan, plan->sizes[i]);
    struct cost peer;
    if (run_round(lane, &round, &peer) != 0) return -1;
    if (lane->number == 0) report_row(desk->reports, desk->count, lane->crew, &peer);
    /* The others keep their results until they are reported. */
    if (crew_meet(lane) != 0 || bench_leave(&lane->bench) != 0) return -1;
  }
  if (oob_send(session->oob, FRAME_END, NULL, 0, session->failure) != 0) return -1;
  bench_release(&lane->bench);
  return session_finish(session);
}

static void run_lane(struct lane *lane) {
  struct desk *desk = lane->crew->arg;
  struct session *session = &lane->session;
  char server[TEXT_BYTES] = "";
  lane->bench.times = malloc(sizeof *lane->bench.times);
  if (lane->bench.times == NULL)
    fail(&lane->failure, "no memory");
  else if (session_open(session) == 0 && oob_receive(&lane->oob, FRAME_SETUP, server, sizeof server,
                                                     NULL, HELLO_NS, &lane->failure) == 0) {
    if (lane->number == 0) memcpy(desk->server, server, sizeof server);
    measure(lane, desk);
  }
  if (failed(&lane->failure)) oob_send_failure(&lane->oob, &lane->failure);
  session_close(session);
  bench_release(&lane->bench);
  free(lane->bench.times);
}

/* ------------------------------------------------------------------ connections */

/* The first connection says what to do, and the others name it. */
static int connect_lane(struct lane *lane, struct oob *pairs, unsigned long long crew_id) {
  const struct config *config = lane->crew->config;
  struct failure *failure = &lane->crew->failure;
  char hello[TEXT_BYTES];
  if (pairs != NULL)
    lane->oob = pairs[lane->number];
  else if (oob_connect(config->host, config->family, config->port, CONNECT_NS, &lane->oob,
                       failure) != 0)
    return -1;
  if (lane->number == 0) {
    int used = snprintf(hello, sizeof hello, PROTOCOL "crew=%llx ", crew_id);
    config_write(config, hello + used, sizeof hello - (size_t)used);
  } else {
    snprintf(hello, sizeof hello, JOIN, crew_id, lane->number);
  }
  return oob_send_text(&lane->oob, FRAME_HELLO, hello, failure);
}

void run_client(const struct config *config, struct oob *pairs, struct failure *failure) {
  struct crew crew;
  struct desk desk = {.count = 1};
  unsigned long long crew_id = 0;
  desk.reports[0] = (struct report){stdout, config->output, false, 0};
  if (config->plot != NULL) {
    desk.reports[desk.count++] = (struct report){tmpfile(), OUTPUT_JSON, false, 0};
    if (desk.reports[1].out == NULL) {
      fail(failure, "--plot: no temporary file: %s", strerror(errno));
      return;
    }
  }
  if (getentropy(&crew_id, sizeof crew_id) != 0 || crew_make(&crew, config, failure) != 0) return;
  crew.run = run_lane;
  crew.arg = &desk;
  find_test(config->plan.test, &crew.test);
  bool connected = true;
  for (unsigned i = 0; i < crew.size && connected; i++)
    connected = connect_lane(&crew.lanes[i], pairs, crew_id) == 0;
  if (connected) crew_run(&crew);
  for (unsigned i = 0; i < desk.count; i++) report_end(&desk.reports[i], &crew.failure);
  if (failed(&crew.failure)) fail(failure, "%s", crew.failure.text);
  crew_free(&crew);
  if (config->plot == NULL) return;
  if (!failed(failure)) plot_results(desk.reports[1].out, config->plot, failure);
  fclose(desk.reports[1].out);
}
