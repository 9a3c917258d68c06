// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// Package ucxx is communication over UCX: tag messages and fetches, on connections that shared
// memory, TCP or RDMA carry.
//
// Everything may be called by any goroutine. Calls with a context.Context wait. The others do not,
// except Close. Each worker has a thread of the library, which makes progress, and a goroutine,
// which takes what has completed.
package ucxx

// #cgo pkg-config: ucxx_rs
// #include "shim.h"
import "C"

import (
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Context is UCX, configured once. Most programs have one.
type Context struct{ handle *C.ucxx_context_t }

// NewContext reads UCX's configuration from the environment.
func NewContext() (*Context, error) {
	c := &Context{}
	err := call(func() C.ucxx_status_t { return C.ucxx_context_create(nil, &c.handle) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close releases the context. Close its workers before.
func (c *Context) Close() {
	C.ucxx_context_destroy(c.handle)
	c.handle = nil
}

// Worker sends and receives.
type Worker struct {
	// Every call holds the lock for reading, and whatever destroys a handle holds it for writing.
	mu        sync.RWMutex
	handle    *C.ucxx_worker_t
	context   *Context
	notifier  *C.ucxx_notifier_t
	handlers  sync.Map // uint16: func(*Fetch)
	listeners []cgo.Handle
	ended     chan struct{}
}

// NewWorker makes a worker. At most `queue` operations wait for its thread: more are refused with
// ErrNoResource. 0 means the library's default.
func (c *Context) NewWorker(queue uint32) (*Worker, error) {
	w := &Worker{context: c, ended: make(chan struct{})}
	err := call(func() C.ucxx_status_t { return C.ucxx_notifier_create(c.handle, &w.notifier) })
	if err != nil {
		return nil, err
	}
	err = call(func() C.ucxx_status_t {
		return C.shim_worker(c.handle, C.uint32_t(queue), &w.handle)
	})
	if err != nil {
		C.ucxx_notifier_destroy(w.notifier)
		return nil, err
	}
	go w.deliver()
	return w, nil
}

// Close ends the worker. What is in flight ends with ErrCanceled. Close the endpoints before. It
// waits for callbacks, so it must not be called in one.
func (w *Worker) Close() {
	w.mu.Lock()
	if w.handle != nil {
		C.ucxx_worker_destroy(w.handle)
		w.handle = nil
		C.ucxx_notifier_stop(w.notifier)
	}
	w.mu.Unlock()
	<-w.ended
}

func (w *Worker) call(function func() C.ucxx_status_t) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.handle == nil {
		return &Error{ErrClosed, ErrClosed.Error() + ": the worker was closed"}
	}
	return call(function)
}

const batchSize = 64

// Takes what the notifier reports, until the worker is closed. The batch is in C's memory because
// `user_data` looks like a pointer, and is none.
func (w *Worker) deliver() {
	defer close(w.ended)
	memory := C.calloc(batchSize, C.sizeof_ucxx_completion_t)
	defer C.free(memory)
	batch := unsafe.Slice((*C.ucxx_completion_t)(memory), batchSize)
	for {
		var count C.size_t
		var status C.ucxx_status_t
		err := call(func() C.ucxx_status_t {
			status = C.shim_take(w.notifier, &batch[0], batchSize, &count)
			return status
		})
		if status == C.UCXX_ERR_CLOSED {
			break
		}
		if err != nil {
			panic(err)
		}
		for i := range batch[:count] {
			w.take(&batch[i])
		}
	}
	C.ucxx_notifier_destroy(w.notifier)
	for _, handle := range w.listeners {
		handle.Delete()
	}
}

func (w *Worker) take(c *C.ucxx_completion_t) {
	data := *(*uintptr)(unsafe.Pointer(&c.user_data))
	switch c.kind {
	case C.UCXX_EVENT_COMPLETION:
		handle := cgo.Handle(data)
		operation := handle.Value().(*Operation)
		handle.Delete()
		operation.complete(c)
	case C.UCXX_EVENT_ENDPOINT_CLOSED:
		handle := cgo.Handle(data)
		endpoint := handle.Value().(*Endpoint)
		handle.Delete()
		endpoint.err = errorOf(c.status)
		close(endpoint.done)
	case C.UCXX_EVENT_CONN_REQUEST:
		listener := cgo.Handle(data).Value().(*Listener)
		listener.requests <- (*C.ucxx_conn_request_t)(c.handle)
	case C.UCXX_EVENT_FETCH:
		fetch := &Fetch{worker: w, handle: (*C.ucxx_fetch_t)(c.handle)}
		if handler, found := w.handlers.Load(uint16(data)); found {
			go fetch.run(handler.(func(*Fetch)))
		} else {
			C.ucxx_fetch_destroy(fetch.handle)
		}
	}
}
