/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * The allocator for multi-buffer transfer. Buffers returned by the library are overwritten and kept
 * until the end of the round, to detect later writes.
 */
#include "actor.h"

/* Precedes each buffer; its length keeps the buffer aligned. */
typedef struct front {
  struct front *next;
  size_t length;
  uint64_t state;
  uint64_t unused;
} front_t;

static const uint64_t LENT = UINT64_C(0x6c656e7462756666), BACK = UINT64_C(0x6261636b62756666);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static front_t *given_back;
static uint64_t made, freed, asked, fails_every;

static ucxx_status_t make(void *arg, size_t length, int32_t memory_type, int32_t device_id,
                          void **data) {
  (void)arg;
  if (length == 0 || memory_type != UCXX_MEMORY_HOST || device_id != 0)
    violation("integrity", "allocate=%zu memory_type=%d device_id=%d", length, memory_type,
              device_id);
  pthread_mutex_lock(&lock);
  bool fails = fails_every != 0 && ++asked % fails_every == 0;
  made += !fails;
  pthread_mutex_unlock(&lock);
  if (fails) return UCXX_ERR_NO_MEMORY;
  front_t *front = malloc(sizeof *front + length);
  if (front == NULL) give_up("no memory");
  *front = (front_t){.length = length, .state = LENT};
  *data = front + 1;
  return UCXX_OK;
}

static void take_back(void *arg, void *data, size_t length, int32_t memory_type,
                      int32_t device_id) {
  (void)arg;
  (void)memory_type;
  (void)device_id;
  front_t *front = (front_t *)data - 1;
  if (front->state != LENT || front->length != length) {
    violation("completion", "deallocate=%zu made=%zu twice=%d", length, front->length,
              front->state == BACK);
    return;
  }
  memset(data, SCRIBBLE_RECEIVED, length);
  front->state = BACK;
  pthread_mutex_lock(&lock);
  freed++;
  front->next = given_back;
  given_back = front;
  pthread_mutex_unlock(&lock);
}

ucxx_allocator_t buffers_allocator(uint64_t fails) {
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.allocate = make;
  allocator.deallocate = take_back;
  allocator.arg = &given_back;
  pthread_mutex_lock(&lock);
  fails_every = fails;
  pthread_mutex_unlock(&lock);
  return allocator;
}

void buffers_free(void *data, size_t length) { take_back(NULL, data, length, UCXX_MEMORY_HOST, 0); }

void buffers_forget(void) {
  pthread_mutex_lock(&lock);
  front_t *front = given_back;
  given_back = NULL;
  pthread_mutex_unlock(&lock);
  while (front != NULL) {
    front_t *next = front->next;
    size_t where = 0;
    if (!scribble_stands(front + 1, front->length, SCRIBBLE_RECEIVED, &where))
      violation("integrity", "written_after_deallocate=1 length=%zu where=%zu", front->length,
                where);
    free(front);
    front = next;
  }
}

uint64_t buffers_lent(void) {
  pthread_mutex_lock(&lock);
  uint64_t lent = made - freed;
  pthread_mutex_unlock(&lock);
  return lent;
}
