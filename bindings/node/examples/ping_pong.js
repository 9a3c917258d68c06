// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Two processes send each other a message, 1000 times. Start it once without arguments, as the
// server: it prints its port. Then start it with that port.

import assert from 'node:assert/strict';
import { Context } from '../index.js';

const ROUNDS = 1000;
const TAG = 7;

async function serve(worker) {
  const endpoint = await new Promise((resolve) => {
    const listener = worker.listen('127.0.0.1', 0, (accepted) => {
      listener.close();
      resolve(accepted);
    });
    console.log(listener.port);
  });
  for (let i = 0; i < ROUNDS; i++) {
    const { buffer, length } = await endpoint.receive(Buffer.alloc(64), TAG);
    await endpoint.send(buffer.subarray(0, length), TAG);
  }
  const reason = await endpoint.ended;
  assert.equal(reason.code, 'UCXX_ERR_CONNECTION_RESET', 'the client closes');
  await endpoint.close();
}

async function connect(worker, port) {
  const endpoint = worker.connect('127.0.0.1', port);
  let called = 0;
  for (let i = 0; i < ROUNDS; i++) {
    // It is posted before the send, so that the message is received where it belongs.
    const back = endpoint.receive(Buffer.alloc(64), TAG).then(({ buffer, length, tag }) => {
      called++;
      assert.equal(buffer.toString('utf8', 0, length), `ball ${i}`);
      assert.equal(tag, BigInt(TAG));
    });
    await endpoint.send(Buffer.from(`ball ${i}`), TAG);
    await back;
  }
  assert.equal(called, ROUNDS);

  // Errors: of a call, of an operation, and of a signal.
  assert.throws(() => worker.connect('127.0.0.1', 0), (error) => {
    console.log('an error of a call:', error.message);
    return error.code === 'UCXX_ERR_INVALID_PARAM';
  });
  await assert.rejects(endpoint.fetch(1, Buffer.from('?'), Buffer.alloc(8)), (error) => {
    console.log('an error of an operation:', error.message);
    return error.code === 'UCXX_ERR_NO_ELEM';
  });
  const signal = AbortSignal.timeout(1);
  await assert.rejects(endpoint.receive(Buffer.alloc(8), TAG, { signal }), (error) => {
    console.log('an error of a signal:', error.message);
    return error.name === 'TimeoutError';
  });
  await endpoint.close();
  console.log(`ping_pong: ${ROUNDS} balls came back, and ${called} callbacks ran`);
}

const context = new Context();
const [port] = process.argv.slice(2);
if (port === undefined) await serve(context.createWorker());
else await connect(context.createWorker(), Number(port));
await context.close();
