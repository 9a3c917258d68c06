/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info_explain.c: what the transports of an endpoint mean, and why there is no shared memory among
 * them. UCX gives no reasons, so the rules here come from observing it.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <ucxx_rs.h>

#include "info.h"
#include "info_print.h"

#define SMALL_SHM (UINT64_C(64) << 20)

static const struct transport {
  const char *name, *meaning;
  bool shared, single_copy;
} transports[] = {
    {"self", "within one worker", false, false},
    {"posix", "shared memory, as files in /dev/shm", true, false},
    {"sysv", "shared memory, as System V segments", true, false},
    {"xpmem", "shared memory, by mapping the peer", true, true},
    {"cma", "large messages, copied once from process to process by the kernel", false, true},
    {"knem", "large messages, copied once by the knem module", false, true},
    {"tcp", "sockets, also on one machine", false, false},
    {"rc_", "InfiniBand or RoCE", false, false},
    {"dc_", "InfiniBand or RoCE", false, false},
    {"ud_", "InfiniBand or RoCE", false, false},
    {"cuda_copy", "to and from GPU memory", false, false},
    {"cuda_ipc", "from GPU to GPU", false, false},
    {"gdr_copy", "small messages to and from GPU memory", false, false},
};
#define TRANSPORTS (sizeof transports / sizeof transports[0])

static const struct transport *transport_of(const char *lane) {
  for (size_t i = 0; i < TRANSPORTS; i++)
    if (strncmp(lane, transports[i].name, strlen(transports[i].name)) == 0) return &transports[i];
  return NULL;
}

struct lanes {
  bool shared, single_copy, tcp;
};

static struct lanes print_lanes(const char *text) {
  struct lanes lanes = {false, false, false};
  char copy[256], *rest = copy, *lane;
  snprintf(copy, sizeof copy, "%s", text);
  print_list("lanes");
  while ((lane = strtok_r(rest, ",", &rest)) != NULL) {
    const struct transport *transport = transport_of(lane);
    const char *meaning = transport != NULL ? transport->meaning : "";
    print_object(NULL);
    print_string("name", lane, "    %-14s ", lane);
    print_string("meaning", meaning, "%s\n", meaning);
    print_close();
    lanes.tcp = lanes.tcp || strncmp(lane, "tcp", 3) == 0;
    if (transport == NULL) continue;
    lanes.shared = lanes.shared || transport->shared;
    lanes.single_copy = lanes.single_copy || transport->single_copy;
  }
  print_close();
  return lanes;
}

/* ------------------------------------------------------------------ rules */

struct case_at_hand {
  const struct facts *mine, *theirs;
  bool peer_handling;
  unsigned reasons;
};

#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static void
because(struct case_at_hand *at_hand, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_sentence_list("    because ", format, arguments);
  va_end(arguments);
  at_hand->reasons++;
}

static const char *name_or(const struct facts *facts, const char *key) {
  const char *value = fact(facts, key);
  return value != NULL ? value : "(unknown)";
}

/* Whether a list like that of UCX_TLS allows one of `names`. */
static bool lets_in(const char *list, const char *const *names) {
  bool excluding = list[0] == '^', named = false;
  char copy[FACT_LENGTH], *rest = copy, *item;
  snprintf(copy, sizeof copy, "%s", list + excluding);
  while ((item = strtok_r(rest, ",", &rest)) != NULL) {
    if (item[0] == '\\') item++; /* UCX's notation for this transport without its family */
    for (const char *const *name = names; *name != NULL; name++)
      named = named || strcmp(item, *name) == 0;
  }
  return named != excluding;
}

static bool means_no(const char *value) {
  return strcasecmp(value, "y") != 0 && strcasecmp(value, "yes") != 0 && strcmp(value, "1") != 0 &&
         strcasecmp(value, "on") != 0 && strcasecmp(value, "try") != 0;
}

/* An exclusion of one kind of shared memory leaves the others. */
static void rule_tls(struct case_at_hand *at_hand, const struct facts *facts, const char *who,
                     bool single_copy) {
  static const char *const shared[] = {"posix", "sysv", "shm", "sm", "mm", "all", "xpmem", NULL};
  static const char *const family[] = {"shm", "sm", "mm", "all", NULL};
  static const char *const copying[] = {"cma", "knem", "shm", "sm", "all", "xpmem", NULL};
  const char *list = fact(facts, "UCX_TLS");
  if (list == NULL) return;
  bool both = lets_in(list, (const char *const[]){"posix", NULL}) ||
              lets_in(list, (const char *const[]){"sysv", NULL});
  bool in = single_copy      ? lets_in(list, copying)
            : list[0] == '^' ? lets_in(list, family) && both
                             : lets_in(list, shared);
  if (in) return;
  because(at_hand, "UCX_TLS=%s, set %s, leaves %s out: unset it, or %s.", list, who,
          single_copy ? "cma" : "shared memory",
          list[0] == '^'
              ? (single_copy ? "exclude cma no longer" : "exclude shared memory no longer")
              : (single_copy ? "add cma" : "add posix,cma"));
}

