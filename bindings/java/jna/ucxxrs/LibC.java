// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import com.sun.jna.Native;

/** The environment, which Java can only read. */
final class LibC {
  static {
    Native.register("c");
  }

  private LibC() {}

  static void setenv(String name, String value) {
    setenv(name, value, 1);
  }

  private static native int setenv(String name, String value, int overwrite);

  static native int unsetenv(String name);
}
