// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// Two processes send each other a message, 1000 times. Start it once without arguments, as the
// server: it prints its port. Then start it with that port.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"ucxx_rs/ucxx"
)

const (
	rounds = 1000
	tag    = 7
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
	if len(os.Args) == 1 {
		serve(ctx, worker)
	} else {
		port, err := strconv.ParseUint(os.Args[1], 10, 16)
		check(err)
		connect(ctx, worker, uint16(port))
	}
}

func serve(ctx context.Context, worker *ucxx.Worker) {
	listener, err := worker.Listen("127.0.0.1", 0)
	check(err)
	defer listener.Close()
	fmt.Println(listener.Port())
	endpoint, err := listener.Accept(ctx)
	check(err)
	for i := 0; i < rounds; i++ {
		ball := make([]byte, 64)
		info, err := endpoint.TagRecv(ctx, ball, tag, ucxx.AllBits)
		check(err)
		check(endpoint.TagSend(ctx, ball[:info.Length], tag))
	}
	<-endpoint.Done()
	require(errors.Is(endpoint.Err(), ucxx.ErrConnectionReset), "the client closes")
	check(endpoint.Close())
}

func connect(ctx context.Context, worker *ucxx.Worker, port uint16) {
	endpoint, err := worker.Connect("127.0.0.1", port)
	check(err)
	returned := 0
	for i := 0; i < rounds; i++ {
		ball := []byte(fmt.Sprintf("ball %d", i))
		back := make([]byte, 64)
		// It is posted before the send, so that the message is received where it belongs.
		receive, err := endpoint.StartTagRecv(back, tag, ucxx.AllBits,
			func(info ucxx.Info, err error) { returned++ })
		check(err)
		check(endpoint.TagSend(ctx, ball, tag))
		info, err := receive.Wait(ctx)
		check(err)
		require(bytes.Equal(back[:info.Length], ball) && info.Tag == tag, "the ball comes back")
	}
	require(returned == rounds, "every callback has run")

	// Errors: of a call, of an operation, and of a context that has ended.
	_, err = worker.Connect("127.0.0.1", 0)
	require(errors.Is(err, ucxx.ErrInvalidParam), "port 0 is refused")
	fmt.Println("an error of a call:", err)
	_, err = endpoint.Fetch(ctx, 1, nil, nil)
	require(errors.Is(err, ucxx.ErrNoElem), "the server has no handler")
	fmt.Println("an error of an operation:", err)
	short, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err = endpoint.TagRecv(short, make([]byte, 1), tag, ucxx.AllBits)
	require(errors.Is(err, context.DeadlineExceeded), "nothing is received")
	fmt.Println("an error of a context:", err)

	check(endpoint.Close())
	fmt.Println("ping_pong:", rounds, "balls came back, and", returned, "callbacks ran")
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
