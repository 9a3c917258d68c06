/* window.c: the members of a group count the primes below a million together.
 *
 *     ucxx_rs_group 4 ./window
 */
#include <stdio.h>
#include <stdlib.h>
#include <ucxx_rs.h>

#define TASKS 1000
#define EACH 1000 /* numbers that a task looks at */

static void check(ucxx_status_t status, const char *what) {
  if (status >= 0) return;
  fprintf(stderr, "%s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

static uint64_t primes(uint64_t task) {
  uint64_t found = 0;
  for (uint64_t number = task * EACH; number < (task + 1) * EACH; number++) {
    uint64_t by = 2;
    while (by * by <= number && number % by != 0) by++;
    found += number > 1 && by * by > number;
  }
  return found;
}

/* The window of rank 0: two numbers of 8 bytes. The windows of the others are empty. */
enum { NEXT_TASK, SUM, NUMBERS };

int main(void) {
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  params.bootstrap = UCXX_BOOTSTRAP_ENV; /* rank and size, as ucxx_rs_group or mpirun set them */
  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_worker_create(context, NULL, &worker), "worker");
  check(ucxx_group_create(worker, &params, &group), "group");
  uint32_t rank = ucxx_group_rank(group);

  ucxx_window_t *window;
  uint64_t *numbers; /* zero at first */
  size_t size = rank == 0 ? NUMBERS * sizeof *numbers : 0;
  check(ucxx_window_allocate(group, size, sizeof *numbers, NULL, (void **)&numbers, &window),
        "window");

  /* Any member may access any other one from here to unlock_all. It keeps nobody out. */
  check(ucxx_window_lock_all(window, 0), "lock_all");
  uint64_t one = 1, task, done = 0, sum = 0;
  for (;;) {
    /* Takes a number and adds 1 to it, in one step: no task is taken twice. */
    check(ucxx_window_fetch_and_op(window, &one, &task, UCXX_TYPE_UINT64, 0, NEXT_TASK,
                                   UCXX_REDUCE_SUM),
          "fetch_and_op");
    check(ucxx_window_flush(window, 0), "flush"); /* now `task` is set */
    if (task >= TASKS) break;
    sum += primes(task);
    done++;
  }
  ucxx_layout_t number;
  ucxx_layout_init_contiguous(&number, UCXX_TYPE_UINT64, 1);
  check(ucxx_window_accumulate(window, &sum, &number, 0, SUM, &number, UCXX_REDUCE_SUM),
        "accumulate");
  check(ucxx_window_unlock_all(window), "unlock_all"); /* now the sum is there */

  check(ucxx_group_barrier(group), "barrier");
  if (rank == 0) {
    /* An owner, too, reads its memory under a lock. */
    check(ucxx_window_lock(window, UCXX_LOCK_SHARED, 0, 0), "lock");
    printf("%llu primes\n", (unsigned long long)numbers[SUM]);
    check(ucxx_window_unlock(window, 0), "unlock");
  }
  fprintf(stderr, "rank %u has done %llu tasks\n", rank, (unsigned long long)done);

  check(ucxx_window_close(window), "close");
  ucxx_window_destroy(window);
  ucxx_group_destroy(group);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
