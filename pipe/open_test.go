package pipe

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

func TestPacketsTravel(t *testing.T) {
	for _, command := range []string{"echo", "burst", "motd", "shout"} {
		t.Run(command, func(t *testing.T) {
			l := startLab(t, nil, command)
			addr, release := l.open()
			if addr.String() != "pipe:build" || addr.Network() != "pipe" || l.Sender(addr) != buildID {
				t.Errorf("the address is %s", addr)
			}
			for size := 1; size <= maxPacket; size = size*3 + 1 {
				sent := strings.Repeat(string(rune('a'+size%26)), size)
				l.WriteTo([]byte(sent), addr)
			}
			big := strings.Repeat("b", maxPacket)
			l.WriteTo([]byte(big), addr)
			l.WriteTo([]byte("last"), addr)
			var got []string
			for len(got) == 0 || got[len(got)-1] != "last" {
				if command == "burst" { // which gives nothing away until it has more
					l.WriteTo([]byte(strings.Repeat("filler", 200)), addr)
				}
				packet, from := l.receive()
				if from != addr {
					t.Fatalf("from %s", from)
				}
				if !strings.HasPrefix(packet, "filler") {
					got = append(got, packet)
				}
			}
			size := 1
			for i, packet := range got[:len(got)-2] {
				if len(packet) != size {
					t.Errorf("packet %d has %d bytes, want %d", i, len(packet), size)
				}
				size = size*3 + 1
			}
			if got[len(got)-2] != big || size <= maxPacket {
				t.Errorf("%d packets", len(got))
			}
			release()
			await.Until(t, "ended", func() bool { return len(l.Pipes()) == 0 && len(l.told.list()) == 1 })
		})
	}
}

// What says why a pipe does not open: in words of this program, and beside them those of the command, cut and cleaned.
// holds: security.md#against-strangers
func TestOpenFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		command []string
		words   []string
	}{
		{"exit", []string{"exit", "255", "debug", "ssh: connect to host build-box port 22: \x1b[31mConnection refused"},
			[]string{`ended with exit code 255;`, "it says: debug / ssh: connect to host build-box port 22: Connection refused$"}},
		{"exit without a word", []string{"exit", "0"}, []string{"ended with exit code 0", "by hand"}},
		{"banner", []string{"banner", "Last login: \x1b[1mtoday", " at noon\nmore"}, []string{"printed something else before the first packet", "start-up files", "it says: Last login: today at noon$"}},
		{"long banner", []string{"banner", strings.Repeat("x", 1000)}, []string{"it says: " + strings.Repeat("x", 200) + "…$"}},
		{"line feeds", []string{"banner", "\n\nHello\n"}, []string{"it says: Hello$"}},
		{"version", []string{"version", "2"}, []string{"speaks version 2 of pipes", "update acpd here"}},
		{"unknown", []string{"nothing"}, []string{"ended with exit code 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startLab(t, nil, test.command...)
			said := l.fails(test.words...)
			if !strings.HasPrefix(said, `"`+filepath.Base(os.Args[0])+`" `) || len(said) > 700 {
				t.Errorf("%s", said)
			}
			if gone := l.told.list(); len(gone) > 0 {
				t.Errorf("NobodyAt of what was never open: %q", gone)
			}
			if again := l.fails("not tried again"); !strings.HasPrefix(again, said) {
				t.Errorf("the next says %q", again)
			}
		})
	}
}

func TestSilentCommand(t *testing.T) {
	l := startLab(t, func(l *Link) { l.times.firstByte = 4 * time.Second }, "silent", "Enter", "passphrase:")
	l.fails("printed nothing for 4s", "it says: Enter passphrase:$")
}

// A command is opening from its start until it has printed the preamble or has failed.
func TestIsOpening(t *testing.T) {
	l := startLab(t, func(l *Link) { l.times.firstByte = time.Second }, "silent", "Enter", "passphrase:")
	at := l.Addr(buildID)
	if l.IsOpening(at) || l.IsOpening(Addr{}) {
		t.Error("nothing was opened")
	}
	failed := make(chan error, 1)
	go func() {
		_, _, err := l.Open(t.Context(), at)
		failed <- err
	}()
	await.Until(t, "it opens", func() bool { return l.IsOpening(at) })
	await.Receive(t, "it has failed", failed)
	if l.IsOpening(at) {
		t.Error("it has failed, and is still opening")
	}
}

