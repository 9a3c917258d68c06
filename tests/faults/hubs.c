/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Hubs whose links are connected to other actors' hubs, or whose chunks are sent to others as
 * messages. on_ready produces, consumes, sends and receives, so this continues while any thread
 * progresses the worker. A chunk's metadata has its sender, number and length, and its contents are
 * derived from those. A chunk that arrived as a message has no metadata and is identified by its
 * contents alone.
 */
#include "actor.h"

enum { HUBS = 32, WORDS = 3, REST_OF_METADATA = 64 - WORDS * sizeof(uint64_t) };
/* The words of a chunk's metadata. */
enum { NUMBER, LENGTH, SENDER };
/* Chunks that arrived as messages, whose order the harness checks; more than a round has. A damaged
 * chunk has no number. */
enum { LISTED = 2048, DAMAGED = 0xffffff };
/* The most envelopes of one hub. */
enum { OFFERED = 64 };

/* The endpoint over which chunks are sent or received as messages. */
typedef struct post {
  uint64_t at; /* the endpoint's id, or 0: none */
  ucxx_endpoint_t *endpoint;
  bool sends;
  uint64_t tag;
  unsigned group;
  char handle[8];
} post_t;

typedef struct hub {
  uint64_t id; /* the harness's number; 0 in an unused slot */
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  size_t size;
  unsigned group; /* the group that violations of contents are counted under */
  uint64_t in_at, out_at; /* endpoints that the links are connected to, or 0 */
  unsigned producing,
      consuming; /* requests made while another thread is working, counting the first */
  /* Below `lock`, which is not held across library calls. */
  pthread_mutex_t lock;
  uint64_t sender, made, most;
  bool closes, consumes, over;
  uint64_t from, next, came,
      /* sender of the next expected chunk; how many arrived, and how many of them repeatedly */
      again;
  uint64_t back, ahead; /* by how much the next number may differ, as a new stream begins with it */
  bool by_message;
  post_t post;
  uint32_t listed[LISTED]; /* numbers of the arrived chunks, if they arrive as messages */
} hub_t;

static hub_t hubs[HUBS];

static hub_t *hub_of(const command_t *command) {
  uint64_t id = number_of(command, "hub", 0);
  for (size_t at = 0; at < HUBS; at++)
    if (id != 0 && hubs[at].id == id) return &hubs[at];
  give_up("no such hub");
}

/* ------------------------------------------------------------------ chunks */

/* Empty, a few bytes, and up to the whole capacity. */
static size_t length_of(uint64_t sender, uint64_t number, size_t most) {
  uint64_t mixed = mix(sender << 32 ^ number);
  size_t limit = mixed % 4 == 0 && most > 100 ? 100 : most;
  return mixed % 16 == 5 ? 0 : mix(mixed) % (limit + 1);
}

static ucxx_envelope_attr_t look_at(const ucxx_envelope_t *envelope) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  ucxx_status_t status = ucxx_envelope_query(envelope, &attr);
  if (status != UCXX_OK || attr.metadata_length != 64)
    violation("completion", "envelope_query=%s", short_name(status));
  return attr;
}

static size_t fill(const hub_t *hub, const ucxx_envelope_t *envelope, uint64_t sender,
                   uint64_t number) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  size_t length = length_of(sender, number, attr.capacity);
  /* The shortest length that identifies the chunk. */
  length = hub->by_message && length < 8 ? 8 : length;
  uint64_t words[WORDS] = {[NUMBER] = number, [LENGTH] = length, [SENDER] = sender};
  memcpy(attr.metadata, words, sizeof words);
  message_fill(attr.metadata + sizeof words, REST_OF_METADATA, sender, number);
  message_fill(attr.data, length, sender, number);
  return length;
}

