package openintent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// A home follows each host of its agents by one stream, subscribe/home, and hands the entries to
// the streams of its own agents. It keeps none of them: the stream of an agent says how far it has
// come in the feed of each host ([object.Cursor]), and what it has missed is fetched from the host.

// relayedEntry is a message or an event of another host.
type relayedEntry struct {
	Event     string         `json:"event"` // object.KindMessage, or the type of an event
	IntentID  string         `json:"intent_id"`
	ChannelID string         `json:"channel_id,omitzero"` // of a message
	For       []string       `json:"for,omitempty"`       // agents of the home that see it, in subscribe/home
	Own       []string       `json:"own,omitempty"`       // those of them on whose own streams it is shown
	Data      jsontext.Value `json:"data"`
	Number    int64          `json:"number,omitzero"` // in the host's feed, in a list of missed entries

	host   string       // its digits
	begins beginning    // unless it is 0, the host's stream begins here, and the rest is empty
	payer  identity.ID  // the host
	late   bool         // there was no room for it: it does not wait behind other entries
	waits  atomic.Int32 // readers here that it waits for, and one while it is handed to them
}

// beginning says how the stream of a host begins.
type beginning int

const (
	beginsAnew beginning = iota + 1 // with what comes now: streams may have missed something
	goesOn                          // where the one before has ended
)

const (
	maxRelayed = 512 << 10 // bytes of an entry in a stream; a longer one goes without its payload
	relayHead  = 1 << 10   // of these, for the names of its lines
	relayRate  = 1000      // entries a second of one host; the rest waits in its stream
	followTime = 3 * time.Second
)

// newRelayedEntry makes the entry that the home of s gets, and returns false if the entry
// concerns none of its agents.
func (w *world) newRelayedEntry(s *subscriber, n *feedEntry, at chain.Time) (*relayedEntry, bool) {
	if n.in == nil {
		return nil, false // a relayed entry is not relayed again
	}
	r := &relayedEntry{IntentID: n.in.id}
	tell := func(agent string) {
		who := w.fillCallerName(Caller{Agent: agent, Home: s.who.Home})
		if w.streamShowsEntry(&subscriber{who: who, intent: r.IntentID}, n, at) {
			r.For = append(r.For, agent)
		}
		if w.streamShowsEntry(&subscriber{who: who, agent: true}, n, at) {
			r.Own = append(r.Own, agent)
		}
	}
	for agent := range n.in.used[s.who.Home] {
		tell(agent)
	}
	for _, a := range n.in.Assignments { // agents that are assigned and have not used the intent
		if k := (agentKey{a.Home, a.AgentID}); k.home == s.who.Home && !n.in.wasUsedBy(k) {
			tell(k.id)
		}
	}
	if m := n.message; m != nil { // recipients that have not used the intent
		for _, name := range append([]string{m.to}, m.recipients...) {
			if k := w.agentKeyOf(name); k.home == s.who.Home && !n.in.wasUsedBy(k) && n.in.assignmentIndex(k) < 0 {
				tell(k.id)
			}
		}
	}
	if len(r.For)+len(r.Own) == 0 {
		return nil, false
	}
	viewer := ""
	if n.message != nil {
		viewer = n.message.to // only that agent sees a message to one agent
	}
	told := n.toRelayed(viewer, at)
	told.For, told.Own = r.For, r.Own
	slices.Sort(told.For)
	slices.Sort(told.Own)
	return told, true
}

// toRelayed returns the entry as the agent with the name viewer gets it.
func (n *feedEntry) toRelayed(viewer string, at chain.Time) *relayedEntry {
	if m := n.message; m != nil {
		return &relayedEntry{Event: object.KindMessage, IntentID: n.in.id, ChannelID: m.ch.id, Data: m.appendJSON(nil, viewer, at, true)}
	}
	return &relayedEntry{Event: n.event.Type, IntentID: n.in.id, Data: appendEventData(nil, n.event)}
}

