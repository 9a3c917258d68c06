/* Parameter structs: most members are valid; some structs have a wrong size or a wrong tail. */
#include "hostile.h"

static void *begin_struct(caller_t *c, size_t size) {
  size_t *value = scratch(c);
  *value = size;
  return value;
}

/* SCRATCH bytes exist, and no size is larger. */
static void *end_struct(caller_t *c, void *value, size_t size) {
  uint8_t *bytes = value;
  size_t *struct_size = value;
  switch (draw(c, 64)) {
  case 0: *struct_size = some_size(c); break;
  case 1: *struct_size = SIZE_MAX; break;
  case 2: *struct_size = size + 8 * (1 + draw(c, 16)); break;
  case 3:
    *struct_size = SCRATCH;
    bytes[size + draw(c, SCRATCH - size)] = 1;
    break;
  case 4: *struct_size = size - 1 - draw(c, 8); break;
  default: break;
  }
  return value;
}

#define BEGIN(type) ucxx_##type##_t *p = begin_struct(c, sizeof *p)
#define END return end_struct(c, p, sizeof *p)

/* Registered memory that operations may use at any time lives as long as the round. */
static ucxx_memory_t *lasting_memory(caller_t *c) {
  slot_t *slot = &pools[KIND_memory][draw(c, 2)];
  return slot->pinned ? slot->handle : NULL;
}

const ucxx_op_params_t *op(caller_t *c) {
  static ucxx_op_params_t none;
  c->op = &none;
  if (one_in(c, 4)) return NULL;
  BEGIN(op_params);
  c->op = p;
  if (one_in(c, 2))
    p->flags = UINT64_C(1) << draw(c, 9) | (one_in(c, 4) ? UINT64_C(1) << draw(c, 9) : 0);
  if (one_in(c, 64)) p->flags |= UINT64_C(1) << draw(c, 64);
  p->memory_type = one_in(c, 2) ? UCXX_MEMORY_AUTO : memory_type(c);
  p->reserved = one_in(c, 128);
  p->timeout_ns = one_in(c, 4) ? some_time(c) : 0;
  /* A timeout does not end what UCX has taken, so such a wait could last without end. */
  if (strstr(c->function, "send") != NULL || strstr(c->function, "message_recv") != NULL ||
      strstr(c->function, "_rma_") != NULL)
    p->flags &= ~(uint64_t)UCXX_FLAG_WAIT;
  if (p->flags & UCXX_FLAG_WAIT) p->timeout_ns = 1 + draw(c, one_in(c, 8) ? MILLISECOND : 20000);
  int waits = p->flags & UCXX_FLAG_WAIT && !one_in(c, 16);
  record_t *record = c->record = new_record(c);
  p->callback_arg = record;
  if (!waits && one_in(c, 3)) {
    p->callback = on_request;
    record->least = record->most = 1;
  }
  if (!waits && one_in(c, p->callback != NULL ? 64 : 4)) {
    p->notifier = take(c, KIND_notifier);
    record->most = p->notifier != NULL || p->callback != NULL;
  }
  if (one_in(c, 3)) p->recv_info = &record->info;
  if (one_in(c, 12)) p->source = take(c, KIND_endpoint);
  if (one_in(c, 12)) p->memory = lasting_memory(c);
  END;
}

const ucxx_context_params_t *context_params(caller_t *c) {
  static const ucxx_config_entry_t entries[] = {{"RNDV_THRESH", "4096"},     {"NO_SUCH_KEY", "1"},
                                                {"RNDV_THRESH", "nonsense"}, {NULL, "1"},
                                                {"TCP_KEEPINTVL", NULL},     {"", ""}};
  if (one_in(c, 8)) return NULL;
  BEGIN(context_params);
  p->features = one_in(c, 2) ? 0 : one_in(c, 8) ? number(c, 64) : draw(c, 64);
  p->network = one_in(c, 8) ? one_of(c, 0, 1) : UCXX_NETWORK_LOCAL;
  p->config_count = one_in(c, 3) ? draw(c, 3) : 0;
  for (size_t at = 0; at < 2; at++)
    c->config[at] = entries[draw(c, sizeof entries / sizeof *entries)];
  p->config = one_in(c, 16) ? NULL : c->config;
  p->name = one_in(c, 2) ? "hostile" : NULL;
  END;
}

/* SINGLE and SERIALIZED need callers that use one thread at a time: drawn only where they are
 * refused, or with a progress thread. */
