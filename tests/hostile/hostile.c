/*
 * Rounds of random calls: failures have a message and write no result, callbacks run as often as
 * promised, and nothing leaks. See README.md.
 *
 *   hostile [CALLS [ROUND]]     UCXX_TEST_SEED is the seed; with ROUND only that round
 */
#include "hostile.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <ucontext.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, CALLS_A_THREAD = 10000, RECENT = 12 };

char marker;
static char step[256];
#define ROUND_STEP(...) (snprintf(step, sizeof step, __VA_ARGS__), STEP("%s", step))
uint64_t round_seed;
static char text_of_mark[256];
static struct {
  caller_t caller;
  pthread_t thread;
  const char *recent[RECENT];
  int running;
} threads[THREADS];
static int pump_over;
static uint64_t weights;
static uint64_t callback_calls;
static struct {
  uint8_t bytes[4096];
  size_t length;
} known_bytes[3][4]; /* addresses, UCX's own addresses, remote keys */

/* ------------------------------------------------------------------ one call */

void begin(caller_t *c, const char *function) {
  c->function = function;
  c->taken_count = c->scratch_count = 0;
  c->home = NULL;
  c->record = NULL;
  c->op = NULL;
  /* An error of another function, so that a message left over cannot pass for this call's. */
  if (ucxx_version_query(NULL) != UCXX_ERR_INVALID_PARAM) FAIL("ucxx_version_query takes NULL");
}

void judge(caller_t *c, ucxx_status_t status) {
  record_t *record = c->record;
  if (record != NULL && status != (c->op != NULL ? UCXX_INPROGRESS : UCXX_OK))
    record->least = record->most = record->frees = 0;
  if (status == UCXX_ERR_PANIC) FAIL("%s: a panic", c->function);
  if (status >= 0) return;
  const char *message = ucxx_last_error_message();
  if (message[0] == 0 ||
      (strcmp(message, text_of_mark) == 0 && strcmp(c->function, "ucxx_version_query") != 0))
    FAIL("%s: %s without a message", c->function, ucxx_status_name(status));
  char text[2048];
  snprintf(text, sizeof text, "%s: %s", ucxx_status_name(status), message);
  if (strcmp(text, ucxx_error_text(status)) != 0)
    FAIL("%s: the text is %s, expected %s", c->function, ucxx_error_text(status), text);
}

void unwritten(caller_t *c, int written) {
  if (written) FAIL("%s: wrote a result although it failed", c->function);
}

void one_call(caller_t *c) {
  uint64_t weight = draw(c, weights);
  unsigned at = 0;
  while (weight >= calls[at].weight) weight -= calls[at++].weight;
  for (unsigned which = 0; which < THREADS; which++)
    if (c == &threads[which].caller) threads[which].recent[c->calls % RECENT] = calls[at].name;
  calls[at].run(c);
  __atomic_store_n(&c->calls, c->calls + 1, __ATOMIC_RELAXED);
  if (c->depth > 0) __atomic_add_fetch(&callback_calls, 1, __ATOMIC_RELAXED);
}

const void *bytes_of(caller_t *c, int what, size_t *length) {
  unsigned which = (unsigned)draw(c, 4);
  *length = known_bytes[what][which].length;
  if (what == 1) return known_bytes[what][which].bytes;
  uint8_t *bytes = scratch(c);
  memcpy(bytes, known_bytes[what][which].bytes, *length);
  switch (draw(c, 24)) {
  case 0: *length = draw(c, *length + 1); break;
  case 1: *length = SCRATCH; break;
  case 2: *length = one_in(c, 2) ? SIZE_MAX : 1; return NULL;
  case 3:
  case 4:
    if (*length > 0) bytes[draw(c, *length)] ^= (uint8_t)(1 << draw(c, 8));
    break;
  default: break;
  }
  return bytes;
}

/* ------------------------------------------------------------------ reports of failures */

/* The library writes nothing to stderr, so it is redirected to a file, and printed at the end. */
static int real_stderr, caught_stderr;

