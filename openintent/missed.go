package openintent

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// A stream of an agent here that has missed entries of a host gets them from the host, page by page,
// in requests for the path missed.

// MissedEntries is a page of the entries that a stream would have shown after a place in the feed.
type MissedEntries struct {
	Entries []*relayedEntry `json:"entries"`
	Next    int64           `json:"next"` // the place up to which these are all
	More    bool            `json:"more"` // there may be others behind it
}

// ListMissedEntries returns a page of the entries after a number that the stream of a channel or an
// intent, or, if both are "", of the caller would have shown.
func (e *Engine) ListMissedEntries(c *Call, intentID, channelID string, after int64) (*MissedEntries, error) {
	s, err := c.newSubscriber(intentID, channelID)
	if err != nil {
		return nil, err
	}
	var upTo int64
	e.withReadLock(func() { upTo = e.settled })
	page := &MissedEntries{Entries: []*relayedEntry{}, Next: upTo}
	if after >= upTo {
		return page, nil
	}
	var found []feedEntry
	if err := e.readWithQuota(c.Context(), func(stx *store.Tx, l *readQuota) (err error) {
		found, page.Next, err = e.readMissedEntries(stx, l, s, after, upTo)
		return err
	}); err != nil {
		return nil, err
	}
	page.More = page.Next < upTo
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for i := range found {
		n := &found[i]
		if n.in == nil || !e.streamShowsEntry(s, n, at) {
			continue
		}
		r := n.toRelayed(s.who.name, at)
		r.Number = n.seq
		if err := c.ChargeCaller(len(r.Data)); err != nil {
			return nil, err
		}
		page.Entries = append(page.Entries, r)
	}
	return page, nil
}

// catchUp writes to a stream what it has missed of hosts. Hosts that do not answer are tried again
// later. It reports whether the stream continues.
func (e *Engine) catchUp(ctx context.Context, s *subscriber) bool {
	s.retry = false
	for host := range s.behind {
		for s.behind[host] {
			page, letGo, err := e.fetchMissedEntries(ctx, s, host)
			if err != nil {
				e.cfg.Log.Debug("openintent: what a stream has missed of a host is not here yet", "host", host, "error", err)
				letGo()
				s.failed = time.Now()
				break
			}
			b := s.appendMissedFrames(nil, host, page)
			letGo()
			if len(b) > 0 && !s.out.Write(b) {
				return false
			}
		}
	}
	return true
}

// fetchMissedEntries fetches the next page of what a stream has missed of a host. letGo gives back
// what the host is charged for it.
func (e *Engine) fetchMissedEntries(ctx context.Context, s *subscriber, host string) (page *MissedEntries, letGo func(), err error) {
	hold, letGo := e.NewHostCharge()
	query := url.Values{"after": {strconv.FormatInt(s.at.Hosts[host], 10)}}
	if s.channel != "" {
		query.Set("channel", s.channel)
	} else if s.intent != "" {
		query.Set("intent", s.intent)
	}
	text, err := e.cfg.Missed(ctx, host, s.who, "missed?"+query.Encode(), hold)
	if err == nil {
		page = new(MissedEntries)
		err = json.Unmarshal(text, page)
	}
	if err != nil {
		return nil, letGo, err
	}
	last := s.at.Hosts[host]
	for _, r := range page.Entries {
		if r == nil || r.Number <= last {
			return nil, letGo, fmt.Errorf("openintent: relay: %s sent missed entries out of order", host)
		}
		if err := r.checkRelayedBy(host); err != nil {
			return nil, letGo, err
		}
		last = r.Number
	}
	if page.More && (page.Next <= s.at.Hosts[host] || page.Next < last) {
		return nil, letGo, fmt.Errorf("openintent: relay: %s does not say what comes after the missed entries", host)
	}
	return page, letGo, nil
}

// appendMissedFrames appends the entries of a page, and notes how far the stream has come.
func (s *subscriber) appendMissedFrames(b []byte, host string, page *MissedEntries) []byte {
	for _, r := range page.Entries {
		s.at.Hosts[host] = r.Number
		b = s.out.Append(b, r.Event, r.Data, s.at.String())
	}
	if s.at.Hosts[host] = page.Next; !page.More {
		delete(s.behind, host)
	}
	return b
}

// follows reports whether the stream shows entries of a host.
func (s *subscriber) follows(host string) bool {
	maker, ok := object.HostOfID(s.intent)
	return s.who.Home == "" && (s.agent || ok && maker == host)
}

// beginHosts notes where the stream begins in the feeds of hosts. The world is read-locked.
func (s *subscriber) beginHosts(reached map[string]int64) {
	for host := range s.at.Hosts {
		if !s.follows(host) {
			delete(s.at.Hosts, host)
		}
	}
	for host, at := range reached {
		if s.follows(host) {
			s.beginHost(host, at, beginsAnew)
		}
	}
}

// beginHost notes that the stream of a host begins at a number.
func (s *subscriber) beginHost(host string, at int64, how beginning) {
	switch before, ok := s.at.Hosts[host]; {
	case !ok || before > at: // or the host has lost what it had said
		s.at.Hosts[host] = at
	case before < at && how == beginsAnew:
		s.behind[host] = true
	}
	s.retry = s.retry || s.behind[host]
}

// takesRelayed reports whether the stream may show a relayed entry now. An entry of a host of
// which the stream has missed something comes with what it has missed.
func (s *subscriber) takesRelayed(r *relayedEntry) bool {
	switch {
	case r.begins != 0:
		s.beginHost(r.host, r.Number, r.begins)
		return false
	case s.behind[r.host]:
		s.retry = s.retry || time.Since(s.failed) >= followTime
		return false
	case r.Number <= s.at.Hosts[r.host]:
		return false
	}
	s.at.Hosts[r.host] = r.Number
	return true
}
