/*
 * Active messages that arrive faster than the receiver takes them: what waits is bounded on both
 * sides, whichever side is slow, and each accepted message arrives once and in order.
 */
#include "test_util.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum {
  ID = 3,
  ANSWER_ID = 4,
  LOOK_UP_ID = 5,
  OFFERS = 1000000,
  WARM_UP = 150000,
  MESSAGES = 100000,
  LONG = 4096,
  MOST_DATA = 65 << 10,
  CREDIT = 256
};

static pair_t *pair;
static uint8_t content[MOST_DATA];
static atomic_uint_fast64_t received;

typedef struct mode {
  const char *name;
  int32_t thread_mode, progress_mode;
} way_t;
static const way_t modes[] = {
    {"manual", UCXX_THREAD_SINGLE, UCXX_PROGRESS_MANUAL},
    {"a progress thread", UCXX_THREAD_MULTI, UCXX_PROGRESS_THREAD_ADAPTIVE}};

static ucxx_worker_params_t worker_params(const way_t *mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = mode->thread_mode;
  params.progress_mode = mode->progress_mode;
  return params;
}

static ucxx_endpoint_load_t attr_now(void) {
  ucxx_endpoint_load_t attr = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_endpoint_query_load(pair->endpoint, &attr));
  return attr;
}

static long resident_kib(void) {
  malloc_trim(0);
  return footprint_now().resident_kib;
}

/* ------------------------------------------------------------------ one message */

static size_t length_of(uint64_t number) {
  static const size_t lengths[] = {0, 8, 8, 100, 8, 40, 8, 1000};
  return number % 16 == 5 ? LONG : lengths[test_mix(number) % 8];
}

/* The header has the number, and the library copies it. All messages share the data, so that
 * nothing has to outlive the call. */
static ucxx_status_t send_message(ucxx_endpoint_t *endpoint, uint16_t id, uint64_t number,
                                  size_t length, uint64_t flags) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  return ucxx_am_send(endpoint, id, &number, sizeof number, content, length, &params, NULL);
}

static uint64_t number_of(const ucxx_am_message_t *message, size_t length) {
  uint64_t number = 0;
  size_t header_length = 0;
  const void *header = ucxx_am_message_header(message, &header_length);
  CHECK_EQ(header_length, sizeof number);
  memcpy(&number, header, sizeof number);
  CHECK_EQ(ucxx_am_message_length(message), length == SIZE_MAX ? length_of(number) : length);
  const void *data = ucxx_am_message_data(message);
  if (data != NULL) CHECK(memcmp(data, content, ucxx_am_message_length(message)) == 0);
  return number;
}

/* ------------------------------------------------------------------ a million offers */

static atomic_int armed;
static atomic_uint told;
static uint64_t sent, refused;

static void on_room(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  CHECK(arg == &armed && endpoint == pair->endpoint);
  CHECK_OK(status);
  atomic_fetch_add(&told, 1);
  atomic_store(&armed, 0);
}

static void offer(uint64_t flags) {
  ucxx_status_t status = send_message(pair->endpoint, ID, sent, length_of(sent), flags);
  if (status >= 0) {
    sent++;
    return;
  }
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
  refused++;
  if (!atomic_exchange(&armed, 1))
    CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, on_room, &armed));
}

static void receive_in_order(void *arg, ucxx_am_message_t *message) {
  CHECK(arg == &received);
  CHECK_EQ(number_of(message, SIZE_MAX), atomic_load(&received));
  CHECK(ucxx_am_message_data(message) != NULL || ucxx_am_message_length(message) == 0);
  ucxx_am_message_destroy(message);
  atomic_fetch_add(&received, 1);
}

/*
 * Requests to the receiver while it is idle or keeps messages; and by how much its memory may grow
 * after the first offers. In shared memory reading touches pages of the sender's slots.
 */
enum { HOW_MUCH = '?', GO_ON = '!', GROWTH_KIB = 4096, GROWTH_WITH_ALL_KIB = 8192 };

/* The main thread progresses if there is no progress thread. */
static int by_hand;

