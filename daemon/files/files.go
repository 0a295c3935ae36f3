// Package files sends files to peers and takes those that peers send.
//
// A file that comes is stored below the state directory, with a record in the store; it is nowhere else on this
// machine until somebody takes it. The receiver asks for its bytes in ranges, so that a transfer that broke continues
// where it was. The daemon never opens a path that a caller or a peer names: the client that sends a file reads it.
//
// A file that has come whole is on disk, with its record and the inbox entry that reports it, before its sender gets
// the answer.
//
// Package agents decides who gets the entry, and package permissions whose files may come.
package files

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// folder is the folder of the state directory in which the bytes are.
const folder = "files"

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	agents.Deps
	Agents   *agents.Service
	Outgoing *outgoing.Service
	Dir      string // the state directory
	DB       *store.DB
	Config   func() *config.Config
	Admit    func(from identity.ID) error // returns an error unless a peer may send a file now
	Today    func() time.Time             // returns when this day began; nil: by the local calendar
}

// Service has the files of a daemon. Its methods may be called from any goroutine.
type Service struct {
	Deps
	dir                    string
	files, bytes, underWay *budget.Account

	mu        sync.Mutex // guards what follows
	arrivals  map[key]*arrival
	sendings  map[*sending]bool
	places    int // that are taken; see takePlace
	ofGuests  int // of them
	approvals []*approval
	lastAsked uint64                        // number of the last approval; the first is drawn: an answer given to an earlier run is for none of this
	relayed   map[identity.ID]*rate.Limiter // what may be sent over relays
	lost      map[identity.ID]uint64        // bytes that came on lostDay and ended in nothing; see countLost
	lostDay   time.Time
}

// key names a file that comes: peers draw ids independently.
type key struct {
	peer identity.ID
	id   wire.MessageID
}

// Open reads the records, and removes what a crash has left without one.
func Open(ctx context.Context, d Deps) (*Service, error) {
	s := &Service{
		Deps: d, dir: filepath.Join(d.Dir, folder),
		files: d.Budget.OpenAccount(budget.Files), bytes: d.Budget.OpenAccount(budget.FileBytes), underWay: d.Budget.OpenAccount(budget.FileTransfers),
		arrivals: make(map[key]*arrival), sendings: make(map[*sending]bool), relayed: make(map[identity.ID]*rate.Limiter), lost: make(map[identity.ID]uint64),
		lastAsked: 100_000 + rand.Uint64N(800_000),
	}
	if s.Today == nil {
		s.Today = startOfDay
	}
	if err := s.reconcile(ctx); err != nil {
		return nil, ownwords.Errorf("open files: %w", err)
	}
	return s, nil
}

// Methods returns the methods of files.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodFileSend:   {Serve: s.serveSend, ForGuests: true},
		client.MethodFileTake:   {Serve: s.serveTake, ForGuests: true},
		client.MethodFiles:      local.ForAgents(s.serveFiles),
		client.MethodFileRemove: local.ForOwner(s.serveRemove),
		client.MethodFileAsk:    local.ForOwner(s.serveAsk).WithDiskReserve(s.Space.Reserve),
	}
}

// path returns where the bytes of a file are once it is whole.
func (s *Service) path(k key) string {
	return filepath.Join(s.folderOf(k.peer), k.id.String())
}

func (s *Service) folderOf(peer identity.ID) string { return filepath.Join(s.dir, peer.String()) }

// newFile returns the file of an offer, as the local API shows it.
func newFile(direction client.MessageDirection, of identity.Peer, offer *wire.FileRequest) client.File {
	return client.File{
		ID: offer.ID, Direction: direction, Peer: of.ID, PeerName: of.Name, Agent: offer.Agent, FromAgent: offer.FromAgent, Name: cleanName(offer.Name),
		Size: offer.Size, SHA256: hex.EncodeToString(offer.Hash[:]), Text: offer.Text, Ref: offer.Ref, Thread: offer.Thread,
	}
}

// describeOffer returns the file of a record, without how far it has come.
func (s *Service) describeOffer(r *record) client.File {
	f := newFile(client.In, identity.Peer{ID: r.peer, Name: s.Trust.NameOf(r.peer)}, &r.FileRequest)
	f.Since, f.TakenBy = r.since.UTC(), r.takenBy
	return f
}

// describe returns the file of a record, as the local API shows it.
func (s *Service) describe(r *record) client.File {
	f := s.describeOffer(r)
	if r.whole {
		f.State, f.Bytes, f.Until = client.FileHere, r.Size, client.Time{Time: r.until}
		if r.takenBy != "" {
			f.State = client.FileTaken
		}
		return f
	}
	s.mu.Lock()
	a := s.arrivals[r.key()]
	s.mu.Unlock()
	if a != nil {
		f.State, f.Bytes = client.FileMoving, a.countBytes()
		return f
	}
	_, have := readMarks(s.path(r.key()), r.Size)
	f.State, f.Bytes, f.Until = client.FilePaused, have, client.Time{Time: s.findEnd(r)}
	return f
}

