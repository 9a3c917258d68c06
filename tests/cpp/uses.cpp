// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Uses each template of ucxx_rs.hpp, to be compiled with all warnings in all modes. It never runs.
#include <ucxx_rs.hpp>

#include <array>
#include <string>
#include <vector>

using namespace ucxx_rs;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

namespace {

template <class Describe> void forms_of_buffers(Describe describe) {
  static_cast<void>(describe().wait());
  static_cast<void>(describe().try_wait());
  static_cast<void>(describe().submit());
  describe().then([](status) {});
  describe().then([](status, auto taken) { static_cast<void>(taken->data); });
#if UCXX_RS_EXCEPTIONS
  static_cast<void>(describe().future());
#endif
}

template <class Describe> void forms_of_sends(Describe describe) {
  describe().wait();
  static_cast<void>(describe().try_wait());
  static_cast<void>(describe().submit().wait(1s));
  static_cast<void>(describe().try_submit());
  describe().then([](status) {});
  static_cast<void>(describe().try_then([](status) {}));
  op_params params;
  params.timeout = 1s;
  describe().with(params).wait();
  static_cast<void>(describe().with(params).submit());
#if UCXX_RS_EXCEPTIONS
  describe().future().get();
#endif
}

template <class Describe> void forms_of_receives(Describe describe) {
  static_cast<void>(describe().wait().length);
  static_cast<void>(describe().submit());
  describe().then([](status) {});
  describe().then([](status, recv_info) {});
#if UCXX_RS_EXCEPTIONS
  static_cast<void>(describe().future());
#endif
}

} // namespace

void operations(const endpoint_view &ep, const worker_view &w, const rkey_view &key);
void operations(const endpoint_view &ep, const worker_view &w, const rkey_view &key) {
  std::vector<int> numbers(4);
  int array[4] = {};
  std::string text;
  forms_of_sends([&] { return ep.tag_send(numbers, 1); });
  forms_of_sends([&] { return ep.tag_send_iov({numbers, array, "text"sv}, 1); });
  forms_of_sends([&] { return ep.am_send(1, "header"sv, text); });
  forms_of_sends([&] { return ep.close(); });
  forms_of_sends([&] { return key.put(numbers, 0); });
  forms_of_receives([&] { return w.tag_recv(numbers, 1); });
  forms_of_receives([&] { return w.tag_recv_iov({numbers, array}, 1); });
  forms_of_receives([&] { return ep.fetch(1, text, numbers); });
  forms_of_buffers([&] { return ep.am_queue_recv(); });
  static_cast<void>(w.tag_recv_multi(1).wait().size());
  w.tag_recv_multi(1).then([](status, std::optional<buffers>) {});
  static_cast<void>(ep.fetch_alloc(1, text).wait().size());
  static_cast<void>(key.fetch_atomic(atomic_op::add, 0, 1u).wait());
  static_cast<void>(key.compare_and_swap(0, 1ll, 2ll).try_wait());
#if UCXX_RS_EXCEPTIONS
  static_cast<void>(key.fetch_atomic(atomic_op::add, 0, 1u).future());
#endif
  std::vector<request> requests;
  requests.push_back(ep.tag_send(numbers, 1).submit());
  static_cast<void>(wait_all(requests, 1s));
  static_cast<void>(wait_any(requests));
  std::uint64_t big[32] = {};
  static_cast<void>(ep.on_writable([big](endpoint_view, status s) {
    if (failed(s)) std::terminate();
    static_cast<void>(big);
  }));
}

void handlers(const worker_view &w);
void handlers(const worker_view &w) {
  w.set_am_handler(1, [](am_message message) { static_cast<void>(message.reply()); });
  w.set_fetch_handler(1, [](fetch) {});
  w.set_fetch_handler(1, [](fetch_view) { return std::string("reply"); });
  w.set_fetch_handler(1, [](fetch_view) { return std::vector<double>(4); });
  w.set_fetch_handler(1, [](fetch_view) { return std::array<float, 4>(); });
  w.set_fetch_handler(1, [](fetch_view) { return "text"sv; });
  w.set_fetch_handler(1, [](fetch_view) { return status::no_elem; });
  w.set_multi_handler(1, [](multi_message) {});
  w.set_am_queue_handler("owner", 1, [](const multi_message &) {});
#if UCXX_RS_COROUTINES
  w.set_fetch_handler(1, [](fetch asked) -> task<> { co_await asked.reply("late"sv); });
#endif
  static_cast<void>(w.run_pre([] {}, 1s));
  static_cast<void>(w.run_post([] {}));
  static_cast<void>(w.wait_until([] { return true; }, 1s));
  static_cast<void>(w.dump([](const char *) {}));
  static_cast<void>(w.metrics([](const char *) {}));
}

