package waking

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

// Nothing is left of a peer that is forgotten, and what waited behind it goes on at once.
func TestNothingIsLeftOfAForgottenPeer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := play(t, dir)
		p.permit(desk, laptop)
		p.asks(planner)
		p.notify(planner)
		p.notify(desk)
		p.notify(desk)
		last, _ := p.notify(laptop)
		p.hold(10, charge{cause: desk, peer: desk, at: time.Now()}, "codex")
		p.NoteLoop("claude", desk, "notify", errApprovalsFull)
		if known := p.ListKnownPeers(); len(known) != 3 {
			t.Errorf("known: %v", known)
		}
		time.Sleep(postPause)
		p.ForgetPeer(desk)
		p.ForgetPeer(planner)
		p.expectLater("after its peers went", last)
		if s := p.Describe("claude"); s.Waiting != 0 || s.Approvals != 0 || s.Day != 1 || len(p.approvals) != 0 || len(p.Notices("claude")) != 0 {
			t.Errorf("%+v, %q", s, p.Notices("claude"))
		}
		if known := p.ListKnownPeers(); !slices.Equal(known, []identity.ID{laptop}) {
			t.Errorf("known: %v", known)
		}
		broken := errors.New("the disk is gone")
		saved := p.Rules.files.SyncDir
		p.Rules.files.SyncDir = func(string) error { return broken }
		if err := p.DeletePeer(t.Context(), desk); !errors.Is(err, broken) {
			t.Errorf("on a broken disk: %v", err)
		}
		p.Rules.files.SyncDir = saved
		if err := p.DeletePeer(t.Context(), desk); err != nil || p.countWritten() != 1 {
			t.Errorf("%d on disk, %v", p.countWritten(), err)
		}
	})
	if r := openRules(t, dir); len(r.Permissions()) != 1 {
		t.Errorf("after a restart: %+v", r.Permissions())
	}
}

// A peer that was forgotten and is trusted again asks as one that has never asked.
func TestAForgottenPeerHasAskedNothing(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		for range 2 {
			if !p.ask(Outcome{Posted: true}) {
				t.Fatal("a question wakes nobody")
			}
			p.ForgetPeer(desk)
		}
	})
}

// A peer is known that may wake nobody any more and has caused turns.
func TestPeersThatHaveWokenAreKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		p.notify(desk)
		p.Rules.Revoke(func(Permission) bool { return true })
		if known := p.ListKnownPeers(); !slices.Equal(known, []identity.ID{desk}) {
			t.Errorf("known: %v", known)
		}
	})
}

// What is kept of bounds that were reached is forgotten after an hour.
func TestReachedBoundsAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		for _, id := range []identity.ID{desk, laptop, planner} {
			p.NoteLoop("claude", id, "notify", errApprovalsFull)
			p.NoteLoop("claude", id, "notify", errApprovalsFull)
			time.Sleep(noticeFor)
		}
		if n := len(p.sessions["claude"].bounds); n != 1 || len(p.told()) != 3 {
			t.Errorf("%d are kept, %d were told", n, len(p.told()))
		}
	})
}
