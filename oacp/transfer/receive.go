package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// deadlineReader bounds how long a peer may send nothing, and how long it may send.
type deadlineReader struct {
	s   Stream
	end time.Time
}

func (p deadlineReader) Read(b []byte) (int, error) {
	p.s.SetReadDeadline(time.Now().Add(min(idleTime, time.Until(p.end))))
	return p.s.Read(b)
}

// Serve answers one stream that a peer has opened, and ends it.
func (m *Mailer) Serve(ctx context.Context, from identity.ID, s Stream) {
	defer s.Close()
	r := bufio.NewReader(deadlineReader{s, time.Now().Add(streamTime)})
	request, err := wire.ReadMailRequest(r)
	result := ""
	if err == nil {
		result, err = m.handleRequest(ctx, from, request, r)
	} else if _, malformed := errors.AsType[*wire.FormatError](err); !malformed {
		s.Cancel() // it broke: nobody waits for an answer
		return
	}
	reply := &wire.MailReply{Result: result}
	if err != nil {
		e := m.sanitizeErrorForPeer(err)
		reply = &wire.MailReply{Result: wire.MailRefused, Code: string(e.Code), Message: e.Message}
		if _, ok := errors.AsType[*singleMessageError](err); ok {
			reply.Scope = wire.MailScopeMessage
		}
		switch {
		case e.Retryable, e.Code == kinds.Internal, e.Code == kinds.Cancelled: // a disk, a shutdown
			reply.Result = wire.MailRetry
		}
		m.logRefusal(from, request, e, err)
	} else if result == wire.MailStored {
		m.failures.clearFailure(from.String())
	}
	if m.cfg.Carried != nil && request != nil && request.Op == wire.MailDeliver {
		m.cfg.Carried(false, reply.Result)
	}
	b, err := wire.AppendMailReply(nil, reply)
	if err != nil {
		s.Cancel()
		return
	}
	s.SetWriteDeadline(time.Now().Add(idleTime)) // a peer may give it no credit
	s.Write(b)
}

// singleMessageError marks a refusal that only concerns one message. Its sender continues with others.
type singleMessageError struct{ error }

func (a *singleMessageError) Unwrap() error { return a.error }

// logRefusal logs why a peer's request was refused.
func (m *Mailer) logRefusal(from identity.ID, request *wire.MailRequest, e *kinds.Error, err error) {
	if !m.failures.addIfNew(from.String(), errorTextWithoutPath(err)) {
		return
	}
	level := slog.LevelInfo
	switch {
	case e.Code == kinds.Internal: // the owner of this daemon has to correct that
		level = slog.LevelWarn
	case e.Retryable:
		level = slog.LevelDebug
	}
	if request == nil { // it did not decode
		request = new(wire.MailRequest)
	}
	m.cfg.PeerLog.WriteLimited(from, level, "mail refused", "peer", from.Label(), "op", request.Op, "project", request.Project, "agent", request.Agent, "file", request.File, "err", err)
}

// sanitizeErrorForPeer returns an error for a peer, which names no folder of this machine.
func (m *Mailer) sanitizeErrorForPeer(err error) *kinds.Error {
	e := kinds.AsError(err)
	if e.Code != kinds.Internal {
		return e
	}
	why := "see its log"
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		why = ownwords.Of(no)
	}
	return kinds.Errorf(kinds.Internal, "it could not be stored there: %s", why)
}

func (m *Mailer) handleRequest(ctx context.Context, from identity.ID, request *wire.MailRequest, body io.Reader) (string, error) {
	if request.V != wire.MailVersion {
		return "", kinds.Errorf(kinds.IncompatibleVersion, "version %d of mail is not known here, only %d", request.V, wire.MailVersion)
	}
	switch request.Op {
	case wire.MailDeliver, wire.MailPresence:
		if err := m.cfg.Admit(from); err != nil {
			return "", err
		}
	case wire.MailConsumed: // the consequence of mail from here
	default:
		return "", kinds.Errorf(kinds.UnknownKind, "op %.40q is not known here", request.Op)
	}
	p := mailbox{request.Project, request.Agent}
	if err := p.checkNames(); err != nil {
		return "", err
	}
	switch request.Op {
	case wire.MailDeliver:
		return m.receiveMail(ctx, from, request, body)
	case wire.MailConsumed:
		return wire.MailOK, m.handleConsumedReport(ctx, from, p, request)
	}
	m.ledger.recordPresence(from, p, request.Status)
	return wire.MailOK, nil
}

