package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	// maxCodexFrame bounds one message of the app-server, in bytes.
	maxCodexFrame = 8 << 20
	// codexTime bounds one call to the app-server.
	codexTime = 5 * time.Second
	// maxNotices is how many notifications may wait. Beyond, the connection ends: whoever
	// waits for one of them would wait for ever.
	maxNotices = 256
)

// codexConn is a connection to Codex's app-server: JSON-RPC without its version, one object in
// each text frame of a WebSocket. It answers no request of the server: approvals, and all
// others, are for the client that the user looks at.
type codexConn struct {
	socket  *websocket.Conn
	version string           // of the app-server, as it says
	limit   time.Duration    // of one call
	notices chan codexNotice // closed at the connection's end
	ended   chan struct{}
	stop    context.CancelFunc

	mu    sync.Mutex                     // guards what follows
	calls map[uint64]chan<- codexMessage // each gets its answer, or is closed when the connection ends
	last  uint64
	cause error // why it ended
}

// codexMessage is anything that the app-server says.
type codexMessage struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *codexError    `json:"error"`
}

// codexError is the app-server's refusal of a call.
type codexError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *codexError) Error() string { return fmt.Sprintf("%d %.200q", e.Code, e.Message) }

// OwnWords leaves the app-server's message out.
func (e *codexError) OwnWords() string { return fmt.Sprintf("it answers with the error %d", e.Code) }

// Codes of the app-server.
const (
	codexRefused  = -32600 // also of what it does not let happen to a thread
	codexNotFound = -32601 // an unknown method
)

// codexNotice is a notification, as far as it is needed here.
type codexNotice struct {
	method string
	params codexNoticeParams
}

type codexNoticeParams struct {
	Thread string      `json:"threadId"`
	Item   codexItem   `json:"item"`
	Status codexStatus `json:"status"`
}

// codexItem is a part of a turn.
type codexItem struct {
	Type     string `json:"type"`
	ClientID string `json:"clientId"` // of itemOfUser; empty: no client has named it
}

const itemOfUser = "userMessage"

// codexStatus is what a thread does.
type codexStatus struct {
	Type  string   `json:"type"` // notLoaded, idle, systemError, active
	Flags []string `json:"activeFlags"`
}

const (
	statusIdle   = "idle"
	statusActive = "active"
)

// isAsking reports whether the user is asked, by Codex before a tool runs or by the model, or the program that it asks for.
func (s *codexStatus) isAsking() bool {
	return s.Type == statusActive && (slices.Contains(s.Flags, "waitingOnApproval") || slices.Contains(s.Flags, "waitingOnUserInput"))
}

const (
	noticeItem    = "item/completed"
	noticeStatus  = "thread/status/changed"
	noticeStarted = "thread/started" // or loaded again
	noticeClosed  = "thread/closed"
)

// newCodexConn speaks over a connection that is open, which it closes. limit bounds one call.
func newCodexConn(ctx context.Context, conn net.Conn, limit time.Duration) (*codexConn, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	dialing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	socket, _, err := websocket.Dial(dialing, "ws://localhost/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		conn.Close()
		return nil, explainTalk(err)
	}
	socket.SetReadLimit(maxCodexFrame)
	reading, stop := context.WithCancel(context.Background())
	c := &codexConn{
		socket: socket, limit: limit, notices: make(chan codexNotice, maxNotices), ended: make(chan struct{}), stop: stop,
		calls: make(map[uint64]chan<- codexMessage),
	}
	go c.read(reading)
	return c, nil
}

// close ends the connection and waits for its end.
func (c *codexConn) close() {
	c.stop()
	c.socket.CloseNow()
	<-c.ended
}

// read takes what the server says until the connection ends.
func (c *codexConn) read(ctx context.Context) {
	defer close(c.ended)
	defer close(c.notices)
	var err error
	for err == nil {
		var text []byte
		if _, text, err = c.socket.Read(ctx); err == nil {
			err = c.take(text)
		}
	}
	c.socket.CloseNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause = explainTalk(err)
	for id, call := range c.calls {
		delete(c.calls, id)
		close(call)
	}
}

// take handles one message. The error ends the connection.
func (c *codexConn) take(text []byte) error {
	var m codexMessage
	if json.Unmarshal(text, &m, jsontext.AllowInvalidUTF8(true)) != nil {
		return nil // a later version may say what this one does not know
	}
	switch {
	case m.Method == "":
		c.answer(&m)
	case len(m.ID) > 0:
		// A request to the client. It is never answered.
	case m.Method == noticeItem, m.Method == noticeStatus, m.Method == noticeStarted, m.Method == noticeClosed:
		n := codexNotice{method: m.Method}
		if json.Unmarshal(m.Params, &n.params, jsontext.AllowInvalidUTF8(true)) != nil {
			return nil
		}
		if m.Method == noticeItem && n.params.Item.ClientID == "" {
			return nil
		}
		select {
		case c.notices <- n:
		default:
			return ownwords.New("too many notifications wait")
		}
	}
	return nil
}

// answer hands a response to its call.
func (c *codexConn) answer(m *codexMessage) {
	var id uint64
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	c.mu.Lock()
	call := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if call != nil {
		call <- *m
	}
}

// discardNotices forgets the notifications that have come. It reports whether the connection
// still stands.
func (c *codexConn) discardNotices() bool {
	for {
		select {
		case _, ok := <-c.notices:
			if !ok {
				return false
			}
		default:
			return true
		}
	}
}

// errNotSent is the error of a call that the server certainly does not have.
var errNotSent = ownwords.New("not sent")

// call calls a method. The error is a *codexError if the server refused.
func (c *codexConn) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	response := make(chan codexMessage, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.calls[id] = response
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}()
	request := struct {
		ID     uint64 `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params"`
	}{id, method, params}
	if err := c.write(ctx, &request); err != nil {
		return ownwords.Errorf("%s: %w: %w", method, errNotSent, explainTalk(err))
	}
	select {
	case m, ok := <-response:
		if !ok {
			return ownwords.Errorf("%s: %w", method, c.readCause())
		}
		if m.Error != nil {
			return ownwords.Errorf("%s: %w", method, m.Error)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Result, result, jsontext.AllowInvalidUTF8(true)); err != nil {
			return ownwords.Errorf("%s: %w", method, explainTalk(err))
		}
		return nil
	case <-ctx.Done():
		return ownwords.Errorf("%s: %w", method, ctx.Err())
	}
}

// readCause returns why the connection has ended.
func (c *codexConn) readCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// notify sends a notification.
func (c *codexConn) notify(ctx context.Context, method string) error {
	return c.write(ctx, &struct {
		Method string `json:"method"`
	}{method})
}

func (c *codexConn) write(ctx context.Context, v any) error {
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return c.socket.Write(ctx, websocket.MessageText, text)
}
