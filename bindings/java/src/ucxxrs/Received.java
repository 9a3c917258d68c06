// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

/** A message that was received: its length in bytes, and the tag with which it was sent. */
public record Received(long length, long tag) {}
