// Package registry holds the agents that are attached to a daemon, and chooses
// among them.
//
// A place of an agent is reserved for each request, and each delegation that an
// agent has accepted counts as one more. One place of an agent is left to other
// peers. The name of an agent that leaves open work is kept for the agent that has its key.
//
// The registry calls nothing while it is locked, so a caller may hold a lock of its own,
// as the table of delegations does.
//
// It leaves to others which delegations are open (package delegation), and what is
// said to an agent (package agents).
package registry

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// Bounds of the registry.
const (
	MaxAgents         = 256
	maxGuests         = 224 // of them in the agents' folder, so that these shut nobody out of acp.sock
	maxDeclared       = 64  // domains or topics of one agent
	maxConcurrent     = 1 << 16
	maxDeclaration    = 16 << 10  // bytes that an agent declares of itself, in JSON
	maxDescribed      = 512 << 10 // bytes of what agents declare in an answer about all of them, shared among them
	defaultConcurrent = 4
)

// Agent is an attached agent: a connection that answers. Its exported fields never change.
type Agent struct {
	client.AttachParams
	Conn    *jsonrpc.Conn
	KeyHash KeyHash // of its key
	IsGuest bool    // it came through the agents' folder
	since   time.Time

	running   int                 // requests under way; guarded by Registry.mu
	runningOf map[identity.ID]int // the same by the peers that sent them
}

// Reservation is a place of an agent that is reserved for a request of a peer.
type Reservation struct {
	Agent    *Agent
	peer     identity.ID // that sent the request
	released bool        // guarded by Registry.mu
}

// IsSession reports whether the agent is a live session, which answers only while it has a turn.
func (a *Agent) IsSession() bool { return a.Session != nil }

// takesKind reports whether the agent wants messages of a kind.
func (a *Agent) takesKind(kind string) bool {
	return len(a.Kinds) == 0 || slices.Contains(a.Kinds, kind)
}

// Registry holds the attached agents, and decides which of them gets a message.
type Registry struct {
	// Certified is as in [budget.Book], and IsTrustedConnected reports whether a peer is connected that the
	// owner trusts. They must not block, nor call the registry. Nil: the owner trusts all peers.
	Certified          func(identity.ID) (name string, ok bool)
	IsTrustedConnected func() bool

	mu             sync.Mutex               // guards the rest, and running of each agent
	attached       []*Agent                 // the last attached last
	protectedNames map[string]protectedName // by name; only names of open delegations, so as bounded as these
	accepted       map[string]map[identity.ID]int
	// accepted counts the accepted delegations by the agent's name and by the peer that sent
	// them. They stay the agent's work while it is away.
}

// NewRegistry returns a registry without agents.
func NewRegistry() *Registry {
	return &Registry{protectedNames: make(map[string]protectedName), accepted: make(map[string]map[identity.ID]int)}
}

// Attach registers an agent, whose params then hold its key. open are the names that have
// open work: while one of them is kept, a guest needs its key. Attach returns the agents
// that it replaces: one on the same connection, and one of the same name.
func (r *Registry) Attach(conn *jsonrpc.Conn, p client.AttachParams, guest bool, open map[string]bool) (a *Agent, replaced []*Agent, err error) {
	if err := checkAttachParams(&p); err != nil {
		return nil, nil, err
	}
	shown := p.Key != ""
	if !shown {
		p.Key = NewAgentKey()
	}
	key, err := HashAgentKey("attach", p.Key)
	if err != nil {
		return nil, nil, err
	}
	if p.MaxConcurrent == 0 {
		p.MaxConcurrent = defaultConcurrent
	}
	a = &Agent{AttachParams: p, Conn: conn, KeyHash: key, IsGuest: guest, since: time.Now(), runningOf: make(map[identity.ID]int)}
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []*Agent
	guests := 0
	for _, old := range r.attached {
		if old.Name == p.Name && old.Conn == conn {
			a.since = old.since
		}
		switch {
		case old.Name == p.Name && (p.TakeOver || old.KeyHash == key), old.Name != p.Name && old.Conn == conn:
			replaced = append(replaced, old)
		case old.Name == p.Name && old.Conn == conn && !shown:
			a.Key, a.KeyHash = old.Key, old.KeyHash // the same agent declares itself anew
			replaced = append(replaced, old)
		case old.Name == p.Name && guest:
			return nil, nil, kinds.Errorf(kinds.Invalid, "attach: name: an agent %q is attached already: choose another name", p.Name).WithReason(kinds.ReasonNameTaken)
		case old.Name == p.Name:
			return nil, nil, kinds.Errorf(kinds.Invalid, "attach: name: an agent %q is attached already: choose another name, or set take_over to replace it", p.Name).WithReason(kinds.ReasonNameTaken)
		default:
			others = append(others, old)
			if old.IsGuest {
				guests++
			}
		}
	}
	if len(others) >= MaxAgents || guest && guests >= maxGuests {
		return nil, nil, kinds.Errorf(kinds.Overloaded, "attach: %d agents are attached, the most there can be: detach one first", len(others))
	}
	if k, ok := r.protectedNames[p.Name]; ok && guest && k.key != a.KeyHash {
		if left := NameKeptFor - time.Since(k.since); left > 0 && open[p.Name] {
			return nil, nil, kinds.Errorf(kinds.NotAuthorized, "attach: name: the last agent %q left open delegations, and its name is kept for it for %s more: show its key, choose another name, or wait",
				p.Name, left.Round(time.Second)).WithReason(kinds.ReasonNameTaken)
		}
	}
	for _, old := range replaced {
		if old.Name != p.Name {
			r.protectNameWithOpenWork(old, open)
		}
	}
	delete(r.protectedNames, p.Name)
	r.attached = append(others, a)
	return a, replaced, nil
}

