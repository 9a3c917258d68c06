// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/buffer.hpp: memory that operations send and fill.
#ifndef UCXX_RS_BUFFER_HPP
#define UCXX_RS_BUFFER_HPP

#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string_view>

#if __has_include(<span>)
#include <span>
#endif

#include "status.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// Where memory is.
enum class memory_type : std::int32_t {
  automatic = UCXX_MEMORY_AUTO, ///< UCX detects it.
  host = UCXX_MEMORY_HOST, ///< Host memory. It saves the detection.
  cuda = UCXX_MEMORY_CUDA, ///< Memory of a CUDA device.
  cuda_managed = UCXX_MEMORY_CUDA_MANAGED, ///< Managed memory of CUDA.
  rocm = UCXX_MEMORY_ROCM, ///< Memory of a ROCm device.
  cuda_pinned = UCXX_MEMORY_CUDA_PINNED, ///< Host memory that CUDA has pinned.
  dummy = UCXX_MEMORY_DUMMY, ///< Hubs: host memory that simulates a device.
};

/// Specialise it as true for your own views: types that do not own the memory they refer to, so
/// that a temporary of one may be passed as a buffer.
template <class T> inline constexpr bool enable_borrowed_buffer = false;
template <class C, class T>
inline constexpr bool enable_borrowed_buffer<std::basic_string_view<C, T>> = true; ///< A view.
#ifdef __cpp_lib_span
template <class T, std::size_t N>
inline constexpr bool enable_borrowed_buffer<std::span<T, N>> = true; ///< A view.
#endif

class const_buffer;
class mutable_buffer;

namespace detail {

template <class R> using data_of = decltype(std::data(std::declval<R &>()));
template <class R> using element_of = std::remove_pointer_t<data_of<R>>;

template <class R, class = void> inline constexpr bool is_contiguous = false;
template <class R>
inline constexpr bool
    is_contiguous<R, std::void_t<data_of<R>, decltype(std::size(std::declval<R &>()))>> =
        std::is_pointer_v<data_of<R>> && std::is_trivially_copyable_v<element_of<R>> &&
        !std::is_same_v<std::remove_cv_t<element_of<R>>, const_buffer> &&
        !std::is_same_v<std::remove_cv_t<element_of<R>>, mutable_buffer>;

template <class R>
inline constexpr bool is_buffer_class = std::is_same_v<std::decay_t<R>, const_buffer> ||
                                        std::is_same_v<std::decay_t<R>, mutable_buffer>;

/// An lvalue, or a view. A temporary that owns its memory is neither: it ends before the operation.
template <class R>
inline constexpr bool is_kept =
    std::is_lvalue_reference_v<R> ||
    enable_borrowed_buffer<std::remove_cv_t<std::remove_reference_t<R>>>;

/// A text in quotation marks has a zero at its end, which is rarely meant: write "..."sv.
template <class R> inline constexpr bool is_literal = false;
template <std::size_t N> inline constexpr bool is_literal<const char (&)[N]> = true;

template <class R>
using source = std::enable_if_t<is_contiguous<std::remove_reference_t<R>> && !is_buffer_class<R>>;
template <class R>
using target = std::enable_if_t<is_contiguous<std::remove_reference_t<R>> && !is_buffer_class<R> &&
                                !std::is_const_v<element_of<std::remove_reference_t<R>>>>;

class buffer_base {
public:
  /// Length in bytes.
  std::size_t size() const noexcept { return static_cast<std::size_t>(c_.length); }
  /// Where the memory is.
  memory_type memory() const noexcept { return static_cast<memory_type>(c_.memory_type); }
  /// Number of its device.
  int device() const noexcept { return c_.device_id; }

protected:
  buffer_base(void *data, std::size_t size, memory_type memory, int device) noexcept {
    c_.data = data;
    c_.length = size;
    c_.memory_type = static_cast<std::int32_t>(memory);
    c_.device_id = device;
  }
  ucxx_buffer_t c_ = ucxx_buffer_t();
};

} // namespace detail

