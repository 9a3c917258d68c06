// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/hub.hpp: queues of chunks in envelopes, across host and device memory.
//
//     auto h = hub::create(ctx, params);
//     h.add_envelopes({}, 8);
//     auto in = hub_link::create(h, link_type::produce);
//     auto out = hub_link::create(h, link_type::consume);
//     auto e = in.lease().wait();      // an empty envelope
//     e.commit(fill(e.space()));       // without a commit, the end of the scope aborts
#ifndef UCXX_RS_HUB_HPP
#define UCXX_RS_HUB_HPP

#include <initializer_list>
#include <vector>

#include "worker.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// How long a chunk keeps the envelope that a transfer has copied.
enum class hub_retain : std::int32_t {
  automatic = UCXX_HUB_RETAIN_AUTO, ///< Until it is needed.
  always = UCXX_HUB_RETAIN_ALWAYS, ///< Until the chunk is consumed.
  until_copied = UCXX_HUB_RETAIN_UNTIL_COPIED, ///< As long as a link is to read the chunk there.
};

/// The memory of envelopes.
struct memory_kind {
  memory_type type = memory_type::host; ///< host, cuda, cuda_pinned or dummy.
  int device = 0; ///< Number of the device.
  /// As C has it.
  ucxx_memory_kind_t c() const noexcept { return {static_cast<std::int32_t>(type), device}; }
};

/// Parameters of a hub.
struct hub_params {
  std::size_t envelope_size = 0; ///< Bytes of each envelope. Required.
  std::size_t max_queue_chunks = 0; ///< Most chunks in the queue. 0: no limit.
  std::size_t max_queue_bytes = 0; ///< Most bytes in the queue. 0: no limit.
  hub_retain retain = hub_retain::automatic; ///< Of envelopes that were copied.
  std::uint32_t transfers_in_flight = 0; ///< Most copies between kinds of memory. 0: 2.
  ucxx_worker_t *worker = nullptr; ///< `worker.c()`: for links to peers.
};

/// Kinds of links.
enum class link_type : std::int32_t {
  produce = UCXX_LINK_PRODUCE, ///< Leases empty envelopes, and commits them as chunks.
  consume = UCXX_LINK_CONSUME, ///< Leases chunks, and takes them out of the queue.
  peek = UCXX_LINK_PEEK, ///< Leases the oldest chunk to read it.
  modify = UCXX_LINK_MODIFY, ///< Leases the oldest chunk to change it.
};

/// A leased envelope. At the end of its scope the lease ends: aborted, or committed if the link has
/// `autocommit`.
class envelope : public detail::view<ucxx_envelope_t> {
public:
  using view::view; // Takes over.
  envelope(envelope &&other) noexcept : view(other) { other.c_ = nullptr; } ///< Takes over.
  /// Takes over.
  envelope &operator=(envelope &&other) noexcept {
    envelope taken(std::move(other));
    std::swap(c_, taken.c_);
    return *this;
  }
  ~envelope() {
    // A release can fail, if its commit does. An abort without a stream cannot.
    if (c_ && ucxx_envelope_release(c_, nullptr) < 0) {
      static_cast<void>(ucxx_envelope_abort(c_, nullptr));
    }
  }

  /// Memory, length, metadata and event.
  ucxx_envelope_attr_t query() const noexcept {
    auto attr = detail::sized<ucxx_envelope_attr_t>();
    static_cast<void>(ucxx_envelope_query(c_, &attr));
    return attr;
  }
  /// All of its memory, to be written.
  mutable_buffer space() const noexcept {
    auto attr = query();
    return {attr.data, attr.capacity, static_cast<memory_type>(attr.kind.memory_type),
            attr.kind.device_id};
  }
  /// The chunk in it, to be read.
  const_buffer chunk() const noexcept {
    auto attr = query();
    return {attr.data, attr.length, static_cast<memory_type>(attr.kind.memory_type),
            attr.kind.device_id};
  }
  /// 64 bytes of host memory that travel with the chunk.
  std::uint8_t *metadata() const noexcept { return query().metadata; }

