package doctor

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/acpd/acpd/disk"
)

// Machine is what the doctor asks of the machine that it runs on.
type Machine struct {
	Root    string // the folder in which proc and etc are; "" is /
	OS      string // runtime.GOOS
	UID     int
	OwnerOf func(fs.FileInfo) int

	Now            func() time.Time
	MeasureSpace   func(path string) (disk.Space, error)
	ListInterfaces func() ([]net.Interface, error)
	HearMulticast  func(ctx context.Context, nic net.Interface) error        // nil: what was sent there is heard
	IsClockSynced  func() (synced, known bool)                               // known: the kernel says
	ListenUDP      func(addr string) error                                   // nil: the address was free
	RunProgram     func(ctx context.Context, argv ...string) (string, error) // its output, exec.ErrNotFound if there is none
	MaxDescriptors func() int
	MaxSocketPath  int
}

// readFile returns the beginning of a file of the system.
func (m *Machine) readFile(path string) ([]byte, error) {
	f, err := os.Open(filepath.Join("/", m.Root, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSystemFile))
}

const (
	maxSystemFile   = 4 << 20
	programPatience = 5 * time.Second
	maxOutput       = 4 << 20
)

// runProgram runs a program of the system, found in PATH or where administrators' programs are, for
// programPatience at most.
func runProgram(ctx context.Context, argv ...string) (string, error) {
	path, err := exec.LookPath(argv[0])
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, argv[0]))
	}
	if err != nil {
		return "", exec.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, programPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out boundedBuffer
	cmd.Stdout = &out
	err = cmd.Run()
	return out.String(), err
}

// boundedBuffer keeps the first bytes that are written to it, and takes the rest in silence.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxOutput-b.Len()))])
	return len(p), nil
}

// listenUDP listens on an address for a moment.
func listenUDP(addr string) error {
	udp, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	s, err := net.ListenUDP("udp", udp)
	if err == nil {
		s.Close()
	}
	return err
}
