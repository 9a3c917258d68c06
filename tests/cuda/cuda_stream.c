/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Hub streams (connected links) from and into envelopes on a GPU, if UCX can reach it: chunks of
 * every length arrive whole. */
#include "driver.h"

enum { SIZE = 100000, ENVELOPES = 4, WINDOW = 3, CHUNKS = 60 };

static ucxx_hub_t *hub_of(const duo_t *duo, ucxx_worker_t *worker, ucxx_memory_kind_t kind) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub = NULL;
  params.envelope_size = SIZE;
  params.worker = worker;
  CHECK_OK(ucxx_hub_create(duo->context, &params, &hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub, kind, ENVELOPES));
  CHECK_OK(ucxx_hub_add_envelopes(hub, on_pinned, ENVELOPES));
  return hub;
}

/* Empty, a few bytes, eager, and rendezvous. */
static size_t length_of(uint64_t number, uint64_t seed) {
  static const size_t limits[] = {0, 1, 8, 300, 5000, 16383, 16384, SIZE};
  size_t limit = limits[number % 8];
  return number < 8 ? limit : test_mix(seed + number) % (limit + 1);
}

static void run(ucxx_memory_kind_t from, ucxx_memory_kind_t to, const char *name) {
  STEP("%s", name);
  duo_t duo;
  duo_open(&duo, NULL);
  if (!ucxx_context_has_cuda(duo.context)) test_skip("SKIPPED: this UCX does not reach the GPU");
  uint64_t seed = test_seed(), sent = 0, came = 0;
  ucxx_hub_t *near = hub_of(&duo, duo.left, from), *far = hub_of(&duo, duo.right, to);
  ucxx_link_t *in = hub_link(near, UCXX_LINK_PRODUCE, on_pinned),
              *on = hub_link(near, UCXX_LINK_CONSUME, from);
  ucxx_link_t *off = hub_link(far, UCXX_LINK_PRODUCE, to),
              *out = hub_link(far, UCXX_LINK_CONSUME, on_pinned);
  ucxx_status_t status = ucxx_link_connect(on, duo.to_right, 1, WINDOW);
  CHECK_OK(status);
  CHECK_OK(ucxx_link_connect(off, duo.to_left, 1, WINDOW));
  while (came < CHUNKS) {
    ucxx_envelope_t *envelope = NULL;
    if (sent < CHUNKS && ucxx_link_lease(in, 0, &envelope) == UCXX_OK) {
      size_t length = length_of(sent, seed);
      test_fill(look_at(envelope).data, length, seed ^ sent);
      memcpy(look_at(envelope).metadata, &sent, sizeof sent);
      CHECK_OK(ucxx_envelope_commit(envelope, length, NULL));
      sent++;
    }
    status = ucxx_link_lease(out, 0, &envelope);
    if (status == UCXX_OK) {
      ucxx_envelope_attr_t attr = look_at(envelope);
      CHECK(memcmp(attr.metadata, &came, sizeof came) == 0);
      CHECK_EQ(attr.length, length_of(came, seed));
      CHECK_CONTENT(attr.data, attr.length, seed ^ came);
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
      came++;
    } else {
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
    }
    duo_progress(&duo);
  }
  CHECK_OK(ucxx_hub_close(near));
  while ((status = ucxx_hub_drain(near, 0)) == UCXX_ERR_TIMED_OUT) duo_progress(&duo);
  CHECK_OK(status);
  CHECK_EQ(hub_stats(near).chunks_consumed, CHUNKS);
  ucxx_link_t *links[] = {in, on, off, out};
  for (size_t at = 0; at < sizeof links / sizeof *links; at++) ucxx_link_destroy(links[at]);
  ucxx_hub_destroy(near);
  ucxx_hub_destroy(far);
  duo_close(&duo);
}

int main(void) {
  test_begin("cuda_stream");
  cuda_open(0);
  run(on_pinned, on_cuda, "from the host to the GPU");
  run(on_cuda, on_pinned, "from the GPU to the host");
  run(on_cuda, on_cuda, "from the GPU to the GPU");
  cuda_close();
  return 0;
}
