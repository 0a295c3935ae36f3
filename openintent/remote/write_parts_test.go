package remote

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/api"
)

// A home that does not read its answers is kept few of them, and not for long.
// holds: security.md#the-budget
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := alone(t, slog.DiscardHandler)
		_, made := local[obj](t, c, "planner", "POST", "intents", `{"title": "Ship it"}`)
		_, made = local[obj](t, c, "planner", "POST", "intents/"+made["id"].(string)+"/channels", `{"name": "build"}`)
		messages := "channels/" + made["id"].(string) + "/messages"
		large := fmt.Sprintf(`{"payload": {"text": %q}}`, strings.Repeat("x", 250_000))
		for range 33 {
			local[obj](t, c, "planner", "POST", messages, large)
		}
		list := fmt.Sprintf("GET /api/v1/%s?wait=0 HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\n\r\n", messages)
		send := fmt.Sprintf("POST /api/v1/%s HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Length: %d\r\n\r\n%s", messages, len(large), large)
		var serving sync.WaitGroup
		var resets atomic.Int32
		ask := func(from identity.ID, text string) (*http.Response, error) {
			here, there := net.Pipe()
			t.Cleanup(func() { there.Close() })
			serving.Go(func() { c.ServeStream(t.Context(), from, resettable{piped{here}, &resets}) })
			go io.WriteString(there, text)
			return http.ReadResponse(bufio.NewReader(there), nil)
		}
		began, size, refused := time.Now(), int64(0), 0
		for n := range 40 { // ten times what a home may leave
			r, err := ask(identity.ID{1}, list)
			if err != nil {
				t.Fatal(err)
			}
			size += r.ContentLength
			if r.StatusCode == http.StatusTooManyRequests && r.ContentLength < 1000 && r.Header.Get("Retry-After") != "" {
				io.Copy(io.Discard, r.Body)
				refused++
			} else if r.StatusCode != http.StatusOK || r.ContentLength < 8e6 || refused > 0 {
				t.Errorf("%d: %s of %d bytes", n, r.Status, r.ContentLength)
			}
		}
		if size > budget.Answers.Peer || refused > 37 {
			t.Errorf("%d bytes are kept, %d lists were refused", size, refused)
		}
		for from, text := range map[identity.ID]string{{1}: send, {2}: strings.Replace(list, "reviewer", "tester", 1)} {
			r, err := ask(from, text)
			if err != nil || r.StatusCode >= 300 {
				t.Fatal(r, err)
			}
			if n, err := io.Copy(io.Discard, r.Body); n != r.ContentLength || n < writePart {
				t.Errorf("%d of %d bytes: %v", n, r.ContentLength, err)
			}
		}
		serving.Wait()
		if took := time.Since(began); took != stallTime {
			t.Errorf("they were kept for %v", took)
		}
		if n := int(resets.Load()); n != 40-refused {
			t.Errorf("%d of %d streams were reset", n, 40-refused)
		}
		r, err := ask(identity.ID{1}, list)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		for n := int64(0); n < r.ContentLength; n += writePart { // slowly, yet it reads
			time.Sleep(stallTime/2 - time.Second) // a part is read in two
			if _, err := io.CopyN(io.Discard, r.Body, min(writePart, r.ContentLength-n)); err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
	})
}

// resettable is a stream of which it is counted that it was given up.
type resettable struct {
	piped
	resets *atomic.Int32
}

func (r resettable) Cancel() {
	r.resets.Add(1)
	r.piped.Cancel()
}

// A host that breaks off in the middle of an answer breaks it off for who asked, and one who
// leaves leaves: neither is a failure of this daemon that its log tells of.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	log := new(spoken)
	part := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000000\r\n\r\n"
	var left atomic.Bool
	c := homeLogging(t, slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}), func(context.Context) (Stream, error) {
		if left.Load() { // it goes on until nobody reads it
			return &spoken{in: io.MultiReader(strings.NewReader(part), io.LimitReader(endless{}, 100_000_000))}, nil
		}
		return &spoken{in: strings.NewReader(part + "half")}, nil
	})
	served := httptest.NewServer(c.API.NewHandler(api.IdentifyLocalCaller))
	defer served.Close()
	for n := range 20 {
		left.Store(n >= 10)
		r, err := http.NewRequestWithContext(t.Context(), "GET", served.URL+apiPath+farChannel+"/messages/msg_0102030405_01M7WK708745SZDSQ20JGH2Z1P", nil)
		if err != nil {
			t.Fatal(err)
		}
		speak(r, "planner")
		answer, err := served.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if n < 10 {
			if text, err := io.ReadAll(answer.Body); answer.StatusCode != 200 || string(text) != "half" || err == nil {
				t.Errorf("%d: %s %.100q %v", n, answer.Status, text, err)
			}
		} else if _, err := io.ReadFull(answer.Body, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		answer.Body.Close()
	}
	served.Close() // waits until all is answered
	if said := log.said(); strings.Contains(said, "panic") || strings.Contains(said, "ERROR") {
		t.Errorf("the log has %.2000s", said)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
