/*
 * A callback that does not return: an exception leaves it, or it ends its thread. The process must
 * end at that point, with the faulty function on the stack: by C++'s terminate handler, or by abort
 * for pthread_exit. The library's log reports it first. Each case is a child process.
 */
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <ucxx_rs.h>
#include <unistd.h>

#include "quiet_child.h"

namespace {

enum Way {
  REQUEST,
  ON_THREAD,
  MESSAGE,
  MULTI,
  ALLOCATOR,
  DESTROY_ARG,
  RUN,
  THREAD_START,
  READY,
  VISIT,
  DUMP,
  LOG,
  WAYS
};
bool exits;
int logged;

} // namespace

// The faulty function, which must be found on the stack. `cold` keeps it in one piece.
extern "C" __attribute__((noinline, cold)) void leave_callback() {
  if (exits) pthread_exit(nullptr);
  throw std::runtime_error("out of a callback");
}

namespace {

bool is_on_stack(const char *wanted) {
  void *frames[64];
  Dl_info info;
  for (int at = 0, count = backtrace(frames, 64); at < count; at++) {
    if (dladdr(frames[at], &info) != 0 && info.dli_sname != nullptr &&
        std::strcmp(info.dli_sname, wanted) == 0)
      return true;
  }
  return false;
}

void terminated() {
  const bool heard = logged > 0;
  std::_Exit(exits ? 2 : !is_on_stack("leave_callback") ? 3 : heard ? 0 : 4);
}
void aborted(int) {
  std::_Exit(!exits ? 5 : !is_on_stack("leave_callback") ? 6 : logged > 0 ? 0 : 7);
}

void on_log(void *, int32_t, const char *component, const char *) {
  logged += std::strcmp(component, "callback") == 0;
}
void leaving_log(void *, int32_t level, const char *, const char *) {
  logged = 1;
  if (level > UCXX_LOG_ERROR) leave_callback();
}
void on_request(void *, ucxx_request_t *, ucxx_status_t) { leave_callback(); }
void on_message(void *, ucxx_am_message_t *) { leave_callback(); }
void on_multi(void *, ucxx_endpoint_t *, const void *, size_t, ucxx_buffers_t *, ucxx_status_t) {
  leave_callback();
}
ucxx_status_t allocate(void *, size_t, int32_t, int32_t, void **) {
  leave_callback();
  return UCXX_OK;
}
void deallocate(void *, void *, size_t, int32_t, int32_t) {}
void plain(void *) { leave_callback(); }
void on_ready(void *, ucxx_link_t *, ucxx_status_t) { leave_callback(); }
void visit(void *, const char *, const char *) { leave_callback(); }
void on_line(void *, const char *) { leave_callback(); }

ucxx_context_t *context;
ucxx_worker_t *worker;
ucxx_endpoint_t *endpoint; // to the same worker

void open(int way) {
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_address_t *address = nullptr;
  if (way == ON_THREAD || way == THREAD_START) params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  if (way == THREAD_START) params.thread_start = plain;
  done(ucxx_context_create(&context_params, &context), "a context");
  done(ucxx_worker_create(context, &params, &worker), "a worker");
  done(ucxx_worker_address(worker, &address), "an address");
  done(ucxx_endpoint_create(worker, address, nullptr, &endpoint), "an endpoint");
  ucxx_address_destroy(address);
}

void handle_parts(const ucxx_allocator_t *allocator) {
  done(ucxx_worker_set_multi_handler(worker, 1, on_multi, nullptr, nullptr, allocator),
       "a handler");
}
void send_parts() {
  ucxx_buffer_t parts[1] = {};
  static char word[4];
  parts[0].data = word;
  parts[0].length = sizeof word;
  done(ucxx_am_send_multi(endpoint, 1, nullptr, 0, parts, 1, nullptr, nullptr),
       "a message of parts");
}

void make_ready() {
  const ucxx_memory_kind_t on_host = {UCXX_MEMORY_HOST, 0};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_link_params_t link_params = UCXX_LINK_PARAMS_INIT;
  ucxx_hub_t *hub = nullptr;
  ucxx_link_t *link = nullptr;
  params.envelope_size = 8;
  link_params.on_ready = on_ready;
  done(ucxx_hub_create(context, &params, &hub), "a hub");
  done(ucxx_link_create(hub, UCXX_LINK_PRODUCE, on_host, &link_params, &link), "a link");
  done(ucxx_hub_add_envelopes(hub, on_host, 1), "an envelope");
}

int in_this_way(int way) {
  void *frame[1];
  backtrace(frame, 1); // loads what backtrace needs
  std::set_terminate(terminated);
  std::signal(SIGABRT, aborted);
  if (way == LOG) {
    done(ucxx_log_set_callback(leaving_log, nullptr, UCXX_LOG_TRACE), "the log");
  } else {
    done(ucxx_log_set_callback(on_log, nullptr, UCXX_LOG_ERROR), "the log");
  }
  open(way);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = on_request;
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.allocate = allocate;
  allocator.deallocate = deallocate;
  switch (way) {
  case REQUEST:
  case ON_THREAD: done(ucxx_worker_flush(worker, &params, nullptr), "a flush"); break;
  case MESSAGE:
    done(ucxx_worker_set_am_handler(worker, 1, on_message, nullptr, nullptr), "a handler");
    done(ucxx_am_send(endpoint, 1, nullptr, 0, "word", 4, nullptr, nullptr), "a message");
    break;
  case MULTI:
    handle_parts(nullptr);
    send_parts();
    break;
  case ALLOCATOR:
    handle_parts(&allocator);
    send_parts();
    break;
  case LOG: // a message without a handler is logged
    send_parts();
    break;
  case DESTROY_ARG:
    done(ucxx_worker_set_am_handler(worker, 1, on_message, nullptr, plain), "a handler");
    done(ucxx_worker_set_am_handler(worker, 1, nullptr, nullptr, nullptr), "no handler");
    break;
  case RUN: done(ucxx_worker_run_pre(worker, plain, nullptr, UINT64_MAX), "a function"); break;
  case READY: make_ready(); break;
  case VISIT: ucxx_context_visit_config(context, visit, nullptr); break;
  case DUMP: ucxx_worker_dump(worker, on_line, nullptr); break;
  default: break;
  }
  const bool by_itself = way == ON_THREAD || way == THREAD_START;
  for (int time = 0; time < 1000000; time++) {
    if (by_itself)
      usleep(100);
    else
      ucxx_worker_progress(worker, nullptr);
  }
  return 8; // the callback returned, or was not called
}

} // namespace

int main(int argc, char **argv) {
  alarm(120);
  if (argc == 2) {
    const int number = std::atoi(argv[1]);
    exits = number >= WAYS;
    std::_Exit(in_this_way(number % WAYS));
  }
  int wrong = 0;
  for (int way = 0; way < WAYS; way++) wrong += !try_way(argv[0], way);
  for (int way : {REQUEST, ON_THREAD, MESSAGE, RUN}) wrong += !try_way(argv[0], WAYS + way);
  return wrong != 0;
}
