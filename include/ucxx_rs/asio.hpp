// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/asio.hpp: workers and notifiers in an event loop of Asio. ucxx_rs.hpp does not include
// it. See docs/event-loops.md.
//
// It uses standalone Asio, 1.22 or later. With the macro UCXX_RS_BOOST_ASIO it uses Boost.Asio, of
// Boost 1.78 or later: `asio` means `boost::asio` then. All files of a program have to agree.
//
//     asio::io_context io;
//     ucxx_rs::asio_worker worker(io.get_executor(), ucxx_rs::worker::create(context));
//     co_await ucxx_rs::async_run(worker, ep.tag_send(data, 1), asio::use_awaitable);
//
// - The descriptor of the worker drives it: the executor sleeps if there is nothing to do.
// - Every completion token works. Handlers run on their executor, and never inside a callback of
//   this library, so they may call everything.
// - A cancellation slot of the handler cancels the operation.
#ifndef UCXX_RS_ASIO_HPP
#define UCXX_RS_ASIO_HPP

#ifdef UCXX_RS_BOOST_ASIO
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#else
#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/compose.hpp>
#include <asio/defer.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#endif

#include "worker.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {
namespace detail {

#ifdef UCXX_RS_BOOST_ASIO
namespace net = ::boost::asio;
using asio_code = ::boost::system::error_code;
#else
namespace net = ::asio;
using asio_code = std::error_code;
#endif

/// A descriptor of this library in a reactor. The library owns it, so it is never closed here.
class watched {
public:
  watched(net::any_io_executor executor, int fd) : fd_(std::move(executor), fd) {}
  ~watched() { release(); }
  watched(watched &&) = delete;
  void release() noexcept {
    if (fd_.is_open()) static_cast<void>(fd_.release());
  }
  template <class Handler> void async_wait(Handler handler) {
    fd_.async_wait(net::posix::stream_descriptor::wait_read, std::move(handler));
  }

private:
  net::posix::stream_descriptor fd_;
};

/// Makes progress in handlers of an executor. The handlers share it, so they may run late.
class driver : public std::enable_shared_from_this<driver> {
public:
  driver(net::any_io_executor executor, worker_view worker)
      : executor_(executor), worker_(worker), fd_(std::move(executor), worker.event_fd()) {}

  const net::any_io_executor &executor() const noexcept { return executor_; }

  /// Has the executor make a pass. Submitting needs one: the armed descriptor does not report it.
  void kick() {
    if (posted_.exchange(true)) return;
    net::post(executor_, [self = shared_from_this()] {
      self->posted_.store(false);
      self->pass(false);
    });
  }
  /// Ends passes. It waits for one that runs on another thread.
  void stop() {
    std::lock_guard<std::recursive_mutex> held(lock_);
    ended_ = true;
    fd_.release();
  }

private:
  /// Makes progress until there is nothing to do, and sleeps on the armed descriptor.
  void pass(bool woken) {
    std::lock_guard<std::recursive_mutex> held(lock_);
    if (woken) waiting_ = false;
    // Other handlers get their turn after some passes. A callback may call `stop`.
    for (int passes = 0; !ended_; passes++) {
      if (passes == most_passes) return kick();
      if (worker_.progress() != 0 || ended_) continue;
      auto armed = worker_.arm();
      if (armed == status::ok) break;
      if (armed != status::busy) fail(armed);
    }
    if (ended_ || waiting_) return;
    waiting_ = true;
    fd_.async_wait([self = shared_from_this()](asio_code failed) {
      if (!failed) self->pass(true);
    });
  }

