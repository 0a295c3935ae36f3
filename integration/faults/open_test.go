//go:build faults

package faults

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/wire"
)

// machine is one of whose daemon is known what it has open.
type machine struct {
	*live.Machine
	before map[string]int // what was open when nothing had happened
}

func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{Machine: live.NewMachine(t, name)}
	m.Env = append(m.Env, "ACPD_GOROUTINES="+filepath.Join(live.MakeTempDir(t), "goroutines"))
	return m
}

// quietTime is the time in which a daemon closes what it keeps for the next use: the
// readers of the store close after 10 s.
const quietTime = 11 * time.Second

// calm takes down what is open when nothing has happened for a while.
func calm(all ...*machine) {
	time.Sleep(quietTime) // that nothing happens cannot be waited for
	for _, m := range all {
		m.before = m.open()
	}
}

// closes waits until no more is open than when nothing had happened.
func (m *machine) closes() {
	m.T.Helper()
	var more string
	defer func() {
		if more != "" {
			m.T.Errorf("%s has still open:\n%s", m.Name, more)
		}
	}()
	await.Until(m.T, m.Name+" has closed what it opened", func() bool {
		if more = m.more(); more != "" {
			time.Sleep(200 * time.Millisecond) // to ask costs it something
		}
		return more == ""
	})
}

// hasOnce looks whether each of these messages lies in the inbox, once.
func (m *machine) hasOnce(all []wire.MessageID) {
	m.T.Helper()
	there := make(map[wire.MessageID]int)
	for after := uint64(0); ; {
		page, err := m.Client.Inbox(await.NewContext(m.T), client.InboxParams{After: after, Limit: 1000})
		if err != nil {
			m.T.Fatal(err)
		}
		for _, got := range page.Messages {
			there[got.Envelope.ID]++
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	for _, id := range all {
		if n := there[id]; n != 1 {
			m.T.Errorf("message %s was held, and is %d times in the inbox of %s", id, n, m.Name)
		}
	}
}

var number = regexp.MustCompile(`:?\[[0-9]+\]`)

// open returns what the daemon has open: descriptors by what they are, and goroutines by
// where they began.
func (m *machine) open() map[string]int {
	m.T.Helper()
	open := make(map[string]int)
	dir := filepath.Join("/proc", strconv.Itoa(m.Acpd.Cmd.Process.Pid), "fd")
	list, err := os.ReadDir(dir)
	if err != nil {
		m.T.Fatal(err)
	}
	for _, fd := range list {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil {
			open["descriptor "+number.ReplaceAllString(strings.Replace(to, m.Home, "HOME", 1), "")]++
		}
	}
	path := strings.TrimPrefix(m.Env[0], "ACPD_GOROUTINES=")
	os.Remove(path)
	m.Acpd.Signal(syscall.SIGUSR1)
	var text []byte
	await.Until(m.T, "the goroutines of "+m.Name, func() bool { text, err = os.ReadFile(path); return err == nil })
	_, groups, _ := strings.Cut(string(text), "\n")
	for group := range strings.SplitSeq(groups, "\n\n") {
		lines := strings.Split(strings.TrimSpace(group), "\n")
		var n int
		if _, err := fmt.Sscanf(lines[0], "%d @", &n); err != nil {
			continue
		}
		if name, waits := began(lines[1:]); !waits {
			open["goroutine "+name] += n
		}
	}
	return open
}

// pool is the function in which goroutines wait for work. They are few, and stay.
var pool = live.Module + "/internal/workers.(*Pool).run"

// roles maps names on the side that dialled to those on the side that was called.
var roles = map[string]string{
	live.Module + "/peer.(*peerState).dialAddr.func1":      live.Module + "/peer.(*Node).acceptConns.func1",
	"github.com/quic-go/quic-go.(*Transport).doDial.func1": "github.com/quic-go/quic-go.(*Conn).run",
}

// began is the function in which a goroutine began, the last of its frames that tells
// something, and whether it waits in a pool.
func began(frames []string) (name string, waits bool) {
	own := func(frame string) (name string) {
		if parts := strings.Fields(frame); len(parts) >= 3 {
			if name, _, _ = strings.Cut(parts[2], "+0x"); strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "runtime.") {
				name = ""
			}
		}
		return name
	}
	for _, frame := range frames {
		at := own(frame)
		if at == "" {
			continue
		}
		if name == "" {
			waits = at == pool
		}
		name = at
	}
	if same := roles[name]; same != "" {
		name = same
	}
	return name, waits
}

// storeFiles bounds how often the store's file and its log are open: by the
// connection that writes and by four that read. SQLite closes none of them as long as one
// is locked, but takes them for the next connections.
const storeFiles = 5

// more returns what is open now and was not before, as text; "": nothing.
func (m *machine) more() string {
	var more []string
	now := m.open()
	for _, what := range slices.Sorted(maps.Keys(now)) {
		was := m.before[what]
		if what == "descriptor HOME/state.db" || what == "descriptor HOME/state.db-wal" {
			was = max(was, storeFiles)
		}
		if now[what] > was {
			more = append(more, fmt.Sprintf("%d, before %d: %s", now[what], was, what))
		}
	}
	return strings.Join(more, "\n")
}
