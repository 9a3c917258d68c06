/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "oob.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stop.h"

#define FAILURE_TYPE UINT32_C(0xffffffff)
#define LOOK_AROUND_MS 100 /* the longest sleep before the stop flag is checked */
#define BACKLOG 16

static bool timed_out(uint64_t start_ns, uint64_t timeout_ns) {
  return clock_ns() - start_ns >= timeout_ns;
}

/* 1 when fd is ready, 0 when nothing happened for a moment, -1 on an error. */
static int ready(int fd, short events, int timeout_ms) {
  struct pollfd entry = {fd, events, 0};
  int count = poll(&entry, 1, timeout_ms);
  return count < 0 && errno == EINTR ? 0 : count;
}

/* A peer's host that fails silently is noticed after about ten seconds. */
static void watch_connection(int fd) {
  const int on = 1, idle = 5, interval = 2, count = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void name_peer(struct oob *oob, const struct sockaddr *address, socklen_t length) {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof host, service, sizeof service,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    snprintf(oob->peer, sizeof oob->peer, "an unknown address");
  else
    snprintf(oob->peer, sizeof oob->peer, strchr(host, ':') != NULL ? "[%.100s]:%s" : "%.100s:%s",
             host, service);
}

static int look_up(const char *host, int family, uint16_t port, int flags, struct addrinfo **found,
                   struct failure *failure) {
  struct addrinfo hints;
  char service[8];
  memset(&hints, 0, sizeof hints);
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  snprintf(service, sizeof service, "%u", (unsigned)port);
  int error = getaddrinfo(host, service, &hints, found);
  if (error == 0) return 0;
  return fail(failure, "cannot find the host '%s'%s: %s", host != NULL ? host : "(any)",
              family == AF_INET    ? " by IPv4"
              : family == AF_INET6 ? " by IPv6"
                                   : "",
              gai_strerror(error));
}

static int listen_on(const struct addrinfo *address, int *listener) {
  const int on = 1, off = 0;
  int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  /* With V6ONLY off the IPv6 wildcard address also accepts IPv4 clients. */
  if (address->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
    *listener = fd;
    return 0;
  }
  int saved = errno;
  close(fd);
  errno = saved;
  return -1;
}

int oob_listen(const char *address, int family, uint16_t *port, int *listener,
               struct failure *failure) {
  struct addrinfo *found = NULL;
  const int families[] = {AF_INET6, AF_INET};
  int error = EAFNOSUPPORT;
  *listener = -1;
  for (size_t i = 0; i < 2 && *listener < 0; i++) {
    if (family != AF_UNSPEC && family != families[i]) continue;
    struct failure quiet = {""};
    if (look_up(address, families[i], *port, AI_PASSIVE, &found, &quiet) != 0) continue;
    if (listen_on(found, listener) != 0) error = errno;
    freeaddrinfo(found);
    if (error == EADDRINUSE) break;
  }
  if (*listener < 0)
    return fail(failure, "cannot listen on %s port %u: %s%s",
                address != NULL ? address : "any address,", (unsigned)*port, strerror(error),
                error == EADDRINUSE ? "; is another server running? Choose another port with -p"
                                    : "");
  struct sockaddr_storage bound;
  socklen_t length = sizeof bound;
  if (getsockname(*listener, (struct sockaddr *)&bound, &length) != 0)
    return fail(failure, "getsockname: %s", strerror(errno));
  *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                            : ((struct sockaddr_in *)&bound)->sin_port);
  return 0;
}

int oob_accept(int listener, uint64_t timeout_ns, struct oob *oob, struct failure *failure) {
  uint64_t start_ns = clock_ns();
  memset(oob, 0, sizeof *oob);
  oob->fd = -1;
  for (;;) {
    if (stopped()) return fail(failure, "interrupted while waiting for a client");
    if (timed_out(start_ns, timeout_ns)) return fail(failure, "no client came");
    if (ready(listener, POLLIN, LOOK_AROUND_MS) <= 0) continue;
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    oob->fd = accept4(listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
    if (oob->fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN) continue;
      return fail(failure, "accepting a client: %s", strerror(errno));
    }
    watch_connection(oob->fd);
    name_peer(oob, (struct sockaddr *)&address, length);
    return 0;
  }
}

/* Connects without blocking, so that Ctrl-C and the time limit work while the network does not
 * answer. */