static void rule_devices(struct case_at_hand *at_hand, const struct facts *facts, const char *who) {
  const char *list = fact(facts, "UCX_SHM_DEVICES");
  if (list != NULL && !lets_in(list, (const char *const[]){"memory", "all", NULL}))
    because(at_hand, "UCX_SHM_DEVICES=%s, set %s, leaves the device 'memory' out: unset it.", list,
            who);
}

static void rule_error_handling(struct case_at_hand *at_hand, const struct facts *facts,
                                const char *who, bool single_copy) {
  static const char *const shared[] = {"UCX_MM_ERROR_HANDLING", "UCX_ERROR_HANDLING",
                                       "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING", NULL};
  static const char *const copying[] = {"UCX_CMA_MEMORY_INVALIDATE", "UCX_MEMORY_INVALIDATE", NULL};
  if (!at_hand->peer_handling) return;
  for (const char *const *key = single_copy ? copying : shared; *key != NULL; key++) {
    const char *value = fact(facts, *key);
    if (value != NULL && means_no(value))
      because(at_hand,
              "%s=%s, set %s, keeps %s away from endpoints with error handling PEER: unset it (the "
              "library then sets it to y), or use error "
              "handling NONE.",
              *key, value, who, single_copy ? "cma" : "shared memory");
  }
}

static void rule_namespaces(struct case_at_hand *at_hand) {
  const struct facts *mine = at_hand->mine, *theirs = at_hand->theirs;
  if (!same_fact(mine, theirs, "ipc_namespace"))
    because(at_hand,
            "the processes are in different IPC namespaces (two containers): UCX then takes them "
            "for two machines. Start one "
            "container in the other's, as with --ipc=container:NAME, or both with --ipc=host.");
  if (!same_fact(mine, theirs, "pid_namespace"))
    because(at_hand, "the processes are in different pid namespaces (two containers): neither "
                     "finds the other in /proc, which sysv, cma and the "
                     "watch for dead peers need. Start one container with --pid=container:NAME, or "
                     "both with --pid=host. Or share /dev/shm and "
                     "set UCX_POSIX_USE_PROC_LINK=n and UCX_TLS=posix,tcp.");
  if (same_fact(mine, theirs, "pid_namespace") && !same_fact(mine, theirs, "shm_device") &&
      fact(mine, "UCX_POSIX_USE_PROC_LINK") != NULL)
    because(at_hand, "each process has a /dev/shm of its own, and UCX_POSIX_USE_PROC_LINK is set: "
                     "share one, or unset the variable.");
}

static void rule_available(struct case_at_hand *at_hand, const struct facts *facts, const char *who,
                           bool single_copy) {
  const char *there = fact(facts, "transports");
  if (there == NULL) return;
  if (single_copy ? strstr(there, "cma") == NULL
                  : strstr(there, "posix") == NULL && strstr(there, "sysv") == NULL)
    because(at_hand,
            "the UCX %s has no %s here (it finds %s): install one that has, with its modules "
            "beside it (lib/ucx).",
            who, single_copy ? "cma" : "shared memory transport", there);
}

static void rule_shm_folder(struct case_at_hand *at_hand, const struct facts *facts,
                            const char *who) {
  const char *free_bytes = fact(facts, "shm_free"), *writable = fact(facts, "shm_writable");
  if (writable == NULL)
    because(at_hand, "there is no /dev/shm %s: mount a tmpfs there.", who);
  else if (strcmp(writable, "0") == 0)
    because(at_hand, "/dev/shm is not writable %s: give this user the right to.", who);
  else if (free_bytes != NULL && strtoull(free_bytes, NULL, 10) < SMALL_SHM)
    because(at_hand,
            "/dev/shm has only %s bytes left %s: give it more (containers: --shm-size=1g).",
            free_bytes, who);
}

/* Whether UCX has the same variables and transports on both sides. Then they are printed once. */
static bool alike(const struct facts *mine, const struct facts *theirs) {
  const struct facts *sides[] = {mine, theirs};
  for (int i = 0; i < 2; i++)
    for (unsigned line = 0; line < sides[i]->count; line++) {
      char key[64];
      const char *text = sides[i]->lines[line], *equals = strchr(text, '=');
      if (equals == NULL ||
          (strncmp(text, "UCX_", 4) != 0 && strncmp(text, "transports=", 11) != 0))
        continue;
      snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
      const char *there = fact(sides[1 - i], key);
      if (there == NULL || strcmp(there, equals + 1) != 0) return false;
    }
  return true;
}

