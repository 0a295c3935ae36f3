package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon"
	"github.com/acpd/acpd/kinds"
)

// startPair starts two daemons that trust each other, desk and laptop, and returns a client
// of each. stop ends the daemons. A program that uses a daemon which runs already needs
// nothing of this: the zero Client finds it.
func startPair() (desk, laptop *client.Client, stop func()) {
	var members [2]*client.Client
	var addrs [2]string
	var ids [2]string
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var homes []string
	for i, name := range []string{"desk", "laptop"} {
		home, err := os.MkdirTemp("", "acpd")
		if err != nil {
			log.Fatal(err)
		}
		homes = append(homes, home)
		d, err := daemon.OpenDaemon(ctx, daemon.Options{Home: home, Name: name, Listen: "127.0.0.1:0", NoMDNS: true})
		if err != nil {
			log.Fatal(err)
		}
		running.Go(func() { d.Run(ctx, nil) })
		members[i] = &client.Client{Socket: filepath.Join(home, client.SocketName)}
		me, err := members[i].Whoami(ctx)
		if err != nil {
			log.Fatal(err)
		}
		addrs[i], ids[i] = me.Listen[0], me.ID.String()
	}
	for i, name := range []string{"laptop", "desk"} {
		if _, err := members[i].Trust(ctx, client.TrustParams{Peer: ids[1-i], Name: name, Addrs: addrs[1-i : 2-i]}); err != nil {
			log.Fatal(err)
		}
	}
	return members[0], members[1], func() {
		members[0].Close()
		members[1].Close()
		cancel()
		running.Wait()
		for _, home := range homes {
			os.RemoveAll(home)
		}
	}
}

// attachInBackground attaches an agent, and returns when it is attached.
func attachInBackground(ctx context.Context, c *client.Client, name string, h client.Handler) {
	attached := make(chan struct{})
	h.OnAttached = sync.OnceFunc(func() { close(attached) }) // it is called again when the connection was renewed
	go c.Attach(ctx, client.AttachParams{Name: name}, h)
	<-attached
}

// Ask the agents of a peer a question.
func ExampleClient_Query() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	desk, laptop, stop := startPair() // elsewhere: desk := &client.Client{}
	defer stop()
	attachInBackground(ctx, laptop, "reviewer", client.Handler{
		Query: func(context.Context, *client.Inbound) (any, error) { return &kinds.Response{Summary: "v2.3"}, nil },
	})

	question := kinds.EncodePayload(&kinds.Query{Question: "Which schema?"})
	answer, err := desk.Query(ctx, client.QueryParams{To: "laptop", Payload: question})
	if err != nil {
		log.Fatal(err)
	}
	response, err := kinds.ParsePayload[kinds.Response](answer.Payload)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Text(response.Summary))
	// Output: v2.3
}

// Answer questions, and take notifications, until the context ends.
func ExampleClient_Attach() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	desk, laptop, stop := startPair() // elsewhere: laptop := &client.Client{}
	defer stop()

	attached, ended := make(chan struct{}), make(chan error)
	agent, detach := context.WithCancel(ctx)
	go func() {
		ended <- laptop.Attach(agent, client.AttachParams{Name: "reviewer"}, client.Handler{
			Answer: func(_ context.Context, q *client.Question) (string, error) {
				return q.Message.Name + " asks: " + q.Question, nil
			},
			Notify: func(_ context.Context, in *client.Inbound) error {
				n, err := kinds.ParsePayload[kinds.Notify](in.Payload)
				fmt.Println("a notification:", client.Line(n.Topic))
				return err
			},
			OnAttached: func() { close(attached) },
		})
	}()
	<-attached

	receipt, err := desk.Notify(ctx, client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build.done"})})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("its receipt:", receipt.State)
	answer, err := desk.Query(ctx, client.QueryParams{To: "laptop/reviewer", Payload: kinds.EncodePayload(&kinds.Query{Question: "Which schema?"})})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the answer:", string(answer.Payload))
	detach()
	fmt.Println("Attach returns:", <-ended)
	// Output:
	// a notification: build.done
	// its receipt: handed
	// the answer: {"summary":"desk asks: Which schema?"}
	// Attach returns: context canceled
}

// Work on what others delegate, and tell them how far it is.
func ExampleHandler_work() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	desk, laptop, stop := startPair() // elsewhere: laptop := &client.Client{}
	defer stop()
	attachInBackground(ctx, laptop, "builder", client.Handler{
		Work: func(ctx context.Context, w *client.Work) (string, error) {
			w.Progress(ctx, "half of it is built", 0.5)
			return "built " + w.Task, nil
		},
	})

	given, err := desk.Delegate(ctx, client.DelegateParams{To: "laptop", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "the parser"})})
	if err != nil {
		log.Fatal(err)
	}
	task, err := desk.Wait(ctx, client.WaitParams{ID: given.ID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.State, client.Line(task.Outcome))
	// Output: completed built the parser
}

// Watch what peers send, until the first notification has come.
func ExampleClient_Subscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	desk, laptop, stop := startPair() // elsewhere: laptop := &client.Client{}
	defer stop()

	var first *client.Message
	subscription, unsubscribe := context.WithCancel(ctx)
	go func() { // what was sent before the subscription began is not seen
		note := kinds.EncodePayload(&kinds.Notify{Topic: "build.done"})
		for subscription.Err() == nil {
			desk.Notify(subscription, client.NotifyParams{To: client.To("laptop"), Payload: note})
		}
	}()
	p := client.SubscribeParams{Kinds: []string{kinds.KindNotify}}
	err := laptop.Subscribe(subscription, p, func(m *client.Message) {
		if first == nil {
			first = m
			unsubscribe()
		}
	}, nil)
	fmt.Println(first.Direction, first.Envelope.Kind, string(first.Envelope.Payload))
	fmt.Println("Subscribe returns:", err)
	// Output:
	// in notify {"topic":"build.done"}
	// Subscribe returns: context canceled
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
