/* How streams end: closes with bytes in flight, a peer that dies, bytes that nobody receives.
 * Connections by address, by port and to the worker itself. */
#include "test_util.h"

#include "client_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct way {
  const char *name;
  int by_port;
  int32_t error_handling;
} way_t;
static const way_t ways[] = {
    {"by address, PEER", 0, UCXX_ENDPOINT_ERROR_HANDLING_PEER},
    {"by address, NONE", 0, UCXX_ENDPOINT_ERROR_HANDLING_NONE},
    {"by port, PEER", 1, UCXX_ENDPOINT_ERROR_HANDLING_PEER},
    {"by port, NONE", 1, UCXX_ENDPOINT_ERROR_HANDLING_NONE},
};
enum { WAYS = sizeof ways / sizeof *ways, SEVERAL = 3 };

typedef struct link {
  site_t site;
  ends_t here, there;
} link_t;

static const way_t *way;
static uint64_t seed;
static const char *program;

static void on_asked(void *arg, ucxx_conn_request_t *request) {
  link_t *link = arg;
  ucxx_endpoint_params_t params = watching(&link->there);
  params.error_handling = way->error_handling;
  CHECK_OK(ucxx_endpoint_accept(request, &params, &link->there.endpoint));
  ucxx_conn_request_destroy(request);
  __atomic_store_n(&link->site.asked, 1, __ATOMIC_RELEASE);
}

static void reach(ucxx_worker_t *from, ucxx_worker_t *to, ends_t *ends) {
  ucxx_endpoint_params_t params = watching(ends);
  ucxx_address_t *address = NULL;
  params.error_handling = way->error_handling;
  CHECK_OK(ucxx_worker_address(to, &address));
  CHECK_OK(ucxx_endpoint_create(from, address, &params, &ends->endpoint));
  ucxx_address_destroy(address);
}

static void open_workers(site_t *site, const manner_t *manner) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  memset(site, 0, sizeof *site);
  site->manner = manner;
  params.thread_mode = manner->thread_mode;
  params.progress_mode = manner->progress_mode;
  params.delayed_submission = manner->delayed;
  CHECK_OK(ucxx_context_create(NULL, &site->context));
  CHECK_OK(ucxx_worker_create(site->context, &params, &site->server));
  CHECK_OK(ucxx_worker_create(site->context, &params, &site->client));
}

/* `here` is the client's endpoint; the server's may not exist yet. */
static void open_link(link_t *link, const manner_t *manner) {
  memset(link, 0, sizeof *link);
  open_workers(&link->site, manner);
  if (way->by_port) {
    ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
    listening.on_connect = on_asked;
    listening.on_connect_arg = link;
    CHECK_OK(ucxx_listener_create(link->site.server, &listening, &link->site.listener));
    ucxx_endpoint_params_t params = watching(&link->here);
    params.error_handling = way->error_handling;
    CHECK_OK(ucxx_endpoint_connect(link->site.client, "127.0.0.1",
                                   ucxx_listener_port(link->site.listener), &params,
                                   &link->here.endpoint));
  } else {
    reach(link->site.client, link->site.server, &link->here);
    reach(link->site.server, link->site.client, &link->there);
    link->site.asked = 1;
  }
}

static void connect_both(link_t *link) {
  AWAIT(&link->site,
        asked(&link->site) && seen_count(&link->here.open) + seen_count(&link->there.open) == 2);
}

typedef struct take {
  ucxx_request_t *request;
  ucxx_status_t status;
  ucxx_recv_info_t info;
  uint8_t *data;
  size_t length;
} take_t;

static void post(take_t *take, ucxx_endpoint_t *endpoint, size_t length) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  memset(take, 0, sizeof *take);
  params.recv_info = &take->info;
  take->length = length;
  take->data = test_alloc(length);
  take->status = ucxx_stream_recv(endpoint, take->data, length, &params, &take->request);
}

/* The receive completed with this status and these bytes of the contents at `from`. */
static void taken(const site_t *site, take_t *take, ucxx_status_t expected, size_t length,
                  const uint8_t *from) {
  CHECK_STATUS(site_finish(site, take->status, &take->request), expected);
  CHECK_EQ(take->info.length, length);
  CHECK(memcmp(take->data, from, length) == 0);
  free(take->data);
}

