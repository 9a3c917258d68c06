/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Rate and bandwidth, as stream.c measures them, of streams in UCP's sense. */
#define LINK_STREAM
#include "stream.c"
