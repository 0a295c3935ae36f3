package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/oacp/message"
)

// The statuses of an agent that OACP knows.
const (
	available = "available"
	busy      = "busy"
	offline   = "offline"
)

// readAgentStatus returns the status of an agent from its status.yaml, or available if it has
// none.
func (m *Mailer) readAgentStatus(p mailbox) string {
	dir, err := m.openAgentFolder(p)
	if err != nil {
		return available
	}
	defer dir.Close()
	text, _ := readStatusFile(dir)
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		word, ok := strings.CutPrefix(in.Text(), "status:")
		word = strings.ToLower(strings.Trim(strings.TrimSpace(word), `"'`))
		if ok && (word == busy || word == offline) {
			return word
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
		return nil, ownwords.New("not a regular file")
	}
	f, err := dir.Open(statusFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, message.MaxBytes))
}

// updateStatusFile writes the status that a bound agent has at its peer into its status.yaml, and
// offline without a connection, so that tools warn senders. It changes no file of another
// program.
func (m *Mailer) updateStatusFile(p mailbox) {
	status, write := m.ledger.planStatusWrite(p, time.Now())
	if !write {
		return
	}
	if err := m.writeStatusFile(p, status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.cfg.Log.Debug("mail: a status is not written", "project", p.project, "agent", p.agent, "err", err)
	}
	if _, bound := m.ledger.findBoundPeer(p); !bound { // Unbind may have found no file yet
		m.removeStatusFile(p)
	}
}

// removeStatusFile removes the status.yaml that updateStatusFile has written, because the agent is
// no longer bound and writes its own.
func (m *Mailer) removeStatusFile(p mailbox) {
	err := m.changeStatusFile(p, func(dir *os.Root, exists bool) error {
		if !exists {
			return nil // a file that appears now is not ours
		}
		return dir.Remove(statusFile)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.cfg.Log.Warn("mail: the status that was kept of an agent is not removed: remove it, or the agent seems to be as it was", "project", p.project, "agent", p.agent, "err", err)
	}
}

// writeOfflineStatuses writes offline for every bound agent, because the daemon ends.
func (m *Mailer) writeOfflineStatuses() {
	m.ledger.markAllDisconnected()
	for _, b := range m.ledger.listBindings("") {
		m.updateStatusFile(b.mailbox())
	}
}

func (m *Mailer) writeStatusFile(p mailbox, status string) error {
	return m.changeStatusFile(p, func(dir *os.Root, _ bool) error {
		const temp = "." + statusFile + ".tmp-acpd"
		text := fmt.Sprintf("%sruntime: unknown\nmodel: unknown\nstatus: %s\ncapabilities: []\nupdated_at: %q\n", message.StatusMark, status, message.FormatTimestamp(time.Now()))
		if err := dir.WriteFile(temp, []byte(text), fileMode); err != nil {
			return err
		}
		return dir.Rename(temp, statusFile)
	})
}

// changeStatusFile calls change with an agent's folder and whether it has a status.yaml, unless
// another program has written the file.
func (m *Mailer) changeStatusFile(p mailbox, change func(dir *os.Root, exists bool) error) error {
	dir, err := m.openAgentFolder(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	old, err := readStatusFile(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.HasPrefix(old, []byte(message.StatusMark)) {
		return change(dir, err == nil)
	}
	return err
}
