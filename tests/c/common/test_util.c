/* The checks, the guard and the process pairs of all test programs; see test_util.h. */
#include "test_util.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, WIREUP_TAG = 0x77697265 };

static char step_text[256] = "start";
static char program_text[64];
static unsigned guard_seconds = 300;
static volatile sig_atomic_t peer_pid;
static volatile sig_atomic_t peer_done;

/* ------------------------------------------------------------------ checks */

static void say(const char *text) {
  ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  (void)ignored;
}

static void on_alarm(int signal_number) {
  (void)signal_number;
  say(program_text);
  say(": hangs in step: ");
  say(step_text);
  say("\n");
  if (peer_pid > 0 && !peer_done) kill(peer_pid, SIGABRT);
  _exit(1);
}

void test_begin(const char *name) {
  const char *override = getenv("UCXX_TEST_SECONDS");
  snprintf(program_text, sizeof program_text, "%s", name);
  if (override != NULL) guard_seconds = (unsigned)strtoul(override, NULL, 10);
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  alarm(guard_seconds);
}

uint64_t clock_ns(void) {
  struct timespec time;
  CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &time), 0);
  return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

void test_step(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(step_text, sizeof step_text, format, arguments);
  va_end(arguments);
  alarm(guard_seconds);
  const char *told = getenv("UCXX_TEST_STEPS");
  if (told != NULL && *told != '\0') {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "%8.3f %s: %s\n", (double)(now.tv_sec % 1000) + (double)now.tv_nsec * 1e-9,
            program_text, step_text);
  }
}

void test_fail(const char *file, int line, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s:%d: %s: %s\n  step: %s\n  last error message: %s\n", file, line, program_text,
          text, step_text, ucxx_last_error_message());
  fflush(stderr);
  if (peer_pid > 0 && !peer_done) kill(peer_pid, SIGKILL);
  _exit(1);
}

void test_skip(const char *why) {
  printf("skipped: %s\n", why);
  exit(SKIPPED);
}

void test_check_eq(const char *file, int line, const char *left_text, long long left,
                   const char *right_text, long long right) {
  if (left != right)
    test_fail(file, line, "%s is %lld, expected %s = %lld", left_text, left, right_text, right);
}

void test_check_status(const char *file, int line, const char *text, ucxx_status_t status,
                       ucxx_status_t expected) {
  if (status != expected)
    test_fail(file, line, "%s gave %s (%d), expected %s", text, ucxx_status_name(status),
              (int)status, ucxx_status_name(expected));
}

void test_check_message(const char *file, int line, const char *word) {
  if (strstr(ucxx_last_error_message(), word) == NULL)
    test_fail(file, line, "the error message does not contain \"%s\"", word);
}

/* ------------------------------------------------------------------ contents */