/* Reads the sender and number; checks the contents. */
static void look(const hub_t *hub, const ucxx_envelope_t *envelope, uint64_t words[WORDS]) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  size_t where = 0;
  memcpy(words, attr.metadata, WORDS * sizeof *words);
  const uint8_t *rest = attr.metadata + WORDS * sizeof *words;
  if (message_check(rest, REST_OF_METADATA, &where) != INTACT ||
      !message_is(rest, REST_OF_METADATA, words[SENDER], words[NUMBER]) ||
      attr.length != words[LENGTH])
    violation("integrity",
              "what=metadata hub=%" PRIu64 " sender=%" PRIu64 " number=%" PRIu64 " length=%zu",
              hub->id, words[SENDER], words[NUMBER], attr.length);
  enum verdict verdict = message_check(attr.data, attr.length, &where);
  if ((attr.length >= 8 && verdict != INTACT) ||
      !message_is(attr.data, attr.length, words[SENDER], words[NUMBER]))
    violation("integrity",
              "what=chunk verdict=%d group=%u hub=%" PRIu64 " number=%" PRIu64
              " length=%zu where=%zu",
              verdict, hub->group, hub->id, words[NUMBER], attr.length, where);
}

/* The same for a chunk that arrived as a message. */
static void look_at_message(const hub_t *hub, const ucxx_envelope_t *envelope,
                            uint64_t words[WORDS]) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  size_t where = 0;
  enum verdict verdict = attr.length < 8 ? MIXED : message_check(attr.data, attr.length, &where);
  words[SENDER] = hub->from;
  words[NUMBER] = DAMAGED;
  if (verdict != INTACT) {
    violation("integrity", "what=message verdict=%d group=%u hub=%" PRIu64 " length=%zu where=%zu",
              verdict, hub->group, hub->id, attr.length, where);
    return;
  }
  message_name(attr.data, &words[SENDER], &words[NUMBER]);
  if (words[SENDER] != hub->from)
    violation("integrity",
              "what=sender hub=%" PRIu64 " sender=%" PRIu64 " number=%" PRIu64 " expected=%" PRIu64,
              hub->id, words[SENDER], words[NUMBER], hub->from);
}

/* ------------------------------------------------------------------ producing and consuming */

/* One thread at a time, which repeats if another asks meanwhile: callbacks arrive during the work,
 * and on other threads. */
