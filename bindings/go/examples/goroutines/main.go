// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// 10,000 goroutines fetch from one server at the same time, on one endpoint. Start it without
// arguments, as the server: it prints its port. Then start it with that port.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"ucxx_rs/ucxx"
)

const (
	goroutines = 10000
	pages      = 1
	pageSize   = 512
	// Operations that may wait for the worker's thread. One of each goroutine has to fit.
	queue = 16384
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ucp, err := ucxx.NewContext()
	check(err)
	defer ucp.Close()
	worker, err := ucp.NewWorker(queue)
	check(err)
	defer worker.Close()
	if len(os.Args) == 1 {
		serve(ctx, worker)
	} else {
		port, err := strconv.ParseUint(os.Args[1], 10, 16)
		check(err)
		load(ctx, worker, uint16(port))
	}
}

// What the page with a number has in it.
func page(number uint32) []byte {
	return bytes.Repeat([]byte{byte(number), byte(number >> 8), 0xa5, 0x5a}, pageSize/4)
}

func serve(ctx context.Context, worker *ucxx.Worker) {
	check(worker.HandleFetch(pages, func(fetch *ucxx.Fetch) {
		check(fetch.Reply(ctx, page(binary.LittleEndian.Uint32(fetch.Header()))))
	}))
	listener, err := worker.Listen("127.0.0.1", 0)
	check(err)
	defer listener.Close()
	fmt.Println(listener.Port())
	endpoint, err := listener.Accept(ctx)
	check(err)
	<-endpoint.Done()
	check(endpoint.Close())
}

func load(ctx context.Context, worker *ucxx.Worker, port uint16) {
	endpoint, err := worker.Connect("127.0.0.1", port)
	check(err)
	var all sync.WaitGroup
	failed := make(chan error, goroutines)
	begin := time.Now()
	for i := uint32(0); i < goroutines; i++ {
		all.Add(1)
		go func(number uint32) {
			defer all.Done()
			reply := make([]byte, pageSize)
			header := binary.LittleEndian.AppendUint32(nil, number)
			length, err := endpoint.Fetch(ctx, pages, header, reply)
			if err == nil && !bytes.Equal(reply[:length], page(number)) {
				err = fmt.Errorf("page %d is wrong", number)
			}
			if err != nil {
				failed <- err
			}
		}(i)
	}
	all.Wait()
	took := time.Since(begin)
	select {
	case err := <-failed:
		log.Fatal(len(failed)+1, " goroutines failed, one with: ", err)
	default:
	}
	check(endpoint.Close())
	fmt.Printf("goroutines: %d have their page, in %d ms\n", goroutines, took.Milliseconds())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
