/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * hash_table.c: a hash table that lies in the memory of all members of a group, and into which all
 * insert at once.
 *
 *     hash_table [--buckets BUCKETS] [--range RANGE] [INSERTIONS]
 *
 * Each member has some of the buckets in a window. A bucket has room for one entry: a key, how
 * often it was inserted, and a reference to the next entry. Who comes first claims it by
 * compare-and-swap of the key, from 0 to its own: of several at once one gets it, and the others
 * are told whose it is.
 *
 * Who finds another key there puts its own into a list behind the bucket. The entries of lists
 * stand in a dynamic window, each in the memory of the member that made it, which attaches more
 * whenever it has none left; nobody has to know beforehand how much that will be. The entry is
 * complete before the bucket refers to it: that is a compare-and-swap as well, of the list's head.
 * If somebody was faster, what he has put there is looked at first, as it may be the same key.
 *
 * An entry once reached by others never changes but for its count, which is added to. No member
 * does anything for the others' insertions.
 *
 * In the end each member looks up what it has inserted, and keys that nobody has; rank 0 goes
 * through the whole table and compares it with an array of counts.
 *
 * How to start it: see member.h.
 */
#include "member.h"

#define DEFAULT_INSERTIONS 500 /* of each member */
#define DEFAULT_BUCKETS 256 /* of all */
#define DEFAULT_RANGE 1000 /* keys are 1 to this */
#define MOST_INSERTIONS 50000
#define MOST_BUCKETS (1u << 24)
#define MOST_RANGE (1u << 24)
#define ENTRIES_AT_ONCE 64 /* attached together */
#define MOST_ATTACHED (MOST_INSERTIONS / ENTRIES_AT_ONCE + 1)

/* An entry, in words of 8 bytes. */
enum { KEY, NEXT, COUNT, WORDS };

/* Whose memory an entry of a list is in, and the address there: in one word, so that it can be
 * swapped. 0 is the end of a list. */
#define ADDRESS_BITS 48

struct place {
  ucxx_window_t *window;
  uint32_t rank;
  int64_t at; /* of its first word: a number of words in the window of buckets, an address in the
                 one of lists */
};

struct table {
  struct member member;
  ucxx_window_t *buckets, *lists;
  uint32_t number_of_buckets, range, insertions;
  uint64_t *attached[MOST_ATTACHED]; /* this member's memory for entries of lists */
  uint32_t pieces, left; /* of it, and entries of the last one that are not in use */
};

/* Numbers that look as if they were random, the same each time. */
static uint64_t scatter(uint64_t number) {
  number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
  return number ^ (number >> 31);
}

static uint64_t key_of(const struct table *table, uint32_t rank, uint32_t insertion) {
  return 1 + scatter(((uint64_t)rank << 32) + insertion + 1) % table->range;
}

static uint32_t bucket_of(const struct table *table, uint64_t key) {
  return (uint32_t)(scatter(~key) % table->number_of_buckets);
}

/* Buckets are dealt out in turn. */
static uint32_t buckets_of(const struct table *table, uint32_t rank) {
  return table->number_of_buckets / table->member.size +
         (rank < table->number_of_buckets % table->member.size);
}

static struct place place_of_bucket(const struct table *table, uint32_t bucket) {
  return (struct place){table->buckets, bucket % table->member.size,
                        (int64_t)(bucket / table->member.size) * WORDS};
}

static struct place place_of_entry(const struct table *table, uint64_t reference) {
  return (struct place){table->lists, (uint32_t)(reference >> ADDRESS_BITS),
                        (int64_t)(reference & ((UINT64_C(1) << ADDRESS_BITS) - 1))};
}

/* The displacement of one of an entry's words. */
static int64_t word_of(const struct table *table, const struct place *place, int word) {
  return place->at + (place->window == table->lists ? word * (int64_t)sizeof(uint64_t) : word);
}

/* What was there is returned. */
static uint64_t swap(const struct table *table, const struct place *place, int word, uint64_t from,
                     uint64_t to) {
  uint64_t was = 0;
  check(ucxx_window_compare_and_swap(place->window, &to, &from, &was, UCXX_TYPE_UINT64, place->rank,
                                     word_of(table, place, word)),
        "compare_and_swap");
  check(ucxx_window_flush(place->window, place->rank), "flush"); /* the result is there no sooner */
  return was;
}

/* By the means that others change it by: a plain get could meet them. */
static uint64_t read_word(const struct table *table, const struct place *place, int word) {
  uint64_t value = 0;
  check(ucxx_window_fetch_and_op(place->window, NULL, &value, UCXX_TYPE_UINT64, place->rank,
                                 word_of(table, place, word), UCXX_REDUCE_NO_OP),
        "read");
  check(ucxx_window_flush(place->window, place->rank), "flush");
  return value;
}

