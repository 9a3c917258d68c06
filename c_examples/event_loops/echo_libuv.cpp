// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// echo_libuv.cpp: an echo server in libuv. echo.hpp has the command line.
#include <uv.h>

#include "echo.hpp"

namespace {

/// A worker in a loop of libuv: `prepare` runs before each sleep, and `poll` ends the sleep.
struct in_loop {
  ucxx_rs::worker_view worker;
  echo::server &server;
  uv_prepare_t prepare = {};
  uv_poll_t poll = {};

  void start(uv_loop_t *loop) {
    prepare.data = poll.data = this;
    uv_prepare_init(loop, &prepare);
    uv_prepare_start(&prepare, [](uv_prepare_t *h) { static_cast<in_loop *>(h->data)->turn(); });
    uv_poll_init(loop, &poll, worker.event_fd()); // the library owns and closes it
    uv_poll_start(&poll, UV_READABLE, [](uv_poll_t *, int, int) {}); // `prepare` makes progress
  }
  void turn() {
    worker.progress_and_arm();
    if (!server.is_done()) return;
    uv_close(reinterpret_cast<uv_handle_t *>(&prepare), nullptr);
    uv_close(reinterpret_cast<uv_handle_t *>(&poll), nullptr); // before the worker ends
  }
};

void serve(ucxx_rs::worker &worker, echo::server &server) {
  uv_loop_t loop;
  if (uv_loop_init(&loop) != 0) std::abort();
  in_loop served{worker, server};
  served.start(&loop);
  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0) std::abort();
}

} // namespace

int main(int argc, char **argv) { return echo::run(argc, argv, serve); }
