// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Hub is a queue of chunks in memory that producers fill, and consumers read, without a copy. A
// connected link continues it in another process.
type Hub struct {
	worker *Worker
	handle *C.ucxx_hub_t
}

// NewHub makes a hub with `count` envelopes of `size` bytes, in memory of the host.
func (w *Worker) NewHub(size, count int) (*Hub, error) {
	h := &Hub{worker: w}
	err := w.call(func() C.ucxx_status_t {
		return C.shim_hub(w.context.handle, w.handle, C.size_t(size), C.size_t(count), &h.handle)
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Finish marks the end of the chunks. Consumers get the ones that are left, and then ErrClosed.
func (h *Hub) Finish() error {
	return call(func() C.ucxx_status_t { return C.ucxx_hub_close(h.handle) })
}

// Drain waits until all chunks have been consumed and, after Finish, until the peers of connected
// links have received the end.
func (h *Hub) Drain(ctx context.Context) error {
	for {
		// No descriptor reports it. So the context is looked at again and again.
		err := call(func() C.ucxx_status_t { return C.ucxx_hub_drain(h.handle, 50_000_000) })
		if !errors.Is(err, ErrTimedOut) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Close drops what is in the hub. Close its links before.
func (h *Hub) Close() {
	C.ucxx_hub_destroy(h.handle)
	h.handle = nil
}

// LinkType is what a link is for.
type LinkType int32

const (
	Produce = LinkType(C.UCXX_LINK_PRODUCE) // leases empty envelopes
	Consume = LinkType(C.UCXX_LINK_CONSUME) // leases the oldest chunk, and takes it
	Peek    = LinkType(C.UCXX_LINK_PEEK)    // reads the oldest chunk
	Modify  = LinkType(C.UCXX_LINK_MODIFY)  // changes the oldest chunk
)

// Link is a place at which a hub gives or takes envelopes.
type Link struct {
	hub    *Hub
	kind   LinkType
	handle *C.ucxx_link_t
	ready  *os.File      // becomes readable when there is an envelope
	turn   chan struct{} // of the goroutine that leases: the descriptor is for one at a time
	closed atomic.Bool
}

// NewLink makes a link. Links of one type compete.
func (h *Hub) NewLink(kind LinkType) (*Link, error) {
	l := &Link{hub: h, kind: kind, turn: make(chan struct{}, 1)}
	var fd C.int32_t
	err := call(func() C.ucxx_status_t {
		return C.shim_link(h.handle, C.int32_t(kind), &l.handle, &fd)
	})
	if err != nil {
		return nil, err
	}
	// The file closes its descriptor, and that of the link is the library's.
	own, err := syscall.Dup(int(fd))
	if err != nil {
		C.ucxx_link_destroy(l.handle)
		return nil, err
	}
	syscall.CloseOnExec(own)
	l.ready = os.NewFile(uintptr(own), "link")
	return l, nil
}

// Connect makes the link one end of a stream to another process. Every chunk that a Consume link
// there would get becomes one here, at a Produce link. Both sides give the same number of the
// stream. At most `window` chunks are on the way.
func (l *Link) Connect(e *Endpoint, stream uint64, window int) error {
	return l.hub.worker.call(func() C.ucxx_status_t {
		if e.handle == nil {
			return C.UCXX_ERR_CLOSED
		}
		return C.ucxx_link_connect(l.handle, e.handle, C.uint64_t(stream), C.uint32_t(window))
	})
}

var errLinkClosed = &Error{ErrClosed, ErrClosed.Error() + ": the link was closed"}

// Lease waits for an envelope. ErrClosed means that there will be no more.
func (l *Link) Lease(ctx context.Context) (*Envelope, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.closed.Load() {
		return nil, errLinkClosed
	}
	e, err := l.try()
	if !errors.Is(err, ErrNoResource) {
		return e, err
	}

	// A deadline that has passed ends the read.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			l.ready.SetReadDeadline(time.Unix(1, 0))
		case <-stop:
		}
	}()
	ready, failed := l.ready.SyscallConn()
	if failed == nil {
		// It is armed inside: what becomes readable before would not be noticed. Nothing is read.
		failed = ready.Read(func(uintptr) bool {
			for {
				if e, err = l.try(); !errors.Is(err, ErrNoResource) {
					return true
				}
				if C.ucxx_link_arm(l.handle) == C.UCXX_OK {
					return false
				}
			}
		})
	}
	close(stop)
	<-stopped
	l.ready.SetReadDeadline(time.Time{})
	switch {
	case failed == nil:
		return e, err
	case errors.Is(failed, os.ErrDeadlineExceeded):
		return nil, ctx.Err()
	case l.closed.Load():
		return nil, errLinkClosed
	}
	return nil, failed
}

func (l *Link) try() (*Envelope, error) {
	e := &Envelope{}
	err := call(func() C.ucxx_status_t {
		return C.shim_lease(l.handle, &e.handle, &e.attr)
	})
	if err != nil {
		return nil, err
	}
	length := e.attr.length
	if l.kind == Produce {
		length = e.attr.capacity
	}
	e.data = unsafe.Slice((*byte)(e.attr.data), int(length))
	return e, nil
}

// Close ends the link, and calls of Lease that wait. The leases continue.
func (l *Link) Close() {
	l.closed.Store(true)
	l.ready.Close()
	l.turn <- struct{}{}
	C.ucxx_link_destroy(l.handle)
	l.handle = nil
	<-l.turn
}

// Envelope is one on lease: empty, or with a chunk. End the lease by Commit or Abort.
type Envelope struct {
	handle *C.ucxx_envelope_t
	attr   C.ucxx_envelope_attr_t
	data   []byte
}

// Data is the chunk, without a copy, until the lease ends. Do not write to it if the link consumes
// or peeks. Of a Produce link, it is the whole envelope.
func (e *Envelope) Data() []byte { return e.data }

// Metadata is 64 bytes that travel with the chunk.
func (e *Envelope) Metadata() []byte {
	return unsafe.Slice((*byte)(e.attr.metadata), int(e.attr.metadata_length))
}

// Commit ends the lease: a Produce link adds a chunk of `length` bytes, a Consume link takes the
// chunk out of the queue, and a Modify link changes its length. After an error the lease continues.
func (e *Envelope) Commit(length int) error {
	return call(func() C.ucxx_status_t {
		return C.ucxx_envelope_commit(e.handle, C.size_t(length), nil)
	})
}

// Abort ends the lease, and the hub is as before.
func (e *Envelope) Abort() error {
	return call(func() C.ucxx_status_t { return C.ucxx_envelope_abort(e.handle, nil) })
}
