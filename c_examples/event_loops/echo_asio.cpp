// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// echo_asio.cpp: an echo server and its clients as coroutines of Asio. echo.hpp has the command
// line.
#include <ucxx_rs/asio.hpp>

#include "asio_headers.hpp"
#include "echo.hpp"

namespace {

using asio::use_awaitable;
using ucxx_rs::async_run;

class server {
public:
  server(ucxx_rs::asio_worker &worker, std::size_t clients)
      : worker_(worker), left_(clients),
        listening_(ucxx_rs::listener::create(
            worker, {.on_connect = [this](auto client) {
              // Sessions run outside of this callback, so their endpoints may wait at their end.
              auto peer = ucxx_rs::endpoint::accept(client);
              asio::co_spawn(worker_.get_executor(), session(std::move(peer)), asio::detached);
            }})) {
    echo::print_port(listening_);
  }
  std::uint64_t messages() const { return messages_; }

private:
  asio::awaitable<void> session(ucxx_rs::endpoint peer) {
    echo::message data;
    try {
      for (;; messages_++) {
        co_await async_run(worker_, peer.stream_recv(data), use_awaitable);
        co_await async_run(worker_, peer.stream_send(data), use_awaitable);
      }
    } catch (const asio_error &) {} // the client has closed
    if (--left_ == 0) worker_.stop(); // io.run() returns
  }

  ucxx_rs::asio_worker &worker_;
  std::size_t left_;
  std::uint64_t messages_ = 0;
  ucxx_rs::listener listening_;
};

asio::awaitable<void> client(ucxx_rs::asio_worker &worker, std::uint16_t port,
                             std::uint64_t messages, std::size_t &left) {
  auto peer = ucxx_rs::endpoint::connect(worker, "127.0.0.1", port);
  for (std::uint64_t i = 0; i < messages; i++) {
    echo::message sent, received;
    sent.fill(static_cast<char>('a' + i % 26));
    co_await async_run(worker, peer.stream_send(sent), use_awaitable);
    co_await async_run(worker, peer.stream_recv(received), use_awaitable);
    if (received != sent) std::abort();
  }
  co_await async_run(worker, peer.close().with({.timeout = std::chrono::minutes(1)}),
                     use_awaitable);
  if (--left == 0) worker.stop();
}

} // namespace

int main(int argc, char **argv) {
  auto given = echo::parse(argc, argv);
  auto context = ucxx_rs::context::create();
  asio::io_context io(1); // one thread runs it
  ucxx_rs::asio_worker worker(io.get_executor(), ucxx_rs::worker::create(context));
  if (given.is_server) {
    server serving(worker, given.clients);
    io.run();
    echo::print_served(serving.messages());
    return 0;
  }
  auto left = given.clients;
  for (std::size_t i = 0; i < given.clients; i++) {
    asio::co_spawn(io, client(worker, given.port, given.messages, left),
                   [](std::exception_ptr thrown) {
                     if (thrown) std::rethrow_exception(thrown);
                   });
  }
  io.run();
  std::printf("client: %zu connections\n", given.clients);
}
