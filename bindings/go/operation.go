// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Info describes a message that was received.
type Info struct {
	Length uint64 // of the message, also if it did not fit
	Tag    uint64 // with which it was sent
}

// Operation is a send, receive or fetch that was started.
type Operation struct {
	done     chan struct{}
	callback func(Info, error)
	info     Info
	err      error
	memory   unsafe.Pointer // the library's view of the buffer
	into     []byte         // where a receive copies it

	mu      sync.Mutex // the request may be cancelled while it completes
	request *C.ucxx_request_t
	ended   bool
}

// The library uses a buffer after the call that started the operation has returned. C may not keep
// memory of Go for so long. So operations have a copy.
func sending(data []byte) *Operation {
	if len(data) == 0 {
		return &Operation{}
	}
	return &Operation{memory: C.CBytes(data)}
}

func receiving(into []byte) *Operation {
	if len(into) == 0 {
		return &Operation{}
	}
	return &Operation{memory: C.malloc(C.size_t(len(into))), into: into}
}

type submit func(handle C.uintptr_t, request **C.ucxx_request_t) C.ucxx_status_t

// The handle keeps the operation alive until its completion is reported.
func (w *Worker) start(
	o *Operation, callback func(Info, error), submit submit) (*Operation, error) {
	o.done, o.callback = make(chan struct{}), callback
	handle := cgo.NewHandle(o)
	var request *C.ucxx_request_t
	err := w.call(func() C.ucxx_status_t { return submit(C.uintptr_t(handle), &request) })
	if err != nil {
		handle.Delete()
		C.free(o.memory)
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended { // it was reported before the call returned
		C.ucxx_request_destroy(request)
	} else {
		o.request = request
	}
	return o, nil
}

// Runs on the worker's goroutine.
func (o *Operation) complete(c *C.ucxx_completion_t) {
	o.info = Info{uint64(c.length), uint64(c.sender_tag)}
	if c.status == C.UCXX_OK {
		copy(o.into, unsafe.Slice((*byte)(o.memory), min(o.info.Length, uint64(len(o.into)))))
	} else {
		o.err = errorOf(c.status)
		if c.request != nil {
			text := C.GoString(C.ucxx_request_error_message(c.request))
			o.err = &Error{Status(c.status), Status(c.status).Error() + ": " + text}
		}
	}
	C.free(o.memory)
	o.memory = nil
	o.mu.Lock()
	o.ended = true
	C.ucxx_request_destroy(o.request)
	o.request = nil
	o.mu.Unlock()
	if o.callback != nil {
		o.callback(o.info, o.err)
	}
	close(o.done)
}

// Cancel asks for the end of the operation. Wait reports how it ended.
func (o *Operation) Cancel() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.request != nil {
		C.ucxx_request_cancel(o.request)
	}
}

// Done is closed when the operation has completed and its callback has returned.
func (o *Operation) Done() <-chan struct{} { return o.done }

// Wait waits for the operation, and cancels it when the context ends. A receive or fetch then ends
// at once. A large send that UCX has begun ends when the peer has received it, or has gone.
func (o *Operation) Wait(ctx context.Context) (Info, error) {
	select {
	case <-o.done:
		return o.info, o.err
	case <-ctx.Done():
	}
	o.Cancel()
	<-o.done
	if o.err != nil && o.err.(*Error).Status == ErrCanceled {
		return o.info, ctx.Err()
	}
	return o.info, o.err
}

func min(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return b
}
