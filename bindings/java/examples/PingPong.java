// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

import static java.nio.charset.StandardCharsets.UTF_8;
import static ucxxrs.Endpoint.ALL_BITS;

import java.nio.ByteBuffer;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import ucxxrs.Context;
import ucxxrs.Endpoint;
import ucxxrs.Status;
import ucxxrs.UcxxException;
import ucxxrs.Worker;

/**
 * Two processes send each other a message, 1000 times. Start it once without arguments, as the
 * server: it prints its port. Then start it with that port.
 */
public final class PingPong {
  private static final int ROUNDS = 1000;
  private static final long TAG = 7;

  public static void main(String[] args) {
    try (Context context = new Context();
        Worker worker = context.createWorker()) {
      if (args.length == 0) {
        serve(worker);
      } else {
        connect(worker, Integer.parseInt(args[0]));
      }
    }
  }

  private static void serve(Worker worker) {
    CompletableFuture<Endpoint> accepted = new CompletableFuture<>();
    try (var listener = worker.listen("127.0.0.1", 0, accepted::complete)) {
      System.out.println(listener.port());
      try (Endpoint endpoint = accepted.join()) {
        ByteBuffer ball = ByteBuffer.allocateDirect(64);
        for (int i = 0; i < ROUNDS; i++) {
          long length = endpoint.receive(ball.clear(), TAG, ALL_BITS).join().length();
          endpoint.send(ball.limit((int) length), TAG).join();
        }
        Status reason = endpoint.ended().join();
        require(reason == Status.CONNECTION_RESET, "the client closes");
      }
    }
  }

  private static void connect(Worker worker, int port) {
    AtomicInteger called = new AtomicInteger();
    try (Endpoint endpoint = worker.connect("127.0.0.1", port)) {
      ByteBuffer ball = ByteBuffer.allocateDirect(64);
      ByteBuffer back = ByteBuffer.allocateDirect(64);
      for (int i = 0; i < ROUNDS; i++) {
        // It is posted before the send, so that the message is received where it belongs.
        var receive = endpoint.receive(back.clear(), TAG, ALL_BITS);
        var counted = receive.thenAccept(received -> called.incrementAndGet());
        ball.clear().put(("ball " + i).getBytes(UTF_8)).flip();
        endpoint.send(ball, TAG).join();
        counted.join();
        var received = receive.join();
        require(
            back.limit((int) received.length()).equals(ball) && received.tag() == TAG,
            "the ball comes back");
      }
      require(called.get() == ROUNDS, "every callback has run");
      errors(worker, endpoint, back.clear());
    }
    System.out.printf("ping_pong: %d balls came back, and %s callbacks ran%n", ROUNDS, called);
  }

  /** Of a call, of an operation, and of one that is cancelled. */
  private static void errors(Worker worker, Endpoint endpoint, ByteBuffer buffer) {
    try {
      worker.connect("127.0.0.1", 0);
      require(false, "port 0 is refused");
    } catch (UcxxException e) {
      require(e.status() == Status.INVALID_PARAM, "the argument is invalid");
      System.out.println("an error of a call: " + e.getMessage());
    }
    try {
      endpoint.fetch(1, new byte[0], buffer).join();
      require(false, "the server has no handler");
    } catch (CompletionException e) {
      UcxxException cause = (UcxxException) e.getCause();
      require(cause.status() == Status.NO_ELEM, "there is no handler");
      System.out.println("an error of an operation: " + cause.getMessage());
    }
    var receive = endpoint.receive(buffer, TAG, ALL_BITS);
    receive.cancel(false);
    try {
      receive.join();
      require(false, "nothing is received");
    } catch (CancellationException e) {
      System.out.println("an error of a cancelled operation: " + e);
    }
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError("this does not hold: " + what);
    }
  }
}
