/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * file_store.c: see file_store.h.
 */
#define _XOPEN_SOURCE 700
#include "file_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_at(struct file_store *store, const char *doing, const char *path,
                   struct failure *failure) {
  return fail(failure, "%s %s/%s: %s", doing, store->root, path, strerror(errno));
}

/* Opens the directory that `path` lies in, and returns the last component of `path`. It opens one
 * component at a time, because O_NOFOLLOW applies only to the last one. */
static int open_parent(struct file_store *store, const char *path, const char **name) {
  int fd = dup(store->root_fd);
  const char *slash;
  while (fd >= 0 && (slash = strchr(path, '/')) != NULL) {
    char component[256];
    size_t length = (size_t)(slash - path);
    int next = -1;
    if (length < sizeof component) {
      memcpy(component, path, length);
      component[length] = '\0';
      next = openat(fd, component, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    } else {
      errno = ENAMETOOLONG;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    fd = next;
    path = slash + 1;
  }
  *name = path;
  return fd;
}

int file_store_open(struct file_store *store, const char *root, struct failure *failure) {
  memset(store, 0, sizeof *store);
  store->root = root;
  store->root_fd = store->parent_fd = store->fd = -1;
  if (mkdir(root, 0777) != 0 && errno != EEXIST)
    return fail(failure, "creating %s: %s", root, strerror(errno));
  store->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (store->root_fd < 0) return fail(failure, "opening %s: %s", root, strerror(errno));
  snprintf(store->temporary, sizeof store->temporary, ".send_files-%ld.part", (long)getpid());
  return 0;
}

int file_store_make_directory(struct file_store *store, const char *path, struct failure *failure) {
  const char *name = NULL;
  int parent = open_parent(store, path, &name);
  if (parent < 0) return fail_at(store, "opening the directory of", path, failure);
  /* Until the end the directory is ours alone and writable, whatever mode it gets then. */
  int result = mkdirat(parent, name, 0700) == 0 || errno == EEXIST
                   ? 0
                   : fail_at(store, "creating", path, failure);
  close(parent);
  return result;
}

int file_store_set_directory_mode(struct file_store *store, const char *path, uint32_t mode,
                                  struct failure *failure) {
  const char *name = NULL;
  int parent = open_parent(store, path, &name);
  if (parent < 0) return fail_at(store, "opening the directory of", path, failure);
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int result = fd >= 0 && fchmod(fd, (mode_t)mode) == 0
                   ? 0
                   : fail_at(store, "setting the mode of", path, failure);
  if (fd >= 0) close(fd);
  close(parent);
  return result;
}

int file_store_begin(struct file_store *store, const char *path, struct failure *failure) {
  const char *name = NULL;
  store->path = path;
  store->parent_fd = open_parent(store, path, &name);
  if (store->parent_fd < 0) return fail_at(store, "opening the directory of", path, failure);
  /* O_EXCL: if a file already has the temporary name, it must not be overwritten. */
  store->fd = openat(store->parent_fd, store->temporary,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (store->fd < 0) return fail_at(store, "creating a temporary file for", path, failure);
  sha256_start(&store->hash);
  return 0;
}

int file_store_write(struct file_store *store, const void *data, size_t length,
                     struct failure *failure) {
  const char *bytes = data;
  sha256_add(&store->hash, data, length);
  while (length > 0) {
    ssize_t written = write(store->fd, bytes, length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_at(store, "writing", store->path, failure);
    bytes += written;
    length -= (size_t)written;
  }
  return 0;
}

/* Ends the file that is being written. Removes it unless it was renamed. */
static void abandon(struct file_store *store) {
  if (store->fd >= 0) {
    close(store->fd);
    unlinkat(store->parent_fd, store->temporary, 0);
  }
  if (store->parent_fd >= 0) close(store->parent_fd);
  store->fd = store->parent_fd = -1;
}

int file_store_finish(struct file_store *store, uint32_t mode,
                      const unsigned char digest[SHA256_LENGTH], struct failure *failure) {
  unsigned char computed[SHA256_LENGTH];
  sha256_finish(&store->hash, computed);
  const char *slash = strrchr(store->path, '/');
  const char *name = slash != NULL ? slash + 1 : store->path;
  int result = 0;
  if (memcmp(computed, digest, SHA256_LENGTH) != 0) {
    result = fail(failure, "%s/%s: the SHA-256 is not the sender's", store->root, store->path);
  } else if (fchmod(store->fd, (mode_t)mode) != 0) {
    result = fail_at(store, "setting the mode of", store->path, failure);
  } else {
    /* Some file systems report a full disk only in close(). */
    int closed = close(store->fd);
    store->fd = -1;
    if (closed != 0 || renameat(store->parent_fd, store->temporary, store->parent_fd, name) != 0) {
      result = fail_at(store, closed != 0 ? "writing" : "renaming the temporary file to",
                       store->path, failure);
      unlinkat(store->parent_fd, store->temporary, 0);
    }
  }
  abandon(store);
  return result;
}

void file_store_close(struct file_store *store) {
  abandon(store);
  if (store->root_fd >= 0) close(store->root_fd);
  store->root_fd = -1;
}
