// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

// #include "shim.h"
import "C"

import "unsafe"

// Group is the processes that one launcher has started. They make windows together.
//
// Calls of groups and windows that wait for other members block a thread, and no context.Context
// ends them: the end of a member does, or a limit of time of the library.
type Group struct{ handle *C.ucxx_group_t }

// NewGroup waits for all members, which find each other by the environment: RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT, or what mpirun or srun set. Close the group before the worker.
func (w *Worker) NewGroup() (*Group, error) {
	g := &Group{}
	err := call(func() C.ucxx_status_t { return C.shim_group(w.handle, &g.handle) })
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Rank is the number of this member, from 0.
func (g *Group) Rank() int { return int(C.ucxx_group_rank(g.handle)) }

// Size is how many members there are.
func (g *Group) Size() int { return int(C.ucxx_group_size(g.handle)) }

// Barrier waits until all members have called it.
func (g *Group) Barrier() error {
	return call(func() C.ucxx_status_t { return C.ucxx_group_barrier(g.handle) })
}

// Close leaves the group. Close its windows before. No other call may be in progress.
func (g *Group) Close() {
	C.ucxx_group_destroy(g.handle)
	g.handle = nil
}

// Window is memory of all members, which each of them reads and changes. The members access it
// between Lock and Unlock, or LockAll and UnlockAll, which one goroutine at a time calls. The
// others are for any number of goroutines. Offsets are in bytes.
type Window struct {
	handle *C.ucxx_window_t
	memory []byte
}

// NewWindow makes a window with `size` bytes, all zero, of this member. All members call it.
func (g *Group) NewWindow(size int) (*Window, error) {
	w := &Window{}
	var base unsafe.Pointer
	err := call(func() C.ucxx_status_t {
		return C.ucxx_window_allocate(g.handle, C.size_t(size), 1, nil, &base, &w.handle)
	})
	if err != nil {
		return nil, err
	}
	if size > 0 {
		w.memory = unsafe.Slice((*byte)(base), size)
	}
	return w, nil
}

// Memory is that of this member, until Close. Access it in a lock of this member, or while a
// barrier ensures that no other member does.
func (w *Window) Memory() []byte { return w.memory }

// Close waits until all members have called it, and frees the memory.
func (w *Window) Close() error {
	err := call(func() C.ucxx_status_t { return C.ucxx_window_close(w.handle) })
	C.ucxx_window_destroy(w.handle)
	w.handle, w.memory = nil, nil
	return err
}

// Lock waits until no other member has a lock on the target, or, if it is not exclusive, no
// exclusive one.
func (w *Window) Lock(target int, exclusive bool) error {
	kind := C.int32_t(C.UCXX_LOCK_SHARED)
	if exclusive {
		kind = C.UCXX_LOCK_EXCLUSIVE
	}
	return call(func() C.ucxx_status_t {
		return C.ucxx_window_lock(w.handle, kind, C.uint32_t(target), 0)
	})
}

// Unlock completes what was done at the target, and ends the lock.
func (w *Window) Unlock(target int) error {
	return call(func() C.ucxx_status_t {
		return C.ucxx_window_unlock(w.handle, C.uint32_t(target))
	})
}

// LockAll has a lock on every target that is not exclusive.
func (w *Window) LockAll() error {
	return call(func() C.ucxx_status_t { return C.ucxx_window_lock_all(w.handle, 0) })
}

// UnlockAll ends LockAll.
func (w *Window) UnlockAll() error {
	return call(func() C.ucxx_status_t { return C.ucxx_window_unlock_all(w.handle) })
}

// Flush waits until what was done at the target is complete there.
func (w *Window) Flush(target int) error {
	return call(func() C.ucxx_status_t {
		return C.ucxx_window_flush(w.handle, C.uint32_t(target))
	})
}

// Put writes to the target. `data` may be changed when it returns. The target has it after Flush
// or Unlock.
func (w *Window) Put(data []byte, target int, offset int64) error {
	if len(data) == 0 {
		return nil
	}
	return call(func() C.ucxx_status_t {
		return C.shim_put(w.handle, unsafe.Pointer(&data[0]), C.size_t(len(data)),
			C.uint32_t(target), C.int64_t(offset))
	})
}

// Get reads from the target, and waits for the data.
func (w *Window) Get(into []byte, target int, offset int64) error {
	if len(into) == 0 {
		return nil
	}
	return call(func() C.ucxx_status_t {
		return C.shim_get(w.handle, unsafe.Pointer(&into[0]), C.size_t(len(into)),
			C.uint32_t(target), C.int64_t(offset))
	})
}

// FetchAdd adds to an int64 of the target at once, and returns what it was. The offset is a
// multiple of 8.
func (w *Window) FetchAdd(delta int64, target int, offset int64) (int64, error) {
	var before C.int64_t
	err := call(func() C.ucxx_status_t {
		return C.shim_fetch_add(w.handle, C.int64_t(delta), &before, C.uint32_t(target),
			C.int64_t(offset))
	})
	return int64(before), err
}
