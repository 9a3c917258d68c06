/*
 * A peer that does not use this library: UCP alone, in a program of its own. It reads commands from
 * its input, a line each, and answers each with a line; in between it makes progress.
 * tests/bindings/ucxx has the same with UCXX, in Python and in C++.
 *
 *   foreign_raw peer|none        error handling of its endpoints
 *
 *   listen                       port PORT; takes one connection, which becomes its endpoint
 *   connect PORT                 ok: an endpoint to 127.0.0.1
 *   address                      address HEX
 *   reach HEX                    ok: an endpoint to that worker
 *   send TAG LENGTH SEED         ok when complete, or failed
 *   recv TAG LENGTH SEED         ok when received and correct, or wrong
 *   close                        ok when UCP has closed the endpoint, with a flush
 *   (end of the input)           destroys the worker and exits
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucp_listener_h listener;
static ucp_err_handling_mode_t error_mode;
static int accepts;

#define MUST(call)                                                                 \
  do {                                                                             \
    ucs_status_t status_ = (call);                                                 \
    if (status_ != UCS_OK) {                                                       \
      fprintf(stderr, "foreign_raw: %s: %s\n", #call, ucs_status_string(status_)); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
  (void)arg;
  (void)ep;
  fprintf(stderr, "foreign_raw: the endpoint has failed: %s\n", ucs_status_string(status));
}

static ucp_ep_params_t endpoint_params(void) {
  ucp_ep_params_t params;
  memset(&params, 0, sizeof params);
  params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = error_mode;
  params.err_handler.cb = on_error;
  return params;
}

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void on_request(ucp_conn_request_h request, void *arg) {
  (void)arg;
  if (!accepts) {
    ucp_listener_reject(listener, request);
    return;
  }
  accepts = 0;
  ucp_ep_params_t params = endpoint_params();
  params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  MUST(ucp_ep_create(worker, &params, &endpoint));
}

static void listen_and_tell(void) {
  struct sockaddr_in address = loopback(0);
  accepts = 1;
  if (listener == NULL) {
    ucp_listener_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = (struct sockaddr *)&address;
    params.sockaddr.addrlen = sizeof address;
    params.conn_handler.cb = on_request;
    MUST(ucp_listener_create(worker, &params, &listener));
  }
  ucp_listener_attr_t attr;
  memset(&attr, 0, sizeof attr);
  attr.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  MUST(ucp_listener_query(listener, &attr));
  printf("port %d\n", ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port));
}

static void connect_to(uint16_t port) {
  struct sockaddr_in address = loopback(port);
  ucp_ep_params_t params = endpoint_params();
  params.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = (struct sockaddr *)&address;
  params.sockaddr.addrlen = sizeof address;
  MUST(ucp_ep_create(worker, &params, &endpoint));
  printf("ok\n");
}

static void tell_address(void) {
  ucp_address_t *address = NULL;
  size_t length = 0;
  MUST(ucp_worker_get_address(worker, &address, &length));
  printf("address ");
  for (size_t at = 0; at < length; at++) printf("%02x", ((const uint8_t *)address)[at]);
  printf("\n");
  ucp_worker_release_address(worker, address);
}

static void reach(const char *text) {
  static uint8_t bytes[1 << 16];
  for (size_t at = 0; at < strlen(text) / 2 && at < sizeof bytes; at++) {
    unsigned byte = 0;
    sscanf(text + 2 * at, "%2x", &byte);
    bytes[at] = (uint8_t)byte;
  }
  ucp_ep_params_t params = endpoint_params();
  params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = (const ucp_address_t *)bytes;
  MUST(ucp_ep_create(worker, &params, &endpoint));
  printf("ok\n");
}

static ucs_status_t finish(ucs_status_ptr_t request) {
  if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
  ucs_status_t status;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
    ucp_worker_progress(worker);
  ucp_request_free(request);
  return status;
}

static void transfer(int sends, uint64_t tag, size_t length, unsigned seed) {
  uint8_t *data = calloc(1, length + 1);
  ucp_request_param_t params;
  ucs_status_t status;
  size_t wrong = 0;
  memset(&params, 0, sizeof params);
  for (size_t at = 0; sends && at < length; at++) data[at] = (uint8_t)(seed + 7 * at);
  if (sends)
    status = finish(ucp_tag_send_nbx(endpoint, data, length, tag, &params));
  else
    status = finish(ucp_tag_recv_nbx(worker, data, length, tag, UINT64_MAX, &params));
  for (size_t at = 0; !sends && at < length; at++) wrong += data[at] != (uint8_t)(seed + 7 * at);
  printf("%s\n", status != UCS_OK ? ucs_status_string(status) : wrong > 0 ? "wrong" : "ok");
  free(data);
}

static void close_endpoint(void) {
  ucp_request_param_t params;
  memset(&params, 0, sizeof params);
  ucs_status_t status = finish(ucp_ep_close_nbx(endpoint, &params));
  printf("%s\n", status == UCS_OK ? "ok" : ucs_status_string(status));
  endpoint = NULL;
}

static void obey(char *line) {
  unsigned port, seed;
  unsigned long tag, length;
  char *hexadecimal = line + strlen("reach ");
  if (strcmp(line, "listen\n") == 0) {
    listen_and_tell();
  } else if (sscanf(line, "connect %u", &port) == 1) {
    connect_to((uint16_t)port);
  } else if (strcmp(line, "address\n") == 0) {
    tell_address();
  } else if (strncmp(line, "reach ", 6) == 0) {
    hexadecimal[strcspn(hexadecimal, "\n")] = '\0';
    reach(hexadecimal);
  } else if (sscanf(line, "send %lu %lu %u", &tag, &length, &seed) == 3) {
    transfer(1, tag, length, seed);
  } else if (sscanf(line, "recv %lu %lu %u", &tag, &length, &seed) == 3) {
    transfer(0, tag, length, seed);
  } else if (strcmp(line, "close\n") == 0) {
    close_endpoint();
  } else {
    fprintf(stderr, "foreign_raw: unknown command '%s'\n", line);
    exit(2);
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  static char line[1 << 17];
  ucp_params_t params;
  ucp_worker_params_t worker_params;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  error_mode = argc > 1 && strcmp(argv[1], "none") == 0 ? UCP_ERR_HANDLING_MODE_NONE
                                                        : UCP_ERR_HANDLING_MODE_PEER;
  memset(&params, 0, sizeof params);
  memset(&worker_params, 0, sizeof worker_params);
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  MUST(ucp_init(&params, NULL, &context));
  MUST(ucp_worker_create(context, &worker_params, &worker));
  setvbuf(stdin, NULL, _IONBF, 0); /* a line in a buffer would be invisible to poll() */
  for (;;) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    while (poll(&input, 1, 0) == 0) ucp_worker_progress(worker);
    if (fgets(line, sizeof line, stdin) == NULL) break;
    obey(line);
  }
  if (listener != NULL) ucp_listener_destroy(listener);
  ucp_worker_destroy(worker);
  ucp_cleanup(context);
  return 0;
}
