/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * watched.c: a process for test_monitor.py. It has a worker of UCXX_THREAD_SINGLE, obeys one-letter
 * commands on its stdin, and answers each with a line. Between them its thread is outside of the
 * library. Lines of the log begin with "log ".
 *
 *     watched [ENDPOINTS]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>
#include <unistd.h>

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static ucxx_endpoint_t *endpoint;
static ucxx_request_t *received;
static char buffer[8];

static void check(ucxx_status_t status) {
  if (status == UCXX_OK || status == UCXX_INPROGRESS) return;
  fprintf(stderr, "%s\n", ucxx_error_text(status));
  exit(1);
}

static void on_log(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg, (void)level;
  printf("log %s: %s\n", component, message);
  fflush(stdout);
}

static void make_worker(void) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SINGLE;
  params.name = "watched";
  check(ucxx_context_create(NULL, &context));
  check(ucxx_worker_create(context, &params, &worker));
}

static void make_endpoints(int count) {
  ucxx_address_t *address;
  check(ucxx_worker_address(worker, &address));
  for (int i = 0; i < count; i++) check(ucxx_endpoint_create(worker, address, NULL, &endpoint));
}

static void finish(ucxx_request_t *request) {
  if (request == NULL) return;
  check(ucxx_request_wait(request, UINT64_MAX));
  ucxx_request_destroy(request);
}

/* Drives the worker until the next command comes. */
static void drive(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  while (poll(&input, 1, 0) == 0) check(ucxx_worker_progress(worker, NULL));
}

/* The child has no worker at first, and then one of its own. It is killed. */
static void child(void) {
  printf("child %d\n", (int)getpid());
  make_worker();
  printf("child is ready\n");
  fflush(stdout);
  alarm(120);
  for (;;) pause();
}

static void obey(char command) {
  ucxx_request_t *request = NULL;
  switch (command) {
  case 'd': printf("drives\n"), fflush(stdout), drive(); return;
  case 'r': check(ucxx_tag_recv(worker, buffer, 8, 5, UINT64_MAX, NULL, &received)); break;
  case 's':
    check(ucxx_tag_send(endpoint, "eight...", 8, 5, NULL, &request));
    finish(request);
    finish(received);
    break;
  case 'u':
    check(ucxx_tag_send(endpoint, "eight...", 8, 6, NULL, &request));
    finish(request);
    break;
  case 'e':
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
    break;
  case 'x': exit(0);
  case 'f':
    if (fork() == 0) child();
    return;
  default: return;
  }
  printf("done\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  char command;
  check(ucxx_log_set_callback(on_log, NULL, UCXX_LOG_WARN));
  make_worker();
  make_endpoints(argc > 1 ? atoi(argv[1]) : 1);
  printf("ready\n");
  fflush(stdout);
  while (read(0, &command, 1) == 1) obey(command);
  return 0;
}
