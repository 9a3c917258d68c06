// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// echo_epoll.cpp: an echo server in a plain epoll loop. echo.hpp has the command line.
#include <sys/epoll.h>
#include <unistd.h>

#include "echo.hpp"

namespace {

void serve(ucxx_rs::worker &worker, echo::server &server) {
  int loop = epoll_create1(EPOLL_CLOEXEC);
  epoll_event watched = {};
  watched.events = EPOLLIN;
  watched.data.fd = worker.event_fd(); // the library owns and closes it
  if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, watched.data.fd, &watched) != 0) std::abort();

  for (;;) {
    worker.progress_and_arm(); // before each sleep, whichever descriptor has ended the last one
    if (server.is_done()) break;
    epoll_event ready[1];
    if (epoll_wait(loop, ready, 1, -1) < 0 && errno != EINTR) std::abort();
  }
  close(loop); // before the worker ends
}

} // namespace

int main(int argc, char **argv) { return echo::run(argc, argv, serve); }
