package openintent

import (
	"slices"

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

// coordinatorRecord keeps a [Coordinator].
type coordinatorRecord struct {
	in  *intentRecord
	doc Coordinator
}

// missedHeartbeats is how many heartbeats a coordinator must miss to lose its role.
const missedHeartbeats = 3

func (co *coordinatorRecord) intent() *intentRecord { return co.in }

// isLive reports whether the coordinator's heartbeats have come in time.
func (co *coordinatorRecord) isLive(at chain.Time) bool { return co.doc.ExpiresAt > at }

// docAt returns the coordinator's object as it is answered.
func (co *coordinatorRecord) docAt(at chain.Time) Coordinator {
	doc := co.doc
	if !co.isLive(at) {
		doc.Status = "unresponsive"
	}
	return doc
}

var coordinatorTypes = []string{"llm", "human", "composite", "system"}

// Appoint asks for a coordinator.
type Appoint struct {
	AgentID  string         `json:"agent_id"`
	Home     string         `json:"home,omitzero"`
	IntentID string         `json:"intent_id"`
	Role     string         `json:"role"`
	Type     string         `json:"coordinator_type"`
	Interval int64          `json:"heartbeat_interval_seconds"`
	Metadata jsontext.Value `json:"metadata"`
}

// Check checks what can be checked without the intent.
func (a *Appoint) Check() error {
	if !isValidAgentName(a.AgentID) {
		return NewAgentIDError("agent_id")
	}
	if err := checkOneOf("coordinator_type", a.Type, coordinatorTypes); err != nil {
		return err
	}
	if a.Interval < 1 || a.Interval > 86400 || len(a.Role) > maxAgentID {
		return NewFieldError("heartbeat_interval_seconds", "1 to 86400 seconds")
	}
	return checkMetadata(&a.Metadata)
}

// NewAppoint returns an appointment of the caller with the default values.
func NewAppoint(c *Call) *Appoint {
	return &Appoint{AgentID: c.Caller.Agent, Role: roleCoordinator, Type: "llm", Interval: 60}
}

// AppointCoordinator appoints a coordinator of an intent. The caller has run want.Check.
func (e *Engine) AppointCoordinator(c *Call, want *Appoint) (doc Coordinator, err error) {
	// A coordinator manages every channel of the intent, so only an admin appoints one.
	err = e.writeIfAuthorized(c, want.IntentID, levelAdmin, func(t *tx, in *intentRecord) error {
		if in.isTerminal() {
			return NewError("intent_terminal", "the intent is %s: there is nothing to coordinate", in.status)
		}
		if len(in.coords) >= maxEntries {
			if err := t.dropSilentCoordinator(in); err != nil {
				return err
			}
		}
		k, err := c.resolveGrantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return err
		}
		doc = Coordinator{ID: e.newID(idCoordinator, t.now), IntentID: in.id, AgentID: k.id, Home: k.home, Role: want.Role, Type: want.Type,
			Scope: "intent", Status: "active", Interval: want.Interval, GrantedAt: t.now, Metadata: want.Metadata}.afterHeartbeat(t.now)
		if err := t.saveCoordinator(in, doc); err != nil {
			return err
		}
		e.withLock(func() {
			co := &coordinatorRecord{in: in, doc: doc}
			set(t, &in.coords, append(in.coords, co))
			put(t, e.coords, doc.ID, co)
			t.adjustReservedIDs(in, []agentKey{k}, 1)
		})
		return nil
	})
	return doc, err
}

// dropSilentCoordinator makes room for one more coordinator of an intent. Of those that were
// silent for too long, it removes the one that was appointed first.
func (t *tx) dropSilentCoordinator(in *intentRecord) error {
	i := slices.IndexFunc(in.coords, func(co *coordinatorRecord) bool { return !co.isLive(t.now) })
	if i < 0 {
		return newTooManyError("coordinators of this intent", maxEntries, "let one of them go on")
	}
	co := in.coords[i]
	if err := t.execute("DELETE FROM openintent_coordinator WHERE id = ?", co.doc.ID); err != nil {
		return err
	}
	t.e.withLock(func() {
		set(t, &in.coords, slices.Delete(slices.Clone(in.coords), i, i+1))
		drop(t, t.e.coords, co.doc.ID)
		t.adjustReservedIDs(in, []agentKey{{co.doc.Home, co.doc.AgentID}}, -1)
	})
	return nil
}

// afterHeartbeat returns the object after a heartbeat.
func (d Coordinator) afterHeartbeat(at chain.Time) Coordinator {
	d.LastHeartbeat, d.Version = at, d.Version+1
	d.ExpiresAt = at + chain.Time(d.Interval*missedHeartbeats*1e6)
	return d
}

// GetCoordinator returns a coordinator.
func (e *Engine) GetCoordinator(c *Call, id string) (Coordinator, error) {
	co, err := findAndRecordUse(c, e.coords, id, "coordinator")
	if err != nil {
		return Coordinator{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return co.docAt(now()), nil
}

// ListCoordinators returns a page of the intent's coordinators.
func (e *Engine) ListCoordinators(c *Call, intentID string, p Page) ([]Coordinator, error) {
	return viewIntent(e, c, intentID, p.checkBounds, func(in *intentRecord) (list []Coordinator) {
		at := now()
		for _, co := range cutPage(in.coords, p) {
			list = append(list, co.docAt(at))
		}
		return list
	})
}

// RecordCoordinatorHeartbeat takes a heartbeat of a coordinator, from the coordinator itself.
func (e *Engine) RecordCoordinatorHeartbeat(c *Call, id string) (doc Coordinator, err error) {
	if _, err := findAndRecordUse(c, e.coords, id, "coordinator"); err != nil {
		return doc, err
	}
	err = e.runTransaction(c.Context(), false, func(t *tx) error {
		co := e.coords[id]
		if co == nil { // it has made room for another
			return newNotFoundError("coordinator")
		}
		if !c.Caller.Operator && (co.doc.AgentID != c.Caller.Agent || co.doc.Home != c.Caller.Home) {
			return NewError("not_yours", "only the coordinator may report its life")
		}
		if !co.isLive(t.now) {
			return NewError("coordinator_gone", "the coordinator has been silent for too long: let an admin of the intent appoint it again")
		}
		doc = co.doc.afterHeartbeat(t.now)
		if err := t.saveCoordinator(co.in, doc); err != nil {
			return err
		}
		e.withLock(func() { set(t, &co.doc, doc) })
		return nil
	})
	return doc, err
}

// saveCoordinator writes a coordinator's object to the store.
func (t *tx) saveCoordinator(in *intentRecord, doc Coordinator) error {
	return t.execute("INSERT INTO openintent_coordinator (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, encodeJSONText(doc))
}
