package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// coordinatorRecord keeps a [object.Coordinator].
type coordinatorRecord struct {
	in  *intentRecord
	doc object.Coordinator
}

func (co *coordinatorRecord) intent() *intentRecord { return co.in }

// isLive reports whether the coordinator's heartbeats have come in time.
func (co *coordinatorRecord) isLive(at chain.Time) bool { return co.doc.ExpiresAt > at }

// docAt returns the coordinator's object as it is answered.
func (co *coordinatorRecord) docAt(at chain.Time) object.Coordinator {
	doc := co.doc
	if !co.isLive(at) {
		doc.Status = "unresponsive"
	}
	return doc
}

// AppointCoordinator appoints a coordinator of an intent. The caller has run want.Check.
func (e *Engine) AppointCoordinator(c *Call, want *object.Appoint) (doc object.Coordinator, err error) {
	// A coordinator manages every channel of the intent, so only an admin appoints one.
	err = e.writeIfAuthorized(c, want.IntentID, levelAdmin, func(t *tx, in *intentRecord) error {
		if in.isTerminal() {
			return object.NewError("intent_terminal", "the intent is %s: there is nothing to coordinate", in.status)
		}
		if len(in.coords) >= object.MaxEntries {
			if err := t.dropSilentCoordinator(in); err != nil {
				return err
			}
		}
		k, err := c.resolveGrantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return err
		}
		doc = object.Coordinator{ID: e.newID(object.IDCoordinator, t.now), IntentID: in.id, AgentID: k.id, Home: k.home, Role: want.Role, Type: want.Type,
			Scope: "intent", Status: "active", Interval: want.Interval, GrantedAt: t.now, Metadata: want.Metadata}.AfterHeartbeat(t.now)
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
		return object.NewTooManyError("coordinators of this intent", object.MaxEntries, "let one of them go on")
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

// GetCoordinator returns a coordinator.
func (e *Engine) GetCoordinator(c *Call, id string) (object.Coordinator, error) {
	co, err := findAndRecordUse(c, e.coords, id, "coordinator")
	if err != nil {
		return object.Coordinator{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return co.docAt(now()), nil
}

// ListCoordinators returns a page of the intent's coordinators.
func (e *Engine) ListCoordinators(c *Call, intentID string, p object.Page) ([]object.Coordinator, error) {
	return viewIntent(e, c, intentID, p.CheckBounds, func(in *intentRecord) (list []object.Coordinator) {
		at := now()
		for _, co := range object.CutPage(in.coords, p) {
			list = append(list, co.docAt(at))
		}
		return list
	})
}

// RecordCoordinatorHeartbeat takes a heartbeat of a coordinator, from the coordinator itself.
func (e *Engine) RecordCoordinatorHeartbeat(c *Call, id string) (doc object.Coordinator, err error) {
	if _, err := findAndRecordUse(c, e.coords, id, "coordinator"); err != nil {
		return doc, err
	}
	err = e.runTransaction(c.Context(), false, func(t *tx) error {
		co := e.coords[id]
		if co == nil { // it has made room for another
			return object.NewNotFoundError("coordinator")
		}
		if !c.Caller.Operator && (co.doc.AgentID != c.Caller.Agent || co.doc.Home != c.Caller.Home) {
			return object.NewError("not_yours", "only the coordinator may report its life")
		}
		if !co.isLive(t.now) {
			return object.NewError("coordinator_gone", "the coordinator has been silent for too long: let an admin of the intent appoint it again")
		}
		doc = co.doc.AfterHeartbeat(t.now)
		if err := t.saveCoordinator(co.in, doc); err != nil {
			return err
		}
		e.withLock(func() { set(t, &co.doc, doc) })
		return nil
	})
	return doc, err
}

// saveCoordinator writes a coordinator's object to the store.
func (t *tx) saveCoordinator(in *intentRecord, doc object.Coordinator) error {
	return t.execute("INSERT INTO openintent_coordinator (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, object.EncodeJSONText(doc))
}
