/* Connecting by host and port: refused, unanswered, several addresses, operations before the
 * connection opens, giving up early. Each attempt ends once with the documented status. */
#include "test_util.h"
#include "client_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGES = 40, LARGE = 1 << 20 };

/* ------------------------------------------------------------------ a resolver of this test */

/* What "several.test" resolves to. The library finds this function before the C library's. */
static const char *several[4];
static int lookups;

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  (void)service;
  (void)hints;
  __atomic_add_fetch(&lookups, 1, __ATOMIC_RELEASE);
  *found = NULL;
  if (host == NULL || strcmp(host, "several.test") != 0) return EAI_NONAME;
  for (int at = 3; at >= 0; at--) {
    if (several[at] == NULL) continue;
    struct {
      struct addrinfo info;
      struct sockaddr_storage address;
    } *entry = calloc(1, sizeof *entry);
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&entry->address;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&entry->address;
    int is_ipv6 = strchr(several[at], ':') != NULL;
    ipv4->sin_family = is_ipv6 ? AF_INET6 : AF_INET;
    inet_pton(ipv4->sin_family, several[at],
              is_ipv6 ? (void *)&ipv6->sin6_addr : (void *)&ipv4->sin_addr);
    entry->info.ai_family = ipv4->sin_family;
    entry->info.ai_socktype = SOCK_STREAM;
    entry->info.ai_addr = (struct sockaddr *)&entry->address;
    entry->info.ai_addrlen = is_ipv6 ? sizeof *ipv6 : sizeof *ipv4;
    entry->info.ai_next = *found;
    *found = &entry->info;
  }
  return *found != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *found) {
  while (found != NULL) {
    struct addrinfo *next = found->ai_next;
    free(found);
    found = next;
  }
}

static void resolve_to(const char *first, const char *second, const char *third) {
  several[0] = first;
  several[1] = second;
  several[2] = third;
}

/* ------------------------------------------------------------------ a silent port */

/* A TCP port that accepts connections and sends nothing. */
static int silent_port(int *descriptor) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  *descriptor = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(*descriptor >= 0);
  CHECK_EQ(bind(*descriptor, (struct sockaddr *)&address, sizeof address), 0);
  CHECK_EQ(listen(*descriptor, 100), 0);
  CHECK_EQ(getsockname(*descriptor, (struct sockaddr *)&address, &length), 0);
  return ntohs(address.sin_port);
}

static ucxx_endpoint_t *dial_port(const site_t *site, int port, uint64_t timeout_ns, ends_t *ends) {
  ucxx_endpoint_params_t params = watching(ends);
  params.connect_timeout_ns = timeout_ns;
  CHECK_OK(
      ucxx_endpoint_connect(site->client, "127.0.0.1", (uint16_t)port, &params, &ends->endpoint));
  return ends->endpoint;
}

static void check_ended(const site_t *site, ends_t *client, ucxx_status_t expected) {
  AWAIT(site, seen_count(&client->close) == 1);
  CHECK_STATUS(client->close.status, expected);
  CHECK_EQ(seen_count(&client->open), 0);
  CHECK_STATUS(ucxx_endpoint_status(client->endpoint), expected);
  ucxx_endpoint_destroy(client->endpoint);
  CHECK_EQ(seen_count(&client->close), 1);
}

static void refused(const manner_t *manner) {
  STEP("%s: nobody listens", manner->name);
  site_t site;
  ends_t client;
  ucxx_request_t *send = NULL;
  site_open(&site, manner, NULL, ACCEPT);
  int port = ucxx_listener_port(site.listener);
  ucxx_listener_destroy(site.listener);
  site.listener = NULL;
  dial_port(&site, port, 0, &client);
  ucxx_status_t sent = ucxx_tag_send(client.endpoint, "message", 8, 1, NULL, &send);
  CHECK_STATUS(site_finish(&site, sent, &send), UCXX_ERR_UNREACHABLE);
  check_ended(&site, &client, UCXX_ERR_UNREACHABLE);
  ucxx_endpoint_t *none = NULL;
  CHECK_STATUS(ucxx_endpoint_connect(site.client, "no.such.name.test", 1, NULL, &none),
               UCXX_ERR_UNREACHABLE);
  CHECK_MESSAGE("no.such.name.test");
  CHECK(none == NULL);
  site_close(&site);
}

