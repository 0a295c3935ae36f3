//go:build interop

package interop

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/openintent/api"
)

// sdk is the interpreter that make interop has installed the OpenIntent SDK for.
func sdk(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(venvs, "openintent", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the SDK is not installed: run make interop (%v)", err)
	}
	return path
}

// desk is a daemon that serves channels over loopback TCP: the key "any" is good for
// every agent, "bound" for the planner.
type desk struct {
	*live.Machine
	url string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	addr := live.PickTCPAddr(t)
	d := &desk{live.NewMachine(t, "desk"), "http://" + addr}
	config := fmt.Sprintf("channels:\n  listen: %s\n  keys:\n  - {sha256: %s}\n  - {sha256: %s, agent: planner}\n", addr, api.HashAPIKey("any"), api.HashAPIKey("bound"))
	if err := os.WriteFile(filepath.Join(d.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.StartDaemon()
	return d
}

// run runs a Python program, which must succeed, and returns what it printed.
func (d *desk) run(args ...string) string {
	d.T.Helper()
	p := d.python(args...)
	<-p.Ended // which may be a while: some are test suites
	return p.AwaitExit(0)
}

// python starts a Python program, which ends with the test.
func (d *desk) python(args ...string) *live.Process {
	d.T.Helper()
	env := append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "ACP_HOME="+d.Home, "OPENINTENT_URL="+d.url)
	p := live.PrepareProcess(d.T, env, append([]string{sdk(d.T)}, args...)...)
	p.Cmd.Dir = ""
	if err := p.Start(); err != nil {
		d.T.Fatal(err)
	}
	return p
}

const recorded = "../../openintent/testdata/"

// The published SDK, unmodified, against the daemon: what it sends, asks at once
// and streams.
func TestOpenIntentSDK(t *testing.T) {
	d := newDesk(t)
	d.run(recorded+"sdk.py", d.url)
	t.Log(d.run(recorded+"sdk_asks.py", d.url))
}

// What python/acp_openintent promises, over the socket and over TCP.
func TestOpenIntentPackage(t *testing.T) {
	d := newDesk(t)
	d.run("-W", "ignore::ResourceWarning", "-m", "unittest", "discover", "-s", "../../python/acp_openintent/tests")
}

// The Python of the documents does what they say.
func TestOpenIntentDocuments(t *testing.T) {
	d := newDesk(t)
	block := func(page string, n int) string {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```python\n")
		code, _, _ := strings.Cut(blocks[n], "```")
		return strings.NewReplacer("http://127.0.0.1:7118", d.url, "KEY", "any").Replace(code)
	}
	const readme = "../../python/acp_openintent/README.md"
	d.python("-c", block(readme, 1))
	planner := "from acp_openintent import Client, MessageTimeoutError\n" + block(readme, 2)
	await.Until(t, "the agent answers", func() bool {
		return strings.Contains(d.run("-c", planner), "{'answer': 'v2.3'}")
	})
	if said := d.run("-c", block("../../docs/channels.md", 1)+"print(reply['payload'])\n"); said != "{'answer': 'v2.3'}\n" {
		t.Errorf("said %q", said)
	}
}

// Rule by rule: the daemon keeps to RFC-0021, and the same checks fail the reference
// server, so that they check something.
func TestOpenIntentRules(t *testing.T) {
	d := newDesk(t)
	rules := func(url string) (outcome map[string]string) {
		if err := json.Unmarshal([]byte(d.run("openintent/rows.py", url, "any")), &outcome); err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	ours, theirs := rules(d.url), rules(referenceServer(t))
	for name, outcome := range ours {
		if outcome != "ok" {
			t.Errorf("%s: %s", name, outcome)
		}
		switch failed := theirs[name] != "ok"; {
		case name == "P2_errors_are_JSON":
		case !failed:
			t.Errorf("%s: the reference keeps to it, or this checks nothing", name)
		default:
			t.Logf("%s: the reference: %.120s", name, theirs[name])
		}
	}
	if len(ours) < 45 || len(theirs) != len(ours) {
		t.Errorf("%d rules and %d", len(ours), len(theirs))
	}
}

// referenceServer starts OpenIntent's own server and returns its URL.
func referenceServer(t *testing.T) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(live.PickTCPAddr(t))
	live.StartProcess(t, os.Environ(), filepath.Join(filepath.Dir(sdk(t)), "openintent-server"),
		"--host", host, "--port", port, "--api-keys", "any", "--log-level", "error", "--database-url", "sqlite:///"+filepath.Join(t.TempDir(), "reference.db"))
	url := "http://" + net.JoinHostPort(host, port)
	await.Until(t, "the reference server listens", func() bool {
		answer, err := http.Get(url + "/.well-known/openintent.json")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return url
}
