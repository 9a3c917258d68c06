// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/messages.hpp: messages and fetches that have arrived.
#ifndef UCXX_RS_MESSAGES_HPP
#define UCXX_RS_MESSAGES_HPP

#include "endpoint.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// A tag message that a probe has removed from matching, borrowed.
class tag_message_view : public detail::view<ucxx_tag_message_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// UCP's own handle, a ucp_tag_message_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_tag_message_native(c_); }
  /// Receives it.
  /// @return An operation that gives `recv_info`.
  auto recv(mutable_buffer data) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_tag_message_recv(c, data.data(), data.size(), params, request);
        },
        data.memory());
  }
};

/// A tag message that a probe has removed from matching. What is not received is dropped with it.
class tag_message : public detail::owner<tag_message_view, ucxx_tag_message_destroy> {
public:
  using owner::owner; // Takes over.
  recv_info info = {}; ///< Its length and its tag.
};

/// An active message that has arrived, borrowed.
class am_message_view : public detail::view<ucxx_am_message_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// The sender's header. It is valid as long as the message.
  const_buffer header() const noexcept {
    std::size_t length = 0;
    const void *bytes = ucxx_am_message_header(c_, &length);
    return {bytes, length, memory_type::host};
  }
  /// Length of the data in bytes.
  std::size_t size() const noexcept { return ucxx_am_message_length(c_); }
  /// The data, if it has arrived with the message. Otherwise nothing: receive it.
  const_buffer data() const noexcept {
    const void *bytes = ucxx_am_message_data(c_);
    return {bytes, bytes ? size() : 0, memory_type::host};
  }
  /// Where the data is: the type that the sender gave.
  memory_type memory() const noexcept {
    return static_cast<memory_type>(ucxx_am_message_memory_type(c_));
  }
  /// The endpoint to the sender, if it set `flag::am_reply`. It is valid as long as the message.
  std::optional<endpoint_view> reply() const noexcept {
    ucxx_endpoint_t *c = ucxx_am_message_reply(c_);
    if (!c) return std::nullopt;
    return endpoint_view(c);
  }
  /// Receives the data.
  /// @return An operation that gives `recv_info`.
  auto recv(mutable_buffer into) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, into](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_message_recv(c, into.data(), into.size(), params, request);
        },
        into.memory());
  }
  /// Receives the data into several buffers, one after the other.
  /// @return An operation that gives `recv_info`.
  auto recv_iov(mutable_buffers list) const noexcept {
    return detail::describe<recv_info>(
        [c = c_, list](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_am_message_recv_iov(c, list.c(), list.size(), params, request);
        });
  }
};

/// An active message that has arrived. Its credit goes back to the sender with it.
class am_message : public detail::owner<am_message_view, ucxx_am_message_destroy> {
public:
  using owner::owner; // Takes over.
};

/// A fetch that has arrived, borrowed.
class fetch_view : public detail::view<ucxx_fetch_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// What is asked. It is valid as long as the fetch.
  const_buffer header() const noexcept {
    std::size_t length = 0;
    const void *bytes = ucxx_fetch_header(c_, &length);
    return {bytes, length, memory_type::host};
  }
  /// The data that came with it. It is valid as long as the fetch and its worker.
  const_buffer data() const noexcept {
    std::size_t length = 0;
    const void *bytes = ucxx_fetch_data(c_, &length);
    return {bytes, length, memory_type::host};
  }
  /// How many bytes of reply the requester has room for. SIZE_MAX: it allocates.
  std::size_t capacity() const noexcept { return ucxx_fetch_capacity(c_); }
  /// The endpoint to the requester. It is valid as long as the fetch.
  endpoint_view endpoint() const noexcept { return endpoint_view(ucxx_fetch_endpoint(c_)); }
  /// Sends the reply.
  /// @return An operation that gives nothing.
  auto reply(const_buffer data) const noexcept {
    return detail::describe<void>(
        [c = c_, data](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_fetch_reply(c, data.data(), data.size(), params, request);
        },
        data.memory());
  }
  /// Sends the reply from several buffers.
  /// @return An operation that gives nothing.
  auto reply_iov(const_buffers list) const noexcept {
    return detail::describe<void>(
        [c = c_, list](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_fetch_reply_iov(c, list.c(), list.size(), params, request);
        });
  }
  /// Replies with a status: `no_elem`, `rejected`, `busy`, `canceled`, or one of the application.
  status reject(status with) const noexcept {
    return static_cast<status>(ucxx_fetch_reject(c_, static_cast<ucxx_status_t>(with)));
  }
};

/// A fetch that has arrived. Without a reply, its destructor rejects it with `canceled`.
class fetch : public detail::owner<fetch_view, ucxx_fetch_destroy> {
public:
  using owner::owner; // Takes over.
};

/// A message of several buffers, or of a queue, as its handler gets it.
struct multi_message {
  std::optional<endpoint_view> reply; ///< To the sender, during the call, if it wants a reply.
  const_buffer header; ///< The sender's header, valid during the call.
  std::optional<buffers> data; ///< The buffers. None if `status` is an error.
  ucxx_rs::status status; ///< `ok`, or why the message could not be received.
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
