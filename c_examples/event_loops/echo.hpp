// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// echo.hpp: what the echo programs share: a server of callbacks, a client, and their command line.
//
//     echo_epoll server CLIENTS                  prints "port N", and ends after so many clients
//     echo_epoll client PORT CLIENTS MESSAGES    so many connections, and messages on each
//
// Each message is 64 bytes of the connection's stream, which the server sends back. Every client
// works with every server.
#ifndef EVENT_LOOPS_ECHO_HPP
#define EVENT_LOOPS_ECHO_HPP

#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string_view>
#include <utility>

#include <ucxx_rs.hpp>

namespace echo {

using message = std::array<char, 64>;

/// CPU time of this process, in seconds.
inline double cpu_seconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval &t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

inline void print_port(const ucxx_rs::listener &listening) {
  std::printf("port %d\n", listening.port());
  std::fflush(stdout);
}

inline void print_served(std::uint64_t messages) {
  std::printf("server: %llu messages echoed, %.2f s of CPU\n",
              static_cast<unsigned long long>(messages), cpu_seconds());
}

/// Serves by callbacks, whoever makes progress. Each connection receives, sends back, and so on.
class server {
public:
  /// Ends after so many clients.
  server(ucxx_rs::worker_view worker, std::size_t clients)
      : left_(clients), listening_(ucxx_rs::listener::create(worker, params())) {
    print_port(listening_);
  }

  bool is_done() const { return left_ == 0; }
  std::uint64_t messages() const { return messages_; }

private:
  struct session {
    ucxx_rs::endpoint peer;
    message data = {};
  };

  ucxx_rs::listener_params params() {
    ucxx_rs::listener_params params;
    params.on_connect = [this](ucxx_rs::conn_request client) {
      sessions_.push_back({ucxx_rs::endpoint::accept(client)});
      receive(std::prev(sessions_.end()));
    };
    return params;
  }
  void receive(std::list<session>::iterator s) {
    s->peer.stream_recv(s->data).then([this, s](ucxx_rs::status received) {
      if (failed(received)) return end(s); // the client has closed
      messages_++;
      send_back(s);
    });
  }
  void send_back(std::list<session>::iterator s) {
    s->peer.stream_send(s->data).then([this, s](ucxx_rs::status sent) {
      if (failed(sent)) return end(s);
      receive(s);
    });
  }
  void end(std::list<session>::iterator s) {
    sessions_.erase(s);
    left_--;
  }

  std::size_t left_;
  std::uint64_t messages_ = 0;
  std::list<session> sessions_;
  ucxx_rs::listener listening_;
};

/// The client of the programs without Asio. It needs no event loop: it waits on its worker.
class client {
public:
  client(ucxx_rs::worker_view worker, std::uint16_t port, std::size_t connections,
         std::uint64_t messages)
      : left_(connections) {
    for (std::size_t i = 0; i < connections; i++) {
      auto peer = ucxx_rs::endpoint::connect(worker, "127.0.0.1", port);
      connections_.push_back({std::move(peer)});
    }
    // One message each, so that all are connected before the clock starts.
    run(worker, 1);
    auto start = std::chrono::steady_clock::now();
    run(worker, messages);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    auto all = static_cast<double>(messages * connections);
    std::printf("client: %zu connections, %.0f messages a second\n", connections,
                all / took.count());
  }

private:
  struct connection {
    ucxx_rs::endpoint peer;
    std::uint64_t left = 0;
    message sent = {}, received = {};
  };

  void run(ucxx_rs::worker_view worker, std::uint64_t messages) {
    left_ = connections_.size();
    for (auto &c : connections_) {
      c.left = messages;
      exchange(c);
    }
    worker.wait_until([this] { return left_ == 0; });
  }
  void exchange(connection &c) {
    c.sent.fill(static_cast<char>('a' + c.left % 26));
    c.peer.stream_recv(c.received).then([this, &c](ucxx_rs::status received) {
      ucxx_rs::detail::check(received);
      if (c.received != c.sent) std::abort();
      if (--c.left == 0) {
        left_--;
      } else {
        exchange(c);
      }
    });
    c.peer.stream_send(c.sent).then([](ucxx_rs::status sent) { ucxx_rs::detail::check(sent); });
  }

  std::size_t left_;
  std::list<connection> connections_;
};

struct arguments {
  bool is_server = false;
  std::uint16_t port = 0;
  std::size_t clients = 1;
  std::uint64_t messages = 1;
};

inline arguments parse(int argc, char **argv) {
  using namespace std::string_view_literals;
  auto number = [&](int i) { return std::strtoul(argv[i], nullptr, 10); };
  if (argc == 3 && argv[1] == "server"sv) return {true, 0, number(2), 0};
  if (argc == 5 && argv[1] == "client"sv) {
    return {false, static_cast<std::uint16_t>(number(2)), number(3), number(4)};
  }
  std::fprintf(stderr, "usage: %s server CLIENTS | client PORT CLIENTS MESSAGES\n", argv[0]);
  std::exit(2);
}

/// Runs `serve(worker, server)`, or the client.
template <class Serve> int run(int argc, char **argv, Serve serve) {
  auto given = parse(argc, argv);
  auto context = ucxx_rs::context::create();
  auto worker = ucxx_rs::worker::create(context);
  if (given.is_server) {
    server serving(worker, given.clients);
    serve(worker, serving);
    print_served(serving.messages());
  } else {
    client(worker, given.port, given.clients, given.messages);
  }
  return 0;
}

} // namespace echo

#endif
