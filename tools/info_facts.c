/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "info_facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <ucxx_rs.h>
#include <unistd.h>

#include "info.h"

extern char **environ;

/* The other process reads this to find out whether it is allowed to. */
static const uint64_t landmark = UINT64_C(0x6c616e646d61726b);

#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static void
add(struct facts *facts, const char *key, const char *format, ...) {
  if (facts->count == FACT_LINES) return;
  char value[FACT_LENGTH];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  snprintf(facts->lines[facts->count++], FACT_LENGTH, "%.63s=%.190s", key, value);
}

static void add_first_line(struct facts *facts, const char *key, const char *path) {
  char line[128];
  FILE *file = fopen(path, "r");
  if (file == NULL) return;
  if (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    add(facts, key, "%s", line);
  }
  fclose(file);
}

static void add_namespace(struct facts *facts, const char *key, const char *path) {
  struct stat status;
  if (stat(path, &status) == 0) add(facts, key, "%" PRIu64, (uint64_t)status.st_ino);
}

static void add_shared_memory_folder(struct facts *facts) {
  struct stat status;
  struct statvfs space;
  if (stat("/dev/shm", &status) != 0 || statvfs("/dev/shm", &space) != 0) {
    add(facts, "shm_free", "0");
    return;
  }
  add(facts, "shm_device", "%" PRIu64, (uint64_t)status.st_dev);
  add(facts, "shm_free", "%" PRIu64, (uint64_t)space.f_bavail * (uint64_t)space.f_frsize);
  add(facts, "shm_writable", "%d", access("/dev/shm", W_OK) == 0);
}

void facts_gather(struct facts *facts) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  char host[128] = "", transports[FACT_LENGTH];
  facts->count = 0;
  gethostname(host, sizeof host - 1);
  add(facts, "host", "%s", host);
  add(facts, "pid", "%ld", (long)getpid());
  add(facts, "uid", "%ld", (long)geteuid());
  add(facts, "landmark", "%" PRIuPTR, (uintptr_t)&landmark);
  add_first_line(facts, "boot", "/proc/sys/kernel/random/boot_id");
  add_first_line(facts, "ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope");
  add_namespace(facts, "pid_namespace", "/proc/self/ns/pid");
  add_namespace(facts, "ipc_namespace", "/proc/self/ns/ipc");
  add_namespace(facts, "mount_namespace", "/proc/self/ns/mnt");
  add_namespace(facts, "user_namespace", "/proc/self/ns/user");
  add_shared_memory_folder(facts);
  if (ucxx_version_query(&version) == UCXX_OK)
    add(facts, "ucx", "%u.%u.%u", version.ucx_major, version.ucx_minor, version.ucx_patch);
  if (available_transports(transports, sizeof transports))
    add(facts, "transports", "%s", transports);
  for (char **entry = environ; *entry != NULL; entry++)
    if (strncmp(*entry, "UCX_", 4) == 0 && facts->count < FACT_LINES)
      snprintf(facts->lines[facts->count++], FACT_LENGTH, "%s", *entry);
}

void facts_write(const struct facts *facts, char *text, size_t capacity) {
  size_t used = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < facts->count; i++) {
    size_t length = strlen(facts->lines[i]);
    if (used + length + 2 > capacity) return;
    memcpy(text + used, facts->lines[i], length);
    text[used + length] = '\n';
    text[used += length + 1] = '\0';
  }
}

void facts_read(struct facts *facts, const char *text) {
  facts->count = 0;
  while (*text != '\0' && facts->count < FACT_LINES) {
    size_t length = strcspn(text, "\n"), kept = length < FACT_LENGTH ? length : FACT_LENGTH - 1;
    char *line = facts->lines[facts->count++];
    memcpy(line, text, kept);
    line[kept] = '\0';
    for (char *c = line; *c != '\0'; c++)
      if ((unsigned char)*c < ' ' || *c == 127)
        *c = '?'; /* these bytes come from another machine and go to this terminal */
    text += length + (text[length] == '\n');
  }
}

const char *fact(const struct facts *facts, const char *key) {
  size_t length = strlen(key);
  for (unsigned i = 0; i < facts->count; i++)
    if (strncmp(facts->lines[i], key, length) == 0 && facts->lines[i][length] == '=')
      return facts->lines[i] + length + 1;
  return NULL;
}

bool same_fact(const struct facts *mine, const struct facts *theirs, const char *key) {
  const char *here = fact(mine, key), *there = fact(theirs, key);
  return here == NULL || there == NULL || strcmp(here, there) == 0;
}

int facts_try_reading(const struct facts *theirs) {
  const char *pid = fact(theirs, "pid"), *place = fact(theirs, "landmark");
  uint64_t copy = 0;
  if (pid == NULL || place == NULL) return EINVAL;
  struct iovec local = {&copy, sizeof copy},
               remote = {(void *)(uintptr_t)strtoull(place, NULL, 10), sizeof copy};
  if (process_vm_readv((pid_t)atol(pid), &local, 1, &remote, 1, 0) != (ssize_t)sizeof copy)
    return errno != 0 ? errno : EIO;
  return copy == landmark ? 0 : EFAULT;
}
