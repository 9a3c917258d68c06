// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Two workers of one process, connected.
func pair(t *testing.T) (client, server *Endpoint) {
	ucp, err := NewContext()
	check(t, err)
	t.Cleanup(ucp.Close)
	near, err := ucp.NewWorker(0)
	check(t, err)
	t.Cleanup(near.Close)
	far, err := ucp.NewWorker(0)
	check(t, err)
	t.Cleanup(far.Close)
	listener, err := far.Listen("127.0.0.1", 0)
	check(t, err)
	defer listener.Close()
	client, err = near.Connect("127.0.0.1", listener.Port())
	check(t, err)
	server, err = listener.Accept(context.Background())
	check(t, err)
	return client, server
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	client, server := pair(t)
	receive, err := server.StartTagRecv(make([]byte, 8), 1, AllBits, nil)
	check(t, err)
	server.worker.Close()
	if _, err := receive.Wait(context.Background()); !errors.Is(err, ErrCanceled) {
		t.Fatal(err)
	}
	if err := server.Flush(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	server.worker.Close()
	if err := server.Close(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	<-client.Done()
	check(t, client.Close())
}

func TestManyGoroutinesCancel(t *testing.T) {
	client, server := pair(t)
	var all sync.WaitGroup
	for i := 0; i < 2000; i++ {
		all.Add(1)
		go func(tag uint64) {
			defer all.Done()
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			_, err := server.TagRecv(ctx, make([]byte, 8), tag, AllBits)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}(uint64(i))
	}
	all.Wait()
	check(t, client.TagSend(context.Background(), []byte("after all"), 1))
	info, err := server.TagRecv(context.Background(), make([]byte, 4), 1, AllBits)
	if !errors.Is(err, ErrMessageTruncated) || info.Length != 9 {
		t.Fatal(info, err)
	}
	check(t, client.Close())
	check(t, server.Close())
}

func TestHandlerThatDoesNotReply(t *testing.T) {
	client, server := pair(t)
	check(t, server.worker.HandleFetch(3, func(*Fetch) {}))
	if _, err := client.Fetch(context.Background(), 3, nil, nil); !errors.Is(err, ErrCanceled) {
		t.Fatal(err)
	}
	check(t, client.Close())
	check(t, server.Close())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A hub of envelopes of 8 bytes.
func hubOf(t *testing.T, envelopes int) *Hub {
	ucp, err := NewContext()
	check(t, err)
	t.Cleanup(ucp.Close)
	worker, err := ucp.NewWorker(0)
	check(t, err)
	t.Cleanup(worker.Close)
	hub, err := worker.NewHub(8, envelopes)
	check(t, err)
	t.Cleanup(hub.Close)
	return hub
}

func TestLeasesWaitAndEnd(t *testing.T) {
	hub := hubOf(t, 2)
	in, err := hub.NewLink(Produce)
	check(t, err)
	out, err := hub.NewLink(Consume)
	check(t, err)

	const chunks, consumers = 5000, 4
	var all sync.WaitGroup
	taken := make(chan int, chunks+consumers)
	for i := 0; i < consumers; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				// Most waits end by their context, at any moment of a lease.
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Microsecond)
				envelope, err := out.Lease(ctx)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					continue
				} else if errors.Is(err, ErrClosed) {
					return
				}
				check(t, err)
				taken <- len(envelope.Data())
				check(t, envelope.Commit(0))
			}
		}()
	}
	total := 0
	for i := 0; i < chunks; i++ {
		envelope, err := in.Lease(context.Background())
		check(t, err)
		check(t, envelope.Commit(i%9))
		total += i % 9
	}
	check(t, hub.Drain(context.Background()))
	check(t, hub.Finish())
	all.Wait()
	for i := 0; i < chunks; i++ {
		total -= <-taken
	}
	if total != 0 || len(taken) != 0 {
		t.Fatal("each chunk is taken once, with its length: ", total, len(taken))
	}
	in.Close()
	out.Close()
	if _, err := out.Lease(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestCloseEndsALease(t *testing.T) {
	hub := hubOf(t, 1)
	for i := 0; i < 200; i++ {
		link, err := hub.NewLink(Consume)
		check(t, err)
		ended := make(chan error)
		go func() {
			_, err := link.Lease(context.Background())
			ended <- err
		}()
		link.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}
