/* Progress threads in one process: modes, an idle thread sleeps, several submitting threads keep
 * their order, threads start and stop under traffic. */
#include "progress_thread.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ------------------------------------------------------------------ attributes of a thread */

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
  if (strstr(text, "progress thread") != NULL) ++*(int *)arg;
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
  while (!CPU_ISSET(cpu, &allowed)) cpu++;
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

  /* Only the thread may progress. */
  CHECK_STATUS(ucxx_worker_progress(pair.left, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_wait(pair.left, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_arm(pair.left), UCXX_ERR_BUSY);
  CHECK_MESSAGE("progress thread");
  CHECK_STATUS(ucxx_worker_start_progress_thread(pair.left, modes[which]), UCXX_ERR_ALREADY_EXISTS);

  static const size_t lengths[] = {0, 8, 1000, 9000, 100000, 3000000};
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (uint64_t time = 0; time < 20; time++) transfer(&pair, lengths[at], 0x100 + time);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = see_beginning;
  op.callback_arg = &beginning;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, &request), UCXX_INPROGRESS);
  CHECK_OK(finish(UCXX_INPROGRESS, &request));
  CHECK_EQ(atomic_load(&beginning.callbacks_before), 1);
  CHECK_EQ(beginning.blocked, 1);
  CHECK_EQ(beginning.id, (long)attr.progress_thread_id);

  /* Blocking calls, and calls that bypass the submission queue, and other workers' addresses. */
  uint64_t word = 0;
  ucxx_op_params_t wait = UCXX_OP_PARAMS_INIT;
  wait.flags = UCXX_FLAG_WAIT;
  CHECK_OK(ucxx_tag_recv(pair.right, &word, 8, 1, UINT64_MAX, &wait, NULL));
  CHECK(memcmp(&word, "message", 8) == 0);
  CHECK_OK(ucxx_tag_send(pair.to_right, "letters", 8, 2, &wait, NULL));
  ucxx_recv_info_t info;
  ucxx_tag_message_t *message = NULL;
  ucxx_status_t probed;
  while ((probed = ucxx_tag_probe(pair.right, 2, UINT64_MAX, &info, &message)) ==
         UCXX_ERR_NO_MESSAGE)
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
  ucxx_buffer_t parts[3] = {
      {.data = "one ", .length = 4}, {.data = NULL, .length = 0}, {.data = "two", .length = 4}};
  char joined[8];
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.right, joined, 8, 3, UINT64_MAX, NULL, &receive),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_tag_send_iov(pair.to_right, parts, 3, 3, &wait, NULL));
  CHECK_OK(finish(UCXX_INPROGRESS, &receive));
  CHECK(memcmp(joined, "one two", 8) == 0);
  wait.timeout_ns = PATIENTLY;
  CHECK_OK(ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, &wait, NULL));
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, NULL, NULL), UCXX_ERR_CLOSED);

  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
  CHECK(stats.delayed >= 120 && stats.queue_high_water >= 1);
  CHECK_EQ(stats.in_flight, 0);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ an idle thread sleeps */

static uint64_t cpu_ticks(uint64_t id) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/self/task/%llu/stat", (unsigned long long)id);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  unsigned long long user = 0, kernel = 0;
  /* After the name in parentheses: the state, ten numbers, then the two. */
  const char *fields = strrchr(text, ')');
  CHECK(fields != NULL);
  CHECK_EQ(
      sscanf(fields + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel),
      2);
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
  /* A receive with a timeout bounds the idle phase to two seconds, of which a spinning thread would
   * use 200 ticks. */
  uint64_t before = cpu_ticks(attr.progress_thread_id);
  uint64_t word = 0;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.timeout_ns = 2 * SECOND;
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.right, &word, 8, 0x99, UINT64_MAX, &op, &receive),
               UCXX_INPROGRESS);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_TIMED_OUT);
  uint64_t used = cpu_ticks(attr.progress_thread_id) - before;
  if (used > 20) FAIL("the idle thread used %llu ticks", (unsigned long long)used);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.right, &stats));
  CHECK(stats.sleeps > 0);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ four threads submit, each in
 * order */

enum { SUBMITTERS = 4, EACH = 20000, WINDOW = 64 };

typedef struct submitter {
  const threaded_t *pair;
  uint64_t number;
  int into;
} submitter_t;

