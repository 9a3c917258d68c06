/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Element types with unusual arithmetic: long double, its complex type, and its pair. Every
 * accumulating call gives the same bits as C's arithmetic, for every operation and kind of number.
 * Elements larger than a machine word are never seen half changed. Compare-and-swap takes the types
 * that MPI allows.
 */
#include "window.h"
#include "window_model.h"

#include <complex.h>

enum {
  MEMBERS = 2,
  VALUES = 17,
  PAIRS = VALUES * VALUES,
  AREA = PAIRS * LARGEST_ELEMENT,
  TURNS = 60
};
enum { SHARED_AT = MEMBERS * AREA, SIZE = SHARED_AT + 2 * LARGEST_ELEMENT };
enum { UNIT = 8 };

typedef struct located {
  long double value;
  int index;
} located_t;
typedef enum form { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, FORMS } form_t;

static const ucxx_worker_params_t *worker_params;
static int32_t flavor;
static win_t win;
static long double values[VALUES];

static void make_values(void) {
  const long double third = 1.0L / 3.0L, zero = 0;
  const long double all[] = {zero,
                             -zero,
                             1,
                             -1,
                             third,
                             -7 * third,
                             1 + LDBL_EPSILON,
                             LDBL_MIN,
                             -LDBL_MIN,
                             LDBL_MAX,
                             -LDBL_MAX,
                             LDBL_MIN / 2,
                             -LDBL_MIN * LDBL_EPSILON,
                             1 / zero,
                             -1 / zero,
                             zero / zero};
  memcpy(values, all, sizeof all);
#if defined(__x86_64__)
  /* A signalling NaN: a plain copy must not make it a quiet one. */
  const uint64_t signalling[] = {UINT64_C(0xa000000000000001), 0x7fff};
  memcpy(&values[VALUES - 1], signalling, sizeof signalling);
#endif
}

/* ------------------------------------------------------------------ C's results */

static void sum_or_product(int32_t op, const long double *a, const long double *b,
                           long double *out) {
  *out = op == UCXX_REDUCE_SUM ? *a + *b : *a * *b;
}

static void complex_product(const long double *a, const long double *b, long double *out) {
  long double _Complex left, right, product;
  out[0] = a[0] * b[0] - a[1] * b[1];
  out[1] = a[0] * b[1] + a[1] * b[0];
  memcpy(&left, a, sizeof left);
  memcpy(&right, b, sizeof right);
  product = left * right;
  /* C's multiplication checks for infinities behind NaNs. */
  if (out[0] == out[0] && out[1] == out[1])
    CHECK(creall(product) == out[0] && cimagl(product) == out[1]);
}

static int is_better(int32_t op, const void *a, const void *b) {
  located_t left, right;
  memcpy(&left, a, sizeof left);
  memcpy(&right, b, sizeof right);
  int beyond = op == UCXX_REDUCE_MINLOC ? right.value < left.value : right.value > left.value;
  return beyond || (right.value == left.value && right.index < left.index);
}

static void expect(int32_t type, int32_t op, const void *a, const void *b, void *out) {
  const long double *left = a, *right = b;
  long double *result = out;
  switch (op) {
  case UCXX_REDUCE_REPLACE: memcpy(out, b, kinds[type].size); break;
  case UCXX_REDUCE_NO_OP: memcpy(out, a, kinds[type].size); break;
  case UCXX_REDUCE_MIN:
    memcpy(out, *right < *left || *left != *left ? right : left, sizeof *left);
    break;
  case UCXX_REDUCE_MAX:
    memcpy(out, *right > *left || *left != *left ? right : left, sizeof *left);
    break;
  case UCXX_REDUCE_MINLOC:
  case UCXX_REDUCE_MAXLOC: memcpy(out, is_better(op, a, b) ? b : a, sizeof(located_t)); break;
  default:
    if (op == UCXX_REDUCE_PROD && type == UCXX_TYPE_COMPLEX_LONG_DOUBLE)
      complex_product(left, right, result);
    else
      for (size_t part = 0; part < kinds[type].size / sizeof *left; part++)
        sum_or_product(op, left + part, right + part, result + part);
  }
}

/* Which NaN a calculation gives is not checked. */
static int is_same(int32_t type, int moved, const uint8_t *found, const uint8_t *expected) {
  for (size_t byte = 0; byte < kinds[type].size; byte++) {
    if (byte % sizeof(long double) == 0 && !moved && !(kinds[type].class == 'p' && byte > 0)) {
      const long double is = get_real(found + byte, sizeof is),
                        should = get_real(expected + byte, sizeof should);
      if (is != is && should != should) {
        byte += sizeof should - 1;
        continue;
      }
    }
    if (!is_padding(type, byte) && found[byte] != expected[byte]) return 0;
  }
  return 1;
}

