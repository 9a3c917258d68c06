/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_lanes.c: creates real endpoints, in this process and to another one, with both kinds of
 * error handling, and prints which transports UCX chose.
 */
#define _GNU_SOURCE /* the constants of prctl */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "info.h"
#include "info_print.h"
#include "perf_session.h"

/* The features that a context has by default. */
#define ANSWER_NS (30 * NS_PER_SECOND)
#define FEATURES (UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP)

enum { FRAME_FACTS = 101, FRAME_NEXT };

static const int kinds[] = {UCXX_ENDPOINT_ERROR_HANDLING_PEER, UCXX_ENDPOINT_ERROR_HANDLING_NONE};
static const char *const kind_words[] = {"PEER", "NONE"};
static const char *const kind_names[] = {"PEER (notices a dead peer; the default)", "NONE"};

/* ------------------------------------------------------------------ within this process */

static int reach(ucxx_worker_t *from, ucxx_worker_t *to, const ucxx_endpoint_params_t *params,
                 char *text, size_t capacity) {
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  ucxx_request_t *flush = NULL;
  ucxx_status_t status = ucxx_worker_address(to, &address);
  if (status == UCXX_OK) status = ucxx_endpoint_create(from, address, params, &endpoint);
  if (status == UCXX_OK) status = ucxx_endpoint_flush(endpoint, NULL, &flush);
  uint64_t start_ns = clock_ns();
  while (status == UCXX_INPROGRESS && clock_ns() - start_ns < ANSWER_NS && !stopped()) {
    ucxx_worker_progress(to, NULL);
    status = ucxx_request_wait(flush, 0);
  }
  if (status == UCXX_OK) status = ucxx_endpoint_query(endpoint, &attr);
  if (status == UCXX_OK)
    snprintf(text, capacity, "%s", attr.transports);
  else
    snprintf(text, capacity, "%s",
             status == UCXX_INPROGRESS ? "no answer" : ucxx_last_error_message());
  ucxx_request_destroy(flush);
  ucxx_endpoint_destroy(endpoint);
  ucxx_address_destroy(address);
  return status == UCXX_OK ? 0 : -1;
}

int print_lanes_within(void) {
  ucxx_context_t *context = NULL;
  ucxx_worker_t *first = NULL, *second = NULL;
  int result = 0;
  print_text("Endpoints within one process\n");
  print_object("within_a_process");
  if (ucxx_context_create(NULL, &context) != UCXX_OK ||
      ucxx_worker_create(context, NULL, &first) != UCXX_OK ||
      ucxx_worker_create(context, NULL, &second) != UCXX_OK) {
    print_problem("  ", "%s", ucxx_last_error_message());
    result = -1;
  } else {
    char text[1024];
    result = reach(first, first, NULL, text, sizeof text);
    print_string("to_itself", text, "  a worker to itself: %s\n", text);
    print_list("to_another_worker");
    for (size_t i = 0; i < 2; i++) {
      ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
      params.error_handling = kinds[i];
      if (reach(first, second, &params, text, sizeof text) != 0) result = -1;
      print_object(NULL);
      print_string("error_handling", kind_words[i],
                   "  to another worker, error handling %s: ", kind_names[i]);
      print_string("transports", text, "%s\n", text);
      print_close();
    }
    print_close();
  }
  print_close();
  ucxx_worker_destroy(first);
  ucxx_worker_destroy(second);
  ucxx_context_destroy(context);
  return result;
}

/* ------------------------------------------------------------------ to another process */

static int swap_facts(struct oob *oob, struct facts *mine, struct facts *theirs,
                      struct failure *failure) {
  static char text[OOB_MAX_BYTES];
  facts_gather(mine);
  facts_write(mine, text, sizeof text - 1);
  if (oob_send_text(oob, FRAME_FACTS, text, failure) != 0) return -1;
  if (oob_receive(oob, FRAME_FACTS, text, sizeof text, NULL, ANSWER_NS, failure) != 0) return -1;
  facts_read(theirs, text);
  return 0;
}

