/*
 * Preloaded into every process of the stress: keeps its workers, so that a debugger can dump them
 * in a hanging process: `call (void)stress_dump_workers()`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <unistd.h>
#include <string.h>
#include <ucxx_rs.h>

enum { WORKERS = 8192 };
/* NULL is a free slot. A worker without a slot is not dumped. */
static ucxx_worker_t *workers[WORKERS];

static void keep(ucxx_worker_t *worker) {
  for (int at = 0; at < WORKERS; at++) {
    ucxx_worker_t *nobody = NULL;
    if (__atomic_compare_exchange_n(&workers[at], &nobody, worker, 0, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
      return;
  }
}

static void forget(ucxx_worker_t *worker) {
  for (int at = 0; at < WORKERS; at++) {
    ucxx_worker_t *that = worker;
    if (__atomic_compare_exchange_n(&workers[at], &that, NULL, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return;
  }
}

ucxx_status_t ucxx_worker_create(ucxx_context_t *context, const ucxx_worker_params_t *params,
                                 ucxx_worker_t **worker) {
  ucxx_status_t (*real)(ucxx_context_t *, const ucxx_worker_params_t *, ucxx_worker_t **);
  *(void **)&real = dlsym(RTLD_NEXT, "ucxx_worker_create");
  ucxx_status_t status = real(context, params, worker);
  if (status == UCXX_OK) keep(*worker);
  return status;
}

void ucxx_worker_destroy(ucxx_worker_t *worker) {
  void (*real)(ucxx_worker_t *);
  *(void **)&real = dlsym(RTLD_NEXT, "ucxx_worker_destroy");
  if (worker != NULL) forget(worker);
  real(worker);
}

static void line(void *arg, const char *text) {
  (void)arg;
  ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  ignored = write(STDERR_FILENO, "\n", 1);
  (void)ignored;
}

void stress_dump_workers(void) {
  ucxx_status_t (*dump)(ucxx_worker_t *, void (*)(void *, const char *), void *);
  *(void **)&dump = dlsym(RTLD_DEFAULT, "ucxx_worker_dump");
  for (int at = 0; at < WORKERS && dump != NULL; at++) {
    ucxx_worker_t *worker = __atomic_load_n(&workers[at], __ATOMIC_ACQUIRE);
    if (worker == NULL) continue;
    line(NULL, "--- ucxx_worker_dump");
    if (dump(worker, line, NULL) != UCXX_OK)
      line(NULL, "no dump: this thread cannot access the worker now");
  }
}
