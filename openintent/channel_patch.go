package openintent

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PatchChannel asks for a change of a channel. Members that are nil stay.
type PatchChannel struct {
	Members *[]AgentRef    `json:"members"`
	Add     []AgentRef     `json:"add_members"`
	Remove  []AgentRef     `json:"remove_members"`
	Policy  *string        `json:"member_policy"`
	Options jsontext.Value `json:"options"`
	Status  *string        `json:"status"`
}

// closesChannel reports whether the patch closes the channel.
func (p *PatchChannel) closesChannel() bool { return p.Status != nil && *p.Status == statusClosed }

// applyTo makes the caller's patch in a copy of the channel's object.
func (p *PatchChannel) applyTo(c *Call, in *intentRecord, doc *Channel) (opt channelOptions, err error) {
	doc.Members = slices.Clone(doc.Members)
	if p.Members != nil {
		if doc.Members, err = c.appendAgentNames(in, "members", []string{}, *p.Members); err != nil {
			return opt, err
		}
	}
	if doc.Members, err = c.appendAgentNames(in, "add_members", doc.Members, p.Add); err != nil {
		return opt, err
	}
	gone, err := c.appendAgentNames(in, "remove_members", []string{}, p.Remove)
	if err != nil {
		return opt, err
	}
	leaves := newNameSet(gone)
	doc.Members = slices.DeleteFunc(doc.Members, func(m string) bool { return leaves[m] })
	if p.Policy != nil {
		doc.Policy = *p.Policy
		if err := checkMemberPolicy(doc.Policy); err != nil {
			return opt, err
		}
	}
	if p.Options != nil && p.Options.Kind() != 'n' {
		var all, patch map[string]jsontext.Value
		if err := errors.Join(json.Unmarshal(doc.Options, &all), json.Unmarshal(p.Options, &patch)); err != nil {
			return opt, NewFieldError("options", "an object is needed")
		}
		for name, v := range patch { // RFC 7396
			if v.Kind() == 'n' {
				delete(all, name)
			} else {
				all[name] = v
			}
		}
		doc.Options = EncodeJSON(all)
		if err := doc.checkOptionsSize(); err != nil {
			return opt, err
		}
	}
	return doc.parseCheckedOptions()
}

// writeIfManager runs fn on a channel in a write, if the caller manages the channel. If closes is
// set, an admin of the intent may do so too.
func (e *Engine) writeIfManager(c *Call, id string, closes bool, fn func(*tx, *channelRecord) error) (*channelRecord, error) {
	ch, _, err := e.findChannel(c, id)
	if err != nil {
		return nil, err
	}
	err = e.runTransaction(c.Context(), ch.needsDurableWrites(e), func(t *tx) error {
		if ch, err = t.refindChannel(id); err != nil {
			return err
		}
		_, firstUse, err := t.authorizeForIntent(ch.in.id, c.Caller, levelRead)
		if err != nil {
			return replaceIntentNotFound(err, "channel")
		}
		if !e.mayManageChannel(ch, c.Caller, t.now) && !(closes && e.callerAccessLevel(ch.in, c.Caller, t.now) == levelAdmin) {
			return NewError("not_manager", "only the channel's creator and the intent's coordinators may do this")
		}
		if err := fn(t, ch); err != nil || !firstUse {
			return err
		}
		return t.recordFirstUse(ch.in, c.Caller)
	})
	return ch, err
}

// PatchChannel changes a channel.
func (e *Engine) PatchChannel(c *Call, id string, p *PatchChannel) (Channel, error) {
	if p.Status != nil && *p.Status != statusOpen && *p.Status != statusClosed {
		return Channel{}, NewFieldError("status", "open or closed")
	}
	members := []AgentRef{}
	if p.Members != nil {
		members = *p.Members
	}
	if err := errors.Join(checkAgentNames("members", members), checkAgentNames("add_members", p.Add), checkAgentNames("remove_members", p.Remove)); err != nil {
		return Channel{}, err
	}
	onlyCloses := p.closesChannel() && p.Members == nil && p.Add == nil && p.Remove == nil && p.Policy == nil && p.Options == nil
	ch, err := e.writeIfManager(c, id, onlyCloses, func(t *tx, ch *channelRecord) error {
		if !ch.isOpen(t.now) {
			if onlyCloses {
				return nil
			}
			return NewError(codeClosed, "a closed channel cannot be changed or opened again: create another")
		}
		doc := ch.doc
		opt, err := p.applyTo(c, ch.in, &doc)
		if err != nil {
			return err
		}
		if err := t.checkDiskShareForGrowth(ch.in, c.Caller, doc.Home, doc.size()-ch.doc.size()); err != nil {
			return err
		}
		if err := t.saveChannel(ch, doc); err != nil {
			return err
		}
		e.withLock(func() {
			t.setChannelDoc(ch, doc)
			set(t, &ch.opt, opt)
			t.setAlarm(ch)
		})
		if p.closesChannel() {
			return t.closeChannel(ch, t.now)
		}
		return nil
	})
	if err != nil {
		return Channel{}, err
	}
	return e.channelDocEchoingOptions(ch, p.Options), nil
}
