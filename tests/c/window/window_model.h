/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A model of one-sided operations in plain C, one byte at a time: element types, operations on
 * them, and layouts written out as lists of elements. Each byte is marked as known or not: padding
 * is unknown, and so is which NaN an operation gives, and everything computed from those.
 */
#ifndef UCXX_RS_TEST_WIN_MODEL_H
#define UCXX_RS_TEST_WIN_MODEL_H
#include "test_util.h"

#include <float.h>

enum {
  TYPES = UCXX_TYPE_LONG_DOUBLE_INT + 1,
  REDUCES = UCXX_REDUCE_MAXLOC + 1,
  LARGEST_ELEMENT = 32,
  MOST_ELEMENTS = 2048,
  MOST_BLOCKS = 64
};
/* The significant bytes of a long double. */
enum { LONG_DOUBLE_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double) };

#if defined(__x86_64__)
#define IF_CALCULATED(ops, otherwise) ops
#else
#define IF_CALCULATED(ops, otherwise) otherwise
#endif

typedef struct kind {
  const char *name;
  char class; /* b byte, i signed, u unsigned, f real, c complex, l logical, p pair */
  uint8_t size, alignment,
      value; /* `value`: bytes of a pair's value, or of one part of a complex number */
  const char *ops; /* in the order of UCXX_REDUCE_*; u is UNSUPPORTED */
} kind_t;

static const kind_t kinds[TYPES] = {
    {"byte", 'b', 1, 1, 1, ".......xxxxx.."},
    {"int8", 'i', 1, 1, 1, "xxxxxxxxxxxx.."},
    {"uint8", 'u', 1, 1, 1, "xxxxxxxxxxxx.."},
    {"int16", 'i', 2, 2, 2, "xxxxxxxxxxxx.."},
    {"uint16", 'u', 2, 2, 2, "xxxxxxxxxxxx.."},
    {"int32", 'i', 4, 4, 4, "xxxxxxxxxxxx.."},
    {"uint32", 'u', 4, 4, 4, "xxxxxxxxxxxx.."},
    {"int64", 'i', 8, 8, 8, "xxxxxxxxxxxx.."},
    {"uint64", 'u', 8, 8, 8, "xxxxxxxxxxxx.."},
    {"float", 'f', 4, 4, 4, "xxxx......xx.."},
    {"double", 'f', 8, 8, 8, "xxxx......xx.."},
    {"complex float", 'c', 8, 4, 4, "xx........xx.."},
    {"complex double", 'c', 16, 8, 8, "xx........xx.."},
    {"bool", 'l', 1, 1, 1, "....xxx...xx.."},
    {"float and int", 'p', 8, 4, 4, "..........xxxx"},
    {"double and int", 'p', 16, 8, 8, "..........xxxx"},
    {"int16 and int", 'p', 8, 4, 2, "..........xxxx"},
    {"int32 and int", 'p', 8, 4, 4, "..........xxxx"},
    {"int64 and int", 'p', 16, 8, 8, "..........xxxx"},
    {"long double", 'f', 16, 16, 16, IF_CALCULATED("xxxx......xx..", "uuuu......xx..")},
    {"complex long double", 'c', 32, 16, 16, IF_CALCULATED("xx........xx..", "uu........xx..")},
    {"long double and int", 'p', 32, 16, 16, IF_CALCULATED("..........xxxx", "..........xxuu")},
};

static inline int has_op(int32_t type, int32_t op) { return kinds[type].ops[op] == 'x'; }

static inline int is_real_pair(int32_t type) {
  return type == UCXX_TYPE_FLOAT_INT || type == UCXX_TYPE_DOUBLE_INT ||
         type == UCXX_TYPE_LONG_DOUBLE_INT;
}

static inline int has_long_doubles(int32_t type) {
  return type == UCXX_TYPE_LONG_DOUBLE || type == UCXX_TYPE_COMPLEX_LONG_DOUBLE ||
         type == UCXX_TYPE_LONG_DOUBLE_INT;
}

/* The significant bytes of a real number of this size. */
static inline size_t real_bytes(size_t size) { return size == 16 ? LONG_DOUBLE_BYTES : size; }

/* Offset of a pair's index: half its size, where C puts it. */
static inline size_t index_at(int32_t type) { return kinds[type].size / 2; }

