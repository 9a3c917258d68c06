// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/endpoint.hpp: connections, and what is sent on them.
#ifndef UCXX_RS_ENDPOINT_HPP
#define UCXX_RS_ENDPOINT_HPP

#include "buffers.hpp"
#include "memory.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

class worker_view;
class conn_request_view;
class notifier_view;

/// The address of a worker, borrowed.
class address_view : public detail::view<ucxx_address_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// Its bytes, to be sent to peers by any means.
  const_buffer bytes() const noexcept {
    return {ucxx_address_data(c_), ucxx_address_length(c_), memory_type::host};
  }
};

/// The address of a worker.
class address : public detail::owner<address_view, ucxx_address_destroy> {
public:
  using owner::owner; // Takes over.
  /// The address of a worker of this process.
  static address of(worker_view worker);
  /// As `of`, without throwing.
  static result<address> try_of(worker_view worker) noexcept;
  /// What `bytes()` gave at the peer.
  static address from_bytes(bytes_view bytes) { return try_from_bytes(bytes).value(); }
  /// As `from_bytes`, without throwing.
  static result<address> try_from_bytes(bytes_view bytes) noexcept {
    ucxx_address_t *made = nullptr;
    auto s = ucxx_address_from_bytes(bytes.data(), bytes.size(), &made);
    return detail::owned<address>(s, made);
  }
  /// The bytes of a worker address of UCP, of a peer that does not use this library.
  static result<address> try_from_ucp_bytes(bytes_view bytes) noexcept {
    ucxx_address_t *made = nullptr;
    auto s = ucxx_address_from_ucp_bytes(bytes.data(), bytes.size(), &made);
    return detail::owned<address>(s, made);
  }
};

/// Whether the death of a peer is detected.
enum class error_handling : std::int32_t {
  peer = UCXX_ENDPOINT_ERROR_HANDLING_PEER, ///< It is.
  none = UCXX_ENDPOINT_ERROR_HANDLING_NONE, ///< It is not, and no close by force is possible.
};

/// How an endpoint is closed.
enum class close_mode : std::int32_t {
  flush = UCXX_CLOSE_FLUSH, ///< Completes what was submitted before.
  force = UCXX_CLOSE_FORCE, ///< Cancels what is in flight.
};

/// What a receiver of a queue does that makes no memory of the type of the sender's buffer.
enum class am_memory : std::int32_t {
  any = UCXX_AM_MEMORY_ANY, ///< It may use host memory.
  exact = UCXX_AM_MEMORY_EXACT, ///< It refuses data that waits at its sender.
};

