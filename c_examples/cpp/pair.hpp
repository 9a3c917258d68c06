// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// pair.hpp: two processes of one host find each other. ping_pong.cpp and coroutine_client.cpp share
// it. ../exchange.h and ../pair.h do the same in C, and explain it. The other process may use them.
#ifndef EXAMPLES_PAIR_HPP
#define EXAMPLES_PAIR_HPP

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ucxx_rs.hpp>

/// A Unix socket to the other process. Worker addresses are sent over it.
class meeting_point {
public:
  /// One process listens, and the other one connects. The path must not exist yet.
  meeting_point(bool listens, const std::string &path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    if (path.size() >= sizeof name.sun_path) throw std::length_error("a long path: " + path);
    path.copy(name.sun_path, path.size());
    auto *address = reinterpret_cast<const sockaddr *>(&name);
    const timeval limit = {60, 0}; // of each accept and each receive
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (listens) {
      bool ready = bind(fd_, address, sizeof name) == 0 && listen(fd_, 1) == 0;
      int peer = ready ? accept(fd_, nullptr, nullptr) : -1;
      int saved = errno;
      close(std::exchange(fd_, peer));
      if (ready) unlink(path.c_str());
      if (peer < 0) throw std::system_error(saved, std::generic_category(), path);
    } else {
      for (int tries = 0; connect(fd_, address, sizeof name) != 0; tries++) {
        // The other process may not listen yet.
        if (tries == 12'000) throw std::system_error(errno, std::generic_category(), path);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  meeting_point(const meeting_point &) = delete;
  ~meeting_point() { close(fd_); }

  /// Sends our bytes, and returns those of the other process.
  std::vector<std::byte> swap(ucxx_rs::const_buffer mine) {
    std::uint64_t length = mine.size();
    send(&length, sizeof length);
    send(mine.data(), mine.size());
    receive(&length, sizeof length);
    std::vector<std::byte> theirs(length);
    receive(theirs.data(), length);
    return theirs;
  }
  /// Returns when the other process has called it too. Meanwhile it makes progress, because that
  /// process may still need something of this worker.
  void meet(ucxx_rs::worker_view worker) {
    char token = 'x';
    send(&token, 1);
    pollfd entry = {fd_, POLLIN, 0};
    while (poll(&entry, 1, 1) == 0) static_cast<void>(worker.try_progress());
    receive(&token, 1);
  }

private:
  void send(const void *data, std::size_t length) {
    auto sent = ::send(fd_, data, length, MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(length)) throw std::runtime_error("the other process is gone");
  }
  void receive(void *data, std::size_t length) {
    auto got = recv(fd_, data, length, MSG_WAITALL);
    if (got != static_cast<ssize_t>(length)) throw std::runtime_error("the other process is gone");
  }
  int fd_;
};

/// A process of two: its worker, and its endpoint to the other one. They end in reverse order.
struct pair {
  pair(int rank_of_two, const char *path) : rank(rank_of_two), meeting(rank == 0, path) {}

  int rank; ///< 0 or 1
  meeting_point meeting;
  ucxx_rs::context context = ucxx_rs::context::create();
  ucxx_rs::worker worker = ucxx_rs::worker::create(context);
  ucxx_rs::endpoint endpoint = connect();

  /// For receives, which then fail if the other process does.
  ucxx_rs::op_params from_peer() const {
    ucxx_rs::op_params params;
    params.source = endpoint.c();
    return params;
  }
  /// Call it after everything that was expected from the other process has arrived.
  void finish() {
    endpoint.flush().wait();
    meeting.meet(worker);
  }

private:
  ucxx_rs::endpoint connect() {
    auto theirs = meeting.swap(ucxx_rs::address::of(worker).bytes());
    return ucxx_rs::endpoint::create(worker, ucxx_rs::address::from_bytes(theirs));
  }
};

#endif
