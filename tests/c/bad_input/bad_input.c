/* Runs the table of bad input (bad_input.h) row by row: every refused call returns the documented
 * error, changes nothing, and leaves the worker usable. */
#include "bad_input.h"
#include "rma.h"

#define GROUPS(GROUP) \
  GROUP(context)      \
  GROUP(worker)       \
  GROUP(address)      \
  GROUP(request)      \
  GROUP(endpoint)     \
  GROUP(listener)     \
  GROUP(tag)          \
  GROUP(am)           \
  GROUP(stream)       \
  GROUP(fetch)        \
  GROUP(memory)       \
  GROUP(notifier)     \
  GROUP(window)       \
  GROUP(hub)

#define DECLARE(group) extern const bad_input_row_t bad_input_##group[];
GROUPS(DECLARE)

static const void *const mark = &mark;

const ucxx_op_params_t *op_flags(fixture_t *f, uint64_t flags) {
  ucxx_op_params_init(&f->op, sizeof f->op);
  f->op.flags = flags;
  return &f->op;
}

static void must_not_run(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)arg;
  (void)request;
  FAIL("the callback of a refused operation ran with %s", ucxx_status_name(status));
}

const ucxx_op_params_t *op_flags_callback(fixture_t *f, uint64_t flags) {
  op_flags(f, flags);
  f->op.callback = must_not_run;
  return &f->op;
}

const ucxx_op_params_t *op_memory(fixture_t *f, int32_t memory_type) {
  op_flags(f, 0);
  f->op.memory_type = memory_type;
  return &f->op;
}

void fill_entries(ucxx_buffer_t *entries, void *data, uint64_t length, int32_t memory_type) {
  memset(entries, 0, 2 * sizeof *entries);
  for (int at = 0; at < 2; at++) {
    entries[at].data = data;
    entries[at].length = length;
    entries[at].memory_type = memory_type;
  }
}

void fill_remote(fixture_t *f, enum remote which) {
  test_fill(f->remote[which].bytes, REMOTE_BYTES, (uint64_t)which);
}

void *sized(fixture_t *f, size_t struct_size, size_t nonzero_at) {
  memset(&f->sized, 0, sizeof f->sized);
  f->sized.struct_size = struct_size;
  if (nonzero_at != 0) f->sized.bytes[nonzero_at] = 1;
  return &f->sized;
}

ucxx_status_t sized_output(fixture_t *f, size_t known,
                           ucxx_status_t (*query)(fixture_t *f, void *out)) {
  enum { TAIL = 64 };
  CHECK(known + TAIL < sizeof f->sized);
  memset(&f->sized, 0xa5, sizeof f->sized);
  f->sized.struct_size = known + TAIL;
  ucxx_status_t status = query(f, &f->sized);
  if (status == UCXX_OK) {
    for (size_t at = known; at < known + TAIL; at++) CHECK_EQ(f->sized.bytes[at], 0);
    CHECK_EQ(f->sized.bytes[known + TAIL], 0xa5);
    CHECK_EQ(f->sized.struct_size, known + TAIL);
  }
  return status;
}

static void set_marks(fixture_t *f) {
  f->out.context = (ucxx_context_t *)mark;
  f->out.worker = (ucxx_worker_t *)mark;
  f->out.address = (ucxx_address_t *)mark;
  f->out.endpoint = (ucxx_endpoint_t *)mark;
  f->out.request = (ucxx_request_t *)mark;
  f->out.message = (ucxx_tag_message_t *)mark;
  f->out.notifier = (ucxx_notifier_t *)mark;
  f->out.listener = (ucxx_listener_t *)mark;
  f->out.memory = (ucxx_memory_t *)mark;
  f->out.rkey = (ucxx_rkey_t *)mark;
  f->out.pointer = (void *)mark;
}

static int marks_stand(const fixture_t *f) {
  return f->out.context == mark && f->out.worker == mark && f->out.address == mark &&
         f->out.endpoint == mark && f->out.request == mark && f->out.message == mark &&
         f->out.notifier == mark && f->out.listener == mark && f->out.memory == mark &&
         f->out.rkey == mark && f->out.pointer == mark;
}

static void open_remote(fixture_t *f) {
  for (int which = 0; which < REMOTES; which++) {
    uint8_t key[LONGEST_KEY];
    if (which == ALLOCATED)
      CHECK_OK(ucxx_memory_allocate(f->context, REMOTE_BYTES, UCXX_MEMORY_HOST,
                                    &f->remote[which].memory));
    else
      CHECK_OK(ucxx_memory_register(f->context, test_alloc(REMOTE_BYTES), REMOTE_BYTES,
                                    UCXX_MEMORY_HOST, &f->remote[which].memory));
    f->remote[which].bytes = ucxx_memory_base(f->remote[which].memory);
    fill_remote(f, which);
    size_t length = pack(f->remote[which].memory, key);
    CHECK_OK(ucxx_rkey_unpack(f->endpoint, key, length, &f->remote[which].rkey));
    CHECK_OK(ucxx_rkey_unpack(f->closed, key, length, &f->remote[which].closed));
  }
}

