package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
)

// progress is a message in a channel.
const progress = `{"message_type":"notify","payload":{"progress":1}}`

// loadChannels has agents of one daemon and of two talk in a channel for so long, for the profile.
func loadChannels(ctx context.Context, bin string, window time.Duration) (err error) {
	f, err := newFleet(ctx, acpdVariant, bin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); err = errors.Join(err, f.stopAll()) }()
	p, err := f.spawnPair("channels: {open_to: [near, far]}\n")
	if err != nil {
		return err
	}
	near := client.Client{Socket: p.near.socketPath()}
	defer near.Close()
	if _, err := near.Ping(ctx, client.PingParams{To: "far"}); err != nil { // the far one has no address of it
		return err
	}
	planner := newWebAgent(ctx, p.near, "planner")
	intent, err := planner.createObject("intents", `{"title":"bench"}`)
	if err != nil {
		return err
	}
	channel, err := planner.createObject("intents/"+intent+"/channels", `{"name":"talk"}`)
	if err != nil {
		return err
	}
	for _, at := range []home{p.near, p.far} {
		reviewer := newWebAgent(ctx, at, "reviewer-"+at.id.String()[:4])
		if _, err := reviewer.fetch("GET", "channels/"+channel, ""); err != nil { // now its home is known
			return err
		}
		if err := reviewer.answerRequests(); err != nil {
			return err
		}
		ask := fmt.Sprintf(`{"to":%q,"payload":{"question":"which schema?"},"timeout":10}`, reviewer.agent)
		for began := time.Now(); time.Since(began) < window; {
			if err := reviewer.post("channels/"+channel+"/messages", progress); err != nil {
				return err
			}
			if err := planner.post("channels/"+channel+"/ask", ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerRequests has the agent answer whatever it is asked.
func (w *webAgent) answerRequests() error {
	return w.followEvents("agents/"+w.agent+"/subscribe", func(data []byte) {
		var m struct {
			ID      string `json:"id"`
			Channel string `json:"channel_id"`
			Kind    string `json:"message_type"`
		}
		if json.Unmarshal(data, &m) == nil && m.Kind == "request" {
			w.post("channels/"+m.Channel+"/messages/"+m.ID+"/reply", `{"payload":{"answer":42}}`) // who asks sees the error
		}
	})
}