// serveFiles lists files, as many as fit a line: first what waits for the owner and what is being sent, then those
// that came, each the newest first.
func (s *Service) serveFiles(ctx context.Context, c *local.Conn, p *client.FilesParams) (any, error) {
	const most = 1000 // records in one answer
	of, err := readerOf(c, "files")
	if err != nil {
		return nil, err
	}
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "files: limit: expected 1 or more")
	}
	limit := min(cmp.Or(p.Limit, most), most)
	peers, err := s.Peers.ResolveAll(p.Peers, c.IsGuest)
	if err != nil {
		return nil, err
	}
	records, err := s.readRecords(ctx, "row < ? AND (? OR id = ?) AND (? OR ref = ?) ORDER BY row DESC LIMIT ?",
		min(cmp.Or(p.After, math.MaxInt64), math.MaxInt64), p.ID.IsZero(), p.ID[:], p.Ref.IsZero(), p.Ref[:], limit+1)
	if err != nil {
		return nil, ownwords.Errorf("files: %w", err)
	}
	answer := &client.Files{Files: []client.File{}}
	room := s.MaxListBytes()
	add := func(f *client.File) (fits bool) {
		if !isSeen(f, peers, of) || !p.ID.IsZero() && p.ID != f.ID || !p.Ref.IsZero() && p.Ref != f.Ref {
			return true
		}
		room -= 1024 + wire.MaxJSONLength(f.Name+f.Text+f.Thread+f.Agent+f.FromAgent+f.TakenBy)
		if room < 0 && len(answer.Files) > 0 {
			return false
		}
		answer.Files = append(answer.Files, *f)
		return true
	}
	if p.After == 0 {
		for _, f := range s.listUnderWay() {
			add(&f)
		}
	}
	for i, r := range records {
		if i < limit && s.waits(r.key()) { // listUnderWay has it
			continue
		}
		if f := s.describe(r); i == limit || !add(&f) {
			answer.Next = r.row + 1
			break
		}
	}
	return answer, nil
}

// listUnderWay returns what waits for the owner, then what is being sent, with the beginnings of their texts.
func (s *Service) listUnderWay() (all []client.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range slices.Backward(s.approvals) {
		f := s.describeOffer(a.offered)
		f.State = client.FileAsked
		all = append(all, f)
	}
	for _, x := range slices.SortedFunc(maps.Keys(s.sendings), func(a, b *sending) int { return b.file.Since.Compare(a.file.Since) }) {
		all = append(all, x.file)
	}
	for i := range all {
		all[i].Text = client.ClipText(all[i].Text, client.MaxBeginning)
	}
	return all
}

// waits reports whether a file waits for the owner.
func (s *Service) waits(k key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.approvals, func(a *approval) bool { return a.offered.key() == k })
}

// serveRemove removes a file, or ends one that comes.
func (s *Service) serveRemove(ctx context.Context, c *local.Conn, p *client.FileRemoveParams) (any, error) {
	r, err := s.find(ctx, c, "file.remove", p.Peer, p.ID, nil)
	if err != nil {
		return nil, err
	}
	removed := s.describe(r)
	return &removed, s.remove(ctx, r.key(), kinds.Errorf(kinds.Cancelled, "file: the receiver's owner has removed it"))
}

// serveAsk ends an answer "always".
func (s *Service) serveAsk(ctx context.Context, _ *local.Conn, p *client.FileAskParams) (any, error) {
	who, err := s.Peers.Resolve("file.ask: peer", p.Peer)
	if err != nil {
		return nil, err
	}
	if err := s.setAlways(ctx, who.ID, false); err != nil {
		return nil, ownwords.Errorf("file.ask: %w", err)
	}
	return local.NoParams{}, nil
}

// readerOf returns the name of the agent that calls, or nil for the owner. It returns an error, which begins with op,
// for a guest that is not an agent.
func readerOf(c *local.Conn, op string) (*string, error) {
	if name := c.Credential().Name; name != "" {
		return &name, nil
	}
	return c.InboxAgent(op)
}

// checkIsFree returns an error if a connection has to carry more than a file.
func (s *Service) checkIsFree(c *local.Conn, op string) error {
	if s.Peers.IsInUse(c) {
		return kinds.Errorf(kinds.Invalid, "%s: an agent or a subscription has this connection: open one only for this call, and speak on it", op)
	}
	return nil
}

// isSeen reports whether a file is one of these peers, if there are any, and one that the owner, or the agent named of,
// may see.
func isSeen(f *client.File, peers []identity.ID, of *string) bool {
	switch {
	case len(peers) > 0 && !slices.Contains(peers, f.Peer):
		return false
	case of == nil:
		return true
	case f.Direction == client.Out:
		return f.FromAgent == *of
	}
	return f.State != client.FileAsked && (f.Agent == "" || f.Agent == *of)
}

