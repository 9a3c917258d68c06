/*
 * Active messages of random sizes, headers, ids and protocols, both ways at once. Each arrives
 * once, whole and in the order sent, however the receiver takes it: read in place, kept, received
 * in the handler, later, or by another thread.
 */
#include "test_util.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MESSAGES = 1500, IDS = 4, HEADER = 24, MOST_PARTS = 5, UNDER_WAY = 40, LONGEST = 3 << 20 };
static const uint16_t ids[IDS] = {0, 1, 700, 65535};

typedef struct head {
  uint64_t number, length, seed;
} head_t;

typedef struct outgoing {
  uint8_t *data;
  ucxx_request_t *request;
} outgoing_t;

/* State of this side. */
static pair_t *pair;
static uint64_t received; /* changed by the handler alone */
static atomic_ullong finished;
static uint64_t expected_total;
static size_t longest_header;

/* Messages kept for the main loop or for the other thread. */
typedef struct kept {
  ucxx_am_message_t *message;
  struct kept *next;
} kept_t;
static kept_t *kept, *for_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint done_by_thread;
static atomic_int stop;
static int threads; /* a worker that any thread may use */

typedef struct pulled {
  ucxx_am_message_t *message;
  uint8_t *buffer;
  head_t head;
} pulled_t;

static head_t head_of(const ucxx_am_message_t *message) {
  head_t head;
  size_t length = 0;
  const uint8_t *bytes = ucxx_am_message_header(message, &length);
  CHECK(bytes != NULL && length >= sizeof head);
  memcpy(&head, bytes, sizeof head);
  for (size_t at = sizeof head; at < length; at++) CHECK_EQ(bytes[at], (uint8_t)(head.seed + at));
  CHECK_EQ(ucxx_am_message_length(message), head.length);
  return head;
}

static void check_in_place(const ucxx_am_message_t *message) {
  head_t head = head_of(message);
  const void *data = ucxx_am_message_data(message);
  CHECK(data != NULL || head.length == 0);
  CHECK_CONTENT(data, head.length, head.seed);
}

