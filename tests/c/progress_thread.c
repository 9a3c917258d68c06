/* Progress threads in one process: modes, start and stop, the submission queue, cancelling in it, callbacks, waiting, the end. */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int32_t modes[] = {UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_PROGRESS_THREAD_POLLING, UCXX_PROGRESS_THREAD_BLOCKING};
static const char *const mode_names[] = {"adaptive", "polling", "blocking"};

typedef struct threaded {
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_endpoint_t *to_right;
} threaded_t;

static ucxx_worker_params_t thread_params(int32_t mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  return params;
}

static void open_workers(threaded_t *pair, const ucxx_worker_params_t *params) {
  memset(pair, 0, sizeof *pair);
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, params, &pair->left));
  CHECK_OK(ucxx_worker_create(pair->context, params, &pair->right));
  pair->to_right = connect_workers(pair->left, pair->right);
}

static void close_workers(threaded_t *pair) {
  ucxx_endpoint_destroy(pair->to_right);
  ucxx_worker_destroy(pair->left);
  ucxx_worker_destroy(pair->right);
  ucxx_context_destroy(pair->context);
}

static void transfer(const threaded_t *pair, size_t length, uint64_t tag) {
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, tag + length);
  memset(in, 0, length);
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t received = ucxx_tag_recv(pair->right, in, length, tag, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_tag_send(pair->to_right, out, length, tag, NULL, &send);
  CHECK_OK(finish(sent, &send));
  CHECK_OK(finish(received, &receive));
  CHECK_CONTENT(in, length, tag + length);
  free(in);
  free(out);
}

static pthread_t start(void *(*run)(void *), void *arg) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, run, arg), 0);
  return thread;
}

static void join(pthread_t thread) {
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Holds the progress thread in a function of the user's until it is let go, so that nothing is taken from the queue meanwhile. */
typedef struct hold {
  ucxx_worker_t *worker;
  atomic_int held, let_go;
  pthread_t thread;
} hold_t;

static void stay(void *arg) {
  hold_t *hold = arg;
  atomic_store(&hold->held, 1);
  while (!atomic_load(&hold->let_go))
    sched_yield();
}

static void *ask_to_stay(void *arg) {
  hold_t *hold = arg;
  CHECK_OK(ucxx_worker_run_pre(hold->worker, stay, hold, FOR_EVER));
  return NULL;
}

static void hold_thread(hold_t *hold, ucxx_worker_t *worker) {
  hold->worker = worker;
  atomic_store(&hold->held, 0);
  atomic_store(&hold->let_go, 0);
  hold->thread = start(ask_to_stay, hold);
  while (!atomic_load(&hold->held))
    sched_yield();
}

static void let_go(hold_t *hold) {
  atomic_store(&hold->let_go, 1);
  join(hold->thread);
}

/* ------------------------------------------------------------------ what a thread is like */

typedef struct beginning {
  atomic_int ran, callbacks_before;
  long id;
  int blocked;
} beginning_t;

static void begin_thread(void *arg) {
  beginning_t *beginning = arg;
  sigset_t mask;
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
  beginning->blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGUSR1);
  beginning->id = syscall(SYS_gettid);
  atomic_fetch_add(&beginning->ran, 1);
}

static void see_beginning(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  beginning_t *beginning = arg;
  (void)request;
  CHECK_OK(status);
  CHECK_EQ(syscall(SYS_gettid), beginning->id);
  CHECK_EQ(atomic_load(&beginning->ran), 1);
  atomic_fetch_add(&beginning->callbacks_before, 1);
}

static void read_comm(long id, char *name, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/comm", id);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  CHECK(fgets(name, (int)size, file) != NULL);
  fclose(file);
  name[strcspn(name, "\n")] = 0;
}

static void count_line(void *arg, const char *text) {
  if (strstr(text, "progress thread") != NULL)
    ++*(int *)arg;
}

