package mailbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
)

// Letter is a message to send.
type Letter struct {
	// Message has no id and no time, which SendLetter sets, and a conversation only if it
	// continues one.
	Message message.Message

	InReplyTo      string // id of the message whose conversation it continues, or empty
	NoConversation bool   // do not begin a conversation
	Suffix         string // of the file's name
	Create         bool   // make the folders of a project or agent that does not exist
	DryRun         bool   // write nothing
}

// Sent is a letter that was sent.
type Sent struct {
	Message  message.Message
	Data     []byte   // the file
	Warnings []string // for the user
	Inboxes  []string // the paths of the copies, one for each recipient, in order
	Outbox   string   // the path of the sender's copy
}

// SendLetter checks a letter, gives it an id and a time, and puts a copy durably into the inbox
// of each recipient and into the sender's outbox, each under a name that was free. A broadcast is
// put into the outbox first, any other message into the inbox. All copies are on the disk before
// the first becomes visible, so that a full disk or a folder that cannot be written stops all of
// them. If a later copy still fails, the error names those that were written.
func (h Home) SendLetter(project string, l Letter) (Sent, error) {
	p, err := h.FindProject(project)
	switch _, missing := errors.AsType[*NotFoundError](err); {
	case missing && !l.Create:
		all, _ := h.ListProjects()
		return Sent{}, fmt.Errorf("%w: known projects: %s; --create makes another", err, cmp.Or(strings.Join(all, ", "), "none"))
	case err != nil && !missing:
		return Sent{}, err
	}
	s := Sent{Message: l.Message}
	m := &s.Message
	if err := checkLetterNames(l); err != nil {
		return s, err
	}
	now := time.Now()
	m.ID, m.Created = message.NewMessageID(now, m.From), message.FormatTimestamp(now)
	if l.InReplyTo != "" {
		m.ParentID = l.InReplyTo
		parent, err := Agent{p, m.From}.FindMessage(l.InReplyTo)
		switch _, missing := errors.AsType[*NotFoundError](err); {
		case missing:
			s.Warnings = append(s.Warnings, fmt.Sprintf("WARNING: %s has no message '%s': this one begins a new conversation", m.From, l.InReplyTo))
		case err != nil:
			return s, err
		}
		m.ParentID = cmp.Or(parent.Message.ID, m.ParentID) // l may name the file
		m.ConversationID = cmp.Or(m.ConversationID, parent.Message.ConversationID)
	}
	if !l.NoConversation {
		m.ConversationID = cmp.Or(m.ConversationID, message.NewConversationID(now, m.From))
	}
	if lines := m.Validate(); len(lines) > 0 {
		return s, errors.New(strings.Join(lines, "; "))
	}
	if s.Data, err = m.Render(); err != nil {
		return s, err
	}
	for _, name := range append(m.To[:len(m.To):len(m.To)], m.From) {
		if _, err := p.FindAgent(name); err != nil && !l.Create {
			all, _ := p.ListAgents()
			return s, fmt.Errorf("%w: known agents: %s; --create makes another", err, cmp.Or(strings.Join(all, ", "), "none"))
		}
	}
	sender := Agent{p, m.From}
	if sender.IsRemote() {
		return s, fmt.Errorf("nothing was sent: %s lives on another machine, and sends from there: name a sender that lives here, or, if it is back, acpctl oacp unbind %s %[1]s", m.From, p.Name)
	}
	if err := sender.checkUnsigned(); err != nil {
		return s, err
	}
	if n := len(s.Data); n > message.MaxBytes {
		return s, fmt.Errorf("it has %d bytes, and no reader takes more than %d: shorten the body or the context keys", n, message.MaxBytes)
	}
	for _, name := range m.To {
		if w := (Agent{p, name}).formatOfflineWarning(m.Priority); w != "" {
			s.Warnings = append(s.Warnings, w)
		}
	}
	if l.DryRun {
		return s, nil
	}
	draw := func() string { return message.NewMessageFileName(now, m.From, m.Type, l.Suffix) }
	return s, s.writeCopies(sender, draw)
}

