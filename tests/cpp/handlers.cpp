// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Handlers of messages and fetches, and callbacks that destroy what they belong to.
#include "check.hpp"

#include <array>
#include <string>

using namespace ucxx_rs;
using namespace test;

namespace {

std::string text(const_buffer b) { return {static_cast<const char *>(b.data()), b.size()}; }

void active_messages(const pair &p) {
  std::atomic<int> seen{0};
  auto kept = std::make_shared<int>(1);
  p.b.set_am_handler(1, [&, kept](am_message m) {
    CHECK(text(m.header()) == "header" && m.size() == 4 && m.reply());
    seen++;
    // It replaces itself, and uses what it has captured.
    p.b.set_am_handler(1, [&](am_message) { seen += 10; });
    CHECK(*kept == 1);
  });
  op_params replies;
  replies.flags = flag::am_reply;
  CHECK(p.finish(p.ab.am_send(1, "header"sv, "data"sv).with(replies)) == status::ok);
  p.until([&] { return seen == 1; });
  CHECK(p.finish(p.ab.am_send(1, "header"sv)) == status::ok);
  p.until([&] { return seen == 11; });
  p.until([&] { return kept.use_count() == 1; });
  CHECK(p.b.remove_am_handler(1) == status::ok);
}

template <class F> result<std::string> asked(const pair &p, F handler) {
  p.b.set_fetch_handler(2, std::move(handler));
  std::array<char, 64> into{};
  recv_info info;
  auto submitted = status::in_progress;
  std::atomic<bool> done{false};
  p.ab.fetch(2, "what?"sv, into).then([&](status s, recv_info got) {
    submitted = s;
    info = got;
    done = true;
  });
  p.until([&] { return done.load(); });
  if (failed(submitted)) return submitted;
  return std::string(into.data(), info.length);
}

std::atomic<int> thrown{0};
void fetches(const pair &p) {
  static const std::string constant = "constant";
  CHECK(*asked(p, [](fetch_view f) { return "re: " + text(f.header()); }) == "re: what?");
  CHECK(*asked(p, [](fetch_view) { return std::vector<char>{'v'}; }) == "v");
  CHECK(*asked(p, [](fetch_view) { return "view"sv; }) == "view");
  CHECK(*asked(p, [](fetch_view) -> const std::string & { return constant; }) == "constant");
  CHECK(*asked(p, [](fetch_view) { return std::string(); }) == "");
  CHECK(asked(p, [](fetch_view) { return status::no_elem; }).error() == status::no_elem);
  CHECK(asked(p, [](fetch) {}).error() == status::canceled);
  CHECK(*asked(p, [](fetch f) {
    auto own = std::make_unique<std::pair<fetch, std::string>>(std::move(f), "later");
    auto sending = own->first.reply(own->second);
    std::move(sending).then([own = std::move(own)](status) {});
  }) == "later");
  set_exception_handler([](std::exception_ptr) { thrown++; });
  auto fails = [](fetch_view) -> std::string { throw std::runtime_error("mine"); };
  int before = thrown;
  CHECK(asked(p, fails).error() == status::canceled);
  // The fetch is rejected before the exception reaches its handler.
  p.until([&] { return thrown > before; });
  set_exception_handler(nullptr);
#if UCXX_RS_COROUTINES
  CHECK(*asked(p, [](fetch f) -> task<> { co_await f.reply("coroutine"sv); }) == "coroutine");
#endif
  CHECK(p.b.remove_fetch_handler(2) == status::ok);
}

void several_buffers(const pair &p) {
  std::atomic<int> seen{0};
  auto handler = [&](multi_message m) {
    CHECK(m.status == status::ok && m.data && text(m.header) == "header");
    seen += static_cast<int>(m.data->size());
  };
  p.b.set_multi_handler(3, handler);
  CHECK(p.finish(p.ab.am_send_multi(3, "header"sv, {"one"sv, "two"sv})) == status::ok);
  p.until([&] { return seen == 2; });
  p.b.set_am_queue_handler("owner", 4, handler);
  CHECK(p.finish(p.ab.am_queue_send_to("owner", 4, "header"sv, "three"sv)) == status::ok);
  p.until([&] { return seen == 3; });
}

/// Endpoints that end in their own callbacks.
void own_ends(const pair &p) {
  for (int in_open = 0; in_open < 2; in_open++) {
    std::atomic<bool> closed{false};
    auto kept = std::make_shared<int>(7);
    auto own = std::make_shared<std::optional<endpoint>>();
    endpoint_params params;
    if (in_open) {
      params.on_open = [own, kept](endpoint_view, status) {
        own->reset();
        CHECK(*kept == 7);
      };
    }
    params.on_close = [&, own, kept](endpoint_view, status s) {
      own->reset();
      CHECK(*kept == 7 && s == status::ok);
      closed = true;
    };
    // on_open must not run before the owner is there.
    CHECK(p.a.run_pre([&] {
      own->emplace(endpoint::create(p.a, address::of(p.b), std::move(params)));
    }) == status::ok);
    if (!in_open) (*own)->close(close_mode::force).then([](status) {});
    p.until([&] { return closed.load(); });
    p.until([&] { return kept.use_count() == 1; });
  }
}

/// A listener that its own callback destroys, and one with a notifier.
void listeners(const pair &p) {
  std::atomic<int> asked{0};
  auto own = std::make_shared<std::optional<listener>>();
  auto kept = std::make_shared<int>(7);
  listener_params params;
  params.on_connect = [&, kept](const conn_request &) {
    own->reset();
    CHECK(*kept == 7);
    asked++;
  };
  own->emplace(listener::create(p.b, std::move(params)));
  auto client = endpoint::connect(p.a, "127.0.0.1", (*own)->port());
  p.until([&] { return failed(client.status()); });
  if (client.status() == status::unreachable) return std::puts("listeners: left out"), void();
  // The listener's end rejects the client before the callback goes on.
  p.until([&] { return asked == 1; });
  CHECK(!*own);
  auto n = notifier::create(p.context);
  params = listener_params();
  params.notifier = n.c();
  auto at = listener::create(p.b, std::move(params));
  auto second = endpoint::connect(p.a, "127.0.0.1", at.port());
  completion one[1];
  p.until([&] { return n.poll(one) == 1; });
  CHECK(one[0].kind() == event::conn_request);
  auto accepted = endpoint::accept(one[0].take_conn_request());
  std::array<char, 2> in{};
  auto receiving = accepted.stream_recv(in).submit();
  CHECK(p.finish(second.stream_send("hi"sv)) == status::ok);
  p.until([&] { return receiving.done(); });
  CHECK(in[1] == 'i');
  for (auto *each : {&second, &accepted}) {
    CHECK(!failed(p.finish(each->close(close_mode::force))));
  }
}

void remote_memory(const pair &p) {
  auto m = memory::allocate(p.context, 64);
  auto packed = m.pack();
  auto key = rkey::unpack(p.ab, packed);
  std::uint64_t one = 1, back = 0;
  CHECK(p.finish(key.put(object(one), 8)) == status::ok && p.finish(p.ab.flush()) == status::ok);
  CHECK(p.finish(key.get(object(back), 8)) == status::ok && back == 1);
  CHECK(p.finish(key.atomic(atomic_op::add, 8, std::uint64_t(4))) == status::ok);
  auto before = key.fetch_atomic(atomic_op::add, 8, std::uint64_t(2)).future();
  p.until([&] { return before.wait_for(0s) == std::future_status::ready; });
  CHECK(before.get() == 5);
  auto swapped = key.compare_and_swap(8, std::uint64_t(7), std::uint64_t(9)).future();
  p.until([&] { return swapped.wait_for(0s) == std::future_status::ready; });
  CHECK(swapped.get() == 7 &&
        __atomic_load_n(static_cast<std::uint64_t *>(m.data()) + 1, __ATOMIC_ACQUIRE) == 9);
}

} // namespace

int main() {
  limit();
  context_params params;
  params.features = feature::tag | feature::stream | feature::am | feature::wakeup | feature::rma |
                    feature::atomic;
  for (auto mode : modes) {
    pair p(mode, params);
    active_messages(p);
    fetches(p);
    several_buffers(p);
    own_ends(p);
    listeners(p);
    remote_memory(p);
  }
}
