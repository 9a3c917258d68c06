// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ForkJoinPool;
import ucxxrs.Context;
import ucxxrs.Endpoint;
import ucxxrs.Status;
import ucxxrs.UcxxException;
import ucxxrs.Worker;

/**
 * A server answers fetches by a handler. Start it without arguments: it prints its port. Then start
 * it with that port, as the client, which checks the replies.
 */
public final class Fetch {
  private static final int UPPER_CASE = 1;

  public static void main(String[] args) {
    try (Context context = new Context();
        Worker worker = context.createWorker()) {
      if (args.length == 0) {
        serve(worker);
      } else {
        ask(worker, Integer.parseInt(args[0]));
      }
    }
  }

  private static void serve(Worker worker) {
    worker.handleFetch(
        UPPER_CASE,
        ForkJoinPool.commonPool(),
        header -> {
          if (header.length == 0) {
            throw new IllegalArgumentException("there is nothing to do");
          }
          byte[] answer = new String(header, UTF_8).toUpperCase(Locale.ROOT).getBytes(UTF_8);
          return ByteBuffer.allocateDirect(answer.length).put(0, answer);
        });
    CompletableFuture<Endpoint> accepted = new CompletableFuture<>();
    try (var listener = worker.listen("127.0.0.1", 0, accepted::complete)) {
      System.out.println(listener.port());
      try (Endpoint endpoint = accepted.join()) {
        endpoint.ended().join();
      }
    }
  }

  private static void ask(Worker worker, int port) {
    try (Endpoint endpoint = worker.connect("127.0.0.1", port)) {
      ByteBuffer room = ByteBuffer.allocateDirect(1 << 20);
      for (String text : new String[] {"hello", "long ".repeat(10), "z"}) {
        long length = endpoint.fetch(UPPER_CASE, text.getBytes(UTF_8), room).join().length();
        String reply = UTF_8.decode(room.slice(0, (int) length)).toString();
        require(reply.equals(text.toUpperCase(Locale.ROOT)), reply + " answers " + text);
      }
      fails(Status.REJECTED, endpoint, new byte[0], room);
      ByteBuffer tooShort = ByteBuffer.allocateDirect(2);
      fails(Status.MESSAGE_TRUNCATED, endpoint, "hello".getBytes(UTF_8), tooShort);
    }
    System.out.println("fetch: three replies are right, and two errors");
  }

  private static void fails(Status expected, Endpoint endpoint, byte[] header, ByteBuffer room) {
    try {
      endpoint.fetch(UPPER_CASE, header, room).join();
      require(false, "the fetch fails");
    } catch (CompletionException e) {
      require(((UcxxException) e.getCause()).status() == expected, expected + ": " + e);
    }
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError("this does not hold: " + what);
    }
  }
}
