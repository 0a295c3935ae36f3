// Command delegate gives an agent a task, prints how far it is, and then the result.
//
//	delegate PEER TASK
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: delegate PEER TASK")
		os.Exit(2)
	}
	ctx := context.Background()
	var daemon client.Client // of the socket that ACP_SOCKET names, else of ~/.acp/acp.sock
	defer daemon.Close()
	given, err := daemon.Delegate(ctx, client.DelegateParams{To: os.Args[1], Payload: kinds.EncodePayload(&kinds.Delegate{Task: os.Args[2]})})
	if err != nil {
		log.Fatal(err)
	}
	ack, err := kinds.ParsePayload[kinds.Ack](given.Payload)
	if err != nil {
		log.Fatal(err)
	}
	if !ack.Accepted {
		log.Fatalf("refused: %s", client.Line(ack.Message))
	}
	for seen := uint64(0); ; {
		task, err := daemon.Wait(ctx, client.WaitParams{ID: given.ID, AfterPartials: &seen})
		if err != nil {
			log.Fatal(err)
		}
		if task.State.IsFinal() {
			fmt.Printf("%s: %s\n", task.State, client.Line(task.Outcome))
			return
		}
		part, err := kinds.ParsePayload[kinds.Result](task.Partial)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("progress: %s\n", client.Line(part.Outcome))
		seen = task.Partials
	}
}
