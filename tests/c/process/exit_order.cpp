/*
 * A program may exit while the library is working, and destroy handles in any order in static
 * destructors, in atexit functions, or never. Each way is a child process, which must exit with 0,
 * print nothing, and not hang.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucxx_rs.h>
#include <unistd.h>

#include "quiet_child.h"

namespace {

int how; // bits: what is destroyed, and when
enum { DESTROY = 1, BACKWARDS = 2, AT_EXIT = 4, THREAD = 8, BUSY = 16, WAYS = 32 };

// Static objects are destroyed in reverse order of definition, so the first holder's destructor
// runs last.
struct Holder {
  ucxx_context_t *context = nullptr;
  ucxx_worker_t *worker = nullptr;
  ucxx_endpoint_t *endpoint = nullptr;
  ucxx_request_t *request = nullptr;
  ucxx_notifier_t *notifier = nullptr;
  void drop() {
    ucxx_request_destroy(request);
    ucxx_endpoint_destroy(endpoint);
    ucxx_notifier_destroy(notifier);
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
    *this = Holder();
  }
};
struct Static : Holder {
  ~Static() {
    if (how & DESTROY) drop();
  }
};

Static first; // the context, or all, depending on the way
Static second; // the rest
uint64_t word;
char message[100];

void at_exit() {
  second.drop();
  first.drop();
}

void open_all() {
  Holder &parents = how & BACKWARDS ? second : first, &children = how & BACKWARDS ? first : second;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  if (how & THREAD) params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  ucxx_address_t *address = nullptr;
  require(ucxx_context_create(nullptr, &parents.context) == UCXX_OK, "a context");
  if (how & AT_EXIT) std::atexit(at_exit);
  require(ucxx_notifier_create(parents.context, &children.notifier) == UCXX_OK, "a notifier");
  require(ucxx_worker_create(parents.context, &params, &parents.worker) == UCXX_OK, "a worker");
  require(ucxx_worker_address(parents.worker, &address) == UCXX_OK, "an address");
  require(ucxx_endpoint_create(parents.worker, address, nullptr, &children.endpoint) == UCXX_OK,
          "an endpoint");
  ucxx_address_destroy(address);
  if (how & BUSY) {
    require(ucxx_tag_recv(parents.worker, &word, sizeof word, 1, UINT64_MAX, nullptr,
                          &children.request) == UCXX_INPROGRESS,
            "a receive");
    require(ucxx_tag_send(children.endpoint, message, sizeof message, 2, nullptr, nullptr) >= 0,
            "a send");
  }
}

int one_way() {
  alarm(60);
  open_all();
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1) {
    how = std::atoi(argv[1]);
    return one_way();
  }
  int wrong = 0;
  for (int way = 0; way < WAYS; way++) wrong += !try_way(argv[0], way);
  std::printf("%d ways to exit, %d failed\n", static_cast<int>(WAYS), wrong);
  return wrong > 0;
}
