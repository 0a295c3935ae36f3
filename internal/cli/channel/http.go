package channel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// call makes a request and returns the JSON of the answer, on one line. body is sent as JSON
// unless it is nil. The error of a refusal is a *kinds.Error.
func (c *verbs) call(ctx context.Context, method, path string, body any) (jsontext.Value, error) {
	return c.callOnce(ctx, method, path, body, "")
}

// callOnce does as call. The daemon carries out requests with the same key once; "" is no key.
func (c *verbs) callOnce(ctx context.Context, method, path string, body any, key string) (jsontext.Value, error) {
	if c.callingAgent() == "" && c.AsGuest {
		return nil, frame.Usagef("--as: say which agent you are: there is no operator on the socket that ACP_SOCKET names")
	}
	answer, err := c.channelsClient().Do(ctx, channels.Request{Method: method, Path: path, Body: body, Key: key})
	if refusal, ok := errors.AsType[*channels.Refusal](err); ok {
		return nil, explainRefusal(*refusal)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = append(c.missing, answer.MissingHosts...)
	return answer.Text, nil
}

// channelsClient returns the client of this run. The flags are read by then.
func (c *verbs) channelsClient() *channels.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels == nil {
		c.channels = &channels.Client{Daemon: &c.Daemon, Home: c.Home, Agent: c.callingAgent(), WrapBody: limitToPortion}
	}
	return c.channels
}

// explainRefusal returns a refusal as an error that names flags instead of fields.
func explainRefusal(r channels.Refusal) error {
	r.Message = flagOfField(r.Message)
	e := r.ProtocolError()
	if r.Host != "" && e.Code == kinds.NotFound {
		return frame.WithHint(e, "an open intent there is open to agents of this machine where its owner names it in channels.open_to, any intent where they are granted access with their home")
	}
	return e
}

// get makes a GET request and decodes the answer into out.
func (c *verbs) get(ctx context.Context, path string, out any) error {
	v, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(v, out); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return nil
}

// describeError returns the message of an error, with the name of the machine that raised it.
func (c *verbs) describeError(ctx context.Context, e *kinds.Error) string {
	if e.From != "" {
		return c.PetnameOf(ctx, e.From) + " says: " + e.Message
	}
	return e.Message
}

// flagOfField replaces the header or field that a message begins with by its name on the
// command line.
func flagOfField(message string) string {
	for _, names := range [][2]string{
		{"X-Agent-ID: ", "--as: "}, {"Idempotency-Key: ", "--key: "}, {"members: ", "--member: "}, {"name: ", "NAME: "}, {"correlation_id: ", "MESSAGE: "}, {"min_responses: ", "--min: "},
		{"expires_at: ", "--expires: "}, {"task_id: ", "--task: "}, {"options: max_messages: ", "--keep: "}, {"options: ttl_seconds: ", "--ttl: "},
	} {
		if rest, ok := strings.CutPrefix(message, names[0]); ok {
			return names[1] + rest
		}
	}
	return message
}
