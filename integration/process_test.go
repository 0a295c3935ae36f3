package integration

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !live.IsRaceEnabled() {
		// Most tests wait for time to pass: more of them fit than there are processors.
		flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	live.RemovePrograms()
	os.Exit(code)
}

// fifo is a named pipe that processes of a script hold open, so that a test knows
// when the last of them has ended.
type fifo struct {
	t     *testing.T
	path  string
	lines chan string // closed when nobody has the fifo open any more
}

func newFifo(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{t, filepath.Join(live.MakeTempDir(t), "fifo"), make(chan string, 64)}
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(f.lines)
		r, err := os.Open(f.path) // waits for a writer
		if err != nil {
			return
		}
		defer r.Close()
		for in := bufio.NewScanner(r); in.Scan(); {
			f.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		if w, err := os.OpenFile(f.path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
		<-read
	})
	return f
}

// expect waits for n lines.
func (f *fifo) expect(n int) {
	f.t.Helper()
	for i := range n {
		select {
		case _, open := <-f.lines:
			if !open {
				f.t.Fatalf("%d processes began, want %d", i, n)
			}
		case <-time.After(await.Patience):
			f.t.Fatalf("%d processes began, want %d", i, n)
		}
	}
}

// gone waits until no process has the fifo open.
func (f *fifo) gone(within time.Duration) {
	f.t.Helper()
	for end := time.After(within); ; {
		select {
		case _, open := <-f.lines:
			if !open {
				return
			}
		case <-end:
			f.t.Fatalf("processes of the script still run after %s", within)
		}
	}
}
