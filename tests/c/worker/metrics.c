/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Metrics agree with what was done: messages, bytes, one-sided operations, failures by status,
 * hubs, groups and windows.
 *
 * With an argument, a number, it sends so many messages, prints the metrics of its context, and
 * waits until its standard input ends: for tests/metrics/test_metrics.py. */
#include "hub.h"
#include "rma.h"

/* duo_open sends one message of 8 bytes each way. */
enum { FIRST = 1, FIRST_BYTES = 8 };
enum { MESSAGES = 40, LENGTH = 1000, TAG = 7, HANDLER = 3, PUTS = 5, GETS = 4, ATOMICS = 3 };

typedef struct text {
  char *data;
  size_t length;
} text_t;

static void append(void *arg, const char *line) {
  text_t *text = arg;
  size_t more = strlen(line);
  text->data = realloc(text->data, text->length + more + 2);
  CHECK(text->data != NULL);
  memcpy(text->data + text->length, line, more);
  memcpy(text->data + text->length + more, "\n", 2);
  text->length += more + 1;
}

/* Sums the samples with this name and this text among their labels; -1 if there are none. */
static long long sum(const text_t *text, const char *name, const char *label) {
  long long total = -1;
  for (const char *line = text->data; *line != 0; line = strchr(line, '\n') + 1) {
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != '{') continue;
    const char *end = strchr(line, '\n'), *found = strstr(line, label);
    if (found == NULL || found > end) continue;
    const char *value = end;
    while (value[-1] != ' ') value--;
    total = (total < 0 ? 0 : total) + atoll(value);
  }
  return total;
}

static int count_of(const text_t *text, const char *what) {
  int count = 0;
  for (const char *at = text->data; (at = strstr(at, what)) != NULL; at++) count++;
  return count;
}

#define METRICS_OF(kind, object)                              \
  text_t text = {NULL, 0};                                    \
  CHECK_OK(ucxx_##kind##_metrics((object), append, &text));   \
  CHECK(strcmp(text.data + text.length - 6, "# EOF\n") == 0); \
  CHECK_EQ(count_of(&text, "# EOF"), 1)
#define EXPECT(name, label, value) CHECK_EQ(sum(&text, name, label), (value))

static void keep_count(void *arg, ucxx_am_message_t *message) {
  *(int *)arg += 1;
  ucxx_am_message_destroy(message);
}

static void send_messages(duo_t *duo, int count) {
  for (int at = 0; at < count; at++) duo_transfer(duo, LENGTH, (uint64_t)at);
}

static void send_to_handler(duo_t *duo, int count) {
  int handled = 0;
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, HANDLER, keep_count, &handled, NULL));
  for (int at = 0; at < count; at++) {
    ucxx_request_t *sent = NULL;
    ucxx_status_t status = ucxx_am_send(duo->to_right, HANDLER, NULL, 0, "data", 4, NULL, &sent);
    CHECK_OK(duo_finish(duo, status, &sent));
  }
  while (handled < count) duo_progress(duo);
}

static void fail_some(duo_t *duo) {
  char small[4];
  for (int at = 0; at < 2; at++) {
    ucxx_request_t *received = NULL, *sent = NULL;
    ucxx_status_t receiving =
        ucxx_tag_recv(duo->right, small, sizeof small, TAG, UINT64_MAX, NULL, &received);
    ucxx_status_t sending = ucxx_tag_send(duo->to_right, "longer", 6, TAG, NULL, &sent);
    CHECK_OK(duo_finish(duo, sending, &sent));
    CHECK_STATUS(duo_finish(duo, receiving, &received), UCXX_ERR_MESSAGE_TRUNCATED);
  }
  ucxx_request_t *never = NULL;
  ucxx_status_t status =
      ucxx_tag_recv(duo->right, small, sizeof small, TAG, UINT64_MAX, NULL, &never);
  CHECK_OK(ucxx_request_cancel(never));
  CHECK_STATUS(duo_finish(duo, status, &never), UCXX_ERR_CANCELED);
}