static void receive_blocking(ucxx_am_message_t *message) {
  head_t head = head_of(message);
  uint8_t *buffer = test_alloc(head.length + 1);
  ucxx_request_t *request = NULL;
  ucxx_recv_info_t info = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  buffer[head.length] = 0x5a;
  if (head.seed % 2 == 0) {
    CHECK_OK(
        finish(ucxx_am_message_recv(message, buffer, head.length, &params, &request), &request));
  } else {
    size_t half = head.length / 3;
    ucxx_buffer_t parts[2] = {{.data = buffer, .length = half},
                              {.data = buffer + half, .length = head.length - half}};
    CHECK_OK(finish(ucxx_am_message_recv_iov(message, parts, 2, &params, &request), &request));
  }
  CHECK_EQ(info.length, head.length);
  CHECK_STATUS(ucxx_am_message_recv(message, buffer, head.length, NULL, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_CONTENT(buffer, head.length, head.seed);
  CHECK_EQ(buffer[head.length], 0x5a);
  ucxx_am_message_destroy(message);
  free(buffer);
}

static void pulled_it(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  pulled_t *pull = arg;
  (void)request;
  CHECK_OK(status);
  CHECK_CONTENT(pull->buffer, pull->head.length, pull->head.seed);
  if (pull->message != NULL) ucxx_am_message_destroy(pull->message);
  free(pull->buffer);
  free(pull);
  finished++;
}

static void receive_in_handler(ucxx_am_message_t *message, int destroy_at_once) {
  pulled_t *pull = test_alloc(sizeof *pull);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  pull->message = destroy_at_once ? NULL : message;
  pull->head = head_of(message);
  pull->buffer = test_alloc(pull->head.length);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = pulled_it;
  params.callback_arg = pull;
  CHECK_STATUS(ucxx_am_message_recv(message, pull->buffer, pull->head.length, &params, NULL),
               UCXX_INPROGRESS);
  if (destroy_at_once) ucxx_am_message_destroy(message);
}

static void keep(kept_t **list, ucxx_am_message_t *message) {
  kept_t *entry = test_alloc(sizeof *entry);
  entry->message = message;
  pthread_mutex_lock(&lock);
  entry->next = *list;
  *list = entry;
  pthread_mutex_unlock(&lock);
}

static ucxx_am_message_t *take(kept_t **list) {
  pthread_mutex_lock(&lock);
  kept_t *entry = *list;
  if (entry != NULL) *list = entry->next;
  pthread_mutex_unlock(&lock);
  if (entry == NULL) return NULL;
  ucxx_am_message_t *message = entry->message;
  free(entry);
  return message;
}

static void handle(void *arg, ucxx_am_message_t *message) {
  head_t head = head_of(message);
  CHECK(arg == pair);
  CHECK_EQ(head.number, received);
  received++;
  int asked = head.seed % 3 == 0;
  CHECK((ucxx_am_message_reply(message) != NULL) == asked);
  if (asked) CHECK(ucxx_am_message_reply(message) == pair->endpoint);
  switch (test_mix(head.seed) % 6) {
  case 0:
  case 1:
    if (ucxx_am_message_data(message) != NULL || head.length == 0) {
      check_in_place(message);
      ucxx_am_message_destroy(message);
      finished++;
      break;
    } /* fall through */
  case 2: receive_in_handler(message, 0); break;
  case 3: receive_in_handler(message, 1); break;
  case 4:
    if (threads) {
      keep(&for_thread, message);
      break;
    } /* fall through */
  default: keep(&kept, message);
  }
}

static void *receive_elsewhere(void *arg) {
  (void)arg;
  for (;;) {
    ucxx_am_message_t *message = take(&for_thread);
    if (message != NULL) {
      receive_blocking(message);
      atomic_fetch_add(&done_by_thread, 1);
    } else if (atomic_load(&stop)) {
      return NULL;
    } else {
      sched_yield();
    }
  }
}

static size_t length_for(uint64_t random) {
  static const size_t edges[] = {0,    1,    8,    91,    92,      93,           1023,
                                 1024, 8191, 8192, 65536, 1 << 20, (1 << 20) + 1};
  switch (random % 8) {
  case 0: return edges[(random >> 8) % (sizeof edges / sizeof *edges)];
  case 1: return (random >> 8) % (64 << 10);
  case 2: return (random >> 40) % 20 == 0 ? (random >> 8) % LONGEST : (random >> 8) % 100000;
  default: return (random >> 8) % 300;
  }
}

static void send_one(outgoing_t *out, uint64_t number) {
  uint64_t random = test_mix(pair->seed + number * 2 + (uint64_t)pair->side);
  head_t head = {number, length_for(random), random};
  uint8_t header[9000];
  size_t header_length =
      sizeof head +
      (random % 5 == 0 ? test_mix(random) % (longest_header - sizeof head + 1) : random % 40);
  uint16_t id = ids[test_mix(random + 1) % IDS];
  CHECK(header_length <= sizeof header);
  memcpy(header, &head, sizeof head);
  for (size_t at = sizeof head; at < header_length; at++) header[at] = (uint8_t)(head.seed + at);
  out->data = test_alloc(head.length);
  test_fill(out->data, head.length, head.seed);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  static const uint64_t protocols[] = {0, 0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  params.flags =
      protocols[test_mix(random + 2) % 4] | (head.seed % 3 == 0 ? UCXX_FLAG_AM_REPLY : 0);
  params.memory_type = random % 2 ? UCXX_MEMORY_HOST : UCXX_MEMORY_AUTO;
  ucxx_status_t status;
  if (test_mix(random + 3) % 4 != 0) {
    status = ucxx_am_send(pair->endpoint, id, header, header_length, out->data, head.length,
                          &params, &out->request);
  } else {
    ucxx_buffer_t parts[MOST_PARTS];
    size_t count = 1 + test_mix(random + 4) % MOST_PARTS, at = 0;
    memset(parts, 0, sizeof parts);
    for (size_t part = 0; part < count; part++) {
      size_t length = part + 1 == count ? head.length - at : (head.length - at) / 2;
      parts[part].data = out->data + at;
      parts[part].length = length;
      at += length;
    }
    status = ucxx_am_send_iov(pair->endpoint, id, header, header_length, parts, count, &params,
                              &out->request);
  }
  memset(header, 0xee, sizeof header);
  if (status == UCXX_OK) {
    free(out->data);
    out->data = NULL;
  } else {
    CHECK_STATUS(status, UCXX_INPROGRESS);
  }
}

static void work_off(void) {
  ucxx_am_message_t *message = take(&kept);
  if (message != NULL) {
    receive_blocking(message);
    finished++;
  }
}

static void round_of(const ucxx_worker_params_t *worker_params, const char *how) {
  STEP("%s", how);
  outgoing_t out[UNDER_WAY];
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  received = finished = 0;
  atomic_store(&done_by_thread, 0);
  atomic_store(&stop, 0);
  threads = worker_params->progress_mode != UCXX_PROGRESS_MANUAL;
  memset(out, 0, sizeof out);
  pair_connect(pair, NULL, worker_params, NULL);
  CHECK_OK(ucxx_worker_query(pair->worker, &attr));
  longest_header = attr.max_am_header;
  CHECK(longest_header >= 1000 && longest_header < 9000);
  for (int id = 0; id < IDS; id++)
    CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ids[id], handle, pair, NULL));
  pair_sync(pair);
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, receive_elsewhere, NULL), 0);
  expected_total = MESSAGES;
  uint64_t sent = 0, complete = 0;
  while (complete < MESSAGES || finished + atomic_load(&done_by_thread) < expected_total) {
    for (int at = 0; at < UNDER_WAY; at++) {
      if (out[at].request != NULL && ucxx_request_status(out[at].request) != UCXX_INPROGRESS) {
        CHECK_OK(ucxx_request_status(out[at].request));
        ucxx_request_destroy(out[at].request);
        free(out[at].data);
        memset(&out[at], 0, sizeof out[at]);
        complete++;
      }
      if (out[at].request == NULL && sent < MESSAGES) {
        send_one(&out[at], sent++);
        complete += out[at].request == NULL;
      }
    }
    work_off();
    progress(pair->worker);
  }
  CHECK_EQ(received, MESSAGES);
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  pair_sync(pair);
  pair_disconnect(pair);
}

static void body(pair_t *own) {
  pair = own;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "am_random", body); }
