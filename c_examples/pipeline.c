/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * pipeline.c: a producer, a filter and a consumer, each on a thread, connected by two hubs.
 *
 *     cc -o pipeline pipeline.c $(pkg-config --cflags --libs ucxx_rs) -pthread
 *     ./pipeline FILE WORD
 *
 * For example `./pipeline send_files.c static`:
 *
 *     106 chunks, 106 copied to the device; 21329 bytes kept, as by a plain loop
 *
 * A hub is a queue of chunks. Each chunk is in an envelope, which is a buffer of the hub. A link
 * gives access to a hub, on one kind of memory. A thread leases an envelope through a link, works
 * on it, and commits it (docs/hub.md).
 *
 * The producer reads the lines of the file, several to a chunk. The filter keeps the lines without
 * WORD. The consumer joins the lines, and the program compares the result with that of a plain
 * loop.
 *
 * The filter works on a device, and the hubs copy the chunks there and back while it works on
 * others. The device here is UCXX_MEMORY_DUMMY, which every machine has: host memory that the
 * library treats as a device.
 *
 * The filter needs an envelope of each hub. It leases both at once, so that it never holds one
 * while it waits for the other. The end of the file passes through the pipeline by ucxx_hub_close:
 * consumers get what is left, and then UCXX_ERR_CLOSED.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#define CHUNK 256 /* bytes in an envelope, and the longest line */
#define ENVELOPES 3

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
static const ucxx_memory_kind_t device = {UCXX_MEMORY_DUMMY, 0};

static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "pipeline: %s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

static void require(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "pipeline: %s\n", what);
  exit(1);
}

struct text {
  char *data;
  size_t length;
};

struct pipeline {
  ucxx_hub_t *lines, *kept;
  ucxx_link_t *read_out, *filter_in, *filter_out, *write_in;
  const char *path, *word;
  struct text result;
};

static void append(struct text *text, const char *data, size_t length) {
  text->data = realloc(text->data, text->length + length + 1);
  require(text->data != NULL, "out of memory");
  memcpy(text->data + text->length, data, length);
  text->length += length;
}

static int keeps(const char *line, size_t length, const char *word) {
  size_t wanted = strlen(word);
  for (size_t at = 0; at + wanted <= length; at++) {
    if (memcmp(line + at, word, wanted) == 0) return 0;
  }
  return 1;
}

static FILE *open_file(const char *path) {
  FILE *file = fopen(path, "r");
  require(file != NULL, "the file cannot be read");
  return file;
}

/* Puts as many lines into each chunk as fit. The metadata, a few bytes that travel with a chunk, is
 * the number of its first line. */
static void *produce(void *arg) {
  struct pipeline *pipeline = arg;
  FILE *file = open_file(pipeline->path);
  char line[CHUNK];
  uint32_t number = 0;
  int more = fgets(line, sizeof line, file) != NULL;
  while (more) {
    ucxx_envelope_t *envelope;
    ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
    check(ucxx_link_lease(pipeline->read_out, UINT64_MAX, &envelope), "an envelope for lines");
    check(ucxx_envelope_query(envelope, &attr), "its memory");
    memcpy(attr.metadata, &number, sizeof number);
    size_t length = 0;
    while (more && length + strlen(line) <= attr.capacity) {
      memcpy((char *)attr.data + length, line, strlen(line));
      length += strlen(line);
      number++;
      more = fgets(line, sizeof line, file) != NULL;
    }
    check(ucxx_envelope_commit(envelope, length, NULL), "a chunk of lines");
  }
  fclose(file);
  check(ucxx_hub_close(pipeline->lines), "the end of the file");
  return NULL;
}

/* Leases a chunk to read and an envelope to fill, until the first hub is closed and empty. */
static void *filter(void *arg) {
  struct pipeline *pipeline = arg;
  ucxx_link_t *links[] = {pipeline->filter_in, pipeline->filter_out};
  ucxx_envelope_t *envelopes[2];
  ucxx_status_t status;
  while ((status = ucxx_link_lease_many(links, 2, UINT64_MAX, envelopes)) == UCXX_OK) {
    ucxx_envelope_attr_t in = UCXX_ENVELOPE_ATTR_INIT, out = UCXX_ENVELOPE_ATTR_INIT;
    check(ucxx_envelope_query(envelopes[0], &in), "a chunk");
    check(ucxx_envelope_query(envelopes[1], &out), "an envelope for what is kept");
    const char *line = in.data, *end = line + in.length;
    size_t length = 0;
    while (line < end) {
      const char *newline = memchr(line, '\n', (size_t)(end - line));
      const char *next = newline == NULL ? end : newline + 1;
      if (keeps(line, (size_t)(next - line), pipeline->word)) {
        memcpy((char *)out.data + length, line, (size_t)(next - line));
        length += (size_t)(next - line);
      }
      line = next;
    }
    memcpy(out.metadata, in.metadata, in.metadata_length);
    check(ucxx_envelope_commit(envelopes[0], 0, NULL), "the chunk is consumed");
    /* A commit of 0 bytes would be an empty chunk. An abort returns the envelope unused. */
    if (length == 0)
      check(ucxx_envelope_abort(envelopes[1], NULL), "nothing is kept");
    else
      check(ucxx_envelope_commit(envelopes[1], length, NULL), "what is kept");
  }
  require(status == UCXX_ERR_CLOSED, ucxx_error_text(status));
  check(ucxx_hub_close(pipeline->kept), "the end of what is kept");
  return NULL;
}