static void one_mode(int which) {
  STEP("%s", mode_names[which]);
  beginning_t beginning = {0};
  ucxx_worker_params_t params = thread_params(modes[which]);
  params.name = "a name of more than fifteen bytes";
  params.thread_start = begin_thread;
  params.thread_start_arg = &beginning;
  cpu_set_t allowed;
  CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed))
    cpu++;
  params.cpu = cpu + 1;
  threaded_t pair = {0};
  CHECK_OK(ucxx_context_create(NULL, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.left));
  params.thread_start = NULL;
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.right));
  pair.to_right = connect_workers(pair.left, pair.right);

  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(pair.left, &attr));
  CHECK_EQ(attr.progress_mode, modes[which]);
  CHECK_EQ(attr.progress_thread_running, 1);
  CHECK_EQ(attr.delayed_submission, 1);
  char name[32];
  read_comm((long)attr.progress_thread_id, name, sizeof name);
  CHECK(strcmp(name, "a name of more ") == 0);
  cpu_set_t pinned;
  CHECK_EQ(sched_getaffinity((pid_t)attr.progress_thread_id, sizeof pinned, &pinned), 0);
  CHECK_EQ(CPU_COUNT(&pinned), 1);
  CHECK(CPU_ISSET(cpu, &pinned));
  int lines = 0;
  CHECK_OK(ucxx_worker_dump(pair.left, count_line, &lines));
  CHECK_EQ(lines, 1);

  /* What progresses is the thread's. */
  CHECK_STATUS(ucxx_worker_progress(pair.left, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_wait(pair.left, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_arm(pair.left), UCXX_ERR_BUSY);
  CHECK_MESSAGE("progress thread");
  CHECK_STATUS(ucxx_worker_start_progress_thread(pair.left, modes[which]), UCXX_ERR_ALREADY_EXISTS);

  static const size_t lengths[] = {0, 8, 1000, 9000, 100000, 3000000};
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (uint64_t time = 0; time < 20; time++)
      transfer(&pair, lengths[at], 0x100 + time);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = see_beginning;
  op.callback_arg = &beginning;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, &request), UCXX_INPROGRESS);
  CHECK_OK(finish(UCXX_INPROGRESS, &request));
  CHECK_EQ(atomic_load(&beginning.callbacks_before), 1);
  CHECK_EQ(beginning.blocked, 1);
  CHECK_EQ(beginning.id, (long)attr.progress_thread_id);

  /* The blocking form, everything that goes another way than through the queue, and the addresses of others. */
  uint64_t word = 0;
  ucxx_op_params_t wait = UCXX_OP_PARAMS_INIT;
  wait.flags = UCXX_FLAG_WAIT;
  CHECK_OK(ucxx_tag_recv(pair.right, &word, 8, 1, UINT64_MAX, &wait, NULL));
  CHECK(memcmp(&word, "message", 8) == 0);
  CHECK_OK(ucxx_tag_send(pair.to_right, "letters", 8, 2, &wait, NULL));
  ucxx_recv_info_t info;
  ucxx_tag_message_t *message = NULL;
  ucxx_status_t probed;
  while ((probed = ucxx_tag_probe(pair.right, 2, UINT64_MAX, &info, &message)) == UCXX_ERR_NO_MESSAGE)
    sched_yield();
  CHECK_OK(probed);
  CHECK_OK(ucxx_tag_message_recv(message, &word, 8, &wait, NULL));
  CHECK(memcmp(&word, "letters", 8) == 0);
  CHECK_STATUS(ucxx_tag_message_recv(message, &word, 8, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  ucxx_tag_message_destroy(message);
  ucxx_endpoint_attr_t endpoint_attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(pair.to_right, &endpoint_attr));
  CHECK(endpoint_attr.transports[0] != 0);
  CHECK_OK(ucxx_worker_flush(pair.left, &wait, NULL));
  CHECK_OK(ucxx_endpoint_flush(pair.to_right, &wait, NULL));
  CHECK_OK(ucxx_worker_fence(pair.left));
  ucxx_buffer_t parts[3] = {{.data = "one ", .length = 4}, {.data = NULL, .length = 0}, {.data = "two", .length = 4}};
  char joined[8];
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.right, joined, 8, 3, UINT64_MAX, NULL, &receive), UCXX_INPROGRESS);
  CHECK_OK(ucxx_tag_send_iov(pair.to_right, parts, 3, 3, &wait, NULL));
  CHECK_OK(finish(UCXX_INPROGRESS, &receive));
  CHECK(memcmp(joined, "one two", 8) == 0);
  CHECK_OK(ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, &wait, NULL));
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, NULL, NULL), UCXX_ERR_CLOSED);

  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
  CHECK(stats.delayed >= 120 && stats.queue_high_water >= 1);
  CHECK_EQ(stats.in_flight, 0);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ the thread sleeps */

