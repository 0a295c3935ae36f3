package files

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/time/rate"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	maxPlaces    = 32               // files that are being sent or taken at a time, half of them by guests
	quietTime    = 10 * time.Minute // in which neither side of a transfer moves
	relayedRate  = 1 << 20          // bytes a second that a peer gets over relays
	openAttempts = 30               // to open the stream of a range, one a second
)

// sending is a file that is being sent.
type sending struct {
	s      *Service
	file   client.File // guarded by Service.mu
	offer  *wire.FileRequest
	ctx    context.Context
	cancel context.CancelCauseFunc

	conn    net.Conn    // the client's
	asked   chan *piece // pieces that the client was asked for, in that order
	writing sync.Mutex  // held while a line is written, and its piece put into asked
}

// piece is a part of a file that the client was asked for.
type piece struct {
	buf  []byte
	read chan struct{} // closed when buf has it
}

// serveSend sends a file, which the caller reads.
func (s *Service) serveSend(ctx context.Context, c *local.Conn, r *jsonrpc.Request) (any, error) {
	p := new(client.FileSendParams)
	if err := r.ReadParams(p); err != nil {
		return nil, err
	}
	if err := s.checkIsFree(c, "file.send"); err != nil {
		return nil, err
	}
	offer, err := newOffer(p)
	if err != nil {
		return nil, err
	}
	if err := s.Drain.CheckTakesWork(); err != nil {
		return nil, kinds.Errorf(kinds.DaemonUnavailable, "file.send: the daemon takes no new work, since it ends when the work that it has is done: try again when it is back")
	}
	to, err := s.Outgoing.ResolvePeer(ctx, c, p.To, config.PolicyFile)
	if err != nil {
		return nil, err
	}
	chain, err := s.Known.FindParentChain(ctx, c.GuestCredential(), &p.Head)
	if err != nil {
		return nil, err
	}
	offer.FromAgent, offer.Thread, offer.Hops = c.Credential().Name, chain.Thread, chain.Hops
	x := &sending{s: s, offer: offer, asked: make(chan *piece, maxWanted), file: newFile(client.Out, to, offer)}
	x.file.State, x.file.Since = client.FileMoving, time.Now().UTC()
	entry := composeEntry(s.Self, to.ID, offer, &x.file) // which the receiver makes of the offer
	if _, err := s.Outgoing.Check(entry, &p.Head); err != nil {
		return nil, err
	}
	leave, err := s.takePlace(c, "file.send") // before it counts for the session
	if err != nil {
		return nil, err
	}
	defer leave()
	charged := *entry
	charged.To = sha256.Sum256(append([]byte("file "), to.ID[:]...)) // else a message under the same id would be a repeat
	if err := s.Outgoing.CountSend(ctx, &p.Head, &charged); err != nil {
		return nil, err
	}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	s.mu.Lock()
	s.sendings[x] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sendings, x)
	}()
	if x.conn, err = r.TakeOver(nil); err != nil {
		return nil, err
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		x.readPieces()
	}()
	sent, err := x.run()
	line := &client.FileSendLine{Done: sent}
	told := []any{"peer", to.ID.Label(), "agent", offer.FromAgent, "id", offer.ID, "size", offer.Size}
	if err != nil {
		line.Error = kinds.AsError(c.MaskErrorAddrs(kinds.AsError(err)))
		s.PeerLog.WriteLimited(to.ID, slog.LevelInfo, "file not sent", append(told, "err", err)...)
	} else {
		s.PeerLog.WriteLimited(to.ID, slog.LevelInfo, "file sent", append(told, "state", sent.State)...)
	}
	x.writeLine(line, nil)
	x.conn.Close() // ends readPieces
	<-reading
	return nil, nil
}

// takePlace takes one of the places for files on their way from or to a client. It returns what gives it back. Its
// errors begin with op.
func (s *Service) takePlace(c *local.Conn, op string) (leave func(), err error) {
	ofGuests := 0
	if c.IsGuest {
		ofGuests = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == maxPlaces || c.IsGuest && s.ofGuests == maxPlaces/2 {
		return nil, kinds.Errorf(kinds.Overloaded, "%s: %d files are being sent and taken, of which agents may have %d: wait until one is over", op, s.places, maxPlaces/2)
	}
	s.places++
	s.ofGuests += ofGuests
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.places--
		s.ofGuests -= ofGuests
	}, nil
}

