/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A process whose library sends garbage. This file replaces UCP's send function, as
 * send_window_ucp.c does, and keeps the messages that the library sends. Between valid messages it
 * sends kept ones again, unchanged (duplicates, replays, late replies) or changed, and it replaces
 * some messages by changed ones. So every format that the process uses gets garbled, while the rest
 * of the message stays valid.
 *
 * Only one source file of a test may include this.
 */
#ifndef UCXX_RS_TEST_GARBAGE_H
#define UCXX_RS_TEST_GARBAGE_H
#include "test_util.h"

#include <dlfcn.h>
#include <pthread.h>
#include <ucp/api/ucp.h>

enum {
  KEPT = 256,
  LONGEST_HEADER = 1024,
  LONGEST_KEPT = 40000,
  MOST_SPARED = 16,
  MOST_TOWARDS = 2
};
/* UCP's id of the library's messages; lengths of the library's header, long and short. */
enum { LIBRARY_ID = 1, LONG_FORM = 24, SHORT_FORM = 16, SHORT_BIT = 0x80 };

typedef struct kept {
  unsigned id;
  uint32_t flags;
  size_t header, data;
  uint8_t bytes[]; /* the header, then the data */
} kept_t;

typedef struct spares {
  uint32_t list[MOST_SPARED];
  unsigned count;
} spares_t;

/* State of one connection. */
typedef struct talk {
  ucp_ep_h endpoint;
  uint32_t seen; /* the peer's number for the connection, from the last user message */
  unsigned towards; /* index of the peer, where the test has several */
  /* Sequence number of the last message; how many were inserted, by which later ones shift. */
  uint32_t place, shift;
} talk_t;

static struct garbage {
  int on;
  int records; /* also while `on` is 0 */
  int blames_nobody;
  int adds; /* only add messages; what the library sends stays unchanged */
  uint64_t state; /* of the random numbers */
  unsigned one_in; /* one garbage message for so many valid ones */
  uint64_t tag; /* tag messages with this tag may be changed */
  kept_t *ring[KEPT];
  unsigned kept;
  unsigned towards; /* index of the peer that the test sends to next */
  /* Other peers' connections, one list for each peer. Garbage must not name them: a process that
   * knows their numbers can send in their name (docs/security.md), and this is not tested. */
  spares_t spared[MOST_TOWARDS];
  talk_t talks[64];
  unsigned talked;
  int notes; /* add the connections that this process sends on to `spared`, for the other process */
  uint32_t last; /* connection of this process's last user message */
  unsigned sent, replayed, changed, replaced, fitted;
} garbage;

enum { MOST_REPLACED = 4096 };
static struct {
  kept_t *list[MOST_REPLACED];
  unsigned count;
} replaced;

static inline uint64_t draw(void) { return garbage.state = test_mix(garbage.state + 1); }
static inline int one_in(unsigned many) { return draw() % many == 0; }

/* The library's header: UCP's header, or the beginning of the data. */
static inline uint8_t *front_of(kept_t *message) { return message->bytes; }
static inline size_t front_length(const kept_t *message) {
  return message->header > 0 ? message->header : message->data;
}

static inline uint32_t connection_of(kept_t *message) {
  const uint8_t *front = front_of(message);
  uint32_t connection = 0;
  if (message->id != LIBRARY_ID || front_length(message) == 0) return 0;
  size_t at = front[0] & SHORT_BIT ? 4 : 8;
  if (front_length(message) >= at + 4) memcpy(&connection, front + at, 4);
  return connection;
}

/* Offset and width of the sequence number; 0 if the message has none. */
static inline size_t place_of(kept_t *message, size_t *width) {
  const uint8_t *front = front_of(message);
  if (message->id != LIBRARY_ID || front_length(message) < SHORT_FORM) return 0;
  *width = 2;
  if (message->header == 0 && front[0] == (SHORT_BIT | 8)) return 8;
  *width = 4;
  return front_length(message) >= LONG_FORM && front[0] == 1 &&
                 (front[1] == 8 || front[1] == 10 || front[1] == 12)
             ? 12
             : 0;
}

static inline int has_place(kept_t *message) {
  size_t width;
  return place_of(message, &width) > 0;
}

static inline void set_place(kept_t *message, uint32_t place) {
  size_t width = 0, at = place_of(message, &width);
  memcpy(front_of(message) + at, &place, width);
}

static inline talk_t *talk_over(ucp_ep_h endpoint) {
  for (unsigned at = 0; at < garbage.talked; at++) {
    if (garbage.talks[at].endpoint == endpoint) return &garbage.talks[at];
  }
  CHECK(garbage.talked < sizeof garbage.talks / sizeof *garbage.talks);
  talk_t *talk = &garbage.talks[garbage.talked++];
  *talk = (talk_t){.endpoint = endpoint};
  return talk;
}

