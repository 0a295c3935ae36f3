package openintent

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Coordinator is a coordinator's lease (RFC-0013), as far as channels need it.
type Coordinator struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	AgentID       string         `json:"agent_id"`
	Home          string         `json:"home,omitzero"`
	Role          string         `json:"role"`
	Type          string         `json:"coordinator_type"`
	Scope         string         `json:"scope"`
	Status        string         `json:"status"`
	Interval      int64          `json:"heartbeat_interval_seconds"`
	LastHeartbeat chain.Time     `json:"last_heartbeat"`
	GrantedAt     chain.Time     `json:"granted_at"`
	ExpiresAt     chain.Time     `json:"expires_at"`
	Version       int64          `json:"version"`
	Metadata      jsontext.Value `json:"metadata"`
}

type coordinator struct {
	in  *intent
	doc Coordinator
}

// A coordinator that misses this many heartbeats is none any more.
const missedHeartbeats = 3

func (co *coordinator) live(at chain.Time) bool { return co.doc.ExpiresAt > at }

func (co *coordinator) shown(at chain.Time) Coordinator {
	doc := co.doc
	if !co.live(at) {
		doc.Status = "unresponsive"
	}
	return doc
}

var coordinatorTypes = []string{"llm", "human", "composite", "system"}

// Appoint is a coordinator as it is asked for.
type Appoint struct {
	AgentID  string         `json:"agent_id"`
	Home     string         `json:"home,omitzero"`
	IntentID string         `json:"intent_id"`
	Role     string         `json:"role"`
	Type     string         `json:"coordinator_type"`
	Interval int64          `json:"heartbeat_interval_seconds"`
	Metadata jsontext.Value `json:"metadata"`
}

// Check fills in what is not said, and checks what needs no intent.
func (a *Appoint) Check() error {
	if !validName(a.AgentID) {
		return BadAgentID("agent_id")
	}
	if !slices.Contains(coordinatorTypes, a.Type) {
		return Invalid("coordinator_type", "one of %s", strings.Join(coordinatorTypes, ", "))
	}
	if a.Interval < 1 || a.Interval > 86400 || len(a.Role) > maxAgentID {
		return Invalid("heartbeat_interval_seconds", "1 to 86400 seconds")
	}
	return metadata(&a.Metadata)
}

// NewAppoint returns what an appointment by the caller says unless it says something else.
func NewAppoint(c *Call) *Appoint {
	return &Appoint{AgentID: c.Caller.Agent, Role: roleCoordinator, Type: "llm", Interval: 60}
}

// AppointCoordinator appoints a coordinator of an intent. want was checked.
func (e *Engine) AppointCoordinator(c *Call, want *Appoint) (doc Coordinator, err error) {
	// A coordinator manages every channel of the intent, so only an admin appoints one.
	err = e.writeIntent(c, want.IntentID, levelAdmin, func(t *tx, in *intent) error {
		if in.terminal() {
			return Refuse("intent_terminal", "the intent is %s: there is nothing to coordinate", in.status)
		}
		if len(in.coords) >= maxEntries {
			if err := t.dropCoordinator(in); err != nil {
				return err
			}
		}
		k, err := c.grantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return err
		}
		doc = Coordinator{ID: e.newID(idCoordinator, t.now), IntentID: in.id, AgentID: k.id, Home: k.home, Role: want.Role, Type: want.Type,
			Scope: "intent", Status: "active", Interval: want.Interval, GrantedAt: t.now, Metadata: want.Metadata}.beaten(t.now)
		if err := t.saveCoordinator(in, doc); err != nil {
			return err
		}
		co, keys := &coordinator{in: in, doc: doc}, []agentKey{k}
		t.apply(
			step{func() { in.coords = append(in.coords, co) }, func() { in.coords = in.coords[:len(in.coords)-1] }},
			step{func() { e.coords[doc.ID] = co }, func() { delete(e.coords, doc.ID) }},
			step{func() { e.reserve(in, keys, 1) }, func() { e.reserve(in, keys, -1) }},
		)
		return nil
	})
	return doc, err
}

// dropCoordinator makes room for one more coordinator of an intent: of those that were
// silent for too long the one that was appointed first goes.
func (t *tx) dropCoordinator(in *intent) error {
	i := slices.IndexFunc(in.coords, func(co *coordinator) bool { return !co.live(t.now) })
	if i < 0 {
		return tooMany("coordinators of this intent", maxEntries, "let one of them go on")
	}
	co := in.coords[i]
	if _, err := t.Exec("DELETE FROM openintent_coordinator WHERE id = ?", co.doc.ID); err != nil {
		return err
	}
	before, keys := in.coords, []agentKey{{co.doc.Home, co.doc.AgentID}}
	t.apply(
		step{func() { in.coords = slices.Delete(slices.Clone(before), i, i+1) }, func() { in.coords = before }},
		step{func() { delete(t.e.coords, co.doc.ID) }, func() { t.e.coords[co.doc.ID] = co }},
		step{func() { t.e.reserve(in, keys, -1) }, func() { t.e.reserve(in, keys, 1) }},
	)
	return nil
}

// beaten returns the document after a heartbeat.
func (d Coordinator) beaten(at chain.Time) Coordinator {
	d.LastHeartbeat, d.Version = at, d.Version+1
	d.ExpiresAt = at + chain.Time(d.Interval*missedHeartbeats*1e6)
	return d
}

func (e *Engine) coordinator(c *Call, id string) (*coordinator, error) {
	var co *coordinator
	e.rlocked(func() { co = e.coords[id] })
	if co == nil {
		return nil, notFound("coordinator")
	}
	if _, err := e.intent(c, co.in.id, levelRead); err != nil {
		return nil, hidden(err, "coordinator")
	}
	return co, nil
}

// GetCoordinator returns a coordinator.
func (e *Engine) GetCoordinator(c *Call, id string) (Coordinator, error) {
	co, err := e.coordinator(c, id)
	if err != nil {
		return Coordinator{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return co.shown(now()), nil
}

// ListCoordinators returns a page of the intent's coordinators.
func (e *Engine) ListCoordinators(c *Call, intentID string, p Page) (list []Coordinator, err error) {
	in, err := e.intent(c, intentID, levelRead)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	at := now()
	e.rlocked(func() {
		for _, co := range PageOf(in.coords, p) {
			list = append(list, co.shown(at))
		}
	})
	return list, nil
}

// BeatCoordinator takes a sign of life of a coordinator, from itself.
func (e *Engine) BeatCoordinator(c *Call, id string) (doc Coordinator, err error) {
	if _, err := e.coordinator(c, id); err != nil {
		return doc, err
	}
	err = e.write(c.Context(), false, func(t *tx) error {
		co := e.coords[id]
		if co == nil { // it has made room for another
			return notFound("coordinator")
		}
		if !c.Caller.Operator && (co.doc.AgentID != c.Caller.Agent || co.doc.Home != c.Caller.Home) {
			return Refuse("not_yours", "only the coordinator may report its life")
		}
		if !co.live(t.now) {
			return Refuse("coordinator_gone", "the coordinator has been silent for too long: let an admin of the intent appoint it again")
		}
		doc = co.doc.beaten(t.now)
		if err := t.saveCoordinator(co.in, doc); err != nil {
			return err
		}
		set(t, &co.doc, doc)
		return nil
	})
	return doc, err
}
