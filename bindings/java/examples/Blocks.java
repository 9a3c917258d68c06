// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ForkJoinPool;
import java.util.zip.CRC32C;
import ucxxrs.Context;
import ucxxrs.Endpoint;
import ucxxrs.Worker;

/**
 * A client copies 64 MiB from a server, in blocks that it fetches at the same time. Each arrives in
 * its own slice of one direct ByteBuffer, and its checksum is compared as soon as it is there.
 * Start it without arguments, as the server: it prints its port. Then start it with that port.
 */
public final class Blocks {
  private static final int READ = 1;
  private static final int CHECKSUM = 2;
  private static final int BLOCK = 256 << 10;
  private static final int BLOCKS = 256;

  public static void main(String[] args) {
    try (Context context = new Context();
        Worker worker = context.createWorker()) {
      if (args.length == 0) {
        serve(worker);
      } else {
        copy(worker, Integer.parseInt(args[0]));
      }
    }
  }

  private static ByteBuffer content() {
    ByteBuffer all = ByteBuffer.allocateDirect(BLOCK * BLOCKS);
    long state = 88172645463325252L;
    while (all.hasRemaining()) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
      all.putLong(state);
    }
    return all.flip();
  }

  private static int checksum(ByteBuffer data) {
    CRC32C sum = new CRC32C();
    sum.update(data.duplicate());
    return (int) sum.getValue();
  }

  private static void serve(Worker worker) {
    ByteBuffer all = content();
    // A slice of the content is sent from where it is.
    worker.handleFetch(
        READ, ForkJoinPool.commonPool(), header -> all.slice(number(header) * BLOCK, BLOCK));
    worker.handleFetch(
        CHECKSUM,
        ForkJoinPool.commonPool(),
        header -> {
          int sum = checksum(all.slice(number(header) * BLOCK, BLOCK));
          return ByteBuffer.allocateDirect(Integer.BYTES).putInt(0, sum);
        });
    CompletableFuture<Endpoint> accepted = new CompletableFuture<>();
    try (var listener = worker.listen("127.0.0.1", 0, accepted::complete)) {
      System.out.println(listener.port());
      try (Endpoint endpoint = accepted.join()) {
        endpoint.ended().join();
      }
    }
  }

  private static void copy(Worker worker, int port) {
    ByteBuffer all = ByteBuffer.allocateDirect(BLOCK * BLOCKS);
    try (Endpoint endpoint = worker.connect("127.0.0.1", port)) {
      List<CompletableFuture<Void>> blocks = new ArrayList<>();
      long begin = System.nanoTime();
      for (int number = 0; number < BLOCKS; number++) {
        ByteBuffer block = all.slice(number * BLOCK, BLOCK);
        ByteBuffer sum = ByteBuffer.allocateDirect(Integer.BYTES);
        blocks.add(
            endpoint
                .fetch(READ, header(number), block)
                .thenCombineAsync(
                    endpoint.fetch(CHECKSUM, header(number), sum),
                    (data, expected) -> {
                      if (data.length() != BLOCK || checksum(block) != sum.getInt(0)) {
                        throw new AssertionError("a block is wrong");
                      }
                      return null;
                    }));
      }
      CompletableFuture.allOf(blocks.toArray(CompletableFuture[]::new)).join();
      long ms = (System.nanoTime() - begin) / 1_000_000;
      if (!all.equals(content())) {
        throw new AssertionError("the copy is not what the server has");
      }
      System.out.printf("blocks: %d MiB are right, in %d ms%n", all.capacity() >> 20, ms);
    }
  }

  private static byte[] header(int number) {
    return ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.BIG_ENDIAN).putInt(number).array();
  }

  private static int number(byte[] header) {
    return ByteBuffer.wrap(header).getInt();
  }
}
