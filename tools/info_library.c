/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_library.c: prints which library is loaded, what it offers, and which transports UCX finds on
 * this machine.
 */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#include "info.h"

/* ------------------------------------------------------------------ versions */

static const char *file_of(const void *function) {
  static char path[PATH_MAX];
  Dl_info where;
  if (dladdr(function, &where) == 0 || where.dli_fname == NULL) return "(unknown)";
  return realpath(where.dli_fname, path) != NULL ? path : where.dli_fname;
}

static int print_ucx_image(struct dl_phdr_info *image, size_t size, void *arg) {
  const char *name = strrchr(image->dlpi_name, '/');
  (void)size;
  (void)arg;
  name = name != NULL ? name + 1 : image->dlpi_name;
  if (strncmp(name, "libucp", 6) == 0) printf("                 %s\n", image->dlpi_name);
  return 0;
}

int print_versions(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  int result = 0;
  union {
    ucxx_status_t (*function)(ucxx_version_t *);
    const void *data;
  } address = {ucxx_version_query};
  printf("Versions\n");
  if (ucxx_version_query(&version) != UCXX_OK) {
    printf("  the library does not answer: %s\n", ucxx_last_error_message());
    return -1;
  }
  printf("  library        ucxx_rs %s, %s\n", version.version_string, file_of(address.data));
  printf("  this program   built with the header of %d.%d.%d\n", UCXX_RS_VERSION_MAJOR,
         UCXX_RS_VERSION_MINOR, UCXX_RS_VERSION_PATCH);
  if (version.major != UCXX_RS_VERSION_MAJOR || version.minor != UCXX_RS_VERSION_MINOR) {
    printf("    PROBLEM: header and library are of different ABIs. Another libucxx_rs.so comes "
           "first: look at LD_LIBRARY_PATH.\n");
    result = -1;
  }
  printf("  UCX            %u.%u.%u, %s\n", version.ucx_major, version.ucx_minor, version.ucx_patch,
         version.ucx_library_path[0] != '\0' ? version.ucx_library_path : "(file unknown)");
  if (version.ucx_copies > 1) {
    printf("    PROBLEM: %u copies of libucp are loaded, and each has state of its own:\n",
           version.ucx_copies);
    dl_iterate_phdr(print_ucx_image, NULL);
    printf("    Let one of them go: look at LD_LIBRARY_PATH, LD_PRELOAD, and at packages that "
           "bring a UCX of their own.\n");
    result = -1;
  } else {
    printf("  copies of UCX  1\n");
  }
  return result;
}

/* ------------------------------------------------------------------ build */

/* A group of functions is available if the one named here is exported. */
static const struct group {
  const char *name, *symbol;
} groups[] = {{"tag messages", "ucxx_tag_send"},
              {"notifiers", "ucxx_notifier_create"},
              {"progress threads", "ucxx_worker_start_progress_thread"},
              {"listeners", "ucxx_listener_create"},
              {"streams", "ucxx_stream_send"},
              {"active messages", "ucxx_am_send"},
              {"remote memory", "ucxx_rkey_unpack"},
              {"groups", "ucxx_group_create"},
              {"windows", "ucxx_window_create"},
              {"hubs", "ucxx_hub_create"}};

static const struct mode {
  const char *name;
  int32_t mode;
} modes[] = {{"manual", UCXX_PROGRESS_MANUAL},
             {"adaptive", UCXX_PROGRESS_THREAD_ADAPTIVE},
             {"polling", UCXX_PROGRESS_THREAD_POLLING},
             {"blocking", UCXX_PROGRESS_THREAD_BLOCKING}};

static void print_mode(ucxx_context_t *context, const struct mode *mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  ucxx_worker_t *worker = NULL;
  params.progress_mode = mode->mode;
  if (ucxx_worker_create(context, &params, &worker) != UCXX_OK) {
    printf("    %-10s not to be had: %s\n", mode->name, ucxx_last_error_message());
    return;
  }
  if (ucxx_worker_query(worker, &attr) != UCXX_OK)
    printf("    %-10s %s\n", mode->name, ucxx_last_error_message());
  else if (attr.progress_thread_running)
    printf("    %-10s by a thread; operations are submitted %s\n", mode->name,
           attr.delayed_submission ? "by a queue" : "directly");
  else
    printf("    %-10s by the calls of the application\n", mode->name);
  ucxx_worker_destroy(worker);
}

