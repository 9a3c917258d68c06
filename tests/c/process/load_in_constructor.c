/*
 * load_in_constructor LIBRARY: loads a library whose constructor uses ucxx_rs (in_constructor.c),
 * on the main thread, which also loads UCX, and on another one. The program itself is linked to
 * neither.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *load(void *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "constructor: %s\n", dlerror());
    exit(1);
  }
  dlclose(library);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t thread;
  if (argc != 2) return 2;
  alarm(120); /* a limit that only a hang reaches */
  unsetenv("CONSTRUCTOR_RAN");
  load(argv[1]);
  if (pthread_create(&thread, NULL, load, argv[1]) || pthread_join(thread, NULL)) return 3;
  const char *times = getenv("CONSTRUCTOR_RAN");
  printf("the constructor ran %s times\n", times ? times : "no");
  return !times || strcmp(times, "2") != 0;
}