static inline int is_padding(int32_t type, size_t byte) {
  const kind_t *kind = &kinds[type];
  if (has_long_doubles(type) && (kind->class != 'p' || byte < kind->value))
    return byte % kind->value >= LONG_DOUBLE_BYTES;
  return kind->class == 'p' &&
         ((byte >= kind->value && byte < index_at(type)) || byte >= index_at(type) + 4);
}

/* ------------------------------------------------------------------ randomness */

typedef struct dice {
  uint64_t state;
} dice_t;

static inline uint64_t roll(dice_t *dice, uint64_t below) {
  dice->state = test_mix(dice->state);
  return below == 0 ? 0 : (dice->state >> 11) % below;
}

static inline int64_t roll_between(dice_t *dice, int64_t least, int64_t most) {
  return least + (int64_t)roll(dice, (uint64_t)(most - least) + 1);
}

static inline void put_whole(uint8_t *bytes, size_t size, uint64_t value) {
  uint8_t one = (uint8_t)value;
  uint16_t two = (uint16_t)value;
  uint32_t four = (uint32_t)value;
  memcpy(bytes,
         size == 1   ? (void *)&one
         : size == 2 ? (void *)&two
         : size == 4 ? (void *)&four
                     : (void *)&value,
         size);
}

static inline uint64_t get_whole(const uint8_t *bytes, size_t size, int is_signed) {
  uint8_t one = 0;
  uint16_t two = 0;
  uint32_t four = 0;
  uint64_t eight = 0;
  memcpy(size == 1   ? (void *)&one
         : size == 2 ? (void *)&two
         : size == 4 ? (void *)&four
                     : (void *)&eight,
         bytes, size);
  switch (size) {
  case 1: return is_signed ? (uint64_t)(int64_t)(int8_t)one : one;
  case 2: return is_signed ? (uint64_t)(int64_t)(int16_t)two : two;
  case 4: return is_signed ? (uint64_t)(int64_t)(int32_t)four : four;
  default: return eight;
  }
}

static inline void put_real(uint8_t *bytes, size_t size, long double value) {
  float four = (float)value;
  double eight = (double)value;
  memcpy(bytes, size == 4 ? (void *)&four : size == 8 ? (void *)&eight : (void *)&value, size);
}

static inline long double get_real(const uint8_t *bytes, size_t size) {
  float four = 0;
  double eight = 0;
  long double all = 0;
  memcpy(size == 4 ? (void *)&four : size == 8 ? (void *)&eight : (void *)&all, bytes, size);
  return size == 4 ? (long double)four : size == 8 ? (long double)eight : all;
}

/* Chosen so that ties, zeros and NaNs occur, and sums of reals are exact. */
static inline void random_element(dice_t *dice, int32_t type, uint8_t *bytes) {
  const kind_t *kind = &kinds[type];
  const double small = (double)roll_between(dice, -8, 8) / 4, zero = 0;
  uint64_t whole = roll(dice, 3) == 0 ? (uint64_t)roll_between(dice, -3, 3) : test_mix(dice->state);
  memset(bytes, 0xdb, kind->size);
  switch (kind->class) {
  case 'f': put_real(bytes, kind->size, roll(dice, 12) == 0 ? 0.0 / zero : small); break;
  case 'c':
    put_real(bytes, kind->value, small);
    put_real(bytes + kind->value, kind->value, (double)roll_between(dice, -2, 2));
    break;
  case 'l': bytes[0] = (uint8_t)roll(dice, 2); break;
  case 'p':
    if (is_real_pair(type))
      put_real(bytes, kind->value, small);
    else
      put_whole(bytes, kind->value, (uint64_t)roll_between(dice, -3, 3));
    put_whole(bytes + index_at(type), 4, (uint64_t)roll_between(dice, -5, 5));
    break;
  default: put_whole(bytes, kind->size, whole);
  }
}

/* ------------------------------------------------------------------ one element */

static inline uint64_t model_whole(int32_t op, uint64_t a, uint64_t b, int is_signed) {
  int less = is_signed ? (int64_t)b < (int64_t)a : b < a;
  switch (op) {
  case UCXX_REDUCE_SUM: return a + b;
  case UCXX_REDUCE_PROD: return a * b;
  case UCXX_REDUCE_MIN: return less ? b : a;
  case UCXX_REDUCE_MAX: return less ? a : b;
  case UCXX_REDUCE_LAND: return a != 0 && b != 0;
  case UCXX_REDUCE_LOR: return a != 0 || b != 0;
  case UCXX_REDUCE_LXOR: return (a != 0) != (b != 0);
  case UCXX_REDUCE_BAND: return a & b;
  case UCXX_REDUCE_BOR: return a | b;
  default: return a ^ b;
  }
}

