/* Bad input: version, log and contexts. See bad_input.h. */
#include "bad_input.h"

static const ucxx_config_entry_t fine_entry = {"KEEPALIVE_INTERVAL", "2s"};

static void ignore_log(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg;
  (void)level;
  (void)component;
  (void)message;
}

static void ignore_line(void *arg, const char *line) {
  (void)arg;
  (void)line;
}

static void ignore_config(void *arg, const char *key, const char *value) {
  (void)arg;
  (void)key;
  (void)value;
}

static ucxx_status_t query_version(fixture_t *f, void *out) {
  (void)f;
  return ucxx_version_query(out);
}

/* A wrong configuration may be detected only when a worker is created. */
static ucxx_status_t try_context(fixture_t *f, const void *params) {
  ucxx_context_t *context = NULL;
  ucxx_status_t status = ucxx_context_create(params, &context);
  if (status != UCXX_OK) {
    CHECK(context == NULL);
    return status;
  }
  status = ucxx_worker_create(context, NULL, &f->out.worker);
  if (status == UCXX_OK) ucxx_worker_destroy(f->out.worker);
  /* Destroyed only here, so that the error message must outlive it. */
  ucxx_context_destroy(context);
  return status;
}

static ucxx_status_t try_features(fixture_t *f, uint64_t features) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.features = features;
  return try_context(f, &params);
}

static ucxx_status_t try_network(fixture_t *f, int32_t network) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.network = network;
  return try_context(f, &params);
}

static ucxx_status_t try_config(fixture_t *f, const ucxx_config_entry_t *config, size_t count) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  params.config = config;
  params.config_count = count;
  return try_context(f, &params);
}

static ucxx_status_t try_entry(fixture_t *f, const char *key, const char *value) {
  ucxx_config_entry_t entry = {key, value};
  return try_config(f, &entry, 1);
}

#define BAD_INPUT_ROWS "bad_input_context.inc"
#define BAD_INPUT_TABLE bad_input_context
#include "bad_input_table.h"
