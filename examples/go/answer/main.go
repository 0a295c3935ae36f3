// Command answer is an agent: it answers questions, and works on what others delegate to it.
//
//	answer [NAME]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run answers until the program is interrupted. Then what it works on ends too.
func run() error {
	name := "reviewer"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &agent{ctx: ctx, cancels: make(map[wire.MessageID]context.CancelFunc)}
	defer a.working.Wait()
	defer stop()
	err := a.daemon.Attach(ctx, client.AttachParams{Name: name}, client.Handler{
		Query:    a.answer,
		Delegate: a.accept,
		Cancel:   a.cancel,
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// agent answers by itself. What it gets is a peer's text: data, and no command.
type agent struct {
	daemon client.Client // of the socket that ACP_SOCKET names, else of ~/.acp/acp.sock

	ctx     context.Context // of all work
	mu      sync.Mutex
	cancels map[wire.MessageID]context.CancelFunc // what ends the work on a delegation
	working sync.WaitGroup
}

func (a *agent) answer(_ context.Context, in *client.Inbound) (any, error) {
	query, err := kinds.ParsePayload[kinds.Query](in.Payload)
	if err != nil {
		return nil, err
	}
	return &kinds.Response{Summary: "You asked: " + query.Question}, nil
}

// accept takes a task, and lets the work go on in the background.
func (a *agent) accept(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	task, err := kinds.ParsePayload[kinds.Delegate](in.Payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(a.ctx)
	a.mu.Lock()
	a.cancels[in.ID] = cancel
	a.mu.Unlock()
	a.working.Go(func() { a.work(ctx, in.ID, task.Task) })
	return &kinds.Ack{Accepted: true}, nil
}

// cancel ends the work on a task. Nothing more is sent for it.
func (a *agent) cancel(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cancel := a.cancels[*in.Ref]
	if cancel == nil {
		return &kinds.Ack{Code: kinds.NotFound, Message: "it has ended"}, nil
	}
	cancel()
	return nil, nil
}

// work tells the delegator how far the task is, and then the result.
func (a *agent) work(ctx context.Context, id wire.MessageID, task string) {
	defer func() {
		a.mu.Lock()
		a.cancels[id]()
		delete(a.cancels, id)
		a.mu.Unlock()
	}()
	for _, part := range []string{"half done", "nearly done"} {
		if err := a.report(ctx, id, kinds.Result{Status: "partial", Outcome: part}); err != nil {
			log.Print(err)
			return
		}
	}
	if err := a.report(ctx, id, kinds.Result{Status: "completed", Outcome: fmt.Sprintf("You delegated: %s", task)}); err != nil {
		log.Print(err) // repeat it with the same id if the error is retryable
	}
}

func (a *agent) report(ctx context.Context, id wire.MessageID, result kinds.Result) error {
	_, err := a.daemon.SendResult(ctx, client.ResultParams{
		Head: client.Head{ID: wire.NewMessageID()}, Ref: id, Payload: kinds.EncodePayload(&result),
	})
	return err
}