static void silent(const manner_t *manner) {
  STEP("%s: nobody answers: waiting operations time out or are cancelled", manner->name);
  site_t site;
  ends_t client;
  int descriptor, port = silent_port(&descriptor);
  ucxx_request_t *requests[3] = {NULL};
  ucxx_op_params_t brief = UCXX_OP_PARAMS_INIT;
  brief.timeout_ns = MILLISECOND;
  site_open(&site, manner, NULL, ACCEPT);
  dial_port(&site, port, 0, &client);
  CHECK_STATUS(ucxx_tag_send(client.endpoint, "message", 8, 1, &brief, &requests[0]),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send(client.endpoint, "message", 8, 1, NULL, &requests[1]),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_endpoint_flush(client.endpoint, &brief, &requests[2]), UCXX_INPROGRESS);
  CHECK_STATUS(site_finish(&site, UCXX_INPROGRESS, &requests[0]), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(site_finish(&site, UCXX_INPROGRESS, &requests[2]), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_request_status(requests[1]), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(requests[1]));
  CHECK_STATUS(site_finish(&site, UCXX_INPROGRESS, &requests[1]), UCXX_ERR_CANCELED);
  CHECK_OK(ucxx_endpoint_status(client.endpoint));
  CHECK_STATUS(ucxx_tag_send(client.endpoint, "message", 8, 1, NULL, &requests[0]),
               UCXX_INPROGRESS);
  ucxx_endpoint_destroy(client.endpoint);
  CHECK(ucxx_request_status(requests[0]) < 0);
  ucxx_request_destroy(requests[0]);
  requests[0] = NULL;
  CHECK_EQ(seen_count(&client.close), 1);

  STEP("%s: nobody answers in time", manner->name);
  dial_port(&site, port, 20 * MILLISECOND, &client);
  /* With a progress thread, the timeout may expire before the call. */
  ucxx_status_t sent = ucxx_tag_send(client.endpoint, "message", 8, 1, NULL, &requests[0]);
  CHECK_STATUS(site_finish(&site, sent, &requests[0]), UCXX_ERR_TIMED_OUT);
  check_ended(&site, &client, UCXX_ERR_TIMED_OUT);

  STEP("%s: closed before an answer", manner->name);
  for (int how = 0; how < 2; how++) {
    dial_port(&site, port, 0, &client);
    for (int pass = 0; pass < 10 * how; pass++) site_progress(&site);
    CHECK_OK(site_finish(&site, ucxx_endpoint_close(client.endpoint, how, NULL, &requests[0]),
                         &requests[0]));
    AWAIT(&site, seen_count(&client.close) == 1);
    CHECK_OK(client.close.status);
    ucxx_endpoint_destroy(client.endpoint);
  }

  STEP("%s: the worker is destroyed before an answer", manner->name);
  dial_port(&site, port, 0, &client);
  CHECK_STATUS(ucxx_tag_send(client.endpoint, "message", 8, 1, NULL, &requests[0]),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_endpoint_flush(client.endpoint, NULL, &requests[1]), UCXX_INPROGRESS);
  site_progress(&site);
  ucxx_worker_destroy(site.client);
  site.client = NULL;
  CHECK_EQ(seen_count(&client.close), 1);
  CHECK_STATUS(ucxx_request_status(requests[0]), UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_request_status(requests[1]), UCXX_ERR_CANCELED);
  ucxx_request_destroy(requests[0]);
  ucxx_request_destroy(requests[1]);
  ucxx_endpoint_destroy(client.endpoint);
  site_close(&site);
  close(descriptor);
}

/* ------------------------------------------------------------------ operations before the answer
 */

static size_t length_of(int at) {
  static const size_t lengths[] = {0, 1, 8, 100, 5000, 70000, LARGE};
  return lengths[(size_t)at % (sizeof lengths / sizeof *lengths)];
}

/* All with one tag: they are received in the order of the sends. */
static void submit(const site_t *site, ucxx_endpoint_t *to, uint8_t *const *out,
                   ucxx_request_t **sends, ucxx_status_t *sent) {
  (void)site;
  for (int at = 0; at < MESSAGES; at++) {
    size_t length = length_of(at), half = length / 2;
    test_fill(out[at], length, (uint64_t)at);
    ucxx_buffer_t parts[2] = {{.data = out[at], .length = half},
                              {.data = out[at] + half, .length = length - half}};
    if (at % 4 == 1)
      sent[at] = ucxx_tag_send_iov(to, parts, 2, 7, NULL, &sends[at]);
    else if (at % 4 == 2)
      sent[at] = ucxx_tag_send_sync(to, out[at], length, 7, NULL, &sends[at]);
    else
      sent[at] = ucxx_tag_send(to, out[at], length, 7, NULL, &sends[at]);
    CHECK(sent[at] >= 0);
  }
}

static void receive_all(const site_t *site) {
  uint8_t *in = test_alloc(LARGE);
  for (int at = 0; at < MESSAGES; at++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_recv_info_t info;
    ucxx_request_t *receive = NULL;
    params.recv_info = &info;
    CHECK_OK(site_finish(
        site, ucxx_tag_recv(site->server, in, LARGE, 7, UINT64_MAX, &params, &receive), &receive));
    CHECK_EQ(info.length, length_of(at));
    CHECK_CONTENT(in, length_of(at), (uint64_t)at);
  }
  free(in);
}

static void see_line(void *arg, const char *text) {
  (void)arg;
  CHECK(text != NULL);
}

/* `how` ends the wait: a flush, a close with flush, or a flush of the worker, each submitted before
 * the answer. */
static void waiting_operations(const manner_t *manner, int how) {
  static const char *const names[] = {"flushed", "closed", "flushed with the worker"};
  STEP("%s: %d messages before the answer, %s", manner->name, MESSAGES, names[how]);
  site_t site;
  ends_t client;
  uint8_t *out[MESSAGES];
  ucxx_request_t *sends[MESSAGES] = {NULL}, *end = NULL;
  ucxx_status_t sent[MESSAGES], ended;
  for (int at = 0; at < MESSAGES; at++) out[at] = test_alloc(length_of(at));
  site_open(&site, manner, NULL, HOLD);
  dial(&site, "127.0.0.1", &client);
  submit(&site, client.endpoint, out, sends, sent);
  ended = how == 0   ? ucxx_endpoint_flush(client.endpoint, NULL, &end)
          : how == 1 ? close_patiently(client.endpoint, &end)
                     : ucxx_worker_flush(site.client, NULL, &end);
  CHECK_STATUS(ended, UCXX_INPROGRESS);
  AWAIT(&site, asked(&site) == 1);
  CHECK_STATUS(ucxx_request_status(end), UCXX_INPROGRESS);
  /* UCX's endpoint is not connected yet, so UCX must not be asked about it. */
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(client.endpoint, &attr));
  CHECK(attr.transports[0] == 0);
  CHECK_OK(ucxx_worker_dump(site.client, see_line, NULL));
  ucxx_endpoint_params_t params = watching(&site.accepted[0]);
  CHECK_OK(ucxx_endpoint_accept(site.held[0], &params, &site.accepted[0].endpoint));
  ucxx_conn_request_destroy(site.held[0]);
  receive_all(&site);
  for (int at = 0; at < MESSAGES; at++) {
    CHECK_OK(site_finish(&site, sent[at], &sends[at]));
    free(out[at]);
  }
  CHECK_OK(site_finish(&site, ended, &end));
  CHECK_EQ(seen_count(&client.open), how == 1 ? 0 : 1);
  hang_up(&site, &client, &site.accepted[0]);
  site_close(&site);
}

