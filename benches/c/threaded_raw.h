/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A plain UCP program with a thread that makes progress, for programs that submit nothing
 * meanwhile: UCP has no submission queue. */
#ifndef BENCH_THREADED_RAW_H
#define BENCH_THREADED_RAW_H

#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Before threaded_begin, and after threaded_end, the calling thread makes progress. */
static pthread_t threaded_thread;
static int threaded_stop;

/* The loop of the UCP documentation: make progress until nothing happens, arm, and sleep unless
 * something arrived in between. */
static void *threaded_loop(void *arg) {
  struct link *link = (struct link *)arg;
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
  int descriptor, set = epoll_create1(EPOLL_CLOEXEC);
  if (set < 0 || ucp_worker_get_efd(link->worker, &descriptor) != UCS_OK)
    die("no descriptor of the worker");
  if (epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl: %s", strerror(errno));
  while (!__atomic_load_n(&threaded_stop, __ATOMIC_ACQUIRE)) {
    while (ucp_worker_progress(link->worker) != 0) continue;
    ucs_status_t status = ucp_worker_arm(link->worker);
    if (status == UCS_ERR_BUSY) continue;
    if (status != UCS_OK) die("ucp_worker_arm: %s", ucs_status_string(status));
    if (epoll_wait(set, &event, 1, -1) < 0 && errno != EINTR)
      die("epoll_wait: %s", strerror(errno));
  }
  close(set);
  return NULL;
}

static inline void threaded_begin(struct link *link, const struct options *options) {
  (void)options;
  if (pthread_create(&threaded_thread, NULL, threaded_loop, link) != 0) die("no thread");
}

static inline void threaded_end(struct link *link) {
  __atomic_store_n(&threaded_stop, 1, __ATOMIC_RELEASE);
  ucp_worker_signal(link->worker);
  pthread_join(threaded_thread, NULL);
}

#endif
