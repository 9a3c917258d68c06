// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/notifier_loop.hpp: coroutines of C++20 that await what a notifier reports.
//
//     notifier_loop loop(notifier);
//     loop.run(serve(loop));              // task<> serve(notifier_loop &loop)
//     auto done = co_await loop.next();   // in serve: a completion
//
// What is awaited so continues on the thread that runs the loop, and not in a callback. So it may
// call what waits.
#ifndef UCXX_RS_NOTIFIER_LOOP_HPP
#define UCXX_RS_NOTIFIER_LOOP_HPP

#include <mutex>

#include "worker.hpp"

#if UCXX_RS_COROUTINES
namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Hands the completions and events of a notifier to the coroutines that await them, one each.
class notifier_loop {
public:
  /// The notifier has to live longer.
  explicit notifier_loop(notifier_view from) noexcept : from_(from) {}
  notifier_loop(const notifier_loop &) = delete;

  /// Awaits the next completion or event. Throws `closed` when the notifier was stopped, and
  /// nothing is left. Several coroutines may await: the first one gets the first.
  /// @return To be awaited. Gives a `completion`.
  auto next() noexcept { return awaiting(*this); }

  /// Runs a task to its end, and returns its result. Progress threads drive the workers.
  template <class T> T run(task<T> work) {
    return run_with(std::move(work), [this] { return from_.try_wait(patience); });
  }
  /// The same on the thread that drives this worker.
  template <class T> T run(worker_view driven, task<T> work) {
    return run_with(std::move(work), [driven] { return driven.try_wait(patience); });
  }

private:
  /// The task may also end on another thread, which does not wake this one.
  static constexpr nanoseconds patience = std::chrono::milliseconds(10);

  class awaiting {
  public:
    explicit awaiting(notifier_loop &loop) noexcept : loop_(loop) {}
    awaiting(awaiting &&) = delete;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
      waiting_ = waiting;
      std::lock_guard<std::mutex> held(loop_.lock_);
      *loop_.last_ = this;
      loop_.last_ = &behind_;
    }
    completion await_resume() {
      if (!got_) detail::fail(status::closed);
      return std::move(*got_);
    }

  private:
    friend class notifier_loop;
    notifier_loop &loop_;
    std::coroutine_handle<> waiting_;
    std::optional<completion> got_;
    awaiting *behind_ = nullptr;
  };

  template <class T, class Wait> T run_with(task<T> work, Wait wait) {
    auto result = std::make_shared<detail::awaited<T>>();
    detail::fulfil(std::move(work), nullptr, result);
    while (!result->done.load()) {
      if (deliver()) continue;
      auto s = wait();
      if (s != status::timed_out && s != status::closed) detail::check(s);
    }
    if (result->thrown) std::rethrow_exception(result->thrown);
    if constexpr (!std::is_void_v<T>) return std::move(*result->value);
  }

  /// Resumes the first coroutine, if one awaits and there is something for it.
  bool deliver() {
    std::array<completion, 1> got;
    awaiting *one = nullptr;
    {
      std::lock_guard<std::mutex> held(lock_);
      if (!first_) return false;
      auto count = from_.try_poll(got);
      if (count && *count == 0) return false;
      one = std::exchange(first_, first_->behind_);
      if (!first_) last_ = &first_;
      if (count) one->got_.emplace(std::move(got[0]));
    }
    one->waiting_.resume();
    return true;
  }

  notifier_view from_;
  std::mutex lock_;
  awaiting *first_ = nullptr;
  awaiting **last_ = &first_;
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs
#endif

#endif
