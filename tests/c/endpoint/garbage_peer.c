/*
 * A peer that sends garbage to a live worker: messages of every kind that the library sends,
 * changed at random and at the limits of each count, length and offset; duplicates, replays from
 * closed connections, replies to nobody. All traffic of an honest peer beside it is checked.
 * Afterwards the worker uses no more resources than before.
 *
 *   garbage_peer [EPISODES]
 */
#include "garbage.h"
#include "hub_stream.h"
#include "killed_peer.h"

#include <malloc.h>
#include <poll.h>

enum { ID_ANY = 1, ID_HONEST = 2, ID_INVITE = 3, GARBLERS = 2, EPISODES = 16, OPERATIONS = 60 };
enum {
  LARGEST = 60000,
  SECRET = 32,
  TAG_GARBLED = 77,
  STREAMS = 2,
  CHUNK = 20000,
  ENVELOPES = 4,
  STREAM_WINDOW = 4
};
enum { KEPT_KIB = 24 * 1024 };

static uint8_t secret[SECRET]; /* the garbling peer does not know it */
static uint8_t data[LARGEST], back[LARGEST];
static uint64_t sum; /* sum of all bytes read, so that the compiler keeps the reads */

/* The beginning of each of the honest peer's messages. */
typedef struct claim {
  uint8_t secret[SECRET];
  uint64_t number, length;
} claim_t;

static void read_all(const void *bytes, size_t length) {
  for (size_t at = 0; at < length; at++) sum += ((const uint8_t *)bytes)[at];
}

static int is_honest(const void *header, size_t length, claim_t *claim) {
  if (length != sizeof *claim) return 0;
  memcpy(claim, header, sizeof *claim);
  return memcmp(claim->secret, secret, SECRET) == 0;
}

/* ------------------------------------------------------------------ the worker that is attacked */

static ucxx_worker_t *worker;
static ucxx_context_t *context;
static uint64_t honest_messages, honest_frames, garbage_came;
static end_t ends[STREAMS];
static ucxx_endpoint_t *invited;
/* Handles of connections being closed, destroyed when the close has completed. */
static struct closed {
  ucxx_endpoint_t *endpoint;
  ucxx_request_t *closing;
} closed[1024];
static unsigned closes;

static void on_any(void *arg, ucxx_am_message_t *message) {
  size_t header_length, length = ucxx_am_message_length(message);
  const void *header = ucxx_am_message_header(message, &header_length),
             *here = ucxx_am_message_data(message);
  static uint8_t room[LARGEST];
  (void)arg;
  garbage_came++;
  read_all(header, header_length);
  if (here != NULL) {
    read_all(here, length);
  } else if (length > 0) {
    ucxx_status_t status = ucxx_am_message_recv(message, room, sizeof room, NULL, NULL);
    CHECK(status <= UCXX_INPROGRESS);
  }
  if (ucxx_am_message_reply(message) != NULL)
    CHECK(ucxx_am_send(ucxx_am_message_reply(message), ID_ANY, header, header_length % 64, data,
                       length % 300, NULL, NULL) <= UCXX_INPROGRESS);
  ucxx_am_message_destroy(message);
}

static void received(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  claim_t *claim = arg;
  (void)request;
  CHECK_OK(status);
  CHECK_CONTENT((uint8_t *)(claim + 1), claim->length, claim->number);
  honest_messages++;
  free(claim);
}

static void on_honest(void *arg, ucxx_am_message_t *message) {
  size_t header_length, length = ucxx_am_message_length(message);
  const void *header = ucxx_am_message_header(message, &header_length);
  claim_t claim;
  if (!is_honest(header, header_length, &claim)) {
    on_any(arg, message);
    return;
  }
  CHECK_EQ(length, claim.length);
  if (ucxx_am_message_data(message) != NULL || length == 0) {
    CHECK_CONTENT(ucxx_am_message_data(message), length, claim.number);
    honest_messages++;
  } else {
    claim_t *room = test_alloc(sizeof *room + length);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    *room = claim;
    params.callback = received;
    params.callback_arg = room;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    ucxx_status_t status = ucxx_am_message_recv(message, room + 1, length, &params, NULL);
    CHECK(status == UCXX_INPROGRESS || status == UCXX_OK);
  }
  ucxx_am_message_destroy(message);
}

