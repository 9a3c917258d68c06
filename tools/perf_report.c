/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#include "perf_report.h"

#include <inttypes.h>
#include <string.h>

static const struct percentile {
  const char *name, *key;
  double share;
} percentiles[] = {{"p50", "p50_us", 0.5},
                   {"p90", "p90_us", 0.9},
                   {"p99", "p99_us", 0.99},
                   {"p99.9", "p99_9_us", 0.999},
                   {"max", "max_us", 1.0}};
#define PERCENTILES (sizeof percentiles / sizeof percentiles[0])

static double us(uint64_t picoseconds) { return (double)picoseconds / 1e6; }

static void json_string(const char *text) {
  putchar('"');
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      printf("\\%c", c);
    else if (c < ' ')
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

static void transports_of(const struct session *session, char *text, size_t capacity) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  snprintf(text, capacity, "unknown");
  if (ucxx_endpoint_query(session->endpoint, &attr) == UCXX_OK && attr.transports[0] != '\0')
    snprintf(text, capacity, "%s", attr.transports);
}

static void begin_json(const struct session *session, const struct test *test,
                       const struct plan *plan, const char *server, const ucxx_version_t *version,
                       const char *transports) {
  const struct drive *drive = &session->drive;
  printf("{\"program\":\"ucxx_rs_perftest\",\"version\":\"%s\",\"ucx\":\"%u.%u.%u\",\"test\":\"%"
         "s\",\"transports\":",
         version->version_string, version->ucx_major, version->ucx_minor, version->ucx_patch,
         test->name);
  json_string(transports);
  printf(",\"peer\":");
  json_string(session->oob->peer);
  printf(",\"server\":");
  json_string(server);
  printf(",\"progress\":\"%s\",\"wait\":\"%s\",\"thread_mode\":\"%s\",\"submission\":\"%s\","
         "\"error_handling\":\"%s\",\"verify\":%s,\"own_buffers\":%s,",
         progress_name(drive->progress), wait_name(drive->wait), thread_name(drive->thread),
         submission_name(session), error_handling_name(drive->error_handling),
         plan->verify ? "true" : "false", plan->own_buffers ? "true" : "false");
  printf("\"times\":\"%s\",\"results\":[\n",
         test->one_way ? "one way, microseconds"
                       : "for each message, averaged over a window, microseconds");
}

static void begin_table(const struct session *session, const struct test *test, const char *server,
                        const ucxx_version_t *version, const char *transports) {
  const struct drive *drive = &session->drive;
  printf("# %s: %s\n", test->name, test->summary);
  printf("# ucxx_rs %s on UCX %u.%u.%u, to %s\n", version->version_string, version->ucx_major,
         version->ucx_minor, version->ucx_patch, session->oob->peer);
  printf("# transports %s; error handling %s\n", transports,
         error_handling_name(drive->error_handling));
  printf("# here:   progress %s, wait %s, thread mode %s, submission %s\n",
         progress_name(drive->progress), wait_name(drive->wait), thread_name(drive->thread),
         submission_name(session));
  printf("# server: %s\n", server);
  printf("# times in microseconds, %s; MB = 1000000 bytes\n",
         test->one_way ? "one way" : "for each message, averaged over a window");
  printf("%10s %11s %7s %9s", "bytes", "iterations", "window", "average");
  for (size_t i = 0; i < PERCENTILES; i++) printf(" %9s", percentiles[i].name);
  printf(" %11s %12s\n", "MB/s", "messages/s");
}

void report_begin(struct report *report, const struct session *session, const struct test *test,
                  const struct plan *plan, const char *server) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  char transports[256];
  ucxx_version_query(&version);
  transports_of(session, transports, sizeof transports);
  report->begun = true;
  switch (report->format) {
  case OUTPUT_JSON: begin_json(session, test, plan, server, &version, transports); break;
  case OUTPUT_TABLE: begin_table(session, test, server, &version, transports); break;
  case OUTPUT_CSV:
    printf("test,bytes,iterations,window,average_us");
    for (size_t i = 0; i < PERCENTILES; i++) printf(",%s", percentiles[i].key);
    printf(",megabytes_per_second,messages_per_second,verified\n");
    break;
  }
  fflush(stdout);
}

void report_row(struct report *report, const struct bench *bench, const struct test *test) {
  const struct round *round = &bench->round;
  double elapsed_s = (double)(bench->elapsed_ns > 0 ? bench->elapsed_ns : 1) / 1e9;
  double rate = (double)round->iterations / elapsed_s,
         average = elapsed_s * 1e6 / (double)round->iterations;
  double megabytes = rate * (double)round->size / 1e6, times[PERCENTILES];
  for (size_t i = 0; i < PERCENTILES; i++)
    times[i] = us(histogram_quantile(bench->times, percentiles[i].share));
  switch (report->format) {
  case OUTPUT_TABLE:
    printf("%10" PRIu64 " %11" PRIu64 " %7u %9.3f", round->size, round->iterations,
           (unsigned)round->window, average);
    for (size_t i = 0; i < PERCENTILES; i++) printf(" %9.3f", times[i]);
    printf(" %11.1f %12.0f\n", megabytes, rate);
    break;
  case OUTPUT_JSON:
    printf("%s{\"bytes\":%" PRIu64 ",\"iterations\":%" PRIu64 ",\"window\":%u,\"average_us\":%.6f",
           report->rows > 0 ? ",\n" : "", round->size, round->iterations, (unsigned)round->window,
           average);
    for (size_t i = 0; i < PERCENTILES; i++) printf(",\"%s\":%.6f", percentiles[i].key, times[i]);
    printf(",\"megabytes_per_second\":%.3f,\"messages_per_second\":%.1f}", megabytes, rate);
    break;
  case OUTPUT_CSV:
    printf("%s,%" PRIu64 ",%" PRIu64 ",%u,%.6f", test->name, round->size, round->iterations,
           (unsigned)round->window, average);
    for (size_t i = 0; i < PERCENTILES; i++) printf(",%.6f", times[i]);
    printf(",%.3f,%.1f,%d\n", megabytes, rate, bench->plan->verify);
    break;
  }
  report->rows++;
  fflush(stdout);
}

void report_end(struct report *report, const struct failure *failure) {
  /* Complete the document, also if the measurement failed. */
  if (report->begun && report->format == OUTPUT_JSON) {
    printf("\n],\"error\":");
    if (failed(failure))
      json_string(failure->text);
    else
      printf("null");
    printf("}\n");
  }
  fflush(stdout);
}
