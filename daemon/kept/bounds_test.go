package kept

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// fill enters messages without keeping them on the disk.
func (d *desk) fill(n, size int, to identity.ID, by string) {
	d.t.Helper()
	for range n {
		m := &message{id: wire.NewMessageID(), peer: to, by: of(by), size: size, state: client.TaskKept, until: time.Now().Add(time.Hour)}
		if err := d.enter(m); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestBounds: of each bound, one more is refused in words that say what to do, and what is kept stays.
func TestBounds(t *testing.T) {
	peers := func(n byte) (all []identity.ID) {
		for i := range n {
			all = append(all, identity.ID{100 + i})
		}
		return all
	}
	for _, c := range []struct {
		what   string
		peers  []identity.ID // which have n messages of the size each
		n      int
		size   int
		by     []string // that have sent them, in turn
		to     identity.ID
		from   string
		refuse string // words of the refusal, or "" if it is kept
	}{
		{"messages of a peer", []identity.ID{laptop}, maxOfPeer, 10, []string{"planner", ""}, laptop, "", "200 messages or 16 MiB are kept for this peer"},
		{"of another peer", []identity.ID{laptop}, maxOfPeer, 10, []string{"planner", ""}, phone, "", ""},
		{"bytes of a peer", []identity.ID{laptop}, 16, 1<<20 - 1, []string{""}, laptop, "", "for this peer"},
		{"messages of agents for a peer", []identity.ID{laptop}, maxOfPeer / 2, 10, []string{"planner"}, laptop, "planner", "100 messages or 8 MiB are kept of agents for this peer"},
		{"of another agent", []identity.ID{laptop}, maxOfPeer / 2, 10, []string{"planner"}, laptop, "tester", "of agents for this peer"},
		{"of the owner", []identity.ID{laptop}, maxOfPeer / 2, 10, []string{"planner"}, laptop, "", ""},
		{"of that agent for another peer", []identity.ID{laptop}, maxOfPeer / 2, 10, []string{"planner"}, phone, "planner", ""},
		{"bytes of agents for a peer", []identity.ID{laptop}, 8, 1<<20 - 1, []string{"planner"}, laptop, "planner", "of agents for this peer"},
		{"messages in all", peers(10), 100, 10, []string{"planner", ""}, laptop, "", "1000 messages or 64 MiB are kept here,"},
		{"bytes in all", peers(4), 16, 1<<20 - 1, []string{""}, laptop, "", "kept here,"},
		{"messages of agents", peers(10), 50, 10, []string{"planner"}, laptop, "planner", "500 messages or 32 MiB are kept of agents"},
		{"bytes of agents", peers(4), 8, 1<<20 - 1, []string{"planner"}, laptop, "planner", "of agents"},
		{"of all, the owner", peers(10), 50, 10, []string{"planner"}, laptop, "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := open(t)
			for _, to := range c.peers {
				for i := range c.n {
					d.fill(1, c.size, to, c.by[i%len(c.by)])
				}
			}
			before := len(d.messages)
			_, err := d.keep(c.to, "", c.from, 0)
			switch e := kinds.AsError(err); {
			case c.refuse == "" && err != nil:
				t.Error(err)
			case c.refuse == "":
			case err == nil || e.Code != kinds.Overloaded || !strings.Contains(e.Message, c.refuse) || !strings.Contains(e.Message, "acpctl cancel") || !strings.Contains(e.Message, "not kept"):
				t.Errorf("one more: %v", err)
			case len(d.messages) != before || d.rows() != 0:
				t.Errorf("%d messages and %d rows, there were %d and 0", len(d.messages), d.rows(), before)
			}
		})
	}
}

// TestWhatHasEndedTakesNoRoom: beyond the bounds, the oldest ends go, from the disk too.
func TestWhatHasEndedTakesNoRoom(t *testing.T) {
	d := open(t)
	var ids []wire.MessageID
	for range 3 {
		ids = append(ids, d.mustKeep(laptop, "", "planner", 0))
	}
	for _, id := range ids[:2] {
		if _, err := d.Withdraw(t.Context(), nil, "", id, ""); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(maxOfPeer/2-1, 10, laptop, "planner")
	if _, err := d.keep(laptop, "", "planner", 0); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("%v", err)
	}
	d.sweepNow()
	d.is(ids[0], client.TaskWithdrawn)
	d.is(ids[1], client.TaskWithdrawn)
	d.messages[ids[1]].size = maxBytes
	d.sweepNow()
	if d.task(ids[0]) != nil || d.rows() != 2 {
		t.Errorf("the oldest end is still here, with %d rows", d.rows())
	}
	d.is(ids[1], client.TaskWithdrawn)
	d.is(ids[2], client.TaskKept)
}
