/* The attributes of a worker and its context, and functions run on a worker. */
#include "test_util.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

static duo_t duo;

typedef struct run {
  int count;
  pthread_t thread;
  ucxx_status_t inside;
} run_t;

static void note(void *arg) {
  run_t *run = arg;
  run->count++;
  run->thread = pthread_self();
  run->inside = ucxx_tag_send(duo.to_right, "message", 8, 0x31, NULL, NULL);
}

static void run_here(void) {
  STEP("run_pre and run_post run at once with manual progress");
  run_t run = {0, pthread_self(), UCXX_OK};
  for (int time = 0; time < 4; time++) {
    uint64_t timeout = time % 2 == 0 ? FOR_EVER : 0, word = 0;
    CHECK_OK(time < 2 ? ucxx_worker_run_pre(duo.left, note, &run, timeout)
                      : ucxx_worker_run_post(duo.left, note, &run, timeout));
    CHECK_EQ(run.count, time + 1);
    CHECK(pthread_equal(run.thread, pthread_self()));
    CHECK_OK(run.inside);
    ucxx_request_t *request = NULL;
    CHECK_OK(duo_finish(
        &duo, ucxx_tag_recv(duo.right, &word, sizeof word, 0x31, UINT64_MAX, NULL, &request),
        &request));
    CHECK(memcmp(&word, "message", 8) == 0);
  }
}

static void query(void) {
  STEP("query");
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(duo.left, &attr));
  CHECK_EQ(attr.thread_mode, UCXX_THREAD_MULTI);
  CHECK_EQ(attr.progress_mode, UCXX_PROGRESS_MANUAL);
  CHECK_EQ(attr.delayed_submission, 0);
  CHECK_EQ(attr.progress_thread_running, 0);
  CHECK_EQ(attr.progress_thread_id, 0);
  CHECK(attr.name[0] == 0);
  ucxx_endpoint_attr_t endpoint = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(duo.to_right, &endpoint));
  CHECK(endpoint.local_address[0] == 0 && endpoint.remote_address[0] == 0);
  CHECK_EQ(endpoint.same_host, 1);
}

static void names(void) {
  STEP("the names of workers");
  static const char longest[] = "a name with sixty-four bytes of which the struct has room for 63";
  static const char *const given[] = {"one", "", longest,
                                      "a name that is longer than the struct "
                                      "has room for, so that it is cut there"};
  CHECK_EQ(strlen(longest), 64);
  for (size_t at = 0; at < sizeof given / sizeof *given; at++) {
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    ucxx_worker_t *worker = NULL;
    params.name = given[at];
    CHECK_OK(ucxx_worker_create(duo.context, &params, &worker));
    ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
    CHECK_OK(ucxx_worker_query(worker, &attr));
    CHECK(strlen(attr.name) == (strlen(given[at]) < 63 ? strlen(given[at]) : 63));
    CHECK(strncmp(attr.name, given[at], strlen(attr.name)) == 0);
    /* A caller whose struct has no name. */
    ucxx_worker_attr_t older;
    memset(&older, 'x', sizeof older);
    older.struct_size = offsetof(ucxx_worker_attr_t, name);
    CHECK_OK(ucxx_worker_query(worker, &older));
    CHECK_EQ(older.max_am_header, attr.max_am_header);
    for (size_t byte = 0; byte < sizeof older.name; byte++) CHECK_EQ(older.name[byte], 'x');
    ucxx_worker_destroy(worker);
  }
}