uint64_t test_seed(void) {
  const char *given = getenv("UCXX_TEST_SEED");
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t seed = given != NULL ? strtoull(given, NULL, 0)
                                : test_mix((uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec);
  printf("UCXX_TEST_SEED=0x%llx\n", (unsigned long long)seed);
  fflush(stdout);
  return seed;
}

unsigned test_rounds(unsigned whole) {
  return getenv("UCXX_TEST_WHOLE") != NULL ? whole : (whole + 2) / 3;
}

uint64_t test_mix(uint64_t value) {
  value += UINT64_C(0x9e3779b97f4a7c15);
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

uint16_t test_free_port(void) {
  static uint64_t tries;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(listener >= 0);
  do
    address.sin_port =
        htons((uint16_t)(10000 + test_mix((uint64_t)getpid() << 20 | ++tries) % 20000));
  while (bind(listener, (struct sockaddr *)&address, sizeof address) != 0);
  close(listener);
  return ntohs(address.sin_port);
}

void test_fill(void *data, size_t length, uint64_t seed) {
  uint8_t *bytes = data;
  for (size_t at = 0; at < length; at += 8) {
    uint64_t word = test_mix(seed + at);
    memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
  }
}

void test_check_content(const char *file, int line, const void *data, size_t length,
                        uint64_t seed) {
  const uint8_t *bytes = data;
  for (size_t at = 0; at < length; at += 8) {
    uint64_t word = test_mix(seed + at);
    if (memcmp(bytes + at, &word, length - at < 8 ? length - at : 8) != 0)
      test_fail(file, line, "contents differ at byte %zu of %zu (seed 0x%llx)", at, length,
                (unsigned long long)seed);
  }
}

void *test_alloc(size_t length) {
  void *data = malloc(length > 0 ? length : 1);
  if (data == NULL) FAIL("no memory for %zu bytes", length);
  return data;
}

/* ------------------------------------------------------------------ completions */

void see_completion(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  seen_t *seen = arg;
  seen->status = status;
  if (request == NULL) __atomic_add_fetch(&seen->null_requests, 1, __ATOMIC_RELEASE);
  __atomic_add_fetch(&seen->count, 1, __ATOMIC_RELEASE);
}

void see_endpoint(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  see_completion(arg, (ucxx_request_t *)endpoint, status);
}

int seen_count(const seen_t *seen) { return __atomic_load_n(&seen->count, __ATOMIC_ACQUIRE); }

ucxx_status_t finish(ucxx_status_t status, ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) {
    CHECK(*request == NULL);
    return status;
  }
  CHECK(*request != NULL);
  status = ucxx_request_wait(*request, FOR_EVER);
  CHECK(status != UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_status(*request), status);
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

void progress(ucxx_worker_t *worker) {
  uint32_t events = 0;
  ucxx_status_t status = ucxx_worker_progress(worker, &events);
  if (status != UCXX_ERR_BUSY) CHECK_OK(status);
  if (events == 0) sched_yield();
}

int has_tcp(void) {
  const char *transports = getenv("UCX_TLS");
  return transports == NULL || strstr(transports, "tcp") != NULL || strcmp(transports, "all") == 0;
}

/* ------------------------------------------------------------------ two processes */

static void on_child(int signal_number) {
  (void)signal_number;
  int saved = errno;
  int status = 0;
  if (peer_pid > 0 && !peer_done && waitpid(peer_pid, &status, WNOHANG) == peer_pid) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      say(program_text);
      say(WIFSIGNALED(status) ? ": the second process was killed by a signal"
                              : ": the second process failed");
      say("; this side is in step: ");
      say(step_text);
      say("\n");
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    peer_done = 1;
  }
  errno = saved;
}

static void run_second(char **argv, const char *name, void (*body)(pair_t *)) {
  /* If the first process dies, the kernel kills this one too. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pair_t pair = {.side = 1,
                 .channel = atoi(argv[2]),
                 .peer_pid = (int)getppid(),
                 .seed = strtoull(argv[3], NULL, 0)};
  test_begin(name);
  snprintf(program_text, sizeof program_text, "%s (second process)", name);
  body(&pair);
  close(pair.channel);
}

void in_every_mode(void (*round)(const ucxx_worker_params_t *params, const char *mode)) {
  static const struct {
    const char *name;
    int32_t thread_mode, progress_mode;
  } modes[] = {{"manual, one thread", UCXX_THREAD_SINGLE, UCXX_PROGRESS_MANUAL},
               {"manual, any thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_MANUAL},
               {"a progress thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_ADAPTIVE}};
  for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.thread_mode = modes[mode].thread_mode;
    params.progress_mode = modes[mode].progress_mode;
    round(&params, modes[mode].name);
  }
}

int pair_main(int argc, char **argv, const char *name, void (*body)(pair_t *pair)) {
  if (argc == 4 && strcmp(argv[1], "--second") == 0) {
    run_second(argv, name, body);
    return 0;
  }
  test_begin(name);
  struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
  sigaction(SIGCHLD, &action, NULL);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  pair_t pair = {.side = 0, .channel = ends[0], .seed = test_seed()};
  char number[16], seed[32];
  snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)pair.seed);
  sigset_t child_signal, before;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, &before);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    snprintf(number, sizeof number, "%d", dup(ends[1]));
    execlp(argv[0], argv[0], "--second", number, seed, (char *)NULL);
    _exit(127);
  }
  peer_pid = child;
  pair.peer_pid = (int)child;
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
  body(&pair);
  STEP("waiting for the second process to exit");
  sigset_t wait_mask = before;
  sigdelset(&wait_mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, NULL);
  while (!peer_done) sigsuspend(&wait_mask);
  close(pair.channel);
  return 0;
}

void channel_put(const pair_t *pair, const void *data, size_t length) {
  const uint8_t *bytes = data;
  while (length > 0) {
    ssize_t sent = send(pair->channel, bytes, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    CHECK(sent > 0);
    bytes += sent;
    length -= (size_t)sent;
  }
}

void channel_get(const pair_t *pair, void *data, size_t length) {
  uint8_t *bytes = data;
  while (length > 0) {
    ssize_t got = recv(pair->channel, bytes, length, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0);
    bytes += got;
    length -= (size_t)got;
  }
}

void pair_tell(const pair_t *pair) { channel_put(pair, "!", 1); }

void pair_await(const pair_t *pair) {
  char byte = 0;
  for (;;) {
    ssize_t got = recv(pair->channel, &byte, 1, MSG_DONTWAIT);
    if (got == 1) break;
    CHECK(got != 0);
    CHECK(errno == EAGAIN || errno == EINTR);
    if (pair->worker != NULL)
      progress(pair->worker);
    else
      sched_yield();
  }
  CHECK(byte == '!');
}

void pair_sync(const pair_t *pair) {
  pair_tell(pair);
  pair_await(pair);
}

ucxx_address_t *pair_exchange_address(const pair_t *pair, ucxx_worker_t *worker) {
  ucxx_address_t *own = NULL, *other = NULL;
  CHECK_OK(ucxx_worker_address(worker, &own));
  uint64_t length = ucxx_address_length(own);
  channel_put(pair, &length, sizeof length);
  channel_put(pair, ucxx_address_data(own), length);
  ucxx_address_destroy(own);
  channel_get(pair, &length, sizeof length);
  void *bytes = test_alloc(length);
  channel_get(pair, bytes, length);
  CHECK_OK(ucxx_address_from_bytes(bytes, length, &other));
  free(bytes);
  return other;
}

void pair_connect(pair_t *pair, const ucxx_context_params_t *context_params,
                  const ucxx_worker_params_t *worker_params,
                  const ucxx_endpoint_params_t *endpoint_params) {
  STEP("connecting the two processes");
  CHECK_OK(ucxx_context_create(context_params, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, worker_params, &pair->worker));
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, endpoint_params, &pair->endpoint));
  ucxx_address_destroy(address);
  uint64_t out = pair->seed, in = 0;
  ucxx_request_t *receive = NULL, *send = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(pair->worker, &in, sizeof in, WIREUP_TAG, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_tag_send(pair->endpoint, &out, sizeof out, WIREUP_TAG, NULL, &send);
  CHECK_OK(finish(sent, &send));
  CHECK_OK(finish(received, &receive));
  CHECK_EQ(in, out);
  pair_sync(pair);
}

ucxx_status_t close_patiently(ucxx_endpoint_t *endpoint, ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = PATIENTLY;
  return ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &params, request);
}

void pair_disconnect(pair_t *pair) {
  STEP("disconnecting the two processes");
  pair_sync(pair);
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(close_patiently(pair->endpoint, &request), &request));
  pair_sync(pair);
  ucxx_endpoint_destroy(pair->endpoint);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
  pair->endpoint = NULL;
  pair->worker = NULL;
  pair->context = NULL;
}

/* ------------------------------------------------------------------ two workers in one process */

ucxx_endpoint_t *connect_workers_as(ucxx_worker_t *from, ucxx_worker_t *to,
                                    const ucxx_endpoint_params_t *params) {
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(ucxx_worker_address(to, &address));
  CHECK_OK(ucxx_endpoint_create(from, address, params, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

ucxx_endpoint_t *connect_workers(ucxx_worker_t *from, ucxx_worker_t *to) {
  return connect_workers_as(from, to, NULL);
}

static void duo_create(duo_t *duo, const ucxx_context_params_t *context_params) {
  memset(duo, 0, sizeof *duo);
  CHECK_OK(ucxx_context_create(context_params, &duo->context));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->left));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->right));
}

/* One message each way. */
static void duo_greet(const duo_t *duo) {
  duo_transfer(duo, 8, 1);
  duo_t back = {duo->context, duo->right, duo->left, duo->to_left, duo->to_right};
  duo_transfer(&back, 8, 2);
}

void duo_open_as(duo_t *duo, const ucxx_context_params_t *context_params,
                 const ucxx_endpoint_params_t *params) {
  duo_create(duo, context_params);
  duo->to_right = connect_workers_as(duo->left, duo->right, params);
  duo->to_left = connect_workers_as(duo->right, duo->left, params);
  if (context_params == NULL || context_params->features == 0 ||
      (context_params->features & UCXX_FEATURE_TAG) != 0)
    duo_greet(duo);
}

void duo_open_seen(duo_t *duo, seen_t ends[2]) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = see_endpoint;
  duo_create(duo, NULL);
  params.on_close_arg = &ends[0];
  duo->to_right = connect_workers_as(duo->left, duo->right, &params);
  params.on_close_arg = &ends[1];
  duo->to_left = connect_workers_as(duo->right, duo->left, &params);
  duo_greet(duo);
}

