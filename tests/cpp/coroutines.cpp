// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Coroutines, which are resumed on other threads while they are still being suspended.
#include "check.hpp"

#include <array>

using namespace ucxx_rs;
using namespace test;

#if UCXX_RS_COROUTINES
namespace {

constexpr int rounds = 300;

task<int> pings(const pair &p) {
  int sum = 0;
  for (int i = 0; i < rounds; i++) {
    int answer = 0;
    co_await p.ab.tag_send(object(i), 1);
    auto info = co_await p.a.tag_recv(object(answer), 2);
    CHECK(info.length == sizeof answer && answer == i);
    sum += answer;
  }
  co_return sum;
}
task<> pongs(const pair &p) {
  for (int i = 0; i < rounds; i++) {
    int number = -1;
    auto got = co_await p.b.tag_recv(object(number), 1).as_result();
    CHECK(got && number == i);
    auto s = co_await p.ba.tag_send(object(number), 2).as_result();
    CHECK(s == status::ok);
  }
}
task<> flagged(task<> work, std::atomic<int> &ended) {
  co_await std::move(work);
  ended++;
}
task<> sum_of(const pair &p, std::atomic<int> &ended) {
  int sum = co_await pings(p);
  CHECK(sum == rounds * (rounds - 1) / 2);
  ended++;
}
void ping_pong(const pair &p) {
  std::atomic<int> ended{0};
  spawn(flagged(pongs(p), ended));
  spawn(sum_of(p, ended));
  p.until([&] { return ended == 2; });
}

task<> stopped(const pair &p, std::stop_token token, std::atomic<int> &ended) {
  int number = 0;
  try {
    co_await p.b.tag_recv(object(number), 77).stoppable(token);
  } catch (const error &e) { CHECK(e.status() == status::canceled); }
  ended++;
}
/// The stop comes before the call, during it, and while the operation completes by itself.
void stops(const pair &p) {
  for (int i = 0; i < rounds; i++) {
    std::atomic<int> ended{0};
    std::stop_source source;
    int number = 1;
    if (i % 3 == 0) source.request_stop();
    if (p.manual()) {
      spawn(stopped(p, source.get_token(), ended));
      if (i % 3 == 1) static_cast<void>(p.finish(p.ab.tag_send(object(number), 77)));
      source.request_stop();
      p.until([&] { return ended == 1; });
    } else {
      std::thread stopping([&] { source.request_stop(); });
      spawn(stopped(p, source.get_token(), ended));
      if (i % 3 == 1) static_cast<void>(p.finish(p.ab.tag_send(object(number), 77)));
      stopping.join();
      p.until([&] { return ended == 1; });
    }
    // A message that was not received any more.
    while (auto left = p.b.tag_probe_remove(77)) static_cast<void>(left);
  }
}

struct counted {
  explicit counted(int &c) : count(c) { count++; }
  ~counted() { count--; }
  int &count;
};
task<int> fails(const pair &p, int &alive) {
  counted here(alive);
  co_await p.ab.flush();
  throw std::runtime_error("mine");
}
void ways_to_run(const pair &p) {
  int alive = 0;
  if (p.manual()) {
    // run makes progress on its own worker alone.
    auto works = [](const pair &q) -> task<int> {
      co_await q.ab.flush();
      co_return 5;
    };
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) p.b.progress();
    });
    CHECK(p.a.run(works(p)) == 5);
    stop = true;
    other.join();
  }
  bool caught = false;
  try {
    p.a.run([](const pair &q, int &a) -> task<> {
      static_cast<void>(a);
      static_cast<void>(q);
      throw std::runtime_error("mine");
      co_return;
    }(p, alive));
  } catch (const std::runtime_error &) { caught = true; }
  CHECK(caught);
  { auto never = fails(p, alive); } // It has not started, and ends here.
  CHECK(alive == 0);
  // Nothing would make progress.
  std::atomic<int> seen{0};
  auto s = p.a.run_pre([&] {
    try {
      p.a.run([](const pair &q) -> task<> {
        int in = 0;
        co_await q.a.tag_recv(object(in), 1000);
      }(p));
    } catch (const error &e) { seen = static_cast<int>(e.status()); }
  });
  CHECK(s == status::ok && seen == static_cast<int>(status::busy));
  int out = 1;
  CHECK(p.finish(p.ba.tag_send(object(out), 1000)) == status::ok);
  p.until([&] { return p.a.try_progress().error() == status::busy || p.a.progress() == 0; });
}

