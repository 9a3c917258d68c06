/* The callbacks. Each counts in its record, and most call the library again. */
#include "hostile.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

int over;
static record_t *records;

record_t *new_record(caller_t *c) {
  record_t *record = calloc(1, sizeof *record);
  CHECK(record != NULL);
  record->function = c->function;
  record->home = c->home;
  record->seed = draw(c, UINT64_MAX);
  record->next = __atomic_load_n(&records, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&records, &record->next, record, 0, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {}
  return record;
}

/* Waits for the outstanding callbacks of workers that the library destroys on a thread of its own;
 * the guard is the limit. */
int check_records(void) {
  int wrong = 0;
  for (record_t *record = records, *next; record != NULL; record = next) {
    next = record->next;
    STEP("waiting for %s: called %d of %d times, freed %d of %d", record->function, record->told,
         record->least, record->freed, record->frees);
    while (__atomic_load_n(&record->told, __ATOMIC_ACQUIRE) < record->least ||
           __atomic_load_n(&record->freed, __ATOMIC_ACQUIRE) < record->frees)
      usleep(1000);
    if (record->told > record->most || record->opened > 1 || record->freed > record->frees) {
      wrong++;
      fprintf(stderr,
              "%s: %d calls, expected %d to %d; opened %d times; argument freed %d times, expected "
              "%d\n",
              record->function, record->told, record->least, record->most, record->opened,
              record->freed, record->frees);
    }
    free(record);
  }
  records = NULL;
  return wrong;
}

void tell(record_t *record) { __atomic_add_fetch(&record->told, 1, __ATOMIC_RELEASE); }

/* On any thread, possibly inside another call. */
void call_back(record_t *record) {
  static __thread int depth;
  if (depth > 0 || __atomic_load_n(&over, __ATOMIC_ACQUIRE)) return;
  uint64_t random =
      test_mix(record->seed + (uint64_t)__atomic_load_n(&record->told, __ATOMIC_RELAXED));
  if (random % 2 != 0) return;
  caller_t *c = calloc(1, sizeof *c);
  CHECK(c != NULL);
  c->random = random;
  c->depth = ++depth;
  for (uint64_t count = 1 + random / 2 % 3; count > 0; count--) one_call(c);
  depth--;
  free(c);
}

void on_request(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  record_t *record = arg;
  if (status == UCXX_INPROGRESS) FAIL("%s: its callback got INPROGRESS", record->function);
  if (request != NULL && ucxx_request_status(request) != status)
    FAIL("%s: its callback got %s, its request has %s", record->function, ucxx_status_name(status),
         ucxx_status_name(ucxx_request_status(request)));
  call_back(record);
  tell(record);
}

void on_open(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  record_t *record = arg;
  (void)endpoint;
  CHECK_OK(status);
  __atomic_add_fetch(&record->opened, 1, __ATOMIC_RELEASE);
  call_back(record);
}

void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  record_t *record = arg;
  (void)endpoint;
  (void)status;
  call_back(record);
  tell(record);
}

void on_writable(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  on_close(arg, endpoint, status);
}

void on_connect(void *arg, ucxx_conn_request_t *conn_request) {
  record_t *record = arg;
  tell(record);
  call_back(record);
  keep_at(record->home, KIND_conn_request, conn_request, 0);
}

void on_am(void *arg, ucxx_am_message_t *message) {
  record_t *record = arg;
  tell(record);
  call_back(record);
  keep_at(record->home, KIND_am_message, message, 0);
}

void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  record_t *record = arg;
  tell(record);
  call_back(record);
  keep_at(record->home, KIND_fetch, fetch, 0);
}

void on_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
              ucxx_buffers_t *buffers, ucxx_status_t status) {
  record_t *record = arg;
  (void)reply;
  CHECK(header != NULL || header_length == 0);
  CHECK((buffers != NULL) == (status == UCXX_OK));
  tell(record);
  call_back(record);
  keep_at(NULL, KIND_buffers, buffers, 0);
}

void on_free(void *arg) {
  record_t *record = arg;
  call_back(record);
  __atomic_add_fetch(&record->freed, 1, __ATOMIC_RELEASE);
}

void on_run(void *arg) {
  record_t *record = arg;
  call_back(record);
  tell(record);
}

void on_line(void *arg, const char *text) {
  (void)arg;
  CHECK(text != NULL && strlen(text) < 100000);
}

void on_variable(void *arg, const char *key, const char *value) {
  (void)arg;
  CHECK(key != NULL && value != NULL && strlen(key) > 0);
}

void on_log(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg;
  CHECK(level >= UCXX_LOG_ERROR && level <= UCXX_LOG_TRACE && component != NULL && message != NULL);
}

void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  record_t *record = arg;
  CHECK(link != NULL && (status == UCXX_OK || status == UCXX_ERR_CLOSED));
  tell(record);
  call_back(record);
}

void on_buffer_gone(void *arg, void *data) {
  (void)arg;
  CHECK(data != NULL);
}

ucxx_status_t on_allgather(void *arg, const void *data, size_t length, void *out) {
  /* A larger group has no other members here. */
  if (arg != NULL) return UCXX_ERR_APPLICATION;
  memcpy(out, data, length);
  return UCXX_OK;
}

/* ------------------------------------------------------------------ buffers */

/* Buffers that the allocator has made and nobody has returned. There are few at a time, so a list
 * is enough. */
enum { MADE = 4096 };
static void *made[MADE];
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

static int replace(void *old, void *new) {
  int found = 0;
  pthread_mutex_lock(&made_lock);
  for (int at = 0; at < MADE && !found; at++)
    if (made[at] == old) {
      made[at] = new;
      found = 1;
    }
  pthread_mutex_unlock(&made_lock);
  return found;
}

ucxx_status_t on_allocate(void *arg, size_t length, int32_t type, int32_t device_id, void **data) {
  static unsigned count;
  (void)arg;
  (void)type;
  (void)device_id;
  CHECK(length > 0);
  if (__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % 16 == 15) return UCXX_ERR_APPLICATION - 7;
  void *bytes = malloc(length);
  if (bytes == NULL || !replace(NULL, bytes)) {
    free(bytes);
    return UCXX_ERR_NO_MEMORY;
  }
  *data = bytes;
  return UCXX_OK;
}

void on_deallocate(void *arg, void *data, size_t length, int32_t type, int32_t device_id) {
  (void)arg;
  (void)length;
  (void)type;
  (void)device_id;
  if (!replace(data, NULL)) FAIL("memory was deallocated twice, or was never allocated");
  free(data);
}

void free_taken(void *data) {
  replace(data, NULL);
  free(data);
}

int allocations_left(void) {
  int count = 0;
  for (int at = 0; at < MADE; at++) count += made[at] != NULL;
  return count;
}
