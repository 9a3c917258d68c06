// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/request.hpp: operations, and the ways to learn that they have completed.
//
// A function such as `endpoint.tag_send(data, tag)` only describes an operation. What is called on
// the description submits it, once:
//
//     ep.tag_send(data, 1).wait();                     // blocks until it has completed
//     request sending = ep.tag_send(data, 1).submit(); // wait for it, or cancel it, later
//     ep.tag_send(data, 1).then([](status s) {});      // a callback
//     std::future<void> f = ep.tag_send(data, 1).future();
//     co_await ep.tag_send(data, 1);                   // C++20
//     ep.tag_send(data, 1).with({.timeout = 1s}).wait();
//
// `try_wait`, `try_submit` and `try_then` are the forms that throw nothing. The buffer has to stay
// valid until the operation has completed.
#ifndef UCXX_RS_REQUEST_HPP
#define UCXX_RS_REQUEST_HPP

#include <future>
#include <optional>

#include "buffer.hpp"
#include "handle.hpp"

#if UCXX_RS_COROUTINES
#include <coroutine>
#include <stop_token>
#endif

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Options of an operation. Combine them with `|`.
enum class flag : std::uint64_t {
  none = 0, ///< No option.
  no_wait = UCXX_FLAG_NO_WAIT, ///< `no_resource` in place of the send queue.
  eager = UCXX_FLAG_EAGER, ///< Active messages: the data travels along.
  rndv = UCXX_FLAG_RNDV, ///< Active messages: the receiver pulls the data.
  delayed = UCXX_FLAG_DELAYED, ///< Always by the queue of the progress thread.
  stream_partial = UCXX_FLAG_STREAM_PARTIAL, ///< Streams: what has arrived is enough.
  am_reply = UCXX_FLAG_AM_REPLY, ///< The receiver gets an endpoint to reply on.
  timeout_closes = UCXX_FLAG_TIMEOUT_CLOSES, ///< The time limit closes the endpoint.
};
/// Both options.
constexpr flag operator|(flag a, flag b) noexcept {
  return static_cast<flag>(static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b));
}

/// What a receive has received.
struct recv_info {
  std::uint64_t length = 0; ///< Bytes of the message, also when it did not fit.
  std::uint64_t sender_tag = 0; ///< The tag with which it was sent.
};

/// Parameters of an operation, for `.with(...)`.
struct op_params {
  ucxx_rs::flag flags = flag::none; ///< Options.
  nanoseconds timeout = forever; ///< Its time limit: `timed_out` when it expires.
  ucxx_memory_t *registered = nullptr; ///< `memory.c()`: memory that covers the buffer. A hint.
  ucxx_endpoint_t *source = nullptr; ///< `endpoint.c()`: a receive also ends when this one ends.
  ucxx_recv_info_t *info = nullptr; ///< `submit`: filled on completion. It has to live until then.
  ucxx_notifier_t *notifier = nullptr; ///< `notifier.c()`: reports the completion of `submit`.
  void *user_data = nullptr; ///< What the notifier reports with it.
  bool always = false; ///< The notifier also reports what completes in the call.
};

/// A submitted operation, borrowed.
class request_view : public detail::view<ucxx_request_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Its present status.
  ucxx_rs::status status() const noexcept {
    return static_cast<ucxx_rs::status>(ucxx_request_status(c_));
  }
  /// Waits for it. Returns its status, or `in_progress` if the time expired first.
  ucxx_rs::status try_wait(nanoseconds timeout = forever) const noexcept {
    return static_cast<ucxx_rs::status>(ucxx_request_wait(c_, detail::wait_ns(timeout)));
  }
  /// Waits for it. Returns false if the time expired first, and throws its error.
  bool wait(nanoseconds timeout = forever) const {
    auto s = try_wait(timeout);
    detail::check(s);
    return s == ucxx_rs::status::ok;
  }
  /// Asks for its cancellation. It completes with `canceled`, if it has not completed before.
  ucxx_rs::status cancel() const noexcept {
    return static_cast<ucxx_rs::status>(ucxx_request_cancel(c_));
  }
  /// What a completed receive has received.
  result<recv_info> try_info() const noexcept {
    ucxx_recv_info_t info = ucxx_recv_info_t();
    auto s = static_cast<ucxx_rs::status>(ucxx_request_recv_info(c_, &info));
    if (failed(s)) return s;
    return recv_info{info.length, info.sender_tag};
  }
  /// What a completed receive has received.
  recv_info info() const { return try_info().value(); }
  /// What UCX says of it: protocol, length, transports. Its worker needs `describe_requests`.
  std::string describe() const { return try_describe().value(); }
  /// As `describe`, without throwing.
  result<std::string> try_describe() const {
    char text[1024] = "";
    auto s = static_cast<ucxx_rs::status>(ucxx_request_describe(c_, text, sizeof text));
    if (failed(s)) return s;
    return std::string(text);
  }
  /// Why it failed. The text is valid until it is destroyed.
  const char *error_message() const noexcept { return ucxx_request_error_message(c_); }
};

