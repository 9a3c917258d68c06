/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * work_queue.c: the members of a group take tasks from a queue that no process serves.
 *
 *     cc -o work_queue work_queue.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./work_queue [TASKS [NUMBERS]]
 *
 * How to start a group of processes: see member.h. Rank 0 prints one line:
 *
 *     4 members, 200 tasks, each done once, 44 to 55 by a member: 41538 primes, which is right
 *
 * A task is to count the primes among NUMBERS numbers. Later tasks take longer, so equal shares
 * would not be fair. The queue is a number in a window of rank 0, the next task. A window is memory
 * that the other members change directly (docs/windows.md). To take a task, a member adds 1 to the
 * number and gets the previous value, in one atomic step. No two members get the same task, and
 * rank 0, which works like the others, takes no part in it. All members take a shared lock of all
 * others once at the beginning. A shared lock excludes nobody. It allows accesses.
 *
 * A member adds the result of a task to a sum beside the queue, and 1 to the task's mark. At the
 * end every mark must be 1, and the sum is compared with the result of a sieve.
 */
#include "member.h"

#define DEFAULT_TASKS 200
#define DEFAULT_NUMBERS 2500 /* of a task */
#define MOST_TASKS 1000000
#define MOST_NUMBERS 1000000

/* The window of rank 0, in words of 8 bytes. The windows of the others are empty. */
enum { NEXT, PRIMES, MARKS };

struct queue {
  struct member member;
  ucxx_window_t *window;
  /* The memory of the window. NULL except on rank 0. */
  uint64_t *words;
  uint32_t tasks, numbers;
};

/* Trial division, so that a task takes some time. */
static bool is_prime(uint64_t number) {
  if (number < 4) return number > 1;
  if (number % 2 == 0) return false;
  for (uint64_t by = 3; by * by <= number; by += 2)
    if (number % by == 0) return false;
  return true;
}

static uint64_t do_task(const struct queue *queue, uint64_t task) {
  uint64_t primes = 0;
  for (uint64_t number = task * queue->numbers; number < (task + 1) * queue->numbers; number++)
    primes += is_prime(number);
  return primes;
}

/* Another method, to check the result: the sieve of Eratosthenes. */
static uint64_t sieve(uint64_t numbers) {
  unsigned char *crossed_out = zeros((size_t)numbers, 1);
  uint64_t primes = 0;
  for (uint64_t number = 2; number < numbers; number++) {
    if (crossed_out[number]) continue;
    primes++;
    for (uint64_t multiple = number * number; multiple < numbers; multiple += number)
      crossed_out[multiple] = 1;
  }
  free(crossed_out);
  return primes;
}

/* Rank 0 sets the memory to zero before others add to it. The lock orders these stores before their
 * additions. */
static void fill(const struct queue *queue) {
  if (queue->member.rank == 0) {
    check(ucxx_window_lock(queue->window, UCXX_LOCK_EXCLUSIVE, 0, 0), "lock");
    memset(queue->words, 0, (MARKS + (size_t)queue->tasks) * sizeof *queue->words);
    check(ucxx_window_unlock(queue->window, 0), "unlock");
  }
  check(ucxx_group_barrier(queue->member.group), "barrier");
}

/* Takes the next task: fetch_and_op adds 1 and returns the previous value. */
static uint64_t take(const struct queue *queue) {
  static const uint64_t one = 1;
  uint64_t task = 0;
  check(ucxx_window_fetch_and_op(queue->window, &one, &task, UCXX_TYPE_UINT64, 0, NEXT,
                                 UCXX_REDUCE_SUM),
        "take");
  /* The result is valid only after the flush. */
  check(ucxx_window_flush(queue->window, 0), "flush");
  return task;
}

static void add(const struct queue *queue, const uint64_t *number, uint64_t to) {
  ucxx_layout_t one;
  ucxx_layout_init_contiguous(&one, UCXX_TYPE_UINT64, 1);
  check(ucxx_window_accumulate(queue->window, number, &one, 0, (int64_t)to, &one, UCXX_REDUCE_SUM),
        "add");
}

