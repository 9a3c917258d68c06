// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/worker.hpp: workers make progress, receive, and run handlers.
#ifndef UCXX_RS_WORKER_HPP
#define UCXX_RS_WORKER_HPP

#include "messages.hpp"
#include "notifier.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Which threads may call while progress is manual.
enum class thread_mode : std::int32_t {
  multi = UCXX_THREAD_MULTI, ///< Any, at any time.
  serialized = UCXX_THREAD_SERIALIZED, ///< Any, one at a time.
  single = UCXX_THREAD_SINGLE, ///< The thread that created the worker.
};

/// Who makes progress.
enum class progress_mode : std::int32_t {
  manual = UCXX_PROGRESS_MANUAL, ///< The caller.
  adaptive = UCXX_PROGRESS_THREAD_ADAPTIVE, ///< A thread that polls for a while, and then sleeps.
  polling = UCXX_PROGRESS_THREAD_POLLING, ///< A thread that polls.
  blocking = UCXX_PROGRESS_THREAD_BLOCKING, ///< A thread that sleeps whenever it can.
};

/// Parameters of a worker.
struct worker_params {
  ucxx_rs::thread_mode thread_mode = thread_mode::multi; ///< Which threads may call.
  ucxx_rs::progress_mode progress_mode = progress_mode::manual; ///< Who makes progress.
  /// Whether other threads submit through a queue of the progress thread. Default: they do.
  std::optional<bool> delayed_submission = {};
  std::uint32_t submission_queue_depth = 0; ///< Capacity of that queue. 0: 4,096.
  nanoseconds spin = nanoseconds(0); ///< How long waits poll before they sleep. 0: 50 us.
  std::optional<int> cpu = {}; ///< The CPU of the progress thread.
  void (*thread_start)(void *arg) = nullptr; ///< Runs first on each progress thread.
  void *thread_start_arg = nullptr; ///< Its argument.
  const char *name = nullptr; ///< Of the thread, and in dumps.
  bool describe_requests = false; ///< Whether it keeps UCX's descriptions: `request::describe`.
};