const ucxx_worker_params_t *worker_params(caller_t *c) {
  if (one_in(c, 8)) return NULL;
  BEGIN(worker_params);
  p->progress_mode = one_of(c, 0, 3);
  if (one_in(c, 4))
    p->thread_mode = p->progress_mode != UCXX_PROGRESS_MANUAL ? one_of(c, 0, 2)
                     : one_in(c, 2)                           ? 3
                                                              : -1;
  p->delayed_submission = one_of(c, -1, 1);
  p->submission_queue_depth = one_in(c, 4) ? (uint32_t)number(c, 64) : 0;
  p->spin_ns = one_in(c, 4) ? number(c, 100000) % SECOND : 0;
  p->wait_takeover = one_of(c, -1, 1);
  p->cpu = one_in(c, 8) ? one_of(c, 0, 2) : 0;
  p->describe_requests = one_in(c, 8) ? (uint8_t)draw(c, 3) : 0;
  p->thread_start = one_in(c, 4) ? on_run : NULL;
  if (p->thread_start != NULL) {
    record_t *record = c->record = new_record(c);
    record->most = INT32_MAX;
    p->thread_start_arg = record;
  }
  p->name = one_in(c, 4) ? "a name that is longer than what the system keeps" : NULL;
  END;
}

const ucxx_endpoint_params_t *endpoint_params(caller_t *c) {
  BEGIN(endpoint_params);
  /* A wait for a dead peer without error handling lasts without end. */
  p->error_handling = one_in(c, 16) ? 2 + (int32_t)draw(c, 3) : UCXX_ENDPOINT_ERROR_HANDLING_PEER;
  p->send_window_ops = one_in(c, 3) ? (uint32_t)number(c, 16) : 0;
  p->send_window_bytes = one_in(c, 3) ? number(c, 10000) : 0;
  p->send_queue_ops = one_in(c, 3) ? (uint32_t)number(c, 16) : 0;
  p->send_queue_bytes = one_in(c, 3) ? number(c, 10000) : 0;
  /* No call may wait for an answer that never arrives. */
  p->connect_timeout_ns = one_in(c, 4) ? 1 + draw(c, 10 * MILLISECOND) : SECOND;
  p->liveness_ns = one_in(c, 8) ? number(c, 10 * SECOND) : 0;
  p->local_address = one_in(c, 16) ? host(c) : NULL;
  if (one_in(c, 32)) return p->connect_timeout_ns % 2 ? end_struct(c, p, sizeof *p) : NULL;
  record_t *record = c->record = new_record(c);
  if (one_in(c, 2)) {
    p->on_open = on_open;
    p->on_open_arg = record;
  }
  if (one_in(c, 8)) p->notifier = take(c, KIND_notifier);
  if (one_in(c, 2) && p->notifier == NULL) {
    p->on_close = on_close;
    p->on_close_arg = record;
    record->least = record->most = 1;
  }
  END;
}

const ucxx_listener_params_t *listener_params(caller_t *c) {
  if (one_in(c, 16)) return NULL;
  BEGIN(listener_params);
  p->host = one_in(c, 2) ? NULL : host(c);
  p->port = one_in(c, 4) ? port(c) : 0;
  if (one_in(c, 8)) p->notifier = take(c, KIND_notifier);
  p->on_connect = one_in(c, 16) || (p->notifier != NULL && !one_in(c, 16)) ? NULL : on_connect;
  record_t *record = c->record = new_record(c);
  record->most = INT32_MAX;
  p->on_connect_arg = record;
  END;
}

const ucxx_allocator_t *allocator(caller_t *c) {
  if (one_in(c, 3)) return NULL;
  BEGIN(allocator);
  p->allocate = one_in(c, 2) ? on_allocate : NULL;
  p->deallocate = (p->allocate != NULL) != one_in(c, 32) ? on_deallocate : NULL;
  p->max_frames = one_in(c, 4) ? number(c, 6) : 0;
  p->max_total_bytes = one_in(c, 4) ? number(c, 5000) : 0;
  END;
}

const ucxx_am_queue_cover_t *am_queue_cover(caller_t *c) {
  if (one_in(c, 16)) return NULL;
  BEGIN(am_queue_cover);
  p->owner = owner(c);
  p->id = p->owner != NULL || one_in(c, 16) ? number(c, 3) : 0;
  p->header = header_bytes(c, &p->header_length);
  p->memory_policy = one_in(c, 2) ? 0 : one_of(c, 0, 1);
  p->reserved = one_in(c, 64) ? 1 : 0;
  END;
}

const ucxx_group_params_t *group_params(caller_t *c) {
  static const char *const roots[] = {
      NULL,      "",     "127.0.0.1",   "127.0.0.1:", "127.0.0.1:1", "127.0.0.1:99999",
      "[::1]:0", "[::1", "127.0.0.1:0", ":::"};
  if (one_in(c, 16)) return NULL;
  BEGIN(group_params);
  p->bootstrap = one_in(c, 4) ? one_of(c, 0, 3) : UCXX_BOOTSTRAP_CALLBACKS;
  /* The PMIx library keeps a thread when it has failed. */
  if (p->bootstrap == UCXX_BOOTSTRAP_PMIX) p->bootstrap = UCXX_BOOTSTRAP_ENV;
  p->rank = one_in(c, 8) ? (uint32_t)number(c, 3) : 0;
  p->size = one_in(c, 8) ? (uint32_t)number(c, 3) : 1;
  p->allgather = one_in(c, 16) ? NULL : on_allgather;
  p->allgather_arg = p->size == 1 ? NULL : MARK;
  p->root = roots[draw(c, sizeof roots / sizeof *roots)];
  p->secret = one_in(c, 2) ? "sixteen bytes and more" : NULL;
  p->timeout_ns = 1 + draw(c, 5 * MILLISECOND);
  p->collective_timeout_ns = one_in(c, 2) ? 1 + draw(c, MILLISECOND) : SECOND;
  END;
}

