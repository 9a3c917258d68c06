/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * file_tree.c: see file_tree.h.
 */
#define _XOPEN_SOURCE 700
#include "file_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sha256.h"

static int out_of_memory(struct failure *failure) { return fail(failure, "out of memory"); }

/* Takes ownership of both strings, also on failure. */
static int append(struct file_list *list, char *path, char *source, const struct stat *info,
                  struct failure *failure) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity > 0 ? list->capacity * 2 : 64;
    struct file_entry *entries = realloc(list->entries, capacity * sizeof *entries);
    if (entries == NULL) {
      free(path);
      free(source);
      return out_of_memory(failure);
    }
    list->entries = entries;
    list->capacity = capacity;
  }
  struct file_entry *entry = &list->entries[list->count++];
  entry->path = path;
  entry->source = source;
  entry->is_directory = S_ISDIR(info->st_mode);
  entry->mode = (uint32_t)info->st_mode & 0777;
  entry->size = entry->is_directory ? 0 : (uint64_t)info->st_size;
  list->bytes += entry->size;
  if (entry->is_directory)
    list->directories++;
  else
    list->files++;
  return 0;
}

static char *join(const char *directory, const char *name) {
  size_t length = strlen(directory) + strlen(name) + 2;
  char *path = malloc(length);
  if (path != NULL) snprintf(path, length, "%s/%s", directory, name);
  return path;
}

static int add(struct file_list *list, const char *path, const char *source, bool nested,
               struct failure *failure);

static int add_children(struct file_list *list, const char *path, const char *source,
                        struct failure *failure) {
  DIR *directory = opendir(source);
  if (directory == NULL) return fail(failure, "%s: %s", source, strerror(errno));
  int result = 0;
  while (result == 0) {
    errno = 0;
    const struct dirent *child = readdir(directory);
    if (child == NULL) {
      if (errno != 0) result = fail(failure, "%s: %s", source, strerror(errno));
      break;
    }
    if (strcmp(child->d_name, ".") == 0 || strcmp(child->d_name, "..") == 0) continue;
    char *child_path = join(path, child->d_name);
    char *child_source = join(source, child->d_name);
    if (child_path == NULL || child_source == NULL)
      result = out_of_memory(failure);
    else
      result = add(list, child_path, child_source, true, failure);
    free(child_path);
    free(child_source);
  }
  closedir(directory);
  return result;
}

static int leave_out(const char *source, const char *why) {
  fprintf(stderr, "left out: %s: %s\n", source, why);
  return 0;
}

static int add(struct file_list *list, const char *path, const char *source, bool nested,
               struct failure *failure) {
  struct stat info;
  if (lstat(source, &info) != 0) return fail(failure, "%s: %s", source, strerror(errno));
  bool is_link = S_ISLNK(info.st_mode);
  if (is_link && stat(source, &info) != 0) {
    return nested ? leave_out(source, "link that leads nowhere")
                  : fail(failure, "%s: %s", source, strerror(errno));
  }
  /* A link to a directory could lead back to one of its own parents. */
  if (is_link && nested && S_ISDIR(info.st_mode)) return leave_out(source, "link to a directory");
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return nested ? leave_out(source, "neither file nor directory")
                  : fail(failure, "%s: neither file nor directory", source);
  }
  if (!file_path_is_safe(path, strlen(path)))
    return fail(failure, "%s: the path cannot be sent", source);
  if (S_ISREG(info.st_mode)) {
    /* Report an unreadable file before anything is sent, rather than in the middle. */
    int fd = open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return fail(failure, "%s: %s", source, strerror(errno));
    close(fd);
  }
  char *own_path = strdup(path);
  char *own_source = strdup(source);
  if (own_path == NULL || own_source == NULL) {
    free(own_path);
    free(own_source);
    return out_of_memory(failure);
  }
  if (append(list, own_path, own_source, &info, failure) != 0) return -1;
  return S_ISDIR(info.st_mode) ? add_children(list, path, source, failure) : 0;
}

int file_list_add(struct file_list *list, const char *path, struct failure *failure) {
  /* The receiver uses the last component as the name. For "." and ".." it is the name of the
   * directory that they mean. */
  char *resolved = realpath(path, NULL);
  if (resolved == NULL) return fail(failure, "%s: %s", path, strerror(errno));
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  char *trimmed = strndup(path, length);
  int result = -1;
  if (trimmed == NULL) {
    result = out_of_memory(failure);
  } else {
    const char *slash = strrchr(trimmed, '/');
    const char *name = slash != NULL ? slash + 1 : trimmed;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) name = strrchr(resolved, '/') + 1;
    bool taken = false;
    for (size_t i = 0; i < list->count; i++)
      taken = taken || strcmp(list->entries[i].path, name) == 0;
    if (taken)
      result = fail(failure, "%s: another one of that name is sent already", path);
    else
      result = add(list, name, trimmed, false, failure);
  }
  free(trimmed);
  free(resolved);
  return result;
}

