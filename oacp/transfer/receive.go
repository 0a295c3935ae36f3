package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// patient bounds how long a peer may say nothing, and how long it may talk.
type patient struct {
	s   Stream
	end time.Time
}

func (p patient) Read(b []byte) (int, error) {
	next := time.Now().Add(idleTime)
	if next.After(p.end) {
		next = p.end
	}
	p.s.SetReadDeadline(next)
	return p.s.Read(b)
}

// Serve answers one stream that a peer has opened, and ends it.
func (c *Carrier) Serve(ctx context.Context, from identity.ID, s Stream) {
	defer s.Close()
	r := bufio.NewReader(patient{s, time.Now().Add(streamTime)})
	m, err := wire.ReadMailRequest(r)
	result := ""
	if err == nil {
		result, err = c.serve(ctx, from, m, r)
	} else if _, malformed := errors.AsType[*wire.FormatError](err); !malformed {
		s.Cancel() // it broke: nobody waits for an answer
		return
	}
	reply := &wire.MailReply{Result: result}
	if err != nil {
		e := c.coded(err)
		reply = &wire.MailReply{Result: wire.MailRefused, Code: string(e.Code), Message: e.Message}
		if _, ok := errors.AsType[*alone](err); ok {
			reply.Scope = wire.MailScopeMessage
		}
		switch {
		case e.Retryable, e.Code == kinds.Internal, e.Code == kinds.Cancelled: // a disk, a shutdown
			reply.Result = wire.MailRetry
		}
		c.refused(from, m, e, err)
	} else if result == wire.MailStored {
		c.works(from.String())
	}
	b, err := wire.AppendMailReply(nil, reply)
	if err != nil {
		s.Cancel()
		return
	}
	s.SetWriteDeadline(time.Now().Add(idleTime)) // a peer may give it no credit
	s.Write(b)
}

// alone marks the refusal of one message that says nothing of others: its sender goes on
// with these.
type alone struct{ error }

func (a *alone) Unwrap() error { return a.error }

// refused logs why a peer's request was refused.
func (c *Carrier) refused(from identity.ID, m *wire.MailRequest, e *kinds.Error, err error) {
	if !c.failing(from.String(), bare(err)) {
		return
	}
	level := slog.LevelInfo
	switch {
	case e.Code == kinds.Internal: // somebody here has to mend that
		level = slog.LevelWarn
	case e.Retryable:
		level = slog.LevelDebug
	}
	if m == nil { // it did not decode
		m = new(wire.MailRequest)
	}
	c.cfg.Lines.Add(from, level, "mail refused", "peer", from.Label(), "op", m.Op, "project", m.Project, "agent", m.Agent, "file", m.File, "err", err)
}

// coded is what a peer hears of an error: nothing of this machine's folders.
func (c *Carrier) coded(err error) *kinds.Error {
	e := kinds.AsError(err)
	if e.Code != kinds.Internal {
		return e
	}
	why := "see its log"
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		why = no.Error()
	}
	return kinds.Errorf(kinds.Internal, "it could not be stored there: %s", why)
}

func (c *Carrier) serve(ctx context.Context, from identity.ID, m *wire.MailRequest, body io.Reader) (string, error) {
	if m.V != wire.MailVersion {
		return "", kinds.Errorf(kinds.IncompatibleVersion, "version %d of mail is not known here, only %d", m.V, wire.MailVersion)
	}
	switch m.Op {
	case wire.MailDeliver, wire.MailPresence:
		if err := c.cfg.Admit(from); err != nil {
			return "", err
		}
	case wire.MailConsumed: // the consequence of mail from here
	default:
		return "", kinds.Errorf(kinds.UnknownKind, "op %.40q is not known here", m.Op)
	}
	p := place{m.Project, m.Agent}
	if err := p.check(); err != nil {
		return "", err
	}
	switch m.Op {
	case wire.MailDeliver:
		return c.receive(ctx, from, m, body)
	case wire.MailConsumed:
		return wire.MailOK, c.consumed(ctx, from, p, m)
	}
	c.present(from, p, m.Status)
	return wire.MailOK, nil
}