static void await_bytes(void) {
  char byte;
  while (by_hand && recv(pair->channel, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0)
    progress(pair->worker);
}

/* The other side may have to receive what is queued here first. */
static long resident_there(void) {
  char question = HOW_MUCH;
  long kib = 0;
  channel_put(pair, &question, 1);
  await_bytes();
  channel_get(pair, &kib, sizeof kib);
  return kib;
}

/* Answers requests until GO_ON. Meanwhile the worker progresses, or stays untouched. */
static void await_word(int gets_on) {
  for (;;) {
    char word = 0;
    if (gets_on) await_bytes();
    channel_get(pair, &word, 1);
    if (word == GO_ON) return;
    CHECK_EQ(word, HOW_MUCH);
    /* Each time all credit has been used. */
    while (gets_on && atomic_load(&received) < CREDIT) progress(pair->worker);
    long kib = resident_kib();
    channel_put(pair, &kib, sizeof kib);
  }
}

static ucxx_am_message_t *waiting[CREDIT];
static atomic_int keeps_all;

static void receive_or_keep(void *arg, ucxx_am_message_t *message) {
  uint64_t number = atomic_load(&received);
  if (!atomic_load(&keeps_all)) {
    receive_in_order(arg, message);
    return;
  }
  CHECK(number < CREDIT);
  CHECK_EQ(number_of(message, SIZE_MAX), number);
  waiting[number] = message;
  atomic_fetch_add(&received, 1);
}

static void receive_a_million(int keeps, uint64_t messages) {
  await_word(keeps);
  if (keeps) {
    /* All credit was used, and no further message arrives before these are destroyed. */
    CHECK_EQ(atomic_load(&received), CREDIT);
    atomic_store(&keeps_all, 0);
    for (unsigned at = 0; at < CREDIT; at++) {
      CHECK_EQ(number_of(waiting[at], SIZE_MAX), at);
      ucxx_am_message_destroy(waiting[at]);
    }
  }
  while (atomic_load(&received) < messages) progress(pair->worker);
  await_word(1);
  pair_sync(pair);
  CHECK_EQ(atomic_load(&received), messages);
  pair_disconnect(pair);
}

/* Does not yield as progress() does: on a busy machine that would take most of the time of a
 * million offers. */
static void pass(void) {
  ucxx_status_t status = ucxx_worker_progress(pair->worker, NULL);
  if (status != UCXX_ERR_BUSY) CHECK_OK(status);
}

/* The receiver does not progress at all, or its handler keeps every message. */
static void million(const way_t *mode, uint64_t flags, uint32_t queue, int keeps) {
  const char *what =
      keeps ? "a receiver that keeps a million" : "a receiver that does not progress";
  const uint64_t messages = keeps ? MESSAGES / 5 : MESSAGES;
  STEP("%s, %s: %s", mode->name, flags ? "NO_WAIT" : "a queue with a limit", what);
  /* A receiver that must not progress needs manual progress. */
  ucxx_worker_params_t params = worker_params(pair->side == 0 || keeps ? mode : &modes[0]);
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint_params.send_queue_ops = queue;
  sent = refused = 0;
  atomic_store(&received, 0);
  atomic_store(&told, 0);
  atomic_store(&armed, 0);
  atomic_store(&keeps_all, keeps);
  by_hand = params.progress_mode == UCXX_PROGRESS_MANUAL;
  pair_connect(pair, NULL, &params, &endpoint_params);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, receive_or_keep, &received, NULL));
  pair_sync(pair);
  if (pair->side == 1) {
    receive_a_million(keeps, messages);
    return;
  }
  long before = 0, before_there = 0;
  uint32_t ring = 0;
  if (mode->progress_mode != UCXX_PROGRESS_MANUAL) ring = 4096;
  for (unsigned i = 0; i < OFFERS; i++) {
    offer(flags);
    if (i % 64 == 0) pass();
    /* valgrind's list of freed blocks is full by now. */
    if (i == WARM_UP) {
      before = resident_kib();
      before_there = resident_there();
    }
    if (i % 1000 == 0) CHECK(attr_now().queued_operations <= (uint64_t)queue + ring);
  }
  long grown = resident_kib() - before, grown_there = resident_there() - before_there;
  printf("%llu accepted, %llu refused, %+ld KiB, %+ld KiB at the receiver\n",
         (unsigned long long)sent, (unsigned long long)refused, grown, grown_there);
  CHECK(grown < GROWTH_KIB);
  CHECK(grown_there < GROWTH_KIB);
  CHECK(sent <= CREDIT + (uint64_t)queue + ring);
  CHECK(refused >= OFFERS - sent);
  STEP("%s: the receiver continues", mode->name);
  uint64_t stood = sent;
  char word = GO_ON;
  channel_put(pair, &word, 1);
  while (sent < messages) {
    if (!atomic_load(&armed))
      offer(flags);
    else
      progress(pair->worker);
  }
  printf("on_writable ran %u times\n", atomic_load(&told));
  CHECK(stood >= messages || atomic_load(&told) > 0);
  CHECK(resident_kib() - before < GROWTH_WITH_ALL_KIB);
  CHECK(resident_there() - before_there < GROWTH_WITH_ALL_KIB);
  channel_put(pair, &word, 1);
  pair_sync(pair);
  pair_disconnect(pair);
}

