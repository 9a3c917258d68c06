/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* How well hubs use the copy engines of a GPU. Chunks go from pinned memory to the GPU, from there
 * to pinned memory, and both at once. The reference is the driver's copies between as many buffers
 * of the same kind, all submitted at once. It also measures how far copies overlap with work on the
 * GPU: the longer of a copy and the work, divided by the time from chunk to chunk.
 *
 * `--only to_device,to_host,both,overlap` selects some. Contents are checked in the warm-up, not in
 * the timed part. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

#include "cuda.h"

enum { ENVELOPES = 4, FILLS = 16 };

static const ucxx_memory_kind_t on_pinned = {UCXX_MEMORY_CUDA_PINNED, 0},
                                on_cuda = {UCXX_MEMORY_CUDA, 0};

/* Buffers of the driver, as many as a hub has envelopes. */
struct bare {
  void *stream;
  void *pinned[ENVELOPES];
  uint64_t device[ENVELOPES];
};

/* A hub from one kind of memory to the other. */
struct way {
  int to_device;
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  void *writer, *reader; /* streams that wait before a chunk is written or read on the GPU */
  long fills; /* work on each chunk that has arrived on the GPU */
  long produced, consumed;
};

static void check(ucxx_status_t status, const char *what) {
  if (status != UCXX_OK)
    die("%s: %s (%s)", what, ucxx_status_name(status), ucxx_last_error_message());
}

/* ---------------------------------------------------------------- the driver alone */

static void bare_open(struct bare *bare, size_t size) {
  bare->stream = cuda_stream();
  for (int at = 0; at < ENVELOPES; at++) {
    CUDA_MUST(cuda.allocate_pinned(&bare->pinned[at], size, 1));
    memset(bare->pinned[at], 0x5a, size);
    CUDA_MUST(cuda.allocate(&bare->device[at], size));
  }
}

static void bare_close(struct bare *bare) {
  CUDA_MUST(cuda.synchronize(bare->stream));
  for (int at = 0; at < ENVELOPES; at++) {
    CUDA_MUST(cuda.free_pinned(bare->pinned[at]));
    CUDA_MUST(cuda.free(bare->device[at]));
  }
  CUDA_MUST(cuda.stream_destroy(bare->stream));
}

static void bare_copy(const struct bare *bare, int to_device, size_t size, long number) {
  void *pinned = bare->pinned[number % ENVELOPES];
  const uint64_t device = bare->device[number % ENVELOPES];
  if (to_device)
    CUDA_MUST(cuda.to_device(device, pinned, size, bare->stream));
  else
    CUDA_MUST(cuda.to_host(pinned, device, size, bare->stream));
}

/* Returns the seconds for `copies` copies in each direction. */
static double bare_run(const struct bare *to_device, const struct bare *to_host, size_t size,
                       long copies) {
  const uint64_t start = now_ns();
  for (long number = 0; number < copies; number++) {
    if (to_device != NULL) bare_copy(to_device, 1, size, number);
    if (to_host != NULL) bare_copy(to_host, 0, size, number);
  }
  if (to_device != NULL) CUDA_MUST(cuda.synchronize(to_device->stream));
  if (to_host != NULL) CUDA_MUST(cuda.synchronize(to_host->stream));
  return (double)(now_ns() - start) * 1e-9;
}

/* ---------------------------------------------------------------- hubs */

static void way_open(struct way *way, ucxx_context_t *context, int to_device, size_t size) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  memset(way, 0, sizeof *way);
  way->to_device = to_device;
  way->writer = cuda_stream();
  way->reader = cuda_stream();
  params.envelope_size = size;
  check(ucxx_hub_create(context, &params, &way->hub), "ucxx_hub_create");
  check(ucxx_hub_add_envelopes(way->hub, on_pinned, ENVELOPES), "pinned envelopes");
  check(ucxx_hub_add_envelopes(way->hub, on_cuda, ENVELOPES), "envelopes on the GPU");
  check(ucxx_link_create(way->hub, UCXX_LINK_PRODUCE, to_device ? on_pinned : on_cuda, NULL,
                         &way->in),
        "ucxx_link_create");
  check(ucxx_link_create(way->hub, UCXX_LINK_CONSUME, to_device ? on_cuda : on_pinned, NULL,
                         &way->out),
        "ucxx_link_create");
}

