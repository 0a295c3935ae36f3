package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is connections that wait at a listener, and a folder with the table that says whose they are.
type crowd struct {
	queue
	t      *testing.T
	here   netip.AddrPort
	tables string
	table  strings.Builder
	told   []string // at the terminal
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, here: netip.MustParseAddrPort("127.0.0.1:7000"), tables: t.TempDir() + "/"}
	c.table.WriteString("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n")
	return c
}

func (c *crowd) Addr() net.Addr { return net.TCPAddrFromAddrPort(c.here) }

// add adds a connection of a user.
func (c *crowd) add(uid int) *queued {
	from := netip.AddrPortFrom(c.here.Addr(), uint16(10_000+len(c.conns)))
	added := &queued{from: *net.TCPAddrFromAddrPort(from), to: *net.TCPAddrFromAddrPort(c.here)}
	c.conns = append(c.conns, added)
	fmt.Fprintf(&c.table, "%4d: %s %s 01 00000000:00000000 00:00000000 00000000 %5d        0 %d 1 0000000000000000 20 4 30 10 -1\n", len(c.conns), formatAddr4(from), formatAddr4(c.here), uid, 50_000+len(c.conns))
	return added
}

// listen returns a listener at which they wait, and how often the system is asked. ask is what the kernel answers.
func (c *crowd) listen(ask func(connEnds) (int, error)) (l *guardedListener, askings *int) {
	c.t.Helper()
	if err := os.WriteFile(c.tables+"tcp", []byte(c.table.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	callers := chooseCallerFinder(c, ask, c.tables)
	find := callers.find
	askings = new(int)
	callers.find = func(conns []net.Conn) ([]callerCheck, error) {
		*askings++
		return find(conns)
	}
	return &guardedListener{Listener: c, callers: callers, tell: func(line string) { c.told = append(c.told, line) }}, askings
}

func (c *crowd) removeTables() {
	c.t.Helper()
	if err := os.RemoveAll(c.tables); err != nil {
		c.t.Fatal(err)
	}
}

// answersFirst returns a kernel that answers with these errors, and refuses to answer from then on. nil stands for the
// owner's number.
func answersFirst(answers ...error) func(connEnds) (int, error) {
	return func(connEnds) (int, error) {
		if len(answers) == 0 {
			return 0, syscall.EPERM
		}
		err := answers[0]
		answers = answers[1:]
		return os.Getuid(), err
	}
}

// TestStrangersWhereTheKernelDoesNotAnswer: however many connections of another user wait before one of the owner,
// the table is read once for each maxAsked of them, and they are closed. If the kernel has answered before, the
// first one is asked of alone.
// holds: security.md#the-page-of-acpctl-web
func TestStrangersWhereTheKernelDoesNotAnswer(t *testing.T) {
	for alone, how := range []string{"from the first", "any more"} {
		for _, strangers := range []int{0, 1, maxAsked - 1, maxAsked, 4096} { // the last: as many as wait at a listener of Linux
			crowd := newCrowd(t)
			var others []*queued
			for range strangers {
				others = append(others, crowd.add(65_534))
			}
			own := []net.Conn{crowd.add(os.Getuid()), crowd.add(os.Getuid())}
			l, askings := crowd.listen(answersFirst([]error{errNoCaller}[:alone]...))
			for i, want := range own {
				got, err := l.Accept()
				if g, ok := got.(*guardedConn); err != nil || !ok || g.Conn != want {
					t.Fatalf("%s, %d strangers: connection %d is %v, %v", how, strangers, i, got, err)
				}
			}
			if most := alone + (strangers+len(own)-alone+maxAsked-1)/maxAsked; *askings != most {
				t.Errorf("%s, %d strangers: %d readings, want %d", how, strangers, *askings, most)
			}
			for i, c := range others {
				if !c.isClosed {
					t.Fatalf("%s, %d strangers: connection %d is open", how, strangers, i)
				}
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s, %d strangers, and no further connection: %v", how, strangers, err)
			}
		}
	}
}

// TestKernelAnswersNoMore: a kernel that does not answer once, or has lost what answers for TCP, keeps no owner out,
// and lets nobody else in.
// holds: security.md#the-page-of-acpctl-web
func TestKernelAnswersNoMore(t *testing.T) {
	for how, c := range map[string]struct {
		answers  []error // of the kernel: of the listener, and then of the connection
		inTable  bool    // the table is what tells
		isClosed bool    // whoever the table says it is
		most     int     // connections of which is asked together next
	}{
		"it answers":                          {[]error{errNoCaller, nil}, false, false, 1},
		"it does not answer once":             {[]error{errNoCaller, syscall.ENOBUFS, nil}, false, false, 1},
		"it does not answer":                  {[]error{errNoCaller, syscall.ENOBUFS, errNoDiag}, true, false, maxAsked},
		"no such connection":                  {[]error{errNoCaller, errNoCaller}, false, true, 1},
		"no socket, and the listener is one":  {[]error{errNoCaller, errNoSocket, errNoCaller}, false, true, 1},
		"no socket, and the listener is none": {[]error{errNoCaller, errNoSocket, errNoSocket, errNoSocket, errNoSocket}, true, false, maxAsked},
	} {
		for _, uid := range []int{os.Getuid(), 65_534} {
			crowd := newCrowd(t)
			conn := crowd.add(uid)
			l, _ := crowd.listen(answersFirst(c.answers...))
			if !c.inTable {
				crowd.removeTables() // the kernel's word counts, and nothing else is asked
			}
			l.Accept()
			if want := c.isClosed || c.inTable && uid != os.Getuid(); conn.isClosed != want || l.callers.most != c.most {
				t.Errorf("%s, a connection of %d: closed: %v, want %v; %d are asked of together, want %d", how, uid, conn.isClosed, want, l.callers.most, c.most)
			}
			if len(crowd.told) > 0 {
				t.Errorf("%s: told: %q", how, crowd.told)
			}
		}
	}
}

// TestNothingSaysWhoseItIs: if nothing says any more whose a connection is, it is refused, and the terminal is told
// why and what to do. Who comes when the kernel answers again is let in.
// holds: security.md#the-page-of-acpctl-web
func TestNothingSaysWhoseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crowd := newCrowd(t)
		isSilent := false
		l, _ := crowd.listen(func(ends connEnds) (int, error) {
			switch {
			case isSilent:
				return 0, syscall.EMFILE
			case ends.from == crowd.here:
				return 0, errNoCaller
			}
			return os.Getuid(), nil
		})
		crowd.removeTables()
		expect := func(what string, wantTold int) {
			t.Helper()
			all := []*queued{crowd.add(os.Getuid()), crowd.add(os.Getuid()), crowd.add(65_534)}
			if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, %v", what, c, err)
			}
			for i, c := range all {
				if !c.isClosed {
					t.Errorf("%s: connection %d is open", what, i)
				}
			}
			if len(crowd.told) != wantTold {
				t.Errorf("%s: told: %q", what, crowd.told)
			}
		}
		isSilent = true
		expect("nothing answers", 1)
		expect("nothing answers still", 1)
		if want := "the system does not say whose a connection is, and nobody is let in without that: sock_diag: too many open files; open " + crowd.tables +
			"tcp: no such file or directory: load the page again; if it stays away, run acpctl web again"; !slices.Equal(crowd.told, []string{want}) {
			t.Errorf("told: %q", crowd.told)
		}
		time.Sleep(silentTime)
		expect("nothing answers after a while", 2)
		isSilent = false
		own := crowd.add(os.Getuid())
		if c, err := l.Accept(); err != nil || c.(*guardedConn).Conn != own || l.callers.most != 1 {
			t.Errorf("it answers again: %v, %v; %d are asked of together", c, err, l.callers.most)
		}
	})
}