/// A submitted operation. Where it completed inside its call, C has no request: this one has
/// completed then, with success. Its destructor neither waits for the operation nor cancels it.
class request {
public:
  /// An operation that has completed with success.
  request() noexcept = default;
  /// Takes over a request of the C interface. NULL is one that has completed.
  explicit request(ucxx_request_t *c) noexcept : c_(c) {}

  /// Its present status.
  ucxx_rs::status status() const noexcept { return c_ ? view().status() : ucxx_rs::status::ok; }
  /// Checks whether it has completed, with success or not.
  bool done() const noexcept { return status() != ucxx_rs::status::in_progress; }
  /// Waits for it. Returns its status, or `in_progress` if the time expired first.
  ucxx_rs::status try_wait(nanoseconds timeout = forever) const noexcept {
    return c_ ? view().try_wait(timeout) : ucxx_rs::status::ok;
  }
  /// Waits for it. Returns false if the time expired first, and throws its error.
  bool wait(nanoseconds timeout = forever) const { return !c_ || view().wait(timeout); }
  /// Asks for its cancellation.
  ucxx_rs::status cancel() const noexcept { return c_ ? view().cancel() : ucxx_rs::status::ok; }
  /// What a completed receive has received. `no_elem` for one that completed inside its call: pass
  /// `op_params::info` where that matters.
  result<recv_info> try_info() const noexcept {
    if (!c_) return ucxx_rs::status::no_elem;
    return view().try_info();
  }
  /// What UCX says of it: see `request_view::describe`.
  std::string describe() const { return try_describe().value(); }
  /// As `describe`, without throwing.
  result<std::string> try_describe() const {
    if (!c_) return std::string("completed at once");
    return view().try_describe();
  }
  /// Why it failed, or "".
  const char *error_message() const noexcept { return c_ ? view().error_message() : ""; }
  /// The request in the C interface. NULL if the operation completed inside its call.
  ucxx_request_t *c() const noexcept { return c_.get(); }
  /// Gives up ownership.
  [[nodiscard]] ucxx_request_t *release() noexcept { return c_.release(); }

private:
  request_view view() const noexcept { return request_view(c_.get()); }
  struct destroy {
    void operator()(ucxx_request_t *c) const noexcept { ucxx_request_destroy(c); }
  };
  std::unique_ptr<ucxx_request_t, destroy> c_;
};

namespace detail {

inline ucxx_status_t wait_all(const request *requests, std::size_t count, nanoseconds timeout) {
  // What completed inside its call has no request in C.
  auto all = std::make_unique<ucxx_request_t *[]>(count);
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; i++) {
    if (requests[i].c()) all[used++] = requests[i].c();
  }
  return used ? ucxx_request_wait_all(all.get(), used, wait_ns(timeout)) : UCXX_OK;
}

} // namespace detail

/// Waits for all of them. Returns false if the time expired first, and throws the first error.
template <class Requests> bool wait_all(const Requests &requests, nanoseconds timeout = forever) {
  auto s = static_cast<status>(detail::wait_all(std::data(requests), std::size(requests), timeout));
  detail::check(s);
  return s == status::ok;
}

/// Waits for the first of them. Returns its index, or nothing if the time expired first. An
/// operation that failed has completed too: ask its status.
template <class Requests>
std::optional<std::size_t> wait_any(const Requests &requests, nanoseconds timeout = forever) {
  const request *first = std::data(requests);
  std::size_t count = std::size(requests), index = 0;
  auto all = std::make_unique<ucxx_request_t *[]>(count);
  for (std::size_t i = 0; i < count; i++) {
    if (first[i].done()) return i;
    all[i] = first[i].c();
  }
  auto s = ucxx_request_wait_any(all.get(), count, detail::wait_ns(timeout), &index);
  if (s == UCXX_INPROGRESS) return std::nullopt;
  // The status is that of the operation, unless none has completed: in a callback, for example.
  if (s < 0 && (count == 0 || !first[index].done())) detail::fail(static_cast<status>(s));
  return index;
}

/// What an operation without `with` has in place of its parameters: C gets NULL.
struct default_params {};

