package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// TestTheHubOfReach types what docs/reach.md says of a hub: each command succeeds, with the
// configuration that stands there. Then the hub goes, and a message waits for it in the form that the
// page names.
func TestTheHubOfReach(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readFile(t, "../docs/reach.md"), "\n## Always on: a hub\n")
	section, _, _ = strings.Cut(section, "\n## ")
	config := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(section)
	block := regexp.MustCompile("(?s)```console\n(.*?)```").FindStringSubmatch(section)
	if config == nil || block == nil {
		t.Fatal("docs/reach.md has no commands for a hub")
	}
	machines := make(map[string]*machine)
	for _, name := range []string{"hub", "desk", "laptop"} {
		machines[name] = running(t, name)
	}
	hub, desk := machines["hub"], machines["desk"]
	if err := os.WriteFile(filepath.Join(hub.Home, "config.yaml"), []byte(config[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	// acpctl is the one word that a reader's shell finds and this test names by its path.
	typed := regexp.MustCompile(`^(hub|desk|laptop)\$ acpctl (.*)$`)
	run := func(m *machine, command string) string {
		return m.StartProcess("bash", "-c", m.ProgramPath("acpctl")+" --home "+m.Home+" "+command).AwaitExit(0)
	}
	var invitation, channel, said string
	for line := range strings.Lines(block[1]) {
		words := typed.FindStringSubmatch(strings.TrimSpace(line))
		if words == nil {
			t.Fatalf("a line without a machine: %q", line)
		}
		said = run(machines[words[1]], strings.Replace(words[2], "'acp://…'", "'"+invitation+"'", 1))
		switch {
		case strings.HasPrefix(words[2], "invite"):
			invitation = strings.TrimSpace(said)
		case strings.HasPrefix(words[2], "channel create"):
			channel = strings.TrimSpace(said)
		}
	}
	if !strings.Contains(said, "hello") || !strings.HasPrefix(channel, "chan_") {
		t.Errorf("laptop sees %q of %q", said, channel)
	}
	intent := regexp.MustCompile(`intent_\w+`).FindString(desk.MustOutput("channel", "list", "--as", "desk"))

	hub.StopDaemon()
	await.Until(t, "desk has noticed", func() bool { return desk.FindPeer(hub.ID).State != client.PeerConnected })
	waits := regexp.MustCompile("`acpctl (channel send chan_… [^`]*)`").FindStringSubmatch(section)
	if waits == nil {
		t.Fatal("docs/reach.md does not say what waits")
	}
	for i, named := range []string{channel, intent + "/questions"} {
		words := strings.Fields(strings.NewReplacer("chan_…", named, "hello", "later-"+strconv.Itoa(i)).Replace(waits[1]))
		if p := desk.RunAcpctl(0, words...); !strings.Contains(p.Stderr.String(), "pending") {
			t.Errorf("%q: %q", words, p.Stderr.String())
		}
	}
	if said := desk.StartAcpctl("channel", "send", "questions", "hello", "--as", "desk").AwaitFailure(5); !strings.Contains(said, "INTENT/questions") {
		t.Errorf("by the name alone: %q", said)
	}
	hub.StartDaemon()
	await.Until(t, "laptop sees what waited", func() bool {
		p := machines["laptop"].StartAcpctl("channel", "tail", channel, "--as", "laptop")
		p.AwaitEnd()
		if code := p.Cmd.ProcessState.ExitCode(); code != 0 && code != 5 { // the hub may not be in reach again yet
			t.Fatalf("exit code %d: %s", code, p.Stderr.String())
		}
		said := p.Stdout.String()
		return strings.Contains(said, "later-0") && strings.Contains(said, "later-1")
	})
}