/* Connects both sides, and writes the transports of the endpoint. */
static int connect_once(struct oob *oob, int error_handling, char *text, size_t capacity,
                        struct failure *failure) {
  struct config config = {.cpu = {-1, -1}, .timeout_ns = ANSWER_NS};
  struct drive drive = {
      UCXX_PROGRESS_MANUAL, WAIT_REQUEST, UCXX_THREAD_MULTI, -1, error_handling, -1};
  struct session session;
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  session_init(&session, &config, &drive, oob, failure);
  if (session_create_context(&session, FEATURES) == 0 && session_open(&session) == 0 &&
      session_connect(&session) == 0) {
    ucxx_status_t status = ucxx_endpoint_query(session.endpoints[0], &attr);
    if (status == UCXX_OK)
      snprintf(text, capacity, "%s", attr.transports);
    else
      session_fail(&session, "querying the endpoint", status);
    session_finish(&session);
  }
  if (failed(failure)) oob_send_failure(oob, failure);
  session_close(&session);
  return failed(failure) ? -1 : 0;
}

/* Each kind of error handling has its own connection. After a failure the two sides would not be at
 * the same step. */
int answer_lanes(struct oob *oob, struct failure *failure) {
  struct facts mine, theirs;
  char text[256], kind[8];
  if (swap_facts(oob, &mine, &theirs, failure) != 0) return -1;
  if (oob_receive(oob, FRAME_NEXT, kind, sizeof kind, NULL, ANSWER_NS, failure) != 0) return -1;
  return connect_once(oob, kinds[kind[0] == '1'], text, sizeof text, failure);
}

static int ask_lanes(struct oob *oob, size_t kind, unsigned *without_shared_memory) {
  struct facts mine, theirs;
  struct failure failure = {""};
  char text[256] = "";
  print_string("error_handling", kind_words[kind], "  error handling %s\n", kind_names[kind]);
  if (swap_facts(oob, &mine, &theirs, &failure) != 0 ||
      oob_send_text(oob, FRAME_NEXT, kind == 0 ? "0" : "1", &failure) != 0) {
    print_problem("    ", "%s", failure.text);
    return -1;
  }
  bool connected = connect_once(oob, kinds[kind], text, sizeof text, &failure) == 0;
  if (!connected && stopped()) return -1;
  bool shared = connected ? explain_lanes(&mine, &theirs, kinds[kind], text)
                          : explain_failure(&mine, &theirs, kinds[kind], failure.text);
  *without_shared_memory += !shared;
  return connected ? 0 : -1;
}

/* The child is created by fork and exec, because UCX, which is initialized in this process, does
 * not work after a fork alone. */
static pid_t start_child(int fd) {
  char number[16];
  snprintf(number, sizeof number, "%d", fd);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILURE);
    execl("/proc/self/exe", "ucxx_rs_info", "--answer-on", number, (char *)NULL);
    _exit(EXIT_FAILURE);
  }
  return child;
}

static int with_child(size_t kind, unsigned *without_shared_memory) {
  struct failure failure = {""};
  struct oob here, there;
  if (oob_pair(&here, &there, &failure) != 0) return print_problem("  ", "%s", failure.text), -1;
  int inherited = dup(there.fd); /* without close-on-exec */
  fflush(NULL);
  pid_t child = inherited >= 0 ? start_child(inherited) : -1;
  if (inherited >= 0) close(inherited);
  close(there.fd); /* not oob_close, which would end the connection for the child too */
  int result = child > 0 ? ask_lanes(&here, kind, without_shared_memory) : -1;
  if (child < 0) print_problem("  ", "no child process: %s", strerror(errno));
  oob_close(&here);
  if (child > 0)
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  return result;
}

int print_lanes_to_child(unsigned *without_shared_memory) {
  int result = 0;
  print_text("Endpoints to another process on this machine\n");
  print_list("to_another_process");
  for (size_t kind = 0; kind < 2; kind++) {
    print_object(NULL);
    if (with_child(kind, without_shared_memory) != 0) result = -1;
    print_close();
  }
  print_close();
  return result;
}

int print_lanes_to_peer(struct oob *oob, size_t kind, unsigned *without_shared_memory) {
  print_object(NULL);
  int result = ask_lanes(oob, kind, without_shared_memory);
  print_close();
  return result;
}
