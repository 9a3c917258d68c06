/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The actor itself: its worker, its way of progress, and its connection to the harness. */
#include "actor.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

ucxx_context_t *context;
ucxx_worker_t *worker;
bool threaded;
pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;

static enum drive drive = SLEEP;
static uint64_t violations;

/* ------------------------------------------------------------------ helpers */

bool word_is(const char *text, const char *word) { return strcmp(text, word) == 0; }

const char *short_name(ucxx_status_t status) {
  const char *name = ucxx_status_name(status) + strlen("UCXX_");
  return strncmp(name, "ERR_", strlen("ERR_")) == 0 ? name + strlen("ERR_") : name;
}

uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

const char *text_of(const command_t *command, const char *name, const char *otherwise) {
  for (size_t at = 0; at < command->count; at++)
    if (word_is(command->names[at], name)) return command->values[at];
  return otherwise;
}

uint64_t number_of(const command_t *command, const char *name, uint64_t otherwise) {
  const char *text = text_of(command, name, NULL);
  return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

/* One write per line, so that lines of two threads do not mix. */
static void say_list(const char *format, va_list arguments) {
  char text[16384];
  int length = vsnprintf(text, sizeof text - 1, format, arguments);
  if (length < 0 || (size_t)length >= sizeof text - 1) give_up("a line is too long");
  text[length++] = '\n';
  for (int at = 0; at < length;) {
    ssize_t written = write(STDOUT_FILENO, text + at, (size_t)(length - at));
    if (written < 0 && errno != EINTR) _exit(3);
    at += written > 0 ? (int)written : 0;
  }
}

void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say_list(format, arguments);
  va_end(arguments);
}

void answer(const command_t *command, ucxx_status_t status, const char *format, ...) {
  if (status < 0) {
    say("no %s status=%s %s", command->verb, short_name(status), ucxx_last_error_message());
    return;
  }
  char text[12288];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say("ok %s %s", command->verb, text);
}

void violation(const char *invariant, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  __atomic_add_fetch(&violations, 1, __ATOMIC_RELAXED);
  say("event violation invariant=%s %s", invariant, text);
}

void give_up(const char *why) {
  fprintf(stderr, "actor: %s\n", why);
  _exit(2);
}

static void check(ucxx_status_t status, const char *what) {
  if (status != UCXX_OK) {
    fprintf(stderr, "actor: %s: %s: %s\n", what, ucxx_status_name(status),
            ucxx_last_error_message());
    _exit(2);
  }
}

static void on_log(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg;
  fprintf(stderr, "log %d %s: %s\n", level, component, message);
}

/* ------------------------------------------------------------------ progress */

void progress_once(void) {
  if (worker != NULL && !threaded && drive != IDLE)
    check(ucxx_worker_progress(worker, NULL), "ucxx_worker_progress");
}

static bool readable(int limit) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&in, 1, limit) > 0;
}

/* Progresses until a command arrives. */
static void drive_on(void) {
  while (!readable(0)) {
    if (worker == NULL || threaded || drive == IDLE) {
      readable(-1);
      return;
    }
    uint32_t events = 0;
    check(ucxx_worker_progress(worker, &events), "ucxx_worker_progress");
    if (events > 0) continue;
    if (drive == SPIN) {
      sched_yield();
      continue;
    }
    int descriptor = -1;
    check(ucxx_worker_event_fd(worker, &descriptor), "ucxx_worker_event_fd");
    ucxx_status_t status = ucxx_worker_arm(worker);
    if (status == UCXX_ERR_BUSY) continue;
    check(status, "ucxx_worker_arm");
    struct pollfd both[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = descriptor, .events = POLLIN}};
    poll(both, 2, -1);
  }
}

/* ------------------------------------------------------------------ commands */

