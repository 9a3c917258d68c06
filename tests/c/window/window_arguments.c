/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Each wrong argument of a window's call gives its documented status and a message, whether or not
 * the call is legal in the window's state: arguments are checked before the epoch, and nothing
 * changes.
 */
#include "window_states.h"

static const ucxx_worker_params_t *worker_params;
static orders_t *all_orders;
static int32_t flavor;
static ucxx_window_t *window;

enum { BEYOND = WINDOW_SIZE / WINDOW_UNIT };
static uint64_t number = 1, result;
static const uint64_t untouched = UINT64_C(0x7777777777777777);
static const uint32_t twice[] = {FIRST, OTHER, FIRST}, strange[] = {FIRST, PLAYERS},
                      fine[] = {FIRST};

typedef struct shape {
  ucxx_layout_t origin, target;
} shape_t;

static shape_t of(int32_t type, uint64_t count) {
  shape_t shape = {contiguous(type, count), contiguous(type, count)};
  return shape;
}

/* One of each operation that has layouts; `which` counts them. */
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, RPUT, RGET, RACCUMULATE, RGET_ACCUMULATE, OPERATIONS };
static const char *const operation_names[] = {"put",  "get",  "accumulate",  "get_accumulate",
                                              "rput", "rget", "raccumulate", "rget_accumulate"};

typedef struct made {
  void *origin, *result;
  const ucxx_layout_t *origin_layout, *result_layout, *target_layout;
  uint32_t target;
  int64_t disp;
  int32_t op;
  const ucxx_op_params_t *params;
} made_t;

static ucxx_status_t make(int which, const made_t *m) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status;
  switch (which) {
  case PUT:
    return ucxx_window_put(window, m->origin, m->origin_layout, m->target, m->disp,
                           m->target_layout);
  case GET:
    return ucxx_window_get(window, m->result, m->origin_layout, m->target, m->disp,
                           m->target_layout);
  case ACCUMULATE:
    return ucxx_window_accumulate(window, m->origin, m->origin_layout, m->target, m->disp,
                                  m->target_layout, m->op);
  case GET_ACCUMULATE:
    return ucxx_window_get_accumulate(window, m->origin, m->origin_layout, m->result,
                                      m->result_layout, m->target, m->disp, m->target_layout,
                                      m->op);
  case RPUT:
    status = ucxx_window_rput(window, m->origin, m->origin_layout, m->target, m->disp,
                              m->target_layout, m->params, &request);
    break;
  case RGET:
    status = ucxx_window_rget(window, m->result, m->origin_layout, m->target, m->disp,
                              m->target_layout, m->params, &request);
    break;
  case RACCUMULATE:
    status = ucxx_window_raccumulate(window, m->origin, m->origin_layout, m->target, m->disp,
                                     m->target_layout, m->op, m->params, &request);
    break;
  default:
    status = ucxx_window_rget_accumulate(window, m->origin, m->origin_layout, m->result,
                                         m->result_layout, m->target, m->disp, m->target_layout,
                                         m->op, m->params, &request);
  }
  CHECK(request == NULL);
  return status;
}

static const char *now_in;

#define REFUSED(expression, expected)                                                              \
  do {                                                                                             \
    ucxx_status_t status_ = (expression);                                                          \
    if (status_ != (expected))                                                                     \
      FAIL("in state %s: %s gave %s, expected %s", now_in, #expression, ucxx_status_name(status_), \
           ucxx_status_name(expected));                                                            \
    CHECK(strlen(ucxx_last_error_message()) > 0);                                                  \
    CHECK_EQ(result, untouched);                                                                   \
  } while (0)

