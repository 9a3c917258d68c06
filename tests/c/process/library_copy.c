/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A shared library that uses ucxx_rs; see library_copies.c. */
#include "library_copies.h"

#include "../common/rma.h"

#include <sched.h>
#include <stdatomic.h>

enum { TAG = 100 };

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static ucxx_notifier_t *notifier;
static ucxx_memory_t *memory;
static ucxx_address_t *own_address;
static ucxx_endpoint_t *endpoints[COPIES];
static ucxx_rkey_t *rkeys[COPIES];
static uint64_t words[2];
static uint8_t packed[LONGEST_KEY];
static size_t packed_length;
static atomic_int log_lines;
static int notified;

static void count_line(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg, (void)level, (void)message;
  /* UCX has one log for the whole process. */
  if (strcmp(component, "ucx") != 0) log_lines++;
}

static void begin(const char *name) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t with_thread = UCXX_WORKER_PARAMS_INIT;
  test_begin(name);
  CHECK_OK(ucxx_log_set_callback(count_line, NULL, UCXX_LOG_DEBUG));
  params.features = RMA_FEATURES | UCXX_FEATURE_AM;
  CHECK_OK(ucxx_context_create(&params, &context));
  with_thread.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  CHECK_OK(ucxx_worker_create(context, &with_thread, &worker));
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  CHECK_OK(ucxx_worker_address(worker, &own_address));
  memset(words, 0, sizeof words);
  CHECK_OK(ucxx_memory_register(context, words, sizeof words, UCXX_MEMORY_HOST, &memory));
  packed_length = pack(memory, packed);
}

static const void *address(size_t *length) {
  *length = ucxx_address_length(own_address);
  return ucxx_address_data(own_address);
}

static const void *key(size_t *length) {
  *length = packed_length;
  return packed;
}

static void connect_to(int to, const void *bytes, size_t length, const void *other_key,
                       size_t key_length) {
  ucxx_address_t *other;
  if (rkeys[to] != NULL) ucxx_rkey_destroy(rkeys[to]);
  ucxx_endpoint_destroy(endpoints[to]);
  CHECK_OK(ucxx_address_from_bytes(bytes, length, &other));
  CHECK_OK(ucxx_endpoint_create(worker, other, NULL, &endpoints[to]));
  ucxx_address_destroy(other);
  CHECK_OK(ucxx_rkey_unpack(endpoints[to], other_key, key_length, &rkeys[to]));
}

static void send_word(int to, uint64_t word) {
  static uint64_t kept[16];
  static unsigned next;
  uint64_t *place = &kept[next++ % 16];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  *place = word;
  params.notifier = notifier;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  ucxx_status_t status = ucxx_tag_send(endpoints[to], place, sizeof *place, TAG, &params, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  for (size_t count = 0; count == 0; notified += (int)count) {
    ucxx_completion_t completion;
    CHECK_OK(ucxx_notifier_poll(notifier, &completion, sizeof completion, 1, &count));
    if (count == 1) CHECK_OK(completion.status);
  }
}

static uint64_t receive(int from) {
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  (void)from;
  done(ucxx_tag_recv(worker, &word, sizeof word, TAG, UINT64_MAX, NULL, &request), &request);
  return word;
}

static uint64_t add(int to, uint64_t operand) {
  return atomic(rkeys[to], UCXX_ATOMIC_ADD, 8, operand, 0, 8);
}

static uint64_t memory_word(void) { return __atomic_load_n(&words[1], __ATOMIC_SEQ_CST); }

static const char *error(const char *argument) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *none = NULL;
  if (argument != NULL) {
    params.struct_size = 1;
    CHECK(ucxx_context_create(&params, &none) == UCXX_ERR_INVALID_PARAM && none == NULL);
  }
  return ucxx_last_error_message();
}

static int lines(void) { return log_lines; }

/* A message without a handler. */
static void log_a_line(int to) {
  const int before = log_lines;
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_am_send(endpoints[to], 9, NULL, 0, "", 1, NULL, &request), &request));
  while (log_lines == before) sched_yield();
}
static int count_notified(void) { return notified; }

static const void *code(void) {
  const void *place;
  ucxx_status_t (*function)(ucxx_context_t *, ucxx_notifier_t **) = ucxx_notifier_create;
  memcpy(&place, &function, sizeof place);
  return place;
}

static void end(void) {
  for (int i = 0; i < COPIES; i++) {
    if (rkeys[i] != NULL) ucxx_rkey_destroy(rkeys[i]);
    ucxx_endpoint_destroy(endpoints[i]);
    rkeys[i] = NULL, endpoints[i] = NULL;
  }
  ucxx_memory_destroy(memory);
  ucxx_address_destroy(own_address);
  ucxx_worker_destroy(worker);
  ucxx_notifier_destroy(notifier);
  ucxx_context_destroy(context);
}

__attribute__((visibility("default"))) const copy_t *copy_functions(void);

const copy_t *copy_functions(void) {
  static const copy_t functions = {
      begin,       address, key,   connect_to, send_word,      receive, add,
      memory_word, error,   lines, log_a_line, count_notified, code,    end};
  return &functions;
}
