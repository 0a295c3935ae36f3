package mailbox

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/oacp/message"
)

// Listing is the content of inboxes. [FormatJSON] writes it as the reference does, with keys
// of its own at the end of each message.
type Listing struct {
	Project string         `json:"project"`
	Mode    string         `json:"mode"` // agent or all
	Agents  []AgentListing `json:"agents"`
}

// AgentListing is the content of one inbox.
type AgentListing struct {
	Agent    string     `json:"agent"`
	Inbox    string     `json:"inbox_path"`
	Count    int        `json:"message_count"`
	Messages []Overview `json:"messages"`
}

// Overview is one line of a listing: one message.
type Overview struct {
	From      string `json:"from"`
	Type      string `json:"type"`
	Priority  string `json:"priority"`
	Subject   string `json:"subject"`
	Created   string `json:"created_at_utc"`
	Age       string `json:"age"`
	Path      string `json:"path"`
	LoadError string `json:"load_error,omitempty"`

	File     string `json:"file"`
	ID       string `json:"id,omitempty"`
	Expires  string `json:"expires_at,omitempty"`
	Expired  bool   `json:"expired"`
	Rank     int    `json:"rank"`      // position in the order of processing, from 1
	NameRank int    `json:"name_rank"` // position in the order of file names, from 1
}

// ListInboxes reads the inbox of an agent, or of all if agent is empty, in the order of
// processing, or by file name.
func (p Project) ListInboxes(agent string, byName bool) (Listing, error) {
	l := Listing{Project: p.Name, Mode: "all"}
	names, err := p.ListAgents()
	if agent != "" {
		l.Mode, names = "agent", []string{agent}
		_, err = p.FindAgent(agent)
	}
	if err != nil {
		return l, err
	}
	for _, name := range names {
		a := Agent{p, name}
		messages, err := a.listMessageOverviews(byName)
		if err != nil {
			return l, fmt.Errorf("list %s: %w", a.Inbox(), err)
		}
		l.Agents = append(l.Agents, AgentListing{name, a.Inbox(), len(messages), messages})
	}
	return l, nil
}

func (a Agent) listMessageOverviews(byName bool) ([]Overview, error) {
	all, err := a.ReadInbox()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	nameRank := make(map[string]int, len(all))
	for i, e := range all {
		nameRank[e.Name] = i + 1
	}
	sortEntriesByUrgency(all, now)
	messages := make([]Overview, 0, len(all))
	for i, e := range all {
		o := e.toOverview(now)
		o.Rank, o.NameRank = i+1, nameRank[e.Name]
		messages = append(messages, o)
	}
	if byName {
		slices.SortFunc(messages, func(a, b Overview) int { return cmp.Compare(a.NameRank, b.NameRank) })
	}
	return messages, nil
}

func (e Entry) toOverview(now time.Time) Overview {
	created := e.CreatedAt()
	s := e.toCursorMessage()
	o := Overview{
		From: s.From, Type: s.Type, Priority: s.Priority, Subject: s.Subject,
		Created: message.FormatTimestamp(created), Age: formatAge(now.Sub(created)), Path: e.Path, File: e.Name, ID: e.Message.ID,
		Expires: e.Message.Expires, Expired: e.Message.IsExpiredAt(now),
	}
	if e.Err != nil {
		o.Subject, o.LoadError = "(invalid YAML)", e.Err.Error()
	}
	return o
}

// formatAge formats a duration in minutes, hours or days, as the reference does.
func formatAge(d time.Duration) string {
	switch minutes := int64(max(d, 0) / time.Minute); {
	case minutes < 60:
		return fmt.Sprintf("%dm", minutes)
	case minutes < 48*60:
		return fmt.Sprintf("%dh", minutes/60)
	default:
		return fmt.Sprintf("%dd", minutes/60/24)
	}
}
