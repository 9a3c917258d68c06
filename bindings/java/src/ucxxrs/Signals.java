// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import java.util.Map;

/**
 * Keeps Java's signal handlers. UCX installs its own when it is loaded. The library removes them
 * a millisecond later. A thread that meets a null pointer meanwhile would end the process, because
 * Java makes its exception from SIGSEGV. With these variables UCX installs none.
 */
final class Signals {
  private static final Map<String, String> NONE =
      Map.of("UCX_ERROR_SIGNALS", "", "UCX_DEBUG_SIGNO", "0");

  private Signals() {}

  static void keep(Runnable load) {
    boolean wanted =
        System.getenv("UCX_HANDLE_ERRORS") != null || System.getenv("UCX_ERROR_SIGNALS") != null;
    if (wanted || System.getenv("UCX_DEBUG_SIGNO") != null) {
      load.run();
      return;
    }
    NONE.forEach(LibC::setenv);
    try {
      load.run();
    } finally {
      NONE.keySet().forEach(LibC::unsetenv);
    }
  }
}
