/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A UCXX peer, through UCXX's C++ interface, as foreign.py is through its Python package.
 * Controlled by tests/c/endpoint/foreign_peer.c and tests/c/multi/foreign_multi.c.
 *
 *   foreign peer|none            error handling of its endpoints
 *
 * The commands of tests/c/endpoint/foreign_raw.c, which describes them, and:
 *
 *   send_multi TAG SEED LENGTH,...       ok when all frames are sent; each has the seed of the one
 *                                        before, plus 1
 *   recv_multi TAG SEED LENGTH,...       ok when these frames have arrived and are correct, or
 * wrong am_send LENGTH SEED                  ok when complete, or failed am_recv LENGTH SEED ok
 * when received and correct, or wrong am_send_to OWNER ID HEADER LENGTH SEED   the same with a
 * header of so many bytes, whose seed is one more; to a receiver callback, unless OWNER is -
 *   am_recv_with HEADER LENGTH SEED      the other side of that
 *   am_handle OWNER ID                   registers a receiver callback
 *   am_handled HEADER LENGTH SEED        ok when it was called with the correct data, or wrong
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ucxx/api.h>

namespace {

using bytes = std::vector<std::uint8_t>;

bytes pattern(std::size_t length, unsigned seed) {
  bytes data(length);
  for (std::size_t at = 0; at < length; at++) data[at] = static_cast<std::uint8_t>(seed + 7 * at);
  return data;
}

std::vector<bytes> patterns(const std::string &lengths, unsigned seed) {
  std::vector<bytes> frames;
  std::istringstream list(lengths);
  for (std::string length; std::getline(list, length, ',');)
    frames.push_back(pattern(std::stoul(length), seed++));
  return frames;
}

bytes contents(ucxx::Buffer &buffer) {
  const auto *data = static_cast<const std::uint8_t *>(buffer.data());
  return bytes(data, data + buffer.getSize());
}

class arguments {
public:
  explicit arguments(const std::string &line) : line_(line) {}
  template <typename T> T next() {
    T value;
    if (!(line_ >> value))
      throw std::invalid_argument("an argument is missing or wrong: " + line_.str());
    return value;
  }

private:
  std::istringstream line_;
};

class peer {
public:
  explicit peer(bool error_handling) : error_handling_(error_handling) {}

  std::string obey(const std::string &line) {
    static const std::map<std::string, std::string (peer::*)(arguments &)> commands = {
        {"listen", &peer::listen},
        {"connect", &peer::connect},
        {"address", &peer::address},
        {"reach", &peer::reach},
        {"send", &peer::send},
        {"recv", &peer::recv},
        {"send_multi", &peer::send_multi},
        {"recv_multi", &peer::recv_multi},
        {"am_send", &peer::am_send},
        {"am_recv", &peer::am_recv},
        {"am_send_to", &peer::am_send_to},
        {"am_recv_with", &peer::am_recv_with},
        {"am_handle", &peer::am_handle},
        {"am_handled", &peer::am_handled},
        {"close", &peer::close}};
    try {
      arguments rest(line);
      const auto command = commands.find(rest.next<std::string>());
      return command == commands.end() ? "unknown command '" + line + "'?"
                                       : (this->*command->second)(rest);
    } catch (const std::exception &error) { /* the other side must get every error */
      return std::string("failed: ") + error.what();
    }
  }

  void progress() { worker_->progress(); }

private:
  /* No exception may leave it: its caller is not C++. */
  static void on_request(ucp_conn_request_h request, void *arg) noexcept {
    auto *self = static_cast<peer *>(arg);
    self->endpoint_ = self->listener_->endpointBuilder(request)
                          .endpointErrorHandling(self->error_handling_)
                          .build();
  }

  std::string listen(arguments &) {
    listener_ = worker_->listenerBuilder(0, on_request, this).build();
    return "port " + std::to_string(listener_->getPort());
  }

  std::string connect(arguments &rest) {
    const auto port = rest.next<std::uint16_t>();
    endpoint_ =
        worker_->endpointBuilder("127.0.0.1", port).endpointErrorHandling(error_handling_).build();
    return "ok";
  }

  std::string address(arguments &) {
    const auto own = worker_->addressBuilder().build();
    std::string answer = "address ";
    for (const char character : own->getStringView()) {
      const auto byte = static_cast<unsigned char>(character);
      answer += "0123456789abcdef"[byte >> 4];
      answer += "0123456789abcdef"[byte & 15];
    }
    return answer;
  }

  std::string reach(arguments &rest) {
    const auto hexadecimal = rest.next<std::string>();
    std::string data;
    for (std::size_t at = 0; at < hexadecimal.size(); at += 2)
      data += static_cast<char>(std::stoul(hexadecimal.substr(at, 2), nullptr, 16));
    const auto theirs = ucxx::AddressBuilder(std::string_view(data)).build();
    endpoint_ = worker_->endpointBuilder(theirs).endpointErrorHandling(error_handling_).build();
    return "ok";
  }

  ucxx::Endpoint &endpoint() const {
    if (!endpoint_) throw std::logic_error("there is no endpoint");
    return *endpoint_;
  }

  void finish(ucxx::Request &request) {
    while (!request.isCompleted()) progress();
    request.checkError();
  }

  std::string send(arguments &rest) {
    const auto tag = rest.next<std::uint64_t>();
    const auto length = rest.next<std::size_t>();
    const auto data = pattern(length, rest.next<unsigned>());
    finish(*endpoint().tagSendBuilder(data.data(), data.size(), ucxx::Tag(tag)).build());
    return "ok";
  }

