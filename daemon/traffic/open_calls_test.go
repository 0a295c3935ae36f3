package traffic

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// begin adds a call like m.
func (o *OpenCalls) begin(m *peer.Passing) *peer.Passing {
	c := &peer.Passing{Inbound: true, Checked: m.Checked, Began: time.Now()}
	o.add(c)
	return c
}

func TestOpenCalls(t *testing.T) {
	o := newOpenCalls()
	var calls []*peer.Passing
	for _, text := range []string{"first", "second", "third"} {
		m := message(t, wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": text})))
		calls = append(calls, o.begin(m))
	}
	name := "reviewer"
	calls[1].SetAgent(&name)
	list := func(f Filter, most int) (texts string) {
		all, _ := o.List(&f, most)
		for _, e := range all {
			if e.Peer != laptop || e.Outcome != "" || e.Seq != 0 || e.Payload != nil {
				t.Errorf("%+v", e)
			}
			texts += e.Text + " "
		}
		return texts
	}
	if got := list(Filter{}, 9); got != "first second third " {
		t.Error(got)
	}
	if got := list(Filter{}, 2); got != "first second " {
		t.Error(got)
	}
	if got := list(Filter{Agents: []string{"reviewer"}}, 9); got != "second " {
		t.Error(got)
	}
	o.remove(calls[1])
	if got := list(Filter{}, 9); got != "first third " {
		t.Error(got)
	}
	o.remove(calls[2])
	o.remove(calls[0])
	if got := list(Filter{}, 9); got != "" {
		t.Error(got)
	}
	m := message(t, wire.NewEnvelope(laptop, desk, kinds.KindQuery, wire.Payload(`{"question":"again"}`)))
	m.Inbound = false
	o.add(m)
	if all, more := o.List(new(Filter), 9); len(all) != 1 || more != 0 || all[0].Text != "again" || all[0].Agent != "" || all[0].Direction != client.Out {
		t.Errorf("%+v", all)
	}
}

// Calls that nobody asked for cost no memory: whoever lists may be one of many, and so may the calls.
func TestCallsThatAreNotWantedAreNotCopied(t *testing.T) {
	o := newOpenCalls()
	m := message(t, wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": strings.Repeat("x", maxHead)})))
	const open = 1000
	for range open {
		o.begin(m)
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
	o := newOpenCalls()
	var running sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		running.Go(func() {
			env := wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": "mine"}))
			m, other := message(t, env), bytes.Repeat([]byte{'y'}, len(env.Payload))
			mine := bytes.Clone(env.Payload)
			for range 500 {
				c := o.begin(m)
				o.remove(c)
				copy(m.Payload, other)
				copy(m.Payload, mine)
			}
		})
	}
	go func() { running.Wait(); close(done) }()
	for {
		all, _ := o.List(&Filter{}, client.MaxTrafficEntries)
		for _, e := range all {
			if e.Text != "mine" {
				t.Errorf("%q", e.Text)
			}
		}
		select {
		case <-done:
			if all, _ := o.List(&Filter{}, 10); len(all) != 0 {
				t.Errorf("%d are open", len(all))
			}
			return
		default:
		}
	}
}

// If not all calls have room, peers have turns: who has many open hides nobody's.
// holds: security.md#at-rest
func TestPeersHaveTurnsInOpenCalls(t *testing.T) {
	o := newOpenCalls()
	begin := func(peer identity.ID, text string) {
		m := message(t, wire.NewEnvelope(peer, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": text})))
		o.begin(m)
	}
	for i := range 3000 {
		begin(identity.ID{1}, fmt.Sprint("flood ", i))
	}
	begin(laptop, "late")
	for i := range 5 {
		begin(identity.ID{2}, fmt.Sprint("some ", i))
		begin(identity.ID{1}, "last")
	}
	all, more := o.List(&Filter{}, 100)
	said := make(map[string]int)
	for i, e := range all {
		said[strings.Fields(e.Text)[0]]++
		if i > 0 && e.At.Before(all[i-1].At) {
			t.Errorf("%d: an older one", i)
		}
	}
	if len(all) != 100 || more != 3011-100 || said["late"] != 1 || said["some"] != 5 || said["flood"] != 94 || all[0].Text != "flood 0" {
		t.Errorf("%d, %d more: %v", len(all), more, said)
	}
}
