/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * dataframe.c: sends the columns of a table, of different types and lengths, as buffers of one
 * call.
 *
 *     cc -o dataframe dataframe.c -DDATAFRAME_CSV='"elements.csv"' \
 *        $(pkg-config --cflags --libs ucxx_rs)
 *     ./dataframe 0 table.socket & ./dataframe 1 table.socket; wait
 *
 *     36 rows, 6 columns, 9 buffers
 *     by tag: the table came back, all 1191 bytes of it
 *     as an active message: the table came back, all 1191 bytes of it
 *
 * Rank 0 reads a CSV file (the environment variable DATAFRAME_CSV may name another one) into
 * columns in memory. A column of numbers is one buffer. A column of texts is two: the characters,
 * and where each text ends. Rank 0 sends the table in both forms of multi-buffer transfer. By tag,
 * the first buffer is the schema, which describes the others. As an active message, the header is
 * the schema.
 *
 * Rank 1 knows nothing about the table in advance. The library allocates buffers for what arrives.
 * Rank 1 writes the table as CSV and sends the text back, and rank 0 compares it with the file.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <string.h>

#include "pair.h"

enum { TAG_TABLE = 1, TAG_TEXT = 2, ID_TABLE = 7, MOST_COLUMNS = 16, LONGEST_NAME = 40 };
enum column_type { WHOLE, NUMBER, TEXT };

/* The schema describes the buffers to the receiver. */
struct column {
  char name[LONGEST_NAME];
  int32_t type;
};
struct schema {
  uint64_t rows;
  uint32_t columns;
  struct column column[MOST_COLUMNS];
};

/* The buffers are in the order of the columns: one each, and two for texts. A missing entry is NaN
 * or an empty text. */
struct table {
  struct schema schema;
  void *data[2 * MOST_COLUMNS];
  size_t length[2 * MOST_COLUMNS];
};

static void *allocate(size_t length) {
  void *memory = calloc(1, length == 0 ? 1 : length);
  require(memory != NULL, "memory");
  return memory;
}

/* ------------------------------------------------------------------ CSV, without quotes */

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  require(file != NULL, "the CSV file can be opened");
  require(fseek(file, 0, SEEK_END) == 0, "seek");
  size_t length = (size_t)ftell(file);
  rewind(file);
  char *text = allocate(length + 1);
  require(fread(text, 1, length, file) == length, "the CSV file can be read");
  fclose(file);
  return text;
}

/* Column `at` of a line, up to the comma or the end of the line. */
static const char *cell(const char *line, uint32_t at, size_t *length) {
  for (; at > 0; at--) line += strcspn(line, ",\n") + 1;
  *length = strcspn(line, ",\n");
  return line;
}

static const char *next_line(const char *line) { return line + strcspn(line, "\n") + 1; }

/* WHOLE if every cell is a whole number. NUMBER if every cell that is not empty is a number. */
static enum column_type type_of(const char *lines, uint64_t rows, uint32_t at) {
  enum column_type type = WHOLE;
  for (uint64_t row = 0; row < rows; row++, lines = next_line(lines)) {
    size_t length;
    char *end;
    const char *text = cell(lines, at, &length);
    strtod(text, &end);
    if (length > 0 && end != text + length) return TEXT;
    if (length == 0 || strspn(text, "0123456789-") < length) type = NUMBER;
  }
  return type;
}

static void parse(struct table *table, const char *text) {
  struct schema *schema = &table->schema;
  const char *lines = next_line(text);
  for (const char *line = lines; *line != '\0'; line = next_line(line)) schema->rows++;
  for (const char *at = text; at < lines; at += strcspn(at, ",\n") + 1, schema->columns++) {
    struct column *column = &schema->column[schema->columns];
    require(schema->columns < MOST_COLUMNS && strcspn(at, ",\n") < LONGEST_NAME,
            "a table that fits");
    memcpy(column->name, at, strcspn(at, ",\n"));
    column->type = type_of(lines, schema->rows, schema->columns);
  }
  size_t buffer = 0;
  for (uint32_t at = 0; at < schema->columns; at++) {
    const enum column_type type = schema->column[at].type;
    uint64_t *words = table->data[buffer] = allocate(8 * schema->rows);
    char *characters = type == TEXT ? allocate(strlen(text)) : NULL;
    uint64_t used = 0;
    const char *line = lines;
    for (uint64_t row = 0; row < schema->rows; row++, line = next_line(line)) {
      size_t length;
      const char *content = cell(line, at, &length);
      double number = length == 0 ? 0.0 / 0.0 : strtod(content, NULL);
      int64_t whole = strtoll(content, NULL, 10);
      if (type == WHOLE) memcpy(&words[row], &whole, 8);
      if (type == NUMBER) memcpy(&words[row], &number, 8);
      if (type == TEXT) {
        memcpy(characters + used, content, length);
        words[row] = used += length;
      }
    }
    table->length[buffer++] = 8 * schema->rows;
    if (type == TEXT) {
      table->data[buffer] = characters;
      table->length[buffer++] = used;
    }
  }
}