static void each_operation(void (*wrong)(made_t *made), ucxx_status_t expected,
                           uint32_t which_ones) {
  for (int which = 0; which < OPERATIONS; which++) {
    shape_t shape = of(UCXX_TYPE_UINT64, 1);
    made_t made = {&number, &result, &shape.origin,   &shape.origin, &shape.target,
                   FIRST,   0,       UCXX_REDUCE_SUM, NULL};
    if ((which_ones >> which & 1) == 0) continue;
    wrong(&made);
    ucxx_status_t status = make(which, &made);
    if (status != expected)
      FAIL("in state %s: %s gave %s, expected %s", now_in, operation_names[which],
           ucxx_status_name(status), ucxx_status_name(expected));
    CHECK(strlen(ucxx_last_error_message()) > 0);
    CHECK_EQ(result, untouched);
  }
}

enum {
  EVERY = (1 << OPERATIONS) - 1,
  REDUCING = 1 << ACCUMULATE | 1 << GET_ACCUMULATE | 1 << RACCUMULATE | 1 << RGET_ACCUMULATE,
  FETCHING = 1 << GET_ACCUMULATE | 1 << RGET_ACCUMULATE,
  SILENT = 1 << ACCUMULATE | 1 << RACCUMULATE,
  READING = 1 << PUT | 1 << RPUT | REDUCING,
  WRITING = 1 << GET | 1 << RGET | FETCHING,
  REQUESTS = 1 << RPUT | 1 << RGET | 1 << RACCUMULATE | 1 << RGET_ACCUMULATE
};

static ucxx_layout_t spare;
static ucxx_op_params_t spare_params;

static void no_rank(made_t *made) { made->target = PLAYERS; }
static void far_rank(made_t *made) { made->target = UINT32_MAX; }
static void behind(made_t *made) { made->disp = BEYOND; }
static void before(made_t *made) { made->disp = -1; }
static void far_behind(made_t *made) { made->disp = INT64_MAX; }
static void far_before(made_t *made) { made->disp = INT64_MIN; }
static void wraps(made_t *made) { made->disp = INT64_MAX / WINDOW_UNIT + 2; }
static void no_origin(made_t *made) { made->origin = NULL; }
static void no_result(made_t *made) { made->result = NULL; }
static void no_origin_layout(made_t *made) { made->origin_layout = NULL; }
static void no_target_layout(made_t *made) { made->target_layout = NULL; }
static void strange_type(made_t *made) {
  spare = contiguous(UCXX_TYPE_UINT64, 1);
  spare.element_type = UCXX_TYPE_LONG_DOUBLE_INT + 1;
  made->target_layout = &spare;
}
static void strange_origin_type(made_t *made) {
  spare = contiguous(UCXX_TYPE_UINT64, 1);
  spare.element_type = -1;
  made->origin_layout = &spare;
}
static void other_length(made_t *made) {
  spare = contiguous(UCXX_TYPE_UINT64, 2);
  made->target_layout = &spare;
}
static void other_type(made_t *made) {
  spare = contiguous(UCXX_TYPE_INT64, 1);
  made->target_layout = &spare;
}
static void small_struct(made_t *made) {
  spare = contiguous(UCXX_TYPE_UINT64, 1);
  spare.struct_size = 3;
  made->origin_layout = &spare;
}
static struct longer {
  ucxx_layout_t known;
  uint64_t unknown;
} longer;
static void unknown_tail(made_t *made) {
  longer.known = contiguous(UCXX_TYPE_UINT64, 1);
  longer.known.struct_size = sizeof longer;
  longer.unknown = 1;
  made->origin_layout = &longer.known;
}
static void strange_op(made_t *made) { made->op = UCXX_REDUCE_MAXLOC + 1; }
static void negative_op(made_t *made) { made->op = -1; }
static void op_of_pairs(made_t *made) { made->op = UCXX_REDUCE_MINLOC; }
static void no_op(made_t *made) { made->op = UCXX_REDUCE_NO_OP; }
static void bits_of_reals(made_t *made) {
  spare = contiguous(UCXX_TYPE_DOUBLE, 1);
  made->origin_layout = made->result_layout = made->target_layout = &spare;
  made->op = UCXX_REDUCE_BAND;
}
static void strange_flag(made_t *made) {
  spare_params = (ucxx_op_params_t)UCXX_OP_PARAMS_INIT;
  spare_params.flags = UCXX_FLAG_EAGER;
  made->params = &spare_params;
}

