/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perftest.c: ucxx_rs_perftest measures latency, bandwidth and message rate between two processes.
 * This file has the roles: client, server, and both for --self.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_names.h"
#include "perf_report.h"

#define PROTOCOL "ucxx_rs_perftest 1 "
#define CONNECT_NS (5 * NS_PER_SECOND) /* time for a server to start */
#define HELLO_NS (30 * NS_PER_SECOND)
#define FOR_EVER UINT64_MAX
#define TEXT 1024

enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* ------------------------------------------------------------------ client */

static int run_round(struct bench *bench, const struct test *test, const struct round *round) {
  char text[128];
  struct session *session = bench->session;
  if (bench_prepare(bench, test, round) != 0) return -1;
  snprintf(text, sizeof text,
           "size=%" PRIu64 " iterations=%" PRIu64 " warmup=%" PRIu64 " window=%u", round->size,
           round->iterations, round->warmup, (unsigned)round->window);
  if (oob_send_text(session->oob, FRAME_ROUND, text, session->failure) != 0) return -1;
  histogram_clear(bench->times);
  if (round->warmup > 0 && test->client(bench, round->warmup, false) != 0) return -1;
  return test->client(bench, round->iterations, true);
}

static int measure(struct bench *bench, const struct test *test, struct report *report,
                   const char *server) {
  struct session *session = bench->session;
  if (session_connect(session) != 0) return -1;
  report_begin(report, session, test, bench->plan, server);
  for (uint32_t i = 0; i < bench->plan->size_count; i++) {
    struct round round = plan_round(test, bench->plan, bench->plan->sizes[i]);
    if (run_round(bench, test, &round) != 0) return -1;
    report_row(report, bench, test);
  }
  if (oob_send(session->oob, FRAME_END, NULL, 0, session->failure) != 0) return -1;
  return session_finish(session);
}

static int greet(const struct config *config, struct oob *oob, char *server,
                 struct failure *failure) {
  char hello[TEXT];
  snprintf(hello, sizeof hello, PROTOCOL);
  config_write(config, hello + strlen(hello), sizeof hello - strlen(hello));
  if (oob_send_text(oob, FRAME_HELLO, hello, failure) != 0) return -1;
  return oob_receive(oob, FRAME_SETUP, server, TEXT, NULL, HELLO_NS, failure);
}

static void run_client(const struct config *config, struct oob *oob, struct failure *failure) {
  struct plan plan = config->plan;
  const struct test *test = find_test(plan.test);
  struct session session;
  struct report report = {config->output, false, 0};
  struct bench bench = {.session = &session, .plan = &plan};
  char server[TEXT] = "";
  if (plan.size_count == 0) plan.sizes[plan.size_count++] = test->default_size;
  bench.times = malloc(sizeof *bench.times);
  session_init(&session, config, &config->drive, oob, failure);
  if (bench.times == NULL)
    fail(failure, "no memory");
  else if (session_open(&session, test->features) == 0 && greet(config, oob, server, failure) == 0)
    measure(&bench, test, &report, server);
  if (failed(failure)) oob_send_failure(oob, failure);
  session_close(&session);
  bench_release(&bench);
  report_end(&report, failure);
  free(bench.times);
}

/* ------------------------------------------------------------------ server */

static int check_round(const struct bench *bench, const struct test *test, const char *text,
                       struct round *round) {
  struct failure *failure = bench->session->failure;
  if (sscanf(text, "size=%" SCNu64 " iterations=%" SCNu64 " warmup=%" SCNu64 " window=%u",
             &round->size, &round->iterations, &round->warmup, &round->window) != 4 ||
      round->window == 0 || round->window > MAX_WINDOW)
    return fail(failure, "the client asks for a round that makes no sense: %.100s", text);
  if (round_memory(test, bench->plan, round) > bench->session->config->max_memory)
    return fail(failure,
                "the server allows %" PRIu64 " bytes of buffers, and this round needs more: a "
                "smaller --size or --window, or --max-memory there",
                bench->session->config->max_memory);
  return 0;
}

static int serve_rounds(struct bench *bench, const struct test *test) {
  struct session *session = bench->session;
  for (;;) {
    char text[TEXT];
    uint32_t frame;
    struct round round;
    if (oob_receive_either(session->oob, FRAME_ROUND, FRAME_END, &frame, text, sizeof text, NULL,
                           session->config->timeout_ns, session->failure) != 0)
      return -1;
    if (frame == FRAME_END) return session_finish(session);
    if (check_round(bench, test, text, &round) != 0 || bench_prepare(bench, test, &round) != 0)
      return -1;
    if (round.warmup > 0 && test->server(bench, round.warmup) != 0) return -1;
    if (test->server(bench, round.iterations) != 0) return -1;
  }
}