func TestUnknownCommand(t *testing.T) {
	l := startLabWith(t, nil, func(identity.ID) (string, []string) { return "build", []string{"no-such-command"} })
	l.fails(`"no-such-command" cannot be started`, "not found", "config.yaml")
}

// What failed is started again after a pause, or, when the owner says that it may be mended, at the next call, once.
func TestRetryFailed(t *testing.T) {
	l := startLab(t, func(l *Link) { l.times.retryPause = 2 * time.Second }, "exit", "1")
	l.fails("exit code 1")
	l.fails("not tried again")
	await.Until(t, "it is tried again", func() bool {
		_, _, err := l.Open(t.Context(), l.Addr(buildID))
		return !strings.Contains(err.Error(), "not tried again")
	})

	l = startLab(t, nil, "exit", "1")
	l.fails("exit code 1")
	l.fails("not tried again")
	l.RetryFailed()
	if all := l.Failures(); len(all) != 1 {
		t.Errorf("the failure is forgotten: %+v", all)
	}
	if _, _, err := l.Open(t.Context(), l.Addr(buildID)); strings.Contains(err.Error(), "not tried again") {
		t.Error(err)
	}
	l.fails("not tried again")
}

// What another command said counts no more: the one that took its place is tried at once, also
// before the pause between two starts.
func TestChangedCommandIsTried(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var argv atomic.Pointer[[]string]
	set := func(command ...string) { argv.Store(new(append([]string{exe, fakeMark}, command...))) }
	set("exit", "127", "acpctl: command not found")
	l := startLabWith(t, func(l *Link) { l.times.startPause = time.Hour }, func(identity.ID) (string, []string) { return "build", *argv.Load() })
	l.fails("exit code 127")
	set("exit", "126")
	l.fails("exit code 126")
	l.fails("exit code 126", "not tried again")
	if all := l.Failures(); len(all) != 1 || all[0].Addr != "pipe:build" || !strings.Contains(all[0].Why.Error(), "exit code 126") {
		t.Errorf("failures: %v", all)
	}
	set("silent", "passphrase:")
	waits := make(chan error)
	go func() { _, _, err := l.Open(t.Context(), l.Addr(buildID)); waits <- err }()
	await.Until(t, "it waits", func() bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return len(l.pipes) == 1
	})
	set("echo")
	_, release := l.open()
	defer release()
	if all := l.Failures(); len(all) > 0 {
		t.Errorf("failures of a command that works: %v", all)
	}
	if err := <-waits; err == nil || !strings.Contains(err.Error(), errChanged.Error()) {
		t.Errorf("the call that waited for the one before: %v", err)
	}
}

