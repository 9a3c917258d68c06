/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Counts the allocations of a thread. Replaces the C library's functions, so only one file of a
 * program may include it. */
#ifndef UCXX_RS_TEST_ALLOCATIONS_H
#define UCXX_RS_TEST_ALLOCATIONS_H
#include "test_util.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* glibc's own entry points: looking the next malloc up by name would itself allocate. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static __thread int counting;
/* All allocations, and those that the library itself called for. How many UCX makes depends on its
 * release. */
static __thread long allocations, own_allocations;

static void count_one(const void *caller) {
  Dl_info info;
  if (!counting) return;
  counting = 0;
  allocations++;
  own_allocations += dladdr(caller, &info) != 0 && info.dli_fname != NULL &&
                     strstr(info.dli_fname, "libucxx_rs") != NULL;
  counting = 1;
}

void *malloc(size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void *realloc(void *pointer, size_t size) {
  count_one(__builtin_return_address(0));
  return __libc_realloc(pointer, size);
}
int posix_memalign(void **place, size_t alignment, size_t size) {
  count_one(__builtin_return_address(0));
  *place = __libc_memalign(alignment, size);
  return *place == NULL ? ENOMEM : 0;
}
#endif
