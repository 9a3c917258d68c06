/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Messages of some kilobytes lie in a fast box, memory shared by both processes, until they are
 * destroyed. What the receiver keeps stays as it is: whatever comes after it, and when the
 * connection has ended.
 */
#include "test_util.h"

#include <stdio.h>

enum {
  ID = 11,
  REPLY = 12,
  BUSY = 1000, /* four times what opens a box */
  BATCH = 8,
  ROUND = 20 * BATCH,
  TOTAL = 50 * ROUND + 3 * BATCH,
  KEPT = 40,
  FITS = 16 << 10,
  LONGEST = 20000,
  OFFSETS = 64
};

static uint8_t content[LONGEST + OFFSETS];
static pair_t *pair;
static uint64_t received, came_back;
static int closed;
static ucxx_am_message_t *kept[KEPT];

/* Some do not fit into the box. The last ones do, all together. */
static size_t length_of(uint64_t number) {
  const uint64_t random = test_mix(number ^ pair->seed);
  if (number < BUSY) return 8;
  if (number >= TOTAL - 3 * BATCH) return 200 + random % 800;
  return 1 + random / 1000 % (random % 300 == 0 ? LONGEST : FITS);
}

static const uint8_t *data_of(uint64_t number) { return content + number % OFFSETS; }

static void send_message(uint16_t id, uint64_t number) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  /* Where it does not fit into the box, either. */
  params.flags = length_of(number) > 4096 ? UCXX_FLAG_EAGER : 0;
  const ucxx_status_t status = ucxx_am_send(pair->endpoint, id, &number, sizeof number,
                                            data_of(number), length_of(number), &params, NULL);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
}

static void check(const ucxx_am_message_t *message, uint64_t number) {
  const void *data = ucxx_am_message_data(message);
  CHECK_EQ(ucxx_am_message_length(message), length_of(number));
  CHECK(data != NULL && memcmp(data, data_of(number), length_of(number)) == 0);
}

static uint64_t number_of(const ucxx_am_message_t *message) {
  uint64_t number;
  memcpy(&number, ucxx_am_message_header(message, NULL), sizeof number);
  return number;
}

static void drop(int place) {
  if (kept[place] == NULL) return;
  check(kept[place], number_of(kept[place]));
  ucxx_am_message_destroy(kept[place]);
  kept[place] = NULL;
}

/* Half of them are kept, in place of others; the last ones for good. The first batch of a round is
 * not: the box is used again when all that went another way is gone. */
static void on_message(void *arg, ucxx_am_message_t *message) {
  const uint64_t number = number_of(message), random = test_mix(number + pair->seed);
  const int is_last = number >= TOTAL - BATCH;
  (void)arg;
  CHECK_EQ(number, received);
  received++;
  check(message, number);
  if (number >= BUSY && number % ROUND >= BATCH && (random % 2 == 0 || is_last)) {
    const int place = (int)((is_last ? number : random / 2) % KEPT);
    drop(place);
    kept[place] = message;
  } else {
    ucxx_am_message_destroy(message);
  }
}

static void on_reply(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  ucxx_am_message_destroy(message);
  came_back++;
}

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg;
  (void)endpoint;
  (void)status;
  closed = 1;
}

/* What is kept in memory that another process of this library shares. */
static int kept_in_boxes(void) {
  char line[512];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    if (strstr(line, "memfd:ucxx_rs") == NULL) continue;
    CHECK_EQ(sscanf(line, "%lx-%lx", &begin, &end), 2);
    for (int place = 0; place < KEPT; place++) {
      const void *data = kept[place] == NULL ? NULL : ucxx_am_message_data(kept[place]);
      count += (unsigned long)data >= begin && (unsigned long)data < end;
    }
  }
  fclose(maps);
  return count;
}

static void find_box(void *arg, const char *text) {
  int *found = arg;
  *found |= strstr(text, "through fast boxes") != NULL;
}

static void body(pair_t *both) {
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  int has_box = 0;
  pair = both;
  test_fill(content, sizeof content, 5);
  endpoint_params.on_close = on_close;
  pair_connect(pair, NULL, NULL, &endpoint_params);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, on_message, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, REPLY, on_reply, NULL, NULL));
  pair_sync(pair);

  STEP("messages in batches, of which many are kept");
  for (uint64_t number = 0; number < TOTAL; number++) {
    if (pair->side == 0) {
      /* With the reply to a batch this side learns which messages are gone. */
      while (number % BATCH == 0 && came_back * BATCH < number) progress(pair->worker);
      send_message(ID, number);
    } else {
      while (received <= number) progress(pair->worker);
      /* Now and then the whole box is free again. */
      for (int place = 0; place < KEPT && number % ROUND == 0; place++) drop(place);
      if (number % BATCH == BATCH - 1) send_message(REPLY, 0);
    }
  }
  pair_sync(pair);
  CHECK_OK(ucxx_worker_dump(pair->worker, find_box, &has_box));
  if (pair->side == 1) CHECK_EQ(kept_in_boxes() > 0, has_box);

  STEP("the connection ends");
  ucxx_request_t *request = NULL;
  if (pair->side == 0) {
    CHECK_OK(finish(close_patiently(pair->endpoint, &request), &request));
  } else {
    while (!closed) progress(pair->worker);
  }
  ucxx_endpoint_destroy(pair->endpoint);
  pair_sync(pair);
  if (pair->side == 1) CHECK_EQ(kept_in_boxes() > 0, has_box);
  for (int place = 0; place < KEPT / 2; place++) drop(place);
  pair_sync(pair);
  ucxx_worker_destroy(pair->worker);
  for (int place = KEPT / 2; place < KEPT; place++) {
    if (kept[place] == NULL) continue;
    CHECK(ucxx_am_message_data(kept[place]) == NULL);
    ucxx_am_message_destroy(kept[place]);
  }
  ucxx_context_destroy(pair->context);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "fast_box_lent", body); }