static void send_all(const site_t *site, ucxx_endpoint_t *endpoint, const void *data,
                     size_t length) {
  ucxx_request_t *request = NULL;
  /* The other side has not progressed since a send that completed inside its call. */
  ucxx_status_t status = ucxx_stream_send(endpoint, data, length, NULL, &request);
  CHECK_OK(site_finish(site, status, &request));
}

static void close_here(link_t *link) {
  enum { BLIND = 100 };
  ucxx_request_t *request = NULL;
  ucxx_status_t status = close_patiently(link->here.endpoint, &request);
  /* The peer should find the data and the close in one pass, if the transport can do that. */
  if (link->site.manner->progress_mode == UCXX_PROGRESS_MANUAL)
    for (int pass = 0; pass < BLIND; pass++)
      CHECK_OK(ucxx_worker_progress(link->site.client, NULL));
  CHECK_OK(site_finish(&link->site, status, &request));
  AWAIT(&link->site, seen_count(&link->here.close) > 0);
}

static void close_link(link_t *link) {
  ucxx_endpoint_destroy(link->here.endpoint);
  ucxx_endpoint_destroy(link->there.endpoint);
  ucxx_listener_destroy(link->site.listener);
  ucxx_worker_destroy(link->site.client);
  ucxx_worker_destroy(link->site.server);
  ucxx_context_destroy(link->site.context);
}

/* Sends and receives submitted before the connection is established. */
static void early(const manner_t *manner) {
  STEP("%s, %s: before the connection is established", manner->name, way->name);
  enum { LENGTH = 100000 };
  link_t link;
  take_t here[SEVERAL], there;
  uint8_t *data = test_alloc(LENGTH);
  ucxx_request_t *sends[SEVERAL] = {NULL}, *back = NULL;
  ucxx_status_t status[SEVERAL];
  test_fill(data, LENGTH, seed);
  open_link(&link, manner);
  for (int at = 0; at < SEVERAL; at++) {
    post(&here[at], link.here.endpoint, LENGTH / 4);
    status[at] =
        ucxx_stream_send(link.here.endpoint, data + at * LENGTH / 4, LENGTH / 4, NULL, &sends[at]);
  }
  connect_both(&link);
  post(&there, link.there.endpoint, 3 * LENGTH / 4);
  ucxx_status_t sent = ucxx_stream_send(link.there.endpoint, data, LENGTH, NULL, &back);
  taken(&link.site, &there, UCXX_OK, 3 * LENGTH / 4, data);
  for (int at = 0; at < SEVERAL; at++) {
    CHECK_OK(site_finish(&link.site, status[at], &sends[at]));
    taken(&link.site, &here[at], UCXX_OK, LENGTH / 4, data + at * LENGTH / 4);
  }
  CHECK_OK(site_finish(&link.site, sent, &back));
  hang_up(&link.site, &link.here, &link.there);
  close_link(&link);
  free(data);
}

/* The peer has closed: receives return all that it had sent, and then report the close. */
static void read_after_close(const manner_t *manner) {
  STEP("%s, %s: read after the peer's close", manner->name, way->name);
  enum { LENGTH = 100000, BEGIN = 10, THEN = 50000, LAST = 40000 };
  link_t link;
  take_t take;
  uint8_t *data = test_alloc(LENGTH);
  test_fill(data, LENGTH, seed);
  open_link(&link, manner);
  connect_both(&link);
  post(&take, link.there.endpoint, BEGIN);
  send_all(&link.site, link.here.endpoint, data, LENGTH);
  taken(&link.site, &take, UCXX_OK, BEGIN, data);
  close_here(&link);
  AWAIT(&link.site, seen_count(&link.there.close) > 0);
  CHECK_STATUS(link.there.close.status, UCXX_ERR_CONNECTION_RESET);
  CHECK_STATUS(ucxx_stream_send(link.there.endpoint, data, 1, NULL, NULL),
               UCXX_ERR_CONNECTION_RESET);
  post(&take, link.there.endpoint, THEN);
  taken(&link.site, &take, UCXX_OK, THEN, data + BEGIN);
  post(&take, link.there.endpoint, LAST);
  taken(&link.site, &take, UCXX_OK, LAST, data + BEGIN + THEN);
  /* Asks for more than there is: the request fails and reports how much it received. */
  post(&take, link.there.endpoint, LENGTH);
  CHECK_STATUS(take.status, UCXX_INPROGRESS);
  taken(&link.site, &take, UCXX_ERR_CONNECTION_RESET, LENGTH - BEGIN - THEN - LAST,
        data + BEGIN + THEN + LAST);
  post(&take, link.there.endpoint, 1);
  CHECK_STATUS(take.status, UCXX_ERR_CONNECTION_RESET);
  free(take.data);
  /* A blocking receive reports a length of 0. */
  ucxx_recv_info_t info = {.length = 777};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.recv_info = &info;
  params.flags = UCXX_FLAG_WAIT;
  CHECK_STATUS(ucxx_stream_recv(link.there.endpoint, data, 1, &params, NULL),
               UCXX_ERR_CONNECTION_RESET);
  CHECK_EQ(info.length, 0);
  close_link(&link);
  free(data);
}

