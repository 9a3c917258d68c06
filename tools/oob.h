/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * oob.h: the out-of-band connection of two tools: a TCP connection (or a socket pair, for two
 * processes of one command) over which they agree on what to do and swap worker addresses. It stays
 * open: its end is how a side learns that the other one is gone, whatever the endpoints can tell.
 *
 * Messages are frames of a type, a length and bytes. Functions that can fail return 0, or -1 with
 * the reason in `failure`.
 */
#ifndef TOOLS_OOB_H
#define TOOLS_OOB_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#define OOB_MAX_BYTES 65536u
#define OOB_PEER_NAME 128

struct oob {
  int fd;
  void (*idle)(void *arg); /* called while waiting for the peer, where progress is nobody else's
                              business; optional */
  void *idle_arg;
  char peer[OOB_PEER_NAME];
};

/* `address` NULL: every interface. `*port` 0: any free one, which is written back. */
int oob_listen(const char *address, int family, uint16_t *port, int *listener,
               struct failure *failure);
int oob_accept(int listener, uint64_t timeout_ns, struct oob *oob, struct failure *failure);
int oob_connect(const char *host, int family, uint16_t port, uint64_t timeout_ns, struct oob *oob,
                struct failure *failure);
int oob_pair(struct oob *first, struct oob *second, struct failure *failure);
void oob_close(struct oob *oob);

int oob_send(struct oob *oob, uint32_t type, const void *data, size_t length,
             struct failure *failure);
int oob_send_text(struct oob *oob, uint32_t type, const char *text, struct failure *failure);
/* Waits for a frame of this type, at most `capacity` - 1 bytes, which are terminated by a 0. A side
 * that fails says why before it closes: that text becomes the failure here. */
int oob_receive(struct oob *oob, uint32_t type, void *data, size_t capacity, size_t *length,
                uint64_t timeout_ns, struct failure *failure);
/* As oob_receive, for either of two types; `*type` tells which. */
int oob_receive_either(struct oob *oob, uint32_t first, uint32_t second, uint32_t *type, void *data,
                       size_t capacity, size_t *length, uint64_t timeout_ns,
                       struct failure *failure);
/* Tells the peer why this side gives up; nobody looks whether it arrives. */
void oob_send_failure(struct oob *oob, const struct failure *failure);
/* Has the peer closed the connection, or its host gone silent? */
bool oob_peer_gone(const struct oob *oob);
/* What the peer said before it went, or that it went. */
int oob_last_words(struct oob *oob, struct failure *failure);

#endif