/* ------------------------------------------------------------------ addresses */

static void several_addresses(const manner_t *manner) {
  site_t site;
  ends_t client;
  ucxx_request_t *send = NULL;
  int before = __atomic_load_n(&lookups, __ATOMIC_ACQUIRE);
  STEP("%s: several addresses, the last one answers", manner->name);
  site_open(&site, manner, NULL, ACCEPT);
  resolve_to("127.0.0.2", "127.0.0.3", "127.0.0.1");
  dial(&site, "several.test", &client);
  CHECK(__atomic_load_n(&lookups, __ATOMIC_ACQUIRE) > before);
  ucxx_status_t sent = ucxx_tag_send(client.endpoint, "message", 8, 5, NULL, &send);
  /* A direct submission may come after the connection. */
  if (manner->delayed >= 0) CHECK_STATUS(sent, UCXX_INPROGRESS);
  AWAIT(&site, seen_count(&client.open) == 1 && asked(&site) == 1);
  char in[8], text[64];
  ucxx_request_t *receive = NULL;
  CHECK_OK(site_finish(&site, ucxx_tag_recv(site.server, in, 8, 5, UINT64_MAX, NULL, &receive),
                       &receive));
  CHECK(memcmp(in, "message", 8) == 0);
  CHECK_OK(site_finish(&site, sent, &send));
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(client.endpoint, &attr));
  snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)ucxx_listener_port(site.listener));
  CHECK(strcmp(attr.remote_address, text) == 0);
  hang_up(&site, &client, &site.accepted[0]);

  STEP("%s: several addresses, none answers", manner->name);
  resolve_to("127.0.0.2", "127.0.0.3", NULL);
  dial(&site, "several.test", &client);
  /* With a progress thread all addresses may have failed by now. */
  CHECK_STATUS(
      site_finish(&site, ucxx_tag_send(client.endpoint, "message", 8, 5, NULL, &send), &send),
      UCXX_ERR_UNREACHABLE);
  check_ended(&site, &client, UCXX_ERR_UNREACHABLE);

  STEP("%s: several addresses, of two families", manner->name);
  resolve_to("::1", "127.0.0.1", NULL);
  dial(&site, "several.test", &client);
  AWAIT(&site, seen_count(&client.open) == 1 && asked(&site) == 2);
  hang_up(&site, &client, &site.accepted[1]);
  site_close(&site);
}

