package api

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// gatherHostLists gets a list from each other host in reach, if the caller is an agent here. list
// names the member of the answer that holds the list; if it is empty, the answer is the list.
// Of each list it takes at most so many elements, up to the first that is malformed or that check
// refuses. Of elements with the same id it keeps the first. Hosts that gave no list stand in the
// header X-Missing-Hosts. Hosts are charged for their lists until the call ends.
func gatherHostLists[T any](r *request, path string, query url.Values, list string, most int, check func(host string, one *T) (id string, ok bool)) map[string][]T {
	if r.e.Config().Gather == nil || r.Caller.Home != "" || r.Caller.Operator {
		return nil
	}
	maps.DeleteFunc(query, func(_ string, v []string) bool { return v[0] == "" })
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	lists, missing := r.e.Config().Gather(r.Context(), r.Caller, path, r.ChargeHost)
	if len(missing) > 0 {
		slices.Sort(missing)
		r.w.Header().Set(headerMissing, strings.Join(missing, ", "))
	}
	taken := make(map[string][]T)
	for host, body := range lists {
		d := jsontext.NewDecoder(bytes.NewBuffer(body))
		if !skipToJSONList(d, list) {
			continue
		}
		taken[host] = nil
		seen := make(map[string]bool)
		for n := 0; n < most && d.PeekKind() != ']'; n++ {
			var one T
			if json.UnmarshalDecode(d, &one) != nil {
				break
			}
			id, ok := check(host, &one)
			if !ok {
				break
			}
			if !seen[id] {
				seen[id] = true
				taken[host] = append(taken[host], one)
			}
		}
	}
	return taken
}

// headerMissing has the ids of the hosts that were in reach and gave no list.
const headerMissing = "X-Missing-Hosts"

// skipToJSONList reads up to the first element of a list, and reports whether there is a list. The
// list is the member of an object with that name; if the name is empty, it is the whole body.
func skipToJSONList(d *jsontext.Decoder, name string) bool {
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

// aheadTime bounds how far the clock of a host may be ahead of the one here.
const aheadTime = 24 * time.Hour

// gatherRemoteIntents returns the intents of other hosts, as many of each as the page may need.
func (r *request) gatherRemoteIntents(status string, need int) []object.Intent {
	need = min(need, object.MaxList)
	query := url.Values{"limit": {strconv.Itoa(need)}, "status": {status}}
	latest := chain.Time(time.Now().UnixMicro()).Add(aheadTime)
	lists := gatherHostLists(r, "intents", query, "intents", need, func(host string, in *object.Intent) (string, bool) {
		in.Host = host
		return in.ID, object.IsIntentIDOf(host, in.ID, latest)
	})
	return slices.Concat(slices.Collect(maps.Values(lists))...)
}

// gatherRemoteAgents returns the agents of other daemons, by the id of their daemon.
func (r *request) gatherRemoteAgents(status, role string) map[string][]object.Agent {
	query := url.Values{"status": {status}, "role_id": {role}}
	return gatherHostLists(r, "agents", query, "", object.MaxList, func(host string, a *object.Agent) (string, bool) {
		if a.Host != "" || !object.IsAgentID(a.AgentID) {
			return "", false
		}
		a.Host = host
		return a.AgentID, true
	})
}
