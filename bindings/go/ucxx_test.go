// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

package ucxx

import (
	"context"
	"errors"
	"sync"
	"testing"
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
