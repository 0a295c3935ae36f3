// Package channels is a client for the channels of OpenIntent that a daemon serves over HTTP
// on a socket of its own.
//
// It owns the types of intents, channels, messages and agents, a method for each frequent
// request, lists over all machines ([Client.AllChannels]), and what a refusal means
// ([Refusal]). It guarantees that the error of a request says what is known of its delivery.
// It leaves event streams to HTTP, and rare requests to [Client.Do]. docs/channels.md
// describes the API.
package channels

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// Client makes requests of a daemon. Any number of goroutines may use it. No field may
// change after the first request.
type Client struct {
	// Daemon is a client of the same daemon. A request that takes long asks it whether the
	// daemon lives; if Agent is the one of Daemon.SpeakAs, its key goes with each request.
	Daemon *client.Client
	// Home is the daemon's state directory. "": its socket is found as by [client.DialHTTP].
	Home string
	// Agent is the id of the agent that calls. "": the operator, whom no daemon serves in
	// the agents' folder.
	Agent string
	// ListPatience bounds how long all other daemons together may take to list their
	// channels. 0: 5 s.
	ListPatience time.Duration

	once sync.Once
	http http.Client
	self atomic.Pointer[identity.ID] // id of the daemon; nil until it is needed
}

// requestResult makes a request and decodes its answer as an R.
func requestResult[R any](ctx context.Context, c *Client, r Request) (*R, error) {
	answer, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := new(R)
	return out, answer.decodeText(out)
}

// CreateIntent creates an intent on the caller's daemon.
func (c *Client) CreateIntent(ctx context.Context, p IntentParams) (*Intent, error) {
	return requestResult[Intent](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("intents"), Body: &p})
}

// Intent returns the intent of that id.
func (c *Client) Intent(ctx context.Context, id string) (*Intent, error) {
	return requestResult[Intent](ctx, c, Request{Method: http.MethodGet, URL: JoinURL("intents", id)})
}

// CreateChannel creates a channel of an intent, on the intent's host.
func (c *Client) CreateChannel(ctx context.Context, intent string, p ChannelParams) (*Channel, error) {
	return requestResult[Channel](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("intents", intent, "channels"), Body: &p})
}

// Channel returns the channel of that id, open or closed.
func (c *Client) Channel(ctx context.Context, id string) (*Channel, error) {
	return requestResult[Channel](ctx, c, Request{Method: http.MethodGet, URL: JoinURL("channels", id)})
}

// ChangeChannel changes who takes part in a channel, or closes it, and returns it as it is then.
func (c *Client) ChangeChannel(ctx context.Context, id string, change ChannelChange) (*Channel, error) {
	return requestResult[Channel](ctx, c, Request{Method: http.MethodPatch, URL: JoinURL("channels", id), Body: &change})
}

// CloseChannel closes a channel for good. It stays readable for 24 h.
func (c *Client) CloseChannel(ctx context.Context, id string) (*Channel, error) {
	return c.ChangeChannel(ctx, id, ChannelChange{Status: StatusClosed})
}

// DeleteChannel closes a channel and removes it with its messages at once.
func (c *Client) DeleteChannel(ctx context.Context, id string) (*DeletedChannel, error) {
	return requestResult[DeletedChannel](ctx, c, Request{Method: http.MethodDelete, URL: JoinURL("channels", id)})
}

// Send sends a message to a channel. If the channel's host is out of reach, the message is
// [StatusPending]: the daemon keeps it and sends it later. Sending again under the same key
// sends once; "" means no key.
func (c *Client) Send(ctx context.Context, channel string, p SendParams, key string) (*Message, error) {
	return requestResult[Message](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("channels", channel, "messages"), Body: &p, Key: key})
}

// SendByName is [Client.Send] to the open channel of that name. It creates the channel if the
// intent does not have it.
func (c *Client) SendByName(ctx context.Context, intent, name string, p SendParams, key string) (*Message, error) {
	return requestResult[Message](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("intents", intent, "channels", name, "messages"), Body: &p, Key: key})
}

// Ask sends a request and waits for the first response, which it returns. If none comes within
// p.TimeoutSecs, the error is timeout.
func (c *Client) Ask(ctx context.Context, channel string, p AskParams) (*Message, error) {
	p.All, p.MinResponses = false, 0
	return requestResult[Message](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("channels", channel, "ask"), Body: &p})
}

// AskSeveral sends a request and waits for several responses: p.MinResponses of them, or with
// p.All, or with neither, one of everybody who was asked. With all, it returns at the timeout
// what there is.
func (c *Client) AskSeveral(ctx context.Context, channel string, p AskParams) (*Responses, error) {
	p.All = p.All || p.MinResponses == 0
	return requestResult[Responses](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("channels", channel, "ask"), Body: &p})
}

// Reply sends a response to a request, message, that is for the calling agent. Like a message
// that is sent, it may be [StatusPending].
func (c *Client) Reply(ctx context.Context, channel, message string, p ReplyParams) (*Message, error) {
	return requestResult[Message](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("channels", channel, "messages", message, "reply"), Body: &p})
}

// Messages returns the messages of a channel that p selects and the caller can see, the oldest
// first.
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
	return requestList[Message](ctx, c, JoinURL("channels", channel, "messages")+"?"+q.Encode(), nil)
}

// MessagesParams say which messages a list holds.
type MessagesParams struct {
	Since string        // id of a message: the list begins after it; "": the list holds the last messages
	Limit int           // 0: the daemon's default
	Wait  time.Duration // how long to wait for the first one; at most 60 s
}

// Register registers an agent on the caller's daemon, so that other agents find it and its role.
func (c *Client) Register(ctx context.Context, p RegisterParams) (*Agent, error) {
	return requestResult[Agent](ctx, c, Request{Method: http.MethodPost, URL: JoinURL("agents", "register"), Body: &p})
}

// Deregister ends an agent's registration: it leaves all channels, and its open requests
// expire.
func (c *Client) Deregister(ctx context.Context, id string) (*Agent, error) {
	return requestResult[Agent](ctx, c, Request{Method: http.MethodDelete, URL: JoinURL("agents", id)})
}

// AgentRecord returns what the caller's daemon knows of an agent.
func (c *Client) AgentRecord(ctx context.Context, id string) (*Agent, error) {
	return requestResult[Agent](ctx, c, Request{Method: http.MethodGet, URL: JoinURL("agents", id)})
}

// FreeHome forgets that an agent has used an intent, so that another daemon's agent may have
// its id there.
func (c *Client) FreeHome(ctx context.Context, intent, agent string) error {
	_, err := c.Do(ctx, Request{Method: http.MethodDelete, URL: JoinURL("intents", intent, "homes", agent)})
	return err
}
