// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Two processes: groups, messages, fetches and windows of every flavor between them.
#include "check.hpp"

#include <array>
#include <complex>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>

using namespace ucxx_rs;
using namespace test;

namespace {

void read_all(int fd, void *into, std::size_t length) {
  auto *at = static_cast<char *>(into);
  while (length > 0) {
    auto got = read(fd, at, length);
    CHECK(got > 0);
    at += got;
    length -= static_cast<std::size_t>(got);
  }
}

group meet(worker_view worker, std::uint32_t rank, int fd) {
  group_params params;
  params.bootstrap = bootstrap::callbacks;
  params.rank = rank;
  params.size = 2;
  params.allgather = [rank, fd](const_buffer mine, void *all) {
    auto length = mine.size();
    CHECK(write(fd, mine.data(), length) == static_cast<ssize_t>(length));
    auto *first = static_cast<char *>(all);
    std::memcpy(first + rank * length, mine.data(), length);
    read_all(fd, first + (1 - rank) * length, length);
    return status::ok;
  };
  return group::create(worker, std::move(params));
}

void collectives(group_view g, std::uint32_t rank) {
  CHECK(g.size() == 2 && g.rank() == rank && g.is_same_host(1 - rank));
  auto all = g.allgather(10 + rank);
  CHECK(all == (std::vector<std::uint32_t>{10, 11}));
  int from_one = rank == 1 ? 77 : 0;
  g.broadcast(object(from_one), 1);
  CHECK(from_one == 77);
  std::array<std::uint32_t, 1> only{rank};
  auto alone = group::subset(g, only);
  CHECK(alone.size() == 1);
  g.barrier();
}

void messages(worker_view worker, group_view g, std::uint32_t rank) {
  auto peer = g.endpoint(1 - rank);
  std::vector<std::uint64_t> sent(5000, rank + 1), received(5000);
  std::vector<char> arrived(sent.size() * sizeof sent[0]);
  std::atomic<bool> complete{false};
  worker.set_am_handler(1, [&](am_message message) {
    CHECK(message.size() == arrived.size());
    message.recv(arrived).then([&complete](status s) { complete = s == status::ok; });
  });
  worker.set_fetch_handler(2, [rank](fetch_view asked) {
    std::string question(static_cast<const char *>(asked.header().data()), asked.header().size());
    return question + " of " + std::to_string(rank);
  });
  g.barrier();

  auto receiving = worker.tag_recv(received, 3).submit();
  peer.tag_send(sent, 3).wait();
  CHECK(receiving.wait() && received == std::vector<std::uint64_t>(5000, 2 - rank));
  peer.am_send(1, "header"sv, sent).wait();
  auto name = peer.fetch_alloc(2, "rank"sv).wait();
  auto expected = "rank of " + std::to_string(1 - rank);
  CHECK(std::string_view(static_cast<const char *>(name[0].data()), name[0].size()) == expected);
  auto frames = worker.tag_recv_multi(4).future();
  peer.tag_send_multi({sent, const_buffer()}, 4).wait();
  CHECK(frames.get().size() == 2);
  while (!complete.load()) std::this_thread::yield();
  CHECK(std::memcmp(arrived.data(), received.data(), arrived.size()) == 0);
  peer.flush().wait();
  g.barrier();
  CHECK(worker.remove_am_handler(1) == status::ok);
  CHECK(worker.remove_fetch_handler(2) == status::ok);
}

void epochs(group_view g, std::uint32_t rank) {
  auto other = 1 - rank;
  std::array<std::uint32_t, 1> peers{other};
  auto w = window<double>::allocate(g, 100);
  CHECK(w.size() == 100 && w.data() != nullptr && w.group().size() == 2);
  std::vector<double> mine(10, rank + 0.5), theirs(10);
  {
    auto held = w.lock(other);
    CHECK(w.sync_type(other) == sync_type::lock);
    w.put(mine, other, 20);
    w.flush(other);
    w.get(theirs, other, 20);
  }
  CHECK(theirs == mine);
  g.barrier();
  CHECK(w.data()[29] == other + 0.5);

  {
    auto access = w.fence_epoch();
    w.accumulate(mine, reduce::sum, 0, 40);
    access.end();
  }
  if (rank == 0) CHECK(w.data()[45] == 2.0);

  auto exposure = w.post(peers);
  {
    auto access = w.start(peers);
    w.put(mine, other, 60);
  }
  exposure.end();
  CHECK(w.data()[60] == other + 0.5);

  {
    auto all = w.lock_all();
    double before = 0;
    w.fetch_and_op(1.0, before, reduce::sum, 0, 99);
    w.flush(0);
    CHECK(before == 0.0 || before == 1.0);
    // Every third element, by an operation.
    layout<double> spread(3, 1, 3), dense(3);
    w.rput(mine.data(), dense, other, 80, spread).wait();
    w.flush_all();
  }
  g.barrier();
  CHECK(w.data()[80] == other + 0.5 && w.data()[81] == 0.0 && w.data()[86] == other + 0.5);
  if (rank == 0) CHECK(w.data()[99] == 2.0);
  CHECK_THROWS(w.put(mine, other, 0), status::rma_sync);
  CHECK(w.try_put(mine, other, 0) == status::rma_sync);
  CHECK_THROWS(static_cast<void>(w.lock(7)), status::rma_rank);
  w.close();
}

void flavors(group_view g, std::uint32_t rank) {
  auto other = 1 - rank;
  std::vector<std::complex<float>> own(8);
  auto created = window<std::complex<float>>::create(g, own);
  {
    auto held = created.lock(other, lock_type::shared);
    std::array<std::complex<float>, 1> value{std::complex<float>(1.f, 2.f)};
    created.put(value, other, 3);
  }
  g.barrier();
  CHECK(own[3] == std::complex<float>(1.f, 2.f));
  created.close();

  auto shared = window<std::int32_t>::allocate_shared(g, 16);
  std::size_t count = 0;
  auto *there = shared.shared_query(other, &count);
  CHECK(there != nullptr && count == 16);
  {
    auto all = shared.lock_all();
    there[rank] = 5;
    shared.sync();
    g.barrier();
    shared.sync();
    CHECK(shared.data()[other] == 5);
  }
  shared.close();

  auto dynamic = window<std::byte>::create_dynamic(g);
  std::array<std::byte, 64> memory{};
  CHECK(dynamic.attach(memory) == status::ok);
  auto addresses = g.allgather(reinterpret_cast<std::int64_t>(memory.data()));
  {
    auto held = dynamic.lock(other);
    std::array<std::byte, 2> value{std::byte(7), std::byte(8)};
    dynamic.put(value, other, addresses[other] + 10);
  }
  g.barrier();
  CHECK(memory[11] == std::byte(8));
  CHECK(dynamic.detach(memory.data()) == status::ok);
  dynamic.close();
}

void run(std::uint32_t rank, int fd) {
  auto context = context::create();
  worker_params params;
  params.progress_mode = progress_mode::adaptive;
  auto worker = worker::create(context, params);
  auto g = meet(worker, rank, fd);
  collectives(g, rank);
  messages(worker, g, rank);
  epochs(g, rank);
  flavors(g, rank);
  g.barrier();
}

} // namespace

int main() {
  limit();
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  // Before anything of UCX: a child has none of its parent's.
  auto child = fork();
  CHECK(child >= 0);
  run(child == 0 ? 1 : 0, ends[child == 0 ? 1 : 0]);
  if (child == 0) return 0;
  int how = 0;
  CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0);
}
