/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Latency, as pingpong.c measures it, of streams. */
#define LINK_STREAM
#include "pingpong.c"