/// A worker, borrowed.
class worker_view : public detail::view<ucxx_worker_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// UCP's own handle, a ucp_worker_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_worker_native(c_); }
  /// Makes one pass of progress. Returns how many events it handled.
  std::uint32_t progress() const { return try_progress().value(); }
  /// As `progress`, without throwing: `busy` in a callback, or with a progress thread.
  result<std::uint32_t> try_progress() const noexcept {
    std::uint32_t events = 0;
    auto s = ucxx_worker_progress(c_, &events);
    return detail::filled(s, events);
  }
  /// Waits for an event, and handles it. Returns false if the time expired first. It may return
  /// without an event: call it in a loop.
  bool wait(nanoseconds timeout = forever) const { return detail::in_time(try_wait(timeout)); }
  /// As `wait`, without throwing.
  status try_wait(nanoseconds timeout = forever) const noexcept {
    return static_cast<status>(ucxx_worker_wait(c_, detail::wait_ns(timeout)));
  }
  /// Waits until `done()` is true, or the time expires. Returns `done()`.
  template <class Done> bool wait_until(Done done, nanoseconds timeout = forever) const {
    auto end = std::chrono::steady_clock::now();
    bool limited = timeout != forever;
    if (limited) end += timeout;
    while (!done()) {
      nanoseconds left = limited ? end - std::chrono::steady_clock::now() : forever;
      if (left.count() <= 0) return done();
      static_cast<void>(wait(left));
    }
    return true;
  }
  /// A descriptor for an event loop. The worker owns it. Arm it before each sleep.
  int event_fd() const { return try_event_fd().value(); }
  /// As `event_fd`, without throwing.
  result<int> try_event_fd() const noexcept {
    int fd = -1;
    auto s = ucxx_worker_event_fd(c_, &fd);
    return detail::filled(s, fd);
  }
  /// Arms the descriptor: `ok`, or `busy` if there is something to progress first.
  [[nodiscard]] status arm() const noexcept { return static_cast<status>(ucxx_worker_arm(c_)); }
  /// Makes progress until the worker is armed, so that the caller may sleep on the descriptor.
  void progress_and_arm() const {
    for (;;) {
      while (progress() != 0) {}
      auto s = arm();
      if (s == status::ok) return;
      if (s != status::busy) detail::fail(s);
    }
  }
  /// Ends the present `wait`, or the next one. Also in signal handlers.
  status signal() const noexcept { return static_cast<status>(ucxx_worker_signal(c_)); }

  /// Starts a progress thread.
  void start_progress_thread(progress_mode mode = progress_mode::adaptive) const {
    detail::check(try_start_progress_thread(mode));
  }
  /// As `start_progress_thread`, without throwing.
  status try_start_progress_thread(progress_mode mode = progress_mode::adaptive) const noexcept {
    return static_cast<status>(
        ucxx_worker_start_progress_thread(c_, static_cast<std::int32_t>(mode)));
  }
  /// Stops the progress thread, and waits for its end.
  void stop_progress_thread() const { detail::check(try_stop_progress_thread()); }
  /// As `stop_progress_thread`, without throwing: `no_elem` if there is none.
  status try_stop_progress_thread() const noexcept {
    return static_cast<status>(ucxx_worker_stop_progress_thread(c_));
  }
  /// Runs `f` where progress is made, before the next pass, and waits for it. Returns `timed_out`
  /// if it could not start in time: it will not run then.
  template <class F> status run_pre(F &&f, nanoseconds timeout = forever) const noexcept {
    return static_cast<status>(
        ucxx_worker_run_pre(c_, call<F>, std::addressof(f), detail::wait_ns(timeout)));
  }
  /// As `run_pre`, after the next pass.
  template <class F> status run_post(F &&f, nanoseconds timeout = forever) const noexcept {
    return static_cast<status>(
        ucxx_worker_run_post(c_, call<F>, std::addressof(f), detail::wait_ns(timeout)));
  }

  /// Modes, limits and the progress thread.
  ucxx_worker_attr_t query() const { return try_query().value(); }
  /// As `query`, without throwing.
  result<ucxx_worker_attr_t> try_query() const noexcept {
    auto attr = detail::sized<ucxx_worker_attr_t>();
    auto s = ucxx_worker_query(c_, &attr);
    return detail::filled(s, attr);
  }
  /// Counters since its creation.
  ucxx_worker_stats_t query_stats() const { return try_query_stats().value(); }
  /// As `query_stats`, without throwing.
  result<ucxx_worker_stats_t> try_query_stats() const noexcept {
    auto stats = detail::sized<ucxx_worker_stats_t>();
    auto s = ucxx_worker_query_stats(c_, &stats);
    return detail::filled(s, stats);
  }
  /// Describes it to `f(const char *line)`, line by line.
  template <class F> status dump(F &&f) const noexcept {
    return static_cast<status>(
        ucxx_worker_dump(c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> status metrics(F &&f) const noexcept {
    return static_cast<status>(ucxx_worker_metrics(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }

  /// Completes when all that was sent before has arrived, on all endpoints.
  /// @return An operation that gives nothing.
  auto flush() const noexcept {
    return detail::describe<void>(
        [c = c_](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_worker_flush(c, params, request);
        });
  }
  /// Asks for the end of every operation in flight. Returns their number. It waits for the progress
  /// thread.
  std::size_t cancel_all() const { return try_cancel_all().value(); }
  /// As `cancel_all`, without throwing.
  result<std::size_t> try_cancel_all() const noexcept {
    std::size_t count = 0;
    auto s = ucxx_worker_cancel_all(c_, &count);
    return detail::filled(s, count);
  }
  /// Orders puts, gets and atomics before it and after it.
  void fence() const { detail::check(try_fence()); }
  /// As `fence`, without throwing.
  status try_fence() const noexcept { return static_cast<status>(ucxx_worker_fence(c_)); }

  /// Receives a tag message whose tag is `tag` in the bits of `mask`.
  /// @return An operation that gives `recv_info`.
  auto tag_recv(mutable_buffer data, std::uint64_t tag, std::uint64_t mask = ~0ull) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, data, tag, mask](const ucxx_op_params_t *params,
                                  ucxx_request_t **request) noexcept {
          return ucxx_tag_recv(c, data.data(), data.size(), tag, mask, params, request);
        },
        data.memory());
  }
  /// Receives a tag message into several buffers, one after the other.
  /// @return An operation that gives `recv_info`.
  auto tag_recv_iov(mutable_buffers list, std::uint64_t tag,
                    std::uint64_t mask = ~0ull) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, list, tag, mask](const ucxx_op_params_t *params,
                                  ucxx_request_t **request) noexcept {
          return ucxx_tag_recv_iov(c, list.c(), list.size(), tag, mask, params, request);
        });
  }
  /// Receives what `tag_send_multi` has sent, into new buffers.
  /// @return An operation that gives `buffers`.
  auto tag_recv_multi(std::uint64_t tag, std::uint64_t mask = ~0ull,
                      const receive_params &from = {}) const noexcept {
    return detail::describe<buffers>(
        [c = c_, tag, mask, a = detail::c_allocator(from)](const ucxx_op_params_t *params,
                                                           ucxx_request_t **request) noexcept {
          return ucxx_tag_recv_multi(c, tag, mask, &a, params, request);
        });
  }
  /// Looks for a message that has arrived, and leaves it: `no_message` if there is none.
  result<recv_info> tag_probe(std::uint64_t tag, std::uint64_t mask = ~0ull) const noexcept {
    ucxx_recv_info_t info = ucxx_recv_info_t();
    auto s = static_cast<status>(ucxx_tag_probe(c_, tag, mask, &info, nullptr));
    if (failed(s)) return s;
    return recv_info{info.length, info.sender_tag};
  }
  /// Looks for a message that has arrived, and removes it from matching, to be received.
  result<tag_message> tag_probe_remove(std::uint64_t tag,
                                       std::uint64_t mask = ~0ull) const noexcept {
    ucxx_recv_info_t info = ucxx_recv_info_t();
    ucxx_tag_message_t *removed = nullptr;
    auto s = static_cast<status>(ucxx_tag_probe(c_, tag, mask, &info, &removed));
    if (failed(s)) return s;
    tag_message message(removed);
    message.info = {info.length, info.sender_tag};
    return message;
  }

  /// Calls `f(am_message)` for each active message of this id. It replaces the previous handler.
  template <class F> void set_am_handler(std::uint16_t id, F f) const {
    detail::check(try_set_am_handler(id, std::move(f)));
  }
  /// As `set_am_handler`, without throwing.
  template <class F> status try_set_am_handler(std::uint16_t id, F f) const {
    auto kept = std::make_unique<F>(std::move(f));
    return keep(kept, ucxx_worker_set_am_handler(
                          c_, id,
                          [](void *arg, ucxx_am_message_t *c) noexcept {
                            detail::guarded([&] { (*static_cast<F *>(arg))(am_message(c)); });
                          },
                          kept.get(), detail::destroy_handler<F>));
  }
  /// Removes the handler of active messages of this id.
  status remove_am_handler(std::uint16_t id) const noexcept {
    return static_cast<status>(ucxx_worker_set_am_handler(c_, id, nullptr, nullptr, nullptr));
  }
  /// Has a notifier report the active messages of this id.
  status set_am_notifier(std::uint16_t id, notifier_view to, void *user_data) const noexcept {
    return static_cast<status>(ucxx_worker_set_am_notifier(c_, id, to.c(), user_data));
  }
  /// Calls `f` for each fetch of this id. `f` is one of these:
  ///
  /// - `void f(fetch)` replies now, or keeps the fetch to reply later.
  /// - `task<> f(fetch)` (C++20) does so as a coroutine.
  /// - `R f(fetch_view)` gives the reply: R is contiguous, such as std::vector or std::string.
  /// - `status f(fetch_view)` rejects the fetch with this status.
  template <class F> void set_fetch_handler(std::uint16_t id, F f) const {
    detail::check(try_set_fetch_handler(id, std::move(f)));
  }
  /// As `set_fetch_handler`, without throwing.
  template <class F> status try_set_fetch_handler(std::uint16_t id, F f) const {
    auto kept = std::make_unique<F>(std::move(f));
    return keep(kept, ucxx_worker_set_fetch_handler(
                          c_, id,
                          [](void *arg, ucxx_fetch_t *c) noexcept {
                            detail::guarded([&] { answer(*static_cast<F *>(arg), fetch(c)); });
                          },
                          kept.get(), detail::destroy_handler<F>));
  }
  /// Removes the handler of fetches of this id.
  status remove_fetch_handler(std::uint16_t id) const noexcept {
    return static_cast<status>(ucxx_worker_set_fetch_handler(c_, id, nullptr, nullptr, nullptr));
  }
  /// Has a notifier report the fetches of this id.
  status set_fetch_notifier(std::uint16_t id, notifier_view to, void *user_data) const noexcept {
    return static_cast<status>(ucxx_worker_set_fetch_notifier(c_, id, to.c(), user_data));
  }
  /// Calls `f(multi_message)` for each message of `am_send_multi` with this id.
  template <class F>
  void set_multi_handler(std::uint16_t id, F f, const receive_params &from = {}) const {
    detail::check(try_set_multi_handler(id, std::move(f), from));
  }
  /// As `set_multi_handler`, without throwing.
  template <class F>
  status try_set_multi_handler(std::uint16_t id, F f, const receive_params &from = {}) const {
    auto kept = std::make_unique<F>(std::move(f));
    auto a = detail::c_allocator(from);
    return keep(kept, ucxx_worker_set_multi_handler(c_, id, call_multi<F>, kept.get(),
                                                    detail::destroy_handler<F>, &a));
  }
  /// Calls `f(multi_message)` for each message that `am_queue_send_to` sends to this owner and id.
  template <class F>
  void set_am_queue_handler(const char *owner, std::uint64_t id, F f,
                            const receive_params &from = {}) const {
    detail::check(try_set_am_queue_handler(owner, id, std::move(f), from));
  }
  /// As `set_am_queue_handler`, without throwing.
  template <class F>
  status try_set_am_queue_handler(const char *owner, std::uint64_t id, F f,
                                  const receive_params &from = {}) const {
    auto kept = std::make_unique<F>(std::move(f));
    auto a = detail::c_allocator(from);
    return keep(kept, ucxx_worker_set_am_queue_handler(c_, owner, id, call_multi<F>, kept.get(),
                                                       detail::destroy_handler<F>, &a));
  }

