/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * progress_bar.h: a progress bar. On a terminal it shows the rate and the time left. In a file it
 * is a line for every 5 percent, and at most a few lines a second.
 */
#ifndef EXAMPLES_PROGRESS_BAR_H
#define EXAMPLES_PROGRESS_BAR_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_REDRAW_NS (100u * UINT64_C(1000000))
#define PROGRESS_LINE_NS (300u * UINT64_C(1000000))
#define PROGRESS_STEP_PERCENT 5
#define PROGRESS_WIDTH 30

struct progress_bar {
  const char *label;
  uint64_t total, done;
  uint64_t start_ns, drawn_ns;
  unsigned drawn_percent;
  bool terminal;
};

static inline uint64_t progress_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The number of bytes in a unit that leaves one to four digits before the point. */
static inline const char *progress_bytes(char text[32], double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++) bytes /= 1024;
  snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

static inline double progress_seconds(const struct progress_bar *bar) {
  uint64_t now = progress_now_ns();
  return now > bar->start_ns ? (double)(now - bar->start_ns) / 1e9 : 1e-9;
}

static inline void progress_draw(struct progress_bar *bar, unsigned percent) {
  double rate = (double)bar->done / progress_seconds(bar);
  uint64_t left = rate > 0 ? (uint64_t)((double)(bar->total - bar->done) / rate + 0.5) : 0;
  char done[32], total[32], speed[32], bars[PROGRESS_WIDTH + 1];
  memset(bars, '.', PROGRESS_WIDTH);
  memset(bars, '#', percent * PROGRESS_WIDTH / 100);
  bars[PROGRESS_WIDTH] = '\0';
  if (bar->terminal)
    printf("\r%s [%s]", bar->label, bars);
  else
    printf("%s", bar->label);
  printf(" %3u%%  %s of %s  %s/s  %" PRIu64 ":%02" PRIu64 " left", percent,
         progress_bytes(done, (double)bar->done), progress_bytes(total, (double)bar->total),
         progress_bytes(speed, rate), left / 60, left % 60);
  /* The escape sequence clears the rest of a longer earlier line. */
  fputs(bar->terminal ? "\033[K" : "\n", stdout);
  fflush(stdout);
  bar->drawn_percent = percent;
  bar->drawn_ns = progress_now_ns();
}

static inline void progress_start(struct progress_bar *bar, const char *label, uint64_t total) {
  memset(bar, 0, sizeof *bar);
  bar->label = label;
  bar->total = total;
  bar->terminal = isatty(STDOUT_FILENO) == 1;
  bar->start_ns = progress_now_ns();
  /* A short transfer then prints one line only. */
  if (!bar->terminal) bar->drawn_ns = bar->start_ns;
}

static inline void progress_add(struct progress_bar *bar, uint64_t bytes) {
  bar->done += bytes;
  unsigned percent =
      bar->total > 0 ? (unsigned)((double)bar->done * 100.0 / (double)bar->total) : 100;
  bool due =
      progress_now_ns() - bar->drawn_ns >= (bar->terminal ? PROGRESS_REDRAW_NS : PROGRESS_LINE_NS);
  if (!bar->terminal && percent < bar->drawn_percent + PROGRESS_STEP_PERCENT) due = false;
  if (due || (bar->done == bar->total && bytes > 0)) progress_draw(bar, percent);
}

/* Leaves the bar as it is, and goes to the next line. */
static inline void progress_end(struct progress_bar *bar) {
  if (bar->terminal && bar->drawn_ns != 0) putchar('\n');
  fflush(stdout);
}

#endif
