/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Windows of groups of processes: loops of epochs of all kinds, the same for all members, with
 * contents and sums that follow from seed, number and rank. A command waits until its loop is over.
 */
#include "actor.h"

/* Words at the start of each member's memory: two that change together under an exclusive lock, one
 * that all add to, and one for each member that adds. */
enum { FIRST, SECOND, COMMON, OWN, WORDS = OWN + 64 };
/* Where each member puts, for each kind of epoch with puts. */
enum place { BY_LOCK, BY_FENCE, BY_POST, PLACES };

typedef struct {
  ucxx_window_t *window;
  ucxx_group_t *group;
  void *own; /* if the memory is not the library's */
  uint8_t *memory;
  uint8_t *data; /* data to put, followed by room for gets */
  uint64_t *address; /* of each member, for dynamic windows */
  size_t slot;
  uint32_t rank, ranks;
} win_t;

static win_t windows[KINDS_OF_GROUP];

/* The first error. */
typedef struct {
  ucxx_status_t status;
  int blamed;
  uint64_t at;
  char message[256];
} outcome_t;

static bool went(outcome_t *outcome, ucxx_status_t status) {
  if (status != UCXX_OK && outcome->status == UCXX_OK) {
    outcome->status = status;
    outcome->blamed = blamed_rank();
    outcome->at = now_ns();
    snprintf(outcome->message, sizeof outcome->message, "%s", ucxx_last_error_message());
  }
  return status == UCXX_OK;
}

static void *need(void *memory) {
  if (memory == NULL) give_up("no memory");
  return memory;
}

static size_t bytes_of(const win_t *win) {
  return WORDS * sizeof(uint64_t) + (size_t)PLACES * win->ranks * win->slot;
}

static size_t slot_at(const win_t *win, enum place place, uint32_t rank) {
  return WORDS * sizeof(uint64_t) + ((size_t)place * win->ranks + rank) * win->slot;
}

static int64_t disp(const win_t *win, uint32_t target, size_t at) {
  return (int64_t)((win->address != NULL ? win->address[target] : 0) + at);
}

static void open_window(const command_t *command) {
  int kind;
  ucxx_group_t *group = process_group(command, &kind);
  const char *flavor = text_of(command, "flavor", "allocate");
  win_t *win = &windows[kind];
  memset(win, 0, sizeof *win);
  win->group = group;
  win->rank = ucxx_group_rank(group);
  win->ranks = ucxx_group_size(group);
  win->slot = (number_of(command, "largest", 8) + 7) / 8 * 8;
  size_t bytes = bytes_of(win);
  win->data = need(malloc(2 * win->slot));
  ucxx_status_t status;
  if (word_is(flavor, "allocate")) {
    void *base = NULL;
    status = ucxx_window_allocate(group, bytes, 1, NULL, &base, &win->window);
    win->memory = base;
  } else {
    win->own = need(calloc(1, bytes));
    win->memory = win->own;
    if (word_is(flavor, "create")) {
      status = ucxx_window_create(group, win->own, bytes, 1, NULL, &win->window);
    } else {
      uint64_t here = (uint64_t)(uintptr_t)win->own;
      win->address = need(calloc(win->ranks, sizeof *win->address));
      status = ucxx_window_create_dynamic(group, NULL, &win->window);
      if (status == UCXX_OK) status = ucxx_window_attach(win->window, win->own, bytes);
      if (status == UCXX_OK) status = ucxx_group_allgather(group, &here, sizeof here, win->address);
    }
  }
  answer(command, status, " ");
}

static void fill(const win_t *win, uint64_t number) {
  message_fill(win->data, win->slot, win->rank, number);
}

/* Checks that these bytes, read locally or by a get, are this member's of that number. */
static void look(const win_t *win, const char *what, const uint8_t *data, uint32_t from,
                 uint64_t number) {
  size_t where = 0;
  if (message_check(data, win->slot, &where) != INTACT)
    violation("integrity", "what=%s number=%" PRIu64 " rank=%u where=%zu", what, number, from,
              where);
  else if (!message_is(data, win->slot, from, number))
    violation("integrity", "what=%s number=%" PRIu64 " rank=%u: another one's", what, number, from);
}

static bool put(const win_t *win, outcome_t *outcome, uint32_t target, size_t at) {
  ucxx_layout_t all;
  ucxx_layout_init_contiguous(&all, UCXX_TYPE_BYTE, win->slot);
  return went(outcome,
              ucxx_window_put(win->window, win->data, &all, target, disp(win, target, at), &all));
}

