/* Live handles, and their users. A call that cannot have a handle at once does without it: nothing
 * waits here, so callbacks may draw as well. */
#include "hostile.h"

slot_t pools[KINDS][PLACES];

static int enter(slot_t *slot) {
  int users = __atomic_load_n(&slot->users, __ATOMIC_RELAXED);
  while (users >= 0)
    if (__atomic_compare_exchange_n(&slot->users, &users, users + 1, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return 1;
  return 0;
}

static int enter_alone(slot_t *slot) {
  int nobody = 0;
  return __atomic_compare_exchange_n(&slot->users, &nobody, -1, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

static void exit_one(slot_t *slot, int alone) {
  if (alone)
    __atomic_store_n(&slot->users, 0, __ATOMIC_RELEASE);
  else
    __atomic_sub_fetch(&slot->users, 1, __ATOMIC_RELEASE);
}

static void note(caller_t *c, slot_t *slot, int alone, int serial) {
  if (c->taken_count == TAKEN) FAIL("too many handles in one call of %s", c->function);
  c->taken[c->taken_count] = slot;
  c->alone[c->taken_count] = (uint8_t)alone;
  c->serial[c->taken_count++] = (uint8_t)serial;
}

static int try_slot(caller_t *c, slot_t *slot, int alone, int serial) {
  if (__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) == NULL || (alone && slot->pinned) ||
      c->taken_count + 2 > TAKEN)
    return 0;
  if (!(alone ? enter_alone(slot) : enter(slot))) return 0;
  slot_t *home = slot->home;
  if (slot->handle != NULL && !(alone && slot->pinned) && (home == NULL || enter(home))) {
    if (!serial || !__atomic_exchange_n(&slot->serial, 1, __ATOMIC_ACQUIRE)) {
      if (home != NULL) note(c, home, 0, 0);
      note(c, slot, alone, serial);
      if (c->home == NULL) c->home = slot->kind == KIND_worker ? slot : home;
      return 1;
    }
    if (home != NULL) exit_one(home, 0);
  }
  exit_one(slot, alone);
  return 0;
}

static void *take_how(caller_t *c, kind_t kind, int alone, int serial) {
  if (one_in(c, 32)) return NULL;
  unsigned first = (unsigned)draw(c, PLACES);
  for (unsigned at = 0; at < PLACES; at++) {
    slot_t *slot = &pools[kind][(first + at) % PLACES];
    if (try_slot(c, slot, alone, serial)) return slot->handle;
  }
  return NULL;
}

void *take(caller_t *c, kind_t kind) { return take_how(c, kind, 0, 0); }

void *take_alone(caller_t *c, kind_t kind) { return take_how(c, kind, 1, 0); }

void *take_serial(caller_t *c, kind_t kind) { return take_how(c, kind, 0, 1); }

slot_t *last_taken(caller_t *c) { return c->taken[c->taken_count - 1]; }

void gone(caller_t *c) {
  for (int at = 0; at < c->taken_count; at++)
    if (c->alone[at]) {
      c->taken[at]->handle = NULL;
      return;
    }
  FAIL("%s took no handle that it could destroy", c->function);
}

slot_t *keep_at(slot_t *home, kind_t kind, void *handle, int pinned) {
  if (handle == NULL) return NULL;
  for (unsigned at = 0; at < PLACES && !__atomic_load_n(&over, __ATOMIC_ACQUIRE); at++) {
    slot_t *slot = &pools[kind][at];
    if (__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != NULL || !enter_alone(slot)) continue;
    int mine = slot->handle == NULL;
    if (mine) {
      slot->home = home;
      slot->kind = kind;
      slot->pinned = pinned;
      slot->exposure = 0;
      slot->handle = handle;
    }
    exit_one(slot, 1);
    if (mine) return slot;
  }
  destroy_handle(kind, handle);
  return NULL;
}

void keep(caller_t *c, kind_t kind, void *handle) {
  /* Fewer slots for objects that create threads or take memory. */
  static const uint8_t places[KINDS] = {
      [KIND_context] = 3, [KIND_worker] = 7, [KIND_group] = 3,     [KIND_listener] = 6,
      [KIND_window] = 10, [KIND_hub] = 8,    [KIND_endpoint] = 24, [KIND_notifier] = 8};
  if (handle != NULL && places[kind] != 0 && held(kind) >= places[kind])
    destroy_handle(kind, handle);
  else
    keep_at(c->home, kind, handle, 0);
}

void leave(caller_t *c) {
  while (c->taken_count > 0) {
    int at = --c->taken_count;
    if (c->serial[at]) __atomic_store_n(&c->taken[at]->serial, 0, __ATOMIC_RELEASE);
    exit_one(c->taken[at], c->alone[at]);
  }
}

int held(kind_t kind) {
  int count = 0;
  for (unsigned at = 0; at < PLACES; at++)
    count += __atomic_load_n(&pools[kind][at].handle, __ATOMIC_RELAXED) != NULL;
  return count;
}