namespace detail {

/// Results that C keeps in the request until they are taken.
template <class T> inline constexpr bool in_request = false;

/// How the result of an operation gets to its caller. `slot` is where the operation writes it.
template <class T> struct outcome {
  T slot = T();
  void into(ucxx_op_params_t &) noexcept {}
  result<T> take(ucxx_request_t *) noexcept { return slot; }
};
template <> struct outcome<void> {
  void into(ucxx_op_params_t &) noexcept {}
};
template <class T> using outcome_of = outcome<std::conditional_t<in_request<T>, void, T>>;
template <> struct outcome<recv_info> {
  ucxx_recv_info_t slot = ucxx_recv_info_t();
  void into(ucxx_op_params_t &params) noexcept { params.recv_info = &slot; }
  result<recv_info> take(ucxx_request_t *) noexcept {
    return recv_info{slot.length, slot.sender_tag};
  }
};

/// Results that the operation writes to memory of the caller, but recv_info.
template <class T>
inline constexpr bool in_slot =
    !std::is_void_v<T> && !std::is_same_v<T, recv_info> && !in_request<T>;

template <class T>
using result_or_status = std::conditional_t<std::is_void_v<T>, status,
                                            result<std::conditional_t<std::is_void_v<T>, int, T>>>;

template <class T> T value_of(result<T> r) { return std::move(r).value(); }
inline void value_of(status s) { check(s); }

} // namespace detail

#if UCXX_RS_COROUTINES
namespace detail {
template <class Operation> class awaiter;
template <class Operation> class stoppable;
template <class Operation> struct result_of {
  Operation described;
  auto operator co_await() && noexcept;
};
} // namespace detail
#endif

namespace detail {
struct access;
} // namespace detail