  /// Ends the lease, with its result: `length` bytes of a chunk. `stream` is a CUstream whose work
  /// so far belongs to it.
  void commit(std::size_t length = 0, void *stream = nullptr) {
    detail::check(try_commit(length, stream));
  }
  /// As `commit`, without throwing. After an error the lease continues.
  status try_commit(std::size_t length = 0, void *stream = nullptr) noexcept {
    return ended(ucxx_envelope_commit(c_, length, stream));
  }
  /// Ends the lease without a result.
  status abort(void *stream = nullptr) noexcept { return ended(ucxx_envelope_abort(c_, stream)); }
  /// Exchanges memory, length and metadata of two leased envelopes.
  friend status swap_contents(envelope &a, envelope &b) noexcept {
    return static_cast<status>(ucxx_envelope_swap(a.c_, b.c_));
  }
  /// Gives up ownership.
  [[nodiscard]] ucxx_envelope_t *release() noexcept { return std::exchange(c_, nullptr); }

private:
  status ended(ucxx_status_t s) noexcept {
    if (s >= 0) c_ = nullptr;
    return static_cast<status>(s);
  }
};

/// A producer, consumer or reader of a hub, borrowed.
class hub_link_view : public detail::view<ucxx_link_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Leases an envelope without waiting: `no_resource` if none is available.
  result<envelope> try_lease(nanoseconds timeout = nanoseconds(0)) const noexcept {
    ucxx_envelope_t *leased = nullptr;
    auto s = static_cast<status>(ucxx_link_lease(c_, detail::wait_ns(timeout), &leased));
    if (failed(s)) return s;
    return envelope(leased);
  }
  /// Receives a tag message into an envelope, and commits it (producers).
  /// @return An operation that gives `recv_info`.
  auto recv(std::uint64_t tag, std::uint64_t mask = ~0ull) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, tag, mask](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_link_recv(c, tag, mask, params, request);
        });
  }
  /// Sends the oldest chunk as a tag message, and consumes it (consumers).
  /// @return An operation that gives nothing.
  auto send(endpoint_view to, std::uint64_t tag) const noexcept {
    return detail::describe<void>([c = c_, to = to.c(), tag](const ucxx_op_params_t *params,
                                                             ucxx_request_t **request) noexcept {
      return ucxx_link_send(c, to, tag, params, request);
    });
  }
  /// Connects a consumer with a producer of the peer, as one stream.
  void connect(endpoint_view to, std::uint64_t stream_id, std::uint32_t window) const {
    detail::check(try_connect(to, stream_id, window));
  }
  /// As `connect`, without throwing.
  status try_connect(endpoint_view to, std::uint64_t stream_id,
                     std::uint32_t window) const noexcept {
    return static_cast<status>(ucxx_link_connect(c_, to.c(), stream_id, window));
  }
  /// A descriptor for an event loop. The link owns it.
  result<int> try_event_fd() const noexcept {
    std::int32_t fd = -1;
    auto s = ucxx_link_event_fd(c_, &fd);
    return detail::filled(s, fd);
  }
  /// Arms the descriptor: `ok`, `busy` if a lease is available, `closed` if none will be.
  [[nodiscard]] status arm() const noexcept { return static_cast<status>(ucxx_link_arm(c_)); }
};

/// Parameters of a link.
struct link_params {
  bool broadcast = false; ///< Consumers: gets every chunk, in place of competing for them.
  bool autocommit = false; ///< The end of an envelope's scope commits it.
  /// Runs when a lease is available, or never will be. Links with it, or with `awaitable`, cost the
  /// hub a lock.
  function<void(hub_link_view, status)> on_ready = {};
  bool awaitable = false; ///< `co_await link.lease()` is possible. Not with on_ready.
};

