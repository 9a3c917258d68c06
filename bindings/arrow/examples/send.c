/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Sends one record batch to receive.py, from the structures of the Arrow C Data Interface. Each
 * buffer of a column is a frame, sent from where it is; the first frame describes them, as in
 * arrow_frames.py.
 *
 *   send PORT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

/* The structures of the specification. */
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

enum { ROWS = 100000, MOST_FRAMES = 64, MOST_TEXT = 4096 };

static void check(ucxx_status_t status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

/* The description, and the frames that it names. */
struct message {
  char text[MOST_TEXT];
  size_t used;
  ucxx_buffer_t frames[MOST_FRAMES];
  size_t count;
};

static void say(struct message *message, const char *text) {
  const size_t length = strlen(text);
  if (message->used + length >= MOST_TEXT) check(UCXX_ERR_EXCEEDS_LIMIT, "the description");
  memcpy(message->text + message->used, text, length + 1);
  message->used += length;
}

/* The interface has no lengths. They follow from the format: a bitmap, offsets of 32 bits and bytes
 * for "u", or numbers of 8 bytes for "l". Other formats are left to the reader. */
static size_t length_of(const struct ArrowArray *array, const char *format, int64_t buffer) {
  const size_t rows = (size_t)(array->offset + array->length);
  if (buffer == 0) return (rows + 7) / 8;
  if (strcmp(format, "l") == 0) return rows * 8;
  if (strcmp(format, "u") != 0) check(UCXX_ERR_UNSUPPORTED, format);
  return buffer == 1 ? (rows + 1) * 4 : (size_t)((const int32_t *)array->buffers[1])[rows];
}

static void add_column(struct message *message, const struct ArrowSchema *schema,
                       const struct ArrowArray *array) {
  char text[512];
  snprintf(text, sizeof text,
           "{\"format\":\"%s\",\"name\":\"%s\",\"flags\":%lld,\"length\":%lld,\"nulls\":%lld,"
           "\"offset\":%lld,\"buffers\":[",
           schema->format, schema->name, (long long)schema->flags, (long long)array->length,
           (long long)array->null_count, (long long)array->offset);
  say(message, text);
  for (int64_t at = 0; at < array->n_buffers; at++) {
    if (array->buffers[at] == NULL) {
      say(message, at == 0 ? "null" : ",null");
      continue;
    }
    if (message->count == MOST_FRAMES) check(UCXX_ERR_EXCEEDS_LIMIT, "the columns");
    ucxx_buffer_t *frame = &message->frames[message->count++];
    frame->data = (void *)(uintptr_t)array->buffers[at];
    frame->length = length_of(array, schema->format, at);
    snprintf(text, sizeof text, "%s%llu", at == 0 ? "" : ",", (unsigned long long)frame->length);
    say(message, text);
  }
  say(message, "]}");
}

/* Sends all columns of a batch, which is an array of the format "+s". */
static ucxx_status_t send_batch(ucxx_endpoint_t *endpoint, uint64_t tag,
                                const struct ArrowSchema *schema, const struct ArrowArray *array) {
  static struct message message;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  char text[64];
  memset(&message, 0, sizeof message);
  message.count = 1;
  snprintf(text, sizeof text, "{\"rows\":%lld,\"columns\":[", (long long)array->length);
  say(&message, text);
  for (int64_t at = 0; at < array->n_children; at++) {
    if (at > 0) say(&message, ",");
    add_column(&message, schema->children[at], array->children[at]);
  }
  say(&message, "]}");
  message.frames[0].data = message.text;
  message.frames[0].length = message.used;
  params.flags = UCXX_FLAG_WAIT;
  return ucxx_tag_send_multi(endpoint, message.frames, message.count, tag, &params, NULL);
}

/* The batch: numbers of which every seventh is missing, and names of which every third is empty. */
static int64_t ids[ROWS];
static uint8_t valid[(ROWS + 7) / 8];
static int32_t ends[ROWS + 1];
static char names[ROWS * 10];

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: send PORT\n");
    return 2;
  }
  int64_t missing = 0;
  for (int32_t row = 0; row < ROWS; row++) {
    ids[row] = row;
    if (row % 7 == 0)
      missing++;
    else
      valid[row / 8] |= (uint8_t)(1 << row % 8);
    ends[row + 1] = ends[row];
    if (row % 3 != 0) ends[row + 1] += snprintf(names + ends[row], 11, "row %d", row);
  }
  const void *id_buffers[] = {valid, ids}, *name_buffers[] = {NULL, ends, names};
  struct ArrowSchema id_schema = {.format = "l", .name = "id", .flags = 2};
  struct ArrowSchema name_schema = {.format = "u", .name = "name", .flags = 2};
  struct ArrowArray id_array = {
      .length = ROWS, .null_count = missing, .n_buffers = 2, .buffers = id_buffers};
  struct ArrowArray name_array = {.length = ROWS, .n_buffers = 3, .buffers = name_buffers};
  struct ArrowSchema *schemas[] = {&id_schema, &name_schema};
  struct ArrowArray *arrays[] = {&id_array, &name_array};
  const struct ArrowSchema schema = {.format = "+s", .n_children = 2, .children = schemas};
  const struct ArrowArray array = {.length = ROWS, .n_children = 2, .children = arrays};

  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  char answer[6];
  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_worker_create(context, NULL, &worker), "worker");
  check(ucxx_endpoint_connect(worker, "127.0.0.1", (uint16_t)atoi(argv[1]), NULL, &endpoint),
        "connect");
  check(send_batch(endpoint, 1, &schema, &array), "send");
  params.flags = UCXX_FLAG_WAIT;
  params.source = endpoint;
  check(ucxx_tag_recv(worker, answer, sizeof answer, 2, UINT64_MAX, &params, NULL), "answer");
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
