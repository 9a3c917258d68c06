/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Multi-buffer transfer between two processes: random numbers and sizes of frames, both ways at
 * once, in every progress mode, arrive whole and in order. */
#include "multi.h"

enum { ROUNDS = 30, AT_ONCE = 6 };
static const uint64_t LARGEST = 64 << 20;

static pair_t *pair;
static int played;

/* What is sent in a round; the same on both sides except for `side`. */
static size_t plan(uint64_t seed, size_t *lengths) {
  static const size_t numbers[] = {0, 1, 8, 99, 100, 101, 250};
  uint64_t random = test_mix(seed);
  size_t count = random % 2 ? numbers[random / 2 % 7] : random / 2 % 30;
  uint64_t left = random % 11 == 0 ? LARGEST : 1 << 20;
  for (size_t at = 0; at < count; at++) {
    uint64_t size = test_mix(seed + 1 + at), most = (uint64_t)1 << (size % 27);
    lengths[at] = size % 5 == 0 ? 0 : (size / 32) % (most < left + 1 ? most : left + 1);
    left -= lengths[at];
  }
  return count;
}

static void round_of(uint64_t seed) {
  frames_t *frames = test_alloc(AT_ONCE * sizeof *frames);
  size_t(*lengths)[MOST_FRAMES] = test_alloc(AT_ONCE * sizeof *lengths);
  ucxx_request_t *sent[AT_ONCE] = {0}, *received[AT_ONCE] = {0};
  ucxx_status_t statuses[AT_ONCE];
  size_t number = 1 + seed % AT_ONCE;
  for (size_t at = 0; at < number; at++) {
    CHECK_STATUS(ucxx_tag_recv_multi(pair->worker, 7, seed % 2 ? UINT64_MAX : 0xf, NULL, NULL,
                                     &received[at]),
                 UCXX_INPROGRESS);
    uint64_t mine = test_mix(seed * 100 + at * 2 + (uint64_t)pair->side);
    frames_make(&frames[at], plan(mine, lengths[at]), lengths[at], mine);
    statuses[at] =
        ucxx_tag_send_multi(pair->endpoint, frames[at].list, frames[at].count, 7, NULL, &sent[at]);
    CHECK(statuses[at] == UCXX_OK || statuses[at] == UCXX_INPROGRESS);
  }
  for (size_t at = 0; at < number; at++) {
    uint64_t theirs = test_mix(seed * 100 + at * 2 + (uint64_t)(1 - pair->side));
    size_t wanted[MOST_FRAMES], count = plan(theirs, wanted);
    ucxx_buffers_t *buffers = NULL;
    CHECK_OK(ucxx_request_wait(received[at], FOR_EVER));
    CHECK_OK(ucxx_request_take_buffers(received[at], &buffers));
    ucxx_request_destroy(received[at]);
    frames_check(buffers, count, wanted, theirs);
    if (count > 0 && wanted[0] > 0) {
      ucxx_buffer_t taken;
      CHECK_OK(ucxx_buffers_take(buffers, 0, &taken));
      ucxx_buffers_destroy(buffers);
      CHECK_CONTENT(taken.data, wanted[0], frame_seed(theirs, 0));
      free(taken.data);
    } else {
      ucxx_buffers_destroy(buffers);
    }
  }
  for (size_t at = 0; at < number; at++) {
    CHECK_OK(finish(statuses[at], &sent[at]));
    frames_free(&frames[at]);
  }
  free(lengths);
  free(frames);
}

static void in_this_mode(const ucxx_worker_params_t *params, const char *mode) {
  ucxx_endpoint_params_t endpoint = UCXX_ENDPOINT_PARAMS_INIT;
  played++;
  if (played % 2) endpoint.send_window_ops = 7; /* the frames of one transfer wait for each other */
  pair_connect(pair, NULL, params, &endpoint);
  for (int at = 0; at < (int)test_rounds(ROUNDS); at++) {
    STEP("%s, round %d", mode, at);
    round_of(test_mix(pair->seed + (uint64_t)(100 * played + at)));
  }
  pair_sync(pair);
  pair_disconnect(pair);
}

static void body(pair_t *this_pair) {
  pair = this_pair;
  in_every_mode(in_this_mode);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "multi_pair", body); }