/// A connection to one peer, borrowed.
class endpoint_view : public detail::view<ucxx_endpoint_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Its metrics as OpenMetrics text, to `f(const char *line)`, line by line.
  template <class F> ucxx_rs::status metrics(F &&f) const noexcept {
    return static_cast<ucxx_rs::status>(ucxx_endpoint_metrics(
        c_, detail::line_to<std::remove_reference_t<F>>::call, std::addressof(f)));
  }

  /// `ok`, or why it has ended.
  ucxx_rs::status status() const noexcept {
    return static_cast<ucxx_rs::status>(ucxx_endpoint_status(c_));
  }
  /// Addresses, transports and counters.
  ucxx_endpoint_attr_t query() const { return try_query().value(); }
  /// As `query`, without throwing.
  result<ucxx_endpoint_attr_t> try_query() const noexcept {
    auto attr = detail::sized<ucxx_endpoint_attr_t>();
    auto s = ucxx_endpoint_query(c_, &attr);
    return detail::filled(s, attr);
  }
  /// What is in its send window and its send queue.
  ucxx_endpoint_load_t query_load() const { return try_query_load().value(); }
  /// As `query_load`, without throwing.
  result<ucxx_endpoint_load_t> try_query_load() const noexcept {
    auto load = detail::sized<ucxx_endpoint_load_t>();
    auto s = ucxx_endpoint_query_load(c_, &load);
    return detail::filled(s, load);
  }

  /// UCP's own handle, a ucp_ep_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_endpoint_native(c_); }
  /// Asks for the end of every operation of it in flight. Returns their number. It waits for the
  /// progress thread.
  std::size_t cancel_all() const { return try_cancel_all().value(); }
  /// As `cancel_all`, without throwing.
  result<std::size_t> try_cancel_all() const noexcept {
    std::size_t count = 0;
    auto s = ucxx_endpoint_cancel_all(c_, &count);
    return detail::filled(s, count);
  }

  /// Sends a tag message.
  /// @return An operation that gives nothing.
  auto tag_send(const_buffer data, std::uint64_t tag) const noexcept {
    return detail::describe<void>(
        [c = c_, data, tag](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_tag_send(c, data.data(), data.size(), tag, params, request);
        },
        data.memory());
  }
  /// Sends a tag message. It completes when the peer has matched it.
  /// @return An operation that gives nothing.
  auto tag_send_sync(const_buffer data, std::uint64_t tag) const noexcept {
    return detail::describe<void>(
        [c = c_, data, tag](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_tag_send_sync(c, data.data(), data.size(), tag, params, request);
        },
        data.memory());
  }
  /// Sends one tag message from several buffers.
  /// @return An operation that gives nothing.
  auto tag_send_iov(const_buffers list, std::uint64_t tag) const noexcept {
    return detail::describe<void>(
        [c = c_, list, tag](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_tag_send_iov(c, list.c(), list.size(), tag, params, request);
        });
  }
  /// Sends several buffers, which the peer receives by `tag_recv_multi` as they are.
  /// @return An operation that gives nothing.
  auto tag_send_multi(const_buffers list, std::uint64_t tag) const noexcept {
    return detail::describe<void>(
        [c = c_, list, tag](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_tag_send_multi(c, list.c(), list.size(), tag, params, request);
        });
  }

  /// Sends bytes of the endpoint's stream.
  /// @return An operation that gives nothing.
  auto stream_send(const_buffer data) const noexcept {
    return detail::describe<void>(
        [c = c_, data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_stream_send(c, data.data(), data.size(), params, request);
        },
        data.memory());
  }
  /// Receives bytes of the endpoint's stream: as many as the buffer has, or with
  /// `flag::stream_partial` what there is.
  /// @return An operation that gives `recv_info`.
  auto stream_recv(mutable_buffer data) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_stream_recv(c, data.data(), data.size(), params, request);
        },
        data.memory());
  }

  /// Sends an active message to the peer's handler of this id. The header is copied.
  /// @return An operation that gives nothing.
  auto am_send(std::uint16_t id, const_buffer header, const_buffer data = {}) const noexcept {
    return detail::describe<void>(
        [c = c_, id, header, data](const ucxx_op_params_t *params,
                                   ucxx_request_t **request) noexcept {
          return ucxx_am_send(c, id, header.data(), header.size(), data.data(), data.size(), params,
                              request);
        },
        data.memory());
  }
  /// Sends one active message from several buffers.
  /// @return An operation that gives nothing.
  auto am_send_iov(std::uint16_t id, const_buffer header, const_buffers list) const noexcept {
    return detail::describe<void>([c = c_, id, header, list](const ucxx_op_params_t *params,
                                                             ucxx_request_t **request) noexcept {
      return ucxx_am_send_iov(c, id, header.data(), header.size(), list.c(), list.size(), params,
                              request);
    });
  }
  /// Sends several buffers to the peer's handler of `set_multi_handler`.
  /// @return An operation that gives nothing.
  auto am_send_multi(std::uint16_t id, const_buffer header, const_buffers list) const noexcept {
    return detail::describe<void>([c = c_, id, header, list](const ucxx_op_params_t *params,
                                                             ucxx_request_t **request) noexcept {
      return ucxx_am_send_multi(c, id, header.data(), header.size(), list.c(), list.size(), params,
                                request);
    });
  }
  /// Sends to the queue of the peer's endpoint, as UCXX does.
  /// @return An operation that gives nothing.
  auto am_queue_send(const_buffer data) const noexcept {
    return detail::describe<void>(
        [c = c_, data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_queue_send(c, data.data(), data.size(), params, request);
        },
        data.memory());
  }
  /// Sends to the peer's handler of this owner and id, with a header. `owner` has to live until the
  /// operation is submitted.
  /// @return An operation that gives nothing.
  auto am_queue_send_to(const char *owner, std::uint64_t id, const_buffer header, const_buffer data,
                        am_memory policy = am_memory::any) const noexcept {
    return detail::describe<void>(
        [c = c_, cover = c_cover(owner, id, header, policy),
         data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_queue_send_to(c, &cover, data.data(), data.size(), params, request);
        },
        data.memory());
  }
  /// As `am_queue_send`, from several buffers.
  /// @return An operation that gives nothing.
  auto am_queue_send_iov(const_buffers list) const noexcept {
    return detail::describe<void>(
        [c = c_, list](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_queue_send_iov(c, nullptr, list.c(), list.size(), params, request);
        });
  }
  /// As `am_queue_send_to`, from several buffers.
  /// @return An operation that gives nothing.
  auto am_queue_send_to_iov(const char *owner, std::uint64_t id, const_buffer header,
                            const_buffers list, am_memory policy = am_memory::any) const noexcept {
    return detail::describe<void>(
        [c = c_, cover = c_cover(owner, id, header, policy),
         list](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_queue_send_iov(c, &cover, list.c(), list.size(), params, request);
        });
  }
  /// Receives the oldest message of the queue.
  /// @return An operation that gives a `queue_message`.
  auto am_queue_recv(const receive_params &from = {}) const noexcept {
    return detail::describe<queue_message>(
        [c = c_, a = detail::c_allocator(from)](const ucxx_op_params_t *params,
                                                ucxx_request_t **request) noexcept {
          return ucxx_am_queue_recv(c, &a, params, request);
        });
  }
  /// The length of the oldest message of the queue, or `no_message`.
  result<std::size_t> am_queue_probe() const noexcept {
    std::size_t length = 0;
    auto s = ucxx_am_queue_probe(c_, &length);
    return detail::filled(s, length);
  }

  /// Asks the peer's fetch handler of this id, and receives its reply into `reply`.
  /// @return An operation that gives `recv_info`.
  auto fetch(std::uint16_t id, const_buffer header, mutable_buffer reply) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, id, header, reply](const ucxx_op_params_t *params,
                                    ucxx_request_t **request) noexcept {
          return ucxx_am_fetch(c, id, header.data(), header.size(), reply.data(), reply.size(),
                               params, request);
        },
        reply.memory());
  }
  /// Asks, and receives the reply into several buffers, one after the other.
  /// @return An operation that gives `recv_info`.
  auto fetch_iov(std::uint16_t id, const_buffer header, mutable_buffers list) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, id, header, list](const ucxx_op_params_t *params,
                                   ucxx_request_t **request) noexcept {
          return ucxx_am_fetch_iov(c, id, header.data(), header.size(), list.c(), list.size(),
                                   params, request);
        });
  }
  /// Asks with up to 8 MiB of data, and receives the reply into a new buffer.
  /// @return An operation that gives `buffers`.
  auto fetch_alloc(std::uint16_t id, const_buffer header, const_buffer data = {},
                   const receive_params &from = {}) const noexcept {
    return detail::describe<buffers>(
        [c = c_, id, header, data, a = detail::c_allocator(from)](
            const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_fetch_alloc(c, id, header.data(), header.size(), data.data(), data.size(),
                                     &a, params, request);
        },
        data.memory());
  }

  /// Completes when everything that was sent before has arrived.
  /// @return An operation that gives nothing.
  auto flush() const noexcept {
    return detail::describe<void>(
        [c = c_](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_endpoint_flush(c, params, request);
        });
  }
  /// Closes it. The owner still has to end.
  /// @return An operation that gives nothing.
  auto close(close_mode how = close_mode::flush) const noexcept {
    return detail::describe<void>(
        [c = c_, how](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_endpoint_close(c, static_cast<std::int32_t>(how), params, request);
        });
  }

  /// Checks whether a send would be submitted without waiting.
  bool is_writable() const noexcept { return ucxx_endpoint_writable(c_) != 0; }
  /// Runs `f(endpoint_view, status)` once, when it is writable or has ended. One at a time:
  /// `already_exists`.
  template <class F> ucxx_rs::status on_writable(F f) const noexcept {
    void *arg = detail::stored<F>::put(std::move(f));
    auto s = static_cast<ucxx_rs::status>(ucxx_endpoint_on_writable(
        c_,
        [](void *kept, ucxx_endpoint_t *c, ucxx_status_t now) noexcept {
          detail::in_callback here;
          auto call = detail::stored<F>::take(kept);
          detail::guarded([&] { call(endpoint_view(c), static_cast<ucxx_rs::status>(now)); });
        },
        arg));
    if (failed(s)) static_cast<void>(detail::stored<F>::take(arg));
    return s;
  }

