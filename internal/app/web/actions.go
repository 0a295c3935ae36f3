package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// decision is the body of decide.
type decision struct {
	ID     string `json:"id"`
	Answer string `json:"answer"` // yes, no or always
	Sure   bool   `json:"sure"`   // asked once more, the owner said always again
}

// serveDecide answers an approval.
func (s *Server) serveDecide(w http.ResponseWriter, r *http.Request) {
	var d decision
	if !readBody(w, r, &d) {
		return
	}
	switch {
	case !slices.Contains([]string{"yes", "no", "always"}, d.Answer):
		http.Error(w, "answer: expected yes, no or always", http.StatusBadRequest)
		return
	case d.Answer == "always" && !d.Sure:
		http.Error(w, "always covers all later messages of the peer and kind: say that you are sure", http.StatusBadRequest)
		return
	}
	s.act(w, r, func(ctx context.Context, c *client.Client) error {
		_, err := c.Approve(ctx, client.ApproveParams{ID: d.ID, Answer: d.Answer})
		return err
	}, partApprovals, partAgents, partHeld)
}

// muting is the body of mute.
type muting struct {
	Name string `json:"name"`
	Secs uint64 `json:"secs"` // 0: it may be woken again
}

// serveMute mutes a session.
func (s *Server) serveMute(w http.ResponseWriter, r *http.Request) {
	var m muting
	if !readBody(w, r, &m) {
		return
	}
	s.act(w, r, func(ctx context.Context, c *client.Client) error {
		_, err := c.MuteAgent(ctx, client.MuteAgentParams{Name: m.Name, Secs: m.Secs})
		return err
	}, partAgents)
}

// removal is the body of remove.
type removal struct {
	Seq  uint64         `json:"seq"`
	Peer string         `json:"peer"` // id of the sender
	ID   wire.MessageID `json:"id"`
	Sure bool           `json:"sure"` // asked once more, the owner said so again
}

// serveRemove removes a held message, which the page shows, from the inbox.
func (s *Server) serveRemove(w http.ResponseWriter, r *http.Request) {
	var m removal
	if !readBody(w, r, &m) {
		return
	}
	if !m.Sure {
		http.Error(w, "a message that is removed is gone: say that you are sure", http.StatusBadRequest)
		return
	}
	s.act(w, r, func(ctx context.Context, c *client.Client) error {
		if err := c.MarkShown(ctx, client.ShownParams{Seqs: []uint64{m.Seq}}); err != nil {
			return err
		}
		acked, err := c.Ack(ctx, client.AckParams{IDs: []wire.MessageID{m.ID}, Peers: []string{m.Peer}})
		if err == nil && acked.Removed == 0 {
			err = kinds.Errorf(kinds.NotFound, "the message is not in the inbox any more")
		}
		return err
	}, partHeld)
}

// withdrawal is the body of withdraw.
type withdrawal struct {
	ID   wire.MessageID `json:"id"`
	Sure bool           `json:"sure"` // asked once more, the owner said so again
}

// serveWithdraw withdraws a message that is kept for a peer.
func (s *Server) serveWithdraw(w http.ResponseWriter, r *http.Request) {
	var m withdrawal
	if !readBody(w, r, &m) {
		return
	}
	if !m.Sure {
		http.Error(w, "a message that is withdrawn is not sent: say that you are sure", http.StatusBadRequest)
		return
	}
	s.act(w, r, func(ctx context.Context, c *client.Client) error {
		t, err := c.Task(ctx, m.ID)
		if err == nil && t.Kept == nil { // a delegation that was accepted meanwhile goes on
			err = kinds.Errorf(kinds.NotFound, "the message is not kept any more")
		}
		if err == nil {
			_, err = c.Cancel(ctx, client.CancelParams{Ref: m.ID, Payload: kinds.EncodePayload(&kinds.Cancel{})})
		}
		return err
	}, partTasks)
}

// readBody reads a request's JSON. If it cannot, it answers why, and returns false.
func readBody(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err == nil {
		err = json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	}
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status = http.StatusRequestEntityTooLarge
	}
	http.Error(w, "the body cannot be read: "+showLine(err.Error(), maxShown), status)
	return false
}

// act calls the daemon, answers with what came of it, and has the parts read again that have changed.
func (s *Server) act(w http.ResponseWriter, r *http.Request, do func(context.Context, *client.Client) error, changed ...string) {
	if err := do(r.Context(), s.watcher.acting); err != nil {
		writeError(w, err)
		return
	}
	s.watcher.readSoon(changed...)
	writeJSON(w, struct{}{})
}

func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	json.MarshalWrite(w, answer) // if that fails, nobody reads it
}

// asCoded returns the error of the protocol that err is or wraps.
func asCoded(err error) (*kinds.Error, bool) { return errors.AsType[*kinds.Error](err) }
