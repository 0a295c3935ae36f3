// Command ask asks several agents the same question at the same time, and prints their answers.
//
//	ask QUESTION PEER…
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: ask QUESTION PEER…")
		os.Exit(2)
	}
	question := kinds.EncodePayload(&kinds.Query{Question: os.Args[1], DeadlineMS: 60_000})
	var daemon client.Client // of the socket that ACP_SOCKET names, else of ~/.acp/acp.sock
	defer daemon.Close()
	if _, err := daemon.Whoami(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	peers := os.Args[2:]
	lines := make([]string, len(peers))
	var asking sync.WaitGroup
	for i, peer := range peers {
		asking.Go(func() {
			answer, err := daemon.Query(context.Background(), client.QueryParams{To: peer, Payload: question})
			if err != nil {
				lines[i] = kinds.AsError(err).Error() // its message says what to do
				return
			}
			response, err := kinds.ParsePayload[kinds.Response](answer.Payload)
			if err != nil {
				lines[i] = err.Error()
				return
			}
			lines[i] = response.Summary
		})
	}
	asking.Wait()
	for i, line := range lines {
		fmt.Printf("%s: %s\n", peers[i], client.Line(line)) // without what would steer a terminal
	}
}
