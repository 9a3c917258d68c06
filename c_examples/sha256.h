/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * sha256.h: SHA-256 as defined by FIPS 180-4.
 */
#ifndef EXAMPLES_SHA256_H
#define EXAMPLES_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_LENGTH 32
#define SHA256_BLOCK 64

struct sha256 {
  uint32_t state[8];
  uint64_t length; /* bytes so far */
  unsigned char block[SHA256_BLOCK];
};

void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
void sha256_finish(struct sha256 *hash, unsigned char digest[SHA256_LENGTH]);

#endif
