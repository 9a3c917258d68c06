// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// Endpoint is a connection from a worker to one peer.
type Endpoint struct {
	worker *Worker
	handle *C.ucxx_endpoint_t
	done   chan struct{}
	err    error
}

func (w *Worker) newEndpoint(
	create func(C.uintptr_t, **C.ucxx_endpoint_t) C.ucxx_status_t) (*Endpoint, error) {
	e := &Endpoint{worker: w, done: make(chan struct{})}
	handle := cgo.NewHandle(e)
	var created *C.ucxx_endpoint_t
	err := w.call(func() C.ucxx_status_t { return create(C.uintptr_t(handle), &created) })
	if err != nil {
		handle.Delete()
		return nil, err
	}
	e.handle = created
	return e, nil
}

// Connect makes an endpoint to a listener. It does not wait for the peer: operations report a peer
// that does not answer, and so does Done.
func (w *Worker) Connect(host string, port uint16) (*Endpoint, error) {
	name := C.CString(host)
	defer C.free(unsafe.Pointer(name))
	return w.newEndpoint(func(handle C.uintptr_t, e **C.ucxx_endpoint_t) C.ucxx_status_t {
		return C.shim_connect(w.handle, name, C.uint16_t(port), w.notifier, handle, e)
	})
}

// Done is closed when the endpoint has ended. Err then has the reason.
func (e *Endpoint) Done() <-chan struct{} { return e.done }

// Err is nil while the endpoint is open, and if this side closed it. ErrConnectionReset means that
// the peer closed it, which is the normal end.
func (e *Endpoint) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

func (e *Endpoint) start(
	o *Operation, callback func(Info, error), submit submit) (*Operation, error) {
	return e.worker.start(o, callback, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		if e.handle == nil {
			return C.UCXX_ERR_CLOSED
		}
		return submit(h, r)
	})
}

// Flush waits until the peer has everything that was sent before.
func (e *Endpoint) Flush(ctx context.Context) error {
	o, err := e.start(&Operation{}, nil, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_flush(e.handle, e.worker.notifier, h, r)
	})
	return wait(ctx, o, err)
}

// Close completes what was sent before, and closes the endpoint. It must not be called in a
// callback.
func (e *Endpoint) Close() error {
	o, err := e.start(&Operation{}, nil, func(h C.uintptr_t, r **C.ucxx_request_t) C.ucxx_status_t {
		return C.shim_close(e.handle, e.worker.notifier, h, r)
	})
	err = wait(context.Background(), o, err)
	if o != nil {
		<-e.done
	}
	e.worker.mu.Lock()
	defer e.worker.mu.Unlock()
	C.ucxx_endpoint_destroy(e.handle)
	e.handle = nil
	return err
}

func wait(ctx context.Context, o *Operation, err error) error {
	if err == nil {
		_, err = o.Wait(ctx)
	}
	return err
}

// Listener accepts connections.
type Listener struct {
	worker   *Worker
	handle   *C.ucxx_listener_t
	requests chan *C.ucxx_conn_request_t
}

// Listen listens on an address. Port 0 means any free one: see Port.
func (w *Worker) Listen(host string, port uint16) (*Listener, error) {
	name := C.CString(host)
	defer C.free(unsafe.Pointer(name))
	// The library rejects the next request while 512 have no answer, so this never blocks.
	l := &Listener{worker: w, requests: make(chan *C.ucxx_conn_request_t, 512)}
	handle := cgo.NewHandle(l)
	var created *C.ucxx_listener_t
	err := w.call(func() C.ucxx_status_t {
		return C.shim_listen(w.handle, name, C.uint16_t(port), w.notifier, C.uintptr_t(handle),
			&created)
	})
	if err != nil {
		handle.Delete()
		return nil, err
	}
	l.handle = created
	// The notifier may still have a request when the listener is gone. So the handle stays.
	w.mu.Lock()
	w.listeners = append(w.listeners, handle)
	w.mu.Unlock()
	return l, nil
}

// Port is the port on which the listener listens.
func (l *Listener) Port() uint16 { return uint16(C.ucxx_listener_port(l.handle)) }

// Accept waits for a peer.
func (l *Listener) Accept(ctx context.Context) (*Endpoint, error) {
	var request *C.ucxx_conn_request_t
	select {
	case request = <-l.requests:
	case <-l.worker.ended:
		return nil, &Error{ErrClosed, ErrClosed.Error() + ": the worker was closed"}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer C.ucxx_conn_request_destroy(request)
	return l.worker.newEndpoint(func(h C.uintptr_t, e **C.ucxx_endpoint_t) C.ucxx_status_t {
		return C.shim_accept(request, l.worker.notifier, h, e)
	})
}

// Close ends the listener. Connections that were accepted stay.
func (l *Listener) Close() {
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	C.ucxx_listener_destroy(l.handle)
	l.handle = nil
	for {
		select {
		case request := <-l.requests:
			C.ucxx_conn_request_destroy(request)
		default:
			return
		}
	}
}
