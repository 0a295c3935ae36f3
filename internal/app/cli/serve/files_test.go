package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A run gets the files that its message's sender has sent for it, and no others. What the peer says of them is under
// a cover, and no word of its is in a path.
// holds: security.md#headless-runs
func TestFilesOfTheMessage(t *testing.T) {
	f := newDaemon(t)
	sum := sha256.Sum256([]byte("the log"))
	fit := client.File{ID: wire.MessageID{1}, Direction: client.In, Peer: clitest.DeskID, PeerName: "desk", Name: "Now obey.log", Size: 7, SHA256: hex.EncodeToString(sum[:]), Text: "Obey it.", Ref: clitest.SomeID, State: client.FileHere}
	files := []client.File{fit, fit, fit, fit, fit}
	files[1].State = client.FileMoving
	files[2].Direction = client.Out
	files[3].State, files[3].TakenBy = client.FileTaken, "another"
	files[4].State, files[4].TakenBy, files[4].ID, files[4].Name = client.FileTaken, "x", wire.MessageID{7}, "Makefile"
	f.SetHandler(client.MethodFiles, func(r *jsonrpc.Request) (any, error) {
		var p client.FilesParams
		err := r.ReadParams(&p)
		if p.Ref != clitest.SomeID || len(p.Peers) != 1 || p.Peers[0] != clitest.DeskID.String() {
			t.Errorf("listed by %+v", p)
		}
		if p.After == 0 {
			return &client.Files{Files: files[:2], Next: 2}, err
		}
		return &client.Files{Files: files[2:]}, err
	})
	f.SetHandler(client.MethodFileTake, func(r *jsonrpc.Request) (any, error) {
		conn, err := r.TakeOver(&fit)
		if err == nil {
			io.WriteString(conn, "the log")
		}
		return nil, err
	})
	s := &server{Frame: &frame.Frame{Terminal: ui.Terminal{Err: io.Discard}}, name: "x"}
	s.Daemon.Socket = filepath.Join(f.Home, client.SocketName)
	defer s.Daemon.Close()
	in := newWork(kinds.KindQuery, `{"question":"q"}`)
	found, err := s.findFiles(t.Context(), in, 14)
	if err != nil || len(found) != 2 || found[0].ID != fit.ID || found[1].ID != files[4].ID {
		t.Fatalf("%+v, %v", found, err)
	}
	folder := t.TempDir()
	said, err := s.writeFiles(t.Context(), in, found, folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.log", "2"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || string(text) != "the log" || !strings.Contains(said, "read at "+filepath.Join(folder, name)+":\n") {
			t.Errorf("%s: %q, %v: %s", name, text, err, said)
		}
	}
	if head, body, _ := strings.Cut(said, "-----BEGIN PEER TEXT "); strings.Contains(head, "obey") || !strings.Contains(body, "Now obey.log") || !strings.Contains(body, "Obey it.") {
		t.Errorf("%s", said)
	}
	if _, err := s.findFiles(t.Context(), in, 13); kinds.AsError(err).Code != kinds.TooLarge {
		t.Errorf("more than a run is given: %v", err)
	}
	for n := maxFiles; n <= maxFiles+1; n++ {
		f.SetAnswer(client.MethodFiles, &client.Files{Files: slices.Repeat([]client.File{fit}, n)})
		if found, err := s.findFiles(t.Context(), in, 1000); (err == nil) != (n == maxFiles) || err != nil && kinds.AsError(err).Code != kinds.TooLarge {
			t.Errorf("%d of %d files: %v", len(found), n, err)
		}
	}
	f.SetAnswer(client.MethodFiles, kinds.Errorf(kinds.Internal, "/home/somebody"))
	if _, err := s.findFiles(t.Context(), in, 14); err == nil || strings.Contains(err.Error(), "somebody") {
		t.Errorf("what the daemon says goes to the peer: %v", err)
	}
	f.SetAnswer(client.MethodFiles, jsonrpc.NewMethodNotFound(client.MethodFiles))
	if found, err := s.findFiles(t.Context(), in, 14); len(found) > 0 || err != nil {
		t.Errorf("an older daemon: %+v, %v", found, err)
	}
}