static uint64_t cpu_ticks(uint64_t id) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/self/task/%llu/stat", (unsigned long long)id);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  unsigned long long user = 0, kernel = 0;
  /* After the name in parentheses: state, ten numbers, then the two. */
  const char *fields = strrchr(text, ')');
  CHECK(fields != NULL);
  CHECK_EQ(sscanf(fields + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel), 2);
  return user + kernel;
}

static void sleeps_when_idle(int which) {
  STEP("an idle %s thread sleeps", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query(pair.right, &attr));
  /* A receive with a timeout bounds the idle phase: two seconds, of which a spinning thread would use 200 ticks. */
  uint64_t before = cpu_ticks(attr.progress_thread_id);
  uint64_t word = 0;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.timeout_ns = 2 * SECOND;
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.right, &word, 8, 0x99, UINT64_MAX, &op, &receive), UCXX_INPROGRESS);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_TIMED_OUT);
  uint64_t used = cpu_ticks(attr.progress_thread_id) - before;
  if (used > 20)
    FAIL("the thread used %llu ticks while there was nothing to do", (unsigned long long)used);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.right, &stats));
  CHECK(stats.sleeps > 0);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ four threads submit, each in its order */

enum { SUBMITTERS = 4, EACH = 20000, WINDOW = 64 };

typedef struct submitter {
  const threaded_t *pair;
  uint64_t number;
  int into;
} submitter_t;

/* Sends the numbers 0.. on one tag; a full queue is waited out. */
static void *submit_numbers(void *arg) {
  submitter_t *submitter = arg;
  static const size_t length = 16;
  uint64_t (*words)[2] = test_alloc(WINDOW * length);
  ucxx_request_t *requests[WINDOW] = {NULL};
  for (uint64_t number = 0; number < EACH; number++) {
    size_t place = number % WINDOW;
    if (number >= WINDOW)
      CHECK_OK(finish(UCXX_INPROGRESS, &requests[place]));
    words[place][0] = submitter->number;
    words[place][1] = number;
    ucxx_status_t status;
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    while ((status = ucxx_tag_send(submitter->pair->to_right, words[place], length, submitter->number, &op, &requests[place])) ==
           UCXX_ERR_NO_RESOURCE)
      sched_yield();
    CHECK_STATUS(status, UCXX_INPROGRESS);
  }
  for (size_t place = 0; place < WINDOW; place++)
    CHECK_OK(finish(UCXX_INPROGRESS, &requests[place]));
  free(words);
  return NULL;
}

/* Receives them with several receives posted at a time: they match in the order in which they were posted. */
static void *receive_numbers(void *arg) {
  submitter_t *receiver = arg;
  uint64_t words[WINDOW][2];
  ucxx_request_t *requests[WINDOW] = {NULL};
  ucxx_status_t states[WINDOW] = {0};
  for (uint64_t number = 0; number < EACH + WINDOW; number++) {
    size_t place = number % WINDOW;
    if (number >= WINDOW) {
      CHECK_OK(finish(states[place], &requests[place]));
      CHECK_EQ(words[place][0], receiver->number);
      CHECK_EQ(words[place][1], number - WINDOW);
    }
    if (number < EACH)
      while ((states[place] = ucxx_tag_recv(receiver->pair->right, words[place], 16, receiver->number, UINT64_MAX, NULL,
                                            &requests[place])) == UCXX_ERR_NO_RESOURCE)
        sched_yield();
  }
  return NULL;
}

static void run_submitters(const threaded_t *pair, void *(*meanwhile)(void *), void *arg) {
  submitter_t submitters[SUBMITTERS];
  pthread_t threads[2 * SUBMITTERS];
  for (int at = 0; at < SUBMITTERS; at++) {
    submitters[at] = (submitter_t){.pair = pair, .number = 0x500 + (uint64_t)at};
    threads[2 * at] = start(submit_numbers, &submitters[at]);
    threads[2 * at + 1] = start(receive_numbers, &submitters[at]);
  }
  if (meanwhile != NULL)
    meanwhile(arg);
  for (int at = 0; at < 2 * SUBMITTERS; at++)
    join(threads[at]);
}

