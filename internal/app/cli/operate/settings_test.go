package operate

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

func newDaemon(t *testing.T) *clitest.FakeDaemon {
	return clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		root := &cobra.Command{Use: "acpctl"}
		f.SetUpRoot(root, NewCmds(f, "test")...)
		return root
	})
}

// A file of credentials that is not there is a warning, as it may come before the daemon reads config.yaml.
func TestConfigCheckWarnsOfMissingCredentials(t *testing.T) {
	f := newDaemon(t)
	t.Setenv("HOME", f.Home)
	file, creds := filepath.Join(f.Home, "config.yaml"), filepath.Join(f.Home, "nats.creds")
	text := "reach: {relays: [{name: hub, url: \"tls://nats.example.org\", credentials: nats.creds}, {name: two, url: \"tls://nats.example.net\", credentials: " + creds + "}, {name: mine, url: \"tls://nats.example.info\", credentials: ~/nats.creds}, {name: own, url: \"tls://nats.example.com\"}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	warning := func(name string) string {
		return "relay " + name + ": credentials: " + creds + " is not there: put it there"
	}
	f.WantResult(f.Run("config", "check", file), 0, "warning: "+warning("hub")+"\nwarning: "+warning("two")+"\nwarning: "+warning("mine")+"\n"+file+": valid\n", "")
	f.WantResult(f.Run("config", "check", file, "--json"), 0, `{"file":"`+file+`","valid":true,"errors":[],"warnings":["`+warning("hub")+`","`+warning("two")+`","`+warning("mine")+`"]}`+"\n", "")
	if err := os.WriteFile(creds, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.WantResult(f.Run("config", "check", file), 0, file+": valid\n", "")
}

