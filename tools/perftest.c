/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perftest.c: ucxx_rs_perftest measures latency, bandwidth and rate of operations between two
 * processes. This file starts one side, or both for --self.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_plot.h"
#include "perf_sides.h"

#define FOR_EVER UINT64_MAX

enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* ------------------------------------------------------------------ server */

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
    serve_client(config, &oob, NULL, listener, &ours);
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

static void close_others(const struct oob *others, unsigned count) {
  for (unsigned i = 0; i < count; i++) close(others[i].fd); /* oob_close would end it for both */
}

static void run_self(const struct config *config, struct failure *failure) {
  struct oob here[MAX_THREADS], there[MAX_THREADS];
  for (unsigned i = 0; i < config->plan.threads; i++)
    if (oob_pair(&here[i], &there[i], failure) != 0) return;
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
    close_others(here, config->plan.threads);
    memcpy(server.cpu, config->peer_cpu, sizeof server.cpu);
    serve_client(&server, &there[0], there, -1, &ours);
    oob_close(&there[0]);
    _exit(failed(&ours) ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  close_others(there, config->plan.threads);
  run_client(config, here, failure);
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
  if (config.compare != NULL)
    run_plotter((const char *const *)config.compare, config.plot, true, &failure);
  else if (config.self)
    run_self(&config, &failure);
  else if (config.host != NULL)
    run_client(&config, NULL, &failure);
  else
    result = run_server(&config, &failure);
  if (failed(&failure)) fprintf(stderr, "ucxx_rs_perftest: %s\n", failure.text);
  if (stopped() && (failed(&failure) || result != EXIT_SUCCESS)) return EXIT_INTERRUPTED;
  return failed(&failure) ? EXIT_FAILURE : result;
}
