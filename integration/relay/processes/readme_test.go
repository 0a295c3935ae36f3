package processes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/live"
)

var (
	readmeBlock = regexp.MustCompile("(?s)```console relay\n(.*?)```")
	docsBlock   = regexp.MustCompile("(?s)## A server of your own\n.*?```console\n(.*?)```")
	typedLine   = regexp.MustCompile(`^(desk|laptop)\$ (.*)$`)
)

// TestReadmeAcrossTheInternet types what the README says, with the server that docs/reach.md configures,
// on machines that know no address of each other. Each command succeeds.
func TestReadmeAcrossTheInternet(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join(root, "docs/reach.md"))
	if err != nil {
		t.Fatal(err)
	}
	block, same := readmeBlock.FindSubmatch(readme), docsBlock.FindSubmatch(docs)
	if block == nil || same == nil || !strings.HasPrefix(string(block[1]), string(same[1])) {
		t.Fatalf("README.md has %q, and docs/reach.md %q", block, same)
	}
	const token = "a-token-of-48-hex-digits"
	s := newServer(t, []string{"of a person"}, "TOKEN", token)
	s.start()
	machines := map[string]*live.Machine{"desk": newMachine(t, "desk", s), "laptop": newMachine(t, "laptop", s)}
	for _, m := range machines {
		m.StartDaemon()
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	invitation, run := "", 0
	for line := range strings.Lines(string(block[1])) {
		typed := typedLine.FindStringSubmatch(strings.TrimSpace(line))
		if typed == nil {
			t.Fatalf("a line without a machine: %q", line)
		}
		m := machines[typed[1]]
		command := strings.NewReplacer("tls://nats.example.org", s.url(), "'acp://…'", "'"+invitation+"'", "acpctl ", "acpctl --home "+m.Home+" ").Replace(typed[2])
		out := m.StartProcess("bash", "-c", "cd "+dir+" && "+command).AwaitExit(0)
		if strings.Contains(command, " invite") {
			invitation = hideAddrs(out)
			if !strings.Contains(invitation, "relay=tls://"+token+"@"+s.addr+"&") {
				t.Errorf("the invitation is %s", invitation)
			}
		}
		run++
	}
	if run < 4 {
		t.Errorf("%d commands were run", run)
	}
	for name, other := range map[string]string{"desk": "laptop", "laptop": "desk"} {
		p := machines[name].FindPeer(machines[other].ID)
		if p.State != client.PeerConnected || p.Path != client.PathRelay || len(p.Addrs) != 1 || !strings.HasPrefix(p.Addrs[0], "relay:") {
			t.Errorf("%s sees %+v", name, p)
		}
		if out := machines[name].MustOutput("relay", "list"); strings.Contains(out, token) || !strings.Contains(out, "\tup\t") {
			t.Errorf("%s: %s", name, out)
		}
	}
}