static void take_turns(hub_t *hub, unsigned *asked, void (*work)(hub_t *)) {
  if (__atomic_fetch_add(asked, 1, __ATOMIC_ACQ_REL) != 0) return;
  for (;;) {
    unsigned seen = __atomic_load_n(asked, __ATOMIC_ACQUIRE);
    work(hub);
    if (__atomic_compare_exchange_n(asked, &seen, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return;
  }
}

static void produce_some(hub_t *hub) {
  for (;;) {
    pthread_mutex_lock(&hub->lock);
    uint64_t sender = hub->sender, number = hub->made;
    bool more = number < hub->most, ends = !more && hub->closes;
    hub->closes = hub->closes && !ends;
    pthread_mutex_unlock(&hub->lock);
    if (ends && ucxx_hub_close(hub->hub) != UCXX_OK)
      violation("completion", "hub_close=%s", ucxx_last_error_message());
    if (!more) return;
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status = ucxx_link_lease(hub->in, 0, &envelope);
    if (status == UCXX_ERR_NO_RESOURCE || status == UCXX_ERR_CLOSED) return;
    if (status == UCXX_OK)
      status = ucxx_envelope_commit(envelope, fill(hub, envelope, sender, number), NULL);
    if (status != UCXX_OK) {
      violation("completion", "produces=%s hub=%" PRIu64, short_name(status), hub->id);
      return;
    }
    pthread_mutex_lock(&hub->lock);
    hub->made++;
    pthread_mutex_unlock(&hub->lock);
  }
}

/* Whether this is the next expected chunk. Call with the lock held. For messages the harness checks
 * the order. */
static bool is_next(hub_t *hub, const uint64_t words[WORDS]) {
  if (hub->by_message) {
    if (hub->came == LISTED) give_up("too many chunks");
    hub->listed[hub->came++] = (uint32_t)words[NUMBER];
    return true;
  }
  uint64_t number = words[NUMBER],
           low = hub->next - (hub->back < hub->next ? hub->back : hub->next),
           high = hub->next + hub->ahead;
  /* Another sender begins with its first chunk. */
  bool right = words[SENDER] == hub->from ? number >= low && number <= high : number == 0;
  hub->again += words[SENDER] == hub->from && number < hub->next ? hub->next - number : 0;
  hub->from = words[SENDER];
  hub->next = number + 1;
  hub->back = 0;
  hub->ahead = 0;
  hub->came++;
  return right;
}

static void consume_some(hub_t *hub) {
  for (;;) {
    pthread_mutex_lock(&hub->lock);
    bool wanted = hub->consumes && !hub->over;
    pthread_mutex_unlock(&hub->lock);
    ucxx_envelope_t *envelope = NULL;
    uint64_t words[WORDS];
    ucxx_status_t status = wanted ? ucxx_link_lease(hub->out, 0, &envelope) : UCXX_ERR_NO_RESOURCE;
    if (status == UCXX_ERR_NO_RESOURCE) return;
    if (status != UCXX_OK && status != UCXX_ERR_CLOSED) {
      violation("completion", "consumes=%s hub=%" PRIu64, short_name(status), hub->id);
      return;
    }
    if (status == UCXX_OK) (hub->by_message ? look_at_message : look)(hub, envelope, words);
    pthread_mutex_lock(&hub->lock);
    uint64_t expected = hub->next;
    bool right = status != UCXX_OK || is_next(hub, words);
    hub->over = status == UCXX_ERR_CLOSED;
    pthread_mutex_unlock(&hub->lock);
    if (!right)
      violation("integrity",
                "what=order hub=%" PRIu64 " number=%" PRIu64 " sender=%" PRIu64
                " expected=%" PRIu64,
                hub->id, words[NUMBER], words[SENDER], expected);
    if (status == UCXX_ERR_CLOSED) {
      say("event hub_over hub=%" PRIu64, hub->id);
      return;
    }
    if ((status = ucxx_envelope_commit(envelope, 0, NULL)) != UCXX_OK)
      violation("completion", "commit=%s hub=%" PRIu64, short_name(status), hub->id);
  }
}

/* As many chunks, or free envelopes, as there are, each in its own operation. */
static void post_some(hub_t *hub, bool sends) {
  for (;;) {
    pthread_mutex_lock(&hub->lock);
    post_t post = hub->post;
    pthread_mutex_unlock(&hub->lock);
    if (post.at == 0 || post.sends != sends) return;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_request_t *request = NULL, **place = word_is(post.handle, "none") ? NULL : &request;
    uint64_t ticket = 0;
    operation_plain(post.group, post.handle, &params, &ticket);
    params.source = sends ? NULL : post.endpoint;
    ucxx_status_t status = sends ? ucxx_link_send(hub->out, post.endpoint, post.tag, &params, place)
                                 : ucxx_link_recv(hub->in, post.tag, UINT64_MAX, &params, place);
    operation_called(ticket, status, request);
    if (status >= 0) continue;
    if (status == UCXX_ERR_NO_RESOURCE) return;
    /* The hub is closed and empty; or the endpoint is closed, and its on_close has not run yet. */
    if (status != UCXX_ERR_CLOSED || ucxx_endpoint_status(post.endpoint) != UCXX_OK)
      say("event refused hub=%" PRIu64 " ep=%" PRIu64 " status=%s", hub->id, post.at,
          short_name(status));
    pthread_mutex_lock(&hub->lock);
    hub->post.at = hub->post.at == post.at ? 0 : hub->post.at;
    pthread_mutex_unlock(&hub->lock);
    return;
  }
}

static void fill_some(hub_t *hub) {
  produce_some(hub);
  post_some(hub, false);
}

static void empty_some(hub_t *hub) {
  consume_some(hub);
  post_some(hub, true);
}

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  hub_t *hub = arg;
  if (status != UCXX_OK && status != UCXX_ERR_CLOSED)
    violation("completion", "on_ready=%s hub=%" PRIu64, short_name(status), hub->id);
  if (link == hub->in)
    take_turns(hub, &hub->producing, fill_some);
  else
    take_turns(hub, &hub->consuming, empty_some);
}

/* ------------------------------------------------------------------ commands */

static ucxx_status_t make_link(hub_t *hub, int32_t type, ucxx_link_t **link) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.on_ready = on_ready;
  params.on_ready_arg = hub;
  return ucxx_link_create(hub->hub, type, (ucxx_memory_kind_t){UCXX_MEMORY_HOST, 0}, &params, link);
}

