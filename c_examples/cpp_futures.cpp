// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// cpp_futures.cpp: std::future over completion callbacks.
//
//     c++ -std=c++17 -o cpp_futures cpp_futures.cpp $(pkg-config --cflags --libs ucxx_rs) -pthread
//     ./cpp_futures 0 futures.socket & ./cpp_futures 1 futures.socket; wait
//
// Each process prints two lines:
//
//     rank 0: as expected: receive: UCXX_ERR_TIMED_OUT
//     rank 0: 1599880 bytes received through futures
//
// Each operation owns a promise, and its completion callback fulfils it. Two rules make that safe.
// No exception may leave a callback, because the library that calls it is not C++. The buffer must
// stay valid until the promise is fulfilled.
//
// Progress is manual, so no thread fulfils promises in the background. peer::get() makes progress
// until its future is ready.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exchange.h"

namespace {

constexpr std::uint64_t timeout_ns = 60u * UINT64_C(1000000000);

class error : public std::runtime_error {
public:
  error(ucxx_status_t status, const std::string &what)
      : std::runtime_error(what + ": " + ucxx_status_name(status)), status_(status) {}
  ucxx_status_t status() const noexcept { return status_; }

private:
  ucxx_status_t status_;
};

void check(ucxx_status_t status, const char *what) {
  if (status != UCXX_OK)
    throw error(status, std::string(what) + " (" + ucxx_last_error_message() + ")");
}

// Destroys a handle with the function for its type when it goes out of scope.
template <typename T, void (*destroy)(T *)> struct deleter {
  void operator()(T *handle) const noexcept { destroy(handle); }
};
template <typename T, void (*destroy)(T *)> using handle = std::unique_ptr<T, deleter<T, destroy>>;
using context_handle = handle<ucxx_context_t, ucxx_context_destroy>;
using worker_handle = handle<ucxx_worker_t, ucxx_worker_destroy>;
using address_handle = handle<ucxx_address_t, ucxx_address_destroy>;
using endpoint_handle = handle<ucxx_endpoint_t, ucxx_endpoint_destroy>;

struct message {
  std::vector<char> bytes;
  std::uint64_t tag = 0;
};

// What an operation needs until it completes: promise, buffer and receive information.
struct operation {
  std::promise<message> promise;
  message content;
  ucxx_recv_info_t info = ucxx_recv_info_t();
  bool receives = false;
};

extern "C" void on_complete(void *arg, ucxx_request_t *, ucxx_status_t status) noexcept {
  std::unique_ptr<operation> done(static_cast<operation *>(arg));
  try {
    if (status != UCXX_OK) throw error(status, done->receives ? "receive" : "send");
    if (done->receives) {
      done->content.bytes.resize(static_cast<std::size_t>(done->info.length));
      done->content.tag = done->info.sender_tag;
    }
    done->promise.set_value(std::move(done->content));
  } catch (...) {
    // set_value fails only if the promise was misused. noexcept turns that into an abort.
    done->promise.set_exception(std::current_exception());
  }
}

class peer {
public:
  peer(int rank, const char *path) {
    if (exchange_open(&exchange_, rank == 0, path) != 0)
      throw std::runtime_error("no connection to the other process");
    ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
    params.features = UCXX_FEATURE_TAG | UCXX_FEATURE_WAKEUP;
    ucxx_context_t *context = nullptr;
    check(ucxx_context_create(&params, &context), "context");
    context_.reset(context);
    ucxx_worker_t *worker = nullptr;
    check(ucxx_worker_create(context, nullptr, &worker), "worker");
    worker_.reset(worker);

    ucxx_address_t *raw = nullptr;
    check(ucxx_worker_address(worker, &raw), "worker address");
    address_handle mine(raw);
    void *bytes = nullptr;
    std::size_t length = 0;
    if (exchange_swap(&exchange_, ucxx_address_data(mine.get()), ucxx_address_length(mine.get()),
                      &bytes, &length) != 0) {
      throw std::runtime_error("no address from the other process");
    }
    std::unique_ptr<void, decltype(&std::free)> received(bytes, std::free);
    check(ucxx_address_from_bytes(bytes, length, &raw), "the peer's address");
    address_handle theirs(raw);
    ucxx_endpoint_t *endpoint = nullptr;
    check(ucxx_endpoint_create(worker, theirs.get(), nullptr, &endpoint), "endpoint");
    endpoint_.reset(endpoint);
  }
  peer(const peer &) = delete;
  peer &operator=(const peer &) = delete;
  ~peer() { exchange_close(&exchange_); }

