/*
 * Shows that ThreadSanitizer sees the library's accesses: two threads take turns on a SERIALIZED
 * worker, which takes no lock of its own.
 *
 *   turns ordered     the turn is passed with release and acquire: nothing to report
 *   turns relaxed     it is passed without order: the threads do not overlap, but their accesses
 *                     are unordered. A race in the library's own files
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

enum { TURNS = 200 };

static int turn, release_order = __ATOMIC_RELEASE, acquire_order = __ATOMIC_ACQUIRE;
static ucxx_worker_t *worker;

static void must(ucxx_status_t status) {
  if (status < 0) {
    fprintf(stderr, "turns: %s: %s\n", ucxx_status_name(status), ucxx_last_error_message());
    exit(1);
  }
}

static void *play(void *arg) {
  for (int mine = *(int *)arg; mine < TURNS; mine += 2) {
    while (__atomic_load_n(&turn, acquire_order) != mine);
    uint64_t word = 0;
    ucxx_request_t *request = NULL;
    must(ucxx_tag_recv(worker, &word, sizeof word, 1, UINT64_MAX, NULL, &request));
    must(ucxx_request_cancel(request));
    while (ucxx_request_status(request) == UCXX_INPROGRESS)
      must(ucxx_worker_progress(worker, NULL));
    ucxx_request_destroy(request);
    __atomic_store_n(&turn, mine + 1, release_order);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "relaxed") == 0) release_order = acquire_order = __ATOMIC_RELAXED;
  ucxx_context_t *context = NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_SERIALIZED;
  must(ucxx_context_create(NULL, &context));
  must(ucxx_worker_create(context, &params, &worker));
  int numbers[2] = {0, 1};
  pthread_t threads[2];
  for (int at = 0; at < 2; at++)
    if (pthread_create(&threads[at], NULL, play, &numbers[at]) != 0) return 1;
  for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  puts("played");
  return 0;
}