func checkAttachParams(p *client.AttachParams) error {
	if err := identity.CheckAgentName(p.Name); err != nil {
		return kinds.Errorf(kinds.Invalid, "attach: name: %v", err)
	}
	offered := kinds.ListNames(kinds.Offered)
	switch {
	case len(p.Domains) > maxDeclared || len(p.Topics) > maxDeclared:
		return kinds.Errorf(kinds.Invalid, "attach: domains, topics: at most %d of each", maxDeclared)
	case len(p.Kinds) > len(offered):
		return kinds.Errorf(kinds.Invalid, "attach: kinds: at most %d: name each once", len(offered))
	case p.MaxConcurrent < 0 || p.MaxConcurrent > maxConcurrent:
		return kinds.Errorf(kinds.Invalid, "attach: max_concurrent: expected 1 to %d", maxConcurrent)
	}
	if n := len(kinds.EncodePayload(&client.AttachParams{Domains: p.Domains, Topics: p.Topics, Capabilities: p.Capabilities})); n > maxDeclaration {
		return kinds.Errorf(kinds.TooLarge, "attach: domains, topics, capabilities: %d bytes: declare at most %d", n, maxDeclaration)
	}
	if err := kinds.CheckAbout("about", p.About); err != nil {
		return kinds.Errorf(kinds.Invalid, "attach: %s", err)
	}
	if s := p.Session; s != nil {
		for _, text := range []string{s.Harness, s.Version, s.Asks, s.Folder} {
			if len(text) > client.MaxSessionText || identity.CleanClaim(text) != text {
				return kinds.Errorf(kinds.Invalid, "attach: session: harness, version, asks, folder: expected at most %d printable bytes of each", client.MaxSessionText)
			}
		}
		if why := s.Unwakeable; len(why) > client.MaxReason || strings.ContainsFunc(why, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return kinds.Errorf(kinds.Invalid, "attach: session: unwakeable: expected one line of at most %d printable bytes", client.MaxReason)
		}
	}
	for _, k := range p.Kinds {
		if !slices.Contains(offered, k) {
			return kinds.Errorf(kinds.Invalid, "attach: kinds: %q: expected some of %s", k, strings.Join(offered, ", "))
		}
	}
	for i, d := range slices.Concat(p.Domains, p.Topics) {
		field := "domains"
		if i >= len(p.Domains) {
			field = "topics"
		}
		if err := kinds.CheckDomain(field, d); err != nil {
			return kinds.Errorf(kinds.Invalid, "attach: %s", err)
		}
	}
	return nil
}

// Detach removes the agent of a connection and returns it, or nil. It keeps
// the agent's name if that is one of open, the names with open work, for which it asks
// while it is not locked.
func (r *Registry) Detach(conn *jsonrpc.Conn, open func() map[string]bool) *Agent {
	if r.FindByConn(conn) == nil {
		return nil
	}
	working := open() // not under mu: a delegation that changes asks here while it is locked
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range r.attached {
		if a.Conn == conn {
			r.attached = slices.Delete(r.attached, i, i+1)
			r.protectNameWithOpenWork(a, working)
			return a
		}
	}
	return nil
}

// FindByConn returns the agent of a connection, or nil if it has not attached.
func (r *Registry) FindByConn(conn *jsonrpc.Conn) *Agent {
	return r.find(func(a *Agent) bool { return a.Conn == conn })
}

func (r *Registry) find(is func(*Agent) bool) *Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.attached, is); i >= 0 {
		return r.attached[i]
	}
	return nil
}

// AdjustAcceptedCount adds n to the accepted delegations of a name. In the same step it gives back the
// place that one of them had until now, if any, so that no delegation is counted twice.
func (r *Registry) AdjustAcceptedCount(name string, from identity.ID, n int, had *Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releasePlaceLocked(had)
	by := r.accepted[name]
	if by == nil {
		by = make(map[identity.ID]int)
		r.accepted[name] = by
	}
	if by[from] += n; by[from] == 0 {
		delete(by, from)
	}
	if len(by) == 0 {
		delete(r.accepted, name)
	}
}

