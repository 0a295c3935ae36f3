package daemon

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Bounds of the registry.
const (
	maxAgents         = 256
	maxDeclared       = 64 // domains or topics of one agent
	defaultConcurrent = 4
)

// offered are the kinds that an agent can declare.
var offered = [...]string{kinds.KindQuery, kinds.KindDelegate, kinds.KindCancel, kinds.KindNotify, kinds.KindResult, kinds.KindError}

// agent is an attached agent: a connection that answers. Its fields but running
// never change.
type agent struct {
	client.AttachParams
	conn  *client.Conn
	since time.Time

	running int // requests under way; under agents.mu
}

// takes reports whether the agent wants messages of a kind.
func (a *agent) takes(kind string) bool { return len(a.Kinds) == 0 || slices.Contains(a.Kinds, kind) }

// agents is the registry of what is attached, and the one place that chooses who
// gets a message.
type agents struct {
	mu       sync.Mutex // guards the rest, and running of each agent
	attached []*agent   // the last attached last
	load     map[string]int
	// load counts the accepted delegations by the agent's name: they stay its work
	// while it is away.
}

func newAgents() *agents { return &agents{load: make(map[string]int)} }

// attach registers an agent. Those that it replaces are returned: the one that was
// on the same connection, and one of the same name.
func (r *agents) attach(conn *client.Conn, p client.AttachParams) (a *agent, replaced []*agent, err error) {
	if err := checkAttach(&p); err != nil {
		return nil, nil, err
	}
	if p.MaxConcurrent == 0 {
		p.MaxConcurrent = defaultConcurrent
	}
	a = &agent{AttachParams: p, conn: conn, since: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []*agent
	for _, old := range r.attached {
		switch {
		case old.conn == conn, old.Name == p.Name && p.TakeOver:
			replaced = append(replaced, old)
		case old.Name == p.Name:
			return nil, nil, kinds.Errorf(kinds.Invalid, "attach: name: an agent %q is attached already: choose another name, or set take_over to replace it", p.Name)
		default:
			others = append(others, old)
		}
	}
	if len(others) >= maxAgents {
		return nil, nil, kinds.Errorf(kinds.Overloaded, "attach: %d agents are attached, the most there can be: detach one first", maxAgents)
	}
	r.attached = append(others, a)
	return a, replaced, nil
}

func checkAttach(p *client.AttachParams) error {
	switch {
	case p.Name == "" || len(p.Name) > wire.MaxLabel || strings.Contains(p.Name, "/") || identity.Claim(p.Name) != p.Name:
		return kinds.Errorf(kinds.Invalid, "attach: name: expected 1 to %d printable bytes without a slash", wire.MaxLabel)
	case len(p.Domains) > maxDeclared || len(p.Topics) > maxDeclared:
		return kinds.Errorf(kinds.Invalid, "attach: domains, topics: at most %d of each", maxDeclared)
	case p.MaxConcurrent < 0:
		return kinds.Errorf(kinds.Invalid, "attach: max_concurrent: expected 1 or more")
	}
	for _, k := range p.Kinds {
		if !slices.Contains(offered[:], k) {
			return kinds.Errorf(kinds.Invalid, "attach: kinds: %q: expected some of %s", k, strings.Join(offered[:], ", "))
		}
	}
	for _, d := range p.Domains {
		if err := kinds.CheckDomain("domains", d); err != nil {
			return kinds.Errorf(kinds.Invalid, "attach: %s", err)
		}
	}
	for _, t := range p.Topics {
		if err := kinds.CheckDomain("topics", t); err != nil {
			return kinds.Errorf(kinds.Invalid, "attach: %s", err)
		}
	}
	return nil
}

// detach removes the agent of a connection and returns it, nil if there was none.
func (r *agents) detach(conn *client.Conn) *agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range r.attached {
		if a.conn == conn {
			r.attached = slices.Delete(r.attached, i, i+1)
			return a
		}
	}
	return nil
}

// nameOf returns the name under which a connection has attached, or "".
func (r *agents) nameOf(conn *client.Conn) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attached {
		if a.conn == conn {
			return a.Name
		}
	}
	return ""
}

// work adds to the accepted delegations of a name.
func (r *agents) work(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.load[name] += n; r.load[name] == 0 {
		delete(r.load, name)
	}
}

// active is what an agent has to do. The caller holds mu.
func (r *agents) active(a *agent) int { return a.running + r.load[a.Name] }

func (r *agents) release(a *agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.running--
}

// named returns the attached agent of a name, or nil.
func (r *agents) named(name string) *agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attached {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// summary is what pong says of all agents together.
func (r *agents) summary() (status string, active, attached int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := len(r.attached) > 0
	for _, a := range r.attached {
		active += a.running
		full = full && r.active(a) >= a.MaxConcurrent
	}
	for _, n := range r.load {
		active += n
	}
	switch {
	case full:
		status = "overloaded"
	case active > 0:
		status = "busy"
	default:
		status = "idle"
	}
	return status, active, len(r.attached)
}

// list describes the attached agents.
func (r *agents) list() []client.Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]client.Agent, 0, len(r.attached))
	for _, a := range r.attached {
		all = append(all, client.Agent{
			Name: a.Name, Kinds: a.Kinds, Domains: a.Domains, Topics: a.Topics,
			MaxConcurrent: a.MaxConcurrent, Active: r.active(a), Since: a.since.UTC(),
		})
	}
	return all
}

// capabilities answers discover: what the named agent registered, or all of them
// together under the daemon's name.
func (r *agents) capabilities(self, name string) (*kinds.Capabilities, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := &kinds.Capabilities{AgentName: self}
	n := 0
	for _, a := range r.attached {
		if name != "" && a.Name != name {
			continue
		}
		n++
		sum.Domains = append(sum.Domains, a.Domains...)
		sum.MaxConcurrentTasks += uint64(a.MaxConcurrent)
		if c := a.Capabilities; c != nil {
			sum.Domains = append(sum.Domains, c.Domains...)
			sum.Channels = append(sum.Channels, c.Channels...)
			sum.Tools = append(sum.Tools, c.Tools...)
			sum.Model = c.Model
			if name != "" && c.AgentName != "" {
				sum.AgentName = c.AgentName
			}
		}
		if name != "" && sum.AgentName == self {
			sum.AgentName = a.Name
		}
		if name == "" {
			sum.Agents = append(sum.Agents, a.Name)
		}
	}
	if name != "" && n == 0 {
		return nil, kinds.Errorf(kinds.NoAgent, "no agent %q is attached", name)
	}
	if n != 1 {
		sum.Model = "" // several answer for themselves
	}
	for _, list := range []*[]string{&sum.Agents, &sum.Domains, &sum.Channels, &sum.Tools} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return sum, nil
}
