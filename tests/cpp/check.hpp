// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// What the tests of ucxx_rs.hpp share: checks, and two workers of one process that are connected.
#ifndef UCXX_RS_TEST_CHECK_HPP
#define UCXX_RS_TEST_CHECK_HPP

#include <ucxx_rs.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                             \
    }                                                                           \
  } while (0)

/// Checks that `expression` throws `error` with this status.
#define CHECK_THROWS(expression, expected)                     \
  do {                                                         \
    auto thrown = ucxx_rs::status::ok;                         \
    try {                                                      \
      expression;                                              \
    } catch (const ucxx_rs::error &e) { thrown = e.status(); } \
    CHECK(thrown == (expected));                               \
  } while (0)

namespace test {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

inline constexpr ucxx_rs::progress_mode modes[] = {ucxx_rs::progress_mode::manual,
                                                   ucxx_rs::progress_mode::adaptive,
                                                   ucxx_rs::progress_mode::blocking};

/// Ends a test that hangs.
inline void limit() {
  const char *seconds = std::getenv("UCXX_TEST_SECONDS");
  alarm(seconds ? static_cast<unsigned>(std::atoi(seconds)) : 300);
}

/// Worker `a` sends to `b` on `ab`, and `b` to `a` on `ba`.
struct pair {
  explicit pair(ucxx_rs::progress_mode how, ucxx_rs::context_params params = {})
      : mode(how), context(ucxx_rs::context::create(params)), a(make()), b(make()),
        ab(ucxx_rs::endpoint::create(a, ucxx_rs::address::of(b))),
        ba(ucxx_rs::endpoint::create(b, ucxx_rs::address::of(a))) {}

  ucxx_rs::worker make() const {
    ucxx_rs::worker_params params;
    params.progress_mode = mode;
    return ucxx_rs::worker::create(context, params);
  }
  bool manual() const { return mode == ucxx_rs::progress_mode::manual; }
  /// Makes progress on both until `done()`.
  template <class Done> void until(Done done) const {
    while (!done()) {
      if (manual()) {
        a.progress();
        b.progress();
      }
      std::this_thread::yield();
    }
  }
  /// Submits, and makes progress on both until it has completed.
  template <class Operation> ucxx_rs::status finish(Operation operation) const {
    auto submitted = std::move(operation).submit();
    until([&] { return submitted.done(); });
    return submitted.status();
  }

  ucxx_rs::progress_mode mode;
  ucxx_rs::context context;
  ucxx_rs::worker a, b;
  ucxx_rs::endpoint ab, ba;
};

} // namespace test

#endif