// countActive returns how many requests and delegations an agent works on. The caller holds mu.
func (r *Registry) countActive(a *Agent) int { return a.running + r.countAccepted(a.Name) }

// CountActive returns on how many queries and delegations the agent of a name works.
func (r *Registry) CountActive(name string) int {
	a := r.FindByName(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if a == nil {
		return 0
	}
	return r.countActive(a)
}

func (r *Registry) countAccepted(name string) (n int) {
	for _, m := range r.accepted[name] {
		n += m
	}
	return n
}

// ReleasePlace gives back a place, unless that was done before.
func (r *Registry) ReleasePlace(p *Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releasePlaceLocked(p)
}

// releasePlaceLocked does what ReleasePlace does. The caller holds mu.
func (r *Registry) releasePlaceLocked(p *Reservation) {
	if p == nil || p.released {
		return
	}
	p.released = true
	p.Agent.running--
	if p.Agent.runningOf[p.peer]--; p.Agent.runningOf[p.peer] == 0 {
		delete(p.Agent.runningOf, p.peer)
	}
}

// ProtectName reserves a name for the agent with a key, which left it at a time.
func (r *Registry) ProtectName(name string, key KeyHash, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.protectedNames[name] = protectedName{key, since}
}

// FindByName returns the attached agent of a name, or nil.
func (r *Registry) FindByName(name string) *Agent {
	return r.find(func(a *Agent) bool { return a.Name == name })
}

// SummarizeLoad returns what pong says of all agents together.
func (r *Registry) SummarizeLoad() (state client.DaemonState, active, attached int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := len(r.attached) > 0
	for _, a := range r.attached {
		active += a.running
		full = full && r.countActive(a) >= a.MaxConcurrent
	}
	for name := range r.accepted {
		active += r.countAccepted(name)
	}
	switch {
	case full:
		state = client.DaemonOverloaded
	case active > 0:
		state = client.DaemonBusy
	default:
		state = client.DaemonIdle
	}
	return state, active, len(r.attached)
}

// ListAgents describes the attached agents, of their domains and topics what there is room for in
// one answer.
func (r *Registry) ListAgents() []client.Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]client.Agent, 0, len(r.attached))
	for _, a := range r.attached {
		room := r.describedShare()
		all = append(all, client.Agent{
			Name: a.Name, Kinds: a.Kinds, Domains: appendWithin(&room, nil, a.Domains), Topics: appendWithin(&room, nil, a.Topics),
			MaxConcurrent: a.MaxConcurrent, Active: r.countActive(a), Since: a.since.UTC(), Session: a.Session, About: a.About,
		})
	}
	return all
}

// describedShare returns the bytes that an answer about all agents has for what one declares. The
// caller holds mu.
func (r *Registry) describedShare() int { return maxDescribed / max(len(r.attached), 1) }

// appendWithin appends texts to a list while there is room for them in JSON, and takes it off room.
func appendWithin(room *int, list, texts []string) []string {
	for _, text := range texts {
		quoted, _ := jsontext.AppendQuote(nil, text)
		if *room -= len(quoted) + 1; *room < 0 {
			break
		}
		list = append(list, text)
	}
	return list
}

// DescribeCapabilities answers discover: with what the named agent declared, or with what
// all declared, under the daemon's own name.
func (r *Registry) DescribeCapabilities(self, name string) (*kinds.Capabilities, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := &kinds.Capabilities{AgentName: self}
	n := 0
	for _, a := range r.attached {
		if name != "" && a.Name != name {
			continue
		}
		n++
		room := r.describedShare()
		sum.Domains = appendWithin(&room, sum.Domains, a.Domains)
		sum.MaxConcurrentTasks += uint64(a.MaxConcurrent)
		if c := a.Capabilities; c != nil {
			sum.Domains = appendWithin(&room, sum.Domains, c.Domains)
			sum.Channels = appendWithin(&room, sum.Channels, c.Channels)
			sum.Tools = appendWithin(&room, sum.Tools, c.Tools)
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
		answers := kinds.AnswersNow
		if a.Session != nil {
			answers = kinds.AnswersTurn
			sum.Sessions = append(sum.Sessions, a.Name)
		}
		if a.takesKind(kinds.KindQuery) || a.takesKind(kinds.KindDelegate) {
			sum.Details = append(sum.Details, kinds.AgentDetails{Name: a.Name, About: a.About, Answers: answers})
		}
	}
	if name != "" && n == 0 {
		return nil, kinds.Errorf(kinds.NoAgent, "no agent %q is attached", name)
	}
	if n != 1 {
		sum.Model = "" // several answer for themselves
	}
	for _, list := range []*[]string{&sum.Agents, &sum.Sessions, &sum.Domains, &sum.Channels, &sum.Tools} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	sort.Slice(sum.Details, func(i, k int) bool { return sum.Details[i].Name < sum.Details[k].Name })
	sum.Details = sum.Details[:min(len(sum.Details), kinds.MaxDetails)]
	return sum, nil
}