// A command that carries packets is shared as long as it is the peer's. After that nobody opens it any more,
// and who waits gets the next one when it has ended.
func TestChangedCommandEnds(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var argv atomic.Pointer[[]string]
	set := func(command ...string) { argv.Store(new(append([]string{exe, fakeMark}, command...))) }
	set("echo")
	l := startLabWith(t, nil, func(identity.ID) (string, []string) { return "build", *argv.Load() })
	_, release := l.open()
	defer release()
	l.EndChanged()
	if all := l.ListChanged(); len(all) != 0 {
		t.Errorf("changed: %v", all)
	}
	set("exit", "3")
	if all := l.ListChanged(); !slices.Equal(all, []identity.ID{buildID}) {
		t.Errorf("changed: %v", all)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := l.Open(ctx, l.Addr(buildID)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the one before runs: %v", err)
	}
	l.EndChanged()
	l.fails("exit code 3")
}

// A command that fails again and again after it has begun is started once a second.
func TestStartPause(t *testing.T) {
	l := startLab(t, func(l *Link) { l.times.startPause = 400 * time.Millisecond }, "hello")
	began := time.Now()
	for range 3 {
		_, release := l.open()
		release()
	}
	if took := time.Since(began); took < 800*time.Millisecond {
		t.Errorf("three starts took %v", took)
	}
}

func TestOpenIsShared(t *testing.T) {
	starts := 0
	l := startLab(t, func(l *Link) {
		start := l.start
		l.start = func(argv []string) (process, error) { starts++; return start(argv) }
	}, "echo")
	var opening sync.WaitGroup
	releases := make(chan func(), 20)
	for range 20 {
		opening.Go(func() {
			_, release, err := l.Open(t.Context(), l.Addr(buildID))
			if err != nil {
				t.Error(err)
			}
			releases <- release
		})
	}
	opening.Wait()
	for range 19 {
		release := <-releases
		release()
		release() // counts once
	}
	addr := l.Addr(buildID)
	l.WriteTo([]byte("still there"), addr)
	if got, _ := l.receive(); got != "still there" || starts != 1 {
		t.Errorf("%q after %d starts", got, starts)
	}
	(<-releases)()
	_, release := l.open() // waits until the first is gone
	release()
	if starts != 2 {
		t.Errorf("%d starts", starts)
	}
}

// A peer that has got the name of another one does not get that one's command.
func TestOpenUnderANameThatMoved(t *testing.T) {
	l := startLab(t, nil, "echo")
	addr, release := l.open()
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := l.Open(ctx, Addr{text: addr.String(), id: identity.ID{7}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it shares the pipe: %v", err)
	}
}

// Who gives up does not leave a command behind.
func TestOpenGivesUp(t *testing.T) {
	l := startLab(t, nil, "silent")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := l.Open(ctx, l.Addr(buildID)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
	await.Until(t, "ended", func() bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return len(l.pipes) == 0
	})
	if len(l.attempts) != 1 || l.attempts["pipe:build"].err != nil {
		t.Errorf("that counts as a failure: %v", l.attempts)
	}
}

// lateContext lets who waits for its end look only when awaited has returned.
type lateContext struct {
	context.Context
	asked   int
	awaited func()
}

func (c *lateContext) Done() <-chan struct{} {
	if c.asked++; c.asked == 2 { // first for the link to run
		c.awaited()
	}
	return c.Context.Done()
}

// Who opens a pipe that has opened and ended by then is told why: nothing else will tell that nobody is there.
func TestOpenOfWhatHasEnded(t *testing.T) {
	l := startLab(t, nil, "helloAndEnd")
	for range 20 { // a choice by chance would be right in half of them
		over := func() {
			await.Until(t, "nothing is left of it", func() bool {
				l.mu.RLock()
				defer l.mu.RUnlock()
				return len(l.pipes) == 0
			})
		}
		if _, _, err := l.Open(&lateContext{Context: t.Context(), awaited: over}, l.Addr(buildID)); err == nil || !strings.Contains(err.Error(), "ended with exit code 0") {
			t.Fatalf("Open: %v", err)
		}
	}
}

// Who has opened a pipe hears when it ends, and why, also if that is before it asks.
func TestOpenEndsWithThePipe(t *testing.T) {
	l := startLab(t, nil, "sendAndEnd", "")
	addr := l.Addr(buildID)
	open, release, err := l.Open(t.Context(), addr)
	if err != nil || open.Err() != nil {
		t.Fatal(err, open.Err())
	}
	defer release()
	l.WriteTo([]byte("end"), addr)
	await.Until(t, "nothing is left of it", func() bool { return len(l.Pipes()) == 0 && len(l.told.list()) == 1 })
	await.Receive(t, "it is told", open.Done())
	if why := context.Cause(open); !strings.Contains(why.Error(), "ended with exit code 0; run the command by hand") {
		t.Error(why)
	}
	// Who gives it back ends it.
	open, release, err = l.Open(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	release()
	await.Receive(t, "it is told", open.Done())
	if why := context.Cause(open); why != errUnwanted {
		t.Error(why)
	}
}

func TestCommandEnds(t *testing.T) {
	for _, test := range []struct {
		name    string
		command []string
		kill    bool
		word    string // in the log
	}{
		{"killed", []string{"echo"}, true, "was ended by a signal (killed)"},
		{"ended", []string{"sendAndEnd", `\x00\x01a`}, false, "ended with exit code 0"},
		{"half a frame", []string{"sendAndEnd", `\x00\x05ab`}, false, "ended within a packet"},
		{"shut", []string{"shut"}, false, "closed its standard output"},
		{"large packet", []string{"send", `\xff\xff`}, false, "sent a packet of 65535 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startLab(t, nil, test.command...)
			pids := make(chan int, 1)
			l.start = func(argv []string) (process, error) {
				p, err := startProcess(argv)
				if err == nil {
					pids <- p.(*systemProcess).cmd.Process.Pid
				}
				return p, err
			}
			addr, release := l.open()
			defer release()
			if pid := <-pids; test.kill {
				syscall.Kill(pid, syscall.SIGKILL)
			} else {
				l.WriteTo([]byte("end"), addr)
			}
			await.Until(t, "NobodyAt", func() bool { return slices.Equal(l.told.list(), []string{"pipe:build"}) })
			await.Until(t, "logged", func() bool { return l.log.words() != "" })
			if said := l.log.words(); !strings.Contains(said, test.word) {
				t.Errorf("the log says %s", said)
			}
			_, again := l.open() // at once
			again()
		})
	}
}

// Towards a command that reads nothing 512 packets wait; more are dropped, and nobody waits.
func TestWriteToNeverBlocks(t *testing.T) {
	l := startLab(t, nil, "deaf")
	addr, release := l.open()
	packet := make([]byte, maxPacket)
	began := time.Now()
	for range 20000 {
		if n, err := l.WriteTo(packet, addr); n != len(packet) || err != nil {
			t.Fatal(n, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("20,000 packets took %v", took)
	}
	l.WriteTo(make([]byte, maxPacket+1), addr)
	l.WriteTo(nil, addr)
	l.WriteTo(packet, Addr{text: "pipe:other"})
	release()
	began = time.Now()
	l.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestEndsWithRun(t *testing.T) {
	l := startLab(t, nil, "echo")
	addr, release := l.open()
	defer release()
	l.stop()
	if _, _, err := l.Open(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("Open: %v", err)
	}
	if _, _, err := l.ReadFrom(make([]byte, 10)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ReadFrom: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	names := map[identity.ID]string{{1}: "build", {2}: "in-3", {3}: ""}
	l := NewLink(Options{Command: func(id identity.ID) (string, []string) {
		if name, ok := names[id]; ok {
			return name, []string{"ssh"}
		}
		return "", nil
	}})
	for id, want := range map[identity.ID]string{{1}: "pipe:build", {2}: "pipe:" + identity.ID{2}.String(), {3}: "pipe:" + identity.ID{3}.String()} {
		addr := l.Addr(id)
		if addr.String() != want || l.Sender(addr) != id || addr != l.Addr(id) {
			t.Errorf("the address of %s is %s", names[id], addr)
		}
	}
	if addr := l.Addr(identity.ID{4}); addr != nil {
		t.Errorf("a peer without a command has the address %s", addr)
	}
	if addr := NewLink(Options{}).Addr(buildID); addr != nil {
		t.Errorf("without commands there is the address %s", addr)
	}
	if _, _, err := l.Open(t.Context(), Addr{text: "pipe:in-1"}); err == nil {
		t.Error("a pipe that came in is dialled")
	}
}

func TestReadDeadline(t *testing.T) {
	l := startLab(t, nil, "echo")
	l.SetReadDeadline(time.Now().Add(-time.Second))
	for range 2 {
		if _, _, err := l.ReadFrom(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline that has passed: %v", err)
		}
	}
	l.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, _, err := l.ReadFrom(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline that passes: %v", err)
	}
	l.SetReadDeadline(time.Time{})
	addr, release := l.open()
	defer release()
	l.WriteTo([]byte("x"), addr)
	if n, _, err := l.ReadFrom(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("without a deadline: %d, %v", n, err)
	}
}
