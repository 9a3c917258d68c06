/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Windows of this library, through its C interface. */
#ifndef BENCH_WINDOW_UCXX_RS_H
#define BENCH_WINDOW_UCXX_RS_H

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucxx_rs.h>
#include <unistd.h>

#define WINDOW_NAME "ucxx_rs"

struct world {
  int rank, size;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
};

struct window {
  ucxx_window_t *handle;
  unsigned char *base;
};

struct elements {
  ucxx_layout_t layout;
};

static pid_t world_started[64];

static inline void world_check(ucxx_status_t status, const char *what) {
  if (status != UCXX_OK)
    die("%s: %s (%s)", what, ucxx_status_name(status), ucxx_last_error_message());
}

/* Chooses a free port, on which rank 0 listens. Nothing else takes it so soon after it was free. */
static inline void world_choose_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  char text[16];
  int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0 || bind(probe, (struct sockaddr *)&address, length) != 0 ||
      getsockname(probe, (struct sockaddr *)&address, &length) != 0)
    die("no port on the loopback device: %s", strerror(errno));
  close(probe);
  snprintf(text, sizeof text, "%d", ntohs(address.sin_port));
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", text, 1);
}

static inline void world_set_rank(int rank, const struct options *options) {
  char text[24];
  snprintf(text, sizeof text, "%d", rank);
  setenv("RANK", text, 1);
  snprintf(text, sizeof text, "%ld", options->hosts > 1 ? rank % options->hosts : 0);
  if (options->hosts > 1) setenv("UCXX_RS_HOST_ID", text, 1);
}

/* Starts new executions of the same program, so that they inherit nothing. */
static inline void world_start_others(char **argv, const struct options *options) {
  static char program[4096];
  char text[32];
  pid_t parent = getpid();
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
    die("/proc/self/exe: %s", strerror(errno));
  if (options->processes > 64) die("--processes: at most 64");
  snprintf(text, sizeof text, "%ld", options->processes);
  setenv("WORLD_SIZE", text, 1);
  world_choose_port();
  for (int rank = 1; rank < options->processes; rank++) {
    pid_t child = world_started[rank] = fork();
    if (child < 0) die("fork: %s", strerror(errno));
    if (child > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    world_set_rank(rank, options);
    execv(program, argv);
    _exit(127);
  }
  world_set_rank(0, options);
}

static inline void world_start(int argc, char **argv, struct options *options) {
  harness_read(argc, argv, options);
  if (getenv("RANK") == NULL) world_start_others(argv, options);
  options->side = atoi(getenv("RANK"));
  harness_pin(options->cpu[options->side % 2]);
}

static inline void world_open(struct world *world, const struct options *options) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  ucxx_worker_params_t worker_params = UCXX_WORKER_PARAMS_INIT;
  ucxx_version_t version = UCXX_VERSION_INIT;
  char text[64];
  world_check(ucxx_version_query(&version), "ucxx_version_query");
  snprintf(text, sizeof text, "%u.%u.%u", (unsigned)version.ucx_major, (unsigned)version.ucx_minor,
           (unsigned)version.ucx_patch);
  report_text(options, "ucx", text);
  world_check(ucxx_context_create(NULL, &world->context), "ucxx_context_create");
  worker_params.thread_mode = UCXX_THREAD_SINGLE;
  world_check(ucxx_worker_create(world->context, &worker_params, &world->worker),
              "ucxx_worker_create");
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  world_check(ucxx_group_create(world->worker, &params, &world->group), "ucxx_group_create");
  world->rank = (int)ucxx_group_rank(world->group);
  world->size = (int)ucxx_group_size(world->group);
}

static inline void world_barrier(struct world *world) {
  world_check(ucxx_group_barrier(world->group), "ucxx_group_barrier");
}

static inline void world_broadcast(struct world *world, void *data, size_t length) {
  world_check(ucxx_group_broadcast(world->group, data, length, 0), "ucxx_group_broadcast");
}

static inline void world_gather(struct world *world, const void *in, size_t length, void *out) {
  world_check(ucxx_group_allgather(world->group, in, length, out), "ucxx_group_allgather");
}

static inline void world_look(struct world *world) {
  world_check(ucxx_worker_progress(world->worker, NULL), "ucxx_worker_progress");
}

static inline void world_close(struct world *world) {
  world_barrier(world);
  ucxx_group_destroy(world->group);
  ucxx_worker_destroy(world->worker);
  ucxx_context_destroy(world->context);
  for (int rank = 1; rank < 64; rank++) {
    int status;
    if (world_started[rank] == 0) continue;
    while (waitpid(world_started[rank], &status, 0) < 0)
      if (errno != EINTR) die("waitpid: %s", strerror(errno));
    if (status != 0) die("the other side failed (wait status %d)", status);
  }
}

static inline void window_open(struct world *world, struct window *window, size_t size) {
  void *base;
  world_check(ucxx_window_allocate(world->group, size, 1, NULL, &base, &window->handle),
              "ucxx_window_allocate");
  window->base = (unsigned char *)base;
}