static inline long double combine_real(int32_t op, size_t size, long double a, long double b) {
  const double a_double = (double)a, b_double = (double)b;
  switch (op) {
  case UCXX_REDUCE_SUM: return size == 16 ? a + b : (long double)(a_double + b_double);
  case UCXX_REDUCE_PROD: return size == 16 ? a * b : (long double)(a_double * b_double);
  case UCXX_REDUCE_MIN: return b < a ? b : a;
  default: return b > a ? b : a;
  }
}

/* Returns 0 if the result is undefined. Products and sums of two floats are exact in a double, and
 * rounded once when stored. */
static inline int model_real(int32_t op, size_t size, const uint8_t *a_bytes,
                             const uint8_t *b_bytes, uint8_t *out) {
  long double a = get_real(a_bytes, size), b = get_real(b_bytes, size),
              after = combine_real(op, size, a, b);
  int chooses = op == UCXX_REDUCE_MIN || op == UCXX_REDUCE_MAX;
  if (chooses && (a != a) != (b != b)) {
    memcpy(out, a != a ? b_bytes : a_bytes, size);
    return 1;
  }
  if (a != a || b != b || after != after ||
      (chooses && a == b && memcmp(a_bytes, b_bytes, real_bytes(size)) != 0))
    return 0;
  put_real(out, size, after);
  return 1;
}

static inline int model_complex(int32_t op, size_t part, const uint8_t *a, const uint8_t *b,
                                uint8_t *out) {
  uint8_t left[16], right[16];
  if (op == UCXX_REDUCE_SUM)
    return model_real(op, part, a, b, out) && model_real(op, part, a + part, b + part, out + part);
  if (!model_real(op, part, a, b, left) || !model_real(op, part, a + part, b + part, right))
    return 0;
  put_real(right, part, -get_real(right, part));
  if (!model_real(UCXX_REDUCE_SUM, part, left, right, out)) return 0;
  if (!model_real(op, part, a, b + part, left) || !model_real(op, part, a + part, b, right))
    return 0;
  return model_real(UCXX_REDUCE_SUM, part, left, right, out + part);
}

static inline int model_pair(int32_t op, int32_t type, const uint8_t *a, const uint8_t *b,
                             uint8_t *out) {
  size_t size = kinds[type].value;
  int64_t a_index = (int64_t)get_whole(a + index_at(type), 4, 1),
          b_index = (int64_t)get_whole(b + index_at(type), 4, 1);
  int less, equal;
  if (is_real_pair(type)) {
    long double left = get_real(a, size), right = get_real(b, size);
    if (left != left || right != right) return 0;
    less = right < left;
    equal = right == left;
  } else {
    int64_t left = (int64_t)get_whole(a, size, 1), right = (int64_t)get_whole(b, size, 1);
    less = right < left;
    equal = right == left;
  }
  if (equal && memcmp(a, b, is_real_pair(type) ? real_bytes(size) : size) != 0) return 0;
  const uint8_t *chosen = equal                                ? (b_index < a_index ? b : a)
                          : less == (op == UCXX_REDUCE_MINLOC) ? b
                                                               : a;
  memcpy(out, chosen, kinds[type].size);
  return 1;
}

/* Changes the element at `target`; `unknown` marks its unknown bytes. */
static inline void model_reduce(int32_t type, int32_t op, uint8_t *target, uint8_t *unknown,
                                const uint8_t *operand) {
  const kind_t *kind = &kinds[type];
  uint8_t out[LARGEST_ELEMENT];
  int known = 1;
  if (op == UCXX_REDUCE_NO_OP) return;
  for (size_t byte = 0; byte < kind->size; byte++)
    known &= op == UCXX_REDUCE_REPLACE || is_padding(type, byte) || !unknown[byte];
  memcpy(out, operand, kind->size);
  if (known && op != UCXX_REDUCE_REPLACE) {
    switch (kind->class) {
    case 'f': known = model_real(op, kind->size, target, operand, out); break;
    case 'c': known = model_complex(op, kind->value, target, operand, out); break;
    case 'p': known = model_pair(op, type, target, operand, out); break;
    case 'l':
      /* Other bytes are not logical values. */
      known = target[0] <= 1;
      out[0] = (uint8_t)model_whole(op, target[0], operand[0], 0);
      break;
    default:
      put_whole(out, kind->size,
                model_whole(op, get_whole(target, kind->size, kind->class == 'i'),
                            get_whole(operand, kind->size, kind->class == 'i'),
                            kind->class == 'i'));
    }
  }
  memcpy(target, out, kind->size);
  for (size_t byte = 0; byte < kind->size; byte++)
    unknown[byte] = (uint8_t)(!known || is_padding(type, byte));
}

