/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * epoll_loop.c: a worker as one event source among others in an epoll loop.
 *
 *     cc -o epoll_loop epoll_loop.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./epoll_loop 0 epoll.socket & ./epoll_loop 1 epoll.socket; wait
 *
 * Each process prints one line:
 *
 *     rank 0: sent 50 and received 50 messages from an epoll loop
 *
 * Each process has a timer that expires every few milliseconds, and sends a message each time. It
 * also receives the peer's messages, and sleeps in epoll_wait if there is nothing to do. The order
 * of the steps in run() matters:
 *
 *     1. make progress until nothing happens any more
 *     2. arm the worker; UCXX_ERR_BUSY means that something arrived meanwhile: go back to 1
 *     3. sleep; after waking up go back to 1, whichever descriptor was ready
 *
 * A program that sleeps without arming the worker can miss an event and sleep without end. Starting
 * an operation after arming is safe only because the loop goes back to 1 before it sleeps again.
 */
#define _XOPEN_SOURCE 700
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "pair.h"

#define MESSAGES 50
#define TAG UINT64_C(9)

struct loop {
  struct pair pair;
  int epoll_fd, timer_fd, worker_fd;
  uint32_t sent, send_completions, received;
  /* One buffer for each message: a send may still use its buffer when the next one starts. */
  uint32_t outgoing[MESSAGES];
  uint32_t incoming;
};

static void watch(struct loop *loop, int fd) {
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;
  event.data.fd = fd;
  require(epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct loop *loop = arg;
  check_completion(request, status, "a send completed");
  loop->send_completions++;
}

static void on_received(void *arg, ucxx_request_t *request, ucxx_status_t status);

static void post_receive(struct loop *loop) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_received;
  params.callback_arg = loop;
  params.source = loop->pair.endpoint;
  ucxx_status_t status = ucxx_tag_recv(loop->pair.worker, &loop->incoming, sizeof loop->incoming,
                                       TAG, PAIR_ALL_BITS, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "receive");
}

static void on_received(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct loop *loop = arg;
  check_completion(request, status, "a receive completed");
  require(loop->incoming == loop->received, "messages arrive in order");
  loop->received++;
  if (loop->received < MESSAGES) post_receive(loop);
}

static void on_tick(struct loop *loop) {
  uint64_t ticks = 0;
  if (read(loop->timer_fd, &ticks, sizeof ticks) != (ssize_t)sizeof ticks) return;
  if (loop->sent == MESSAGES) return;
  uint32_t *number = &loop->outgoing[loop->sent];
  *number = loop->sent++;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = on_sent;
  params.callback_arg = loop;
  ucxx_status_t status =
      ucxx_tag_send(loop->pair.endpoint, number, sizeof *number, TAG, &params, NULL);
  if (status != UCXX_INPROGRESS) check(status, "send");
}

static bool is_done(const struct loop *loop) {
  return loop->send_completions == MESSAGES && loop->received == MESSAGES;
}

static void run(struct loop *loop) {
  uint64_t deadline_ns = exchange_now_ns() + PAIR_TIMEOUT_NS;
  for (;;) {
    uint32_t events = 0;
    do { check(ucxx_worker_progress(loop->pair.worker, &events), "progress"); } while (events > 0);
    if (is_done(loop)) return;
    require(exchange_now_ns() < deadline_ns, "the peer answers in time");

    ucxx_status_t armed = ucxx_worker_arm(loop->pair.worker);
    if (armed == UCXX_ERR_BUSY) continue;
    check(armed, "arm");

    struct epoll_event ready[2];
    int count = epoll_wait(loop->epoll_fd, ready, 2, 1000);
    require(count >= 0 || errno == EINTR, "epoll_wait");
    for (int i = 0; i < count; i++) {
      /* The worker's descriptor needs no read(): progress resets it. */
      if (ready[i].data.fd == loop->timer_fd) on_tick(loop);
    }
  }
}

int main(int argc, char **argv) {
  struct loop loop;
  memset(&loop, 0, sizeof loop);
  pair_open(&loop.pair, argc, argv);

  loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  loop.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  require(loop.epoll_fd >= 0 && loop.timer_fd >= 0, "epoll and timer descriptors");
  const struct itimerspec tick = {{0, 2 * 1000 * 1000}, {0, 2 * 1000 * 1000}};
  require(timerfd_settime(loop.timer_fd, 0, &tick, NULL) == 0, "timerfd_settime");
  /* The descriptor belongs to the library: do not close it. */
  check(ucxx_worker_event_fd(loop.pair.worker, &loop.worker_fd), "the worker's descriptor");
  watch(&loop, loop.timer_fd);
  watch(&loop, loop.worker_fd);

  post_receive(&loop);
  run(&loop);
  printf("rank %d: sent %u and received %u messages from an epoll loop\n", loop.pair.rank,
         loop.send_completions, loop.received);

  /* Close the epoll descriptor before the worker is destroyed, and with it the worker's
   * descriptor. */
  close(loop.epoll_fd);
  close(loop.timer_fd);
  pair_close(&loop.pair);
  return EXIT_SUCCESS;
}