// checkLetterNames refuses names that no folder or file can have.
func checkLetterNames(l Letter) error {
	label := "sender"
	for _, name := range append([]string{l.Message.From}, l.Message.To...) {
		if name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("%s '%s': a name has no slashes, and is neither \".\" nor \"..\"", label, name)
		}
		label = "recipient"
	}
	if len(l.Message.To) == 0 {
		return errors.New("no recipient: name an agent, or several with commas")
	}
	if l.Suffix != "" && !message.IsLegalFileSuffix(l.Suffix) {
		return fmt.Errorf("suffix '%s': use 1 to 64 letters, digits, dots, underscores and hyphens", l.Suffix)
	}
	return nil
}

// writeCopies puts the copies into their folders, under names that draw makes.
func (s *Sent) writeCopies(sender Agent, draw func() string) error {
	var dirs []string
	for _, name := range s.Message.To {
		dirs = append(dirs, Agent{sender.Project, name}.Inbox())
	}
	last := len(dirs)
	dirs = append(dirs, sender.Outbox())
	order := make([]int, len(dirs)) // indices of dirs, the first to be visible first
	for i := range order {
		order[i] = i
	}
	if len(s.Message.To) > 1 {
		order = slices.Insert(order[:last], 0, last)
	}

	name := draw()
	temps := make([]string, len(dirs))
	defer func() {
		for _, temp := range temps {
			if temp != "" {
				os.Remove(temp)
			}
		}
	}()
	for i, dir := range dirs {
		err := makeFolder(dir)
		if err == nil {
			temps[i], err = stageFile(dir, name, s.Data)
		}
		if err != nil {
			return fmt.Errorf("nothing was sent: %w", err)
		}
	}
	paths := make([]string, len(dirs))
	for n, i := range order {
		var err error
		if n == 0 { // this one decides the name
			err = fs.ErrExist
			for try := 0; errors.Is(err, fs.ErrExist) && try < maxNumbered; try++ {
				if try > 0 { // the first name is the temporary file's, so acpd knows that the file is complete
					name = draw()
				}
				paths[i] = filepath.Join(dirs[i], name)
				err = durable.RenameIfAbsent(temps[i], paths[i])
			}
		} else {
			paths[i], err = publishFile(temps[i], name, s.Data)
		}
		done := order[:n]
		if err == nil {
			temps[i], done = "", order[:n+1]
			err = durable.SyncDir(dirs[i])
		}
		if err != nil && len(done) == 0 {
			return fmt.Errorf("nothing was sent: %w", err)
		}
		if err != nil {
			var visible []string
			for _, i := range done {
				visible = append(visible, paths[i])
			}
			return fmt.Errorf("not every copy was written, or is sure to last: %w; these are there: %s", err, strings.Join(visible, ", "))
		}
	}
	s.Inboxes, s.Outbox = paths[:last], paths[last]
	return nil
}

func (a Agent) statusPath() string { return filepath.Join(a.Dir(), "status.yaml") }

// IsRemote reports whether the agent lives on another machine: acpd has then written its
// status.yaml. It works whether acpd runs or not.
func (a Agent) IsRemote() bool {
	b, _, err := readFile(a.statusPath())
	return err == nil && bytes.HasPrefix(b, []byte(message.StatusMark))
}

// formatOfflineWarning returns a warning if the agent's status.yaml says offline, else "".
func (a Agent) formatOfflineWarning(priority string) string {
	file, err := loadYAMLFile(a.statusPath())
	status := message.FindYAMLMember(file, "status")
	if err != nil || status == nil || strings.ToLower(strings.TrimSpace(status.Value)) != "offline" {
		return ""
	}
	if priority == "P0" {
		return fmt.Sprintf("WARNING: agent '%s' is offline, and the message is P0: tell it in another way too", a.Name)
	}
	return fmt.Sprintf("Note: agent '%s' is offline", a.Name)
}
