package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// Who lets a peer ask is offered a command that tells him so, once, and only a person can take it.
func TestOwnerNotifyIsOffered(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notify-send"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := newDaemon(t)
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{}})
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{})
	var asked []client.OwnerNotifyParams
	var set client.OwnerNotify
	f.SetHandler(client.MethodWakeNotify, func(r *jsonrpc.Request) (any, error) {
		var p client.OwnerNotifyParams
		if err := r.ReadParams(&p); err != nil {
			t.Error(err)
		}
		asked = append(asked, p)
		return set, nil
	})
	allow := []string{"wake", "allow", "desk", "--ask"}
	const unset = "No command tells you when something waits for you. To set one: acpctl wake notify --help\n"
	t.Setenv("PATH", dir)
	for name, got := range map[string]clitest.Result{"a script": f.Run(allow...), "without --ask": f.RunInteractive("yes\n", allow[:3]...)} {
		if got.Code != 0 || len(asked) > 0 || strings.Contains(got.Err, "notify-send") {
			t.Errorf("%s: %+v, %+v", name, got, asked)
		}
	}
	if got := f.RunInteractive("no\n", allow...); got.Code != 0 || len(asked) != 1 || asked[0].Set || !strings.Contains(got.Err, "It would start: notify-send acpd 'An agent needs you: acpctl approvals'\nTell you so? Type yes or no: ") || !strings.HasSuffix(got.Err, unset) {
		t.Errorf("%+v, %+v", got, asked)
	}
	if got := f.RunInteractive("yes\n", allow...); got.Code != 0 || len(asked) != 3 || !asked[2].Set || !asked[2].Test || asked[2].Command[0] != "notify-send" {
		t.Errorf("%+v, %+v", got, asked)
	}
	set, asked = client.OwnerNotify{Command: []string{"say"}, Source: "wake.yaml"}, nil
	if got := f.RunInteractive("yes\n", allow...); got.Code != 0 || len(asked) != 1 || strings.Contains(got.Err, "Type yes") {
		t.Errorf("with a command: %+v, %+v", got, asked)
	}
	set, asked = client.OwnerNotify{}, nil
	t.Setenv("PATH", t.TempDir())
	if got := f.RunInteractive("yes\n", allow...); got.Code != 0 || len(asked) != 1 || strings.Contains(got.Err, "Type yes") || !strings.HasSuffix(got.Err, unset) {
		t.Errorf("without a program: %+v, %+v", got, asked)
	}
}

func TestWakeNotify(t *testing.T) {
	f := newDaemon(t)
	var asked client.OwnerNotifyParams
	f.SetHandler(client.MethodWakeNotify, func(r *jsonrpc.Request) (any, error) {
		asked = client.OwnerNotifyParams{}
		return client.OwnerNotify{Command: []string{"say", "it's"}, Source: "config.yaml", Failed: "say ended with exit code 1"}, r.ReadParams(&asked)
	})
	failed := "The command did not work: say ended with exit code 1. To set another: acpctl wake notify --help\n"
	for _, test := range []struct {
		args []string
		want client.OwnerNotifyParams
	}{
		{nil, client.OwnerNotifyParams{}},
		{[]string{"--try"}, client.OwnerNotifyParams{Test: true}},
		{[]string{"--off"}, client.OwnerNotifyParams{Set: true}},
		{[]string{"say", "--off", "a b"}, client.OwnerNotifyParams{Set: true, Test: true, Command: []string{"say", "--off", "a b"}}},
	} {
		got := f.Run(append([]string{"wake", "notify"}, test.args...)...)
		if got.Code != 0 || got.Out != "say 'it'\\''s' (config.yaml)\n" || got.Err != failed || asked.Set != test.want.Set || asked.Test != test.want.Test || !slices.Equal(asked.Command, test.want.Command) {
			t.Errorf("%q: %+v, %+v", test.args, got, asked)
		}
	}
	if got := f.Run("wake", "notify", "--off", "say"); got.Code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWakeTest(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWakeTest, &client.WakeTested{Agent: "claude", Posted: true})
	f.WantResult(f.Run("wake", "test", "claude"), 0, "claude was woken: its program has taken the line\n", "")
	f.SetAnswer(client.MethodWakeTest, &client.WakeTested{Agent: "claude", Refused: "the session is unattended"})
	f.WantResult(f.Run("wake", "test", "claude"), 1, "", "acpctl wake test: claude was not woken: the session is unattended\n")
}
