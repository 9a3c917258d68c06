// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Mistakes that the compiler refuses. Each `#if` says what the compiler has to say, as a regular
// expression, and its `#else` is the same without the mistake: see test_must_not_compile.py.
#include <ucxx_rs.hpp>

#include <array>
#include <string>
#include <vector>

using namespace std::string_view_literals;
using namespace ucxx_rs;

struct text {
  std::string inside;
};

void mistakes(endpoint ep, worker w, rkey key, group g, hub h) {
  std::vector<int> numbers(4);
  const std::vector<int> constant(4);
  std::vector<text> texts(4);
  static_cast<void>(texts);

#if CASE == 1 // the temporary ends before the operation does
  ep.tag_send(std::vector<int>(4), 1).wait();
#else
  ep.tag_send(numbers, 1).wait();
#endif

#if CASE == 2 // the temporary ends before the operation does
  w.tag_recv(std::array<int, 4>(), 1).wait();
#else
  w.tag_recv(numbers, 1).wait();
#endif

#if CASE == 3 // a literal has a zero at its end
  ep.tag_send("hello", 1).wait();
#else
  ep.tag_send("hello"sv, 1).wait();
#endif

#if CASE == 4 // could not convert|no viable conversion|cannot convert|no matching
  w.tag_recv(constant, 1).wait();
#else
  ep.tag_send(constant, 1).wait();
#endif

#if CASE == 5 // could not convert|no viable conversion|cannot convert|no matching
  ep.tag_send(texts, 1).wait();
#else
  ep.tag_send(texts[0].inside, 1).wait();
#endif

#if CASE == 6 // the object cannot be copied as bytes
  ep.tag_send(object(texts[0]), 1).wait();
#else
  ep.tag_send(object(numbers[0]), 1).wait();
#endif

#if CASE == 7 // deleted
  worker other = w;
#else
  worker other = std::move(w);
#endif
  static_cast<void>(other);

#if CASE == 8 // deleted
  endpoint second(ep);
#else
  endpoint second = endpoint::retain(ep);
#endif
  static_cast<void>(second);

#if CASE == 9 // nodiscard
  ep.tag_send(numbers, 1);
#else
  ep.tag_send(numbers, 2).wait();
#endif

#if CASE == 10 // nodiscard
  w.tag_probe(1);
#else
  static_cast<void>(w.tag_probe(1));
#endif

#if CASE == 11 // a request has no place for the result
  static_cast<void>(key.fetch_atomic(atomic_op::add, 0, 1u).submit());
#else
  static_cast<void>(key.atomic(atomic_op::add, 0, 1u).submit());
#endif

#if CASE == 12 // pass a place for the result as an argument
  key.fetch_atomic(atomic_op::add, 0, 1u).then([](status) {});
#else
  key.atomic(atomic_op::add, 0, 1u).then([](status) {});
#endif

#if CASE == 13 // atomic operations are on integers of 4 or 8 bytes
  key.atomic(atomic_op::add, 0, std::uint16_t(1)).wait();
#else
  key.atomic(atomic_op::add, 0, std::uint32_t(1)).wait();
#endif

#if CASE == 14 // windows have no elements of this type
  auto win = window<text>::allocate(g, 4);
#else
  auto win = window<int>::allocate(g, 4);
#endif

#if CASE == 15 // the elements are not those of the window
  win.put(std::array<float, 4>(), 1, 0);
#else
  win.put(numbers, 1, 0);
#endif

#if CASE == 16 // the temporary ends before the epoch does
  win.get(std::vector<int>(4), 1, 0);
#else
  win.get(numbers, 1, 0);
#endif

#if CASE == 17 // nodiscard
  win.lock(1);
#else
  auto held = win.lock(1);
#endif

#if CASE == 18 // deleted
  auto shared = held;
#else
  auto shared = std::move(held);
#endif

#if CASE == 19 // nodiscard
  auto in = hub_link::create(h, link_type::produce);
  in.lease();
#else
  auto in = hub_link::create(h, link_type::produce);
  static_cast<void>(in.lease().wait());
#endif

#if CASE == 20 // use of deleted|implicitly.deleted|deleted
  auto leased = in.lease().wait();
  auto again = leased;
#else
  auto leased = in.lease().wait();
  auto again = std::move(leased);
#endif

#if CASE == 21 // lvalue|discards qualifiers|no matching|no member|passing
  auto sending = ep.tag_send(numbers, 1);
  sending.wait();
#else
  auto sending = ep.tag_send(numbers, 1);
  std::move(sending).wait();
#endif

#if CASE == 22 // windows have no elements of this type
  auto made = layout<std::string>(std::size_t(4));
#else
  auto made = layout<double>(std::size_t(4));
#endif
  static_cast<void>(made);

#if CASE == 23 // use of deleted|deleted
  request one = ep.tag_send(numbers, 1).submit(), two = one;
#else
  request one = ep.tag_send(numbers, 1).submit(), two = std::move(one);
#endif

#if CASE == 24 // a callback must be movable without throw
  struct throws {
    throws() = default;
    throws(throws &&) noexcept(false) {}
    void operator()(status) const {}
  };
  ep.tag_send(numbers, 1).then(throws());
#else
  ep.tag_send(numbers, 1).then([](status) {});
#endif

#if CASE == 25 // not for operations that make buffers
  [](worker_view from) -> task<> {
    co_await from.tag_recv_multi(1).stoppable(std::stop_token());
  }(w);
#else
  static_cast<void>([](worker_view from, buffers_view into) -> task<> {
    co_await from.tag_recv(into[0], 1).stoppable(std::stop_token());
  });
#endif

#if CASE == 26 // nodiscard
  [](worker_view from) -> task<> { co_await from.flush(); }(w);
#else
  spawn([](worker_view from) -> task<> { co_await from.flush(); }(w));
#endif

#if CASE == 27 // could not convert|no viable conversion|cannot convert|no matching
  w.set_fetch_handler(1, [](fetch_view) { return std::vector<text>(4); });
#else
  w.set_fetch_handler(1, [](fetch_view) { return std::vector<int>(4); });
#endif

#if CASE == 28 // could not convert|no viable conversion|cannot convert|no matching
  w.tag_recv("hello"sv, 1).wait();
#else
  ep.tag_send(std::string_view("hello"), 1).wait();
#endif

#if CASE == 29 // deleted
  worker_view borrowed = worker::create(context::create());
#else
  worker_view borrowed = w;
#endif

#if CASE == 30 // deleted
  borrowed = std::move(w);
#else
  borrowed = w;
#endif

#if CASE == 31 // deleted
  window_view<int> lent = window<int>::allocate(g, 4);
#else
  window_view<int> lent = win;
#endif
  static_cast<void>(lent);

#if CASE == 32 // deleted
  auto client = endpoint::create(worker::create(context::create()), address::of(w));
#else
  auto client = endpoint::create(w, address::of(w));
#endif
  static_cast<void>(shared);
  static_cast<void>(again);
}
