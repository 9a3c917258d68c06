/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _GNU_SOURCE /* environ */
#include "perf_plot.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT "ucxx_rs_perfplot"
#define MOST_ARGUMENTS 64

static int find_script(char *path, size_t capacity, struct failure *failure) {
  ssize_t length = readlink("/proc/self/exe", path, capacity - sizeof SCRIPT);
  if (length <= 0) return fail(failure, "/proc/self/exe: %s", strerror(errno));
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, SCRIPT);
  return 0;
}

int run_plotter(const char *const *files, const char *plot, bool compare, struct failure *failure) {
  char script[PATH_MAX + sizeof SCRIPT];
  const char *arguments[MOST_ARGUMENTS + 6];
  size_t count = 0;
  if (find_script(script, sizeof script, failure) != 0) return -1;
  arguments[count++] = script;
  if (compare) arguments[count++] = "--compare";
  if (plot != NULL) {
    arguments[count++] = "--plot";
    arguments[count++] = plot;
  }
  arguments[count++] = "--";
  for (size_t i = 0; files[i] != NULL; i++) {
    if (i == MOST_ARGUMENTS) return fail(failure, "more than %d files", MOST_ARGUMENTS);
    arguments[count++] = files[i];
  }
  arguments[count] = NULL;
  pid_t child;
  int status = 0,
      error = posix_spawn(&child, script, NULL, NULL, (char *const *)arguments, environ);
  if (error != 0)
    return fail(failure, "%s: %s; it draws and compares, and needs python3", script,
                strerror(error));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) return 0; /* as of `| head` */
  return fail(failure, WIFEXITED(status) && WEXITSTATUS(status) == 127 ? SCRIPT
                           " needs python3, which is not here"
                                                                       : SCRIPT " failed");
}

int plot_results(FILE *results, const char *plot, struct failure *failure) {
  char path[64];
  /* The file has no name; the child reads it by that of this process's descriptor. */
  snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), fileno(results));
  const char *const files[] = {path, NULL};
  return run_plotter(files, plot, false, failure);
}