static int connect_within(int fd, const struct addrinfo *address, uint64_t start_ns,
                          uint64_t timeout_ns) {
  int error = 0;
  socklen_t length = sizeof error;
  if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return -1;
  for (;;) {
    if (stopped() || timed_out(start_ns, timeout_ns)) {
      errno = stopped() ? EINTR : ETIMEDOUT;
      return -1;
    }
    if (ready(fd, POLLOUT, LOOK_AROUND_MS) > 0) break;
  }
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return -1;
  errno = error;
  return error == 0 ? 0 : -1;
}

/* A refused connection is tried again until the time limit, because the server may just be
 * starting. */
int oob_connect(const char *host, int family, uint16_t port, uint64_t timeout_ns, struct oob *oob,
                struct failure *failure) {
  const struct timespec pause = {0, 50 * 1000 * 1000};
  uint64_t start_ns = clock_ns();
  struct addrinfo *found = NULL;
  memset(oob, 0, sizeof *oob);
  oob->fd = -1;
  if (look_up(host, family, port, 0, &found, failure) != 0) return -1;
  int error = 0;
  do {
    for (const struct addrinfo *address = found; address != NULL && oob->fd < 0 && !stopped();
         address = address->ai_next) {
      int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                      address->ai_protocol);
      if (fd >= 0 && connect_within(fd, address, start_ns, timeout_ns) == 0) {
        oob->fd = fd;
        watch_connection(fd);
        name_peer(oob, address->ai_addr, address->ai_addrlen);
      } else {
        error = errno;
        if (fd >= 0) close(fd);
      }
    }
    if (oob->fd >= 0 || error != ECONNREFUSED) break;
    nanosleep(&pause, NULL);
  } while (!stopped() && !timed_out(start_ns, timeout_ns));
  freeaddrinfo(found);
  if (oob->fd >= 0) return 0;
  if (stopped()) return fail(failure, "interrupted while connecting to %s", host);
  return fail(failure,
              "cannot connect to %s port %u: %s; is the server running there, with the same -p, "
              "and no firewall between?",
              host, (unsigned)port, strerror(error));
}

int oob_pair(struct oob *first, struct oob *second, struct failure *failure) {
  int both[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
    return fail(failure, "socketpair: %s", strerror(errno));
  memset(first, 0, sizeof *first);
  memset(second, 0, sizeof *second);
  first->fd = both[0];
  second->fd = both[1];
  snprintf(first->peer, sizeof first->peer, "the process forked for the other half");
  snprintf(second->peer, sizeof second->peer, "the process that forked this half");
  return 0;
}

/* Reads the rest before it closes. To close a connection with unread bytes resets it, and the peer
 * would lose the last message. */
void oob_close(struct oob *oob) {
  char rest[4096];
  if (oob->fd < 0) return;
  shutdown(oob->fd, SHUT_WR);
  for (uint64_t start_ns = clock_ns(); !timed_out(start_ns, LOOK_AROUND_MS * NS_PER_MS);) {
    ssize_t received = recv(oob->fd, rest, sizeof rest, MSG_DONTWAIT);
    if (received > 0) continue;
    if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) break;
    ready(oob->fd, POLLIN, LOOK_AROUND_MS);
  }
  close(oob->fd);
  oob->fd = -1;
}

static int gone(struct oob *oob, struct failure *failure) {
  return fail(failure,
              "the other side (%s) is gone: its process ended or the network to it broke; look at "
              "what it printed",
              oob->peer);
}

static int send_bytes(struct oob *oob, const void *data, size_t length, struct failure *failure) {
  const char *bytes = data;
  uint64_t start_ns = clock_ns();
  while (length > 0) {
    ssize_t sent = send(oob->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes += sent;
      length -= (size_t)sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      if (timed_out(start_ns, 10 * NS_PER_SECOND))
        return fail(failure, "the other side (%s) takes nothing any more", oob->peer);
      ready(oob->fd, POLLOUT, LOOK_AROUND_MS);
    } else {
      return oob_last_words(oob, failure);
    }
  }
  return 0;
}

