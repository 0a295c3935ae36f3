//go:build faults

package faults

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// clock is the wall clock of one process, which can be set while it runs; its monotonic
// clock goes on, and so do those of the files that it writes. The program is the one that
// is released: the code by which it asks the kernel is another.
type clock struct {
	mem *os.File
	at  int64 // where in the process's memory what is added to the time stands
}

// set sets it to the true time and so much.
func (c *clock) set(ahead time.Duration) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(ahead/time.Second))
	_, err := c.mem.WriteAt(b[:], c.at)
	return err
}

// startAhead is Start with a clock that is ahead from the daemon's first instruction on.
func (s *side) startAhead(ahead time.Duration) *clock {
	m := s.Machine
	m.T.Helper()
	if clockCode == nil {
		m.T.Fatalf("a clock can be set on amd64 alone, this is %s", runtime.GOARCH)
	}
	s.mu.Lock()
	s.starts++
	s.mu.Unlock()
	m.Acpd = m.PrepareProcess(m.DaemonCommand()...)
	m.Acpd.Cmd.SysProcAttr.Ptrace = true // it stands still before it begins
	var c *clock
	m.Acpd.First = func() error {
		pid := m.Acpd.Cmd.Process.Pid
		_, err := syscall.Wait4(pid, new(syscall.WaitStatus), 0, nil)
		if err != nil {
			return err
		}
		if c, err = clockOf(pid); err == nil {
			err = c.set(ahead)
		}
		return errors.Join(err, syscall.PtraceDetach(pid))
	}
	runtime.LockOSThread() // who traces a process is a thread
	err := m.In(m.Acpd.Start)
	runtime.UnlockOSThread()
	if err != nil {
		m.T.Fatalf("give %s a clock of its own: %v", m.Name, err)
	}
	m.T.Cleanup(func() { c.mem.Close() })
	m.AwaitReady()
	return c
}

// clockOf puts clockCode where the kernel has put its own into a process.
func clockOf(pid int) (*clock, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return nil, err
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			fmt.Sscanf(line, "%x-%x", &from, &to)
		}
	}
	mem, err := os.OpenFile(filepath.Join(dir, "mem"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	image := make([]byte, to-from)
	if _, err = mem.ReadAt(image, from); err == nil {
		var f *elf.File
		if f, err = elf.NewFile(bytes.NewReader(image)); err == nil {
			var names []elf.Symbol
			names, err = f.DynamicSymbols()
			i := slices.IndexFunc(names, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
			if err == nil && (i < 0 || names[i].Size < uint64(len(clockCode)+8)) {
				err = errors.New("the kernel's clock_gettime is not where it should be")
			}
			if err == nil {
				at := from + int64(names[i].Value)
				_, err = mem.WriteAt(append(slices.Clone(clockCode), make([]byte, 8)...), at)
				if err == nil {
					return &clock{mem, at + int64(len(clockCode))}, nil
				}
			}
		}
	}
	mem.Close()
	return nil, err
}

// TestClockIsSet: a daemon's clock is set forward and back a day while it runs, and
// between its runs: calls under way notice nothing, their deadlines pass when they
// should, and what was promised is neither gone nor there twice.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	var mails *mails
	c, writes := beginWithChannel(t, func(c *check) { mails = newMails(c) })
	c.desk.StopDaemon()
	clock := c.desk.startAhead(0)
	c.connected()

	set := []time.Duration{day, -day, 0}
	if !testing.Short() {
		set = []time.Duration{day, 0, -day, 0, day, -day, 0}
	}
	c.talk(talk{pause, writes.write}, talk{time.Second, writes.askNobody})
	c.held20()
	for _, ahead := range set {
		mails.send()
		if err := clock.set(ahead); err != nil {
			t.Fatal(err)
		}
		c.desk.goesAhead(ahead)
		mails.send()
		time.Sleep(3 * time.Second) // so that calls begin and end under each
	}
	c.allWell()
	writes.check()
	mails.check()
	c.settle()

	var long []wire.MessageID // delegations, from either side
	for _, s := range c.sides() {
		id := wire.NewMessageID()
		if _, err := s.agent.Delegate(await.NewContext(t), client.DelegateParams{
			Head: client.Head{ID: id}, To: s.other.Name + "/worker", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "long", DeadlineMS: uint64((3 * day).Milliseconds())}),
		}); err != nil {
			t.Fatal(err)
		}
		long = append(long, id)
	}
	for i, ahead := range []time.Duration{day, -day, 0} {
		if i%2 == 0 {
			c.desk.StopDaemon()
		} else {
			c.desk.KillDaemon()
		}
		mails.send() // what waits for desk does so until it is back
		writes.write(t.Context())
		c.desk.startAhead(ahead)
		c.desk.goesAhead(ahead)
		c.connected()
		for _, s := range c.sides() {
			s.AwaitAgent("worker")
			tasks, err := s.Client.Tasks(await.NewContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range long {
				if i := slices.IndexFunc(tasks, func(t client.Task) bool { return t.ID == id }); i < 0 || tasks[i].State != client.TaskAccepted {
					t.Errorf("with the clock %s ahead %s has of delegation %s: %v", ahead, s.Name, id, tasks)
				}
			}
		}
		c.talk(talk{pause, writes.write})
		c.held20()
		c.allWell()
	}
	writes.check()
	mails.check()
	for i, s := range c.sides() {
		if _, err := s.agent.Cancel(await.NewContext(t), client.CancelParams{Ref: long[i]}); err != nil {
			t.Error(err)
		}
	}
	c.settle()
}

