// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
package ucxxrs;

/** What a call or an operation ended with. ucxx_rs.h says what to do. */
public enum Status {
  OK(0),
  INPROGRESS(1),
  NO_MESSAGE(-1),
  NO_RESOURCE(-2),
  IO_ERROR(-3),
  NO_MEMORY(-4),
  INVALID_PARAM(-5),
  UNREACHABLE(-6),
  INVALID_ADDR(-7),
  NOT_IMPLEMENTED(-8),
  MESSAGE_TRUNCATED(-9),
  BUFFER_TOO_SMALL(-11),
  NO_ELEM(-12),
  NO_DEVICE(-14),
  BUSY(-15),
  CANCELED(-16),
  ALREADY_EXISTS(-18),
  OUT_OF_RANGE(-19),
  TIMED_OUT(-20),
  EXCEEDS_LIMIT(-21),
  UNSUPPORTED(-22),
  REJECTED(-23),
  NOT_CONNECTED(-24),
  CONNECTION_RESET(-25),
  ENDPOINT_TIMEOUT(-80),
  RMA_SYNC(-201),
  RMA_RANGE(-202),
  RMA_ATTACH(-203),
  RMA_FLAVOR(-204),
  RMA_OP(-205),
  RMA_POISONED(-206),
  RMA_RANK(-207),
  RMA_TYPE(-208),
  RMA_LOCK_TYPE(-209),
  PEER_FAILED(-210),
  RMA_ASSERT(-211),
  CLOSED(-220),
  STARVED(-221),
  FORKED(-230),
  PANIC(-299),
  APPLICATION(-1000),
  /** A status of UCX, or of an application, that has no name here. */
  OTHER(Integer.MIN_VALUE);

  final int value;

  Status(int value) {
    this.value = value;
  }

  static Status of(int value) {
    for (Status status : values()) {
      if (status.value == value) {
        return status;
      }
    }
    return OTHER;
  }
}
