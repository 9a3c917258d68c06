/* Bad input: workers. See bad_input.h. */
#include "bad_input.h"

static ucxx_status_t try_worker(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_worker_create(f->context, params, &f->out.worker);
  if (status == UCXX_OK) ucxx_worker_destroy(f->out.worker);
  return status;
}

static ucxx_status_t try_modes(fixture_t *f, int32_t thread_mode, int32_t progress_mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = thread_mode;
  params.progress_mode = progress_mode;
  return try_worker(f, &params);
}

static ucxx_status_t try_numbers(fixture_t *f, int32_t delayed, int32_t takeover, int32_t cpu) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.delayed_submission = delayed;
  params.wait_takeover = takeover;
  params.cpu = cpu;
  return try_worker(f, &params);
}

static ucxx_status_t try_depth(fixture_t *f, uint32_t depth) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.submission_queue_depth = depth;
  return try_worker(f, &params);
}

static ucxx_status_t try_described(fixture_t *f, uint8_t describe_requests, uint8_t reserved) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.describe_requests = describe_requests;
  params.reserved[6] = reserved;
  return try_worker(f, &params);
}

static ucxx_status_t try_pinned(fixture_t *f, int32_t cpu) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  params.cpu = cpu;
  return try_worker(f, &params);
}

static ucxx_status_t try_bare_thread(fixture_t *f) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  ucxx_status_t status = ucxx_worker_create(f->bare.context, &params, &f->out.worker);
  if (status == UCXX_OK) ucxx_worker_destroy(f->out.worker);
  return status;
}

static ucxx_status_t try_event_fd(ucxx_worker_t *worker) {
  int fd = -7;
  ucxx_status_t status = ucxx_worker_event_fd(worker, &fd);
  if (status < 0) CHECK_EQ(fd, -7);
  return status;
}

static void never_run(void *arg) {
  (void)arg;
  FAIL("a refused function ran");
}

static void never_line(void *arg, const char *text) {
  (void)arg;
  FAIL("a refused dump printed: %s", text);
}

static ucxx_status_t query_worker(fixture_t *f, void *out) {
  return ucxx_worker_query(f->worker, out);
}

static ucxx_status_t query_worker_of(const ucxx_worker_t *worker) {
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  return ucxx_worker_query(worker, &attr);
}

static ucxx_status_t query_stats(fixture_t *f, void *out) {
  return ucxx_worker_query_stats(f->worker, out);
}

static ucxx_status_t query_stats_of(const ucxx_worker_t *worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  return ucxx_worker_query_stats(worker, &stats);
}

static ucxx_status_t try_worker_flush(fixture_t *f, const void *params) {
  ucxx_status_t status = ucxx_worker_flush(f->worker, params, &f->out.request);
  return status < 0 ? status : duo_finish(&f->duo, status, &f->out.request);
}

#define BAD_INPUT_ROWS "bad_input_worker.inc"
#define BAD_INPUT_TABLE bad_input_worker
#include "bad_input_table.h"