static void act_on_memory(duo_t *duo) {
  uint8_t key[LONGEST_KEY];
  uint64_t words[4] = {1, 2, 3, 4};
  ucxx_memory_t *memory = NULL;
  ucxx_rkey_t *rkey = NULL;
  CHECK_OK(ucxx_memory_allocate(duo->context, 4096, UCXX_MEMORY_HOST, &memory));
  memset(ucxx_memory_base(memory), 0, 4096);
  size_t length = pack(memory, key);
  CHECK_OK(ucxx_rkey_unpack(duo->to_right, key, length, &rkey));
  ucxx_request_t *request = NULL;
  for (int at = 0; at < PUTS; at++)
    CHECK_OK(duo_finish(
        duo, ucxx_rma_put(rkey, words, sizeof words, 64 * (uint64_t)at, NULL, &request), &request));
  for (int at = 0; at < GETS; at++)
    CHECK_OK(duo_finish(duo, ucxx_rma_get(rkey, words, sizeof words, 0, NULL, &request), &request));
  uint64_t one = 1;
  for (int at = 0; at < ATOMICS; at++)
    CHECK_OK(duo_finish(
        duo, ucxx_rma_atomic(rkey, UCXX_ATOMIC_ADD, 8, &one, NULL, NULL, 4000, NULL, &request),
        &request));
  CHECK_OK(duo_finish(duo, ucxx_endpoint_flush(duo->to_right, NULL, &request), &request));
  ucxx_rkey_destroy(rkey);
  ucxx_memory_destroy(memory);
}

/* Operations of one sort, by UCX and on memory that is mapped here. */
static long long one_sided(const text_t *text, const char *label) {
  long long by_ucx = sum(text, "ucxx_worker_operations_completed_total", label);
  long long mapped = sum(text, "ucxx_worker_mapped_operations_total", label);
  return (by_ucx < 0 ? 0 : by_ucx) + (mapped < 0 ? 0 : mapped);
}

static void workers(void) {
  duo_t duo;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = RMA_FEATURES | UCXX_FEATURE_AM;
  duo_open(&duo, &params);
  send_messages(&duo, MESSAGES);
  send_to_handler(&duo, MESSAGES);
  fail_some(&duo);
  act_on_memory(&duo);

  STEP("the sender");
  {
    METRICS_OF(worker, duo.left);
    EXPECT("ucxx_worker_operations_submitted_total", "operation=\"tag_send\"",
           FIRST + MESSAGES + 2);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"tag_send\"",
           FIRST + MESSAGES + 2);
    EXPECT("ucxx_worker_sent_bytes_total", "operation=\"tag_send\"",
           FIRST_BYTES + MESSAGES * LENGTH + 2 * 6);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"am_send\"", MESSAGES);
    EXPECT("ucxx_worker_sent_bytes_total", "operation=\"am_send\"", MESSAGES * 4);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"tag_recv\"", FIRST);
    EXPECT("ucxx_worker_operations_failed_total", "", -1);
    EXPECT("ucxx_worker_operations_in_flight", "", 0);
    CHECK_EQ(one_sided(&text, "operation=\"put\""), PUTS);
    CHECK_EQ(one_sided(&text, "operation=\"get\""), GETS);
    CHECK_EQ(one_sided(&text, "operation=\"atomic\""), ATOMICS);
    CHECK(sum(&text, "ucxx_worker_progress_passes_total", "") > 0);
    EXPECT("ucxx_worker_endpoints", "", 1);
    free(text.data);
  }
  STEP("the receiver");
  {
    METRICS_OF(worker, duo.right);
    EXPECT("ucxx_worker_operations_submitted_total", "operation=\"tag_recv\"",
           FIRST + MESSAGES + 3);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"tag_recv\"", FIRST + MESSAGES);
    EXPECT("ucxx_worker_received_bytes_total", "operation=\"tag_recv\"",
           FIRST_BYTES + MESSAGES * LENGTH);
    EXPECT("ucxx_worker_operations_failed_total", "status=\"UCXX_ERR_MESSAGE_TRUNCATED\"", 2);
    EXPECT("ucxx_worker_operations_failed_total", "status=\"UCXX_ERR_CANCELED\"", 1);
    EXPECT("ucxx_worker_messages_received_total", "message=\"active_message\"", MESSAGES);
    EXPECT("ucxx_worker_received_bytes_total", "operation=\"active_message\"", MESSAGES * 4);
    /* Both ways of counting agree. */
    ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
    CHECK_OK(ucxx_worker_query_stats(duo.right, &stats));
    CHECK_EQ(stats.submitted, sum(&text, "ucxx_worker_operations_submitted_total", ""));
    CHECK_EQ(stats.completed, sum(&text, "ucxx_worker_operations_completed_total", ""));
    CHECK_EQ(stats.failed + stats.canceled, sum(&text, "ucxx_worker_operations_failed_total", ""));
    CHECK_EQ(stats.bytes_received, sum(&text, "ucxx_worker_received_bytes_total", ""));
    free(text.data);
  }
  STEP("the endpoint");
  {
    METRICS_OF(endpoint, duo.to_right);
    EXPECT("ucxx_endpoint_open", "", 1);
    EXPECT("ucxx_endpoint_queued_operations", "", 0);
    EXPECT("ucxx_endpoint_credit_short", "", 0);
    EXPECT("ucxx_endpoint_info", "status=\"UCXX_OK\"", 1);
    CHECK(sum(&text, "ucxx_endpoint_operations_sent_total", "") >= 2 * MESSAGES + 2);
    CHECK(sum(&text, "ucxx_endpoint_sent_bytes_total", "") >= MESSAGES * (LENGTH + 4));
    free(text.data);
  }
  STEP("the context");
  {
    METRICS_OF(context, duo.context);
    CHECK_EQ(count_of(&text, "# TYPE ucxx_worker_endpoints "), 1);
    EXPECT("ucxx_worker_endpoints", "", 2);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"tag_send\"",
           2 * FIRST + MESSAGES + 2);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"tag_recv\"",
           2 * FIRST + MESSAGES);
    free(text.data);
  }
  duo_close(&duo);
}

