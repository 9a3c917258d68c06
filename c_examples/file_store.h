/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * file_store.h: writes received files below one directory.
 *
 * A file is written under a temporary name in the same directory. It is renamed only if its digest
 * equals the sender's, so a file with the final name is always complete. No path is followed
 * through a symbolic link.
 */
#ifndef EXAMPLES_FILE_STORE_H
#define EXAMPLES_FILE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "sha256.h"

struct file_store {
  const char *root;
  int root_fd, parent_fd, fd;
  const char *path; /* the path of the file that is being written */
  char temporary[64];
  struct sha256 hash;
};

/* Creates the directory if it does not exist. */
int file_store_open(struct file_store *store, const char *root, struct failure *failure);
int file_store_make_directory(struct file_store *store, const char *path, struct failure *failure);
int file_store_set_directory_mode(struct file_store *store, const char *path, uint32_t mode,
                                  struct failure *failure);

int file_store_begin(struct file_store *store, const char *path, struct failure *failure);
int file_store_write(struct file_store *store, const void *data, size_t length,
                     struct failure *failure);
int file_store_finish(struct file_store *store, uint32_t mode,
                      const unsigned char digest[SHA256_LENGTH], struct failure *failure);

void file_store_close(struct file_store *store); /* removes an unfinished file */

#endif
