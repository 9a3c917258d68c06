// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// server.cpp: one server and many clients. The server rejects some clients, and some fail.
// ../client_server.c does the same in C, and each works with the other one.
//
//     c++ -std=c++20 -o server server.cpp $(pkg-config --cflags --libs ucxx_rs)
//     ./server server MOST TOTAL
//     ./server client PORT
//
// The server serves MOST clients at a time, and ends after TOTAL clients. It prints its port first.
// The client sends the lines of its input, and prints the answers, which are the same lines in
// capitals:
//
//     ./server server 4 1 &
//     port 43301
//     echo "good night" | ./server client 43301
//     client 1 is at 127.0.0.1:39820
//     GOOD NIGHT
//     client 1 left after a goodbye: UCXX_ERR_CONNECTION_RESET
//     accepted 1, rejected 0, finished 1, lost 0, answers 1
//
// The server has one thread, and a coroutine for each client. The client's number is the tag of its
// questions, because a tagged message does not tell which endpoint it came from.
#include <cctype>
#include <iostream>
#include <string>

#include <ucxx_rs.hpp>

namespace ux = ucxx_rs;
using ux::status;

constexpr std::uint64_t greeting = 1ull << 63, answer = 1ull << 62; // tags
constexpr std::size_t longest = 256;

struct server {
  ux::worker worker = ux::worker::create(ux::context::create());
  std::size_t present = 0, accepted = 0, rejected = 0, finished = 0, lost = 0, answers = 0;
};

// Greets a client, and answers its questions until it leaves or fails.
static ux::task<> converse(server &s, ux::endpoint endpoint, std::uint64_t number) {
  bool goodbye = false; // an empty question, which gets an answer like the others
  try {
    co_await endpoint.tag_send(ux::object(number), greeting);
    for (std::string text;;) {
      text.resize(longest);
      auto info = co_await s.worker.tag_recv(text, number).with({.source = endpoint.c()});
      text.resize(info.length);
      goodbye = text.empty();
      s.answers += !goodbye;
      for (char &c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      co_await endpoint.tag_send(text, answer);
    }
  } catch (const ux::error &e) {
    const char *how = e.status() == status::connection_reset ? "left"
                      : e.status() == status::peer_failed    ? "died"
                                                             : "was sent away";
    std::cout << "client " << number << ' ' << how << (goodbye ? " after" : " without")
              << " a goodbye: " << name(e.status()) << std::endl;
  }
  (goodbye ? s.finished : s.lost)++;
  s.present--;
}

static ux::task<> serve(server &s, std::size_t most, std::size_t total) {
  auto listener = ux::listener::create(s.worker, {});
  std::cout << "port " << listener.port() << std::endl;
  while (s.accepted + s.rejected < total) {
    auto asking = co_await listener.accept();
    if (s.present == most) {
      std::cout << "the client at " << asking.address() << " is turned away: there are "
                << s.present << " already" << std::endl;
      s.rejected++;
      continue; // At the end of its scope a request is rejected.
    }
    auto endpoint = ux::endpoint::try_accept(asking);
    if (!endpoint) { // The client has gone while it connected.
      std::cout << "a client could not be let in: " << explain(endpoint.error()) << std::endl;
      s.rejected++;
      continue;
    }
    s.present++;
    std::cout << "client " << ++s.accepted << " is at " << asking.address() << std::endl;
    ux::spawn(converse(s, *std::move(endpoint), s.accepted));
  }
}

static void ask(std::uint16_t port) {
  // A thread of the library makes progress, so this one may wait for its input.
  auto worker =
      ux::worker::create(ux::context::create(), {.progress_mode = ux::progress_mode::adaptive});
  auto endpoint = ux::endpoint::connect(worker, "127.0.0.1", port);
  auto hear = [&](ux::mutable_buffer into, std::uint64_t tag) {
    return worker.tag_recv(into, tag).with({.source = endpoint.c()}).wait().length;
  };
  std::uint64_t number = 0;
  hear(ux::object(number), greeting);
  for (std::string text; std::getline(std::cin, text);) {
    endpoint.tag_send(text += '\n', number).wait();
    text.resize(longest);
    text.resize(hear(text, answer));
    std::cout << text << std::flush;
  }
  endpoint.tag_send({}, number).wait();
  hear({}, answer);
  endpoint.close().with({.timeout = std::chrono::minutes(1)}).wait();
}

int main(int argc, char **argv) try {
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "client" && argc == 3) return ask(std::uint16_t(std::stoul(argv[2]))), 0;
  if (what != "server" || argc != 4)
    return std::cerr << "usage: " << argv[0] << " server MOST TOTAL | client PORT\n", 2;
  server s;
  s.worker.run(serve(s, std::stoul(argv[2]), std::stoul(argv[3])));
  s.worker.wait_until([&] { return s.present == 0; });
  std::cout << "accepted " << s.accepted << ", rejected " << s.rejected << ", finished "
            << s.finished << ", lost " << s.lost << ", answers " << s.answers << std::endl;
  return s.finished + s.lost == s.accepted ? 0 : 1;
} catch (const ux::error &e) {
  std::cerr << "error: " << e.what() << '\n';
  return e.status() == status::rejected ? 3 : 1;
}
