/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A preloaded library that counts calls of the allocator between count_allocs_begin and
 * count_allocs_end, by caller. A call whose return address is in one of UCX's libraries is UCX's.
 * Every other call counts for the library under test, including calls that it makes through libc,
 * because the loop of the benchmark allocates nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void count_allocs_begin(void);
void count_allocs_end(void);

/* glibc's own entry points: looking up the next malloc by name would allocate. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_int counting;
static atomic_long ucx_calls, ucx_frees, other_calls, other_frees;

static int from_ucx(void *address) {
  static const char *const libraries[] = {"libucp", "libuct", "libucs", "libucm", "libuct_"};
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return 0;
  const char *name = strrchr(info.dli_fname, '/');
  name = name == NULL ? info.dli_fname : name + 1;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    size_t length = strlen(libraries[i]);
    if (strncmp(name, libraries[i], length) == 0 &&
        (name[length] == '.' || name[length] == '-' || name[length - 1] == '_'))
      return 1;
  }
  return 0;
}

#define COUNT(what)                                                                             \
  do {                                                                                          \
    if (atomic_load_explicit(&counting, memory_order_relaxed))                                  \
      atomic_fetch_add(from_ucx(__builtin_return_address(0)) ? &ucx_##what : &other_##what, 1); \
  } while (0)

void *malloc(size_t size) {
  COUNT(calls);
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  COUNT(calls);
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  COUNT(calls);
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  COUNT(calls);
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  COUNT(calls);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  COUNT(calls);
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? 12 /* ENOMEM */ : 0;
}

void free(void *memory) {
  if (memory != NULL) COUNT(frees);
  __libc_free(memory);
}

void count_allocs_begin(void) { atomic_store(&counting, 1); }

void count_allocs_end(void) {
  atomic_store(&counting, 0);
  printf("allocations=%ld\nfrees=%ld\nucx_allocations=%ld\nucx_frees=%ld\n",
         atomic_load(&other_calls), atomic_load(&other_frees), atomic_load(&ucx_calls),
         atomic_load(&ucx_frees));
}