/* Makes it the connection's next message in sequence. */
static inline void fit_in(kept_t *message, talk_t *talk) {
  talk->shift++;
  set_place(message, talk->place + talk->shift);
  memcpy(front_of(message) + (front_of(message)[0] & SHORT_BIT ? 4 : 8), &talk->seen,
         sizeof talk->seen);
  garbage.fitted++;
}

/* Offset of the byte that blames a group member for a failure, or 0. Members of a group trust each
 * other in this (docs/security.md). */
static inline size_t blame_of(kept_t *message) {
  const uint8_t *front = front_of(message);
  if (message->id != LIBRARY_ID || message->header + message->data < SHORT_FORM ||
      !garbage.blames_nobody)
    return 0;
  const size_t at = message->header == 0 && front[0] & SHORT_BIT ? SHORT_FORM : LONG_FORM;
  if (message->header + message->data < at + 3) return 0;
  uint8_t what = message->bytes[at + 2];
  return (front[2] == 1 && what == 3) || (front[2] == 2 && what == 13) ? at + 2 : 0;
}

/* Whether it names a spared connection anywhere a reader may look. */
static inline int is_spared(kept_t *message, const talk_t *talk) {
  const spares_t *spared = &garbage.spared[talk->towards];
  if (blame_of(message) > 0) return 1;
  for (unsigned spare = 0; spare < spared->count; spare++) {
    for (size_t at = 4; at <= 8 && at + 4 <= front_length(message); at += 4) {
      if (memcmp(front_of(message) + at, &spared->list[spare], 4) == 0) return 1;
    }
  }
  return 0;
}

static inline void spare(unsigned towards, uint32_t connection) {
  spares_t *spared = &garbage.spared[towards];
  for (unsigned at = 0; at < spared->count; at++) {
    if (spared->list[at] == connection) return;
  }
  CHECK(spared->count < MOST_SPARED);
  spared->list[spared->count++] = connection;
}

static inline kept_t *kept_make(unsigned id, uint32_t flags, size_t header, size_t data) {
  kept_t *message = test_alloc(sizeof *message + header + data);
  *message = (kept_t){.id = id, .flags = flags, .header = header, .data = data};
  return message;
}

static inline kept_t *kept_copy(const kept_t *from) {
  kept_t *message = kept_make(from->id, from->flags, from->header, from->data);
  memcpy(message->bytes, from->bytes, from->header + from->data);
  return message;
}

/* Counts, lengths and offsets at their limits, and one past them. */
static inline uint64_t at_a_limit(size_t length) {
  static const uint64_t limits[] = {0,
                                    1,
                                    2,
                                    24,
                                    32,
                                    64,
                                    0x7f,
                                    0x80,
                                    0xff,
                                    0x100,
                                    255,
                                    256,
                                    257,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    8447,
                                    8448,
                                    8449,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    UINT64_C(1) << 32,
                                    UINT64_C(1) << 47,
                                    (UINT64_C(1) << 48) - 1,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX};
  switch (draw() % 4) {
  case 0: return length;
  case 1: return length + 1;
  case 2: return length - 1;
  default: return limits[draw() % (sizeof limits / sizeof *limits)];
  }
}

static inline void change_some(uint8_t *bytes, size_t length, size_t whole) {
  if (length == 0) return;
  size_t at = draw() % length, width = (size_t)1 << draw() % 4;
  uint64_t value = at_a_limit(whole);
  switch (draw() % 3) {
  case 0: bytes[at] ^= (uint8_t)(1 << draw() % 8); break;
  case 1: bytes[at] = (uint8_t)draw(); break;
  default: at -= at % width; memcpy(bytes + at, &value, at + width > length ? length - at : width);
  }
}

