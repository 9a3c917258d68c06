/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Random operations of several processes on each other's windows and their own, with all types, all
 * operations, and layouts that differ on the two sides, checked against a model in plain C. Each
 * process has its own areas in every window, so the combined result is the sum of the single ones.
 * The models' images, in shared memory, are compared with the windows byte by byte.
 */
#include "window.h"
#include "window_model.h"

enum {
  MEMBERS = 3,
  SLOT = 16 << 10,
  SLOTS = 6,
  AREA = SLOT * SLOTS,
  MOST_SIZE = AREA * MEMBERS + 1024,
  ROUNDS = 14,
  BATCHES = 4,
  MARGIN = 32
};

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;

typedef struct image {
  uint8_t bytes[MOST_SIZE], unknown[MOST_SIZE];
} image_t;
static image_t *images; /* of each member's window */

typedef enum action {
  PUT,
  RPUT,
  GET,
  RGET,
  ACCUMULATE,
  RACCUMULATE,
  GET_ACCUMULATE,
  RGET_ACCUMULATE,
  FETCH_AND_OP,
  COMPARE_AND_SWAP,
  ACTIONS
} action_t;

/* Memory of this process for a layout, with margins on both sides. */
typedef struct area {
  uint8_t *memory, *address;
  size_t length;
} area_t;

typedef struct doing {
  action_t action;
  int32_t type, op;
  uint32_t target;
  int64_t disp, offset; /* in units, in bytes */
  shape_t origin, result, there;
  area_t from, into;
  uint8_t *expected, *unknown; /* of `into` */
  ucxx_request_t *request;
  ucxx_status_t status;
} doing_t;
static doing_t doings[SLOTS];

static win_t win;
static dice_t dice;

/* ------------------------------------------------------------------ choosing an operation */

/* The address has any alignment. */
static area_t area_for(const shape_t *shape) {
  int64_t size = kinds[shape->type].size;
  area_t area = {.length = (size_t)((shape->high - shape->low) * size) + 2 * MARGIN};
  area.memory = test_alloc(area.length);
  memset(area.memory, WIN_CANARY, area.length);
  area.address = area.memory + roll(&dice, MARGIN) - shape->low * size;
  return area;
}

static int is_put(action_t action) { return action == PUT || action == RPUT; }
static int is_get(action_t action) { return action == GET || action == RGET; }
static int has_operand(const doing_t *doing) {
  return !is_get(doing->action) && (doing->op != UCXX_REDUCE_NO_OP || doing->action <= RACCUMULATE);
}
static int has_result(action_t action) { return is_get(action) || action >= GET_ACCUMULATE; }
static int has_request(action_t action) {
  return action == RPUT || action == RGET || action == RACCUMULATE || action == RGET_ACCUMULATE;
}
static int is_single(action_t action) { return action >= FETCH_AND_OP; }

/* The place at the target: inside the slot, at the start of a unit, and aligned if the operation
 * needs it. */
static int find_place(doing_t *doing, uint64_t begin, uint64_t grid) {
  int64_t size = kinds[doing->there.type].size, unit = win.unit[doing->target];
  int64_t least = (int64_t)begin - doing->there.low * size,
          most = (int64_t)begin + SLOT - doing->there.high * size;
  if (least > most) return 0;
  doing->offset = roll_between(&dice, least, most);
  while (doing->offset >= least &&
         (doing->offset % unit != 0 || doing->offset % (int64_t)grid != 0))
    doing->offset--;
  doing->disp = doing->offset / unit + (int64_t)win.address[doing->target];
  return doing->offset >= least;
}

static int32_t random_type(void) { return (int32_t)roll(&dice, TYPES); }

static int32_t random_op(int32_t type, int fetches) {
  for (;;) {
    int32_t op = (int32_t)roll(&dice, REDUCES);
    if (has_op(type, op) && (fetches || op != UCXX_REDUCE_NO_OP)) return op;
  }
}

static uint64_t random_count(void) {
  static const uint64_t most[] = {0, 1, 1, 8, 20, 100, 600, MOST_ELEMENTS};
  uint64_t limit = most[roll(&dice, 8)];
  return limit <= 1 ? limit : 1 + roll(&dice, limit);
}

/* A type whose elements add up to so many bytes. */
static int32_t other_type(uint64_t bytes) {
  for (;;) {
    int32_t type = random_type();
    if (bytes % kinds[type].size == 0 && bytes / kinds[type].size <= MOST_ELEMENTS) return type;
  }
}