static void data_calls(void) {
  each_operation(no_rank, UCXX_ERR_RMA_RANK, EVERY);
  each_operation(far_rank, UCXX_ERR_RMA_RANK, EVERY);
  if (flavor != UCXX_WINDOW_FLAVOR_DYNAMIC) {
    each_operation(behind, UCXX_ERR_RMA_RANGE, EVERY);
    each_operation(before, UCXX_ERR_RMA_RANGE, EVERY);
    each_operation(far_behind, UCXX_ERR_RMA_RANGE, EVERY);
    each_operation(far_before, UCXX_ERR_RMA_RANGE, EVERY);
    each_operation(wraps, UCXX_ERR_RMA_RANGE, EVERY);
  }
  each_operation(no_origin, UCXX_ERR_INVALID_PARAM, READING);
  each_operation(no_result, UCXX_ERR_INVALID_PARAM, WRITING);
  each_operation(no_origin_layout, UCXX_ERR_INVALID_PARAM, EVERY);
  each_operation(no_target_layout, UCXX_ERR_INVALID_PARAM, EVERY);
  each_operation(small_struct, UCXX_ERR_INVALID_PARAM, EVERY);
  each_operation(unknown_tail, UCXX_ERR_INVALID_PARAM, EVERY);
  each_operation(strange_type, UCXX_ERR_RMA_TYPE, EVERY);
  each_operation(strange_origin_type, UCXX_ERR_RMA_TYPE, EVERY);
  each_operation(other_length, UCXX_ERR_INVALID_PARAM, EVERY);
  each_operation(other_type, UCXX_ERR_RMA_TYPE, REDUCING);
  each_operation(strange_op, UCXX_ERR_RMA_OP, REDUCING);
  each_operation(negative_op, UCXX_ERR_RMA_OP, REDUCING);
  each_operation(op_of_pairs, UCXX_ERR_RMA_OP, REDUCING);
  each_operation(bits_of_reals, UCXX_ERR_RMA_OP, REDUCING);
  each_operation(no_op, UCXX_ERR_RMA_OP, SILENT);
  each_operation(strange_flag, UCXX_ERR_INVALID_PARAM, REQUESTS);
}

