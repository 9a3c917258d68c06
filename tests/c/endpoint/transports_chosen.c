/*
 * Between two processes of one host an endpoint with failure detection uses shared memory, with any
 * UCX release. By default UCX takes one of two equivalent transports, posix and sysv; if UCX_TLS
 * names posix, it must be that one.
 */
#include "test_util.h"

#include <errno.h>
#include <sys/uio.h>

/* Containers may forbid reading another process's memory, which the cma transport needs. */
static int may_read_peer(const pair_t *pair) {
  static char word[8] = "readable";
  char *theirs = NULL, copy[8];
  char *mine = word;
  channel_put(pair, &mine, sizeof mine);
  channel_get(pair, &theirs, sizeof theirs);
  struct iovec local = {copy, sizeof copy}, remote = {theirs, sizeof copy};
  int allowed = process_vm_readv(pair->peer_pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof copy;
  int both = 0;
  channel_put(pair, &allowed, sizeof allowed);
  channel_get(pair, &both, sizeof both);
  return allowed && both;
}

static void check_lanes(pair_t *pair, int32_t error_handling, int cma) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.error_handling = error_handling;
  pair_connect(pair, NULL, NULL, &params);
  STEP("transports, error_handling %d", (int)error_handling);
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(pair->endpoint, &attr));
  printf("side %d, error_handling %d: %s\n", pair->side, (int)error_handling, attr.transports);
  fflush(stdout);
  CHECK(memchr(attr.transports, 0, sizeof attr.transports) != NULL);
  int shared = strstr(attr.transports, "posix") != NULL ||
               (getenv("UCX_TLS") == NULL && strstr(attr.transports, "sysv") != NULL);
  if (!shared) FAIL("no shared memory lane: \"%s\"", attr.transports);
  if (cma && strstr(attr.transports, "cma") == NULL) FAIL("no cma lane: \"%s\"", attr.transports);
  CHECK_EQ(attr.same_host, 1);
  pair_disconnect(pair);
}

static void body(pair_t *pair) {
  int cma = may_read_peer(pair);
  if (!cma) printf("process_vm_readv is forbidden here: the cma lane is not checked\n");
  check_lanes(pair, UCXX_ENDPOINT_ERROR_HANDLING_PEER, cma);
  check_lanes(pair, UCXX_ENDPOINT_ERROR_HANDLING_NONE, cma);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "transports_chosen", body); }