static off_t give_stderr_back(void) {
  char text[4096];
  off_t at = 0;
  for (ssize_t got; (got = pread(caught_stderr, text, sizeof text, at)) > 0; at += got)
    if (write(real_stderr, text, (size_t)got) < 0) break;
  return at;
}

/* Replaces _exit, for failed checks. */
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) {
  fflush(stderr);
  give_stderr_back();
  __real__exit(status);
}

static void catch_stderr(void) {
  FILE *file = tmpfile();
  CHECK(file != NULL);
  real_stderr = dup(STDERR_FILENO);
  caught_stderr = fileno(file);
  CHECK(real_stderr >= 0 && dup2(caught_stderr, STDERR_FILENO) == STDERR_FILENO);
}

static void write_text(const char *text) {
  ssize_t ignored = write(real_stderr, text, strlen(text));
  (void)ignored;
}

static void tell_where(void) {
  for (unsigned at = 0; at < THREADS; at++) {
    write_text("  a thread's calls:");
    for (uint64_t back = RECENT; back-- > 0;) {
      const char *name = threads[at].recent[(threads[at].caller.calls + RECENT - back) % RECENT];
      write_text(" ");
      write_text(name != NULL ? name : "-");
    }
    write_text("\n");
  }
}

/* An alarm comes from the guard: no thread makes progress. Both leave a core, if cores are
 * enabled. */
static void on_crash(int number, siginfo_t *info, void *context) {
  (void)info;
#ifdef __x86_64__
  /* A known crash of UCX ends the test as skipped: docs/known-issues.md. */
  Dl_info where;
  const ucontext_t *machine = context;
  if (number == SIGSEGV &&
      dladdr((void *)(uintptr_t)machine->uc_mcontext.gregs[REG_RIP], &where) != 0 &&
      where.dli_sname != NULL && strcmp(where.dli_sname, "ucp_ep_set_lanes_failed") == 0) {
    write_text("hostile: skipped: UCX crashes in ucp_ep_set_lanes_failed\n");
    __real__exit(77);
  }
#else
  (void)context;
#endif
  write_text(number == SIGALRM ? "hostile: hangs\n" : "hostile: ended by a signal\n");
  give_stderr_back();
  tell_where();
  /* File and offset of each frame of the thread that got the signal, for machines that keep no
   * cores. */
  void *frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), real_stderr);
  if (number == SIGALRM) {
    write_text("  ");
    write_text(step);
    write_text("\n");
    number = SIGABRT;
  }
  signal(number, SIG_DFL);
  raise(number);
}

/* ------------------------------------------------------------------ a round */

/* A thread that progresses and receives what nobody else does: an operation that waits for it would
 * otherwise wait without end. */
static void *pump(void *arg) {
  caller_t *c = calloc(1, sizeof *c);
  CHECK(c != NULL);
  c->random = *(uint64_t *)arg;
  while (!__atomic_load_n(&pump_over, __ATOMIC_ACQUIRE)) {
    for (int at = 0; at < 4; at++) {
      begin(c, "the progressing thread");
      ucxx_worker_t *worker = take(c, KIND_worker);
      ucxx_tag_message_t *message = NULL;
      ucxx_recv_info_t info;
      if (worker != NULL) {
        ucxx_worker_progress(worker, NULL);
        if (one_in(c, 4) && ucxx_tag_probe(worker, 0, 0, &info, &message) == UCXX_OK)
          ucxx_tag_message_destroy(message);
      }
      leave(c);
    }
    static const kind_t kinds[] = {KIND_am_message, KIND_tag_message, KIND_fetch, KIND_request};
    kind_t kind = kinds[draw(c, 4)];
    begin(c, "the progressing thread");
    void *handle = take_alone(c, kind);
    if (handle != NULL) {
      destroy_handle(kind, handle);
      gone(c);
    }
    leave(c);
    begin(c, "the progressing thread");
    ucxx_endpoint_t *endpoint = take(c, KIND_endpoint);
    if (endpoint != NULL && ucxx_am_queue_probe(endpoint, NULL) == UCXX_OK) {
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      record_t *record = new_record(c);
      params.callback = on_request;
      params.callback_arg = record;
      record->least = record->most = 1;
      if (ucxx_am_queue_recv(endpoint, NULL, &params, NULL) != UCXX_INPROGRESS)
        record->least = record->most = 0;
    }
    leave(c);
    usleep(100);
  }
  free(c);
  return NULL;
}

