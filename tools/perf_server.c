/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_server.c: the side that does what the client asks for.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "perf_names.h"
#include "perf_sides.h"
#include "perf_ways.h"

static int check_round(const struct bench *bench, const struct test *test, const char *text,
                       struct round *round) {
  struct failure *failure = bench->session->failure;
  if (sscanf(text, "size=%" SCNu64 " iterations=%" SCNu64 " warmup=%" SCNu64 " window=%u",
             &round->size, &round->iterations, &round->warmup, &round->window) != 4 ||
      round->window == 0 || round->window > MAX_WINDOW ||
      (test->pattern->bit == LATENCY && round->window != 1))
    return fail(failure, "the client asks for a round that makes no sense: %.100s", text);
  if (check_plan(test, bench->plan, round->size, failure) != 0) return -1;
  if (round_memory(test, bench->plan, round) > bench->session->config->max_memory)
    return fail(failure,
                "the server allows %" PRIu64 " bytes of buffers, and this round needs more: a "
                "smaller --size or --window, or --max-memory there",
                bench->session->config->max_memory);
  return 0;
}

static int serve_round(struct lane *lane, const struct round *round) {
  struct bench *bench = &lane->bench;
  char text[128];
  if (bench_prepare(bench, &lane->crew->test, round) != 0 || bench_open(bench) != 0) return -1;
  if (round->warmup > 0 && bench_server(bench, round->warmup) != 0) return -1;
  if (crew_start(lane) != 0 || bench_server(bench, round->iterations) != 0 || crew_stop(lane) != 0)
    return -1;
  snprintf(text, sizeof text, "user_s=%.9f system_s=%.9f", lane->crew->cost.user_s,
           lane->crew->cost.system_s);
  if (oob_send_text(&lane->oob, FRAME_COST, text, &lane->failure) != 0) return -1;
  return bench_leave(bench);
}

static int serve_rounds(struct lane *lane) {
  struct session *session = &lane->session;
  for (;;) {
    char text[TEXT_BYTES];
    uint32_t frame;
    struct round round;
    if (oob_receive_either(session->oob, FRAME_ROUND, FRAME_END, &frame, text, sizeof text, NULL,
                           session->config->timeout_ns, session->failure) != 0)
      return -1;
    if (frame == FRAME_END) break;
    if (check_round(&lane->bench, &lane->crew->test, text, &round) != 0 ||
        serve_round(lane, &round) != 0)
      return -1;
  }
  bench_release(&lane->bench);
  return session_finish(session);
}

static int answer_client(struct session *session) {
  char setup[TEXT_BYTES];
  const struct drive *drive = &session->drive;
  ucxx_version_t version = UCXX_VERSION_INIT;
  ucxx_version_query(&version);
  snprintf(setup, sizeof setup,
           "progress %s, wait %s, thread mode %s, submission %s, ucxx_rs %s on UCX %u.%u.%u, "
           "process %ld",
           progress_name(drive->progress), wait_name(drive->wait), thread_name(drive->thread),
           submission_name(session), version.version_string, version.ucx_major, version.ucx_minor,
           version.ucx_patch, (long)getpid());
  return oob_send_text(session->oob, FRAME_SETUP, setup, session->failure);
}

static void run_lane(struct lane *lane) {
  struct session *session = &lane->session;
  if (session_open(session) == 0 && answer_client(session) == 0 && session_connect(session) == 0)
    serve_rounds(lane);
  if (failed(&lane->failure)) oob_send_failure(&lane->oob, &lane->failure);
  session_close(session);
  bench_release(&lane->bench);
}

/* ------------------------------------------------------------------ connections */

static int hear_client(struct config *config, struct oob *oob, unsigned long long *crew_id,
                       struct failure *failure) {
  char hello[TEXT_BYTES];
  int used = 0;
  if (oob_receive(oob, FRAME_HELLO, hello, sizeof hello, NULL, HELLO_NS, failure) != 0) return -1;
  if (sscanf(hello, PROTOCOL "crew=%llx %n", crew_id, &used) != 1 || used == 0)
    return fail(failure, "the client speaks another version of the protocol: run the same "
                         "ucxx_rs_perftest on both sides");
  return config_read(config, hello + used, failure);
}

static int hear_lane(struct oob *oob, unsigned long long crew_id, unsigned number,
                     struct failure *failure) {
  char hello[TEXT_BYTES];
  unsigned long long their_id;
  unsigned their_number;
  if (oob_receive(oob, FRAME_HELLO, hello, sizeof hello, NULL, HELLO_NS, failure) != 0) return -1;
  if (sscanf(hello, JOIN, &their_id, &their_number) == 2 && their_id == crew_id &&
      their_number == number)
    return 0;
  return fail(failure, "another client came between the connections of this one: start it again");
}

static int gather_lanes(struct crew *crew, struct oob *pairs, int listener,
                        unsigned long long crew_id) {
  struct failure *failure = &crew->failure;
  for (unsigned i = 1; i < crew->size; i++) {
    struct oob *oob = &crew->lanes[i].oob;
    if (pairs != NULL)
      *oob = pairs[i];
    else if (oob_accept(listener, HELLO_NS, oob, failure) != 0)
      return -1;
    if (hear_lane(oob, crew_id, i, failure) == 0) continue;
    oob_send_failure(oob, failure);
    return -1;
  }
  return 0;
}

/* `own` is the server's command line. Each client gets a copy, to which its own options are
 * added. */
void serve_client(const struct config *own, struct oob *first, struct oob *pairs, int listener,
                  struct failure *failure) {
  struct config config = *own;
  struct crew crew;
  struct test test;
  unsigned long long crew_id;
  config.serves = true;
  if (hear_client(&config, first, &crew_id, failure) != 0 ||
      (!find_test(config.plan.test, &test) &&
       fail(failure, "this version has no test '%s'", config.plan.test) != 0) ||
      crew_make(&crew, &config, failure) != 0) {
    oob_send_failure(first, failure);
    return;
  }
  crew.run = run_lane;
  crew.test = test;
  crew.lanes[0].oob = *first;
  if (gather_lanes(&crew, pairs, listener, crew_id) == 0)
    crew_run(&crew);
  else
    oob_send_failure(&crew.lanes[0].oob, &crew.failure);
  if (failed(&crew.failure)) fail(failure, "%s", crew.failure.text);
  crew.lanes[0].oob.fd = -1; /* the caller closes it */
  crew_free(&crew);
}