/* Checks a table that came from another process, before the program uses it. */
static void check_table(const struct table *table, size_t buffers) {
  const struct schema *schema = &table->schema;
  size_t buffer = 0;
  require(schema->columns <= MOST_COLUMNS, "not too many columns");
  for (uint32_t at = 0; at < schema->columns; at++) {
    const int text = schema->column[at].type == TEXT;
    require(buffer + (text ? 2 : 1) <= buffers && table->length[buffer] == 8 * schema->rows,
            "buffers for each column");
    require(memchr(schema->column[at].name, '\0', LONGEST_NAME) != NULL, "a name that ends");
    for (uint64_t row = 0, before = 0; text && row < schema->rows; row++) {
      const uint64_t end = ((const uint64_t *)table->data[buffer])[row];
      require(before <= end && end <= table->length[buffer + 1], "texts within their characters");
      before = end;
    }
    buffer += text ? 2 : 1;
  }
  require(buffer == buffers, "no buffer too many");
}

static char *print(const struct table *table, size_t *printed) {
  char *text = NULL;
  FILE *out = open_memstream(&text, printed);
  require(out != NULL, "memory");
  const struct schema *schema = &table->schema;
  for (uint32_t at = 0; at < schema->columns; at++)
    fprintf(out, "%s%c", schema->column[at].name, at + 1 == schema->columns ? '\n' : ',');
  for (uint64_t row = 0; row < schema->rows; row++) {
    size_t buffer = 0;
    for (uint32_t at = 0; at < schema->columns; at++) {
      const uint64_t *words = table->data[buffer];
      const char end = at + 1 == schema->columns ? '\n' : ',';
      double number;
      int64_t whole;
      memcpy(&number, &words[row], 8);
      memcpy(&whole, &words[row], 8);
      if (schema->column[at].type == WHOLE) fprintf(out, "%" PRId64 "%c", whole, end);
      if (schema->column[at].type == NUMBER && number == number)
        fprintf(out, "%.10g%c", number, end);
      if (schema->column[at].type == NUMBER && number != number) fprintf(out, "%c", end);
      if (schema->column[at].type == TEXT) {
        const uint64_t begin = row == 0 ? 0 : words[row - 1];
        fprintf(out, "%.*s%c", (int)(words[row] - begin),
                (const char *)table->data[buffer + 1] + begin, end);
        buffer++;
      }
      buffer++;
    }
  }
  fclose(out);
  return text;
}

/* ------------------------------------------------------------------ rank 0 */

static void expect_back(struct pair *pair, const char *file, const char *how) {
  const size_t length = strlen(file);
  char *text = allocate(length + 1);
  ucxx_recv_info_t info;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  params.recv_info = &info;
  ucxx_status_t status =
      ucxx_tag_recv(pair->worker, text, length, TAG_TEXT, PAIR_ALL_BITS, &params, &request);
  check(outcome(status, request), "receive of the text");
  require(info.length == length && memcmp(text, file, length) == 0,
          "the table comes back as the file has it");
  printf("%s: the table came back, all %zu bytes of it\n", how, length);
  free(text);
}

static void send_table(struct pair *pair, const char *path) {
  static struct table table;
  ucxx_buffer_t buffers[1 + 2 * MOST_COLUMNS];
  ucxx_request_t *request = NULL;
  char *file = read_file(path);
  size_t count = 1;
  parse(&table, file);
  memset(buffers, 0, sizeof buffers);
  buffers[0].data = &table.schema;
  buffers[0].length = sizeof table.schema;
  for (; count <= 2 * MOST_COLUMNS && table.data[count - 1] != NULL; count++) {
    buffers[count].data = table.data[count - 1];
    buffers[count].length = table.length[count - 1];
  }
  printf("%" PRIu64 " rows, %" PRIu32 " columns, %zu buffers\n", table.schema.rows,
         table.schema.columns, count - 1);

  ucxx_status_t status =
      ucxx_tag_send_multi(pair->endpoint, buffers, count, TAG_TABLE, NULL, &request);
  check(outcome(status, request), "send by tag");
  expect_back(pair, file, "by tag");

  request = NULL;
  status = ucxx_am_send_multi(pair->endpoint, ID_TABLE, &table.schema, sizeof table.schema,
                              buffers + 1, count - 1, NULL, &request);
  check(outcome(status, request), "send of an active message");
  expect_back(pair, file, "as an active message");

  for (size_t at = 0; at + 1 < count; at++) free(table.data[at]);
  free(file);
}