struct sides {
  const struct facts *facts[2];
  const char *who[2];
  int count;
};

static struct sides sides_of(const struct case_at_hand *at_hand) {
  if (alike(at_hand->mine, at_hand->theirs))
    return (struct sides){{at_hand->mine, NULL}, {"on both sides", NULL}, 1};
  return (struct sides){{at_hand->mine, at_hand->theirs}, {"here", "there"}, 2};
}

static void explain_no_shared_memory(struct case_at_hand *at_hand) {
  const struct facts *mine = at_hand->mine, *theirs = at_hand->theirs;
  struct sides sides = sides_of(at_hand);
  if (!same_fact(mine, theirs, "boot")) {
    because(at_hand,
            "the processes run on different machines (%s, %s): there is nothing to share, and "
            "nothing to mend.",
            name_or(mine, "host"), name_or(theirs, "host"));
    return;
  }
  for (int i = 0; i < sides.count; i++) {
    rule_tls(at_hand, sides.facts[i], sides.who[i], false);
    rule_devices(at_hand, sides.facts[i], sides.who[i]);
    rule_error_handling(at_hand, sides.facts[i], sides.who[i], false);
    rule_available(at_hand, sides.facts[i], sides.who[i], false);
  }
  rule_namespaces(at_hand);
  if (at_hand->reasons == 0)
    for (int i = 0; i < sides.count; i++) rule_shm_folder(at_hand, sides.facts[i], sides.who[i]);
  if (at_hand->reasons == 0)
    print_sentence("    ", "for a reason that this tool does not know. UCX_LOG_LEVEL=debug and "
                           "UCXX_RS_LOG_LEVEL=debug let a program that takes the log see what UCX "
                           "tries.");
}

static void explain_no_single_copy(struct case_at_hand *at_hand) {
  struct sides sides = sides_of(at_hand);
  print_sentence("    ", "Large messages are copied twice, through shared memory,");
  for (int i = 0; i < sides.count; i++) {
    rule_tls(at_hand, sides.facts[i], sides.who[i], true);
    rule_error_handling(at_hand, sides.facts[i], sides.who[i], true);
    rule_available(at_hand, sides.facts[i], sides.who[i], true);
  }
  if (!same_fact(at_hand->mine, at_hand->theirs, "pid_namespace")) {
    rule_namespaces(at_hand);
  } else {
    int error = facts_try_reading(at_hand->theirs);
    const char *scope = fact(at_hand->mine, "ptrace_scope");
    if (error != 0)
      because(at_hand,
              "the kernel forbids reading the other process (process_vm_readv: %s; "
              "kernel.yama.ptrace_scope %s; users %s and %s): run both "
              "as one user, allow ptrace in the container (--cap-add=SYS_PTRACE), or set the scope "
              "to 0.",
              strerror(error), scope != NULL ? scope : "unset", name_or(at_hand->mine, "uid"),
              name_or(at_hand->theirs, "uid"));
  }
  if (at_hand->reasons == 0) print_sentence("    ", "for a reason that this tool does not know.");
}

bool explain_lanes(const struct facts *mine, const struct facts *theirs, int error_handling,
                   const char *text) {
  struct case_at_hand at_hand = {mine, theirs, error_handling == UCXX_ENDPOINT_ERROR_HANDLING_PEER,
                                 0};
  if (text[0] == '\0') {
    print_string("lanes", NULL, "    this UCX does not tell which transports an endpoint uses\n");
    return true;
  }
  struct lanes lanes = print_lanes(text);
  print_bool("shared_memory", lanes.shared, NULL);
  print_list("explanation");
  if (!lanes.shared) {
    print_sentence("    ", "There is no shared memory between the two,");
    explain_no_shared_memory(&at_hand);
  } else {
    if (!lanes.single_copy) explain_no_single_copy(&at_hand);
    if (lanes.tcp)
      print_sentence("    ", "TCP is there as well, for what shared memory does not carry.");
  }
  print_close();
  return lanes.shared;
}

bool explain_failure(const struct facts *mine, const struct facts *theirs, int error_handling,
                     const char *message) {
  struct case_at_hand at_hand = {mine, theirs, error_handling == UCXX_ENDPOINT_ERROR_HANDLING_PEER,
                                 0};
  print_string("no_connection", message, "    no connection: %s\n", message);
  print_bool("shared_memory", false, NULL);
  print_list("explanation");
  print_sentence("    ", "No endpoint comes about,");
  explain_no_shared_memory(&at_hand);
  print_close();
  return false;
}
