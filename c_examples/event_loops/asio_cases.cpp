// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// asio_cases.cpp: what ucxx_rs/asio.hpp promises, case by case, in one process.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <ucxx_rs.hpp>
#include <ucxx_rs/asio.hpp>

#include "asio_headers.hpp"

namespace {

using namespace std::chrono_literals;
using asio::use_awaitable;
using ucxx_rs::async_run;
using ucxx_rs::object;
using ucxx_rs::status;

void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "error: expected otherwise: %s\n", what);
  std::exit(1);
}

/// A worker that sends to itself, in the event loop of one thread.
struct loop {
  ucxx_rs::context context = ucxx_rs::context::create();
  asio::io_context io;
  std::optional<ucxx_rs::asio_worker> worker;
  std::optional<ucxx_rs::endpoint> self;
  loop() {
    worker.emplace(io.get_executor(), ucxx_rs::worker::create(context));
    self.emplace(ucxx_rs::endpoint::create(*worker, ucxx_rs::address::of(*worker)));
  }
  /// Runs until `done` is called.
  template <class Start> void run(Start start) {
    start([this] {
      self.reset();
      worker->stop();
    });
    io.run();
  }
};

void callbacks() {
  loop l;
  int sent = 7, received = 0, handlers = 0;
  l.run([&](auto done) {
    async_run(*l.worker, l.worker->tag_recv(object(received), 1),
              [&, done](std::error_code failed, ucxx_rs::recv_info info) {
                require(!failed && info.length == sizeof sent && received == 7, "a receive");
                if (++handlers == 2) done();
              });
    require(handlers == 0, "no handler runs in the call");
    // Another turn of the loop, with the worker armed.
    asio::post(l.io, [&, done] {
      async_run(*l.worker, l.self->tag_send(object(sent), 1), [&, done](std::error_code failed) {
        require(!failed, "a send");
        if (++handlers == 2) done();
      });
    });
  });
  require(handlers == 2, "run() has returned after all handlers");
}

void futures() {
  loop l;
  std::thread runs([&] { l.io.run(); });
  int sent = 8, received = 0;
  auto receiving = async_run(*l.worker, l.worker->tag_recv(object(received), 1), asio::use_future);
  async_run(*l.worker, l.self->tag_send(object(sent), 1), asio::use_future).get();
  require(receiving.get().length == sizeof sent && received == 8, "a future");
  // An error of submitting is in the future as well.
  l.self->close().wait();
  auto failed = async_run(*l.worker, l.self->tag_send(object(sent), 1), asio::use_future);
  try {
    failed.get();
    require(false, "a send on a closed endpoint fails");
  } catch (const asio_error &e) {
    require(std::error_code(e.code()).category() == ucxx_rs::category(), "its code");
  }
  l.self.reset();
  l.worker->stop();
  runs.join();
}

/// The end of a timer cancels the receive, by the cancellation slot of the coroutine.
void cancellation() {
  loop l;
  bool handled = false;
  l.run([&](auto done) {
    asio::co_spawn(
        l.io,
        [&, done]() -> asio::awaitable<void> {
          using namespace asio::experimental::awaitable_operators;
          int received = 0;
          asio::steady_timer timer(l.io, 5ms);
          auto first = co_await (
              async_run(*l.worker, l.worker->tag_recv(object(received), 9), use_awaitable) ||
              timer.async_wait(use_awaitable));
          require(first.index() == 1, "the timer is first");
          handled = true;
          done();
        },
        asio::detached);
  });
  require(handled, "the coroutine has ended");

  loop m;
  asio::cancellation_signal stop;
  int received = 0;
  std::error_code got;
  m.run([&](auto done) {
    async_run(*m.worker, m.worker->tag_recv(object(received), 9),
              asio::bind_cancellation_slot(stop.slot(), [&, done](std::error_code failed, auto) {
                got = failed;
                done();
              }));
    asio::post(m.io, [&] { stop.emit(asio::cancellation_type::terminal); });
  });
  require(got == std::errc::operation_canceled, "the code of a cancelled operation");
}

