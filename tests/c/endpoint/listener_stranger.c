/*
 * A client connects to a listener's port and sends nothing, or only a part of the request, until
 * the listener is destroyed. That ends its connection, and late data touches no freed memory.
 * Accepted connections stay open.
 */
#include "test_util.h"
#include "client_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS = 20 };

static int stranger(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(descriptor >= 0 && connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0);
  return descriptor;
}

/* Sends the beginning of a request of length 0, as UCX's listener reads it. */
static void speak(int descriptor, size_t length) {
  static const char request[16];
  (void)!send(descriptor, request, length, MSG_NOSIGNAL);
}

static void silent_until_it_has_gone(const manner_t *manner) {
  STEP("%s", manner->name);
  site_t site;
  ends_t client;
  int strangers[STRANGERS];
  site_open(&site, manner, NULL, ACCEPT);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, asked(&site) == 1 && seen_count(&client.open) == 1 &&
                   seen_count(&site.accepted[0].open) == 1);
  for (unsigned at = 0; at < STRANGERS; at++) {
    strangers[at] = stranger(ucxx_listener_port(site.listener));
    speak(strangers[at], at % 3);
  }
  ucxx_listener_destroy(site.listener);
  site.listener = NULL;
  for (unsigned at = 0; at < STRANGERS; at++) {
    char none;
    ssize_t received = recv(strangers[at], &none, 1, 0);
    CHECK(received == 0 || (received < 0 && errno == ECONNRESET));
    speak(strangers[at], 16 - at % 3);
    close(strangers[at]);
  }
  transfer(&site, client.endpoint, site.server, 100, 1);
  transfer(&site, site.accepted[0].endpoint, site.client, 100, 2);
  hang_up(&site, &client, &site.accepted[0]);
  site_close(&site);
}

static int hammering;

/* Connects again and again, and sends nothing. */
static void *hammer(void *port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons(*(uint16_t *)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int descriptors[STRANGERS];
  memset(descriptors, -1, sizeof descriptors);
  for (unsigned at = 0; __atomic_load_n(&hammering, __ATOMIC_ACQUIRE); at = (at + 1) % STRANGERS) {
    if (descriptors[at] >= 0) close(descriptors[at]);
    descriptors[at] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(descriptors[at] >= 0);
    (void)!connect(descriptors[at], (struct sockaddr *)&address, sizeof address);
    sched_yield();
  }
  for (unsigned at = 0; at < STRANGERS; at++)
    if (descriptors[at] >= 0) close(descriptors[at]);
  return NULL;
}

/* The worker is destroyed while clients keep connecting: nobody listens afterwards. */
static void worker_goes(const manner_t *manner) {
  STEP("%s: the worker is destroyed", manner->name);
  site_t site;
  pthread_t thread;
  site_open(&site, manner, NULL, ACCEPT);
  uint16_t port = ucxx_listener_port(site.listener);
  __atomic_store_n(&hammering, 1, __ATOMIC_RELEASE);
  CHECK(pthread_create(&thread, NULL, hammer, &port) == 0);
  ucxx_worker_destroy(site.server);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(descriptor >= 0 && connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0);
  close(descriptor);
  __atomic_store_n(&hammering, 0, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0);
  ucxx_listener_destroy(site.listener);
  ucxx_worker_destroy(site.client);
  ucxx_context_destroy(site.context);
}

int main(void) {
  test_begin("listener_stranger");
  /* Freed memory reads as this pattern. */
  mallopt(M_PERTURB, 0x5a);
  for (unsigned at = 0; has_tcp() && at < MANNERS; at++) silent_until_it_has_gone(&manners[at]);
  for (unsigned at = 0; has_tcp() && at < MANNERS; at++) worker_goes(&manners[at]);
  return 0;
}
