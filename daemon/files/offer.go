package files

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	idleTime      = 60 * time.Second // without a byte of what a peer has to send
	maxUnfinished = 16               // files of a peer that have not come whole
)

// Serve serves one stream that a peer has opened, and ends it.
func (s *Service) Serve(ctx context.Context, from identity.ID, st *peer.Stream) {
	st.SetReadDeadline(time.Now().Add(idleTime))
	body := bufio.NewReader(st)
	request, err := wire.ReadFileRequest(body)
	switch _, malformed := errors.AsType[*wire.FormatError](err); {
	case err != nil && !malformed:
		st.Cancel() // it broke: nobody waits for an answer
		return
	case err == nil && request.Op == wire.FileRange && request.V == wire.FileVersion:
		s.serveRange(from, st, request, body)
		return
	}
	var done *wire.FileReply
	if err == nil {
		done, err = s.receive(ctx, from, st, request)
	}
	if ctx.Err() != nil {
		st.Cancel()
		return
	}
	env := &wire.Envelope{From: from, Kind: config.PolicyFile}
	told := []any{"peer", from.Label()}
	if request != nil {
		env.ID = request.ID
		told = append(told, "id", request.ID, "size", request.Size)
	}
	if err == nil {
		s.PeerLog.WriteLimited(from, slog.LevelInfo, "file came", append(told, "state", done.State)...)
	} else {
		masked := s.Agents.MaskLocalError(env, err)
		if errors.Is(masked, err) { // else that has logged it
			s.PeerLog.WriteLimited(from, slog.LevelInfo, "file refused", append(told, "err", err)...)
		}
		e := kinds.AsError(masked)
		done = &wire.FileReply{Op: wire.FileRefuse, Code: string(e.Code), Message: e.Message, RetryAfterMS: e.RetryAfterMS}
	}
	writeReply(ctx, st, done)
	st.Close()
}

// writeReply writes an item that answers an offer. When ctx ends it has a second more.
func writeReply(ctx context.Context, st *peer.Stream, f *wire.FileReply) error {
	b, err := wire.AppendFileReply(nil, f)
	if err != nil {
		return err
	}
	st.SetWriteDeadline(time.Now().Add(idleTime)) // a peer may give it no credit
	defer context.AfterFunc(ctx, func() { st.SetWriteDeadline(time.Now().Add(time.Second)) })()
	_, err = st.Write(b)
	return err
}

// receive takes the file that a peer offers, or returns the error that refuses it. It returns the last item of the
// answer.
func (s *Service) receive(ctx context.Context, from identity.ID, st *peer.Stream, offer *wire.FileRequest) (_ *wire.FileReply, err error) {
	switch {
	case offer.V != wire.FileVersion:
		return nil, kinds.Errorf(kinds.IncompatibleVersion, "version %d of files is not known here, only %d", offer.V, wire.FileVersion)
	case offer.Op != wire.FileOffer:
		return nil, kinds.Errorf(kinds.UnknownKind, "op %.40q is not known here", offer.Op)
	}
	if err := s.Admit(from); err != nil {
		return nil, err
	}
	if !s.Known.Begin(from, offer.ID) {
		return nil, kinds.Errorf(kinds.Invalid, "id: %s was used for something else: leave it out, so that the file gets one of its own", offer.ID)
	}
	defer s.Known.End(offer.ID)
	a, end := s.begin(ctx, key{from, offer.ID}, kinds.Errorf(kinds.Cancelled, "file: it is being sent again"))
	defer end()
	ctx = a.ctx
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	sender, trusted := s.Trust.FindPeer(from) // after begin: what ForgetPeer does not see, sees that
	if !trusted {
		return nil, errUntrusted
	}
	r, err := s.readRecord(ctx, a.key)
	if err != nil {
		return nil, err
	}
	if r != nil && (r.Hash != offer.Hash || r.Size != offer.Size) {
		return nil, kinds.Errorf(kinds.Invalid, "id: another file was sent under %s: leave it out, so that this one gets one of its own", offer.ID)
	}
	had := r != nil && r.whole
	if !had {
		if most := s.Config().Files.Max; offer.Size > most { // also one that continues
			return nil, kinds.Errorf(kinds.TooLarge, "size: %d bytes: a file may have %d there; its owner may allow more with files.max", offer.Size, most)
		}
		if err := s.underWay.Reserve(from, 1); err != nil {
			return nil, newFullError("%v: wait until one is over, or its owner has answered", err)
		}
		defer s.underWay.Release(from, 1)
		if r == nil {
			r, err = s.accept(ctx, sender, st, offer)
		} else {
			err = s.admit(ctx, r, st)
		}
		if err != nil {
			return nil, err
		}
		defer s.Drain.Hold()()
		if err := s.fetch(ctx, a, r, st); err != nil {
			return nil, err
		}
	}
	state, err := s.report(ctx, sender, r)
	if e, coded := errors.AsType[*kinds.Error](err); coded && e.Code == kinds.Overloaded {
		err = newFullError("the file is there, but its owner is told of it only when there is room: %s", e.Message)
	}
	if err != nil {
		return nil, err
	}
	return &wire.FileReply{Op: wire.FileDone, State: state.String(), Had: had}, nil
}