/// The description of an operation. See the head of this file. `Result` is what it gives: void,
/// `recv_info`, or what it receives. `Start` calls C.
template <class Result, class Start, class Params = default_params> class [[nodiscard]] operation {
public:
  using result_type = Result; ///< What it gives.
  using returned = detail::result_or_status<Result>; ///< What `try_wait` returns.

  /// For functions of this header.
  operation(Start start, memory_type memory, Params params = {}) noexcept
      : start_(std::move(start)), memory_(memory), params_(params) {}

  /// The same with parameters.
  operation<Result, Start, op_params> with(const op_params &params) && noexcept {
    return {std::move(start_), memory_, params};
  }

  /// Submits it, and waits until it has completed. Not in a callback. Returns its result.
  Result wait() && { return detail::value_of(std::move(*this).try_wait()); }
  /// As `wait`, without throwing.
  returned try_wait() && noexcept {
    if constexpr (detail::in_request<Result>) {
      ucxx_request_t *c = nullptr;
      auto s = begin_plain(&c);
      if (failed(s)) return s;
      request waiting(c);
      s = waiting.try_wait();
      if (failed(s)) return s;
      return Result::take(waiting.c());
    } else {
      detail::outcome<Result> out;
      auto params = c_params(UCXX_FLAG_WAIT);
      out.into(params);
      auto s = start(out, &params, nullptr);
      if constexpr (std::is_void_v<Result>) {
        return s;
      } else {
        if (failed(s)) return s;
        return out.take(nullptr);
      }
    }
  }

  /// Submits it. The caller asks the request, or names a notifier in the parameters.
  request submit() && { return std::move(*this).try_submit().value(); }
  /// As `submit`, without throwing.
  result<request> try_submit() && noexcept {
    static_assert(!detail::in_slot<Result>, "a request has no place for the result");
    ucxx_request_t *c = nullptr;
    auto s = begin_plain(&c);
    if (failed(s)) return s;
    return request(c);
  }

  /// Submits it. `f` runs when it has completed, on the thread that makes progress:
  /// `f(status)`, or `f(status, Result)`, whose second argument is empty after an error. It does
  /// not run if submitting fails. What it throws goes to `set_exception_handler`.
  template <class F> void then(F f) && { detail::check(std::move(*this).try_then(std::move(f))); }
  /// As `then`, without throwing: the status of submitting, which is not `in_progress`.
  template <class F> status try_then(F f) && noexcept {
    static_assert(!detail::in_slot<Result>, "pass a place for the result as an argument");
    auto params = c_params(UCXX_FLAG_ALWAYS_CALLBACK);
    params.callback = call<F>;
    params.callback_arg = detail::stored<F>::put(std::move(f));
    auto s = static_cast<status>(start_(&params, nullptr));
    if (failed(s)) detail::stored<F>::take(params.callback_arg);
    return failed(s) ? s : status::ok;
  }

#if UCXX_RS_EXCEPTIONS
  /// Submits it, and returns a future for its result. Something has to make progress: a progress
  /// thread, or the caller. Errors of submitting are in the future too.
  std::future<Result> future() && {
    auto promised = std::make_unique<promised_result>();
    auto future = promised->promise.get_future();
    auto params = c_params(UCXX_FLAG_ALWAYS_CALLBACK);
    promised->out.into(params);
    params.callback = fulfil;
    params.callback_arg = promised.get();
    auto s = start(promised->out, &params, nullptr);
    if (failed(s)) {
      promised->promise.set_exception(std::make_exception_ptr(error(s)));
    } else {
      static_cast<void>(promised.release()); // fulfil frees it
    }
    return future;
  }
#endif

#if UCXX_RS_COROUTINES
  /// Submits it, and resumes the coroutine with its result, on the thread that makes progress. An
  /// error is thrown.
  auto operator co_await() && noexcept { return detail::awaiter<operation>(std::move(*this)); }
  /// To await without throwing.
  /// @return To be awaited. Gives what `try_wait` returns.
  auto as_result() && noexcept { return detail::result_of<operation>{std::move(*this)}; }
  /// To await with a token: a stop cancels the operation, which then throws `canceled`.
  /// @return To be awaited. Gives a Result.
  auto stoppable(std::stop_token token) && noexcept {
    return detail::stoppable<operation>(std::move(*this), std::move(token));
  }
#endif

private:
#if UCXX_RS_COROUTINES
  template <class> friend class detail::awaiter;
  template <class> friend class detail::stoppable;
#endif
  template <class, class, class> friend class operation;
  friend struct detail::access;

  ucxx_op_params_t c_params(std::uint64_t flags) const noexcept {
    auto c = detail::sized<ucxx_op_params_t>();
    c.flags = flags;
    c.memory_type = static_cast<std::int32_t>(memory_);
    if constexpr (std::is_same_v<Params, op_params>) {
      c.flags |= static_cast<std::uint64_t>(params_.flags);
      c.timeout_ns = detail::limit_ns(params_.timeout);
      c.memory = params_.registered;
      c.source = params_.source;
    }
    return c;
  }

  /// Starts it for a caller who asks the request.
  status begin_plain(ucxx_request_t **c) noexcept {
    if constexpr (std::is_same_v<Params, default_params>) {
      if (memory_ == memory_type::automatic) return static_cast<status>(start_(nullptr, c));
      auto params = c_params(0);
      return static_cast<status>(start_(&params, c));
    } else {
      auto params = c_params(params_.always ? UCXX_FLAG_ALWAYS_CALLBACK : 0);
      params.notifier = params_.notifier;
      params.callback_arg = params_.user_data;
      params.recv_info = params_.info;
      return static_cast<status>(start_(&params, c));
    }
  }

  template <class Out>
  status start(Out &out, const ucxx_op_params_t *params, ucxx_request_t **c) noexcept {
    if constexpr (detail::in_slot<Result>) {
      return static_cast<status>(start_(&out.slot, params, c));
    } else {
      static_cast<void>(out);
      return static_cast<status>(start_(params, c));
    }
  }

  template <class F> static void call(void *arg, ucxx_request_t *c, ucxx_status_t s) noexcept {
    detail::in_callback here;
    auto f = detail::stored<F>::take(arg);
    auto done = static_cast<status>(s);
    detail::guarded([&] {
      if constexpr (std::is_invocable_v<F &, status>) {
        f(done);
      } else if constexpr (std::is_same_v<Result, recv_info>) {
        f(done, request_view(c).try_info().value_or(recv_info()));
      } else {
        std::optional<Result> taken;
        if (!failed(done)) taken = Result::take(c).value();
        f(done, std::move(taken));
      }
    });
  }

#if UCXX_RS_EXCEPTIONS
  struct promised_result {
    std::promise<Result> promise;
    detail::outcome_of<Result> out;
  };
  static void fulfil(void *arg, ucxx_request_t *c, ucxx_status_t s) noexcept {
    std::unique_ptr<promised_result> promised(static_cast<promised_result *>(arg));
    try {
      detail::check(static_cast<status>(s));
      if constexpr (std::is_void_v<Result>) {
        promised->promise.set_value();
      } else if constexpr (detail::in_request<Result>) {
        promised->promise.set_value(Result::take(c).value());
      } else {
        promised->promise.set_value(promised->out.take(c).value());
      }
    } catch (...) { promised->promise.set_exception(std::current_exception()); }
  }
#endif

  Start start_;
  memory_type memory_;
  Params params_;
};

namespace detail {

/// Starts operations for adaptors of this header, which bring their own callback.
struct access {
  /// Also calls `callback` for what completes in the call. Does not call it after an error.
  template <class Operation, class Out>
  static status start(Operation &described, Out &out, ucxx_request_callback_t callback, void *arg,
                      ucxx_request_t **c) noexcept {
    auto params = described.c_params(UCXX_FLAG_ALWAYS_CALLBACK);
    out.into(params);
    params.callback = callback;
    params.callback_arg = arg;
    return described.start(out, &params, c);
  }
};

/// Describes an operation whose call in C is `start(params, request)`.
template <class Result, class Start>
operation<Result, Start> describe(Start start,
                                  memory_type memory = memory_type::automatic) noexcept {
  return {std::move(start), memory};
}

} // namespace detail
} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#if UCXX_RS_COROUTINES
#include "coroutine.hpp"
#endif

#endif
