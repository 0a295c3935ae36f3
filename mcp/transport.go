package mcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/internal/pace"
)

// transport gives the SDK connections that know which calls of the program are open.
type transport struct {
	sdk.Transport
	patience time.Duration // for calls that are open when the input ends
}

// Connect opens the connection. It is closed when ctx ends.
func (t transport) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Connection: inner, patience: t.patience, open: make(map[jsonrpc.ID]any), answered: pace.NewSignal()}
	context.AfterFunc(ctx, func() { c.Close() }) // else the SDK waits for calls
	return c, nil
}

// conn does what the SDK leaves out. It sends nothing for a call that was cancelled, and no progress of one
// that was answered. The end of the input does not end the calls that came before it. Errors have
// a code: the SDK gives no code to that of a request before initialize, and of a second initialize.
type conn struct {
	sdk.Connection
	patience time.Duration
	answered pace.Signal // set when a call is not open any more

	writing sync.Mutex // so that what is written belongs to a call that is open then
	mu      sync.Mutex
	open    map[jsonrpc.ID]any // calls that are to be answered, each with its progress token or nil
}

// Read reads a message. At the end of the input, it waits until the calls are answered.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if err != nil {
		c.endCalls(ctx)
		return nil, err
	}
	if r, ok := message.(*jsonrpc.Request); ok {
		c.noteRequest(r)
	}
	return message, nil
}

func (c *conn) noteRequest(r *jsonrpc.Request) {
	ids := readIDs(r.Params)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.IsCall():
		c.open[r.ID] = idValue(ids.Meta.ProgressToken)
	case r.Method == methodCancelled:
		if id, err := jsonrpc.MakeID(idValue(ids.RequestID)); err == nil {
			delete(c.open, id)
		}
	}
}

// endCalls waits until all calls are answered. After a moment it gives up those that wait for a peer.
func (c *conn) endCalls(ctx context.Context) {
	limit := time.After(c.patience)
	for {
		c.mu.Lock()
		open := slices.Collect(maps.Keys(c.open))
		c.mu.Unlock()
		if len(open) == 0 {
			return
		}
		select {
		case <-c.answered:
		case <-limit:
			for _, id := range open {
				c.Write(ctx, &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
					Code: jsonrpc.CodeInternalError, Message: "given up, because the input has ended: keep it open until the answer comes",
				}})
			}
			return
		}
	}
}

// Write writes a message, unless it concerns a call that is not open.
func (c *conn) Write(ctx context.Context, message jsonrpc.Message) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	switch m := message.(type) {
	case *jsonrpc.Response:
		if !c.closeCall(m.ID) {
			return nil
		}
		defer c.answered.Set()
		if _, coded := errors.AsType[*jsonrpc.Error](m.Error); m.Error != nil && !coded {
			message = &jsonrpc.Response{ID: m.ID, Error: &jsonrpc.Error{Code: codeInvalid, Message: m.Error.Error()}}
		}
	case *jsonrpc.Request:
		if m.Method == methodProgress && !c.awaitsProgress(idValue(readIDs(m.Params).ProgressToken)) {
			return nil
		}
	}
	return c.Connection.Write(ctx, message)
}

// Close closes the connection. Calls that are open get no answer any more.
func (c *conn) Close() error {
	c.mu.Lock()
	clear(c.open)
	c.mu.Unlock()
	return c.Connection.Close()
}

// closeCall reports whether a call is open, and closes it.
func (c *conn) closeCall(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[id]
	delete(c.open, id)
	return open
}

// awaitsProgress reports whether an open call has that progress token.
func (c *conn) awaitsProgress(token any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return token != nil && slices.Contains(slices.Collect(maps.Values(c.open)), token)
}
