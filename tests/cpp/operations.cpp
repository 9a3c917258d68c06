// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Operations in every form, errors, notifiers and the memory of callbacks.
#include "check.hpp"

#include <array>
#include <new>
#include <string>

using namespace ucxx_rs;
using namespace test;

namespace {
thread_local long allocations = 0;
}

// Inlined, they look mismatched to GCC.
[[gnu::noinline]] void *operator new(std::size_t size) {
  allocations++;
  if (void *memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

void errors(const pair &p) {
  std::error_code code = status::timed_out;
  CHECK(code == std::errc::timed_out && code.category() == category());
  CHECK(make_error_code(status::endpoint_timeout) == std::errc::timed_out);
  CHECK(make_error_code(status::canceled) == std::errc::operation_canceled);
  CHECK(make_error_code(status::panic) != std::errc::io_error);
  CHECK(code.message().size() > 3 && std::string(name(status::busy)) == "UCXX_ERR_BUSY");
  try {
    endpoint::connect(p.a, "127.0.0.1", 0);
    CHECK(false);
  } catch (const std::system_error &e) {
    CHECK(e.code() == std::errc::invalid_argument);
    CHECK(std::string(e.what()).find("port") != std::string::npos);
  }
  auto refused = endpoint::try_connect(p.a, "127.0.0.1", 0);
  CHECK(!refused && refused.error() == status::invalid_param);
  CHECK_THROWS(std::move(refused).value(), status::invalid_param);
  CHECK(result<int>(status::busy).value_or(7) == 7);
  auto seven = result<int>(6).transform([](int six) { return six + 1; });
  CHECK(*seven == 7 && seven.error() == status::ok);
  CHECK(result<int>(1).and_then([](int) -> result<int> { return status::busy; }).error() ==
        status::busy);
  CHECK_THROWS(wait_any(std::vector<request>()), status::no_elem);
}

void every_form(const pair &p) {
  std::array<int, 4> out{1, 2, 3, 4}, in{};
  // submit
  auto receiving = p.b.tag_recv(in, 1).submit();
  CHECK(p.finish(p.ab.tag_send(out, 1)) == status::ok);
  p.until([&] { return receiving.done(); });
  CHECK(receiving.status() == status::ok && in == out);
  CHECK(!receiving.c() || receiving.try_info()->length == sizeof out);
  // then
  std::atomic<int> called{0};
  recv_info got;
  p.b.tag_recv(in, 2).then([&](status s, recv_info info) {
    CHECK(s == status::ok);
    got = info;
    called++;
  });
  p.ab.tag_send(out, 2).then([&](status s) {
    CHECK(s == status::ok);
    called++;
  });
  p.until([&] { return called == 2; });
  CHECK(got.length == sizeof out && got.sender_tag == 2);
  // future
  auto coming = p.b.tag_recv(in, 3).future();
  auto going = p.ab.tag_send(out, 3).future();
  p.until([&] { return coming.wait_for(0s) == std::future_status::ready; });
  p.until([&] { return going.wait_for(0s) == std::future_status::ready; });
  CHECK(coming.get().length == sizeof out);
  going.get();
  // wait, where the other side needs no progress of ours
  CHECK(p.finish(p.ab.tag_send(out, 4)) == status::ok);
  CHECK(p.b.tag_recv(in, 4).wait().length == sizeof out);
  CHECK(p.b.tag_recv(in, 5).with(op_params()).submit().cancel() == status::ok);
  // A new message that is too long, and one that never comes.
  std::array<int, 1> small{};
  CHECK(p.finish(p.ab.tag_send(out, 6)) == status::ok);
  CHECK(p.b.tag_recv(small, 6).try_wait().error() == status::message_truncated);
  op_params limited;
  limited.timeout = 1ms;
  CHECK_THROWS(p.b.tag_recv(small, 7).with(limited).wait(), status::timed_out);
  auto never = p.b.tag_recv(small, 8).with(limited).future();
  p.until([&] { return never.wait_for(0s) == std::future_status::ready; });
  CHECK_THROWS(never.get(), status::timed_out);
  auto first = p.b.tag_recv(in, 9).submit(), second = p.b.tag_recv(small, 10).submit();
  CHECK(second.cancel() == status::ok);
  p.until([&] { return second.done(); });
  std::vector<request> both;
  both.push_back(std::move(first));
  both.push_back(std::move(second));
  CHECK(wait_any(both) == 1u && both[1].status() == status::canceled);
  CHECK(!wait_all(both, 0s));
  both[0].cancel();
  p.until([&] { return both[0].done(); });
  CHECK_THROWS(wait_all(both), status::canceled);
}

void descriptions(const pair &p) {
  std::array<int, 1> in{};
  CHECK(request().describe() == "completed at once");
  auto plain = p.b.tag_recv(in, 11).submit();
  CHECK(plain.try_describe().error() == status::unsupported);
  worker_params params;
  params.describe_requests = true;
  auto describing = worker::create(p.context, params);
  auto described = describing.tag_recv(in, 11).submit();
  CHECK(described.describe().find("length 4") != std::string::npos);
  CHECK(request_view(described.c()).describe() == described.describe());
  plain.cancel();
  described.cancel();
  CHECK_THROWS(described.wait(), status::canceled);
  p.until([&] { return plain.done(); });
}

void buffers_of_all_kinds(const pair &p) {
  std::array<int, 2> one{1, 2};
  std::string two = "two";
  auto receiving = p.b.tag_recv_multi(1).future();
  CHECK(p.finish(p.ab.tag_send_multi({one, two}, 1)) == status::ok);
  p.until([&] { return receiving.wait_for(0s) == std::future_status::ready; });
  auto made = receiving.get();
  CHECK(made.size() == 2 && made[1].size() == 3);
  auto taken = made.try_take(1);
  CHECK(taken && std::memcmp(taken->data(), "two", 3) == 0 && !made.try_take(1));
  std::free(taken->data());
  CHECK(p.finish(p.ab.tag_send_multi({one, two}, 2)) == status::ok);
  std::atomic<bool> seen{false};
  p.b.tag_recv_multi(2).then([&](status s, std::optional<buffers> several) {
    CHECK(s == status::ok && several->size() == 2);
    seen = true;
  });
  p.until([&] { return seen.load(); });
  auto queued = p.ba.am_queue_recv().future();
  CHECK(p.finish(p.ab.am_queue_send(two)) == status::ok);
  if (queued.wait_for(0s) != std::future_status::ready) {
    for (int i = 0; i < 1000 && p.manual(); i++) p.b.progress();
  }
}

void reported_by_a_notifier(const pair &p) {
  auto n = notifier::create(p.context);
  std::array<int, 1> out{5}, in{};
  int mark = 0;
  op_params params;
  params.notifier = n.c();
  params.user_data = &mark;
  params.always = true;
  auto receiving = p.b.tag_recv(in, 1).with(params).submit();
  CHECK(p.finish(p.ab.tag_send(out, 1)) == status::ok);
  std::vector<completion> several(4);
  std::size_t count = 0;
  p.until([&] { return (count = n.poll(several)) != 0; });
  CHECK(count == 1 && several[0].kind() == event::completion && several[0].user_data() == &mark);
  CHECK(several[0].status() == status::ok && several[0].info().length == sizeof in && in[0] == 5);
  CHECK(!n.wait(0s));
  // What was not taken is destroyed with it.
  CHECK(p.b.set_am_notifier(3, n, &mark) == status::ok);
  for (int i = 0; i < 3; i++) CHECK(p.finish(p.ab.am_send(3, "header"sv, out)) == status::ok);
  p.until([&] { return (count += n.poll(several)) >= 4; });
  n.stop();
  CHECK(n.try_poll(several).error() == status::closed);
  CHECK(p.b.remove_am_handler(3) == status::ok);
}

/// The rounds after the first ones allocate nothing by `new`.
void callables_of_all_sizes(const pair &p) {
  std::array<int, 1> out{1}, in{};
  std::atomic<int> called{0};
  std::atomic<int> *count = &called;
  std::array<char, 40> middle{};
  std::array<char, 500> large{};
  auto round = [&](int tag) {
    auto all = called + 6;
    auto *from = &out;
    p.b.tag_recv(in, std::uint64_t(tag)).then([count](status) { ++*count; });
    p.b.tag_recv(in, std::uint64_t(tag)).then([count, middle](status) { *count += 1 + middle[3]; });
    p.b.tag_recv(in, std::uint64_t(tag)).then([count, from](status, recv_info) {
      *count += (*from)[0];
    });
    for (int i = 0; i < 3; i++) {
      p.ab.tag_send(out, std::uint64_t(tag)).then([count, middle](status) {
        *count += 1 + middle[0];
      });
    }
    p.until([&] { return called == all; });
  };
  for (int i = 0; i < 20; i++) round(i);
  // The blocks go around: the other thread's free blocks are reused here.
  long before = allocations;
  for (int i = 0; i < 200; i++) round(i);
  CHECK(allocations - before <= (p.manual() ? 0 : 12));
  auto all = called + 2;
  p.b.tag_recv(in, 1).then([count, large](status) { *count += 1 + large[7]; });
  auto owned = std::make_unique<int>(1);
  p.ab.tag_send(out, 1).then([count, owned = std::move(owned)](status) { *count += *owned; });
  p.until([&] { return called == all; });
  // A callback that never runs is freed by try_then.
  auto kept = std::make_shared<int>(1);
  CHECK(p.b.tag_recv({nullptr, 8}, 1).try_then([kept, large](status) { std::abort(); }) ==
        status::invalid_param);
  CHECK(kept.use_count() == 1);
}

std::atomic<int> thrown{0};
void exceptions(const pair &p) {
  auto before = set_exception_handler([](std::exception_ptr what) {
    try {
      std::rethrow_exception(what);
    } catch (const std::runtime_error &e) { thrown += std::string(e.what()) == "mine"; }
  });
  CHECK(before == nullptr);
  thrown = 0;
  int in = 0;
  p.b.tag_recv(object(in), 1).then([](status) { throw std::runtime_error("mine"); });
  CHECK(p.finish(p.ab.tag_send(object(in), 1)) == status::ok);
  p.until([] { return thrown == 1; });
  auto s = p.b.run_pre([] { throw std::runtime_error("mine"); });
  CHECK(s == status::ok && thrown == 2);
  CHECK(p.b.dump([](const char *) { throw std::runtime_error("mine"); }) == status::ok);
  CHECK(thrown > 2);
  set_exception_handler(nullptr);
}

void owners(const pair &p) {
  auto w = p.make();
  worker_view view = w;
  worker moved = std::move(w);
  CHECK(moved == view);
  moved = p.make();
  auto *released = moved.release();
  moved = worker(released);
  worker *self = &moved;
  moved = std::move(*self);
  CHECK(moved.c() == released);
  std::atomic<bool> done{false};
  CHECK(worker::destroy_nb(std::move(moved), [&] { done = true; }) == status::ok);
  p.until([&] { return done.load(); });
}

} // namespace

int main() {
  limit();
  for (auto mode : modes) {
    pair p(mode);
    errors(p);
    every_form(p);
    descriptions(p);
    buffers_of_all_kinds(p);
    reported_by_a_notifier(p);
    callables_of_all_sizes(p);
    exceptions(p);
    owners(p);
  }
}
