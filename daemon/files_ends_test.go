package daemon

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// A peer that is untrusted when the last byte of its file is there has sent nothing: no agent is handed the entry, and
// the file goes.
// holds: security.md#files
func TestUntrustAfterTheLastByte(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	var handed atomic.Bool
	laptop.agent(client.AttachParams{Name: "fixer", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) {
		handed.Store(true)
		r.Respond(struct{}{})
	})
	content := randomBytes(100)
	offer := offerOf(content)
	in := bufio.NewReader(h.open(offer))
	h.next(in)
	want := h.next(in)
	began, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // so that the file cannot be recorded as whole
		ended <- laptop.store.Write(context.Background(), false, func(*store.Tx) error { close(began); <-free; return nil })
	}()
	<-began
	h.sendRange(offer.ID, want, content)
	folder := filepath.Join(laptop.dir, "files", h.ID().String())
	await.Until(t, "it has its name", func() bool { _, err := os.Stat(filepath.Join(folder, offer.ID.String())); return err == nil })
	untrusted := later(laptop.dial(), "untrust", client.UntrustParams{Peer: "desk"})
	await.Until(t, "it is blocked", func() bool { return laptop.trust.IsBlocked(h.ID()) })
	laptop.fileService.ForgetPeer(h.ID()) // which the untrust does next
	close(free)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := <-untrusted; err != nil {
		t.Fatal(err)
	}
	laptop.holdsNothingOfFiles(h.ID())
	if handed.Load() {
		t.Error("an agent was handed the entry")
	}
	await.Until(t, "its bytes are gone", func() bool { left, _ := os.ReadDir(folder); return len(left) == 0 })
	if files := laptop.listFiles(); len(files) != 0 {
		t.Errorf("%+v are left", files)
	}
}

// A file of which no range has come, when its offer ends, takes no room of its peer's.
func TestAnOfferThatBringsNothingKeepsNoRoom(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	s := h.open(offerOf(randomBytes(100)))
	in := bufio.NewReader(s)
	h.next(in)
	h.next(in)
	s.Cancel()
	laptop.holdsNothingOfFiles(h.ID())
	await.Until(t, "nothing is left", func() bool {
		left, _ := os.ReadDir(filepath.Join(laptop.dir, "files", h.ID().String()))
		return len(left) == 0 && len(laptop.listFiles()) == 0
	})
}

// A bound that the owner lowers holds for a file that has begun to come too.
func TestAFileThatContinuesObeysTheBound(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	content := randomBytes(2 << 20)
	offer := offerOf(content)
	s := h.open(offer)
	in := bufio.NewReader(s)
	h.next(in)
	h.sendRange(offer.ID, h.next(in), content[:1<<20])
	await.Until(t, "a range is there", func() bool { files := laptop.listFiles(); return len(files) == 1 && files[0].Bytes == 1<<20 })
	s.Cancel()
	await.Until(t, "it is paused", func() bool {
		files := laptop.listFiles()
		return len(files) == 1 && files[0].State == client.FilePaused
	})
	laptop.configure("files: {max: 1000}\n")
	if r := h.next(bufio.NewReader(h.open(offer))); r.Op != wire.FileRefuse || r.Code != string(kinds.TooLarge) {
		t.Errorf("%+v", r)
	}
}

// A file that this machine cannot take is one line in its log, with the id of the file.
func TestAFileThatFailsHereIsOneLine(t *testing.T) {
	t.Parallel()
	var log await.Output
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: &log})
	h := newHostile(t, laptop, "desk", nil)
	laptop.alwaysFromPeer(h.ID())
	writeFile(t, filepath.Join(laptop.dir, "files"), "no folder")
	offer := offerOf(randomBytes(10))
	if r := h.next(bufio.NewReader(h.open(offer))); r.Op != wire.FileRefuse || r.Code != string(kinds.Internal) {
		t.Errorf("%+v", r)
	}
	if want := "kind=file id=" + offer.ID.String(); !strings.Contains(log.String(), want) || strings.Contains(log.String(), "file refused") {
		t.Errorf("no %s, or two lines, in\n%s", want, &log)
	}
}
