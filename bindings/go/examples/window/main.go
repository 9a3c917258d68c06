// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers

// The members of a group count the primes below a limit. A counter in the window of member 0 hands
// out the work, so a slow member does less of it. The goroutines of a member share its window.
// Start it by a launcher: ucxx_rs_group 4 window
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"sync"

	"ucxx_rs/ucxx"
)

const (
	limit      = 200_000
	piece      = 1_000
	goroutines = 4
	// The window of each member: the counter, and how many primes the member has found.
	counter, found, size = 0, 8, 16
)

func main() {
	ucp, err := ucxx.NewContext()
	check(err)
	defer ucp.Close()
	worker, err := ucp.NewWorker(0)
	check(err)
	defer worker.Close()
	group, err := worker.NewGroup()
	check(err)
	defer group.Close()
	window, err := group.NewWindow(size)
	check(err)

	// Before a lock there is nothing that may be accessed, and that is an error.
	_, err = window.FetchAdd(1, 0, counter)
	require(err != nil, "an access without a lock is refused")
	if group.Rank() == 0 {
		fmt.Println("an error of a call:", err)
	}

	check(window.LockAll())
	pieces := search(window, group.Rank())
	check(window.UnlockAll())
	check(group.Barrier())

	if group.Rank() == 0 {
		total := int64(0)
		for member := 0; member < group.Size(); member++ {
			value := make([]byte, 8)
			check(window.Lock(member, false))
			check(window.Get(value, member, found))
			check(window.Unlock(member))
			total += int64(binary.LittleEndian.Uint64(value))
		}
		alone := primes(0, limit)
		require(total == alone, fmt.Sprint(total, " primes, and one process finds ", alone))
		fmt.Println("window:", group.Size(), "members found", total, "primes")
	}
	fmt.Println("member", group.Rank(), "has had", pieces, "pieces")
	check(window.Close())
}

// Takes pieces until none is left, and returns how many these were.
func search(window *ucxx.Window, rank int) int {
	var all sync.WaitGroup
	var mu sync.Mutex
	pieces := 0
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				begin, err := window.FetchAdd(piece, 0, counter)
				check(err)
				if begin >= limit {
					return
				}
				_, err = window.FetchAdd(primes(begin, begin+piece), rank, found)
				check(err)
				mu.Lock()
				pieces++
				mu.Unlock()
			}
		}()
	}
	all.Wait()
	return pieces
}

func primes(begin, end int64) (count int64) {
next:
	for n := begin; n < end; n++ {
		if n < 2 {
			continue
		}
		for d := int64(2); d*d <= n; d++ {
			if n%d == 0 {
				continue next
			}
		}
		count++
	}
	return count
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
