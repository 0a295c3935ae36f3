// Command ask asks several agents the same question at the same time, and prints their answers.
//
//	ask QUESTION PEER…
//
// It exits with 1 if any of them failed.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: ask QUESTION PEER…")
		os.Exit(2)
	}
	question := kinds.EncodePayload(&kinds.Query{Question: os.Args[1], DeadlineMS: 60_000})
	var daemon client.Client // at the socket that ACP_SOCKET names, else the one for agents in ~/.acp
	if _, err := daemon.Whoami(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	peers := os.Args[2:]
	lines := make([]string, len(peers))
	var asking sync.WaitGroup
	var failed atomic.Bool
	for i, peer := range peers {
		asking.Go(func() {
			said, err := ask(&daemon, peer, question)
			if err != nil {
				said = err.Error()
				failed.Store(true)
			}
			lines[i] = said
		})
	}
	asking.Wait()
	for i, line := range lines {
		fmt.Printf("%s: %s\n", peers[i], client.Line(line)) // without what would steer a terminal
	}
	daemon.Close()
	if failed.Load() {
		os.Exit(1)
	}
}

// ask returns an agent's answer. An error's message says what to do.
func ask(daemon *client.Client, peer string, question wire.Payload) (string, error) {
	answer, err := daemon.Query(context.Background(), client.QueryParams{To: peer, Payload: question})
	if err != nil {
		return "", kinds.AsError(err)
	}
	response, err := kinds.ParsePayload[kinds.Response](answer.Payload)
	if err != nil {
		return "", err
	}
	return response.Summary, nil
}
