// Command delegate gives an agent a task, prints its progress, and then the result.
//
//	delegate PEER TASK
//
// It exits with 1 unless the task is completed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: delegate PEER TASK")
		os.Exit(2)
	}
	if err := delegate(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, client.Line(err.Error())) // without what would steer a terminal
		os.Exit(1)
	}
}

// delegate gives a task, and follows it to its end.
func delegate(ctx context.Context, peer, task string) error {
	var daemon client.Client // at the socket that ACP_SOCKET names, else the one for agents in ~/.acp
	defer daemon.Close()
	given, err := daemon.Delegate(ctx, client.DelegateParams{To: peer, Payload: kinds.EncodePayload(&kinds.Delegate{Task: task})})
	if err != nil {
		return err
	}
	ack, err := kinds.ParsePayload[kinds.Ack](given.Payload)
	if err != nil {
		return err
	}
	if !ack.Accepted {
		return errors.New("refused: " + ack.Message)
	}
	for seen := uint64(0); ; {
		status, err := daemon.Wait(ctx, client.WaitParams{ID: given.ID, AfterPartials: &seen})
		if err != nil {
			return err
		}
		if status.State.IsFinal() {
			_, err := daemon.Ack(ctx, client.AckParams{Ref: given.ID}) // status has the result: it may leave the inbox
			if status.State != client.TaskCompleted {
				return fmt.Errorf("%s: %s", status.State, status.Outcome)
			}
			fmt.Printf("%s: %s\n", status.State, client.Line(status.Outcome))
			return err
		}
		part, err := kinds.ParsePayload[kinds.Result](status.Partial)
		if err != nil {
			return err
		}
		fmt.Printf("progress: %s\n", client.Line(part.Outcome))
		seen = status.Partials
	}
}
