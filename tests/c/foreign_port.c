/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A port where something else listens: one that talks first, sends back what it hears, or hangs up. Whoever connects to it is told so with a status that the header lists, and the
 * process goes on.
 */
#include "test_util.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum habit { BANNER, HANGS_UP, SILENT, ZEROS, ECHO, HABITS } habit_t;
enum { TIMES = 3, GUESTS = HABITS * TIMES };
static const char *const names[HABITS] = {"banner", "hangs up", "silent", "zeros", "echo"};

typedef struct stranger {
  habit_t habit;
  int listening, socket;
} stranger_t;

/* Until the other side has gone. */
static void *talk(void *arg) {
  stranger_t *stranger = arg;
  char bytes[300] = {0};
  ssize_t length = sizeof bytes;
  if (stranger->habit == BANNER)
    length = snprintf(bytes, sizeof bytes, "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
  if (stranger->habit == BANNER || stranger->habit == ZEROS)
    CHECK_EQ(send(stranger->socket, bytes, (size_t)length, MSG_NOSIGNAL), length);
  while (stranger->habit != HANGS_UP && (length = recv(stranger->socket, bytes, sizeof bytes, 0)) > 0)
    if (stranger->habit == ECHO && send(stranger->socket, bytes, (size_t)length, MSG_NOSIGNAL) < 0)
      break;
  close(stranger->socket);
  free(stranger);
  return NULL;
}

/* Until its socket is shut. */
static void *listen_on(void *arg) {
  stranger_t *listener = arg;
  int socket;
  while ((socket = accept(listener->listening, NULL, NULL)) >= 0) {
    stranger_t *stranger = test_alloc(sizeof *stranger);
    pthread_t thread;
    *stranger = (stranger_t){.habit = listener->habit, .socket = socket};
    CHECK_EQ(pthread_create(&thread, NULL, talk, stranger), 0);
    CHECK_EQ(pthread_detach(thread), 0);
  }
  return NULL;
}

static uint16_t open_port(stranger_t *listener) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  listener->listening = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_EQ(bind(listener->listening, (struct sockaddr *)&address, length), 0);
  CHECK_EQ(listen(listener->listening, TIMES), 0);
  CHECK_EQ(getsockname(listener->listening, (struct sockaddr *)&address, &length), 0);
  return ntohs(address.sin_port);
}

/* UCX 1.13 asserts on what is not its own, and each release on some random bytes: known limits, docs/connections.md. */
static int ucx_asserts_on(habit_t habit) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  return habit >= ZEROS && version.ucx_major == 1 && version.ucx_minor < 14;
}

int main(void) {
  test_begin("foreign_port", 30);
  if (!has_tcp())
    test_skip("UCX connects by host and port over TCP");
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  static stranger_t listeners[HABITS];
  static pthread_t threads[HABITS];
  static seen_t closed[GUESTS], sent[GUESTS];
  ucxx_endpoint_t *endpoints[GUESTS] = {NULL};
  STEP("all at once");
  for (int habit = 0; habit < HABITS; habit++) {
    listeners[habit].habit = habit;
    uint16_t port = open_port(&listeners[habit]);
    CHECK_EQ(pthread_create(&threads[habit], NULL, listen_on, &listeners[habit]), 0);
    for (int at = habit; at < GUESTS && !ucx_asserts_on(habit); at += HABITS) {
      ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
      ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
      params.connect_timeout_ns = 500 * MILLISECOND;
      params.on_close = see_endpoint;
      params.on_close_arg = &closed[at];
      op.callback = see_completion;
      op.callback_arg = &sent[at];
      CHECK_OK(ucxx_endpoint_connect(worker, "127.0.0.1", port, &params, &endpoints[at]));
      CHECK_STATUS(ucxx_tag_send(endpoints[at], "first", 5, 1, &op, NULL), UCXX_INPROGRESS);
    }
  }
  for (int at = 0; at < GUESTS; at++) {
    if (endpoints[at] == NULL)
      continue;
    STEP("%s", names[at % HABITS]);
    while (seen_count(&closed[at]) == 0 || seen_count(&sent[at]) == 0)
      progress(worker);
    ucxx_status_t status = closed[at].status;
    if (status != UCXX_ERR_UNREACHABLE && status != UCXX_ERR_TIMED_OUT && status != UCXX_ERR_REJECTED)
      FAIL("on_close %s", ucxx_status_string(status));
    CHECK_STATUS(ucxx_endpoint_status(endpoints[at]), status);
    CHECK_STATUS(sent[at].status, status);
    ucxx_endpoint_destroy(endpoints[at]);
  }
  STEP("the end");
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  for (int habit = 0; habit < HABITS; habit++) {
    CHECK_EQ(shutdown(listeners[habit].listening, SHUT_RDWR), 0);
    CHECK_EQ(pthread_join(threads[habit], NULL), 0);
    close(listeners[habit].listening);
  }
  return 0;
}