#if UCXX_RS_COROUTINES
  /// To await that it is writable. Throws why it has ended.
  /// @return To be awaited. Gives nothing.
  auto writable() const noexcept {
    struct awaiting {
      ucxx_endpoint_t *c;
      ucxx_rs::status status = ucxx_rs::status::ok;
      bool await_ready() const noexcept { return ucxx_endpoint_writable(c) != 0; }
      bool await_suspend(std::coroutine_handle<> waiting) noexcept {
        auto s = endpoint_view(c).on_writable([this, waiting](endpoint_view, ucxx_rs::status now) {
          status = now;
          waiting.resume();
        });
        // After success the coroutine may already run on another thread.
        if (!failed(s)) return true;
        status = s;
        return false;
      }
      void await_resume() const { detail::check(status); }
    };
    return awaiting{c_};
  }
#endif

private:
  static ucxx_am_queue_cover_t c_cover(const char *owner, std::uint64_t id, const_buffer header,
                                       am_memory policy) noexcept {
    auto cover = detail::sized<ucxx_am_queue_cover_t>();
    cover.owner = owner;
    cover.id = id;
    cover.header = header.data();
    cover.header_length = header.size();
    cover.memory_policy = static_cast<std::int32_t>(policy);
    return cover;
  }
};

/// Parameters of an endpoint.
struct endpoint_params {
  ucxx_rs::error_handling error_handling = error_handling::peer; ///< The same at both sides.
  std::uint32_t send_window_ops = 0; ///< Most sends that UCX has at a time. 0: 256.
  std::uint64_t send_window_bytes = 0; ///< Most bytes of them. 0: 256 MiB.
  std::uint32_t send_queue_ops = 0; ///< Most sends that wait. 0: 16,384.
  std::uint64_t send_queue_bytes = 0; ///< Most bytes of them. 0: no limit.
  nanoseconds connect_timeout = forever; ///< For the first answer of the peer.
  nanoseconds liveness = forever; ///< How long the peer may be silent.
  const char *local_address = nullptr; ///< `connect`: where to connect from.
  /// Runs when the peer has answered. Not with a notifier.
  function<void(endpoint_view, status)> on_open = {};
  /// Runs when the endpoint has ended: `ok` after a close here, `connection_reset` after one there,
  /// `peer_failed`, `timed_out`, ...
  function<void(endpoint_view, status)> on_close = {};
  ucxx_notifier_t *notifier = nullptr; ///< `notifier.c()`: reports the end, in place of on_close.
  void *user_data = nullptr; ///< What the notifier reports with it.
};

