/* With UCXX_NETWORK_LOCAL no socket of the process is bound to an interface other than loopback,
 * whatever the process does. The test reads the sockets from /proc. */
#include "test_util.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <unistd.h>

enum { MOST = 512, LARGE = 1 << 20 };

/* ------------------------------------------------------------------ the sockets of this process */

static int own_sockets(uint64_t *inodes) {
  DIR *directory = opendir("/proc/self/fd");
  CHECK(directory != NULL);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[300], link[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    if (readlink(path, link, sizeof link - 1) > 0 &&
        sscanf(link, "socket:[%" SCNu64 "]", &inodes[count]) == 1) {
      count++;
      CHECK(count < MOST);
    }
  }
  closedir(directory);
  return count;
}

static int is_loopback(const char *hexadecimal) {
  uint32_t word[4];
  if (strlen(hexadecimal) == 8) {
    CHECK_EQ(sscanf(hexadecimal, "%8" SCNx32, &word[0]), 1);
    return (ntohl(word[0]) >> 24) == 127;
  }
  CHECK_EQ(sscanf(hexadecimal, "%8" SCNx32 "%8" SCNx32 "%8" SCNx32 "%8" SCNx32, &word[0], &word[1],
                  &word[2], &word[3]),
           4);
  if (word[0] == 0 && word[1] == 0 && ntohl(word[2]) == 0xffff) /* IPv4 mapped into IPv6 */
    return (ntohl(word[3]) >> 24) == 127;
  return word[0] == 0 && word[1] == 0 && word[2] == 0 && ntohl(word[3]) == 1;
}

typedef struct sockets {
  int local, elsewhere; /* bound, in any state */
  int listening; /* TCP listeners on loopback */
  int listening_elsewhere;
  char first[128]; /* the first socket elsewhere, as /proc prints it */
} sockets_t;

static void look_at(const char *table, const uint64_t *inodes, int count, sockets_t *found) {
  enum { LISTEN = 0x0a };
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/self/net/%s", table);
  FILE *file = fopen(path, "r");
  if (file == NULL) /* no IPv6 */
    return;
  CHECK(fgets(line, sizeof line, file) != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    char local[33];
    unsigned port, state;
    uint64_t inode;
    CHECK_EQ(sscanf(line, " %*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %" SCNu64,
                    local, &port, &state, &inode),
             4);
    int mine = 0;
    for (int at = 0; at < count && inode != 0; at++) mine |= inodes[at] == inode;
    if (!mine) continue;
    int listens = strncmp(table, "tcp", 3) == 0 && state == LISTEN;
    if (is_loopback(local)) {
      found->local++;
      found->listening += listens;
    } else {
      if (found->elsewhere++ == 0)
        snprintf(found->first, sizeof found->first, "%s %s:%u, state %u", table, local, port,
                 state);
      found->listening_elsewhere += listens;
    }
  }
  fclose(file);
}

static sockets_t own_network(void) {
  static const char *const tables[] = {"tcp",     "tcp6",     "udp", "udp6",
                                       "udplite", "udplite6", "raw", "raw6"};
  uint64_t inodes[MOST];
  int count = own_sockets(inodes);
  sockets_t found;
  memset(&found, 0, sizeof found);
  for (size_t at = 0; at < sizeof tables / sizeof *tables; at++)
    look_at(tables[at], inodes, count, &found);
  return found;
}

static sockets_t check_local(const char *when) {
  sockets_t found = own_network();
  printf("%s: %d bound to loopback, %d of them listening\n", when, found.local, found.listening);
  if (found.elsewhere > 0)
    FAIL("%s: %d sockets are bound elsewhere, the first %s", when, found.elsewhere, found.first);
  return found;
}

/* ------------------------------------------------------------------ use of the library */

/* Address of an interface other than loopback that is up; 0 if there is none. */
static int other_interface(char *text, size_t capacity) {
  struct ifaddrs *all = NULL;
  CHECK(getifaddrs(&all) == 0);
  text[0] = '\0';
  for (struct ifaddrs *one = all; one != NULL && text[0] == '\0'; one = one->ifa_next) {
    int usable = one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
                 (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable)
      CHECK(inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text,
                      (socklen_t)capacity) != NULL);
  }
  freeifaddrs(all);
  return text[0] != '\0';
}

static void must_not_ask(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  (void)request;
  FAIL("a refused listener got a connection request");
}

static void accept_it(void *arg, ucxx_conn_request_t *request) {
  CHECK_OK(ucxx_endpoint_accept(request, NULL, arg));
  ucxx_conn_request_destroy(request);
}

