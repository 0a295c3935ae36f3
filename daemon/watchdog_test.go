package daemon

import (
	"context"
	"net"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// systemdSocket is the socket on which systemd hears services.
type systemdSocket struct {
	*net.UnixConn
	t *testing.T
}

// listenAsSystemd makes the daemons of this test services of a systemd whose watchdog has
// that period; 0: none.
func listenAsSystemd(t *testing.T, period time.Duration) *systemdSocket {
	path := filepath.Join(stateDir(t), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	if period > 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(period.Microseconds(), 10))
	}
	return &systemdSocket{c, t}
}

// next returns what the service says next, "" if it says nothing for so long.
func (s *systemdSocket) next(patience time.Duration) string {
	s.t.Helper()
	s.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4<<10)
	n, err := s.Read(b)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// drop drops what the service has said.
func (s *systemdSocket) drop() {
	s.t.Helper()
	s.SetReadDeadline(time.Time{})
	raw, err := s.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4<<10)
	if err := raw.Read(func(fd uintptr) bool {
		for {
			if _, _, err := syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT); err != nil {
				return true
			}
		}
	}); err != nil {
		s.t.Fatal(err)
	}
}

// await returns the next message that begins with a state.
func (s *systemdSocket) await(state string) string {
	s.t.Helper()
	for {
		switch said := s.next(await.Patience); {
		case said == "":
			s.t.Fatalf("systemd does not hear %s", state)
		case strings.HasPrefix(said, state+"\n"):
			return said
		}
	}
}

// What a service of Type=notify says from its start to its end, while nobody asks it for
// anything.
func TestSystemdHears(t *testing.T) {
	systemd := listenAsSystemd(t, 200*time.Millisecond)
	d := start(t, stateDir(t), "desk")
	if said := systemd.next(await.Patience); said != "READY=1\nSTATUS=0 peers connected; UDP "+d.node.Addr().String() {
		t.Errorf("at first it says %q", said)
	}
	for range 8 {
		systemd.await("WATCHDOG=1")
	}
	writeConfig(t, d.dir, "lisen: x\n")
	if _, err := d.config.Reload(); err == nil {
		t.Error("a broken config.yaml was taken over")
	}
	said := systemd.await("RELOADING=1")
	if _, us, ok := strings.Cut(said, "MONOTONIC_USEC="); !ok || us[0] < '1' || us[0] > '9' {
		t.Errorf("a reload says %q", said)
	}
	if said := systemd.await("READY=1"); !strings.HasSuffix(said, "config.yaml was not taken over: see acpctl status") {
		t.Errorf("after a reload that failed it says %q", said)
	}
	d.stop()
	if said := systemd.await("STOPPING=1"); !strings.Contains(said, "STATUS=draining;") {
		t.Errorf("at its end it says %q", said)
	}
}

// Without a watchdog nothing feeds it.
func TestNoWatchdog(t *testing.T) {
	systemd := listenAsSystemd(t, 0)
	d := start(t, stateDir(t), "desk")
	systemd.await("READY=1")
	d.stop()
	if said := systemd.next(await.Patience); !strings.HasPrefix(said, "STOPPING=1\n") {
		t.Errorf("after READY=1 it says %q", said)
	}
}

// lockMutex holds the mutex of a part. Whoever accepts a connection, where there is one already and may
// be one only, waits for that of the attached agents, to find whether that one is idle.
func lockMutex(part any) (release func()) {
	mu := (*sync.Mutex)(unsafe.Pointer(reflect.ValueOf(part).Elem().FieldByName("mu").UnsafeAddr()))
	mu.Lock()
	return mu.Unlock
}

// Each part that stands still starves the watchdog, until it moves again.
func TestStandstillStarvesWatchdog(t *testing.T) {
	const period = 200 * time.Millisecond
	connect := func(t *testing.T, path string) {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	for _, c := range []struct {
		part  string // as the log names it
		block func(t *testing.T, d *Daemon) (release func())
	}{
		{"the writer of state.db", func(t *testing.T, d *Daemon) func() {
			begun, end, ended := make(chan bool), make(chan bool), make(chan error)
			go func() {
				ended <- d.store.Write(context.Background(), true, func(*store.Tx) error { begun <- true; <-end; return nil })
			}()
			<-begun
			return func() {
				close(end)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}},
		{client.SocketName, func(t *testing.T, d *Daemon) func() {
			release := lockMutex(d.registry)
			connect(t, d.home.ownerSocketPath())
			connect(t, d.home.ownerSocketPath())
			return release
		}},
		{filepath.Join(client.AgentFolder, client.SocketName), func(t *testing.T, d *Daemon) func() {
			release := lockMutex(d.registry)
			connect(t, d.guests.Addr().String())
			connect(t, d.guests.Addr().String())
			return release
		}},
		{filepath.Join(client.AgentFolder, client.HTTPSocketName), func(t *testing.T, d *Daemon) func() {
			release := lockMutex(d.channels.Listeners[1])
			connect(t, filepath.Join(string(d.home), client.AgentFolder, client.HTTPSocketName))
			return release
		}},
	} {
		t.Run(c.part, func(t *testing.T) {
			systemd := listenAsSystemd(t, period)
			log := new(await.Output)
			d, err := OpenDaemon(t.Context(), Options{Home: stateDir(t), Listen: "127.0.0.1:0", NoMDNS: true, Version: "test", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			d.files.Local = 1
			defer runDaemon(t, d)()
			systemd.await("WATCHDOG=1")
			release := sync.OnceFunc(c.block(t, d))
			defer release()
			await.Until(t, "the log says what stands still", func() bool {
				return strings.Contains(log.String(), "stands still") && strings.Contains(log.String(), c.part)
			})
			systemd.drop() // what was said before
			if said := systemd.next(3 * period); said != "" {
				t.Errorf("while it stands still it says %q", said)
			}
			release()
			systemd.await("WATCHDOG=1")
		})
	}
}

// runDaemon runs a daemon until stop is called.
func runDaemon(t *testing.T, d *Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, nil) }()
	return func() {
		cancel()
		if err := await.Receive(t, "the daemon ends", ended); err != nil {
			t.Error(err)
		}
	}
}