// consumed notes that the recipient of a message is done with it. The next look
// removes the copy, now if it is still that message, else when it is so again.
func (c *Carrier) consumed(ctx context.Context, from identity.ID, p place, m *wire.MailRequest) error {
	if !message.LegalFileName(m.File) {
		return kinds.Errorf(kinds.Invalid, "filename %.80q: no message from here is called that", m.File)
	}
	c.mu.Lock()
	ours, landing := false, false
	if s := c.spools[p]; s != nil && s.Peer == from {
		e := s.entries[m.File]
		ours, landing = true, e != nil && e.state == flying
	}
	c.mu.Unlock()
	switch {
	case !ours: // no copy lies here
		return nil
	case landing: // the ledger does not have it yet
		return &alone{kinds.Errorf(kinds.Overloaded, "its delivery is not over: say that again")}
	}
	if err := c.cfg.DB.Write(ctx, false, func(tx *store.Tx) error { return sqlConsumed(tx, from, p, m.File, m.Hash) }); err != nil {
		return fmt.Errorf("note what is consumed: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.spools[p]; s != nil && s.Peer == from && s.entries[m.File] != nil {
		s.entries[m.File].consumed = m.Hash
		c.touch(p, names{m.File: {}})
	}
	return nil
}

// receive stores a message. Who sends may, and who is to have it lives here, before
// a byte of it is read.
func (c *Carrier) receive(ctx context.Context, from identity.ID, m *wire.MailRequest, body io.Reader) (string, error) {
	switch {
	case m.Size > message.MaxBytes:
		return "", kinds.Errorf(kinds.TooLarge, "size: %d bytes: a message may have %d", m.Size, message.MaxBytes)
	case m.Size == 0:
		return "", kinds.Errorf(kinds.Invalid, "size: 0: a message is not empty")
	case !c.boundTo(from, m.Project, ""):
		return "", kinds.Errorf(kinds.NotAuthorized, "no agent of project %s is bound to you there: its owner may do that with acpctl oacp bind", m.Project)
	}
	key := arrivalKey{from, place{m.Project, m.Agent}, m.File, m.Hash}
	leave, err := c.enter(key)
	if err != nil {
		return "", err
	}
	defer leave()
	inbox, err := c.hosted(key.place, from)
	if err != nil {
		return "", err
	}
	inbox.Close() // no descriptor waits for a peer that does not go on
	a := &arrival{key: key, state: writing, size: int64(m.Size)}
	if err := c.reserve(a); err != nil {
		known, fail := c.known(ctx, key)
		if fail != nil || known == nil || known.state == writing {
			return "", cmp.Or(fail, err)
		}
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !a.kept {
			c.release(a)
		}
	}()

	var data bytes.Buffer // grows with what comes, not with what is announced
	if n, err := io.Copy(&data, io.LimitReader(body, int64(m.Size))); err != nil || uint64(n) < m.Size {
		return "", cutShort(cmp.Or(err, io.ErrUnexpectedEOF))
	}
	if n, err := body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return "", kinds.Errorf(kinds.Invalid, "size: more than %d bytes came", m.Size)
	}
	if sha256.Sum256(data.Bytes()) != m.Hash {
		return "", kinds.Errorf(kinds.Invalid, "sha256: the bytes have another hash")
	}
	letter, err := c.judge(ctx, from, data.Bytes())
	if err != nil {
		return "", err
	}
	if !c.boundTo(from, m.Project, letter.From) {
		return "", kinds.Errorf(kinds.NotAuthorized, "from: %s of project %s is not bound to you there: its owner may do that with acpctl oacp bind %s %s", letter.From, m.Project, m.Project, letter.From)
	}
	// From here on it may be in the inbox, so it is not given up half-way.
	return c.store(context.WithoutCancel(ctx), a, data.Bytes(), m.Delivery)
}

// known is what the ledger has of a message, nil if it has nothing.
func (c *Carrier) known(ctx context.Context, key arrivalKey) (a *arrival, err error) {
	err = c.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = sqlArrival(tx, key)
		return err
	})
	return a, err
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return kinds.Errorf(kinds.Invalid, "size: fewer bytes came")
	}
	return kinds.Errorf(kinds.Timeout, "the message did not come in time: %v", err)
}

