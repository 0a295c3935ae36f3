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
	t.Parallel()
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
	invitation, made, run := "", "", 0
	for line := range strings.Lines(string(block[1])) {
		typed := typedLine.FindStringSubmatch(strings.TrimSpace(line))
		if typed == nil {
			t.Fatalf("a line without a machine: %q", line)
		}
		m := machines[typed[1]]
		command := strings.NewReplacer("tls://nats.example.org", s.url(), "'acp://…'", "'"+invitation+"'", "acpctl ", "acpctl --home "+m.Home+" ").Replace(typed[2])
		out := m.StartProcess("bash", "-c", "cd "+dir+" && "+command).AwaitExit(0)
		if strings.Contains(command, "openssl") {
			made = takeToken(t, s, token, filepath.Join(dir, "token"))
		}
		if strings.Contains(command, " invite") {
			invitation = hideAddrs(out)
			if !strings.Contains(invitation, "relay=tls://"+made+"@"+s.addr+"&") {
				t.Errorf("the invitation is %s", invitation)
			}
		}
		run++
	}
	if run < 5 {
		t.Errorf("%d commands were run", run)
	}
	for name, other := range map[string]string{"desk": "laptop", "laptop": "desk"} {
		p := machines[name].FindPeer(machines[other].ID)
		if p.State != client.PeerConnected || p.Path != client.PathRelay || len(p.Addrs) != 1 || !strings.HasPrefix(p.Addrs[0], "relay:") {
			t.Errorf("%s sees %+v", name, p)
		}
		if out := machines[name].MustOutput("relay", "list"); strings.Contains(out, made) || !strings.Contains(out, "\tup\t") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// takeToken puts the token that a file has into the configuration of a server in the place of the one that is
// there, starts the server again and returns the token.
func takeToken(t *testing.T, s *server, before, file string) string {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the token: %v, %v", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	made := strings.TrimSpace(string(text))
	if len(made) != 48 {
		t.Errorf("the token is %q", made)
	}
	conf, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.conf, []byte(strings.Replace(string(conf), before, made, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process.Stop()
	s.start()
	return made
}
