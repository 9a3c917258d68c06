/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * send_files_test.c: tests the parts of send_files that two correct processes never use: SHA-256
 * against known answers, and lists of files that a hostile sender might make.
 *
 *     send_files_test DIRECTORY
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_store.h"
#include "file_tree.h"
#include "sha256.h"

static int failures;

static void expect(bool condition, const char *what, const char *which) {
  if (condition) return;
  fprintf(stderr, "failed: %s: %s\n", what, which);
  failures++;
}

static void hex(const unsigned char digest[SHA256_LENGTH], char text[2 * SHA256_LENGTH + 1]) {
  for (int i = 0; i < SHA256_LENGTH; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

/* Adds `step` bytes at a time, because errors are likely in the buffering between blocks. */
static void check_digest(const char *unit, size_t repeats, size_t step, const char *expected) {
  size_t length = strlen(unit) * repeats;
  char *data = malloc(length + 1);
  if (data == NULL) exit(EXIT_FAILURE);
  for (size_t i = 0; i < repeats; i++) memcpy(data + i * strlen(unit), unit, strlen(unit));
  struct sha256 hash;
  unsigned char digest[SHA256_LENGTH];
  char text[2 * SHA256_LENGTH + 1];
  sha256_start(&hash);
  for (size_t at = 0; at < length; at += step)
    sha256_add(&hash, data + at, length - at < step ? length - at : step);
  sha256_finish(&hash, digest);
  hex(digest, text);
  expect(strcmp(text, expected) == 0, "SHA-256", expected);
  free(data);
}

static void check_digests(void) {
  static const size_t steps[] = {1, 7, 63, 64, 65, 1000, 1 << 20};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    check_digest("", 0, steps[i],
                 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 1, steps[i],
                 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, steps[i],
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest("a", 1000000, steps[i],
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

static void check_paths(void) {
  static const char *const good[] = {"a", "a/b", "...", "a/..b", ".hidden", "a b/c\nd"};
  static const char *const bad[] = {"",       "/", "/etc/passwd", "..",    "../a", "a/..",
                                    "a/../b", ".", "./a",         "a/./b", "a//b", "a/"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
    expect(file_path_is_safe(good[i], strlen(good[i])), "a good path", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    expect(!file_path_is_safe(bad[i], strlen(bad[i])), "a bad path", bad[i]);
  expect(!file_path_is_safe("a\0b", 3), "a bad path", "with a zero byte");
  char longest[FILE_PATH_LIMIT + 2];
  for (size_t i = 0; i < sizeof longest; i++) longest[i] = i % 2 == 1 ? '/' : 'a';
  expect(file_path_is_safe(longest, FILE_PATH_LIMIT - 1), "a good path", "of the greatest length");
  expect(!file_path_is_safe(longest, FILE_PATH_LIMIT + 1), "a bad path", "too long");
  char component[256];
  memset(component, 'a', sizeof component);
  expect(file_path_is_safe(component, 255), "a good path", "longest name");
  expect(!file_path_is_safe(component, 256), "a bad path", "name too long");
}

static bool decodes(const unsigned char *data, size_t length) {
  struct file_list list = {0};
  struct failure failure = {""};
  bool result = file_list_decode(&list, data, length, &failure) == 0;
  file_list_free(&list);
  return result;
}

static void check_lists(void) {
  struct file_entry entries[2] = {{(char *)"tree", NULL, 0, 0755, true},
                                  {(char *)"tree/file", NULL, 5, 0644, false}};
  struct file_list list = {entries, 2, 2, 1, 1, 5};
  struct failure failure = {""};
  unsigned char *data = NULL;
  size_t length = 0;
  if (file_list_encode(&list, &data, &length, &failure) != 0) exit(EXIT_FAILURE);
  struct file_list copy = {0};
  expect(file_list_decode(&copy, data, length, &failure) == 0 && copy.count == 2, "decoding",
         "a good list");
  if (copy.count == 2) {
    const struct file_entry *file = &copy.entries[1];
    expect(strcmp(file->path, "tree/file") == 0 && file->size == 5 && file->mode == 0644 &&
               !file->is_directory,
           "decoding", "a file");
    expect(copy.entries[0].is_directory && copy.files == 1 && copy.directories == 1 &&
               copy.bytes == 5,
           "decoding", "totals");
  }
  file_list_free(&copy);

  /* The length of the first entry: the list may be cut there, and nowhere else. */
  const size_t first = 17 + 4;
  for (size_t cut = 1; cut < length; cut++)
    expect(decodes(data, cut) == (cut == first), "decoding", "a list that is cut");
  static const struct {
    size_t at;
    unsigned char value;
    const char *what;
  } damage[] = {
      {0, 'l', "an unknown kind"},       {2, 0xff, "a mode with other bits"},
      {5, 1, "a directory with a size"}, {first + 12, 0xff, "a size past all limits"},
      {13, 0xff, "a path too long"},     {16, 0xff, "a path far too long"},
      {17, '/', "an absolute path"},     {18, '\0', "a zero byte in a path"},
  };
  for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
    unsigned char saved = data[damage[i].at];
    data[damage[i].at] = damage[i].value;
    expect(!decodes(data, length), "decoding", damage[i].what);
    data[damage[i].at] = saved;
  }
  free(data);
}

/* The given directory is empty. A link in it leads out of the directory that is written to. */
static void check_store(const char *scratch) {
  struct file_store store;
  struct failure failure = {""};
  unsigned char wrong[SHA256_LENGTH] = {0};
  if (chdir(scratch) != 0 || mkdir("outside", 0700) != 0 || mkdir("inside", 0700) != 0 ||
      symlink("../outside", "inside/link") != 0) {
    perror(scratch);
    exit(EXIT_FAILURE);
  }
  expect(file_store_open(&store, "inside", &failure) == 0, "store", "opening");
  expect(file_store_begin(&store, "link/file", &failure) != 0, "store", "a link is not followed");
  file_store_close(&store);

  failure.text[0] = '\0';
  expect(file_store_open(&store, "inside", &failure) == 0 &&
             file_store_begin(&store, "file", &failure) == 0,
         "store", "beginning a file");
  expect(file_store_write(&store, "hello", 5, &failure) == 0, "store", "writing");
  expect(access("inside/file", F_OK) != 0, "store",
         "no file of that name before the digest is known");
  expect(file_store_finish(&store, 0644, wrong, &failure) != 0, "store",
         "a wrong digest is refused");
  file_store_close(&store);
  expect(unlink("inside/link") == 0 && rmdir("inside") == 0 && rmdir("outside") == 0, "store",
         "nothing is left behind");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  char scratch[1024];
  snprintf(scratch, sizeof scratch, "%s/send_files_test.XXXXXX", argv[1]);
  if (mkdtemp(scratch) == NULL) {
    perror(scratch);
    return EXIT_FAILURE;
  }
  check_digests();
  check_paths();
  check_lists();
  check_store(scratch);
  if (chdir("..") != 0 || rmdir(scratch) != 0) perror(scratch);
  if (failures == 0) printf("all checks passed\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
