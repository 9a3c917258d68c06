/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * file_tree.h: the list of files that a transfer sends, its encoding, and the order of the pieces
 * of the files' contents.
 */
#ifndef EXAMPLES_FILE_TREE_H
#define EXAMPLES_FILE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#define FILE_PATH_LIMIT 4000 /* bytes in a relative path */
#define FILE_LIST_LIMIT (256u * 1024 * 1024) /* bytes in an encoded list */

struct file_entry {
  char *path; /* relative, as the receiver sees it */
  char *source; /* where the sender reads it; NULL at the receiver */
  uint64_t size;
  uint32_t mode; /* permission bits */
  bool is_directory;
};

struct file_list {
  struct file_entry *entries;
  size_t count, capacity;
  size_t files, directories;
  uint64_t bytes;
};

/* Adds a file, or a directory with everything in it. Symbolic links to files are followed. Other
 * links and special files inside a directory are left out, with a line on stderr. */
int file_list_add(struct file_list *list, const char *path, struct failure *failure);
/* Encodes the list into bytes, which the caller frees. */
int file_list_encode(const struct file_list *list, unsigned char **data, size_t *length,
                     struct failure *failure);
/* Decodes bytes into an empty list. It checks everything in `data`. */
int file_list_decode(struct file_list *list, const unsigned char *data, size_t length,
                     struct failure *failure);
void file_list_free(struct file_list *list);

/* Whether a path from another process stays below the directory that it is relative to. It looks
 * only at the text of the path. */
bool file_path_is_safe(const char *path, size_t length);

/* The contents of all files as one sequence of pieces: the chunks of a file in order, then its
 * digest, then the next file. Both sides compute the same sequence, so a piece needs no header. */
struct file_piece {
  size_t entry;
  uint64_t offset;
  size_t length;
  bool is_digest;
};
struct file_cursor {
  size_t entry;
  uint64_t offset;
};
bool file_cursor_next(struct file_cursor *cursor, const struct file_list *list, size_t chunk,
                      struct file_piece *piece);

#endif