static void create_worker(const command_t *command) {
  static const struct {
    const char *name;
    int32_t thread_mode, progress_mode;
  } modes[] = {
      {"single", UCXX_THREAD_SINGLE, UCXX_PROGRESS_MANUAL},
      {"multi", UCXX_THREAD_MULTI, UCXX_PROGRESS_MANUAL},
      {"thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_ADAPTIVE},
      {"blocking", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_BLOCKING},
  };
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  const char *name = text_of(command, "mode", "single");
  params.submission_queue_depth = (uint32_t)number_of(command, "queue", 0);
  for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
    if (word_is(modes[at].name, name)) {
      params.thread_mode = modes[at].thread_mode;
      params.progress_mode = modes[at].progress_mode;
    }
  }
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.features =
      UCXX_FEATURE_TAG | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM | UCXX_FEATURE_WAKEUP;
  if (word_is(text_of(command, "features", "plain"), "rma"))
    context_params.features |= UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC;
  if (context == NULL) check(ucxx_context_create(&context_params, &context), "ucxx_context_create");
  check(ucxx_worker_create(context, &params, &worker), "ucxx_worker_create");
  threaded = params.progress_mode != UCXX_PROGRESS_MANUAL;
  ucxx_address_t *address = NULL;
  check(ucxx_worker_address(worker, &address), "ucxx_worker_address");
  const uint8_t *bytes = ucxx_address_data(address);
  size_t length = ucxx_address_length(address);
  char hex[8192];
  if (2 * length >= sizeof hex) give_up("the address is too long");
  for (size_t at = 0; at < length; at++) snprintf(hex + 2 * at, 3, "%02x", bytes[at]);
  ucxx_address_destroy(address);
  answer(command, UCXX_OK, "address=%s", hex);
}

static void destroy_worker(const command_t *command) {
  uint64_t start = now_ns();
  ucxx_worker_destroy(worker);
  worker = NULL;
  answer(command, UCXX_OK, "took=%" PRIu64, now_ns() - start);
}

/* Counts the entries of a folder, except links to something whose name begins with `apart`;
 * `others` counts these. */
static long entries(const char *path, const char *apart, long *others) {
  long count = 0;
  DIR *directory = opendir(path);
  if (directory == NULL) return -1;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char name[512], target[256] = "";
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (apart != NULL && readlink(name, target, sizeof target - 1) > 0 &&
        strncmp(target, apart, strlen(apart)) == 0)
      ++*others;
    else
      count++;
  }
  closedir(directory);
  return count;
}

/* Counts mappings; `shared` those of UCX's shared memory. */
static long mappings(long *shared) {
  long count = 0;
  char line[1024];
  FILE *file = fopen("/proc/self/maps", "r");
  if (file == NULL) return -1;
  while (fgets(line, sizeof line, file) != NULL) {
    count++;
    *shared += strstr(line, "/dev/shm/ucx_") != NULL;
  }
  fclose(file);
  return count;
}

static void footprint(const command_t *command) {
  long pages = 0, ignored;
  malloc_trim(0);
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
    give_up("no /proc/self/statm");
  fclose(file);
  /* The folder being read is one of the descriptors. */
  long segments = 0, shared = 0,
       descriptors = entries("/proc/self/fd", "/dev/shm/ucx_", &segments) - 1;
  long mapped = mappings(&shared);
  answer(command, UCXX_OK,
         "resident_kib=%ld mappings=%ld segments=%ld attached=%ld descriptors=%ld threads=%ld",
         pages * (sysconf(_SC_PAGESIZE) / 1024), mapped, segments, shared - segments, descriptors,
         entries("/proc/self/task", NULL, NULL));
}

static void counters(const command_t *command) {
  char totals[256];
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  operations_totals(totals, sizeof totals);
  if (worker != NULL) check(ucxx_worker_query_stats(worker, &stats), "ucxx_worker_query_stats");
  answer(command, UCXX_OK,
         "%s violations=%" PRIu64 " in_flight=%" PRIu64 " endpoints=%" PRIu64 " lent=%" PRIu64,
         totals, violations, stats.in_flight, stats.endpoints, buffers_lent());
}

static void forget(const command_t *command) {
  hubs_leave();
  size_t operations = operations_forget(), endpoints = connections_forget();
  multi_forget();
  rma_forget();
  buffers_forget();
  groups_forget();
  answer(command, UCXX_OK, "operations=%zu endpoints=%zu", operations, endpoints);
}

