package daemon

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A transfer that breaks goes on where it was: after the client has gone, and after either daemon was killed.
// A drain waits for a file that is on its way, at its sender and at its receiver.
func TestADrainWaitsForFiles(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(3 << 20)
	var ends []<-chan client.Drained
	sent, err := sendFile(t, desk.home.ownerSocketPath(), paramsFor("laptop", "notes", content), bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.Range == nil || ends != nil {
			return
		}
		for _, d := range []*running{desk, laptop} {
			ends = append(ends, d.drained(client.DrainParams{}))
			if open := d.drain.Describe().Open; len(open) != 1 || open[0].Count != 1 {
				t.Errorf("open: %+v", open)
			}
		}
	})
	if err != nil || sent.State != client.Held {
		t.Errorf("%+v, %v", sent, err)
	}
	for _, end := range ends {
		if d := await.Receive(t, "the end of a drain", end); !d.AllEnded {
			t.Errorf("%+v", d)
		}
	}
}

func TestABrokenTransferContinues(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(40 << 20)
	p := paramsFor("laptop", "big", content)
	// sendSome closes the connection when the receiver has a number of bytes.
	sendSome := func(enough uint64) (asked uint64) {
		_, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(c net.Conn, line client.FileSendLine) {
			if line.Range == nil {
				return
			}
			if line.Moved >= enough {
				c.Close()
			}
			asked += line.Range[1]
		})
		if err == nil {
			t.Error("it was sent")
		}
		await.Until(t, "it has stopped", func() bool {
			files := laptop.listFiles()
			return files[len(files)-1].State == client.FilePaused
		})
		return asked
	}
	sendSome(8 << 20)
	files := laptop.listFiles()
	if f := files[len(files)-1]; f.Bytes < 8<<20 || f.Bytes >= f.Size || time.Until(f.Until.Time) > 24*time.Hour {
		t.Errorf("%+v", f)
	}
	sendSome(16 << 20)
	dirs := []string{desk.dir, laptop.dir}
	desk.stop()
	laptop.stop()
	desk, laptop = start(t, dirs[0], "desk"), start(t, dirs[1], "laptop")
	befriend(t, desk, laptop)
	files = laptop.listFiles()
	had := files[len(files)-1].Bytes
	if had < 16<<20 {
		t.Errorf("after the restart there are %d bytes", had)
	}
	var asked uint64
	sent, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.Range != nil {
			asked += line.Range[1]
		}
	})
	if err != nil || sent.Had || asked != p.Size-had {
		t.Errorf("%+v, %v: %d bytes were asked for, and %d of %d had come", sent, err, asked, had, p.Size)
	}
	if _, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: p.ID}); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A file that changes while it is sent is refused, and nothing is kept of it.
// holds: security.md#files
func TestAFileThatChangesIsRefused(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(3 << 20)
	p := paramsFor("laptop", "x", content)
	content[2<<20]++
	_, err := desk.ownerSends(p, content)
	refusedWith(t, err, kinds.Invalid, "changed")
	if files := laptop.listFiles(); len(files) != 1 {
		t.Errorf("%+v are left", files)
	}
	if left, _ := os.ReadDir(filepath.Join(laptop.dir, "files", desk.ID().String())); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	if _, err := desk.ownerSends(p, content[:2<<20]); err == nil {
		t.Error("a file that has become shorter was sent")
	}
	content[2<<20]--
	if _, err := desk.ownerSends(p, content); err != nil {
		t.Error(err)
	}
	other := paramsFor("laptop", "x", content[:5])
	other.ID = p.ID
	_, err = desk.ownerSends(other, content[:5])
	refusedWith(t, err, kinds.Invalid, "another file")
}

// What a loss of power has taken of an unfinished file is found by its hash, and the file comes once more.
func TestLostBytesAreFetchedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(4 << 20)
	p := paramsFor("laptop", "x", content)
	folder := filepath.Join(laptop.dir, "files", desk.ID().String())
	writeFile(t, filepath.Join(folder, p.ID.String()+".part"), string(make([]byte, len(content))))
	writeFile(t, filepath.Join(folder, p.ID.String()+".map"), "\x01\x01\x01\x00")
	if _, err := desk.ownerSends(p, content); err != nil {
		t.Fatal(err)
	}
	if _, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: p.ID}); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// An untrust in the middle of a transfer ends it on both sides, and nothing is left of the peer's files.