static void single_element_calls(void) {
  const int32_t u64 = UCXX_TYPE_UINT64;
  REFUSED(ucxx_window_fetch_and_op(window, &number, &result, u64, PLAYERS, 0, UCXX_REDUCE_SUM),
          UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_fetch_and_op(window, &number, &result, 99, FIRST, 0, UCXX_REDUCE_SUM),
          UCXX_ERR_RMA_TYPE);
  REFUSED(ucxx_window_fetch_and_op(window, &number, &result, u64, FIRST, 0, 99), UCXX_ERR_RMA_OP);
  REFUSED(ucxx_window_fetch_and_op(window, &number, &result, UCXX_TYPE_FLOAT, FIRST, 0,
                                   UCXX_REDUCE_LAND),
          UCXX_ERR_RMA_OP);
  REFUSED(ucxx_window_fetch_and_op(window, NULL, &result, u64, FIRST, 0, UCXX_REDUCE_SUM),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_fetch_and_op(window, &number, NULL, u64, FIRST, 0, UCXX_REDUCE_SUM),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_compare_and_swap(window, &number, &number, &result, u64, PLAYERS, 0),
          UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_compare_and_swap(window, &number, &number, &result, -1, FIRST, 0),
          UCXX_ERR_RMA_TYPE);
  REFUSED(
      ucxx_window_compare_and_swap(window, &number, &number, &result, UCXX_TYPE_DOUBLE, FIRST, 0),
      UCXX_ERR_RMA_TYPE);
  REFUSED(ucxx_window_compare_and_swap(window, &number, &number, &result, UCXX_TYPE_INT32_INT,
                                       FIRST, 0),
          UCXX_ERR_RMA_TYPE);
  REFUSED(ucxx_window_compare_and_swap(window, NULL, &number, &result, u64, FIRST, 0),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_compare_and_swap(window, &number, NULL, &result, u64, FIRST, 0),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_compare_and_swap(window, &number, &number, NULL, u64, FIRST, 0),
          UCXX_ERR_INVALID_PARAM);
  if (flavor != UCXX_WINDOW_FLAVOR_DYNAMIC) {
    REFUSED(ucxx_window_fetch_and_op(window, &number, &result, u64, FIRST, BEYOND, UCXX_REDUCE_SUM),
            UCXX_ERR_RMA_RANGE);
    REFUSED(ucxx_window_fetch_and_op(window, &number, &result, u64, FIRST, -1, UCXX_REDUCE_SUM),
            UCXX_ERR_RMA_RANGE);
    REFUSED(ucxx_window_compare_and_swap(window, &number, &number, &result, u64, FIRST, BEYOND),
            UCXX_ERR_RMA_RANGE);
    REFUSED(ucxx_window_compare_and_swap(window, &number, &number, &result, u64, FIRST, -1),
            UCXX_ERR_RMA_RANGE);
  }
}

