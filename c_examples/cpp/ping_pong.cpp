// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ping_pong.cpp: two processes greet each other with tagged messages, and then measure how long a
// message takes. Read this example first. ../hello_tag.c does the first half of it in C.
//
//     c++ -std=c++17 -o ping_pong ping_pong.cpp $(pkg-config --cflags --libs ucxx_rs)
//     ./ping_pong 0 ping.socket & ./ping_pong 1 ping.socket; wait
//
// Each process prints what it received, and rank 0 prints the time of one way:
//
//     rank 1 received 32 bytes: hello from rank 0, process 25232
//     rank 0 received 32 bytes: hello from rank 1, process 25233
//            8 bytes:      0.71 us
//         4096 bytes:      1.90 us
//
// A call such as tag_send() describes an operation. What is called on it starts it: wait() also
// waits for its end, and submit() returns a request to wait for later. Errors are exceptions.
#include <cstdio>
#include <cstdlib>

#include "pair.hpp"

using clock_type = std::chrono::steady_clock;

static void greet(const pair &p) {
  std::string said = "hello from rank " + std::to_string(p.rank) + ", process " +
                     std::to_string(getpid()),
              heard(128, '\0');
  // The buffers must stay valid until the operations have completed.
  auto sending = p.endpoint.tag_send(said, 42).submit();
  auto info = p.worker.tag_recv(heard, 42).with(p.from_peer()).wait();
  sending.wait();
  heard.resize(info.length);
  std::printf("rank %d received %zu bytes: %s\n", p.rank, heard.size(), heard.c_str());
}

static void measure(const pair &p, std::size_t size) {
  constexpr int rounds = 1000;
  std::vector<char> ball(size);
  auto start = clock_type::now();
  for (int round = 0; round < rounds; round++) {
    if (p.rank == 0) p.endpoint.tag_send(ball, 1).wait();
    p.worker.tag_recv(ball, 1).with(p.from_peer()).wait();
    if (p.rank == 1) p.endpoint.tag_send(ball, 1).wait();
  }
  std::chrono::duration<double, std::micro> took = clock_type::now() - start;
  if (p.rank == 0) std::printf("%8zu bytes: %9.2f us\n", size, took.count() / (2 * rounds));
}

int main(int argc, char **argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: %s 0|1 SOCKET_PATH\n", argv[0]), 2;
  pair p(std::atoi(argv[1]), argv[2]);
  greet(p);
  for (std::size_t size : {8u, 4096u, 1u << 20}) measure(p, size);
  p.finish();
} catch (const std::exception &e) {
  return std::fprintf(stderr, "error: %s\n", e.what()), EXIT_FAILURE;
}
