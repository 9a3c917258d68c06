/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Transfers from the memory of a GPU in one process to that of a GPU in another process, the next
 * one if there are several: tag messages, frames allocated by the receiver's default allocator, and
 * answers to fetches. If UCX has no CUDA support, the memory is on the host, and the report has
 * `memory=host`.
 *
 * `--only tag,frames,fetch` selects some. Contents are checked in the warm-up, not in the timed
 * part. */
#include <stdio.h>
#include <stdlib.h>

#define LINK_AM 1
#include "link.h"

#include "cuda.h"

enum { MOST = 64, FRAMES = 8, DATA = 1, ENOUGH = 2, MULTI = 3, ID = 5 };

struct peer {
  struct link link;
  const struct options *options;
  int32_t memory_type;
  struct place places[MOST];
  struct operation operations[MOST];
};

static size_t window_of(const struct peer *peer) { return (size_t)peer->options->window; }

static ucxx_op_params_t of_type(const struct peer *peer) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.memory_type = peer->memory_type;
  return params;
}

/* Repeats the call while the submission queue is full. */
#define SUBMIT(peer, operation, call)                                               \
  do {                                                                              \
    ucxx_status_t status_;                                                          \
    (operation)->request = NULL;                                                    \
    while ((status_ = (call)) == UCXX_ERR_NO_RESOURCE) link_advance(&(peer)->link); \
    if (status_ < 0) link_check(status_, #call);                                    \
  } while (0)

/* Tells side 0 that side 1 has received everything. */
static void enough(struct peer *peer) {
  static uint64_t word;
  struct operation operation = {NULL};
  if (peer->options->side == 0)
    link_recv(&peer->link, &word, sizeof word, ENOUGH, &operation);
  else
    link_send(&peer->link, &word, sizeof word, ENOUGH, &operation);
  link_finish(&peer->link, &operation);
}

/* ---------------------------------------------------------------- the three ways */

static void tag_begin(struct peer *peer, size_t at) {
  struct place *place = &peer->places[at];
  const ucxx_op_params_t params = of_type(peer);
  ucxx_request_t **request = &peer->operations[at].request;
  if (peer->options->side == 0)
    SUBMIT(peer, &peer->operations[at],
           ucxx_tag_send(peer->link.endpoint, place->data, place->size, DATA, &params, request));
  else
    SUBMIT(peer, &peer->operations[at],
           ucxx_tag_recv(peer->link.worker, place->data, place->size, DATA, UINT64_MAX, &params,
                         request));
}

static void tag_end(struct peer *peer, size_t at, uint32_t mark) {
  link_finish(&peer->link, &peer->operations[at]);
  if (mark && peer->options->side == 1) place_check(&peer->places[at], mark, "a message");
}

static void frames_begin(struct peer *peer, size_t at) {
  ucxx_request_t **request = &peer->operations[at].request;
  if (peer->options->side == 1) {
    SUBMIT(peer, &peer->operations[at],
           ucxx_tag_recv_multi(peer->link.worker, MULTI, UINT64_MAX, NULL, NULL, request));
    return;
  }
  ucxx_buffer_t list[FRAMES];
  const size_t size = peer->options->size / FRAMES;
  memset(list, 0, sizeof list);
  for (size_t frame = 0; frame < FRAMES; frame++) {
    list[frame].data = (char *)peer->places[at].data + frame * size;
    list[frame].length = size;
    list[frame].memory_type = peer->memory_type;
  }
  SUBMIT(peer, &peer->operations[at],
         ucxx_tag_send_multi(peer->link.endpoint, list, FRAMES, MULTI, NULL, request));
}

static void frames_end(struct peer *peer, size_t at, uint32_t mark) {
  struct operation *operation = &peer->operations[at];
  if (peer->options->side == 0) {
    link_finish(&peer->link, operation);
    return;
  }
  ucxx_buffers_t *buffers = NULL;
  while (ucxx_request_status(operation->request) == UCXX_INPROGRESS) link_advance(&peer->link);
  if (ucxx_request_status(operation->request) != UCXX_OK)
    die("frames: %s", ucxx_request_error_message(operation->request));
  link_check(ucxx_request_take_buffers(operation->request, &buffers), "ucxx_request_take_buffers");
  link_done(operation);
  if (ucxx_buffers_count(buffers) != FRAMES)
    die("%zu frames in place of %d", ucxx_buffers_count(buffers), FRAMES);
  for (size_t frame = 0; mark && frame < FRAMES; frame++) {
    ucxx_buffer_t buffer;
    link_check(ucxx_buffers_get(buffers, frame, &buffer), "ucxx_buffers_get");
    if (buffer.memory_type != peer->memory_type || buffer.length != peer->options->size / FRAMES)
      die("a frame is of another kind");
    const struct place place = {peer->places[at].on_device, buffer.data, buffer.length,
                                peer->places[at].stream};
    place_check(&place, mark, "a frame");
  }
  ucxx_buffers_destroy(buffers);
}

static void on_question(void *arg, ucxx_fetch_t *fetch) {
  struct peer *peer = (struct peer *)arg;
  const ucxx_op_params_t params = of_type(peer);
  link_check(ucxx_fetch_reply(fetch, peer->places[0].data, peer->places[0].size, &params, NULL),
             "ucxx_fetch_reply");
  ucxx_fetch_destroy(fetch);
}

static void fetch_begin(struct peer *peer, size_t at) {
  struct place *place = &peer->places[at];
  const ucxx_op_params_t params = of_type(peer);
  if (peer->options->side == 1) return;
  SUBMIT(peer, &peer->operations[at],
         ucxx_am_fetch(peer->link.endpoint, ID, NULL, 0, place->data, place->size, &params,
                       &peer->operations[at].request));
}

static void fetch_end(struct peer *peer, size_t at, uint32_t mark) {
  if (peer->options->side == 1) return;
  link_finish(&peer->link, &peer->operations[at]);
  if (mark) place_check(&peer->places[at], mark, "an answer");
}

/* ---------------------------------------------------------------- */

struct way {
  const char *name;
  void (*begin)(struct peer *peer, size_t at);
  void (*end)(struct peer *peer, size_t at, uint32_t mark);
  int side; /* the side that the data comes from */
};

/* Returns the seconds for `count` transfers. */
static double run(struct peer *peer, const struct way *way, long count, uint32_t mark) {
  const size_t window = window_of(peer);
  /* Both sides have filled their memory. */
  link_meet(&peer->link, peer->options);
  const uint64_t start = now_ns();
  for (long number = 0; number < count + (long)window; number++) {
    const size_t at = (size_t)number % window;
    if (number >= (long)window) way->end(peer, at, mark);
    if (number < count) way->begin(peer, at);
  }
  if (way->side == 0)
    enough(peer);
  else
    link_meet(&peer->link, peer->options);
  return (double)(now_ns() - start) * 1e-9;
}

static void measure(struct peer *peer, const struct way *way) {
  const struct options *options = peer->options;
  char key[64];
  double *rates = (double *)calloc((size_t)options->batches, sizeof *rates);
  if (rates == NULL) die("no memory");
  for (uint32_t mark = 1; mark <= 2; mark++) {
    for (size_t at = 0; at < window_of(peer); at++)
      place_fill(&peer->places[at], options->side == way->side ? mark * 77 : 0);
    run(peer, way, options->warmup < options->window ? options->window : options->warmup,
        mark * 77);
  }
  for (long batch = 0; batch < options->batches; batch++)
    rates[batch] = (double)options->size * (double)options->iterations /
                   run(peer, way, options->iterations, 0);
  snprintf(key, sizeof key, "%s_bytes_per_second", way->name);
  report_samples(options, key, rates, (size_t)options->batches);
  free(rates);
}

int main(int argc, char **argv) {
  static const struct way ways[] = {{"tag", tag_begin, tag_end, 0},
                                    {"frames", frames_begin, frames_end, 0},
                                    {"fetch", fetch_begin, fetch_end, 1}};
  static struct options options;
  static struct peer peer;
  options.size = 16 << 20;
  options.iterations = 64;
  options.batches = 7;
  options.warmup = 8;
  options.window = 4;
  options.peer_errors = 1;
  options.cpu[0] = options.cpu[1] = -1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  if (options.size % (4 * FRAMES) != 0) die("--size: not a multiple of %d", 4 * FRAMES);
  if (options.window > MOST) die("--window: at most %d", MOST);
  const int devices = cuda_open();
  if (devices == 0) die("there is no GPU with a CUDA driver here");
  const int device = options.side % devices;
  cuda_enter(device);
  void *stream = cuda_stream();
  peer.options = &options;
  link_establish(&peer.link, &options);
  const int on_device = ucxx_context_has_cuda(peer.link.context);
  peer.memory_type = on_device ? UCXX_MEMORY_CUDA : UCXX_MEMORY_HOST;
  report_text(&options, "memory",
              !on_device    ? "host"
              : devices > 1 ? "cuda, two devices"
                            : "cuda, one device");
  for (size_t at = 0; at < window_of(&peer); at++)
    peer.places[at] = place_make(on_device, options.size, stream);
  link_check(ucxx_worker_set_fetch_handler(peer.link.worker, ID, on_question, &peer, NULL),
             "ucxx_worker_set_fetch_handler");
  for (size_t at = 0; at < sizeof ways / sizeof *ways; at++)
    if (harness_wants(&options, ways[at].name)) measure(&peer, &ways[at]);
  link_meet(&peer.link, &options);
  for (size_t at = 0; at < window_of(&peer); at++) place_free(&peer.places[at]);
  link_close(&peer.link);
  CUDA_MUST(cuda.stream_destroy(stream));
  cuda_leave(device);
  harness_finish(&options);
  return 0;
}
