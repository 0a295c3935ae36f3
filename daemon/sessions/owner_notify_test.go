package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// The owner's command starts once in 30 s, and six times an hour for one peer. Peers take turns. What was
// answered meanwhile is not told, and what came after it is.
// holds: security.md#agents-on-this-machine
func TestOwnerNotifyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var mu sync.Mutex // guards what follows
		var told []string
		answered := map[string]bool{}
		command := []string{"x"}
		read := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return command
		}
		waits := func(number string) bool {
			mu.Lock()
			defer mu.Unlock()
			return !answered[number]
		}
		n := newOwnerNotifier(read, waits, slog.New(slog.DiscardHandler))
		n.start = func(_ context.Context, _ []string, e *ownerEvent) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s%s", time.Since(began), e.name, e.number))
			return nil
		}
		go n.run(ctx)
		tell := func(peer byte, number string) {
			n.tell(ownerEvent{peer: identity.ID{peer}, name: string(peer), number: number})
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			told = nil
		}
		tell('a', "1")
		expect("0s a1")
		for _, number := range []string{"2", "", "3", "3"} {
			tell('a', number)
		}
		tell('b', "4")
		tell('c', "5")
		mu.Lock()
		answered["2"], answered["4"] = true, true
		mu.Unlock()
		time.Sleep(2*time.Hour - time.Nanosecond)
		expect("30s c5", "1m0s a", "1m30s a3")
		for number := range 9 { // the first is told at once, and of the others the last ones wait
			tell('d', fmt.Sprint(10+number))
		}
		time.Sleep(time.Hour)
		at := func(n int) string {
			return (2*time.Hour - time.Nanosecond + time.Duration(n)*ownerNotifyPause).String()
		}
		expect(at(0)+" d10", at(1)+" d13", at(2)+" d14", at(3)+" d15", at(4)+" d16", at(5)+" d17")
		for range 20 {
			tell('a', "6")
			time.Sleep(ownerNotifyPause)
		}
		synctest.Wait()
		mu.Lock()
		if got := len(told); got != ownerNotifyHour {
			t.Errorf("a peer starts it %d times: %q", got, told)
		}
		told = nil
		mu.Unlock()
		tell('b', "7")
		expect(fmt.Sprintf("%s b7", time.Since(began)))
		mu.Lock()
		command = nil
		mu.Unlock()
		time.Sleep(ownerNotifyPause)
		tell('b', "8")
		time.Sleep(time.Hour)
		expect()
	})
}

// writeScript writes a program for sh, and returns its path.
func writeScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds: security.md#agents-on-this-machine
func TestStartOwnerCommand(t *testing.T) {
	t.Setenv("ACP_AGENT_KEY", "secret")
	out := filepath.Join(t.TempDir(), "out")
	e := ownerEvent{event: eventAsks, number: "17", name: "desk", agent: "claude", kind: "query"}
	script := writeScript(t, `env | grep ^ACP_ | sort >"$1.new"; echo "[$2]" >>"$1.new"; mv "$1.new" "$1"`)
	if err := startOwnerCommand(t.Context(), []string{script, out, "$HOME; x"}, &e); err != nil {
		t.Fatal(err)
	}
	want := "ACP_AGENT=claude\nACP_EVENT=approval\nACP_KIND=query\nACP_NUMBER=17\nACP_PEER=desk\n[$HOME; x]\n"
	if got, _ := os.ReadFile(out); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, agent := range []string{`x"}; $(id)`, "Claude", "a b"} {
		if env := strings.Join((&ownerEvent{agent: agent}).environ(), " "); !strings.Contains(env, " ACP_AGENT= ") {
			t.Errorf("%q: %s", agent, env)
		}
	}
	for text, want := range map[string]string{"exit 3": "ended with exit code 3", "kill -9 $$": "was ended by a signal"} {
		if err := startOwnerCommand(t.Context(), []string{writeScript(t, text)}, &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := startOwnerCommand(t.Context(), []string{"no-such-program-here"}, &e); err == nil {
		t.Error("a program that is not there is started")
	}

	// It ends with ctx, and what it has left running with it.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	pids := filepath.Join(t.TempDir(), "pids")
	go func() {
		done <- startOwnerCommand(ctx, []string{writeScript(t, `sleep 600 & echo $! >"$1.new"; mv "$1.new" "$1"; wait`), pids}, &e)
	}()
	await.Until(t, "the command runs", func() bool { _, err := os.Stat(pids); return err == nil })
	cancel()
	if err := await.Receive(t, "the command has ended", done); err == nil {
		t.Error("no error")
	}
	left, _ := os.ReadFile(pids)
	await.Until(t, "what it started has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(left)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
