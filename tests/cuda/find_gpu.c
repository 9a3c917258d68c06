/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Prints a line for the CUDA driver and one for each GPU. The status is 1 if there is none. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;

/* Returns whether the driver has the function. */
static int find(const char *name, void *place) {
  void *found = dlsym(library, name);
  memcpy(place, &found, sizeof found);
  return found != NULL;
}

int main(void) {
  int (*init)(unsigned), (*count)(int *), (*version)(int *), (*name)(char *, int, int);
  int (*memory)(size_t *, int);
  int devices = 0, number = 0;
  void *unused;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL || !find("cuInit", &init) || !find("cuDeviceGetCount", &count)) return 1;
  if (init(0) != 0 || count(&devices) != 0 || devices == 0) return 1;
  if (find("double_count", &unused))
    printf("driver: the tests' stand-in\n");
  else if (find("cuDriverGetVersion", &version) && version(&number) == 0)
    printf("driver: for CUDA %d.%d\n", number / 1000, number % 1000 / 10);
  for (int device = 0; device < devices; device++) {
    char text[128] = "no name";
    size_t bytes = 0;
    if (find("cuDeviceGetName", &name)) name(text, sizeof text, device);
    if (find("cuDeviceTotalMem_v2", &memory)) memory(&bytes, device);
    printf("gpu %d: %s, %zu MiB\n", device, text, bytes >> 20);
  }
  return 0;
}
