/* Arguments other than handles and structs. Memory that a call may read or write is in two arenas
 * that live as long as the process. */
#include "hostile.h"

static uint8_t arena_source[SOURCE_BYTES] __attribute__((aligned(4096)));
static uint8_t arena_sink[SINK_BYTES] __attribute__((aligned(4096)));

uint64_t draw(caller_t *c, uint64_t below) {
  c->random += UINT64_C(0x9e3779b97f4a7c15);
  return test_mix(c->random) % below;
}

int one_in(caller_t *c, uint64_t times) { return draw(c, times) == 0; }

void *scratch(caller_t *c) {
  if (c->scratch_count == sizeof c->scratch / sizeof *c->scratch)
    FAIL("%s needs more scratch memory than there is", c->function);
  void *bytes = c->scratch[c->scratch_count++].bytes;
  memset(bytes, 0, SCRATCH);
  return bytes;
}

static size_t some_length(caller_t *c) {
  switch (draw(c, 32)) {
  case 0:
  case 1:
  case 2: return 0;
  case 3:
  case 4:
  case 5:
  case 6: return (size_t)draw(c, 4097);
  case 7:
  case 8: return (size_t)draw(c, 65537);
  case 9: return one_in(c, 8) ? (size_t)draw(c, 1 << 20) : 8192;
  default: return (size_t)draw(c, 65);
  }
}

size_t some_size(caller_t *c) {
  static const size_t sizes[] = {0, 1, 7, 8, 9, 16, 64, 256, SCRATCH};
  return sizes[draw(c, sizeof sizes / sizeof *sizes)];
}

/* A piece of an arena, or NULL with or without a length. Never more than exists. */
static void *piece(caller_t *c, uint8_t *arena, size_t bytes, size_t *length) {
  static const size_t without[] = {0, 0, 1, 4096, SIZE_MAX, SIZE_MAX / 2 + 1};
  if (one_in(c, 32)) {
    *length = without[draw(c, sizeof without / sizeof *without)];
    return NULL;
  }
  *length = some_length(c);
  return arena + draw(c, bytes - *length + 1);
}

const void *source(caller_t *c, size_t *length) {
  return piece(c, arena_source, SOURCE_BYTES, length);
}

void *sink(caller_t *c, size_t *length) { return piece(c, arena_sink, SINK_BYTES, length); }

void *range(caller_t *c, size_t *length) {
  void *base = piece(c, arena_sink, SINK_BYTES, length);
  return one_in(c, 2) ? base : (void *)((uintptr_t)base & ~(uintptr_t)63);
}

/* Mostly lengths that fit in any header. */
const void *header_bytes(caller_t *c, size_t *length) {
  const void *data = piece(c, arena_source, SOURCE_BYTES, length);
  if (data != NULL && *length > 64 && !one_in(c, 8)) *length = 24;
  return data;
}

const void *source_middle(caller_t *c) {
  return one_in(c, 32) ? NULL : arena_source + MIDDLE - (one_in(c, 4) ? draw(c, 64) : 0);
}

void *sink_middle(caller_t *c) {
  return one_in(c, 32) ? NULL : arena_sink + MIDDLE + (one_in(c, 4) ? draw(c, 64) : 0);
}

const void *word(caller_t *c) { return one_in(c, 16) ? NULL : arena_source + draw(c, 64); }

const ucxx_buffer_t *list_of(caller_t *c, int into, size_t *count) {
  *count = draw(c, LIST + 1);
  if (one_in(c, 32)) {
    *count = one_in(c, 2) ? SIZE_MAX : *count;
    return NULL;
  }
  int32_t type = one_in(c, 2) ? UCXX_MEMORY_AUTO : memory_type(c);
  for (size_t at = 0; at < *count; at++) {
    size_t length;
    void *data = into ? sink(c, &length) : (void *)source(c, &length);
    c->list[at] = (ucxx_buffer_t){
        .data = data, .length = length, .memory_type = one_in(c, 64) ? memory_type(c) : type};
    if (one_in(c, 128)) c->list[at].reserved[draw(c, 2)] = 1;
    if (one_in(c, 128)) c->list[at].device_id = (int32_t)draw(c, 3) - 1;
  }
  return c->list;
}

const uint32_t *rank_list(caller_t *c, size_t *count) {
  *count = one_in(c, 4) ? draw(c, LIST) : 1;
  if (one_in(c, 32)) {
    *count = one_in(c, 2) ? SIZE_MAX : *count;
    return NULL;
  }
  for (size_t at = 0; at < LIST; at++) c->ranks[at] = one_in(c, 16) ? (uint32_t)number(c, 4) : 0;
  return c->ranks;
}