static void many_submitters(int which, int32_t delayed, uint32_t depth) {
  STEP("%d submitting threads, %s, delayed %d, depth %u", SUBMITTERS, mode_names[which], delayed, depth);
  ucxx_worker_params_t params = thread_params(modes[which]);
  params.delayed_submission = delayed;
  params.submission_queue_depth = depth;
  threaded_t pair;
  open_workers(&pair, &params);
  run_submitters(&pair, NULL, NULL);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
  CHECK_EQ(stats.completed, SUBMITTERS * EACH);
  CHECK_EQ(stats.delayed, delayed < 0 ? 0 : SUBMITTERS * EACH);
  if (depth != 0)
    CHECK(stats.queue_high_water <= depth);
  close_workers(&pair);
}

static void *start_and_stop(void *arg) {
  const threaded_t *pair = arg;
  for (int time = 0; time < 60; time++) {
    ucxx_worker_t *worker = time % 2 == 0 ? pair->left : pair->right;
    CHECK_OK(ucxx_worker_stop_progress_thread(worker));
    for (int turn = 0; turn < 20; turn++)
      progress(worker);
    CHECK_OK(ucxx_worker_start_progress_thread(worker, modes[time % 3]));
    for (int turn = 0; turn < 20; turn++)
      sched_yield();
  }
  return NULL;
}

static void restarts_under_traffic(void) {
  STEP("stop and start under traffic");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  run_submitters(&pair, start_and_stop, &pair);
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_stop_progress_thread(pair.left));
  CHECK_STATUS(ucxx_worker_stop_progress_thread(pair.left), UCXX_ERR_NO_ELEM);
  CHECK_OK(ucxx_worker_query(pair.left, &attr));
  CHECK_EQ(attr.progress_mode, UCXX_PROGRESS_MANUAL);
  CHECK_EQ(attr.progress_thread_running, 0);
  CHECK_EQ(attr.progress_thread_id, 0);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_DELAYED;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, NULL), UCXX_ERR_UNSUPPORTED);
  CHECK_OK(ucxx_worker_start_progress_thread(pair.left, UCXX_PROGRESS_THREAD_BLOCKING));
  CHECK_OK(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, NULL) == UCXX_INPROGRESS ? UCXX_OK : UCXX_ERR_IO_ERROR);
  transfer(&pair, 100, 2);
  close_workers(&pair);
}

typedef struct waited {
  ucxx_request_t *request;
  atomic_int done;
} waited_t;

static void *wait_for(void *arg) {
  waited_t *waited = arg;
  CHECK_OK(ucxx_request_wait(waited->request, FOR_EVER));
  atomic_fetch_add(&waited->done, 1);
  return NULL;
}

/* Threads that progress, and then wait for a progress thread; and the other way round. */
static void waiters_change_over(void) {
  STEP("waiting across start and stop");
  threaded_t pair;
  open_workers(&pair, NULL);
  enum { WAITERS = 3 };
  for (int time = 0; time < 30; time++) {
    uint64_t word = 0;
    waited_t waited = {NULL};
    CHECK_STATUS(ucxx_tag_recv(pair.right, &word, 8, 4, UINT64_MAX, NULL, &waited.request), UCXX_INPROGRESS);
    pthread_t threads[WAITERS];
    for (int at = 0; at < WAITERS; at++)
      threads[at] = start(wait_for, &waited);
    for (int turn = 0; turn < time * 10; turn++)
      sched_yield();
    if (time % 2 == 0)
      CHECK_OK(ucxx_worker_start_progress_thread(pair.right, modes[time % 3]));
    else
      CHECK_OK(ucxx_worker_stop_progress_thread(pair.right));
    for (int turn = 0; turn < time * 10; turn++)
      sched_yield();
    ucxx_status_t sent = ucxx_tag_send(pair.to_right, "message", 8, 4, NULL, NULL);
    CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
    while (atomic_load(&waited.done) < WAITERS)
      progress(pair.left);
    for (int at = 0; at < WAITERS; at++)
      join(threads[at]);
    ucxx_request_destroy(waited.request);
  }
  close_workers(&pair);
}