/* Chooses an operation inside the slot. ACTIONS is any action and -1 any type; otherwise an
 * accumulate on a grid of such elements. */
static void think_up(doing_t *doing, uint32_t target, uint64_t begin, int passive, action_t action,
                     int32_t type) {
  do {
    doing->action = action < ACTIONS ? action : (action_t)roll(&dice, ACTIONS);
    if (type >= 0 && doing->action < ACCUMULATE) doing->action = ACCUMULATE;
    /* the same action without a request */
    if (!passive && has_request(doing->action)) doing->action--;
    doing->target = target;
    doing->request = NULL;
    doing->type = type >= 0 ? type : random_type();
    if (doing->action == COMPARE_AND_SWAP && strchr("biul", kinds[doing->type].class) == NULL)
      doing->action = FETCH_AND_OP;
    doing->op = doing->action < ACCUMULATE || doing->action == COMPARE_AND_SWAP
                    ? UCXX_REDUCE_REPLACE
                    : random_op(doing->type, has_result(doing->action));
    uint64_t count = is_single(doing->action) ? 1 : random_count(),
             bytes = count * kinds[doing->type].size;
    shape_random(&doing->there, &dice, doing->type, count, is_get(doing->action));
    if (is_single(doing->action)) {
      doing->there.at[0] = doing->there.low = 0;
      doing->there.high = 1;
    }
    int32_t near = doing->action < ACCUMULATE ? other_type(bytes) : doing->type;
    shape_random(&doing->origin, &dice, near, bytes / kinds[near].size, 1);
    shape_random(&doing->result, &dice, near, bytes / kinds[near].size, 0);
    if (is_single(doing->action)) {
      doing->origin.at[0] = doing->origin.low = doing->result.at[0] = doing->result.low = 0;
      doing->origin.high = doing->result.high = 1;
    }
  } while (!find_place(doing, begin,
                       type >= 0                    ? kinds[type].size
                       : doing->action < ACCUMULATE ? 1
                                                    : kinds[doing->type].alignment));
}

static void prepare(doing_t *doing) {
  doing->from = area_for(&doing->origin);
  for (uint64_t element = 0; element < doing->origin.count; element++)
    random_element(&dice, doing->origin.type,
                   doing->from.address +
                       doing->origin.at[element] * kinds[doing->origin.type].size);
  doing->into = area_for(&doing->result);
  doing->expected = test_alloc(doing->into.length);
  doing->unknown = test_alloc(doing->into.length);
  memcpy(doing->expected, doing->into.memory, doing->into.length);
  memset(doing->unknown, 0, doing->into.length);
}

static void attempt(doing_t *d) {
  uint8_t compare[LARGEST_ELEMENT];
  void *origin = has_operand(d) || is_put(d->action) ? d->from.address : NULL;
  const ucxx_layout_t *operand = origin != NULL ? &d->origin.layout : NULL;
  ucxx_window_t *w = win.window;
  switch (d->action) {
  case PUT:
    d->status = ucxx_window_put(w, origin, operand, d->target, d->disp, &d->there.layout);
    break;
  case RPUT:
    d->status = ucxx_window_rput(w, origin, operand, d->target, d->disp, &d->there.layout, NULL,
                                 &d->request);
    break;
  case GET:
    d->status = ucxx_window_get(w, d->into.address, &d->result.layout, d->target, d->disp,
                                &d->there.layout);
    break;
  case RGET:
    d->status = ucxx_window_rget(w, d->into.address, &d->result.layout, d->target, d->disp,
                                 &d->there.layout, NULL, &d->request);
    break;
  case ACCUMULATE:
    d->status =
        ucxx_window_accumulate(w, origin, operand, d->target, d->disp, &d->there.layout, d->op);
    break;
  case RACCUMULATE:
    d->status = ucxx_window_raccumulate(w, origin, operand, d->target, d->disp, &d->there.layout,
                                        d->op, NULL, &d->request);
    break;
  case GET_ACCUMULATE:
    d->status = ucxx_window_get_accumulate(w, origin, operand, d->into.address, &d->result.layout,
                                           d->target, d->disp, &d->there.layout, d->op);
    break;
  case RGET_ACCUMULATE:
    d->status =
        ucxx_window_rget_accumulate(w, origin, operand, d->into.address, &d->result.layout,
                                    d->target, d->disp, &d->there.layout, d->op, NULL, &d->request);
    break;
  case FETCH_AND_OP:
    d->status =
        ucxx_window_fetch_and_op(w, origin, d->into.address, d->type, d->target, d->disp, d->op);
    break;
  default:
    /* The present value, as far as it is known, or another one. */
    memcpy(compare, images[d->target].bytes + d->offset, kinds[d->type].size);
    compare[0] ^= (uint8_t)roll(&dice, 2);
    d->status = ucxx_window_compare_and_swap(w, origin, compare, d->into.address, d->type,
                                             d->target, d->disp);
    d->op = memcmp(compare, images[d->target].bytes + d->offset, kinds[d->type].size) == 0
                ? UCXX_REDUCE_REPLACE
                : UCXX_REDUCE_NO_OP;
  }
}

