// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

/** Accepts connections. Connections that were accepted outlive it. */
public final class Listener implements AutoCloseable {
  private long handle;

  Listener(long handle) {
    this.handle = handle;
  }

  public synchronized int port() {
    return Short.toUnsignedInt(Lib.ucxx_listener_port(handle));
  }

  @Override
  public synchronized void close() {
    Lib.ucxx_listener_destroy(handle);
    handle = 0;
  }
}
