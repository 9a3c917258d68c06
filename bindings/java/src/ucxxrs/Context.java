// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
package ucxxrs;

import static ucxxrs.UcxxException.check;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * UCX, configured once from the environment. Its thread takes what has completed, and completes the
 * futures. The library's own threads run no code of Java.
 */
public final class Context implements AutoCloseable {
  private static final int BATCH = 64;
  private static final int NO_LIMIT = -1;

  /** What the notifier reports. */
  record Event(long key, int status, long request, long handle, long length, long tag) {}

  /** Memory for the arguments of a call: structs, and room for what it returns. */
  static final ThreadLocal<ByteBuffer> SCRATCH = ThreadLocal.withInitial(() -> direct(1024));

  private final long handle;
  final long notifier;
  private final Map<Long, Consumer<Event>> takers = new ConcurrentHashMap<>();
  private final AtomicLong next = new AtomicLong(1);
  private final Set<Worker> workers = ConcurrentHashMap.newKeySet();
  private final Thread thread = new Thread(this::deliver, "ucxx_rs events");
  // A worker must not make progress while the process ends.
  private final Thread hook = new Thread(this::end, "ucxx_rs exit");

  public Context() {
    handle = create(out -> Lib.ucxx_context_create(0, out));
    notifier = create(out -> Lib.ucxx_notifier_create(handle, out));
    thread.setDaemon(true);
    thread.start();
    Runtime.getRuntime().addShutdownHook(hook);
  }

  public Worker createWorker() {
    ByteBuffer params = struct(Structs.WorkerParams.SIZE);
    params.putInt(
        Structs.WorkerParams.progress_mode, Constants.UCXX_PROGRESS_THREAD_ADAPTIVE);
    params.putInt(Structs.WorkerParams.delayed_submission, 1);
    long address = Lib.address(params);
    Worker worker = new Worker(this, create(out -> Lib.ucxx_worker_create(handle, address, out)));
    workers.add(worker);
    return worker;
  }

  /** Closes the workers too. */
  @Override
  public void close() {
    mayBlock();
    Runtime.getRuntime().removeShutdownHook(hook);
    end();
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    Lib.ucxx_notifier_destroy(notifier);
    Lib.ucxx_context_destroy(handle);
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void end() {
    workers.forEach(Worker::close);
    Lib.ucxx_notifier_stop(notifier);
  }

  void forget(Worker worker) {
    workers.remove(worker);
  }

  void mayBlock() {
    if (Thread.currentThread() == thread) {
      throw new IllegalStateException("the thread of the context must not wait for itself");
    }
  }

  /** Returns the number by which the notifier names the function. */
  long register(Consumer<Event> taker) {
    long key = next.getAndIncrement();
    takers.put(key, taker);
    return key;
  }

  void unregister(long key) {
    takers.remove(key);
  }

  private void deliver() {
    ByteBuffer batch = direct(BATCH * Structs.Completion.SIZE);
    ByteBuffer count = direct(Long.BYTES);
    for (; ; ) {
      int status =
          Lib.ucxx_notifier_poll(
              notifier, Lib.address(batch), Structs.Completion.SIZE, BATCH, Lib.address(count));
      if (status == Status.CLOSED.value) {
        return;
      }
      check(status);
      for (int i = 0; i < count.getLong(0); i++) {
        int at = i * Structs.Completion.SIZE;
        take(
            new Event(
                batch.getLong(at + Structs.Completion.user_data),
                batch.getInt(at + Structs.Completion.status),
                batch.getLong(at + Structs.Completion.request),
                batch.getLong(at + Structs.Completion.handle),
                batch.getLong(at + Structs.Completion.length),
                batch.getLong(at + Structs.Completion.sender_tag)));
      }
      if (count.getLong(0) == 0) {
        Lib.ucxx_notifier_wait(notifier, NO_LIMIT);
      }
    }
  }

  private void take(Event event) {
    try {
      takers.get(event.key()).accept(event);
    } catch (Throwable e) { // of a listener's function; the other events still have to be taken
      thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
    }
  }

  static ByteBuffer direct(int size) {
    return ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
  }

  /** The calling thread's memory for one struct, with its size and otherwise zero. */
  static ByteBuffer struct(int size) {
    ByteBuffer memory = SCRATCH.get();
    for (int i = 0; i < size; i += Long.BYTES) {
      memory.putLong(i, 0);
    }
    return memory.putLong(0, size);
  }

  /** Calls a function that stores a handle at the address that it gets. */
  static long create(Creator function) {
    ByteBuffer memory = SCRATCH.get();
    int at = memory.capacity() - Long.BYTES;
    memory.putLong(at, 0);
    check(function.apply(Lib.address(memory) + at));
    return memory.getLong(at);
  }

  @FunctionalInterface
  interface Creator {
    int apply(long out);
  }

  /** The collector must not free memory of which the function uses the address. */
  static <T> T keeping(ByteBuffer memory, Supplier<T> function) {
    try {
      return function.get();
    } finally {
      Reference.reachabilityFence(memory);
    }
  }
}
