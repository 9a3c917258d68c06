// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// A pipeline of two processes: goroutines of one fill chunks, and goroutines of the other read them
// where they have arrived. Start it once without arguments, as the server: it prints its port. Then
// start it with that port.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"ucxx_rs/ucxx"
)

const (
	chunks  = 1000
	size    = 64 << 10
	workers = 4
	stream  = 1
	window  = 8
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ucp, err := ucxx.NewContext()
	check(err)
	defer ucp.Close()
	worker, err := ucp.NewWorker(0)
	check(err)
	defer worker.Close()
	// At most 16 chunks are in a process: who produces faster than the others consume has to wait.
	hub, err := worker.NewHub(size, 16)
	check(err)
	defer hub.Close()
	if len(os.Args) == 1 {
		consume(ctx, worker, hub)
	} else {
		port, err := strconv.ParseUint(os.Args[1], 10, 16)
		check(err)
		produce(ctx, worker, hub, uint16(port))
	}
}

func consume(ctx context.Context, worker *ucxx.Worker, hub *ucxx.Hub) {
	listener, err := worker.Listen("127.0.0.1", 0)
	check(err)
	defer listener.Close()
	fmt.Println(listener.Port())
	endpoint, err := listener.Accept(ctx)
	check(err)

	// What arrives is produced here.
	arrives, err := hub.NewLink(ucxx.Produce)
	check(err)
	defer arrives.Close()
	link, err := hub.NewLink(ucxx.Consume)
	check(err)
	defer link.Close()
	short, stop := context.WithTimeout(ctx, time.Millisecond)
	_, err = link.Lease(short)
	stop()
	require(errors.Is(err, context.DeadlineExceeded), "there is no chunk yet")
	fmt.Println("an error of a context:", err)
	check(arrives.Connect(endpoint, stream, window))

	var seen [chunks]bool
	var mu sync.Mutex
	together(func() {
		for {
			envelope, err := link.Lease(ctx)
			if errors.Is(err, ucxx.ErrClosed) {
				return
			}
			check(err)
			number := binary.LittleEndian.Uint64(envelope.Metadata())
			data := envelope.Data()
			require(len(data) == length(number), "the chunk has its length")
			for i, value := range data {
				require(value == byte(number+uint64(i)), "the chunk has its bytes")
			}
			check(envelope.Commit(0))
			mu.Lock()
			require(!seen[number], "a chunk comes once")
			seen[number] = true
			mu.Unlock()
		}
	})
	for _, one := range seen {
		require(one, "every chunk comes")
	}
	fmt.Println("hub:", chunks, "chunks have arrived, each once")
	<-endpoint.Done()
	check(endpoint.Close())
}

func produce(ctx context.Context, worker *ucxx.Worker, hub *ucxx.Hub, port uint16) {
	endpoint, err := worker.Connect("127.0.0.1", port)
	check(err)
	leaves, err := hub.NewLink(ucxx.Consume)
	check(err)
	defer leaves.Close()
	check(leaves.Connect(endpoint, stream, window))
	link, err := hub.NewLink(ucxx.Produce)
	check(err)
	defer link.Close()

	envelope, err := link.Lease(ctx)
	check(err)
	err = envelope.Commit(size + 1)
	require(errors.Is(err, ucxx.ErrInvalidParam), "a chunk is not longer than its envelope")
	fmt.Println("an error of a call:", err)
	check(envelope.Abort())

	numbers := make(chan uint64)
	go func() {
		defer close(numbers)
		for number := uint64(0); number < chunks; number++ {
			numbers <- number
		}
	}()
	together(func() {
		for number := range numbers {
			envelope, err := link.Lease(ctx)
			check(err)
			binary.LittleEndian.PutUint64(envelope.Metadata(), number)
			data := envelope.Data()[:length(number)]
			for i := range data {
				data[i] = byte(number + uint64(i))
			}
			check(envelope.Commit(len(data)))
		}
	})
	check(hub.Finish())
	check(hub.Drain(ctx))
	check(endpoint.Close())
}

func length(number uint64) int { return 1 + int(number*7919)%size }

func together(work func()) {
	var all sync.WaitGroup
	for i := 0; i < workers; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			work()
		}()
	}
	all.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func require(condition bool, what string) {
	if !condition {
		log.Fatal("this does not hold: ", what)
	}
}