typedef struct order {
  int count;
  int seen[SEVERAL];
} order_t;
typedef struct turn {
  order_t *order;
  int number;
  ucxx_status_t status;
} turn_t;

static void in_turn(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  turn_t *turn = arg;
  (void)request;
  turn->status = status;
  int at = __atomic_load_n(&turn->order->count, __ATOMIC_ACQUIRE);
  turn->order->seen[at] = turn->number;
  __atomic_store_n(&turn->order->count, at + 1, __ATOMIC_RELEASE);
}

/* Receives that are posted when this side or the peer closes: they complete in order. */
static void posted_at_close(const manner_t *manner, int by_peer) {
  STEP("%s, %s: receives posted when %s closes", manner->name, way->name,
       by_peer ? "the peer" : "this side");
  enum { LENGTH = 100, SENT = 150 };
  link_t link;
  order_t order = {0, {0}};
  turn_t turns[SEVERAL];
  uint8_t data[SENT], in[SEVERAL][LENGTH];
  ucxx_recv_info_t info[SEVERAL];
  ucxx_endpoint_t *endpoint;
  test_fill(data, SENT, seed);
  open_link(&link, manner);
  connect_both(&link);
  endpoint = by_peer ? link.there.endpoint : link.here.endpoint;
  for (int at = 0; at < SEVERAL; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    turns[at] = (turn_t){&order, at, UCXX_OK};
    params.callback = in_turn;
    params.callback_arg = &turns[at];
    params.recv_info = &info[at];
    CHECK_STATUS(ucxx_stream_recv(endpoint, in[at], LENGTH, &params, NULL), UCXX_INPROGRESS);
  }
  if (by_peer) {
    send_all(&link.site, link.here.endpoint, data, SENT);
    close_here(&link);
    AWAIT(&link.site, seen_count(&link.there.close) > 0);
  } else {
    send_all(&link.site, link.there.endpoint, data, SENT);
    AWAIT(&link.site, __atomic_load_n(&order.count, __ATOMIC_ACQUIRE) == 1);
    close_here(&link);
  }
  AWAIT(&link.site, __atomic_load_n(&order.count, __ATOMIC_ACQUIRE) == SEVERAL);
  for (int at = 0; at < SEVERAL; at++) CHECK_EQ(order.seen[at], at);
  CHECK_OK(turns[0].status);
  CHECK(info[0].length == LENGTH && memcmp(in[0], data, LENGTH) == 0);
  for (int at = 1; at < SEVERAL; at++)
    CHECK_STATUS(turns[at].status, by_peer ? UCXX_ERR_CONNECTION_RESET : UCXX_ERR_CLOSED);
  CHECK(info[1].length == SENT - LENGTH && memcmp(in[1], data + LENGTH, SENT - LENGTH) == 0);
  CHECK_EQ(info[2].length, 0);
  CHECK_STATUS(ucxx_stream_recv(link.here.endpoint, in[0], 1, NULL, NULL), UCXX_ERR_CLOSED);
  close_link(&link);
}