static void open_hub(const command_t *command) {
  hub_t *hub = NULL;
  for (size_t at = 0; at < HUBS && hub == NULL; at++)
    if (hubs[at].id == 0) hub = &hubs[at];
  if (hub == NULL) give_up("too many hubs");
  *hub = (hub_t){.id = number_of(command, "hub", 0),
                 .group = (unsigned)number_of(command, "group", 0),
                 .size = (size_t)number_of(command, "size", 8)};
  hub->from = number_of(command, "from", 0);
  hub->next = number_of(command, "next", 0);
  hub->consumes = number_of(command, "consumes", 0) != 0;
  hub->by_message = number_of(command, "by_message", 0) != 0;
  pthread_mutex_init(&hub->lock, NULL);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = hub->size;
  params.worker = worker;
  ucxx_status_t status = ucxx_hub_create(context, &params, &hub->hub);
  if (status == UCXX_OK)
    status = ucxx_hub_add_envelopes(hub->hub, (ucxx_memory_kind_t){UCXX_MEMORY_HOST, 0},
                                    (size_t)number_of(command, "envelopes", 1));
  if (status == UCXX_OK) status = make_link(hub, UCXX_LINK_PRODUCE, &hub->in);
  if (status == UCXX_OK) status = make_link(hub, UCXX_LINK_CONSUME, &hub->out);
  answer(command, status, " ");
}

static bool is_in(const command_t *command) {
  return word_is(text_of(command, "side", "in"), "in");
}

/* Reports the result: an earlier stream that is ending may still block it. */
static void connect_hub(const command_t *command) {
  hub_t *hub = hub_of(command);
  uint64_t *at = is_in(command) ? &hub->in_at : &hub->out_at;
  ucxx_link_t *link = is_in(command) ? hub->in : hub->out;
  *at = number_of(command, "ep", 0);
  ucxx_status_t status =
      ucxx_link_connect(link, endpoint_of(command, "ep"), number_of(command, "stream", 0),
                        (uint32_t)number_of(command, "window", 1));
  answer(command, UCXX_OK, "status=%s", short_name(status));
}

static void produce(const command_t *command) {
  hub_t *hub = hub_of(command);
  pthread_mutex_lock(&hub->lock);
  hub->sender = number_of(command, "sender", 0);
  hub->most = number_of(command, "most", 0);
  hub->closes = number_of(command, "closes", 0) != 0;
  pthread_mutex_unlock(&hub->lock);
  take_turns(hub, &hub->producing, fill_some);
  answer(command, UCXX_OK, " ");
}

static void consume(const command_t *command) {
  hub_t *hub = hub_of(command);
  pthread_mutex_lock(&hub->lock);
  hub->consumes = true;
  hub->back = number_of(command, "back", 0);
  hub->ahead = number_of(command, "ahead", 0);
  pthread_mutex_unlock(&hub->lock);
  take_turns(hub, &hub->consuming, empty_some);
  answer(command, UCXX_OK, " ");
}

