// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/notifier.hpp: completions and events without callbacks.
#ifndef UCXX_RS_NOTIFIER_HPP
#define UCXX_RS_NOTIFIER_HPP

#include "listener.hpp"
#include "messages.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// What a notifier reports.
enum class event : std::int32_t {
  completion = UCXX_EVENT_COMPLETION, ///< An operation has completed.
  conn_request = UCXX_EVENT_CONN_REQUEST, ///< A client asks for a connection.
  endpoint_closed = UCXX_EVENT_ENDPOINT_CLOSED, ///< An endpoint has ended.
  am_message = UCXX_EVENT_AM_MESSAGE, ///< An active message has arrived.
  fetch = UCXX_EVENT_FETCH, ///< A fetch has arrived.
};

/// One completion or event. It owns what it reports until that is taken.
class completion {
public:
  completion() noexcept = default; ///< Empty, to be polled into.
  completion(completion &&other) noexcept : c_(std::exchange(other.c_, {})) {} ///< Takes over.
  /// Takes over.
  completion &operator=(completion &&other) noexcept {
    completion taken(std::move(other));
    std::swap(c_, taken.c_);
    return *this;
  }
  ~completion() {
    if (c_.handle) destroy_handle();
  }

  event kind() const noexcept { return static_cast<event>(c_.kind); } ///< What it is.
  ucxx_rs::status status() const noexcept {
    return static_cast<ucxx_rs::status>(c_.status);
  } ///< Final.
  void *user_data() const noexcept { return c_.user_data; } ///< What was registered.
  recv_info info() const noexcept { return {c_.length, c_.sender_tag}; } ///< Of a receive.
  ucxx_request_t *request() const noexcept { return c_.request; } ///< To compare with requests.

  /// The client that asks. Its kind is `conn_request`.
  conn_request take_conn_request() noexcept { return take<conn_request>(event::conn_request); }
  /// The message. Its kind is `am_message`.
  am_message take_am_message() noexcept { return take<am_message>(event::am_message); }
  /// The fetch. Its kind is `fetch`.
  fetch take_fetch() noexcept { return take<fetch>(event::fetch); }

private:
  template <class Owner> Owner take(event expected) noexcept {
    assert(kind() == expected && c_.handle);
    static_cast<void>(expected);
    return Owner(static_cast<typename Owner::c_type *>(std::exchange(c_.handle, nullptr)));
  }
  void destroy_handle() noexcept {
    switch (kind()) {
    case event::conn_request: static_cast<void>(take_conn_request()); break;
    case event::am_message: static_cast<void>(take_am_message()); break;
    case event::fetch: static_cast<void>(take_fetch()); break;
    case event::completion:
    case event::endpoint_closed: break;
    }
  }
  ucxx_completion_t c_ = ucxx_completion_t();
};
static_assert(sizeof(completion) == sizeof(ucxx_completion_t), "arrays of it are polled into");

/// A completion queue for all workers of a context, borrowed.
class notifier_view : public detail::view<ucxx_notifier_t> {
public:
  using view::view, view::operator=; // Borrows.

  /// Takes what has been reported, up to the size of `into`. Returns how many. It never waits.
  template <class Completions> std::size_t poll(Completions &into) const {
    return try_poll(into).value();
  }
  /// As `poll`, without throwing: `closed` after `stop`, when nothing is left.
  template <class Completions> result<std::size_t> try_poll(Completions &into) const noexcept {
    completion *first = std::data(into);
    // What it still owns would be lost.
    for (std::size_t i = 0; i < std::size(into); i++) first[i] = completion();
    std::size_t count = 0;
    auto s =
        static_cast<status>(ucxx_notifier_poll(c_, reinterpret_cast<ucxx_completion_t *>(first),
                                               sizeof(ucxx_completion_t), std::size(into), &count));
    if (failed(s)) return s;
    return count;
  }
  /// Sleeps until there is something to poll. It makes no progress. Returns false if the time
  /// expired first.
  bool wait(nanoseconds timeout = forever) const { return detail::in_time(try_wait(timeout)); }
  /// As `wait`, without throwing.
  status try_wait(nanoseconds timeout = forever) const noexcept {
    return static_cast<status>(ucxx_notifier_wait(c_, detail::wait_ns(timeout)));
  }
  /// A descriptor for an event loop. The notifier owns it.
  int event_fd() const { return try_event_fd().value(); }
  /// As `event_fd`, without throwing.
  result<int> try_event_fd() const noexcept {
    int fd = -1;
    auto s = ucxx_notifier_event_fd(c_, &fd);
    return detail::filled(s, fd);
  }
  /// Arms the descriptor before a sleep: `ok`, or `busy` if there is something to poll first.
  [[nodiscard]] status arm() const noexcept { return static_cast<status>(ucxx_notifier_arm(c_)); }
  /// Lets all waiters return. What was reported can still be polled.
  status stop() const noexcept { return static_cast<status>(ucxx_notifier_stop(c_)); }
};

/// A completion queue for all workers of a context.
class notifier : public detail::owner<notifier_view, ucxx_notifier_destroy> {
public:
  using owner::owner; // Takes over.
  /// Makes a notifier.
  static notifier create(context_view context) { return try_create(context).value(); }
  /// As `create`, without throwing.
  static result<notifier> try_create(context_view context) noexcept {
    ucxx_notifier_t *made = nullptr;
    auto s = ucxx_notifier_create(context.c(), &made);
    return detail::owned<notifier>(s, made);
  }
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