/* ------------------------------------------------------------------ all pairs of values */

/* Element `at` of the old values, or of those that are combined with them. */
static void element(int32_t type, int which, size_t at, uint8_t *out) {
  const size_t value = which == 0 ? at / VALUES : at % VALUES;
  const located_t located = {.index = (int)(which == 0 ? at % 3 : at % 2) - 1};
  memset(out, 0xdb, kinds[type].size);
  if (kinds[type].class == 'p') memcpy(out, &located, sizeof located);
  memcpy(out, &values[value], LONG_DOUBLE_BYTES);
  if (kinds[type].class == 'c')
    memcpy(out + 16, &values[(value + 3 + (size_t)which) % VALUES], LONG_DOUBLE_BYTES);
}

/* The x87 unit as the ABI requires it between functions: 64 bits of precision, and an empty
 * stack. */
static void check_unit(void) {
#if defined(__x86_64__)
  uint16_t environment[14];
  __asm__ volatile("fnstenv %0\n\tfldenv %0" : "=m"(environment));
  CHECK_EQ(environment[0], 0x37f);
  CHECK_EQ(environment[4], 0xffff);
#endif
}

/* Aligned for long doubles. */
enum { LONG_DOUBLES = AREA / sizeof(long double) };
static long double numbers[4][LONG_DOUBLES];
static uint8_t *const before = (uint8_t *)numbers[0], *const operand = (uint8_t *)numbers[1];
static uint8_t *const result = (uint8_t *)numbers[2], *const after = (uint8_t *)numbers[3];

static void combine(int32_t type, int32_t op, form_t form, uint32_t target) {
  const size_t size = kinds[type].size;
  const ucxx_layout_t all = contiguous(type, PAIRS);
  const int64_t disp = win_disp(&win, target, (uint64_t)win.rank * AREA);
  CHECK_OK(
      ucxx_window_accumulate(win.window, before, &all, target, disp, &all, UCXX_REDUCE_REPLACE));
  memset(result, WIN_CANARY, AREA);
  switch (form) {
  case ACCUMULATE:
    CHECK_OK(ucxx_window_accumulate(win.window, operand, &all, target, disp, &all, op));
    break;
  case GET_ACCUMULATE:
    CHECK_OK(ucxx_window_get_accumulate(win.window, operand, &all, result, &all, target, disp, &all,
                                        op));
    break;
  default:
    for (size_t at = 0; at < PAIRS; at++) {
      const uint64_t offset = (uint64_t)win.rank * AREA + at * size;
      CHECK_OK(ucxx_window_fetch_and_op(win.window, operand + at * size, result + at * size, type,
                                        target, win_disp(&win, target, offset), op));
    }
  }
  CHECK_OK(ucxx_window_flush(win.window, target));
  CHECK_OK(ucxx_window_get(win.window, after, &all, target, disp, &all));
  CHECK_OK(ucxx_window_flush(win.window, target));
}

static void check_pairs(int32_t type, int32_t op, form_t form, uint32_t target) {
  const size_t size = kinds[type].size;
  const int moved = op == UCXX_REDUCE_REPLACE || op == UCXX_REDUCE_NO_OP;
  for (size_t at = 0; at < PAIRS; at++) {
    element(type, 0, at, before + at * size);
    element(type, 1, at, operand + at * size);
  }
  combine(type, op, form, target);
  check_unit();
  for (size_t at = 0; at < PAIRS; at++) {
    long double wanted[LARGEST_ELEMENT / sizeof(long double)];
    uint8_t *expected = (uint8_t *)wanted;
    expect(type, op, before + at * size, operand + at * size, expected);
    if (!is_same(type, moved, after + at * size, expected))
      FAIL("type %s, op %d, form %d, target %u: %Lg and %Lg gave %Lg, expected %Lg",
           kinds[type].name, (int)op, (int)form, (unsigned)target, get_real(before + at * size, 16),
           get_real(operand + at * size, 16), get_real(after + at * size, 16),
           get_real(expected, 16));
    if (form != ACCUMULATE && !is_same(type, 1, result + at * size, before + at * size))
      FAIL("type %s, op %d, form %d: fetched something other than the old value", kinds[type].name,
           (int)op, (int)form);
  }
}

static void as_c_calculates(int32_t type) {
  for (int32_t op = 0; op < REDUCES; op++) {
    for (form_t form = ACCUMULATE; form < FORMS; form++) {
      for (uint32_t target = 0; has_op(type, op) && target < win.ranks; target++) {
        if (op != UCXX_REDUCE_NO_OP || form != ACCUMULATE) check_pairs(type, op, form, target);
      }
    }
  }
}