/* ------------------------------------------------------------------ a full queue, and cancelling in it */

static void full_queue(void) {
  STEP("a full queue loses nothing, and what is in it can be cancelled");
  enum { DEPTH = 8 };
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
  params.submission_queue_depth = DEPTH;
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  hold_t hold;
  hold_thread(&hold, pair.left);
  ucxx_request_t *requests[DEPTH] = {NULL}, *more = (ucxx_request_t *)&hold, *flush = NULL, *close = NULL;
  uint64_t words[DEPTH];
  seen_t seen[DEPTH] = {{0}};
  for (uint64_t at = 0; at < DEPTH; at++) {
    words[at] = at;
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.callback = see_completion;
    op.callback_arg = &seen[at];
    CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[at], 8, 6, &op, &requests[at]), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_status(requests[at]), UCXX_INPROGRESS);
  }
  for (int time = 0; time < 3; time++)
    CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[0], 8, 6, NULL, &more), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("submission_queue_depth");
  CHECK(more == (ucxx_request_t *)&hold);
  /* These need no room. */
  CHECK_STATUS(ucxx_endpoint_flush(pair.to_right, NULL, &flush), UCXX_INPROGRESS);
  for (int at = 1; at < DEPTH; at += 2) {
    CHECK_OK(ucxx_request_cancel(requests[at]));
    CHECK_OK(ucxx_request_cancel(requests[at]));
  }
  CHECK_STATUS(ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, NULL, &close), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[0], 8, 6, NULL, NULL), UCXX_ERR_CLOSED);
  let_go(&hold);
  for (int at = 0; at < DEPTH; at++) {
    CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[at]), at % 2 ? UCXX_ERR_CANCELED : UCXX_OK);
    CHECK_EQ(seen_count(&seen[at]), 1);
  }
  CHECK_OK(finish(UCXX_INPROGRESS, &flush));
  CHECK_OK(finish(UCXX_INPROGRESS, &close));
  for (uint64_t at = 0; at < DEPTH; at += 2) {
    uint64_t word = 99;
    ucxx_request_t *receive = NULL;
    CHECK_OK(finish(ucxx_tag_recv(pair.right, &word, 8, 6, UINT64_MAX, NULL, &receive), &receive));
    CHECK_EQ(word, at);
  }
  /* What was cancelled was never sent. */
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_tag_probe(pair.right, 6, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
  CHECK_EQ(stats.queue_full, 3);
  CHECK_EQ(stats.queue_high_water, DEPTH);
  CHECK_EQ(stats.canceled, DEPTH / 2);
  close_workers(&pair);
}

