package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// passing is a message on its way through the daemon, until there is an outcome.
type passing struct {
	direction client.MessageDirection
	message   kinds.Checked
	follows   traffic.Cause
	began     time.Time
	call      *traffic.Call // of a query, which is an open call until then; else nil
	agent     string        // that was chosen for it, when it is no more
}

// beginPassing notes that a message begins its way, and what it follows from as its caller has said. The caller
// calls endPassing, and removeOpenCall also if it panics. Unless it is a query, began stays zero while nobody wants to know it: without
// metrics, before anybody has watched.
func (d *Daemon) beginPassing(direction client.MessageDirection, message kinds.Checked, follows traffic.Cause) passing {
	p := passing{direction: direction, message: message, follows: follows}
	switch {
	case message.Kind == kinds.KindQuery:
		p.call = d.openCalls.Begin(direction, message, follows)
		p.began = p.call.Began
	case d.measures != nil || d.traffic.IsOn() || d.traffic.HasBegun():
		p.began = time.Now()
	}
	return p
}

// removeOpenCall has a message be no open call any more, if it is one. It may be called twice.
func (d *Daemon) removeOpenCall(p *passing) {
	if p.call != nil {
		p.agent, p.call = d.openCalls.End(p.call), nil
	}
}

// endPassing counts a message for metrics, and records it for those who watch, with what became of it:
// its reply, if it is a request; outcome or err.
func (d *Daemon) endPassing(p *passing, reply *wire.Envelope, outcome string, err error) {
	d.removeOpenCall(p) // before it is an entry: nobody sees it as both
	d.measures.countCall(p.direction, p.message.Envelope, p.began, err)
	if p.began.IsZero() || d.traffic.Skip() {
		return
	}
	if p.direction == client.In && p.message.Kind == kinds.KindDelegate {
		if t := d.delegations.Find(client.Taken, p.message.From, p.message.ID); t != nil {
			p.agent = t.Agent
		}
	}
	if outcome == client.TrafficHeld && isPartial(p.message.Envelope) {
		outcome = client.TrafficOK // it lies in no inbox: the delegation has it
	}
	d.traffic.Record(&traffic.Message{
		Direction: p.direction, Request: p.message, Follows: p.follows, Began: p.began, Agent: p.agent, Reply: reply, Outcome: outcome, Err: err,
	})
}

// setHistory has messages kept while nobody watches, or not.
func (d *Daemon) setHistory(history config.Switch) {
	kept := traffic.History
	if history == config.Off {
		kept = traffic.Bounds{}
	}
	d.traffic.SetHistory(kept)
}

// findPetname returns the petname of a trusted peer, "" of any other.
func (d *Daemon) findPetname(id identity.ID) string {
	p, _ := d.trust.FindPeer(id)
	return p.Name
}

// serveTraffic returns messages that have passed, and those that are open.
func (d *Daemon) serveTraffic(ctx context.Context, s *localConn, p *client.TrafficParams) (any, error) {
	q, err := d.readTrafficParams(p)
	if err != nil {
		return nil, err
	}
	if err := d.traffic.Watch(s, p.Payload); err != nil {
		return nil, err
	}
	q.Who = s
	a, err := d.traffic.Read(ctx, q)
	if err != nil {
		return nil, explainContextCause(err)
	}
	if p.Open {
		a.Open, a.OpenMore, err = d.listOpenCalls(ctx, &q.Filter)
	}
	return a, err
}

func (d *Daemon) readTrafficParams(p *client.TrafficParams) (*traffic.Query, error) {
	for _, list := range []struct {
		name  string
		items int
	}{{"kinds", len(p.Kinds)}, {"topics", len(p.Topics)}, {"peers", len(p.Peers)}, {"threads", len(p.Threads)}, {"agents", len(p.Agents)}} {
		if list.items > client.MaxTrafficFilter {
			return nil, kinds.Errorf(kinds.Invalid, "%s: %d are too many: at most %d", list.name, list.items, client.MaxTrafficFilter)
		}
	}
	most := uint64(client.MaxTrafficWait.Milliseconds())
	switch {
	case p.Limit < 0 || p.Limit > client.MaxTrafficEntries:
		return nil, kinds.Errorf(kinds.Invalid, "limit: %d: expected 1 to %d", p.Limit, client.MaxTrafficEntries)
	case p.WaitMS > most:
		return nil, kinds.Errorf(kinds.Invalid, "wait_ms: %d: at most %d; call again to wait longer", p.WaitMS, most)
	}
	all := kinds.ListNames(kinds.Sent)
	for _, kind := range p.Kinds {
		if !slices.Contains(all, kind) {
			return nil, kinds.Errorf(kinds.Invalid, "kinds: %.64q: %s", kind, identity.FormatSuggestion(kind, all, "expected some of "+strings.Join(all, ", ")))
		}
	}
	peers, err := d.resolvePeers(p.Peers, false)
	if err != nil {
		return nil, err
	}
	// Half of a line is for entries, and half for open calls.
	return &traffic.Query{
		After: p.After, Limit: cmp.Or(p.Limit, client.MaxTrafficEntries), Room: d.maxListBytes() / 2, Wait: time.Duration(p.WaitMS) * time.Millisecond,
		Filter:   traffic.Filter{Kinds: p.Kinds, Topics: p.Topics, Threads: p.Threads, Agents: p.Agents, Peers: peers},
		Payloads: p.Payload,
	}, nil
}
