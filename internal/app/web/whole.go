package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// wholeMessage is what a page shows of a message that somebody opens.
type wholeMessage struct {
	Text   string `json:"text"`
	Answer string `json:"answer"`
	Cut    bool   `json:"cut"` // the daemon keeps only the beginning of one of them
}

// newWholeMessage returns what a message and its answer say, on lines.
func newWholeMessage(e *client.TrafficEntry) (m wholeMessage) {
	m.Text, m.Answer = e.Text, e.Answer
	if len(e.Payload) > 0 {
		m.Text = client.FormatPeerText(e.Kind, e.Payload)
	}
	if len(e.AnswerPayload) > 0 {
		reply := "" // of a kind that this program does not know, the answer is shown as it was written
		if kind, known := kinds.FindKind(e.Kind); known {
			reply = kind.Reply
		}
		m.Answer = client.FormatPeerText(reply, e.AnswerPayload)
	}
	const cut = "…" // the last of a text that the daemon has shortened
	m.Cut = len(e.Payload) == 0 && strings.HasSuffix(e.Text, cut) || len(e.AnswerPayload) == 0 && strings.HasSuffix(e.Answer, cut)
	return m
}

// opening is the body of message.
type opening struct {
	Seq uint64 `json:"seq"` // the daemon's number of the message
}

// serveMessage answers with all that a message says.
func (s *Server) serveMessage(w http.ResponseWriter, r *http.Request) {
	var o opening
	if !readBody(w, r, &o) {
		return
	}
	var found *client.TrafficEntry
	err := s.readKept(r.Context(), client.TrafficParams{After: max(o.Seq, 1) - 1, Limit: 1}, func(e *client.TrafficEntry) bool {
		if e.Seq == o.Seq {
			found = e
		}
		return false
	})
	switch {
	case err != nil:
		writeError(w, err)
	case found == nil:
		writeError(w, kinds.Errorf(kinds.NotFound, "the daemon does not keep this message any more"))
	default:
		writeJSON(w, newWholeMessage(found))
	}
}

// search is the body of find.
type search struct {
	Text string `json:"text"`
}

// found is the answer of find.
type found struct {
	Seqs []uint64 `json:"seqs"` // the daemon's numbers of the messages
}

// serveFind answers with those messages that the daemon keeps which have a text, or whose answers have it, in capital
// or small letters.
func (s *Server) serveFind(w http.ResponseWriter, r *http.Request) {
	var q search
	if !readBody(w, r, &q) {
		return
	}
	answer, text := found{Seqs: []uint64{}}, strings.ToLower(q.Text)
	err := s.readKept(r.Context(), client.TrafficParams{}, func(e *client.TrafficEntry) bool {
		if m := newWholeMessage(e); strings.Contains(strings.ToLower(m.Text+"\n"+m.Answer), text) {
			answer.Seqs = append(answer.Seqs, e.Seq)
		}
		return true
	})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, answer)
}

// readKept calls each for the messages that the daemon keeps, with their payloads, until it returns false. They are read
// on a connection of their own: the one that watches gets no payloads.
func (s *Server) readKept(ctx context.Context, p client.TrafficParams, each func(*client.TrafficEntry) bool) error {
	c := &client.Client{Socket: s.watcher.reading.Socket, Patience: daemonPatience}
	defer c.Close()
	for p.Payload = true; ; {
		a, err := c.Traffic(ctx, &p)
		if err != nil {
			return err
		}
		for i := range a.Entries {
			if !each(&a.Entries[i]) {
				return nil
			}
		}
		if p.After = a.Next; len(a.Entries) == 0 {
			return nil
		}
	}
}