/// A queue of chunks, borrowed.
class hub_view : public detail::view<ucxx_hub_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Adds envelopes in this memory.
  void add_envelopes(memory_kind kind, std::size_t count) const {
    detail::check(try_add_envelopes(kind, count));
  }
  /// As `add_envelopes`, without throwing.
  status try_add_envelopes(memory_kind kind, std::size_t count) const noexcept {
    return static_cast<status>(ucxx_hub_add_envelopes(c_, kind.c(), count));
  }
  /// Adds an envelope of the caller's memory. `free(arg, data)` runs when the hub has ended.
  status add_buffer(memory_kind kind, void *data, void (*free)(void *arg, void *data),
                    void *arg = nullptr) const noexcept {
    return static_cast<status>(ucxx_hub_add_buffer(c_, kind.c(), data, free, arg));
  }
  /// Sets the links by which chunks flow, in order: a list of `link.c()`.
  template <class Links> void set_flow(const Links &links) const {
    detail::check(try_set_flow(links));
  }
  /// As `set_flow`, without throwing.
  template <class Links> status try_set_flow(const Links &links) const noexcept {
    return static_cast<status>(ucxx_hub_set_flow(c_, std::data(links), std::size(links)));
  }
  /// Adds a link to them.
  void add_flow(hub_link_view link) const { detail::check(try_add_flow(link)); }
  /// As `add_flow`, without throwing.
  status try_add_flow(hub_link_view link) const noexcept {
    return static_cast<status>(ucxx_hub_add_flow(c_, link.c()));
  }
  /// Checks that the hub can serve its links. Throws `starved` with the reason if not.
  void validate() const { detail::check(try_validate()); }
  /// As `validate`, without throwing.
  status try_validate() const noexcept { return static_cast<status>(ucxx_hub_validate(c_)); }
  /// Leases an envelope for a new chunk, without a link.
  result<envelope> try_push(memory_kind kind = {}) const noexcept {
    ucxx_envelope_t *leased = nullptr;
    auto s = static_cast<status>(ucxx_hub_push(c_, kind.c(), &leased));
    if (failed(s)) return s;
    return envelope(leased);
  }
  /// Leases the oldest chunk to read it, without a link.
  result<envelope> try_peek(memory_kind kind = {},
                            nanoseconds timeout = nanoseconds(0)) const noexcept {
    ucxx_envelope_t *leased = nullptr;
    auto s = static_cast<status>(ucxx_hub_peek(c_, kind.c(), detail::wait_ns(timeout), &leased));
    if (failed(s)) return s;
    return envelope(leased);
  }
  /// Removes the oldest chunk.
  status pop() const noexcept { return static_cast<status>(ucxx_hub_pop(c_)); }
  /// Number of chunks in the queue.
  std::size_t length() const noexcept { return ucxx_hub_length(c_); }
  /// No more chunks: consumers get `closed` after the last one.
  void close() const { detail::check(try_close()); }
  /// As `close`, without throwing.
  status try_close() const noexcept { return static_cast<status>(ucxx_hub_close(c_)); }
  /// Waits until the queue is empty, and streams have ended at the peers. Returns false if the time
  /// expired first.
  bool drain(nanoseconds timeout = forever) const { return detail::in_time(try_drain(timeout)); }
  /// As `drain`, without throwing.
  status try_drain(nanoseconds timeout = forever) const noexcept {
    return static_cast<status>(ucxx_hub_drain(c_, detail::wait_ns(timeout)));
  }
  /// Its counters.
  ucxx_hub_stats_t query_stats() const { return try_query_stats().value(); }
  /// As `query_stats`, without throwing.
  result<ucxx_hub_stats_t> try_query_stats() const noexcept {
    auto stats = detail::sized<ucxx_hub_stats_t>();
    auto s = ucxx_hub_query_stats(c_, &stats);
    return detail::filled(s, stats);
  }
  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> status metrics(F &&f) const noexcept {
    return static_cast<status>(
        ucxx_hub_metrics(c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }
};

/// A queue of chunks, with the envelopes that contain them.
class hub : public detail::owner<hub_view, ucxx_hub_destroy> {
public:
  using owner::owner; // Takes over.
  /// Makes a hub.
  static hub create(context_view context, const hub_params &params) {
    return try_create(context, params).value();
  }
  /// As `create`, without throwing.
  static result<hub> try_create(context_view context, const hub_params &params) noexcept {
    auto c = detail::sized<ucxx_hub_params_t>();
    c.envelope_size = params.envelope_size;
    c.max_queue_chunks = params.max_queue_chunks;
    c.max_queue_bytes = params.max_queue_bytes;
    c.retain = static_cast<std::int32_t>(params.retain);
    c.transfers_in_flight = params.transfers_in_flight;
    c.worker = params.worker;
    ucxx_hub_t *made = nullptr;
    auto s = ucxx_hub_create(context.c(), &c, &made);
    return detail::owned<hub>(s, made);
  }
};

namespace detail {

#if UCXX_RS_COROUTINES
/// One coroutine that awaits a lease, and the callback of its link. `state` is nothing, a note that
/// the link has become ready while nobody waited, or who waits. Whoever takes a waiter out of it
/// may lease for it.
class lease_waiters {
public:
  struct waiter {
    std::coroutine_handle<> waiting;
    std::optional<result<envelope>> leased;
  };

  /// Leases, or leaves `one` to be resumed later: then it may already run on another thread.
  bool leased_or_left(hub_link_view link, waiter *one) noexcept {
    for (;;) {
      auto r = link.try_lease();
      if (r.error() != status::no_resource) {
        one->leased.emplace(std::move(r));
        return true;
      }
      void *nothing = nullptr;
      if (state_.compare_exchange_strong(nothing, one)) return false;
      // It has become ready meanwhile. The note is used up.
      state_.store(nullptr);
    }
  }
  void ready(hub_link_view link) noexcept {
    void *before = state_.exchange(&is_ready_);
    if (!before || before == &is_ready_) return;
    auto *one = static_cast<waiter *>(before);
    state_.store(nullptr);
    if (!leased_or_left(link, one)) return;
    guarded([waiting = one->waiting] { waiting.resume(); });
  }

private:
  std::atomic<void *> state_{nullptr};
  char is_ready_ = 0;
};
#endif

struct link_state : std::enable_shared_from_this<link_state> {
  function<void(hub_link_view, status)> on_ready;
#if UCXX_RS_COROUTINES
  lease_waiters waiters;
#endif
};

} // namespace detail

/// The description of a lease. What is called on it leases, once.
class [[nodiscard]] lease {
public:
  /// For functions of this header.
  lease(hub_link_view link, detail::link_state *state) noexcept : link_(link), state_(state) {}
  /// Waits for an envelope. Throws `closed` when there will be none, and `timed_out`.
  envelope wait(nanoseconds timeout = forever) && { return link_.try_lease(timeout).value(); }
  /// As `wait`, without throwing. With 0 it does not wait.
  result<envelope> try_wait(nanoseconds timeout = forever) && noexcept {
    return link_.try_lease(timeout);
  }
#if UCXX_RS_COROUTINES
  /// Awaits an envelope, without a limit. The link is `awaitable`. One coroutine at a time.
  auto operator co_await() && noexcept {
    struct awaiting : detail::lease_waiters::waiter {
      hub_link_view link;
      detail::link_state *state;
      awaiting(hub_link_view l, detail::link_state *s) noexcept : link(l), state(s) {}
      bool await_ready() noexcept {
        // Without `awaitable` nothing would resume it.
        if (!state) this->leased.emplace(link.try_lease());
        return !state;
      }
      bool await_suspend(std::coroutine_handle<> h) noexcept {
        this->waiting = h;
        return !state->waiters.leased_or_left(link, this);
      }
      envelope await_resume() { return std::move(*this->leased).value(); }
    };
    return awaiting(link_, state_);
  }
#endif

private:
  hub_link_view link_;
  [[maybe_unused]] detail::link_state *state_; // Only coroutines use it.
};

namespace detail {
/// A base, because bases end after members: C may call until the link is destroyed.
struct link_keeps {
  std::shared_ptr<link_state> state_;
};
} // namespace detail

/// A producer, consumer or reader of a hub.
class hub_link : private detail::link_keeps,
                 public detail::owner<hub_link_view, ucxx_link_destroy> {
public:
  /// Makes a link, for envelopes in this memory.
  static hub_link create(hub_view hub, link_type type, memory_kind kind = {},
                         link_params params = {}) {
    return try_create(hub, type, kind, std::move(params)).value();
  }
  /// As `create`, without throwing.
  static result<hub_link> try_create(hub_view hub, link_type type, memory_kind kind = {},
                                     link_params params = {}) {
    auto c = detail::sized<ucxx_link_params_t>();
    c.broadcast = params.broadcast;
    c.autocommit = params.autocommit;
    std::shared_ptr<detail::link_state> state;
    if (params.on_ready || params.awaitable) {
      state = std::make_shared<detail::link_state>();
      state->on_ready = std::move(params.on_ready);
      c.on_ready = ready;
      c.on_ready_arg = state.get();
    }
    ucxx_link_t *made = nullptr;
    auto s = static_cast<status>(
        ucxx_link_create(hub.c(), static_cast<std::int32_t>(type), kind.c(), &c, &made));
    if (failed(s)) return s;
    return hub_link(made, std::move(state));
  }
  hub_link(hub_link &&) noexcept = default; ///< Takes over.
  /// Destroys its link, and takes over the other's.
  hub_link &operator=(hub_link &&other) noexcept {
    // The old link ends before what its callback uses.
    hub_link taken(std::move(other));
    std::swap(c_, taken.c_);
    std::swap(state_, taken.state_);
    return *this;
  }
  /// Describes a lease: `link.lease().wait()`, or `co_await link.lease()`.
  ucxx_rs::lease lease() const noexcept { return {*this, state_.get()}; }

private:
  hub_link(ucxx_link_t *c, std::shared_ptr<detail::link_state> state) noexcept
      : link_keeps{std::move(state)}, owner(c) {}
  static void ready(void *arg, ucxx_link_t *c, ucxx_status_t s) noexcept {
    // The link may be destroyed in its own callback.
    auto state = static_cast<detail::link_state *>(arg)->shared_from_this();
    detail::guarded([&] {
      if (state->on_ready) {
        state->on_ready(hub_link_view(c), static_cast<status>(s));
        return;
      }
#if UCXX_RS_COROUTINES
      state->waiters.ready(hub_link_view(c));
#endif
    });
  }
};

namespace detail {
inline ucxx_link_t *c_link(ucxx_link_t *c) noexcept { return c; }
inline ucxx_link_t *c_link(hub_link_view link) noexcept { return link.c(); }
} // namespace detail

/// As `lease_many`, without throwing.
template <class Links = std::initializer_list<hub_link_view>>
result<std::vector<envelope>> try_lease_many(const Links &links, nanoseconds timeout = forever) {
  std::vector<ucxx_link_t *> through;
  through.reserve(std::size(links));
  for (const auto &one : links) through.push_back(detail::c_link(one));
  std::vector<ucxx_envelope_t *> leased(through.size());
  std::vector<envelope> envelopes;
  envelopes.reserve(leased.size());
  auto s = static_cast<status>(ucxx_link_lease_many(through.data(), through.size(),
                                                    detail::wait_ns(timeout), leased.data()));
  if (failed(s)) return s;
  for (auto *c : leased) envelopes.emplace_back(c);
  return envelopes;
}
/// Leases through several links at once, or through none of them: a list of `hub_link_view`, or of
/// `link.c()`. Throws `closed` when one of them will get none, and `timed_out`.
template <class Links = std::initializer_list<hub_link_view>>
std::vector<envelope> lease_many(const Links &links, nanoseconds timeout = forever) {
  return try_lease_many(links, timeout).value();
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
