package openintent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/object"
)

// wire is an agent over a unix socket, as agents are.
type wire struct {
	b     testing.TB
	http  *http.Client
	agent string
}

// socket serves h on a unix socket and returns what makes its agents.
func (h *host) socket() func(agent string) *wire {
	path := filepath.Join(h.t.TempDir(), "http.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &http.Server{Handler: h.h}
	go s.Serve(l)
	h.t.Cleanup(func() { s.Close() })
	return func(agent string) *wire {
		t := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
		h.t.Cleanup(t.CloseIdleConnections)
		return &wire{b: h.t, http: &http.Client{Transport: t}, agent: agent}
	}
}

func (w *wire) do(method, path string, body string) []byte {
	r, err := http.NewRequest(method, "http://desk.example/api/v1"+path, strings.NewReader(body))
	if err != nil {
		w.b.Fatal(err)
	}
	r.Header.Set(headerAgent, w.agent)
	a, err := w.http.Do(r)
	if err != nil {
		w.b.Error(err)
		return nil
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 400 {
		w.b.Errorf("%s %s: %d %s %v", method, path, a.StatusCode, text, err)
	}
	return text
}

const note = `{"message_type":"notify","to":"reviewer","payload":{"text":"the second batch is ready","records":12000}}`

func bench(b *testing.B) (*host, func(string) *wire, string) {
	h := start(b)
	ch := h.channel("planner", h.intent("planner"), "talk")
	return h, h.socket(), ch
}

func BenchmarkPost(b *testing.B) {
	_, dial, ch := bench(b)
	p := dial("planner")
	b.ReportAllocs()
	for b.Loop() {
		p.do("POST", ch+"/messages", note)
	}
}

// BenchmarkPost16 is 16 clients; the figure is messages in a second.
func BenchmarkPost16(b *testing.B) {
	_, dial, ch := bench(b)
	var wg sync.WaitGroup
	began := time.Now()
	n := b.N
	for range 16 {
		p := dial("planner")
		wg.Go(func() {
			for range (n + 15) / 16 {
				p.do("POST", ch+"/messages", note)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "messages/s")
}

// answerAll answers every request of the channel at once, over the socket.
func answerAll(w *wire, ch string) (ready chan struct{}) {
	ready = make(chan struct{})
	r, _ := http.NewRequest("GET", "http://desk.example/api/v1/subscribe"+ch, nil)
	r.Header.Set(headerAgent, w.agent)
	a, err := w.http.Do(r)
	if err != nil {
		w.b.Fatal(err)
	}
	w.b.Cleanup(func() { a.Body.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		var rest []byte
		close(ready)
		for {
			n, err := a.Body.Read(buf)
			if err != nil {
				return
			}
			rest = append(rest, buf[:n]...)
			for {
				i := bytes.Index(rest, []byte("\n\n"))
				if i < 0 {
					break
				}
				_, data, ok := bytes.Cut(rest[:i], []byte("data: "))
				rest = rest[i+2:]
				if !ok {
					continue
				}
				data, _, _ = bytes.Cut(data, []byte("\n"))
				var m struct {
					ID   string `json:"id"`
					Kind string `json:"message_type"`
				}
				if json.Unmarshal(data, &m) == nil && m.Kind == object.KindRequest {
					w.do("POST", ch+"/messages/"+m.ID+"/reply", `{"payload":{"answer":42}}`)
				}
			}
		}
	}()
	return ready
}

func BenchmarkAsk(b *testing.B) {
	_, dial, ch := bench(b)
	<-answerAll(dial("reviewer"), ch)
	p := dial("planner")
	for b.Loop() {
		p.do("POST", ch+"/ask", `{"to":"reviewer","payload":{"question":"which schema?"},"timeout":10}`)
	}
}

// BenchmarkList lists the last ten of ever more messages.
func BenchmarkList(b *testing.B) {
	for _, kept := range []int{300, 1000, 3000, 10_000} {
		b.Run(fmt.Sprint(kept), func(b *testing.B) {
			h := start(b)
			ch := h.channel("planner", h.intent("planner"), "talk", obj{"options": obj{"max_messages": 10_000}})
			dial := h.socket()
			var since string
			for i := range kept {
				if id := h.as("planner").say(ch, obj{}); i == kept-11 {
					since = id
				}
			}
			r := dial("reviewer")
			for b.Loop() {
				r.do("GET", ch+"/messages?since="+since, "")
			}
		})
	}
}

// BenchmarkChannels holds 10,000 channels of 100 messages each; the figure is
// the heap that they need. It sends once, whatever b.N.
func BenchmarkChannels(b *testing.B) {
	h := start(b)
	p := h.as("planner")
	var work []string
	for i := range 100 {
		in := h.intent("planner")
		for range 100 {
			work = append(work, h.channel("planner", in, fmt.Sprint("c", len(work), i)))
		}
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < len(work); i += 16 {
				for range 100 {
					p.post(work[i]+"/messages", note)
				}
			}
		})
	}
	wg.Wait()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for b.Loop() {
		p.get(work[0] + "/messages")
	}
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
}

// BenchmarkSubscribers holds 1,000 idle streams over the socket; the figure is
// what both ends of them need.
func BenchmarkSubscribers(b *testing.B) {
	_, dial, ch := bench(b)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 1000 {
		w := dial("reviewer")
		r, _ := http.NewRequest("GET", "http://desk.example/api/v1/subscribe"+ch, nil)
		r.Header.Set(headerAgent, "reviewer")
		a, err := w.http.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { a.Body.Close() })
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
	}
	b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/1e6, "MB")
}