// checkRelayedBy refuses an entry that the host must not tell.
func (r *relayedEntry) checkRelayedBy(host string) error {
	if !isIDMadeBy(host, r.IntentID) {
		return fmt.Errorf("openintent: relay: %s sent an event of an intent that is not its own", host)
	}
	if !object.IsEventType(r.Event) || r.Data.Kind() != '{' || jsonscan.IsNestedDeeper(r.Data, 2*object.MaxDepth) || len(r.For) > 10*object.MaxEntries || len(r.Own) > 10*object.MaxEntries {
		return fmt.Errorf("openintent: relay: %s tells what is no event", host)
	}
	var said struct {
		Intent  string `json:"intent_id"`
		Channel string `json:"channel_id"`
	}
	if err := json.Unmarshal(r.Data, &said); err != nil {
		return fmt.Errorf("openintent: relay: %s: %w", host, err)
	}
	isMessage := r.Event == object.KindMessage
	if said.Intent != r.IntentID || isMessage && (said.Channel != r.ChannelID || !isIDMadeBy(host, said.Channel)) {
		return fmt.Errorf("openintent: relay: %s sent an event that is not its own: intent %.80q, channel %.80q", host, said.Intent, said.Channel)
	}
	return r.Data.Compact()
}

// isIDMadeBy reports whether the daemon with these digits has made an id.
func isIDMadeBy(host, id string) bool {
	maker, ok := object.HostOfID(id)
	return ok && maker == host
}

// concernsStream reports whether a stream of an agent here shows the entry.
func (r *relayedEntry) concernsStream(s *subscriber) bool {
	switch {
	case s.who.Home != "":
		return false
	case s.agent:
		return slices.Contains(r.Own, s.who.Agent)
	}
	return s.intent == r.IntentID && (s.channel == "" || r.Event == object.KindMessage && s.channel == r.ChannelID) && slices.Contains(r.For, s.who.Agent)
}

// FollowHostBriefly follows a host, or all, for a stream that should miss nothing from its start. It
// waits for them for a few seconds at most.
func (e *Engine) FollowHostBriefly(ctx context.Context, host string) {
	if e.cfg.Follow == nil {
		return
	}
	timer := time.NewTimer(followTime)
	defer timer.Stop()
	for _, t := range e.cfg.Follow(host) {
		select {
		case <-t:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-e.done:
			return
		}
	}
}

// HostPlace returns the Last-Event-ID for the next request for the host's subscribe/home, "" for
// none.
func (e *Engine) HostPlace(host string) string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if at, ok := e.reached[host]; ok {
		return strconv.FormatInt(at, 10)
	}
	return ""
}

// ReceiveHostStream reads the body of the subscribe/home of the host with that id, requested by this
// daemon as the agent [object.Daemon], and hands its entries to the streams of the agents here. It calls
// begun, unless that is nil, once the stream has said where it begins. It blocks until the stream
// ends, and returns an error if the host sends what it must not.
func (e *Engine) ReceiveHostStream(ctx context.Context, host string, stream io.Reader, begun func()) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 4096), maxRelayed)
	var r *relayedEntry
	pace := rate.NewLimiter(relayRate, relayRate)
	payer := peerAccountKey(host)
	host = host[:object.HostDigits]
	for lines.Scan() {
		line := lines.Bytes()
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			r = new(relayedEntry)
			if err := json.Unmarshal(data, r); err != nil {
				return fmt.Errorf("openintent: relay: %s: %w", host, err)
			}
			if err := r.checkRelayedBy(host); err != nil {
				return err
			}
		}
		id, ok := bytes.CutPrefix(line, []byte("id: "))
		if !ok {
			continue
		}
		at, err := strconv.ParseInt(string(id), 10, 64)
		if err != nil || at < 0 {
			return fmt.Errorf("openintent: relay: %s numbers an entry %q", host, id)
		}
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		begins := r == nil
		if begins {
			r = new(relayedEntry)
		}
		r.host, r.payer = host, payer
		e.handOnRelayed(r, at, begins)
		if begins && begun != nil {
			begun()
		}
		r = nil
	}
	return lines.Err()
}

// handOnRelayed hands an entry with a number in its host's feed to the streams here.
func (e *Engine) handOnRelayed(r *relayedEntry, at int64, begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.reached[r.host]
	switch {
	case begins && known && before == at:
		r.begins = goesOn
	case begins:
		r.begins = beginsAnew
	}
	e.reached[r.host] = at
	r.Number = at
	e.pushEntryToStreams(&feedEntry{relayed: r})
}
