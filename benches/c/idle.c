/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The cost of a connected worker that has nothing to do: CPU time of the process, and how often its
 * threads, except the measuring one, were woken. The other side is idle too. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "link_threaded.h"

/* Time for the rest of opening the endpoints. */
enum { SETTLE_SECONDS = 1 };

static uint64_t cpu_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static long wakeups_of(const char *task) {
  char path[300], line[256];
  long wakeups = 0, value;
  snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0; /* the thread has ended */
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "voluntary_ctxt_switches: %ld", &value) == 1) wakeups += value;
  fclose(file);
  return wakeups;
}

/* A thread that blocked was woken once for each time. The list of threads is for the reader of a
 * trace. */
static long wakeups(char *threads, size_t capacity) {
  long sum = 0;
  size_t length = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) die("/proc is not mounted");
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.' || atol(entry->d_name) == getpid()) continue;
    sum += wakeups_of(entry->d_name);
    if (threads != NULL && length + strlen(entry->d_name) + 2 < capacity)
      length += (size_t)snprintf(threads + length, capacity - length, "%s%s", length > 0 ? "," : "",
                                 entry->d_name);
  }
  closedir(tasks);
  return sum;
}

static void sleep_for(long seconds) {
  struct timespec time = {.tv_sec = seconds, .tv_nsec = 0};
  while (nanosleep(&time, &time) != 0) continue;
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  char threads[1024] = "";
  options.seconds = 5;
  options.peer_errors = 1;
  options.progress = PROGRESS_ADAPTIVE;
  options.cpu[1] = 1;
  options.socket = -1;
  options.producers = 1;
  harness_start(argc, argv, 1, &options);
  link_establish(&link, &options);
  threaded_begin(&link, &options);
  if (options.side == 0) {
    sleep_for(SETTLE_SECONDS);
    const long woken = wakeups(threads, sizeof threads);
    report_text(&options, "threads", threads);
    if (options.markers) mark_begin();
    const uint64_t used = cpu_ns(), start = now_ns();
    sleep_for(options.seconds);
    const double spent = (double)(cpu_ns() - used), elapsed = (double)(now_ns() - start);
    if (options.markers) mark_end();
    report_number(&options, "cpu_percent", 100.0 * spent / elapsed);
    report_number(&options, "wakeups_per_second",
                  (double)(wakeups(NULL, 0) - woken) / (elapsed * 1e-9));
    harness_signal(&options);
  } else {
    harness_await(&options);
  }
  threaded_end(&link);
  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  return 0;
}
