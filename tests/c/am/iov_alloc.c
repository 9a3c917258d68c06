/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Scattered buffers: in steady state the library allocates nothing for them, for every kind of
 * message and every protocol. The test counts the allocations of its thread. */
#include "allocations.h"

enum { LONG = 100000, WARM = 300, ROUNDS = 300, ID = 3, TAG = 9, PARTS = 3 };

static duo_t duo;
static char data[LONG], room[LONG];
static ucxx_am_message_t *message;
static ucxx_fetch_t *question;

static void on_message(void *arg, ucxx_am_message_t *came) {
  (void)arg;
  message = came;
}

static void on_question(void *arg, ucxx_fetch_t *came) {
  (void)arg;
  question = came;
}

/* One part is empty. */
static void scatter(ucxx_buffer_t *parts, char *memory, size_t length) {
  memset(parts, 0, PARTS * sizeof *parts);
  parts[0].data = memory;
  parts[0].length = length / 3;
  parts[2].data = memory + length / 3;
  parts[2].length = length - length / 3;
}

static void by_message(size_t length, uint64_t flags) {
  ucxx_buffer_t out[PARTS], in[PARTS];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *send = NULL, *receive = NULL;
  scatter(out, data, length);
  scatter(in, room, length);
  params.flags = flags;
  message = NULL;
  ucxx_status_t status = ucxx_am_send_iov(duo.to_right, ID, "head", 4, out, PARTS, &params, &send);
  while (message == NULL) duo_progress(&duo);
  ucxx_status_t received = ucxx_am_message_recv_iov(message, in, PARTS, NULL, &receive);
  CHECK_OK(duo_finish(&duo, received, &receive));
  ucxx_am_message_destroy(message);
  CHECK_OK(duo_finish(&duo, status, &send));
}

static void by_fetch(size_t length, uint64_t flags) {
  ucxx_buffer_t out[PARTS], in[PARTS];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *fetch = NULL, *reply = NULL;
  scatter(out, data, length);
  scatter(in, room, length);
  params.flags = flags;
  question = NULL;
  ucxx_status_t status = ucxx_am_fetch_iov(duo.to_right, ID, "head", 4, in, PARTS, NULL, &fetch);
  while (question == NULL) duo_progress(&duo);
  ucxx_status_t replied = ucxx_fetch_reply_iov(question, out, PARTS, &params, &reply);
  CHECK_OK(duo_finish(&duo, replied, &reply));
  ucxx_fetch_destroy(question);
  CHECK_OK(duo_finish(&duo, status, &fetch));
}

static void by_tag(size_t length, uint64_t flags) {
  ucxx_buffer_t out[PARTS], in[PARTS];
  ucxx_request_t *send = NULL, *receive = NULL;
  (void)flags;
  scatter(out, data, length);
  scatter(in, room, length);
  ucxx_status_t received = ucxx_tag_recv_iov(duo.right, in, PARTS, TAG, UINT64_MAX, NULL, &receive);
  ucxx_status_t status = ucxx_tag_send_iov(duo.to_right, out, PARTS, TAG, NULL, &send);
  CHECK_OK(duo_finish(&duo, status, &send));
  CHECK_OK(duo_finish(&duo, received, &receive));
}

static void count(const char *what, void (*transfer)(size_t length, uint64_t flags), size_t length,
                  uint64_t flags) {
  STEP("%s of %zu bytes, flags %llx", what, length, (unsigned long long)flags);
  for (int round = 0; round < WARM; round++) transfer(length, flags);
  own_allocations = 0;
  counting = 1;
  for (int round = 0; round < ROUNDS; round++) {
    memset(room, 0, length);
    transfer(length, flags);
    CHECK(memcmp(room, data, length) == 0);
  }
  counting = 0;
  CHECK_EQ(own_allocations, 0);
}

int main(void) {
  test_begin("iov_alloc");
  test_fill(data, sizeof data, 1);
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, on_message, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, ID, on_question, NULL, NULL));
  static const size_t lengths[] = {90, 5000, LONG};
  static const uint64_t flags[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  for (int length = 0; length < 3; length++) {
    count("tag messages", by_tag, lengths[length], 0);
    for (int flag = 0; flag < 3; flag++) {
      count("messages", by_message, lengths[length], flags[flag]);
      count("fetches", by_fetch, lengths[length], flags[flag]);
    }
  }
  duo_close(&duo);
  return 0;
}