/* Makes a changed copy. */
static inline kept_t *garbled(const kept_t *from) {
  kept_t *message = NULL;
  size_t shorter;
  switch (draw() % 10) {
  case 0: /* shorter header */
    shorter = from->header > 0 ? draw() % from->header : 0;
    message = kept_make(from->id, from->flags, shorter, from->data);
    memcpy(message->bytes, from->bytes, shorter);
    memcpy(message->bytes + shorter, from->bytes + from->header, from->data);
    break;
  case 1:
    message =
        kept_make(from->id, from->flags, from->header, from->data > 0 ? draw() % from->data : 0);
    memcpy(message->bytes, from->bytes, message->header + message->data);
    break;
  case 2: /* longer */
    message = kept_make(from->id, from->flags, from->header + draw() % 64, from->data);
    test_fill(message->bytes, message->header, draw());
    memcpy(message->bytes, from->bytes, from->header);
    memcpy(message->bytes + message->header, from->bytes + from->header, from->data);
    break;
  case 3: /* move the border between header and data */
    message = kept_copy(from);
    message->data += message->header;
    message->header = from->header > 0 ? 0 : draw() % (message->data + 1) % LONGEST_HEADER;
    message->data -= message->header;
    break;
  case 4: /* only kind and version stay */
    message =
        kept_make(LIBRARY_ID, from->flags, draw() % 2 ? LONG_FORM + draw() % 120 : 0, draw() % 300);
    test_fill(message->bytes, message->header + message->data, draw());
    if (front_length(message) > 6) {
      message->bytes[0] = one_in(3) ? SHORT_BIT | (8 + (uint8_t)draw() % 4) : 1;
      message->bytes[1] = (uint8_t)(draw() % 14);
    }
    break;
  case 5: /* for another receiver */
    message = kept_copy(from);
    message->id = (unsigned)(draw() % 4);
    break;
  default: message = kept_copy(from);
  }
  size_t front = front_length(message), first = front < LONG_FORM ? front : LONG_FORM;
  for (uint64_t more = draw() % 3; more > 0; more--)
    change_some(front_of(message),
                one_in(2)     ? first
                : front < 128 ? front
                              : 128,
                message->header + message->data);
  if (one_in(4) && message->header > 0)
    change_some(message->bytes + message->header, message->data < 256 ? message->data : 256,
                message->data);
  return message;
}

static void extra_sent(void *request, ucs_status_t status, void *message) {
  (void)status;
  free(message);
  ucp_request_free(request);
}

typedef ucs_status_ptr_t (*am_send_t)(ucp_ep_h, unsigned, const void *, size_t, const void *,
                                      size_t, const ucp_request_param_t *);
static am_send_t real_send;

/* Sends it unless it is spared; counts it in `count`. */
static inline void send_extra(const talk_t *talk, kept_t *message, unsigned *count) {
  ucp_request_param_t param;
  if (is_spared(message, talk) || message->header > LONGEST_HEADER) {
    free(message);
    return;
  }
  ++*count;
  memset(&param, 0, sizeof param);
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = message->flags;
  param.cb.send = extra_sent;
  param.user_data = message;
  ucs_status_ptr_t sent = real_send(talk->endpoint, message->id, message->bytes, message->header,
                                    message->bytes + message->header, message->data, &param);
  if (!UCS_PTR_IS_PTR(sent)) free(message);
}