// find returns the record of a file that the owner, or the agent named of, may see. ref names its peer; it may be
// empty if no other peer has sent a file under that id.
func (s *Service) find(ctx context.Context, c *local.Conn, op, ref string, id wire.MessageID, of *string) (*record, error) {
	var peers []identity.ID
	if ref != "" {
		var err error
		if peers, err = s.Peers.ResolveAll([]string{ref}, c.IsGuest); err != nil {
			return nil, err
		}
	}
	found, err := s.readRecords(ctx, "id = ?", id[:])
	found = slices.DeleteFunc(found, func(r *record) bool {
		f := s.describe(r)
		return !isSeen(&f, peers, of)
	})
	switch {
	case err != nil:
		return nil, ownwords.Errorf("%s: %w", op, err)
	case len(found) == 0:
		return nil, kinds.Errorf(kinds.NotFound, "%s: id: no file %s is here for you: files lists those that are, and one goes 30 days after it came", op, id)
	case len(found) > 1:
		return nil, kinds.Errorf(kinds.Invalid, "%s: id: several peers have sent a file under %s: say which with peer", op, id)
	}
	return found[0], nil
}

// begin registers the arrival of a file. A file has one at a time. If there is an earlier one, whose sender has given it
// up or lost its connection, begin first ends that with the error why; but if why is nil, it returns nil and leaves it.
func (s *Service) begin(ctx context.Context, k key, why error) (a *arrival, end func()) {
	a = &arrival{key: k, ended: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	for {
		s.mu.Lock()
		earlier := s.arrivals[k]
		if earlier == nil {
			s.arrivals[k] = a
		}
		s.mu.Unlock()
		if earlier == nil {
			break
		}
		if why == nil {
			return nil, nil
		}
		earlier.cancel(why)
		<-earlier.ended
	}
	return a, func() {
		a.cancel(nil)
		a.close()
		if err := s.tidy(context.WithoutCancel(ctx), a); err != nil {
			s.Log.Warn("files", "err", err)
		}
		s.mu.Lock()
		delete(s.arrivals, k)
		s.mu.Unlock()
		close(a.ended)
	}
}

// tidy removes what an arrival leaves for nothing, as it ends: its record if no range came, which would keep the room of
// the whole file, or its bytes if it has no record any more.
func (s *Service) tidy(ctx context.Context, a *arrival) error {
	if a.file == nil {
		return nil
	}
	r, err := s.readRecord(ctx, a.key)
	switch {
	case err != nil || r != nil && (r.whole || a.countBytes() > 0):
		return err
	case r != nil:
		return s.drop(ctx, r)
	}
	s.removeBytes(a.key) // it may have opened its file after DeletePeer
	return nil
}

// remove removes a file with its record. If it is coming, that ends first, with the error why.
func (s *Service) remove(ctx context.Context, k key, why error) error {
	_, end := s.begin(ctx, k, why)
	defer end()
	r, err := s.readRecord(ctx, k)
	if err != nil || r == nil {
		return err
	}
	if !r.since.Before(s.Today()) {
		s.countLost(k.peer, r.Size) // else it would count no more for this day
	}
	return s.drop(ctx, r)
}

// drop removes a file with its record. The caller has begun its arrival.
func (s *Service) drop(ctx context.Context, r *record) error {
	n, err := s.deleteRecord(ctx, r.key())
	if err != nil {
		return ownwords.Errorf("remove a file: %w", err)
	}
	if n > 0 { // else DeletePeer was first
		s.release(r)
	}
	return nil
}

// release removes the bytes of a file whose record is deleted, and gives back its share.
func (s *Service) release(r *record) {
	s.files.Release(r.peer, 1)
	s.bytes.Release(r.peer, int64(r.Size))
	s.removeBytes(r.key())
}

func (s *Service) removeBytes(k key) {
	for _, suffix := range []string{partSuffix, "", mapSuffix} { // the partial file first: it may get its name meanwhile
		os.Remove(s.path(k) + suffix)
	}
}

// ForgetPeer ends what is under way with a peer. It waits for nothing.
func (s *Service) ForgetPeer(peer identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, a := range s.arrivals {
		if k.peer == peer {
			a.cancel(errUntrusted)
		}
	}
	for x := range s.sendings {
		if x.file.Peer == peer {
			x.cancel(kinds.Errorf(kinds.NotTrusted, "file.send: %s is not trusted here any more", x.file.PeerName))
		}
	}
	delete(s.relayed, peer)
	delete(s.lost, peer)
}

// DeletePeer removes all files of a peer, after ForgetPeer. It does not wait for those that are coming: they record
// nothing any more.
func (s *Service) DeletePeer(ctx context.Context, peer identity.ID) error {
	for n := rowsPerWrite; n == rowsPerWrite; {
		gone, err := s.deleteSome(ctx, peer)
		if err != nil {
			return ownwords.Errorf("remove files: %w", err)
		}
		for _, r := range gone {
			s.release(r)
		}
		n = len(gone)
	}
	os.Remove(s.folderOf(peer))
	return s.setAlways(ctx, peer, false)
}

var errUntrusted = kinds.Errorf(kinds.NotAuthorized, "you are not trusted there any more")

const (
	keptFor       = 30 * 24 * time.Hour // a file that has come
	unfinishedFor = 24 * time.Hour      // one that has not come whole, after its last byte
)