static void stats(void) {
  STEP("stats");
  ucxx_worker_stats_t before = UCXX_WORKER_STATS_INIT, now = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(duo.right, &before));
  uint64_t words[2];
  ucxx_request_t *requests[2] = {NULL};
  for (int at = 0; at < 2; at++)
    CHECK_STATUS(ucxx_tag_recv(duo.right, &words[at], 8, 0x32 + (uint64_t)at, UINT64_MAX, NULL,
                               &requests[at]),
                 UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_query_stats(duo.right, &now));
  CHECK_EQ(now.in_flight - before.in_flight, 2);
  CHECK_EQ(now.submitted - before.submitted, 2);
  CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, 0x32, NULL, NULL));
  CHECK_OK(ucxx_request_cancel(requests[1]));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &requests[0]));
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &requests[1]), UCXX_ERR_CANCELED);
  CHECK_OK(ucxx_worker_query_stats(duo.right, &now));
  CHECK_EQ(now.in_flight, before.in_flight);
  CHECK_EQ(now.canceled - before.canceled, 1);
  CHECK_EQ(now.bytes_received - before.bytes_received, 8);
  CHECK(now.progress_calls > before.progress_calls);
  CHECK(now.endpoints >= 1);
}

typedef struct text {
  int lines;
  size_t bytes;
  int endpoint, in_flight;
} text_t;

static void take_line(void *arg, const char *line) {
  text_t *text = arg;
  CHECK(line != NULL);
  CHECK(strchr(line, '\n') == NULL);
  text->lines++;
  text->bytes += strlen(line);
  text->endpoint |= strstr(line, "endpoint") != NULL;
  text->in_flight |= strstr(line, "tag") != NULL;
}

static void dump(void) {
  STEP("dump");
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  text_t text = {0, 0, 0, 0};
  CHECK_STATUS(ucxx_tag_recv(duo.left, &word, 8, 0x33, UINT64_MAX, NULL, &request),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_dump(duo.left, take_line, &text));
  CHECK(text.lines >= 3);
  CHECK(text.bytes > 40);
  CHECK(text.endpoint);
  CHECK(text.in_flight);
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
}

static void fence(void) {
  STEP("fence between sends");
  static uint64_t words[100];
  for (uint64_t at = 0; at < 100; at++) {
    words[at] = at;
    CHECK(ucxx_tag_send(duo.to_right, &words[at], sizeof words[at], 0x34, NULL, NULL) >= 0);
    CHECK_OK(ucxx_worker_fence(duo.left));
  }
  for (uint64_t at = 0; at < 100; at++) {
    uint64_t word = UINT64_MAX;
    ucxx_request_t *request = NULL;
    CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, &word, 8, 0x34, UINT64_MAX, NULL, &request),
                        &request));
    CHECK_EQ(word, at);
  }
}

typedef struct keys {
  int count;
  int prefixed;
  char keepalive[64];
  char threshold[64];
  uint64_t all; /* depends on every name and value */
} keys_t;

static void take_key(void *arg, const char *key, const char *value) {
  keys_t *keys = arg;
  CHECK(key != NULL && value != NULL);
  keys->count++;
  keys->prefixed += strncmp(key, "UCX_", 4) == 0;
  if (strcmp(key, "KEEPALIVE_INTERVAL") == 0)
    snprintf(keys->keepalive, sizeof keys->keepalive, "%s", value);
  if (strcmp(key, "RNDV_THRESH") == 0)
    snprintf(keys->threshold, sizeof keys->threshold, "%s", value);
  for (const char *at = key; *at != 0; at++) keys->all = test_mix(keys->all + (uint8_t)*at);
  for (const char *at = value; *at != 0; at++) keys->all = test_mix(keys->all + (uint8_t)*at);
}

typedef struct described {
  int lines, versions, features, resources, set;
} described_t;

static void take_context_line(void *arg, const char *text) {
  described_t *described = arg;
  CHECK(text != NULL && text[0] != 0 && strchr(text, '\n') == NULL);
  described->lines++;
  described->versions += strstr(text, "ucxx_rs ") != NULL && strstr(text, "UCX ") != NULL;
  described->features += strstr(text, "features tag,stream,am,wakeup") != NULL;
  described->resources += strstr(text, "resource ") != NULL && strchr(text, '/') != NULL;
  described->set += strcmp(text, "  KEEPALIVE_INTERVAL=7s, set by the program") == 0;
}

static void describe(const ucxx_context_t *context) {
  STEP("a context in lines");
  described_t described = {0, 0, 0, 0, 0};
  CHECK_OK(ucxx_context_dump(context, take_context_line, &described));
  CHECK(described.lines > 4 && described.resources > 0);
  CHECK_EQ(described.versions, 1);
  CHECK_EQ(described.features, 1);
  CHECK_EQ(described.set, 1);
}