static void timeouts_in_the_queue(void) {
  STEP("a deadline that passes in the queue");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  hold_t hold;
  hold_thread(&hold, pair.left);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.timeout_ns = 1;
  ucxx_request_t *send = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 7, &op, &send), UCXX_INPROGRESS);
  let_go(&hold);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &send), UCXX_ERR_TIMED_OUT);
  ucxx_recv_info_t info;
  transfer(&pair, 8, 1);
  CHECK_STATUS(ucxx_tag_probe(pair.right, 7, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ functions on the thread */

static void count_run(void *arg) {
  atomic_fetch_add((atomic_int *)arg, 1);
}

static void look_at_request(void *arg) {
  /* What was submitted before has been dispatched by now: an unmatched receive stays, a short send is complete. */
  CHECK_OK(ucxx_request_status(arg));
}


static void functions_on_the_thread(void) {
  STEP("run_pre and run_post");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  atomic_int runs = 0;
  for (int time = 0; time < 100; time++) {
    CHECK_OK(ucxx_worker_run_pre(pair.left, count_run, &runs, FOR_EVER));
    CHECK_OK(ucxx_worker_run_post(pair.left, count_run, &runs, FOR_EVER));
    CHECK_EQ(atomic_load(&runs), 2 * time + 2);
  }
  ucxx_request_t *send = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, NULL, &send), UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_run_pre(pair.left, look_at_request, send, FOR_EVER));
  CHECK_OK(finish(UCXX_INPROGRESS, &send));

  /* Out of time before it could start: it will never run. */
  hold_t hold;
  hold_thread(&hold, pair.left);
  atomic_int late = 0;
  CHECK_STATUS(ucxx_worker_run_pre(pair.left, count_run, &late, 0), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_worker_run_post(pair.left, count_run, &late, MILLISECOND), UCXX_ERR_TIMED_OUT);
  let_go(&hold);
  CHECK_OK(ucxx_worker_run_post(pair.left, count_run, &runs, FOR_EVER));
  CHECK_EQ(atomic_load(&late), 0);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ callbacks on the thread */

typedef struct chain {
  threaded_t *pair;
  ucxx_request_t *receive;
  atomic_int left, done;
  uint64_t word;
} chain_t;

static void send_next(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  chain_t *chain = arg;
  CHECK_OK(status);
  /* What waits is refused, everything else goes. */
  CHECK_STATUS(ucxx_request_wait(chain->receive, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_progress(chain->pair->left, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_start_progress_thread(chain->pair->left, 1), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_stop_progress_thread(chain->pair->left), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_run_pre(chain->pair->left, count_run, &chain->done, FOR_EVER), UCXX_ERR_BUSY);
  ucxx_recv_info_t info;
  /* Of the other worker, whose thread it would have to wait for. */
  CHECK_STATUS(ucxx_tag_probe(chain->pair->right, 1, 0, &info, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_tag_probe(chain->pair->left, 1, 0, &info, NULL), UCXX_ERR_NO_MESSAGE);
  ucxx_request_destroy(request);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  op.callback = send_next;
  op.callback_arg = chain;
  if (atomic_fetch_sub(&chain->left, 1) > 1) {
    ucxx_request_t *next = NULL;
    CHECK_STATUS(ucxx_tag_send(chain->pair->to_right, &chain->word, 8, 8, &op, &next), UCXX_INPROGRESS);
    return;
  }
  CHECK_OK(ucxx_request_cancel(chain->receive));
  CHECK_STATUS(ucxx_endpoint_close(chain->pair->to_right, UCXX_CLOSE_FLUSH, NULL, NULL), UCXX_INPROGRESS);
  ucxx_endpoint_destroy(chain->pair->to_right);
  chain->pair->to_right = NULL;
  atomic_store(&chain->done, 1);
}

static void callbacks_do_everything(int which) {
  STEP("callbacks submit, cancel, close and destroy: %s", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  chain_t chain = {.pair = &pair};
  atomic_store(&chain.left, 1000);
  CHECK_STATUS(ucxx_tag_recv(pair.left, &chain.word, 8, 9, UINT64_MAX, NULL, &chain.receive), UCXX_INPROGRESS);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  op.callback = send_next;
  op.callback_arg = &chain;
  ucxx_request_t *first = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &chain.word, 8, 8, &op, &first), UCXX_INPROGRESS);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &chain.receive), UCXX_ERR_CANCELED);
  while (!atomic_load(&chain.done))
    sched_yield();
  for (int at = 0; at < 1000; at++) {
    uint64_t word;
    ucxx_request_t *receive = NULL;
    CHECK_OK(finish(ucxx_tag_recv(pair.right, &word, 8, 8, UINT64_MAX, NULL, &receive), &receive));
  }
  close_workers(&pair);
}

typedef struct end {
  ucxx_worker_t *worker;
  atomic_int destroyed, closed;
} end_t;

static void destroy_worker(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  end_t *end = arg;
  (void)request;
  (void)status;
  ucxx_worker_destroy(end->worker);
  atomic_store(&end->destroyed, 1);
}

static void see_end(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  (void)status;
  atomic_store(&((end_t *)arg)->closed, 1);
}

static void destroyed_from_a_callback(int which) {
  STEP("a worker destroyed from its own callback: %s", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  memset(&pair, 0, sizeof pair);
  CHECK_OK(ucxx_context_create(NULL, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.left));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.right));
  end_t end = {.worker = pair.left};
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(pair.right, &address));
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint_params.on_close = see_end;
  endpoint_params.on_close_arg = &end;
  CHECK_OK(ucxx_endpoint_create(pair.left, address, &endpoint_params, &pair.to_right));
  ucxx_address_destroy(address);
  uint64_t word = 0;
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.left, &word, 8, 1, UINT64_MAX, NULL, &receive), UCXX_INPROGRESS);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = destroy_worker;
  op.callback_arg = &end;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &word, 8, 1, &op, NULL), UCXX_INPROGRESS);
  /* What is in flight completes, on_close is called, and what is left answers CLOSED. */
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_CANCELED);
  while (!atomic_load(&end.closed))
    sched_yield();
  CHECK_EQ(atomic_load(&end.destroyed), 1);
  CHECK_STATUS(ucxx_endpoint_status(pair.to_right), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &word, 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(pair.to_right);
  ucxx_worker_destroy(pair.right);
  ucxx_context_destroy(pair.context);
}

