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

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/openintent/chain"
)

// A home follows each host of its agents by one stream, subscribe/home, and hands
// what comes to the streams of its own agents. Relayed entries have a place in the
// home's own feed and store, so that its agents resume as with any other.

// relayed is a message or event of another host, as subscribe/home tells it.
type relayed struct {
	Event     string         `json:"event"` // kindMessage, or the type of an event
	IntentID  string         `json:"intent_id"`
	ChannelID string         `json:"channel_id,omitzero"` // of a message
	For       []string       `json:"for"`                 // agents of the home that see it
	Own       []string       `json:"own"`                 // those of them whose own streams show it
	Data      jsontext.Value `json:"data"`

	payer identity.ID  // the host
	late  bool         // there was no room for it: it waits for nobody who is behind
	waits atomic.Int32 // readers here that it waits for, and one while it is handed to them
}

const (
	maxRelayed  = 512 << 10 // bytes of an entry in a stream; of what would be longer it has no payload
	relayHead   = 1 << 10   // of these, for the names of its lines
	keepRelayed = 5_000     // entries that are kept for agents that resume, of each host
	relayStep   = 64        // entries more than that, after which the oldest are removed

	relayRate  = 1000        // entries a second of one host; the rest waits in its stream
	cursorTime = time.Second // how long a place in a host's feed may stay unwritten
	followTime = 3 * time.Second
)

// relay makes an entry what the home of s is told, and false where it concerns
// none of its agents.
func (e *Engine) relay(s *subscriber, n *entry, at chain.Time) (*relayed, bool) {
	if n.in == nil {
		return nil, false // what is relayed goes no further
	}
	r := &relayed{IntentID: n.in.id, For: []string{}, Own: []string{}}
	if n.message != nil {
		r.Event, r.ChannelID = kindMessage, n.message.ch.id
	} else {
		r.Event = n.event.Type
	}
	tell := func(agent string) {
		who := e.known(Caller{Agent: agent, Home: s.who.Home})
		if e.concerns(&subscriber{who: who, intent: r.IntentID}, n, at) {
			r.For = append(r.For, agent)
		}
		if e.concerns(&subscriber{who: who, agent: true}, n, at) {
			r.Own = append(r.Own, agent)
		}
	}
	for agent := range n.in.used[s.who.Home] {
		tell(agent)
	}
	for _, a := range n.in.Assignments { // who was sent for and has not come yet
		if k := (agentKey{a.Home, a.AgentID}); k.home == s.who.Home && !n.in.uses(k) {
			tell(k.id)
		}
	}
	if m := n.message; m != nil { // to who has access and has not come yet
		for _, name := range append([]string{m.to}, m.recipients...) {
			if k := e.key(name); k.home == s.who.Home && !n.in.uses(k) && n.in.assignment(k) < 0 {
				tell(k.id)
			}
		}
	}
	if len(r.For)+len(r.Own) == 0 {
		return nil, false
	}
	slices.Sort(r.For)
	slices.Sort(r.Own)
	if n.message != nil {
		r.Data = n.message.append(nil, n.message.to, at, true) // what is to one agent, that sees alone
	} else {
		r.Data = appendEvent(nil, n.event)
	}
	return r, true
}

// check refuses what a host must not say.
func (r *relayed) check(host string) error {
	if !madeBy(host, r.IntentID) {
		return fmt.Errorf("openintent: relay: %s tells of an intent that is not its own", host)
	}
	if !eventForm.MatchString(r.Event) || r.Data.Kind() != '{' || jsonscan.IsDeeper(r.Data, 2*MaxDepth) || len(r.For) > 10*maxEntries || len(r.Own) > 10*maxEntries {
		return fmt.Errorf("openintent: relay: %s tells what is no event", host)
	}
	var said struct {
		Intent  string `json:"intent_id"`
		Channel string `json:"channel_id"`
	}
	if err := json.Unmarshal(r.Data, &said); err != nil {
		return fmt.Errorf("openintent: relay: %s: %w", host, err)
	}
	isMessage := r.Event == kindMessage
	if said.Intent != r.IntentID || isMessage && (said.Channel != r.ChannelID || !madeBy(host, said.Channel)) {
		return fmt.Errorf("openintent: relay: %s tells of what is not its own: intent %.80q, channel %.80q", host, said.Intent, said.Channel)
	}
	return r.Data.Compact()
}

// madeBy reports whether the daemon with these digits has made an id.
func madeBy(host, id string) bool {
	maker, ok := HostOf(id)
	return ok && maker == host
}

// concernsHere decides about a relayed entry for a stream of the home.
func (r *relayed) concernsHere(s *subscriber) bool {
	isMessage := r.Event == kindMessage
	switch {
	case s.who.Home != "" || isMessage && s.quiet:
		return false
	case s.agent:
		return slices.Contains(r.Own, s.who.Agent)
	}
	return s.intent == r.IntentID && (s.channel == "" || isMessage && s.channel == r.ChannelID) && (s.who.Operator || slices.Contains(r.For, s.who.Agent))
}

