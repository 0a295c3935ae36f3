package harness

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifetime(t *testing.T) {
	l := newLifetime()
	joined, leave, err := l.join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Int32
	if !l.start(func() {
		<-l.ctx.Done()
		ended.Add(1)
	}) {
		t.Fatal("nothing starts")
	}
	go func() {
		<-joined.Done()
		ended.Add(1)
		leave()
	}()
	l.end()
	if n := ended.Load(); n != 2 {
		t.Errorf("%d of 2 have ended", n)
	}
	if _, _, err := l.join(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("join after end: %v", err)
	}
	if l.start(func() { t.Error("runs after end") }) {
		t.Error("starts after end")
	}
	l.end()
}

// slowSystem is a system that answers only after a session has ended, and then late.
type slowSystem struct {
	asked chan struct{} // is closed by the first question
	ended <-chan struct{}
}

func (s *slowSystem) answer() error {
	close(s.asked)
	<-s.ended
	time.Sleep(20 * time.Millisecond)
	return errors.New("too late")
}

// Close returns when the post that was under way has left the session.
func TestCloseWaitsForPosts(t *testing.T) {
	for name, find := range map[string]func(*testing.T, *slowSystem) (Session, *lifetime){
		"claude": func(t *testing.T, slow *slowSystem) (Session, *lifetime) {
			f := newFakeClaude(t)
			s := f.find(f.environment(), newFamily()).(*claude)
			slow.ended = s.ctx.Done()
			s.processes.peerOf = func(*net.UnixConn) (int, error) { return 0, slow.answer() }
			return s, s.lifetime
		},
		"codex": func(t *testing.T, slow *slowSystem) (Session, *lifetime) {
			s := newFakeCodex(t).mustFind().(*codex)
			slow.ended = s.ctx.Done()
			s.processes.peerOf = func(*net.UnixConn) (int, error) { return 0, slow.answer() }
			return s, s.lifetime
		},
		"opencode": func(t *testing.T, slow *slowSystem) (Session, *lifetime) {
			s, err := newFakeOpenCode(t).find("s3cret")
			if err != nil {
				t.Fatal(err)
			}
			slow.ended = s.ctx.Done()
			s.processes.portsOf = func(int) ([]int, error) { return nil, slow.answer() }
			return s, s.lifetime
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := &slowSystem{asked: make(chan struct{})}
			s, l := find(t, slow)
			done := make(chan error, 1)
			go func() {
				p := newPost()
				p.Unattended = name == "opencode"
				_, err := s.Post(context.Background(), p)
				done <- err
			}()
			<-slow.asked
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			select {
			case <-l.place:
			default:
				t.Error("a post goes on after Close")
			}
			if err := <-done; err == nil {
				t.Error("a post of a closed session succeeds")
			}
			if _, err := s.Post(t.Context(), Post{Pointer: "x", Unattended: true}); !errors.Is(err, errClosed) {
				t.Errorf("Post after Close: %v", err)
			}
		})
	}
}

// A post that waits for its place says why it fails when the session is closed.
func TestAPostThatWaitsForItsPlaceIsClosed(t *testing.T) {
	f := newFakeClaude(t)
	f.setMode("") // the first post has the place, and waits
	s := f.find(f.environment(), newFamily())
	done := make(chan error, 2)
	for range cap(done) {
		go func() {
			_, err := s.Post(context.Background(), newPost())
			done <- err
		}()
	}
	for len(f.list(string(actionTellIdle))) == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	for range cap(done) {
		wantClosed(t, <-done)
	}
}

// A post that waits for the interval after another does too, unless its caller has given up.
func TestAPostThatWaitsForTheIntervalIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, l := &claude{version: "2.1.330"}, newLifetime()
		first, second := newPost(), newPost()
		if _, err := l.post(t.Context(), session, &first, pass); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := l.post(context.Background(), session, &second, pass)
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.post(ctx, session, &first, pass); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has given up: %v", err)
		}
		l.end()
		wantClosed(t, <-done)
	})
}

// A post that panics, which mcp survives, keeps no other from the session.
func TestAPostThatPanicsLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, l := &claude{}, newLifetime()
		first, second := newPost(), newPost()
		func() {
			defer func() { recover() }()
			l.post(t.Context(), session, &first, func(context.Context) (Posted, error) { panic("a fault") })
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.post(ctx, session, &second, pass); err != nil {
			t.Error(err)
		}
		l.end()
	})
}

// pass posts nothing, and returns no error.
func pass(context.Context) (Posted, error) { return Posted{}, nil }

func wantClosed(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Err != errClosed || e.Harness != claudeName || e.Version != "2.1.330" {
		t.Errorf("Post: %v, want %v", err, errClosed)
	}
}
