// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import static ucxxrs.UcxxException.check;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Sends and receives. Any thread may call it. A thread of the library makes progress. */
public final class Worker implements AutoCloseable {
  /** Answers a fetch with the bytes that are left in a direct buffer. */
  @FunctionalInterface
  public interface FetchHandler {
    ByteBuffer answer(byte[] header) throws Exception;
  }

  final Context context;
  private long handle;
  // Every call holds it for reading, and what destroys a handle holds it for writing.
  private final ReadWriteLock lock = new ReentrantReadWriteLock();

  Worker(Context context, long handle) {
    this.context = context;
    this.handle = handle;
  }

  /** Does not wait for the peer: operations report a peer that does not answer. */
  public Endpoint connect(String host, int port) {
    ByteBuffer name = cString(host);
    long address = Lib.address(name);
    return Context.keeping(
        name,
        () ->
            new Endpoint(
                this,
                (params, out) ->
                    Lib.ucxx_endpoint_connect(handle, address, (short) port, params, out)));
  }

  /** The listener gives each new endpoint to {@code accept}, on the context's thread. */
  public Listener listen(String host, int port, Consumer<Endpoint> accept) {
    long key =
        context.register(
            event -> {
              try {
                accept.accept(
                    new Endpoint(
                        this,
                        (params, out) -> Lib.ucxx_endpoint_accept(event.handle(), params, out)));
              } finally {
                Lib.ucxx_conn_request_destroy(event.handle());
              }
            });
    ByteBuffer name = cString(host);
    long hostAddress = Lib.address(name);
    Supplier<Listener> create =
        () -> {
          ByteBuffer params = Context.struct(Structs.ListenerParams.SIZE);
          params.putLong(Structs.ListenerParams.host, hostAddress);
          params.putShort(Structs.ListenerParams.port, (short) port);
          params.putLong(Structs.ListenerParams.notifier, context.notifier);
          params.putLong(Structs.ListenerParams.on_connect_arg, key);
          long address = Lib.address(params);
          return new Listener(
              Context.create(out -> Lib.ucxx_listener_create(handle, address, out)));
        };
    return Context.keeping(name, () -> call(create));
  }

  /**
   * Has {@code handler} answer the fetches with this id, on threads of {@code executor}. If it
   * throws, the fetch is rejected.
   */
  public void handleFetch(int id, Executor executor, FetchHandler handler) {
    long key =
        context.register(
            event -> {
              try {
                executor.execute(() -> answer(event.handle(), handler));
              } catch (RejectedExecutionException e) {
                Lib.ucxx_fetch_destroy(event.handle());
              }
            });
    call(
        () -> {
          check(Lib.ucxx_worker_set_fetch_notifier(handle, (short) id, context.notifier, key));
          return null;
        });
  }

  private void answer(long fetch, FetchHandler handler) {
    try {
      ByteBuffer length = Context.SCRATCH.get();
      long header = Lib.ucxx_fetch_header(fetch, Lib.address(length));
      ByteBuffer reply = handler.answer(Lib.bytes(header, (int) length.getLong(0)));
      long address = addressOf(reply);
      start(
          reply,
          (params, out) -> Lib.ucxx_fetch_reply(fetch, address, reply.remaining(), params, out));
    } catch (Exception e) {
      // It fails if there is a reply already, or the worker has been closed.
      Lib.ucxx_fetch_reject(fetch, Status.REJECTED.value);
    } finally {
      Lib.ucxx_fetch_destroy(fetch);
    }
  }

  /** What is in flight ends with CANCELED. Close the endpoints before. */
  @Override
  public void close() {
    context.mayBlock();
    lock.writeLock().lock();
    try {
      Lib.ucxx_worker_destroy(handle);
      handle = 0;
      context.forget(this);
    } finally {
      lock.writeLock().unlock();
    }
  }

  long handle() {
    return handle;
  }

  <T> T call(Supplier<T> function) {
    lock.readLock().lock();
    try {
      if (handle == 0) {
        throw UcxxException.closed("worker");
      }
      return function.get();
    } finally {
      lock.readLock().unlock();
    }
  }

  void destroy(Runnable function) {
    lock.writeLock().lock();
    try {
      function.run();
    } finally {
      lock.writeLock().unlock();
    }
  }

  /** A function whose last arguments are the addresses of params, and of room for a handle. */
  @FunctionalInterface
  interface Submit {
    int apply(long params, long out);
  }

  Operation start(ByteBuffer buffer, Submit submit) {
    Operation operation = new Operation(buffer);
    long key =
        context.register(
            event -> {
              context.unregister(event.key());
              operation.ended(event);
            });
    try {
      operation.started(
          call(
              () -> {
                ByteBuffer params = Context.struct(Structs.OpParams.SIZE);
                params.putLong(Structs.OpParams.flags, Constants.UCXX_FLAG_ALWAYS_CALLBACK);
                params.putLong(Structs.OpParams.notifier, context.notifier);
                params.putLong(Structs.OpParams.callback_arg, key);
                long address = Lib.address(params);
                return Context.create(out -> submit.apply(address, out));
              }));
    } catch (UcxxException e) {
      context.unregister(key);
      throw e;
    }
    return operation;
  }

  /** Where the bytes that are left begin. */
  static long addressOf(ByteBuffer buffer) {
    if (!buffer.isDirect()) {
      throw new IllegalArgumentException("a direct buffer is needed");
    }
    return Lib.address(buffer) + buffer.position();
  }

  private static ByteBuffer cString(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return Context.direct(bytes.length + 1).put(0, bytes);
  }
}