/// Memory to send from. It converts from everything contiguous whose elements can be copied as
/// bytes: std::vector, std::array, std::span, std::string_view, an array. A temporary that owns
/// its memory does not convert, because it would end before the operation does.
class const_buffer : public detail::buffer_base {
public:
  /// No bytes.
  const_buffer() noexcept : const_buffer(nullptr, 0) {}
  /// `size` bytes at `data`, in memory of this type, on this device.
  const_buffer(const void *data, std::size_t size, memory_type memory = memory_type::automatic,
               int device = 0) noexcept
      : buffer_base(const_cast<void *>(data), size, memory, device) {}
  /// All elements of a range.
  template <class R, class = detail::source<R>>
  const_buffer(R &&range, memory_type memory = memory_type::automatic, int device = 0) noexcept
      : const_buffer(std::data(range), std::size(range) * sizeof(*std::data(range)), memory,
                     device) {
    static_assert(detail::is_kept<R>, "the temporary ends before the operation does");
    static_assert(!detail::is_literal<R>, "write \"...\"sv: a literal has a zero at its end");
  }
  /// The first byte.
  const void *data() const noexcept { return c_.data; }
  /// Host memory as characters.
  std::string_view text() const noexcept { return {static_cast<const char *>(data()), size()}; }
};

/// Memory to receive into. It converts from everything contiguous with elements that can be
/// written, as `const_buffer` does.
class mutable_buffer : public detail::buffer_base {
public:
  /// No bytes.
  mutable_buffer() noexcept : mutable_buffer(nullptr, 0) {}
  /// `size` bytes at `data`, in memory of this type, on this device.
  mutable_buffer(void *data, std::size_t size, memory_type memory = memory_type::automatic,
                 int device = 0) noexcept
      : buffer_base(data, size, memory, device) {}
  /// All elements of a range.
  template <class R, class = detail::target<R>>
  mutable_buffer(R &&range, memory_type memory = memory_type::automatic, int device = 0) noexcept
      : mutable_buffer(std::data(range), std::size(range) * sizeof(*std::data(range)), memory,
                       device) {
    static_assert(detail::is_kept<R>, "the temporary ends before the operation does");
  }
  /// The first byte.
  void *data() const noexcept { return c_.data; }
  /// To send from the same memory.
  operator const_buffer() const noexcept { return {data(), size(), memory(), device()}; }
};

/// Bytes that a call reads before it returns, such as those of an address or a key. It converts
/// from everything contiguous, temporaries included.
class bytes_view {
public:
  /// The bytes of a buffer.
  bytes_view(const_buffer buffer) noexcept : data_(buffer.data()), size_(buffer.size()) {}
  /// All elements of a range.
  template <class R, class = std::enable_if_t<detail::is_contiguous<const R>>>
  bytes_view(const R &range) noexcept
      : data_(std::data(range)), size_(std::size(range) * sizeof(*std::data(range))) {}
  const void *data() const noexcept { return data_; } ///< The first byte.
  std::size_t size() const noexcept { return size_; } ///< Length in bytes.

private:
  const void *data_;
  std::size_t size_;
};

/// The bytes of one object, to send or to fill.
template <class T>
std::conditional_t<std::is_const_v<T>, const_buffer, mutable_buffer> object(T &value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>, "the object cannot be copied as bytes");
  return {&value, sizeof value};
}

namespace detail {
// Lists of buffers are passed to C as they are.
static_assert(sizeof(const_buffer) == sizeof(ucxx_buffer_t), "one layout");
static_assert(sizeof(mutable_buffer) == sizeof(ucxx_buffer_t), "one layout");
static_assert(std::is_standard_layout_v<const_buffer>, "one layout");
static_assert(std::is_standard_layout_v<mutable_buffer>, "one layout");

/// A list of buffers: a braced list, or anything contiguous of them. The library copies the list,
/// so it may end after the call.
template <class Buffer> class buffer_list {
public:
  buffer_list(std::initializer_list<Buffer> list) noexcept : count_(list.size()) {
    // Not in the initialiser, where compilers warn that this does not prolong the list's life.
    first_ = list.begin();
  }
  template <class R, class = std::enable_if_t<std::is_same_v<
                         std::remove_cv_t<element_of<std::remove_reference_t<R>>>, Buffer>>>
  buffer_list(R &&range) noexcept : first_(std::data(range)), count_(std::size(range)) {}

  const ucxx_buffer_t *c() const noexcept {
    return reinterpret_cast<const ucxx_buffer_t *>(first_);
  }
  std::size_t size() const noexcept { return count_; }

private:
  const Buffer *first_;
  std::size_t count_;
};

} // namespace detail

using const_buffers = detail::buffer_list<const_buffer>; ///< A list to send from.
using mutable_buffers = detail::buffer_list<mutable_buffer>; ///< A list to receive into.

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
