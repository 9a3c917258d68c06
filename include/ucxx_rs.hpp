// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// ucxx_rs.hpp: communication over UCX for C++17 and later, over libucxx_rs. Header-only.
//
// - A context, its workers and their endpoints: ucxx_rs/{context,worker,endpoint,listener}.hpp.
// - Buffers convert from everything contiguous: ucxx_rs/buffer.hpp.
// - Operations wait, call back, give a future, or are awaited: ucxx_rs/request.hpp.
// - Calls throw `error`. Their `try_` forms return `result<T>` or `status`: ucxx_rs/status.hpp.
// - Owners and views: ucxx_rs/handle.hpp.
// - Remote memory, groups, windows, hubs: ucxx_rs/{memory,group,window,hub}.hpp.
// - Asio: ucxx_rs/asio.hpp, which this file does not include.
#ifndef UCXX_RS_HPP
#define UCXX_RS_HPP

#include "ucxx_rs/context.hpp"
#include "ucxx_rs/group.hpp"
#include "ucxx_rs/hub.hpp"
#include "ucxx_rs/notifier_loop.hpp"
#include "ucxx_rs/window.hpp"
#include "ucxx_rs/worker.hpp"

#endif
