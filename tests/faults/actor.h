/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Shared by the parts of an actor. An actor is a process controlled by the fault harness: one
 * command a line on stdin, one answer a line on stdout ("ok" or "no"), and event lines ("event") in
 * between.
 *
 * Include this file first: it asks the C library for its GNU declarations.
 */
#ifndef UCXX_RS_FAULTS_ACTOR_H
#define UCXX_RS_FAULTS_ACTOR_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

/* What makes progress in a manual worker. IDLE is a peer that never progresses. */
enum drive { SPIN, SLEEP, IDLE };

extern ucxx_context_t *context;
extern ucxx_worker_t *worker;
extern bool threaded; /* a progress thread makes progress */
/* Protects the tables of operations, endpoints and groups; never held across a library call that
 * may run callbacks. */
extern pthread_mutex_t tables;

/* ------------------------------------------------------------------ commands and answers */

/* One command: `verb name=value ...`. Values contain no blanks. */
typedef struct command {
  const char *verb;
  char *names[24];
  char *values[24];
  size_t count;
} command_t;
const char *text_of(const command_t *command, const char *name, const char *otherwise);
uint64_t number_of(const command_t *command, const char *name, uint64_t otherwise);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ok verb ...", or "no verb status=... message" if the status is an error. */
void answer(const command_t *command, ucxx_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports something that must not happen under any fault. */
void violation(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void give_up(const char *why) __attribute__((noreturn));
uint64_t now_ns(void);
void progress_once(void);
/* Without the common prefix. */
const char *short_name(ucxx_status_t status);
bool word_is(const char *text, const char *word);

/* ------------------------------------------------------------------ groups (groups.c) */

/* Operations that are counted together, such as those of one connection in a round. */
enum { GROUPS = 512 };
void group_submitted(unsigned group);
void group_refused(unsigned group);
/* Notifies the harness when the last operation of a watched group completes. */
void group_completed(unsigned group, ucxx_status_t status, bool inside, uint64_t at);
bool command_groups(const command_t *command);
void groups_forget(void);

/* ------------------------------------------------------------------ contents (messages.c) */

enum { SCRIBBLE_SENT = 0xa5, SCRIBBLE_RECEIVED = 0x5a };
uint64_t mix(uint64_t value);
/* A message's first word contains its sender, sequence number and length; the rest is derived from
 * that word. */
void message_fill(void *data, size_t length, uint64_t sender, uint64_t sequence);
enum verdict { INTACT, SCRIBBLED, MIXED };
enum verdict message_check(const void *data, size_t length, size_t *where);
/* Reads sender and sequence number from an intact message's first word. */
void message_name(const void *data, uint64_t *sender, uint64_t *sequence);
/* Does it begin like this message of this length? */
bool message_is(const void *data, size_t length, uint64_t sender, uint64_t sequence);
/* Does every byte still have the fill pattern? */
bool scribble_stands(const void *data, size_t length, uint8_t byte, size_t *where);

/* ------------------------------------------------------------------ operations (operations.c) */

bool command_operations(const command_t *command);
/* Callback and argument for an operation without a message (flush, close). */
void operation_plain(unsigned group, const char *handle, ucxx_op_params_t *params,
                     uint64_t *ticket);
void operation_called(uint64_t ticket, ucxx_status_t status, ucxx_request_t *request);
/* The same for an operation that sends or receives this buffer, which belongs to the operation. */
void *operation_data(bool sends, unsigned group, size_t length, uint64_t sender,
                     ucxx_op_params_t *params, uint64_t *ticket);
/* The same for a multi-buffer transfer, which belongs to the operation from here on. */
typedef struct transfer transfer_t;
void operation_transfer(unsigned group, const char *handle, transfer_t *transfer,
                        ucxx_op_params_t *params, uint64_t *ticket);
/* Progresses until the full queue has room: the other side may be just as busy. */
bool make_room(uint64_t deadline);
/* Frees completed operations; returns how many are pending. */
size_t operations_forget(void);
void operations_totals(char *text, size_t capacity);

/* ------------------------------------------------------------------ active messages and fetches
 * (handlers.c) */

enum { ACTIVE = 17 /* id of both handlers */ };
bool command_handlers(const command_t *command);
/* Destroys what was kept; returns how many. */
size_t handlers_release(void);

/* ------------------------------------------------------------------ multi-buffer transfer
 * (multi.c) */

bool command_multi(const command_t *command);
/* The operation has completed. The request is NULL if that happened inside the call, or if it has
 * been destroyed. */
void transfer_completed(transfer_t *transfer, unsigned group, ucxx_request_t *request,
                        ucxx_status_t status);
void transfer_destroy(transfer_t *transfer);
size_t multi_release(void);
void multi_forget(void);
/* The worker has been destroyed, with everything in it. */
void multi_leave(void);

/* ------------------------------------------------------------------ registered memory (rma.c) */

bool command_rma(const command_t *command);
/* Is it one of the operations that use a remote key? */
bool rma_is(const char *verb);
ucxx_status_t rma_submit(const command_t *command, void *data, size_t length, uint64_t index,
                         const ucxx_op_params_t *params, ucxx_request_t **request);
/* Account of additions to a number: before they are submitted, when refused, and when completed,
 * with the old value. */
typedef struct tally tally_t;
tally_t *rma_asks(const command_t *command, uint64_t index);
void rma_refused(tally_t *tally);
void rma_added(tally_t *tally, const void *result);
void rma_forget(void);

/* ------------------------------------------------------------------ receive buffers (buffers.c) */

/* An allocator that fails once in `fails` times, if that is not 0. */
ucxx_allocator_t buffers_allocator(uint64_t fails);
/* Frees a buffer that was taken from the library. */
void buffers_free(void *data, size_t length);
/* How many buffers the library holds. */
uint64_t buffers_lent(void);
void buffers_forget(void);

/* ------------------------------------------------------------------ groups of processes
 * (process_groups.c) */

bool command_process_groups(const command_t *command);
/* The group that the command names, and its index among the kinds. */
enum { WHOLE, REST, KINDS_OF_GROUP };
ucxx_group_t *process_group(const command_t *command, int *kind);
/* The first rank in this thread's last error message, or -1. */
int blamed_rank(void);

/* ------------------------------------------------------------------ windows of those groups
 * (process_windows.c) */

bool command_process_windows(const command_t *command);

/* ------------------------------------------------------------------ hubs connected to other
 * actors' (hubs.c) */

bool command_hubs(const command_t *command);
/* Called in the endpoint's on_close. */
void hubs_endpoint_closed(uint64_t endpoint);
/* Destroys all hubs. */
void hubs_leave(void);

/* ------------------------------------------------------------------ endpoints and listeners
 * (connections.c) */

bool command_connections(const command_t *command);
ucxx_endpoint_t *endpoint_of(const command_t *command, const char *name);
size_t connections_forget(void);
void connections_leave(void);
#endif
