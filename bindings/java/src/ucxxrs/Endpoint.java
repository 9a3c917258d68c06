// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import static ucxxrs.Worker.addressOf;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;

/** A connection to one peer. Buffers are direct. Their bytes from position to limit are used. */
public final class Endpoint implements AutoCloseable {
  /** As the mask of a receive: take only messages with exactly its tag. */
  public static final long ALL_BITS = -1;

  private final Worker worker;
  private final CompletableFuture<Status> ended = new CompletableFuture<>();
  private long handle;

  Endpoint(Worker worker, Worker.Submit make) {
    this.worker = worker;
    long key =
        worker.context.register(
            event -> {
              worker.context.unregister(event.key());
              ended.complete(Status.of(event.status()));
            });
    try {
      handle =
          worker.call(
              () -> {
                ByteBuffer params = Context.struct(Structs.EndpointParams.SIZE);
                params.putLong(Structs.EndpointParams.notifier, worker.context.notifier);
                params.putLong(Structs.EndpointParams.on_close_arg, key);
                long address = Lib.address(params);
                return Context.create(out -> make.apply(address, out));
              });
    } catch (UcxxException e) {
      worker.context.unregister(key);
      throw e;
    }
  }

  /**
   * Completes when the endpoint has ended. OK: this side closed it. CONNECTION_RESET: the peer
   * closed it, which is the normal end. All others are failures.
   */
  public CompletableFuture<Status> ended() {
    return ended.copy();
  }

  private Operation start(ByteBuffer buffer, Worker.Submit submit) {
    return worker.start(
        buffer, (params, out) -> handle == 0 ? gone() : submit.apply(params, out));
  }

  private static int gone() {
    throw UcxxException.closed("endpoint");
  }

  /** The bytes must not change until the message has left. */
  public Operation send(ByteBuffer buffer, long tag) {
    long address = addressOf(buffer);
    long length = buffer.remaining();
    return start(
        buffer, (params, out) -> Lib.ucxx_tag_send(handle, address, length, tag, params, out));
  }

  /**
   * Receives the first message whose tag equals {@code tag} in the bits of {@code mask}, from any
   * peer. It ends when this endpoint does.
   */
  public Operation receive(ByteBuffer buffer, long tag, long mask) {
    long address = addressOf(buffer);
    long length = buffer.remaining();
    return start(
        buffer,
        (params, out) -> {
          Context.SCRATCH.get().putLong(Structs.OpParams.source, handle);
          return Lib.ucxx_tag_recv(worker.handle(), address, length, tag, mask, params, out);
        });
  }

  /** Asks the peer's handler for {@code id}, which answers into the buffer. */
  public Operation fetch(int id, byte[] header, ByteBuffer buffer) {
    long address = addressOf(buffer);
    long room = buffer.remaining();
    ByteBuffer copy = Context.direct(header.length).put(0, header);
    long from = Lib.address(copy);
    Worker.Submit fetch =
        (params, out) ->
            Lib.ucxx_am_fetch(
                handle, (short) id, from, header.length, address, room, params, out);
    return Context.keeping(copy, () -> start(buffer, fetch));
  }

  /** Completes when the peer has what was sent before. */
  public Operation flush() {
    return start(null, (params, out) -> Lib.ucxx_endpoint_flush(handle, params, out));
  }

  /** Completes what was sent before, and waits for the end. */
  @Override
  public void close() {
    worker.context.mayBlock();
    try {
      start(
              null,
              (params, out) ->
                  Lib.ucxx_endpoint_close(handle, Constants.UCXX_CLOSE_FLUSH, params, out))
          .join();
      ended.join();
    } catch (UcxxException e) {
      // CLOSED: the worker was closed, and the endpoint with it, or this is the second close.
      if (e.status() != Status.CLOSED) {
        throw e;
      }
    } finally {
      worker.destroy(
          () -> {
            Lib.ucxx_endpoint_destroy(handle);
            handle = 0;
          });
    }
  }
}
