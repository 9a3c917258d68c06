// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/status.hpp: how calls report errors.
//
// Each call that can fail has two forms. `x()` returns the value, and throws `error` otherwise.
// `try_x()` throws nothing, and returns `result<T>`, or `status` where there is no value.
#ifndef UCXX_RS_STATUS_HPP
#define UCXX_RS_STATUS_HPP

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <version>

#ifdef __cpp_lib_expected
#include <expected>
#endif

#include "../ucxx_rs.h"

/// 1 where exceptions are on. Without them, `x()` ends the process where it would throw.
#ifdef __cpp_exceptions
#define UCXX_RS_EXCEPTIONS 1
#else
#define UCXX_RS_EXCEPTIONS 0
#endif

/// 1 where the compiler has coroutines.
#if defined __cpp_impl_coroutine && defined __cpp_lib_coroutine
#define UCXX_RS_COROUTINES 1
#else
#define UCXX_RS_COROUTINES 0
#endif

/// Files that are compiled in different ways can be linked together: their inline functions have
/// different names. So they cannot pass objects of this header to each other.
#if UCXX_RS_COROUTINES && UCXX_RS_EXCEPTIONS
#define UCXX_RS_MODE cpp20
#elif UCXX_RS_COROUTINES
#define UCXX_RS_MODE cpp20_no_exceptions
#elif UCXX_RS_EXCEPTIONS
#define UCXX_RS_MODE cpp17
#else
#define UCXX_RS_MODE cpp17_no_exceptions
#endif

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// The result of a call or an operation. `ok` and `in_progress` are no errors.
enum class status : ucxx_status_t {
  ok = UCXX_OK, ///< Done.
  in_progress = UCXX_INPROGRESS, ///< Completes later.
  no_message = UCXX_ERR_NO_MESSAGE, ///< No message matches.
  no_resource = UCXX_ERR_NO_RESOURCE, ///< A queue or limit is full. Try again later.
  io_error = UCXX_ERR_IO_ERROR, ///< The system or the protocol failed.
  no_memory = UCXX_ERR_NO_MEMORY, ///< No memory.
  invalid_param = UCXX_ERR_INVALID_PARAM, ///< An argument is invalid.
  unreachable = UCXX_ERR_UNREACHABLE, ///< The peer cannot be reached.
  invalid_addr = UCXX_ERR_INVALID_ADDR, ///< An address cannot be used.
  not_implemented = UCXX_ERR_NOT_IMPLEMENTED, ///< UCX has no implementation.
  message_truncated = UCXX_ERR_MESSAGE_TRUNCATED, ///< The message is longer than the buffer.
  buffer_too_small = UCXX_ERR_BUFFER_TOO_SMALL, ///< The text or key does not fit.
  no_elem = UCXX_ERR_NO_ELEM, ///< There is no such thing.
  no_device = UCXX_ERR_NO_DEVICE, ///< There is no such device.
  busy = UCXX_ERR_BUSY, ///< Not now, or not in a callback.
  canceled = UCXX_ERR_CANCELED, ///< Cancelled.
  already_exists = UCXX_ERR_ALREADY_EXISTS, ///< It exists already.
  out_of_range = UCXX_ERR_OUT_OF_RANGE, ///< The range ends beyond the memory.
  timed_out = UCXX_ERR_TIMED_OUT, ///< The time limit expired.
  exceeds_limit = UCXX_ERR_EXCEEDS_LIMIT, ///< More than a limit allows.
  unsupported = UCXX_ERR_UNSUPPORTED, ///< Not available here.
  rejected = UCXX_ERR_REJECTED, ///< The peer refused.
  not_connected = UCXX_ERR_NOT_CONNECTED, ///< The endpoint is not connected yet.
  connection_reset = UCXX_ERR_CONNECTION_RESET, ///< The peer closed its end.
  endpoint_timeout = UCXX_ERR_ENDPOINT_TIMEOUT, ///< UCX lost the peer.
  rma_sync = UCXX_ERR_RMA_SYNC, ///< Wrong epoch for this call.
  rma_range = UCXX_ERR_RMA_RANGE, ///< Outside of the target's window.
  rma_attach = UCXX_ERR_RMA_ATTACH, ///< The memory cannot be attached.
  rma_flavor = UCXX_ERR_RMA_FLAVOR, ///< Wrong kind of window for this call.
  rma_op = UCXX_ERR_RMA_OP, ///< Wrong operation for this type.
  rma_poisoned = UCXX_ERR_RMA_POISONED, ///< The window lost a member.
  rma_rank = UCXX_ERR_RMA_RANK, ///< The group has no such rank.
  rma_type = UCXX_ERR_RMA_TYPE, ///< The types do not match.
  rma_lock_type = UCXX_ERR_RMA_LOCK_TYPE, ///< No such kind of lock.
  peer_failed = UCXX_ERR_PEER_FAILED, ///< The peer died.
  rma_assert = UCXX_ERR_RMA_ASSERT, ///< An assertion that the call does not accept.
  closed = UCXX_ERR_CLOSED, ///< Closed or shut down.
  starved = UCXX_ERR_STARVED, ///< The lease can never succeed.
  forked = UCXX_ERR_FORKED, ///< The handle is from before fork().
  panic = UCXX_ERR_PANIC, ///< A bug of the library.
  application = UCXX_ERR_APPLICATION, ///< Yours, with every lower number.
};

/// Checks whether a status is an error.
constexpr bool failed(status s) noexcept { return static_cast<ucxx_status_t>(s) < 0; }

/// Returns the name of a status, such as "UCXX_ERR_TIMED_OUT". The text is static.
inline const char *name(status s) noexcept {
  return ucxx_status_name(static_cast<ucxx_status_t>(s));
}

