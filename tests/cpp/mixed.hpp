// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Sends an int from one worker to another, as the file that includes it is compiled.
#include "check.hpp"

namespace {
int sent(int number) {
  test::pair p(ucxx_rs::progress_mode::adaptive);
  int got = 0;
  auto coming = p.b.tag_recv(ucxx_rs::object(got), 1).future();
  p.ab.tag_send(ucxx_rs::object(number), 1).wait();
  coming.get();
  return got;
}
} // namespace
