// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// A server answers fetches by a handler. Start it without arguments: it prints its port. Then start
// it with that port, as the client, which checks the replies.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"ucxx_rs/ucxx"
)

const upperCase = 1

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ucp, err := ucxx.NewContext()
	check(err)
	defer ucp.Close()
	worker, err := ucp.NewWorker(0)
	check(err)
	defer worker.Close()
	if len(os.Args) == 1 {
		serve(ctx, worker)
	} else {
		port, err := strconv.ParseUint(os.Args[1], 10, 16)
		check(err)
		ask(ctx, worker, uint16(port))
	}
}

func serve(ctx context.Context, worker *ucxx.Worker) {
	check(worker.HandleFetch(upperCase, func(fetch *ucxx.Fetch) {
		text := string(fetch.Header())
		if text == "" {
			check(fetch.Reject(ucxx.ErrRejected))
			return
		}
		check(fetch.Reply(ctx, []byte(strings.ToUpper(text))))
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

func ask(ctx context.Context, worker *ucxx.Worker, port uint16) {
	endpoint, err := worker.Connect("127.0.0.1", port)
	check(err)
	reply := make([]byte, 1<<20)
	for _, text := range []string{"hello", strings.Repeat("long ", 10), "z"} {
		length, err := endpoint.Fetch(ctx, upperCase, []byte(text), reply)
		check(err)
		if got := string(reply[:length]); got != strings.ToUpper(text) {
			log.Fatalf("%q was answered by %q", text, got)
		}
	}
	_, err = endpoint.Fetch(ctx, upperCase, nil, reply)
	if !errors.Is(err, ucxx.ErrRejected) {
		log.Fatal("the server should have rejected this: ", err)
	}
	length, err := endpoint.Fetch(ctx, upperCase, []byte("hello"), reply[:2])
	if !errors.Is(err, ucxx.ErrMessageTruncated) || length != 5 {
		log.Fatal("two bytes of room should be too few: ", err)
	}
	check(endpoint.Close())
	fmt.Println("fetch: three replies are right, and two errors")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