static void config(void) {
  STEP("effective configuration");
  ucxx_config_entry_t entry = {"KEEPALIVE_INTERVAL", "7s"};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.config = &entry;
  params.config_count = 1;
  params.name = "tests";
  ucxx_context_t *context = NULL;
  keys_t keys;
  memset(&keys, 0, sizeof keys);
  CHECK_OK(ucxx_context_create(&params, &context));
  CHECK_OK(ucxx_context_visit_config(context, take_key, &keys));
  CHECK(keys.count > 20);
  /* The keys are returned as they were set: without UCX's prefix. */
  CHECK_EQ(keys.prefixed, 0);
  CHECK(strncmp(keys.keepalive, "7", 1) == 0);
  (void)ucxx_context_has_cuda(context);
  describe(context);
  ucxx_context_destroy(context);
}

static void config_without_context(void) {
  STEP("configuration without a context");
  keys_t made, before, told;
  memset(&made, 0, sizeof made);
  memset(&before, 0, sizeof before);
  memset(&told, 0, sizeof told);
  CHECK_OK(ucxx_context_visit_config(duo.context, take_key, &made));
  CHECK_OK(ucxx_config_visit(take_key, &before));
  CHECK(before.count > 20 && before.prefixed == 0);
  CHECK(before.count == made.count && before.all == made.all);
  const char *old = getenv("UCX_RNDV_THRESH");
  char *kept = old == NULL ? NULL : strdup(old);
  CHECK_EQ(setenv("UCX_RNDV_THRESH", "4321", 1), 0);
  CHECK_OK(ucxx_config_visit(take_key, &told));
  CHECK(strstr(told.threshold, "4321") != NULL);
  CHECK_EQ(setenv("UCX_RNDV_THRESH", "no size", 1), 0);
  memset(&told, 0, sizeof told);
  CHECK(ucxx_config_visit(take_key, &told) < 0);
  CHECK_MESSAGE("environment");
  CHECK_EQ(told.count, 0);
  if (kept != NULL)
    CHECK_EQ(setenv("UCX_RNDV_THRESH", kept, 1), 0);
  else
    CHECK_EQ(unsetenv("UCX_RNDV_THRESH"), 0);
  free(kept);
}

/* Whether a socket of this process listens on an address other than 127.0.0.1. */
static int listens_outside(void) {
  char line[512];
  int outside = 0;
  FILE *table = fopen("/proc/self/net/tcp", "r");
  CHECK(table != NULL);
  while (fgets(line, sizeof line, table) != NULL) {
    unsigned address, state;
    unsigned long inode;
    if (sscanf(line, " %*d: %8x:%*x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &address, &state,
               &inode) != 3)
      continue;
    enum { LISTEN = 0x0a, LOOPBACK = 0x7f };
    if (state != LISTEN || (address & 0xff) == LOOPBACK) continue;
    DIR *descriptors = opendir("/proc/self/fd");
    CHECK(descriptors != NULL);
    char wanted[64], path[300], target[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
      snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
      ssize_t length = readlink(path, target, sizeof target - 1);
      if (length < 0) continue;
      target[length] = 0;
      outside |= strcmp(wanted, target) == 0;
    }
    closedir(descriptors);
  }
  fclose(table);
  return outside;
}

static void local_network(void) {
  STEP("UCXX_NETWORK_LOCAL listens on the loopback interface only");
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.network = UCXX_NETWORK_LOCAL;
  duo_t local;
  duo_open(&local, &params);
  CHECK(!listens_outside());
  duo_transfer(&local, 100000, 1);
  CHECK(!listens_outside());
  duo_close(&local);
}

int main(void) {
  test_begin("worker");
  local_network();
  duo_open(&duo, NULL);
  run_here();
  query();
  stats();
  names();
  dump();
  fence();
  config();
  config_without_context();
  duo_close(&duo);
  return 0;
}