/* UCX's warning if some of its objects were not returned. */
static void count_complaint(void *arg, int32_t level, const char *component, const char *message) {
  (void)level;
  (void)component;
  if (strstr(message, "mpool") != NULL || strstr(message, "leak") != NULL)
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

/* Bytes that nobody receives, or that are half received, with a receive posted, when an endpoint
 * closes or its worker is destroyed. */
static void unread(const manner_t *manner, int worker_goes) {
  STEP("%s, %s: unread when %s", manner->name, way->name,
       worker_goes ? "the worker is destroyed" : "the endpoint closes");
  enum { LENGTH = 50000, BEGIN = 1000 };
  static int complaints;
  link_t link;
  take_t take, last;
  uint8_t *data = test_alloc(LENGTH);
  test_fill(data, LENGTH, seed);
  CHECK_OK(ucxx_log_set_callback(count_complaint, &complaints, UCXX_LOG_WARN));
  open_link(&link, manner);
  connect_both(&link);
  post(&take, link.there.endpoint, BEGIN);
  post(&last, link.here.endpoint, BEGIN);
  send_all(&link.site, link.here.endpoint, data, LENGTH);
  taken(&link.site, &take, UCXX_OK, BEGIN, data);
  if (worker_goes) {
    ucxx_worker_destroy(link.site.server);
    ucxx_worker_destroy(link.site.client);
    link.site.server = link.site.client = NULL;
    CHECK_STATUS(last.status, UCXX_INPROGRESS);
    ucxx_status_t ended = ucxx_request_status(last.request);
    /* The other worker has announced its destruction. */
    CHECK(ended == UCXX_ERR_CANCELED || ended == UCXX_ERR_CONNECTION_RESET);
    ucxx_request_destroy(last.request);
    free(last.data);
  } else {
    ucxx_endpoint_t *there = link.there.endpoint;
    ucxx_request_t *request = NULL;
    CHECK_OK(site_finish(&link.site, close_patiently(there, &request), &request));
    taken(&link.site, &last, UCXX_ERR_CONNECTION_RESET, 0, data);
  }
  close_link(&link);
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  CHECK_EQ(complaints, 0);
  free(data);
}

/* A worker connected to itself receives what it sends, and sleeping threads wake for it. */
static void to_itself(const manner_t *manner) {
  STEP("%s, %s: to the worker itself", manner->name, way->name);
  enum { LENGTH = 300000 };
  site_t site;
  ends_t ends[2];
  take_t takes[2];
  uint8_t *data = test_alloc(2 * LENGTH);
  ucxx_request_t *requests[2] = {NULL};
  ucxx_status_t status[2];
  test_fill(data, 2 * LENGTH, seed);
  open_workers(&site, manner);
  for (int at = 0; at < 2; at++) {
    reach(site.client, site.client, &ends[at]);
    post(&takes[at], ends[at].endpoint, LENGTH);
  }
  for (int at = 0; at < 2; at++)
    status[at] =
        ucxx_stream_send(ends[at].endpoint, data + at * LENGTH, LENGTH, NULL, &requests[at]);
  for (int at = 0; at < 2; at++) {
    taken(&site, &takes[at], UCXX_OK, LENGTH, data + at * LENGTH);
    CHECK_OK(site_finish(&site, status[at], &requests[at]));
  }
  if (manner->progress_mode == UCXX_PROGRESS_MANUAL) {
    struct pollfd readable = {-1, POLLIN, 0};
    ucxx_status_t armed;
    CHECK_OK(ucxx_worker_event_fd(site.client, &readable.fd));
    post(&takes[0], ends[0].endpoint, 8);
    while ((armed = ucxx_worker_arm(site.client)) == UCXX_ERR_BUSY) progress(site.client);
    CHECK_OK(armed);
    send_all(&site, ends[0].endpoint, data, 8);
    CHECK_EQ(poll(&readable, 1, 0), 1);
    taken(&site, &takes[0], UCXX_OK, 8, data);
  }
  for (int at = 0; at < 2; at++) ucxx_endpoint_destroy(ends[at].endpoint);
  ucxx_worker_destroy(site.client);
  ucxx_worker_destroy(site.server);
  ucxx_context_destroy(site.context);
  free(data);
}

/* Without WAKEUP UCX uses a transport to itself where everything arrives inside the sending
 * call. */
static void inside_the_call(void) {
  STEP("arrived inside the call");
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_request_t *receive = NULL, *request = NULL;
  uint8_t data[1000], in[1000];
  params.features = UCXX_FEATURE_STREAM;
  test_fill(data, sizeof data, seed);
  CHECK_OK(ucxx_context_create(&params, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  for (int round = 0; round < 2; round++) {
    CHECK_STATUS(ucxx_stream_recv(endpoint, in, sizeof in, NULL, &receive), UCXX_INPROGRESS);
    CHECK_OK(finish(ucxx_stream_send(endpoint, data, sizeof data, NULL, &request), &request));
    CHECK_OK(finish(UCXX_INPROGRESS, &receive));
    CHECK_CONTENT(in, sizeof in, seed);
  }
  CHECK_STATUS(ucxx_tag_recv(worker, in, 1, 1, 1, NULL, &receive), UCXX_ERR_UNSUPPORTED);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

enum { WHOLE = 70000, SECOND_PART = 1000000, SENT = 100000 };

/* The other process sends and waits to be killed. */
static void send_and_stay(int channel) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pair_t pair = {.channel = channel};
  uint8_t *data = test_alloc(SENT);
  test_fill(data, SENT, 1);
  CHECK_OK(ucxx_context_create(NULL, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, NULL, &pair.worker));
  ucxx_address_t *address = pair_exchange_address(&pair, pair.worker);
  CHECK_OK(ucxx_endpoint_create(pair.worker, address, NULL, &pair.endpoint));
  ucxx_address_destroy(address);
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_stream_send(pair.endpoint, data, SENT, NULL, &request), &request));
  for (;;) progress(pair.worker);
}

static void peer_dies(const manner_t *manner) {
  STEP("%s: the peer dies in the middle", manner->name);
  int channel[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", dup(channel[1]));
    execlp(program, program, number, (char *)NULL);
    _exit(127);
  }
  close(channel[1]);
  way = &ways[0];
  site_t site;
  ends_t ends;
  pair_t pair = {.channel = channel[0]};
  take_t takes[SEVERAL];
  uint8_t *data = test_alloc(SENT);
  test_fill(data, SENT, 1);
  open_workers(&site, manner);
  ucxx_address_t *address = pair_exchange_address(&pair, site.client);
  ucxx_endpoint_params_t params = watching(&ends);
  CHECK_OK(ucxx_endpoint_create(site.client, address, &params, &ends.endpoint));
  ucxx_address_destroy(address);
  post(&takes[0], ends.endpoint, WHOLE);
  post(&takes[1], ends.endpoint, SECOND_PART);
  post(&takes[2], ends.endpoint, 1);
  taken(&site, &takes[0], UCXX_OK, WHOLE, data);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  CHECK_STATUS(site_finish(&site, takes[1].status, &takes[1].request), UCXX_ERR_PEER_FAILED);
  CHECK(takes[1].info.length <= SENT - WHOLE);
  CHECK(memcmp(takes[1].data, data + WHOLE, takes[1].info.length) == 0);
  taken(&site, &takes[2], UCXX_ERR_PEER_FAILED, 0, data);
  AWAIT(&site, seen_count(&ends.close) > 0);
  CHECK_STATUS(ucxx_stream_recv(ends.endpoint, data, 1, NULL, NULL), UCXX_ERR_PEER_FAILED);
  CHECK_STATUS(ucxx_stream_send(ends.endpoint, data, 1, NULL, NULL), UCXX_ERR_PEER_FAILED);
  ucxx_endpoint_destroy(ends.endpoint);
  ucxx_worker_destroy(site.client);
  ucxx_worker_destroy(site.server);
  ucxx_context_destroy(site.context);
  close(channel[0]);
  free(takes[1].data);
  free(data);
}

int main(int argc, char **argv) {
  test_begin("stream_ends");
  program = argv[0];
  if (argc > 1) send_and_stay(atoi(argv[1]));
  seed = test_seed();
  inside_the_call();
  for (int at = 0; at < MANNERS; at++) {
    peer_dies(&manners[at]);
    for (int which = 0; which < WAYS; which++) {
      way = &ways[which];
      if (way->by_port && !has_tcp()) continue;
      early(&manners[at]);
      read_after_close(&manners[at]);
      posted_at_close(&manners[at], 1);
      posted_at_close(&manners[at], 0);
      unread(&manners[at], 0);
      /* By port each side's close would wait a second for the other's reply while nobody progresses
       * that side. */
      if (!way->by_port || manners[at].progress_mode != UCXX_PROGRESS_MANUAL)
        unread(&manners[at], 1);
      if (!way->by_port) to_itself(&manners[at]);
    }
  }
  return 0;
}
