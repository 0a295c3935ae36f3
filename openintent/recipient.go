package openintent

import "github.com/acpd/acpd/openintent/object"

// resolveRecipient finds the agent that a message to text goes to now. Without a home, that is an
// agent here that there is, or else the agent of a daemon in open_to that has used the intent, or
// else an agent here that there may be.
func (w *world) resolveRecipient(ch *channelRecord, text, home string) (string, error) {
	k, said, err := w.resolveAgent(ch.in, "to", text, home)
	if err != nil || said || w.isAgentIDUsedHere(ch.in, k.id) {
		return w.agentNameOf(k), err
	}
	homes := w.findIDHolders(ch.in, k.id)
	for _, m := range ch.doc.Members {
		if m := w.agentKeyOf(m); m.id == k.id && m.home != "" && w.isOpenToHome(m.home) {
			homes.recordHolder(m.home, 0)
		}
	}
	for home := range homes {
		if k.home != "" {
			return "", object.NewError("ambiguous", "to: several daemons have an agent of this id: say home, the 64 digits of one of them")
		}
		k.home = home
	}
	return w.agentNameOf(k), nil
}
