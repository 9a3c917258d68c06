// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// A program of two files, of which one is C++17 and the other one C++20.
#include "mixed.hpp"

int sent_by_other(int number);

int main() {
  test::limit();
  CHECK(sent(17) == 17 && sent_by_other(20) == 20);
}