static void tell(const command_t *command) {
  hub_t *hub = hub_of(command);
  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
  ucxx_status_t status = ucxx_hub_query_stats(hub->hub, &stats);
  pthread_mutex_lock(&hub->lock);
  uint64_t made = hub->made, next = hub->next, came = hub->came, again = hub->again,
           from = hub->from;
  pthread_mutex_unlock(&hub->lock);
  answer(command, status,
         "length=%" PRIu64 " leased=%" PRIu64 " free=%" PRIu64 " produced=%" PRIu64
         " consumed=%" PRIu64 " made=%" PRIu64 " from=%" PRIu64 " next=%" PRIu64 " came=%" PRIu64
         " again=%" PRIu64,
         stats.queued_chunks, stats.leased_envelopes, stats.free_envelopes, stats.chunks_produced,
         stats.chunks_consumed, made, from, next, came, again);
}

/* The status of a lease, and for a consumer the sender and number of the chunk. Takes nothing. */
static ucxx_status_t try_lease(const hub_t *hub, ucxx_link_t *link, uint64_t words[WORDS]) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status = ucxx_link_lease(link, 0, &envelope);
  if (status != UCXX_OK) return status;
  if (link == hub->out) look(hub, envelope, words);
  ucxx_status_t aborted = ucxx_envelope_abort(envelope, NULL);
  if (aborted != UCXX_OK)
    violation("completion", "abort=%s hub=%" PRIu64, short_name(aborted), hub->id);
  return status;
}

static void try_hub(const command_t *command) {
  hub_t *hub = hub_of(command);
  uint64_t words[WORDS] = {0};
  ucxx_status_t status = try_lease(hub, is_in(command) ? hub->in : hub->out, words);
  answer(command, UCXX_OK, "status=%s number=%" PRIu64 " sender=%" PRIu64, short_name(status),
         words[NUMBER], words[SENDER]);
}

/* From here on chunks are sent, or received, over this endpoint as messages with this tag; without
 * an endpoint no more are. */
static void post_hub(const command_t *command) {
  hub_t *hub = hub_of(command);
  post_t post = {.at = number_of(command, "ep", 0),
                 .endpoint = endpoint_of(command, "ep"),
                 .sends = !is_in(command),
                 .tag = number_of(command, "tag", 0)};
  post.group = (unsigned)number_of(command, "group", 0) % GROUPS;
  snprintf(post.handle, sizeof post.handle, "%s", text_of(command, "handle", "keep"));
  pthread_mutex_lock(&hub->lock);
  hub->post = post;
  hub->from = number_of(command, "sender", hub->from);
  pthread_mutex_unlock(&hub->lock);
  if (post.sends)
    take_turns(hub, &hub->consuming, empty_some);
  else
    take_turns(hub, &hub->producing, fill_some);
  answer(command, UCXX_OK, " ");
}

static void answer_list(const command_t *command, const uint32_t *numbers, size_t count) {
  char text[12000] = "";
  size_t used = 0;
  for (size_t at = 0; at < count && used < sizeof text - 12; at++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu32, at > 0 ? "," : "",
                             numbers[at]);
  answer(command, UCXX_OK, "count=%zu numbers=%s", count, text);
}

static void list_hub(const command_t *command) {
  hub_t *hub = hub_of(command);
  uint32_t numbers[LISTED];
  pthread_mutex_lock(&hub->lock);
  size_t count = hub->came;
  memcpy(numbers, hub->listed, count * sizeof *numbers);
  pthread_mutex_unlock(&hub->lock);
  answer_list(command, numbers, count);
}

/* Lists all chunks not leased, in the order in which they are offered. Takes nothing. */
static void list_offered(const command_t *command) {
  hub_t *hub = hub_of(command);
  ucxx_envelope_t *envelopes[OFFERED];
  uint32_t numbers[OFFERED];
  size_t count = 0;
  ucxx_status_t status = UCXX_OK;
  while (count < OFFERED && (status = ucxx_link_lease(hub->out, 0, &envelopes[count])) == UCXX_OK) {
    uint64_t words[WORDS];
    look(hub, envelopes[count], words);
    numbers[count++] = (uint32_t)words[NUMBER];
  }
  if (status != UCXX_ERR_NO_RESOURCE && status != UCXX_ERR_CLOSED)
    violation("completion", "offers=%s hub=%" PRIu64, short_name(status), hub->id);
  for (size_t at = 0; at < count; at++)
    if ((status = ucxx_envelope_abort(envelopes[at], NULL)) != UCXX_OK)
      violation("completion", "abort=%s hub=%" PRIu64, short_name(status), hub->id);
  answer_list(command, numbers, count);
}