static void close_remote(fixture_t *f) {
  for (int which = 0; which < REMOTES; which++) {
    ucxx_rkey_destroy(f->remote[which].rkey);
    ucxx_rkey_destroy(f->remote[which].closed);
    ucxx_memory_destroy(f->remote[which].memory);
  }
  free(f->remote[REGISTERED].bytes);
}

static void fixture_open(fixture_t *f) {
  memset(f, 0, sizeof *f);
  ucxx_context_params_t all = UCXX_CONTEXT_PARAMS_INIT;
  all.features = RMA_FEATURES | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM;
  duo_open(&f->duo, &all);
  f->context = f->duo.context;
  f->worker = f->duo.left;
  f->endpoint = f->duo.to_right;
  ucxx_request_t *request = NULL;
  f->closed = connect_workers(f->duo.left, f->duo.right);
  open_remote(f);
  CHECK_OK(duo_finish(&f->duo, ucxx_endpoint_close(f->closed, UCXX_CLOSE_FORCE, NULL, &request),
                      &request));
  CHECK_STATUS(
      ucxx_tag_recv(f->worker, f->bytes, 8, UINT64_C(0x6e6f7468), UINT64_MAX, NULL, &f->pending),
      UCXX_INPROGRESS);
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = UCXX_FEATURE_AM;
  duo_open(&f->bare, &params);
}

static void fixture_close(fixture_t *f) {
  CHECK_STATUS(ucxx_request_status(f->pending), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(f->pending));
  CHECK_STATUS(duo_finish(&f->duo, UCXX_INPROGRESS, &f->pending), UCXX_ERR_CANCELED);
  close_remote(f);
  ucxx_endpoint_destroy(f->closed);
  duo_close(&f->bare);
  duo_close(&f->duo);
}

/* Checks the row's status, message and out-parameters. A failed row does not stop the others. */
static int judge(const fixture_t *f, const bad_input_row_t *row, ucxx_status_t status) {
  const char *message = ucxx_last_error_message();
  if (status == LEFT_OUT) return 1;
  if (row->expected == ANY_ERROR ? status >= 0 : status != row->expected) {
    fprintf(stderr, "%s: gave %s, expected %s; message: %s\n", row->name, ucxx_status_name(status),
            row->expected == ANY_ERROR ? "an error" : ucxx_status_name(row->expected), message);
    return 0;
  }
  if (status >= 0) return 1;
  if (!marks_stand(f)) {
    fprintf(stderr, "%s: a failed call wrote an out-parameter\n", row->name);
    return 0;
  }
  if (row->word != NULL && strstr(message, row->word) == NULL) {
    fprintf(stderr, "%s: the error message does not contain \"%s\": %s\n", row->name, row->word,
            message);
    return 0;
  }
  return 1;
}

static int run_row(fixture_t *f, const bad_input_row_t *row, uint64_t seed, int *left_out) {
  STEP("row %s", row->name);
  /* Another error first, so that a message left from an earlier row cannot pass for this row's. */
  CHECK_STATUS(ucxx_version_query(NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("version");
  set_marks(f);
  ucxx_status_t status = row->run(f);
  *left_out += status == LEFT_OUT;
  int right = judge(f, row, status);
  STEP("transfer after row %s", row->name);
  /* After a flush, the data of a put that was wrongly sent has arrived. */
  ucxx_request_t *flushed = NULL;
  CHECK_OK(duo_finish(&f->duo, ucxx_endpoint_flush(f->endpoint, NULL, &flushed), &flushed));
  for (int which = 0; which < REMOTES; which++)
    CHECK_CONTENT(f->remote[which].bytes, REMOTE_BYTES, (uint64_t)which);
  duo_transfer(&f->duo, 8, seed);
  duo_transfer(&f->duo, 40000, seed + 1);
  return right;
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : NULL;
  test_begin("bad_input");
  uint64_t seed = test_seed();
  static fixture_t fixture;
  fixture_open(&fixture);
  int count = 0, wrong = 0, left_out = 0;
#define TABLE(group) bad_input_##group,
  const bad_input_row_t *const tables[] = {GROUPS(TABLE) NULL};
  for (size_t at = 0; tables[at] != NULL; at++)
    for (const bad_input_row_t *row = tables[at]; row->name != NULL; row++)
      if (only == NULL || strcmp(only, row->name) == 0) {
        wrong += !run_row(&fixture, row, seed + (uint64_t)count * 100, &left_out);
        count++;
      }
  STEP("closing");
  fixture_close(&fixture);
  CHECK(count > 0);
  printf("%d rows, %d failed, %d skipped\n", count, wrong, left_out);
  if (has_tcp()) CHECK_EQ(left_out, 0);
  return wrong > 0;
}
