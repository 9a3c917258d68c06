/* A forked child cannot use its parent's objects, can create its own, and harms nothing of the
 * parent. By hand, run it with UCX_MEM_MMAP_HOOK_MODE=none, as ctest does: the child could hang
 * otherwise (docs/known-issues.md). */
#include "test_util.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct inherited {
  duo_t duo;
  ucxx_address_t *address;
  ucxx_request_t *pending, *done;
  uint64_t word;
} inherited_t;

static void never_run(void *arg) {
  (void)arg;
  FAIL("a function ran in a forked child");
}

static void never_line(void *arg, const char *text) {
  (void)arg;
  FAIL("a line about an object of the parent: %s", text);
}

static void never_visit(void *arg, const char *key, const char *value) {
  (void)arg;
  (void)value;
  FAIL("visited %s of a context of the parent", key);
}

#define REFUSED(call)                    \
  do {                                   \
    CHECK_STATUS(call, UCXX_ERR_FORKED); \
    CHECK_MESSAGE("fork");               \
  } while (0)

static void refused(const inherited_t *old) {
  ucxx_worker_t *worker = old->duo.left, *made = NULL;
  ucxx_endpoint_t *endpoint = old->duo.to_right, *other = NULL;
  ucxx_address_t *address = NULL;
  ucxx_request_t *request = NULL;
  ucxx_tag_message_t *message = NULL;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_worker_attr_t worker_attr = UCXX_WORKER_ATTR_INIT;
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  ucxx_endpoint_attr_t endpoint_attr = UCXX_ENDPOINT_ATTR_INIT;
  ucxx_op_params_t blocking = UCXX_OP_PARAMS_INIT;
  uint64_t word = 0;
  uint32_t events = 0;
  size_t index = 0;
  int fd = -1;
  blocking.flags = UCXX_FLAG_WAIT;

  STEP("child: UCP's handles");
  CHECK(ucxx_context_native(old->duo.context) == NULL);
  CHECK(ucxx_worker_native(worker) == NULL);
  CHECK(ucxx_endpoint_native(endpoint) == NULL);

  STEP("child: context and worker");
  REFUSED(ucxx_worker_create(old->duo.context, NULL, &made));
  REFUSED(ucxx_context_dump(old->duo.context, never_line, NULL));
  REFUSED(ucxx_context_visit_config(old->duo.context, never_visit, NULL));
  REFUSED(ucxx_worker_address(worker, &address));
  REFUSED(ucxx_worker_progress(worker, &events));
  REFUSED(ucxx_worker_wait(worker, FOR_EVER));
  REFUSED(ucxx_worker_event_fd(worker, &fd));
  REFUSED(ucxx_worker_arm(worker));
  REFUSED(ucxx_worker_signal(worker));
  REFUSED(ucxx_worker_run_pre(worker, never_run, NULL, FOR_EVER));
  REFUSED(ucxx_worker_run_post(worker, never_run, NULL, FOR_EVER));
  REFUSED(ucxx_worker_query(worker, &worker_attr));
  REFUSED(ucxx_worker_query_stats(worker, &stats));
  REFUSED(ucxx_worker_dump(worker, never_line, NULL));
  REFUSED(ucxx_worker_flush(worker, NULL, &request));
  REFUSED(ucxx_worker_flush(worker, &blocking, NULL));
  REFUSED(ucxx_worker_fence(worker));
  REFUSED(ucxx_worker_cancel_all(worker, &index));
  REFUSED(ucxx_worker_cancel_all(worker, NULL));

  STEP("child: endpoints");
  REFUSED(ucxx_endpoint_create(worker, old->address, NULL, &other));
  REFUSED(ucxx_endpoint_status(endpoint));
  REFUSED(ucxx_endpoint_cancel_all(endpoint, NULL));
  REFUSED(ucxx_endpoint_query(endpoint, &endpoint_attr));
  REFUSED(ucxx_endpoint_flush(endpoint, NULL, &request));
  REFUSED(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, NULL, &request));
  REFUSED(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &request));

  STEP("child: tag");
  REFUSED(ucxx_tag_send(endpoint, "message", 8, 1, NULL, &request));
  REFUSED(ucxx_tag_send(endpoint, "message", 8, 1, &blocking, NULL));
  REFUSED(ucxx_tag_send_sync(endpoint, "message", 8, 1, NULL, &request));
  REFUSED(ucxx_tag_send_iov(endpoint, NULL, 0, 1, NULL, &request));
  REFUSED(ucxx_tag_recv(worker, &word, sizeof word, 1, UINT64_MAX, NULL, &request));
  REFUSED(ucxx_tag_recv_iov(worker, NULL, 0, 1, UINT64_MAX, NULL, &request));
  REFUSED(ucxx_tag_probe(worker, 1, UINT64_MAX, &info, &message));

  STEP("child: requests");
  REFUSED(ucxx_request_status(old->pending));
  REFUSED(ucxx_request_status(old->done));
  REFUSED(ucxx_request_wait(old->pending, FOR_EVER));
  REFUSED(ucxx_request_wait_all(&old->pending, 1, FOR_EVER));
  REFUSED(ucxx_request_wait_any(&old->pending, 1, FOR_EVER, &index));
  REFUSED(ucxx_request_cancel(old->pending));
  REFUSED(ucxx_request_recv_info(old->done, &info));
  CHECK(made == NULL && other == NULL && address == NULL && request == NULL && message == NULL &&
        fd == -1);
}