/* ------------------------------------------------------------------ a receiver that keeps
 * everything */

typedef struct kept {
  ucxx_am_message_t *messages[2 * CREDIT];
  size_t length;
  atomic_uint count;
} kept_t;

static void keep(void *arg, ucxx_am_message_t *message) {
  kept_t *kept = arg;
  unsigned count = atomic_load(&kept->count);
  CHECK_EQ(number_of(message, kept->length), atomic_load(&received));
  CHECK(count < CREDIT);
  kept->messages[count] = message;
  atomic_fetch_add(&received, 1);
  atomic_store(&kept->count, count + 1);
}

static void receiver_keeps(const way_t *mode, size_t length, uint64_t flags, unsigned credit) {
  /* After so many rounds valgrind's list of freed blocks is full. */
  enum { ROUNDS = 20, SETTLED = 4, REFUSED = 5000 };
  STEP("%s: a receiver that keeps messages of %zu bytes", mode->name, length);
  ucxx_worker_params_t params = worker_params(mode);
  static kept_t kept;
  memset(&kept, 0, sizeof kept);
  kept.length = length;
  atomic_store(&received, 0);
  pair_connect(pair, NULL, &params, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, keep, &kept, NULL));
  pair_sync(pair);
  long empty = resident_kib(), before = 0;
  uint64_t number = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (pair->side == 0) {
      unsigned accepted = 0;
      while (accepted < credit) {
        ucxx_status_t status = send_message(pair->endpoint, ID, number, length, flags);
        if (status < 0) {
          CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
          progress(pair->worker);
          continue;
        }
        number++;
        accepted++;
      }
      ucxx_request_t *flush = NULL;
      CHECK_OK(finish(ucxx_endpoint_flush(pair->endpoint, NULL, &flush), &flush));
      for (int i = 0; i < REFUSED; i++) {
        CHECK_STATUS(send_message(pair->endpoint, ID, number, length, flags), UCXX_ERR_NO_RESOURCE);
        if (i % 64 == 0) progress(pair->worker);
      }
      CHECK(!ucxx_endpoint_writable(pair->endpoint));
    } else {
      while (atomic_load(&kept.count) < credit) progress(pair->worker);
    }
    pair_sync(pair);
    if (pair->side == 1) {
      CHECK_EQ(atomic_load(&kept.count), credit);
      for (unsigned i = 0; i < credit; i++)
        CHECK_EQ(number_of(kept.messages[i], length), (uint64_t)round * credit + i);
    }
    if (round == 0) {
      long held = resident_kib() - empty;
      printf("side %d: %u messages, %+ld KiB\n", pair->side, credit, held);
      CHECK(held < 16 << 10);
    }
    if (round == SETTLED) before = resident_kib();
    if (round == ROUNDS - 1) {
      long grown = resident_kib() - before;
      printf("side %d: %+ld KiB\n", pair->side, grown);
      CHECK(grown < 2048);
    }
    if (pair->side == 1) {
      atomic_store(&kept.count, 0);
      for (unsigned i = 0; i < credit; i++) {
        unsigned at = (unsigned)((i * UINT64_C(7919) + (unsigned)round) % credit);
        ucxx_am_message_destroy(kept.messages[at]);
      }
    }
    pair_sync(pair);
  }
  pair_disconnect(pair);
}

/* ------------------------------------------------------------------ two sides that flood each
 * other */

enum { FLOOD = 20000, QUEUE = 300 };
static atomic_uchar answered[FLOOD];
static atomic_uint_fast64_t answers, answers_sent;
static atomic_uchar looked_up[FLOOD];
static atomic_uint_fast64_t look_ups, look_ups_answered;
static int look_up_too;