/// Returns the text to print for a status that this thread has just received: its name, which
/// argument, peer or limit, and what to do. The text is valid until the thread's next call of it.
inline const char *explain(status s) noexcept {
  return ucxx_error_text(static_cast<ucxx_status_t>(s));
}

namespace detail {

class status_category final : public std::error_category {
public:
  const char *name() const noexcept override { return "ucxx_rs"; }
  std::string message(int value) const override { return ucxx_status_string(value); }
  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<status>(value)) {
    case status::no_resource: return std::errc::resource_unavailable_try_again;
    case status::io_error: return std::errc::io_error;
    case status::no_memory: return std::errc::not_enough_memory;
    case status::invalid_param: return std::errc::invalid_argument;
    case status::unreachable: return std::errc::host_unreachable;
    case status::invalid_addr: return std::errc::address_not_available;
    case status::not_implemented: return std::errc::function_not_supported;
    case status::no_message: return std::errc::no_message;
    case status::message_truncated: return std::errc::message_size;
    case status::buffer_too_small: return std::errc::no_buffer_space;
    case status::no_device: return std::errc::no_such_device;
    case status::busy: return std::errc::device_or_resource_busy;
    case status::canceled: return std::errc::operation_canceled;
    case status::already_exists: return std::errc::file_exists;
    case status::out_of_range: return std::errc::result_out_of_range;
    case status::timed_out:
    case status::endpoint_timeout: return std::errc::timed_out;
    case status::unsupported: return std::errc::not_supported;
    case status::rejected: return std::errc::connection_refused;
    case status::not_connected: return std::errc::not_connected;
    case status::connection_reset: return std::errc::connection_reset;
    default: return {value, *this};
    }
  }
};

} // namespace detail

/// The category of `std::error_code`s of this library. Its conditions map to `std::errc` where
/// there is one.
inline const std::error_category &category() noexcept {
  static const detail::status_category instance;
  return instance;
}

/// Converts to `std::error_code`; found by argument-dependent lookup.
inline std::error_code make_error_code(status s) noexcept {
  return {static_cast<int>(s), category()};
}

/// What the throwing forms throw. `code()` is the status as an error code, and `what()` names the
/// argument, peer or limit, and what to do.
class error : public std::system_error {
public:
  /// Explains `s` by the calling thread's last error.
  explicit error(ucxx_rs::status s) : error(s, explain(s)) {}
  /// Explains `s` by `text`.
  error(ucxx_rs::status s, const std::string &text)
      : std::system_error(make_error_code(s)), status_(s), text_(text) {}

  /// The status.
  ucxx_rs::status status() const noexcept { return status_; }
  /// The explanation.
  const char *what() const noexcept override { return text_.what(); }

private:
  ucxx_rs::status status_;
  // Copies of an exception must not throw, which copies of a string might.
  std::runtime_error text_;
};

namespace detail {

[[noreturn]] inline void fail(status s) {
#if UCXX_RS_EXCEPTIONS
  throw error(s);
#else
  std::fprintf(stderr, "ucxx_rs: %s\n", explain(s));
  std::abort();
#endif
}

inline void check(status s) {
  if (failed(s)) fail(s);
}

} // namespace detail

/// A value, or the status that says why there is none. It has the interface of `std::expected`,
/// and converts to it where the compiler has it.
template <class T> class [[nodiscard]] result {
public:
  using value_type = T; ///< As `std::expected` has it.
  using error_type = status; ///< As `std::expected` has it.

  /// Holds a value.
  result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  /// Holds an error.
  result(status s) noexcept : content_(std::in_place_index<1>, s) { assert(failed(s)); }

  /// Checks whether there is a value.
  bool has_value() const noexcept { return content_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); } ///< As `has_value`.
  /// The error, or `status::ok`.
  status error() const noexcept { return has_value() ? status::ok : *std::get_if<1>(&content_); }

  /// Returns the value, or throws `ucxx_rs::error`.
  T &value() & { return detail::check(error()), **this; }
  const T &value() const & { return detail::check(error()), **this; } ///< As above.
  T value() && { return detail::check(error()), std::move(**this); } ///< As above.

  /// The value. There must be one.
  T &operator*() & noexcept { return *std::get_if<0>(&content_); }
  const T &operator*() const & noexcept { return *std::get_if<0>(&content_); } ///< As above.
  T &&operator*() && noexcept { return std::move(*std::get_if<0>(&content_)); } ///< As above.
  T *operator->() noexcept { return std::get_if<0>(&content_); } ///< As above.
  const T *operator->() const noexcept { return std::get_if<0>(&content_); } ///< As above.

  /// The value, or another one in place of an error.
  template <class U> T value_or(U &&other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }
  /// Calls `f` with the value, which returns another result. Passes an error on.
  template <class F> std::invoke_result_t<F, T> and_then(F &&f) && {
    if (!has_value()) return error();
    return std::forward<F>(f)(std::move(**this));
  }
  /// Replaces the value by what `f` makes of it. Passes an error on.
  template <class F> result<std::invoke_result_t<F, T>> transform(F &&f) && {
    if (!has_value()) return error();
    return std::forward<F>(f)(std::move(**this));
  }

#ifdef __cpp_lib_expected
  /// The same as `std::expected`.
  operator std::expected<T, status>() && {
    if (!has_value()) return std::unexpected(error());
    return std::move(**this);
  }
#endif

private:
  std::variant<T, status> content_;
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

/// @cond
template <> struct std::is_error_code_enum<ucxx_rs::status> : std::true_type {};
/// @endcond

#endif
