/* Tries an installed package, as C and as C++: prints the versions, and sends a message to
 * itself. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucxx_rs.h>

static int failed(ucxx_status_t status, const char *what) {
  if (status >= 0) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, ucxx_status_name(status), ucxx_last_error_message());
  return 1;
}

static int finish(ucxx_request_t *request, const char *what) {
  int result = request != NULL && failed(ucxx_request_wait(request, UINT64_MAX), what);
  ucxx_request_destroy(request);
  return result;
}

static int round_trip(ucxx_worker_t *worker, ucxx_endpoint_t *endpoint) {
  static const char sent[] = "through the installed library";
  char received[sizeof sent] = "";
  ucxx_request_t *receive = NULL;
  ucxx_request_t *send = NULL;
  if (failed(ucxx_tag_recv(worker, received, sizeof received, 7, UINT64_MAX, NULL, &receive),
             "receive"))
    return 1;
  if (failed(ucxx_tag_send(endpoint, sent, sizeof sent, 7, NULL, &send), "send")) return 1;
  if (finish(send, "send") != 0 || finish(receive, "receive") != 0) return 1;
  return memcmp(sent, received, sizeof sent) != 0;
}

int main(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  int result = 1;

  if (failed(ucxx_version_query(&version), "version")) return 1;
  printf("ucxx_rs %u.%u.%u on UCX %u.%u.%u\n", (unsigned)version.major, (unsigned)version.minor,
         (unsigned)version.patch, (unsigned)version.ucx_major, (unsigned)version.ucx_minor,
         (unsigned)version.ucx_patch);
  if (version.major != UCXX_RS_VERSION_MAJOR || version.minor != UCXX_RS_VERSION_MINOR) return 1;
  if (version.ucx_copies != 1) {
    fprintf(stderr, "%u copies of libucp in one process\n", (unsigned)version.ucx_copies);
    return 1;
  }

  if (!failed(ucxx_context_create(NULL, &context), "context") &&
      !failed(ucxx_worker_create(context, NULL, &worker), "worker") &&
      !failed(ucxx_worker_address(worker, &address), "address") &&
      !failed(ucxx_endpoint_create(worker, address, NULL, &endpoint), "endpoint")) {
    result = round_trip(worker, endpoint);
  }
  ucxx_endpoint_destroy(endpoint);
  ucxx_address_destroy(address);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  if (result == 0) printf("consumer: ok\n");
  return result;
}
