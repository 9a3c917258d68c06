/*
 * A shared library whose constructor uses ucxx_rs like a program, while the dynamic loader holds
 * its lock: workers in each progress mode, waits for their threads, a worker destroyed in a
 * callback, a group with its own thread. See load_in_constructor.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucxx_rs.h>
#include <unistd.h>

static void require(ucxx_status_t status, ucxx_status_t wanted, const char *what) {
  if (status == wanted) return;
  fprintf(stderr, "constructor: %s: %s: %s\n", what, ucxx_status_name(status),
          ucxx_last_error_message());
  _exit(1);
}

static ucxx_endpoint_t *to_itself(ucxx_worker_t *worker) {
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  require(ucxx_worker_address(worker, &address), UCXX_OK, "an address");
  require(ucxx_endpoint_create(worker, address, NULL, &endpoint), UCXX_OK, "an endpoint");
  ucxx_address_destroy(address);
  return endpoint;
}

static void destroys(void *worker, ucxx_request_t *request, ucxx_status_t status) {
  (void)request, (void)status;
  ucxx_worker_destroy(worker);
}

static void with_worker(ucxx_context_t *context, int mode) {
  uint64_t sent = 3, received = 0;
  ucxx_request_t *request = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  require(ucxx_worker_create(context, &params, &worker), UCXX_OK, "a worker");
  ucxx_endpoint_t *endpoint = to_itself(worker);
  require(ucxx_tag_recv(worker, &received, sizeof received, 1, UINT64_MAX, NULL, &request),
          UCXX_INPROGRESS, "a receive");
  require(ucxx_tag_send(endpoint, &sent, sizeof sent, 1, NULL, NULL) < 0, 0, "a send");
  require(ucxx_request_wait(request, UINT64_MAX), UCXX_OK, "a wait");
  ucxx_request_destroy(request);
  require(received == sent, 1, "what came");

  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = destroys;
  op.callback_arg = worker;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  require(ucxx_tag_send(endpoint, &sent, sizeof sent, 2, &op, NULL) < 0, 0, "a last send");
  while (ucxx_endpoint_status(endpoint) == UCXX_OK) {
    if (mode == UCXX_PROGRESS_MANUAL) ucxx_worker_progress(worker, NULL);
    sched_yield();
  }
  require(ucxx_endpoint_status(endpoint), UCXX_ERR_CLOSED, "a worker that a callback destroyed");
  ucxx_endpoint_destroy(endpoint);
}

static void with_group(ucxx_context_t *context) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  char root[32];
  const int free_port = socket(AF_INET, SOCK_STREAM, 0);
  require(bind(free_port, (struct sockaddr *)&address, length) |
              getsockname(free_port, (struct sockaddr *)&address, &length),
          0, "a port");
  close(free_port);
  snprintf(root, sizeof root, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
  ucxx_worker_t *worker = NULL;
  ucxx_group_t *group = NULL;
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_TCP;
  params.size = 1;
  params.root = root;
  require(ucxx_worker_create(context, NULL, &worker), UCXX_OK, "a worker for a group");
  require(ucxx_group_create(worker, &params, &group), UCXX_OK, "a group");
  require(ucxx_group_barrier(group), UCXX_OK, "a barrier");
  ucxx_group_destroy(group);
  ucxx_worker_destroy(worker);
}

__attribute__((constructor)) static void begins(void) {
  const int modes[] = {UCXX_PROGRESS_MANUAL, UCXX_PROGRESS_THREAD_ADAPTIVE,
                       UCXX_PROGRESS_THREAD_POLLING, UCXX_PROGRESS_THREAD_BLOCKING};
  const char *times = getenv("CONSTRUCTOR_RAN");
  char more[16];
  ucxx_context_t *context = NULL;
  require(ucxx_context_create(NULL, &context), UCXX_OK, "a context");
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) with_worker(context, modes[i]);
  with_group(context);
  ucxx_context_destroy(context);
  snprintf(more, sizeof more, "%d", 1 + (times ? atoi(times) : 0));
  setenv("CONSTRUCTOR_RAN", more, 1);
}