// A file of what an authority has revoked is read as the daemon reads it, which does not start without it.
func TestConfigCheckReadsRevocations(t *testing.T) {
	f := newDaemon(t)
	file, revoked := filepath.Join(f.Home, "config.yaml"), filepath.Join(f.Home, "revoked.txt")
	a := authority.New(t, "corp")
	text := "organisation: {authorities: {corp: {key: " + a.Line() + ", revoked: revoked.txt}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "organisation.authorities.corp.revoked"
	problem := at + ": there is no file " + revoked + ": write it, or remove the setting"
	f.WantResult(f.Run("config", "check", file), frame.ExitUsage, file+": "+problem+"\n", "")
	f.WantResult(f.Run("config", "check", file, "--json"), frame.ExitUsage, `{"file":"`+file+`","valid":false,"errors":[{"key":"`+at+`","problem":"`+problem+`"}]}`+"\n", "")
	for line, wrong := range map[string]string{"nam build-7\n": file + ": " + at + ": revoked.txt: line 1: \"nam\": write \"id\", \"name\" or \"serial\"\n", "name build-7\n": ""} {
		if err := os.WriteFile(revoked, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if wrong == "" {
			f.WantResult(f.Run("config", "check", file), 0, file+": valid\n", "")
		} else {
			f.WantResult(f.Run("config", "check", file), frame.ExitUsage, wrong, "")
		}
	}
}

// What was drained, and what was not, follows from the exit code. What is open is told meanwhile.
func TestDrain(t *testing.T) {
	f := newDaemon(t)
	until := time.Unix(1700000000, 0)
	open := []client.OpenWork{{Agent: "reviewer", Count: 2}, {Count: 1}}
	f.SetAnswer(client.MethodWhoami, kinds.Errorf(kinds.DaemonUnavailable, "gone"))
	f.SetAnswer(client.MethodDrain, &client.Drained{AllEnded: true, Open: []client.OpenWork{}})
	f.WantResult(f.Run("drain"), 0, "all has ended, and so has the daemon\n", "")
	f.WantResult(f.Run("drain", "--json"), 0, `{"all_ended":true,"open":[]}`+"\n", "")
	f.WantDiskFull("the daemon has ended", "drain")

	told := make(chan struct{})
	var asked atomic.Int32
	f.SetHandler(client.MethodStatus, func(*jsonrpc.Request) (any, error) {
		if asked.Add(1) == 2 { // what the first answer says has been told
			close(told)
		}
		return &client.Status{Drain: &client.Drain{Until: until, Open: open}}, nil
	})
	var timeout uint64
	f.SetHandler(client.MethodDrain, func(r *jsonrpc.Request) (any, error) {
		var p client.DrainParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		timeout = p.TimeoutMS
		<-told
		return &client.Drained{Open: open}, nil
	})
	f.WantResult(f.Run("drain", "--timeout", "2m"), frame.ExitTimeout, "the daemon has ended, while this was open: agent reviewer: 2, calls and files: 1\n",
		"open: agent reviewer: 2, calls and files: 1 (until 2023-11-14T22:13:20Z)\n")
	if timeout != 120_000 {
		t.Errorf("the daemon waits %d ms", timeout)
	}
	for _, wrong := range []string{"0", "25h", "-1s"} {
		if got := f.Run("drain", "--timeout", wrong); got.Code != frame.ExitUsage {
			t.Errorf("--timeout %s: %+v", wrong, got)
		}
	}
}

// The daemon has ended when it has let go of the state directory, not when its socket is closed.
func TestDrainAwaitsLock(t *testing.T) {
	f := newDaemon(t)
	lock, err := statedir.LockDir(f.Home, "")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	var asked atomic.Int32
	f.SetHandler(client.MethodWhoami, func(*jsonrpc.Request) (any, error) {
		if asked.Add(1) == 3 {
			lock.Close()
		}
		return nil, kinds.Errorf(kinds.DaemonUnavailable, "gone")
	})
	f.SetAnswer(client.MethodDrain, &client.Drained{AllEnded: true, Open: []client.OpenWork{}})
	f.WantResult(f.Run("drain"), 0, "all has ended, and so has the daemon\n", "")
	if n := asked.Load(); n != 3 {
		t.Errorf("the daemon was asked %d times: drain did not wait for the lock", n)
	}
}

// A service manager may start the next daemon before drain looks again.
func TestDrainAndNextDaemon(t *testing.T) {
	f := newDaemon(t)
	lock, err := statedir.LockDir(f.Home, "")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	f.SetHandler(client.MethodWhoami, func(*jsonrpc.Request) (any, error) {
		if _, err := lock.WriteAt([]byte("1 \n"), 0); err != nil || lock.Truncate(2) != nil { // another process
			t.Error(err)
		}
		return &client.Whoami{}, nil
	})
	f.SetAnswer(client.MethodDrain, &client.Drained{AllEnded: true, Open: []client.OpenWork{}})
	f.WantResult(f.Run("drain"), 0, "all has ended, and so has the daemon\n", "")
}

// usage shows what is in use, of one peer alone if one is named, and a person how to free it.
func TestUsage(t *testing.T) {
	f := newDaemon(t)
	var of string
	f.SetHandler(client.MethodBudget, func(r *jsonrpc.Request) (any, error) {
		var p client.BudgetParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		of = p.Peer
		return &client.Budget{
			Rows: []client.BudgetRow{
				{Name: "streams", Peer: 768, All: 8192, What: "requests"},
				{Name: "inbox", Peer: 2500, All: 10000, Held: 5, What: "messages that no agent has taken", Remedy: "acpctl inbox shows them"},
				{Name: "free_space", Unit: "bytes_free", Peer: 1 << 30, All: 1 << 30, Held: 500, What: "space"},
			},
			Usage: []client.BudgetUsage{{Row: "inbox", Peer: clitest.DeskID, Name: "desk", Held: 3, Refused: 2}},
		}, nil
	})
	f.WantResult(f.Run("usage"), 0, "inbox\t(all)\t5\t10000\t2\ninbox\tdesk\t3\t2500\t2\nfree_space\t(all)\t500 bytes free\t1 GiB free\t0\n", "")
	f.WantResult(f.Run("usage", "desk"), 0, "inbox\tdesk\t3\t2500\t2\n", "")
	if of != "desk" {
		t.Errorf("the daemon was asked about %q", of)
	}
	if got := f.RunInteractive("", "usage", "desk"); !strings.HasSuffix(got.Out, "\n\ninbox: messages that no agent has taken; acpctl inbox shows them\n") {
		t.Errorf("%q", got.Out)
	}
	if got := f.Run("usage", "desk", "--json"); strings.Contains(got.Out, "streams") || !strings.Contains(got.Out, `"what":"messages that no agent has taken","remedy":"acpctl inbox shows them"`) {
		t.Errorf("%q", got.Out)
	}
	if got := f.Run("usage", ""); got.Code != frame.ExitUsage {
		t.Errorf("%+v", got)
	}
}

// What an agent or a setting is called cannot write to a terminal.
func TestOutputIsHarmless(t *testing.T) {
	f := newDaemon(t)
	const evil = "\x1b[2Jx\ny"
	f.SetAnswer(client.MethodReload, &client.Reloaded{Changed: []client.SettingChange{{Setting: evil, From: evil, To: evil}}, Deferred: []string{evil}, Warnings: []string{evil}})
	f.SetAnswer(client.MethodPolicy, &client.Policy{Allowed: true, Rule: evil, Key: evil})
	f.SetAnswer(client.MethodWhoami, kinds.Errorf(kinds.DaemonUnavailable, "gone"))
	f.SetAnswer(client.MethodDrain, &client.Drained{Open: []client.OpenWork{{Agent: evil, Count: 1}}})
	for _, verb := range []string{"reload", "policy desk query", "drain"} {
		if got := f.Run(strings.Fields(verb)...); !strings.Contains(got.Out, "x y") || strings.ContainsAny(got.Out, "\x1b") {
			t.Errorf("%s: %q", verb, got.Out)
		}
	}
}