/// A connection to one peer. With the last owner, the endpoint is closed by `close_mode::flush`,
/// and the destructor waits for it, but not in a callback. Endpoints end before their worker.
class endpoint : public detail::owner<endpoint_view, ucxx_endpoint_destroy> {
public:
  using owner::owner; // Takes over.

  /// Connects to a listener by name or number. Operations need not wait for the answer.
  static endpoint connect(worker_view worker, const char *host, std::uint16_t port,
                          endpoint_params params = {});
  /// As `connect`, without throwing.
  static result<endpoint> try_connect(worker_view worker, const char *host, std::uint16_t port,
                                      endpoint_params params = {});
  /// Connects to a worker by its address.
  static endpoint create(worker_view worker, const address_view &address,
                         endpoint_params params = {});
  /// As `create`, without throwing.
  static result<endpoint> try_create(worker_view worker, const address_view &address,
                                     endpoint_params params = {});
  /// Accepts a client.
  static endpoint accept(const conn_request_view &client, endpoint_params params = {});
  /// As `accept`, without throwing.
  static result<endpoint> try_accept(const conn_request_view &client, endpoint_params params = {});
  /// Another owner of an endpoint, such as one that a callback has got.
  static endpoint retain(endpoint_view borrowed) { return try_retain(borrowed).value(); }
  /// As `retain`, without throwing.
  static result<endpoint> try_retain(endpoint_view borrowed) noexcept {
    ucxx_endpoint_t *own = nullptr;
    auto s = ucxx_endpoint_retain(borrowed.c(), &own);
    return detail::owned<endpoint>(s, own);
  }

private:
  struct callbacks {
    function<void(endpoint_view, ucxx_rs::status)> on_open, on_close;
  };