/* ------------------------------------------------------------------ epochs */

static bool by_fence(const win_t *win, outcome_t *outcome, uint64_t number) {
  bool good = went(outcome, ucxx_window_fence(win->window, 0));
  fill(win, number);
  for (uint32_t target = 0; good && target < win->ranks; target++)
    good = put(win, outcome, target, slot_at(win, BY_FENCE, win->rank));
  good = good && went(outcome, ucxx_window_fence(win->window, UCXX_ASSERT_NOSUCCEED));
  for (uint32_t from = 0; good && from < win->ranks; from++)
    look(win, "fence", win->memory + slot_at(win, BY_FENCE, from), from, number);
  return good;
}

/* With one neighbour on each side: a member that has lost one of them still serves the other. */
static bool by_post(const win_t *win, outcome_t *outcome, uint64_t number) {
  uint32_t ahead = (win->rank + 1) % win->ranks, behind = (win->rank + win->ranks - 1) % win->ranks;
  bool posted = went(outcome, ucxx_window_post(win->window, &behind, 1, 0));
  fill(win, number);
  if (went(outcome, ucxx_window_start(win->window, &ahead, 1, 0))) {
    put(win, outcome, ahead, slot_at(win, BY_POST, win->rank));
    went(outcome, ucxx_window_complete(win->window));
  }
  /* Also if the post could not be sent: this ends the exposure. */
  if (went(outcome, ucxx_window_wait(win->window)) && posted)
    look(win, "post", win->memory + slot_at(win, BY_POST, behind), behind, number);
  return outcome->status == UCXX_OK;
}

/* Each member adds to its own word and to the common one at all targets, and puts and gets back its
 * own data. */
static bool by_lock_all(const win_t *win, outcome_t *outcome, uint64_t number, uint64_t before) {
  static const uint64_t one = 1;
  ucxx_layout_t word, all;
  ucxx_layout_init_contiguous(&word, UCXX_TYPE_UINT64, 1);
  ucxx_layout_init_contiguous(&all, UCXX_TYPE_BYTE, win->slot);
  if (!went(outcome, ucxx_window_lock_all(win->window, 0))) return false;
  fill(win, number);
  /* Written until the epoch ends. */
  uint64_t found = 0;
  for (uint32_t turn = 0; outcome->status == UCXX_OK && turn < win->ranks; turn++) {
    uint32_t target = (win->rank + turn) % win->ranks;
    found = 0;
    size_t mine = slot_at(win, BY_LOCK, win->rank);
    uint8_t *back = win->data + win->slot;
    if (!went(outcome,
              ucxx_window_accumulate(win->window, &one, &word, target,
                                     disp(win, target, COMMON * 8), &word, UCXX_REDUCE_SUM)) ||
        !went(outcome, ucxx_window_fetch_and_op(win->window, &one, &found, UCXX_TYPE_UINT64, target,
                                                disp(win, target, (OWN + win->rank) * 8),
                                                UCXX_REDUCE_SUM)) ||
        !put(win, outcome, target, mine) || !went(outcome, ucxx_window_flush(win->window, target)))
      break;
    memset(back, SCRIBBLE_RECEIVED, win->slot);
    if (!went(outcome,
              ucxx_window_get(win->window, back, &all, target, disp(win, target, mine), &all)) ||
        !went(outcome, ucxx_window_flush(win->window, target)))
      break;
    look(win, "get", back, win->rank, number);
    if (found != before)
      violation("integrity",
                "what=fetch number=%" PRIu64 " target=%u found=%" PRIu64 " before=%" PRIu64, number,
                target, found, before);
  }
  went(outcome, ucxx_window_unlock_all(win->window));
  return outcome->status == UCXX_OK;
}

/* At one target, exclusively: two words that are always equal. */
static bool alone(const win_t *win, outcome_t *outcome, uint64_t number, uint32_t target) {
  uint64_t both[2] = {1, 2};
  ucxx_layout_t words;
  ucxx_layout_init_contiguous(&words, UCXX_TYPE_UINT64, 1);
  if (!went(outcome, ucxx_window_lock(win->window, UCXX_LOCK_EXCLUSIVE, target, 0))) return false;
  bool got = true;
  for (int word = 0; got && word < 2; word++)
    got = went(outcome, ucxx_window_get(win->window, &both[word], &words, target,
                                        disp(win, target, (size_t)(FIRST + word) * 8), &words));
  got = got && went(outcome, ucxx_window_flush(win->window, target));
  if (got && both[0] != both[1])
    violation("integrity",
              "what=lock number=%" PRIu64 " target=%u first=%" PRIu64 " second=%" PRIu64, number,
              target, both[0], both[1]);
  for (int word = 0; got && word < 2; word++) {
    both[word]++;
    got = went(outcome, ucxx_window_put(win->window, &both[word], &words, target,
                                        disp(win, target, (size_t)(FIRST + word) * 8), &words));
  }
  went(outcome, ucxx_window_unlock(win->window, target));
  return outcome->status == UCXX_OK;
}

