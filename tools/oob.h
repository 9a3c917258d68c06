/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * oob.h: the out-of-band connection of two tools: a TCP connection, or a socket pair for two
 * processes of one command. Over it they agree on what to do, and exchange worker addresses. It
 * stays open. If it ends, the peer is gone, whatever the endpoints report.
 *
 * Messages are frames with a type, a length and bytes. Functions that can fail return 0, or -1 with
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
  /* Called while waiting for the peer, to make progress if no thread does. Optional. */
  void (*idle)(void *arg);
  void *idle_arg;
  char peer[OOB_PEER_NAME];
};

/* A NULL `address` means every interface. A `*port` of 0 means any free port, which is written
 * back. */
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
/* Waits for a frame of this type, with at most `capacity` - 1 bytes. A 0 byte is appended. If the
 * peer fails it sends the reason before it closes, and that becomes the failure here. */
int oob_receive(struct oob *oob, uint32_t type, void *data, size_t capacity, size_t *length,
                uint64_t timeout_ns, struct failure *failure);
/* Like oob_receive, for either of two types. `*type` is the one that arrived. */
int oob_receive_either(struct oob *oob, uint32_t first, uint32_t second, uint32_t *type, void *data,
                       size_t capacity, size_t *length, uint64_t timeout_ns,
                       struct failure *failure);
/* Sends the reason why this side gives up. It does not check whether it arrives. */
void oob_send_failure(struct oob *oob, const struct failure *failure);
/* True if the peer has closed the connection within this time, or its host does not answer. */
bool oob_peer_gone(const struct oob *oob, int wait_ms);
/* Fails with the peer's last message, or with the fact that it is gone. */
int oob_last_words(struct oob *oob, struct failure *failure);

#endif
