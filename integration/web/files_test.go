//go:build web

package web

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestFiles: a file stands with its size and state, those that are not whole first, and moves on as its bytes come.
// A conversation has those of its own.
func TestFiles(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk"), newPeer(1, "build")}
	file := func(id byte, peer int, name, thread string, state client.FileState, bytes uint64) client.File {
		return client.File{ID: wire.MessageID{id}, Direction: client.In, Peer: peerID(peer), PeerName: []string{"desk", "build"}[peer], Name: name, Thread: thread, Size: 4 << 20, Bytes: bytes << 20, State: state, Since: time.Now().Add(-time.Duration(id) * time.Minute)}
	}
	taken := file(1, 0, "taken.log", "parser", client.FileTaken, 4)
	taken.TakenBy, taken.FromAgent = "planner", "reviewer"
	sent := file(9, 1, "corpus.tar", "", client.FileMoving, 1)
	sent.Direction = client.Out
	w.files = []client.File{taken, file(2, 0, "asked.log", "", client.FileAsked, 0), file(3, 1, "half.log", "", client.FilePaused, 2), sent, file(4, 1, "here.log", "", client.FileHere, 4)}
	w.pass(client.TrafficEntry{Direction: client.In, Peer: peerID(0), Name: "desk", Kind: kinds.KindNotify, Thread: "parser", Text: "see the log", Outcome: "handed"})
	p := show(t, b, w.serve(t), 1280, 844, false)
	rows := `[...document.querySelectorAll("#files-list > li")].map((e) => e.innerText.replace(/\s+/g, " ").trim().replace(/ [0-9:]+$/, ""))`
	p.until("they are there", `document.querySelectorAll("#files-list > li").length === 3`)
	eval[bool](p, `(document.getElementById("files-all").click(), true)`)
	p.until("all are there", `document.querySelectorAll("#files-list > li").length === 5`)
	want := []string{
		"asked.log 4 MiB needs your approval desk to here", "half.log 4 MiB broken off: its sender can continue build to here", "corpus.tar 1 MiB of 4 MiB here to build",
		"taken.log 4 MiB taken by planner desk/reviewer to here", "here.log 4 MiB here build to here",
	}
	if diff := cmp.Diff(want, eval[[]string](p, rows)); diff != "" {
		t.Error(diff)
	}
	w.change(func() { w.files[3].Bytes = 3 << 20 })
	p.until("it moves on", `document.querySelector("#files-list progress").value === 0.75`)
	eval[bool](p, `(document.querySelectorAll("#threads button")[1].click(), true)`)
	p.until("only those of the conversation are there", `document.querySelectorAll("#files-list > li").length === 1`)
	if got := eval[[]string](p, rows); !strings.HasPrefix(got[0], "taken.log") {
		t.Errorf("in the conversation: %q", got)
	}
	p.checkLayout(t)
}

// TestApprovalOfAFile: whoever is asked about a file reads that it comes, and not that it wakes a session.
func TestApprovalOfAFile(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.peers = []client.Peer{newPeer(0, "desk")}
	w.wait = []client.Approval{{ID: "f1", Peer: peerID(0), Name: "desk", Kind: "file", Message: wire.MessageID{1}, Text: "build.log, 12 bytes: The log", Since: time.Now()}}
	p := show(t, b, w.serve(t), 1280, 844, false)
	p.until("it is asked", `!!document.querySelector("#approvals-list [data-act=yes]")`)
	text := strings.Join(strings.Fields(eval[string](p, `document.getElementById("approvals-list").innerText`)), " ")
	if !strings.HasPrefix(text, "a file of desk ") || !strings.Contains(text, "build.log, 12 bytes: The log May it come? Yes No Always…") || strings.Contains(text, "wake") {
		t.Error(text)
	}
	eval[bool](p, `(document.querySelector("#approvals-list [data-act=yes]").click(), true)`)
	await.Until(t, "the daemon has the answer", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.decided) == 1 && w.decided[0] == client.ApproveParams{ID: "f1", Answer: "yes"}
	})
}