int print_build(void) {
  ucxx_context_t *context = NULL;
  printf("What it offers\n");
  void *self = dlopen(NULL, RTLD_NOW);
  for (int there = 1; there >= 0; there--) {
    const char *separator = "";
    printf("  %-14s ", there ? "in this build" : "not in it");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
      if ((self != NULL && dlsym(self, groups[i].symbol) != NULL) == (there != 0)) {
        printf("%s%s", separator, groups[i].name);
        separator = ", ";
      }
    printf("%s\n", separator[0] == '\0' ? "-" : "");
  }
  if (self != NULL) dlclose(self);
  if (ucxx_context_create(NULL, &context) != UCXX_OK) {
    printf("  PROBLEM: no context: %s\n", ucxx_last_error_message());
    return -1;
  }
  printf("  CUDA memory    %s\n", ucxx_context_has_cuda(context)
                                      ? "yes"
                                      : "no: this UCX was built without CUDA, or there is no GPU");
  printf("  progress modes\n");
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) print_mode(context, &modes[i]);
  ucxx_context_destroy(context);
  return 0;
}

/* ------------------------------------------------------------------ transports */

struct answer {
  const char *question;
  char *text;
  size_t capacity;
  bool found;
};

/* "transport 'x' is not available, please use one or more of: cma, posix, self, tcp (file.c:1)" */
static void on_log(void *arg, int32_t level, const char *component, const char *message) {
  struct answer *answer = arg;
  const char *list = strstr(message, "one or more of: ");
  (void)level;
  (void)component;
  if (answer->found || strstr(message, answer->question) == NULL || list == NULL) return;
  list += strlen("one or more of: ");
  const char *end = strstr(list, " (ucp");
  size_t length = end != NULL ? (size_t)(end - list) : strlen(list);
  if (length >= answer->capacity) length = answer->capacity - 1;
  memcpy(answer->text, list, length);
  answer->text[length] = '\0';
  answer->found = true;
}

/* UCX lists what is available if it is asked for something unknown. The library has no call that
 * lists transports. */
static bool ask_ucx(const char *key, const char *value, char *text, size_t capacity) {
  struct answer answer = {"no_such_thing", text, capacity, false};
  ucxx_config_entry_t entry = {key, value};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  text[0] = '\0';
  params.config = &entry;
  params.config_count = 1;
  ucxx_log_set_callback(on_log, &answer, UCXX_LOG_WARN);
  ucxx_status_t status = ucxx_context_create(&params, &context);
  if (status == UCXX_OK) ucxx_context_destroy(context);
  ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF);
  return answer.found;
}

bool available_transports(char *text, size_t capacity) {
  return ask_ucx("TLS", "no_such_thing,self", text, capacity);
}

int print_transports(void) {
  char text[1024];
  printf("What UCX finds on this machine\n");
  if (!available_transports(text, sizeof text)) {
    printf("  UCX does not tell: is UCX_LOG_LEVEL set to less than warn?\n");
    return 0;
  }
  printf("  transports     %s (mm, sm and shm stand for all that is shared memory)\n", text);
  if (ask_ucx("NET_DEVICES", "no_such_thing,all", text, sizeof text))
    printf("  network        %s\n", text);
  if (ask_ucx("SHM_DEVICES", "no_such_thing,all", text, sizeof text))
    printf("  shared memory  %s\n", text);
  return 0;
}

/* ------------------------------------------------------------------ configuration */

static void print_variable(void *arg, const char *key, const char *value) {
  (void)arg;
  printf("  UCX_%s=%s\n", key, value);
}

int print_configuration(void) {
  ucxx_context_t *context = NULL;
  printf("UCX's variables as a context has them\n");
  ucxx_status_t status = ucxx_context_create(NULL, &context);
  if (status == UCXX_OK) status = ucxx_context_visit_config(context, print_variable, NULL);
  if (status != UCXX_OK) printf("  PROBLEM: %s\n", ucxx_last_error_message());
  ucxx_context_destroy(context);
  return status == UCXX_OK ? 0 : -1;
}
