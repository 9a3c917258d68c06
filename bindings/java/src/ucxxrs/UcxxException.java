// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

/** A call or an operation failed. The message is the library's text. */
public final class UcxxException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Status status;

  UcxxException(int status, String message) {
    super(message);
    this.status = Status.of(status);
  }

  public Status status() {
    return status;
  }

  /** Call it on the thread that got the status: the text belongs to that thread's last call. */
  static void check(int status) {
    if (status < 0) {
      throw new UcxxException(status, Lib.string(Lib.ucxx_error_text(status)));
    }
  }

  static UcxxException closed(String what) {
    return new UcxxException(Status.CLOSED.value, "UCXX_ERR_CLOSED: the " + what + " is closed");
  }
}