#if UCXX_RS_COROUTINES
  /// Runs a task until its end, and returns its result. Under manual progress it makes progress.
  template <class T> T run(task<T> work) const;
#endif

private:
  template <class F> static void call(void *arg) noexcept {
    detail::guarded([&] { (*static_cast<std::remove_reference_t<F> *>(arg))(); });
  }
  /// After success the handler belongs to C, which calls `destroy_handler`.
  template <class F> static status keep(std::unique_ptr<F> &kept, ucxx_status_t s) noexcept {
    if (s >= 0) static_cast<void>(kept.release());
    return static_cast<status>(s);
  }
  template <class F>
  static void call_multi(void *arg, ucxx_endpoint_t *reply, const void *header,
                         std::size_t header_length, ucxx_buffers_t *made,
                         ucxx_status_t s) noexcept {
    detail::guarded([&] {
      multi_message message{std::nullopt, const_buffer(header, header_length, memory_type::host),
                            std::nullopt, static_cast<status>(s)};
      if (reply) message.reply.emplace(reply);
      if (made) message.data.emplace(made);
      (*static_cast<F *>(arg))(std::move(message));
    });
  }

  template <class F> static void answer(F &f, fetch asked) {
    if constexpr (std::is_invocable_v<F &, fetch_view>) {
      reply_with(f, std::move(asked));
#if UCXX_RS_COROUTINES
    } else if constexpr (detail::is_task<std::invoke_result_t<F &, fetch>>) {
      spawn(f(std::move(asked)));
#endif
    } else {
      f(std::move(asked));
    }
  }
  template <class F> static void reply_with(F &f, fetch asked) {
    using Answer = std::decay_t<std::invoke_result_t<F &, fetch_view>>;
    if constexpr (std::is_same_v<Answer, status>) {
      static_cast<void>(asked.reject(f(asked)));
    } else {
      struct replying {
        fetch asked;
        Answer data;
      };
      Answer data = f(asked);
      auto kept = std::unique_ptr<replying>(new replying{std::move(asked), std::move(data)});
      auto sending = kept->asked.reply(kept->data);
      // The data lives until it was sent. After an error the fetch ends, and is rejected.
      static_cast<void>(std::move(sending).try_then([kept = std::move(kept)](status) {}));
    }
  }
};

