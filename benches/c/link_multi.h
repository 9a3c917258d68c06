/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Several buffers at a time over a link: `window` frames of `size` bytes each. Include it instead
 * of link.h:
 *
 *   multi_open(link, multi, options)     counts what arrives; call it before the other side sends
 *   multi_expect(multi)                  expects one more; buffers are allocated for it
 *   multi_send(multi)                    sends one; returns when the frames may be used again
 *   multi_await(multi)                   waits until the expected one has arrived, and frees its
 *                                        buffers
 *
 * Plain UCP has no such transfer. It sends one message of as many bytes into one existing buffer.
 * `protocol` 1 selects the form of this library that is one active message. */
#ifndef BENCH_LINK_MULTI_H
#define BENCH_LINK_MULTI_H

#define LINK_AM 1
#include "link.h"

enum { MULTI_TAG = 5, MULTI_ID = 6, MULTI_MOST = 1000 };

struct multi {
  struct link *link;
  long frames;
  size_t size;
  int one_message;
  unsigned char *memory, *into;
  struct operation sent, received;
  long arrived, awaited;
#ifdef LINK_UCXX_RS
  ucxx_buffer_t list[MULTI_MOST];
#endif
#ifdef LINK_UCXX
  std::vector<const void *> buffers;
  std::vector<size_t> sizes;
  std::vector<int> devices;
#endif
};

#if defined(LINK_RAW)

static inline void multi_prepare(struct multi *multi) {
  multi->into = buffer_create((size_t)multi->frames * multi->size);
}

static inline void multi_expect(struct multi *multi) {
  link_recv(multi->link, multi->into, (size_t)multi->frames * multi->size, MULTI_TAG,
            &multi->received);
}

static inline void multi_send(struct multi *multi) {
  link_send(multi->link, multi->memory, (size_t)multi->frames * multi->size, MULTI_TAG,
            &multi->sent);
  link_finish(multi->link, &multi->sent);
}

static inline void multi_await(struct multi *multi) { link_finish(multi->link, &multi->received); }

#elif defined(LINK_UCXX_RS)

static void multi_arrived(void *arg, ucxx_endpoint_t *reply, const void *header,
                          size_t header_length, ucxx_buffers_t *buffers, ucxx_status_t status) {
  struct multi *multi = (struct multi *)arg;
  (void)reply;
  (void)header;
  (void)header_length;
  link_check(status, "a message");
  ucxx_buffers_destroy(buffers);
  multi->arrived++;
}

static inline void multi_prepare(struct multi *multi) {
  for (long at = 0; at < multi->frames; at++) {
    multi->list[at].data = multi->memory + (size_t)at * multi->size;
    multi->list[at].length = multi->size;
    multi->list[at].memory_type = LINK_MEMORY;
  }
  link_check(ucxx_worker_set_multi_handler(multi->link->worker, MULTI_ID, multi_arrived, multi,
                                           NULL, NULL),
             "ucxx_worker_set_multi_handler");
}

static inline void multi_expect(struct multi *multi) {
  multi->awaited++;
  if (!multi->one_message)
    link_check(ucxx_tag_recv_multi(multi->link->worker, MULTI_TAG, UINT64_MAX, NULL, NULL,
                                   &multi->received.request),
               "ucxx_tag_recv_multi");
}

static inline void multi_send(struct multi *multi) {
  ucxx_endpoint_t *to = multi->link->endpoint;
  const size_t count = (size_t)multi->frames;
  multi->sent.request = NULL;
  link_check(multi->one_message ? ucxx_am_send_multi(to, MULTI_ID, NULL, 0, multi->list, count,
                                                     NULL, &multi->sent.request)
                                : ucxx_tag_send_multi(to, multi->list, count, MULTI_TAG, NULL,
                                                      &multi->sent.request),
             "a send");
  link_finish(multi->link, &multi->sent);
}

static inline void multi_await(struct multi *multi) {
  if (multi->one_message) {
    while (multi->arrived < multi->awaited) link_advance(multi->link);
    return;
  }
  ucxx_buffers_t *buffers;
  while (ucxx_request_status(multi->received.request) == UCXX_INPROGRESS) link_advance(multi->link);
  link_check(ucxx_request_take_buffers(multi->received.request, &buffers),
             "ucxx_request_take_buffers");
  ucxx_buffers_destroy(buffers);
  ucxx_request_destroy(multi->received.request);
}

#elif defined(LINK_UCXX)

static inline void multi_prepare(struct multi *multi) {
  for (long at = 0; at < multi->frames; at++) {
    multi->buffers.push_back(multi->memory + (size_t)at * multi->size);
    multi->sizes.push_back(multi->size);
    multi->devices.push_back(0);
  }
}

static inline void multi_expect(struct multi *multi) {
  multi->received.request =
      multi->link->endpoint->tagMultiRecvBuilder(ucxx::Tag(MULTI_TAG), ucxx::TagMaskFull).build();
}

static inline void multi_send(struct multi *multi) {
  multi->sent.request =
      multi->link->endpoint
          ->tagMultiSendBuilder(multi->buffers, multi->sizes, multi->devices, ucxx::Tag(MULTI_TAG))
          .build();
  link_finish(multi->link, &multi->sent);
}

static inline void multi_await(struct multi *multi) { link_finish(multi->link, &multi->received); }

#endif

static inline void multi_open(struct link *link, struct multi *multi,
                              const struct options *options) {
  multi->link = link;
  multi->frames = options->window;
  multi->size = options->size;
  multi->one_message = options->protocol == 1;
  if (multi->frames > MULTI_MOST) die("--window: at most %d frames", MULTI_MOST);
  multi->memory = buffer_create((size_t)multi->frames * multi->size);
  multi_prepare(multi);
}

#endif