void **handles(caller_t *c, kind_t kind, int alone, size_t *count) {
  *count = one_in(c, 32) ? draw(c, LIST * 10) : draw(c, 5);
  if (one_in(c, 32)) {
    *count = one_in(c, 2) ? SIZE_MAX : *count;
    return NULL;
  }
  for (size_t at = 0; at < *count; at++)
    c->handles[at] = c->taken_count + 2 > TAKEN - 4 ? NULL
                     : alone                        ? take_alone(c, kind)
                                                    : take(c, kind);
  return c->handles;
}

uint64_t number(caller_t *c, uint64_t usual) {
  static const uint64_t edges[] = {UINT64_MAX,
                                   UINT64_MAX - 1,
                                   INT64_MAX,
                                   UINT64_C(1) << 63,
                                   UINT64_C(1) << 32,
                                   UINT32_MAX,
                                   INT32_MAX,
                                   (uint64_t)INT32_MAX + 1,
                                   65535,
                                   65536};
  return one_in(c, 24) ? edges[draw(c, sizeof edges / sizeof *edges)] : draw(c, usual);
}

size_t huge_or(caller_t *c, size_t usual) {
  return one_in(c, 24) ? SIZE_MAX - (one_in(c, 2) ? draw(c, 8192) : SIZE_MAX / 4) : draw(c, usual);
}

int64_t signed_number(caller_t *c, int64_t usual) {
  static const int64_t edges[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1,   -1,
                                  INT32_MIN, INT32_MAX, (int64_t)1 << 40};
  if (one_in(c, 24)) return edges[draw(c, sizeof edges / sizeof *edges)];
  return usual > 4096 || usual == 0 ? usual : (int64_t)draw(c, (uint64_t)usual);
}

int32_t one_of(caller_t *c, int32_t least, int32_t most) {
  static const int32_t outside[] = {INT32_MIN, INT32_MAX, -1, -2, 99, 1 << 20};
  return one_in(c, 24) ? outside[draw(c, sizeof outside / sizeof *outside)]
                       : least + (int32_t)draw(c, (uint64_t)(most - least + 1));
}

/* Never without end: the library could not be blamed for such a wait. */
uint64_t some_time(caller_t *c) {
  return one_in(c, 4) ? draw(c, one_in(c, 8) ? MILLISECOND : 20000) : 0;
}

/* Memory types that a host buffer may claim. A host buffer that claims to be a device's would break
 * the caller's promise. */
int32_t memory_type(caller_t *c) {
  static const int32_t types[] = {UCXX_MEMORY_AUTO, UCXX_MEMORY_AUTO, UCXX_MEMORY_HOST,
                                  UCXX_MEMORY_HOST, UCXX_MEMORY_HOST, UCXX_MEMORY_DUMMY};
  static const int32_t none[] = {-1, 5, 99, 128, INT32_MIN, INT32_MAX};
  return one_in(c, 32) ? none[draw(c, sizeof none / sizeof *none)]
                       : types[draw(c, sizeof types / sizeof *types)];
}

uint32_t assertions(caller_t *c) {
  return one_in(c, 3)    ? (uint32_t)draw(c, 32) & (uint32_t)draw(c, 32)
         : one_in(c, 24) ? (uint32_t)number(c, UINT32_MAX)
                         : 0;
}

/* No names: they would be looked up over the network. */
const char *host(caller_t *c) {
  static const char *const hosts[] = {"127.0.0.1", "127.0.0.1", "127.0.0.1", "::1", "", NULL};
  return hosts[draw(c, sizeof hosts / sizeof *hosts)];
}

const char *owner(caller_t *c) {
  static const char long_one[] = "0123456789012345678901234567890123456789012345678901234567890123";
  static const char *const owners[] = {"one",  "one",    "one",        "two", "",
                                       "ucxx", long_one, long_one + 1, NULL};
  return owners[draw(c, sizeof owners / sizeof *owners)];
}

uint16_t port(caller_t *c) {
  for (unsigned at = 0; at < PLACES && !one_in(c, 8); at++) {
    slot_t *slot = &pools[KIND_listener][at];
    if (__atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE) != NULL && slot->pinned)
      return ucxx_listener_port(slot->handle);
  }
  return (uint16_t)draw(c, 3);
}

void *out_struct(caller_t *c, size_t known) {
  size_t *size = scratch(c);
  memset(size, 0xa5, SCRATCH);
  *size = one_in(c, 8) ? some_size(c) : one_in(c, 64) ? SIZE_MAX : known;
  return size;
}
