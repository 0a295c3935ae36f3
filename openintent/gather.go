package openintent

import (
	"bytes"
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
)

// gather gets a list from the other hosts too, if the caller is an agent here. Of each it
// takes at most so many elements, and none after one that is not of the form or that check
// refuses. list names the member that holds the list; empty: the answer is the list. A
// host that gives none is left out, and stands in a header. What hosts have said is charged
// to them until the call is over.
func gather[T any](c *call, path string, query url.Values, list string, most int, check func(host string, one *T) bool, take func(host string, all []T)) {
	if c.e.cfg.Gather == nil || c.who.Home != "" || c.who.Operator {
		return
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	lists, missing := c.e.cfg.Gather(c.Context(), c.who, path, c.hold)
	if len(missing) > 0 {
		slices.Sort(missing)
		c.w.Header().Set(headerMissing, strings.Join(missing, ", "))
	}
	for host, body := range lists {
		d := jsontext.NewDecoder(bytes.NewBuffer(body))
		if !enterList(d, list) {
			continue
		}
		var all []T
		for len(all) < most && d.PeekKind() != ']' {
			var one T
			if json.UnmarshalDecode(d, &one) != nil || !check(host, &one) {
				break
			}
			all = append(all, one)
		}
		take(host, all)
	}
}

// headerMissing stands with a list that other hosts have a part in: it has the ids of those
// that were in reach and gave none.
const headerMissing = "X-Missing-Hosts"

// toldBytes are what hosts have said for a call, in bytes that they are charged for.
type toldBytes struct {
	mu    sync.Mutex // guards bytes
	bytes map[identity.ID]int64
}

// take charges a host for what it says, until give.
func (t *toldBytes) take(from *budget.Account, host string, bytes int) error {
	peer := peerOf(host)
	if err := from.Take(peer, int64(bytes)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes == nil {
		t.bytes = make(map[identity.ID]int64)
	}
	t.bytes[peer] += int64(bytes)
	return nil
}

// give gives back what hosts are charged for until now.
func (t *toldBytes) give(to *budget.Account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for peer, bytes := range t.bytes {
		to.Give(peer, bytes)
	}
	t.bytes = nil
}

// hold charges a host for what it says, until letGo.
func (c *call) hold(host string, bytes int) error { return c.told.take(c.e.unread, host, bytes) }

// holdAnswer is hold for an answer that the caller gets.
func (c *call) holdAnswer(host string, bytes int) error { return noRoomForAnswer(c.hold(host, bytes)) }

// Charge opens a charge for what hosts answer that no call waits for. hold is as that of a
// [Parcel]; letGo, to be called once, gives back what it has taken.
func (e *Engine) Charge() (hold func(host string, bytes int) error, letGo func()) {
	told := new(toldBytes)
	return func(host string, bytes int) error { return noRoomForAnswer(told.take(e.unread, host, bytes)) }, func() { told.give(e.unread) }
}

// noRoomForAnswer is the refusal of a host's answer. What was asked may be done all the same.
func noRoomForAnswer(err error) error {
	err = exceeded(err, codeOverloaded, "the intent's host has too many answers on their way here; look what was done when they have come, then try again")
	if e, ok := errors.AsType[*Error](err); ok {
		return e.with("delivered", "unknown")
	}
	return err
}

// letGo gives back what hosts are charged for until now.
func (c *call) letGo() { c.told.give(c.e.unread) }

// enterList reads up to the first element of a list, which is the member of an object
// unless its name is empty.
func enterList(d *jsontext.Decoder, name string) bool {
	if name != "" {
		if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
			return false
		}
		for found := false; !found; {
			t, err := d.ReadToken()
			if err != nil || t.Kind() != '"' {
				return false
			}
			if found = t.String() == name; !found && d.SkipValue() != nil {
				return false
			}
		}
	}
	t, err := d.ReadToken()
	return err == nil && t.Kind() == '['
}

// aheadTime is how far the clock of a host may be ahead of the one here.
const aheadTime = 24 * time.Hour

// gatherIntents returns the intents of other hosts, as many of each as the page may need.
func (c *call) gatherIntents(status string, need int) (all []listed) {
	need = min(need, maxList)
	query := url.Values{"limit": {strconv.Itoa(need)}}
	if status != "" {
		query.Set("status", status)
	}
	latest := now().Add(aheadTime)
	gather(c, "intents", query, "intents", need, func(host string, in *Intent) bool {
		prefix, digits, at, _, ok := splitID(in.ID)
		return ok && prefix == idIntent && strings.HasPrefix(host, digits) && at <= latest
	}, func(host string, theirs []Intent) {
		seen := make(map[string]bool)
		for _, in := range theirs {
			if seen[in.ID] {
				continue
			}
			seen[in.ID] = true
			in.Host = host
			all = append(all, listed{ulid: in.ID[len(in.ID)-ulidLen:], doc: jsontext.Value(text(in))})
		}
	})
	return all
}

// gatherAgents adds the agents of other daemons to those that are known here. Those here
// come first: whatever hosts say, they stay in the list.
func (c *call) gatherAgents(list []Agent, status, role string) []Agent {
	query := url.Values{}
	for name, v := range map[string]string{"status": status, "role_id": role} {
		if v != "" {
			query.Set(name, v)
		}
	}
	gather(c, "agents", query, "", maxList, func(_ string, a *Agent) bool { return a.Host == "" && validAgentID(a.AgentID) }, func(host string, theirs []Agent) {
		// What a daemon says of its own agents goes before what it once told.
		list = slices.DeleteFunc(list, func(a Agent) bool { return a.Host == host })
		seen := make(map[string]bool)
		for _, a := range theirs {
			if !seen[a.AgentID] {
				seen[a.AgentID] = true
				a.Host = host
				list = append(list, a)
			}
		}
	})
	slices.SortFunc(list, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(min(len(a.Host), 1), min(len(b.Host), 1)), cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Host, b.Host))
	})
	return list
}
