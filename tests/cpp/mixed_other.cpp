// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
#include "mixed.hpp"

int sent_by_other(int number);
int sent_by_other(int number) { return sent(number); }
