// Command program does what package scenario wants, with package client:
//
//	program NAME
//
// It attaches to laptop's daemon under that name, and prints what it sees.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var daemon client.Client

func main() {
	name := os.Args[1]
	ctx, cancel := context.WithCancel(context.Background())
	attached, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- daemon.Attach(ctx, client.AttachParams{Name: name}, client.Handler{
			Query: func(_ context.Context, in *client.Inbound) (any, error) {
				q := parse[kinds.Query](in.Payload)
				return &kinds.Response{Summary: fmt.Sprintf("%s was asked by %s: %s", name, in.Name, q.Question)}, nil
			},
			OnAttached: sync.OnceFunc(func() { close(attached) }),
		})
	}()
	<-attached

	me, err := daemon.Whoami(ctx)
	must(err)
	fmt.Println("who:", me.Name)
	fmt.Println("answer:", summary(query(ctx, "desk/echo", "é \"1\" 😀")))
	answers := make([]string, 3)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { answers[i] = summary(query(ctx, "desk/echo", "0")) })
	}
	asking.Wait()
	fmt.Println("answers:", strings.Join(answers, ", "))
	for _, failing := range [][2]string{{"nobody", "x"}, {"desk/nobody", "x"}, {"desk/echo", "busy"}, {"desk/echo", ""}} {
		_, err := query(ctx, failing[0], failing[1])
		e := kinds.AsError(err)
		fmt.Println("error:", e.Code, e.Retryable, e.RetryAfterMS)
	}
	fmt.Println("back:", summary(query(ctx, "desk/echo", "ask "+name)))

	given := delegate(ctx, "steps")
	for seen := uint64(0); ; {
		task, err := daemon.Wait(ctx, client.WaitParams{ID: given, AfterPartials: &seen})
		must(err)
		if task.State.IsFinal() {
			r := parse[kinds.Result](task.Result)
			fmt.Println("result:", task.State, r.Outcome, string(r.Data))
			break
		}
		part := parse[kinds.Result](task.Partial)
		fmt.Println("progress:", part.Outcome, *part.Progress)
		seen = task.Partials
		data, err := json.Marshal(given.String())
		must(err)
		_, err = daemon.Notify(ctx, client.NotifyParams{To: client.To("desk"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "next", Data: data})})
		must(err)
	}
	for _, task := range []string{"fail", "refuse me"} {
		ended, err := daemon.Wait(ctx, client.WaitParams{ID: delegate(ctx, task)})
		must(err)
		e := parse[kinds.Error](ended.Result)
		fmt.Println("failed:", ended.State, e.Code, e.Message)
	}
	given = delegate(ctx, "for ever")
	ack, err := daemon.Cancel(ctx, client.CancelParams{Ref: given})
	must(err)
	task, err := daemon.Wait(ctx, client.WaitParams{ID: given})
	must(err)
	fmt.Println("cancelled:", parse[kinds.Ack](ack.Payload).Accepted, task.State)

	receipts, err := daemon.NotifyAll(ctx, client.NotifyParams{To: client.ToAll("desk", "nobody"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "nobody.takes.it"})})
	must(err)
	fmt.Println("receipts:", receipts[0].State, receipts[1].Error.Code)
	query(ctx, "desk/echo", "write "+name)
	inbox, err := daemon.Inbox(ctx, client.InboxParams{Kinds: []string{"notify"}})
	must(err)
	note := parse[kinds.Notify](inbox.Messages[0].Envelope.Payload)
	fmt.Println("inbox:", len(inbox.Messages), inbox.Messages[0].Agent == name, note.Topic)
	acked, err := daemon.Ack(ctx, client.AckParams{IDs: []wire.MessageID{inbox.Messages[0].Envelope.ID}})
	must(err)
	fmt.Println("removed:", acked.Removed)
	cancel()
	<-ended
}

func query(ctx context.Context, to, text string) (*client.Answer, error) {
	return daemon.Query(ctx, client.QueryParams{To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: text})})
}

func summary(a *client.Answer, err error) string {
	must(err)
	return parse[kinds.Response](a.Payload).Summary
}

func delegate(ctx context.Context, task string) wire.MessageID {
	given, err := daemon.Delegate(ctx, client.DelegateParams{To: "desk", Payload: kinds.EncodePayload(&kinds.Delegate{Task: task})})
	must(err)
	return given.ID
}

func parse[T any](p wire.Payload) *T {
	v, err := kinds.ParsePayload[T](p)
	must(err)
	return v
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