/* Sends that a handler could not post; the main loop posts them again. */
typedef struct refusals {
  uint32_t numbers[FLOOD];
  unsigned count;
} refusals_t;
static refusals_t refused_answers, refused_look_ups;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void refuse(refusals_t *refusals, uint64_t number) {
  pthread_mutex_lock(&lock);
  CHECK(refusals->count < FLOOD);
  refusals->numbers[refusals->count++] = (uint32_t)number;
  pthread_mutex_unlock(&lock);
}

static void again(refusals_t *refusals, void (*begin)(ucxx_endpoint_t *endpoint, uint64_t number)) {
  pthread_mutex_lock(&lock);
  unsigned count = refusals->count;
  uint64_t number = count > 0 ? refusals->numbers[--refusals->count] : 0;
  pthread_mutex_unlock(&lock);
  if (count > 0) begin(pair->endpoint, number);
}

static size_t question_length(uint64_t number) {
  return number % 97 == 13 ? 20000 : length_of(number);
}

static void answer(ucxx_endpoint_t *endpoint, uint64_t number) {
  ucxx_status_t status =
      send_message(endpoint, ANSWER_ID, number, 8, number % 3 ? 0 : UCXX_FLAG_NO_WAIT);
  if (status >= 0) {
    atomic_fetch_add(&answers_sent, 1);
    return;
  }
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
  refuse(&refused_answers, number);
}

/* The receiver of a message fetches from its sender. For some messages the fetch's reply is what
 * triggers the answer. */
static int answered_when_looked_up(uint64_t number) { return look_up_too && number % 4 == 2; }

typedef struct look_up {
  uint64_t number;
  ucxx_recv_info_t info;
  uint8_t data[];
} look_up_t;

static size_t look_up_length(uint64_t number) {
  return number % 89 == 7 ? 20000 : length_of(number + 1);
}

static const uint8_t *look_up_content(uint64_t number) { return content + number % 1000; }

static void found(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  look_up_t *look_up = arg;
  uint64_t number = look_up->number;
  (void)request;
  CHECK_OK(status);
  CHECK_EQ(look_up->info.length, look_up_length(number));
  CHECK(memcmp(look_up->data, look_up_content(number), look_up_length(number)) == 0);
  CHECK_EQ(atomic_exchange(&looked_up[number], 1), 0);
  free(look_up);
  if (answered_when_looked_up(number)) answer(pair->endpoint, number);
  atomic_fetch_add(&look_ups, 1);
}

static void look_up(ucxx_endpoint_t *endpoint, uint64_t number) {
  size_t capacity = look_up_length(number) + number % 3;
  look_up_t *own = test_alloc(sizeof *own + capacity);
  own->number = number;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = number % 5 == 0 ? UCXX_FLAG_NO_WAIT : 0;
  params.callback = found;
  params.callback_arg = own;
  params.recv_info = &own->info;
  params.memory_type = UCXX_MEMORY_HOST;
  ucxx_status_t status = ucxx_am_fetch(endpoint, LOOK_UP_ID, &number, sizeof number, own->data,
                                       capacity, &params, NULL);
  if (status == UCXX_INPROGRESS) return;
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
  free(own);
  refuse(&refused_look_ups, number);
}

static void on_look_up(void *arg, ucxx_fetch_t *fetch) {
  uint64_t number = 0;
  size_t length = 0;
  const void *header = ucxx_fetch_header(fetch, &length);
  CHECK(arg == NULL);
  CHECK_EQ(length, sizeof number);
  memcpy(&number, header, sizeof number);
  CHECK(number < FLOOD);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = number % 89 == 7 ? UCXX_FLAG_RNDV : 0;
  /* A reply is accepted even if the queue is full. */
  CHECK(ucxx_fetch_reply(fetch, look_up_content(number), look_up_length(number), &params, NULL) >=
        0);
  ucxx_fetch_destroy(fetch);
  atomic_fetch_add(&look_ups_answered, 1);
}

typedef struct pull {
  ucxx_am_message_t *message;
  uint64_t number;
  size_t length;
  uint8_t data[];
} pull_t;

static void pulled(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  pull_t *pull = arg;
  (void)request;
  CHECK_OK(status);
  CHECK(memcmp(pull->data, content, pull->length) == 0);
  if (!answered_when_looked_up(pull->number))
    answer(ucxx_am_message_reply(pull->message), pull->number);
  ucxx_am_message_destroy(pull->message);
  free(pull);
}

