/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_attach.c: prints what a running process does, by the socket that UCXX_RS_DEBUG_SOCKET lets
 * it open. It finds the socket by the process's environment, in containers as well.
 */
#define _GNU_SOURCE /* struct ucred */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "info.h"
#include "stop.h"

#define VARIABLE "UCXX_RS_DEBUG_SOCKET"
#define ANSWER_MS 5000 /* the process needs half a second at most */
#define MOST (1 << 20) /* bytes of a file in /proc, and of its environment */

/* Reads a file of /proc, and ends it with a 0. NULL with errno set if it cannot be read. */
static char *read_file(const char *path, size_t *length) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  char *text = malloc(MOST + 1);
  size_t have = 0;
  ssize_t got = text != NULL ? 1 : -1;
  while (got > 0 && have < MOST) {
    got = read(fd, text + have, MOST - have);
    if (got > 0) have += (size_t)got;
  }
  int error = errno;
  close(fd);
  errno = error;
  if (got < 0) {
    free(text);
    return NULL;
  }
  text[have] = '\0';
  *length = have;
  return text;
}

/* The letter of a process's state; 0 if there is no such process. */
static char state_of(unsigned long pid) {
  char path[64];
  size_t length;
  snprintf(path, sizeof path, "/proc/%lu/stat", pid);
  char *stat = read_file(path, &length);
  const char *name_ends = stat != NULL ? strrchr(stat, ')') : NULL;
  char state = name_ends != NULL && name_ends[1] == ' ' ? name_ends[2] : '\0';
  free(stat);
  return state;
}

/* Whether a process in this state is stopped. Its socket then takes clients, and nobody answers. */
static bool print_stopped(unsigned long pid, char state) {
  if (state != 'T' && state != 't') return false;
  printf("process %lu is stopped, %s: nothing in it runs, and its peers wait.\n", pid,
         state == 't' ? "by a debugger" : "by SIGSTOP or the like");
  if (state == 'T') printf("  kill -CONT %lu lets it go on\n", pid);
  return true;
}

/* The pid by which the process knows itself: that of its own pid namespace. */
static unsigned long pid_within(unsigned long pid) {
  char path[64];
  size_t length;
  snprintf(path, sizeof path, "/proc/%lu/status", pid);
  char *status = read_file(path, &length),
       *line = status != NULL ? strstr(status, "\nNSpid:") : NULL;
  if (line != NULL) {
    char *end = strchr(line + 1, '\n');
    if (end != NULL) *end = '\0';
    const char *last = strrchr(line, '\t');
    if (last != NULL) pid = strtoul(last, NULL, 10);
  }
  free(status);
  return pid;
}

/* The variable in the environment that the process was started with. */
static int variable_of(unsigned long pid, char *value, size_t capacity, struct failure *failure) {
  char path[64];
  size_t length = 0;
  snprintf(path, sizeof path, "/proc/%lu/environ", pid);
  char *environment = read_file(path, &length);
  if (environment == NULL)
    return fail(failure, "process %lu: %s; it has to be a process of this user", pid,
                strerror(errno));
  value[0] = '\0';
  for (const char *entry = environment; entry < environment + length; entry += strlen(entry) + 1)
    if (strncmp(entry, VARIABLE "=", sizeof VARIABLE) == 0)
      snprintf(value, capacity, "%s", entry + sizeof VARIABLE);
  free(environment);
  const char *own = getenv(VARIABLE);
  if (value[0] == '\0' && own != NULL) snprintf(value, capacity, "%s", own);
  if (value[0] == '\0')
    return fail(failure,
                "process %lu was started without " VARIABLE "; if it has set the variable itself, "
                "set it here as well, or give the socket's path",
                pid);
  return 0;
}

