// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// coroutine_client.cpp: reads ranges of the files of a server by fetch, many at a time. Each of 64
// coroutines reads one range after the other. The server is ../object_store.c, whose client does
// the same in C.
//
//     c++ -std=c++20 -o coroutine_client coroutine_client.cpp $(pkg-config --cflags --libs ucxx_rs)
//     cc -o object_store ../object_store.c $(pkg-config --cflags --libs ucxx_rs) -pthread
//     ./coroutine_client 0 store.socket & ./object_store 1 store.socket; wait
//
// Beside the server's line, it prints:
//
//     client: 12 objects; 878 ranges read (50.1 MB), 63 of unknown objects, 59 beyond the end, 1898
//     asked again
//
// One thread runs all coroutines: inside wait_until(), which makes progress. A coroutine that
// awaits a fetch continues there when its answer has come.
#include <algorithm>
#include <cstring>
#include <iostream>

#include "pair.hpp"

namespace ux = ucxx_rs;
using ux::status;
using namespace std::chrono_literals;

// What object_store.c defines: ids of fetches, the entries of the list, and what a read asks for.
constexpr std::uint16_t list_id = 1, read_id = 2;
constexpr std::size_t objects = 12, name_size = 24, longest = 1 << 20;
constexpr auto beyond_end = status(int(status::application) - 1);
struct entry {
  std::uint64_t length;
  char name[name_size];
};
struct range {
  std::uint64_t offset, length;
  char name[name_size];
};
static std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
static std::uint8_t content(std::uint64_t object, std::uint64_t place) {
  return std::uint8_t(mix(object << 40 | place / 8) >> place % 8 * 8);
}

static void require(bool condition, const char *what) {
  if (!condition) throw std::runtime_error(std::string("expected otherwise: ") + what);
}

// The length of the list is not known in advance, so the library allocates a buffer for it.
static ux::task<std::vector<entry>> list(const pair &p) {
  std::vector<entry> entries(objects);
  const std::size_t size = objects * sizeof(entry);
  auto answer = co_await p.endpoint.fetch_alloc(list_id, {}, {}, {.max_total_bytes = size});
  require(answer[0].size() == size, "all objects are listed");
  std::memcpy(entries.data(), answer[0].data(), size);
  for (auto &e : entries) require(std::memchr(e.name, 0, name_size) != nullptr, "names end");
  co_return entries;
}

struct client {
  const pair &p;
  const std::vector<entry> entries = p.worker.run(list(p));
  std::uint64_t asked = 0, reading = 0, good = 0, unknown = 0, beyond = 0, again = 0, bytes = 0;
};

// Reads random ranges of random objects. One in sixteen is of an object that does not exist, and
// one in sixteen is beyond the end.
static ux::task<> read_ranges(client &c) {
  constexpr std::uint8_t untouched = 0x77;
  std::vector<std::uint8_t> buffer(longest + 1);
  for (c.reading++; c.asked < 1000;) {
    const auto random = mix(~c.asked++), kind = (random >> 16) % 16;
    const auto &[length, name] = c.entries[random % objects];
    const auto most = (random >> 8) % 8 == 0 ? longest : 1 << 16;
    range wanted = {mix(random) % (length + 1), mix(random + 1) % most, {}};
    wanted.length = std::min(wanted.length, length - wanted.offset);
    if (kind == 1) wanted = {length, 1 + random % 1000, {}};
    std::strcpy(wanted.name, kind == 0 ? "../object-00" : name);

    std::fill_n(buffer.begin(), wanted.length + 1, untouched);
    auto into = ux::mutable_buffer(buffer.data(), wanted.length);
    auto ask = [&] { return c.p.endpoint.fetch(read_id, ux::object(wanted), into); };
    auto answer = co_await ask().with({.timeout = 60s}).as_result();
    for (; answer.error() == status::busy; c.again++)
      answer = co_await ask().with({.timeout = 60s}).as_result();

    require(answer.error() == (kind == 0   ? status::no_elem
                               : kind == 1 ? beyond_end
                                           : status::ok),
            "the outcome of a read");
    (kind == 0 ? c.unknown : kind == 1 ? c.beyond : c.good)++;
    if (answer) require(answer->length == wanted.length, "the length that was asked for");
    const auto got = answer ? wanted.length : 0;
    for (std::uint64_t at = 0, object = std::stoul(name + 7); at < got; at++)
      require(buffer[at] == content(object, wanted.offset + at), "the content is the object's");
    require(buffer[got] == untouched, "nothing behind it was touched");
    c.bytes += got;
  }
  c.reading--;
}

int main(int argc, char **argv) try {
  if (argc != 3) return std::cerr << "usage: " << argv[0] << " 0 SOCKET_PATH\n", 2;
  pair p(std::stoi(argv[1]), argv[2]);
  p.meeting.meet(p.worker); // The server is ready.
  client c{p};
  for (int at = 0; at < 64; at++) ux::spawn(read_ranges(c));
  p.worker.wait_until([&] { return c.reading == 0; });
  std::cout << "client: " << objects << " objects; " << c.good << " ranges read ("
            << double(c.bytes / 100'000) / 10 << " MB), " << c.unknown << " of unknown objects, "
            << c.beyond << " beyond the end, " << c.again << " asked again\n";
  p.meeting.meet(p.worker); // The server may end.
  p.finish();
} catch (const std::exception &e) { return std::cerr << "error: " << e.what() << '\n', 1; }