static inline void window_create(struct world *world, struct window *window, void *base,
                                 size_t size) {
  world_check(ucxx_window_create(world->group, base, size, 1, NULL, &window->handle),
              "ucxx_window_create");
  window->base = (unsigned char *)base;
}

static inline void window_close(struct window *window) {
  world_check(ucxx_window_close(window->handle), "ucxx_window_close");
  ucxx_window_destroy(window->handle);
}

static inline void elements_set(struct elements *elements, int kind, size_t count) {
  static const int32_t types[] = {UCXX_TYPE_BYTE, UCXX_TYPE_INT64, UCXX_TYPE_DOUBLE};
  ucxx_layout_init_contiguous(&elements->layout, types[kind], count);
}

/* Not inlined, so that failure handling stays out of the loops. */
__attribute__((cold, noinline)) static void window_failed(ucxx_status_t status, const char *what) {
  world_check(status, what);
}

#define WINDOW_CHECK(call)                                                  \
  do {                                                                      \
    ucxx_status_t window_status_ = (call);                                  \
    if (window_status_ != UCXX_OK) window_failed(window_status_, __func__); \
  } while (0)

static inline void window_lock(struct window *window, int exclusive, int target) {
  WINDOW_CHECK(ucxx_window_lock(window->handle, exclusive ? UCXX_LOCK_EXCLUSIVE : UCXX_LOCK_SHARED,
                                (uint32_t)target, 0));
}

static inline void window_unlock(struct window *window, int target) {
  WINDOW_CHECK(ucxx_window_unlock(window->handle, (uint32_t)target));
}
static inline void window_lock_all(struct window *window) {
  WINDOW_CHECK(ucxx_window_lock_all(window->handle, 0));
}
static inline void window_unlock_all(struct window *window) {
  WINDOW_CHECK(ucxx_window_unlock_all(window->handle));
}
static inline void window_flush(struct window *window, int target) {
  WINDOW_CHECK(ucxx_window_flush(window->handle, (uint32_t)target));
}

static inline void window_fence(struct window *window, int place) {
  const uint32_t assertions = place == FENCE_FIRST  ? UCXX_ASSERT_NOPRECEDE
                              : place == FENCE_LAST ? UCXX_ASSERT_NOSUCCEED
                                                    : 0;
  WINDOW_CHECK(ucxx_window_fence(window->handle, assertions));
}

static inline void window_post(struct window *window, int other) {
  const uint32_t rank = (uint32_t)other;
  WINDOW_CHECK(ucxx_window_post(window->handle, &rank, 1, 0));
}

static inline void window_start(struct window *window, int other) {
  const uint32_t rank = (uint32_t)other;
  WINDOW_CHECK(ucxx_window_start(window->handle, &rank, 1, 0));
}

static inline void window_complete(struct window *window) {
  WINDOW_CHECK(ucxx_window_complete(window->handle));
}
static inline void window_wait(struct window *window) {
  WINDOW_CHECK(ucxx_window_wait(window->handle));
}

static inline void window_put(struct window *window, const void *origin,
                              const struct elements *elements, int target, size_t at) {
  WINDOW_CHECK(ucxx_window_put(window->handle, origin, &elements->layout, (uint32_t)target,
                               (int64_t)at, &elements->layout));
}

static inline void window_get(struct window *window, void *result, const struct elements *elements,
                              int target, size_t at) {
  WINDOW_CHECK(ucxx_window_get(window->handle, result, &elements->layout, (uint32_t)target,
                               (int64_t)at, &elements->layout));
}

static inline void window_accumulate(struct window *window, const void *origin,
                                     const struct elements *elements, int target, size_t at) {
  WINDOW_CHECK(ucxx_window_accumulate(window->handle, origin, &elements->layout, (uint32_t)target,
                                      (int64_t)at, &elements->layout, UCXX_REDUCE_SUM));
}

static inline void window_get_accumulate(struct window *window, const void *origin, void *result,
                                         const struct elements *elements, int target, size_t at) {
  WINDOW_CHECK(ucxx_window_get_accumulate(window->handle, origin, &elements->layout, result,
                                          &elements->layout, (uint32_t)target, (int64_t)at,
                                          &elements->layout, UCXX_REDUCE_SUM));
}

static inline void window_fetch_add(struct window *window, const int64_t *origin, int64_t *result,
                                    int target, size_t at) {
  WINDOW_CHECK(ucxx_window_fetch_and_op(window->handle, origin, result, UCXX_TYPE_INT64,
                                        (uint32_t)target, (int64_t)at, UCXX_REDUCE_SUM));
}

static inline void window_compare_and_swap(struct window *window, const int64_t *origin,
                                           const int64_t *compare, int64_t *result, int target,
                                           size_t at) {
  WINDOW_CHECK(ucxx_window_compare_and_swap(window->handle, origin, compare, result,
                                            UCXX_TYPE_INT64, (uint32_t)target, (int64_t)at));
}

#endif
