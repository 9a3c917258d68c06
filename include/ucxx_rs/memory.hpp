// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/memory.hpp: registered memory, keys to memory of peers, and put, get and atomics on it.
#ifndef UCXX_RS_MEMORY_HPP
#define UCXX_RS_MEMORY_HPP

#include <vector>

#include "context.hpp"
#include "request.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

class endpoint_view;

/// Memory that is registered with UCX, borrowed.
class memory_view : public detail::view<ucxx_memory_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// UCP's own handle, a ucp_mem_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_memory_native(c_); }
  /// Address of its first byte.
  void *data() const noexcept { return ucxx_memory_base(c_); }
  /// Length in bytes.
  std::size_t size() const noexcept { return ucxx_memory_length(c_); }
  /// A buffer of all of it.
  mutable_buffer buffer() const noexcept { return {data(), size()}; }
  /// The bytes of a key, for `rkey::unpack` at a peer. A peer that has it can read and write
  /// the memory.
  std::vector<std::byte> pack() const { return try_pack().value(); }
  /// As `pack`, without throwing.
  result<std::vector<std::byte>> try_pack() const {
    std::size_t length = 0;
    auto s = static_cast<status>(ucxx_memory_pack(c_, nullptr, &length));
    if (failed(s)) return s;
    std::vector<std::byte> bytes(length);
    s = static_cast<status>(ucxx_memory_pack(c_, bytes.data(), &length));
    if (failed(s)) return s;
    bytes.resize(length);
    return bytes;
  }
};

/// Memory that is registered with UCX. It has to outlive what peers do with its keys.
class memory : public detail::owner<memory_view, ucxx_memory_destroy> {
public:
  using owner::owner; // Takes over.

  /// Registers memory of the caller's, which has to live longer.
  static memory register_(context_view context, mutable_buffer range) {
    return try_register(context, range).value();
  }
  /// As `register_`, without throwing.
  static result<memory> try_register(context_view context, mutable_buffer range) noexcept {
    ucxx_memory_t *made = nullptr;
    auto s = ucxx_memory_register(context.c(), range.data(), range.size(),
                                  static_cast<std::int32_t>(range.memory()), &made);
    return detail::owned<memory>(s, made);
  }
  /// Allocates `size` bytes. Host memory is zeroed, and other processes of this host can map it.
  static memory allocate(context_view context, std::size_t size,
                         memory_type type = memory_type::automatic) {
    return try_allocate(context, size, type).value();
  }
  /// As `allocate`, without throwing.
  static result<memory> try_allocate(context_view context, std::size_t size,
                                     memory_type type = memory_type::automatic) noexcept {
    ucxx_memory_t *made = nullptr;
    auto s = ucxx_memory_allocate(context.c(), size, static_cast<std::int32_t>(type), &made);
    return detail::owned<memory>(s, made);
  }
};

/// Atomic operations on integers of a peer.
enum class atomic_op : std::int32_t {
  add = UCXX_ATOMIC_ADD, ///< Add, with wrap-around.
  and_ = UCXX_ATOMIC_AND, ///< Bitwise and.
  or_ = UCXX_ATOMIC_OR, ///< Bitwise or.
  xor_ = UCXX_ATOMIC_XOR, ///< Bitwise exclusive or.
  swap = UCXX_ATOMIC_SWAP, ///< Store.
};

/// A key to registered memory of a peer, borrowed. Offsets are in bytes from its beginning.
class rkey_view : public detail::view<ucxx_rkey_t> {
public:
  using view::view, view::operator=; // Borrows.
  /// UCP's own handle, a ucp_rkey_h: see `native_handle`.
  native_handle native() const noexcept { return ucxx_rkey_native(c_); }
  /// Address of the memory at the peer.
  std::uint64_t base() const noexcept { return ucxx_rkey_base(c_); }
  /// Length of the memory in bytes.
  std::size_t size() const noexcept { return ucxx_rkey_length(c_); }
  /// Where this process can load and store it directly, or `unreachable`.
  result<void *> try_pointer() const noexcept {
    void *local = nullptr;
    auto s = ucxx_rkey_pointer(c_, &local);
    return detail::filled(s, local);
  }
  /// Where this process can load and store it directly. Throws `unreachable` if it is not mapped.
  void *pointer() const { return try_pointer().value(); }

  /// Writes to the peer's memory. Afterwards the buffer may be reused. A flush of the endpoint says
  /// that the bytes have arrived.
  /// @return An operation that gives nothing.
  auto put(const_buffer data, std::uint64_t offset) const noexcept {
    return detail::describe<void>(
        [c = c_, data, offset](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_rma_put(c, data.data(), data.size(), offset, params, request);
        },
        data.memory());
  }
  /// Reads from the peer's memory.
  /// @return An operation that gives nothing.
  auto get(mutable_buffer data, std::uint64_t offset) const noexcept {
    return detail::describe<void>(
        [c = c_, data, offset](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
          return ucxx_rma_get(c, data.data(), data.size(), offset, params, request);
        },
        data.memory());
  }
  /// Changes an integer of 4 or 8 bytes, and does not ask for its previous value.
  /// @return An operation that gives nothing.
  template <class T> auto atomic(atomic_op op, std::uint64_t offset, T operand) const noexcept {
    return describe_atomic<void>(static_cast<std::int32_t>(op), offset, operand, T());
  }
  /// Changes an integer of 4 or 8 bytes, and gives its previous value.
  /// @return An operation that gives a T.
  template <class T>
  auto fetch_atomic(atomic_op op, std::uint64_t offset, T operand) const noexcept {
    return describe_atomic<T>(static_cast<std::int32_t>(op), offset, operand, T());
  }
  /// Stores `desired` if the integer equals `expected`, and gives its previous value.
  /// @return An operation that gives a T.
  template <class T>
  auto compare_and_swap(std::uint64_t offset, T expected, T desired) const noexcept {
    return describe_atomic<T>(UCXX_ATOMIC_CSWAP, offset, desired, expected);
  }

private:
  template <class Result, class T>
  auto describe_atomic(std::int32_t op, std::uint64_t offset, T operand, T compare) const noexcept {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                  "atomic operations are on integers of 4 or 8 bytes");
    auto call = [c = c_, op, offset, operand, compare](T *previous, const ucxx_op_params_t *params,
                                                       ucxx_request_t **request) noexcept {
      return ucxx_rma_atomic(c, op, sizeof(T), &operand, &compare, previous, offset, params,
                             request);
    };
    if constexpr (std::is_void_v<Result>) {
      return detail::describe<void>(
          [call](const ucxx_op_params_t *params, ucxx_request_t **request) noexcept {
            return call(nullptr, params, request);
          });
    } else {
      return detail::describe<Result>(call);
    }
  }
};

/// A key to registered memory of a peer, for one endpoint.
class rkey : public detail::owner<rkey_view, ucxx_rkey_destroy> {
public:
  using owner::owner; // Takes over.
  /// Makes a key of what `memory_view::pack` wrote at the peer. The endpoint leads there.
  static rkey unpack(endpoint_view endpoint, bytes_view bytes);
  /// As `unpack`, without throwing.
  static result<rkey> try_unpack(endpoint_view endpoint, bytes_view bytes) noexcept;
};

} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
