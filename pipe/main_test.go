package pipe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

const fakeMark = "fake-command"

// This binary is also the command.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == fakeMark {
		fake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const hello = "acp-pipe 1\n"

// fake is a command of each kind that a link must stand.
func fake(what string, args []string) {
	say := func(text string) { os.Stdout.WriteString(text) }
	switch what {
	case "echo": // every packet comes back
		say(hello)
		in := os.Stdin
		io.ReadFull(in, make([]byte, len(hello)))
		io.Copy(os.Stdout, in)
	case "burst": // as echo, but in bursts that split frames anywhere
		say(hello[:3])
		time.Sleep(10 * time.Millisecond) // so that the link reads the first part alone
		say(hello[3:])
		io.ReadFull(os.Stdin, make([]byte, len(hello)))
		var held []byte
		part := make([]byte, 1)
		for i := 0; ; i++ {
			if _, err := os.Stdin.Read(part); err != nil {
				os.Stdout.Write(held)
				return
			}
			if held = append(held, part...); len(held) >= 1+i%1999 {
				os.Stdout.Write(held)
				held = held[:0]
			}
		}
	case "banner":
		say(args[0])
		if len(args) > 1 {
			time.Sleep(50 * time.Millisecond) // so that the link reads the first part alone, and waits for the rest of the line
			say(args[1])
		}
		io.Copy(io.Discard, os.Stdin)
	case "silent":
		fmt.Fprint(os.Stderr, strings.Join(args, " "))
		io.Copy(io.Discard, os.Stdin)
	case "exit":
		for _, line := range args[1:] {
			fmt.Fprintln(os.Stderr, line)
		}
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "version":
		say("acp-pipe " + args[0] + "\n")
		io.Copy(io.Discard, os.Stdin)
	case "deaf": // says hello and reads nothing
		say(hello)
		stay()
	case "shut": // says hello, and closes what it prints when a packet has come
		say(hello)
		awaitPacket()
		os.Stdout.Close()
		stay()
	case "hello": // and nothing more
		say(hello)
		io.Copy(io.Discard, os.Stdin)
	case "helloAndEnd":
		say(hello)
	case "send": // its argument, as it is, when a packet has come
		say(hello)
		awaitPacket()
		say(unquote(args[0]))
		io.Copy(io.Discard, os.Stdin)
	case "sendAndEnd":
		say(hello)
		awaitPacket()
		say(unquote(args[0]))
	case "stubborn": // with a child in its group, both of which ignore what they can
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
		startAgain("stubbornChild", args[0])
		say(hello)
		stay()
	case "stubbornChild":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
		os.WriteFile(args[0], []byte(strconv.Itoa(os.Getpid())), 0o600)
		stay()
	case "leaves": // a child that holds its output open, and ends
		startAgain("stubbornChild", args[0])
		for i := 0; i < 500; i++ {
			if _, err := os.Stat(args[0]); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond) // between looks: a file is all that the child tells
		}
		say(hello)
		awaitPacket()
	case "shout": // on standard error, without end
		go func() {
			line := []byte(strings.Repeat("x", 1<<16))
			for {
				os.Stderr.Write(line)
			}
		}()
		fake("echo", nil)
	case "motd": // as sshd's, on standard error
		fmt.Fprintln(os.Stderr, "Welcome to build-box!\nLast login: yesterday")
		fake("echo", nil)
	case "where": // says by a file what the command is given
		sid, _ := syscall.Getpgid(0)
		_, tty := os.Open("/dev/tty")
		text := fmt.Sprintf("%v\n%d %d\n%v\n%s\n", os.Args[4:], os.Getpid(), sid, tty, strings.Join(os.Environ(), "\n"))
		os.WriteFile(args[0]+".part", []byte(text), 0o600)
		os.Rename(args[0]+".part", args[0])
		fake("echo", nil)
	case "daemon": // opens a pipe to the command in its arguments, says its pid, and waits to be killed
		l := NewLink(Options{Command: func(identity.ID) (string, []string) { return "build", args }})
		go l.Run(context.Background(), &observer{})
		if _, _, err := l.Open(context.Background(), l.Addr(identity.ID{1})); err != nil {
			fmt.Println(err)
			return
		}
		say("open\n")
		stay()
	}
}

// awaitPacket reads until a packet begins: whoever sends it has seen the pipe open.
func awaitPacket() { io.ReadFull(os.Stdin, make([]byte, len(hello)+1)) }

// stay waits until the process is killed. A select without cases would end it as a deadlock.
func stay() { time.Sleep(time.Hour) }

// unquote returns what an argument stands for, which may have a NUL.
func unquote(arg string) string {
	text, err := strconv.Unquote(`"` + arg + `"`)
	if err != nil {
		panic(err)
	}
	return text
}

// startAgain starts this program anew, in the same process group, with the same output.
func startAgain(args ...string) {
	cmd := exec.Command("/proc/self/exe", append([]string{fakeMark}, args...)...)
	if exe, err := os.Executable(); err == nil {
		cmd.Path = exe
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Start()
}

// observer counts what it is told.
type observer struct {
	mu   sync.Mutex
	gone []string
}

func (o *observer) NobodyAt(addr net.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = append(o.gone, addr.String())
}

func (o *observer) Interrupted() {}

func (o *observer) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.gone...)
}

var buildID = identity.ID{1}

// lab is a link that runs, with a command for buildID.
type lab struct {
	*Link
	t    *testing.T
	told observer
	log  *lastLines // the last two of them
	stop func()
}

// startLab runs a link whose command is a fake. change may set its times.
func startLab(t *testing.T, change func(*Link), command ...string) *lab {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{exe, fakeMark}, command...)
	return startLabWith(t, change, func(id identity.ID) (string, []string) {
		if id != buildID {
			return "", nil
		}
		return "build", argv
	})
}

func startLabWith(t *testing.T, change func(*Link), command func(identity.ID) (string, []string)) *lab {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // a second at the end of each command
	log := &lastLines{}
	l := &lab{Link: NewLink(Options{Command: command, Log: slog.New(slog.NewTextHandler(log, nil))}), t: t, log: log}
	l.times.startPause = 0
	if change != nil {
		change(l.Link)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx, &l.told) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(await.Patience):
			t.Error("Run does not end")
		}
		l.Close()
	})
	t.Cleanup(l.stop)
	return l
}

// open opens the pipe to build.
func (l *lab) open() (net.Addr, func()) {
	l.t.Helper()
	addr := l.Addr(buildID)
	_, release, err := l.Open(l.t.Context(), addr)
	if err != nil {
		l.t.Fatal(err)
	}
	return addr, release
}

// fails opens the pipe to build, which must fail with all words, in the message or quoted. It returns the message.
func (l *lab) fails(words ...string) string {
	l.t.Helper()
	_, _, err := l.Open(l.t.Context(), l.Addr(buildID))
	if err == nil {
		l.t.Fatal("it opens")
	}
	e := kinds.AsError(err)
	for _, w := range words {
		if said := e.Message + "; it says: " + e.Quoted + "$"; !strings.Contains(said, w) {
			l.t.Errorf("%q does not say %q", said, w)
		}
	}
	if strings.Contains(e.Message, "Hello") || strings.Contains(e.Message, "refused") || strings.Contains(e.Message, "xxx") {
		l.t.Errorf("the message has words of the command: %s", e.Message)
	}
	return e.Message
}

// receive returns the next packet.
func (l *lab) receive() (string, net.Addr) {
	l.t.Helper()
	l.SetReadDeadline(time.Now().Add(await.Patience))
	b := make([]byte, 2000)
	n, from, err := l.ReadFrom(b)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(b[:n]), from
}