static void submit(doing_t *doing) {
  attempt(doing);
  if (doing->status != UCXX_OK && (doing->status != UCXX_INPROGRESS || !has_request(doing->action)))
    FAIL("operation %d, type %s, op %d, %llu elements gave %s", (int)doing->action,
         kinds[doing->type].name, (int)doing->op, (unsigned long long)doing->there.count,
         ucxx_status_name(doing->status));
}

/* ------------------------------------------------------------------ the expected result */

static void model_put(const doing_t *doing) {
  image_t *image = &images[doing->target];
  for (uint64_t byte = 0; byte < shape_bytes(&doing->there); byte++) {
    int64_t to = doing->offset + shape_byte(&doing->there, byte);
    image->bytes[to] = doing->from.address[shape_byte(&doing->origin, byte)];
    image->unknown[to] =
        (uint8_t)(shape_padding(&doing->there, byte) || shape_padding(&doing->origin, byte));
  }
}

static void model_fetch(const doing_t *doing) {
  const image_t *image = &images[doing->target];
  for (uint64_t byte = 0; byte < shape_bytes(&doing->there); byte++) {
    int64_t from = doing->offset + shape_byte(&doing->there, byte);
    int64_t to = doing->into.address + shape_byte(&doing->result, byte) - doing->into.memory;
    doing->expected[to] = image->bytes[from];
    doing->unknown[to] = (uint8_t)(image->unknown[from] || shape_padding(&doing->there, byte) ||
                                   shape_padding(&doing->result, byte));
  }
}

static void model_update(const doing_t *doing) {
  image_t *image = &images[doing->target];
  const int64_t size = kinds[doing->type].size;
  for (uint64_t element = 0; element < doing->there.count; element++) {
    int64_t at = doing->offset + doing->there.at[element] * size;
    const uint8_t *operand = doing->from.address + doing->origin.at[element] * size;
    int was_unknown =
        doing->action == COMPARE_AND_SWAP && memchr(image->unknown + at, 1, (size_t)size) != NULL;
    model_reduce(doing->type, doing->op, image->bytes + at, image->unknown + at, operand);
    if (was_unknown) memset(image->unknown + at, 1, (size_t)size);
  }
}

static void model(const doing_t *doing) {
  if (is_put(doing->action)) {
    model_put(doing);
    return;
  }
  if (has_result(doing->action)) model_fetch(doing);
  if (!is_get(doing->action)) model_update(doing);
}

static void release(doing_t *doing) {
  free(doing->from.memory);
  free(doing->into.memory);
  free(doing->expected);
  free(doing->unknown);
}

static void check_result(doing_t *doing) {
  for (size_t byte = 0; byte < doing->into.length; byte++) {
    if (!doing->unknown[byte] && doing->into.memory[byte] != doing->expected[byte])
      FAIL("operation %d, type %s, op %d, target %u of unit %u, offset %lld, %llu elements: result "
           "byte %lld is %02x, expected %02x",
           (int)doing->action, kinds[doing->type].name, (int)doing->op, (unsigned)doing->target,
           (unsigned)win.unit[doing->target], (long long)doing->offset,
           (unsigned long long)doing->there.count,
           (long long)(doing->into.memory + byte - doing->into.address), doing->into.memory[byte],
           doing->expected[byte]);
  }
  release(doing);
}

