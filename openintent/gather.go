package openintent

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// gather gets a list from the other hosts too, if the caller is an agent here.
// A host that gives no list of that form is left out.
func gather[T any](c *call, path string, query url.Values, take func(host string, list T)) {
	if c.e.cfg.Gather == nil || c.who.Home != "" || c.who.Operator {
		return
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	all := c.e.cfg.Gather(c.Context(), c.who, path)
	for host, body := range all {
		var list T
		if json.Unmarshal(body, &list) == nil {
			take(host, list)
		}
	}
}

// gatherIntents returns the intents of other hosts, as many of each as the page
// may need.
func (c *call) gatherIntents(status string, need int) (all []listed) {
	query := url.Values{"limit": {strconv.Itoa(min(need, maxList))}}
	if status != "" {
		query.Set("status", status)
	}
	type theirs struct {
		Intents []jsontext.Value `json:"intents"`
	}
	gather(c, "intents", query, func(host string, list theirs) {
		for _, doc := range list.Intents {
			var in Intent
			if json.Unmarshal(doc, &in) != nil {
				continue
			}
			if digits, ok := HostOf(in.ID); ok && strings.HasPrefix(host, digits) {
				in.Host = host
				all = append(all, listed{ulid: in.ID[len(in.ID)-ulidLen:], doc: jsontext.Value(text(in))})
			}
		}
	})
	return all
}

// gatherAgents adds the agents of other daemons to those that are known here.
func (c *call) gatherAgents(list []Agent, status, role string) []Agent {
	query := url.Values{}
	for name, v := range map[string]string{"status": status, "role_id": role} {
		if v != "" {
			query.Set(name, v)
		}
	}
	gather(c, "agents", query, func(host string, theirs []Agent) {
		// What a daemon says of its own agents goes before what it once told.
		list = slices.DeleteFunc(list, func(a Agent) bool { return a.Host == host })
		for _, a := range theirs {
			if a.Host == "" && validAgentID(a.AgentID) {
				a.Host = host
				list = append(list, a)
			}
		}
	})
	slices.SortFunc(list, func(a, b Agent) int { return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Host, b.Host)) })
	return list
}
