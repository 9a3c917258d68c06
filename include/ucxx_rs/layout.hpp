// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/layout.hpp: element types of windows, and which elements a call accesses.
#ifndef UCXX_RS_LAYOUT_HPP
#define UCXX_RS_LAYOUT_HPP

#include <complex>
#include <vector>

#include "buffer.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// A value and an index, for `reduce::minloc` and `reduce::maxloc`.
template <class V> struct indexed {
  V value; ///< What is compared.
  int index; ///< Where it was.
};

namespace detail {

template <class T, class = void> inline constexpr std::int32_t element_type = -1;
template <> inline constexpr std::int32_t element_type<std::byte> = UCXX_TYPE_BYTE;
template <> inline constexpr std::int32_t element_type<bool> = UCXX_TYPE_BOOL;
template <> inline constexpr std::int32_t element_type<float> = UCXX_TYPE_FLOAT;
template <> inline constexpr std::int32_t element_type<double> = UCXX_TYPE_DOUBLE;
template <> inline constexpr std::int32_t element_type<long double> = UCXX_TYPE_LONG_DOUBLE;
template <>
inline constexpr std::int32_t element_type<std::complex<float>> = UCXX_TYPE_COMPLEX_FLOAT;
template <>
inline constexpr std::int32_t element_type<std::complex<double>> = UCXX_TYPE_COMPLEX_DOUBLE;
template <>
inline constexpr std::int32_t element_type<std::complex<long double>> =
    UCXX_TYPE_COMPLEX_LONG_DOUBLE;
template <> inline constexpr std::int32_t element_type<indexed<float>> = UCXX_TYPE_FLOAT_INT;
template <> inline constexpr std::int32_t element_type<indexed<double>> = UCXX_TYPE_DOUBLE_INT;
template <>
inline constexpr std::int32_t element_type<indexed<long double>> = UCXX_TYPE_LONG_DOUBLE_INT;
template <> inline constexpr std::int32_t element_type<indexed<std::int16_t>> = UCXX_TYPE_INT16_INT;
template <> inline constexpr std::int32_t element_type<indexed<std::int32_t>> = UCXX_TYPE_INT32_INT;
template <> inline constexpr std::int32_t element_type<indexed<std::int64_t>> = UCXX_TYPE_INT64_INT;
/// Integers by their size, because `long` and `long long` are two types of one size.
template <class T>
inline constexpr std::int32_t
    element_type<T, std::enable_if_t<std::is_integral_v<T> && !std::is_const_v<T> &&
                                     !std::is_same_v<T, bool> && sizeof(T) <= 8>> =
        (sizeof(T) == 1   ? UCXX_TYPE_INT8
         : sizeof(T) == 2 ? UCXX_TYPE_INT16
         : sizeof(T) == 4 ? UCXX_TYPE_INT32
                          : UCXX_TYPE_INT64) +
        (std::is_unsigned_v<T> ? 1 : 0);
static_assert(UCXX_TYPE_UINT8 == UCXX_TYPE_INT8 + 1, "the unsigned type follows the signed one");
static_assert(UCXX_TYPE_UINT64 == UCXX_TYPE_INT64 + 1, "the unsigned type follows the signed one");

} // namespace detail

/// The elements of type T that a call of a window accesses, on either side. Distances are in
/// elements, from the address that the call names.
template <class T> class layout {
  static_assert(detail::element_type<T> >= 0, "windows have no elements of this type");

public:
  /// `count` elements in a row.
  explicit layout(std::size_t count) noexcept {
    ucxx_layout_init_contiguous(&c_, detail::element_type<T>, count);
  }
  /// `count` blocks of `block_length` elements, `stride` elements from start to start.
  layout(std::size_t count, std::size_t block_length, std::ptrdiff_t stride) noexcept {
    ucxx_layout_init_vector(&c_, detail::element_type<T>, count, block_length, stride);
  }
  /// A list of blocks, in the order in which they are accessed.
  explicit layout(std::vector<ucxx_block_t> blocks) noexcept : blocks_(std::move(blocks)) {
    ucxx_layout_init_blocks(&c_, detail::element_type<T>, blocks_.data(), blocks_.size());
  }
  /// All elements of a multidimensional view, such as std::mdspan: what has `rank()`, `extent(r)`
  /// and `stride(r)`. Its first element is at the address that the call names.
  template <class View> static layout of(const View &view) {
    const std::size_t rank = View::rank();
    auto extent = [&](std::size_t r) { return static_cast<std::size_t>(view.extent(r)); };
    auto stride = [&](std::size_t r) { return static_cast<std::ptrdiff_t>(view.stride(r)); };
    if (rank == 0) return layout(1);
    std::size_t run = stride(rank - 1) == 1 ? extent(rank - 1) : 1;
    std::size_t outer = run == 1 && stride(rank - 1) != 1 ? rank : rank - 1;
    if (outer == 0) return layout(run);
    if (outer == 1) return layout(extent(0), run, stride(0));
    std::vector<ucxx_block_t> blocks{{0, run}};
    for (std::size_t r = 0; r < outer; r++) {
      std::vector<ucxx_block_t> more;
      more.reserve(blocks.size() * extent(r));
      for (const auto &block : blocks) {
        for (std::size_t i = 0; i < extent(r); i++) {
          more.push_back({block.offset + stride(r) * static_cast<std::ptrdiff_t>(i), run});
        }
      }
      blocks = std::move(more);
    }
    return layout(std::move(blocks));
  }

  layout(layout &&) noexcept = default; ///< Moves. The blocks stay where they are.
  layout(const layout &) = delete;
  /// The layout in the C interface, valid as long as this one.
  const ucxx_layout_t *c() const noexcept { return &c_; }

private:
  ucxx_layout_t c_;
  std::vector<ucxx_block_t> blocks_;
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