static void destroys(inherited_t *old) {
  STEP("child: destroys");
  ucxx_request_destroy(old->pending);
  ucxx_request_destroy(old->done);
  ucxx_address_destroy(old->address);
  ucxx_endpoint_destroy(old->duo.to_right);
  ucxx_endpoint_destroy(old->duo.to_left);
  ucxx_worker_destroy(old->duo.left);
  ucxx_worker_destroy(old->duo.right);
  ucxx_context_destroy(old->duo.context);
}

static void own_objects(void) {
  STEP("child: objects of its own");
  duo_t solo = {0};
  const char *transports = getenv("UCX_TLS");
  int over_tcp = transports != NULL && strstr(transports, "tcp") != NULL;
  ucxx_config_entry_t self_only = {"TLS", "self"};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_TAG;
  params.config = &self_only;
  params.config_count = over_tcp;
  CHECK_OK(ucxx_context_create(&params, &solo.context));
  CHECK_OK(ucxx_worker_create(solo.context, NULL, &solo.left));
  solo.right = solo.left;
  solo.to_right = connect_workers(solo.left, solo.left);
  duo_transfer(&solo, 1000, 1);
  duo_transfer(&solo, 2 << 20, 2);
  ucxx_endpoint_destroy(solo.to_right);
  ucxx_worker_destroy(solo.left);
  ucxx_context_destroy(solo.context);
  /*
   * UCX accepts TCP connections on a thread of its own, which a child does not inherit and UCX does
   * not restart: a forked child has no TCP, not even within a worker.
   */
  if (over_tcp) return;
  STEP("child: two connected workers of its own");
  duo_t duo;
  duo_open(&duo, NULL);
  duo_transfer(&duo, 1000, 3);
  duo_transfer(&duo, 2 << 20, 4);
  duo_close(&duo);
}

/* With `mess_around` the child tries everything; otherwise it only exits. */
static void run_child(inherited_t *old, int mess_around, int by_exit) {
  STEP("child %s, ends by %s", mess_around ? "tries everything" : "does nothing",
       by_exit ? "exit" : "_exit");
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test_begin("fork_child (child)");
    if (mess_around) {
      refused(old);
      destroys(old);
      own_objects();
    }
    if (by_exit) exit(0);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  STEP("the parent keeps working");
  CHECK_STATUS(ucxx_request_status(old->pending), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_status(old->done));
  CHECK_OK(ucxx_endpoint_status(old->duo.to_right));
  duo_transfer(&old->duo, 8, 11);
  duo_transfer(&old->duo, 50000, 12);
  duo_transfer(&old->duo, 4 << 20, 13);
}

int main(void) {
  test_begin("fork_child");
  inherited_t old;
  memset(&old, 0, sizeof old);
  duo_open(&old.duo, NULL);
  CHECK_OK(ucxx_worker_address(old.duo.right, &old.address));
  uint64_t word = 0;
  CHECK_STATUS(ucxx_tag_recv(old.duo.left, &old.word, 8, 0x70, UINT64_MAX, NULL, &old.pending),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_recv(old.duo.right, &word, 8, 0x71, UINT64_MAX, NULL, &old.done),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_tag_send(old.duo.to_right, "message", 8, 0x71, NULL, NULL));
  CHECK_OK(ucxx_request_wait(old.done, FOR_EVER));
  run_child(&old, 1, 0);
  run_child(&old, 1, 1);
  run_child(&old, 0, 1);
  run_child(&old, 0, 0);
  STEP("what was pending before the forks completes");
  CHECK_OK(ucxx_tag_send(old.duo.to_left, "message", 8, 0x70, NULL, NULL));
  CHECK_OK(duo_finish(&old.duo, UCXX_INPROGRESS, &old.pending));
  CHECK(memcmp(&old.word, "message", 8) == 0);
  ucxx_request_destroy(old.done);
  ucxx_address_destroy(old.address);
  duo_close(&old.duo);
  return 0;
}
