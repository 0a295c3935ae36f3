package transfer

import (
	"cmp"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

// mailbox is an agent of a project.
type mailbox struct{ project, agent string }

// Folders and endings of names.
const (
	inboxDir  = "inbox"
	outboxDir = "outbox"
	deadDir   = "dead_letter"

	extension = ".yaml"
	tempMark  = ".tmp-acpd-" // of files that are being stored: hidden, no .yaml, and no other program's
)

func (p mailbox) dir() string { return path.Join("projects", p.project, "agents", p.agent) }

// checkNames refuses names that no project or agent has, or that would lead out of the home.
func (p mailbox) checkNames() error {
	if err := checkProjectName(p.project); err != nil {
		return err
	}
	if !message.IsLegalAgentName(p.agent) {
		return kinds.Errorf(kinds.Invalid, "agent %.80q: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 64", p.agent)
	}
	return nil
}

func checkProjectName(name string) error {
	bad := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }
	if name == "" || len(name) > wire.MaxMailProject || name[0] == '.' || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return kinds.Errorf(kinds.Invalid, "project %.80q: a project's name has no slash and no dot in front, and at most %d bytes", name, wire.MaxMailProject)
	}
	return nil
}

func (p mailbox) compare(q mailbox) int {
	return cmp.Or(cmp.Compare(p.project, q.project), cmp.Compare(p.agent, q.agent))
}