// holds: security.md#files
func TestUntrustEndsFiles(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(20 << 20)
	var once sync.Once
	_, err := sendFile(t, desk.home.ownerSocketPath(), paramsFor("laptop", "x", content), bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.Moved >= 4<<20 {
			once.Do(func() { laptop.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil) })
		}
	})
	if err == nil {
		t.Error("it was sent")
	}
	if files := laptop.listFiles(); len(files) != 0 {
		t.Errorf("%+v are left", files)
	}
	if _, err := os.Stat(filepath.Join(laptop.dir, "files", desk.ID().String())); err == nil {
		t.Error("the folder is left")
	}
	laptop.holdsNothingOfFiles(desk.ID())
}

// holdsNothingOfFiles fails the test if the budget has something of a peer's files.
func (d *running) holdsNothingOfFiles(peer identity.ID) {
	d.t.Helper()
	await.Until(d.t, "the budget is given back", func() bool {
		return !slices.ContainsFunc(d.budget.ListUsage(), func(u budget.Usage) bool {
			return u.Peer == peer && strings.HasPrefix(u.Row.Name, "file") && u.Held != 0
		})
	})
}

// After a crash the records and the files agree, and what was not reported is: a file that had its name before the
// store knew, one that nobody was told of, a record without its file, a file without its record, and one whose time
// is over.
func TestFilesAfterACrash(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(2 << 20)
	send := func() client.FileSendParams {
		p := paramsFor("laptop", "x", content)
		if _, err := desk.ownerSends(p, content); err != nil {
			t.Fatal(err)
		}
		return p
	}
	renamed, untold, lost, old := send(), send(), send(), send()
	laptop.dial().must(client.MethodAck, client.AckParams{UpTo: get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages[4].Seq}, nil)
	path := func(p client.FileSendParams) string {
		return filepath.Join(laptop.dir, "files", desk.ID().String(), p.ID.String())
	}
	stray := client.FileSendParams{Head: client.Head{ID: wire.NewMessageID()}}
	statedb.Exec(t, laptop.store, "UPDATE daemon_file SET whole = 0, reported = 0 WHERE id = ?", renamed.ID[:])
	statedb.Exec(t, laptop.store, "UPDATE daemon_file SET reported = 0 WHERE id = ?", untold.ID[:])
	statedb.Exec(t, laptop.store, "UPDATE daemon_file SET until = 1 WHERE id = ?", old.ID[:])
	writeFile(t, path(renamed)+".map", "\x01\x01")
	writeFile(t, path(stray)+".part", "x")
	if err := os.Remove(path(lost)); err != nil {
		t.Fatal(err)
	}
	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	befriend(t, desk, laptop)
	await.Until(t, "the file that nobody was told of is reported", func() bool {
		held := get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages
		return len(held) == 1 && held[0].Envelope.ID == untold.ID && held[0].Origin == client.OriginDaemon
	})
	var left []wire.MessageID
	await.Until(t, "the old file is removed", func() bool {
		left = nil
		for _, f := range laptop.listFiles()[1:] {
			left = append(left, f.ID)
		}
		return !slices.Contains(left, old.ID)
	})
	if !slices.Equal(left, []wire.MessageID{renamed.ID, untold.ID}) {
		t.Errorf("%v are left of %v", left, []wire.MessageID{renamed.ID, untold.ID, lost.ID, old.ID})
	}
	for _, p := range []client.FileSendParams{stray, old} {
		for _, suffix := range []string{"", ".part", ".map"} {
			if _, err := os.Stat(path(p) + suffix); err == nil {
				t.Errorf("%s%s is left", p.ID, suffix)
			}
		}
	}
	sent, err := sendFile(t, desk.home.ownerSocketPath(), renamed, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.Range != nil {
			t.Error("bytes were asked for")
		}
	})
	if err != nil || sent.Had {
		t.Errorf("%+v, %v", sent, err)
	}
	if _, err := desk.ownerSends(lost, content); err != nil {
		t.Error(err)
	}
	if got, _, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: renamed.ID}); err != nil || got.State != client.FileHere {
		t.Errorf("%+v, %v", got, err)
	}
}

// A file that came whole, when the store could not be told, is not fetched again.
func TestAWholeFileIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	content := randomBytes(2 << 20)
	p := paramsFor("laptop", "x", content)
	if _, err := desk.ownerSends(p, content); err != nil {
		t.Fatal(err)
	}
	statedb.Exec(t, laptop.store, "UPDATE daemon_file SET whole = 0, reported = 0 WHERE id = ?", p.ID[:])
	writeFile(t, filepath.Join(laptop.dir, "files", desk.ID().String(), p.ID.String()+".map"), "\x01\x01")
	sent, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.Range != nil {
			t.Error("bytes were asked for")
		}
	})
	if err != nil || sent.Had {
		t.Errorf("%+v, %v", sent, err)
	}
}