/* A receiver that keeps its messages: the sender's wait for credit. */
static void credit(void) {
  STEP("waits for credit");
  enum { SENDS = 300, CREDIT = 256 };
  duo_t duo;
  static ucxx_request_t *requests[SENDS];
  duo_open(&duo, NULL);
  int handled = 0;
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, HANDLER, keep_count, &handled, NULL));
  for (int at = 0; at < SENDS; at++) {
    requests[at] = NULL;
    CHECK(ucxx_am_send(duo.to_right, HANDLER, NULL, 0, "x", 1, NULL, &requests[at]) >= 0);
  }
  {
    METRICS_OF(worker, duo.left);
    CHECK(sum(&text, "ucxx_worker_credit_waits_total", "") >= 1);
    CHECK(sum(&text, "ucxx_worker_credit_waits_total", "") <= SENDS - CREDIT + 1);
    CHECK(sum(&text, "ucxx_worker_sends_waiting", "") >= SENDS - CREDIT);
    free(text.data);
  }
  {
    METRICS_OF(endpoint, duo.to_right);
    EXPECT("ucxx_endpoint_credit_short", "", 1);
    CHECK(sum(&text, "ucxx_endpoint_queued_operations", "") >= SENDS - CREDIT);
    free(text.data);
  }
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT;
  ucxx_request_t *none = NULL;
  CHECK_STATUS(ucxx_am_send(duo.to_right, HANDLER, NULL, 0, "x", 1, &params, &none),
               UCXX_ERR_NO_RESOURCE);
  while (handled < SENDS) duo_progress(&duo);
  for (int at = 0; at < SENDS; at++)
    if (requests[at] != NULL) CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &requests[at]));
  {
    METRICS_OF(worker, duo.left);
    EXPECT("ucxx_worker_sends_waiting", "", 0);
    EXPECT("ucxx_worker_sends_refused_total", "", 1);
    EXPECT("ucxx_worker_operations_completed_total", "operation=\"am_send\"", SENDS);
    free(text.data);
  }
  duo_close(&duo);
}