/* Checks that the operation is refused and its result buffer unchanged. */
static void refused(doing_t *doing) {
  attempt(doing);
  const ucxx_status_t expected =
      kinds[doing->type].ops[doing->op] == 'u' ? UCXX_ERR_UNSUPPORTED : UCXX_ERR_RMA_OP;
  if (doing->status != expected || doing->request != NULL)
    FAIL("operation %d, type %s, op %d gave %s", (int)doing->action, kinds[doing->type].name,
         (int)doing->op, ucxx_status_name(doing->status));
  check_result(doing);
}

/* ------------------------------------------------------------------ batches and epochs */

static uint64_t slot_begin(int slot) { return (uint64_t)win.rank * AREA + (uint64_t)slot * SLOT; }

/* Concurrent operations: in slots of their own, or accumulates on elements of one type in one slot,
 * which are ordered. */
static void batch(uint32_t target, int passive) {
  int32_t type = roll(&dice, 3) == 0 ? random_type() : -1;
  int ordered_slot = (int)roll(&dice, SLOTS);
  for (int slot = 0; slot < SLOTS; slot++) {
    doing_t *doing = &doings[slot];
    uint32_t there = target < win.ranks ? target
                     : type >= 0        ? (win.rank + (uint32_t)ordered_slot) % win.ranks
                                        : (uint32_t)roll(&dice, win.ranks);
    think_up(doing, there, slot_begin(type >= 0 ? ordered_slot : slot), passive, ACTIONS, type);
    prepare(doing);
    submit(doing);
    model(doing);
  }
}

/* A request completes when the operation is locally complete: its result has arrived, and its
 * operands may be reused. */
static void check_requests(void) {
  for (int slot = 0; slot < SLOTS; slot++) {
    doing_t *doing = &doings[slot];
    if (!has_request(doing->action)) continue;
    CHECK_OK(finish(doing->status, &doing->request));
    memset(doing->from.memory, 0xee, doing->from.length);
  }
}

/* Every operation on every type, in every form, including invalid combinations. */
static void each_operation_on_each_type(void) {
  for (int32_t type = 0; type < TYPES; type++) {
    for (int32_t op = 0; op < REDUCES; op++) {
      int slot = 0;
      for (action_t action = ACCUMULATE; action <= FETCH_AND_OP; action++) {
        doing_t *doing = &doings[slot];
        int legal = has_op(type, op) && (op != UCXX_REDUCE_NO_OP || has_result(action));
        do {
          think_up(doing, (uint32_t)roll(&dice, win.ranks), slot_begin(slot), 1, action, type);
        } while (doing->there.count == 0);
        doing->op = op;
        prepare(doing);
        if (legal) {
          submit(doing);
          model(doing);
          slot++;
        } else {
          refused(doing);
        }
      }
      for (int unused = slot; unused < SLOTS; unused++) doings[unused].action = ACTIONS;
      check_requests();
      CHECK_OK(ucxx_window_flush_all(win.window));
      for (int done = 0; done < slot; done++) check_result(&doings[done]);
    }
  }
}

static void check_batch(void) {
  for (int slot = 0; slot < SLOTS; slot++) check_result(&doings[slot]);
}

static void flush_somehow(void) {
  ucxx_request_t *requests[MEMBERS] = {NULL};
  ucxx_status_t statuses[MEMBERS];
  switch (roll(&dice, 4)) {
  case 0:
    for (uint32_t target = 0; target < win.ranks; target++)
      CHECK_OK(ucxx_window_flush(win.window, target));
    break;
  case 1:
    for (uint32_t target = 0; target < win.ranks; target++)
      statuses[target] = ucxx_window_flush_nb(win.window, target, NULL, &requests[target]);
    for (uint32_t target = 0; target < win.ranks; target++)
      CHECK_OK(finish(statuses[target], &requests[target]));
    break;
  case 2:
    /* After the local flush all results have arrived, and all operands may be reused. */
    CHECK_OK(ucxx_window_flush_local_all(win.window));
    for (int slot = 0; slot < SLOTS; slot++)
      memset(doings[slot].from.memory, 0xee, doings[slot].from.length);
    check_batch();
    CHECK_OK(ucxx_window_flush_all(win.window));
    return;
  default: CHECK_OK(ucxx_window_flush_all(win.window));
  }
  check_batch();
}

static void under_lock_all(uint32_t assertions) {
  CHECK_OK(ucxx_window_lock_all(win.window, assertions));
  for (int i = 0; i < BATCHES; i++) {
    batch(UINT32_MAX, 1);
    check_requests();
    flush_somehow();
  }
  CHECK_OK(ucxx_window_unlock_all(win.window));
}

