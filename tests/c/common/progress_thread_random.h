/* Shared by the random tests of progress threads: pauses, and the ways to learn of a completion. */
#ifndef UCXX_RS_PROGRESS_THREAD_RANDOM_H
#define UCXX_RS_PROGRESS_THREAD_RANDOM_H
#include "progress_thread.h"

#include <semaphore.h>
#include <time.h>

static inline uint64_t draw(uint64_t *state, uint64_t below) {
  return test_mix((*state)++) % below;
}

/* Pauses of all lengths, so that operations are submitted while the thread works, spins, arms,
 * falls asleep or sleeps. No check depends on a pause. */
static inline void pause_randomly(uint64_t *state) {
  switch (draw(state, 8)) {
  case 0:
  case 1:
  case 2:
    for (volatile uint64_t spins = draw(state, 1 << draw(state, 12)); spins > 0; spins--);
    break;
  case 3:
  case 4: sched_yield(); break;
  case 5: {
    struct timespec time = {.tv_nsec = (long)draw(state, 60000)};
    nanosleep(&time, NULL);
    break;
  }
  default: break;
  }
}

static inline void take_one(sem_t *semaphore) { while (sem_wait(semaphore) != 0); }

/* How the test learns that an operation has completed. */
enum report { BY_MYSELF, BY_ANOTHER_THREAD, BY_NOTIFIER, BY_CALLBACK, REPORTS };

/* The operations of one submitting thread. A completion that another thread sees posts `done`. */
typedef struct reporter {
  ucxx_notifier_t *notifier;
  uint64_t random;
  sem_t done, handed_over;
  ucxx_request_t *handed[64];
  unsigned hands, takes;
  pthread_t waiter;
} reporter_t;

static inline void end_one(reporter_t *reporter, ucxx_status_t status) {
  CHECK_OK(status);
  CHECK_EQ(sem_post(&reporter->done), 0);
}

static inline void see_one(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  end_one(arg, status);
}

static inline void *wait_for_others(void *arg) {
  reporter_t *reporter = arg;
  for (;;) {
    take_one(&reporter->handed_over);
    ucxx_request_t *request = reporter->handed[reporter->takes++ % 64];
    if (request == NULL) return NULL;
    end_one(reporter, finish(UCXX_INPROGRESS, &request));
  }
}

static inline void hand_over(reporter_t *reporter, ucxx_request_t *request) {
  reporter->handed[reporter->hands++ % 64] = request;
  CHECK_EQ(sem_post(&reporter->handed_over), 0);
}

static inline void reporter_begin(reporter_t *reporter, ucxx_notifier_t *notifier, uint64_t seed) {
  memset(reporter, 0, sizeof *reporter);
  reporter->notifier = notifier;
  reporter->random = seed;
  CHECK_EQ(sem_init(&reporter->done, 0, 0), 0);
  CHECK_EQ(sem_init(&reporter->handed_over, 0, 0), 0);
  reporter->waiter = start(wait_for_others, reporter);
}

static inline void reporter_end(reporter_t *reporter) {
  hand_over(reporter, NULL);
  join(reporter->waiter);
  sem_destroy(&reporter->done);
  sem_destroy(&reporter->handed_over);
}

static inline void *poll_notifier(void *arg) {
  ucxx_status_t status;
  while ((status = ucxx_notifier_wait(arg, FOR_EVER)) == UCXX_OK) {
    ucxx_completion_t completions[4];
    size_t count = 0;
    status = ucxx_notifier_poll(arg, completions, sizeof *completions, 4, &count);
    if (status == UCXX_ERR_CLOSED) break;
    CHECK_OK(status);
    for (size_t at = 0; at < count; at++)
      end_one(completions[at].user_data, completions[at].status);
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  return NULL;
}

/* Sends to `endpoint`, or receives on `worker` if that is NULL. Retries while the queue is full.
 * Pass the result to `finish_one`. */
static inline ucxx_request_t *submit_one(reporter_t *reporter, enum report how,
                                         ucxx_worker_t *worker, ucxx_endpoint_t *endpoint,
                                         void *buffer, size_t length, uint64_t tag) {
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  op.callback_arg = reporter;
  op.notifier = how == BY_NOTIFIER ? reporter->notifier : NULL;
  op.callback = how == BY_CALLBACK ? see_one : NULL;
  int kept = how == BY_MYSELF || how == BY_ANOTHER_THREAD;
  ucxx_request_t *request = NULL, **place = kept ? &request : NULL;
  ucxx_status_t status;
  do
    status = endpoint != NULL ? ucxx_tag_send(endpoint, buffer, length, tag, &op, place)
                              : ucxx_tag_recv(worker, buffer, length, tag, UINT64_MAX, &op, place);
  while (status == UCXX_ERR_NO_RESOURCE && sched_yield() == 0);
  CHECK_STATUS(status, UCXX_INPROGRESS);
  if (how == BY_ANOTHER_THREAD) {
    hand_over(reporter, request);
    return NULL;
  }
  return request;
}

static inline void finish_one(reporter_t *reporter, enum report how, ucxx_request_t *request) {
  if (how == BY_MYSELF)
    CHECK_OK(finish(UCXX_INPROGRESS, &request));
  else
    take_one(&reporter->done);
}
#endif
