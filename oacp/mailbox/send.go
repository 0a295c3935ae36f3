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
	// Message without id and time, which Send gives it, and without a
	// conversation, unless it continues one.
	Message message.Message

	InReplyTo      string // id of the message whose conversation it continues, or empty
	NoConversation bool   // do not begin a conversation
	Suffix         string // of the file's name
	Sign           bool   // sign it, whatever the sender's config.yaml says
	Create         bool   // make the folders of a project or an agent that is not there
	DryRun         bool   // write nothing
}

// Sent is what became of a letter.
type Sent struct {
	Message  message.Message
	Data     []byte   // the file
	KIDs     []string // the keys that have signed it; none if it is not signed
	Warnings []string // for the sender's eyes
	Inboxes  []string // the paths of the copies, one a recipient, in order
	Outbox   string   // the path of the sender's copy
}

// Send checks a letter, gives it an id and a time, and puts a copy into the inbox of
// each recipient and into the sender's outbox, durably, each with a name that was
// free. A broadcast lies in the outbox first, any other message in the inbox. All
// copies are on the disk before the first can be seen, so that a full disk or a
// folder that cannot be written stops all of them. When a later copy fails all the
// same, Sent says which are there.
func (h Home) Send(project string, l Letter) (Sent, error) {
	p, err := h.Project(project)
	if _, ok := errors.AsType[*NotFoundError](err); err != nil && !(l.Create && ok) {
		return Sent{}, err
	}
	s := Sent{Message: l.Message}
	m := &s.Message
	if err := checkNames(l); err != nil {
		return s, err
	}
	now := time.Now()
	m.ID, m.Created = message.NewID(now, m.From), message.Stamp(now)
	if l.InReplyTo != "" {
		m.ParentID = l.InReplyTo
		parent, err := Agent{p, m.From}.Find(l.InReplyTo)
		switch _, missing := errors.AsType[*NotFoundError](err); {
		case missing:
			s.Warnings = append(s.Warnings, fmt.Sprintf("WARNING: parent message '%s' not found in %s's inbox/outbox — thread may be broken! A new conversation_id will be generated.", l.InReplyTo, m.From))
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
		if err := p.known(name); err != nil && !l.Create {
			return s, err
		}
	}
	sender := Agent{p, m.From}
	if sender.Away() {
		return s, fmt.Errorf("nothing was sent: %s lives on another machine, and sends from there: name a sender that lives here, or, if it is back, acpctl oacp unbind %s %[1]s", m.From, p.Name)
	}
	how, err := sender.signing()
	if err != nil {
		return s, err
	}
	if l.Sign || how.messages {
		if err := s.sign(p.Home, how.kid); err != nil {
			return s, err
		}
	}
	if n := len(s.Data); n > message.MaxBytes {
		return s, fmt.Errorf("it has %d bytes, and no reader takes more than %d: shorten the body or the context keys", n, message.MaxBytes)
	}
	for _, name := range m.To {
		if w := (Agent{p, name}).presence(m.Priority); w != "" {
			s.Warnings = append(s.Warnings, w)
		}
	}
	if l.DryRun {
		return s, nil
	}
	draw := func() string { return message.NewFileName(now, m.From, m.Type, l.Suffix) }
	return s, s.write(sender, draw)
}

// checkNames refuses names that no folder or file can have.
func checkNames(l Letter) error {
	check := func(label, name string) error {
		if name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("%s name must not be a path component: '%s'", label, name)
		}
		return nil
	}
	if err := check("sender", l.Message.From); err != nil {
		return err
	}
	for _, name := range l.Message.To {
		if err := check("recipient", name); err != nil {
			return err
		}
	}
	if len(l.Message.To) == 0 {
		return errors.New("no recipient: name an agent, or several with commas")
	}
	if l.Suffix != "" && !message.LegalSuffix(l.Suffix) {
		return fmt.Errorf("suffix must match [A-Za-z0-9._-]{1,64}, got: '%s'", l.Suffix)
	}
	return nil
}

// known is Agent's error with the names that there are.
func (p Project) known(name string) error {
	_, err := p.Agent(name)
	if err == nil {
		return nil
	}
	all, _ := p.Agents()
	return fmt.Errorf("%w: known agents: %s; --create makes another", err, cmp.Or(strings.Join(all, ", "), "none"))
}

// write puts the copies into their folders.
func (s *Sent) write(sender Agent, draw func() string) error {
	var dirs []string
	for _, name := range s.Message.To {
		dirs = append(dirs, Agent{sender.Project, name}.Inbox())
	}
	last := len(dirs)
	dirs = append(dirs, sender.Outbox())
	order := make([]int, len(dirs)) // indices of dirs
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
			temps[i], err = stage(dir, name, s.Data)
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
			for try := 0; errors.Is(err, fs.ErrExist) && try < maxTwins; try++ {
				if try > 0 { // else it is that of the temporary file, by which acpd knows it for whole
					name = draw()
				}
				paths[i] = filepath.Join(dirs[i], name)
				err = durable.RenameNew(temps[i], paths[i])
			}
		} else {
			paths[i], err = publish(temps[i], name, s.Data)
		}
		done := order[:n]
		if err == nil {
			temps[i], done = "", order[:n+1]
			err = durable.SyncDir(dirs[i])
		}
		if err != nil {
			return partial(paths, done, err)
		}
	}
	s.Inboxes, s.Outbox = paths[:last], paths[last]
	return nil
}

// partial says which copies can be seen when one could not be made, or not be made
// to last.
func partial(paths []string, done []int, err error) error {
	if len(done) == 0 {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	var there []string
	for _, i := range done {
		there = append(there, paths[i])
	}
	return fmt.Errorf("not every copy was written, or is sure to last: %w; these are there: %s", err, strings.Join(there, ", "))
}

// makeFolder makes a folder that is missing. A link is none.
func makeFolder(dir string) error {
	if isFolder(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	if !isFolder(dir) {
		return fmt.Errorf("%s is a link: put a folder in its place", dir)
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Away reports whether an agent lives on another machine by what its folder says: acpd
// keeps its status.yaml as long as it is bound, whether acpd runs or not.
func (a Agent) Away() bool {
	b, _, err := Read(a.statusPath())
	return err == nil && bytes.HasPrefix(b, []byte(message.StatusMark))
}

// presence says that an agent calls itself offline.
func (a Agent) presence(priority string) string {
	file, err := readYAML(filepath.Join(a.Dir(), "status.yaml"))
	status := message.Member(file, "status")
	if err != nil || status == nil || strings.ToLower(strings.TrimSpace(status.Value)) != "offline" {
		return ""
	}
	if priority == "P0" {
		return fmt.Sprintf("WARNING: P0 message to OFFLINE agent '%s' — consider out-of-band notification!", a.Name)
	}
	return fmt.Sprintf("Note: agent '%s' appears offline", a.Name)
}
