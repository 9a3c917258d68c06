// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import "runtime"

// Status is a status of the library, and an error that errors.Is compares with.
type Status int32

// The statuses that a program may want to handle. Each has its meaning in ucxx_rs.h.
const (
	ErrNoResource       = Status(C.UCXX_ERR_NO_RESOURCE)
	ErrIO               = Status(C.UCXX_ERR_IO_ERROR)
	ErrNoMemory         = Status(C.UCXX_ERR_NO_MEMORY)
	ErrInvalidParam     = Status(C.UCXX_ERR_INVALID_PARAM)
	ErrUnreachable      = Status(C.UCXX_ERR_UNREACHABLE)
	ErrInvalidAddr      = Status(C.UCXX_ERR_INVALID_ADDR)
	ErrMessageTruncated = Status(C.UCXX_ERR_MESSAGE_TRUNCATED)
	ErrNoElem           = Status(C.UCXX_ERR_NO_ELEM)
	ErrBusy             = Status(C.UCXX_ERR_BUSY)
	ErrCanceled         = Status(C.UCXX_ERR_CANCELED)
	ErrAlreadyExists    = Status(C.UCXX_ERR_ALREADY_EXISTS)
	ErrTimedOut         = Status(C.UCXX_ERR_TIMED_OUT)
	ErrExceedsLimit     = Status(C.UCXX_ERR_EXCEEDS_LIMIT)
	ErrUnsupported      = Status(C.UCXX_ERR_UNSUPPORTED)
	ErrRejected         = Status(C.UCXX_ERR_REJECTED)
	ErrConnectionReset  = Status(C.UCXX_ERR_CONNECTION_RESET)
	ErrPeerFailed       = Status(C.UCXX_ERR_PEER_FAILED)
	ErrClosed           = Status(C.UCXX_ERR_CLOSED)
)

func (s Status) Error() string { return C.GoString(C.ucxx_status_name(C.ucxx_status_t(s))) }

// Error is what the functions return. Its text names the argument, the peer or the limit.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Unwrap makes errors.Is(err, ucxx.ErrTimedOut) work.
func (e *Error) Unwrap() error { return e.Status }

func errorOf(status C.ucxx_status_t) error {
	if status >= 0 {
		return nil
	}
	return &Error{Status(status), C.GoString(C.ucxx_error_text(status))}
}

// The text of an error belongs to the thread that made the call, so the goroutine stays on it.
func call(function func() C.ucxx_status_t) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return errorOf(function())
}
