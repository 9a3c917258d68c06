/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Like pingpong.c, with streams. */
#define LINK_STREAM
#include "pingpong.c"
