/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Messages from and into every kind of memory that the CUDA driver gives, without saying which kind
 * it is: device, managed, pinned, of a stream's pool, and mapped (the driver's virtual memory
 * management). */
#include "driver.h"

enum { MOST = 3 << 20 };

/* CUmemAllocationProp and CUmemAccessDesc of the driver. */
typedef struct location {
  int type, id;
} location_t;
typedef struct property {
  int type, handle_types;
  location_t location;
  void *metadata;
  unsigned char flags[8];
} property_t;
typedef struct access {
  location_t location;
  int flags;
} access_t;
enum { LOCATION_DEVICE = 1, ALLOCATION_PINNED = 1, ACCESS_READ_WRITE = 3 };

static struct {
  int (*managed)(uint64_t *, size_t, unsigned);
  int (*host)(void **, size_t, unsigned);
  int (*free_host)(void *);
  int (*pool)(uint64_t *, size_t, void *);
  int (*free_pool)(uint64_t, void *);
  int (*granularity)(size_t *, const property_t *, int);
  int (*create)(uint64_t *, size_t, const property_t *, unsigned long long);
  int (*reserve)(uint64_t *, size_t, size_t, uint64_t, unsigned long long);
  int (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
  int (*set_access)(uint64_t, size_t, const access_t *, size_t);
  int (*unmap)(uint64_t, size_t);
  int (*free_address)(uint64_t, size_t);
  int (*release)(uint64_t);
} driver;

/* 0 if the driver is too old for one of them. */
static int driver_open(void) {
  const struct {
    void *place;
    const char *name;
  } symbols[] = {
      {&driver.managed, "cuMemAllocManaged"},
      {&driver.host, "cuMemHostAlloc"},
      {&driver.free_host, "cuMemFreeHost"},
      {&driver.pool, "cuMemAllocAsync"},
      {&driver.free_pool, "cuMemFreeAsync"},
      {&driver.granularity, "cuMemGetAllocationGranularity"},
      {&driver.create, "cuMemCreate"},
      {&driver.reserve, "cuMemAddressReserve"},
      {&driver.map, "cuMemMap"},
      {&driver.set_access, "cuMemSetAccess"},
      {&driver.unmap, "cuMemUnmap"},
      {&driver.free_address, "cuMemAddressFree"},
      {&driver.release, "cuMemRelease"},
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library != NULL);
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *found = dlsym(library, symbols[at].name);
    if (found == NULL) return 0;
    memcpy(symbols[at].place, &found, sizeof found);
  }
  return 1;
}

typedef enum { DEVICE, MANAGED, PINNED, POOL, MAPPED, HOST, KINDS } kind_t;
static const char *const names[KINDS] = {"device", "managed", "pinned", "pool", "mapped", "host"};
static void *stream;
static size_t mapped_size;
static uint64_t mapped_handle;

static uint64_t allocate(kind_t kind) {
  uint64_t address = 0;
  void *memory = NULL;
  const property_t property = {ALLOCATION_PINNED, 0, {LOCATION_DEVICE, 0}, NULL, {0}};
  const access_t access = {{LOCATION_DEVICE, 0}, ACCESS_READ_WRITE};
  size_t unit = 0;
  switch (kind) {
  case DEVICE: CHECK_CUDA(cuda.allocate(&address, MOST)); break;
  case MANAGED: CHECK_CUDA(driver.managed(&address, MOST, 1)); break;
  case PINNED: CHECK_CUDA(driver.host(&memory, MOST, 0)); break;
  case POOL:
    CHECK_CUDA(driver.pool(&address, MOST, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
    break;
  case MAPPED:
    CHECK_CUDA(driver.granularity(&unit, &property, 0));
    mapped_size = (MOST + unit - 1) / unit * unit;
    CHECK_CUDA(driver.create(&mapped_handle, mapped_size, &property, 0));
    CHECK_CUDA(driver.reserve(&address, mapped_size, 0, 0, 0));
    CHECK_CUDA(driver.map(address, mapped_size, 0, mapped_handle, 0));
    CHECK_CUDA(driver.set_access(address, mapped_size, &access, 1));
    break;
  default: CHECK((memory = malloc(MOST)) != NULL);
  }
  return memory != NULL ? (uint64_t)(uintptr_t)memory : address;
}

static void give_back(kind_t kind, uint64_t address) {
  switch (kind) {
  case PINNED: CHECK_CUDA(driver.free_host((void *)(uintptr_t)address)); break;
  case POOL:
    CHECK_CUDA(driver.free_pool(address, stream));
    CHECK_CUDA(cuda.stream_synchronize(stream));
    break;
  case MAPPED:
    CHECK_CUDA(driver.unmap(address, mapped_size));
    CHECK_CUDA(driver.free_address(address, mapped_size));
    CHECK_CUDA(driver.release(mapped_handle));
    break;
  case HOST: free((void *)(uintptr_t)address); break;
  default: CHECK_CUDA(cuda.free(address));
  }
}

/* The driver copies from and to every kind. */
static void write_to(uint64_t address, const void *bytes, size_t length) {
  CHECK_CUDA(cuda.to_device(address, bytes, length, stream));
  CHECK_CUDA(cuda.stream_synchronize(stream));
}

static void read_from(uint64_t address, void *bytes, size_t length) {
  CHECK_CUDA(cuda.to_host(bytes, address, length, stream));
  CHECK_CUDA(cuda.stream_synchronize(stream));
}

static void send(const duo_t *duo, uint64_t from, uint64_t to, size_t length, uint64_t seed) {
  unsigned char *bytes = malloc(length);
  ucxx_request_t *sent = NULL, *received = NULL;
  CHECK(bytes != NULL);
  memset(bytes, 0, length);
  write_to(to, bytes, length);
  test_fill(bytes, length, seed);
  write_to(from, bytes, length);
  ucxx_status_t there =
      ucxx_tag_recv(duo->right, (void *)(uintptr_t)to, length, 7, UINT64_MAX, NULL, &received);
  ucxx_status_t here =
      ucxx_tag_send(duo->to_right, (const void *)(uintptr_t)from, length, 7, NULL, &sent);
  CHECK_OK(duo_finish(duo, here, &sent));
  CHECK_OK(duo_finish(duo, there, &received));
  read_from(to, bytes, length);
  CHECK_CONTENT(bytes, length, seed);
  free(bytes);
}

int main(void) {
  static const size_t lengths[] = {8, 1000, 64 << 10, MOST};
  duo_t duo;
  test_begin("cuda_memory");
  cuda_open(0);
  duo_open(&duo, NULL);
  if (!ucxx_context_has_cuda(duo.context)) test_skip("SKIPPED: this UCX does not reach the GPU");
  if (!driver_open()) test_skip("SKIPPED: the driver is too old for all kinds of memory");
  stream = cuda_stream();
  const uint64_t seed = test_seed();
  for (kind_t from = DEVICE; from < KINDS; from++) {
    for (kind_t to = DEVICE; to < KINDS; to++) {
      /* There is one mapping, to keep this short. */
      if (from == MAPPED && to == MAPPED) continue;
      STEP("from %s to %s memory", names[from], names[to]);
      const uint64_t source = allocate(from), target = allocate(to);
      for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
        send(&duo, source, target, lengths[at], seed + at);
      give_back(from, source);
      give_back(to, target);
    }
  }
  CHECK_CUDA(cuda.stream_destroy(stream));
  duo_close(&duo);
  cuda_close();
  return 0;
}