/* The first address accepts the connection and stays silent: the next one gets its share of the
 * time. */
static void silent_and_then_not(const manner_t *manner) {
  STEP("%s: several addresses, the first stays silent", manner->name);
  site_t site;
  ends_t client;
  site_open(&site, manner, NULL, ACCEPT);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
  int descriptor = socket(AF_INET, SOCK_STREAM, 0), port = ucxx_listener_port(site.listener);
  address.sin_port = htons((uint16_t)port);
  CHECK_EQ(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
  CHECK_EQ(listen(descriptor, 10), 0);
  resolve_to("127.0.0.2", "127.0.0.1", NULL);
  ucxx_endpoint_params_t params = watching(&client);
  params.connect_timeout_ns = 6 * SECOND; /* half of it for the first */
  CHECK_OK(ucxx_endpoint_connect(site.client, "several.test", (uint16_t)port, &params,
                                 &client.endpoint));
  AWAIT(&site, seen_count(&client.open) + seen_count(&client.close) == 1);
  CHECK_EQ(seen_count(&client.close), 0);
  transfer(&site, client.endpoint, site.server, 100, 1);
  hang_up(&site, &client, &site.accepted[0]);
  site_close(&site);
  close(descriptor);
}

static void source_address(const manner_t *manner) {
  STEP("%s: a source address", manner->name);
  site_t site;
  ends_t client;
  char text[64];
  site_open(&site, manner, NULL, HOLD);
  ucxx_endpoint_params_t params = watching(&client);
  char source[64];
  snprintf(source, sizeof source, "127.0.0.1:%d", test_free_port());
  params.local_address = source;
  uint16_t port = ucxx_listener_port(site.listener);
  CHECK_OK(ucxx_endpoint_connect(site.client, "127.0.0.1", port, &params, &client.endpoint));
  AWAIT(&site, asked(&site) == 1);
  CHECK_OK(ucxx_conn_request_address(site.held[0], text, sizeof text));
  if (strcmp(text, source) != 0) FAIL("the request came from %s, not from %s", text, source);
  CHECK_OK(ucxx_endpoint_accept(site.held[0], NULL, &site.accepted[0].endpoint));
  ucxx_conn_request_destroy(site.held[0]);
  AWAIT(&site, seen_count(&client.open) == 1);
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(client.endpoint, &attr));
  CHECK(strcmp(attr.local_address, text) == 0);
  ucxx_endpoint_t *none = NULL;
  params.local_address = "::1";
  CHECK_STATUS(ucxx_endpoint_connect(site.client, "127.0.0.1", port, &params, &none),
               UCXX_ERR_UNREACHABLE);
  CHECK_MESSAGE("local_address");
  hang_up(&site, &client, NULL);
  ucxx_endpoint_destroy(site.accepted[0].endpoint);
  site_close(&site);
}

