/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The peer: UCXX's C++ interface. Progress is by polling, or by its thread with delayed submission.
 * Programs that include this are compiled as C++17. */
#ifndef BENCH_LINK_UCXX_H
#define BENCH_LINK_UCXX_H

#include <ucxx/api.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "harness.h"

#define LINK_NAME "ucxx"

struct link {
  std::shared_ptr<ucxx::Context> context;
  std::shared_ptr<ucxx::Worker> worker;
  std::shared_ptr<ucxx::Endpoint> endpoint;
  std::string address;
  int peer_errors;
};

struct operation {
  std::shared_ptr<ucxx::Request> request;
};

static inline int link_done(struct operation *operation) {
  if (!operation->request) return 1;
  if (!operation->request->isCompleted()) return 0;
  operation->request->checkError();
  operation->request.reset();
  return 1;
}

static inline void link_version(char *text, size_t capacity) {
  unsigned major, minor, patch;
  ucp_get_version(&major, &minor, &patch);
  std::snprintf(text, capacity, "%u.%u.%u", major, minor, patch);
}

static inline void link_open(struct link *link, const struct options *options) {
  link->peer_errors = options->peer_errors;
  const bool threaded = options->progress != PROGRESS_MANUAL;
  link->context =
      ucxx::contextBuilder(UCP_FEATURE_TAG | (threaded ? UCP_FEATURE_WAKEUP : 0)).build();
  link->worker = ucxx::workerBuilder(link->context).delayedSubmission(threaded).build();
  if (!threaded) return;
  const int cpu = options->thread_cpu;
  link->worker->setProgressThreadStartCallback([cpu](void *) { harness_pin(cpu); }, nullptr);
  /* UCXX has no adaptive mode. Its default mode, which sleeps, is used instead. */
  link->worker->startProgressThread(options->progress == PROGRESS_POLLING);
}

static inline const void *link_address(struct link *link, size_t *length) {
  link->address = ucxx::AddressBuilder(link->worker).build()->getStringView();
  *length = link->address.size();
  return link->address.data();
}

static inline void link_connect(struct link *link, const void *bytes, size_t length) {
  auto address =
      ucxx::AddressBuilder(std::string_view(static_cast<const char *>(bytes), length)).build();
  link->endpoint = ucxx::endpointBuilder(link->worker, address)
                       .endpointErrorHandling(link->peer_errors != 0)
                       .build();
}

static inline void link_recv(struct link *link, void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
  operation->request =
      link->worker->tagRecvBuilder(buffer, length, ucxx::Tag(tag), ucxx::TagMaskFull).build();
}

static inline void link_send(struct link *link, const void *buffer, size_t length, uint64_t tag,
                             struct operation *operation) {
  operation->request = link->endpoint->tagSendBuilder(buffer, length, ucxx::Tag(tag)).build();
}

static inline void link_progress(struct link *link) { link->worker->progress(); }

static inline void link_transports(struct link *link, char *text, size_t capacity) {
  char *printed = nullptr;
  size_t length = 0;
  std::FILE *stream = open_memstream(&printed, &length);
  if (stream == nullptr) die("no memory");
  ucp_ep_print_info(link->endpoint->getHandle(), stream);
  std::fclose(stream);
  transports_from_text(printed, text, capacity);
  std::free(printed);
}

static inline void link_close(struct link *link) {
  link->endpoint.reset();
  if (link->worker->isProgressThreadRunning()) link->worker->stopProgressThread();
  link->worker.reset();
  link->context.reset();
}

#endif