static void synchronisation_calls(void) {
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_STREAM_PARTIAL;
  REFUSED(ucxx_window_lock(window, UCXX_LOCK_SHARED, PLAYERS, 0), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_lock(window, 0, FIRST, 0), UCXX_ERR_RMA_LOCK_TYPE);
  REFUSED(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE + 1, FIRST, 0), UCXX_ERR_RMA_LOCK_TYPE);
  REFUSED(ucxx_window_lock(window, UCXX_LOCK_SHARED, FIRST, UCXX_ASSERT_NOSTORE),
          UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_lock(window, UCXX_LOCK_SHARED, FIRST, 1u << 31), UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_lock_nb(window, UCXX_LOCK_SHARED, PLAYERS, 0, NULL, &request),
          UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_lock_nb(window, 7, FIRST, 0, NULL, &request), UCXX_ERR_RMA_LOCK_TYPE);
  REFUSED(
      ucxx_window_lock_nb(window, UCXX_LOCK_SHARED, FIRST, UCXX_ASSERT_NOSUCCEED, NULL, &request),
      UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_lock_nb(window, UCXX_LOCK_SHARED, FIRST, 0, &params, &request),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_unlock(window, PLAYERS), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_lock_all(window, UCXX_ASSERT_NOPRECEDE), UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_flush(window, PLAYERS), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_flush_local(window, PLAYERS), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_flush_nb(window, PLAYERS, NULL, &request), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_flush_nb(window, FIRST, &params, &request), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_post(window, strange, 2, 0), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_post(window, twice, 3, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_post(window, NULL, 1, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_post(window, fine, 1, UCXX_ASSERT_NOSUCCEED), UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_start(window, strange, 2, 0), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_start(window, twice, 3, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_start(window, NULL, 1, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_start(window, fine, 1, UCXX_ASSERT_NOPUT), UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_test(window, NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_fence(window, UCXX_ASSERT_NOCHECK), UCXX_ERR_RMA_ASSERT);
  REFUSED(ucxx_window_fence(window, 32), UCXX_ERR_RMA_ASSERT);
  CHECK(request == NULL);
}

static void other_calls(void) {
  ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
  size_t size = 55;
  uint32_t unit = 66;
  void *base = &size;
  CHECK_EQ(ucxx_window_sync_type(window, PLAYERS), UCXX_ERR_RMA_RANK);
  CHECK_EQ(ucxx_window_path(window, PLAYERS), UCXX_ERR_RMA_RANK);
  REFUSED(ucxx_window_shared_query(window, PLAYERS, &size, &unit, &base), UCXX_ERR_RMA_RANK);
  CHECK(size == 55 && unit == 66 && base == &size);
  REFUSED(ucxx_window_query(window, NULL), UCXX_ERR_INVALID_PARAM);
  attr.struct_size = 2;
  REFUSED(ucxx_window_query(window, &attr), UCXX_ERR_INVALID_PARAM);
  if (flavor != UCXX_WINDOW_FLAVOR_DYNAMIC) {
    REFUSED(ucxx_window_attach(window, &number, 8), UCXX_ERR_RMA_FLAVOR);
    REFUSED(ucxx_window_detach(window, &number), UCXX_ERR_RMA_FLAVOR);
  }
}

static void without_a_window(void) {
  now_in = "none";
  ucxx_window_t *present = window;
  window = NULL;
  ucxx_window_attr_t attr = UCXX_WINDOW_ATTR_INIT;
  ucxx_request_t *request = NULL;
  ucxx_window_params_t hints = UCXX_WINDOW_PARAMS_INIT;
  int32_t done = 0;
  REFUSED(ucxx_window_lock(NULL, UCXX_LOCK_SHARED, 0, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_lock_nb(NULL, UCXX_LOCK_SHARED, 0, 0, NULL, &request),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_unlock(NULL, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_lock_all(NULL, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_unlock_all(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_flush(NULL, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_flush_nb(NULL, 0, NULL, &request), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_flush_all(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_flush_local(NULL, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_flush_local_all(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_sync(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_post(NULL, fine, 1, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_start(NULL, fine, 1, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_complete(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_wait(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_test(NULL, &done), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_fence(NULL, 0), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_close(NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_query(NULL, &attr), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_shared_query(NULL, 0, NULL, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_set_hints(NULL, &hints), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_attach(NULL, &number, 8), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_detach(NULL, &number), UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_fetch_and_op(NULL, &number, &result, UCXX_TYPE_UINT64, 0, 0, UCXX_REDUCE_SUM),
          UCXX_ERR_INVALID_PARAM);
  REFUSED(ucxx_window_compare_and_swap(NULL, &number, &number, &result, UCXX_TYPE_UINT64, 0, 0),
          UCXX_ERR_INVALID_PARAM);
  each_operation(no_op, UCXX_ERR_INVALID_PARAM, FETCHING);
  each_operation(before, UCXX_ERR_INVALID_PARAM, EVERY & ~REDUCING);
  CHECK(ucxx_window_path(NULL, 0) < 0);
  CHECK(ucxx_window_sync_type(NULL, 0) < 0);
  CHECK(ucxx_window_group(NULL) == NULL);
  ucxx_window_destroy(NULL);
  window = present;
}

static void in_states(play_t *play) {
  static const char *const states[] = {"N..", "F..", "E..", "St.",  "S.t",  "Lx.",  "L.n",
                                       "Lp.", "A..", "a..", "N..+", "Stt+", "Lsn+", "A..+"};
  window = play->win.window;
  result = untouched;
  without_a_window();
  for (size_t at = 0; at < sizeof states / sizeof *states; at++) {
    now_in = states[at];
    STEP("state %s", now_in);
    enter(play, now_in, 0);
    data_calls();
    single_element_calls();
    synchronisation_calls();
    other_calls();
    check_state(play, now_in, "afterwards");
    leave(play, now_in, 0);
  }
}

static void members(member_t *member) {
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  member_open(member, worker_params);
  member_join(member, 0);
  play_one(member, all_orders, flavor, &params, in_states);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  all_orders = shared_open(PLAYERS * sizeof *all_orders);
  run_members(PLAYERS, test_seed(), members);
  munmap(all_orders, PLAYERS * sizeof *all_orders);
}

int main(int argc, char **argv) {
  test_begin("window_arguments");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
