/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
#include "harness.h"

#include "cuda.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t other_side = -1;
static int buffers_are = WHERE_HOST, on_side;
static const char *where; /* of each side, or of both */

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

static long number(const char *name, const char *text, long lowest) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno != 0 || *text == '\0' || *end != '\0' || value < lowest)
    die("--%s: '%s' is not a number of at least %ld", name, text, lowest);
  return value;
}

/* The index of `text` among the names, which end with NULL. */
static int choice(const char *name, const char *text, const char *const *names) {
  for (int at = 0; names[at] != NULL; at++)
    if (strcmp(text, names[at]) == 0) return at;
  die("--%s: '%s' is not known", name, text);
}

void harness_read(int argc, char **argv, struct options *options) {
  static const struct option known[] = {{"size", required_argument, NULL, 's'},
                                        {"iterations", required_argument, NULL, 'n'},
                                        {"batches", required_argument, NULL, 'b'},
                                        {"warmup", required_argument, NULL, 'w'},
                                        {"window", required_argument, NULL, 'W'},
                                        {"error-handling", required_argument, NULL, 'e'},
                                        {"cpus", required_argument, NULL, 'c'},
                                        {"markers", no_argument, NULL, 'm'},
                                        {"side", required_argument, NULL, 'S'},
                                        {"socket", required_argument, NULL, 'f'},
                                        {"producers", required_argument, NULL, 'P'},
                                        {"seconds", required_argument, NULL, 't'},
                                        {"progress", required_argument, NULL, 'p'},
                                        {"completion", required_argument, NULL, 'C'},
                                        {"thread-cpu", required_argument, NULL, 'T'},
                                        {"protocol", required_argument, NULL, 'r'},
                                        {"operation", required_argument, NULL, 'o'},
                                        {"memory", required_argument, NULL, 'M'},
                                        {"where", required_argument, NULL, 'L'},
                                        {"processes", required_argument, NULL, 'N'},
                                        {"only", required_argument, NULL, 'O'},
                                        {"own-memory", required_argument, NULL, 'U'},
                                        {"busy", required_argument, NULL, 'B'},
                                        {"hosts", required_argument, NULL, 'H'},
                                        {NULL, 0, NULL, 0}};
  static const char *const progress[] = {"manual", "adaptive", "polling", "blocking", NULL};
  static const char *const completion[] = {"poll", "wait", "callback", "notifier", NULL};
  static const char *const protocol[] = {"default", "eager", "rendezvous", NULL};
  static const char *const operation[] = {"put", "get", "add", NULL};
  static const char *const memory[] = {"allocated", "registered", NULL};
  int key;
  while ((key = getopt_long(argc, argv, "", known, NULL)) != -1) {
    switch (key) {
    case 's': options->size = (size_t)number("size", optarg, 1); break;
    case 'n': options->iterations = number("iterations", optarg, 1); break;
    case 'b': options->batches = number("batches", optarg, 1); break;
    case 'w': options->warmup = number("warmup", optarg, 0); break;
    case 'W': options->window = number("window", optarg, 1); break;
    case 'e':
      if (strcmp(optarg, "peer") != 0 && strcmp(optarg, "none") != 0)
        die("--error-handling: peer or none");
      options->peer_errors = strcmp(optarg, "peer") == 0;
      break;
    case 'c':
      if (strcmp(optarg, "none") == 0)
        options->cpu[0] = options->cpu[1] = -1;
      else if (sscanf(optarg, "%d,%d", &options->cpu[0], &options->cpu[1]) != 2)
        die("--cpus: two numbers such as 0,1, or none");
      break;
    case 'P': options->producers = number("producers", optarg, 1); break;
    case 't': options->seconds = number("seconds", optarg, 1); break;
    case 'T': options->thread_cpu = (int)number("thread-cpu", optarg, 0); break;
    case 'p': options->progress = choice("progress", optarg, progress); break;
    case 'C': options->completion = choice("completion", optarg, completion); break;
    case 'r': options->protocol = choice("protocol", optarg, protocol); break;
    case 'o': options->operation = choice("operation", optarg, operation); break;
    case 'M': options->memory = choice("memory", optarg, memory); break;
    case 'L': where = optarg; break;
    case 'N': options->processes = number("processes", optarg, 1); break;
    case 'O': options->only = optarg; break;
    case 'U': options->own_memory = number("own-memory", optarg, 0) != 0; break;
    case 'B': options->busy_us = number("busy", optarg, 0); break;
    case 'H': options->hosts = number("hosts", optarg, 1); break;
    case 'm': options->markers = 1; break;
    case 'S': options->side = (int)number("side", optarg, 0); break;
    case 'f': options->socket = (int)number("socket", optarg, 0); break;
    default: exit(2);
    }
  }
  if (optind != argc) die("unexpected argument '%s'", argv[optind]);
}

