// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Tag messages and fetches over UCX, with promises.
//
// A worker has a thread of the library, which makes progress. Its events are in the notifier of
// the context. One thread of koffi sleeps in ucxx_notifier_wait, and the event loop then takes
// them. So no JavaScript runs on another thread, and an open context keeps the process alive.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import koffi from 'koffi';
import { Close, Event, Flag, ProgressMode, Status } from './generated/constants.js';
import {
  endpointParams, listenerParams, opParams, readCompletion, sizes, workerParams,
} from './generated/structs.js';
import { UcxxError, check, closed, create, native } from './native.js';

export { Status, UcxxError };

const COMPLETION = sizes.ucxx_completion_t;
const BATCH = 64;
const NO_LIMIT = 0xffffffffffffffffn;
const open = new Set();

// A worker must not make progress while the process ends.
process.on('exit', () => {
  for (const context of open) context._end();
});

// UCX, configured once, from the environment.
export class Context {
  #handle = create('ucxx_context_create', null);
  #notifier = create('ucxx_notifier_create', this.#handle);
  #takers = new Map(); // user_data: the function that takes the event
  #next = 1;
  #workers = new Set();
  #done;

  constructor() {
    open.add(this);
    this.#done = this.#deliver();
  }

  // `queue`: how many operations may wait for the worker's thread. 0 means the library's default.
  createWorker({ queue = 0 } = {}) {
    const worker = new Worker(this, create('ucxx_worker_create', this.#handle, workerParams({
      progress_mode: ProgressMode.UCXX_PROGRESS_THREAD_ADAPTIVE,
      delayed_submission: 1,
      submission_queue_depth: queue,
    })));
    this.#workers.add(worker);
    return worker;
  }

  // Closes the workers too.
  async close() {
    if (!open.delete(this)) return;
    await Promise.all([...this.#workers].map((worker) => worker.close()));
    native.ucxx_notifier_stop(this.#notifier);
    await this.#done;
    native.ucxx_notifier_destroy(this.#notifier);
    native.ucxx_context_destroy(this.#handle);
  }

  get _notifier() { return this.#notifier; }

  _forget(worker) { this.#workers.delete(worker); }

  // Returns the number by which the notifier names the function.
  _register(take) {
    const key = this.#next++;
    this.#takers.set(key, take);
    return key;
  }

  _unregister(key) { this.#takers.delete(key); }

  _end() {
    for (const worker of this.#workers) worker._end();
    native.ucxx_notifier_stop(this.#notifier);
  }

  async #deliver() {
    const wait = promisify(native.ucxx_notifier_wait.async);
    const batch = Buffer.alloc(BATCH * COMPLETION);
    const count = [0];
    for (;;) {
      const status =
        native.ucxx_notifier_poll(this.#notifier, batch, COMPLETION, BATCH, count);
      if (status === Status.UCXX_ERR_CLOSED) return;
      check(status);
      for (let i = 0; i < count[0]; i++) {
        const event = readCompletion(batch, i * COMPLETION);
        this.#takers.get(Number(event.user_data))(event);
      }
      if (count[0] > 0) await nextTurn();
      else await wait(this.#notifier, NO_LIMIT);
    }
  }

  // Starts an operation. The promise has its length and tag. `buffer` is in use until then, and is
  // kept alive until then: the closure has it.
  _start(submit, { buffer, signal, source } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const request = [null];
      const cancel = () => native.ucxx_request_cancel(request[0]);
      const key = this._register(({ status, length, sender_tag: tag }) => {
        this._unregister(key);
        signal?.removeEventListener('abort', cancel);
        const text = native.ucxx_request_error_message(request[0]);
        native.ucxx_request_destroy(request[0]);
        if (status >= 0) resolve({ length: Number(length), tag, buffer });
        else if (status === Status.UCXX_ERR_CANCELED && signal?.aborted) reject(signal.reason);
        else reject(new UcxxError(status, `${native.ucxx_status_name(status)}: ${text}`));
      });
      const status = submit(opParams({
        flags: Flag.UCXX_FLAG_ALWAYS_CALLBACK,
        notifier: this.#notifier,
        callback_arg: BigInt(key),
        source,
      }), request);
      if (status < 0) this._unregister(key);
      check(status);
      signal?.addEventListener('abort', cancel);
    });
  }
}

class Worker {
  #handle;

  constructor(context, handle) {
    this.context = context;
    this.#handle = handle;
  }

  get _handle() {
    if (this.#handle === null) throw closed('worker');
    return this.#handle;
  }

  // Does not wait for the peer: operations report a peer that does not answer.
  connect(host, port) {
    return new Endpoint(this, (params) =>
      create('ucxx_endpoint_connect', this._handle, host, port, params));
  }

  // `accept` gets each new endpoint. Port 0 means any free one.
  listen(host, port, accept) {
    const key = this.context._register(({ handle }) => {
      try {
        accept(new Endpoint(this, (params) => create('ucxx_endpoint_accept', handle, params)));
      } finally {
        native.ucxx_conn_request_destroy(handle);
      }
    });
    const listener = create('ucxx_listener_create', this._handle, listenerParams({
      host,
      port,
      notifier: this.context._notifier,
      on_connect_arg: BigInt(key),
    }));
    return new Listener(listener);
  }

  // `handler` gets { header, capacity } of each fetch with this id. What it returns, or what its
  // promise has, is the reply. If it throws, the fetch is rejected.
  handleFetch(id, handler) {
    const key = this.context._register(({ handle }) => this.#answer(handle, handler));
    check(native.ucxx_worker_set_fetch_notifier(
      this._handle, id, this.context._notifier, BigInt(key)));
  }

  async #answer(fetch, handler) {
    const length = [0];
    let reply;
    try {
      const header = native.ucxx_fetch_header(fetch, length);
      reply = await handler({
        header: Buffer.from(length[0] ? koffi.decode(header, 'uint8_t', length[0]) : []),
        capacity: native.ucxx_fetch_capacity(fetch),
      });
    } catch {
      native.ucxx_fetch_reject(fetch, Status.UCXX_ERR_REJECTED);
      native.ucxx_fetch_destroy(fetch);
      return;
    }
    const sent = this.context._start((params, request) => native.ucxx_fetch_reply(
      fetch, koffi.address(reply), reply.byteLength, params, request), { buffer: reply });
    native.ucxx_fetch_destroy(fetch);
    // A reply fails when its peer has gone, and then nobody waits for it.
    await sent.catch(() => {});
  }

  // What is in flight ends with UCXX_ERR_CANCELED. Close the endpoints before.
  async close() {
    if (this.#handle === null) return;
    const handle = this.#handle;
    this.#handle = null;
    await promisify(native.ucxx_worker_destroy.async)(handle);
    this.context._forget(this);
  }

  _end() {
    native.ucxx_worker_destroy(this.#handle);
    this.#handle = null;
  }
}

class Listener {
  #handle;

  constructor(handle) { this.#handle = handle; }

  get port() { return native.ucxx_listener_port(this.#handle); }

  close() {
    native.ucxx_listener_destroy(this.#handle);
    this.#handle = null;
  }
}

// A connection to one peer.
class Endpoint {
  #worker;
  #handle;

  constructor(worker, make) {
    this.#worker = worker;
    let ended;
    const key = worker.context._register(({ status }) => {
      worker.context._unregister(key);
      ended(status < 0 ? new UcxxError(status) : undefined);
    });
    // Has undefined if this side closed it, and otherwise the error that ended it. With the code
    // UCXX_ERR_CONNECTION_RESET the peer closed it, which is the normal end.
    this.ended = new Promise((resolve) => { ended = resolve; });
    this.#handle = make(endpointParams({
      notifier: worker.context._notifier,
      on_close_arg: BigInt(key),
    }));
  }

  #start(submit, options) {
    if (this.#handle === null) return Promise.reject(closed('endpoint'));
    return this.#worker.context._start(submit, options);
  }

  // The buffer must not change until the message has left.
  send(buffer, tag, { signal } = {}) {
    return this.#start((params, request) => native.ucxx_tag_send(this.#handle,
      koffi.address(buffer), buffer.byteLength, tag, params, request), { buffer, signal });
  }

  // Receives the first message whose tag equals `tag` in the bits of `mask`, from any peer. It ends
  // when this endpoint does. The promise has { length, tag, buffer }.
  receive(buffer, tag, { mask = NO_LIMIT, signal } = {}) {
    return this.#start((params, request) => native.ucxx_tag_recv(this.#worker._handle,
      koffi.address(buffer), buffer.byteLength, tag, mask, params, request),
    { buffer, signal, source: this.#handle });
  }

  // Asks the peer's handler for `id`. The promise has the reply, which is a part of `buffer`.
  async fetch(id, header, buffer, { signal } = {}) {
    const { length } = await this.#start((params, request) => native.ucxx_am_fetch(this.#handle, id,
      koffi.address(header), header.byteLength, koffi.address(buffer), buffer.byteLength, params,
      request), { buffer, signal });
    return buffer.subarray(0, length);
  }

  // Waits until the peer has what was sent before.
  async flush() {
    await this.#start((params, request) =>
      native.ucxx_endpoint_flush(this.#handle, params, request));
  }

  // Completes what was sent before.
  async close() {
    try {
      await this.#start((params, request) => native.ucxx_endpoint_close(
        this.#handle, Close.UCXX_CLOSE_FLUSH, params, request));
      await this.ended;
    } finally {
      native.ucxx_endpoint_destroy(this.#handle);
      this.#handle = null;
    }
  }
}
