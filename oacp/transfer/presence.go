package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

// The statuses of an agent that OACP knows.
const (
	available = "available"
	busy      = "busy"
	offline   = "offline"
)

const (
	statusFile   = "status.yaml"
	maxStatus    = 64 << 10
	maxAnnounced = 256 // agents that a peer is told of
)

// Twin is an agent that lives here and, by its word, at a connected peer too. Mail for it
// stays on the machine where it is sent.
type Twin struct {
	Project string
	Agent   string
	Peer    identity.ID
}

// maxTwins is how many are told of: the first show what is wrong.
const maxTwins = 64

// Twins returns twins of a project, or of all for "".
func (m *Mailer) Twins(project string) []Twin {
	all := m.ledger.twins(project)
	slices.SortFunc(all, func(a, b Twin) int {
		return cmp.Or(mailbox{a.Project, a.Agent}.compare(mailbox{b.Project, b.Agent}), bytes.Compare(a.Peer[:], b.Peer[:]))
	})
	var here []Twin
	for _, t := range all {
		if len(here) < maxTwins && m.checkSpelling(mailbox{t.Project, t.Agent}) == nil {
			here = append(here, t)
		}
	}
	return here
}

// announceAgents tells a peer of the agents that live here, in projects in which the peer
// has agents too, as far as it does not know yet.
func (m *Mailer) announceAgents(ctx context.Context, q *peerQueue) {
	a := m.ledger.beginAnnouncement(q)
	if a == nil {
		return
	}
	next := make(map[mailbox]string)
	for project := range a.projects {
		for _, p := range m.hostedAgents(project) {
			if len(next) == maxAnnounced {
				break
			}
			status := m.readAgentStatus(p)
			if a.told[p] != status {
				reply, err := m.request(ctx, q.peer, &wire.MailRequest{
					Op: wire.MailPresence, Project: p.project, Agent: p.agent, Status: status, UpdatedAt: message.Stamp(time.Now()),
				})
				if err != nil || reply.Result != wire.MailOK {
					continue // the next announcement tries again
				}
			}
			next[p] = status
		}
	}
	m.ledger.endAnnouncement(q, a, next)
}

// hostedAgents are the agents of a project that are hosted here.
func (m *Mailer) hostedAgents(project string) (all []mailbox) {
	root, err := m.openFolder(path.Join("projects", project, "agents"))
	if err != nil {
		return nil
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	for _, e := range entries {
		p := mailbox{project, e.Name()}
		if _, bound := m.ledger.boundPeer(p); e.IsDir() && !bound && message.LegalAgent(p.agent) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, mailbox.compare)
	return all
}

// readAgentStatus reads how an agent says that it is: available, unless it says otherwise.
func (m *Mailer) readAgentStatus(p mailbox) string {
	dir, err := m.openAgent(p)
	if err != nil {
		return available
	}
	defer dir.Close()
	text, _ := readStatusFile(dir)
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		if word, ok := strings.CutPrefix(in.Text(), "status:"); ok {
			switch word = strings.ToLower(strings.Trim(strings.TrimSpace(word), `"'`)); word {
			case busy, offline:
				return word
			}
		}
	}
	return available
}

func readStatusFile(dir *os.Root) ([]byte, error) {
	info, err := dir.Lstat(statusFile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := dir.Open(statusFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxStatus))
}

// updateStatusFile keeps the status.yaml of a bound agent in step with what its peer says and
// with the link to it, so that senders are warned of one that is offline. A file
// that somebody else wrote is left alone.
func (m *Mailer) updateStatusFile(p mailbox) {
	status, write, again := m.ledger.planStatus(p, time.Now())
	if again > 0 {
		time.AfterFunc(again, func() { m.ledger.statusDue(p) })
	}
	if !write {
		return
	}
	if err := m.writeStatusFile(p, status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.cfg.Log.Debug("mail: a status is not written", "project", p.project, "agent", p.agent, "err", err)
	}
	_, bound := m.ledger.boundPeer(p)
	if !bound { // meanwhile: whoever unbound it may have found no file yet
		m.removeStatusFile(p)
	}
}

// removeStatusFile removes the status.yaml that feed has written of an agent which is bound no
// more: nobody would change it again, and the agent writes its own.
func (m *Mailer) removeStatusFile(p mailbox) {
	dir, err := m.openAgent(p)
	if err == nil {
		defer dir.Close()
		var old []byte
		if old, err = readStatusFile(dir); err == nil && bytes.HasPrefix(old, []byte(message.StatusMark)) {
			err = dir.Remove(statusFile)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.cfg.Log.Warn("mail: the status that was kept of an agent is not removed: remove it, or the agent seems to be as it was", "project", p.project, "agent", p.agent, "err", err)
	}
}

// writeAllOffline says at the end that nobody is reached any more.
func (m *Mailer) writeAllOffline() {
	m.ledger.disconnectAll()
	for _, b := range m.ledger.bindings("") {
		m.updateStatusFile(b.mailbox())
	}
}

func (m *Mailer) writeStatusFile(p mailbox, status string) error {
	dir, err := m.openAgent(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch old, err := readStatusFile(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !bytes.HasPrefix(old, []byte(message.StatusMark)):
		return nil
	}
	const temp = "." + statusFile + ".tmp-acpd"
	text := fmt.Sprintf("%sruntime: unknown\nmodel: unknown\nstatus: %s\ncapabilities: []\nupdated_at: %q\n", message.StatusMark, status, message.Stamp(time.Now()))
	if err := dir.WriteFile(temp, []byte(text), fileMode); err != nil {
		return err
	}
	return dir.Rename(temp, statusFile)
}
