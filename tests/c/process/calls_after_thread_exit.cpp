/*
 * The library works where a thread's own storage has already been destroyed: in atexit functions,
 * in static destructors, and in destructors of thread-locals older than the thread's first call of
 * the library. Each place is tested in a child process.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <ucxx_rs.h>
#include <unistd.h>

#include "quiet_child.h"

namespace {

enum Place { AT_EXIT, STATIC, MAIN_THREAD, OTHER_THREAD, PLACES };
const int ROUNDS = 1000000; // passes until a message arrives: a limit that only a hang reaches
Place place;

struct Peer {
  ucxx_worker_t *worker = nullptr;
  ucxx_endpoint_t *endpoint = nullptr; // to the same worker, or to another one
  bool manual = true;

  // A worker with a thread may be gone as soon as its callback has run.
  void until_closed() const {
    while (ucxx_endpoint_status(endpoint) == UCXX_OK)
      if (manual)
        ucxx_worker_progress(worker, nullptr);
      else
        usleep(100);
  }
};

ucxx_context_t *context;

Peer make(int mode, int threads, ucxx_worker_t *to) {
  Peer peer;
  ucxx_address_t *address = nullptr;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  params.thread_mode = threads;
  peer.manual = mode == UCXX_PROGRESS_MANUAL;
  done(ucxx_worker_create(context, &params, &peer.worker), "a worker");
  done(ucxx_worker_address(to ? to : peer.worker, &address), "an address");
  done(ucxx_endpoint_create(peer.worker, address, nullptr, &peer.endpoint), "an endpoint");
  ucxx_address_destroy(address);
  return peer;
}

void drop(Peer &peer) {
  ucxx_endpoint_destroy(peer.endpoint);
  ucxx_worker_destroy(peer.worker);
}

// A worker destroyed in a callback ends when its pass has returned.
void on_send(void *worker, ucxx_request_t *, ucxx_status_t) {
  ucxx_worker_destroy(static_cast<ucxx_worker_t *>(worker));
}
void on_message(void *worker, ucxx_am_message_t *message) {
  ucxx_am_message_destroy(message);
  ucxx_worker_destroy(static_cast<ucxx_worker_t *>(worker));
}
void end_in_callback(Peer &peer, const char *what) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = on_send;
  params.callback_arg = peer.worker;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  done(ucxx_tag_send(peer.endpoint, "word", 4, 1, &params, nullptr), "a send");
  peer.until_closed();
  require(ucxx_endpoint_status(peer.endpoint) == UCXX_ERR_CLOSED, what);
  ucxx_endpoint_destroy(peer.endpoint);
}
// In a message handler the library identifies the thread of a SINGLE worker in another way.
void end_in_handler(Peer &peer, const char *what) {
  done(ucxx_worker_set_am_handler(peer.worker, 1, on_message, peer.worker, nullptr), "a handler");
  done(ucxx_am_send(peer.endpoint, 1, nullptr, 0, "word", 4, nullptr, nullptr), "a message");
  peer.until_closed();
  require(ucxx_endpoint_status(peer.endpoint) == UCXX_ERR_CLOSED, what);
  ucxx_endpoint_destroy(peer.endpoint);
}

int heard;
void on_hello(void *, ucxx_am_message_t *message) {
  heard++;
  require(ucxx_am_message_reply(message) != nullptr, "an endpoint to answer to");
  ucxx_am_message_destroy(message);
}

int calls;
void on_ready(void *, ucxx_link_t *link, ucxx_status_t) {
  ucxx_envelope_t *envelope = nullptr;
  calls++;
  if (ucxx_link_lease(link, 0, &envelope) == UCXX_OK) ucxx_envelope_release(envelope, nullptr);
}
// A worker destroyed during a hub's callback ends with the call that the hub was in.
void on_ready_ends(void *worker, ucxx_link_t *link, ucxx_status_t status) {
  on_ready(nullptr, link, status);
  ucxx_worker_destroy(static_cast<ucxx_worker_t *>(worker));
}

struct Hub {
  ucxx_hub_t *hub = nullptr;
  ucxx_link_t *link = nullptr;
  void open(ucxx_link_callback_t function, void *arg) {
    ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
    params.envelope_size = 64;
    ucxx_link_params_t link_params = UCXX_LINK_PARAMS_INIT;
    link_params.on_ready = function;
    link_params.on_ready_arg = arg;
    done(ucxx_hub_create(context, &params, &hub), "a hub");
    done(ucxx_hub_add_envelopes(hub, memory(), 2), "envelopes");
    done(ucxx_link_create(hub, UCXX_LINK_CONSUME, memory(), &link_params, &link), "a link");
  }
  static ucxx_memory_kind_t memory() {
    ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
    return host;
  }
  void chunk() {
    ucxx_envelope_t *envelope = nullptr;
    done(ucxx_hub_push(hub, memory(), &envelope), "a chunk");
    done(ucxx_envelope_commit(envelope, 8, nullptr), "its commit");
  }
};

std::string explanation() {
  require(ucxx_tag_send(nullptr, nullptr, 0, 0, nullptr, nullptr) == UCXX_ERR_INVALID_PARAM,
          "a send to nobody");
  return ucxx_last_error_message();
}

struct All {
  Peer receiver, sender, one, single, by_hub, threaded;
  Hub hub;
  std::string explained;

  // Before: creates what is used later, and uses everything once, so that the thread's storage
  // exists.
  void begin() {
    alarm(60);
    done(ucxx_context_create(nullptr, &context), "a context");
    explained = explanation();
    receiver = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_MULTI, nullptr);
    done(ucxx_worker_set_am_handler(receiver.worker, 1, on_hello, nullptr, nullptr), "a handler");
    sender = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_MULTI, receiver.worker);
    hub.open(on_ready, nullptr);
    hub.chunk();
    require(calls == 1, "the hub's first call");
    Peer before = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_MULTI, nullptr);
    end_in_callback(before, "a worker that ended in time");
    before = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_SINGLE, nullptr);
    end_in_handler(before, "a SINGLE worker that ended in time");
    one = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_MULTI, nullptr);
    single = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_SINGLE, nullptr);
    by_hub = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_MULTI, nullptr);
    threaded = make(UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_THREAD_MULTI, nullptr);
  }

  void late() {
    // Errors have an explanation.
    require(explanation() == explained && !explained.empty(), "the explanation");
    // A new peer is answered.
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_AM_REPLY;
    done(ucxx_am_send(sender.endpoint, 1, nullptr, 0, "hello", 5, &params, nullptr),
         "the first message");
    for (int i = 0; i < ROUNDS && heard == 0; i++) {
      done(ucxx_worker_progress(sender.worker, nullptr), "a pass of the sender's");
      done(ucxx_worker_progress(receiver.worker, nullptr), "a pass of the receiver's");
    }
    require(heard == 1, "the first message of a peer");
    // A hub calls back.
    hub.chunk();
    require(calls == 2, "the hub's second call");
    // Old and new workers end.
    end_in_callback(one, "a worker that a callback destroyed");
    end_in_handler(single, "a SINGLE worker that a handler destroyed");
    Peer later = make(UCXX_PROGRESS_MANUAL, UCXX_THREAD_SINGLE, nullptr);
    end_in_handler(later, "a SINGLE worker that was made late");
    end_in_callback(threaded, "a worker with a thread that a callback destroyed");
    later = make(UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_THREAD_MULTI, nullptr);
    end_in_callback(later, "a worker with a thread that was made late");
    Hub ends;
    ends.open(on_ready_ends, by_hub.worker);
    ends.chunk();
    require(ucxx_endpoint_status(by_hub.endpoint) == UCXX_ERR_CLOSED,
            "a worker that was destroyed while a hub called back");
    ucxx_endpoint_destroy(by_hub.endpoint);
    // Every object can be created.
    ucxx_context_t *other = nullptr;
    ucxx_notifier_t *notifier = nullptr;
    done(ucxx_context_create(nullptr, &other), "a context");
    done(ucxx_notifier_create(other, &notifier), "a notifier");
    ucxx_notifier_destroy(notifier);
    ucxx_context_destroy(other);
    ucxx_link_destroy(ends.link);
    ucxx_hub_destroy(ends.hub);
    ucxx_link_destroy(hub.link);
    ucxx_hub_destroy(hub.hub);
    drop(sender);
    drop(receiver);
    ucxx_context_destroy(context);
  }
};

All all;
bool is_done; // later than `all`, but without a destructor

struct Static {
  ~Static() {
    if (place == STATIC && context != nullptr) all.late();
  }
} in_static;

struct Thread {
  bool is_used = false;
  ~Thread() {
    if (is_used) {
      all.late();
      is_done = true;
    }
  }
};
thread_local Thread in_thread;

void at_exit() { all.late(); }

void in_this_thread() {
  in_thread.is_used = true; // constructed before the library is called
  all.begin();
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1) {
    place = static_cast<Place>(std::atoi(argv[1]));
    if (place == MAIN_THREAD) {
      in_this_thread();
    } else if (place == OTHER_THREAD) {
      std::thread(in_this_thread).join();
      require(is_done, "the thread's destructor");
    } else {
      if (place == AT_EXIT) std::atexit(at_exit);
      all.begin();
    }
    return 0;
  }
  int wrong = 0;
  for (int way = 0; way < PLACES; way++) wrong += !try_way(argv[0], way);
  std::printf("%d places, %d failed\n", static_cast<int>(PLACES), wrong);
  return wrong > 0;
}