static void *call_at_random(void *arg) {
  caller_t *c = &threads[(size_t)arg].caller;
  for (uint64_t end = c->calls + CALLS_A_THREAD; c->calls < end;) one_call(c);
  __atomic_store_n(&threads[(size_t)arg].running, 0, __ATOMIC_RELEASE);
  return NULL;
}

static void know(int what, int which, const void *bytes, size_t length) {
  CHECK(length <= sizeof known_bytes[what][which].bytes);
  memcpy(known_bytes[what][which].bytes, bytes, length);
  known_bytes[what][which].length = length;
}

/* Objects from the start, so that few calls have nothing to work on. */
static void open_round(caller_t *c) {
  memset(pools, 0, sizeof pools);
  memset(known_bytes, 0, sizeof known_bytes);
  ucxx_context_t *full, *bare;
  ucxx_context_params_t all = UCXX_CONTEXT_PARAMS_INIT, am = UCXX_CONTEXT_PARAMS_INIT;
  all.features = 63;
  all.network = am.network = UCXX_NETWORK_LOCAL;
  am.features = UCXX_FEATURE_AM;
  CHECK_OK(ucxx_context_create(&all, &full));
  CHECK_OK(ucxx_context_create(&am, &bare));
  keep_at(NULL, KIND_context, full, 1);
  keep_at(NULL, KIND_context, bare, 1);
  static const int32_t modes[] = {UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_PROGRESS_THREAD_BLOCKING,
                                  UCXX_PROGRESS_MANUAL, UCXX_PROGRESS_MANUAL};
  slot_t *homes[4];
  for (int at = 0; at < 4; at++) {
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = modes[at];
    params.delayed_submission = one_in(c, 3) ? -1 : 1;
    ucxx_worker_t *worker;
    ucxx_address_t *address;
    CHECK_OK(ucxx_worker_create(at < 3 ? full : bare, &params, &worker));
    homes[at] = keep_at(NULL, KIND_worker, worker, 1);
    CHECK_OK(ucxx_worker_address(worker, &address));
    know(0, at, ucxx_address_data(address), ucxx_address_length(address));
    know(1, at, ucxx_address_data(address), ucxx_address_length(address));
    keep_at(NULL, KIND_address, address, 1);
    for (uint16_t id = 0; id < 4; id++) {
      begin(c, "the start");
      c->home = homes[at];
      record_t *record = new_record(c);
      record->most = INT32_MAX;
      record->frees = 1;
      CHECK_OK(ucxx_worker_set_am_handler(worker, id, on_am, record, on_free));
      record = new_record(c);
      record->most = INT32_MAX;
      CHECK_OK(ucxx_worker_set_fetch_handler(worker, id, on_fetch, record, NULL));
      CHECK_OK(ucxx_worker_set_multi_handler(worker, id, on_multi, record, NULL, NULL));
    }
  }
  for (int from = 0; from < 3; from++)
    for (int to = 0; to < 3; to++)
      keep_at(homes[from], KIND_endpoint, connect_workers(homes[from]->handle, homes[to]->handle),
              0);
  for (int at = 0; at < 2; at++) {
    ucxx_memory_t *memory;
    uint8_t bytes[1024];
    size_t length = sizeof bytes;
    if (at == 0) {
      static uint8_t registered[65536];
      CHECK_OK(
          ucxx_memory_register(full, registered, sizeof registered, UCXX_MEMORY_HOST, &memory));
    } else {
      CHECK_OK(ucxx_memory_allocate(full, 65536, UCXX_MEMORY_HOST, &memory));
    }
    keep_at(NULL, KIND_memory, memory, 1);
    CHECK_OK(ucxx_memory_pack(memory, bytes, &length));
    know(2, at, bytes, length);
    know(2, at + 2, bytes, length);
  }
  ucxx_listener_params_t listen = UCXX_LISTENER_PARAMS_INIT;
  begin(c, "the start");
  c->home = homes[0];
  record_t *record = new_record(c);
  record->most = INT32_MAX;
  listen.on_connect = on_connect;
  listen.on_connect_arg = record;
  ucxx_listener_t *listener;
  /* There is none if UCX has no TCP. */
  if (ucxx_listener_create(homes[0]->handle, &listen, &listener) == UCXX_OK)
    keep_at(homes[0], KIND_listener, listener, 1);
  ucxx_group_params_t group_params = UCXX_GROUP_PARAMS_INIT;
  group_params.size = 1;
  group_params.allgather = on_allgather;
  ucxx_group_t *group;
  CHECK_OK(ucxx_group_create(homes[2]->handle, &group_params, &group));
  keep_at(homes[2], KIND_group, group, 1);
  ucxx_window_t *window;
  void *base;
  CHECK_OK(ucxx_window_allocate(group, 4096, 1, NULL, &base, &window));
  keep_at(homes[2], KIND_window, window, 0);
  CHECK_OK(ucxx_window_create_dynamic(group, NULL, &window));
  keep_at(homes[2], KIND_window, window, 0);
  ucxx_hub_params_t hub_params = UCXX_HUB_PARAMS_INIT;
  hub_params.envelope_size = 1024;
  hub_params.worker = homes[0]->handle;
  ucxx_hub_t *hub;
  ucxx_memory_kind_t kind = {.memory_type = UCXX_MEMORY_HOST};
  CHECK_OK(ucxx_hub_create(full, &hub_params, &hub));
  keep_at(homes[0], KIND_hub, hub, 1);
  CHECK_OK(ucxx_hub_add_envelopes(hub, kind, 8));
  for (int32_t type = UCXX_LINK_PRODUCE; type <= UCXX_LINK_MODIFY; type++) {
    ucxx_link_t *link;
    CHECK_OK(ucxx_link_create(hub, type, kind, NULL, &link));
    keep_at(homes[0], KIND_link, link, 0);
  }
}