bool file_path_is_safe(const char *path, size_t length) {
  if (length == 0 || length > FILE_PATH_LIMIT || memchr(path, '\0', length) != NULL) return false;
  /* Every component must be a name of 1 to 255 bytes. An absolute path has an empty first
   * component. */
  for (size_t start = 0; start <= length;) {
    const char *component = path + start;
    const char *slash = memchr(component, '/', length - start);
    size_t size = slash != NULL ? (size_t)(slash - component) : length - start;
    if (size == 0 || size > 255) return false;
    if (size == 1 && component[0] == '.') return false;
    if (size == 2 && component[0] == '.' && component[1] == '.') return false;
    start += size + 1;
  }
  return true;
}

/* Encoding of an entry: kind (1 byte), mode (4), size (8), length of the path (4), all little
 * endian, and the path. */
enum { ENTRY_HEADER = 17, KIND_FILE = 'f', KIND_DIRECTORY = 'd' };

static void put(unsigned char *bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

int file_list_encode(const struct file_list *list, unsigned char **data, size_t *length,
                     struct failure *failure) {
  size_t needed = 0;
  for (size_t i = 0; i < list->count; i++) needed += ENTRY_HEADER + strlen(list->entries[i].path);
  if (needed > FILE_LIST_LIMIT)
    return fail(failure, "too many files for one transfer: %zu", list->count);
  unsigned char *bytes = malloc(needed > 0 ? needed : 1);
  if (bytes == NULL) return out_of_memory(failure);
  unsigned char *at = bytes;
  for (size_t i = 0; i < list->count; i++) {
    const struct file_entry *entry = &list->entries[i];
    size_t path_length = strlen(entry->path);
    at[0] = entry->is_directory ? KIND_DIRECTORY : KIND_FILE;
    put(at + 1, entry->mode, 4);
    put(at + 5, entry->size, 8);
    put(at + 13, path_length, 4);
    memcpy(at + ENTRY_HEADER, entry->path, path_length);
    at += ENTRY_HEADER + path_length;
  }
  *data = bytes;
  *length = needed;
  return 0;
}

int file_list_decode(struct file_list *list, const unsigned char *data, size_t length,
                     struct failure *failure) {
  while (length > 0) {
    if (length < ENTRY_HEADER) return fail(failure, "the list of files is cut short");
    unsigned char kind = data[0];
    uint64_t mode = get(data + 1, 4), size = get(data + 5, 8), path_length = get(data + 13, 4);
    if (path_length > length - ENTRY_HEADER) return fail(failure, "the list of files is cut short");
    const char *path = (const char *)data + ENTRY_HEADER;
    if (kind != KIND_FILE && kind != KIND_DIRECTORY)
      return fail(failure, "the list of files has an entry of unknown kind");
    if (mode > 0777) return fail(failure, "the list of files has a mode that is not allowed");
    if (size > INT64_MAX - list->bytes || (kind == KIND_DIRECTORY && size > 0))
      return fail(failure, "the list of files has an impossible size");
    if (!file_path_is_safe(path, (size_t)path_length))
      return fail(failure, "the list of files has a path that is not allowed");
    struct stat info;
    memset(&info, 0, sizeof info);
    info.st_mode = (mode_t)mode | (kind == KIND_DIRECTORY ? S_IFDIR : S_IFREG);
    info.st_size = (off_t)size;
    char *own = strndup(path, (size_t)path_length);
    if (own == NULL) return out_of_memory(failure);
    if (append(list, own, NULL, &info, failure) != 0) return -1;
    data += ENTRY_HEADER + path_length;
    length -= ENTRY_HEADER + (size_t)path_length;
  }
  return 0;
}

void file_list_free(struct file_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    free(list->entries[i].path);
    free(list->entries[i].source);
  }
  free(list->entries);
  memset(list, 0, sizeof *list);
}

bool file_cursor_next(struct file_cursor *cursor, const struct file_list *list, size_t chunk,
                      struct file_piece *piece) {
  while (cursor->entry < list->count && list->entries[cursor->entry].is_directory) cursor->entry++;
  if (cursor->entry >= list->count) return false;
  uint64_t left = list->entries[cursor->entry].size - cursor->offset;
  piece->entry = cursor->entry;
  piece->offset = cursor->offset;
  piece->is_digest = left == 0;
  if (piece->is_digest) {
    piece->length = SHA256_LENGTH;
    cursor->entry++;
    cursor->offset = 0;
  } else {
    piece->length = left < chunk ? (size_t)left : chunk;
    cursor->offset += piece->length;
  }
  return true;
}
