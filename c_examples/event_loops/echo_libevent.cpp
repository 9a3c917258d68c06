// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// echo_libevent.cpp: an echo server in libevent. echo.hpp has the command line.
#include <event2/event.h>

#include "echo.hpp"

namespace {

/// A worker in a loop of libevent 2.1, which has no hook before its sleeps. So the worker is armed
/// at the end of each turn. Another handler that submits operations calls `wake`.
struct in_loop {
  ucxx_rs::worker_view worker;
  echo::server &server;
  event *readable = nullptr;

  void start(event_base *base) {
    auto turn = [](evutil_socket_t, short, void *arg) { static_cast<in_loop *>(arg)->turn(); };
    // The library owns the descriptor, and closes it.
    readable = event_new(base, worker.event_fd(), EV_READ | EV_PERSIST, turn, this);
    if (!readable || event_add(readable, nullptr) != 0) std::abort();
    wake();
  }
  void wake() { event_active(readable, EV_READ, 0); }
  void turn() {
    worker.progress_and_arm();
    if (server.is_done()) event_free(readable); // before the worker ends
  }
};

void serve(ucxx_rs::worker &worker, echo::server &server) {
  event_base *base = event_base_new();
  if (!base) std::abort();
  in_loop served{worker, server};
  served.start(base);
  event_base_dispatch(base); // returns when it has no event
  event_base_free(base);
}

} // namespace

int main(int argc, char **argv) { return echo::run(argc, argv, serve); }