void duo_open(duo_t *duo, const ucxx_context_params_t *context_params) {
  duo_open_as(duo, context_params, NULL);
}

void duo_drop(const duo_t *duo, ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(duo, close_patiently(endpoint, &request), &request));
  ucxx_endpoint_destroy(endpoint);
}

void duo_close(duo_t *duo) {
  duo_drop(duo, duo->to_right);
  duo_drop(duo, duo->to_left);
  ucxx_worker_destroy(duo->left);
  ucxx_worker_destroy(duo->right);
  ucxx_context_destroy(duo->context);
  memset(duo, 0, sizeof *duo);
}

void duo_progress(const duo_t *duo) {
  uint32_t left = 0, right = 0;
  CHECK_OK(ucxx_worker_progress(duo->left, &left));
  CHECK_OK(ucxx_worker_progress(duo->right, &right));
  if (left + right == 0) sched_yield();
}

ucxx_status_t duo_finish(const duo_t *duo, ucxx_status_t status, ucxx_request_t **request) {
  if (status != UCXX_INPROGRESS) {
    CHECK(*request == NULL);
    return status;
  }
  CHECK(*request != NULL);
  while ((status = ucxx_request_status(*request)) == UCXX_INPROGRESS) duo_progress(duo);
  ucxx_request_destroy(*request);
  *request = NULL;
  return status;
}

