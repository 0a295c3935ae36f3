package transfer

import (
	"context"
	"io/fs"
	"path"
	"time"

	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

const (
	statusFile   = "status.yaml"
	maxAnnounced = 256 // agents that are announced to a peer
)

// announceAgents sends a peer the statuses of the agents that live here, in projects in which
// the peer has agents too, except those that the peer knows.
func (m *Mailer) announceAgents(ctx context.Context, q *peerQueue) {
	a := m.ledger.beginAgentAnnouncement(q)
	if a == nil {
		return
	}
	next := make(map[mailbox]string)
	for project := range a.projects {
		for _, p := range m.listHostedAgents(project) {
			if len(next) == maxAnnounced {
				break
			}
			status := m.readAgentStatus(p)
			if a.told[p] != status {
				reply, err := m.sendRequest(ctx, q.peer, &wire.MailRequest{
					Op: wire.MailPresence, Project: p.project, Agent: p.agent, Status: status, UpdatedAt: message.FormatTimestamp(time.Now()),
				})
				if err != nil || reply.Result != wire.MailOK {
					continue // the next announcement tries again
				}
			}
			next[p] = status
		}
	}
	m.ledger.recordAgentAnnouncement(q, a, next)
}

// listHostedAgents returns the agents of a project that are hosted here.
func (m *Mailer) listHostedAgents(project string) (all []mailbox) {
	root, err := m.openFolder(path.Join("projects", project, "agents"))
	if err != nil {
		return nil
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		p := mailbox{project, e.Name()}
		if _, bound := m.ledger.findBoundPeer(p); e.IsDir() && !bound && message.IsLegalAgentName(p.agent) {
			all = append(all, p)
		}
	}
	return all
}