/* What the library makes of the variable's value: see docs/hangs.md. */
static int socket_of(unsigned long pid, char *path, size_t capacity, struct failure *failure) {
  char value[PATH_MAX], root[PATH_MAX];
  struct stat found;
  if (variable_of(pid, value, sizeof value, failure) != 0) return -1;
  unsigned long within = pid_within(pid);
  int length = snprintf(root, sizeof root, "/proc/%lu/root", pid);
  for (const char *from = value; *from != '\0' && (size_t)length < sizeof root; from++) {
    bool is_pid = from[0] == '%' && from[1] == 'p';
    char one[2] = {*from, '\0'}, number[24];
    snprintf(number, sizeof number, "%lu", within);
    length += snprintf(root + length, sizeof root - (size_t)length, "%s", is_pid ? number : one);
    from += is_pid;
  }
  bool is_folder = stat(root, &found) == 0 && S_ISDIR(found.st_mode);
  int needed = is_folder ? snprintf(path, capacity, "%s/ucxx_rs.%lu.sock", root, within)
                         : snprintf(path, capacity, "%s", root);
  return needed >= 0 && (size_t)needed < capacity ? 0 : fail(failure, "the path is too long");
}

static int connect_to(const char *path, struct failure *failure) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int folder = -1, fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const char *slash = strrchr(path, '/');
  const struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
  if (fd < 0) return fail(failure, "no socket: %s", strerror(errno));
  /* A process that is stopped lets nobody in once its queue is full. */
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (strlen(path) < sizeof address.sun_path) {
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  } else if (slash != NULL) { /* by its folder, as addresses have 107 bytes at most */
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.60s", folder,
             slash + 1);
  }
  int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
  if (folder >= 0) close(folder);
  if (error == 0) return fd;
  close(fd);
  return fail(failure, "%s: %s%s", path, strerror(error),
              error == ECONNREFUSED ? " (the process that made it has ended)"
              : error == ENOENT     ? " (the process has no worker, or could not make the socket)"
              : error == EACCES     ? " (it is another user's)"
              : error == EAGAIN     ? " (it lets nobody in: the process is stopped)"
                                    : "");
}

/* Who made the socket: another user may have put one of this name into a shared folder. */
static int check_answerer(int fd, unsigned long *pid, struct failure *failure) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return fail(failure, "the socket's owner is not known: %s", strerror(errno));
  if (peer.uid != geteuid() && geteuid() != 0)
    return fail(failure, "the socket is of user %lu", (unsigned long)peer.uid);
  if (*pid != 0 && (unsigned long)peer.pid != *pid)
    return fail(failure, "the socket is of process %ld", (long)peer.pid);
  *pid = (unsigned long)peer.pid;
  return 0;
}

/* Prints text of another process: no control characters but line ends. */
static void print_text(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    putchar(c == '\n' || (c >= ' ' && c != 127) ? c : '?');
  }
}

/* 1 if there was an answer, 0 if there was none in time. */
static int print_answer(int fd, struct failure *failure) {
  bool any = false;
  char text[4096];
  while (!stopped()) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int ready = poll(&polled, 1, ANSWER_MS);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return any ? fail(failure, "the answer stopped in the middle") : 0;
    ssize_t got = read(fd, text, sizeof text);
    if (got < 0) return fail(failure, "the answer broke off: %s", strerror(errno));
    if (got == 0) return any ? 1 : fail(failure, "refused: the process is another user's");
    any = true;
    print_text(text, (size_t)got);
  }
  return 1;
}

int attach(const char *whom, struct failure *failure) {
  char *end, path[PATH_MAX];
  unsigned long pid = strtoul(whom, &end, 10);
  bool is_pid = whom[0] >= '0' && whom[0] <= '9' && *end == '\0';
  if (!is_pid) pid = 0;
  char state = is_pid ? state_of(pid) : '\0';
  if (is_pid && state == '\0') return fail(failure, "there is no process %lu", pid);
  if (state == 'Z') return fail(failure, "process %lu has ended", pid);
  if (print_stopped(pid, state)) return 0;
  if (is_pid) {
    if (socket_of(pid, path, sizeof path, failure) != 0) return -1;
  } else {
    snprintf(path, sizeof path, "%s", whom);
  }
  int fd = connect_to(path, failure);
  if (fd < 0) return -1;
  if (check_answerer(fd, &pid, failure) != 0) {
    close(fd);
    return -1;
  }
  int answered = print_answer(fd, failure);
  close(fd);
  if (answered != 0) return answered > 0 ? 0 : -1;
  if (print_stopped(pid, state_of(pid))) return 0;
  return fail(failure, "process %lu: no answer in %d s: it gets no CPU time, or waits in its log",
              pid, ANSWER_MS / 1000);
}
