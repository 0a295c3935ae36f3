package channels_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/daemon"
)

// startDaemon starts a daemon, and returns its state directory and a client of it. stop ends
// the daemon. A program that uses a daemon which runs already needs nothing of this: without
// Home a channels.Client finds it.
func startDaemon() (home string, local *client.Client, stop func()) {
	home, err := os.MkdirTemp("", "acpd")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d, err := daemon.OpenDaemon(ctx, daemon.Options{Home: home, Name: "desk", Listen: "127.0.0.1:0", NoMDNS: true})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx, nil) })
	local = &client.Client{Socket: filepath.Join(home, client.SocketName)}
	return home, local, func() {
		local.Close()
		cancel()
		running.Wait()
		os.RemoveAll(home)
	}
}

// Send a message to a channel, and read it.
func ExampleClient_Send() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	home, local, stop := startDaemon() // elsewhere: local := &client.Client{}
	defer stop()
	planner := &channels.Client{Daemon: local, Home: home, Agent: "planner"}
	reviewer := &channels.Client{Daemon: local, Home: home, Agent: "reviewer"}

	intent, err := planner.CreateIntent(ctx, channels.IntentParams{Title: "Research Q1"})
	if err != nil {
		log.Fatal(err)
	}
	progress, err := planner.CreateChannel(ctx, intent.ID, channels.ChannelParams{Name: "progress"})
	if err != nil {
		log.Fatal(err)
	}
	notice := channels.SendParams{Type: channels.TypeNotify, Payload: jsontext.Value(`{"done": 3}`)}
	sent, err := planner.Send(ctx, progress.ID, notice, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Sender, sent.Status)

	list, err := reviewer.Messages(ctx, progress.ID, channels.MessagesParams{})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range list {
		fmt.Println(client.Line(m.Sender), client.Line(string(m.Payload)))
	}
	// Output:
	// planner delivered
	// planner {"done":3}
}

// Ask an agent something, which finds the channel by its name and replies.
func ExampleClient_Ask() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	home, local, stop := startDaemon() // elsewhere: local := &client.Client{}
	defer stop()
	planner := &channels.Client{Daemon: local, Home: home, Agent: "planner"}
	reviewer := &channels.Client{Daemon: local, Home: home, Agent: "reviewer"}

	intent, err := planner.CreateIntent(ctx, channels.IntentParams{Title: "Research Q1"})
	if err != nil {
		log.Fatal(err)
	}
	questions, err := planner.CreateChannel(ctx, intent.ID, channels.ChannelParams{Name: "questions"})
	if err != nil {
		log.Fatal(err)
	}
	replied := make(chan error)
	go func() {
		replied <- replyOnce(ctx, reviewer, "questions")
	}()
	answer, err := planner.Ask(ctx, questions.ID, channels.AskParams{To: "reviewer", Payload: jsontext.Value(`{"text": "Which schema?"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Line(answer.Sender), "says", client.Line(string(answer.Payload)))
	fmt.Println("the reviewer:", <-replied)
	// Output:
	// reviewer says {"text":"v2.3"}
	// the reviewer: <nil>
}

// replyOnce replies to the first request that comes to an agent in a channel of that name.
func replyOnce(ctx context.Context, agent *channels.Client, name string) error {
	ch, err := agent.FindChannel(ctx, "", name)
	if err != nil {
		return err
	}
	for tail := agent.Tail(ch.ID); ; {
		list, err := tail.ReadNext(ctx)
		if err != nil {
			return err
		}
		for _, m := range list {
			if m.Type == channels.TypeRequest {
				_, err := agent.Reply(ctx, ch.ID, m.ID, channels.ReplyParams{Payload: jsontext.Value(`{"text": "v2.3"}`)})
				return err
			}
		}
	}
}
