// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import (
	"context"
	"unsafe"
)

// AllBits is the mask with which a receive takes only messages with exactly its tag.
const AllBits = ^uint64(0)

// StartTagSend sends a message. `data` may be changed when the call has returned. The callback is
// optional. It runs on the worker's goroutine, and must not block.
func (e *Endpoint) StartTagSend(
	data []byte, tag uint64, callback func(Info, error)) (*Operation, error) {
	o := sending(data)
	return e.start(o, callback, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_tag_send(e.handle, o.memory, C.size_t(len(data)), C.uint64_t(tag),
			e.worker.notifier, h, r)
	})
}

// TagSend sends a message, and waits until it has left.
func (e *Endpoint) TagSend(ctx context.Context, data []byte, tag uint64) error {
	o, err := e.StartTagSend(data, tag, nil)
	return wait(ctx, o, err)
}

// StartTagRecv receives the first message whose tag equals `tag` in the bits of `mask`, from any
// peer. It also ends when this endpoint does. `into` is filled when the operation has completed.
// The callback is as for StartTagSend.
func (e *Endpoint) StartTagRecv(
	into []byte, tag, mask uint64, callback func(Info, error)) (*Operation, error) {
	o := receiving(into)
	return e.start(o, callback, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_tag_recv(e.worker.handle, e.handle, o.memory, C.size_t(len(into)),
			C.uint64_t(tag), C.uint64_t(mask), e.worker.notifier, h, r)
	})
}

// TagRecv is StartTagRecv, and waits.
func (e *Endpoint) TagRecv(ctx context.Context, into []byte, tag, mask uint64) (Info, error) {
	o, err := e.StartTagRecv(into, tag, mask, nil)
	if err != nil {
		return Info{}, err
	}
	return o.Wait(ctx)
}

// Fetch asks the peer's handler for `id`, and waits for its reply. It returns the length of the
// reply.
func (e *Endpoint) Fetch(ctx context.Context, id uint16, header, reply []byte) (int, error) {
	o := receiving(reply)
	// The library copies it in the call. With one byte more it is never empty.
	header = append(header[:len(header):len(header)], 0)
	o, err := e.start(o, nil, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_fetch(e.handle, C.uint16_t(id), unsafe.Pointer(&header[0]),
			C.size_t(len(header)-1), o.memory, C.size_t(len(reply)), e.worker.notifier, h, r)
	})
	if err != nil {
		return 0, err
	}
	info, err := o.Wait(ctx)
	return int(info.Length), err
}

// HandleFetch has `handler` answer the fetches with this id, each on its own goroutine. When it
// returns without a reply, the fetch ends with ErrCanceled at the peer.
func (w *Worker) HandleFetch(id uint16, handler func(*Fetch)) error {
	w.handlers.Store(id, handler)
	return w.call(func() C.ucxx_status_t {
		return C.shim_fetch_notifier(w.handle, C.uint16_t(id), w.notifier)
	})
}

// Fetch is a fetch that a peer has sent. It is valid until its handler returns.
type Fetch struct {
	worker *Worker
	handle *C.ucxx_fetch_t
}

func (f *Fetch) run(handler func(*Fetch)) {
	defer C.ucxx_fetch_destroy(f.handle)
	handler(f)
}

// Header returns a copy of the header.
func (f *Fetch) Header() []byte {
	var length C.size_t
	data := C.ucxx_fetch_header(f.handle, &length)
	return C.GoBytes(data, C.int(length))
}

// Capacity is how many bytes the peer has room for.
func (f *Fetch) Capacity() uint64 { return uint64(C.ucxx_fetch_capacity(f.handle)) }

// Reply answers, and waits until the reply has left.
func (f *Fetch) Reply(ctx context.Context, data []byte) error {
	o := sending(data)
	o, err := f.worker.start(o, nil, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_reply(f.handle, o.memory, C.size_t(len(data)), f.worker.notifier, h, r)
	})
	return wait(ctx, o, err)
}

// Reject ends the fetch at the peer with this status.
func (f *Fetch) Reject(status Status) error {
	return f.worker.call(func() C.ucxx_status_t {
		return C.ucxx_fetch_reject(f.handle, C.ucxx_status_t(status))
	})
}