static void count(const struct table *table, const struct place *place) {
  static const uint64_t one = 1;
  ucxx_layout_t word;
  ucxx_layout_init_contiguous(&word, UCXX_TYPE_UINT64, 1);
  check(ucxx_window_accumulate(place->window, &one, &word, place->rank,
                               word_of(table, place, COUNT), &word, UCXX_REDUCE_SUM),
        "count");
}

/* Looks from one entry of a list to another, for a key. What is got here does not change any more.
 */
static bool find_in_list(const struct table *table, uint64_t from, uint64_t to, uint64_t key,
                         struct place *place) {
  ucxx_layout_t two;
  ucxx_layout_init_contiguous(&two, UCXX_TYPE_UINT64, 2);
  for (uint64_t entry[2]; from != to; from = entry[NEXT]) {
    *place = place_of_entry(table, from);
    check(ucxx_window_get(place->window, entry, &two, place->rank, place->at, &two), "get");
    check(ucxx_window_flush(place->window, place->rank), "flush");
    if (entry[KEY] == key) return true;
  }
  return false;
}

/* One of this member's that is not in use yet. */
static uint64_t *free_entry(struct table *table) {
  if (table->left == 0) {
    /* An entry is made by an insertion, and there are no more pieces than those need. */
    uint64_t *piece = zeros(ENTRIES_AT_ONCE, WORDS * sizeof *piece);
    check(ucxx_window_attach(table->lists, piece, ENTRIES_AT_ONCE * WORDS * sizeof *piece),
          "attach");
    table->attached[table->pieces++] = piece;
    table->left = ENTRIES_AT_ONCE;
  }
  return table->attached[table->pieces - 1] + (ENTRIES_AT_ONCE - table->left) * WORDS;
}

static void insert(struct table *table, uint64_t key) {
  struct place bucket = place_of_bucket(table, bucket_of(table, key)), place;
  uint64_t owner = swap(table, &bucket, KEY, 0, key);
  if (owner == 0 || owner == key) {
    count(table, &bucket);
    return;
  }
  uint64_t head = read_word(table, &bucket, NEXT), looked_at = 0;
  while (!find_in_list(table, head, looked_at, key, &place)) {
    uint64_t *entry = free_entry(table),
             reference = (uint64_t)table->member.rank << ADDRESS_BITS | (uint64_t)(uintptr_t)entry;
    entry[KEY] = key;
    entry[NEXT] = head;
    entry[COUNT] = 1;
    check(ucxx_window_sync(table->lists),
          "sync"); /* what was stored here is there before anybody finds the reference */
    looked_at = head;
    head = swap(table, &bucket, NEXT, head, reference);
    if (head == looked_at) {
      table->left--;
      return;
    }
  }
  count(table, &place);
}

/* How often it was inserted. */
static uint64_t look_up(const struct table *table, uint64_t key) {
  struct place bucket = place_of_bucket(table, bucket_of(table, key)), place;
  if (read_word(table, &bucket, KEY) == key) return read_word(table, &bucket, COUNT);
  if (find_in_list(table, read_word(table, &bucket, NEXT), 0, key, &place))
    return read_word(table, &place, COUNT);
  return 0;
}

/* How often each key is to be there; as one process alone finds it. */
static uint64_t *serial_counts(const struct table *table) {
  uint64_t *counts = zeros((size_t)table->range + 1, sizeof *counts);
  for (uint32_t rank = 0; rank < table->member.size; rank++)
    for (uint32_t insertion = 0; insertion < table->insertions; insertion++)
      counts[key_of(table, rank, insertion)]++;
  return counts;
}

static bool finds_all(const struct table *table, const uint64_t *counts) {
  bool good = true;
  for (uint32_t insertion = 0; insertion < table->insertions; insertion++) {
    uint64_t key = key_of(table, table->member.rank, insertion), found = look_up(table, key);
    if (found == counts[key]) continue;
    fprintf(stderr,
            "error: key %" PRIu64 " was inserted %" PRIu64 " times, and found %" PRIu64 " times\n",
            key, counts[key], found);
    good = false;
  }
  for (uint64_t key = (uint64_t)table->range + 1; key <= (uint64_t)table->range + 20; key++) {
    if (look_up(table, key) == 0) continue;
    fprintf(stderr, "error: key %" PRIu64 " is found, and was never inserted\n", key);
    good = false;
  }
  return good;
}

/* Of rank 0's walk through the table. */
static bool is_right(const struct table *table, uint32_t bucket, const uint64_t *entry,
                     const uint64_t *counts, bool *seen) {
  if (entry[KEY] == 0 || entry[KEY] > table->range || bucket_of(table, entry[KEY]) != bucket)
    fprintf(stderr, "error: key %" PRIu64 " is in bucket %" PRIu32 "\n", entry[KEY], bucket);
  else if (seen[entry[KEY]])
    fprintf(stderr, "error: key %" PRIu64 " is there twice\n", entry[KEY]);
  else if (entry[COUNT] != counts[entry[KEY]])
    fprintf(stderr, "error: key %" PRIu64 " has count %" PRIu64 ", and not %" PRIu64 "\n",
            entry[KEY], entry[COUNT], counts[entry[KEY]]);
  else
    return seen[entry[KEY]] = true;
  return false;
}

