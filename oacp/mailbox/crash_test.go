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
)

// childEnv makes the test's program one of the children here, for the home that it
// names after the child's name and a colon.
const childEnv = "MAILBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	switch name, home, _ := strings.Cut(os.Getenv(childEnv), ":"); name {
	case "endlessly":
		endlessly(Home(home))
	case "cramped":
		cramped(Home(home))
	default:
		os.Exit(m.Run())
	}
}

// child is the test's program as a child.
func child(name string, p Project) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name+":"+string(p.Home))
	return cmd
}

// endlessly sends and says what is sent.
func endlessly(h Home) {
	for {
		s, err := h.SendLetter("demo", long())
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
		cmd := child("endlessly", p)
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
			if !isMessageName(name) {
				debris++
				if !strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".yaml") {
					t.Errorf("%s is left behind", name)
				}
				continue
			}
			e := readMessageEntry(filepath.Join(dir, name))
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
}

// long is a letter of several blocks.
func long() Letter {
	l := question("reviewer", "tester")
	l.Message.Body = strings.Repeat("line\n", 2000)
	return l
}

// cramped does what can be done where no file may have more than 100 bytes.
func cramped(h Home) {
	p := Project{h, "demo"}
	limit := syscall.Rlimit{Cur: 100, Max: 100}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
	}
	_, err := h.SendLetter("demo", long())
	fmt.Println("send:", err)
	l, err := p.ListInboxes("reviewer", false)
	fmt.Println("list:", l.Agents[0].Count, err)
	w := Watch{Home: h, Agent: "reviewer", Projects: []string{"demo"}}
	fmt.Println("watch:", w.Scan(func(Event) {})) // nothing is new, nothing to write
	_, err = Agent{p, "reviewer"}.FinishMessage(readMessageEntry(l.Agents[0].Messages[0].Path), false)
	fmt.Println("done:", err)
	os.Exit(0)
}

// TestFullDisk: on a full disk nothing is sent, nothing is left, and nothing breaks.
func TestFullDisk(t *testing.T) {
	p := demo(t)
	s := send(t, p, long())
	w := watch(t, p)
	w.Since = time.Unix(0, 0)
	w.expect("new_message " + filepath.Base(s.Outbox))
	out, err := child("cramped", p).CombinedOutput()
	if said := string(out); err != nil || !strings.HasPrefix(said, "send: nothing was sent: ") || !strings.HasSuffix(said, "\nlist: 1 <nil>\nwatch: true\ndone: <nil>\n") {
		t.Errorf("%s%v", said, err)
	}
	for _, dir := range []string{p.must(t, "reviewer").Archive(), p.must(t, "tester").Inbox(), p.must(t, "planner").Outbox()} {
		if got := files(t, dir); len(got) != 1 || content(t, filepath.Join(dir, got[0])) != string(s.Data) {
			t.Errorf("%s holds %q", dir, got)
		}
	}
}
