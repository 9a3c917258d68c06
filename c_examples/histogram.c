/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * histogram.c: all members of a group count the words of a text together.
 *
 *     cc -o histogram histogram.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./histogram [--buckets BUCKETS] [--times TIMES] FILE...
 *
 * How to start a group of processes: see member.h. Rank 0 prints one line:
 *
 *     4 members, 228 words in 1000 buckets, every count is right; the fullest has 17, such as 'the'
 *
 * Each member reads its part of the text. A hash of a word selects its bucket, and each member has
 * some of the buckets in a window, which is memory that the others change directly
 * (docs/windows.md). A member that finds a word adds 1 to the bucket, wherever it is. Accumulate is
 * atomic for each element, so additions of several members at once are all kept. One call adds many
 * words: the layout at the target is a list of blocks, one for each bucket.
 *
 * The memory of a batch may be used again after flush_local, which waits until the batch has been
 * read. It does not wait for the arrival. Only the unlock at the end does. Then rank 0 gets all
 * buckets, and compares each with its own count of the whole text.
 */
#include <ctype.h>

#include "member.h"

#define DEFAULT_BUCKETS 1000
#define MOST_BUCKETS (1u << 24)
#define MOST_TIMES 1000000
#define BATCH 32 /* words */

struct text {
  char *bytes;
  size_t length;
};

/* What will be added to the buckets of one member. */
struct batch {
  /* Different buckets. A word whose bucket is already here is added to that one. */
  ucxx_block_t places[BATCH];
  uint64_t counts[BATCH];
  size_t length, words;
};

struct histogram {
  struct member member;
  ucxx_window_t *window;
  uint32_t buckets;
  /* How often the text is counted, because most texts are short. */
  uint32_t times;
  struct batch *batches; /* one for each member */
};

/* Letters, digits, and all bytes beyond ASCII. */
static bool is_of_word(char byte) {
  return isalnum((unsigned char)byte) || (unsigned char)byte >= 128;
}

/* Finds the next word that begins before `end`. */
static bool next_word(const struct text *text, size_t *at, size_t end, struct text *word) {
  while (*at < end && !is_of_word(text->bytes[*at])) ++*at;
  if (*at >= end) return false;
  word->bytes = text->bytes + *at;
  while (*at < text->length && is_of_word(text->bytes[*at])) ++*at;
  word->length = (size_t)(text->bytes + *at - word->bytes);
  return true;
}

/* FNV-1a of the word in small letters. */
static uint32_t bucket_of(const struct text *word, uint32_t buckets) {
  uint32_t hash = 2166136261u;
  for (size_t at = 0; at < word->length; at++)
    hash = (hash ^ (unsigned char)tolower((unsigned char)word->bytes[at])) * 16777619u;
  return hash % buckets;
}

/* Buckets are distributed in turn: bucket b is number b / size of rank b % size. */
static uint32_t buckets_of(const struct histogram *histogram, uint32_t rank) {
  return histogram->buckets / histogram->member.size +
         (rank < histogram->buckets % histogram->member.size);
}

/* A layout describes where the elements are, in the memory of the caller and of the target. */
static void send_batch(const struct histogram *histogram, uint32_t rank) {
  struct batch *batch = &histogram->batches[rank];
  ucxx_layout_t here, there;
  ucxx_layout_init_contiguous(&here, UCXX_TYPE_UINT64, batch->length);
  ucxx_layout_init_blocks(&there, UCXX_TYPE_UINT64, batch->places, batch->length);
  check(ucxx_window_accumulate(histogram->window, batch->counts, &here, rank, 0, &there,
                               UCXX_REDUCE_SUM),
        "accumulate");
  check(ucxx_window_flush_local(histogram->window, rank), "flush_local");
  batch->length = batch->words = 0;
}

static void count_word(const struct histogram *histogram, uint32_t bucket) {
  uint32_t rank = bucket % histogram->member.size;
  int64_t place = bucket / histogram->member.size;
  struct batch *batch = &histogram->batches[rank];
  size_t at = 0;
  while (at < batch->length && batch->places[at].offset != place) at++;
  if (at == batch->length) {
    batch->places[at] = (ucxx_block_t){place, 1};
    batch->counts[at] = 0;
    batch->length++;
  }
  batch->counts[at]++;
  if (++batch->words == BATCH) send_batch(histogram, rank);
}

/* Counts this member's part of the text. A word belongs to the part that it begins in. */
static uint64_t count_part(const struct histogram *histogram, const struct text *text) {
  size_t part = text->length / histogram->member.size + 1;
  size_t begin = part * histogram->member.rank,
         end = begin + part < text->length ? begin + part : text->length;
  /* A word that began in the previous part belongs to that part. */
  while (begin > 0 && begin < end && is_of_word(text->bytes[begin - 1]) &&
         is_of_word(text->bytes[begin]))
    begin++;
  uint64_t words = 0;
  struct text word;
  /* A shared lock of every member: it excludes nobody, and allows accesses. */
  check(ucxx_window_lock_all(histogram->window, 0), "lock_all");
  for (uint32_t time = 0; time < histogram->times; time++)
    for (size_t at = begin; next_word(text, &at, end, &word); words++)
      count_word(histogram, bucket_of(&word, histogram->buckets));
  for (uint32_t rank = 0; rank < histogram->member.size; rank++)
    if (histogram->batches[rank].length > 0) send_batch(histogram, rank);
  check(ucxx_window_unlock_all(histogram->window), "unlock_all");
  return words;
}