// newOffer returns the offer of the file that a caller describes, after checking it.
func newOffer(p *client.FileSendParams) (*wire.FileRequest, error) {
	offer := &wire.FileRequest{V: wire.FileVersion, Op: wire.FileOffer, ID: p.ID, Name: p.Name, Size: p.Size, Agent: p.Agent, Ref: p.Ref, Thread: p.Thread, Text: p.Text, WaitMS: p.WaitMS}
	if offer.ID.IsZero() {
		offer.ID = wire.NewMessageID()
	}
	hash, err := hex.DecodeString(p.SHA256)
	if err != nil || len(hash) != len(offer.Hash) {
		return nil, kinds.Errorf(kinds.Invalid, "file.send: sha256: expected 64 hex digits")
	}
	copy(offer.Hash[:], hash)
	if _, err := wire.AppendFileRequest(nil, offer); err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "file.send: %v", err)
	}
	return offer, nil
}

// run offers the file and sends the ranges that the receiver wants, until that has the file or refuses it.
func (x *sending) run() (*client.FileSent, error) {
	wants := make(chan *wire.FileReply, maxTries*maxWanted)
	var working sync.WaitGroup
	defer working.Wait()
	defer close(wants)
	defer x.cancel(nil)
	st, err := x.s.Node.OpenStream(x.ctx, x.file.Peer, wire.StreamFile)
	if err != nil {
		return nil, x.explain(err)
	}
	defer st.Cancel() // unless it is closed
	b, err := wire.AppendFileRequest(nil, x.offer)
	if err == nil {
		_, err = st.Write(b)
	}
	if err != nil {
		return nil, x.explain(err)
	}
	left := maxTries * countRanges(x.offer.Size) // that may be wanted
	replies := bufio.NewReader(st)
	st.SetReadDeadline(time.Now().Add(answerTime(x.offer) + idleTime))
	for asked, moving := false, false; ; {
		reply, err := wire.ReadFileReply(replies)
		if err != nil {
			return nil, x.explain(err)
		}
		reply.Have = min(reply.Have, x.offer.Size)
		switch op := reply.Op; {
		case op == wire.FileAsked && !asked && !moving:
			asked = true
			x.setState(client.FileAsked, 0)
			err = x.writeLine(&client.FileSendLine{State: client.FileAsked, ID: x.offer.ID}, nil)
		case op == wire.FileTake && !moving:
			moving = true
			defer x.s.Drain.Hold()()
			x.setState(client.FileMoving, 0)
			st.SetReadDeadline(time.Now().Add(quietTime)) // later by each piece that moves, not by each want
			for range maxWanted {
				working.Go(func() {
					buf := make([]byte, min(pieceBytes, x.offer.Size))
					for w := range wants {
						if x.ctx.Err() == nil {
							x.sendRange(st, w, buf)
						}
					}
				})
			}
			err = x.writeLine(&client.FileSendLine{State: client.FileMoving, Relay: st.Path() == peer.ViaRelay, ID: x.offer.ID}, nil)
		case op == wire.FileWant && moving && left > 0 && len(wants) < cap(wants) && isRange(x.offer.Size, reply.Offset, reply.Length):
			left--
			x.setState(client.FileMoving, reply.Have)
			wants <- reply
		case op == wire.FileDone:
			st.Close()
			return &client.FileSent{ID: x.offer.ID, State: client.ReceiptState(reply.State), Had: reply.Had}, nil
		case op == wire.FileRefuse:
			st.Close()
			e := kinds.NewErrorFromWire(reply.Code, reply.Message, reply.RetryAfterMS)
			e.From = x.file.PeerName
			return nil, e
		default:
			return nil, errUnexpected
		}
		if err != nil {
			return nil, err
		}
	}
}

var errUnexpected = kinds.Errorf(kinds.Internal, "file.send: the receiver has asked for what it may not have: update acpd on both machines")

