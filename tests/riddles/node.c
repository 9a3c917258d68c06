/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * node.c: programs that hang, for test_riddles.py. They print nothing about why.
 *
 *     node NUMBER SIDE FD
 *
 * Side 0 is the one that is asked. FD is a socket to the other side.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>
#include <unistd.h>

struct node {
  int number, side, fd;
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
};

static void check(ucxx_status_t status) {
  if (status == UCXX_OK || status == UCXX_INPROGRESS) return;
  fprintf(stderr, "%s\n", ucxx_error_text(status));
  exit(1);
}

static void transfer(int fd, void *data, size_t length, int sends) {
  for (size_t done = 0; done < length;) {
    ssize_t n = sends ? write(fd, (char *)data + done, length - done)
                      : read(fd, (char *)data + done, length - done);
    if (n <= 0) exit(1);
    done += (size_t)n;
  }
}

static void connect_nodes(struct node *node) {
  ucxx_address_t *mine, *theirs;
  const void *bytes;
  static char received[4096];
  uint64_t length, other;
  check(ucxx_context_create(NULL, &node->context));
  check(ucxx_worker_create(node->context, NULL, &node->worker));
  check(ucxx_worker_address(node->worker, &mine));
  bytes = ucxx_address_data(mine);
  length = ucxx_address_length(mine);
  transfer(node->fd, &length, sizeof length, 1);
  transfer(node->fd, (void *)bytes, length, 1);
  transfer(node->fd, &other, sizeof other, 0);
  if (other > sizeof received) exit(1);
  transfer(node->fd, received, other, 0);
  check(ucxx_address_from_bytes(received, other, &theirs));
  check(ucxx_endpoint_create(node->worker, theirs, NULL, &node->endpoint));
}

static void ready(const struct node *node) {
  printf("%d\n", (int)getpid());
  fflush(stdout);
  (void)node;
}

static void serve(struct node *node) {
  for (;;) check(ucxx_worker_wait(node->worker, UINT64_MAX));
}

static void on_message(void *arg, ucxx_am_message_t *message) {
  const struct node *node = arg;
  if (node->number != 1) ucxx_am_message_destroy(message);
}

static void messages(struct node *node) {
  static char data[100];
  ucxx_request_t *request;
  connect_nodes(node);
  check(ucxx_worker_set_am_handler(node->worker, 7, on_message, node, NULL));
  ready(node);
  if (node->side == 1) serve(node);
  for (;;) {
    check(ucxx_am_send(node->endpoint, 7, NULL, 0, data, sizeof data, NULL, &request));
    if (request == NULL) continue;
    check(ucxx_request_wait(request, UINT64_MAX));
    ucxx_request_destroy(request);
  }
}

static void large_messages(struct node *node) {
  static char data[4 << 20];
  connect_nodes(node);
  ready(node);
  for (;;) {
    ucxx_request_t *request = NULL;
    if (node->side == 0)
      check(ucxx_tag_send(node->endpoint, data, sizeof data, 1, NULL, &request));
    else
      check(ucxx_tag_recv(node->worker, data, sizeof data, 1, UINT64_MAX, NULL, &request));
    if (request == NULL) continue;
    check(ucxx_request_wait(request, UINT64_MAX));
    ucxx_request_destroy(request);
  }
}

static void *consume(void *hub) {
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  ucxx_link_t *link;
  ucxx_envelope_t *envelope;
  check(ucxx_link_create(hub, UCXX_LINK_CONSUME, host, NULL, &link));
  for (;;) check(ucxx_link_lease(link, UINT64_MAX, &envelope));
  return NULL;
}

static void chunks(struct node *node) {
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub;
  ucxx_link_t *link;
  ucxx_envelope_t *envelope;
  pthread_t thread;
  params.envelope_size = 4096;
  check(ucxx_context_create(NULL, &node->context));
  check(ucxx_hub_create(node->context, &params, &hub));
  check(ucxx_hub_add_envelopes(hub, host, 4));
  check(ucxx_link_create(hub, UCXX_LINK_PRODUCE, host, NULL, &link));
  if (pthread_create(&thread, NULL, consume, hub) != 0) exit(1);
  ready(node);
  for (;;) {
    check(ucxx_link_lease(link, UINT64_MAX, &envelope));
    check(ucxx_envelope_commit(envelope, 4096, NULL));
  }
}

static void groups(struct node *node) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  ucxx_group_t *group;
  ucxx_window_t *window;
  void *base;
  char byte = 0;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  check(ucxx_context_create(NULL, &node->context));
  check(ucxx_worker_create(node->context, NULL, &node->worker));
  check(ucxx_group_create(node->worker, &params, &group));
  if (node->number == 6) {
    ready(node);
    for (; node->side == 1;) pause();
    check(ucxx_group_barrier(group));
    exit(1);
  }
  check(ucxx_window_allocate(group, 4096, 1, NULL, &base, &window));
  if (node->side == 1) {
    check(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0));
    transfer(node->fd, &byte, 1, 1);
    ready(node);
    for (;;) pause();
  }
  transfer(node->fd, &byte, 1, 0);
  ready(node);
  check(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct node node = {.number = atoi(argv[1]), .side = atoi(argv[2]), .fd = atoi(argv[3])};
  switch (node.number) {
  case 1:
  case 2: messages(&node); break;
  case 3: large_messages(&node); break;
  case 4: chunks(&node); break;
  case 5:
  case 6: groups(&node); break;
  default: return 2;
  }
}