/* Rank 0 gets all buckets, in the order in which they were distributed. */
static uint64_t *collect(const struct histogram *histogram) {
  uint64_t *all = zeros(histogram->buckets, sizeof *all);
  check(ucxx_window_lock_all(histogram->window, 0), "lock_all");
  for (uint32_t rank = 0; rank < histogram->member.size; rank++) {
    ucxx_layout_t here, there;
    uint32_t buckets = buckets_of(histogram, rank);
    /* No later rank has any. */
    if (buckets == 0) break;
    ucxx_layout_init_vector(&here, UCXX_TYPE_UINT64, buckets, 1, histogram->member.size);
    ucxx_layout_init_contiguous(&there, UCXX_TYPE_UINT64, buckets);
    check(ucxx_window_get(histogram->window, all + rank, &here, rank, 0, &there), "get");
  }
  check(ucxx_window_unlock_all(histogram->window), "unlock_all");
  return all;
}

/* `words` is the sum of what the members counted. */
static bool is_what_one_counts(const struct histogram *histogram, const struct text *text,
                               const uint64_t *all, uint64_t words) {
  uint64_t *expected = zeros(histogram->buckets, sizeof *expected), sum = 0, total = 0;
  struct text word, frequent = {0};
  uint32_t fullest = 0;
  bool good = true;
  for (size_t at = 0; next_word(text, &at, text->length, &word); total += histogram->times)
    expected[bucket_of(&word, histogram->buckets)] += histogram->times;
  for (uint32_t bucket = 0; bucket < histogram->buckets; bucket++) {
    sum += all[bucket];
    if (all[bucket] > all[fullest]) fullest = bucket;
    if (all[bucket] == expected[bucket]) continue;
    fprintf(stderr, "error: bucket %" PRIu32 " has %" PRIu64 " words, and not %" PRIu64 "\n",
            bucket, all[bucket], expected[bucket]);
    good = false;
  }
  if (sum != total || words != total) {
    fprintf(stderr,
            "error: %" PRIu64 " words are in buckets, %" PRIu64
            " were counted, and there are %" PRIu64 "\n",
            sum, words, total);
    good = false;
  }
  for (size_t at = 0; frequent.length == 0 && next_word(text, &at, text->length, &word);)
    if (bucket_of(&word, histogram->buckets) == fullest) frequent = word;
  if (good && total > 0)
    printf("%" PRIu32 " members, %" PRIu64 " words in %" PRIu32
           " buckets, every count is right; the fullest has %" PRIu64 ", such as '%.*s'\n",
           histogram->member.size, total, histogram->buckets, all[fullest], (int)frequent.length,
           frequent.bytes);
  else if (good)
    printf("%" PRIu32 " members, and no words\n", histogram->member.size);
  free(expected);
  return good;
}

/* Appends a file, and a newline. */
static bool read_file(const char *path, struct text *text) {
  FILE *file = fopen(path, "rb");
  size_t capacity = text->length, got = 1;
  while (file != NULL && got > 0) {
    if (capacity - text->length < 2) {
      capacity = 2 * capacity + 4096;
      char *grown = realloc(text->bytes, capacity);
      if (grown == NULL) break;
      text->bytes = grown;
    }
    got = fread(text->bytes + text->length, 1, capacity - text->length - 1, file);
    text->length += got;
  }
  bool complete = file != NULL && feof(file) && !ferror(file);
  if (!complete)
    perror(path);
  else
    text->bytes[text->length++] = '\n';
  if (file != NULL) fclose(file);
  return complete;
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--buckets BUCKETS] [--times TIMES] FILE...\n", program);
  return 2;
}

int main(int argc, char **argv) {
  struct histogram histogram = {0};
  struct text text = {0};
  histogram.buckets = DEFAULT_BUCKETS;
  histogram.times = 1;
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "--buckets") == 0 &&
        read_number(argv[at + 1], 1, MOST_BUCKETS, &histogram.buckets))
      continue;
    if (strcmp(argv[at], "--times") == 0 &&
        read_number(argv[at + 1], 1, MOST_TIMES, &histogram.times))
      continue;
    return usage(argv[0]);
  }
  if (at == argc || argv[at][0] == '-') return usage(argv[0]);
  for (; at < argc; at++)
    if (!read_file(argv[at], &text)) return EXIT_FAILURE;

  join(&histogram.member);
  histogram.batches = zeros(histogram.member.size, sizeof *histogram.batches);
  uint32_t buckets = buckets_of(&histogram, histogram.member.rank);
  void *base = NULL;
  check(ucxx_window_allocate(histogram.member.group, buckets * sizeof(uint64_t), sizeof(uint64_t),
                             NULL, &base, &histogram.window),
        "window");
  /* Set the buckets to zero before others add to them. The lock orders these stores before the
   * additions of others. */
  check(ucxx_window_lock(histogram.window, UCXX_LOCK_EXCLUSIVE, histogram.member.rank, 0), "lock");
  if (buckets > 0) memset(base, 0, buckets * sizeof(uint64_t));
  check(ucxx_window_unlock(histogram.window, histogram.member.rank), "unlock");
  check(ucxx_group_barrier(histogram.member.group), "barrier");

  uint64_t words = count_part(&histogram, &text), total = 0;
  uint64_t *counted = zeros(histogram.member.size, sizeof *counted);
  /* After this call all members have finished, because each has the others' numbers. */
  check(ucxx_group_allgather(histogram.member.group, &words, sizeof words, counted), "allgather");
  for (uint32_t rank = 0; rank < histogram.member.size; rank++) total += counted[rank];
  bool good = true;
  if (histogram.member.rank == 0) {
    uint64_t *all = collect(&histogram);
    good = is_what_one_counts(&histogram, &text, all, total);
    free(all);
  }
  free(counted);

  check(ucxx_window_close(histogram.window), "close");
  ucxx_window_destroy(histogram.window);
  leave(&histogram.member);
  free(histogram.batches);
  free(text.bytes);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