func newFullError(format string, args ...any) error {
	e := kinds.Errorf(kinds.Overloaded, format, args...)
	e.RetryAfterMS = 60_000
	return e
}

// accept decides whether a file that is not known yet is taken, for which it may ask the owner. It reserves what the
// file needs, and records it.
func (s *Service) accept(ctx context.Context, sender identity.Peer, st *peer.Stream, offer *wire.FileRequest) (_ *record, err error) {
	if err := s.Space.CheckFileRoom(sender.ID, offer.Size); err != nil {
		return nil, err
	}
	r := &record{peer: sender.ID, FileRequest: *offer, since: time.Now()}
	r.Name = cleanName(offer.Name)
	entry := s.newEntry(r) // could it be held? Before the bytes come
	if _, err := kinds.CheckEnvelope(entry); err != nil {
		return nil, err
	}
	if _, err := s.Inbox.Contains(ctx, entry); err != nil {
		return nil, err
	}
	if s.Repeats.FindRun(sender.ID, offer.ID) != nil { // a message, which an agent may have been handed
		return nil, inbox.NewReusedIDError(entry)
	}
	if err := s.files.Reserve(sender.ID, 1); err != nil {
		return nil, newFullError("%v: its owner has to remove some", err)
	}
	if err := s.bytes.Reserve(sender.ID, int64(offer.Size)); err != nil {
		s.files.Release(sender.ID, 1)
		return nil, newFullError("%v: its owner has to remove some", err)
	}
	defer func() {
		if err != nil {
			s.files.Release(sender.ID, 1)
			s.bytes.Release(sender.ID, int64(offer.Size))
		}
	}()
	return r, s.admit(ctx, r, st)
}

// admit records a file, unless it has a record. It asks the owner before that if the peer has sent enough without a
// question.
func (s *Service) admit(ctx context.Context, r *record, st *peer.Stream) error {
	ask, err := s.admitRecord(ctx, r, false)
	if err != nil || !ask {
		return err
	}
	if err := writeReply(ctx, st, &wire.FileReply{Op: wire.FileAsked}); err != nil {
		return err
	}
	if err := s.ask(ctx, r); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.lost, r.peer)
	s.mu.Unlock()
	r.since = time.Now()
	_, err = s.admitRecord(ctx, r, true)
	return err
}

func startOfDay() time.Time {
	now := time.Now()
	return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
}

// countLost counts bytes that a peer has sent and that ended in nothing, or were removed. It returns how many they
// were today, since the owner was asked last.
func (s *Service) countLost(peer identity.ID, n uint64) uint64 {
	today := s.Today()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lostDay.Equal(today) {
		clear(s.lost)
		s.lostDay = today
	}
	s.lost[peer] += n
	return s.lost[peer]
}

// newEntry returns the message that reports a file. Its sender is the peer, but this daemon makes it.
func (s *Service) newEntry(r *record) *wire.Envelope {
	f := s.describeOffer(r)
	return composeEntry(r.peer, s.Self, &r.FileRequest, &f)
}

// composeEntry returns the message that reports an offered file.
func composeEntry(from, to identity.ID, offer *wire.FileRequest, f *client.File) *wire.Envelope {
	env := wire.NewEnvelope(from, to, kinds.KindNotify, f.EncodeReport())
	env.ID, env.Agent, env.FromAgent, env.Thread, env.Hops = offer.ID, offer.Agent, offer.FromAgent, offer.Thread, offer.Hops
	return env
}

// report hands the entry for a file that is whole to agents, or puts it into the inbox, unless that was done. It
// returns which of the two is so.
func (s *Service) report(ctx context.Context, sender identity.Peer, r *record) (wire.ReceiptState, error) {
	env := s.newEntry(r)
	if r.reported {
		held, err := s.Inbox.Contains(ctx, env)
		if held {
			return wire.Held, err
		}
		return wire.Handed, err
	}
	if ctx.Err() != nil { // the peer is untrusted, or the owner removes the file: no agent may be handed it then
		return 0, context.Cause(ctx)
	}
	out, _ := s.Agents.HandOrHold(ctx, sender, env, r.Agent, client.OriginDaemon, s.Registry.FindTakers(env.Kind, client.FileTopic, r.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
	if out.Err != nil {
		return 0, out.Err
	}
	r.reported = true
	return out.State, s.updateRecord(ctx, r)
}
