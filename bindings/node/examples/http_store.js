// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// An HTTP server that has no data: it fetches what it is asked for from a store in another process.
// Start it without arguments, as the store: it prints its port. Then start it with that port, as
// the HTTP server. That one sends itself requests, checks the answers, and ends.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { Context, UcxxError } from '../index.js';

const GET = 1;
const OBJECTS = 500;
const LARGEST = 64 << 10;

// Objects have various lengths, up to LARGEST.
const content = (number) => Buffer.alloc((number * 1021) % LARGEST, `object ${number};`);

async function store(worker) {
  const objects = new Map();
  for (let i = 0; i < OBJECTS; i++) objects.set(`/objects/${i}`, content(i));
  worker.handleFetch(GET, ({ header }) => {
    const object = objects.get(header.toString());
    if (object === undefined) throw new Error('there is no such object');
    return object;
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

async function answer(endpoint, request, response) {
  try {
    const object = await endpoint.fetch(GET, Buffer.from(request.url), Buffer.alloc(LARGEST));
    response.writeHead(200, { 'Content-Length': object.length }).end(object);
  } catch (error) {
    if (!(error instanceof UcxxError)) throw error;
    response.writeHead(error.code === 'UCXX_ERR_REJECTED' ? 404 : 502).end(error.message);
  }
}

async function front(worker, port) {
  const endpoint = worker.connect('127.0.0.1', port);
  const server = createServer((request, response) => answer(endpoint, request, response));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const base = `http://127.0.0.1:${server.address().port}/objects/`;

  await Promise.all(Array.from({ length: OBJECTS }, async (_, number) => {
    const response = await fetch(base + number);
    assert.equal(response.status, 200);
    assert.ok(content(number).equals(Buffer.from(await response.arrayBuffer())), `${number}`);
  }));
  const missing = await fetch(base + 'none');
  assert.equal(missing.status, 404);
  await missing.text();

  server.closeAllConnections();
  await new Promise((resolve) => { server.close(resolve); });
  await endpoint.close();
  console.log(`http_store: ${OBJECTS} objects are right, and one is missing`);
}

const context = new Context();
const [port] = process.argv.slice(2);
if (port === undefined) await store(context.createWorker());
else await front(context.createWorker(), Number(port));
await context.close();
