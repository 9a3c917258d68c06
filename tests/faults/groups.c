/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Counts the operations of each group that are in flight, and the statuses of the completed
 * ones. */
#include "actor.h"

enum { KINDS = 8 };

typedef struct group {
  uint64_t submitted, inside, completed, refused;
  uint64_t last; /* when the last one completed */
  bool watched;
  struct {
    ucxx_status_t status;
    uint64_t count;
  } ends[KINDS];
} group_t;

static group_t groups[GROUPS];

/* Call with the lock held. */
static void tell(unsigned number) {
  group_t *group = &groups[number];
  if (!group->watched || group->completed != group->submitted) return;
  group->watched = false;
  say("event drained group=%u last=%" PRIu64, number, group->last);
}

void group_submitted(unsigned group) {
  pthread_mutex_lock(&tables);
  groups[group].submitted++;
  pthread_mutex_unlock(&tables);
}

void group_refused(unsigned group) {
  pthread_mutex_lock(&tables);
  groups[group].submitted--;
  groups[group].refused++;
  tell(group);
  pthread_mutex_unlock(&tables);
}

void group_completed(unsigned number, ucxx_status_t status, bool inside, uint64_t at) {
  pthread_mutex_lock(&tables);
  group_t *group = &groups[number];
  group->completed++;
  group->inside += inside;
  if (at > group->last) group->last = at;
  size_t kind = 0;
  while (kind < KINDS - 1 && group->ends[kind].count != 0 && group->ends[kind].status != status)
    kind++;
  group->ends[kind].status = status;
  group->ends[kind].count++;
  tell(number);
  pthread_mutex_unlock(&tables);
}

static void account(const command_t *command, unsigned number) {
  char ends[512] = "";
  size_t used = 0;
  pthread_mutex_lock(&tables);
  const group_t group = groups[number];
  pthread_mutex_unlock(&tables);
  for (size_t kind = 0; kind < KINDS && group.ends[kind].count != 0; kind++)
    used += (size_t)snprintf(ends + used, sizeof ends - used, "%s%s:%" PRIu64, used > 0 ? "," : "",
                             short_name(group.ends[kind].status), group.ends[kind].count);
  answer(command, UCXX_OK,
         "submitted=%" PRIu64 " completed=%" PRIu64 " inside=%" PRIu64 " refused=%" PRIu64
         " last=%" PRIu64 " ends=%s",
         group.submitted, group.completed, group.inside, group.refused, group.last, ends);
}

bool command_groups(const command_t *command) {
  unsigned number = (unsigned)number_of(command, "group", 0) % GROUPS;
  if (word_is(command->verb, "watch")) {
    answer(command, UCXX_OK, " ");
    pthread_mutex_lock(&tables);
    groups[number].watched = true;
    tell(number);
    pthread_mutex_unlock(&tables);
  } else if (word_is(command->verb, "group")) {
    account(command, number);
  } else {
    return false;
  }
  return true;
}

void groups_forget(void) { memset(groups, 0, sizeof groups); }