static void way_close(struct way *way) {
  CUDA_MUST(cuda.synchronize(way->writer));
  CUDA_MUST(cuda.synchronize(way->reader));
  ucxx_link_destroy(way->in);
  ucxx_link_destroy(way->out);
  ucxx_hub_destroy(way->hub);
  CUDA_MUST(cuda.stream_destroy(way->writer));
  CUDA_MUST(cuda.stream_destroy(way->reader));
}

/* NULL if none is available in that time. */
static ucxx_envelope_t *lease(ucxx_link_t *link, uint64_t timeout_ns, void *stream,
                              struct place *place) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  ucxx_status_t status = ucxx_link_lease(link, timeout_ns, &envelope);
  if (status == UCXX_ERR_NO_RESOURCE) return NULL;
  check(status, "ucxx_link_lease");
  check(ucxx_envelope_query(envelope, &attr), "ucxx_envelope_query");
  *place =
      (struct place){attr.kind.memory_type == UCXX_MEMORY_CUDA, attr.data, attr.capacity, stream};
  if (attr.ready_event != NULL) CUDA_MUST(cuda.stream_wait(stream, attr.ready_event, 0));
  return envelope;
}

static int produce(struct way *way, long chunks, uint32_t mark) {
  struct place place;
  ucxx_envelope_t *envelope =
      way->produced == chunks ? NULL : lease(way->in, 0, way->writer, &place);
  if (envelope == NULL) return 0;
  way->produced++;
  if (mark) place_fill(&place, mark + (uint32_t)way->produced);
  check(ucxx_envelope_commit(envelope, place.size, place.on_device ? way->writer : NULL),
        "a chunk");
  return 1;
}

static int consume(struct way *way, long chunks, uint32_t mark, uint64_t timeout_ns) {
  struct place place;
  ucxx_envelope_t *envelope =
      way->consumed == chunks ? NULL : lease(way->out, timeout_ns, way->reader, &place);
  if (envelope == NULL) return 0;
  way->consumed++;
  if (mark)
    place_check(&place, mark + (uint32_t)way->consumed,
                way->to_device ? "a chunk on the GPU" : "a chunk of the GPU's");
  for (long fill = 0; fill < way->fills; fill++)
    CUDA_MUST(
        cuda.fill((uint64_t)(uintptr_t)place.data, (unsigned)fill, place.size / 4, way->reader));
  check(ucxx_envelope_commit(envelope, 0, place.on_device ? way->reader : NULL),
        "a chunk that has been used");
  return 1;
}

/* Returns the seconds for `chunks` chunks through each hub. */
static double hubs_run(struct way *const *ways, int count, long chunks, uint32_t mark) {
  const uint64_t start = now_ns();
  for (int at = 0; at < count; at++) ways[at]->produced = ways[at]->consumed = 0;
  for (;;) {
    int moved = 0;
    struct way *waits = NULL;
    for (int at = 0; at < count; at++) {
      while (produce(ways[at], chunks, mark)) moved = 1;
      while (consume(ways[at], chunks, mark, 0)) moved = 1;
      if (ways[at]->consumed < chunks && (waits == NULL || ways[at]->consumed < waits->consumed))
        waits = ways[at];
    }
    if (waits == NULL) break;
    if (!moved) consume(waits, chunks, mark, UINT64_MAX);
  }
  for (int at = 0; at < count; at++) CUDA_MUST(cuda.synchronize(ways[at]->reader));
  return (double)(now_ns() - start) * 1e-9;
}

/* ---------------------------------------------------------------- measurements */

static double *samples(const struct options *options) {
  double *made = (double *)calloc((size_t)options->batches, sizeof *made);
  if (made == NULL) die("no memory");
  return made;
}

static double middle(const struct options *options, const char *key, double *measured) {
  report_samples(options, key, measured, (size_t)options->batches);
  return measured[(options->batches - 1) / 2];
}