static void on_question(void *arg, ucxx_fetch_t *fetch) {
  size_t header_length, length;
  const void *header = ucxx_fetch_header(fetch, &header_length),
             *question = ucxx_fetch_data(fetch, &length);
  claim_t claim;
  (void)arg;
  if (is_honest(header, header_length, &claim)) {
    CHECK_EQ(length, 0);
    uint8_t *answer = test_alloc(claim.length);
    test_fill(answer, claim.length, claim.number);
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_fetch_reply(fetch, answer, claim.length, NULL, &request);
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    /* The buffer must outlive its receive. */
    static struct {
      ucxx_request_t *request;
      uint8_t *answer;
    } under_way[64];
    static unsigned next;
    unsigned place = next++ % 64;
    CHECK(under_way[place].request == NULL ||
          ucxx_request_status(under_way[place].request) != UCXX_INPROGRESS);
    if (under_way[place].request != NULL) ucxx_request_destroy(under_way[place].request);
    free(under_way[place].answer);
    under_way[place].request = request;
    under_way[place].answer = answer;
  } else {
    garbage_came++;
    read_all(header, header_length);
    read_all(question, length);
    if (header_length % 5 != 0)
      CHECK(ucxx_fetch_reply(fetch, data, length % 3 == 0 ? 40000 : 100, NULL, NULL) <=
            UCXX_INPROGRESS);
  }
  ucxx_fetch_destroy(fetch);
}

static void on_frames(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                      ucxx_buffers_t *buffers, ucxx_status_t status) {
  claim_t claim;
  int honest = is_honest(header, header_length, &claim);
  (void)arg;
  (void)reply;
  CHECK(!honest || status == UCXX_OK);
  garbage_came += !honest;
  for (size_t at = 0; status == UCXX_OK && at < ucxx_buffers_count(buffers); at++) {
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_buffers_get(buffers, at, &buffer));
    if (honest)
      CHECK_CONTENT(buffer.data, buffer.length, claim.number);
    else
      read_all(buffer.data, buffer.length);
  }
  honest_frames += honest;
  ucxx_buffers_destroy(buffers);
}

/* The peer asks for hub streams: creates this side's ends on the connection that the peer made. */
static void on_invitation(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  if (invited == NULL && ucxx_am_message_reply(message) != NULL &&
      ucxx_endpoint_retain(ucxx_am_message_reply(message), &invited) != UCXX_OK)
    invited = NULL;
  ucxx_am_message_destroy(message);
}

/* 0 receives chunks, 1 sends them: the other side's 1 sends to this side's 0. Its endpoint may be
 * closed already. */
static void stream_open(end_t *end, unsigned which, unsigned stream, ucxx_endpoint_t *endpoint) {
  *end = end_open(context, worker, CHUNK, ENVELOPES);
  (void)ucxx_link_connect(which == 0 ? end->in : end->out, endpoint, stream, STREAM_WINDOW);
}

/* Consumes all chunks, and produces while envelopes are free. */
static void stream_use(end_t *end, unsigned which) {
  ucxx_envelope_t *envelope = NULL;
  if (end->hub == NULL || ucxx_link_lease(which == 0 ? end->out : end->in, 0, &envelope) != UCXX_OK)
    return;
  ucxx_envelope_attr_t attr = look_at(envelope);
  if (which == 0) read_all(attr.data, attr.length);
  CHECK_OK(ucxx_envelope_commit(envelope, which == 0 ? 0 : draw() % attr.capacity, NULL));
}