const ucxx_window_params_t *window_params(caller_t *c) {
  if (one_in(c, 3)) return NULL;
  BEGIN(window_params);
  uint8_t *hints[] = {&p->no_locks, &p->same_disp_unit, &p->same_size, &p->shared_noncontiguous};
  for (size_t at = 0; at < 4; at++) *hints[at] = one_in(c, 8) ? (uint8_t)draw(c, 3) : 0;
  p->accumulate_ordering = one_of(c, 0, 1);
  p->accumulate_granularity = one_in(c, 4) ? number(c, 64) : 0;
  p->lock_timeout_ns = one_in(c, 2) ? 1 + draw(c, MILLISECOND) : 0;
  p->memory = one_in(c, 8) ? lasting_memory(c) : NULL;
  END;
}

const ucxx_hub_params_t *hub_params(caller_t *c) {
  if (one_in(c, 32)) return NULL;
  BEGIN(hub_params);
  p->envelope_size = one_in(c, 4) ? number(c, 9000) : 1024;
  p->max_queue_chunks = one_in(c, 3) ? number(c, 8) : 0;
  p->max_queue_bytes = one_in(c, 3) ? number(c, 8192) : 0;
  /* The caller's buffers have so many bytes; no hub is created for larger ones. */
  if (p->envelope_size > GIVEN_BYTES) p->max_queue_bytes = 1;
  p->retain = one_of(c, 0, 2);
  p->transfers_in_flight = one_in(c, 8) ? (uint32_t)number(c, 4) : 0;
  p->worker = one_in(c, 2) ? take(c, KIND_worker) : NULL;
  END;
}

const ucxx_link_params_t *link_params(caller_t *c) {
  if (one_in(c, 4)) return NULL;
  BEGIN(link_params);
  p->broadcast = one_in(c, 8) ? (uint8_t)draw(c, 3) : one_in(c, 4);
  p->autocommit = one_in(c, 8) ? (uint8_t)draw(c, 3) : one_in(c, 2);
  if (one_in(c, 2)) {
    record_t *record = c->record = new_record(c);
    record->most = INT32_MAX;
    p->on_ready = on_ready;
    p->on_ready_arg = record;
  }
  END;
}

/* At the caller's own memory never beyond its end. At the target anything: the library knows the
 * size there. */
const ucxx_layout_t *layout(caller_t *c, int wild) {
  if (one_in(c, 32)) return NULL;
  BEGIN(layout);
  p->element_type = one_in(c, 3) ? one_of(c, 0, 21) : UCXX_TYPE_INT64;
  p->count = draw(c, 3);
  p->block_length = draw(c, 3);
  p->stride = (int64_t)draw(c, 65) - 32;
  if (one_in(c, 16)) {
    p->count = draw(c, 64);
    p->block_length = draw(c, 64);
  }
  if (one_in(c, 8)) {
    for (size_t at = 0; at < LIST; at++)
      c->blocks[at] = (ucxx_block_t){.offset = (int64_t)draw(c, 400) - 200, .length = draw(c, 8)};
    p->blocks = one_in(c, 16) ? NULL : c->blocks;
    p->block_count = draw(c, LIST + 1);
  }
  if (wild && one_in(c, 8)) {
    p->count = number(c, 64);
    p->block_length = number(c, 64);
    p->stride = signed_number(c, 64) | 1;
  }
  if (one_in(c, 64)) p->reserved[draw(c, 2)] = 1;
  END;
}

ucxx_memory_kind_t memory_kind(caller_t *c) {
  static const int32_t types[] = {UCXX_MEMORY_HOST,       UCXX_MEMORY_HOST,  UCXX_MEMORY_HOST,
                                  UCXX_MEMORY_DUMMY,      UCXX_MEMORY_DUMMY, UCXX_MEMORY_CUDA,
                                  UCXX_MEMORY_CUDA_PINNED};
  ucxx_memory_kind_t kind = {.memory_type = types[draw(c, one_in(c, 8) ? 7 : 5)], .device_id = 0};
  if (one_in(c, 16)) kind.memory_type = memory_type(c);
  if (kind.memory_type == UCXX_MEMORY_DUMMY || one_in(c, 16))
    kind.device_id = (int32_t)draw(c, 3) - one_in(c, 16);
  return kind;
}
