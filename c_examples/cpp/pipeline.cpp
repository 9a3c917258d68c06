// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// pipeline.cpp: a producer, a filter and a consumer, each on a thread, connected by two hubs.
// ../pipeline.c does the same in C, and explains more.
//
//     c++ -std=c++17 -o pipeline pipeline.cpp $(pkg-config --cflags --libs ucxx_rs) -pthread
//     ./pipeline ../send_files.c static
//     108 chunks, 108 copied to the device; 21698 bytes kept, as by a plain loop
//
// The filter keeps the lines without WORD. It works on a device, and the hubs copy the chunks there
// and back. The device here is memory_type::dummy, which every machine has.
//
// An exception that leaves a thread ends the program.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <ucxx_rs.hpp>

namespace ux = ucxx_rs;

constexpr std::size_t chunk_size = 256; // bytes in an envelope, and the longest line
constexpr ux::memory_kind host, device = {ux::memory_type::dummy};

// Takes a line from the beginning of a text.
static std::string_view next_line(std::string_view &text) {
  auto length = std::min({text.find('\n'), text.size() - 1, chunk_size - 1}) + 1;
  auto line = text.substr(0, length);
  text.remove_prefix(length);
  return line;
}

static std::string without(std::string_view word, std::string_view text) {
  std::string kept;
  while (!text.empty())
    if (auto line = next_line(text); line.find(word) == line.npos) kept += line;
  return kept;
}

// What was leased, or nothing if the hub is closed and empty.
template <class T> static std::optional<T> open(ux::result<T> leased) {
  if (leased.error() == ux::status::closed) return std::nullopt;
  return std::move(leased).value();
}

// Each hub has envelopes on both sides of a link between the host and the device.
static ux::hub make_hub(const ux::context &context) {
  ux::hub_params params;
  params.envelope_size = chunk_size;
  auto hub = ux::hub::create(context, params);
  hub.add_envelopes(host, 3);
  hub.add_envelopes(device, 3);
  return hub;
}

int main(int argc, char **argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: %s FILE WORD\n", argv[0]), 2;
  std::ifstream file(argv[1]);
  if (!file) throw std::runtime_error("the file cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}}, word = argv[2];
  std::string result;
  auto context = ux::context::create();
  auto lines = make_hub(context), kept = make_hub(context);
  auto read_out = ux::hub_link::create(lines, ux::link_type::produce, host),
       filter_in = ux::hub_link::create(lines, ux::link_type::consume, device),
       filter_out = ux::hub_link::create(kept, ux::link_type::produce, device),
       write_in = ux::hub_link::create(kept, ux::link_type::consume, host);
  lines.validate(), kept.validate(); // Each link can get an envelope.

  // Puts as many lines into each chunk as fit. The metadata is the number of its first line.
  std::thread producer([&, rest = std::string_view(text)]() mutable {
    for (std::uint32_t number = 0; !rest.empty();) {
      auto envelope = read_out.lease().wait();
      auto space = envelope.space();
      std::memcpy(envelope.metadata(), &number, sizeof number);
      std::size_t length = 0;
      for (auto after = rest; !after.empty(); rest = after, number++) {
        auto line = next_line(after);
        if (length + line.size() > space.size()) break;
        length += line.copy(static_cast<char *>(space.data()) + length, line.size());
      }
      envelope.commit(length);
    }
    lines.close();
  });
  // It leases both envelopes at once, so it never holds one while it waits for the other.
  // It leases both envelopes at once, so it never holds one while it waits for the other.
  std::thread filter([&] {
    while (auto leased = open(ux::try_lease_many({filter_in, filter_out}))) {
      auto &in = (*leased)[0], &out = (*leased)[1];
      auto text_kept = without(word, in.chunk().text());
      text_kept.copy(static_cast<char *>(out.space().data()), text_kept.size());
      std::memcpy(out.metadata(), in.metadata(), sizeof(std::uint32_t));
      in.commit();
      // Nothing is kept: the end of the scope aborts `out`.
      if (!text_kept.empty()) out.commit(text_kept.size());
    }
    kept.close();
  });
  std::thread consumer([&, last = std::uint32_t(0)]() mutable {
    while (auto envelope = open(write_in.lease().try_wait())) {
      auto previous = last;
      std::memcpy(&last, envelope->metadata(), sizeof last);
      if (last < previous) throw std::runtime_error("chunks are not in order");
      result += envelope->chunk().text();
      envelope->commit();
    }
  });
  for (auto *node : {&producer, &filter, &consumer}) node->join();
  if (result != without(word, text)) throw std::runtime_error("a plain loop keeps other bytes");
  auto stats = lines.query_stats();
  std::printf("%ju chunks, %ju copied to the device; %zu bytes kept, as by a plain loop\n",
              std::uintmax_t(stats.chunks_produced), std::uintmax_t(stats.transfers),
              result.size());
} catch (const std::exception &e) { return std::fprintf(stderr, "error: %s\n", e.what()), 1; }
