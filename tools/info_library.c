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
#include "info_print.h"

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
  if (strncmp(name, "libucp", 6) == 0)
    print_string(NULL, image->dlpi_name, "                 %s\n", image->dlpi_name);
  return 0;
}

int print_versions(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  char ucx[32], header[32];
  int result = 0;
  union {
    ucxx_status_t (*function)(ucxx_version_t *);
    const void *data;
  } address = {ucxx_version_query};
  print_text("Versions\n");
  if (ucxx_version_query(&version) != UCXX_OK) {
    print_problem("  ", "the library does not answer: %s", ucxx_last_error_message());
    return -1;
  }
  const char *file = file_of(address.data), *path = version.ucx_library_path;
  snprintf(ucx, sizeof ucx, "%u.%u.%u", version.ucx_major, version.ucx_minor, version.ucx_patch);
  snprintf(header, sizeof header, "%d.%d.%d", UCXX_RS_VERSION_MAJOR, UCXX_RS_VERSION_MINOR,
           UCXX_RS_VERSION_PATCH);
  print_string("library", version.version_string, "  library        ucxx_rs %s, ",
               version.version_string);
  print_string("library_file", file, "%s\n", file);
  print_string("header", header, "  this program   built with the header of %s\n", header);
  if (version.major != UCXX_RS_VERSION_MAJOR || version.minor != UCXX_RS_VERSION_MINOR) {
    print_problem("    ", "header and library are of different ABIs. Another libucxx_rs.so comes "
                          "first: look at LD_LIBRARY_PATH.");
    result = -1;
  }
  print_string("ucx", ucx, "  UCX            %s, ", ucx);
  print_string("ucx_file", path[0] != '\0' ? path : NULL, "%s\n",
               path[0] != '\0' ? path : "(file unknown)");
  if (version.ucx_copies > 1) {
    print_problem("    ",
                  "%u copies of libucp are loaded, and each has state of its own. Let one of them "
                  "go: look at LD_LIBRARY_PATH, LD_PRELOAD, and at packages that bring a UCX of "
                  "their own.",
                  version.ucx_copies);
    result = -1;
  }
  print_number("ucx_copies", version.ucx_copies, "  copies of UCX  %u\n", version.ucx_copies);
  print_list("ucx_copy_files");
  if (version.ucx_copies > 1) dl_iterate_phdr(print_ucx_image, NULL);
  print_close();
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
  ucxx_status_t status = ucxx_worker_create(context, &params, &worker);
  bool made = status == UCXX_OK;
  if (made) status = ucxx_worker_query(worker, &attr);
  const char *error = status == UCXX_OK ? NULL : ucxx_last_error_message();
  bool thread = error == NULL && attr.progress_thread_running;
  const char *submission = attr.delayed_submission ? "by a queue" : "directly";
  print_object(NULL);
  print_string("name", mode->name, "    %-10s ", mode->name);
  print_string("error", error, error != NULL ? "%s%s\n" : NULL,
               made ? "" : "not to be had: ", error);
  print_bool("thread", thread, thread ? "by a thread; " : NULL);
  print_string("submission", thread ? submission : NULL,
               thread ? "operations are submitted %s\n" : NULL, submission);
  if (error == NULL && !thread) print_text("by the calls of the application\n");
  print_close();
  ucxx_worker_destroy(worker);
}

static void print_groups(void *self, bool there) {
  const char *separator = "";
  print_list(there ? "available" : "missing");
  print_text("  %-14s ", there ? "in this build" : "not in it");
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    if ((self != NULL && dlsym(self, groups[i].symbol) != NULL) != there) continue;
    print_string(NULL, groups[i].name, "%s%s", separator, groups[i].name);
    separator = ", ";
  }
  print_text("%s\n", separator[0] == '\0' ? "-" : "");
  print_close();
}

int print_build(void) {
  ucxx_context_t *context = NULL;
  print_text("What it offers\n");
  void *self = dlopen(NULL, RTLD_NOW);
  print_groups(self, true);
  print_groups(self, false);
  if (self != NULL) dlclose(self);
  if (ucxx_context_create(NULL, &context) != UCXX_OK) {
    print_problem("  ", "no context: %s", ucxx_last_error_message());
    return -1;
  }
  bool cuda = ucxx_context_has_cuda(context) != 0;
  print_bool("cuda_memory", cuda, "  CUDA memory    %s\n",
             cuda ? "yes" : "no: this UCX was built without CUDA, or there is no GPU");
  print_text("  progress modes\n");
  print_list("progress_modes");
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) print_mode(context, &modes[i]);
  print_close();
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
  print_text("What UCX finds on this machine\n");
  if (!available_transports(text, sizeof text)) {
    print_string("transports", NULL,
                 "  UCX does not tell: is UCX_LOG_LEVEL set to less than warn?\n");
    return 0;
  }
  print_string("transports", text,
               "  transports     %s (mm, sm and shm stand for all that is shared memory)\n", text);
  if (ask_ucx("NET_DEVICES", "no_such_thing,all", text, sizeof text))
    print_string("network", text, "  network        %s\n", text);
  if (ask_ucx("SHM_DEVICES", "no_such_thing,all", text, sizeof text))
    print_string("shared_memory", text, "  shared memory  %s\n", text);
  return 0;
}

/* ------------------------------------------------------------------ configuration */

static void print_variable(void *arg, const char *key, const char *value) {
  char name[256];
  (void)arg;
  snprintf(name, sizeof name, "UCX_%s", key);
  print_string(name, value, "  %s=%s\n", name, value);
}

int print_configuration(void) {
  ucxx_context_t *context = NULL;
  print_text("UCX's variables as a context has them\n");
  ucxx_status_t status = ucxx_context_create(NULL, &context);
  if (status == UCXX_OK) status = ucxx_context_visit_config(context, print_variable, NULL);
  if (status != UCXX_OK) print_problem("  ", "%s", ucxx_last_error_message());
  ucxx_context_destroy(context);
  return status == UCXX_OK ? 0 : -1;
}