void harness_pin(int cpu) {
  cpu_set_t set;
  if (cpu < 0) return;
  CPU_ZERO(&set);
  CPU_SET((unsigned)cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    die("cannot pin to CPU %d: %s", cpu, strerror(errno));
}

static void start_other_side(int argc, char **argv, struct options *options) {
  int ends[2];
  char number_text[16];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    die("socketpair: %s", strerror(errno));
  pid_t parent = getpid();
  other_side = fork();
  if (other_side < 0) die("fork: %s", strerror(errno));
  if (other_side > 0) {
    close(ends[1]);
    options->socket = ends[0];
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  int end = dup(ends[1]); /* the copy has no close-on-exec flag */
  snprintf(number_text, sizeof number_text, "%d", end);
  char **arguments = calloc((size_t)argc + 5, sizeof *arguments);
  if (end < 0 || arguments == NULL) _exit(1);
  memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
  arguments[argc] = (char *)"--side";
  arguments[argc + 1] = (char *)"1";
  arguments[argc + 2] = (char *)"--socket";
  arguments[argc + 3] = number_text;
  /* Read the link instead of following it: under valgrind it leads to valgrind. */
  static char program[4096];
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) _exit(1);
  execv(program, arguments);
  _exit(127);
}

/* "cuda" is for both sides, "cuda,host" for side 0 and for side 1. */
static int kind_of_buffers(void) {
  static const char *const kinds[] = {"host", "pinned", "cuda", "managed", NULL};
  const char *comma = strchr(where, ',');
  char mine[16];
  if (comma != NULL && on_side != 0) where = comma + 1;
  snprintf(mine, sizeof mine, "%.*s", (int)strcspn(where, ","), where);
  return choice("where", mine, kinds);
}

void harness_start(int argc, char **argv, int two_processes, struct options *options) {
  options->thread_cpu = -1;
  harness_read(argc, argv, options);
  if (two_processes && options->side == 0) start_other_side(argc, argv, options);
  harness_pin(options->cpu[options->side != 0]);
  on_side = options->side;
  if (where != NULL) buffers_are = kind_of_buffers();
}

static void send_all(int socket, const void *data, size_t length) {
  const char *at = data;
  while (length > 0) {
    ssize_t sent = send(socket, at, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) die("the other side has gone");
    at += sent;
    length -= (size_t)sent;
  }
}

static void receive_all(int socket, void *data, size_t length) {
  char *at = data;
  while (length > 0) {
    ssize_t received = recv(socket, at, length, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) die("the other side has gone");
    at += received;
    length -= (size_t)received;
  }
}

void *harness_exchange(const struct options *options, const void *mine, size_t length,
                       size_t *other_length) {
  uint64_t size = length;
  send_all(options->socket, &size, sizeof size);
  send_all(options->socket, mine, length);
  receive_all(options->socket, &size, sizeof size);
  void *other = malloc(size);
  if (other == NULL) die("no memory for an address of %llu bytes", (unsigned long long)size);
  receive_all(options->socket, other, size);
  *other_length = size;
  return other;
}

void harness_signal(const struct options *options) { send_all(options->socket, "", 1); }

int harness_signalled(const struct options *options) {
  char mark;
  ssize_t received = recv(options->socket, &mark, 1, MSG_DONTWAIT);
  if (received == 0) die("the other side has gone");
  return received == 1;
}

void harness_await(const struct options *options) {
  char mark;
  receive_all(options->socket, &mark, sizeof mark);
}

int harness_wants(const struct options *options, const char *name) {
  const size_t length = strlen(name);
  if (options->only == NULL) return 1;
  for (const char *at = options->only; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return 1;
  }
  return 0;
}

void harness_finish(const struct options *options) {
  int status;
  if (options->side != 0 || other_side < 0) return;
  while (waitpid(other_side, &status, 0) < 0)
    if (errno != EINTR) die("waitpid: %s", strerror(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    die("the other side failed (wait status %d)", status);
}

uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static unsigned char *host_buffer(size_t length) {
  void *memory;
  if (posix_memalign(&memory, 4096, length) != 0)
    die("no memory for a buffer of %zu bytes", length);
  memset(memory, 0x5a, length);
  return memory;
}

/* The stream on which this process fills and checks its buffers. */
static void *gpu(void) {
  static void *stream;
  if (stream != NULL) return stream;
  const int devices = cuda_open();
  if (devices == 0) die("--where: there is no GPU with a CUDA driver here");
  cuda_enter(on_side % devices);
  return stream = cuda_stream();
}

unsigned char *buffer_create(size_t length) {
  uint64_t address = 0;
  void *memory = NULL;
  if (buffers_are == WHERE_HOST) return host_buffer(length);
  gpu();
  switch (buffers_are) {
  case WHERE_PINNED: CUDA_MUST(cuda.allocate_pinned(&memory, length, 1)); break;
  case WHERE_CUDA: CUDA_MUST(cuda.allocate(&address, length)); break;
  default:
    if (cuda.allocate_managed == NULL) die("the CUDA driver has no managed memory");
    CUDA_MUST(cuda.allocate_managed(&address, length, 1));
  }
  unsigned char *buffer = memory != NULL ? memory : (unsigned char *)(uintptr_t)address;
  buffer_fill(buffer, 0x5a, length);
  return buffer;
}

void buffer_destroy(unsigned char *buffer) {
  if (buffer == NULL) return;
  if (buffers_are == WHERE_HOST)
    free(buffer);
  else if (buffers_are == WHERE_PINNED)
    CUDA_MUST(cuda.free_pinned(buffer));
  else
    CUDA_MUST(cuda.free((uint64_t)(uintptr_t)buffer));
}

void buffer_write(unsigned char *buffer, const void *bytes, size_t length) {
  if (buffers_are < WHERE_CUDA) {
    memcpy(buffer, bytes, length);
    return;
  }
  CUDA_MUST(cuda.to_device((uint64_t)(uintptr_t)buffer, bytes, length, gpu()));
  CUDA_MUST(cuda.synchronize(gpu()));
}

void buffer_fill(unsigned char *buffer, unsigned char byte, size_t length) {
  if (buffers_are < WHERE_CUDA) {
    memset(buffer, byte, length);
    return;
  }
  unsigned char *bytes = host_buffer(length);
  memset(bytes, byte, length);
  buffer_write(buffer, bytes, length);
  free(bytes);
}

void buffer_check(const unsigned char *buffer, unsigned char byte, size_t length,
                  const char *what) {
  unsigned char *copy = NULL;
  if (buffers_are >= WHERE_CUDA) {
    copy = host_buffer(length);
    CUDA_MUST(cuda.to_host(copy, (uint64_t)(uintptr_t)buffer, length, gpu()));
    CUDA_MUST(cuda.synchronize(gpu()));
    buffer = copy;
  }
  for (size_t at = 0; at < length; at++)
    if (buffer[at] != byte) die("byte %zu of %s is not what was sent", at, what);
  free(copy);
}

void report_text(const struct options *options, const char *key, const char *value) {
  if (options->side == 0) printf("%s=%s\n", key, value);
}

void report_number(const struct options *options, const char *key, double value) {
  if (options->side == 0) printf("%s=%.12g\n", key, value);
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

void report_samples(const struct options *options, const char *key, double *samples, size_t count) {
  char name[64];
  qsort(samples, count, sizeof *samples, ascending);
  report_number(options, key, samples[(count - 1) / 2]);
  snprintf(name, sizeof name, "%s_min", key);
  report_number(options, name, samples[0]);
  snprintf(name, sizeof name, "%s_max", key);
  report_number(options, name, samples[count - 1]);
}

double percentile_99(double *samples, size_t count) {
  qsort(samples, count, sizeof *samples, ascending);
  return samples[(count - 1) * 99 / 100];
}

/* count_allocs.c defines these when it is preloaded. */
extern void count_allocs_begin(void) __attribute__((weak));
extern void count_allocs_end(void) __attribute__((weak));

/* A write to an invalid descriptor fails at once, and is easy to find in a trace. */
static void mark(const char *text) {
  if (write(-1, text, strlen(text)) >= 0) die("descriptor -1 exists");
}

/* A control: if the counter has not seen this allocation, it does not work. */
static void *volatile control_allocation;

void mark_begin(void) {
  if (count_allocs_begin) {
    count_allocs_begin();
    control_allocation = malloc(1);
  }
  mark("measured part begins");
}

void mark_end(void) {
  mark("measured part ends");
  if (count_allocs_end) {
    free(control_allocation);
    count_allocs_end();
  }
}

void transports_from_text(const char *text, char *out, size_t capacity) {
  size_t length = 0;
  out[0] = '\0';
  /* Each lane has a line such as "lane[0]:  2:posix/memory.0 md[2] -> ...". */
  for (const char *lane = strstr(text, "lane["); lane != NULL; lane = strstr(lane + 1, "lane[")) {
    const char *colon = strchr(lane, ':');
    if (colon == NULL) return;
    const char *name = strchr(colon + 1, ':');
    if (name == NULL) return;
    name++;
    size_t span = strcspn(name, ". \n");
    if (length + span + 2 > capacity) return;
    if (length > 0) out[length++] = ',';
    memcpy(out + length, name, span);
    length += span;
    out[length] = '\0';
  }
}
