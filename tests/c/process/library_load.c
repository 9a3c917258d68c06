/*
 * Loading and using the library leaves signal handlers, signal mask and environment unchanged, and
 * its threads take no signals of the application. The test uses dlopen, to see the state before.
 *
 *   load LIBRARY
 *   load LIBRARY often      loads and unloads it a thousand times, and uses it now and then
 *   load LIBRARY copies     the library reports two images of libucp when a second one is mapped
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ucxx_rs.h>

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: %s: check failed: %s\n", __FILE__, __LINE__, step, #condition); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

extern char **environ;

static const char *step = "start";

typedef struct surroundings {
  struct sigaction actions[NSIG];
  sigset_t mask;
  char *environment;
  size_t environment_length;
} surroundings_t;

static void look(surroundings_t *seen) {
  memset(seen, 0, sizeof *seen);
  for (int number = 1; number < NSIG; number++) sigaction(number, NULL, &seen->actions[number]);
  sigprocmask(SIG_SETMASK, NULL, &seen->mask);
  FILE *text = open_memstream(&seen->environment, &seen->environment_length);
  CHECK(text != NULL);
  for (char **entry = environ; *entry != NULL; entry++) fprintf(text, "%s\n", *entry);
  fclose(text);
}

static void compare(const surroundings_t *before, const char *when) {
  surroundings_t now;
  step = when;
  look(&now);
  for (int number = 1; number < NSIG; number++) {
    const struct sigaction *was = &before->actions[number], *is = &now.actions[number];
    /* The C library adds this bit to every action it sets; it is not the application's. */
    enum { RESTORER = 0x04000000 };
    if (was->sa_sigaction != is->sa_sigaction || (was->sa_flags ^ is->sa_flags) & ~RESTORER) {
      fprintf(stderr, "%s: the action of signal %d (%s) has changed\n", when, number,
              strsignal(number));
      exit(1);
    }
    CHECK(sigismember(&before->mask, number) == sigismember(&now.mask, number));
  }
  CHECK(strcmp(before->environment, now.environment) == 0);
  free(now.environment);
}

static volatile sig_atomic_t taken;
static void take(int number) {
  (void)number;
  taken = 1;
}

/* A garbage collector stops the threads it knows with such a signal, and waits until each has taken
 * it, or has ended. */
static void stop_thread(int id, int number) {
  struct sigaction own = {.sa_handler = take, .sa_flags = SA_RESTART}, before;
  CHECK(sigaction(number, &own, &before) == 0);
  taken = 0;
  CHECK(syscall(SYS_tgkill, getpid(), id, number) == 0 || errno == ESRCH);
  while (!taken && syscall(SYS_tgkill, getpid(), id, 0) == 0) sched_yield();
  CHECK(sigaction(number, &before, NULL) == 0);
}

/* Reads which signals a thread of this process blocks. 0 if the thread has ended. */
static int read_blocked(int id, unsigned long long *blocked) {
  int found = 0;
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/status", id);
  FILE *status = fopen(path, "r");
  if (status == NULL) return 0;
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "SigBlk:", 7) != 0) continue;
    *blocked = strtoull(line + 7, NULL, 16);
    found = 1;
  }
  fclose(status);
  return found;
}

/* Every other thread must block the signals that an application handles, and take those sent to it
 * directly. A thread that is being created, or has been joined and is still listed, blocks all
 * signals: it is waited for. */
static void threads_block_signals(void) {
  static const int numbers[] = {SIGHUP,  SIGINT,  SIGTERM, SIGALRM,
                                SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE};
  const int open[] = {SIGPWR,  SIGXCPU, SIGURG, SIGSEGV,  SIGBUS,       SIGFPE,  SIGILL,
                      SIGTRAP, SIGABRT, SIGSYS, SIGRTMIN, SIGRTMIN + 5, SIGRTMAX};
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  int others = 0;
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    int id = atoi(task->d_name);
    if (id == 0 || id == (int)getpid()) continue;
    unsigned long long blocked = 0;
    int found;
    while ((found = read_blocked(id, &blocked)) && blocked >> (SIGPWR - 1) & 1) sched_yield();
    if (!found) continue;
    others++;
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
      CHECK((blocked >> (numbers[at] - 1) & 1) == 1);
    for (size_t at = 0; at < sizeof open / sizeof *open; at++)
      CHECK((blocked >> (open[at] - 1) & 1) == 0);
    stop_thread(id, SIGPWR);
    stop_thread(id, SIGRTMIN + 5);
  }
  closedir(tasks);
  printf("%d other threads\n", others);
}

static void handler(int number) { (void)number; }

/* Descriptors and mappings of the process. */
static void count_held(int held[2]) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "r");
  DIR *descriptors = opendir("/proc/self/fd");
  CHECK(maps != NULL && descriptors != NULL);
  for (held[0] = 0; fgets(line, sizeof line, maps) != NULL;) held[0] += strchr(line, '\n') != NULL;
  for (held[1] = 0; readdir(descriptors) != NULL;) held[1]++;
  fclose(maps);
  closedir(descriptors);
}

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