  std::future<message> send(std::vector<char> bytes, std::uint64_t tag) {
    auto sending = std::make_unique<operation>();
    sending->content.bytes = std::move(bytes);
    sending->content.tag = tag;
    return submit(std::move(sending), [this, tag](operation &op, const ucxx_op_params_t &params) {
      return ucxx_tag_send(endpoint_.get(), op.content.bytes.data(), op.content.bytes.size(), tag,
                           &params, nullptr);
    });
  }

  std::future<message> receive(std::size_t capacity, std::uint64_t tag, std::uint64_t timeout = 0) {
    auto receiving = std::make_unique<operation>();
    receiving->receives = true;
    receiving->content.bytes.resize(capacity);
    return submit(
        std::move(receiving), [this, tag, timeout](operation &op, ucxx_op_params_t &params) {
          params.recv_info = &op.info;
          params.source = endpoint_.get();
          params.timeout_ns = timeout;
          return ucxx_tag_recv(worker_.get(), op.content.bytes.data(), op.content.bytes.size(), tag,
                               UINT64_MAX, &params, nullptr);
        });
  }

  // Returns the future's value, or throws the operation's error.
  message get(std::future<message> future) {
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      check(ucxx_worker_wait(worker_.get(), timeout_ns), "waiting for a completion");
    }
    return future.get();
  }

  // Returns when everything sent has arrived, and the peer is done too.
  void finish() {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    // The blocking form: the call returns the final status.
    params.flags = UCXX_FLAG_WAIT;
    check(ucxx_endpoint_flush(endpoint_.get(), &params, nullptr), "flush");
    if (exchange_barrier(&exchange_, worker_.get(), timeout_ns) != 0)
      throw std::runtime_error("the other process did not finish");
  }

private:
  template <typename Call> std::future<message> submit(std::unique_ptr<operation> op, Call call) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    // The callback runs for every operation, and never inside the call that starts it.
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = on_complete;
    params.callback_arg = op.get();
    std::future<message> future = op->promise.get_future();
    ucxx_status_t status = call(*op, params);
    if (status != UCXX_INPROGRESS)
      throw error(status, std::string("submission (") + ucxx_last_error_message() + ")");
    op.release(); // from now on the callback owns it
    return future;
  }

  // Members are destroyed in reverse order: the endpoint first, the context last.
  struct exchange exchange_ = {-1};
  context_handle context_;
  worker_handle worker_;
  endpoint_handle endpoint_;
};

void run(int rank, const char *path) {
  peer other(rank, path);
  constexpr std::size_t count = 16, length = 100 * 1000;

  // Start all receives and sends before the first result is needed.
  std::vector<std::future<message>> received, sent;
  for (std::uint64_t tag = 0; tag < count; tag++) received.push_back(other.receive(length, tag));
  for (std::uint64_t tag = 0; tag < count; tag++) {
    sent.push_back(other.send(std::vector<char>(length - tag, static_cast<char>('a' + tag)), tag));
  }
  std::size_t bytes = 0;
  for (std::uint64_t tag = 0; tag < count; tag++) {
    message got = other.get(std::move(received[tag]));
    if (got.tag != tag ||
        got.bytes != std::vector<char>(length - tag, static_cast<char>('a' + tag))) {
      throw std::runtime_error("a message arrived damaged");
    }
    bytes += got.bytes.size();
  }
  for (auto &future : sent) other.get(std::move(future));

  // get() throws the error of an operation.
  bool timed_out = false;
  try {
    other.get(other.receive(1, 999, 10 * 1000 * 1000));
  } catch (const error &caught) {
    timed_out = caught.status() == UCXX_ERR_TIMED_OUT;
    std::printf("rank %d: as expected: %s\n", rank, caught.what());
  }
  if (!timed_out) throw std::runtime_error("a receive without a message did not time out");

  other.finish();
  std::printf("rank %d: %zu bytes received through futures\n", rank, bytes);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s 0|1 SOCKET_PATH\n", argv[0]);
    return 2;
  }
  try {
    run(std::atoi(argv[1]), argv[2]);
  } catch (const std::exception &caught) {
    std::fprintf(stderr, "error: %s\n", caught.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
