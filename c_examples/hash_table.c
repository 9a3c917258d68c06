/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * hash_table.c: a hash table in the memory of all members of a group. All members insert at once.
 *
 *     cc -o hash_table hash_table.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./hash_table [--buckets BUCKETS] [--range RANGE] [INSERTIONS]
 *
 * How to start a group of processes: see member.h. Rank 0 prints one line:
 *
 *     4 members, 2000 insertions of 860 keys, each there once with the right count; 618
 *     in lists, the longest of 9
 *
 * A window is memory of a member that the others read and change directly (docs/windows.md). Each
 * member has some of the buckets in a window. A bucket has room for one entry: a key, how often it
 * was inserted, and a reference to the next entry. A member claims an empty bucket by a
 * compare-and-swap of the key from 0 to its own. If several try at once, one succeeds, and the
 * others get the key that is there.
 *
 * If another key is there, the member puts its own key into a list behind the bucket. The entries
 * of lists are in a dynamic window, each in the memory of the member that made it. A member
 * attaches more memory to that window when it has none left, so nobody needs to know the size in
 * advance. An entry is complete before the bucket refers to it. Adding it is a compare-and-swap of
 * the head of the list. If another member added an entry first, this member reads that one first,
 * because it may have the same key.
 *
 * After an entry is reachable, only its count changes. No member does anything for the insertions
 * of others.
 *
 * At the end each member looks up the keys that it inserted, and keys that nobody inserted. Rank 0
 * reads the whole table and compares it with an array of counts.
 */
#include "member.h"

#define DEFAULT_INSERTIONS 500 /* of each member */
#define DEFAULT_BUCKETS 256 /* in total */
#define DEFAULT_RANGE 1000 /* keys are 1 to this */
#define MOST_INSERTIONS 50000
#define MOST_BUCKETS (1u << 24)
#define MOST_RANGE (1u << 24)
#define ENTRIES_AT_ONCE 64 /* attached together */
#define MOST_ATTACHED (MOST_INSERTIONS / ENTRIES_AT_ONCE + 1)

/* The words of an entry, of 8 bytes each. */
enum { KEY, NEXT, COUNT, WORDS };

/* A reference is the rank whose memory an entry is in, and the address there, in one word so that
 * it can be swapped. 0 is the end of a list. */
#define ADDRESS_BITS 48

struct place {
  ucxx_window_t *window;
  uint32_t rank;
  /* The place of its first word: an index of words in the window of buckets, an address in the
   * window of lists. */
  int64_t at;
};

struct table {
  struct member member;
  ucxx_window_t *buckets, *lists;
  uint32_t number_of_buckets, range, insertions;
  /* This member's memory for entries of lists. */
  uint64_t *attached[MOST_ATTACHED];
  /* The number of pieces, and the unused entries of the last one. */
  uint32_t pieces, left;
};

/* A pseudorandom number for `number`, the same each time. */
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

/* Buckets are distributed in turn. */
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

/* The displacement of one word of an entry. In a dynamic window a displacement is an address. */
static int64_t word_of(const struct table *table, const struct place *place, int word) {
  return place->at + (place->window == table->lists ? word * (int64_t)sizeof(uint64_t) : word);
}

/* Compares the word with `from`, and replaces it by `to` if they are equal. Returns the previous
 * value. */
static uint64_t swap(const struct table *table, const struct place *place, int word, uint64_t from,
                     uint64_t to) {
  uint64_t was = 0;
  check(ucxx_window_compare_and_swap(place->window, &to, &from, &was, UCXX_TYPE_UINT64, place->rank,
                                     word_of(table, place, word)),
        "compare_and_swap");
  /* The result is valid only after the flush. */
  check(ucxx_window_flush(place->window, place->rank), "flush");
  return was;
}

/* Reads a word that others change. The read must be atomic too, so it is a fetch_and_op that
 * changes nothing. A plain get could read a word that is half written. */
static uint64_t read_word(const struct table *table, const struct place *place, int word) {
  uint64_t value = 0;
  check(ucxx_window_fetch_and_op(place->window, NULL, &value, UCXX_TYPE_UINT64, place->rank,
                                 word_of(table, place, word), UCXX_REDUCE_NO_OP),
        "read");
  check(ucxx_window_flush(place->window, place->rank), "flush");
  return value;
}

/* Adds 1 to the count. Additions of several members at once are all kept. */
static void count(const struct table *table, const struct place *place) {
  static const uint64_t one = 1;
  ucxx_layout_t word;
  ucxx_layout_init_contiguous(&word, UCXX_TYPE_UINT64, 1);
  check(ucxx_window_accumulate(place->window, &one, &word, place->rank,
                               word_of(table, place, COUNT), &word, UCXX_REDUCE_SUM),
        "count");
}

/* Searches a list between two entries for a key. The words that it reads do not change any more, so
 * a plain get is enough. */
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

/* An entry of this member that is not in use yet. */
static uint64_t *free_entry(struct table *table) {
  if (table->left == 0) {
    /* `attached` has room for as many pieces as INSERTIONS can need. */
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
    /* Makes the stores above visible before another member can find the reference. */
    check(ucxx_window_sync(table->lists), "sync");
    looked_at = head;
    head = swap(table, &bucket, NEXT, head, reference);
    if (head == looked_at) {
      table->left--;
      return;
    }
  }
  count(table, &place);
}

/* How often the key was inserted. */
static uint64_t look_up(const struct table *table, uint64_t key) {
  struct place bucket = place_of_bucket(table, bucket_of(table, key)), place;
  if (read_word(table, &bucket, KEY) == key) return read_word(table, &bucket, COUNT);
  if (find_in_list(table, read_word(table, &bucket, NEXT), 0, key, &place))
    return read_word(table, &place, COUNT);
  return 0;
}

/* The expected count of each key, computed by one process alone. */
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

/* Checks one entry. */
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

/* Rank 0 checks the table after all members have finished: it has every key once, with its count,
 * and nothing else. */
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
      if (length == 0 && entry[KEY] == 0) break; /* nobody claimed this bucket */
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
  /* The memory is zero at first, which is an empty table. */
  check(ucxx_window_allocate(table.member.group, bytes, sizeof(uint64_t), NULL, &base,
                             &table.buckets),
        "window of buckets");
  check(ucxx_window_create_dynamic(table.member.group, NULL, &table.lists), "window of lists");
  uint64_t *counts = serial_counts(&table);

  /* Shared locks of all members, once. They exclude nobody. A member needs one before it accesses a
   * window. */
  check(ucxx_window_lock_all(table.buckets, 0), "lock_all");
  check(ucxx_window_lock_all(table.lists, 0), "lock_all");
  for (uint32_t insertion = 0; insertion < table.insertions; insertion++)
    insert(&table, key_of(&table, table.member.rank, insertion));
  check(ucxx_window_flush_all(table.buckets), "flush_all"); /* wait for the additions to arrive */
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
  /* After the close: until then other members may read the entries. */
  for (uint32_t piece = 0; piece < table.pieces; piece++) free(table.attached[piece]);
  leave(&table.member);
  free(counts);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
