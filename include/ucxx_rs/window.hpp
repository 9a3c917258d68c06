// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/window.hpp: memory that each member of a group offers to the others, as in MPI.
//
//     auto w = window<double>::allocate(g, 1000);
//     {
//       auto held = w.lock(right);      // an epoch: unlocked at the end of its scope
//       w.put(halo, right, 0);
//     }
//
// Displacements are in elements of T.
#ifndef UCXX_RS_WINDOW_HPP
#define UCXX_RS_WINDOW_HPP

#include "group.hpp"
#include "layout.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Kinds of locks.
enum class lock_type : std::int32_t {
  shared = UCXX_LOCK_SHARED, ///< Several members hold it at a time.
  exclusive = UCXX_LOCK_EXCLUSIVE, ///< One member holds it.
};

/// Promises of the caller at a synchronisation, as MPI_MODE_*. Combine them with `|`.
enum class assertion : std::uint32_t {
  none = 0, ///< No promise.
  no_check = UCXX_ASSERT_NOCHECK, ///< No conflicting lock; the targets have posted.
  no_store = UCXX_ASSERT_NOSTORE, ///< No local stores since the last synchronisation.
  no_put = UCXX_ASSERT_NOPUT, ///< No puts in the epoch that begins.
  no_precede = UCXX_ASSERT_NOPRECEDE, ///< This fence completes nothing.
  no_succeed = UCXX_ASSERT_NOSUCCEED, ///< This fence begins nothing.
};
/// Both promises.
constexpr assertion operator|(assertion a, assertion b) noexcept {
  return static_cast<assertion>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// How an accumulate combines elements.
enum class reduce : std::int32_t {
  sum = UCXX_REDUCE_SUM, ///< Sum.
  prod = UCXX_REDUCE_PROD, ///< Product.
  min = UCXX_REDUCE_MIN, ///< Minimum.
  max = UCXX_REDUCE_MAX, ///< Maximum.
  land = UCXX_REDUCE_LAND, ///< Logical and.
  lor = UCXX_REDUCE_LOR, ///< Logical or.
  lxor = UCXX_REDUCE_LXOR, ///< Logical exclusive or.
  band = UCXX_REDUCE_BAND, ///< Bitwise and.
  bor = UCXX_REDUCE_BOR, ///< Bitwise or.
  bxor = UCXX_REDUCE_BXOR, ///< Bitwise exclusive or.
  replace = UCXX_REDUCE_REPLACE, ///< Replace.
  no_op = UCXX_REDUCE_NO_OP, ///< Change nothing. With a fetch: an atomic read.
  minloc = UCXX_REDUCE_MINLOC, ///< Minimum with its index.
  maxloc = UCXX_REDUCE_MAXLOC, ///< Maximum with its index.
};

/// How a window reaches a target.
enum class window_path : std::int32_t {
  self = UCXX_WINDOW_PATH_SELF, ///< It is the calling process.
  local = UCXX_WINDOW_PATH_LOCAL, ///< Its memory is accessed directly.
  message = UCXX_WINDOW_PATH_MESSAGE, ///< By messages, which a thread there executes.
  rma = UCXX_WINDOW_PATH_RMA, ///< Reserved.
};

/// Kinds of windows.
enum class window_flavor : std::int32_t {
  create = UCXX_WINDOW_FLAVOR_CREATE, ///< Memory of the caller.
  allocate = UCXX_WINDOW_FLAVOR_ALLOCATE, ///< Memory of the library.
  shared = UCXX_WINDOW_FLAVOR_SHARED, ///< Memory that all members map.
  dynamic = UCXX_WINDOW_FLAVOR_DYNAMIC, ///< Memory that members attach.
};

/// The kind of epoch that a window is in.
enum class sync_type : std::int32_t {
  none = UCXX_SYNC_NONE, ///< None.
  lock = UCXX_SYNC_LOCK, ///< After `lock`.
  lock_no_check = UCXX_SYNC_LOCK_NO_CHECK, ///< After `lock` with `no_check`.
  lock_all = UCXX_SYNC_LOCK_ALL, ///< After `lock_all`.
  lock_all_no_check = UCXX_SYNC_LOCK_ALL_NO_CHECK, ///< After `lock_all` with `no_check`.
  pscw = UCXX_SYNC_PSCW, ///< After `start` or `post`.
  fence = UCXX_SYNC_FENCE, ///< After a fence, before the first access.
  fence_epoch = UCXX_SYNC_FENCE_EPOCH, ///< After a fence, with accesses.
};

/// Whether accumulates of one process at one target are ordered.
enum class accumulate_order : std::int32_t {
  all = UCXX_ORDER_ALL, ///< They are.
  none = UCXX_ORDER_NONE, ///< They need not be.
};

/// Parameters of a window, and its hints.
struct window_params {
  bool no_locks = false; ///< It is never locked.
  bool same_disp_unit = false; ///< The unit is the same at all members.
  bool same_size = false; ///< The size is the same at all members.
  bool shared_noncontiguous = false; ///< `allocate_shared`: members need not be contiguous.
  accumulate_order accumulate_ordering = accumulate_order::all; ///< Of accumulates.
  std::uint64_t accumulate_granularity = 0; ///< Bytes that are accumulated atomically. A hint.
  nanoseconds lock_timeout = forever; ///< For each lock.
  ucxx_memory_t *memory = nullptr; ///< `memory.c()`: registered memory of the window.
};

/// An epoch of a window. It ends at the end of its scope. `end` ends it before, and reports errors,
/// which the destructor cannot.
class [[nodiscard]] epoch {
public:
  /// For functions of this header.
  epoch(ucxx_window_t *window, std::uint32_t target,
        ucxx_status_t (*ending)(ucxx_window_t *, std::uint32_t)) noexcept
      : window_(window), target_(target), end_(ending) {}
  /// Takes over.
  epoch(epoch &&other) noexcept
      : window_(std::exchange(other.window_, nullptr)), target_(other.target_), end_(other.end_) {}
  epoch &operator=(epoch &&) = delete;
  ~epoch() { static_cast<void>(try_end()); }
  /// Ends it: its operations are complete then.
  void end() { detail::check(try_end()); }
  /// As `end`, without throwing.
  status try_end() noexcept {
    auto *window = std::exchange(window_, nullptr);
    return window ? static_cast<status>(end_(window, target_)) : status::ok;
  }

private:
  ucxx_window_t *window_;
  std::uint32_t target_;
  ucxx_status_t (*end_)(ucxx_window_t *, std::uint32_t);
};

/// A window of elements of type T, borrowed.
template <class T> class window_view : public detail::view<ucxx_window_t> {
  using borrowed = detail::view<ucxx_window_t>;
  static_assert(detail::element_type<T> >= 0, "windows have no elements of this type");

public:
  using borrowed::borrowed, borrowed::operator=; // Borrows.

  /// This member's memory: its first element.
  T *data() const { return static_cast<T *>(query().data); }
  /// Number of elements of this member.
  std::size_t size() const { return query().size / sizeof(T); }
  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> status metrics(F &&f) const noexcept {
    return static_cast<status>(ucxx_window_metrics(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
  /// Its flavor, memory and epoch.
  ucxx_window_attr_t query() const { return try_query().value(); }
  /// As `query`, without throwing.
  result<ucxx_window_attr_t> try_query() const noexcept {
    auto attr = detail::sized<ucxx_window_attr_t>();
    auto s = ucxx_window_query(c_, &attr);
    return detail::filled(s, attr);
  }
  /// A member's memory in this process: the first element, or nullptr if it is not mapped here.
  T *shared_query(std::uint32_t rank, std::size_t *count = nullptr) const {
    return try_shared_query(rank, count).value();
  }
  /// As `shared_query`, without throwing.
  result<T *> try_shared_query(std::uint32_t rank, std::size_t *count = nullptr) const noexcept {
    std::size_t bytes = 0;
    std::uint32_t unit = 0;
    void *base = nullptr;
    auto s = static_cast<status>(ucxx_window_shared_query(c_, rank, &bytes, &unit, &base));
    if (failed(s)) return s;
    if (count) *count = bytes / sizeof(T);
    return static_cast<T *>(base);
  }
  /// How it reaches a target.
  window_path path(std::uint32_t target) const { return try_path(target).value(); }
  /// As `path`, without throwing.
  result<window_path> try_path(std::uint32_t target) const noexcept {
    return answered<window_path>(ucxx_window_path(c_, target));
  }
  /// The kind of its epoch at a target.
  ucxx_rs::sync_type sync_type(std::uint32_t target) const { return try_sync_type(target).value(); }
  /// As `sync_type`, without throwing.
  result<ucxx_rs::sync_type> try_sync_type(std::uint32_t target) const noexcept {
    return answered<ucxx_rs::sync_type>(ucxx_window_sync_type(c_, target));
  }
  /// Its group.
  group_view group() const noexcept { return group_view(ucxx_window_group(c_)); }
  /// Changes its hints.
  status set_hints(const window_params &params) const noexcept;
  /// Attaches memory (dynamic windows).
  status attach(mutable_buffer range) const noexcept {
    return static_cast<status>(ucxx_window_attach(c_, range.data(), range.size()));
  }
  /// Detaches memory (dynamic windows).
  status detach(void *base) const noexcept {
    return static_cast<status>(ucxx_window_detach(c_, base));
  }
  /// Ends it together with the other members.
  void close() const { detail::check(try_close()); }
  /// As `close`, without throwing.
  status try_close() const noexcept { return static_cast<status>(ucxx_window_close(c_)); }

  /// Locks a target: an epoch, in which this member accesses it.
  epoch lock(std::uint32_t target, lock_type type = lock_type::exclusive,
             assertion promised = assertion::none) const {
    return try_lock(target, type, promised).value();
  }
  /// As `lock`, without throwing. It waits too.
  result<epoch> try_lock(std::uint32_t target, lock_type type = lock_type::exclusive,
                         assertion promised = assertion::none) const noexcept {
    auto s = ucxx_window_lock(c_, static_cast<std::int32_t>(type), target,
                              static_cast<std::uint32_t>(promised));
    return begun(s, target, ucxx_window_unlock);
  }
  /// Locks a target without waiting. After it has completed, end it by `unlock`.
  /// @return An operation that gives nothing.
  auto lock_nb(std::uint32_t target, lock_type type = lock_type::exclusive,
               assertion promised = assertion::none) const noexcept {
    return detail::describe<void>(
        [c = c_, target, type, promised](const ucxx_op_params_t *params,
                                         ucxx_request_t **request) noexcept {
          return ucxx_window_lock_nb(c, static_cast<std::int32_t>(type), target,
                                     static_cast<std::uint32_t>(promised), params, request);
        });
  }
  /// Ends the epoch of `lock_nb`.
  status unlock(std::uint32_t target) const noexcept {
    return static_cast<status>(ucxx_window_unlock(c_, target));
  }
  /// Locks all members, shared.
  epoch lock_all(assertion promised = assertion::none) const {
    return try_lock_all(promised).value();
  }
  /// As `lock_all`, without throwing.
  result<epoch> try_lock_all(assertion promised = assertion::none) const noexcept {
    auto s = ucxx_window_lock_all(c_, static_cast<std::uint32_t>(promised));
    return begun(
        s, 0, [](ucxx_window_t *c, std::uint32_t) noexcept { return ucxx_window_unlock_all(c); });
  }
  /// Begins an access epoch at these targets, when each has posted.
  template <class Ranks>
  epoch start(const Ranks &targets, assertion promised = assertion::none) const {
    return try_start(targets, promised).value();
  }
  /// As `start`, without throwing.
  template <class Ranks>
  result<epoch> try_start(const Ranks &targets,
                          assertion promised = assertion::none) const noexcept {
    auto s = ucxx_window_start(c_, std::data(targets), std::size(targets),
                               static_cast<std::uint32_t>(promised));
    return begun(s, 0,
                 [](ucxx_window_t *c, std::uint32_t) noexcept { return ucxx_window_complete(c); });
  }
  /// Begins an exposure epoch for these origins. Its end waits for them.
  template <class Ranks>
  epoch post(const Ranks &origins, assertion promised = assertion::none) const {
    return try_post(origins, promised).value();
  }
  /// As `post`, without throwing.
  template <class Ranks>
  result<epoch> try_post(const Ranks &origins,
                         assertion promised = assertion::none) const noexcept {
    auto s = ucxx_window_post(c_, std::data(origins), std::size(origins),
                              static_cast<std::uint32_t>(promised));
    return begun(s, 0,
                 [](ucxx_window_t *c, std::uint32_t) noexcept { return ucxx_window_wait(c); });
  }
  /// Checks whether the exposure epoch can end, and ends it then.
  bool test() const { return try_test().value(); }
  /// As `test`, without throwing.
  result<bool> try_test() const noexcept {
    std::int32_t done = 0;
    auto s = static_cast<status>(ucxx_window_test(c_, &done));
    if (failed(s)) return s;
    return done != 0;
  }
  /// Ends the epoch of the last fence at all members, and begins the next one.
  void fence(assertion promised = assertion::none) const { detail::check(try_fence(promised)); }
  /// As `fence`, without throwing.
  status try_fence(assertion promised = assertion::none) const noexcept {
    return static_cast<status>(ucxx_window_fence(c_, static_cast<std::uint32_t>(promised)));
  }
  /// Begins an epoch by a fence, which another one ends. All members call it.
  epoch fence_epoch() const { return try_fence_epoch().value(); }
  /// As `fence_epoch`, without throwing.
  result<epoch> try_fence_epoch() const noexcept {
    return begun(ucxx_window_fence(c_, UCXX_ASSERT_NOPRECEDE), 0,
                 [](ucxx_window_t *c, std::uint32_t) noexcept {
                   return ucxx_window_fence(c, UCXX_ASSERT_NOSUCCEED);
                 });
  }

  /// Completes the operations at a target, at both sides.
  void flush(std::uint32_t target) const { detail::check(try_flush(target)); }
  /// As `flush`, without throwing.
  status try_flush(std::uint32_t target) const noexcept {
    return static_cast<status>(ucxx_window_flush(c_, target));
  }
  /// As `flush`, without waiting.
  /// @return An operation that gives nothing.
  auto flush_nb(std::uint32_t target) const noexcept {
    return detail::describe<void>(
        [c = c_, target](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_window_flush_nb(c, target, params, request);
        });
  }
  /// Completes the operations at all targets.
  void flush_all() const { detail::check(try_flush_all()); }
  /// As `flush_all`, without throwing.
  status try_flush_all() const noexcept { return static_cast<status>(ucxx_window_flush_all(c_)); }
  /// Completes the operations at a target on this side: buffers may be reused.
  void flush_local(std::uint32_t target) const { detail::check(try_flush_local(target)); }
  /// As `flush_local`, without throwing.
  status try_flush_local(std::uint32_t target) const noexcept {
    return static_cast<status>(ucxx_window_flush_local(c_, target));
  }
  /// Completes the operations at all targets on this side.
  void flush_local_all() const { detail::check(try_flush_local_all()); }
  /// As `flush_local_all`, without throwing.
  status try_flush_local_all() const noexcept {
    return static_cast<status>(ucxx_window_flush_local_all(c_));
  }
  /// Orders loads and stores of this process with accesses of others.
  void sync() const { detail::check(try_sync()); }
  /// As `sync`, without throwing.
  status try_sync() const noexcept { return static_cast<status>(ucxx_window_sync(c_)); }

  /// Writes elements to a target.
  template <class R> void put(const R &from, std::uint32_t target, std::int64_t disp) const {
    detail::check(try_put(from, target, disp));
  }
  /// As `put`, without throwing.
  template <class R>
  status try_put(const R &from, std::uint32_t target, std::int64_t disp) const noexcept {
    layout<T> all(count(from));
    return try_put(std::data(from), all, target, disp, all);
  }
  /// Writes elements in any layout.
  void put(const T *from, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
           const layout<T> &theirs) const {
    detail::check(try_put(from, mine, target, disp, theirs));
  }
  /// As `put`, without throwing.
  status try_put(const T *from, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
                 const layout<T> &theirs) const noexcept {
    return static_cast<status>(ucxx_window_put(c_, from, mine.c(), target, disp, theirs.c()));
  }
  /// Reads elements of a target. They are there after a flush, or the end of the epoch.
  template <class R> void get(R &&into, std::uint32_t target, std::int64_t disp) const {
    detail::check(try_get(std::forward<R>(into), target, disp));
  }
  /// As `get`, without throwing.
  template <class R>
  status try_get(R &&into, std::uint32_t target, std::int64_t disp) const noexcept {
    static_assert(detail::is_kept<R>, "the temporary ends before the epoch does");
    layout<T> all(count(into));
    return try_get(std::data(into), all, target, disp, all);
  }
  /// Reads elements in any layout.
  void get(T *into, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
           const layout<T> &theirs) const {
    detail::check(try_get(into, mine, target, disp, theirs));
  }
  /// As `get`, without throwing.
  status try_get(T *into, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
                 const layout<T> &theirs) const noexcept {
    return static_cast<status>(ucxx_window_get(c_, into, mine.c(), target, disp, theirs.c()));
  }
  /// Combines elements with those of a target, each atomically.
  template <class R>
  void accumulate(const R &from, reduce op, std::uint32_t target, std::int64_t disp) const {
    detail::check(try_accumulate(from, op, target, disp));
  }
  /// As `accumulate`, without throwing.
  template <class R>
  status try_accumulate(const R &from, reduce op, std::uint32_t target,
                        std::int64_t disp) const noexcept {
    layout<T> all(count(from));
    return try_accumulate(std::data(from), all, op, target, disp, all);
  }
  /// Combines elements in any layout.
  void accumulate(const T *from, const layout<T> &mine, reduce op, std::uint32_t target,
                  std::int64_t disp, const layout<T> &theirs) const {
    detail::check(try_accumulate(from, mine, op, target, disp, theirs));
  }
  /// As `accumulate`, without throwing.
  status try_accumulate(const T *from, const layout<T> &mine, reduce op, std::uint32_t target,
                        std::int64_t disp, const layout<T> &theirs) const noexcept {
    return static_cast<status>(ucxx_window_accumulate(c_, from, mine.c(), target, disp, theirs.c(),
                                                      static_cast<std::int32_t>(op)));
  }
  /// Combines elements, and reads their previous values into `before`.
  void get_accumulate(const T *from, const layout<T> &mine, T *before, const layout<T> &result,
                      reduce op, std::uint32_t target, std::int64_t disp,
                      const layout<T> &theirs) const {
    detail::check(try_get_accumulate(from, mine, before, result, op, target, disp, theirs));
  }
  /// As `get_accumulate`, without throwing.
  status try_get_accumulate(const T *from, const layout<T> &mine, T *before,
                            const layout<T> &result, reduce op, std::uint32_t target,
                            std::int64_t disp, const layout<T> &theirs) const noexcept {
    return static_cast<status>(ucxx_window_get_accumulate(c_, from, mine.c(), before, result.c(),
                                                          target, disp, theirs.c(),
                                                          static_cast<std::int32_t>(op)));
  }
  /// Combines one element, and reads its previous value into `before`, which is there after a
  /// flush, or the end of the epoch.
  void fetch_and_op(const T &operand, T &before, reduce op, std::uint32_t target,
                    std::int64_t disp) const {
    detail::check(try_fetch_and_op(operand, before, op, target, disp));
  }
  /// As `fetch_and_op`, without throwing.
  status try_fetch_and_op(const T &operand, T &before, reduce op, std::uint32_t target,
                          std::int64_t disp) const noexcept {
    return static_cast<status>(ucxx_window_fetch_and_op(c_, &operand, &before,
                                                        detail::element_type<T>, target, disp,
                                                        static_cast<std::int32_t>(op)));
  }
  /// Stores `desired` if the element equals `expected`. `before` is as for `fetch_and_op`.
  void compare_and_swap(const T &desired, const T &expected, T &before, std::uint32_t target,
                        std::int64_t disp) const {
    detail::check(try_compare_and_swap(desired, expected, before, target, disp));
  }
  /// As `compare_and_swap`, without throwing.
  status try_compare_and_swap(const T &desired, const T &expected, T &before, std::uint32_t target,
                              std::int64_t disp) const noexcept {
    return static_cast<status>(ucxx_window_compare_and_swap(c_, &desired, &expected, &before,
                                                            detail::element_type<T>, target, disp));
  }

  /// `put` as an operation.
  /// @return An operation that gives nothing.
  auto rput(const T *from, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
            const layout<T> &theirs) const noexcept {
    return detail::describe<void>(
        [c = c_, from, &mine, target, disp, &theirs](const ucxx_op_params_t *params,
                                                     ucxx_request_t **request) noexcept {
          return ucxx_window_rput(c, from, mine.c(), target, disp, theirs.c(), params, request);
        });
  }
  /// `get` as an operation.
  /// @return An operation that gives nothing.
  auto rget(T *into, const layout<T> &mine, std::uint32_t target, std::int64_t disp,
            const layout<T> &theirs) const noexcept {
    return detail::describe<void>(
        [c = c_, into, &mine, target, disp, &theirs](const ucxx_op_params_t *params,
                                                     ucxx_request_t **request) noexcept {
          return ucxx_window_rget(c, into, mine.c(), target, disp, theirs.c(), params, request);
        });
  }
  /// `accumulate` as an operation.
  /// @return An operation that gives nothing.
  auto raccumulate(const T *from, const layout<T> &mine, reduce op, std::uint32_t target,
                   std::int64_t disp, const layout<T> &theirs) const noexcept {
    return detail::describe<void>(
        [c = c_, from, &mine, op, target, disp, &theirs](const ucxx_op_params_t *params,
                                                         ucxx_request_t **request) noexcept {
          return ucxx_window_raccumulate(c, from, mine.c(), target, disp, theirs.c(),
                                         static_cast<std::int32_t>(op), params, request);
        });
  }
  /// `get_accumulate` as an operation.
  /// @return An operation that gives nothing.
  auto rget_accumulate(const T *from, const layout<T> &mine, T *before, const layout<T> &result,
                       reduce op, std::uint32_t target, std::int64_t disp,
                       const layout<T> &theirs) const noexcept {
    return detail::describe<void>(
        [c = c_, from, &mine, before, &result, op, target, disp,
         &theirs](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_window_rget_accumulate(c, from, mine.c(), before, result.c(), target, disp,
                                             theirs.c(), static_cast<std::int32_t>(op), params,
                                             request);
        });
  }

private:
  // Because of `auto` the compiler reports the assertion before what follows from the mistake.
  template <class R> static auto count(const R &range) noexcept {
    static_assert(std::is_same_v<std::remove_cv_t<detail::element_of<const R>>, T>,
                  "the elements are not those of the window");
    return std::size(range);
  }
  /// What a call returns that gives a value of an enum, or a negative status.
  template <class Enum> static result<Enum> answered(std::int32_t answer) noexcept {
    if (answer < 0) return static_cast<status>(answer);
    return static_cast<Enum>(answer);
  }
  result<epoch> begun(ucxx_status_t s, std::uint32_t target,
                      ucxx_status_t (*end)(ucxx_window_t *, std::uint32_t)) const noexcept {
    if (s < 0) return static_cast<status>(s);
    return epoch(c_, target, end);
  }
};

/// A window of elements of type T. All members make it, close it, and destroy it.
template <class T> class window : public detail::owner<window_view<T>, ucxx_window_destroy> {
  using base = detail::owner<window_view<T>, ucxx_window_destroy>;

public:
  using base::base; // Takes over.
  /// Of the caller's memory, which has to live longer.
  template <class R>
  static window create(group_view group, R &range, const window_params &params = {}) {
    return try_create(group, range, params).value();
  }
  /// As `create`, without throwing.
  template <class R>
  static result<window> try_create(group_view group, R &range,
                                   const window_params &params = {}) noexcept {
    auto c = c_params(params);
    ucxx_window_t *made = nullptr;
    auto s = ucxx_window_create(group.c(), std::data(range), std::size(range) * sizeof(T),
                                sizeof(T), &c, &made);
    return detail::owned<window>(s, made);
  }
  /// Of `count` elements of the library's memory.
  static window allocate(group_view group, std::size_t count, const window_params &params = {}) {
    return try_allocate(group, count, params).value();
  }
  /// As `allocate`, without throwing.
  static result<window> try_allocate(group_view group, std::size_t count,
                                     const window_params &params = {}) noexcept {
    return allocated(ucxx_window_allocate, group, count, params);
  }
  /// Of memory that all members map. They are on one host.
  static window allocate_shared(group_view group, std::size_t count,
                                const window_params &params = {}) {
    return try_allocate_shared(group, count, params).value();
  }
  /// As `allocate_shared`, without throwing.
  static result<window> try_allocate_shared(group_view group, std::size_t count,
                                            const window_params &params = {}) noexcept {
    return allocated(ucxx_window_allocate_shared, group, count, params);
  }
  /// Without memory, which members attach. Displacements are addresses of the target.
  static window create_dynamic(group_view group, const window_params &params = {}) {
    return try_create_dynamic(group, params).value();
  }
  /// As `create_dynamic`, without throwing.
  static result<window> try_create_dynamic(group_view group,
                                           const window_params &params = {}) noexcept {
    auto c = c_params(params);
    ucxx_window_t *made = nullptr;
    auto s = ucxx_window_create_dynamic(group.c(), &c, &made);
    return detail::owned<window>(s, made);
  }

private:
  template <class> friend class window_view;
  static ucxx_window_params_t c_params(const window_params &params) noexcept {
    auto c = detail::sized<ucxx_window_params_t>();
    c.no_locks = params.no_locks;
    c.same_disp_unit = params.same_disp_unit;
    c.same_size = params.same_size;
    c.shared_noncontiguous = params.shared_noncontiguous;
    c.accumulate_ordering = static_cast<std::int32_t>(params.accumulate_ordering);
    c.accumulate_granularity = params.accumulate_granularity;
    c.lock_timeout_ns = detail::limit_ns(params.lock_timeout);
    c.memory = params.memory;
    return c;
  }
  template <class Allocate>
  static result<window> allocated(Allocate allocate, group_view group, std::size_t count,
                                  const window_params &params) noexcept {
    auto c = c_params(params);
    ucxx_window_t *made = nullptr;
    void *memory = nullptr;
    auto s = allocate(group.c(), count * sizeof(T), sizeof(T), &c, &memory, &made);
    return detail::owned<window>(s, made);
  }
};

template <class T> status window_view<T>::set_hints(const window_params &params) const noexcept {
  auto c = window<T>::c_params(params);
  return static_cast<status>(ucxx_window_set_hints(c_, &c));
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
