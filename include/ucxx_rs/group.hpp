// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/group.hpp: sets of processes that know each other by rank.
#ifndef UCXX_RS_GROUP_HPP
#define UCXX_RS_GROUP_HPP

#include "worker.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// How the members of a group find each other.
enum class bootstrap : std::int32_t {
  callbacks = UCXX_BOOTSTRAP_CALLBACKS, ///< By the caller's `allgather`.
  tcp = UCXX_BOOTSTRAP_TCP, ///< Over TCP: rank 0 listens at `root`.
  pmix = UCXX_BOOTSTRAP_PMIX, ///< By the PMIx server of the launcher.
  env = UCXX_BOOTSTRAP_ENV, ///< Over TCP, with what the launcher sets.
};

/// Parameters of a group.
struct group_params {
  ucxx_rs::bootstrap bootstrap = ucxx_rs::bootstrap::env; ///< How the members find each other.
  std::uint32_t rank = 0; ///< Of this process. `env` and `pmix` know it.
  std::uint32_t size = 0; ///< Number of members. `env` and `pmix` know it.
  /// `callbacks`: gathers `mine` of all members into `all`, in the order of their ranks.
  function<status(const_buffer mine, void *all)> allgather = {};
  const char *root = nullptr; ///< "host:port" of rank 0.
  const char *secret = nullptr; ///< The same at all members. Others are refused.
  nanoseconds timeout = forever; ///< For the creation.
  nanoseconds collective_timeout = forever; ///< For each collective.
};

/// A set of processes, borrowed.
class group_view : public detail::view<ucxx_group_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> status metrics(F &&f) const noexcept {
    return static_cast<status>(ucxx_group_metrics(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  std::uint32_t rank() const noexcept { return ucxx_group_rank(c_); } ///< Of this process.
  std::uint32_t size() const noexcept { return ucxx_group_size(c_); } ///< Number of members.
  /// Checks whether a member runs on this host.
  bool is_same_host(std::uint32_t rank) const { return try_is_same_host(rank).value(); }
  /// As `is_same_host`, without throwing.
  result<bool> try_is_same_host(std::uint32_t rank) const noexcept {
    auto answer = ucxx_group_same_host(c_, rank);
    if (answer < 0) return static_cast<status>(answer);
    return answer == 1;
  }
  /// The endpoint to a member. The group owns it.
  endpoint_view endpoint(std::uint32_t rank) const { return try_endpoint(rank).value(); }
  /// As `endpoint`, without throwing.
  result<endpoint_view> try_endpoint(std::uint32_t rank) const noexcept {
    ucxx_endpoint_t *c = nullptr;
    auto s = static_cast<status>(ucxx_group_endpoint(c_, rank, &c));
    if (failed(s)) return s;
    return endpoint_view(c);
  }
  /// How long a member may be silent before its endpoint ends.
  status set_liveness(nanoseconds limit) const noexcept {
    return static_cast<status>(ucxx_group_set_liveness(c_, detail::limit_ns(limit)));
  }
  /// Waits until all members have called it.
  void barrier() const { detail::check(try_barrier()); }
  /// As `barrier`, without throwing.
  status try_barrier() const noexcept { return static_cast<status>(ucxx_group_barrier(c_)); }
  /// Gathers one T of each member, in the order of their ranks.
  template <class T> std::vector<T> allgather(const T &mine) const {
    static_assert(std::is_trivially_copyable_v<T>, "the value cannot be copied as bytes");
    std::vector<T> all(size());
    detail::check(try_allgather(object(mine), all.data()));
    return all;
  }
  /// Gathers the bytes of each member into `all`, without throwing.
  status try_allgather(const_buffer mine, void *all) const noexcept {
    return static_cast<status>(ucxx_group_allgather(c_, mine.data(), mine.size(), all));
  }
  /// Copies the bytes of `root` to all members.
  void broadcast(mutable_buffer data, std::uint32_t root) const {
    detail::check(try_broadcast(data, root));
  }
  /// As `broadcast`, without throwing.
  status try_broadcast(mutable_buffer data, std::uint32_t root) const noexcept {
    return static_cast<status>(ucxx_group_broadcast(c_, data.data(), data.size(), root));
  }
};

/// A set of processes. Its destructor notifies the other members.
class group : public detail::owner<group_view, ucxx_group_destroy> {
public:
  using owner::owner; // Takes over.
  /// Makes a group: all members call it, and it blocks until all have arrived.
  static group create(worker_view worker, group_params params = {}) {
    return try_create(worker, std::move(params)).value();
  }
  /// As `create`, without throwing.
  static result<group> try_create(worker_view worker, group_params params = {}) noexcept {
    auto c = detail::sized<ucxx_group_params_t>();
    c.bootstrap = static_cast<std::int32_t>(params.bootstrap);
    c.rank = params.rank;
    c.size = params.size;
    c.root = params.root;
    c.secret = params.secret;
    c.timeout_ns = detail::limit_ns(params.timeout);
    c.collective_timeout_ns = detail::limit_ns(params.collective_timeout);
    if (params.allgather) {
      c.allgather_arg = &params.allgather;
      c.allgather = [](void *arg, const void *data, std::size_t length,
                       void *out) noexcept -> ucxx_status_t {
        auto s = status::io_error;
        detail::guarded([&] {
          s = (*static_cast<decltype(group_params::allgather) *>(arg))(const_buffer(data, length),
                                                                       out);
        });
        return static_cast<ucxx_status_t>(s);
      };
    }
    ucxx_group_t *made = nullptr;
    auto s = ucxx_group_create(worker.c(), &c, &made);
    return detail::owned<group>(s, made);
  }
  /// Makes a group of some members: a list of their ranks, the same at all of them.
  template <class Ranks> static group subset(group_view of, const Ranks &ranks) {
    return try_subset(of, ranks).value();
  }
  /// As `subset`, without throwing.
  template <class Ranks>
  static result<group> try_subset(group_view of, const Ranks &ranks) noexcept {
    const std::uint32_t *first = std::data(ranks);
    ucxx_group_t *made = nullptr;
    auto s = ucxx_group_subset(of.c(), first, std::size(ranks), &made);
    return detail::owned<group>(s, made);
  }
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