func (e *Engine) Follow(host string) (tried []<-chan struct{}) {
	if e.cfg.Follow == nil {
		return nil
	}
	return e.cfg.Follow(host)
}

// awaitFollow is follow for a stream, which should miss nothing from its start. It
// waits for a host, but not for ever.
func (e *Engine) AwaitFollow(ctx context.Context, host string) {
	timer := time.NewTimer(followTime)
	defer timer.Stop()
	for _, t := range e.Follow(host) {
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

// RelayCursor returns what Last-Event-ID must be in the next request for the
// host's subscribe/home, empty for none.
func (e *Engine) RelayCursor(ctx context.Context, host string) (string, error) {
	cursor, err := e.relayCursor(ctx, host)
	if err != nil || cursor < 0 {
		return "", err
	}
	return strconv.FormatInt(cursor, 10), nil
}

// Relay reads the body of the subscribe/home of the host with that id, requested by this daemon as
// the agent [Daemon], and hands what it says to the streams of the agents here. It
// returns when the stream ends, and with an error where the host says what it must not.
func (e *Engine) Relay(ctx context.Context, host string, stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 4096), maxRelayed)
	var r *relayed
	var rate relayPace
	home, payer := host, peerOf(host)
	host = host[:HostDigits]
	turn, err := e.forgets.begin(host)
	if err != nil {
		return err
	}
	var cursor, saved int64 // where the host's feed is, and how far that is written
	var savedAt time.Time
	defer func() {
		if cursor != saved {
			e.saveCursor(context.WithoutCancel(ctx), turn, cursor)
		}
	}()
	kept, err := e.relayedOf(ctx, host)
	if err != nil {
		return err
	}
	hold(e.relayed, payer, int64(kept.bytes))
	for lines.Scan() {
		line := lines.Bytes()
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if err := rate.wait(ctx); err != nil {
				return err
			}
			r = &relayed{payer: payer}
			if err := json.Unmarshal(data, r); err != nil {
				return fmt.Errorf("openintent: relay: %s: %w", host, err)
			}
			if err := r.check(host); err != nil {
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
		if r == nil || len(r.For)+len(r.Own) == 0 { // where the host's feed is, without anything of it for agents here
			r = nil
			cursor = at
			if err := rate.wait(ctx); err != nil {
				return err
			}
			if time.Since(savedAt) < cursorTime {
				continue
			}
			if err := e.saveCursor(ctx, turn, cursor); err != nil {
				return err
			}
			saved, savedAt = cursor, time.Now()
			continue
		}
		n := entry{relayed: r}
		doc := text(r)
		r = nil
		full := e.relayed.Take(payer, int64(len(doc))) != nil
		gone := kept.surplus(full)
		low := e.CheckRoom(home) != nil
		if low { // what is kept gets no larger
			gone = min(max(gone, 1), len(kept.list))
		}
		if low || full && len(kept.list) == 0 {
			doc = text(&relayed{}) // who resumes misses it
		}
		if err := e.write(ctx, false, func(t *tx) error {
			if err := e.forgets.check(turn); err != nil {
				return err
			}
			n.seq = t.number()
			t.out = append(t.out, n)
			if err := t.insertRelayed(n.seq, host, at, doc); err != nil || gone == 0 {
				return err
			}
			return t.trimRelayed(host, kept.list[gone-1].seq)
		}); err != nil {
			hold(e.relayed, payer, int64(kept.bytes))
			return err
		}
		kept.drop(gone)
		kept.add(n.seq, len(doc))
		hold(e.relayed, payer, int64(kept.bytes))
		cursor, saved, savedAt = at, at, time.Now()
	}
	return lines.Err()
}

// relayedEntries are the entries that are kept of a host, the oldest first.
type relayedEntries struct {
	list  []relayedEntry
	bytes int // of them
}

type relayedEntry struct {
	seq   int64
	bytes int
}

func (k *relayedEntries) add(seq int64, bytes int) {
	k.list = append(k.list, relayedEntry{seq, bytes})
	k.bytes += bytes
}

func (k *relayedEntries) drop(n int) {
	for _, gone := range k.list[:n] {
		k.bytes -= gone.bytes
	}
	k.list = k.list[n:]
}

// surplus returns how many of the oldest the next write removes: none while they are few
// more than are kept, and a slice at most; a slice of them where there is no room.
func (k *relayedEntries) surplus(full bool) (n int) {
	if !full && len(k.list) < keepRelayed+relayStep {
		return 0
	}
	for size := 0; n < min(sliceRows, len(k.list)) && size < sliceBytes && (full || len(k.list)-n >= keepRelayed); n++ {
		size += k.list[n].bytes
	}
	return n
}

// relayPace lets relayRate things happen in a second.
type relayPace struct {
	began time.Time
	n     int
}

// wait waits until one more may happen, or ctx ends.
func (p *relayPace) wait(ctx context.Context) error {
	if since := time.Since(p.began); since >= time.Second {
		p.began, p.n = time.Now(), 0
	} else if p.n >= relayRate {
		timer := time.NewTimer(time.Second - since)
		defer timer.Stop()
		select {
		case <-timer.C:
			p.began, p.n = time.Now(), 0
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.n++
	return nil
}