// enter takes one of the peer's places and makes sure that nobody else stores the
// same message.
func (c *Carrier) enter(key arrivalKey) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.arriving[key]; twice {
		return nil, &alone{kinds.Errorf(kinds.Overloaded, "another stream brings the same message just now: it is tried again")}
	}
	if err := c.shares.underWay.Take(key.peer, 1); err != nil {
		return nil, exceeded(err, remedyUnderWay)
	}
	if err := c.shares.opened.Take(key.peer, openedByEach); err != nil {
		c.shares.underWay.Give(key.peer, 1)
		return nil, exceeded(err, remedyUnderWay)
	}
	c.arriving[key] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.arriving, key)
		c.shares.underWay.Give(key.peer, 1)
		c.shares.opened.Give(key.peer, openedByEach)
	}, nil
}

// hosted opens the inbox of an agent that lives here.
func (c *Carrier) hosted(p place, from identity.ID) (*os.Root, error) {
	if peer, ok := c.bound(p); ok {
		where := "elsewhere"
		if peer == from {
			where = "with you"
		}
		return nil, kinds.Errorf(kinds.NotFound, "agent %s of project %s is not hosted there: by its bindings it lives %s", p.agent, p.project, where)
	}
	err := c.checkSpelling(p)
	if err == nil {
		var inbox *os.Root
		if inbox, err = c.openInbox(p); err == nil {
			return inbox, nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if project, err := c.open(path.Join("projects", p.project)); err == nil {
		project.Close()
		return nil, kinds.Errorf(kinds.NotFound, "there is no agent %s in project %s there", p.agent, p.project)
	}
	return nil, kinds.Errorf(kinds.NotFound, "there is no project %s there", p.project)
}

// store puts a message into an inbox, once, and returns when that is durable.
func (c *Carrier) store(ctx context.Context, a *arrival, data []byte, delivery wire.MessageID) (string, error) {
	key := a.key
	inbox, err := c.hosted(key.place, key.peer)
	if err != nil {
		return "", err
	}
	defer inbox.Close()
	known, err := c.known(ctx, key)
	if err != nil {
		return "", err
	}
	result := wire.MailStored
	switch {
	case known == nil:
		if err := free(inbox, key.name(), a.size, key.hash); err != nil {
			return "", err // before the ledger has a row of what will not come
		}
		if err := c.enroll(ctx, key.peer); err != nil {
			return "", err
		}
		if err := c.write(ctx, sqlArrive, a, true); err != nil {
			c.shares.ledger.Give(key.peer, 1)
			return "", err
		}
	case known.state == stored:
		return wire.MailDuplicate, nil
	case known.state == writing: // an earlier attempt that failed, maybe after the link
		if a.name, err = a.lies(inbox); err != nil {
			return "", err
		}
		if a.name != "" {
			result = wire.MailDuplicate
		}
	default: // the sender does not know any more that it is consumed, or not yet
		known.state = consumed
		if err := c.write(ctx, sqlProceed, known, false); err != nil {
			return "", err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keep(known)
		return wire.MailDuplicate, nil
	}
	if a.name == "" {
		if a.name, err = put(inbox, key.temp(), key.name(), data); err != nil {
			return "", fmt.Errorf("store mail: %w", err)
		}
	}
	if a.folder, err = folderOf(inbox); err != nil {
		return "", fmt.Errorf("store mail: %w", err)
	}
	done := *a
	done.state = stored
	if err := c.write(ctx, sqlProceed, &done, true); err != nil {
		return "", err
	}
	c.mu.Lock()
	a.state = stored
	c.keep(a)
	// The inbox is watched from now on, and the message may be gone already.
	if len(c.arrivals[key.place]) > 1 {
		c.touch(key.place, names{a.name: {}})
	} else {
		c.touch(key.place, nil)
	}
	c.mu.Unlock()
	c.cfg.Log.Debug("mail stored", "peer", key.peer.Label(), "project", key.project, "agent", key.agent, "file", a.name, "delivery", delivery, "result", result)
	if result == wire.MailStored {
		c.cfg.Event(Event{Peer: key.peer, Project: key.project, Agent: key.agent, File: a.name, Hash: key.hash, State: Arrived})
	}
	return result, nil
}

// write notes an arrival in the ledger.
func (c *Carrier) write(ctx context.Context, how func(*store.Tx, *arrival) error, a *arrival, durable bool) error {
	return c.cfg.DB.Write(ctx, durable, func(tx *store.Tx) error { return how(tx, a) })
}