/* ------------------------------------------------------------------ loops */

/* After the same number of epochs at all members; checks the sums. */
static void check_sums(const win_t *win, uint64_t adds, uint64_t alone_here) {
  uint64_t words[WORDS];
  memcpy(words, win->memory, sizeof words);
  bool good = words[FIRST] == alone_here * win->ranks && words[SECOND] == words[FIRST] &&
              words[COMMON] == adds * win->ranks;
  for (uint32_t rank = 0; rank < win->ranks; rank++) good = good && words[OWN + rank] == adds;
  if (!good)
    violation("integrity",
              "what=sums first=%" PRIu64 " second=%" PRIu64 " common=%" PRIu64 " adds=%" PRIu64
              " alone=%" PRIu64,
              words[FIRST], words[SECOND], words[COMMON], adds, alone_here);
}

/* So many epochs in a new window, or until an error: reports it, its time, and the blamed rank. A
 * member that stops leaves the window, so that waiting members are notified. */
static void loop(const command_t *command) {
  int kind;
  process_group(command, &kind);
  win_t *win = &windows[kind];
  uint64_t rounds = number_of(command, "rounds", 0), seed = number_of(command, "seed", 0),
           number = 0, adds = 0, alone_here = 0;
  outcome_t outcome = {0};
  for (bool good = true; good && number < rounds; number += good) {
    uint64_t chance = mix(seed ^ mix(number));
    uint32_t target = (uint32_t)(chance >> 32) % win->ranks;
    switch (chance % 4) {
    case 0: good = by_fence(win, &outcome, number); break;
    case 1: good = by_post(win, &outcome, number); break;
    case 2:
      good = by_lock_all(win, &outcome, number, adds);
      adds++;
      break;
    default: good = alone(win, &outcome, number, target); alone_here += target == win->rank;
    }
  }
  /* All members have reached the end, or learn that one will not. */
  if (outcome.status == UCXX_OK &&
      went(&outcome, ucxx_window_fence(win->window, UCXX_ASSERT_NOSUCCEED)))
    check_sums(win, adds, alone_here);
  if (outcome.status != UCXX_OK) {
    ucxx_window_destroy(win->window);
    win->window = NULL;
    fprintf(stderr, "epoch %" PRIu64 ": %s: %s\n", number, short_name(outcome.status),
            outcome.message);
  }
  answer(command, UCXX_OK, "rounds=%" PRIu64 " status=%s blamed=%d left=%d at=%" PRIu64, number,
         short_name(outcome.status), outcome.blamed, strstr(outcome.message, "has left") != NULL,
         outcome.at);
}

/* With the others, or alone. */
static void close_window(const command_t *command) {
  int kind;
  process_group(command, &kind);
  win_t *win = &windows[kind];
  uint64_t start = now_ns();
  ucxx_status_t status = win->window != NULL && number_of(command, "together", 0)
                             ? ucxx_window_close(win->window)
                             : UCXX_OK;
  ucxx_window_destroy(win->window);
  uint64_t took = now_ns() - start;
  free(win->data);
  free(win->address);
  win->window = NULL;
  /* Living members may still be in an epoch and access it until they have left the window as well:
   * see `release_window`. */
  answer(command, status, "took=%" PRIu64, took);
}

static void release_window(const command_t *command) {
  int kind;
  process_group(command, &kind);
  free(windows[kind].own);
  memset(&windows[kind], 0, sizeof windows[kind]);
  answer(command, UCXX_OK, " ");
}

bool command_process_windows(const command_t *command) {
  if (word_is(command->verb, "open_window")) {
    open_window(command);
  } else if (word_is(command->verb, "epochs")) {
    loop(command);
  } else if (word_is(command->verb, "close_window")) {
    close_window(command);
  } else if (word_is(command->verb, "release_window")) {
    release_window(command);
  } else {
    return false;
  }
  return true;
}
