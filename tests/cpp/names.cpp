// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// The names of ucxx_rs.hpp in `using namespace`, beside those of std and of POSIX. test_reach.py
// looks that no type is missing here. It never runs.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <ucxx_rs.hpp>

using namespace std;
using namespace ucxx_rs;

// std has these names too, so they need `ucxx_rs::` here: docs/cpp.md.
using own_allocator = ucxx_rs::allocator;
using own_function = ucxx_rs::function<void()>;
using own_reduce = ucxx_rs::reduce;

template <class...> struct types;
using statuses = types<status, error, result<int>>;
using contexts = types<context, context_view, context_params, feature, network, log_level>;
using workers = types<worker, worker_view, worker_params, thread_mode, progress_mode>;
using endpoints = types<endpoint, endpoint_view, endpoint_params, error_handling, close_mode,
                        am_memory, address, address_view>;
using listeners = types<listener, listener_view, listener_params, conn_request, conn_request_view,
                        notifier, notifier_view, completion, event, exception_handler, log_callback,
                        nanoseconds, native_handle>;
using operations = types<request, request_view, op_params, default_params, flag, recv_info,
                         decltype(declval<worker_view>().flush()), operation<void, int>>;
using lists = types<const_buffer, mutable_buffer, const_buffers, mutable_buffers, bytes_view,
                    memory_type, buffers, buffers_view, receive_params, queue_message>;
using messages = types<tag_message, tag_message_view, am_message, am_message_view, fetch,
                       fetch_view, multi_message>;
using regions = types<memory, memory_view, rkey, rkey_view, atomic_op>;
using members = types<group, group_view, group_params, bootstrap>;
using windows =
    types<window<int>, window_view<int>, window_params, window_path, window_flavor, layout<int>,
          indexed<int>, epoch, lock_type, sync_type, assertion, accumulate_order>;
using hubs = types<hub, hub_view, hub_params, hub_link, hub_link_view, link_params, link_type,
                   hub_retain, envelope, lease, memory_kind>;
#if UCXX_RS_COROUTINES
using coroutines = types<task<int>, notifier_loop>;
#endif

void functions(hub_link_view out, vector<request> &requests, int number);
void functions(hub_link_view out, vector<request> &requests, int number) {
  static_cast<void>(lease_many({out}, forever).size());
  static_cast<void>(try_lease_many({out}));
  static_cast<void>(wait_all(requests));
  static_cast<void>(wait_any(requests));
  static_cast<void>(object(number).size());
  static_cast<void>(version().major);
  static_cast<void>(visit_config([](const char *, const char *) {}));
  static_cast<void>(set_log(nullptr, nullptr, log_level::warn));
  set_exception_handler(nullptr);
  if (failed(status::ok)) throw error(status::ok, name(status::ok));
  static_cast<void>(explain(status::ok));
  static_cast<void>(category() == make_error_code(status::ok).category());
  static_cast<void>(enable_borrowed_buffer<string>);
#if UCXX_RS_COROUTINES
  spawn([]() -> task<> { co_return; }());
#endif
}
