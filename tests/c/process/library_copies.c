/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * library_copies local|global LIBRARY...: several copies of ucxx_rs in one process. The first two
 * libraries each contain the archive, and the third is linked to the shared library
 * (library_copy.c). Messages pass between all of them, and each has its own errors, log and
 * numbers. Unloading one leaves the others working, and threads that used it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "library_copies.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

static void *handles[COPIES];
static const copy_t *copies[COPIES];
static pthread_barrier_t both;

static void load(int number, const char *path, int scope) {
  const copy_t *(*functions)(void);
  handles[number] = dlopen(path, RTLD_NOW | scope);
  if (handles[number] == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  *(void **)&functions = dlsym(handles[number], "copy_functions");
  copies[number] = functions();
}

static void connect_all(void) {
  for (int from = 0; from < COPIES; from++) {
    for (int to = 0; to < COPIES; to++) {
      size_t address_length, key_length;
      const void *address = copies[to]->address(&address_length);
      const void *key = copies[to]->key(&key_length);
      copies[from]->connect(to, address, address_length, key, key_length);
    }
  }
}

static void exchange(int first) {
  static uint64_t word;
  for (int from = first; from < COPIES; from++) {
    for (int to = first; to < COPIES; to++) {
      copies[from]->send(to, ++word);
      CHECK(copies[to]->receive(from) == word);
      const uint64_t before = copies[to]->memory();
      CHECK(copies[from]->add(to, word) == before);
      CHECK(copies[to]->memory() == before + word);
    }
  }
}

/* Uses all copies, and ends after one of them has been unloaded: each has variables of the thread,
 * with destructors. */
static void *use_all(void *arg) {
  (void)arg;
  for (int i = 0; i < COPIES; i++) copies[i]->error("of a thread");
  pthread_barrier_wait(&both);
  pthread_barrier_wait(&both);
  return NULL;
}

static void errors_are_apart(void) {
  for (int i = 0; i < COPIES; i++) {
    CHECK(strlen(copies[i]->error("wrong")) > 0);
    for (int other = i + 1; other < COPIES; other++) CHECK(strlen(copies[other]->error(NULL)) == 0);
  }
}

static void logs_are_apart(void) {
  for (int i = 0; i < COPIES; i++) {
    int lines[COPIES];
    for (int other = 0; other < COPIES; other++) lines[other] = copies[other]->lines();
    copies[i]->log_a_line(i);
    for (int other = 0; other < COPIES; other++)
      CHECK(copies[other]->lines() == lines[other] + (other == i));
  }
}

static void fork_a_child(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    /* New objects of each, which know nothing of the parent's. */
    for (int i = 0; i < COPIES; i++) copies[i]->begin("library_copies, a child");
    for (int i = 0; i < COPIES; i++) copies[i]->end();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *begin_and_end(void *arg) {
  (void)arg;
  copies[0]->begin("library_copies, alone");
  copies[0]->end();
  return NULL;
}

/* UCX keeps addresses of functions of a library that has used it. So it stays, even if no thread
 * has variables of it any more. */
static void stays_after_its_threads(const char *path) {
  pthread_t thread;
  load(0, path, RTLD_LOCAL);
  CHECK(pthread_create(&thread, NULL, begin_and_end, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(dlclose(handles[0]) == 0);
  handles[0] = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  CHECK(handles[0] != NULL && dlclose(handles[0]) == 0);
}

int main(int argc, char **argv) {
  static const char *names[] = {"library_copies, 1", "library_copies, 2", "library_copies, shared"};
  CHECK(argc == 2 + COPIES);
  const int scope = strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  pthread_t thread;
  stays_after_its_threads(argv[2]);
  for (int i = 0; i < COPIES; i++) load(i, argv[2 + i], scope);
  for (int i = 0; i < COPIES; i++) {
    for (int other = 0; other < i; other++) CHECK(copies[i]->code() != copies[other]->code());
  }
  errors_are_apart();
  for (int i = 0; i < COPIES; i++) copies[i]->begin(names[i]);
  connect_all();
  exchange(0);
  for (int i = 0; i < COPIES; i++) CHECK(copies[i]->notified() == COPIES);
  logs_are_apart();
  fork_a_child();
  exchange(0);

  CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, use_all, NULL) == 0);
  pthread_barrier_wait(&both);
  copies[0]->end();
  CHECK(dlclose(handles[0]) == 0);
  exchange(1);
  pthread_barrier_wait(&both);
  CHECK(pthread_join(thread, NULL) == 0);
  exchange(1);

  /* Again, with the others in use. */
  load(0, argv[2], scope);
  copies[0]->begin(names[0]);
  connect_all();
  exchange(0);
  for (int i = 0; i < COPIES; i++) {
    copies[i]->end();
    CHECK(dlclose(handles[i]) == 0);
  }
  return 0;
}