/* A `which` of 2 means both directions. */
static void directions(const struct options *options, ucxx_context_t *context, const char *name,
                       int which) {
  struct bare bare[2];
  struct way way[2], *ways[2];
  const int first = which == 1 ? 1 : 0, count = which == 2 ? 2 : 1;
  char key[64];
  double *alone = samples(options), *through = samples(options);
  const double bytes = (double)options->size * (double)options->iterations * count;
  for (int at = 0; at < count; at++) {
    bare_open(&bare[at], options->size);
    way_open(&way[at], context, first + at == 0, options->size);
    ways[at] = &way[at];
  }
  const struct bare *there = first == 0 ? &bare[0] : NULL,
                    *back = which == 0 ? NULL : &bare[count - 1];
  bare_run(there, back, options->size, options->warmup);
  hubs_run(ways, count, options->warmup, 0x1000);
  for (long batch = 0; batch < options->batches; batch++) {
    alone[batch] = bytes / bare_run(there, back, options->size, options->iterations);
    through[batch] = bytes / hubs_run(ways, count, options->iterations, 0);
  }
  snprintf(key, sizeof key, "bare_%s_bytes_per_second", name);
  const double of_driver = middle(options, key, alone);
  snprintf(key, sizeof key, "hub_%s_bytes_per_second", name);
  const double of_hub = middle(options, key, through);
  snprintf(key, sizeof key, "hub_%s_of_bare", name);
  report_number(options, key, of_hub / of_driver);
  for (int at = 0; at < count; at++) {
    way_close(&way[at]);
    bare_close(&bare[at]);
  }
  free(alone);
  free(through);
}

/* Returns the seconds for `fills` fills of `size` bytes of GPU memory. */
static double fill_time(size_t size, long fills) {
  void *stream = cuda_stream();
  struct place place = place_make(1, size, stream);
  place_fill(&place, 0);
  const uint64_t start = now_ns();
  for (long fill = 0; fill < fills; fill++)
    CUDA_MUST(cuda.fill((uint64_t)(uintptr_t)place.data, (unsigned)fill, size / 4, stream));
  CUDA_MUST(cuda.synchronize(stream));
  const double seconds = (double)(now_ns() - start) * 1e-9;
  place_free(&place);
  CUDA_MUST(cuda.stream_destroy(stream));
  return seconds;
}

/* Work on the GPU that takes about as long as a copy to it. */
static void overlap(const struct options *options, ucxx_context_t *context) {
  struct way way, *ways[] = {&way};
  double *measured = samples(options);
  way_open(&way, context, 1, options->size);
  hubs_run(ways, 1, options->warmup, 0x2000);
  for (long batch = 0; batch < options->batches; batch++) {
    way.fills = 0;
    const double copy = hubs_run(ways, 1, options->iterations, 0) / (double)options->iterations;
    way.fills = 1 + (long)(copy / (fill_time(options->size, FILLS) / FILLS));
    const double work =
        fill_time(options->size, way.fills * options->iterations) / (double)options->iterations;
    const double both = hubs_run(ways, 1, options->iterations, 0) / (double)options->iterations;
    measured[batch] = (copy > work ? copy : work) / both;
  }
  report_samples(options, "hub_overlap", measured, (size_t)options->batches);
  way_close(&way);
  free(measured);
}

int main(int argc, char **argv) {
  static struct options options;
  ucxx_context_t *context = NULL;
  options.size = 16 << 20;
  options.iterations = 64;
  options.batches = 7;
  options.warmup = 16;
  options.cpu[0] = options.cpu[1] = -1;
  options.socket = -1;
  harness_start(argc, argv, 0, &options);
  if (options.size % 4 != 0) die("--size: four bytes are one word");
  if (cuda_open() == 0) die("there is no GPU with a CUDA driver here");
  cuda_enter(0);
  check(ucxx_context_create(NULL, &context), "ucxx_context_create");
  if (harness_wants(&options, "to_device")) directions(&options, context, "to_device", 0);
  if (harness_wants(&options, "to_host")) directions(&options, context, "to_host", 1);
  if (harness_wants(&options, "both")) directions(&options, context, "both", 2);
  if (harness_wants(&options, "overlap")) overlap(&options, context);
  ucxx_context_destroy(context);
  cuda_leave(0);
  harness_finish(&options);
  return 0;
}