task<> produce(hub_link &in, std::atomic<int> &ended) {
  for (int i = 0; i < rounds; i++) {
    auto leased = co_await in.lease();
    std::memcpy(leased.space().data(), &i, sizeof i);
    leased.commit(sizeof i);
  }
  ended++;
}
task<> consume(hub_link &out, std::atomic<int> &ended) {
  for (int i = 0; i < rounds; i++) {
    auto leased = co_await out.lease();
    int number = -1;
    std::memcpy(&number, leased.chunk().data(), sizeof number);
    CHECK(number == i);
    leased.commit();
  }
  ended++;
}
void links(const pair &p) {
  hub_params params;
  params.envelope_size = 64;
  auto h = hub::create(p.context, params);
  h.add_envelopes({}, 2);
  link_params waits;
  waits.awaitable = true;
  auto in = hub_link::create(h, link_type::produce, {}, std::move(waits));
  waits.awaitable = true;
  auto out = hub_link::create(h, link_type::consume, {}, std::move(waits));
  std::atomic<int> ended{0};
  std::thread other([&] { spawn(consume(out, ended)); });
  spawn(produce(in, ended));
  other.join();
  p.until([&] { return ended == 2; });
  h.close();
  out = std::move(in);
}

task<> serves(listener &at, const pair &p, std::atomic<int> &clients, std::atomic<bool> &ended) {
  static_cast<void>(p);
  try {
    for (;;) {
      auto client = co_await at.accept();
      CHECK(client.reject() == status::ok);
      clients++;
    }
  } catch (const error &e) { CHECK(e.status() == status::closed); }
  ended = true;
}
void accepts(const pair &p) {
  std::atomic<int> clients{0};
  std::atomic<bool> ended{false};
  {
    auto at = listener::create(p.b, {});
    auto early = endpoint::connect(p.a, "127.0.0.1", at.port());
    spawn(serves(at, p, clients, ended));
    // Without TCP it is unreachable.
    p.until([&] { return failed(early.status()); });
    if (early.status() == status::unreachable) return std::puts("accepts: left out"), void();
    CHECK(early.status() == status::rejected);
    p.until([&] { return clients == 1; });
  }
  CHECK(ended);
}

task<> sends(const pair &p, int count, std::atomic<int> &ended) {
  for (int i = 0; i < count; i++) {
    co_await p.ab.writable();
    co_await p.ab.tag_send(object(count), 5);
  }
  ended++;
}
void writes(const pair &p) {
  std::atomic<int> ended{0};
  spawn(sends(p, 50, ended));
  int in = 0;
  for (int i = 0; i < 50; i++) CHECK(p.finish(p.b.tag_recv(object(in), 5)) == status::ok);
  p.until([&] { return ended == 1; });
}

task<int> polls(notifier_loop &loop, notifier_view to, const pair &p) {
  int in[10], sum = 0;
  op_params params;
  params.notifier = to.c();
  params.always = true;
  for (int &one : in) {
    params.user_data = &one;
    p.b.tag_recv(object(one), 6).with(params).submit();
  }
  for (int i = 0; i < 10; i++) CHECK(p.finish(p.ab.tag_send(object(i), 6)) == status::ok);
  for (int i = 0; i < 10; i++) {
    auto done = co_await loop.next();
    CHECK(done.kind() == event::completion && done.status() == status::ok);
    sum += *static_cast<int *>(done.user_data());
  }
  CHECK(to.stop() == status::ok);
  try {
    static_cast<void>(co_await loop.next());
    CHECK(false);
  } catch (const error &e) { CHECK(e.status() == status::closed); }
  co_return sum;
}
void notifications(const pair &p) {
  auto to = notifier::create(p.context);
  notifier_loop loop(to);
  int sum = p.manual() ? loop.run(p.b, polls(loop, to, p)) : loop.run(polls(loop, to, p));
  CHECK(sum == 45);
}

} // namespace

int main() {
  limit();
  for (auto mode : modes) {
    pair p(mode);
    notifications(p);
    ping_pong(p);
    stops(p);
    links(p);
    accepts(p);
    writes(p);
    ways_to_run(p);
  }
}
#else
int main() { return 77; }
#endif