static void one_message(pair_t *pair, ucxx_endpoint_t *endpoint, int sends, size_t length,
                        uint64_t tag) {
  uint8_t *data = test_alloc(length);
  ucxx_request_t *request = NULL;
  if (sends) {
    test_fill(data, length, pair->seed + tag);
    CHECK_OK(finish(ucxx_tag_send(endpoint, data, length, tag, NULL, &request), &request));
  } else {
    CHECK_OK(finish(ucxx_tag_recv(pair->worker, data, length, tag, UINT64_MAX, NULL, &request),
                    &request));
    CHECK_CONTENT(data, length, pair->seed + tag);
  }
  pair_sync(pair); /* the peer reads the buffer of the large send until here */
  free(data);
}

static void both_ways(pair_t *pair, ucxx_endpoint_t *endpoint) {
  for (int round = 0; round < 4; round++)
    one_message(pair, endpoint, pair->side == round % 2, round / 2 == 0 ? 8 : LARGE,
                0x600 + (uint64_t)round);
}

static void refused(pair_t *pair, const char *host) {
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  params.host = host;
  params.on_connect = must_not_ask;
  CHECK_STATUS(ucxx_listener_create(pair->worker, &params, &listener), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE(host);
  CHECK_MESSAGE("UCXX_NETWORK_LOCAL");
  CHECK_STATUS(ucxx_endpoint_connect(pair->worker, host, 4711, NULL, &endpoint),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE(host);
  ucxx_endpoint_params_t from = UCXX_ENDPOINT_PARAMS_INIT;
  from.local_address = host;
  CHECK_STATUS(ucxx_endpoint_connect(pair->worker, "127.0.0.1", 4711, &from, &endpoint),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE(host);
  CHECK(listener == NULL && endpoint == NULL);
}

/* Side 0 listens, side 1 connects; then both check their open sockets. */
static void by_port(pair_t *pair, const char *host) {
  STEP("by port, on %s", host != NULL ? host : "the default host");
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  seen_t opened = {0, 0, UCXX_OK};
  uint16_t port = 0;
  params.host = host;
  params.on_connect = accept_it;
  params.on_connect_arg = &endpoint;
  if (pair->side == 0) {
    CHECK_OK(ucxx_listener_create(pair->worker, &params, &listener));
    CHECK(check_local("a listener").listening > 0);
    port = ucxx_listener_port(listener);
    channel_put(pair, &port, sizeof port);
    while (has_tcp() && endpoint == NULL) progress(pair->worker);
  } else {
    ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
    endpoint_params.on_open = see_endpoint;
    endpoint_params.on_open_arg = &opened;
    channel_get(pair, &port, sizeof port);
    if (has_tcp())
      CHECK_OK(ucxx_endpoint_connect(pair->worker, host != NULL ? host : "127.0.0.1", port,
                                     &endpoint_params, &endpoint));
    while (has_tcp() && seen_count(&opened) == 0) progress(pair->worker);
  }
  if (has_tcp()) {
    both_ways(pair, endpoint);
    check_local("connected by port");
  }
  pair_sync(pair);
  ucxx_endpoint_destroy(endpoint);
  ucxx_listener_destroy(listener);
  pair_sync(pair);
}

/* Where other sockets are allowed there must be some. Otherwise the check could never fail. */
static void control(void) {
  STEP("with UCXX_NETWORK_ALL");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_listener_t *listener = NULL;
  ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  context_params.network = UCXX_NETWORK_ALL;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  int of_worker = own_network().listening_elsewhere;
  if (has_tcp()) CHECK(of_worker > 0);
  params.host = "0.0.0.0";
  params.on_connect = must_not_ask;
  CHECK_OK(ucxx_listener_create(worker, &params, &listener));
  CHECK_EQ(own_network().listening_elsewhere, of_worker + 1);
  ucxx_listener_destroy(listener);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  check_local("closed");
}

static void body(pair_t *pair) {
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  char elsewhere[INET_ADDRSTRLEN];
  params.network = UCXX_NETWORK_LOCAL;
  check_local("before");
  pair_connect(pair, &params, NULL, NULL);
  both_ways(pair, pair->endpoint);
  sockets_t found = check_local("connected by address");
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(pair->endpoint, &attr));
  printf("over %s\n", attr.transports);
  if (strstr(attr.transports, "tcp") != NULL) CHECK(found.listening > 0);
  by_port(pair, NULL);
  by_port(pair, "localhost");

  int has_other = other_interface(elsewhere, sizeof elsewhere);
  STEP("hosts of other interfaces are refused");
  refused(pair, "0.0.0.0");
  refused(pair, "::");
  refused(pair, "203.0.113.1");
  if (has_other) refused(pair, elsewhere);
  check_local("refused");
  pair_disconnect(pair);
  if (has_other)
    control();
  else
    printf("no other interface is up: nothing to compare with\n");
}

int main(int argc, char **argv) { return pair_main(argc, argv, "network_local", body); }