/* Drops messages that arrived and were kept or not received: they would stay for the worker's
 * life. */
static void sweep(const command_t *command) {
  ucxx_tag_message_t *message = NULL;
  ucxx_recv_info_t info;
  size_t swept = handlers_release() + multi_release();
  progress_once();
  while (ucxx_tag_probe(worker, 0, 0, &info, &message) == UCXX_OK) {
    ucxx_tag_message_destroy(message);
    message = NULL;
    swept++;
    progress_once();
  }
  answer(command, UCXX_OK, "swept=%zu", swept);
}

static void dump_line(void *arg, const char *text) {
  (void)arg;
  fprintf(stderr, "dump %s\n", text);
}

/* Closes everything in the documented order. */
static void leave(const command_t *command) {
  uint64_t start = now_ns();
  hubs_leave();
  connections_leave();
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  worker = NULL;
  context = NULL;
  uint64_t took = now_ns() - start;
  size_t left = operations_forget();
  /* Keys and memory outlive the objects they were made with. */
  rma_forget();
  multi_leave();
  buffers_forget();
  answer(command, UCXX_OK, "took=%" PRIu64 " left=%zu", took, left);
  exit(0);
}

static void obey(const command_t *command) {
  const char *verb = command->verb;
  if (command_operations(command) || command_handlers(command) || command_connections(command) ||
      command_groups(command) || command_multi(command) || command_rma(command) ||
      command_process_groups(command) || command_process_windows(command) || command_hubs(command))
    return;
  if (word_is(verb, "worker")) {
    create_worker(command);
  } else if (word_is(verb, "drive")) {
    const char *how = text_of(command, "how", "sleep");
    drive = word_is(how, "spin") ? SPIN : word_is(how, "idle") ? IDLE : SLEEP;
    answer(command, UCXX_OK, " ");
  } else if (word_is(verb, "destroy")) {
    destroy_worker(command);
  } else if (word_is(verb, "footprint")) {
    footprint(command);
  } else if (word_is(verb, "counters")) {
    counters(command);
  } else if (word_is(verb, "sweep")) {
    sweep(command);
  } else if (word_is(verb, "forget")) {
    forget(command);
  } else if (word_is(verb, "version")) {
    ucxx_version_t version = UCXX_VERSION_INIT;
    check(ucxx_version_query(&version), "ucxx_version_query");
    answer(command, UCXX_OK, "ucx=%u.%u.%u", version.ucx_major, version.ucx_minor,
           version.ucx_patch);
  } else if (word_is(verb, "dump")) {
    if (worker != NULL) ucxx_worker_dump(worker, dump_line, NULL);
    answer(command, UCXX_OK, " ");
  } else if (word_is(verb, "leave")) {
    leave(command);
  } else if (word_is(verb, "quit")) {
    /* Exits like a program that has closed nothing; exit handlers run. */
    exit(0);
  } else {
    give_up("unknown command");
  }
}

static void parse(char *line, command_t *command) {
  char *rest = NULL;
  memset(command, 0, sizeof *command);
  command->verb = strtok_r(line, " \n", &rest);
  for (char *word; (word = strtok_r(NULL, " \n", &rest)) != NULL;) {
    char *equals = strchr(word, '=');
    if (equals == NULL || command->count == sizeof command->names / sizeof *command->names)
      give_up("a command that cannot be read");
    *equals = '\0';
    command->names[command->count] = word;
    command->values[command->count++] = equals + 1;
  }
}

int main(void) {
  static char line[16384];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* Large buffers are returned to the system when freed, so that resident memory can be
   * compared. */
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  setvbuf(stdin, NULL, _IONBF, 0);
  check(ucxx_log_set_callback(on_log, NULL, UCXX_LOG_WARN), "ucxx_log_set_callback");
  for (;;) {
    command_t command;
    drive_on();
    if (fgets(line, sizeof line, stdin) == NULL) return 0;
    parse(line, &command);
    if (command.verb != NULL) obey(&command);
  }
}
