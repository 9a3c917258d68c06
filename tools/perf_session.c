/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "perf_session.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define HANDSHAKE_NS (30 * NS_PER_SECOND)
#define LOOK_AROUND_NS (20 * NS_PER_MS)

static void progress_idly(void *arg) {
  struct session *session = arg;
  if (session->worker != NULL) ucxx_worker_progress(session->worker, NULL);
}

void session_init(struct session *session, const struct config *config, const struct drive *drive,
                  struct oob *oob, struct failure *failure) {
  memset(session, 0, sizeof *session);
  session->config = config;
  session->oob = oob;
  session->failure = failure;
  session->endpoint_count = config->plan.endpoints > 0 ? config->plan.endpoints : 1;
  struct drive *mine = &session->drive;
  *mine = *drive;
  if (mine->progress < 0) mine->progress = UCXX_PROGRESS_MANUAL;
  if (mine->wait < 0) mine->wait = WAIT_POLL;
  session->manual = mine->progress == UCXX_PROGRESS_MANUAL;
  if (mine->thread < 0) mine->thread = session->manual ? UCXX_THREAD_SINGLE : UCXX_THREAD_MULTI;
  if (mine->delayed < 0) mine->delayed = 1;
  if (mine->error_handling < 0) mine->error_handling = UCXX_ENDPOINT_ERROR_HANDLING_PEER;
  if (mine->spin_ns < 0) mine->spin_ns = 0;
  sem_init(&session->wakeup, 0, 0);
  /* Over TCP the other side needs this side's progress to connect, flush and close. */
  if (session->manual) {
    oob->idle = progress_idly;
    oob->idle_arg = session;
  }
}

int session_fail(struct session *session, const char *what, ucxx_status_t status) {
  const char *detail = ucxx_last_error_message();
  if (session_peer_left(session, status)) return oob_last_words(session->oob, session->failure);
  return fail(session->failure, "%s: %s (%s)", what,
              detail[0] != '\0' ? detail : ucxx_status_string(status), ucxx_status_name(status));
}

const char *submission_name(const struct session *session) {
  return session->submits_delayed ? "delayed" : "direct";
}

static int pin(struct session *session, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return 0;
  return fail(session->failure,
              "--cpu: this process may not run on CPU %d (%s); `taskset -p %ld` shows where it may",
              cpu, strerror(errno), (long)getpid());
}

static int create_worker(struct session *session) {
  const struct drive *drive = &session->drive;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = drive->thread;
  params.progress_mode = drive->progress;
  params.delayed_submission = drive->delayed - 1;
  params.spin_ns = (uint64_t)drive->spin_ns;
  params.cpu = session->manual ? 0 : session->config->cpu[1] + 1;
  params.name = "perftest";
  ucxx_status_t status = ucxx_worker_create(session->context, &params, &session->worker);
  if (status != UCXX_OK) return session_fail(session, "creating the worker", status);
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  status = ucxx_worker_query(session->worker, &attr);
  if (status != UCXX_OK) return session_fail(session, "querying the worker", status);
  session->submits_delayed = attr.delayed_submission != 0;
  return 0;
}

int session_create_context(struct session *session, uint64_t features) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = features;
  /* Wakeup has a cost, so enable it only if something sleeps. */
  if (!session->manual || session->drive.wait == WAIT_REQUEST)
    params.features |= UCXX_FEATURE_WAKEUP;
  params.name = "ucxx_rs_perftest";
  ucxx_status_t status = ucxx_context_create(&params, &session->context);
  return status == UCXX_OK ? 0 : session_fail(session, "creating the context", status);
}

int session_open(struct session *session) {
  const int *cpu = session->config->cpu;
  cpu_set_t anywhere;
  if (session->context == NULL) return -1; /* session_create_context has said why */
  if (session->manual && session->drive.delayed == 2)
    return fail(
        session->failure,
        "--delayed on needs a progress thread: add --progress adaptive, polling or blocking");
  if (session->config->plan.memory[session->config->serves ? 1 : 0] == UCXX_MEMORY_CUDA &&
      !ucxx_context_has_cuda(session->context))
    return fail(
        session->failure,
        "-m cuda: this UCX has no CUDA memory on this machine (`ucxx_rs_info -b`): load one "
        "with CUDA, on a machine with a GPU");
  sched_getaffinity(0, sizeof anywhere, &anywhere);
  /* Pin first, so that memory is allocated near the CPU that uses it. */
  if (cpu[0] >= 0 && pin(session, cpu[0]) != 0) return -1;
  /* The new thread inherits the CPU mask. It must not run on the main thread's CPU. */
  if (!session->manual && cpu[0] >= 0 && cpu[1] < 0)
    sched_setaffinity(0, sizeof anywhere, &anywhere);
  int result = create_worker(session);
  if (cpu[0] >= 0 && pin(session, cpu[0]) != 0) return -1;
  if (result != 0) return -1;
  if (session->drive.wait == WAIT_NOTIFIER) {
    ucxx_status_t status = ucxx_notifier_create(session->context, &session->notifier);
    if (status != UCXX_OK) return session_fail(session, "creating the notifier", status);
  }
  return 0;
}

static int send_address(struct session *session) {
  ucxx_address_t *address = NULL;
  ucxx_status_t status = ucxx_worker_address(session->worker, &address);
  if (status != UCXX_OK) return session_fail(session, "the worker's address", status);
  int result = oob_send(session->oob, FRAME_ADDRESS, ucxx_address_data(address),
                        ucxx_address_length(address), session->failure);
  ucxx_address_destroy(address);
  return result;
}