  std::string recv(arguments &rest) {
    const auto tag = rest.next<std::uint64_t>();
    const auto length = rest.next<std::size_t>();
    bytes data(length);
    finish(*worker_->tagRecvBuilder(data.data(), data.size(), ucxx::Tag(tag), ucxx::TagMaskFull)
                .build());
    return data == pattern(length, rest.next<unsigned>()) ? "ok" : "wrong";
  }

  std::string send_multi(arguments &rest) {
    const auto tag = rest.next<std::uint64_t>();
    const auto seed = rest.next<unsigned>();
    const auto frames = patterns(rest.next<std::string>(), seed);
    std::vector<const void *> buffers;
    std::vector<std::size_t> sizes;
    for (const bytes &frame : frames) {
      buffers.push_back(frame.data());
      sizes.push_back(frame.size());
    }
    const std::vector<int> devices(frames.size(), 0);
    finish(*endpoint().tagMultiSendBuilder(buffers, sizes, devices, ucxx::Tag(tag)).build());
    return "ok";
  }

  std::string recv_multi(arguments &rest) {
    const auto tag = rest.next<std::uint64_t>();
    const auto seed = rest.next<unsigned>();
    const auto expected = patterns(rest.next<std::string>(), seed);
    const auto request = endpoint().tagMultiRecvBuilder(ucxx::Tag(tag), ucxx::TagMaskFull).build();
    finish(*request);
    std::vector<bytes> frames;
    for (const auto &part : request->_bufferRequests)
      if (part->buffer) /* the headers have none */
        frames.push_back(contents(*part->buffer));
    if (frames == expected) return "ok";
    std::string answer = "wrong:";
    for (const bytes &frame : frames) answer += " " + std::to_string(frame.size());
    return answer;
  }

  std::string am_send(arguments &rest) {
    const auto length = rest.next<std::size_t>();
    const auto data = pattern(length, rest.next<unsigned>());
    finish(*endpoint().amSendBuilder(data.data(), data.size(), UCS_MEMORY_TYPE_HOST).build());
    return "ok";
  }

  std::string am_recv(arguments &rest) {
    const auto length = rest.next<std::size_t>();
    const auto request = endpoint().amRecvBuilder().build();
    finish(*request);
    return contents(*request->getRecvBuffer()) == pattern(length, rest.next<unsigned>()) ? "ok"
                                                                                         : "wrong";
  }

  std::string am_send_to(arguments &rest) {
    const auto owner = rest.next<std::string>();
    const auto id = rest.next<std::uint64_t>();
    const auto header_length = rest.next<std::size_t>();
    const auto length = rest.next<std::size_t>();
    const auto seed = rest.next<unsigned>();
    const auto header = pattern(header_length, seed + 1), data = pattern(length, seed);
    ucxx::AmSendParams params;
    params.setUserHeader(header.data(), header.size());
    if (owner != "-") params.receiverCallbackInfo = ucxx::AmReceiverCallbackInfo(owner, id);
    finish(*endpoint().amSendBuilder(data.data(), data.size(), params).build());
    return "ok";
  }

  static std::string look_at(ucxx::Request &request, arguments &rest) {
    const auto header_length = rest.next<std::size_t>();
    const auto length = rest.next<std::size_t>();
    const auto seed = rest.next<unsigned>();
    const std::string header = request.getRecvHeader();
    if (bytes(header.begin(), header.end()) != pattern(header_length, seed + 1))
      return "wrong header of " + std::to_string(header.size());
    return contents(*request.getRecvBuffer()) == pattern(length, seed) ? "ok" : "wrong";
  }

  std::string am_recv_with(arguments &rest) {
    const auto request = endpoint().amRecvBuilder().build();
    finish(*request);
    return look_at(*request, rest);
  }

  std::string am_handle(arguments &rest) {
    const auto owner = rest.next<std::string>();
    const auto keep = [this](std::shared_ptr<ucxx::Request> request, ucp_ep_h) {
      handled_.push_back(std::move(request));
    };
    worker_->registerAmReceiverCallback(
        ucxx::AmReceiverCallbackInfo(owner, rest.next<std::uint64_t>()), keep);
    return "ok";
  }

  std::string am_handled(arguments &rest) {
    while (handled_.empty()) progress();
    const auto request = handled_.front();
    handled_.erase(handled_.begin());
    finish(*request);
    return look_at(*request, rest);
  }

  std::string close(arguments &) {
    endpoint().closeBlocking();
    endpoint_.reset();
    return "ok";
  }

  const bool error_handling_;
  const std::shared_ptr<ucxx::Context> context_ =
      ucxx::contextBuilder(ucxx::Context::defaultFeatureFlags).build();
  const std::shared_ptr<ucxx::Worker> worker_ = ucxx::workerBuilder(context_).build();
  std::shared_ptr<ucxx::Listener> listener_;
  std::shared_ptr<ucxx::Endpoint> endpoint_;
  std::vector<std::shared_ptr<ucxx::Request>> handled_;
};

} // namespace

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  peer self(argc > 1 && std::string_view(argv[1]) == "peer");
  std::setvbuf(stdin, nullptr, _IONBF, 0); /* a line in a buffer would be invisible to poll() */
  for (;;) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    while (poll(&input, 1, 0) == 0) self.progress();
    std::string line;
    if (!std::getline(std::cin, line)) return 0;
    std::cout << self.obey(line) + "\n" << std::flush;
  }
}