static void under_locks(int32_t lock_type) {
  for (uint32_t distance = 0; distance < win.ranks; distance++) {
    uint32_t target = (win.rank + distance) % win.ranks;
    CHECK_OK(ucxx_window_lock(win.window, lock_type, target, 0));
    batch(target, 1);
    check_requests();
    if (roll(&dice, 2) == 0) CHECK_OK(ucxx_window_flush_local(win.window, target));
    CHECK_OK(ucxx_window_unlock(win.window, target));
    check_batch();
  }
}

static void under_fences(void) {
  CHECK_OK(ucxx_window_fence(win.window, UCXX_ASSERT_NOPRECEDE));
  for (int i = 0; i < BATCHES; i++) {
    batch(UINT32_MAX, 0);
    CHECK_OK(ucxx_window_fence(win.window, i == BATCHES - 1 ? UCXX_ASSERT_NOSUCCEED : 0));
    check_batch();
  }
}

static void under_start(void) {
  uint32_t all[MEMBERS] = {0, 1, 2};
  for (int i = 0; i < BATCHES; i++) {
    CHECK_OK(ucxx_window_post(win.window, all, win.ranks, 0));
    CHECK_OK(ucxx_window_start(win.window, all, win.ranks, 0));
    batch(UINT32_MAX, 0);
    CHECK_OK(ucxx_window_complete(win.window));
    check_batch();
    CHECK_OK(ucxx_window_wait(win.window));
  }
}

/* ------------------------------------------------------------------ rounds */

static void check_image(const uint8_t *bytes, uint32_t rank, const char *how) {
  for (uint64_t byte = 0; byte < win.size[rank]; byte++) {
    if (!images[rank].unknown[byte] && bytes[byte] != images[rank].bytes[byte])
      FAIL("byte %llu of window %u, seen by %s, is %02x, expected %02x", (unsigned long long)byte,
           (unsigned)rank, how, bytes[byte], images[rank].bytes[byte]);
  }
}

static void check_windows(void) {
  check_image(win.base, win.rank, "its own process");
  for (uint32_t rank = 0; rank < win.ranks; rank++) {
    size_t size = 0;
    uint32_t unit = 0;
    void *base = NULL;
    CHECK_OK(ucxx_window_shared_query(win.window, rank, &size, &unit, &base));
    CHECK_EQ(size, flavor == UCXX_WINDOW_FLAVOR_DYNAMIC ? 0 : win.size[rank]);
    CHECK_EQ(unit, win.unit[rank]);
    CHECK(flavor != UCXX_WINDOW_FLAVOR_SHARED || base != NULL);
    if (base != NULL && size > 0) check_image(base, rank, "loads");
  }
  uint32_t target = (uint32_t)roll(&dice, win.ranks);
  ucxx_layout_t all = contiguous(UCXX_TYPE_BYTE, win.size[target]);
  uint8_t *bytes = test_alloc(win.size[target]);
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, target, 0));
  CHECK_OK(ucxx_window_get(win.window, bytes, &all, target, (int64_t)win.address[target], &all));
  CHECK_OK(ucxx_window_unlock(win.window, target));
  check_image(bytes, target, "get");
  free(bytes);
}

