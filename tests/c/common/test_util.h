/*
 * Shared by all test programs: checks that report the place and the reason, a guard against hangs,
 * a pair of fresh processes joined by a socket, and two connected workers in one process.
 *
 * Include this file first: it asks the C library for its GNU declarations.
 */
#ifndef UCXX_RS_TEST_UTIL_H
#define UCXX_RS_TEST_UTIL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <sys/types.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#define FOR_EVER UINT64_MAX
#define MILLISECOND UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define PATIENTLY (600 * SECOND) /* for what must succeed: the guard is the limit */
/* The same clock for all processes of the host. */
uint64_t clock_ns(void);

/* ------------------------------------------------------------------ checks */

/* The guard ends the process when no step has begun for 300 seconds, or UCXX_TEST_SECONDS of the
 * environment: a step that takes one second can take a minute on a busy machine. With
 * UCXX_TEST_STEPS each step is printed when it begins, with the time in seconds. */
void test_begin(const char *name);
void test_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
/* Exits with the status that ctest counts as skipped. */
void test_skip(const char *why) __attribute__((noreturn));

#define STEP(...) test_step(__VA_ARGS__)
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) test_fail(__FILE__, __LINE__, "check failed: %s", #condition); \
  } while (0)
#define CHECK_EQ(left, right) \
  test_check_eq(__FILE__, __LINE__, #left, (long long)(left), #right, (long long)(right))
#define CHECK_STATUS(expression, expected) \
  test_check_status(__FILE__, __LINE__, #expression, (expression), (expected))
#define CHECK_OK(expression) CHECK_STATUS(expression, UCXX_OK)
/* The calling thread's last error message must contain `word`. */
#define CHECK_MESSAGE(word) test_check_message(__FILE__, __LINE__, (word))
#define CHECK_CONTENT(data, length, seed) \
  test_check_content(__FILE__, __LINE__, (data), (length), (seed))

void test_check_eq(const char *file, int line, const char *left_text, long long left,
                   const char *right_text, long long right);
void test_check_status(const char *file, int line, const char *text, ucxx_status_t status,
                       ucxx_status_t expected);
void test_check_message(const char *file, int line, const char *word);
void test_check_content(const char *file, int line, const void *data, size_t length, uint64_t seed);

/* ------------------------------------------------------------------ contents */

/* From UCXX_TEST_SEED or the clock; printed, so that a failure can be reproduced. */
uint64_t test_seed(void);
uint64_t test_mix(uint64_t value);
/* A port below those that the kernel gives away by default, so that nobody gets it before it is
 * used, or between two uses. */
uint16_t test_free_port(void);
/* The rounds of a random test: a third of `whole`, or all of them if UCXX_TEST_WHOLE is set, as
 * `make check-full` does. */
unsigned test_rounds(unsigned whole);
void test_fill(void *data, size_t length, uint64_t seed);
void *test_alloc(size_t length); /* never NULL, also for 0 */

/* ------------------------------------------------------------------ completions */

typedef struct seen {
  int count;
  int null_requests;
  ucxx_status_t status;
} seen_t;
/* A request callback; arg is a seen_t. Counts atomically, so any thread may read it. */
void see_completion(void *arg, ucxx_request_t *request, ucxx_status_t status);
/* The same for endpoint callbacks: on_open, on_close. */
void see_endpoint(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);
int seen_count(const seen_t *seen);

/*
 * Waits for an operation, without limit (the guard is the limit), and returns its final status.
 * Destroys the request and clears *request. Takes an address because the operation that fills it
 * may be in the same argument list.
 */
ucxx_status_t finish(ucxx_status_t status, ucxx_request_t **request);
/* Progresses once. Yields if there was nothing to do, or if a progress thread does the work. */
void progress(ucxx_worker_t *worker);

int has_tcp(void); /* does UCX_TLS allow TCP, which UCX needs to connect by host and port? */

/* ------------------------------------------------------------------ two processes */

/*
 * The program starts itself a second time before it has used UCX, so that both sides are fresh
 * processes joined by a socket pair. `body` runs on both; side is 0 in the first process and 1 in
 * the second.
 */
typedef struct pair {
  int side;
  int channel;
  int peer_pid;
  uint64_t seed; /* the same on both sides */
  ucxx_context_t *context;
  ucxx_worker_t *worker;
  ucxx_endpoint_t *endpoint;
} pair_t;
int pair_main(int argc, char **argv, const char *name, void (*body)(pair_t *pair));

void channel_put(const pair_t *pair, const void *data, size_t length);
void channel_get(const pair_t *pair, void *data, size_t length);
/* pair_tell lets the other side continue. pair_await waits for that while the worker makes
 * progress. pair_sync does both. */
void pair_tell(const pair_t *pair);
void pair_await(const pair_t *pair);
void pair_sync(const pair_t *pair);

/* Calls `round` with the parameters of a worker for one thread, for any thread, and with a progress
 * thread. */
void in_every_mode(void (*round)(const ucxx_worker_params_t *params, const char *mode));

/* Creates the context, the worker and an endpoint to the other side (NULL: defaults), and sends one
 * message each way to establish the connection. */
void pair_connect(pair_t *pair, const ucxx_context_params_t *context_params,
                  const ucxx_worker_params_t *worker_params,
                  const ucxx_endpoint_params_t *endpoint_params);
/* Sends this worker's address and receives the peer's. */
ucxx_address_t *pair_exchange_address(const pair_t *pair, ucxx_worker_t *worker);
void pair_disconnect(pair_t *pair);
/* Closes by FLUSH, with ten minutes for the peer: without a time limit it has one second. */
ucxx_status_t close_patiently(ucxx_endpoint_t *endpoint, ucxx_request_t **request);

/* ------------------------------------------------------------------ two workers in one process */

typedef struct duo {
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_endpoint_t *to_right; /* left's endpoint */
  ucxx_endpoint_t *to_left; /* right's endpoint */
} duo_t;
void duo_open(duo_t *duo, const ucxx_context_params_t *context_params);
/* The same with parameters for the endpoints. */
void duo_open_as(duo_t *duo, const ucxx_context_params_t *context_params,
                 const ucxx_endpoint_params_t *params);
/* The same; ends[0] sees the end of left's endpoint, ends[1] that of right's. */
void duo_open_seen(duo_t *duo, seen_t ends[2]);
void duo_close(duo_t *duo);
void duo_progress(const duo_t *duo);
ucxx_status_t duo_finish(const duo_t *duo, ucxx_status_t status, ucxx_request_t **request);
/* One message from left to right; checks its contents. */
void duo_transfer(const duo_t *duo, size_t length, uint64_t seed);

/*
 * Closes and destroys an endpoint while both workers make progress. A destroy alone would progress
 * only its own worker. Over TCP its flush may need the other side, and it would close by force
 * after seconds.
 */
void duo_drop(const duo_t *duo, ucxx_endpoint_t *endpoint);

ucxx_endpoint_t *connect_workers(ucxx_worker_t *from, ucxx_worker_t *to);
ucxx_endpoint_t *connect_workers_as(ucxx_worker_t *from, ucxx_worker_t *to,
                                    const ucxx_endpoint_params_t *params);

/* ------------------------------------------------------------------ killing a child */

/*
 * Kills a child, but not while it fills a slot in another process's shared-memory queue of UCX:
 * that would block the queue for good (docs/known-issues.md). Stops and continues the child until
 * all its threads are inside system calls; copying memory to another process is one. The fault
 * harness kills anywhere.
 */
void kill_in_a_call(pid_t pid);
/* Only stops the child in such a place. It may be killed there, or continued. */
void stop_in_a_call(pid_t pid);

/* ------------------------------------------------------------------ resources of the process */

typedef struct footprint {
  long resident_kib;
  long mappings;
  long descriptors;
  long threads;
} footprint_t;
footprint_t footprint_now(void);
#endif
