package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// eventStream writes an answer of server-sent events.
type eventStream struct {
	r     *request
	ctl   *http.ResponseController
	upper bool // event names are as the Python runtime wants them
}

// streamStall bounds the time for which a reader may take nothing before its stream ends.
const streamStall = 30 * time.Second

// newStreamHandler makes a handler of a method of the engine that writes a stream.
func newStreamHandler(method func(c *openintent.Call, id, last string, out openintent.EventWriter) error) handler {
	return func(r *request) (any, error) {
		return nil, r.writeStream(func(last string, out *eventStream) error { return method(r.Call, r.args[0], last, out) })
	}
}

func streamHomeEvents(r *request) (any, error) {
	return nil, r.writeStream(func(last string, out *eventStream) error { return r.e.StreamHome(r.Call, last, out) })
}

func listMissedEntries(r *request) (any, error) {
	q := r.parseQuery()
	after, err := strconv.ParseInt(q.Get("after"), 10, 64)
	if err != nil || after < 0 {
		return nil, object.NewFieldError("after", "the number of an entry is needed")
	}
	return r.e.ListMissedEntries(r.Call, q.Get("intent"), q.Get("channel"), after)
}

// writeStream lets write answer with a stream that begins after the Last-Event-ID. It returns an
// error in any case: errAnswered, or why no stream has begun.
func (r *request) writeStream(write func(last string, out *eventStream) error) error {
	out := &eventStream{r: r, ctl: http.NewResponseController(&r.w), upper: strings.HasSuffix(r.http.URL.Path, "/subscribe")}
	err := write(r.http.Header.Get("Last-Event-ID"), out)
	if r.w.began {
		out.ctl.SetWriteDeadline(time.Time{}) // the connection may serve other requests
	}
	return cmp.Or(err, errAnswered)
}

// Begin implements [openintent.EventWriter].
func (s *eventStream) Begin(after int64) bool {
	h := s.r.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.r.w.WriteHeader(http.StatusOK)
	hello := []byte(": ok\n\n")
	if s.r.route.home { // so that the home misses nothing from then on
		hello = fmt.Appendf(hello, "id: %d\n\n", after)
	}
	return s.Write(hello)
}

func (s *eventStream) Write(b []byte) bool {
	s.ctl.SetWriteDeadline(time.Now().Add(streamStall)) // if the transport has one
	if _, err := s.r.w.Write(b); err != nil {
		return false
	}
	return s.ctl.Flush() == nil
}

// Ping writes a comment.
func (s *eventStream) Ping() bool { return s.Write([]byte(": ping\n\n")) }

// HangUp ends a write to a reader that does not read.
func (s *eventStream) HangUp() { s.ctl.SetWriteDeadline(time.Now()) }

// Append appends an event as the stream writes it.
func (s *eventStream) Append(b []byte, event string, data []byte, id string) []byte {
	switch {
	case !s.upper || event == "channel_message":
	case event == "state_patched": // the Python runtime has another name for it
		event = "STATE_CHANGED"
	default:
		event = strings.ToUpper(strings.ReplaceAll(event, ".", "_"))
	}
	b = append(append(b, "event: "...), event...)
	b = append(append(b, "\ndata: "...), escapeLineEnds(data)...)
	b = append(append(b, "\nid: "...), id...)
	return append(b, "\n\n"...)
}

// escapeLineEnds escapes the characters of JSON that Python's splitlines takes for the end of a
// line. In JSON they are only in strings.
func escapeLineEnds(b []byte) []byte {
	for sign, escape := range map[string]string{"\u0085": `\u0085`, "\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(b, []byte(sign)) {
			b = bytes.ReplaceAll(b, []byte(sign), []byte(escape))
		}
	}
	return b
}

// streamFromHost serves the stream of an intent or channel of another host, from what that host
// relays. First it asks the host for the intent or channel, which the caller must be able to see.
func (r *request) streamFromHost(host string) error {
	id := r.args[0]
	path := "intents/" + id
	if object.IsChannelID(id) {
		path = "channels/" + id
	}
	ask := r.http.Clone(r.Context())
	ask.Method, ask.URL.Path, ask.URL.RawPath, ask.URL.RawQuery, ask.RequestURI = "GET", prefixes[0]+path, "", "", ""
	ask.Header.Del("Last-Event-ID")
	w := &bufferedAnswer{header: make(http.Header)}
	r.forward(openintent.ForwardedRequest{Host: host, Class: openintent.OwnRequest, Caller: r.Caller, Hold: r.ChargeHostForAnswer}, w, ask)
	var found struct {
		IntentID string `json:"intent_id"` // of a channel
	}
	if w.status >= 300 || json.Unmarshal(w.body.Bytes(), &found) != nil {
		maps.Copy(r.w.Header(), w.header)
		r.refused.delayRefusal(r)
		r.w.WriteHeader(w.status)
		r.w.Write(w.body.Bytes())
		return errAnswered
	}
	r.RefundHosts() // not for as long as the stream lasts
	intent, channel := id, ""
	if found.IntentID != "" {
		intent, channel = found.IntentID, id
	}
	return r.writeStream(func(last string, out *eventStream) error {
		return r.e.StreamRelayed(r.Call, intent, channel, last, out)
	})
}

// maxBuffered bounds the bytes of a [bufferedAnswer].
const maxBuffered = 3 << 19

// bufferedAnswer keeps an answer of a host, which is read before it is passed on.
type bufferedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *bufferedAnswer) Header() http.Header { return a.header }
func (a *bufferedAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}
func (a *bufferedAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(b) > maxBuffered {
		return 0, errors.New("the host's answer is too long")
	}
	return a.body.Write(b)
}
