/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* What library_copies.c calls in each of its libraries (library_copy.c). */
#ifndef LIBRARY_COPIES_H
#define LIBRARY_COPIES_H
#include <stddef.h>
#include <stdint.h>

enum { COPIES = 3 };

typedef struct copy {
  /* Creates a context with a log callback, a worker with a progress thread, and memory. */
  void (*begin)(const char *name);
  /* The worker's address, and the key to the memory; valid until `end`. */
  const void *(*address)(size_t *length);
  const void *(*key)(size_t *length);
  /* Connects to the copy with this number. */
  void (*connect)(int to, const void *address, size_t address_length, const void *key,
                  size_t key_length);
  void (*send)(int to, uint64_t word);
  uint64_t (*receive)(int from);
  /* Adds to the memory of the other copy, and returns what was there. */
  uint64_t (*add)(int to, uint64_t operand);
  uint64_t (*memory)(void);
  /* Fails a call, and returns the message of it. NULL: of no call, just the last message. */
  const char *(*error)(const char *argument);
  /* Lines that this copy's log callback has received from this copy of the library. */
  int (*lines)(void);
  /* Makes this copy of the library log a line; `own` is the copy's number. */
  void (*log_a_line)(int own);
  /* Completions that this copy's notifier has delivered. */
  int (*notified)(void);
  const void *(*code)(void);
  void (*end)(void);
} copy_t;
#endif
