package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A port is the program's only if nobody else listens where 127.0.0.1 leads.
func TestFindPorts(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1001 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 99 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1002 0100007F:9000 01 00000000:00000000 00:00000000 00000000  1001        0 98 1 0000000000000000 100 0 0 10 0
   3: 0200000A:1002 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 97 1 0000000000000000 100 0 0 10 0
   4: 00000000:1003 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 14 1 0000000000000000 100 0 0 10 0
   0: 00000000000000000000000000000000:1001 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000000000000:1002 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0000000000000000 100 0 0 10 0
   2: 00000000000000000000000000000000:1003 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 15 1 0000000000000000 100 0 0 10 0
`
	open := map[string]bool{"11": true, "12": true, "13": true, "14": true, "15": true}
	if got := findPorts(table, open); !slices.Equal(got, []int{0x1000, 0x1002, 0x1003}) {
		t.Errorf("ports %x", got)
	}
}

// A program whose file was replaced while it ran is still the same one.
func TestAReplacedProgram(t *testing.T) {
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(path, "sleep")
	if err := os.WriteFile(path, sleep, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if p, err := readProcess(cmd.Process.Pid); err != nil || p.program != path {
		t.Errorf("%+v, %v", p, err)
	}
}