// handleConsumedReport notes that the recipient of a message has finished it. A scan removes the
// copy as soon as it is that message: now, or after a change was undone.
func (m *Mailer) handleConsumedReport(ctx context.Context, from identity.ID, p mailbox, request *wire.MailRequest) error {
	if !message.IsLegalFileName(request.File) {
		return kinds.Errorf(kinds.Invalid, "filename %.80q: no message from here is called that", request.File)
	}
	switch peer, state, bound := m.ledger.findEntryState(p, request.File); {
	case !bound || peer != from: // there is no copy here
		return nil
	case state == sending: // the store does not have it yet
		return &singleMessageError{kinds.Errorf(kinds.Overloaded, "its delivery is not over: say that again")}
	}
	if err := m.cfg.DB.Write(ctx, false, func(tx *store.Tx) error { return sqlMarkDeliveryConsumed(tx, from, p, request.File, request.Hash) }); err != nil {
		return ownwords.Errorf("note what is consumed: %w", err)
	}
	m.ledger.markFileConsumed(p, from, request.File, request.Hash)
	return nil
}

// receiveMail stores a message. Before it reads a byte of it, it checks whether the peer may send
// it and whether the recipient lives here.
func (m *Mailer) receiveMail(ctx context.Context, from identity.ID, request *wire.MailRequest, body io.Reader) (string, error) {
	switch {
	case request.Size > message.MaxBytes:
		return "", kinds.Errorf(kinds.TooLarge, "size: %d bytes: a message may have %d", request.Size, message.MaxBytes)
	case request.Size == 0:
		return "", kinds.Errorf(kinds.Invalid, "size: 0: a message is not empty")
	case !m.ledger.isAgentBoundTo(from, request.Project, ""):
		return "", kinds.Errorf(kinds.NotAuthorized, "no agent of project %s is bound to you there: its owner may do that with acpctl oacp bind", request.Project)
	}
	key := arrivalKey{from, mailbox{request.Project, request.Agent}, request.File, request.Hash}
	leave, err := m.ledger.beginArrival(key)
	if err != nil {
		return "", err
	}
	defer leave()
	inbox, err := m.openHostedInbox(key.mailbox, from)
	if err != nil {
		return "", err
	}
	inbox.Close() // a peer that sends nothing must not hold a descriptor
	a := &arrival{key: key, state: writing, size: int64(request.Size)}
	if err := m.ledger.reserveRoom(a); err != nil {
		known, fail := m.readArrival(ctx, key)
		if fail != nil || known == nil || known.state == writing {
			return "", cmp.Or(fail, err)
		}
	}
	defer m.ledger.releaseRoomUnlessStored(a)

	var data bytes.Buffer // grows with the bytes that come, not with the announced size
	switch n, err := io.Copy(&data, io.LimitReader(body, int64(request.Size))); {
	case err == nil && uint64(n) < request.Size, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", kinds.Errorf(kinds.Invalid, "size: fewer bytes came")
	case err != nil:
		return "", kinds.Errorf(kinds.Timeout, "the message did not come in time: %v", err)
	}
	if n, err := body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return "", kinds.Errorf(kinds.Invalid, "size: more than %d bytes came", request.Size)
	}
	if sha256.Sum256(data.Bytes()) != request.Hash {
		return "", kinds.Errorf(kinds.Invalid, "sha256: the bytes have another hash")
	}
	msg, err := m.parseArrivedMessage(ctx, from, data.Bytes())
	if err != nil {
		return "", err
	}
	if !m.ledger.isAgentBoundTo(from, request.Project, msg.From) {
		return "", kinds.Errorf(kinds.NotAuthorized, "from: %s of project %s is not bound to you there: its owner may do that with acpctl oacp bind %s %s", msg.From, request.Project, request.Project, msg.From)
	}
	// From here on it may be in the inbox: the end of ctx must not stop it.
	return m.storeMail(context.WithoutCancel(ctx), a, data.Bytes(), request.Delivery)
}

