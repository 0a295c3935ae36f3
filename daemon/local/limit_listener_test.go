package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// limitConns returns a listener that has at most most connections of l.
func limitConns(l net.Listener, most int) *LimitListener {
	patient := NewPatientListener(l, slog.New(slog.DiscardHandler))
	return NewLimitListener(patient, most, patient)
}

// Programs that keep all places of a listener do not make its loop seem stuck.
func TestWaitingForAPlaceIsNoStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := NewPatientListener(&poorListener{closed: make(chan struct{})}, slog.New(slog.DiscardHandler))
		l := NewLimitListener(patient, 1, patient)
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		synctest.Wait()
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := patient.AwaitRound(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		l.mu.Lock()
		waits := l.wants
		l.mu.Unlock()
		if !waits {
			t.Error("none waits for a place")
		}
		l.Close()
		if err := <-ended; err != net.ErrClosed {
			t.Error(err)
		}
	})
}

// A connection that is idle keeps its place from nobody, and one that is in use keeps it.
// holds: security.md#on-this-machine
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := limitConns(l, 2)
	end := make(chan struct{})
	server := &http.Server{ConnState: RecordConnState, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.(http.Flusher).Flush()
			<-end
		}
		fmt.Fprint(w, r.RemoteAddr)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(all) })
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { server.Close() })
	client := func() *http.Client {
		c := &http.Client{Transport: new(http.Transport), Timeout: await.Patience}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	get := func(c *http.Client) string {
		t.Helper()
		answer, err := c.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		from, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(from)
	}
	busy, err := client().Get("http://" + l.Addr().String() + "/long")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Body.Close()
	for range 10 {
		get(client())
	}
	// All places are in use: who comes waits, and gets the first that is idle again.
	second, err := client().Get("http://" + l.Addr().String() + "/long")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Body.Close()
	last := make(chan string, 1)
	go func() { last <- get(client()) }()
	await.Until(t, "one that waits", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.wants && all.held == 2
	})
	close(end)
	await.Receive(t, "its answer", last)
	for _, long := range []*http.Response{busy, second} {
		if text, err := io.ReadAll(long.Body); err != nil || len(text) == 0 {
			t.Errorf("an answer under way was cut off: %s %v", text, err)
		}
	}
	server.Close()
	await.Until(t, "all places are free", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.held == 0 && len(all.idle) == 0
	})
}

// A listener that is closed lets nobody wait.
func TestClosedPlacesLetNobodyWait(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := limitConns(l, 1)
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := all.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second := make(chan error, 1)
	go func() {
		_, err := all.Accept()
		second <- err
	}()
	await.Until(t, "one that waits", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.wants
	})
	all.Close()
	if err := await.Receive(t, "the second", second); err != net.ErrClosed {
		t.Errorf("it is let in: %v", err)
	}
}
