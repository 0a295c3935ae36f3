package files

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// opened returns a service with a state directory of its own, on a disk that is full, and nothing around it.
func opened(t *testing.T) *Service {
	t.Helper()
	book, dir := &budget.Book{Peers: func() int { return 4 }}, t.TempDir()
	space := &admin.Space{Reserve: disk.OpenReserve(filepath.Join(dir, "reserve"), func(string) (disk.Space, error) { return disk.Space{}, nil })}
	s, err := Open(t.Context(), Deps{Deps: agents.Deps{Budget: book, Space: space}, Dir: dir, DB: statedb.New(t, schema.Migrate), Config: func() *config.Config { return &config.Config{} }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addFile adds a file of a peer.
func (s *Service) addFile(t *testing.T, peer identity.ID) *record {
	t.Helper()
	r := &record{peer: peer, FileRequest: wire.FileRequest{ID: wire.NewMessageID(), Name: "x", Size: 5}}
	_, admitted := s.admitRecord(t.Context(), r, true)
	statedb.Exec(t, s.DB, "UPDATE daemon_file SET whole = 1") // else there are too many
	a := &arrival{}
	for _, err := range []error{s.files.Reserve(peer, 1), s.bytes.Reserve(peer, 5), admitted} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.open(s.path(r.key()), r.Size); err != nil {
		t.Fatal(err)
	}
	a.close()
	return r
}

// What an untrust removes waits for no file that is coming, be it that an agent has its time for the entry, and is
// few writes. Such a file leaves nothing either.
func TestUntrustWaitsForNoFile(t *testing.T) {
	s := opened(t)
	desk, laptop := identity.ID{1}, identity.ID{2}
	coming := s.addFile(t, desk)
	for range 100 {
		s.addFile(t, desk)
	}
	other := s.addFile(t, laptop)
	a, end := s.begin(t.Context(), coming.key(), nil)
	commits := 0
	s.DB.ObserveCommits(func(store.Commit) { commits++ })
	s.ForgetPeer(desk)
	if context.Cause(a.ctx) != errUntrusted {
		t.Errorf("it goes on: %v", context.Cause(a.ctx))
	}
	if err := s.DeletePeer(t.Context(), desk); err != nil {
		t.Fatal(err)
	}
	if commits > 4 {
		t.Errorf("%d commits", commits)
	}
	if _, err := os.Stat(s.folderOf(desk)); err == nil {
		t.Error("the folder is left")
	}
	if _, err := a.open(s.path(coming.key()), coming.Size); err != nil {
		t.Fatal(err)
	}
	end()
	if left, _ := os.ReadDir(s.folderOf(desk)); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if err := s.drop(t.Context(), coming); err != nil { // as it ends with a wrong hash
		t.Error(err)
	}
	if left, err := s.readRecords(t.Context(), "TRUE"); err != nil || len(left) != 1 || left[0].ID != other.ID {
		t.Errorf("%v are left, %v", left, err)
	}
	for of, want := range map[identity.ID]int64{desk: 0, laptop: 1} {
		if n, bytes := s.files.HeldBy(of), s.bytes.HeldBy(of); n != want || bytes != 5*want {
			t.Errorf("%s holds %d files, %d bytes", of.Label(), n, bytes)
		}
	}
}

// On a full disk the reserve of the disk is free when a file is removed because its time is over, and when the store
// is told that one was reported, or that an agent takes it.
func TestAFullDiskLosesFiles(t *testing.T) {
	s := opened(t)
	told, old := s.addFile(t, identity.ID{1}), s.addFile(t, identity.ID{1})
	statedb.Exec(t, s.DB, "UPDATE daemon_file SET reported = 1, until = (id != ?) << 60", old.ID[:])
	reserve := filepath.Join(s.Dir, "reserve")
	if _, err := os.Stat(reserve); err != nil {
		t.Fatal(err)
	}
	commits := 0
	s.DB.ObserveCommits(func(store.Commit) {
		commits++
		if _, err := os.Stat(reserve); err == nil {
			t.Error("the reserve is not free")
		}
	})
	if err := s.sweep(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.updateRecord(t.Context(), told); err != nil {
		t.Fatal(err)
	}
	if taken, err := s.takeRecord(t.Context(), told.key(), "fixer"); err != nil || !taken {
		t.Fatal(taken, err)
	}
	if left, err := s.readRecords(t.Context(), "TRUE"); err != nil || len(left) != 1 || left[0].ID != told.ID || commits != 3 {
		t.Errorf("%d commits, %v are left, %v", commits, left, err)
	}
}

// An offer that brings nothing does not keep an unfinished file for longer.
func TestAnEmptyOfferKeepsNoFile(t *testing.T) {
	s := opened(t)
	r := s.addFile(t, identity.ID{1})
	path, old := s.path(r.key()), time.Now().Add(-48*time.Hour)
	for _, suffix := range []string{partSuffix, mapSuffix} {
		if err := os.Chtimes(path+suffix, old, old); err != nil {
			t.Fatal(err)
		}
	}
	a := &arrival{}
	if _, err := a.open(path, r.Size); err != nil {
		t.Fatal(err)
	}
	a.close()
	if end := s.findEnd(r); end.After(time.Now()) {
		t.Errorf("it is kept until %s", end)
	}
	if _, err := a.open(path, r.Size); err != nil {
		t.Fatal(err)
	}
	a.marks.WriteAt([]byte{1}, 0)
	a.close()
	if end := s.findEnd(r); end.Before(time.Now()) {
		t.Errorf("a range has come, and it is kept until %s", end)
	}
}

// A file that is removed as an agent takes it is not another agent's.
func TestTakingARemovedFile(t *testing.T) {
	s := opened(t)
	r := s.addFile(t, identity.ID{1})
	if _, err := s.deleteRecord(t.Context(), r.key()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.takeRecord(t.Context(), r.key(), "fixer"); kinds.AsError(err).Code != kinds.NotFound {
		t.Error(err)
	}
}

// The numbers of approvals do not begin anew with the daemon: a yes that was meant for an earlier file is for none.
func TestApprovalsOfAnEarlierRunAreNotFound(t *testing.T) {
	first := make(map[uint64]bool)
	for range 3 {
		first[opened(t).lastAsked] = true
	}
	if len(first) == 1 {
		t.Errorf("each run begins at %v", first)
	}
}

// A file that had come and is not on the disk any more leaves the store, and the log says so.
func TestAFileThatIsGoneIsLogged(t *testing.T) {
	s := opened(t)
	r := s.addFile(t, identity.ID{1}) // its bytes have not got its name
	log := new(strings.Builder)
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	if err := s.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := s.readRecords(t.Context(), "TRUE"); err != nil || len(left) != 0 || !strings.Contains(log.String(), r.ID.String()) {
		t.Errorf("%v are left, %v\n%s", left, err, log)
	}
}

// What ends while the owner answers is not reported as decided.
func TestAnAnswerToWhatHasEnded(t *testing.T) {
	s := opened(t)
	s.Trust = identity.NewMemoryTrustStore()
	a := &approval{id: "f1", offered: s.addFile(t, identity.ID{1}), answer: make(chan string, 1)}
	s.approvals = []*approval{a}
	s.DB.ObserveCommits(func(store.Commit) { s.answer("no", func(other *approval) bool { return other == a }) }) // as ask does
	if got, err := s.Decide(t.Context(), "f1", "always"); kinds.AsError(err).Code != kinds.NotFound {
		t.Errorf("%+v, %v", got, err)
	}
	s.approvals = []*approval{{id: "f1", offered: a.offered, answer: make(chan string, 1)}}
	if got, err := s.Decide(t.Context(), "f1", "yes"); err != nil || got.ID != "f1" || len(s.approvals) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