static void streams_end(void) {
  for (unsigned at = 0; at < STREAMS; at++) {
    if (ends[at].hub != NULL) end_close(&ends[at]);
    memset(&ends[at], 0, sizeof ends[at]);
  }
}

static ucxx_request_t *many_receive(void) {
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  ucxx_request_t *request = NULL;
  allocator.max_frames = 400;
  allocator.max_total_bytes = 1 << 20;
  CHECK_STATUS(ucxx_tag_recv_multi(worker, TAG_GARBLED, UINT64_MAX, &allocator, NULL, &request),
               UCXX_INPROGRESS);
  return request;
}

/* Ends what is left of an episode, and drops what nobody receives. */
static void clean_up(ucxx_request_t **many) {
  streams_end();
  if (invited != NULL) {
    CHECK(closes < sizeof closed / sizeof *closed);
    closed[closes].endpoint = invited;
    (void)ucxx_endpoint_close(invited, UCXX_CLOSE_FORCE, NULL, &closed[closes++].closing);
    invited = NULL;
  }
  CHECK_OK(ucxx_request_cancel(*many));
  while (ucxx_request_status(*many) == UCXX_INPROGRESS) progress(worker);
  ucxx_request_destroy(*many);
  *many = NULL;
  ucxx_tag_message_t *message = NULL;
  ucxx_recv_info_t info = {0};
  while (ucxx_tag_probe(worker, TAG_GARBLED, UINT64_MAX, &info, &message) == UCXX_OK) {
    ucxx_tag_message_destroy(message);
    progress(worker);
  }
}

static void count_endpoint(void *arg, const char *line) {
  *(unsigned *)arg += strstr(line, "  endpoint to ") == line;
}

/* Counts also those that the library made for peers. */
static unsigned connections(void) {
  unsigned count = 0;
  CHECK_OK(ucxx_worker_dump(worker, count_endpoint, &count));
  return count;
}

/* One garbling process, from start to exit. Each byte on its channel marks the end of an
 * episode. */
static void suffer(uint64_t seed, unsigned episodes, uint32_t spared) {
  victim_t garbler;
  ucxx_address_destroy(victim_start(&garbler, worker, "garbler"));
  channel_put(&garbler.pair, &seed, sizeof seed);
  channel_put(&garbler.pair, &episodes, sizeof episodes);
  channel_put(&garbler.pair, &spared, sizeof spared);
  for (unsigned episode = 0; episode < episodes; episode++) {
    ucxx_request_t *many = many_receive();
    STEP("episode %u of seed 0x%llx", episode, (unsigned long long)seed);
    for (struct pollfd input = {garbler.pair.channel, POLLIN, 0}; poll(&input, 1, 0) == 0;) {
      progress(worker);
      if (ucxx_request_status(many) != UCXX_INPROGRESS) {
        ucxx_buffers_t *buffers = NULL;
        CHECK(ucxx_request_take_buffers(many, &buffers) <= UCXX_OK);
        ucxx_buffers_destroy(buffers);
        ucxx_request_destroy(many);
        many = many_receive();
      }
      if (invited != NULL && ends[0].hub == NULL) {
        for (unsigned at = 0; at < STREAMS; at++) stream_open(&ends[at], at, at, invited);
      }
      for (unsigned at = 0; at < STREAMS; at++) stream_use(&ends[at], at);
    }
    garbler.pair.worker = worker;
    pair_await(&garbler.pair);
    clean_up(&many);
    pair_tell(&garbler.pair);
  }
  int status = 0;
  while (waitpid(garbler.pid, &status, WNOHANG) == 0) progress(worker);
  if (status != 0) FAIL("the garbling process ended with 0x%x", (unsigned)status);
  close(garbler.pair.channel);
  while (closes > 0) {
    struct closed *one = &closed[--closes];
    while (one->closing != NULL && ucxx_request_status(one->closing) == UCXX_INPROGRESS)
      progress(worker);
    ucxx_request_destroy(one->closing);
    ucxx_endpoint_destroy(one->endpoint);
    memset(one, 0, sizeof *one);
  }
  /* All its endpoints are closed; the honest peer's is not. */
  while (connections() > 1) progress(worker);
  CHECK_EQ(connections(), 1);
}

