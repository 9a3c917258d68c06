// SPDX-License-Identifier: BSD-3-Clause
// Copyright the ucxx_rs developers
//
// What ucxx_rs.hpp costs over the C calls that it makes: the same loop in both forms, to be
// counted. Two workers in one process and on one thread send and receive a message again and again.
//
//   --form c | cpp
//   --way request    a receive that is polled, and a send
//         callback   a receive with a callback
//         await      a coroutine that awaits receives; in C a callback that posts the next one
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <ucxx_rs.hpp>

extern "C" {
void mark_begin(void);
void mark_end(void);
}

namespace {

namespace ux = ucxx_rs;

struct settings {
  std::string form = "cpp", way = "request";
  std::size_t size = 8;
  long iterations = 1000, warmup = 2000;
  bool markers = false;
};

struct loop {
  explicit loop(std::size_t size) : out(size), in(size) {}
  ux::context context = ux::context::create();
  std::vector<unsigned char> out, in;
  ux::worker sender = ux::worker::create(context), receiver = ux::worker::create(context);
  ux::endpoint to = ux::endpoint::create(sender, ux::address::of(receiver));
  ux::endpoint back = ux::endpoint::create(receiver, ux::address::of(sender));
  long received = 0, wanted = 0;
};

void progress(loop &l) {
  static_cast<void>(l.receiver.try_progress());
  static_cast<void>(l.sender.try_progress());
}

void progress_c(loop &l) {
  uint32_t events;
  static_cast<void>(ucxx_worker_progress(l.receiver.c(), &events));
  static_cast<void>(ucxx_worker_progress(l.sender.c(), &events));
}

void need(bool holds) {
  if (!holds) std::abort();
}

void request_cpp(loop &l, long count) {
  for (long i = 0; i < count; i++) {
    auto receiving = l.receiver.tag_recv(l.in, 1).try_submit();
    auto sending = l.to.tag_send(l.out, 1).try_submit();
    need(receiving && sending);
    while (!receiving->done() || !sending->done()) progress(l);
  }
}

void request_c(loop &l, long count) {
  for (long i = 0; i < count; i++) {
    ucxx_request_t *receiving = nullptr, *sending = nullptr;
    auto r = ucxx_tag_recv(l.receiver.c(), l.in.data(), l.in.size(), 1, ~0ull, nullptr, &receiving);
    auto s = ucxx_tag_send(l.to.c(), l.out.data(), l.out.size(), 1, nullptr, &sending);
    need(r >= 0 && s >= 0);
    while ((receiving && ucxx_request_status(receiving) == UCXX_INPROGRESS) ||
           (sending && ucxx_request_status(sending) == UCXX_INPROGRESS))
      progress_c(l);
    ucxx_request_destroy(receiving);
    ucxx_request_destroy(sending);
  }
}

void callback_cpp(loop &l, long count) {
  l.received = 0;
  for (long i = 0; i < count; i++) {
    auto r = l.receiver.tag_recv(l.in, 1).try_then([&l](ux::status) { l.received++; });
    auto sending = l.to.tag_send(l.out, 1).try_submit();
    need(!ux::failed(r) && sending);
    while (l.received <= i || !sending->done()) progress(l);
  }
}

void count_one(void *arg, ucxx_request_t *, ucxx_status_t) noexcept {
  static_cast<loop *>(arg)->received++;
}

void callback_c(loop &l, long count) {
  l.received = 0;
  for (long i = 0; i < count; i++) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = count_one;
    params.callback_arg = &l;
    ucxx_request_t *sending = nullptr;
    auto r = ucxx_tag_recv(l.receiver.c(), l.in.data(), l.in.size(), 1, ~0ull, &params, nullptr);
    auto s = ucxx_tag_send(l.to.c(), l.out.data(), l.out.size(), 1, nullptr, &sending);
    need(r >= 0 && s >= 0);
    while (l.received <= i || (sending && ucxx_request_status(sending) == UCXX_INPROGRESS))
      progress_c(l);
    ucxx_request_destroy(sending);
  }
}

ux::task<> receive_cpp(loop &l) {
  while (l.received < l.wanted) {
    co_await l.receiver.tag_recv(l.in, 1);
    l.received++;
  }
}

void await_cpp(loop &l, long count) {
  l.received = 0;
  l.wanted = count;
  ux::spawn(receive_cpp(l));
  for (long i = 0; i < count; i++) {
    auto sending = l.to.tag_send(l.out, 1).try_submit();
    need(sending.has_value());
    while (l.received <= i || !sending->done()) progress(l);
  }
}

// What a coroutine does by hand: its state is in memory, and each callback posts the next receive.
struct machine {
  loop *l;
  ucxx_recv_info_t info;
  ucxx_status_t status;
};

void receive_c(machine &m);

void received_c(void *arg, ucxx_request_t *, ucxx_status_t status) noexcept {
  auto *m = static_cast<machine *>(arg);
  m->status = status;
  need(m->status == UCXX_OK);
  if (++m->l->received < m->l->wanted) receive_c(*m);
}

void receive_c(machine &m) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = received_c;
  params.callback_arg = &m;
  params.recv_info = &m.info;
  auto &in = m.l->in;
  need(ucxx_tag_recv(m.l->receiver.c(), in.data(), in.size(), 1, ~0ull, &params, nullptr) ==
       UCXX_INPROGRESS);
}

void await_c(loop &l, long count) {
  l.received = 0;
  l.wanted = count;
  machine m{&l, {}, UCXX_OK};
  receive_c(m);
  for (long i = 0; i < count; i++) {
    ucxx_request_t *sending = nullptr;
    auto s = ucxx_tag_send(l.to.c(), l.out.data(), l.out.size(), 1, nullptr, &sending);
    need(s >= 0);
    while (l.received <= i || (sending && ucxx_request_status(sending) == UCXX_INPROGRESS))
      progress_c(l);
    ucxx_request_destroy(sending);
  }
}

using form = void (*)(loop &, long);

form form_of(const settings &s) {
  bool cpp = s.form == "cpp";
  if (s.way == "request") return cpp ? request_cpp : request_c;
  if (s.way == "callback") return cpp ? callback_cpp : callback_c;
  return cpp ? await_cpp : await_c;
}

settings read(int argc, char **argv) {
  settings s;
  for (int i = 1; i < argc; i++) {
    std::string key = argv[i];
    if (key == "--markers") {
      s.markers = true;
      continue;
    }
    if (++i == argc) break;
    const char *value = argv[i];
    if (key == "--form") s.form = value;
    if (key == "--way") s.way = value;
    if (key == "--size") s.size = std::strtoul(value, nullptr, 10);
    if (key == "--iterations") s.iterations = std::atol(value);
    if (key == "--warmup") s.warmup = std::atol(value);
  }
  return s;
}

} // namespace

// Not inlined: callgrind starts and stops collecting at this function.
__attribute__((noinline)) void measured_loop(void (*run)(loop &, long), loop &l, long count);
void measured_loop(void (*run)(loop &, long), loop &l, long count) { run(l, count); }

int main(int argc, char **argv) {
  auto s = read(argc, argv);
  loop l(s.size);
  auto run = form_of(s);
  run(l, s.warmup);
  if (s.markers) mark_begin();
  measured_loop(run, l, s.iterations);
  if (s.markers) mark_end();
  std::printf("iterations=%ld\n", s.iterations);
  return 0;
}
