// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/listener.hpp: listeners, and the clients that ask for a connection.
#ifndef UCXX_RS_LISTENER_HPP
#define UCXX_RS_LISTENER_HPP

#include <deque>
#include <mutex>
#include <string>

#include "endpoint.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// A client that asks for a connection, borrowed.
class conn_request_view : public detail::view<ucxx_conn_request_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// UCP's own handle, a ucp_conn_request_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_conn_request_native(c_); }
  /// The address of the client, as "ip:port", or "".
  std::string address() const { return try_address().value(); }
  /// As `address`, without throwing.
  result<std::string> try_address() const {
    char text[64] = "";
    auto s = static_cast<status>(ucxx_conn_request_address(c_, text, sizeof text));
    if (failed(s)) return s;
    return std::string(text);
  }
  /// Refuses it: the client gets `rejected`.
  status reject() const noexcept { return static_cast<status>(ucxx_conn_request_reject(c_)); }
};

/// A client that asks for a connection. Without an answer it is rejected at the end.
class conn_request : public detail::owner<conn_request_view, ucxx_conn_request_destroy> {
public:
  using owner::owner; // Takes over.
};

inline result<endpoint> endpoint::try_accept(const conn_request_view &client,
                                             endpoint_params params) {
  return made_by(params, [&](const ucxx_endpoint_params_t *c, ucxx_endpoint_t **made) {
    return ucxx_endpoint_accept(client.c(), c, made);
  });
}
inline endpoint endpoint::accept(const conn_request_view &client, endpoint_params params) {
  return try_accept(client, std::move(params)).value();
}

/// Parameters of a listener. Without `on_connect` and a notifier, clients wait for `accept`.
struct listener_params {
  const char *host = nullptr; ///< Where to listen. nullptr: 127.0.0.1. All interfaces: "0.0.0.0".
  std::uint16_t port = 0; ///< 0: any free port.
  function<void(conn_request)> on_connect = {}; ///< Runs for each client.
  ucxx_notifier_t *notifier = nullptr; ///< `notifier.c()`: reports clients, in place of on_connect.
  void *user_data = nullptr; ///< What the notifier reports with it.
};

/// A listening address and port, borrowed.
class listener_view : public detail::view<ucxx_listener_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// Where it listens, as "ip:port".
  std::string address() const { return try_address().value(); }
  /// As `address`, without throwing.
  result<std::string> try_address() const {
    char text[64] = "";
    auto s = static_cast<status>(ucxx_listener_address(c_, text, sizeof text));
    if (failed(s)) return s;
    return std::string(text);
  }
  /// The port.
  std::uint16_t port() const noexcept { return ucxx_listener_port(c_); }
};

namespace detail {

#if UCXX_RS_COROUTINES
/// Clients that no coroutine has awaited yet, or the one coroutine that awaits one.
class waiting_clients {
public:
  struct waiter {
    std::coroutine_handle<> waiting;
    std::optional<conn_request> client;
  };
  void add(conn_request client) {
    std::unique_lock<std::mutex> held(lock_);
    auto *one = std::exchange(waiter_, nullptr);
    if (!one) return clients_.push_back(std::move(client));
    held.unlock();
    one->client.emplace(std::move(client));
    one->waiting.resume();
  }
  /// No client will come: resumes the coroutine without one, and rejects those that wait.
  void end() {
    std::unique_lock<std::mutex> held(lock_);
    auto *one = std::exchange(waiter_, nullptr);
    auto left = std::exchange(clients_, {});
    held.unlock();
    if (one) one->waiting.resume();
  }
  /// Takes a client, or leaves `one` to be resumed.
  bool taken_or_left(waiter *one) {
    std::unique_lock<std::mutex> held(lock_);
    if (clients_.empty()) {
      waiter_ = one;
      return false;
    }
    one->client.emplace(std::move(clients_.front()));
    clients_.pop_front();
    return true;
  }

private:
  std::mutex lock_;
  std::deque<conn_request> clients_;
  waiter *waiter_ = nullptr;
};
#endif

} // namespace detail

/// A listening address and port. Its destructor rejects clients without an answer. Accepted
/// endpoints continue.
class listener : public listener_view {
public:
  /// Listens.
  static listener create(worker_view worker, listener_params params);
  /// As `create`, without throwing.
  static result<listener> try_create(worker_view worker, listener_params params);
  /// Takes over.
  listener(listener &&other) noexcept
      : listener_view(other), on_connect_(std::exchange(other.on_connect_, nullptr)) {
    other.c_ = nullptr;
  }
  /// Takes over.
  listener &operator=(listener &&other) noexcept {
    listener taken(std::move(other));
    std::swap(c_, taken.c_);
    std::swap(on_connect_, taken.on_connect_);
    return *this;
  }
  ~listener() {
    if (!c_) return;
    if (on_connect_) on_connect_->end();
    ucxx_listener_destroy(c_);
    if (on_connect_) on_connect_->retire();
  }

#if UCXX_RS_COROUTINES
  /// Awaits a client: `co_await listener.accept()` throws `closed` when the listener is destroyed.
  /// One coroutine at a time. The listener has no `on_connect` and no notifier.
  /// @return To be awaited. Gives a `conn_request`.
  auto accept() noexcept {
    struct awaiting : detail::waiting_clients::waiter {
      detail::waiting_clients &clients;
      explicit awaiting(detail::waiting_clients &c) noexcept : clients(c) {}
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> h) {
        this->waiting = h;
        return !clients.taken_or_left(this);
      }
      conn_request await_resume() {
        if (!this->client) detail::fail(status::closed);
        return std::move(*this->client);
      }
    };
    assert(on_connect_);
    return awaiting(on_connect_->clients);
  }
#endif

private:
  /// Calls the user's function, until the listener has ended. In a callback, destroying a listener
  /// does not wait, and C may call once more in
  /// the same pass: so this object outlives it, and so does what the function has captured.
  class on_connect {
  public:
    explicit on_connect(function<void(conn_request)> f) : f_(std::move(f)) {}
    static void call(void *arg, ucxx_conn_request_t *c) noexcept {
      auto *self = static_cast<on_connect *>(arg);
      conn_request client(c);
      if (self->ended_) return;
      detail::guarded([&] {
        if (self->f_) return self->f_(std::move(client));
#if UCXX_RS_COROUTINES
        self->clients.add(std::move(client));
#endif
      });
    }
    void end() noexcept { ended_ = true; }
    void retire() noexcept {
#if UCXX_RS_COROUTINES
      detail::guarded([&] { clients.end(); });
#endif
      if (detail::callback_depth() == 0) {
        delete this;
        return;
      }
      // Nothing tells when the pass ends. The list keeps a few bytes for each such listener.
      static std::atomic<on_connect *> retired{nullptr};
      next_ = retired.load();
      while (!retired.compare_exchange_weak(next_, this)) {}
    }

#if UCXX_RS_COROUTINES
    detail::waiting_clients clients;
#endif

  private:
    function<void(conn_request)> f_;
    std::atomic<bool> ended_{false};
    on_connect *next_ = nullptr;
  };

  listener(ucxx_listener_t *c, on_connect *kept) noexcept : listener_view(c), on_connect_(kept) {}
  on_connect *on_connect_;
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