/* When an endpoint's on_close runs, its streams must have returned all chunks. */
void hubs_endpoint_closed(uint64_t endpoint) {
  for (size_t at = 0; at < HUBS; at++) {
    hub_t *hub = &hubs[at];
    uint64_t words[WORDS];
    if (hub->id == 0 || hub->hub == NULL) continue;
    pthread_mutex_lock(&hub->lock);
    hub->post.at = hub->post.at == endpoint ? 0 : hub->post.at;
    pthread_mutex_unlock(&hub->lock);
    bool in = hub->in_at == endpoint, out = hub->out_at == endpoint;
    if ((in && try_lease(hub, hub->in, words) == UCXX_ERR_BUSY) ||
        (out && try_lease(hub, hub->out, words) == UCXX_ERR_BUSY))
      violation("completion",
                "what=on_close hub=%" PRIu64 ": a link of an endpoint that has ended is connected",
                hub->id);
    hub->in_at = in ? 0 : hub->in_at;
    hub->out_at = out ? 0 : hub->out_at;
  }
}

/* Destroys a link and creates another one in its place. */
static void relink(const command_t *command) {
  hub_t *hub = hub_of(command);
  ucxx_link_t **link = is_in(command) ? &hub->in : &hub->out;
  *(is_in(command) ? &hub->in_at : &hub->out_at) = 0;
  ucxx_link_destroy(*link);
  answer(command, make_link(hub, is_in(command) ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME, link),
         " ");
}

static void drop_hub(hub_t *hub, bool links_first) {
  if (!links_first) ucxx_hub_destroy(hub->hub);
  ucxx_link_destroy(hub->in);
  ucxx_link_destroy(hub->out);
  if (links_first) ucxx_hub_destroy(hub->hub);
  pthread_mutex_destroy(&hub->lock);
  hub->id = 0;
  hub->hub = NULL;
}

void hubs_leave(void) {
  for (size_t at = 0; at < HUBS; at++)
    if (hubs[at].id != 0) drop_hub(&hubs[at], at % 2 == 0);
}

bool command_hubs(const command_t *command) {
  const char *verb = command->verb;
  if (word_is(verb, "open_hub")) {
    open_hub(command);
  } else if (word_is(verb, "connect_hub")) {
    connect_hub(command);
  } else if (word_is(verb, "produce")) {
    produce(command);
  } else if (word_is(verb, "consume")) {
    consume(command);
  } else if (word_is(verb, "hub")) {
    tell(command);
  } else if (word_is(verb, "post_hub")) {
    post_hub(command);
  } else if (word_is(verb, "list_hub")) {
    list_hub(command);
  } else if (word_is(verb, "list_offered")) {
    list_offered(command);
  } else if (word_is(verb, "try_hub")) {
    try_hub(command);
  } else if (word_is(verb, "drained_hub")) {
    answer(command, UCXX_OK, "status=%s", short_name(ucxx_hub_drain(hub_of(command)->hub, 0)));
  } else if (word_is(verb, "relink")) {
    relink(command);
  } else if (word_is(verb, "close_hub")) {
    answer(command, ucxx_hub_close(hub_of(command)->hub), " ");
  } else if (word_is(verb, "drop_hub")) {
    drop_hub(hub_of(command), number_of(command, "links_first", 0) != 0);
    answer(command, UCXX_OK, " ");
  } else {
    return false;
  }
  return true;
}