// readArrival returns an arrival from the store, or nil.
func (m *Mailer) readArrival(ctx context.Context, key arrivalKey) (a *arrival, err error) {
	err = m.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = sqlReadArrival(tx, key)
		return err
	})
	return a, err
}

// openHostedInbox opens the inbox of an agent that lives here.
func (m *Mailer) openHostedInbox(p mailbox, from identity.ID) (*os.Root, error) {
	if peer, ok := m.ledger.findBoundPeer(p); ok {
		where := "elsewhere"
		if peer == from {
			where = "with you"
		}
		return nil, kinds.Errorf(kinds.NotFound, "agent %s of project %s is not hosted there: by its bindings it lives %s", p.agent, p.project, where)
	}
	var inbox *os.Root
	err := m.checkAgentSpelling(p)
	if err == nil {
		inbox, err = m.openInbox(p)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return inbox, err
	}
	if project, err := m.openFolder(path.Join("projects", p.project)); err == nil {
		project.Close()
		return nil, kinds.Errorf(kinds.NotFound, "there is no agent %s in project %s there", p.agent, p.project)
	}
	return nil, kinds.Errorf(kinds.NotFound, "there is no project %s there", p.project)
}

// storeMail puts a message into an inbox, once, and returns when that is durable.
func (m *Mailer) storeMail(ctx context.Context, a *arrival, data []byte, delivery wire.MessageID) (string, error) {
	key := a.key
	inbox, err := m.openHostedInbox(key.mailbox, key.peer)
	if err != nil {
		return "", err
	}
	defer inbox.Close()
	known, err := m.readArrival(ctx, key)
	if err != nil {
		return "", err
	}
	result := wire.MailStored
	switch {
	case known == nil:
		if err := checkFreeFileName(inbox, key.localFileName(), a.size, key.hash); err != nil {
			return "", err // before the store has a row of what will not come
		}
		if err := m.reserveArrivalRow(ctx, key.peer); err != nil {
			return "", err
		}
		if err := m.writeArrival(ctx, sqlAddArrival, a, true); err != nil {
			m.ledger.accounts.arrivals.Release(key.peer, 1)
			return "", err
		}
	case known.state == stored:
		return wire.MailDuplicate, nil
	case known.state == writing: // an earlier attempt that failed, maybe after the link
		if a.name, err = a.findFile(inbox); err != nil {
			return "", err
		}
		if a.name != "" {
			result = wire.MailDuplicate
		}
	default: // it is consumed, and the sender does not know that
		known.state = consumed
		if err := m.writeArrival(ctx, sqlUpdateArrival, known, false); err != nil {
			return "", err
		}
		m.ledger.refileArrivals(known)
		return wire.MailDuplicate, nil
	}
	if a.name == "" {
		if a.name, err = storeFile(inbox, key.tempFileName(), key.localFileName(), data); err != nil {
			return "", ownwords.Errorf("store mail: %w", err)
		}
	}
	if a.folder, err = readFolderInode(inbox); err != nil {
		return "", ownwords.Errorf("store mail: %w", err)
	}
	done := *a
	done.state = stored
	if err := m.writeArrival(ctx, sqlUpdateArrival, &done, true); err != nil {
		return "", err
	}
	m.ledger.markArrivalStored(a)
	m.cfg.Log.Debug("mail stored", "peer", key.peer.Label(), "project", key.project, "agent", key.agent, "file", a.name, "delivery", delivery, "result", result)
	if result == wire.MailStored {
		m.cfg.Event(Event{Peer: key.peer, Project: key.project, Agent: key.agent, File: a.name, Hash: key.hash, State: Arrived})
	}
	return result, nil
}

// writeArrival notes an arrival in the store.
func (m *Mailer) writeArrival(ctx context.Context, how func(*store.Tx, *arrival) error, a *arrival, durable bool) error {
	return m.cfg.DB.Write(ctx, durable, func(tx *store.Tx) error { return how(tx, a) })
}