/* A whole area at once: longer than any single step of the library. */
static void large(uint32_t target) {
  enum { BLOCK = 8, STRIDE = 9, NUMBERS = AREA / 8 };
  image_t *image = &images[target];
  const uint64_t begin = slot_begin(0) / win.unit[target] * win.unit[target];
  const uint64_t skipped =
      begin < slot_begin(0) ? win.unit[target] : 0; /* the next unit is inside */
  const uint64_t numbers = NUMBERS - BLOCK, length = numbers * 8;
  const uint64_t at = begin + skipped;
  const int64_t disp = (int64_t)(at / win.unit[target] + win.address[target]);
  uint8_t *data = test_alloc(length), *back = test_alloc(numbers / BLOCK * STRIDE * 8);
  ucxx_layout_t whole = contiguous(UCXX_TYPE_BYTE, length),
                words = contiguous(UCXX_TYPE_UINT8, length), spread;
  ucxx_layout_init_vector(&spread, UCXX_TYPE_UINT64, numbers / BLOCK, BLOCK, STRIDE);
  test_fill(data, length, dice.state);
  memset(back, WIN_CANARY, numbers / BLOCK * STRIDE * 8);
  CHECK_OK(ucxx_window_lock(win.window, UCXX_LOCK_SHARED, target, 0));
  CHECK_OK(ucxx_window_put(win.window, data, &whole, target, disp, &whole));
  CHECK_OK(ucxx_window_flush(win.window, target));
  CHECK_OK(ucxx_window_accumulate(win.window, data, &words, target, disp, &words, UCXX_REDUCE_SUM));
  CHECK_OK(ucxx_window_flush(win.window, target));
  CHECK_OK(ucxx_window_get(win.window, back, &spread, target, disp, &whole));
  CHECK_OK(ucxx_window_unlock(win.window, target));
  for (uint64_t byte = 0; byte < length; byte++) {
    uint64_t word = byte / 8, there = (word / BLOCK * STRIDE + word % BLOCK) * 8 + byte % 8;
    image->bytes[at + byte] = (uint8_t)(2 * data[byte]);
    image->unknown[at + byte] = 0;
    if (back[there] != image->bytes[at + byte])
      FAIL("byte %llu of %llu is %02x, expected %02x", (unsigned long long)byte,
           (unsigned long long)length, back[there], image->bytes[at + byte]);
  }
  for (uint64_t gap = 0; gap < numbers / BLOCK; gap++)
    CHECK_EQ(back[(gap * STRIDE + BLOCK) * 8], WIN_CANARY);
  free(data);
  free(back);
}

static void rounds(member_t *member) {
  static const uint32_t units[] = {1, 8, 4, 24, 16, 3, 2, 12};
  ucxx_window_params_t params = UCXX_WINDOW_PARAMS_INIT;
  static const uint64_t granularities[] = {0, 0, 64, UINT64_MAX};
  dice_t common = {test_mix(member->board->seed)};
  member_open(member, worker_params);
  member_join(member, 0);
  for (int opened = 0; opened < 2; opened++) {
    params.accumulate_granularity = granularities[roll(&common, 4)];
    params.same_size = params.same_disp_unit = 0;
    uint64_t shift = roll(&common, 8);
    win_open(&win, member, flavor, AREA * MEMBERS + (size_t)member->rank * 3 * WIN_ALIGNMENT,
             units[(member->rank + shift) % 8], &params);
    if (member->rank == 0) memset(images, 0, MEMBERS * sizeof *images);
    dice.state = test_mix(member->board->seed + 100 * (uint64_t)opened + member->rank + 1);
    CHECK_OK(ucxx_group_barrier(member->group));
    for (int round = 0; round < ROUNDS; round++) {
      uint64_t how = roll(&common, 6);
      STEP("window %d, round %d, epoch %d", opened, round, (int)how);
      if (how == 0 || how == 1)
        under_lock_all(how == 0 ? 0 : UCXX_ASSERT_NOCHECK);
      else if (how == 2 || how == 3)
        under_locks(how == 2 ? UCXX_LOCK_SHARED : UCXX_LOCK_EXCLUSIVE);
      else if (how == 4)
        under_fences();
      else
        under_start();
      CHECK_OK(ucxx_window_sync(win.window));
      CHECK_OK(ucxx_group_barrier(member->group));
      check_windows();
      CHECK_OK(ucxx_group_barrier(member->group));
    }
    STEP("window %d, each operation on each type", opened);
    CHECK_OK(ucxx_window_lock_all(win.window, 0));
    each_operation_on_each_type();
    CHECK_OK(ucxx_window_unlock_all(win.window));
    CHECK_OK(ucxx_group_barrier(member->group));
    check_windows();
    CHECK_OK(ucxx_group_barrier(member->group));
    STEP("window %d, large operations", opened);
    for (uint32_t target = 0; target < member->size; target++)
      large((member->rank + target) % member->size);
    CHECK_OK(ucxx_group_barrier(member->group));
    check_windows();
    CHECK_OK(ucxx_group_barrier(member->group));
    win_close(&win);
  }
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  images = shared_open(MEMBERS * sizeof *images);
  run_members(MEMBERS, test_seed(), rounds);
  munmap(images, MEMBERS * sizeof *images);
}

int main(int argc, char **argv) {
  test_begin("window_data");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  in_every_mode(round_in);
  return 0;
}