/* Sends the numbers 0.. on one tag; retries while the queue is full. */
static void *submit_numbers(void *arg) {
  submitter_t *submitter = arg;
  static const size_t length = 16;
  uint64_t(*words)[2] = test_alloc(WINDOW * length);
  ucxx_request_t *requests[WINDOW] = {NULL};
  for (uint64_t number = 0; number < EACH; number++) {
    size_t place = number % WINDOW;
    if (number >= WINDOW) CHECK_OK(finish(UCXX_INPROGRESS, &requests[place]));
    words[place][0] = submitter->number;
    words[place][1] = number;
    ucxx_status_t status;
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    while ((status = ucxx_tag_send(submitter->pair->to_right, words[place], length,
                                   submitter->number, &op, &requests[place])) ==
           UCXX_ERR_NO_RESOURCE)
      sched_yield();
    CHECK_STATUS(status, UCXX_INPROGRESS);
  }
  for (size_t place = 0; place < WINDOW; place++)
    CHECK_OK(finish(UCXX_INPROGRESS, &requests[place]));
  free(words);
  return NULL;
}

/* Receives them with several receives posted at a time, which match in the order of posting. */
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
      while ((states[place] =
                  ucxx_tag_recv(receiver->pair->right, words[place], 16, receiver->number,
                                UINT64_MAX, NULL, &requests[place])) == UCXX_ERR_NO_RESOURCE)
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
  if (meanwhile != NULL) meanwhile(arg);
  for (int at = 0; at < 2 * SUBMITTERS; at++) join(threads[at]);
}

static void many_submitters(int which, int32_t delayed, uint32_t depth) {
  STEP("%d submitting threads, %s, delayed %d, depth %u", SUBMITTERS, mode_names[which], delayed,
       depth);
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
  if (depth != 0) CHECK(stats.queue_high_water <= depth);
  close_workers(&pair);
}

static void *start_and_stop(void *arg) {
  const threaded_t *pair = arg;
  for (int time = 0; time < 60; time++) {
    ucxx_worker_t *worker = time % 2 == 0 ? pair->left : pair->right;
    CHECK_OK(ucxx_worker_stop_progress_thread(worker));
    for (int turn = 0; turn < 20; turn++) progress(worker);
    CHECK_OK(ucxx_worker_start_progress_thread(worker, modes[time % 3]));
    for (int turn = 0; turn < 20; turn++) sched_yield();
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
  CHECK_OK(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, NULL) == UCXX_INPROGRESS
               ? UCXX_OK
               : UCXX_ERR_IO_ERROR);
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

/* Threads that progress, then wait for a progress thread; and the other way round. */
static void waiters_change_over(void) {
  STEP("waiting across start and stop");
  threaded_t pair;
  open_workers(&pair, NULL);
  enum { WAITERS = 3 };
  for (int time = 0; time < 30; time++) {
    uint64_t word = 0;
    waited_t waited = {NULL};
    CHECK_STATUS(ucxx_tag_recv(pair.right, &word, 8, 4, UINT64_MAX, NULL, &waited.request),
                 UCXX_INPROGRESS);
    pthread_t threads[WAITERS];
    for (int at = 0; at < WAITERS; at++) threads[at] = start(wait_for, &waited);
    for (int turn = 0; turn < time * 10; turn++) sched_yield();
    if (time % 2 == 0)
      CHECK_OK(ucxx_worker_start_progress_thread(pair.right, modes[time % 3]));
    else
      CHECK_OK(ucxx_worker_stop_progress_thread(pair.right));
    for (int turn = 0; turn < time * 10; turn++) sched_yield();
    ucxx_status_t sent = ucxx_tag_send(pair.to_right, "message", 8, 4, NULL, NULL);
    CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
    while (atomic_load(&waited.done) < WAITERS) progress(pair.left);
    for (int at = 0; at < WAITERS; at++) join(threads[at]);
    ucxx_request_destroy(waited.request);
  }
  close_workers(&pair);
}

static void environment_decides(void) {
  STEP("UCXX_RS_DELAYED_SUBMISSION");
  static const struct {
    const char *set;
    int32_t param;
    int expected;
  } rows[] = {{"0", 0, 0}, {"1", 0, 1}, {NULL, 0, 1}, {"0", 1, 1}, {"1", -1, 0}};
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
  test_begin("progress_thread");
  for (int which = 0; which < 3; which++) {
    one_mode(which);
    if (modes[which] != UCXX_PROGRESS_THREAD_POLLING) sleeps_when_idle(which);
  }
  many_submitters(0, 1, 0);
  many_submitters(1, 1, 16);
  many_submitters(2, 1, 64);
  many_submitters(0, -1, 0);
  environment_decides();
  waiters_change_over();
  restarts_under_traffic();
  return 0;
}