/* ------------------------------------------------------------------ the rest */

static void sizes(void) {
  CHECK_EQ(ucxx_type_size(UCXX_TYPE_LONG_DOUBLE), sizeof(long double));
  CHECK_EQ(ucxx_type_size(UCXX_TYPE_COMPLEX_LONG_DOUBLE), sizeof(long double _Complex));
  CHECK_EQ(ucxx_type_size(UCXX_TYPE_LONG_DOUBLE_INT), sizeof(located_t));
  CHECK_EQ(index_at(UCXX_TYPE_LONG_DOUBLE_INT), offsetof(located_t, index));
  for (int32_t type = 0; type < TYPES; type++) CHECK_EQ(ucxx_type_size(type), kinds[type].size);
  CHECK_EQ(ucxx_type_size(TYPES), 0);
}

/* MPI allows it for integers, bytes and logical values. */
static void compare_and_swap(uint32_t target) {
  const uint8_t zero[LARGEST_ELEMENT] = {0};
  const int64_t disp = win_disp(&win, target, (uint64_t)win.rank * AREA);
  for (int32_t type = 0; type < TYPES; type++) {
    const int allowed = strchr("biul", kinds[type].class) != NULL;
    CHECK_STATUS(ucxx_window_compare_and_swap(win.window, zero, zero, result, type, target, disp),
                 allowed ? UCXX_OK : UCXX_ERR_RMA_TYPE);
    CHECK_OK(ucxx_window_flush(win.window, target));
  }
}

/* 16-byte elements are aligned to 16. */
static void unaligned(uint32_t target) {
  const int64_t disp = win_disp(&win, target, 8);
  const int32_t replace = UCXX_REDUCE_REPLACE;
  for (int32_t type = UCXX_TYPE_LONG_DOUBLE; type <= UCXX_TYPE_LONG_DOUBLE_INT; type++) {
    const ucxx_layout_t one = contiguous(type, 1);
    CHECK_STATUS(ucxx_window_accumulate(win.window, operand, &one, target, disp, &one, replace),
                 UCXX_ERR_INVALID_PARAM);
    CHECK_STATUS(ucxx_window_fetch_and_op(win.window, operand, result, type, target, disp, replace),
                 UCXX_ERR_INVALID_PARAM);
  }
}

/* All members add to both parts of one number; each reader must find parts that are each other's
 * negative. */
static void together(member_t *member) {
  const int32_t type = UCXX_TYPE_COMPLEX_LONG_DOUBLE;
  const long double step[2] = {1, -1};
  long double found[2] = {0, 0};
  const int64_t disp = win_disp(&win, 0, SHARED_AT);
  if (!has_op(type, UCXX_REDUCE_SUM)) return;
  for (int turn = 0; turn < TURNS; turn++) {
    CHECK_OK(ucxx_window_fetch_and_op(win.window, step, found, type, 0, disp, UCXX_REDUCE_SUM));
    CHECK_OK(ucxx_window_flush(win.window, 0));
    CHECK(found[0] == -found[1] && found[0] >= turn);
  }
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_fetch_and_op(win.window, NULL, found, type, 0, disp, UCXX_REDUCE_NO_OP));
  CHECK_OK(ucxx_window_flush(win.window, 0));
  CHECK(found[0] == MEMBERS * TURNS && found[1] == -found[0]);
}

static void members(member_t *member) {
  member_open(member, worker_params);
  member_join(member, 0);
  win_open(&win, member, flavor, SIZE, UNIT, NULL);
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_lock_all(win.window, 0));
  for (uint32_t target = 0; target < win.ranks; target++) {
    compare_and_swap(target);
    unaligned(target);
  }
  for (int32_t type = UCXX_TYPE_LONG_DOUBLE; type <= UCXX_TYPE_LONG_DOUBLE_INT; type++)
    as_c_calculates(type);
  together(member);
  CHECK_OK(ucxx_window_unlock_all(win.window));
  win_close(&win);
  member_close(member);
}

static void round_in(const ucxx_worker_params_t *params, const char *mode) {
  worker_params = params;
  STEP("%s", mode);
  run_members(MEMBERS, 0, members);
}

int main(int argc, char **argv) {
  test_begin("window_types");
  flavor = argc > 1 ? flavor_named(argv[1]) : UCXX_WINDOW_FLAVOR_ALLOCATE;
  make_values();
  sizes();
  in_every_mode(round_in);
  return 0;
}