  static constexpr int most_passes = 64;
  net::any_io_executor executor_;
  worker_view worker_;
  std::recursive_mutex lock_; // a callback in a pass may destroy the worker
  watched fd_;
  bool waiting_ = false, ended_ = false;
  std::atomic<bool> posted_{false};
};

/// What a handler gets: a T, or std::optional<T> where there is no T to pass with an error.
template <class T>
using handed = std::conditional_t<std::is_void_v<T> || std::is_default_constructible_v<T>, T,
                                  std::optional<T>>;
template <class Error, class T> struct signature {
  using type = void(Error, handed<T>);
};
template <class Error> struct signature<Error, void> {
  using type = void(Error);
};

/// An operation in flight. The callback and the end of `start` meet in `started_`: whichever comes
/// second posts the handler.
template <class Operation, class Handler> class asio_operation {
public:
  static void start(const std::shared_ptr<driver> &by, Operation described, Handler handler) {
    auto *self = new asio_operation(by->executor(), std::move(handler));
    auto slot = net::get_associated_cancellation_slot(self->handler_);
    ucxx_request_t *c = nullptr;
    auto s =
        access::start(described, self->out_, complete, self, slot.is_connected() ? &c : nullptr);
    if (failed(s)) {
      self->status_ = s;
      return self->finish();
    }
    self->request_ = request(c);
    // The slot is cleared where the handler runs, as asio has it: nobody emits meanwhile.
    if (c) {
      slot.assign([self](net::cancellation_type) { static_cast<void>(self->request_.cancel()); });
    }
    // Afterwards the operation may have ended.
    auto kicked = by;
    if (self->started_.exchange(true)) self->finish();
    kicked->kick();
  }

private:
  using result_type = typename Operation::result_type;
  using executor = net::associated_executor_t<Handler, net::any_io_executor>;
  static constexpr bool taken = in_request<result_type>;

  asio_operation(const net::any_io_executor &otherwise, Handler handler)
      : handler_(std::move(handler)), work_(net::get_associated_executor(handler_, otherwise)) {}

  static void complete(void *arg, ucxx_request_t *c, ucxx_status_t s) noexcept {
    auto *self = static_cast<asio_operation *>(arg);
    self->status_ = static_cast<status>(s);
    if constexpr (taken) {
      if (s == UCXX_OK) self->received_.emplace(result_type::take(c));
    }
    if (self->started_.exchange(true)) self->finish();
  }
  void finish() {
    std::unique_ptr<asio_operation> own(this);
    auto to = work_.get_executor();
    net::defer(to, [own = std::move(own)]() mutable { deliver(std::move(own)); });
  }
  static void deliver(std::unique_ptr<asio_operation> own) {
    auto slot = net::get_associated_cancellation_slot(own->handler_);
    if (slot.is_connected()) slot.clear();
    auto handler = std::move(own->handler_);
    if constexpr (std::is_void_v<result_type>) {
      asio_code code = make_error_code(own->status_);
      own.reset(); // the memory is free for what the handler starts
      handler(code);
    } else {
      handed<result_type> value{};
      if (!failed(own->status_)) {
        auto got = own->take();
        own->status_ = got.error();
        if (got) value = std::move(*got);
      }
      asio_code code = make_error_code(own->status_);
      own.reset();
      handler(code, std::move(value));
    }
  }
  auto take() {
    if constexpr (taken) {
      return std::move(*received_);
    } else {
      return out_.take(nullptr);
    }
  }

  Handler handler_;
  net::executor_work_guard<executor> work_;
  outcome<std::conditional_t<taken, void, result_type>> out_;
  std::conditional_t<taken, std::optional<result<std::conditional_t<taken, result_type, int>>>, int>
      received_{};
  request request_;
  status status_ = status::ok;
  std::atomic<bool> started_{false};
};

#if UCXX_RS_COROUTINES && UCXX_RS_EXCEPTIONS
template <class T, class Handler, class Executor>
detached hand_over(task<T> work, Handler handler, net::executor_work_guard<Executor> to) {
  std::exception_ptr thrown;
  if constexpr (std::is_void_v<T>) {
    try {
      co_await std::move(work);
    } catch (...) { thrown = std::current_exception(); }
    net::defer(to.get_executor(),
               [thrown, handler = std::move(handler)]() mutable { handler(std::move(thrown)); });
  } else {
    handed<T> value{};
    try {
      value = co_await std::move(work);
    } catch (...) { thrown = std::current_exception(); }
    net::defer(to.get_executor(),
               [thrown, handler = std::move(handler), value = std::move(value)]() mutable {
                 handler(std::move(thrown), std::move(value));
               });
  }
}
#endif

} // namespace detail

/// A worker with manual progress, which an executor of Asio drives. It counts as work: `run()` of
/// the io_context returns after `stop()`, or after its end.
///
/// Its destructor destroys the worker. Operations complete with `canceled`, and their handlers run
/// later on the executor, or not at all if that has stopped. So, like every object of Asio, it has
/// to end before the io_context.
class asio_worker : public worker_view {
public:
  using executor_type = detail::net::any_io_executor; ///< As Asio has it.
  /// Drives `driven`. It has no progress thread.
  asio_worker(executor_type executor, worker driven)
      : worker_view(driven), own_(std::move(driven)),
        driver_(std::make_shared<detail::driver>(std::move(executor), *this)) {
    static_cast<void>(progress()); // `busy` if there is a progress thread
    driver_->kick();
  }
  ~asio_worker() { driver_->stop(); }
  asio_worker(asio_worker &&) = delete;

