/* Scattered sends and receives between two processes: every shape of parts is sent into every
 * other, and lengths, contents and the gaps between parts are checked. */
#include "test_util.h"

enum { PARTS = 64 };

typedef struct shape {
  const char *name;
  size_t parts;
  size_t (*length)(size_t part, uint64_t seed);
} shape_t;

static size_t small(size_t part, uint64_t seed) {
  (void)seed;
  return 1 + part % 13;
}

static size_t with_holes(size_t part, uint64_t seed) {
  return part % 3 == 1 ? 0 : test_mix(seed + part) % 200;
}

static size_t medium(size_t part, uint64_t seed) { return test_mix(seed + part) % 5000; }

static size_t large(size_t part, uint64_t seed) { return test_mix(seed + part) % 300000; }

static size_t none(size_t part, uint64_t seed) {
  (void)part;
  (void)seed;
  return 0;
}

static const shape_t shapes[] = {
    {"one small part", 1, small},         {"two small parts", 2, small},
    {"many small parts", PARTS, small},   {"parts with holes", 31, with_holes},
    {"only empty parts", 5, none},        {"one medium part", 1, medium},
    {"many medium parts", PARTS, medium}, {"three large parts", 3, large},
    {"many large parts", 20, large},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static size_t total_of(const shape_t *shape, uint64_t seed) {
  size_t total = 0;
  for (size_t part = 0; part < shape->parts; part++) total += shape->length(part, seed);
  return total;
}

static void cut(ucxx_buffer_t *entries, uint8_t *data, const shape_t *shape, uint64_t seed) {
  size_t total = 0;
  for (size_t part = 0; part < shape->parts; part++) {
    memset(&entries[part], 0, sizeof entries[part]);
    entries[part].length = shape->length(part, seed);
    /* An empty part needs no address. */
    entries[part].data = entries[part].length == 0 ? NULL : data + total;
    total += entries[part].length;
  }
}

static void send_side(const pair_t *pair, const shape_t *shape, uint64_t seed, int contiguous) {
  ucxx_buffer_t entries[PARTS];
  size_t total = total_of(shape, seed);
  uint8_t *data = test_alloc(total);
  cut(entries, data, shape, seed);
  test_fill(data, total, seed);
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      contiguous ? ucxx_tag_send(pair->endpoint, data, total, 4, NULL, &request)
                 : ucxx_tag_send_iov(pair->endpoint, entries, shape->parts, 4, NULL, &request);
  /* The library has copied the array; only the data must stay valid. */
  memset(entries, 0xff, sizeof entries);
  CHECK_OK(finish(status, &request));
  free(data);
}

/* Parts in descending address order with gaps between them, so that a receive into one contiguous
 * buffer would be detected. */
static void recv_side(const pair_t *pair, const shape_t *sent, const shape_t *shape,
                      uint64_t seed) {
  ucxx_buffer_t entries[PARTS + 1], kept[PARTS + 1];
  size_t parts = 0, left = total_of(sent, seed), total = left, offset[PARTS + 1];
  enum { GAP = 7 };
  size_t room = total + GAP * (PARTS + 2);
  uint8_t *data = test_alloc(room), *gathered = test_alloc(total);
  memset(data, 0x5a, room);
  memset(entries, 0, sizeof entries);
  size_t top = room;
  for (; parts < shape->parts && left > 0; parts++) {
    size_t length = shape->length(parts, ~seed);
    entries[parts].length = length < left ? length : left;
    left -= entries[parts].length;
  }
  /* One last part takes the rest. */
  if (left > 0) entries[parts++].length = left;
  for (size_t part = 0; part < parts; part++) {
    top -= GAP + entries[part].length;
    offset[part] = top;
    entries[part].data = data + top;
  }
  memcpy(kept, entries, sizeof kept);
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_tag_recv_iov(pair->worker, entries, parts, 4, UINT64_MAX, &params, &request);
  memset(entries, 0xff, sizeof entries);
  CHECK_OK(finish(status, &request));
  CHECK_EQ(info.length, total);
  size_t at = 0;
  for (size_t part = 0; part < parts; part++) {
    memcpy(gathered + at, data + offset[part], kept[part].length);
    at += kept[part].length;
    memset(data + offset[part], 0x5a, kept[part].length);
  }
  CHECK_EQ(at, total);
  CHECK_CONTENT(gathered, total, seed);
  for (size_t byte = 0; byte < room; byte++)
    if (data[byte] != 0x5a) FAIL("byte %zu between the parts was written", byte);
  free(data);
  free(gathered);
}

static void recv_contiguous(const pair_t *pair, const shape_t *sent, uint64_t seed) {
  size_t total = total_of(sent, seed);
  uint8_t *data = test_alloc(total);
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, data, total, 4, UINT64_MAX, &params, &request);
  CHECK_OK(finish(status, &request));
  CHECK_EQ(info.length, total);
  CHECK_CONTENT(data, total, seed);
  free(data);
}

/* A message longer than all parts together. */
static void truncated(const pair_t *pair, size_t length) {
  STEP("truncation of %zu bytes over two parts", length);
  if (pair->side == 0) {
    uint8_t *data = test_alloc(length);
    test_fill(data, length, pair->seed);
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        finish(ucxx_tag_send(pair->endpoint, data, length, 6, NULL, &request), &request);
    CHECK(status == UCXX_OK || status == UCXX_ERR_MESSAGE_TRUNCATED);
    free(data);
  } else {
    uint8_t parts[2][32];
    memset(parts, 0x5a, sizeof parts);
    ucxx_buffer_t entries[2];
    memset(entries, 0, sizeof entries);
    for (int at = 0; at < 2; at++) {
      entries[at].data = parts[at];
      entries[at].length = 8;
    }
    ucxx_recv_info_t info = {0, 0, {0, 0}};
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.recv_info = &info;
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        ucxx_tag_recv_iov(pair->worker, entries, 2, 6, UINT64_MAX, &params, &request);
    CHECK_STATUS(finish(status, &request), UCXX_ERR_MESSAGE_TRUNCATED);
    CHECK_EQ(info.length, length);
    for (int at = 8; at < 32; at++) CHECK(parts[0][at] == 0x5a && parts[1][at] == 0x5a);
  }
  pair_sync(pair);
}

static void body(pair_t *pair) {
  pair_connect(pair, NULL, NULL, NULL);
  for (size_t out = 0; out < SHAPES; out++) {
    uint64_t seed = test_mix(pair->seed + out);
    for (size_t in = 0; in < SHAPES; in++) {
      STEP("%s into %s", shapes[out].name, shapes[in].name);
      if (pair->side == 0)
        send_side(pair, &shapes[out], seed, 0);
      else
        recv_side(pair, &shapes[out], &shapes[in], seed);
    }
    STEP("%s into one buffer", shapes[out].name);
    if (pair->side == 0)
      send_side(pair, &shapes[out], seed, 0);
    else
      recv_contiguous(pair, &shapes[out], seed);
    STEP("one buffer into %s", shapes[out].name);
    if (pair->side == 0)
      send_side(pair, &shapes[out], seed, 1);
    else
      recv_side(pair, &shapes[out], &shapes[out], seed);
  }
  truncated(pair, 17);
  truncated(pair, 100000);
  truncated(pair, 4 << 20);
  pair_disconnect(pair);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "tag_iov", body); }