// explain returns the error that the client gets for one of the offer's stream.
func (x *sending) explain(err error) error {
	_, coded := errors.AsType[*kinds.Error](err)
	switch _, malformed := errors.AsType[*wire.FormatError](err); {
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case coded:
		return err
	case malformed:
		return errUnexpected
	}
	return kinds.Errorf(kinds.Unreachable, "file.send: the connection to %s broke: send the file again under the id %s, and the rest follows", identity.CleanClaim(x.file.PeerName), x.offer.ID)
}

func (x *sending) setState(state client.FileState, have uint64) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.file.State, x.file.Bytes = state, have
}

// sendRange sends a range on a stream of its own. If the stream breaks, the receiver wants the range again. If the
// client does not send it, the sending ends.
func (x *sending) sendRange(offer *peer.Stream, w *wire.FileReply, buf []byte) {
	st, err := x.openRange()
	if err != nil {
		x.cancel(err)
		return
	}
	defer st.Cancel() // unless it is closed
	b, err := wire.AppendFileRequest(nil, &wire.FileRequest{V: wire.FileVersion, Op: wire.FileRange, ID: x.offer.ID, Offset: w.Offset, Length: w.Length})
	if err == nil {
		_, err = st.Write(b)
	}
	for at := uint64(0); at < w.Length && err == nil; at += pieceBytes {
		part := buf[:min(pieceBytes, w.Length-at)]
		if err = x.readPiece(w.Offset+at, w.Have, part); err == nil && st.Path() == peer.ViaRelay {
			err = x.s.relayLimit(x.file.Peer).WaitN(x.ctx, len(part))
		}
		if err == nil {
			_, err = st.Write(part)
		}
		if err == nil {
			offer.SetReadDeadline(time.Now().Add(quietTime))
		}
	}
	if err == nil {
		st.Close()
	}
}

// openRange opens a stream. It waits while there are too many, or no connection.
func (x *sending) openRange() (st *peer.Stream, err error) {
	for range openAttempts {
		if st, err = x.s.Node.OpenStream(x.ctx, x.file.Peer, wire.StreamFile); err == nil || pace.Sleep(x.ctx, time.Second) != nil {
			break
		}
	}
	return st, err
}

// relayLimit returns the limit of what a peer gets over relays.
func (s *Service) relayLimit(to identity.ID) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.relayed[to]
	if l == nil {
		l = rate.NewLimiter(relayedRate, 2*pieceBytes)
		s.relayed[to] = l
	}
	return l
}

// readPiece asks the client for a part of the file and waits for it. If the client does not send it, the sending ends.
func (x *sending) readPiece(offset, have uint64, buf []byte) error {
	p := &piece{buf, make(chan struct{})}
	if err := x.writeLine(&client.FileSendLine{Range: &[2]uint64{offset, uint64(len(buf))}, Moved: have}, p); err != nil {
		x.cancel(err)
	}
	select {
	case <-p.read:
		return nil
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
}

// writeLine writes a line to the client, which answers with p unless that is nil.
func (x *sending) writeLine(line *client.FileSendLine, p *piece) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	if p != nil {
		if err := x.ctx.Err(); err != nil { // a client that does not read costs its time once
			return err
		}
		x.asked <- p
	}
	x.conn.SetWriteDeadline(time.Now().Add(idleTime))
	if _, err := x.conn.Write(append(b, '\n')); err != nil {
		return ownwords.Errorf("file.send: the client reads no more: %w", err)
	}
	return nil
}

// readPieces reads what the client sends, until the client closes the connection or the sending ends. It ends the
// sending if the client sends what it was not asked for.
func (x *sending) readPieces() {
	body := bufio.NewReader(x.conn)
	for {
		_, err := body.Peek(1)
		if err == nil {
			select {
			case p := <-x.asked:
				if _, err = io.ReadFull(body, p.buf); err == nil {
					close(p.read)
				}
			default:
				err = kinds.Errorf(kinds.Invalid, "file.send: the client has sent what it was not asked for")
			}
		}
		if err != nil {
			x.cancel(kinds.Errorf(kinds.Cancelled, "file.send: the client has ended the transfer: %v", err))
			return
		}
	}
}
