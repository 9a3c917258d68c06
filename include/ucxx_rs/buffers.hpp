// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/buffers.hpp: buffers that the library makes for data whose size only the peer knows.
#ifndef UCXX_RS_BUFFERS_HPP
#define UCXX_RS_BUFFERS_HPP

#include <vector>

#include "request.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Makes buffers for receives. Derive from it to place them yourself. It has to live until the last
/// of its buffers was freed.
class allocator {
public:
  virtual ~allocator() = default;
  /// Allocates, or says why not: the receive then completes with that status.
  virtual result<void *> allocate(std::size_t size, memory_type type, int device) noexcept = 0;
  /// Frees what `allocate` gave.
  virtual void deallocate(void *data, std::size_t size, memory_type type, int device) noexcept = 0;
};

/// Where the buffers of a receive come from, and how much a peer may announce.
struct receive_params {
  ucxx_rs::allocator *allocator = nullptr; ///< Makes them. nullptr: the library's own memory.
  std::size_t max_frames = 0; ///< Most buffers. 0: 65,536.
  std::size_t max_total_bytes = 0; ///< Most bytes. 0: half of the physical memory.
};

namespace detail {

inline ucxx_allocator_t c_allocator(const receive_params &params) noexcept {
  auto c = sized<ucxx_allocator_t>();
  c.max_frames = params.max_frames;
  c.max_total_bytes = params.max_total_bytes;
  if (params.allocator) {
    c.arg = params.allocator;
    c.allocate = [](void *arg, std::size_t size, std::int32_t type, std::int32_t device,
                    void **data) noexcept -> ucxx_status_t {
      auto made =
          static_cast<allocator *>(arg)->allocate(size, static_cast<memory_type>(type), device);
      if (made) *data = *made;
      return static_cast<ucxx_status_t>(made.error());
    };
    c.deallocate = [](void *arg, void *data, std::size_t size, std::int32_t type,
                      std::int32_t device) noexcept {
      static_cast<allocator *>(arg)->deallocate(data, size, static_cast<memory_type>(type), device);
    };
  }
  return c;
}

} // namespace detail

/// Received buffers, borrowed.
class buffers_view : public detail::view<ucxx_buffers_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// How many there are.
  std::size_t size() const noexcept { return ucxx_buffers_count(c_); }
  /// One of them; it is valid as long as the buffers. `index` is less than `size()`.
  mutable_buffer operator[](std::size_t index) const noexcept {
    assert(index < size());
    ucxx_buffer_t b = ucxx_buffer_t();
    static_cast<void>(ucxx_buffers_get(c_, index, &b));
    return {b.data, static_cast<std::size_t>(b.length), static_cast<memory_type>(b.memory_type),
            b.device_id};
  }
  /// Takes one out: the caller frees it, with `free` or its allocator. `no_elem` if it was taken.
  result<mutable_buffer> try_take(std::size_t index) noexcept {
    ucxx_buffer_t b = ucxx_buffer_t();
    auto s = static_cast<status>(ucxx_buffers_take(c_, index, &b));
    if (failed(s)) return s;
    if (!b.data && b.length != 0) return status::no_elem;
    return mutable_buffer(b.data, static_cast<std::size_t>(b.length),
                          static_cast<memory_type>(b.memory_type), b.device_id);
  }
};

/// Received buffers. They are freed with it.
class buffers : public detail::owner<buffers_view, ucxx_buffers_destroy> {
public:
  using owner::owner; // Takes over.
  /// What a receive has made. `request` is its request in the C interface.
  static result<buffers> take(ucxx_request_t *request) noexcept {
    ucxx_buffers_t *made = nullptr;
    auto s = ucxx_request_take_buffers(request, &made);
    return detail::owned<buffers>(s, made);
  }
};

/// A message of a queue: its buffer, and its header if it has one.
struct queue_message {
  buffers data; ///< One buffer.
  std::vector<std::byte> header; ///< A copy of the sender's header.
  /// What a receive has made. `request` is its request in the C interface.
  static result<queue_message> take(ucxx_request_t *request) {
    const void *header = nullptr;
    std::size_t length = 0;
    auto s = static_cast<status>(ucxx_request_am_header(request, &header, &length));
    if (failed(s)) return s;
    auto *first = static_cast<const std::byte *>(header);
    auto data = buffers::take(request);
    if (!data) return data.error();
    return queue_message{std::move(*data), {first, first + length}};
  }
};

namespace detail {
template <> inline constexpr bool in_request<buffers> = true;
template <> inline constexpr bool in_request<queue_message> = true;
} // namespace detail
} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