/* ------------------------------------------------------------------ without error handling */

static void no_error_handling(const manner_t *manner) {
  STEP("%s: without error handling", manner->name);
  site_t site;
  ends_t client;
  ucxx_endpoint_params_t params = watching(&client), plain = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = plain.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  site_open(&site, manner, NULL, HOLD);
  uint16_t port = ucxx_listener_port(site.listener);
  CHECK_OK(ucxx_endpoint_connect(site.client, "127.0.0.1", port, &params, &client.endpoint));
  AWAIT(&site, asked(&site) == 1);
  CHECK_OK(ucxx_endpoint_accept(site.held[0], &plain, &site.accepted[0].endpoint));
  ucxx_conn_request_destroy(site.held[0]);
  AWAIT(&site, seen_count(&client.open) == 1);
  transfer(&site, client.endpoint, site.server, LARGE, 1);
  transfer(&site, site.accepted[0].endpoint, site.client, LARGE, 2);
  ucxx_request_t *closes[2] = {NULL};
  ucxx_status_t here = close_patiently(client.endpoint, &closes[0]);
  ucxx_status_t there = close_patiently(site.accepted[0].endpoint, &closes[1]);
  CHECK_OK(site_finish(&site, here, &closes[0]));
  CHECK_OK(site_finish(&site, there, &closes[1]));
  ucxx_endpoint_destroy(client.endpoint);
  ucxx_endpoint_destroy(site.accepted[0].endpoint);

  STEP("%s: without error handling, rejected", manner->name);
  params = watching(&client);
  params.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  CHECK_OK(ucxx_endpoint_connect(site.client, "127.0.0.1", port, &params, &client.endpoint));
  AWAIT(&site, asked(&site) == 2);
  CHECK_OK(ucxx_conn_request_reject(site.held[1]));
  ucxx_conn_request_destroy(site.held[1]);
  check_ended(&site, &client, UCXX_ERR_REJECTED);
  site_close(&site);
}

/* The accepting side sends first, as soon as it accepts; then it closes or continues. */
static void speaks_first(const manner_t *manner, size_t length, int closes) {
  STEP("%s: accepting side sends %zu bytes%s", manner->name, length, closes ? ", and a close" : "");
  site_t site;
  ends_t client;
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  ucxx_request_t *send = NULL, *receive = NULL, *close = NULL;
  test_fill(out, length, 3);
  site_open(&site, manner, "127.0.0.1", HOLD);
  dial(&site, "127.0.0.1", &client);
  AWAIT(&site, asked(&site) == 1);
  ucxx_status_t received = ucxx_tag_recv(site.client, in, length, 3, UINT64_MAX, NULL, &receive);
  ends_t *server = &site.accepted[0];
  ucxx_endpoint_params_t params = watching(server);
  CHECK_OK(ucxx_endpoint_accept(site.held[0], &params, &server->endpoint));
  ucxx_status_t sent = ucxx_tag_send(server->endpoint, out, length, 3, NULL, &send);
  ucxx_status_t closed = closes ? close_patiently(server->endpoint, &close) : UCXX_OK;
  ucxx_conn_request_destroy(site.held[0]);
  CHECK_OK(site_finish(&site, sent, &send));
  CHECK_OK(site_finish(&site, received, &receive));
  CHECK_OK(site_finish(&site, closed, &close));
  CHECK_CONTENT(in, length, 3);
  if (!closes) transfer(&site, server->endpoint, site.client, LARGE, 4);
  hang_up(&site, &client, server);
  site_close(&site);
  free(out);
  free(in);
}

int main(void) {
  test_begin("connect");
  if (!has_tcp()) test_skip("UCX connects by host and port over TCP, which UCX_TLS excludes");
  for (int at = 0; at < MANNERS; at++) {
    refused(&manners[at]);
    silent(&manners[at]);
    for (int how = 0; how < 3; how++) waiting_operations(&manners[at], how);
    several_addresses(&manners[at]);
    silent_and_then_not(&manners[at]);
    source_address(&manners[at]);
    no_error_handling(&manners[at]);
    for (int way = 0; way < 6; way++)
      speaks_first(&manners[at], (size_t[]){100, 20000, 300000}[way % 3], way / 3);
  }
  return 0;
}
