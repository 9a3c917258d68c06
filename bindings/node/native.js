// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// The functions of the library, by their names in C. Each is looked up at its first call.

import { readFileSync } from 'node:fs';
import koffi from 'koffi';
import { Status, soname } from './generated/constants.js';
import { functions } from './generated/functions.js';

// Whether a MiB is free behind the heap. V8's memory lies there in some processes.
function heapCanGrow() {
  const maps = readFileSync('/proc/self/maps', 'latin1').split('\n');
  const heap = maps.findLastIndex((line) => line.endsWith('[heap]'));
  if (heap < 0) return true;
  const [start, end] = [maps[heap + 1], maps[heap]].map((line) => line.split(/[- ]/));
  return parseInt(start[0], 16) - parseInt(end[1], 16) > 2 ** 20;
}

// While UCX is loaded, it takes a page in use away from a heap that cannot grow, unless it is told
// to leave memory calls alone. It reads the variable only then.
const variable = 'UCX_MEM_MMAP_HOOK_MODE';
const tells = process.env[variable] === undefined && !heapCanGrow();
if (tells) process.env[variable] = 'none';
const library = koffi.load(process.env.UCXX_RS_LIBRARY ?? soname);
if (tells) delete process.env[variable];

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