/* ------------------------------------------------------------------ rank 1 */

static void answer(struct pair *pair, const struct table *table, size_t buffers) {
  size_t length = 0;
  ucxx_request_t *request = NULL;
  check_table(table, buffers);
  char *text = print(table, &length);
  ucxx_status_t status = ucxx_tag_send(pair->endpoint, text, length, TAG_TEXT, NULL, &request);
  check(outcome(status, request), "send of the text");
  free(text);
}

/* Makes the table point into the received buffers, without copying them. */
static void describe(struct table *table, const ucxx_buffers_t *buffers, size_t first) {
  const size_t count = ucxx_buffers_count(buffers);
  require(count - first <= 2 * MOST_COLUMNS, "not too many buffers");
  for (size_t at = first; at < count; at++) {
    ucxx_buffer_t buffer;
    check(ucxx_buffers_get(buffers, at, &buffer), "buffer");
    table->data[at - first] = buffer.data;
    table->length[at - first] = buffer.length;
  }
}

struct arrived {
  struct table table;
  ucxx_buffers_t *buffers;
};

static void on_table(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                     ucxx_buffers_t *buffers, ucxx_status_t status) {
  struct arrived *arrived = arg;
  (void)reply;
  check(status, "a table");
  require(header_length == sizeof arrived->table.schema, "a header that is a schema");
  memcpy(&arrived->table.schema, header, header_length);
  /* The handler now owns the buffers. A handler must not wait, so main sends the answer. */
  arrived->buffers = buffers;
}

static void receive_tables(struct pair *pair) {
  static struct table table;
  static struct arrived arrived;
  ucxx_request_t *request = NULL;
  ucxx_buffers_t *buffers = NULL;
  ucxx_buffer_t schema;
  /* Limits what a message can make this process allocate. */
  ucxx_allocator_t limits = UCXX_ALLOCATOR_INIT;
  limits.max_frames = 1 + 2 * MOST_COLUMNS;
  limits.max_total_bytes = 64 << 20;
  check(ucxx_worker_set_multi_handler(pair->worker, ID_TABLE, on_table, &arrived, NULL, &limits),
        "handler");

  ucxx_status_t status =
      /* The library allocates a buffer for each one that arrives, and the request hands them
       * over. */
      ucxx_tag_recv_multi(pair->worker, TAG_TABLE, PAIR_ALL_BITS, &limits, NULL, &request);
  require(status == UCXX_INPROGRESS, "a receive that is under way");
  check(ucxx_request_wait(request, PAIR_TIMEOUT_NS), "receive of the table");
  check(ucxx_request_take_buffers(request, &buffers), "its buffers");
  ucxx_request_destroy(request);
  require(ucxx_buffers_count(buffers) > 0, "a schema");
  check(ucxx_buffers_get(buffers, 0, &schema), "schema");
  require(schema.length == sizeof table.schema, "a first buffer that is a schema");
  memcpy(&table.schema, schema.data, sizeof table.schema);
  describe(&table, buffers, 1);
  answer(pair, &table, ucxx_buffers_count(buffers) - 1);
  ucxx_buffers_destroy(buffers);

  while (arrived.buffers == NULL)
    check(ucxx_worker_wait(pair->worker, PAIR_TIMEOUT_NS), "waiting for the table");
  describe(&arrived.table, arrived.buffers, 0);
  answer(pair, &arrived.table, ucxx_buffers_count(arrived.buffers));
  ucxx_buffers_destroy(arrived.buffers);
}

int main(int argc, char **argv) {
  struct pair pair;
  const char *path = getenv("DATAFRAME_CSV");
  pair_open(&pair, argc, argv);
  if (pair.rank == 0) {
    send_table(&pair, path == NULL ? DATAFRAME_CSV : path);
  } else {
    receive_tables(&pair);
  }
  pair_close(&pair);
  return EXIT_SUCCESS;
}