/* NULL if the message is too long, or not in host memory. */
static inline kept_t *keep(unsigned id, const void *header, size_t header_length,
                           const void *buffer, size_t count, const ucp_request_param_t *param) {
  const uint32_t flags = param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS ? param->flags : 0;
  const int in_parts = param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE &&
                       (param->datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV;
  size_t length = in_parts ? 0 : count;
  for (size_t at = 0; in_parts && at < count; at++)
    length += ((const ucp_dt_iov_t *)buffer)[at].length;
  if (header_length > LONGEST_HEADER || length > LONGEST_KEPT) return NULL;
  kept_t *message = kept_make(id, flags, header_length, length);
  uint8_t *to = message->bytes;
  if (header_length > 0) memcpy(to, header, header_length);
  to += header_length;
  for (size_t at = 0; in_parts && at < count; at++) {
    const ucp_dt_iov_t *part = &((const ucp_dt_iov_t *)buffer)[at];
    if (part->length > 0) memcpy(to, part->buffer, part->length);
    to += part->length;
  }
  if (!in_parts && length > 0) memcpy(to, buffer, length);
  return message;
}

static inline kept_t *any_kept(void) {
  unsigned there = garbage.kept < KEPT ? garbage.kept : KEPT;
  return garbage.ring[draw() % there];
}

/* UCP needs the replacement until the send completes. The library learns of that and this file does
 * not, so it stays allocated until garbage_forget. */
static inline ucs_status_ptr_t send_replaced(ucp_ep_h endpoint, kept_t *message,
                                             const ucp_request_param_t *param) {
  ucp_request_param_t mine = *param;
  CHECK(replaced.count < MOST_REPLACED);
  replaced.list[replaced.count++] = message;
  mine.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_DATATYPE;
  return real_send(endpoint, message->id, message->bytes, message->header,
                   message->bytes + message->header, message->data, &mine);
}

/* Starts with fresh connections: UCP may reuse the handle of a closed one. */
static inline void garbage_begin(unsigned rate) {
  garbage.one_in = rate;
  garbage.talked = 0;
}

/* Call when all sends on all connections have completed. */
static inline void garbage_forget(void) {
  while (replaced.count > 0) free(replaced.list[--replaced.count]);
}

static ucs_status_ptr_t send_and_more(ucp_ep_h endpoint, unsigned id, const void *header,
                                      size_t header_length, const void *buffer, size_t count,
                                      const ucp_request_param_t *param) {
  kept_t *message = keep(id, header, header_length, buffer, count, param);
  garbage.sent++;
  if (message == NULL) return real_send(endpoint, id, header, header_length, buffer, count, param);
  if (connection_of(message) != 0) garbage.last = connection_of(message);
  if (connection_of(message) != 0 && garbage.notes) spare(0, garbage.last);
  if (!garbage.on && !garbage.records) {
    free(message);
    return real_send(endpoint, id, header, header_length, buffer, count, param);
  }
  talk_t *talk = talk_over(endpoint);
  if (connection_of(message) != 0) talk->seen = connection_of(message);
  size_t width, at = place_of(message, &width);
  if (at > 0) {
    talk->place = 0;
    talk->towards = garbage.on ? talk->towards : garbage.towards;
    memcpy(&talk->place, front_of(message) + at, width);
  }
  kept_t **place = &garbage.ring[garbage.kept++ % KEPT];
  free(*place);
  *place = message;
  if (!garbage.on) return real_send(endpoint, id, header, header_length, buffer, count, param);
  /* Each process sends garbage of both kinds, however soon its connections end. */
  const int first = garbage.replayed == 0;
  kept_t *before = first || one_in(4 * garbage.one_in) ? kept_copy(any_kept()) : NULL;
  if (before != NULL && garbage.adds && talk->seen != 0 && has_place(before)) fit_in(before, talk);
  if (before != NULL) send_extra(talk, before, &garbage.replayed);
  kept_t *instead = NULL;
  if (blame_of(message) > 0) {
    instead = kept_copy(message);
    instead->bytes[blame_of(message)] = 0xff;
    if (at > 0) set_place(instead, talk->place + talk->shift);
  } else if (!garbage.adds && one_in(8 * garbage.one_in)) {
    instead = garbled(message);
    garbage.replaced++;
  } else if (at > 0 && talk->shift > 0) {
    instead = kept_copy(message);
    set_place(instead, talk->place + talk->shift);
  }
  ucs_status_ptr_t sent;
  if (instead != NULL && !is_spared(instead, talk) && instead->header <= LONGEST_HEADER) {
    sent = send_replaced(endpoint, instead, param);
  } else {
    free(instead);
    sent = real_send(endpoint, id, header, header_length, buffer, count, param);
  }
  for (unsigned more = 0; more < 3 && (garbage.changed == 0 || one_in(garbage.one_in)); more++) {
    kept_t *extra = garbled(any_kept());
    if (talk->seen != 0 && has_place(extra) && !one_in(garbage.adds ? 32 : 4)) fit_in(extra, talk);
    send_extra(talk, extra, &garbage.changed);
  }
  return sent;
}

/* May run on other threads' workers. */
ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h endpoint, unsigned id, const void *header,
                                 size_t header_length, const void *buffer, size_t count,
                                 const ucp_request_param_t *param) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&one_at_a_time);
  if (real_send == NULL) *(void **)&real_send = dlsym(RTLD_NEXT, "ucp_am_send_nbx");
  CHECK(real_send != NULL);
  ucs_status_ptr_t sent = send_and_more(endpoint, id, header, header_length, buffer, count, param);
  pthread_mutex_unlock(&one_at_a_time);
  return sent;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h endpoint, const void *buffer, size_t count,
                                  ucp_tag_t tag, const ucp_request_param_t *param) {
  typedef ucs_status_ptr_t (*tag_send_t)(ucp_ep_h, const void *, size_t, ucp_tag_t,
                                         const ucp_request_param_t *);
  static uint8_t changed[4096];
  tag_send_t send;
  *(void **)&send = dlsym(RTLD_NEXT, "ucp_tag_send_nbx");
  CHECK(send != NULL);
  if (!garbage.on || tag != garbage.tag || count > sizeof changed ||
      param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE || !one_in(garbage.one_in))
    return send(endpoint, buffer, count, tag, param);
  memcpy(changed, buffer, count);
  for (uint64_t more = 1 + draw() % 4; more > 0; more--)
    change_some(changed, one_in(2) && count > 16 ? 16 : count, count);
  garbage.changed++;
  /* An eager message of this length is copied inside the call. One in flight may be changed
   * again. */
  return send(endpoint, changed, one_in(8) && count > 0 ? draw() % count : count, tag, param);
}
#endif