/* ------------------------------------------------------------------ layouts */

typedef struct shape {
  ucxx_layout_t layout;
  ucxx_block_t blocks[MOST_BLOCKS];
  int32_t type;
  uint64_t count; /* of elements */
  int64_t at[MOST_ELEMENTS]; /* of each element, in elements from the address */
  int64_t low, high; /* from the first element to the end of the last in memory */
} shape_t;

static inline void shape_add(shape_t *shape, int64_t at) {
  if (shape->count == 0 || at < shape->low) shape->low = at;
  if (shape->count == 0 || at + 1 > shape->high) shape->high = at + 1;
  CHECK(shape->count < MOST_ELEMENTS);
  shape->at[shape->count++] = at;
}

static inline void shape_vector(shape_t *shape, dice_t *dice, uint64_t count, int overlaps) {
  uint64_t length = 1 + roll(dice, 8);
  while (count % length != 0) length--;
  int64_t stride = (int64_t)(length + roll(dice, 5));
  if (roll(dice, 2) == 0) stride = -stride;
  if (overlaps && roll(dice, 3) == 0) stride = (int64_t)roll(dice, length);
  ucxx_layout_init_vector(&shape->layout, shape->type, count / length, length, stride);
  for (uint64_t block = 0; block < count / length; block++) {
    for (uint64_t element = 0; element < length; element++)
      shape_add(shape, (int64_t)block * stride + (int64_t)element);
  }
}

/* Blocks with gaps between them, some empty, shuffled, some of them before the address. */
static inline void shape_blocks(shape_t *shape, dice_t *dice, uint64_t count) {
  size_t blocks = 0;
  int64_t next = roll_between(dice, -40, 40);
  for (uint64_t left = count; left > 0 || blocks == 0;) {
    uint64_t length =
        blocks == MOST_BLOCKS - 1 ? left : roll(dice, (left < 16 ? left : 12 + left / 8) + 1);
    shape->blocks[blocks++] = (ucxx_block_t){next, length};
    next += (int64_t)(length + roll(dice, 4));
    left -= length;
  }
  for (size_t at = blocks; at > 1; at--) {
    size_t other = roll(dice, at);
    ucxx_block_t kept = shape->blocks[at - 1];
    shape->blocks[at - 1] = shape->blocks[other];
    shape->blocks[other] = kept;
  }
  ucxx_layout_init_blocks(&shape->layout, shape->type, shape->blocks, blocks);
  for (size_t at = 0; at < blocks; at++) {
    for (uint64_t element = 0; element < shape->blocks[at].length; element++)
      shape_add(shape, shape->blocks[at].offset + (int64_t)element);
  }
}

/* `overlaps`: it is only read, and may name elements more than once. */
static inline void shape_random(shape_t *shape, dice_t *dice, int32_t type, uint64_t count,
                                int overlaps) {
  shape->type = type;
  shape->count = 0;
  shape->low = shape->high = 0;
  switch (roll(dice, 3)) {
  case 0:
    ucxx_layout_init_contiguous(&shape->layout, type, count);
    for (uint64_t element = 0; element < count; element++) shape_add(shape, (int64_t)element);
    break;
  case 1: shape_vector(shape, dice, count, overlaps); break;
  default: shape_blocks(shape, dice, count);
  }
  CHECK_EQ(shape->count, count);
}

/* Offset from the address of byte `byte` of the layout, in the layout's order. */
static inline int64_t shape_byte(const shape_t *shape, uint64_t byte) {
  uint64_t size = kinds[shape->type].size;
  return shape->at[byte / size] * (int64_t)size + (int64_t)(byte % size);
}

static inline uint64_t shape_bytes(const shape_t *shape) {
  return shape->count * kinds[shape->type].size;
}

static inline int shape_padding(const shape_t *shape, uint64_t byte) {
  return is_padding(shape->type, byte % kinds[shape->type].size);
}
#endif
