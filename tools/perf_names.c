/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_names.c: the words of the command line for the library's constants, and the part of a
 * configuration that is sent to the server.
 */
#define _XOPEN_SOURCE 700
#include "perf_names.h"

#include <inttypes.h>
#include <string.h>
#include <ucxx_rs.h>

const struct choice progress_choices[] = {{"manual", UCXX_PROGRESS_MANUAL},
                                          {"adaptive", UCXX_PROGRESS_THREAD_ADAPTIVE},
                                          {"polling", UCXX_PROGRESS_THREAD_POLLING},
                                          {"blocking", UCXX_PROGRESS_THREAD_BLOCKING},
                                          {NULL, 0}};
const struct choice wait_choices[] = {{"poll", WAIT_POLL},
                                      {"request", WAIT_REQUEST},
                                      {"callback", WAIT_CALLBACK},
                                      {"notifier", WAIT_NOTIFIER},
                                      {NULL, 0}};
const struct choice thread_choices[] = {{"multi", UCXX_THREAD_MULTI},
                                        {"serialized", UCXX_THREAD_SERIALIZED},
                                        {"single", UCXX_THREAD_SINGLE},
                                        {NULL, 0}};
const struct choice error_choices[] = {{"peer", UCXX_ENDPOINT_ERROR_HANDLING_PEER},
                                       {"none", UCXX_ENDPOINT_ERROR_HANDLING_NONE},
                                       {NULL, 0}};
const struct choice delayed_choices[] = {{"off", 0}, {"default", 1}, {"on", 2}, {NULL, 0}};
const struct choice memory_choices[] = {
    {"host", UCXX_MEMORY_HOST}, {"cuda", UCXX_MEMORY_CUDA}, {NULL, 0}};

int choose(const struct choice *choices, const char *word, int *value) {
  for (; choices->word != NULL; choices++)
    if (strcmp(choices->word, word) == 0) {
      *value = choices->value;
      return 0;
    }
  return -1;
}

static const char *word_for(const struct choice *choices, int value) {
  for (; choices->word != NULL; choices++)
    if (choices->value == value) return choices->word;
  return "?";
}

const char *progress_name(int mode) { return word_for(progress_choices, mode); }
const char *wait_name(int kind) { return word_for(wait_choices, kind); }
const char *thread_name(int mode) { return word_for(thread_choices, mode); }
const char *error_handling_name(int mode) { return word_for(error_choices, mode); }
const char *memory_name(int type) { return word_for(memory_choices, type); }

/* One line for each value. A server of another version refuses a value that it does not know, and
 * names it. Sizes, iterations and warm-up are sent with each round. */
#define PLAN_FORMAT \
  "test=%s verify=%d own_buffers=%d threads=%u endpoints=%u frames=%u memory=%s,%s "
#define PLAN_SCAN \
  "test=%23s verify=%d own_buffers=%d threads=%u endpoints=%u frames=%u memory=%7[^,],%7s "
#define DRIVE_FORMAT "progress=%d wait=%d thread=%d delayed=%d error_handling=%d spin_ns=%" PRId64
#define DRIVE_SCAN "progress=%d wait=%d thread=%d delayed=%d error_handling=%d spin_ns=%" SCNd64

void config_write(const struct config *config, char *text, size_t capacity) {
  const struct drive *drive = &config->drive;
  const struct plan *plan = &config->plan;
  snprintf(text, capacity, PLAN_FORMAT DRIVE_FORMAT, plan->test, plan->verify, plan->own_buffers,
           plan->threads, plan->endpoints, plan->frames, memory_name(plan->memory[0]),
           memory_name(plan->memory[1]), drive->progress, drive->wait, drive->thread,
           drive->delayed, drive->error_handling, drive->spin_ns);
}

static void take(int *value, int theirs) {
  if (*value < 0) *value = theirs;
}

int config_read(struct config *server, const char *text, struct failure *failure) {
  struct drive theirs, *mine = &server->drive;
  struct plan *plan = &server->plan;
  int verify, own_buffers;
  char memory[2][8];
  if (sscanf(text, PLAN_SCAN DRIVE_SCAN, plan->test, &verify, &own_buffers, &plan->threads,
             &plan->endpoints, &plan->frames, memory[0], memory[1], &theirs.progress, &theirs.wait,
             &theirs.thread, &theirs.delayed, &theirs.error_handling, &theirs.spin_ns) != 14 ||
      choose(memory_choices, memory[0], &plan->memory[0]) != 0 ||
      choose(memory_choices, memory[1], &plan->memory[1]) != 0 || plan->threads == 0 ||
      plan->threads > MAX_THREADS || plan->endpoints == 0 || plan->endpoints > MAX_ENDPOINTS ||
      plan->frames == 0 || plan->frames > MAX_FRAMES)
    return fail(failure, "the client asks for something that this version does not know: %.200s",
                text);
  plan->verify = verify != 0;
  plan->own_buffers = own_buffers != 0;
  /* If the server's command line chooses a progress mode that differs from the client's, the
   * client's options for threads do not apply. */
  if (mine->progress < 0 || mine->progress == theirs.progress) {
    take(&mine->thread, theirs.thread);
    take(&mine->delayed, theirs.delayed);
  }
  take(&mine->progress, theirs.progress);
  take(&mine->wait, theirs.wait);
  take(&mine->error_handling, theirs.error_handling);
  if (mine->spin_ns < 0) mine->spin_ns = theirs.spin_ns;
  return 0;
}
