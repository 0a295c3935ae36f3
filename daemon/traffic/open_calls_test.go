package traffic

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Calls that nobody asked for cost no memory: whoever lists may be one of many, and so may the calls.
func TestCallsThatAreNotWantedAreNotCopied(t *testing.T) {
	o := NewOpenCalls()
	m := message(t, wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": strings.Repeat("x", maxHead)})))
	const open = 1000
	for range open {
		o.Begin(client.In, m.Request)
	}
	for _, f := range []*Filter{{Threads: []string{"release"}}, {Kinds: []string{kinds.KindNotify}}, {Topics: []string{"ci"}}} {
		if n := testing.AllocsPerRun(5, func() { o.List(f, open) }); n > 50 {
			t.Errorf("%v allocations for %d calls", n, open)
		}
	}
}

// Calls begin and end while they are listed. The memory of a request is somebody else's when its call
// has ended.
func TestCallsEndWhileTheyAreListed(t *testing.T) {
	o := NewOpenCalls()
	var running sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		running.Go(func() {
			env := wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": "mine"}))
			m, other := message(t, env), bytes.Repeat([]byte{'y'}, len(env.Payload))
			mine := bytes.Clone(env.Payload)
			for range 500 {
				c := o.Begin(client.In, m.Request)
				o.End(c)
				copy(m.Request.Payload, other)
				copy(m.Request.Payload, mine)
			}
		})
	}
	go func() { running.Wait(); close(done) }()
	for {
		for _, e := range o.List(&Filter{}, client.MaxTrafficEntries) {
			if e.Text != "mine" {
				t.Errorf("%q", e.Text)
			}
		}
		select {
		case <-done:
			if all := o.List(&Filter{}, 10); len(all) != 0 {
				t.Errorf("%d are open", len(all))
			}
			return
		default:
		}
	}
}
