package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent"
)

// eventStream is an answer of server-sent events.
type eventStream struct {
	r     *request
	ctl   *http.ResponseController
	upper bool  // event names are as the Python runtime wants them
	after int64 // Last-Event-ID, -1 if there is none
}

// streamStall is how long a reader may take nothing before its stream ends.
const streamStall = 30 * time.Second

// streaming makes a handler of one that writes a stream.
func streaming(write func(r *request, out *eventStream) error) handler {
	return func(r *request) (any, error) {
		out := &eventStream{r: r, ctl: http.NewResponseController(&r.w), upper: strings.HasSuffix(r.http.URL.Path, "/subscribe"), after: -1}
		if last, err := strconv.ParseInt(r.http.Header.Get("Last-Event-ID"), 10, 64); err == nil && last >= 0 {
			out.after = last
		}
		err := write(r, out)
		if r.w.began {
			out.ctl.SetWriteDeadline(time.Time{}) // the connection may serve other requests
		}
		if err == nil {
			err = errAnswered
		}
		return nil, err
	}
}

func streamIntent(r *request, out *eventStream) error {
	return r.e.StreamIntent(r.Call, r.arg(0), out.after, out)
}

func streamChannel(r *request, out *eventStream) error {
	return r.e.StreamChannel(r.Call, r.arg(0), out.after, out)
}

func streamAgent(r *request, out *eventStream) error {
	return r.e.StreamAgent(r.Call, r.arg(0), out.after, out)
}

func streamHome(r *request, out *eventStream) error {
	return r.e.StreamHome(r.Call, out.after, out)
}

// Begin is that of [EventWriter].
func (s *eventStream) Begin(at int64) bool {
	h := s.r.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.r.w.WriteHeader(http.StatusOK)
	hello := []byte(": ok\n\n")
	if s.r.route.home && s.r.http.Header.Get("Last-Event-ID") == "" { // so that it misses nothing from now on
		hello = fmt.Appendf(hello, "id: %d\n\n", at)
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

// HangUp is that of [EventWriter].
func (s *eventStream) HangUp() { s.ctl.SetWriteDeadline(time.Now()) }

// upperNames are the event names that the Python runtime listens for and that are not the
// log's in capitals.
var upperNames = map[string]string{"state_patched": "STATE_CHANGED"}

// Append is that of [EventWriter].
func (s *eventStream) Append(b []byte, event string, data []byte, number int64) []byte {
	if s.upper && event != "channel_message" {
		if upper, ok := upperNames[event]; ok {
			event = upper
		} else {
			event = strings.ToUpper(strings.ReplaceAll(event, ".", "_"))
		}
	}
	b = append(append(b, "event: "...), event...)
	b = append(append(b, "\ndata: "...), oneLine(data)...)
	b = strconv.AppendInt(append(b, "\nid: "...), number, 10)
	return append(b, "\n\n"...)
}

// oneLine escapes what Python's splitlines takes for the end of a line. In JSON these stand
// in strings alone.
func oneLine(b []byte) []byte {
	for sign, escape := range map[string]string{"\u0085": `\u0085`, "\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(b, []byte(sign)) {
			b = bytes.ReplaceAll(b, []byte(sign), []byte(escape))
		}
	}
	return b
}

// streamElsewhere serves the stream of an intent or channel of another host from what that
// relays, once it has let the caller in.
func streamElsewhere(r *request, host string) (any, error) {
	id := r.arg(0)
	path := "intents/" + id
	if openintent.IsChannelID(id) {
		path = "channels/" + id
	}
	ask := r.http.Clone(r.Context())
	ask.Method, ask.URL.Path, ask.URL.RawPath, ask.URL.RawQuery, ask.RequestURI = "GET", prefixes[0]+path, "", "", ""
	ask.Header.Del("Last-Event-ID")
	w := &kept{header: make(http.Header)}
	r.api.cfg.Forward(openintent.Parcel{Host: host, Caller: r.Caller, Hold: r.HoldAnswer}, w, ask)
	var found struct {
		IntentID string `json:"intent_id"` // of a channel
	}
	if w.status >= 300 || json.Unmarshal(w.body.Bytes(), &found) != nil {
		for name, v := range w.header {
			r.w.Header()[name] = slices.Clone(v)
		}
		r.api.unhappy.hold(r)
		r.w.WriteHeader(w.status)
		r.w.Write(w.body.Bytes())
		return nil, errAnswered
	}
	r.LetGo() // not for as long as the stream lasts
	intent, channel := id, ""
	if found.IntentID != "" {
		intent, channel = found.IntentID, id
	}
	return streaming(func(r *request, out *eventStream) error {
		return r.e.StreamRelayed(r.Call, intent, channel, out.after, out)
	})(r)
}

// maxKept bounds the bytes of an answer that is looked at before it is passed on.
const maxKept = 3 << 19

// kept is an answer that is looked at before it is passed on.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header { return k.header }
func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}
func (k *kept) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	if k.body.Len()+len(b) > maxKept {
		return 0, errors.New("the host's answer is too long")
	}
	return k.body.Write(b)
}