  /// Connects by `connect`, which calls C. The callbacks live until on_close, the last of them.
  template <class Connect>
  static result<endpoint> made_by(endpoint_params &params, Connect connect) {
    auto c = detail::sized<ucxx_endpoint_params_t>();
    c.error_handling = static_cast<std::int32_t>(params.error_handling);
    c.send_window_ops = params.send_window_ops;
    c.send_window_bytes = params.send_window_bytes;
    c.send_queue_ops = params.send_queue_ops;
    c.send_queue_bytes = params.send_queue_bytes;
    c.connect_timeout_ns = detail::limit_ns(params.connect_timeout);
    c.liveness_ns = detail::limit_ns(params.liveness);
    c.local_address = params.local_address;
    std::unique_ptr<callbacks> kept;
    if (params.notifier) {
      // Nothing would say when on_open can be freed.
      if (params.on_open || params.on_close) return ucxx_rs::status::invalid_param;
      c.notifier = params.notifier;
      c.on_close_arg = params.user_data;
    } else if (params.on_open || params.on_close) {
      kept.reset(new callbacks{std::move(params.on_open), std::move(params.on_close)});
      if (kept->on_open) c.on_open = opened;
      c.on_close = closed;
      c.on_open_arg = c.on_close_arg = kept.get();
    }
    ucxx_endpoint_t *made = nullptr;
    auto s = connect(&c, &made);
    if (s >= 0) static_cast<void>(kept.release());
    return detail::owned<endpoint>(s, made);
  }
  static void opened(void *arg, ucxx_endpoint_t *c, ucxx_status_t s) noexcept {
    detail::guarded([&] {
      static_cast<callbacks *>(arg)->on_open(endpoint_view(c), static_cast<ucxx_rs::status>(s));
    });
  }
  static void closed(void *arg, ucxx_endpoint_t *c, ucxx_status_t s) noexcept {
    detail::in_callback here;
    std::unique_ptr<callbacks> last(static_cast<callbacks *>(arg));
    detail::guarded([&] {
      if (last->on_close) last->on_close(endpoint_view(c), static_cast<ucxx_rs::status>(s));
    });
  }
};

inline result<rkey> rkey::try_unpack(endpoint_view endpoint, bytes_view bytes) noexcept {
  ucxx_rkey_t *made = nullptr;
  auto s = ucxx_rkey_unpack(endpoint.c(), bytes.data(), bytes.size(), &made);
  return detail::owned<rkey>(s, made);
}
inline rkey rkey::unpack(endpoint_view endpoint, bytes_view bytes) {
  return try_unpack(endpoint, bytes).value();
}

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
