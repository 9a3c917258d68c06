/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _XOPEN_SOURCE 700
#include "perf_report.h"

#include "json.h"
#include "perf_ways.h"

/* What is reported of a round. The table has the columns with a head. */
enum value {
  BYTES,
  ITERATIONS,
  WINDOW,
  AVERAGE,
  P50,
  P90,
  P99,
  P99_9,
  MOST,
  MEGABYTES,
  MESSAGES,
  CPU_USER,
  CPU_SYSTEM,
  CPU,
  SERVER_USER,
  SERVER_SYSTEM,
  SERVER,
  VALUES
};

static const struct column {
  const char *key, *head;
  int width, table_decimals, decimals;
} columns[VALUES] = {
    [BYTES] = {"bytes", "bytes", 10, 0, 0},
    [ITERATIONS] = {"iterations", "iterations", 11, 0, 0},
    [WINDOW] = {"window", "window", 7, 0, 0},
    [AVERAGE] = {"average_us", "average", 9, 3, 6},
    [P50] = {"p50_us", "p50", 9, 3, 6},
    [P90] = {"p90_us", "p90", 9, 3, 6},
    [P99] = {"p99_us", "p99", 9, 3, 6},
    [P99_9] = {"p99_9_us", "p99.9", 9, 3, 6},
    [MOST] = {"max_us", "max", 9, 3, 6},
    [MEGABYTES] = {"megabytes_per_second", "MB/s", 11, 1, 3},
    [MESSAGES] = {"messages_per_second", "messages/s", 12, 0, 1},
    [CPU_USER] = {"cpu_user_us", NULL, 0, 0, 6},
    [CPU_SYSTEM] = {"cpu_system_us", NULL, 0, 0, 6},
    [CPU] = {"cpu_us", "cpu", 9, 3, 6},
    [SERVER_USER] = {"server_cpu_user_us", NULL, 0, 0, 6},
    [SERVER_SYSTEM] = {"server_cpu_system_us", NULL, 0, 0, 6},
    [SERVER] = {"server_cpu_us", "server", 9, 3, 6},
};

static const struct percentile {
  enum value value;
  double share;
} percentiles[] = {{P50, 0.5}, {P90, 0.9}, {P99, 0.99}, {P99_9, 0.999}, {MOST, 1.0}};
#define PERCENTILES (sizeof percentiles / sizeof percentiles[0])

/* ------------------------------------------------------------------ what was measured */

static void merge(struct histogram *into, const struct histogram *from) {
  into->count += from->count;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) into->buckets[i] += from->buckets[i];
  if (from->min < into->min) into->min = from->min;
  if (from->max > into->max) into->max = from->max;
}

/* The rate is that of all lanes together, the times are those of single operations. */
static void evaluate(const struct crew *crew, const struct cost *peer, double *values) {
  const struct bench *first = &crew->lanes[0].bench;
  const struct round *round = &first->round;
  uint64_t start_ns = UINT64_MAX, end_ns = 0;
  double busy_ns = 0, count = (double)round->iterations * crew->size,
         share = crew->test.halves ? 0.5 : 1;
  for (unsigned i = 0; i < crew->size; i++) {
    const struct bench *bench = &crew->lanes[i].bench;
    busy_ns += (double)(bench->end_ns - bench->start_ns) * share;
    if (bench->start_ns < start_ns) start_ns = bench->start_ns;
    if (bench->end_ns > end_ns) end_ns = bench->end_ns;
    if (i > 0) merge(first->times, bench->times);
  }
  double elapsed_s = (double)(end_ns > start_ns ? end_ns - start_ns : 1) / 1e9 * share;
  values[BYTES] = (double)round->size;
  values[ITERATIONS] = count;
  values[WINDOW] = round->window;
  values[AVERAGE] = busy_ns / 1e3 / count;
  values[MESSAGES] = count / elapsed_s;
  values[MEGABYTES] = values[MESSAGES] * (double)round->size / 1e6;
  for (size_t i = 0; i < PERCENTILES; i++)
    values[percentiles[i].value] =
        (double)histogram_quantile(first->times, percentiles[i].share) / 1e6;
  values[CPU_USER] = crew->cost.user_s * 1e6 / count;
  values[CPU_SYSTEM] = crew->cost.system_s * 1e6 / count;
  values[CPU] = values[CPU_USER] + values[CPU_SYSTEM];
  values[SERVER_USER] = peer->user_s * 1e6 / count;
  values[SERVER_SYSTEM] = peer->system_s * 1e6 / count;
  values[SERVER] = values[SERVER_USER] + values[SERVER_SYSTEM];
}

/* ------------------------------------------------------------------ how */

struct facts {
  char ucx[32], transports[256];
  ucxx_version_t version;
  const char *times;
};

static const char *times_of(const struct test *test) {
  if (test->halves) return "one way, microseconds";
  return test->pattern->default_window == 1
             ? "for each operation, microseconds"
             : "for each message, averaged over a window, microseconds";
}

static struct facts gather(const struct crew *crew) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  struct facts facts = {.version = UCXX_VERSION_INIT, .times = times_of(&crew->test)};
  bool known = ucxx_endpoint_query(crew->lanes[0].session.endpoints[0], &attr) == UCXX_OK &&
               attr.transports[0] != '\0';
  ucxx_version_query(&facts.version);
  snprintf(facts.ucx, sizeof facts.ucx, "%u.%u.%u", facts.version.ucx_major,
           facts.version.ucx_minor, facts.version.ucx_patch);
  snprintf(facts.transports, sizeof facts.transports, "%s", known ? attr.transports : "unknown");
  return facts;
}