static void *consume(void *arg) {
  struct pipeline *pipeline = arg;
  ucxx_envelope_t *envelope;
  ucxx_status_t status;
  uint32_t last = 0;
  while ((status = ucxx_link_lease(pipeline->write_in, UINT64_MAX, &envelope)) == UCXX_OK) {
    ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
    uint32_t number;
    check(ucxx_envelope_query(envelope, &attr), "what is kept");
    memcpy(&number, attr.metadata, sizeof number);
    require(number >= last, "chunks come in their order");
    last = number;
    append(&pipeline->result, attr.data, attr.length);
    check(ucxx_envelope_commit(envelope, 0, NULL), "it is consumed");
  }
  require(status == UCXX_ERR_CLOSED, ucxx_error_text(status));
  return NULL;
}

static ucxx_hub_t *make_hub(ucxx_context_t *context) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub;
  params.envelope_size = CHUNK;
  check(ucxx_hub_create(context, &params, &hub), "a hub");
  check(ucxx_hub_add_envelopes(hub, host, ENVELOPES), "envelopes on the host");
  check(ucxx_hub_add_envelopes(hub, device, ENVELOPES), "envelopes on the device");
  return hub;
}

static ucxx_link_t *make_link(ucxx_hub_t *hub, int32_t type, ucxx_memory_kind_t kind) {
  ucxx_link_t *link;
  check(ucxx_link_create(hub, type, kind, NULL, &link), "a link");
  return link;
}

/* The expected result, without hubs. */
static struct text plainly(const char *path, const char *word) {
  struct text text = {NULL, 0};
  FILE *file = open_file(path);
  char line[CHUNK];
  while (fgets(line, sizeof line, file) != NULL) {
    if (keeps(line, strlen(line), word)) append(&text, line, strlen(line));
  }
  fclose(file);
  return text;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s FILE WORD\n", argv[0]);
    return 2;
  }
  struct pipeline pipeline = {.path = argv[1], .word = argv[2]};
  ucxx_context_t *context;
  check(ucxx_context_create(NULL, &context), "a context");
  pipeline.lines = make_hub(context);
  pipeline.kept = make_hub(context);
  pipeline.read_out = make_link(pipeline.lines, UCXX_LINK_PRODUCE, host);
  pipeline.filter_in = make_link(pipeline.lines, UCXX_LINK_CONSUME, device);
  pipeline.filter_out = make_link(pipeline.kept, UCXX_LINK_PRODUCE, device);
  pipeline.write_in = make_link(pipeline.kept, UCXX_LINK_CONSUME, host);
  /* Fails if a link could never get an envelope, for example because its device has none. */
  check(ucxx_hub_validate(pipeline.lines), "every link can be served");
  check(ucxx_hub_validate(pipeline.kept), "every link can be served");

  void *(*const nodes[])(void *) = {produce, filter, consume};
  pthread_t threads[3];
  for (int at = 0; at < 3; at++)
    require(pthread_create(&threads[at], NULL, nodes[at], &pipeline) == 0, "a thread");
  for (int at = 0; at < 3; at++) pthread_join(threads[at], NULL);

  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
  check(ucxx_hub_query_stats(pipeline.lines, &stats), "figures");
  struct text expected = plainly(pipeline.path, pipeline.word);
  require(expected.length == pipeline.result.length, "as many bytes as a plain loop keeps");
  require(expected.length == 0 || memcmp(expected.data, pipeline.result.data, expected.length) == 0,
          "the bytes that a plain loop keeps");
  printf("%llu chunks, %llu copied to the device; %zu bytes kept, as by a plain loop\n",
         (unsigned long long)stats.chunks_produced, (unsigned long long)stats.transfers,
         expected.length);
  free(expected.data);
  free(pipeline.result.data);

  ucxx_link_destroy(pipeline.read_out);
  ucxx_link_destroy(pipeline.filter_in);
  ucxx_link_destroy(pipeline.filter_out);
  ucxx_link_destroy(pipeline.write_in);
  ucxx_hub_destroy(pipeline.lines);
  ucxx_hub_destroy(pipeline.kept);
  ucxx_context_destroy(context);
  return 0;
}
