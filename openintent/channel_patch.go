package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/object"
)

// patchDoc makes the caller's patch in a copy of the channel's object.
func (c *Call) patchDoc(in *intentRecord, doc *object.Channel, p *object.PatchChannel) (opt object.ChannelOptions, err error) {
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
	}
	return doc.PatchOptions(p.Options)
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
			return object.ReplaceIntentNotFound(err, "channel")
		}
		if !e.mayManageChannel(ch, c.Caller, t.now) && !(closes && e.callerAccessLevel(ch.in, c.Caller, t.now) == levelAdmin) {
			return object.NewError("not_manager", "only the channel's creator and the intent's coordinators may change it; the intent's admins may close it")
		}
		if err := fn(t, ch); err != nil || !firstUse {
			return err
		}
		return t.recordFirstUse(ch.in, c.Caller)
	})
	return ch, err
}

// PatchChannel changes a channel.
func (e *Engine) PatchChannel(c *Call, id string, p *object.PatchChannel) (object.Channel, error) {
	if err := p.Check(); err != nil {
		return object.Channel{}, err
	}
	onlyCloses := p.ClosesChannel() && p.Members == nil && p.Add == nil && p.Remove == nil && p.Policy == nil && p.Options == nil
	ch, err := e.writeIfManager(c, id, onlyCloses, func(t *tx, ch *channelRecord) error {
		if !ch.isOpen(t.now) {
			if onlyCloses {
				return nil
			}
			return object.NewError(object.CodeClosed, "a closed channel cannot be changed or opened again: create another")
		}
		doc := ch.doc
		opt, err := c.patchDoc(ch.in, &doc, p)
		if err != nil {
			return err
		}
		if err := t.checkDiskShareForGrowth(ch.in, c.Caller, doc.Home, doc.Size()-ch.doc.Size()); err != nil {
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
		if p.ClosesChannel() {
			return t.closeChannel(ch, t.now)
		}
		return nil
	})
	if err != nil {
		return object.Channel{}, err
	}
	return e.channelDocEchoingOptions(ch, p.Options), nil
}