/* Destroys everything in a random order; the workers last or in between. */
static void close_round(caller_t *c) {
  int order[KINDS];
  for (int at = 0; at < KINDS; at++) order[at] = at;
  for (int at = KINDS - 1; at > 0; at--) {
    int other = (int)draw(c, (uint64_t)at + 1), kind = order[at];
    order[at] = order[other];
    order[other] = kind;
  }
  int quick = !one_in(c, 4);
  for (int pass = 0; pass < 2; pass++)
    for (int at = 0; at < KINDS; at++) {
      int first = order[at] == KIND_worker;
      /* Mostly the workers first: closing endpoints one by one takes seconds. Operations that name
       * memory have completed before the memory is destroyed. */
      if (quick ? first != (pass == 0)
                : (order[at] == KIND_worker || order[at] == KIND_memory) != (pass == 1))
        continue;
      if (!quick && order[at] == KIND_memory) continue;
      for (int place = 0; place < PLACES; place++)
        if (pools[order[at]][place].handle != NULL) {
          destroy_handle(order[at], pools[order[at]][place].handle);
          pools[order[at]][place].handle = NULL;
        }
    }
  for (int place = 0; place < PLACES; place++)
    if (pools[KIND_memory][place].handle != NULL)
      ucxx_memory_destroy(pools[KIND_memory][place].handle);
}

/* A process without threads of the library. It may have any number of descriptors. */
static const footprint_t alone = {.threads = 1, .descriptors = 1000};

/* A thread of the library that destroys workers may still be running. */
static footprint_t settled(const footprint_t *before) {
  footprint_t now = footprint_now();
  for (int wait = 0;
       wait < 2000 && (now.threads > before->threads || now.descriptors > before->descriptors);
       wait++) {
    usleep(10000);
    now = footprint_now();
  }
  malloc_trim(0);
  now.resident_kib = footprint_now().resident_kib;
  return now;
}

