// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;

/**
 * An operation in flight. It completes when its buffer is free again, and not before: so do not
 * complete it, and do not use {@code orTimeout} on it. Dependent actions run on the thread of the
 * context, and must not block.
 */
public final class Operation extends CompletableFuture<Received> {
  /** The library uses it, and the table of the context keeps this operation alive. */
  @SuppressWarnings("unused")
  private final ByteBuffer buffer;

  private long request;
  private boolean ended;
  private boolean cancelled;

  Operation(ByteBuffer buffer) {
    this.buffer = buffer;
  }

  /** The completion may be reported before the call that starts the operation has returned. */
  synchronized void started(long handle) {
    if (ended) {
      Lib.ucxx_request_destroy(handle);
    } else {
      request = handle;
      if (cancelled) {
        Lib.ucxx_request_cancel(request);
      }
    }
  }

  void ended(Context.Event event) {
    String text = null;
    if (event.status() < 0) {
      text = Lib.string(Lib.ucxx_status_name(event.status()));
      if (event.request() != 0) {
        text += ": " + Lib.string(Lib.ucxx_request_error_message(event.request()));
      }
    }
    boolean wanted;
    synchronized (this) {
      ended = true;
      wanted = cancelled;
      Lib.ucxx_request_destroy(request);
      request = 0;
    }
    if (text == null) {
      complete(new Received(event.length(), event.tag()));
    } else if (wanted && event.status() == Status.CANCELED.value) {
      super.cancel(false);
    } else {
      completeExceptionally(new UcxxException(event.status(), text));
    }
  }

  /**
   * Asks for the end of the operation. It is cancelled when the library has given the buffer back.
   * A receive or fetch ends at once. A large send that has begun ends when the peer has received
   * it, or has gone.
   */
  @Override
  public synchronized boolean cancel(boolean mayInterruptIfRunning) {
    if (isDone()) {
      return isCancelled();
    }
    cancelled = true;
    if (request != 0) {
      Lib.ucxx_request_cancel(request);
    }
    return true;
  }

  /** Without it, dependent futures would be operations too. */
  @Override
  public <U> CompletableFuture<U> newIncompleteFuture() {
    return new CompletableFuture<>();
  }
}