static void on_question(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  size_t length = ucxx_am_message_length(message);
  uint64_t number = number_of(message, length);
  CHECK_EQ(number, atomic_fetch_add(&received, 1));
  CHECK_EQ(length, question_length(number));
  CHECK(ucxx_am_message_reply(message) == pair->endpoint);
  if (look_up_too) look_up(ucxx_am_message_reply(message), number);
  if (length == 0 || ucxx_am_message_data(message) != NULL) {
    if (!answered_when_looked_up(number)) answer(ucxx_am_message_reply(message), number);
    ucxx_am_message_destroy(message);
    return;
  }
  pull_t *pull = test_alloc(sizeof *pull + length);
  *pull = (pull_t){.message = message, .number = number, .length = length};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.callback = pulled;
  params.callback_arg = pull;
  CHECK_EQ(ucxx_am_message_recv(message, pull->data, length, &params, NULL), UCXX_INPROGRESS);
}

static void on_answer(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  uint64_t number = number_of(message, 8);
  CHECK(number < FLOOD);
  CHECK_EQ(atomic_exchange(&answered[number], 1), 0);
  atomic_fetch_add(&answers, 1);
  ucxx_am_message_destroy(message);
}

static void flood_each_other(const way_t *mode, int fetch) {
  STEP("%s: both sides flood each other, and answer %sfrom their handlers", mode->name,
       fetch ? "and fetch " : "");
  ucxx_worker_params_t params = worker_params(mode);
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint_params.send_queue_ops = QUEUE;
  memset(answered, 0, sizeof answered);
  atomic_store(&received, 0);
  atomic_store(&answers, 0);
  atomic_store(&answers_sent, 0);
  memset(looked_up, 0, sizeof looked_up);
  atomic_store(&look_ups, 0);
  atomic_store(&look_ups_answered, 0);
  look_up_too = fetch;
  uint64_t all_look_ups = fetch ? FLOOD : 0;
  pair_connect(pair, NULL, &params, &endpoint_params);
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, on_question, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ANSWER_ID, on_answer, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(pair->worker, LOOK_UP_ID, on_look_up, NULL, NULL));
  pair_sync(pair);
  uint64_t asked = 0, no_room = 0;
  while (atomic_load(&answers) < FLOOD || atomic_load(&answers_sent) < FLOOD ||
         atomic_load(&look_ups) < all_look_ups) {
    if (asked < FLOOD) {
      uint64_t flags = UCXX_FLAG_AM_REPLY | (asked % 97 == 13 ? UCXX_FLAG_RNDV : 0);
      ucxx_status_t status = send_message(pair->endpoint, ID, asked, question_length(asked), flags);
      if (status >= 0) {
        if (++asked % 2000 == 0) STEP("%s: %u asked", mode->name, (unsigned)asked);
        continue;
      }
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
      no_room++;
    }
    again(&refused_answers, answer);
    again(&refused_look_ups, look_up);
    progress(pair->worker);
  }
  printf("side %d: no room %llu times\n", pair->side, (unsigned long long)no_room);
  CHECK(no_room > 0);
  pair_sync(pair);
  CHECK_EQ(atomic_load(&received), FLOOD);
  CHECK_EQ(atomic_load(&answers), FLOOD);
  CHECK_EQ(atomic_load(&look_ups), all_look_ups);
  CHECK_EQ(atomic_load(&look_ups_answered), all_look_ups);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair->worker, &stats));
  CHECK_EQ(stats.am_unhandled, 0);
  pair_disconnect(pair);
}

static void body(pair_t *own) {
  pair = own;
  test_fill(content, sizeof content, 1);
  for (size_t at = 0; at < sizeof modes / sizeof *modes; at++) {
    const way_t *mode = &modes[at];
    for (int keeps = 0; keeps < 2; keeps++) {
      million(mode, UCXX_FLAG_NO_WAIT, 0, keeps);
      million(mode, 0, 1000, keeps);
    }
    receiver_keeps(mode, 8, UCXX_FLAG_NO_WAIT, CREDIT);
    receiver_keeps(mode, LONG, UCXX_FLAG_NO_WAIT, CREDIT);
    /* The credit is 8 MiB and 256 KiB, and each message takes its length and 1 KiB: exactly 128
     * messages. */
    receiver_keeps(mode, MOST_DATA, UCXX_FLAG_NO_WAIT | UCXX_FLAG_EAGER,
                   (8192 + CREDIT) / (MOST_DATA / 1024 + 1));
    flood_each_other(mode, 0);
    flood_each_other(mode, 1);
  }
}

int main(int argc, char **argv) { return pair_main(argc, argv, "am_flood", body); }