static footprint_t settled(void) {
  malloc_trim(0);
  return footprint_now();
}

static void open_worker(void) {
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.max_frames = 400;
  allocator.max_total_bytes = 1 << 20;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_ANY, on_any, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_HONEST, on_honest, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID_INVITE, on_invitation, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(worker, ID_ANY, on_question, NULL, NULL));
  CHECK_OK(ucxx_worker_set_multi_handler(worker, ID_ANY, on_frames, NULL, NULL, &allocator));
}

static void close_worker(void) {
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

static void be_attacked(unsigned episodes) {
  uint64_t seed = test_seed();
  uint32_t spared;
  victim_t honest;
  footprint_t first = {0};
  garbage.state = seed;
  test_fill(secret, SECRET, seed);
  test_fill(data, sizeof data, 1);
  open_worker();
  STEP("the honest peer");
  ucxx_address_destroy(victim_start(&honest, worker, "honest"));
  honest.pair.worker = worker;
  channel_put(&honest.pair, secret, SECRET);
  pair_await(&honest.pair);
  channel_get(&honest.pair, &spared, sizeof spared);
  CHECK(spared != 0);
  for (unsigned at = 0; at < GARBLERS; at++) {
    suffer(test_mix(seed + at), episodes / GARBLERS, spared);
    if (at == GARBLERS / 2 - 1) first = settled();
  }
  footprint_t last = settled();
  STEP("the descriptors of %ld, of which %ld are to be left", last.descriptors, first.descriptors);
  while (last.descriptors > first.descriptors) {
    progress(worker);
    last = settled();
  }
  uint64_t rounds;
  pair_tell(&honest.pair);
  pair_await(&honest.pair);
  channel_get(&honest.pair, &rounds, sizeof rounds);
  int status = 0;
  while (waitpid(honest.pid, &status, WNOHANG) == 0) progress(worker);
  CHECK_EQ(status, 0);
  close(honest.pair.channel);
  printf("%u episodes, %llu garbage messages reached a handler; %llu rounds of the "
         "honest peer; %ld to %ld KiB, %ld to %ld descriptors, %ld to %ld mappings\n",
         episodes, (unsigned long long)garbage_came, (unsigned long long)rounds, first.resident_kib,
         last.resident_kib, first.descriptors, last.descriptors, first.mappings, last.mappings);
  while (honest_messages < 2 * rounds || honest_frames < rounds) progress(worker);
  /* The honest peer lost no message and got none twice. */
  CHECK_EQ(honest_messages, 2 * rounds);
  CHECK_EQ(honest_frames, rounds);
  CHECK(rounds > 0 && garbage_came > 0);
  CHECK(last.resident_kib <= first.resident_kib + KEPT_KIB);
  CHECK_EQ(last.threads, first.threads);
  close_worker();
}

/* ------------------------------------------------------------------ the honest peer */

static void be_honest(const char *descriptor) {
  pair_t pair = victim_channel(descriptor);
  open_worker();
  pair.worker = worker;
  ucxx_endpoint_t *endpoint = victim_answer(&pair, worker);
  channel_get(&pair, secret, SECRET);
  uint64_t rounds = 0;
  for (struct pollfd input = {pair.channel, POLLIN, 0}; rounds == 0 || poll(&input, 1, 0) == 0;) {
    static const size_t lengths[] = {0, 8, 100, 3000, 9000, LARGEST};
    claim_t claim = {.number = rounds, .length = lengths[rounds % 6]};
    ucxx_request_t *requests[4] = {NULL};
    memcpy(claim.secret, secret, SECRET);
    test_fill(data, claim.length, rounds);
    CHECK_OK(finish(ucxx_am_send(endpoint, ID_HONEST, &claim, sizeof claim, data, claim.length,
                                 NULL, &requests[0]),
                    &requests[0]));
    CHECK_OK(finish(ucxx_am_send(endpoint, ID_HONEST, &claim, sizeof claim, data, claim.length,
                                 NULL, &requests[1]),
                    &requests[1]));
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_recv_info_t info = {0};
    params.recv_info = &info;
    CHECK_OK(finish(ucxx_am_fetch(endpoint, ID_ANY, &claim, sizeof claim, back, sizeof back,
                                  &params, &requests[2]),
                    &requests[2]));
    CHECK_EQ(info.length, claim.length);
    CHECK_CONTENT(back, claim.length, rounds);
    ucxx_buffer_t frames[2] = {
        {.data = data, .length = claim.length, .memory_type = UCXX_MEMORY_HOST},
        {.data = data, .length = claim.length / 2, .memory_type = UCXX_MEMORY_HOST}};
    CHECK_OK(finish(
        ucxx_am_send_multi(endpoint, ID_ANY, &claim, sizeof claim, frames, 2, NULL, &requests[3]),
        &requests[3]));
    rounds++;
    if (rounds == 1) {
      uint32_t number = garbage.last;
      CHECK(number != 0);
      pair_tell(&pair);
      channel_put(&pair, &number, sizeof number);
    }
  }
  pair_await(&pair);
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_endpoint_status(endpoint));
  CHECK_OK(finish(close_patiently(endpoint, &request), &request));
  ucxx_endpoint_destroy(endpoint);
  pair_tell(&pair);
  channel_put(&pair, &rounds, sizeof rounds);
  close_worker();
}

