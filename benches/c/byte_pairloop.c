/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* What pairloop.c counts, of streams. */
#define LINK_STREAM
#include "pairloop.c"