/* ------------------------------------------------------------------ the end under traffic */

typedef struct hammer {
  ucxx_endpoint_t *endpoint;
  atomic_int sent;
} hammer_t;

static void *hammer(void *arg) {
  hammer_t *hammer = arg;
  static const uint64_t word = 7;
  for (;;) {
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_tag_send(hammer->endpoint, &word, 8, 1, NULL, &request);
    if (status == UCXX_ERR_CLOSED)
      return NULL;
    if (status == UCXX_ERR_NO_RESOURCE) {
      sched_yield();
      continue;
    }
    CHECK(status == UCXX_INPROGRESS || status == UCXX_OK);
    atomic_fetch_add(&hammer->sent, 1);
    status = finish(status, &request);
    CHECK(status == UCXX_OK || status == UCXX_ERR_CANCELED || status == UCXX_ERR_CLOSED);
  }
}

static void destroyed_under_traffic(int which, int32_t delayed) {
  STEP("a worker destroyed under traffic: %s, delayed %d", mode_names[which], delayed);
  for (int time = 0; time < 10; time++) {
    ucxx_worker_params_t params = thread_params(modes[which]);
    params.delayed_submission = delayed;
    params.submission_queue_depth = 16;
    threaded_t pair;
    open_workers(&pair, &params);
    hammer_t hammers[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int at = 0; at < SUBMITTERS; at++) {
      hammers[at].endpoint = pair.to_right;
      atomic_store(&hammers[at].sent, 0);
      threads[at] = start(hammer, &hammers[at]);
    }
    for (int at = 0; at < SUBMITTERS; at++)
      while (atomic_load(&hammers[at].sent) < 20 * time)
        sched_yield();
    ucxx_worker_destroy(pair.left);
    for (int at = 0; at < SUBMITTERS; at++)
      join(threads[at]);
    ucxx_endpoint_destroy(pair.to_right);
    ucxx_worker_destroy(pair.right);
    ucxx_context_destroy(pair.context);
  }
}

/* ------------------------------------------------------------------ waiting for several, of several workers */

typedef struct group {
  ucxx_request_t **requests;
  size_t count;
  atomic_int any, all;
} group_t;

static void *wait_any(void *arg) {
  group_t *group = arg;
  size_t index = 99;
  CHECK_OK(ucxx_request_wait_any(group->requests, group->count, FOR_EVER, &index));
  CHECK(index < group->count);
  CHECK_OK(ucxx_request_status(group->requests[index]));
  atomic_fetch_add(&group->any, 1);
  return NULL;
}

static void *wait_all(void *arg) {
  group_t *group = arg;
  CHECK_OK(ucxx_request_wait_all(group->requests, group->count, FOR_EVER));
  atomic_fetch_add(&group->all, 1);
  return NULL;
}