/* ------------------------------------------------------------------ the garbling peer */

static void ignore(ucxx_status_t status) { CHECK(status <= UCXX_INPROGRESS); }

/* Starts one of each sending operation, with lengths for each protocol. The result does not
 * matter. */
static void operate(ucxx_endpoint_t *endpoint, ucxx_request_t **questions, unsigned number) {
  static const size_t lengths[] = {0, 8, 50, 200, 2000, 30000};
  static const uint64_t flags[] = {0, UCXX_FLAG_AM_REPLY, UCXX_FLAG_RNDV};
  static uint8_t answers[OPERATIONS][20000];
  size_t length = lengths[draw() % 6], header_length = one_in(2) ? draw() % 40 : draw() % 300;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_buffer_t frames[5];
  memset(frames, 0, sizeof frames);
  for (unsigned at = 0; at < 5; at++)
    frames[at] =
        (ucxx_buffer_t){.data = data, .length = draw() % 400, .memory_type = UCXX_MEMORY_HOST};
  switch (draw() % 8) {
  case 0:
  case 1:
    params.flags = flags[draw() % 3];
    ignore(ucxx_am_send(endpoint, (uint16_t)(1 + draw() % 2), data, header_length, data, length,
                        &params, NULL));
    break;
  case 2:
  case 3:
    ignore(ucxx_am_fetch(endpoint, (uint16_t)(1 + draw() % 2), data, header_length, answers[number],
                         one_in(4) ? 10 : sizeof answers[number], NULL, &questions[number]));
    break;
  case 4:
    ignore(
        ucxx_am_send_multi(endpoint, ID_ANY, data, header_length, frames, draw() % 6, NULL, NULL));
    break;
  case 5: ignore(ucxx_tag_send_multi(endpoint, frames, draw() % 6, TAG_GARBLED, NULL, NULL)); break;
  case 6: ignore(ucxx_am_queue_send(endpoint, data, length, NULL, NULL)); break;
  default: ignore(ucxx_endpoint_flush(endpoint, NULL, NULL));
  }
}

/* Connections being closed. That takes a second if the Bye or its answer was garbled. */
enum { MOST_LEFT = 8 };
static struct left {
  ucxx_endpoint_t *endpoint;
  ucxx_request_t *closing, *questions[OPERATIONS];
} left[MOST_LEFT];
static unsigned lefts;

