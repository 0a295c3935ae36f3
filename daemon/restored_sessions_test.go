package daemon

import (
	"runtime"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// A session may come back as often as it likes: what lies in its inbox is listed by one at a time.
func TestSessionsThatComeBackListTheInboxOneByOne(t *testing.T) {
	d := start(t, stateDir(t), "desk")
	s := d.session("claude")
	const readers = 4 // at a time
	reading, free := make(chan int, readers), make(chan struct{})
	defer close(free)
	for i := range readers {
		go d.store.Read(t.Context(), func(*store.Tx) error { reading <- i; <-free; return nil })
		await.Receive(t, "a reader", reading)
	}
	attach := func() {
		s.must("attach", client.AttachParams{Name: "claude", Session: claude, MaxConcurrent: 16, Key: s.key}, nil)
	}
	count := func(function string) int {
		stacks := make([]byte, 16<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function+"(")
	}
	attach()
	await.Until(t, "the inbox is listed", func() bool { return count(").ListKeys") > 0 })
	const times = 50 // from now on, each waits for the first
	for range times {
		attach()
	}
	await.Until(t, "the others have come", func() bool { return count(").WakeRestored") > times })
	if n := count(").ListKeys"); n > 1 {
		t.Errorf("the inbox is listed %d times at once", n)
	}
}
