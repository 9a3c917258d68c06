/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * exchange.h: how two example processes on one host find each other.
 *
 * UCX needs the peer's worker address before it can connect. Those few hundred bytes have to reach
 * the peer in some other way first. Here it is a Unix socket: one process listens, the other one
 * connects, and both send their bytes. Real programs use what they have: MPI, a job scheduler, a
 * TCP connection. docs/groups.md has the library's own way, and client_server.c connects by host
 * and port.
 *
 * The socket stays open. At the end it is a barrier, so that neither process closes its endpoint
 * while the other one still waits for a message.
 *
 * Every function returns 0, or -1 after it has printed the error to stderr.
 */
#ifndef EXAMPLES_EXCHANGE_H
#define EXAMPLES_EXCHANGE_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <ucxx_rs.h>

#define EXCHANGE_TIMEOUT_NS (60u * UINT64_C(1000000000))
#define EXCHANGE_MAX_BYTES (1u << 20)

struct exchange {
  int fd;
};

static inline uint64_t exchange_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline int exchange_error(const char *what) {
  fprintf(stderr, "exchange: %s: %s\n", what, strerror(errno));
  return -1;
}

/* Waits until fd is ready for `events`. Returns -1 with errno set at the deadline. */
static inline int exchange_poll(int fd, short events, uint64_t deadline_ns) {
  struct pollfd entry;
  entry.fd = fd;
  entry.events = events;
  for (;;) {
    uint64_t now = exchange_now_ns();
    int ready = poll(&entry, 1, now < deadline_ns ? (int)((deadline_ns - now) / 1000000u) + 1 : 0);
    if (ready > 0) return 0;
    if (ready == 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    if (errno != EINTR) return -1;
  }
}

static inline int exchange_listen(struct exchange *exchange, int fd, const struct sockaddr_un *name,
                                  uint64_t deadline_ns) {
  if (bind(fd, (const struct sockaddr *)name, sizeof *name) != 0)
    return exchange_error(name->sun_path);
  exchange->fd = -1;
  if (listen(fd, 1) == 0 && exchange_poll(fd, POLLIN, deadline_ns) == 0)
    exchange->fd = accept(fd, NULL, NULL);
  int saved = errno;
  unlink(name->sun_path);
  errno = saved;
  return exchange->fd >= 0 ? 0 : exchange_error("waiting for the peer to connect");
}

/* Connects. Tries again while the listener does not exist yet. */
static inline int exchange_connect(struct exchange *exchange, int fd,
                                   const struct sockaddr_un *name, uint64_t deadline_ns) {
  const struct timespec pause = {0, 5 * 1000 * 1000};
  while (connect(fd, (const struct sockaddr *)name, sizeof *name) != 0) {
    bool not_yet = errno == ENOENT || errno == ECONNREFUSED || errno == EINTR;
    if (!not_yet || exchange_now_ns() > deadline_ns)
      return exchange_error("connecting to the peer");
    nanosleep(&pause, NULL);
  }
  exchange->fd = fd;
  return 0;
}

/* One process calls with listens = true, the other one with false. Both name the same path, which
 * must not exist yet. */
static inline int exchange_open(struct exchange *exchange, bool listens, const char *path) {
  struct sockaddr_un name;
  memset(&name, 0, sizeof name);
  name.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof name.sun_path) {
    errno = ENAMETOOLONG;
    return exchange_error(path);
  }
  memcpy(name.sun_path, path, strlen(path));
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return exchange_error("socket");
  uint64_t deadline_ns = exchange_now_ns() + EXCHANGE_TIMEOUT_NS;
  int result = listens ? exchange_listen(exchange, fd, &name, deadline_ns)
                       : exchange_connect(exchange, fd, &name, deadline_ns);
  if (listens || result != 0) close(fd);
  return result;
}

static inline int exchange_send(struct exchange *exchange, const void *data, size_t length) {
  const char *bytes = (const char *)data;
  while (length > 0) {
    ssize_t sent = send(exchange->fd, bytes, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return exchange_error("sending to the peer");
    bytes += sent;
    length -= (size_t)sent;
  }
  return 0;
}

static inline int exchange_receive(struct exchange *exchange, void *data, size_t length,
                                   uint64_t deadline_ns) {
  char *bytes = (char *)data;
  while (length > 0) {
    if (exchange_poll(exchange->fd, POLLIN, deadline_ns) != 0)
      return exchange_error("receiving from the peer");
    ssize_t received = recv(exchange->fd, bytes, length, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received == 0) errno = ECONNRESET;
    if (received <= 0) return exchange_error("receiving from the peer");
    bytes += received;
    length -= (size_t)received;
  }
  return 0;
}

/* Sends our bytes to the peer, and returns a malloc'ed copy of the peer's bytes. Both sides send
 * first, so the bytes must fit into the socket's buffer. Worker addresses do. */
static inline int exchange_swap(struct exchange *exchange, const void *mine, size_t mine_length,
                                void **theirs, size_t *theirs_length) {
  uint64_t deadline_ns = exchange_now_ns() + EXCHANGE_TIMEOUT_NS;
  uint64_t length = mine_length;
  if (exchange_send(exchange, &length, sizeof length) != 0) return -1;
  if (exchange_send(exchange, mine, mine_length) != 0) return -1;
  if (exchange_receive(exchange, &length, sizeof length, deadline_ns) != 0) return -1;
  if (length > EXCHANGE_MAX_BYTES) {
    errno = EMSGSIZE;
    return exchange_error("the peer's bytes");
  }
  void *bytes = malloc(length > 0 ? (size_t)length : 1);
  if (bytes == NULL) return exchange_error("the peer's bytes");
  if (exchange_receive(exchange, bytes, (size_t)length, deadline_ns) != 0) {
    free(bytes);
    return -1;
  }
  *theirs = bytes;
  *theirs_length = (size_t)length;
  return 0;
}

/* Returns when the peer has called it too, or -1 if the peer never will. It makes progress while it
 * waits, because the peer may still need it: a worker with manual progress does nothing outside
 * calls. */
static inline int exchange_barrier(struct exchange *exchange, ucxx_worker_t *worker,
                                   uint64_t timeout_ns) {
  uint64_t deadline_ns = exchange_now_ns() + timeout_ns;
  char token = 'x';
  if (exchange_send(exchange, &token, 1) != 0) return -1;
  for (;;) {
    ucxx_status_t status = ucxx_worker_progress(worker, NULL);
    /* UCXX_ERR_BUSY: this worker has a progress thread, so waiting for the socket is enough. */
    if (status == UCXX_ERR_BUSY) return exchange_receive(exchange, &token, 1, deadline_ns);
    if (status != UCXX_OK) {
      fprintf(stderr, "exchange: progress: %s\n", ucxx_error_text(status));
      return -1;
    }
    if (exchange_poll(exchange->fd, POLLIN, exchange_now_ns() + 1) == 0)
      return exchange_receive(exchange, &token, 1, deadline_ns);
    if (errno != ETIMEDOUT || exchange_now_ns() > deadline_ns)
      return exchange_error("waiting for the peer to finish");
  }
}

static inline void exchange_close(struct exchange *exchange) {
  if (exchange->fd >= 0) close(exchange->fd);
  exchange->fd = -1;
}

#endif