static void several_wait(int which) {
  STEP("several threads wait for any and for all: %s", mode_names[which]);
  enum { REQUESTS = 6, TIMES = 30 };
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  ucxx_endpoint_t *to_left = connect_workers(pair.right, pair.left);
  for (int time = 0; time < TIMES; time++) {
    uint64_t words[REQUESTS];
    ucxx_request_t *requests[REQUESTS] = {NULL};
    for (uint64_t at = 0; at < REQUESTS; at++)
      CHECK_STATUS(ucxx_tag_recv(at % 2 ? pair.left : pair.right, &words[at], 8, 0x70 + at, UINT64_MAX, NULL, &requests[at]),
                   UCXX_INPROGRESS);
    group_t group = {.requests = requests, .count = REQUESTS};
    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
      threads[at] = start(at % 2 ? wait_any : wait_all, &group);
    size_t index = 99;
    CHECK_STATUS(ucxx_request_wait_any(requests, REQUESTS, MILLISECOND, &index), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait_any(requests, REQUESTS, 0, &index), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait(requests[0], MILLISECOND), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait_all(requests, REQUESTS, 0), UCXX_INPROGRESS);
    CHECK_EQ(atomic_load(&group.any) + atomic_load(&group.all), 0);
    for (uint64_t at = REQUESTS; at-- > 0;) {
      ucxx_status_t sent = ucxx_tag_send(at % 2 ? to_left : pair.to_right, &words[at], 8, 0x70 + at, NULL, NULL);
      CHECK_STATUS(sent, UCXX_INPROGRESS);
      if (at == REQUESTS - 1) {
        join(threads[1]);
        join(threads[3]);
        CHECK_EQ(atomic_load(&group.all), 0);
      }
    }
    join(threads[0]);
    join(threads[2]);
    for (int at = 0; at < REQUESTS; at++)
      ucxx_request_destroy(requests[at]);
  }
  ucxx_endpoint_destroy(to_left);
  close_workers(&pair);
}

/* A callback that does not return delays no one who waits for a request without one. */
static void stay_in_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  stay(arg);
}

static void slow_callback(void) {
  STEP("a slow callback delays nobody");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  for (int time = 0; time < 50; time++) {
    hold_t hold, slow = {0};
    hold_thread(&hold, pair.left);
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.callback = stay_in_callback;
    op.callback_arg = &slow;
    ucxx_request_t *first = NULL, *second = NULL;
    /* Both are dispatched in one go, and complete there. */
    CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 2, &op, &first), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 2, NULL, &second), UCXX_INPROGRESS);
    let_go(&hold);
    CHECK_OK(finish(UCXX_INPROGRESS, &second));
    CHECK_STATUS(ucxx_request_status(first), UCXX_INPROGRESS);
    atomic_store(&slow.let_go, 1);
    CHECK_OK(finish(UCXX_INPROGRESS, &first));
  }
  close_workers(&pair);
}

static void environment_decides(void) {
  STEP("UCXX_RS_DELAYED_SUBMISSION");
  static const struct { const char *set; int32_t param; int expected; } rows[] = {
      {"0", 0, 0}, {"1", 0, 1}, {NULL, 0, 1}, {"0", 1, 1}, {"1", -1, 0}};
  for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
    if (rows[at].set != NULL)
      setenv("UCXX_RS_DELAYED_SUBMISSION", rows[at].set, 1);
    else
      unsetenv("UCXX_RS_DELAYED_SUBMISSION");
    ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
    params.delayed_submission = rows[at].param;
    threaded_t pair;
    open_workers(&pair, &params);
    ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
    CHECK_OK(ucxx_worker_query(pair.left, &attr));
    CHECK_EQ(attr.delayed_submission, rows[at].expected);
    transfer(&pair, 100, 1);
    close_workers(&pair);
  }
  unsetenv("UCXX_RS_DELAYED_SUBMISSION");
}

int main(void) {
  test_begin("progress_thread", 120);
  for (int which = 0; which < 3; which++) {
    one_mode(which);
    if (modes[which] != UCXX_PROGRESS_THREAD_POLLING)
      sleeps_when_idle(which);
    callbacks_do_everything(which);
    destroyed_from_a_callback(which);
    several_wait(which);
    destroyed_under_traffic(which, 1);
    destroyed_under_traffic(which, -1);
  }
  many_submitters(0, 1, 0);
  many_submitters(1, 1, 16);
  many_submitters(2, 1, 64);
  many_submitters(0, -1, 0);
  full_queue();
  timeouts_in_the_queue();
  functions_on_the_thread();
  slow_callback();
  environment_decides();
  waiters_change_over();
  restarts_under_traffic();
  return 0;
}