void windows(const group_view &g);
void windows(const group_view &g) {
  static_cast<void>(g.allgather(std::uint64_t(1)));
  std::array<std::uint32_t, 2> ranks{0, 1};
  static_cast<void>(group::subset(g, ranks));
  auto w = window<double>::allocate(g, 100);
  std::vector<double> row(10), before(10);
  layout<double> column(10, 1, 10), all(10);
  {
    auto held = w.lock(0);
    w.put(row, 0, 0);
    w.get(row, 0, 0);
    w.accumulate(row, reduce::sum, 0, 0);
    static_cast<void>(failed(w.try_put(row, 0, 0)) || failed(w.try_get(row, 0, 0)) ||
                      failed(w.try_accumulate(row, reduce::sum, 0, 0)));
    w.put(row.data(), all, 0, 0, column);
    w.get_accumulate(row.data(), all, before.data(), all, reduce::sum, 0, 0, column);
    w.fetch_and_op(1.0, before[0], reduce::sum, 0, 0);
    w.compare_and_swap(1.0, 2.0, before[0], 0, 0);
    w.rput(row.data(), all, 0, 0, column).wait();
    w.rget(row.data(), all, 0, 0, column).wait();
    w.flush_nb(0).wait();
  }
  {
    auto exposed = w.post(ranks);
    auto accessed = w.start(ranks);
  }
  auto fenced = w.fence_epoch();
  static_cast<void>(w.set_hints({}));
  static_cast<void>(window<indexed<float>>::allocate_shared(g, 4));
  static_cast<void>(window<unsigned char>::create_dynamic(g));
  static_cast<void>(window<double>::create(g, row));
}

void hubs(const context_view &c, const endpoint_view &ep);
void hubs(const context_view &c, const endpoint_view &ep) {
  hub_params params;
  params.envelope_size = 64;
  auto h = hub::create(c, params);
  auto in = hub_link::create(h, link_type::produce);
  link_params ready;
  ready.on_ready = [](hub_link_view, status) {};
  auto out = hub_link::create(h, link_type::consume, {}, std::move(ready));
  std::vector<ucxx_link_t *> links{in.c(), out.c()};
  h.set_flow(links);
  for (auto &each : lease_many(links)) each.commit();
  in.lease().wait().commit();
  static_cast<void>(out.lease().try_wait(1s));
  forms_of_sends([&] { return out.send(ep, 1); });
  forms_of_receives([&] { return in.recv(1); });
}

void events(const context_view &c);
void events(const context_view &c) {
  auto n = notifier::create(c);
  completion one[4];
  std::vector<completion> several(4);
  static_cast<void>(n.poll(one));
  static_cast<void>(n.try_poll(several));
  c.visit_config([](const char *, const char *) {});
}

result<std::string> chained(result<int> number);
result<std::string> chained(result<int> number) {
  return std::move(number)
      .transform([](int value) { return value + 1; })
      .and_then([](int value) -> result<std::string> { return std::string(1, char(value)); });
}

#ifdef __cpp_lib_expected
std::expected<int, status> expected(result<int> number);
std::expected<int, status> expected(result<int> number) {
  std::expected<int, status> converted = std::move(number);
  return converted;
}
#endif

#if UCXX_RS_COROUTINES
task<int> coroutines(const worker_view &w, endpoint_view ep, rkey_view key, hub_link &l,
                     listener &at, std::stop_token token);
task<int> coroutines(const worker_view &w, endpoint_view ep, rkey_view key, hub_link &l,
                     listener &at, std::stop_token token) {
  std::vector<int> numbers(4);
  co_await ep.tag_send(numbers, 1);
  recv_info info = co_await w.tag_recv(numbers, 1);
  static_cast<void>(info);
  info = co_await w.tag_recv(numbers, 1).stoppable(token);
  result<recv_info> maybe = co_await w.tag_recv(numbers, 1).as_result();
  static_cast<void>(maybe);
  status s = co_await ep.flush().as_result();
  static_cast<void>(s);
  co_await ep.flush().with({.timeout = 1s}).stoppable(token);
  buffers several = co_await w.tag_recv_multi(1);
  auto also = co_await ep.am_queue_recv().as_result();
  static_cast<void>(also);
  unsigned before = co_await key.fetch_atomic(atomic_op::add, 0, 1u);
  co_await ep.writable();
  envelope leased = co_await l.lease();
  conn_request client = co_await at.accept();
  co_return static_cast<int>(before);
}

int run(const worker_view &w, task<int> work);
int run(const worker_view &w, task<int> work) { return w.run(std::move(work)); }
#endif