static void run_round(uint64_t seed, unsigned number) {
  caller_t *c = calloc(1, sizeof *c);
  CHECK(c != NULL);
  round_seed = c->random = test_mix(seed + number);
  ROUND_STEP("round %u of seed 0x%llx: the start", number, (unsigned long long)seed);
  __atomic_store_n(&over, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&pump_over, 0, __ATOMIC_RELEASE);
  open_round(c);
  pthread_t progresses;
  uint64_t pump_seed = draw(c, UINT64_MAX);
  CHECK(pthread_create(&progresses, NULL, pump, &pump_seed) == 0);
  for (size_t at = 0; at < THREADS; at++) {
    threads[at].caller.random = draw(c, UINT64_MAX);
    threads[at].running = 1;
    CHECK(pthread_create(&threads[at].thread, NULL, call_at_random, (void *)at) == 0);
  }
  for (size_t at = 0; at < THREADS;) {
    ROUND_STEP("round %u of seed 0x%llx: a call of %s", number, (unsigned long long)seed,
               threads[at].recent[threads[at].caller.calls % RECENT]);
    uint64_t before = __atomic_load_n(&threads[at].caller.calls, __ATOMIC_RELAXED);
    /* The guard ends the test if no thread makes progress. */
    while (__atomic_load_n(&threads[at].running, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&threads[at].caller.calls, __ATOMIC_RELAXED) < before + 100)
      usleep(1000);
    if (!threads[at].running) {
      CHECK(pthread_join(threads[at].thread, NULL) == 0);
      at++;
    }
  }
  ROUND_STEP("round %u of seed 0x%llx: the end", number, (unsigned long long)seed);
  __atomic_store_n(&pump_over, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(progresses, NULL) == 0);
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  close_round(c);
  ROUND_STEP("round %u of seed 0x%llx: the callbacks", number, (unsigned long long)seed);
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  settled(&alone);
  CHECK_EQ(check_records(), 0);
  CHECK_EQ(allocations_left(), 0);
  free(c);
}

int main(int argc, char **argv) {
  uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : 120000, made = 0;
  int only = argc > 2 ? atoi(argv[2]) : -1;
  test_begin("hostile");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  if (version.ucx_major == 1 && version.ucx_minor < 14 && argc < 2)
    test_skip("UCX 1.13 ends the process by its own assertions (tcp_sockcm_ep.c:416, "
              "ucp_worker.inl:92), one round in twenty or so");
  static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM};
  catch_stderr();
  for (size_t at = 0; at < sizeof signals / sizeof *signals; at++)
    sigaction(signals[at], &(struct sigaction){.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO},
              NULL);
  CHECK(ucxx_version_query(NULL) < 0);
  snprintf(text_of_mark, sizeof text_of_mark, "%s", ucxx_last_error_message());
  for (unsigned at = 0; at < call_count; at++) weights += calls[at].weight;
  uint64_t seed = test_seed();
  enum { WARM_UP = 3 };
  footprint_t first = alone, last = {0};
  unsigned number = only < 0 ? 0 : (unsigned)only, rounds = 0;
  while (made < wanted) {
    run_round(seed, number++);
    made += THREADS * CALLS_A_THREAD;
    if (fflush(stderr) != 0 || lseek(caught_stderr, 0, SEEK_END) != 0)
      FAIL("the library has written to stderr");
    last = settled(&first);
    if (rounds++ < WARM_UP) first = last;
    printf("round %u: %llu calls, %llu from callbacks; %ld KiB resident, %ld mappings, %ld "
           "descriptors, %ld threads\n",
           number - 1, (unsigned long long)made, (unsigned long long)callback_calls,
           last.resident_kib, last.mappings, last.descriptors, last.threads);
    fflush(stdout);
    if (only >= 0) break;
    /* For past peers UCX keeps a few pages a round, and mappings; a leak of the callers or the
     * library would be larger. */
    if (last.threads != 1 || (rounds > WARM_UP && last.descriptors > first.descriptors + 2))
      FAIL("%ld threads and %ld descriptors are left", last.threads, last.descriptors);
  }
  return 0;
}