static void json_member(FILE *out, const char *key, const char *value) {
  fprintf(out, "\"%s\":", key);
  json_string(out, value);
  putc(',', out);
}

static void begin_json(FILE *out, const struct crew *crew, const struct facts *facts,
                       const char *server) {
  const struct session *session = &crew->lanes[0].session;
  const struct drive *drive = &session->drive;
  const struct plan *plan = &crew->config->plan;
  putc('{', out);
  json_member(out, "program", "ucxx_rs_perftest");
  json_member(out, "test", crew->test.name);
  json_member(out, "version", facts->version.version_string);
  json_member(out, "ucx", facts->ucx);
  json_member(out, "transports", facts->transports);
  json_member(out, "times", facts->times);
  json_member(out, "peer", session->oob->peer);
  json_member(out, "server", server);
  json_member(out, "progress", progress_name(drive->progress));
  json_member(out, "wait", wait_name(drive->wait));
  json_member(out, "thread_mode", thread_name(drive->thread));
  json_member(out, "submission", submission_name(session));
  json_member(out, "error_handling", error_handling_name(drive->error_handling));
  json_member(out, "memory", memory_name(plan->memory[0]));
  json_member(out, "server_memory", memory_name(plan->memory[1]));
  fprintf(out, "\"threads\":%u,\"endpoints\":%u,\"frames\":%u,", plan->threads, plan->endpoints,
          plan->frames);
  fprintf(out, "\"verify\":%s,\"own_buffers\":%s,\"results\":[\n", plan->verify ? "true" : "false",
          plan->own_buffers ? "true" : "false");
}

static void begin_table(FILE *out, const struct crew *crew, const struct facts *facts,
                        const char *server) {
  const struct session *session = &crew->lanes[0].session;
  const struct drive *drive = &session->drive;
  const struct plan *plan = &crew->config->plan;
  fprintf(out, "# %s: %s: %s\n", crew->test.name, crew->test.way->summary,
          pattern_summary(&crew->test));
  fprintf(out, "# ucxx_rs %s on UCX %s, to %s\n", facts->version.version_string, facts->ucx,
          session->oob->peer);
  fprintf(out, "# transports %s; error handling %s\n", facts->transports,
          error_handling_name(drive->error_handling));
  fprintf(out, "# threads %u, endpoints of each %u, memory %s, the server's %s\n", plan->threads,
          plan->endpoints, memory_name(plan->memory[0]), memory_name(plan->memory[1]));
  fprintf(out, "# here:   progress %s, wait %s, thread mode %s, submission %s\n",
          progress_name(drive->progress), wait_name(drive->wait), thread_name(drive->thread),
          submission_name(session));
  fprintf(out, "# server: %s\n", server);
  fprintf(out,
          "# times: %s; cpu, server: CPU time of each side for a message; MB = 1000000 bytes\n",
          facts->times);
  for (int i = 0; i < VALUES; i++)
    if (columns[i].head != NULL)
      fprintf(out, "%s%*s", i > 0 ? " " : "", columns[i].width, columns[i].head);
  putc('\n', out);
}

void report_begin(struct report *report, const struct crew *crew, const char *server) {
  struct facts facts = gather(crew);
  report->begun = true;
  switch (report->format) {
  case OUTPUT_JSON: begin_json(report->out, crew, &facts, server); break;
  case OUTPUT_TABLE: begin_table(report->out, crew, &facts, server); break;
  case OUTPUT_CSV:
    fprintf(report->out, "test,threads,endpoints,transports");
    for (int i = 0; i < VALUES; i++) fprintf(report->out, ",%s", columns[i].key);
    fprintf(report->out, ",verified\n");
    break;
  }
  fflush(report->out);
}

/* Transports have commas between them. */
static void csv_start(FILE *out, const struct crew *crew) {
  struct facts facts = gather(crew);
  fprintf(out, "%s,%u,%u,\"%s\"", crew->test.name, crew->config->plan.threads,
          crew->config->plan.endpoints, facts.transports);
}

static void write_row(struct report *report, const struct crew *crew, const double *values) {
  FILE *out = report->out;
  switch (report->format) {
  case OUTPUT_TABLE:
    for (int i = 0; i < VALUES; i++)
      if (columns[i].head != NULL)
        fprintf(out, "%s%*.*f", i > 0 ? " " : "", columns[i].width, columns[i].table_decimals,
                values[i]);
    putc('\n', out);
    break;
  case OUTPUT_JSON:
    fputs(report->rows > 0 ? ",\n{" : "{", out);
    for (int i = 0; i < VALUES; i++)
      fprintf(out, "%s\"%s\":%.*f", i > 0 ? "," : "", columns[i].key, columns[i].decimals,
              values[i]);
    putc('}', out);
    break;
  case OUTPUT_CSV:
    csv_start(out, crew);
    for (int i = 0; i < VALUES; i++) fprintf(out, ",%.*f", columns[i].decimals, values[i]);
    fprintf(out, ",%d\n", crew->config->plan.verify);
    break;
  }
  report->rows++;
  fflush(out);
}

void report_row(struct report *reports, unsigned count, const struct crew *crew,
                const struct cost *peer) {
  double values[VALUES];
  evaluate(crew, peer, values);
  for (unsigned i = 0; i < count; i++) write_row(&reports[i], crew, values);
}

void report_end(struct report *report, const struct failure *failure) {
  /* Complete the document, also if the measurement failed. */
  if (report->begun && report->format == OUTPUT_JSON) {
    fputs("\n],\"error\":", report->out);
    if (failed(failure))
      json_string(report->out, failure->text);
    else
      fputs("null", report->out);
    fputs("}\n", report->out);
  }
  fflush(report->out);
}
