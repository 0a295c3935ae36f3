package openintent

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// manages reports whether who may change the channel: its creator and the
// coordinators of its intent.
func (e *Engine) manages(ch *channel, who Caller, at chain.Time) bool {
	return who.Agent == ch.doc.CreatedBy && who.Home == ch.doc.Home || e.coordinates(ch.in, who, at)
}

// PatchChannel is a change of a channel. What is nil stays.
type PatchChannel struct {
	Members *[]Named       `json:"members"`
	Add     []Named        `json:"add_members"`
	Remove  []Named        `json:"remove_members"`
	Policy  *string        `json:"member_policy"`
	Options jsontext.Value `json:"options"`
	Status  *string        `json:"status"`
}

func (p *PatchChannel) closes() bool { return p.Status != nil && *p.Status == statusClosed }

// check checks the patch as far as that needs no channel.
func (p *PatchChannel) check() error {
	members := []Named{}
	if p.Members != nil {
		members = *p.Members
	}
	return errors.Join(checkNames("members", members), checkNames("add_members", p.Add), checkNames("remove_members", p.Remove))
}

// change makes the patch of the caller in a copy of the channel.
func (p *PatchChannel) change(c *Call, in *intent, doc *Channel) (opt options, err error) {
	doc.Members = slices.Clone(doc.Members)
	if p.Members != nil {
		if doc.Members, err = c.names(in, "members", []string{}, *p.Members); err != nil {
			return opt, err
		}
	}
	if doc.Members, err = c.names(in, "add_members", doc.Members, p.Add); err != nil {
		return opt, err
	}
	gone, err := c.names(in, "remove_members", []string{}, p.Remove)
	if err != nil {
		return opt, err
	}
	leaves := nameSet(gone)
	doc.Members = slices.DeleteFunc(doc.Members, func(m string) bool { return leaves[m] })
	if p.Policy != nil {
		doc.Policy = *p.Policy
		if err := validPolicy(doc.Policy); err != nil {
			return opt, err
		}
	}
	if p.Options != nil && p.Options.Kind() != 'n' {
		var all, patch map[string]jsontext.Value
		if err := errors.Join(json.Unmarshal(doc.Options, &all), json.Unmarshal(p.Options, &patch)); err != nil {
			return opt, Invalid("options", "an object is needed")
		}
		for name, v := range patch { // RFC 7396
			if v.Kind() == 'n' {
				delete(all, name)
			} else {
				all[name] = v
			}
		}
		if doc.Options, err = json.Marshal(all, json.Deterministic(true)); err != nil {
			return opt, err
		}
		if err := doc.shortOptions(); err != nil {
			return opt, err
		}
	}
	return doc.parse()
}

// manage runs fn on a channel in a write, if the caller manages it, or only
// closes it and is an admin of the intent.
func (e *Engine) manage(c *Call, id string, closes bool, fn func(*tx, *channel) error) (*channel, error) {
	ch, _, err := e.lookFor(c, id)
	if err != nil {
		return nil, err
	}
	err = e.write(c.Context(), ch.durable(e), func(t *tx) error {
		if ch, err = e.existing(ch)(t); err != nil {
			return err
		}
		_, fresh, err := t.enter(ch.in.id, c.Caller, levelRead)
		if err != nil {
			return hidden(err, "channel")
		}
		if !e.manages(ch, c.Caller, t.now) && !(closes && e.level(ch.in, c.Caller, t.now) == levelAdmin) {
			return Refuse("not_manager", "only the channel's creator and the intent's coordinators may do this")
		}
		if err := fn(t, ch); err != nil || !fresh {
			return err
		}
		return t.bind(ch.in, c.Caller)
	})
	return ch, err
}

// PatchChannel changes a channel.
func (e *Engine) PatchChannel(c *Call, id string, p *PatchChannel) (Channel, error) {
	if p.Status != nil && *p.Status != statusOpen && *p.Status != statusClosed {
		return Channel{}, Invalid("status", "open or closed")
	}
	if err := p.check(); err != nil {
		return Channel{}, err
	}
	onlyCloses := p.closes() && p.Members == nil && p.Add == nil && p.Remove == nil && p.Policy == nil && p.Options == nil
	ch, err := e.manage(c, id, onlyCloses, func(t *tx, ch *channel) error {
		if !ch.isOpen(t.now) {
			if onlyCloses {
				return nil
			}
			return Refuse(codeClosed, "a closed channel cannot be changed or opened again: create another")
		}
		doc := ch.doc
		opt, err := p.change(c, ch.in, &doc)
		if err != nil {
			return err
		}
		if err := t.roomToGrow(ch.in, c.Caller, doc.Home, doc.size()-ch.doc.size()); err != nil {
			return err
		}
		if err := t.saveChannel(ch, doc); err != nil {
			return err
		}
		before := ch.opt
		t.apply(t.alarmed(ch, append(t.e.setChannel(ch, doc), step{func() { ch.opt = opt }, func() { ch.opt = before }})...)...)
		if p.closes() {
			return t.close(ch, t.now)
		}
		return nil
	})
	if err != nil {
		return Channel{}, err
	}
	return e.showChanged(ch, p.Options), nil
}
