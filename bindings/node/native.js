// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// The functions of the library, by their names in C. Each is looked up at its first call.

import koffi from 'koffi';
import { Status, soname } from './generated/constants.js';
import { functions } from './generated/functions.js';

// While UCX is loaded, it lets the heap grow by a page and shrink by one. If V8's memory lies directly
// behind the heap, only the shrinking succeeds, and the page was in use. Without memory events UCX
// does neither.
process.env.UCX_MEM_EVENTS ??= 'no';
const library = koffi.load(process.env.UCXX_RS_LIBRARY ?? soname);

export const native = new Proxy({}, {
  get(known, name) {
    return known[name] ??= library.func(name, ...functions[name]);
  },
});

// `code` is the name of the status, `status` its number. The message has the library's text.
export class UcxxError extends Error {
  constructor(status, message) {
    super(message ?? native.ucxx_error_text(status));
    this.name = 'UcxxError';
    this.status = status;
    this.code = native.ucxx_status_name(status);
  }
}

export function check(status) {
  if (status < 0) throw new UcxxError(status);
  return status;
}

// Calls a function whose last parameter is for the handle that it makes.
export function create(name, ...args) {
  const handle = [null];
  check(native[name](...args, handle));
  return handle[0];
}

export function closed(what) {
  return new UcxxError(Status.UCXX_ERR_CLOSED, `UCXX_ERR_CLOSED: the ${what} is closed`);
}
