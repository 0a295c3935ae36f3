package mailbox

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/oacp/message"
)

// senderEnv makes the test's program a process that sends until it is killed, to
// the project whose home it names.
const senderEnv = "MAILBOX_TEST_SENDER"

func TestMain(m *testing.M) {
	if home := os.Getenv(senderEnv); home != "" {
		endlessly(Home(home))
	}
	os.Exit(m.Run())
}

// endlessly sends and says what is sent.
func endlessly(h Home) {
	l := question("reviewer", "tester")
	l.Message.Body = strings.Repeat("line\n", 2000)
	for {
		s, err := h.Send("demo", l)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.Message.ID)
	}
}

// TestKill: a process that is killed at any moment leaves no part of a message under
// a message's name, has kept what it said, and what it leaves besides is no message.
func TestKill(t *testing.T) {
	p := demo(t)
	said := make(map[string]bool)
	for range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), senderEnv+"="+string(p.Home))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for begun := false; lines.Scan(); begun = true {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatal(lines.Text())
			}
			said[lines.Text()] = true
			if !begun {
				time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { cmd.Process.Kill() })
			}
		}
		cmd.Wait()
	}
	for _, dir := range []string{p.must(t, "reviewer").Inbox(), p.must(t, "tester").Inbox(), p.must(t, "planner").Outbox()} {
		there, debris := make(map[string]bool), 0
		for _, name := range files(t, dir) {
			if !candidate(name) {
				debris++
				if !strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".yaml") {
					t.Errorf("%s is left behind", name)
				}
				continue
			}
			e := open(filepath.Join(dir, name))
			if e.Err != nil || len(e.Message.Validate()) > 0 || strings.Count(e.Message.Body, "line\n") != 2000 {
				t.Errorf("a part of a message is to be seen: %s, %d bytes, %v", e.Path, len(e.Data), e.Err)
			}
			there[e.Message.ID] = true
		}
		for id := range said {
			if !there[id] {
				t.Errorf("%s was sent, and %s does not have it", id, dir)
			}
		}
		t.Logf("%s: %d messages, %d said, %d left behind", filepath.Base(filepath.Dir(dir)), len(there), len(said), debris)
	}
	old := time.Now().Add(-2 * abandoned)
	all, err := filepath.Glob(filepath.Join(p.agents(), "*/*/.*.tmp-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	p.Home.Examine("demo", true)
	if left, _ := filepath.Glob(filepath.Join(p.agents(), "*/*/.*.tmp-*")); len(left) > 0 {
		t.Errorf("doctor has left %v", left)
	}
}

// TestFullDisk: on a full disk nothing is sent, nothing is left, and nothing breaks.
func TestFullDisk(t *testing.T) {
	p := demo(t)
	l := question("reviewer", "tester")
	l.Message.Body = strings.Repeat("x", 8<<10)
	e := send(t, p, l)
	w := watch(t, p)
	w.Since = time.Unix(0, 0)
	w.expect("new_message " + filepath.Base(e.Outbox))

	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := syscall.Rlimit{Cur: 100, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	_, failed := p.Home.Send(p.Name, l)
	_, err := p.List("reviewer", false)
	write := w.Scan(func(Event) {}) // nothing is new, nothing to write
	path, moved := p.must(t, "reviewer").Done(open(e.Inboxes[0]), false)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if failed == nil || !strings.HasPrefix(failed.Error(), "nothing was sent: ") {
		t.Errorf("sent: %v", failed)
	}
	if err != nil || !write || moved != nil || content(t, path) != string(e.Data) {
		t.Errorf("list: %v, watch: %v, done: %v", err, write, moved)
	}
	for _, dir := range []string{p.must(t, "reviewer").Inbox(), p.must(t, "tester").Inbox(), p.must(t, "planner").Outbox()} {
		for _, name := range files(t, dir) {
			if name != "archive" && name != filepath.Base(e.Outbox) {
				t.Errorf("%s is left in %s", name, dir)
			}
		}
	}
	send(t, p, Letter{Message: message.Message{From: "planner", To: []string{"tester"}, Type: "question", Priority: "P0", Subject: "S", Body: "x"}})
}
