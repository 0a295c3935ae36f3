package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// Ask the agents of a peer a question.
func ExampleClient_Query() {
	c := &client.Client{Patience: 5 * time.Second}
	defer c.Close()
	question := kinds.Encode(&kinds.Query{Question: "Which schema?"})
	answer, err := c.Query(context.Background(), client.QueryParams{To: "laptop", Payload: question})
	if err != nil {
		log.Fatal(err)
	}
	response, err := kinds.Parse[kinds.Response](answer.Payload)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Text(response.Summary))
}

// Answer questions until the context ends.
func ExampleClient_Attach() {
	c := &client.Client{}
	defer c.Close()
	err := c.Attach(context.Background(), client.AttachParams{Name: "reviewer"}, client.Handler{
		Query: func(_ context.Context, in *client.Inbound) (any, error) {
			q, err := kinds.Parse[kinds.Query](in.Payload)
			if err != nil {
				return nil, err
			}
			return &kinds.Response{Summary: "You asked: " + q.Question}, nil
		},
	})
	log.Fatal(err)
}

// Print what happens with peers.
func ExampleClient_Subscribe() {
	c := &client.Client{}
	p := client.SubscribeParams{Events: client.EventFilter{All: true}}
	err := c.Subscribe(context.Background(), p, nil, func(e *client.Event) {
		fmt.Println(e.At, e.Type, client.Line(e.Name))
	})
	log.Fatal(err)
}

// Control sequences of a peer do not reach the terminal.
func ExampleText() {
	fmt.Println(client.Text("done\x1b[2J, all of it"))
	// Output: done, all of it
}

func ExampleLine() {
	fmt.Println(client.Line("two\nlines"))
	// Output: two lines
}

func ExampleTaskState_IsFinal() {
	fmt.Println(client.TaskAccepted.IsFinal(), client.TaskCompleted.IsFinal())
	// Output: false true
}