  /// Where progress is made, and where handlers run that have no executor of their own.
  executor_type get_executor() const noexcept { return driver_->executor(); }
  /// Makes progress soon. Call it after submitting without `async_run`, by `then`, `submit` or a
  /// `co_await` of the operation itself, unless in a callback of this library.
  void wake() const { driver_->kick(); }
  /// Makes no more progress.
  void stop() const { driver_->stop(); }

private:
  template <class Result, class Start, class Params, class Token>
  friend auto async_run(const asio_worker &, operation<Result, Start, Params>, Token &&);
#if UCXX_RS_COROUTINES && UCXX_RS_EXCEPTIONS
  template <class T, class Token> friend auto async_run(const asio_worker &, task<T>, Token &&);
#endif
  worker own_;
  std::shared_ptr<detail::driver> driver_;
};

/// Submits an operation of this worker. The handler gets `(error_code, T)`, or `(error_code)` if
/// the operation gives nothing. T is its result, or std::optional of it for results that are
/// buffers. error_code is that of Asio: std::error_code, or boost::system::error_code.
/// @return What the token makes of it.
template <class Result, class Start, class Params, class Token>
auto async_run(const asio_worker &worker, operation<Result, Start, Params> described,
               Token &&token) {
  using started = operation<Result, Start, Params>;
  return detail::net::async_initiate<Token,
                                     typename detail::signature<detail::asio_code, Result>::type>(
      [by = worker.driver_](auto handler, started submitted) {
        detail::asio_operation<started, decltype(handler)>::start(by, std::move(submitted),
                                                                  std::move(handler));
      },
      token, std::move(described));
}

#if UCXX_RS_COROUTINES && UCXX_RS_EXCEPTIONS
/// Runs a task that awaits operations of this worker. It starts at once, and continues in
/// callbacks. The handler gets `(std::exception_ptr, T)`, or `(std::exception_ptr)`.
/// @return What the token makes of it.
template <class T, class Token>
auto async_run(const asio_worker &worker, task<T> work, Token &&token) {
  return detail::net::async_initiate<Token,
                                     typename detail::signature<std::exception_ptr, T>::type>(
      [by = worker.driver_](auto handler, task<T> started) {
        auto to = detail::net::get_associated_executor(handler, by->executor());
        detail::hand_over(std::move(started), std::move(handler), detail::net::make_work_guard(to));
        by->kick();
      },
      token, std::move(work));
}
#endif

/// A notifier whose completions are awaited in an event loop of Asio. It makes no progress: an
/// `asio_worker` or a progress thread does. It ends before the notifier and the io_context.
class asio_notifier : public notifier_view {
public:
  using executor_type = detail::net::any_io_executor; ///< As Asio has it.
  /// Watches the notifier.
  asio_notifier(executor_type executor, notifier_view of)
      : notifier_view(of), executor_(executor), fd_(std::move(executor), of.event_fd()) {}
  /// Where handlers run that have no executor of their own.
  executor_type get_executor() const noexcept { return executor_; }

private:
  struct next {
    asio_notifier &from;
    bool posted = false; // a handler does not run inside the call that starts it
    template <class Self> void operator()(Self &self, detail::asio_code failed = {}) {
      if (!std::exchange(posted, true)) {
        return detail::net::post(from.executor_, std::move(self));
      }
      if (failed) return self.complete(failed, completion());
      for (;;) {
        std::array<completion, 1> one;
        auto count = from.try_poll(one);
        if (!count) return self.complete(make_error_code(count.error()), completion());
        if (*count == 1) return self.complete(detail::asio_code(), std::move(one[0]));
        auto armed = from.arm();
        if (armed == status::ok) return from.fd_.async_wait(std::move(self));
        if (armed != status::busy) { return self.complete(make_error_code(armed), completion()); }
      }
    }
  };
  template <class Token> friend auto async_next(asio_notifier &, Token &&);
  executor_type executor_;
  detail::watched fd_;
};

/// Takes the next completion. The handler gets `(error_code, completion)`: `closed` after
/// `stop`, when nothing is left. One at a time.
/// @return What the token makes of it.
template <class Token> auto async_next(asio_notifier &from, Token &&token) {
  return detail::net::async_compose<Token, void(detail::asio_code, completion)>(
      asio_notifier::next{from}, token, from.get_executor());
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
