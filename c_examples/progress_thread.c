/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * progress_thread.c: a worker with a progress thread, and four threads that send and receive.
 *
 *     cc -o progress_thread progress_thread.c $(pkg-config --cflags --libs ucxx_rs) -pthread
 *     ./progress_thread 0 thread.socket & ./progress_thread 1 thread.socket; wait
 *
 * Each process prints one line:
 *
 *     4 threads exchanged 1000 messages each; 8000 operations went through the queue, 128 at
 *     most at a time
 *
 * No thread of the program makes progress. A thread of the library does it. Each of the four
 * threads sends numbered messages with its own tag, and receives those of the same thread in the
 * other process. Messages of one thread arrive in the order in which it sent them.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#include <pthread.h>
#include <sched.h>

#define SUBMITTERS 4
#define MESSAGES 1000
#define WINDOW 16

struct submitter {
  struct pair *pair;
  uint64_t tag;
};

/* Operations of other threads go through a bounded queue to the progress thread. If the queue is
 * full, the call returns UCXX_ERR_NO_RESOURCE and has submitted nothing: let the progress thread
 * run, and try again. */
static ucxx_status_t send_number(struct submitter *self, const uint64_t *number,
                                 ucxx_request_t **request) {
  ucxx_status_t status;
  while ((status = ucxx_tag_send(self->pair->endpoint, number, sizeof *number, self->tag, NULL,
                                 request)) == UCXX_ERR_NO_RESOURCE)
    sched_yield();
  return status;
}

static ucxx_status_t receive_number(struct submitter *self, uint64_t *number,
                                    ucxx_request_t **request) {
  ucxx_status_t status;
  while ((status = ucxx_tag_recv(self->pair->worker, number, sizeof *number, self->tag,
                                 PAIR_ALL_BITS, NULL, request)) == UCXX_ERR_NO_RESOURCE)
    sched_yield();
  return status;
}

static void *submit(void *arg) {
  struct submitter *self = arg;
  uint64_t out[WINDOW], in[WINDOW];
  ucxx_request_t *sends[WINDOW] = {NULL}, *receives[WINDOW] = {NULL};
  for (uint64_t first = 0; first < MESSAGES; first += WINDOW) {
    uint64_t count = MESSAGES - first < WINDOW ? MESSAGES - first : WINDOW;
    ucxx_status_t sent[WINDOW], received[WINDOW];
    for (uint64_t at = 0; at < count; at++)
      received[at] = receive_number(self, &in[at], &receives[at]);
    for (uint64_t at = 0; at < count; at++) {
      out[at] = first + at;
      sent[at] = send_number(self, &out[at], &sends[at]);
    }
    /* This thread sleeps in the wait, and the progress thread wakes it when the operation
     * completes. */
    for (uint64_t at = 0; at < count; at++) {
      check(outcome(received[at], receives[at]), "receive");
      check(outcome(sent[at], sends[at]), "send");
      require(in[at] == first + at, "messages in the order in which they were sent");
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  struct pair pair;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  /* The progress thread polls while there is traffic, and sleeps when there is none. */
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  params.name = "example";
  pair_open_with(&pair, argc, argv, &params, NULL);

  pthread_t threads[SUBMITTERS];
  struct submitter submitters[SUBMITTERS];
  for (int at = 0; at < SUBMITTERS; at++) {
    submitters[at].pair = &pair;
    submitters[at].tag = (uint64_t)at;
    require(pthread_create(&threads[at], NULL, submit, &submitters[at]) == 0, "a thread");
  }
  for (int at = 0; at < SUBMITTERS; at++) pthread_join(threads[at], NULL);

  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  check(ucxx_worker_query_stats(pair.worker, &stats), "counters");
  printf("%d threads exchanged %d messages each; %llu operations went through the queue, %llu at "
         "most at a time\n",
         SUBMITTERS, MESSAGES, (unsigned long long)stats.delayed,
         (unsigned long long)stats.queue_high_water);
  pair_close(&pair);
  return EXIT_SUCCESS;
}