static int hear_client(struct config *config, struct oob *oob, const struct test **test,
                       struct failure *failure) {
  char hello[TEXT];
  if (oob_receive(oob, FRAME_HELLO, hello, sizeof hello, NULL, HELLO_NS, failure) != 0) return -1;
  if (strncmp(hello, PROTOCOL, strlen(PROTOCOL)) != 0)
    return fail(failure, "the client speaks another version of the protocol: run the same "
                         "ucxx_rs_perftest on both sides");
  if (config_read(config, hello + strlen(PROTOCOL), failure) != 0) return -1;
  *test = find_test(config->plan.test);
  return *test != NULL ? 0 : fail(failure, "this version has no test '%s'", config->plan.test);
}

static int answer_client(struct session *session) {
  char setup[TEXT];
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

/* `own` is the server's command line. Each client gets a copy, to which its own options are
 * added. */
static void serve_client(const struct config *own, struct oob *oob, struct failure *failure) {
  struct config config = *own;
  const struct test *test = NULL;
  struct session session;
  if (hear_client(&config, oob, &test, failure) != 0) {
    oob_send_failure(oob, failure);
    return;
  }
  struct bench bench = {.session = &session, .plan = &config.plan};
  session_init(&session, &config, &config.drive, oob, failure);
  if (session_open(&session, test->features) == 0 && answer_client(&session) == 0 &&
      session_connect(&session) == 0)
    serve_rounds(&bench, test);
  if (failed(failure)) oob_send_failure(oob, failure);
  session_close(&session);
  bench_release(&bench);
}

static int run_server(const struct config *config, struct failure *failure) {
  uint16_t port = config->port;
  int listener;
  int result = EXIT_SUCCESS;
  if (oob_listen(config->bind, config->family, &port, &listener, failure) != 0) return EXIT_FAILURE;
  printf("listening on port %u\n", (unsigned)port);
  fflush(stdout);
  do {
    struct oob oob;
    struct failure ours = {""};
    if (oob_accept(listener, FOR_EVER, &oob, &ours) != 0) {
      /* A server with --loop ends in this way. */
      if (!stopped() || !config->loop) fail(failure, "%s", ours.text);
      break;
    }
    serve_client(config, &oob, &ours);
    if (failed(&ours))
      fprintf(stderr, "ucxx_rs_perftest: client %s: %s\n", oob.peer, ours.text);
    else
      printf("served %s\n", oob.peer);
    fflush(stdout);
    result = failed(&ours) && !config->loop ? EXIT_FAILURE : EXIT_SUCCESS;
    oob_close(&oob);
  } while (config->loop && !stopped());
  close(listener);
  return result;
}

/* ------------------------------------------------------------------ both */

static void run_self(const struct config *config, struct failure *failure) {
  struct oob here, there;
  if (oob_pair(&here, &there, failure) != 0) return;
  fflush(NULL);
  /* Before UCX is initialized, because UCX does not work after a fork. */
  pid_t child = fork();
  if (child < 0) {
    fail(failure, "fork: %s", strerror(errno));
    return;
  }
  if (child == 0) {
    struct config server = *config;
    struct failure ours = {""};
    close(here.fd);
    memcpy(server.cpu, config->peer_cpu, sizeof server.cpu);
    serve_client(&server, &there, &ours);
    oob_close(&there);
    _exit(failed(&ours) ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  close(there.fd); /* not oob_close, which would end the connection for the child too */
  run_client(config, &here, failure);
  oob_close(&here);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status))
    fail(failure, "the forked half was killed by signal %d (%s)", WTERMSIG(status),
         strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    fail(failure, "the forked half failed");
}

int main(int argc, char **argv) {
  struct config config;
  struct failure failure = {""};
  int result = EXIT_SUCCESS, parsed = config_parse(&config, argc, argv, &failure);
  if (parsed > 0) return EXIT_SUCCESS;
  if (parsed < 0) {
    fprintf(stderr, "ucxx_rs_perftest: %s\n", failure.text);
    return EXIT_USAGE;
  }
  stop_on_signals();
  if (config.self) {
    run_self(&config, &failure);
  } else if (config.host != NULL) {
    struct oob oob;
    if (oob_connect(config.host, config.family, config.port, CONNECT_NS, &oob, &failure) == 0) {
      run_client(&config, &oob, &failure);
      oob_close(&oob);
    }
  } else {
    result = run_server(&config, &failure);
  }
  if (failed(&failure)) fprintf(stderr, "ucxx_rs_perftest: %s\n", failure.text);
  if (stopped() && (failed(&failure) || result != EXIT_SUCCESS)) return EXIT_INTERRUPTED;
  return failed(&failure) ? EXIT_FAILURE : result;
}
