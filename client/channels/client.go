// Package channels is a client for the channels of OpenIntent that a daemon serves over HTTP
// on a socket of its own.
//
// It owns the types of intents, channels and messages, a method for each frequent request,
// and what a refusal means ([Refusal]). It guarantees that the error of a request says what
// is known of its delivery. It leaves lists over all machines and event streams to
// [Client.Do] and to HTTP; docs/channels.md describes the API.
package channels

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
)

// Client makes requests of a daemon. Any number of goroutines may use it. No field may
// change after the first request.
type Client struct {
	// Daemon is a client of the same daemon. A request that takes long asks it whether the
	// daemon lives; if Agent is the one of Daemon.As, its key goes with each request.
	Daemon *client.Client
	// Home is the daemon's state directory. "": its socket is found as by [client.DialHTTP].
	Home string
	// Agent is the id of the agent that calls. "": the operator, whom no daemon serves in
	// the agents' folder.
	Agent string
	// WrapBody, if set, returns a reader of the body of each answer. A *kinds.Error of
	// that reader is the error of the request.
	WrapBody func(context.Context, io.Reader) io.Reader

	once sync.Once
	http http.Client
}

// result makes a request and decodes the answer.
func result[R any](ctx context.Context, c *Client, r Request) (*R, error) {
	answer, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := new(R)
	if err := json.Unmarshal(answer.Text, out); err != nil {
		return nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return out, nil
}

// CreateIntent creates an intent on the caller's daemon.
func (c *Client) CreateIntent(ctx context.Context, p IntentParams) (*Intent, error) {
	return result[Intent](ctx, c, Request{Method: http.MethodPost, Path: Path("intents"), Body: &p})
}

// Intent returns an intent.
func (c *Client) Intent(ctx context.Context, id string) (*Intent, error) {
	return result[Intent](ctx, c, Request{Method: http.MethodGet, Path: Path("intents", id)})
}

// CreateChannel creates a channel of an intent.
func (c *Client) CreateChannel(ctx context.Context, intent string, p ChannelParams) (*Channel, error) {
	return result[Channel](ctx, c, Request{Method: http.MethodPost, Path: Path("intents", intent, "channels"), Body: &p})
}

// Channels returns the first 1,000 channels of an intent, the open ones first.
func (c *Client) Channels(ctx context.Context, intent string) ([]Channel, error) {
	list, err := result[[]Channel](ctx, c, Request{Method: http.MethodGet, Path: Path("intents", intent, "channels") + "?limit=1000"})
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// Channel returns a channel.
func (c *Client) Channel(ctx context.Context, id string) (*Channel, error) {
	return result[Channel](ctx, c, Request{Method: http.MethodGet, Path: Path("channels", id)})
}

// CloseChannel closes a channel for good. It stays readable for a time.
func (c *Client) CloseChannel(ctx context.Context, id string) (*Channel, error) {
	return result[Channel](ctx, c, Request{Method: http.MethodPatch, Path: Path("channels", id), Body: &ChannelChange{Status: StatusClosed}})
}

// DeleteChannel closes a channel and removes it and its messages.
func (c *Client) DeleteChannel(ctx context.Context, id string) error {
	_, err := c.Do(ctx, Request{Method: http.MethodDelete, Path: Path("channels", id)})
	return err
}

// Send sends a message to a channel. If the channel's host is out of reach, the message is
// [StatusPending]: the daemon keeps it and sends it later. Sending again under the same key
// sends once; "" is no key.
func (c *Client) Send(ctx context.Context, channel string, p SendParams, key string) (*Message, error) {
	return result[Message](ctx, c, Request{Method: http.MethodPost, Path: Path("channels", channel, "messages"), Body: &p, Key: key})
}

// SendByName is [Client.Send] to the open channel of that name. It creates the channel if the
// intent has none of that name.
func (c *Client) SendByName(ctx context.Context, intent, name string, p SendParams, key string) (*Message, error) {
	return result[Message](ctx, c, Request{Method: http.MethodPost, Path: Path("intents", intent, "channels", name, "messages"), Body: &p, Key: key})
}

// Ask sends a request and waits for the first response, which it returns.
func (c *Client) Ask(ctx context.Context, channel string, p AskParams) (*Message, error) {
	p.All, p.MinResponses = false, 0
	return result[Message](ctx, c, Request{Method: http.MethodPost, Path: Path("channels", channel, "ask"), Body: &p})
}

// AskSeveral sends a request and waits for several responses, as p.All or p.MinResponses says.
// With neither it waits for all.
func (c *Client) AskSeveral(ctx context.Context, channel string, p AskParams) (*Responses, error) {
	p.All = p.All || p.MinResponses == 0
	return result[Responses](ctx, c, Request{Method: http.MethodPost, Path: Path("channels", channel, "ask"), Body: &p})
}

// Reply responds to a request that is for the calling agent.
func (c *Client) Reply(ctx context.Context, channel, message string, p ReplyParams) (*Message, error) {
	return result[Message](ctx, c, Request{Method: http.MethodPost, Path: Path("channels", channel, "messages", message, "reply"), Body: &p})
}

// Messages returns the messages that the caller can see, the oldest first.
func (c *Client) Messages(ctx context.Context, channel string, p MessagesParams) ([]Message, error) {
	q := url.Values{}
	if p.Since != "" {
		q.Set("since", p.Since)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Wait > 0 {
		q.Set("wait", strconv.FormatFloat(p.Wait.Seconds(), 'f', -1, 64))
	}
	list, err := result[[]Message](ctx, c, Request{Method: http.MethodGet, Path: Path("channels", channel, "messages") + "?" + q.Encode()})
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// MessagesParams say which messages a list holds.
type MessagesParams struct {
	Since string        // id of the message that the list follows; "": the last ones
	Limit int           // 0: the daemon's default
	Wait  time.Duration // how long to wait if there is none yet; at most 60 s
}