#if UCXX_RS_COROUTINES
namespace detail {

/// Where a task that a thread waits for leaves its result.
template <class T> struct awaited {
  std::conditional_t<std::is_void_v<T>, bool, std::optional<T>> value{};
  std::exception_ptr thrown;
  std::atomic<bool> done{false};
};

template <class T>
detached fulfil(task<T> work, ucxx_worker_t *worker, std::shared_ptr<awaited<T>> into) {
#if UCXX_RS_EXCEPTIONS
  try {
#endif
    if constexpr (std::is_void_v<T>) {
      co_await std::move(work);
    } else {
      into->value = co_await std::move(work);
    }
#if UCXX_RS_EXCEPTIONS
  } catch (...) { into->thrown = std::current_exception(); }
#endif
  // The waiting thread may return, and destroy the worker, as soon as it sees `done`.
  if (worker) static_cast<void>(ucxx_worker_signal(worker));
  into->done.store(true);
  into->done.notify_all();
}

} // namespace detail

template <class T> T worker_view::run(task<T> work) const {
  auto result = std::make_shared<detail::awaited<T>>();
  detail::fulfil(std::move(work), c_, result);
  while (!result->done.load()) {
    // A signal that came before `done` is used up by one wait, so waits have a limit.
    auto s = try_wait(std::chrono::milliseconds(1));
    if (s == status::busy) {
      // In a callback nothing would make progress.
      if (detail::callback_depth() > 0) detail::fail(s);
      result->done.wait(false);
    } else if (s != status::timed_out) {
      detail::check(s);
    }
  }
  if (result->thrown) std::rethrow_exception(result->thrown);
  if constexpr (!std::is_void_v<T>) return std::move(*result->value);
}
#endif

