// Command answer is an agent: it answers questions, and works on what others delegate to it.
//
//	answer [NAME]
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/acpd/acpd/client"
)

func main() {
	name := "reviewer"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var daemon client.Client // at the socket that ACP_SOCKET names, else the one for agents in ~/.acp
	if err := daemon.Attach(ctx, client.AttachParams{Name: name}, client.Handler{Answer: answer, Work: work}); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// answer gets a peer's text: data, and no command.
func answer(_ context.Context, q *client.Question) (string, error) {
	return "You asked: " + q.Question, nil
}

// work tells the delegator how far the work is, and returns the result. ctx ends if the delegator cancels it.
func work(ctx context.Context, w *client.Work) (string, error) {
	for i, part := range []string{"half done", "nearly done"} {
		if err := w.Progress(ctx, part, 0.5+0.4*float64(i)); err != nil {
			log.Print(err) // the delegator may only be away
		}
	}
	return "You delegated: " + w.Task, nil
}