ucxx_rs::task<int> ping(ucxx_rs::worker_view worker, ucxx_rs::endpoint_view self) {
  int sent = 5, received = 0;
  for (int i = 0; i < 100; i++) {
    auto sending = self.tag_send(object(sent), 2).submit();
    co_await worker.tag_recv(object(received), 2);
  }
  co_return received;
}
ucxx_rs::task<> fails(ucxx_rs::worker_view worker) {
  int received = 0;
  co_await worker.tag_recv(object(received), 3).with({.timeout = 1ms});
}

void tasks() {
  loop l;
  int got = 0;
  bool threw = false;
  l.run([&](auto done) {
    asio::co_spawn(
        l.io,
        [&, done]() -> asio::awaitable<void> {
          got = co_await async_run(*l.worker, ping(*l.worker, *l.self), use_awaitable);
          try {
            co_await async_run(*l.worker, fails(*l.worker), use_awaitable);
          } catch (const ucxx_rs::error &e) { threw = e.status() == status::timed_out; }
          // Results that are buffers.
          int number = 11;
          auto sending = l.self->am_queue_send(object(number)).submit();
          l.worker->wake();
          auto message = co_await async_run(*l.worker, l.self->am_queue_recv(), use_awaitable);
          require(message && message->data[0].size() == sizeof number, "a message of a queue");
          while (!sending.done()) co_await async_run(*l.worker, l.worker->flush(), use_awaitable);
          done();
        },
        [](std::exception_ptr thrown) {
          if (thrown) std::rethrow_exception(thrown);
        });
  });
  require(got == 5 && threw, "the results of tasks");
}

void notifiers() {
  loop l;
  auto notifier = ucxx_rs::notifier::create(l.context);
  ucxx_rs::asio_notifier events(l.io.get_executor(), notifier);
  int sent[10] = {}, count = 0;
  bool closed = false;
  l.run([&](auto done) {
    asio::co_spawn(
        l.io,
        [&, done]() -> asio::awaitable<void> {
          for (int &number : sent) {
            int received = 0;
            auto receiving = l.worker->tag_recv(object(received), 4)
                                 .with({.notifier = notifier.c(), .user_data = &number})
                                 .submit();
            co_await async_run(*l.worker, l.self->tag_send(object(number), 4), use_awaitable);
            auto event = co_await ucxx_rs::async_next(events, use_awaitable);
            require(event.user_data() == &number && event.status() == status::ok, "an event");
            count++;
          }
          static_cast<void>(notifier.stop());
          try {
            static_cast<void>(co_await ucxx_rs::async_next(events, use_awaitable));
          } catch (const asio_error &e) { closed = std::error_code(e.code()) == status::closed; }
          done();
        },
        [](std::exception_ptr thrown) {
          if (thrown) std::rethrow_exception(thrown);
        });
  });
  require(count == 10 && closed, "the events of a notifier");
}

