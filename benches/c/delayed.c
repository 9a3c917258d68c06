/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Delayed submission. Threads submit batches of receives and sends to the progress thread of a
 * worker, over an endpoint to that same worker. Reports the cost of an operation for the thread
 * that submits it, and the operations a second of all threads together. */
#include <pthread.h>
#include <stdlib.h>

#include "link_threaded.h"

enum { MOST_WINDOW = 256 };

struct producer {
  const struct options *options;
  struct link *link;
  unsigned char *buffers;
  double *costs; /* for each batch: nanoseconds an operation */
  long cost_count;
  uint64_t tag;
  pthread_t thread;
};

static pthread_barrier_t barrier;

/* Half of the window are receives. The other half are the sends that match them. */
static uint64_t one_batch(struct producer *producer, struct operation *operations,
                          struct batch *batch) {
  const struct options *options = producer->options;
  const long half = options->window / 2;
  const size_t size = options->size;
  unsigned char *out = producer->buffers, *in = out + (size_t)half * size;
  batch_begin(batch, options->window);
  uint64_t start = now_ns();
  for (long i = 0; i < half; i++)
    threaded_recv(producer->link, in + (size_t)i * size, size, producer->tag, &operations[i], batch,
                  options->completion);
  for (long i = 0; i < half; i++)
    threaded_send(producer->link, out + (size_t)i * size, size, producer->tag,
                  &operations[half + i], batch, options->completion);
  uint64_t spent = now_ns() - start;
  threaded_collect(producer->link, operations, options->window, batch, options->completion);
  return spent;
}

static void *produce(void *arg) {
  struct producer *producer = (struct producer *)arg;
  const struct options *options = producer->options;
  struct operation *operations = new_operations(MOST_WINDOW);
  struct batch batch;
  batch_create(&batch);
  for (long done = 0; done < options->warmup; done += options->window)
    one_batch(producer, operations, &batch);
  pthread_barrier_wait(&barrier);
  for (long section = 0; section < options->batches; section++) {
    pthread_barrier_wait(&barrier);
    for (long done = 0; done < options->iterations; done += options->window) {
      uint64_t spent = one_batch(producer, operations, &batch);
      producer->costs[producer->cost_count++] = (double)spent / (double)options->window;
    }
    pthread_barrier_wait(&barrier);
  }
  delete_operations(operations);
  return NULL;
}

static void open_self(struct link *link, const struct options *options) {
  size_t length;
  link_open(link, options);
  const void *address = link_address(link, &length);
  link_connect(link, address, length);
  threaded_begin(link, options);
  link_report(link, options);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  options.size = 8;
  options.iterations = 25600;
  options.batches = 10;
  options.warmup = 25600;
  options.window = 256;
  options.producers = 1;
  options.progress = PROGRESS_ADAPTIVE;
  options.cpu[0] = -1;
  options.socket = -1;
  harness_start(argc, argv, 0, &options);
  if (options.window > MOST_WINDOW || options.window % 2 != 0)
    die("--window: even, and at most %d", MOST_WINDOW);
  if (options.iterations % options.window != 0)
    die("--iterations: a multiple of the window, %ld", options.window);
  if (options.progress == PROGRESS_MANUAL) die("--progress: a thread is needed");
  open_self(&link, &options);

  const long per_producer = options.batches * (options.iterations / options.window);
  struct producer *producers =
      (struct producer *)calloc((size_t)options.producers, sizeof *producers);
  double *costs = (double *)calloc((size_t)(options.producers * per_producer), sizeof *costs);
  double *rates = (double *)calloc((size_t)options.batches, sizeof *rates);
  if (producers == NULL || costs == NULL || rates == NULL) die("no memory");
  if (pthread_barrier_init(&barrier, NULL, (unsigned)options.producers + 1) != 0) die("no barrier");
  for (long i = 0; i < options.producers; i++) {
    struct producer *producer = &producers[i];
    producer->options = &options;
    producer->link = &link;
    producer->buffers = buffer_create((size_t)options.window * options.size);
    producer->costs = costs + i * per_producer;
    producer->tag = (uint64_t)i + 1;
    if (pthread_create(&producer->thread, NULL, produce, producer) != 0) die("no thread");
  }
  pthread_barrier_wait(&barrier);
  for (long section = 0; section < options.batches; section++) {
    const int marked = options.markers && section == options.batches - 1;
    if (marked) mark_begin();
    uint64_t start = now_ns();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    rates[section] =
        (double)(options.iterations * options.producers) / ((double)(now_ns() - start) * 1e-9);
    if (marked) mark_end();
  }
  for (long i = 0; i < options.producers; i++) {
    pthread_join(producers[i].thread, NULL);
    buffer_destroy(producers[i].buffers);
  }
  report_samples(&options, "submission_ns", costs, (size_t)(options.producers * per_producer));
  report_samples(&options, "operations_per_second", rates, (size_t)options.batches);
  threaded_end(&link);
  link_close(&link);
  free(rates);
  free(costs);
  free(producers);
  return 0;
}
