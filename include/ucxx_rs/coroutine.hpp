// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/coroutine.hpp: coroutines of C++20 over operations. request.hpp includes it.
//
// A coroutine that awaits an operation is resumed in a callback: on the thread that makes progress.
// So it must not call what waits, such as `wait()`. It awaits instead.
#ifndef UCXX_RS_COROUTINE_HPP
#define UCXX_RS_COROUTINE_HPP

#include "request.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {
namespace detail {

/// Awaits an operation without a token. After C has returned `in_progress`, the coroutine may
/// already run on another thread, so `await_suspend` touches nothing of it.
template <class Operation> class awaiter {
public:
  using result_type = typename Operation::result_type;
  explicit awaiter(Operation described) noexcept : described_(std::move(described)) {}
  awaiter(awaiter &&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    // Buffers are taken from the request, which only a callback gets.
    auto params = described_.c_params(in_request<result_type> ? UCXX_FLAG_ALWAYS_CALLBACK : 0);
    out_.into(params);
    params.callback = complete;
    params.callback_arg = this;
    auto s = described_.start(out_, &params, nullptr);
    if (s == status::in_progress) return true;
    status_ = s;
    return false;
  }
  result_type await_resume() { return value_of(take()); }

  typename Operation::returned take() noexcept {
    if constexpr (std::is_void_v<result_type>) {
      return status_;
    } else {
      if (failed(status_)) return status_;
      if constexpr (in_request<result_type>) {
        return std::move(*received_);
      } else {
        return out_.take(nullptr);
      }
    }
  }

private:
  static void complete(void *arg, ucxx_request_t *c, ucxx_status_t s) noexcept {
    auto *self = static_cast<awaiter *>(arg);
    self->status_ = static_cast<status>(s);
    if constexpr (in_request<result_type>) {
      if (s == UCXX_OK) self->received_.emplace(result_type::take(c));
    }
    guarded([waiting = self->waiting_] { waiting.resume(); });
  }

  struct none {};
  Operation described_;
  outcome_of<result_type> out_;
  [[no_unique_address]] std::conditional_t<
      in_request<result_type>,
      std::optional<result<std::conditional_t<in_request<result_type>, result_type, int>>>, none>
      received_;
  status status_ = status::ok;
  std::coroutine_handle<> waiting_;
};

template <class Operation> class result_awaiter : public awaiter<Operation> {
public:
  using awaiter<Operation>::awaiter;
  typename Operation::returned await_resume() noexcept { return this->take(); }
};

template <class Operation> auto result_of<Operation>::operator co_await() && noexcept {
  return result_awaiter<Operation>(std::move(described));
}

/// Awaits an operation with a token. Two sides meet in `phase_`: the callback, and `await_suspend`,
/// which connects the token after the call. The second one lets the coroutine continue.
template <class Operation> class stoppable {
public:
  using result_type = typename Operation::result_type;
  static_assert(!in_request<result_type>, "not for operations that make buffers");
  stoppable(Operation described, std::stop_token token) noexcept
      : described_(std::move(described)), token_(std::move(token)) {}
  stoppable(stoppable &&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    auto params = described_.c_params(0);
    out_.into(params);
    params.callback = complete;
    params.callback_arg = this;
    ucxx_request_t *c = nullptr;
    auto s = described_.start(out_, &params, &c);
    if (s != status::in_progress) {
      status_ = s;
      return false;
    }
    request_ = request(c);
    on_stop_.emplace(std::move(token_), cancel{c});
    return phase_.exchange(connected) != completed;
  }
  result_type await_resume() {
    // It waits for a cancel that runs on another thread, so the request may end afterwards.
    on_stop_.reset();
    request_ = request();
    if constexpr (std::is_void_v<result_type>) {
      check(status_);
    } else {
      check(status_);
      return out_.take(nullptr).value();
    }
  }

private:
  enum phase : int { submitted, connected, completed };
  struct cancel {
    ucxx_request_t *c;
    void operator()() const noexcept { static_cast<void>(ucxx_request_cancel(c)); }
  };
  static void complete(void *arg, ucxx_request_t *, ucxx_status_t s) noexcept {
    auto *self = static_cast<stoppable *>(arg);
    self->status_ = static_cast<status>(s);
    auto waiting = self->waiting_;
    if (self->phase_.exchange(completed) == connected) guarded([waiting] { waiting.resume(); });
  }

  Operation described_;
  std::stop_token token_;
  outcome<result_type> out_;
  request request_;
  std::optional<std::stop_callback<cancel>> on_stop_;
  std::atomic<int> phase_{submitted};
  status status_ = status::ok;
  std::coroutine_handle<> waiting_;
};

} // namespace detail

template <class T = void> class task;

namespace detail {

struct task_promise_base {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  struct at_end {
    bool await_ready() const noexcept { return false; }
    template <class P> std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) noexcept {
      return h.promise().continuation;
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  at_end final_suspend() const noexcept { return {}; }
};

template <class T> struct task_promise : task_promise_base {
  std::variant<std::monostate, T, std::exception_ptr> value;
  task<T> get_return_object() noexcept;
  template <class U> void return_value(U &&u) { value.template emplace<1>(std::forward<U>(u)); }
  void unhandled_exception() noexcept { value.template emplace<2>(std::current_exception()); }
  T take() {
    if (value.index() == 2) std::rethrow_exception(std::get<2>(value));
    return std::move(std::get<1>(value));
  }
};
template <> struct task_promise<void> : task_promise_base {
  std::exception_ptr thrown;
  task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
  void take() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

} // namespace detail

/// A coroutine that starts when it is awaited, and gives a T. Once it has started, it may be
/// destroyed only at its end: operations that it awaits refer to it.
template <class T> class [[nodiscard]] task {
public:
  using promise_type = detail::task_promise<T>; ///< For the compiler.
  using result_type = T; ///< What it gives.
  task(task &&other) noexcept : own_(std::exchange(other.own_, nullptr)) {} ///< Takes over.
  /// Takes over.
  task &operator=(task &&other) noexcept {
    task taken(std::move(other));
    std::swap(own_, taken.own_);
    return *this;
  }
  ~task() {
    if (own_) own_.destroy();
  }

  /// Starts it, and resumes the awaiting coroutine at its end.
  auto operator co_await() && noexcept {
    struct awaiting {
      std::coroutine_handle<promise_type> own;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
        own.promise().continuation = waiting;
        return own;
      }
      T await_resume() { return own.promise().take(); }
    };
    return awaiting{own_};
  }

private:
  template <class> friend struct detail::task_promise;
  explicit task(std::coroutine_handle<promise_type> own) noexcept : own_(own) {}
  std::coroutine_handle<promise_type> own_;
};

namespace detail {

template <class T> task<T> task_promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/// A coroutine that nobody awaits: it runs at once, and frees itself at its end.
struct detached {
  struct promise_type {
    detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {
#if UCXX_RS_EXCEPTIONS
      guarded([] { throw; });
#endif
    }
  };
};

template <class T> inline constexpr bool is_task = false;
template <class T> inline constexpr bool is_task<task<T>> = true;

} // namespace detail

/// Starts a task that nobody awaits. What it throws goes to `set_exception_handler`.
inline void spawn(task<> work) {
  [](task<> running) -> detail::detached { co_await std::move(running); }(std::move(work));
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