static void hubs(void) {
  STEP("a hub");
  hub_t hub = hub_open(64, 3, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  for (int at = 0; at < 10; at++) {
    CHECK_OK(ucxx_envelope_commit(lease_now(in), 8, NULL));
    if (at < 9) CHECK_OK(ucxx_envelope_commit(lease_now(out), 0, NULL));
  }
  ucxx_envelope_t *held = lease_now(in);
  METRICS_OF(hub, hub.hub);
  EXPECT("ucxx_hub_envelopes", "", 3);
  EXPECT("ucxx_hub_chunks_produced_total", "", 10);
  EXPECT("ucxx_hub_chunks_consumed_total", "", 9);
  EXPECT("ucxx_hub_queue_chunks", "", 1);
  EXPECT("ucxx_hub_envelopes_leased", "", 1);
  EXPECT("ucxx_hub_envelopes_free", "", 1);
  EXPECT("ucxx_hub_links", "role=\"produce\"", 1);
  EXPECT("ucxx_hub_links", "role=\"peek\"", 0);
  free(text.data);
  CHECK_OK(ucxx_envelope_abort(held, NULL));
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static ucxx_status_t gather_alone(void *arg, const void *in, size_t length, void *out) {
  (void)arg;
  memcpy(out, in, length);
  return UCXX_OK;
}

static void windows(void) {
  STEP("a group and a window");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_group_t *group = NULL;
  ucxx_window_t *window = NULL;
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_CALLBACKS;
  params.size = 1;
  params.allgather = gather_alone;
  void *base = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_group_create(worker, &params, &group));
  CHECK_OK(ucxx_window_allocate(group, 64, 8, NULL, &base, &window));
  CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  int64_t word = 5, before = 0, two = 2;
  ucxx_layout_t one;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_INT64, 1);
  for (int at = 0; at < PUTS; at++) CHECK_OK(ucxx_window_put(window, &word, &one, 0, 0, &one));
  for (int at = 0; at < GETS; at++) CHECK_OK(ucxx_window_get(window, &word, &one, 0, 1, &one));
  for (int at = 0; at < ATOMICS; at++)
    CHECK_OK(
        ucxx_window_fetch_and_op(window, &two, &before, UCXX_TYPE_INT64, 0, 2, UCXX_REDUCE_SUM));
  CHECK_STATUS(ucxx_window_put(window, &word, &one, 0, 1000, &one), UCXX_ERR_RMA_RANGE);
  CHECK_OK(ucxx_window_flush(window, 0));
  {
    METRICS_OF(window, window);
    EXPECT("ucxx_window_data_calls_total", "call=\"put\",path=\"mapped\"", PUTS);
    EXPECT("ucxx_window_data_calls_total", "call=\"get\"", GETS);
    EXPECT("ucxx_window_data_calls_total", "call=\"accumulate\"", ATOMICS);
    EXPECT("ucxx_window_data_bytes_total", "call=\"put\"", PUTS * 8);
    EXPECT("ucxx_window_failed_total", "status=\"UCXX_ERR_RMA_RANGE\"", 1);
    EXPECT("ucxx_window_locks_total", "", 1);
    EXPECT("ucxx_window_lock_waits_total", "", 0);
    EXPECT("ucxx_window_flushes_total", "", 1);
    free(text.data);
  }
  CHECK_OK(ucxx_group_barrier(group));
  {
    METRICS_OF(group, group);
    EXPECT("ucxx_group_members", "", 1);
    CHECK(sum(&text, "ucxx_group_collectives_total", "collective=\"barrier\"") >= 1);
    EXPECT("ucxx_worker_info", "name=\"ucxx_group\"", 1);
    free(text.data);
  }
  {
    METRICS_OF(context, context);
    EXPECT("ucxx_window_data_calls_total", "call=\"put\"", PUTS);
    EXPECT("ucxx_group_members", "", 1);
    free(text.data);
  }
  CHECK_OK(ucxx_window_unlock(window, 0));
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  ucxx_group_destroy(group);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

/* For tests/metrics/test_metrics.py. */
static int show(int count) {
  duo_t duo;
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = RMA_FEATURES | UCXX_FEATURE_AM;
  duo_open(&duo, &params);
  send_messages(&duo, count);
  send_to_handler(&duo, count);
  fail_some(&duo);
  act_on_memory(&duo);
  METRICS_OF(context, duo.context);
  fputs(text.data, stdout);
  fflush(stdout);
  while (getchar() != EOF) continue;
  free(text.data);
  duo_close(&duo);
  return 0;
}

int main(int argc, char **argv) {
  test_begin("metrics");
  if (argc > 1) return show(atoi(argv[1]));
  workers();
  credit();
  hubs();
  windows();
  return 0;
}