static int receive_bytes(struct oob *oob, void *data, size_t length, uint64_t start_ns,
                         uint64_t timeout_ns, struct failure *failure) {
  char *bytes = data;
  while (length > 0) {
    ssize_t received = recv(oob->fd, bytes, length, MSG_DONTWAIT);
    if (received > 0) {
      bytes += received;
      length -= (size_t)received;
      continue;
    }
    if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      return gone(oob, failure);
    if (stopped()) return fail(failure, "interrupted");
    if (timed_out(start_ns, timeout_ns))
      return fail(failure,
                  "the other side (%s) has been silent for %u seconds; does its process hang?",
                  oob->peer, (unsigned)(timeout_ns / NS_PER_SECOND));
    if (oob->idle != NULL) oob->idle(oob->idle_arg);
    ready(oob->fd, POLLIN, oob->idle != NULL ? 1 : LOOK_AROUND_MS);
  }
  return 0;
}

int oob_send(struct oob *oob, uint32_t type, const void *data, size_t length,
             struct failure *failure) {
  uint32_t head[2] = {htonl(type), htonl((uint32_t)length)};
  if (length >= OOB_MAX_BYTES)
    return fail(failure, "a message of %zu bytes is too long for the out-of-band connection",
                length);
  if (send_bytes(oob, head, sizeof head, failure) != 0) return -1;
  return send_bytes(oob, data, length, failure);
}

int oob_send_text(struct oob *oob, uint32_t type, const char *text, struct failure *failure) {
  return oob_send(oob, type, text, strlen(text), failure);
}

/* Reads the peer's reason. Control characters from another machine must not reach this terminal. */
static int receive_reason(struct oob *oob, size_t bytes, uint64_t start_ns, uint64_t timeout_ns,
                          struct failure *failure) {
  char reason[1024] = "";
  if (bytes >= sizeof reason) bytes = sizeof reason - 1;
  if (receive_bytes(oob, reason, bytes, start_ns, timeout_ns, failure) != 0) return -1;
  for (size_t i = 0; i < bytes; i++)
    if ((unsigned char)reason[i] < ' ' || reason[i] == 127) reason[i] = ' ';
  return fail(failure, "the other side (%s) gave up: %.850s", oob->peer, reason);
}

int oob_receive_either(struct oob *oob, uint32_t first, uint32_t second, uint32_t *type, void *data,
                       size_t capacity, size_t *length, uint64_t timeout_ns,
                       struct failure *failure) {
  uint32_t head[2];
  uint64_t start_ns = clock_ns();
  if (receive_bytes(oob, head, sizeof head, start_ns, timeout_ns, failure) != 0) return -1;
  size_t bytes = ntohl(head[1]);
  *type = ntohl(head[0]);
  if (*type == FAILURE_TYPE) return receive_reason(oob, bytes, start_ns, timeout_ns, failure);
  if ((*type != first && *type != second) || bytes >= capacity)
    return fail(failure,
                "%s does not speak this tool's protocol (frame %u of %zu bytes): is the same "
                "version running there?",
                oob->peer, (unsigned)*type, bytes);
  if (receive_bytes(oob, data, bytes, start_ns, timeout_ns, failure) != 0) return -1;
  ((char *)data)[bytes] = '\0';
  if (length != NULL) *length = bytes;
  return 0;
}

int oob_receive(struct oob *oob, uint32_t type, void *data, size_t capacity, size_t *length,
                uint64_t timeout_ns, struct failure *failure) {
  uint32_t got;
  return oob_receive_either(oob, type, type, &got, data, capacity, length, timeout_ns, failure);
}

void oob_send_failure(struct oob *oob, const struct failure *failure) {
  struct failure quiet = {""};
  size_t length = strlen(failure->text);
  if (oob->fd >= 0)
    oob_send(oob, FAILURE_TYPE, failure->text, length < 1000 ? length : 1000, &quiet);
}

bool oob_peer_gone(const struct oob *oob, int wait_ms) {
  return ready(oob->fd, POLLRDHUP, wait_ms) > 0;
}

int oob_last_words(struct oob *oob, struct failure *failure) {
  uint32_t head[2];
  struct failure words = {""};
  oob->idle = NULL;
  /* Skip the frames that the peer sent before the reason. */
  while (receive_bytes(oob, head, sizeof head, clock_ns(), NS_PER_SECOND, &words) == 0) {
    size_t bytes = ntohl(head[1]);
    if (ntohl(head[0]) == FAILURE_TYPE)
      return receive_reason(oob, bytes, clock_ns(), NS_PER_SECOND, failure);
    char skipped;
    for (size_t i = 0; i < bytes && i < OOB_MAX_BYTES; i++)
      if (receive_bytes(oob, &skipped, 1, clock_ns(), NS_PER_SECOND, &words) != 0)
        return gone(oob, failure);
  }
  return gone(oob, failure);
}
