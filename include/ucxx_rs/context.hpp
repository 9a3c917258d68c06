// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/context.hpp: versions, the log, and contexts, with which every program begins.
#ifndef UCXX_RS_CONTEXT_HPP
#define UCXX_RS_CONTEXT_HPP

#include <vector>

#include "handle.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// The versions of this library and of the loaded UCX: major, minor, patch, ucx_major, ucx_minor,
/// ucx_patch, version_string, ucx_library_path, ucx_copies.
inline ucxx_version_t version() noexcept {
  auto v = detail::sized<ucxx_version_t>();
  static_cast<void>(ucxx_version_query(&v));
  return v;
}

/// Levels of the log.
enum class log_level : std::int32_t {
  off = UCXX_LOG_OFF, ///< Nothing.
  error = UCXX_LOG_ERROR, ///< Errors.
  warn = UCXX_LOG_WARN, ///< And warnings.
  info = UCXX_LOG_INFO, ///< And what happens seldom.
  debug = UCXX_LOG_DEBUG, ///< And what happens often.
  trace = UCXX_LOG_TRACE, ///< Everything.
};

/// Receives a line of the log: from any thread, several at a time. It must not call this library,
/// and must not throw.
using log_callback = ucxx_log_callback_t;

/// Sends the log, up to `level`, to `f(arg, level, component, text)`. nullptr turns it off. Returns
/// `invalid_param` for an unknown level.
inline status set_log(log_callback f, void *arg, log_level level) noexcept {
  return static_cast<status>(ucxx_log_set_callback(f, arg, static_cast<std::int32_t>(level)));
}

/// What a context is for. Combine them with `|`.
enum class feature : std::uint64_t {
  defaults = 0, ///< tag, stream, am and wakeup.
  tag = UCXX_FEATURE_TAG, ///< Tag messages.
  stream = UCXX_FEATURE_STREAM, ///< Streams.
  am = UCXX_FEATURE_AM, ///< Active messages, fetches and what builds on them.
  rma = UCXX_FEATURE_RMA, ///< Put and get. It opens memory to peers.
  atomic = UCXX_FEATURE_ATOMIC, ///< Atomic operations on memory of peers.
  wakeup = UCXX_FEATURE_WAKEUP, ///< Descriptors and sleeping.
};
/// Both features.
constexpr feature operator|(feature a, feature b) noexcept {
  return static_cast<feature>(static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b));
}

/// Which networks a context uses.
enum class network : std::int32_t {
  all = UCXX_NETWORK_ALL, ///< All that UCX finds.
  local = UCXX_NETWORK_LOCAL, ///< Only within this host.
};

/// Parameters of a context.
struct context_params {
  feature features = feature::defaults; ///< What it is for.
  /// Variables of UCX, without "UCX_", that override the environment: {{"TLS", "tcp"}}.
  std::vector<ucxx_config_entry_t> config = {};
  ucxx_rs::network network = network::all; ///< Which networks.
  const char *name = nullptr; ///< A name that UCX shows in its output.
};

namespace detail {
template <class F> struct variable_to {
  static void call(void *arg, const char *key, const char *value) noexcept {
    guarded([&] { (*static_cast<F *>(arg))(key, value); });
  }
};
} // namespace detail

/// Calls `f(name, value)` for each variable that a context created now would have, with names
/// without "UCX_".
template <class F> status visit_config(F &&f) noexcept {
  return static_cast<status>(
      ucxx_config_visit(detail::variable_to<std::remove_reference_t<F>>::call, std::addressof(f)));
}

/// An initialised UCX, borrowed.
class context_view : public detail::view<ucxx_context_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// UCP's own handle, a ucp_context_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_context_native(c_); }
  /// Describes it to `f(const char *line)`, line by line.
  template <class F> status dump(F &&f) const noexcept {
    return static_cast<status>(ucxx_context_dump(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> status metrics(F &&f) const noexcept {
    return static_cast<status>(ucxx_context_metrics(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  /// Calls `f(name, value)` for each variable in force, with names without "UCX_".
  template <class F> void visit_config(F &&f) const noexcept {
    static_cast<void>(ucxx_context_visit_config(
        c_, detail::variable_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  /// Checks whether UCX can send from CUDA memory and receive into it here.
  bool has_cuda() const noexcept { return ucxx_context_has_cuda(c_) != 0; }
};

/// An initialised UCX. Workers keep what they need of it: it may end before them.
class context : public detail::owner<context_view, ucxx_context_destroy> {
public:
  using owner::owner; // Takes over.

  /// Initialises UCX.
  static context create(const context_params &params = {}) { return try_create(params).value(); }
  /// As `create`, without throwing.
  static result<context> try_create(const context_params &params = {}) noexcept {
    auto c = detail::sized<ucxx_context_params_t>();
    c.features = static_cast<std::uint64_t>(params.features);
    c.config = params.config.data();
    c.config_count = params.config.size();
    c.network = static_cast<std::int32_t>(params.network);
    c.name = params.name;
    ucxx_context_t *made = nullptr;
    auto s = ucxx_context_create(&c, &made);
    return detail::owned<context>(s, made);
  }
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
