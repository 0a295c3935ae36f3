package waking

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/kinds"
)

var desk, laptop, planner = identity.ID{1}, identity.ID{2}, identity.ID{3}

func openRules(t testing.TB, dir string) *Rules {
	t.Helper()
	r, warning, err := OpenRules(dir)
	if err != nil || warning != nil {
		t.Fatal(warning, err)
	}
	return r
}

// allow is Allow, which must succeed.
func (r *Rules) allow(t testing.TB, rules ...Permission) {
	t.Helper()
	if err := r.Allow(rules...); err != nil {
		t.Fatal(err)
	}
}

func allowed(peer identity.ID, kind string) Permission {
	return Permission{Peer: peer, Kind: kind, Since: time.Now()}
}

func readFile(t testing.TB, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeFile(t testing.TB, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// allows reports whether a peer may wake a session for a query.
func (r *Rules) allows(peer identity.ID) bool {
	_, ok := r.findPermission("", peer, "query")
	return ok
}

// forget revokes what a peer was allowed.
func (r *Rules) forget(peer identity.ID) int {
	return r.Revoke(func(p Permission) bool { return p.Peer == peer })
}

func TestRulesOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	r := openRules(t, dir)
	special := allowed(desk, "query")
	special.Agent, special.Ask, special.Unattended = "claude", true, true
	until := time.Now().Add(time.Hour)
	for _, err := range []error{
		r.Allow(allowed(desk, "query"), allowed(desk, "notify"), special), r.Allow(allowed(laptop, "query")),
		r.SetAnswers(AnswersRule{Agent: "codex", Unattended: true}, true), r.Mute("claude", until), r.Mute("codex", until),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := r.forget(laptop); n != 1 {
		t.Fatal(n)
	}
	if err := r.Mute("codex", time.Time{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, ok := r.findPermission("claude", desk, "query")
		if general, _ := r.findPermission("", desk, "query"); !ok || !p.Ask || !p.Unattended || general.Ask || r.allows(laptop) {
			t.Errorf("claude: %+v, codex: %+v", p, general)
		}
		if a, on := r.findAnswers("codex"); !on || !a.Unattended {
			t.Errorf("answers: %+v", a)
		}
		if _, on := r.findAnswers("claude"); on {
			t.Error("answers wake another session")
		}
		if r.MutedUntil("claude", time.Now()).IsZero() || !r.MutedUntil("codex", time.Now()).IsZero() || !r.MutedUntil("claude", until).IsZero() {
			t.Error("the wrong session is muted")
		}
		r = openRules(t, dir)
	}
	if err := r.Allow(Permission{Peer: desk, Kind: "ping"}); err == nil {
		t.Error("a kind for which nothing is woken")
	}
	if err := r.Allow(Permission{Kind: "query"}); err == nil {
		t.Error("nobody")
	}
	many := make([]Permission, maxPermissions)
	for i := range many {
		many[i] = allowed(identity.ID{9, byte(i), byte(i >> 8)}, "query")
	}
	if err := r.Allow(many...); !errors.Is(err, ErrRulesFull) {
		t.Errorf("too many: %v", err)
	}
	if err := r.Allow(Permission{Peer: desk, Kind: "query", Agent: "a/b"}); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
		t.Errorf("no name of an agent: %v", err)
	}
	for n := range maxNames {
		if err := r.Mute(fmt.Sprint("claude-", n), until); (err != nil) != (n == maxNames-1) || err != nil && !errors.Is(err, ErrRulesFull) {
			t.Fatalf("muted agent %d: %v", n, err)
		}
	}
}

// Whatever becomes of one file, or of both: the rules are those of the last change, or none. They
// are never those of before a change, since that may have been a revoke.
func TestARuleForEverySessionReplacesThoseOfOne(t *testing.T) {
	r := openRules(t, t.TempDir())
	rule := func(peer identity.ID, agent, kind string, ask bool) Permission {
		return Permission{Peer: peer, Agent: agent, Kind: kind, Ask: ask}
	}
	r.allow(t, rule(desk, "codex", "query", false), rule(desk, "codex", "notify", false), rule(laptop, "codex", "query", false))
	r.allow(t, rule(desk, "", "query", true))
	for _, want := range []Permission{rule(desk, "codex", "notify", false), rule(laptop, "codex", "query", false)} {
		if p, ok := r.findPermission("codex", want.Peer, want.Kind); !ok || p.Ask {
			t.Errorf("of another peer or kind: %+v, %v", p, ok)
		}
	}
	if p, ok := r.findPermission("codex", desk, "query"); ok {
		t.Errorf("the rule of one session is left: %+v", p)
	}
}

// holds: security.md#agents-on-this-machine
func TestDamageNeverWidensWhatWakes(t *testing.T) {
	dir := t.TempDir()
	r := openRules(t, dir)
	r.allow(t, allowed(desk, "query"), allowed(laptop, "query"))
	before := readFile(t, dir, rulesName)
	r.forget(desk)
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	after := readFile(t, dir, rulesName)
	if !bytes.Equal(after, readFile(t, dir, rulesCopyName)) {
		t.Fatal("the files differ")
	}
	damaged := [][]byte{nil, {}, []byte("x"), after[:len(after)/2], after[:len(after)-1], append(bytes.Clone(after), '\n'), bytes.Replace(after, []byte("query"), []byte("notify"), 1), before}
	for i := 0; i < len(after); i += 17 {
		flipped := bytes.Clone(after)
		flipped[i] ^= 1
		damaged = append(damaged, flipped)
	}
	for _, one := range damaged {
		for _, two := range [][]byte{after, one} {
			if bytes.Equal(two, before) {
				continue // both are old: nobody can tell
			}
			for _, names := range [][2]string{{rulesName, rulesCopyName}, {rulesCopyName, rulesName}} {
				fresh := t.TempDir()
				for i, text := range [][]byte{one, two} {
					if text != nil {
						writeFile(t, fresh, names[i], text)
					}
				}
				r, _, err := OpenRules(fresh)
				if err != nil {
					t.Fatalf("%q: %v", one, err)
				}
				if r.allows(desk) {
					t.Fatalf("%s is %q: what was revoked counts again", names[0], one)
				}
				if bytes.Equal(two, after) && !r.allows(laptop) {
					t.Fatalf("%s is %q, and the sound file is not used", names[0], one)
				}
				again := openRules(t, fresh)
				if again.allows(laptop) != r.allows(laptop) || again.allows(desk) {
					t.Fatalf("%s is %q: the next start finds something else", names[0], one)
				}
			}
		}
	}
	// A damaged file that shows a later change: the sound one is not believed.
	fresh := t.TempDir()
	writeFile(t, fresh, rulesName, before)
	writeFile(t, fresh, rulesCopyName, after[:len(after)-8])
	r, warning, err := OpenRules(fresh)
	if err != nil || warning == nil || !strings.Contains(warning.Error(), "nobody may wake a session now") || r.allows(desk) || r.allows(laptop) {
		t.Errorf("%v, %v", warning, err)
	}
	newer := bytes.Replace(before, []byte("version: 1"), []byte("version: 2"), 1)
	writeFile(t, fresh, rulesName, sealed.AppendChecksum(newer[:bytes.LastIndex(newer, []byte("# sha256 "))]))
	if _, _, err := OpenRules(fresh); err == nil || !strings.Contains(err.Error(), "newer acpd") {
		t.Errorf("a newer file: %v", err)
	}
	if err := os.Remove(filepath.Join(fresh, rulesName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(fresh, rulesName)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenRules(fresh); err == nil {
		t.Error("a symbolic link is followed")
	}
}

// What allows more counts once it is durable; what allows less counts at once, and is written
// when that is possible.
// holds: security.md#agents-on-this-machine
func TestRulesOnABrokenDisk(t *testing.T) {
	dir := t.TempDir()
	r := openRules(t, dir)
	r.allow(t, allowed(desk, "query"))
	broken := errors.New("the disk is gone")
	r.files.SyncDir = func(string) error { return broken }
	if err := r.Allow(allowed(laptop, "query")); !errors.Is(err, broken) || r.allows(laptop) {
		t.Errorf("allow: %v", err)
	}
	if n := r.forget(desk); n != 1 || r.allows(desk) {
		t.Errorf("revoke: %d", n)
	}
	if err := r.Save(); !errors.Is(err, broken) {
		t.Errorf("revoke: %v", err)
	}
	select {
	case <-r.unsaved:
	default:
		t.Error("nobody is told that the files differ")
	}
	r.files.SyncDir = durable.SyncDir
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	if again := openRules(t, dir); again.allows(desk) || again.allows(laptop) {
		t.Error("the next start finds what was revoked, or what was not allowed")
	}
	r.forget(planner) // nothing to do
	r.allow(t, allowed(planner, "query"))
	if r.forget(planner); r.allows(planner) {
		t.Error("a forgotten peer may wake")
	}
	if err := r.Save(); err != nil || openRules(t, dir).allows(planner) {
		t.Errorf("after a restart too: %v", err)
	}
}

// FuzzRuleFile: any text is a sound file or a damaged one.
// holds: security.md#agents-on-this-machine
func FuzzRuleFile(f *testing.F) {
	text, err := rulesFormat.Encode(&ruleSnapshot{ruleRecord: ruleRecord{Version: rulesVersion, Sequence: 3, Permissions: []Permission{allowed(desk, "query")}, Muted: []mute{{"claude", time.Unix(1e9, 0)}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("version: 1\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, data := range [][]byte{body, sealed.AppendChecksum(bytes.Clone(body))} {
			s, err := rulesFormat.Decode(data)
			if err != nil {
				continue
			}
			again, err := rulesFormat.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rulesFormat.Decode(again); err != nil {
				t.Errorf("written again: %v\n%s", err, again)
			}
		}
	})
}
