/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Bad input: windows of a group of one process. Errors that depend on a window's state or on ranks
 * are in window_arguments.c and window_create.c. See bad_input.h. */
#include "bad_input.h"

enum { WINDOW_BYTES = 64 };

typedef struct alone {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
  ucxx_window_t *window; /* locked by its only member */
  uint64_t *base;
} alone_t;

static ucxx_status_t gather_alone(void *arg, const void *in, size_t length, void *out) {
  (void)arg;
  memcpy(out, in, length);
  return UCXX_OK;
}

static alone_t alone_open(void) {
  alone_t alone = {NULL, NULL, NULL, NULL, NULL};
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  void *base = NULL;
  params.bootstrap = UCXX_BOOTSTRAP_CALLBACKS;
  params.size = 1;
  params.allgather = gather_alone;
  CHECK_OK(ucxx_context_create(NULL, &alone.context));
  CHECK_OK(ucxx_worker_create(alone.context, NULL, &alone.worker));
  CHECK_OK(ucxx_group_create(alone.worker, &params, &alone.group));
  CHECK_OK(ucxx_window_allocate(alone.group, WINDOW_BYTES, 8, NULL, &base, &alone.window));
  CHECK_OK(ucxx_window_lock(alone.window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  alone.base = base;
  return alone;
}

/* Checks that the refused call changed neither the bytes nor the epoch. Keeps the thread's error
 * message. */
static ucxx_status_t alone_close(alone_t *alone, ucxx_status_t status) {
  if (status < 0) {
    for (int word = 0; word < WINDOW_BYTES / 8; word++) CHECK_EQ(alone->base[word], 0);
    CHECK_EQ(ucxx_window_sync_type(alone->window, 0), UCXX_SYNC_LOCK);
  }
  CHECK_OK(ucxx_window_unlock(alone->window, 0));
  CHECK_OK(ucxx_window_close(alone->window));
  ucxx_window_destroy(alone->window);
  ucxx_group_destroy(alone->group);
  ucxx_worker_destroy(alone->worker);
  ucxx_context_destroy(alone->context);
  return status;
}

/* ------------------------------------------------------------------ creation */

enum maker { CREATE, ALLOCATE, ALLOCATE_SHARED, CREATE_DYNAMIC };

static ucxx_status_t make_of(enum maker maker, void *memory, size_t size, uint32_t unit,
                             const ucxx_window_params_t *params) {
  alone_t alone = alone_open();
  ucxx_window_t *window = NULL;
  void *base = NULL;
  ucxx_status_t status;
  if (maker == CREATE)
    status = ucxx_window_create(alone.group, memory, size, unit, params, &window);
  else if (maker == ALLOCATE)
    status = ucxx_window_allocate(alone.group, size, unit, params, &base, &window);
  else if (maker == ALLOCATE_SHARED)
    status = ucxx_window_allocate_shared(alone.group, size, unit, params, &base, &window);
  else
    status = ucxx_window_create_dynamic(alone.group, params, &window);
  CHECK((window != NULL) == (status == UCXX_OK));
  CHECK(base == NULL || status == UCXX_OK);
  if (window != NULL) CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  return alone_close(&alone, status);
}

static ucxx_status_t create_with(fixture_t *f, const void *params) {
  return make_of(CREATE, f->bytes, 64, 8, params);
}
static ucxx_status_t allocate_with(fixture_t *f, const void *params) {
  (void)f;
  return make_of(ALLOCATE, NULL, 64, 8, params);
}
static ucxx_status_t allocate_shared_with(fixture_t *f, const void *params) {
  (void)f;
  return make_of(ALLOCATE_SHARED, NULL, 64, 8, params);
}
static ucxx_status_t create_dynamic_with(fixture_t *f, const void *params) {
  (void)f;
  return make_of(CREATE_DYNAMIC, NULL, 64, 8, params);
}

/* Params with one byte set, or all bytes of one number. */
#define WITH(field, value)                               \
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT; \
  (void)f;                                               \
  params.field = value;                                  \
  return make_of(ALLOCATE, NULL, 64, 8, &params)
static ucxx_status_t no_locks_2(fixture_t *f) { WITH(no_locks, 2); }
static ucxx_status_t same_size_255(fixture_t *f) { WITH(same_size, 255); }
static ucxx_status_t same_disp_unit_2(fixture_t *f) { WITH(same_disp_unit, 2); }
static ucxx_status_t noncontiguous_2(fixture_t *f) { WITH(shared_noncontiguous, 2); }
static ucxx_status_t ordering_2(fixture_t *f) { WITH(accumulate_ordering, 2); }
static ucxx_status_t ordering_negative(fixture_t *f) { WITH(accumulate_ordering, -1); }
static ucxx_status_t granularity_highest(fixture_t *f) { WITH(accumulate_granularity, UINT64_MAX); }

static ucxx_status_t hints_with(fixture_t *f, const void *params) {
  alone_t alone = alone_open();
  (void)f;
  CHECK_OK(ucxx_window_unlock(alone.window, 0));
  ucxx_status_t status = ucxx_window_set_hints(alone.window, params);
  CHECK_OK(ucxx_window_lock(alone.window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  return alone_close(&alone, status);
}

static ucxx_status_t query_into(fixture_t *f, void *attr) {
  alone_t alone = alone_open();
  (void)f;
  return alone_close(&alone, ucxx_window_query(alone.window, attr));
}

/* ------------------------------------------------------------------ layouts */

static ucxx_status_t put_with(fixture_t *f, const ucxx_layout_t *origin,
                              const ucxx_layout_t *target) {
  alone_t alone = alone_open();
  return alone_close(&alone, ucxx_window_put(alone.window, f->bytes, origin, 0, 0, target));
}

/* The sized struct as an empty layout: the default type and no elements. */
static ucxx_status_t layout_with(fixture_t *f, const void *layout) {
  ucxx_layout_t nothing;
  ucxx_layout_init_contiguous(&nothing, UCXX_TYPE_BYTE, 0);
  return put_with(f, layout, &nothing);
}

static ucxx_status_t vector_of(fixture_t *f, uint64_t count, uint64_t length, int64_t stride) {
  ucxx_layout_t layout;
  ucxx_layout_init_vector(&layout, UCXX_TYPE_UINT32, count, length, stride);
  return put_with(f, &layout, &layout);
}

static ucxx_status_t block_of(fixture_t *f, int64_t offset, uint64_t length) {
  ucxx_block_t block = {offset, length};
  ucxx_layout_t layout;
  ucxx_layout_init_blocks(&layout, UCXX_TYPE_UINT32, &block, 1);
  return put_with(f, &layout, &layout);
}

/* ------------------------------------------------------------------ operations */

static ucxx_status_t settled(alone_t *alone, ucxx_status_t status, ucxx_request_t **request) {
  return alone_close(alone, status == UCXX_INPROGRESS ? finish(status, request) : status);
}

static ucxx_status_t rput_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_layout_t one;
  ucxx_request_t *request = NULL;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  return settled(&alone,
                 ucxx_window_rput(alone.window, f->bytes, &one, 0, 0, &one, params, &request),
                 &request);
}

static ucxx_status_t rget_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_layout_t one;
  ucxx_request_t *request = NULL;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  return settled(&alone,
                 ucxx_window_rget(alone.window, f->bytes, &one, 0, 0, &one, params, &request),
                 &request);
}

static ucxx_status_t raccumulate_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_layout_t one;
  ucxx_request_t *request = NULL;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  return settled(&alone,
                 ucxx_window_raccumulate(alone.window, f->bytes, &one, 0, 0, &one, UCXX_REDUCE_SUM,
                                         params, &request),
                 &request);
}

static ucxx_status_t rget_accumulate_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_layout_t one;
  ucxx_request_t *request = NULL;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  return settled(&alone,
                 ucxx_window_rget_accumulate(alone.window, f->bytes, &one, f->bytes + 8, &one, 0, 0,
                                             &one, UCXX_REDUCE_SUM, params, &request),
                 &request);
}

static ucxx_status_t flush_nb_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_request_t *request = NULL;
  (void)f;
  return settled(&alone, ucxx_window_flush_nb(alone.window, 0, params, &request), &request);
}

/* The lock is released first, and taken again at the end in any case. */
static ucxx_status_t lock_nb_with(fixture_t *f, const ucxx_op_params_t *params) {
  alone_t alone = alone_open();
  ucxx_request_t *request = NULL;
  (void)f;
  CHECK_OK(ucxx_window_unlock(alone.window, 0));
  ucxx_status_t status =
      ucxx_window_lock_nb(alone.window, UCXX_LOCK_EXCLUSIVE, 0, 0, params, &request);
  if (status == UCXX_INPROGRESS) status = finish(status, &request);
  if (status < 0) CHECK_OK(ucxx_window_lock(alone.window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  return alone_close(&alone, status);
}

#define BAD_INPUT_ROWS "bad_input_window.inc"
#define BAD_INPUT_TABLE bad_input_window
#include "bad_input_table.h"