static void leave_behind(void) {
  while (lefts > 0) {
    struct left *one = &left[--lefts];
    while (one->closing != NULL && ucxx_request_status(one->closing) == UCXX_INPROGRESS)
      progress(worker);
    ucxx_request_destroy(one->closing);
    for (unsigned at = 0; at < OPERATIONS; at++) {
      while (one->questions[at] != NULL &&
             ucxx_request_status(one->questions[at]) == UCXX_INPROGRESS)
        progress(worker);
      ucxx_request_destroy(one->questions[at]);
    }
    ucxx_endpoint_destroy(one->endpoint);
    memset(one, 0, sizeof *one);
  }
  garbage_forget();
}

static void episode(const pair_t *pair, ucxx_address_t *address) {
  static const unsigned rates[] = {2, 5, 15, 40};
  if (lefts == MOST_LEFT) leave_behind();
  struct left *mine = &left[lefts++];
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_op_params_t reply = UCXX_OP_PARAMS_INIT;
  reply.flags = UCXX_FLAG_AM_REPLY;
  garbage_begin(rates[draw() % 4]);
  /* Half of the connections are established before the garbage begins. */
  garbage.on = one_in(2);
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &endpoint));
  mine->endpoint = endpoint;
  ignore(ucxx_am_send(endpoint, ID_INVITE, NULL, 0, NULL, 0, &reply, NULL));
  for (unsigned at = 0; at < STREAMS; at++) stream_open(&ends[at], at, 1 - at, endpoint);
  for (unsigned at = 0; at < OPERATIONS && ucxx_endpoint_status(endpoint) == UCXX_OK; at++) {
    operate(endpoint, mine->questions, at);
    garbage.on = at >= 5 || garbage.on;
    for (unsigned turn = 0; turn < 20; turn++) {
      progress(worker);
      for (unsigned which = 0; which < STREAMS; which++) stream_use(&ends[which], which);
    }
  }
  streams_end();
  ucxx_op_params_t soon = UCXX_OP_PARAMS_INIT;
  soon.timeout_ns = 20 * MILLISECOND;
  garbage.on = one_in(8);
  ignore(ucxx_endpoint_close(endpoint, one_in(2) ? UCXX_CLOSE_FORCE : UCXX_CLOSE_FLUSH, &soon,
                             &mine->closing));
  pair_sync(pair);
}

static void speak_garbage(const char *descriptor) {
  pair_t pair = victim_channel(descriptor);
  unsigned episodes;
  open_worker();
  pair.worker = worker;
  ucxx_address_t *address = pair_exchange_address(&pair, worker);
  channel_get(&pair, &garbage.state, sizeof garbage.state);
  channel_get(&pair, &episodes, sizeof episodes);
  uint32_t honest;
  channel_get(&pair, &honest, sizeof honest);
  spare(0, honest);
  garbage.tag = TAG_GARBLED;
  garbage.records = 1;
  test_fill(data, sizeof data, garbage.state);
  for (unsigned at = 0; at < episodes; at++) episode(&pair, address);
  leave_behind();
  printf("%u messages, %u replayed, %u changed, of which %u have a sequence number, %u replaced "
         "by changed ones\n",
         garbage.sent, garbage.replayed, garbage.changed, garbage.fitted, garbage.replaced);
  CHECK(garbage.replayed > 0 && garbage.changed > 0);
  garbage.on = 0;
  ucxx_address_destroy(address);
  close_worker();
}

int main(int argc, char **argv) {
  const char *role = argc == 3 ? argv[2] : "";
  char name[64];
  snprintf(name, sizeof name, "garbage_peer %s", role);
  test_begin(name);
  if (strcmp(role, "honest") == 0)
    be_honest(argv[1]);
  else if (strcmp(role, "garbler") == 0)
    speak_garbage(argv[1]);
  else
    be_attacked(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : test_rounds(EPISODES));
  return 0;
}