void duo_transfer(const duo_t *duo, size_t length, uint64_t seed) {
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, seed);
  memset(in, 0, length);
  ucxx_recv_info_t info = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  ucxx_request_t *receive = NULL, *send = NULL;
  uint64_t tag = test_mix(seed);
  ucxx_status_t received =
      ucxx_tag_recv(duo->right, in, length, tag, UINT64_MAX, &params, &receive);
  CHECK(received == UCXX_OK || received == UCXX_INPROGRESS);
  ucxx_status_t sent = ucxx_tag_send(duo->to_right, out, length, tag, NULL, &send);
  CHECK_OK(duo_finish(duo, sent, &send));
  CHECK_OK(duo_finish(duo, received, &receive));
  CHECK_EQ(info.length, length);
  CHECK(info.sender_tag == tag);
  CHECK_CONTENT(in, length, seed);
  free(out);
  free(in);
}

/* ------------------------------------------------------------------ what the process holds */

footprint_t footprint_now(void) {
  footprint_t now = {0};
  char line[512];
  FILE *status = fopen("/proc/self/status", "r");
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) now.resident_kib = strtol(line + 6, NULL, 10);
    if (strncmp(line, "Threads:", 8) == 0) now.threads = strtol(line + 8, NULL, 10);
  }
  fclose(status);
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL)
    if (strchr(line, '\n') != NULL) now.mappings++;
  fclose(maps);
  DIR *descriptors = opendir("/proc/self/fd");
  CHECK(descriptors != NULL);
  while (readdir(descriptors) != NULL) now.descriptors++;
  closedir(descriptors);
  return now;
}

/* Calls with which UCX maps another process's memory. It does so while it fills a slot of that
 * process's queue. */
static int is_mapping(long call) {
  static const long calls[] = {
      SYS_openat, SYS_lseek,    SYS_fstat, SYS_newfstatat, SYS_readlinkat,
      SYS_mmap,   SYS_munmap,   SYS_shmat, SYS_close,
#ifdef SYS_open
      SYS_open,   SYS_readlink,
#endif
  };
  for (size_t at = 0; at < sizeof calls / sizeof *calls; at++)
    if (calls[at] == call) return 1;
  return 0;
}

/* Whether each thread of a stopped process is in a system call where a kill harms no other process.
 * 0 while some thread still runs. 1 if the kernel does not tell. */
static int is_in_calls(pid_t pid) {
  char path[64], state[32];
  int all = 1;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *threads = opendir(path);
  CHECK(threads != NULL);
  for (struct dirent *thread; (thread = readdir(threads)) != NULL;) {
    if (thread->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/syscall", (int)pid, thread->d_name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    if (fgets(state, sizeof state, file) != NULL)
      all &= state[0] >= '0' && state[0] <= '9' && !is_mapping(atol(state));
    fclose(file);
  }
  closedir(threads);
  return all;
}

void stop_in_a_call(pid_t pid) {
  for (;;) {
    int status = 0;
    CHECK_EQ(kill(pid, SIGSTOP), 0);
    CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    if (is_in_calls(pid)) return;
    CHECK_EQ(kill(pid, SIGCONT), 0);
    sched_yield();
  }
}

void kill_in_a_call(pid_t pid) {
  stop_in_a_call(pid);
  CHECK_EQ(kill(pid, SIGKILL), 0);
}
