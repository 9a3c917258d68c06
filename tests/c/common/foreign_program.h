/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A program that does not use this library; the test controls it line by line (see foreign_raw.c).
 * Only one source file of a test may include this. */
#ifndef UCXX_RS_TEST_FOREIGNER_H
#define UCXX_RS_TEST_FOREIGNER_H
#include "test_util.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER = 1 << 17 };

static char **command;
static ucxx_worker_t *worker; /* ours; it progresses while the test waits */

typedef struct foreigner {
  pid_t pid;
  FILE *to;
  int from;
} foreigner_t;

static inline void start(foreigner_t *other) {
  int in[2], out[2];
  CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
  other->pid = fork();
  CHECK(other->pid >= 0);
  if (other->pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execvp(command[0], command);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  other->to = fdopen(in[1], "w");
  other->from = out[0];
}

#define TELL(other, ...)               \
  do {                                 \
    fprintf((other)->to, __VA_ARGS__); \
    CHECK(fflush((other)->to) == 0);   \
  } while (0)

/* The program's next line; our worker makes progress meanwhile. */
static inline const char *next_line(const foreigner_t *other) {
  static char line[ANSWER];
  size_t length = 0;
  while (length == 0 || line[length - 1] != '\n') {
    struct pollfd input = {other->from, POLLIN, 0};
    CHECK(length + 1 < sizeof line);
    if (poll(&input, 1, 0) == 0) {
      progress(worker);
      continue;
    }
    if (read(other->from, &line[length], 1) != 1) FAIL("the other program has ended");
    length++;
  }
  line[length - 1] = '\0';
  return line;
}

/* UCX's log shares the standard output; its lines begin with the time in brackets. */
static inline const char *answer(const foreigner_t *other) {
  const char *line;
  while ((line = next_line(other))[0] == '[') printf("the other program's %s\n", line);
  return line;
}

static inline void expect(const foreigner_t *other, const char *what) {
  const char *line = answer(other);
  if (strcmp(line, what) != 0) FAIL("the other program answers '%s', not '%s'", line, what);
}

static inline uint16_t answer_port(const foreigner_t *other) {
  unsigned port = 0;
  CHECK(sscanf(answer(other), "port %u", &port) == 1);
  return (uint16_t)port;
}

/* Ends the program with a signal, or by closing its input. */
static inline void stop(foreigner_t *other, int killed) {
  int status = 0;
  if (killed) kill(other->pid, SIGKILL);
  fclose(other->to);
  CHECK(waitpid(other->pid, &status, 0) == other->pid);
  close(other->from);
  if (killed)
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    FAIL("the other program has ended with status 0x%x", status);
}

static inline uint8_t pattern(unsigned seed, size_t at) { return (uint8_t)(seed + 7 * at); }
#endif
