/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Like stream.c, with UCP streams. */
#define LINK_STREAM
#include "stream.c"