static void use(void *library) {
  ucxx_status_t (*context_create)(const ucxx_context_params_t *, ucxx_context_t **);
  ucxx_status_t (*worker_create)(ucxx_context_t *, const ucxx_worker_params_t *, ucxx_worker_t **);
  void (*context_destroy)(ucxx_context_t *);
  void (*worker_destroy)(ucxx_worker_t *);
  *(void **)&context_create = dlsym(library, "ucxx_context_create");
  *(void **)&worker_create = dlsym(library, "ucxx_worker_create");
  *(void **)&context_destroy = dlsym(library, "ucxx_context_destroy");
  *(void **)&worker_destroy = dlsym(library, "ucxx_worker_destroy");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  CHECK(context_create(NULL, &context) == UCXX_OK);
  CHECK(worker_create(context, &params, &worker) == UCXX_OK);
  worker_destroy(worker);
  context_destroy(context);
}

static int load_often(const char *path) {
  enum { TIMES = 1000, USED_EVERY = 50, WARM_UP = 200 };
  int first[2] = {0}, last[2] = {0};
  for (int time = 0; time < TIMES; time++) {
    step = "loading and unloading";
    void *library = open_library(path);
    if (time % USED_EVERY == 0) use(library);
    CHECK(dlclose(library) == 0);
    if (time == WARM_UP) count_held(first);
  }
  count_held(last);
  printf("%d to %d mappings, %d to %d descriptors\n", first[0], last[0], first[1], last[1]);
  CHECK(last[0] <= first[0] + 8 && last[1] == first[1]);
  return 0;
}

static uint32_t copies(void *library, char *path, size_t room) {
  ucxx_status_t (*version_query)(ucxx_version_t *);
  *(void **)&version_query = dlsym(library, "ucxx_version_query");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK(version_query(&version) == UCXX_OK);
  snprintf(path, room, "%s", version.ucx_library_path);
  return version.ucx_copies;
}

/* The dynamic loader treats a copy of the file as another library. */
static int load_copies(const char *path) {
  char original[4096], folder[] = "/tmp/ucxx_rs_copies_XXXXXX", copy[64], block[65536];
  void *library = open_library(path);
  CHECK(copies(library, original, sizeof original) == 1);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(copy, sizeof copy, "%s/libucp.so.0", folder);
  FILE *from = fopen(original, "rb"), *to = fopen(copy, "wb");
  CHECK(from != NULL && to != NULL);
  for (size_t got; (got = fread(block, 1, sizeof block, from)) > 0;)
    CHECK(fwrite(block, 1, got, to) == got);
  CHECK(fclose(to) == 0);
  fclose(from);
  void *second = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
  const char *why = second == NULL ? dlerror() : "";
  unlink(copy);
  rmdir(folder);
  if (second == NULL) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  CHECK(copies(library, original, sizeof original) == 2);
  return 0;
}

int main(int argc, char **argv) {
  CHECK(argc == 2 || argc == 3);
  alarm(60);
  if (argc == 3) return strcmp(argv[2], "often") == 0 ? load_often(argv[1]) : load_copies(argv[1]);
  /* Some handlers of the application, one of them for a signal that UCX tends to replace. */
  struct sigaction own = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGSEGV, &own, NULL);
  sigaction(SIGHUP, &own, NULL);
  sigaction(SIGUSR1, &own, NULL);
  surroundings_t before;
  look(&before);

  void *library = open_library(argv[1]);
  compare(&before, "after loading");

  ucxx_status_t (*context_create)(const ucxx_context_params_t *, ucxx_context_t **);
  ucxx_status_t (*worker_create)(ucxx_context_t *, const ucxx_worker_params_t *, ucxx_worker_t **);
  void (*context_destroy)(ucxx_context_t *);
  void (*worker_destroy)(ucxx_worker_t *);
  ucxx_status_t (*worker_progress)(ucxx_worker_t *, uint32_t *);
  *(void **)&context_create = dlsym(library, "ucxx_context_create");
  *(void **)&worker_create = dlsym(library, "ucxx_worker_create");
  *(void **)&context_destroy = dlsym(library, "ucxx_context_destroy");
  *(void **)&worker_destroy = dlsym(library, "ucxx_worker_destroy");
  *(void **)&worker_progress = dlsym(library, "ucxx_worker_progress");
  CHECK(context_create && worker_create && context_destroy && worker_destroy && worker_progress);

  for (int time = 0; time < 2; time++) {
    ucxx_context_t *context = NULL;
    ucxx_worker_t *worker = NULL;
    ucxx_worker_params_t with_thread = UCXX_WORKER_PARAMS_INIT;
    with_thread.progress_mode = time == 0 ? UCXX_PROGRESS_MANUAL : UCXX_PROGRESS_THREAD_BLOCKING;
    CHECK(context_create(NULL, &context) == UCXX_OK);
    compare(&before, "after making a context");
    CHECK(worker_create(context, &with_thread, &worker) == UCXX_OK);
    compare(&before, "after making a worker");
    for (int pass = 0; pass < 100; pass++)
      CHECK(worker_progress(worker, NULL) == (time == 0 ? UCXX_OK : UCXX_ERR_BUSY));
    threads_block_signals();
    worker_destroy(worker);
    context_destroy(context);
    compare(&before, "after destroying all");
  }
  dlclose(library);
  compare(&before, "after dlclose");
  free(before.environment);
  return 0;
}