static int create_endpoints(struct session *session) {
  char bytes[OOB_MAX_BYTES];
  size_t length;
  ucxx_address_t *address = NULL;
  if (oob_receive(session->oob, FRAME_ADDRESS, bytes, sizeof bytes, &length, HANDSHAKE_NS,
                  session->failure) != 0)
    return -1;
  ucxx_status_t status = ucxx_address_from_bytes(bytes, length, &address);
  if (status != UCXX_OK) return session_fail(session, "the other side's worker address", status);
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = session->drive.error_handling;
  for (uint32_t i = 0; i < session->endpoint_count && status == UCXX_OK; i++)
    status = ucxx_endpoint_create(session->worker, address, &params, &session->endpoints[i]);
  ucxx_address_destroy(address);
  return status == UCXX_OK ? 0 : session_fail(session, "creating an endpoint", status);
}

static int flush(struct session *session, ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_endpoint_flush(endpoint, NULL, &request);
  patience_begin(session);
  while (status == UCXX_INPROGRESS) {
    status = ucxx_request_wait(request, session->manual ? 0 : LOOK_AROUND_NS);
    if (status == UCXX_INPROGRESS && patience_go_on(session) != 0) break;
  }
  if (status < 0) session_fail(session, "flushing the endpoint", status);
  ucxx_request_destroy(request);
  return status == UCXX_OK ? 0 : -1;
}

/* In the order of their creation, in which UCX pairs the endpoints of two workers. */
static int flush_all(struct session *session) {
  for (uint32_t i = 0; i < session->endpoint_count; i++)
    if (flush(session, session->endpoints[i]) != 0) return -1;
  return 0;
}

int session_meet(struct session *session, uint32_t frame) {
  char nothing[1];
  if (oob_send(session->oob, frame, NULL, 0, session->failure) != 0) return -1;
  return oob_receive(session->oob, frame, nothing, sizeof nothing, NULL,
                     session->config->timeout_ns, session->failure);
}

int session_connect(struct session *session) {
  if (send_address(session) != 0 || create_endpoints(session) != 0 || flush_all(session) != 0)
    return -1;
  return session_meet(session, FRAME_GO);
}

int session_finish(struct session *session) {
  if (flush_all(session) != 0) return -1;
  return session_meet(session, FRAME_BYE);
}

static ucxx_status_t gather(void *arg, const void *data, size_t length, void *out) {
  struct session *session = arg;
  char theirs[OOB_MAX_BYTES], *places = out;
  size_t mine = session->config->serves ? 1 : 0, got = 0;
  if (oob_send(session->oob, FRAME_GATHER, data, length, session->failure) != 0 ||
      oob_receive(session->oob, FRAME_GATHER, theirs, sizeof theirs, &got,
                  session->config->timeout_ns, session->failure) != 0 ||
      got != length)
    return UCXX_ERR_IO_ERROR;
  memcpy(places + mine * length, data, length);
  memcpy(places + (1 - mine) * length, theirs, length);
  return UCXX_OK;
}

int session_group(struct session *session) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  if (session->group != NULL) return 0;
  params.bootstrap = UCXX_BOOTSTRAP_CALLBACKS;
  params.rank = session->config->serves ? 1 : 0;
  params.size = 2;
  params.allgather = gather;
  params.allgather_arg = session;
  params.collective_timeout_ns = session->config->timeout_ns;
  ucxx_status_t status = ucxx_group_create(session->worker, &params, &session->group);
  return status == UCXX_OK ? 0 : session_fail(session, "creating the group", status);
}

void session_close(struct session *session) {
  /* From now on the calls below make progress themselves. */
  session->oob->idle = NULL;
  ucxx_group_destroy(session->group);
  for (uint32_t i = 0; i < session->endpoint_count; i++)
    ucxx_endpoint_destroy(session->endpoints[i]);
  ucxx_worker_destroy(session->worker);
  ucxx_notifier_destroy(session->notifier);
  ucxx_context_destroy(session->context);
  sem_destroy(&session->wakeup);
  session->group = NULL;
  session->worker = NULL;
  session->notifier = NULL;
  session->context = NULL;
}

bool session_peer_left(const struct session *session, ucxx_status_t status) {
  /* The memory of a process that ends goes before its connections. */
  int wait_ms = status == UCXX_ERR_UNREACHABLE ? 1000 : 0;
  /* The peer sends the reason before it closes its endpoint. This side cancels nothing: only a peer
   * that ends cancels fetches. */
  return status == UCXX_ERR_CONNECTION_RESET || status == UCXX_ERR_PEER_FAILED ||
         status == UCXX_ERR_CANCELED || oob_peer_gone(session->oob, wait_ms);
}

void patience_begin(struct session *session) {
  session->waiting_since_ns = session->looked_ns = clock_ns();
}

int patience_go_on(struct session *session) {
  if (stopped()) return fail(session->failure, "interrupted");
  /* If there are more threads than CPUs, the thread that is waited for must be able to run. */
  sched_yield();
  uint64_t now_ns = clock_ns();
  if (now_ns - session->looked_ns < LOOK_AROUND_NS) return 0;
  session->looked_ns = now_ns;
  ucxx_status_t status = UCXX_OK;
  for (uint32_t i = 0; i < session->endpoint_count && status == UCXX_OK; i++)
    status = ucxx_endpoint_status(session->endpoints[i]);
  if (session_peer_left(session, status)) return oob_last_words(session->oob, session->failure);
  if (status != UCXX_OK)
    return fail(session->failure, "the endpoint has failed: %s (%s)", ucxx_status_string(status),
                ucxx_status_name(status));
  if (now_ns - session->waiting_since_ns > session->config->timeout_ns)
    return fail(session->failure,
                "nothing has completed for %u seconds (--timeout): the other side hangs, or the "
                "transport has lost a message",
                (unsigned)(session->config->timeout_ns / NS_PER_SECOND));
  return 0;
}