/// A worker. Its destructor shuts it down: operations in flight complete with `canceled`, and no
/// callback runs afterwards. End its endpoints before.
class worker : public detail::owner<worker_view, ucxx_worker_destroy> {
public:
  using owner::owner; // Takes over.
  /// Makes a worker.
  static worker create(const context_view &context, const worker_params &params = {}) {
    return try_create(context, params).value();
  }
  /// As `create`, without throwing.
  static result<worker> try_create(const context_view &context,
                                   const worker_params &params = {}) noexcept {
    auto c = detail::sized<ucxx_worker_params_t>();
    c.thread_mode = static_cast<std::int32_t>(params.thread_mode);
    c.progress_mode = static_cast<std::int32_t>(params.progress_mode);
    if (params.delayed_submission) c.delayed_submission = *params.delayed_submission ? 1 : -1;
    c.submission_queue_depth = params.submission_queue_depth;
    c.spin_ns = detail::limit_ns(params.spin);
    if (params.cpu) c.cpu = *params.cpu + 1;
    c.thread_start = params.thread_start;
    c.thread_start_arg = params.thread_start_arg;
    c.name = params.name;
    c.describe_requests = params.describe_requests;
    ucxx_worker_t *made = nullptr;
    auto s = ucxx_worker_create(context.c(), &c, &made);
    return detail::owned<worker>(s, made);
  }
  /// Destroys it on a thread of the library. `done()` runs there as the last callback.
  template <class Done> static status destroy_nb(worker ending, Done done) noexcept {
    void *arg = detail::stored<Done>::put(std::move(done));
    auto s = static_cast<status>(ucxx_worker_destroy_nb(
        ending.c(),
        [](void *kept) noexcept {
          detail::in_callback here;
          auto call = detail::stored<Done>::take(kept);
          detail::guarded([&] { call(); });
        },
        arg));
    if (failed(s)) {
      static_cast<void>(detail::stored<Done>::take(arg));
    } else {
      static_cast<void>(ending.release());
    }
    return s;
  }
};

inline result<address> address::try_of(worker_view worker) noexcept {
  ucxx_address_t *made = nullptr;
  auto s = ucxx_worker_address(worker.c(), &made);
  return detail::owned<address>(s, made);
}
inline address address::of(worker_view worker) { return try_of(worker).value(); }

inline result<endpoint> endpoint::try_connect(worker_view worker, const char *host,
                                              std::uint16_t port, endpoint_params params) {
  return made_by(params, [&](const ucxx_endpoint_params_t *c, ucxx_endpoint_t **made) {
    return ucxx_endpoint_connect(worker.c(), host, port, c, made);
  });
}
inline endpoint endpoint::connect(worker_view worker, const char *host, std::uint16_t port,
                                  endpoint_params params) {
  return try_connect(worker, host, port, std::move(params)).value();
}
inline result<endpoint> endpoint::try_create(worker_view worker, const address_view &address,
                                             endpoint_params params) {
  return made_by(params, [&](const ucxx_endpoint_params_t *c, ucxx_endpoint_t **made) {
    return ucxx_endpoint_create(worker.c(), address.c(), c, made);
  });
}
inline endpoint endpoint::create(worker_view worker, const address_view &address,
                                 endpoint_params params) {
  return try_create(worker, address, std::move(params)).value();
}

inline result<listener> listener::try_create(worker_view worker, listener_params params) {
  auto c = detail::sized<ucxx_listener_params_t>();
  c.host = params.host;
  c.port = params.port;
  c.notifier = params.notifier;
  c.on_connect_arg = params.user_data;
  if (params.notifier && params.on_connect) return status::invalid_param;
  std::unique_ptr<on_connect> kept;
  if (!params.notifier) {
    kept = std::make_unique<on_connect>(std::move(params.on_connect));
    c.on_connect = on_connect::call;
    c.on_connect_arg = kept.get();
  }
  ucxx_listener_t *made = nullptr;
  auto s = static_cast<status>(ucxx_listener_create(worker.c(), &c, &made));
  if (failed(s)) return s;
  return listener(made, kept.release());
}
inline listener listener::create(worker_view worker, listener_params params) {
  return try_create(worker, std::move(params)).value();
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