// goesAhead looks whether the daemon takes the time to be the true one and so much.
func (s *side) goesAhead(ahead time.Duration) {
	s.T.Helper()
	var made struct {
		At time.Time `json:"created_at"`
	}
	_, answer := request(await.NewContext(s.T), s, "planner", "POST", "intents", "", `{"title": "What time is it"}`)
	if err := json.Unmarshal([]byte(answer), &made); err != nil || time.Until(made.At.Add(-ahead)).Abs() > time.Hour {
		s.T.Fatalf("the clock of %s should be %s ahead: %s, %v", s.Name, ahead, answer, err)
	}
}

// mails are mails between the planner at desk and the reviewer at laptop.
type mails struct {
	c *check
	n int
}

func newMails(c *check) *mails {
	c.t.Helper()
	for _, s := range c.sides() {
		own, others := "planner", "reviewer"
		if s == c.laptop {
			own, others = others, own
		}
		s.MustOutput("oacp", "init", "demo", "--agents", own)
		s.MustOutput("oacp", "bind", "demo", others, s.other.Name)
	}
	m := &mails{c: c}
	m.send()
	m.check()
	return m
}

// send sends one to either side.
func (m *mails) send() {
	m.c.t.Helper()
	for _, s := range m.c.sides() {
		from, to := "planner", "reviewer"
		if s == m.c.laptop {
			from, to = to, from
		}
		s.MustOutput("oacp", "send", "demo", "--from", from, "--to", to, "--type", "notification", "--subject", fmt.Sprint("mail ", m.n), "--body", "b")
	}
	m.n++
}

// check waits until every mail is where it belongs, and looks whether it is there once.
func (m *mails) check() {
	t := m.c.t
	t.Helper()
	for _, s := range m.c.sides() {
		name := "planner"
		if s == m.c.laptop {
			name = "reviewer"
		}
		inbox := filepath.Join(s.Home, "oacp", "projects", "demo", "agents", name, "inbox")
		var found map[string]int
		await.Until(t, "all mail has come to "+s.Name, func() bool {
			found = subjects(t, inbox)
			return len(found) >= m.n
		})
		for i := range m.n {
			if n := found[fmt.Sprint("mail ", i)]; n != 1 {
				t.Errorf("mail %d is %d times in the inbox of %s", i, n, s.Name)
			}
		}
	}
}

// subjects are those of the mails in an inbox, and how often each is there.
func subjects(t *testing.T, inbox string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for _, f := range files(t, inbox) {
		if f[0] == '.' { // it is being written
			continue
		}
		text, err := os.ReadFile(filepath.Join(inbox, f))
		if err != nil {
			t.Fatal(err)
		}
		found[strings.Trim(between(string(text), "\nsubject: ", "\n"), `"`)]++
	}
	return found
}

// askNobody asks somebody who never answers, and looks whether it hears so in time.
func (ch *channel) askNobody(ctx context.Context) {
	const timeout = 4 * time.Second
	within, cancel := context.WithTimeout(ctx, timeout+limit)
	defer cancel()
	begun := time.Now()
	status, answer := request(within, ch.c.laptop, "reviewer", "POST", "channels/"+ch.id+"/ask", "", fmt.Sprintf(`{"to": "planner", "payload": {}, "timeout": %d}`, timeout/time.Second))
	ch.c.count("ask", fmt.Sprint(status))
	if took := time.Since(begun); status == 0 || took < timeout {
		ch.c.t.Errorf("who asks for %s is told after %s: %d %s", timeout, took, status, answer)
	}
}