/// Coroutines that never end own endpoints and buffers: the worker ends first, then the io_context.
void ends_with_operations() {
  auto context = ucxx_rs::context::create();
  asio::io_context io;
  enum { before, within, after } stage = before;
  struct note {
    decltype(stage) &to;
    explicit note(decltype(stage) &s) : to(s) { to = within; }
    ~note() { to = after; }
  };
  {
    ucxx_rs::asio_worker worker(io.get_executor(), ucxx_rs::worker::create(context));
    asio::co_spawn(
        io,
        [](ucxx_rs::asio_worker &w, decltype(stage) &s) -> asio::awaitable<void> {
          note noted(s);
          auto peer = ucxx_rs::endpoint::create(w, ucxx_rs::address::of(w));
          std::vector<int> data(1000);
          co_await async_run(w, w.tag_recv(data, 5), use_awaitable);
        }(worker, stage),
        asio::detached);
    while (stage == before) io.run_one();
    require(stage == within, "the receive is in flight");
  }
  // The handlers of cancelled operations run here, if anyone runs the io_context.
  io.restart();
  io.run();
  require(stage == after, "the coroutine has ended with its operation");

  // Nobody runs it: the io_context destroys the coroutine.
  stage = before;
  {
    asio::io_context stopped;
    ucxx_rs::asio_worker worker(stopped.get_executor(), ucxx_rs::worker::create(context));
    asio::co_spawn(
        stopped,
        [](ucxx_rs::asio_worker &w, decltype(stage) &s) -> asio::awaitable<void> {
          note noted(s);
          int received = 0;
          co_await async_run(w, w.tag_recv(object(received), 5), use_awaitable);
        }(worker, stage),
        asio::detached);
    while (stage == before) stopped.run_one();
    stopped.stop();
  }
  require(stage == after, "the coroutine was destroyed");
}

/// Several threads run the executor. Each chain of messages is on some of them.
void several_threads() {
  auto context = ucxx_rs::context::create();
  asio::thread_pool pool(3);
  {
    ucxx_rs::asio_worker worker(pool.get_executor(), ucxx_rs::worker::create(context));
    auto self = ucxx_rs::endpoint::create(worker, ucxx_rs::address::of(worker));
    auto chain = [&](std::uint64_t tag) -> asio::awaitable<int> {
      int received = 0;
      for (int i = 0; i < 200; i++) {
        auto receiving = worker.tag_recv(object(received), tag).submit();
        co_await async_run(worker, self.tag_send_sync(object(i), tag), use_awaitable);
        while (!receiving.done()) co_await async_run(worker, worker.flush(), use_awaitable);
        require(received == i, "messages arrive in order");
      }
      co_return received;
    };
    std::vector<std::future<int>> chains;
    for (std::uint64_t tag = 0; tag < 8; tag++) {
      chains.push_back(asio::co_spawn(pool, chain(100 + tag), asio::use_future));
    }
    for (auto &c : chains) require(c.get() == 199, "a chain");
    // Cancelled on one thread, while others run handlers.
    for (int i = 0; i < 200; i++) {
      int received = 0;
      auto strand = asio::make_strand(pool);
      asio::cancellation_signal stop;
      std::promise<std::error_code> got;
      asio::post(strand, [&] {
        async_run(worker, worker.tag_recv(object(received), 50),
                  asio::bind_cancellation_slot(
                      stop.slot(), asio::bind_executor(strand, [&](std::error_code e, auto) {
                        got.set_value(e);
                      })));
        asio::post(strand, [&] { stop.emit(asio::cancellation_type::all); });
      });
      require(got.get_future().get() == std::errc::operation_canceled, "it was cancelled");
    }
  }
  pool.join();
}

/// A worker with a progress thread is refused.
void refused() {
  auto context = ucxx_rs::context::create();
  asio::io_context io;
  auto threaded =
      ucxx_rs::worker::create(context, {.progress_mode = ucxx_rs::progress_mode::blocking});
  try {
    ucxx_rs::asio_worker worker(io.get_executor(), std::move(threaded));
    require(false, "a worker with a progress thread is refused");
  } catch (const ucxx_rs::error &e) { require(e.status() == status::busy, "its status"); }
}

} // namespace

int main() {
  struct {
    const char *name;
    void (*run)();
  } cases[] = {{"callbacks", callbacks},
               {"futures", futures},
               {"cancellation", cancellation},
               {"tasks", tasks},
               {"notifiers", notifiers},
               {"ends with operations", ends_with_operations},
               {"several threads", several_threads},
               {"refused", refused}};
  for (auto &one : cases) {
    one.run();
    std::printf("%s: ok\n", one.name);
    std::fflush(stdout);
  }
}