/* By rank 0, when all have finished: every key is there once, with its count, and nothing else. */
static bool is_whole(const struct table *table, const uint64_t *counts) {
  bool *seen = zeros((size_t)table->range + 1, sizeof *seen), good = true;
  uint32_t keys = 0, in_lists = 0, longest = 0;
  ucxx_layout_t all;
  ucxx_layout_init_contiguous(&all, UCXX_TYPE_UINT64, WORDS);
  for (uint32_t bucket = 0; bucket < table->number_of_buckets; bucket++) {
    struct place place = place_of_bucket(table, bucket);
    uint32_t length = 0;
    for (uint64_t entry[WORDS];; place = place_of_entry(table, entry[NEXT]), length++) {
      check(ucxx_window_get(place.window, entry, &all, place.rank, place.at, &all), "get");
      check(ucxx_window_flush(place.window, place.rank), "flush");
      if (length == 0 && entry[KEY] == 0) break; /* nobody has claimed it */
      good &= is_right(table, bucket, entry, counts, seen);
      keys++;
      in_lists += length > 0;
      if (length > longest) longest = length;
      if (entry[NEXT] == 0) break;
    }
  }
  for (uint32_t key = 1; key <= table->range; key++) {
    if ((counts[key] > 0) == seen[key]) continue;
    fprintf(stderr, "error: key %" PRIu32 " is not there\n", key);
    good = false;
  }
  if (good)
    printf("%" PRIu32 " members, %" PRIu64 " insertions of %" PRIu32
           " keys, each there once with the right count; %" PRIu32
           " in lists, the longest of %" PRIu32 "\n",
           table->member.size, (uint64_t)table->insertions * table->member.size, keys, in_lists,
           longest);
  free(seen);
  return good;
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--buckets BUCKETS] [--range RANGE] [INSERTIONS]\n", program);
  return 2;
}

static bool read_options(int argc, char **argv, struct table *table) {
  int at = 1;
  table->number_of_buckets = DEFAULT_BUCKETS;
  table->range = DEFAULT_RANGE;
  table->insertions = DEFAULT_INSERTIONS;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "--buckets") == 0 &&
        read_number(argv[at + 1], 1, MOST_BUCKETS, &table->number_of_buckets))
      continue;
    if (strcmp(argv[at], "--range") == 0 && read_number(argv[at + 1], 1, MOST_RANGE, &table->range))
      continue;
    return false;
  }
  return at == argc ||
         (at + 1 == argc && read_number(argv[at], 1, MOST_INSERTIONS, &table->insertions));
}

int main(int argc, char **argv) {
  struct table table = {0};
  if (!read_options(argc, argv, &table)) return usage(argv[0]);

  join(&table.member);
  size_t bytes = (size_t)buckets_of(&table, table.member.rank) * WORDS * sizeof(uint64_t);
  void *base = NULL;
  /* Zero at first, which is an empty table. */
  check(ucxx_window_allocate(table.member.group, bytes, sizeof(uint64_t), NULL, &base,
                             &table.buckets),
        "window of buckets");
  check(ucxx_window_create_dynamic(table.member.group, NULL, &table.lists), "window of lists");
  uint64_t *counts = serial_counts(&table);

  /* Shared locks of all, once: they keep nobody out. */
  check(ucxx_window_lock_all(table.buckets, 0), "lock_all");
  check(ucxx_window_lock_all(table.lists, 0), "lock_all");
  for (uint32_t insertion = 0; insertion < table.insertions; insertion++)
    insert(&table, key_of(&table, table.member.rank, insertion));
  check(ucxx_window_flush_all(table.buckets), "flush_all"); /* what was counted */
  check(ucxx_window_flush_all(table.lists), "flush_all");
  check(ucxx_group_barrier(table.member.group), "barrier");

  bool good = finds_all(&table, counts);
  if (table.member.rank == 0) good &= is_whole(&table, counts);
  check(ucxx_window_unlock_all(table.lists), "unlock_all");
  check(ucxx_window_unlock_all(table.buckets), "unlock_all");

  check(ucxx_window_close(table.lists), "close");
  check(ucxx_window_close(table.buckets), "close");
  ucxx_window_destroy(table.lists);
  ucxx_window_destroy(table.buckets);
  for (uint32_t piece = 0; piece < table.pieces; piece++)
    free(table.attached[piece]); /* not before close: others may be looking things up */
  leave(&table.member);
  free(counts);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
