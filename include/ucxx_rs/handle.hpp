// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs/handle.hpp: owners and views of the library's objects, and storage of callbacks.
//
// Each kind of object has two classes. `worker_view` is a borrowed pointer with the object's
// functions: cheap to copy, and valid as long as its owner. `worker` is a view that owns: it can be
// moved, and its destructor destroys the object. Neither is ever NULL, except an owner that was
// moved from, which may only be destroyed or assigned to.
//
// Functions take a view by value if its object has to outlive the call: a temporary owner does not
// convert. They take it by reference if the object may end after the call.
#ifndef UCXX_RS_HANDLE_HPP
#define UCXX_RS_HANDLE_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>

#include "status.hpp"

namespace ucxx_rs {
inline namespace UCXX_RS_MODE {

/// A duration in the library's unit.
using std::chrono::nanoseconds;

/// Waits without a limit.
inline constexpr nanoseconds forever = nanoseconds::max();

/// UCP's own handle of an object, for calls that this library has none of. nullptr after the end of
/// the object, and in a forked child. UCP may be called only where progress is made: in a callback,
/// in `run_pre`, or on the thread of a worker with manual progress. The handle must not be closed
/// or destroyed.
using native_handle = void *;

namespace detail {

/// As an argument: 0 checks once, and `forever` waits without a limit.
constexpr std::uint64_t wait_ns(nanoseconds time) noexcept {
  if (time == forever) return std::numeric_limits<std::uint64_t>::max();
  return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

/// As a parameter: 0 in C means no limit, so `forever` is 0.
constexpr std::uint64_t limit_ns(nanoseconds time) noexcept {
  return time == forever || time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

template <class C> C sized() noexcept {
  C value = C();
  value.struct_size = sizeof(C);
  return value;
}

/// A temporary with the view V that cannot be copied: that owns the object.
template <class V, class T>
using temporary_owner =
    std::enable_if_t<std::conjunction_v<std::negation<std::is_reference<T>>, std::is_base_of<V, T>,
                                        std::negation<std::is_copy_constructible<T>>>>;

template <class C> class view {
public:
  using c_type = C; ///< The type in C.
  /// Borrows an object of the C interface, which is not NULL.
  explicit view(C *c) noexcept : c_(c) { assert(c); }
  /// No view of a temporary owner: it would dangle.
  template <class T, class = temporary_owner<view, T>> view(T &&) = delete;
  /// The same.
  template <class T, class = temporary_owner<view, T>> void operator=(T &&) = delete;
  /// The object in the C interface, for calls that this header has none of.
  C *c() const noexcept { return c_; }
  friend bool operator==(view a, view b) noexcept { return a.c_ == b.c_; } ///< The same object.
  friend bool operator!=(view a, view b) noexcept { return a.c_ != b.c_; } ///< Other objects.

protected:
  C *c_;
};

template <class View, void (*Destroy)(typename View::c_type *)> class owner : public View {
public:
  using view_type = View; ///< The borrowed form.
  /// Takes over an object of the C interface, which is not NULL.
  explicit owner(typename View::c_type *c) noexcept : View(c) {}
  owner(owner &&other) noexcept : View(other) { other.c_ = nullptr; } ///< Takes over.
  /// Destroys its object, and takes over the other's.
  owner &operator=(owner &&other) noexcept {
    owner taken(std::move(other));
    std::swap(this->c_, taken.c_);
    return *this;
  }
  ~owner() {
    if (this->c_) Destroy(this->c_);
  }
  /// Gives up ownership, and returns the object of the C interface.
  [[nodiscard]] typename View::c_type *release() noexcept {
    return std::exchange(this->c_, nullptr);
  }
};

/// Makes a result of a status and the handle that the call has set.
template <class Owner> result<Owner> owned(ucxx_status_t s, typename Owner::c_type *c) noexcept {
  if (s < 0) return static_cast<status>(s);
  return Owner(c);
}

/// Makes a result of a status and the value that the call has set.
template <class T> result<T> filled(ucxx_status_t s, const T &value) noexcept {
  if (s < 0) return static_cast<status>(s);
  return value;
}

/// Whether a wait has ended before its time limit. Throws other errors.
inline bool in_time(status s) {
  if (s != status::timed_out) check(s);
  return s == status::ok;
}

} // namespace detail

/// A callable that can be moved but not copied, for events that happen more than once.
template <class Signature> class function;
/// A callable that takes `Args` and returns R.
template <class R, class... Args> class function<R(Args...)> {
public:
  function() noexcept = default; ///< None.
  /// Holds `f`.
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<R, F &, Args...> &&
                                              !std::is_same_v<std::decay_t<F>, function>>>
  function(F f) : held_(std::make_unique<model<F>>(std::move(f))) {}
  explicit operator bool() const noexcept { return held_ != nullptr; } ///< Whether there is one.
  R operator()(Args... args) { return held_->call(std::forward<Args>(args)...); } ///< Calls it.

private:
  struct concept_type {
    virtual ~concept_type() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F> struct model final : concept_type {
    explicit model(F f) : f_(std::move(f)) {}
    R call(Args... args) override { return f_(std::forward<Args>(args)...); }
    F f_;
  };
  std::unique_ptr<concept_type> held_;
};

/// Receives an exception that left a callback. It must not throw.
using exception_handler = void (*)(std::exception_ptr);

namespace detail {

inline std::atomic<exception_handler> &current_exception_handler() noexcept {
  static std::atomic<exception_handler> handler{nullptr};
  return handler;
}

/// How many callbacks of this header the thread is in.
inline int &callback_depth() noexcept {
  thread_local int depth = 0;
  return depth;
}

/// A callback of this header, with the end of what it has captured.
struct in_callback {
  in_callback() noexcept { callback_depth()++; }
  in_callback(in_callback &&) = delete;
  ~in_callback() { callback_depth()--; }
};

/// Runs `f`, a callback. What it throws goes to the user's handler, and never into C.
template <class F> void guarded(F &&f) noexcept {
  in_callback here;
#if UCXX_RS_EXCEPTIONS
  try {
    std::forward<F>(f)();
  } catch (...) {
    auto handler = current_exception_handler().load();
    if (!handler) std::terminate();
    handler(std::current_exception());
  }
#else
  std::forward<F>(f)();
#endif
}

} // namespace detail

/// Sets the handler for exceptions that leave callbacks, for the whole process. Without one, or
/// with nullptr, such an exception ends the process by std::terminate. Returns the previous one.
inline exception_handler set_exception_handler(exception_handler handler) noexcept {
  return detail::current_exception_handler().exchange(handler);
}

namespace detail {

/// Blocks for callables that do not fit into a pointer. Submitting threads take blocks, and the
/// thread that makes progress returns them to one list, so that nothing is allocated in the long
/// run. A thread takes the whole list at a time, so the list has no ABA problem.
class callable_pool {
public:
  static constexpr std::size_t block_size = 64;

  static void *take() {
    thread_local own_list mine;
    if (!mine.first) mine.first = returned().exchange(nullptr, std::memory_order_acquire);
    if (!mine.first) return ::operator new(block_size);
    return std::exchange(mine.first, mine.first->next);
  }

  static void give(void *memory) noexcept { give(::new (memory) block{nullptr}); }

private:
  struct block {
    block *next;
  };
  struct own_list {
    block *first = nullptr;
    ~own_list() {
      while (first) give(std::exchange(first, first->next));
    }
  };

  static void give(block *one) noexcept {
    one->next = returned().load(std::memory_order_relaxed);
    while (!returned().compare_exchange_weak(one->next, one, std::memory_order_release,
                                             std::memory_order_relaxed)) {}
  }
  static std::atomic<block *> &returned() noexcept {
    static std::atomic<block *> list{nullptr};
    return list;
  }
};

/// Keeps a callable in a `void *`: inside the pointer if it fits, else in a block of the pool.
template <class F> class stored {
public:
  static void *put(F f) {
    if constexpr (inside) {
      void *word = nullptr;
      std::memcpy(&word, std::addressof(f), sizeof f);
      return word;
    } else {
      void *memory = pooled ? callable_pool::take() : ::operator new(sizeof(F));
      return ::new (memory) F(std::move(f));
    }
  }

  static F take(void *word) noexcept {
    if constexpr (inside) {
      alignas(F) unsigned char bytes[sizeof(F)];
      std::memcpy(bytes, &word, sizeof(F));
      return *std::launder(reinterpret_cast<F *>(bytes));
    } else {
      F *kept = static_cast<F *>(word);
      F f = std::move(*kept);
      kept->~F();
      if (pooled) {
        callable_pool::give(kept);
      } else {
        ::operator delete(kept);
      }
      return f;
    }
  }

private:
  static_assert(std::is_nothrow_move_constructible_v<F>,
                "a callback must be movable without throw");
  static constexpr bool inside = sizeof(F) <= sizeof(void *) && std::is_trivially_copyable_v<F>;
  static constexpr bool pooled =
      sizeof(F) <= callable_pool::block_size && alignof(F) <= alignof(std::max_align_t);
};

/// Frees a handler of type F, as its `destroy_arg`.
template <class F> void destroy_handler(void *arg) noexcept {
  in_callback here;
  delete static_cast<F *>(arg);
}

/// Passes each line of the library to `f`.
template <class F> struct line_to {
  static void call(void *arg, const char *text) noexcept {
    guarded([&] { (*static_cast<F *>(arg))(text); });
  }
};

} // namespace detail
} // namespace UCXX_RS_MODE
} // namespace ucxx_rs

#endif
