// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// A server answers fetches by a handler. Start it without arguments: it prints its port. Then start
// it with that port, as the client, which checks the replies.

import assert from 'node:assert/strict';
import { Context } from '../index.js';

const UPPER_CASE = 1;

async function serve(worker) {
  worker.handleFetch(UPPER_CASE, async ({ header }) => {
    const text = header.toString();
    if (text === '') throw new Error('there is nothing to do');
    return Buffer.from(text.toUpperCase());
  });
  const endpoint = await new Promise((resolve) => {
    const listener = worker.listen('127.0.0.1', 0, (accepted) => {
      listener.close();
      resolve(accepted);
    });
    console.log(listener.port);
  });
  await endpoint.ended;
  await endpoint.close();
}

async function ask(worker, port) {
  const endpoint = worker.connect('127.0.0.1', port);
  const room = Buffer.alloc(1 << 20);
  for (const text of ['hello', 'long '.repeat(10), 'z']) {
    const reply = await endpoint.fetch(UPPER_CASE, Buffer.from(text), room);
    assert.equal(reply.toString(), text.toUpperCase());
  }
  await assert.rejects(endpoint.fetch(UPPER_CASE, Buffer.alloc(0), room),
    { code: 'UCXX_ERR_REJECTED' });
  await assert.rejects(endpoint.fetch(UPPER_CASE, Buffer.from('hello'), Buffer.alloc(2)),
    { code: 'UCXX_ERR_MESSAGE_TRUNCATED' });
  await endpoint.close();
  console.log('fetch: three replies are right, and two errors');
}

const context = new Context();
const [port] = process.argv.slice(2);
if (port === undefined) await serve(context.createWorker());
else await ask(context.createWorker(), Number(port));
await context.close();
