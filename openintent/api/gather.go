package api

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/chain"
)

// gather gets a list from the other hosts too, if the caller is an agent here. Of each it
// takes at most so many elements, and none after one that is not of the form or that check
// refuses. list names the member that holds the list; empty: the answer is the list. A
// host that gives none is left out, and stands in a header. What hosts have said is charged
// to them until the call is over.
func gather[T any](r *request, path string, query url.Values, list string, most int, check func(host string, one *T) bool, take func(host string, all []T)) {
	if r.e.Config().Gather == nil || r.Caller.Home != "" || r.Caller.Operator {
		return
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	lists, missing := r.e.Config().Gather(r.Context(), r.Caller, path, r.Hold)
	if len(missing) > 0 {
		slices.Sort(missing)
		r.w.Header().Set(headerMissing, strings.Join(missing, ", "))
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
func (r *request) gatherIntents(status string, need int) (all []openintent.Intent) {
	need = min(need, openintent.MaxList)
	query := url.Values{"limit": {strconv.Itoa(need)}}
	if status != "" {
		query.Set("status", status)
	}
	latest := chain.Time(time.Now().UnixMicro()).Add(aheadTime)
	gather(r, "intents", query, "intents", need, func(host string, in *openintent.Intent) bool {
		return openintent.IsIntentOf(host, in.ID, latest)
	}, func(host string, theirs []openintent.Intent) {
		seen := make(map[string]bool)
		for _, in := range theirs {
			if seen[in.ID] {
				continue
			}
			seen[in.ID] = true
			in.Host = host
			all = append(all, in)
		}
	})
	return all
}

// gatherAgents adds the agents of other daemons to those that are known here. Those here
// come first: whatever hosts say, they stay in the list.
func (r *request) gatherAgents(list []openintent.Agent, status, role string) []openintent.Agent {
	query := url.Values{}
	for name, v := range map[string]string{"status": status, "role_id": role} {
		if v != "" {
			query.Set(name, v)
		}
	}
	gather(r, "agents", query, "", openintent.MaxList, func(_ string, a *openintent.Agent) bool { return a.Host == "" && openintent.ValidAgentID(a.AgentID) }, func(host string, theirs []openintent.Agent) {
		// What a daemon says of its own agents goes before what it once told.
		list = slices.DeleteFunc(list, func(a openintent.Agent) bool { return a.Host == host })
		seen := make(map[string]bool)
		for _, a := range theirs {
			if !seen[a.AgentID] {
				seen[a.AgentID] = true
				a.Host = host
				list = append(list, a)
			}
		}
	})
	return list
}
