package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/yamldoc"
	"github.com/acpd/acpd/kinds"
)

// LimitsCalls reports whether any agent may not call every peer.
func (a *Agents) LimitsCalls() bool {
	for _, named := range a.Named {
		if named.To != nil {
			return true
		}
	}
	return false
}

// MayCall reports whether an agent may call a trusted peer, and the setting that decides. agent
// is "" for a caller that is no agent; name is the peer's petname.
func (a *Agents) MayCall(agent string, peer identity.ID, name string) (allowed bool, setting string) {
	key := agent
	named, ok := a.Named[key]
	if !ok || agent == "" || agent == star {
		key = star
		named, ok = a.Named[key]
	}
	if !ok || named.To == nil {
		return true, ""
	}
	id := peer.String()
	return slices.ContainsFunc(named.To, func(ref string) bool { return ref == id || ref == name && name != "" }), yamldoc.JoinKey("agents", key+".to")
}

// defaultTurns is how many turns of a session peers may cause in an hour without a setting.
const defaultTurns = 20

// FindTurns returns how many turns of an agent peers may cause in an hour.
func (a *Agents) FindTurns(agent string) int {
	return cmp.Or(a.Named[agent].Turns.Hour, a.Named[star].Turns.Hour, defaultTurns)
}

// FindMostTurns returns how many turns peers may cause in an hour of the agent with the largest such number.
func (a *Agents) FindMostTurns() int {
	most := a.FindTurns(star)
	for name := range a.Named {
		most = max(most, a.FindTurns(name))
	}
	return most
}

// FindMisnamed returns the attached agent that the entry of a name was probably meant for, or "".
// attached are the names of all attached agents; one with an entry of its own is not returned.
func (a *Agents) FindMisnamed(name string, attached []string) string {
	if name == star || slices.Contains(attached, name) {
		return ""
	}
	return yamldoc.FindNearestWord(name, slices.DeleteFunc(slices.Clone(attached), func(other string) bool {
		_, has := a.Named[other]
		return has || strings.HasPrefix(other, name+"-") // claude-2 is the second claude
	}))
}

// FindWake returns what the settings say of a peer that would wake an agent for a kind, and
// false if they say nothing. name is the peer's petname; the entry of its id goes first.
func (a *Agents) FindWake(agent string, peer identity.ID, name, kind string) (Wake, bool) {
	named, ok := a.Named[agent]
	if !ok || agent == star || len(named.Wake) == 0 {
		return Wake{}, false
	}
	w, ok := named.Wake[peer.String()]
	if !ok {
		w, ok = named.Wake[name]
	}
	return w, ok && (w.Kinds == nil && kinds.Has(kind, kinds.Wakes) || slices.Contains(w.Kinds, kind))
}
