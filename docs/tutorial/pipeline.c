/* pipeline.c: one thread makes chunks of numbers, another one adds them up. A hub joins them.
 *
 *     ./pipeline
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

#define CHUNKS 100
#define NUMBERS 1000 /* in a chunk */
#define ENVELOPES 4 /* so many chunks exist at a time; then the producer waits */

static void check(ucxx_status_t status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

struct pipeline {
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
};

static void *produce(void *arg) {
  struct pipeline *pipeline = arg;
  for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
    ucxx_envelope_t *envelope;
    ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
    check(ucxx_link_lease(pipeline->in, UINT64_MAX, &envelope), "lease an envelope");
    check(ucxx_envelope_query(envelope, &attr), "query");
    uint64_t *numbers = attr.data; /* room for attr.capacity bytes */
    for (uint64_t at = 0; at < NUMBERS; at++) numbers[at] = chunk * NUMBERS + at;
    check(ucxx_envelope_commit(envelope, NUMBERS * sizeof *numbers, NULL), "commit");
  }
  check(ucxx_hub_close(pipeline->hub), "close"); /* there will be no more chunks */
  return NULL;
}

int main(void) {
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  struct pipeline pipeline;
  ucxx_context_t *context;
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = NUMBERS * sizeof(uint64_t);

  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_hub_create(context, &params, &pipeline.hub), "hub");
  check(ucxx_hub_add_envelopes(pipeline.hub, host, ENVELOPES), "envelopes");
  check(ucxx_link_create(pipeline.hub, UCXX_LINK_PRODUCE, host, NULL, &pipeline.in), "link");
  check(ucxx_link_create(pipeline.hub, UCXX_LINK_CONSUME, host, NULL, &pipeline.out), "link");

  pthread_t producer;
  if (pthread_create(&producer, NULL, produce, &pipeline) != 0) return 1;

  ucxx_envelope_t *envelope;
  ucxx_status_t status;
  uint64_t sum = 0, chunks = 0;
  while ((status = ucxx_link_lease(pipeline.out, UINT64_MAX, &envelope)) == UCXX_OK) {
    ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
    check(ucxx_envelope_query(envelope, &attr), "query");
    const uint64_t *numbers = attr.data;
    for (uint64_t at = 0; at < attr.length / sizeof *numbers; at++) sum += numbers[at];
    chunks++;
    check(ucxx_envelope_commit(envelope, 0, NULL), "commit"); /* its envelope is free again */
  }
  if (status != UCXX_ERR_CLOSED) check(status, "lease a chunk"); /* CLOSED: the end */
  pthread_join(producer, NULL);
  printf("%llu chunks, sum %llu\n", (unsigned long long)chunks, (unsigned long long)sum);

  ucxx_link_destroy(pipeline.in);
  ucxx_link_destroy(pipeline.out);
  ucxx_hub_destroy(pipeline.hub);
  ucxx_context_destroy(context);
  return 0;
}
