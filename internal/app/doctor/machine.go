package doctor

import (
	"context"
	"io/fs"
	"net"
	"os"
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
	HearMulticast  func(ctx context.Context, nic net.Interface) error // nil: what was sent there is heard
	IsClockSynced  func() (synced, known bool)                        // known: the kernel says
	ListenUDP      func(addr string) error                            // nil: the address was free
	MaxDescriptors func() int
	MaxSocketPath  int
}

// readFile returns a file of the system.
func (m *Machine) readFile(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join("/", m.Root, path))
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
