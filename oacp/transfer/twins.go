package transfer

import (
	"cmp"
	"sort"

	"github.com/acpd/acpd/identity"
)

// Twin is an agent that lives here and that a connected peer has announced too. Mail for it stays
// on the machine on which it is sent.
type Twin struct {
	Project string
	Agent   string
	Peer    identity.ID
}

// maxTwins bounds the twins that are listed. A few show what is wrong.
const maxTwins = 64

// ListTwinAgents returns the twins of a project, or of all projects if project is empty.
func (m *Mailer) ListTwinAgents(project string) []Twin {
	all := m.ledger.findTwinAgents(project)
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(mailbox{a.Project, a.Agent}.compare(mailbox{b.Project, b.Agent}), a.Peer.Compare(b.Peer)) < 0
	})
	var here []Twin
	for _, t := range all {
		if len(here) < maxTwins && m.checkAgentSpelling(mailbox{t.Project, t.Agent}) == nil {
			here = append(here, t)
		}
	}
	return here
}