/* Returns the number of tasks that this member did. */
static uint64_t work(const struct queue *queue) {
  static const uint64_t one = 1;
  uint64_t done = 0, primes = 0;
  check(ucxx_window_lock_all(queue->window, 0), "lock_all");
  for (uint64_t task = take(queue); task < queue->tasks; task = take(queue)) {
    /* `primes` may be overwritten here: the flush in take() has waited for the previous
     * additions. */
    primes = do_task(queue, task);
    add(queue, &primes, PRIMES);
    add(queue, &one, MARKS + task);
    done++;
  }
  check(ucxx_window_unlock_all(queue->window), "unlock_all");
  return done;
}

/* Rank 0 checks the result after all members have finished. */
static bool all_is_done(const struct queue *queue, const uint64_t *done) {
  uint64_t sum = 0, most = 0, least = UINT64_MAX,
           primes = sieve((uint64_t)queue->tasks * queue->numbers);
  bool good = true;
  check(ucxx_window_lock(queue->window, UCXX_LOCK_SHARED, 0, 0), "lock");
  for (uint32_t task = 0; task < queue->tasks; task++) {
    if (queue->words[MARKS + task] == 1) continue;
    fprintf(stderr, "error: task %" PRIu32 " was done %" PRIu64 " times\n", task,
            queue->words[MARKS + task]);
    good = false;
  }
  if (queue->words[PRIMES] != primes) {
    fprintf(stderr, "error: %" PRIu64 " primes were found, and there are %" PRIu64 "\n",
            queue->words[PRIMES], primes);
    good = false;
  }
  check(ucxx_window_unlock(queue->window, 0), "unlock");
  for (uint32_t rank = 0; rank < queue->member.size; rank++) {
    sum += done[rank];
    if (done[rank] > most) most = done[rank];
    if (done[rank] < least) least = done[rank];
  }
  if (sum != queue->tasks) {
    fprintf(stderr, "error: the members have done %" PRIu64 " tasks, and there were %" PRIu32 "\n",
            sum, queue->tasks);
    good = false;
  }
  if (good)
    printf("%" PRIu32 " members, %" PRIu32 " tasks, each done once, %" PRIu64 " to %" PRIu64
           " by a member: %" PRIu64 " primes, which is right\n",
           queue->member.size, queue->tasks, least, most, primes);
  return good;
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [TASKS [NUMBERS]]\n", program);
  return 2;
}

int main(int argc, char **argv) {
  struct queue queue = {0};
  queue.tasks = DEFAULT_TASKS;
  queue.numbers = DEFAULT_NUMBERS;
  if (argc > 3 || (argc > 1 && !read_number(argv[1], 1, MOST_TASKS, &queue.tasks)))
    return usage(argv[0]);
  if (argc > 2 && !read_number(argv[2], 1, MOST_NUMBERS, &queue.numbers)) return usage(argv[0]);

  join(&queue.member);
  size_t bytes = queue.member.rank == 0 ? (MARKS + (size_t)queue.tasks) * sizeof *queue.words : 0;
  void *base = NULL;
  check(ucxx_window_allocate(queue.member.group, bytes, sizeof *queue.words, NULL, &base,
                             &queue.window),
        "window");
  queue.words = base;
  fill(&queue);

  uint64_t mine = work(&queue), *done = zeros(queue.member.size, sizeof *done);
  /* After this call all members have finished, because each has the others' numbers. */
  check(ucxx_group_allgather(queue.member.group, &mine, sizeof mine, done), "allgather");
  bool good = queue.member.rank != 0 || all_is_done(&queue, done);
  free(done);

  check(ucxx_window_close(queue.window), "close");
  ucxx_window_destroy(queue.window);
  leave(&queue.member);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
