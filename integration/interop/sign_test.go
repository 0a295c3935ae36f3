//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

// keyed makes a key of the planner with the reference, and pins it at the reviewer.
func (b *both) keyed() (kid string) {
	b.t.Helper()
	var made struct {
		KID  string `json:"kid"`
		Stub string `json:"public_stub_path"`
	}
	out := strings.Join(b.must("theirs", "key", "gen", "--agent", "planner", "--json"), "\n")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.KID == "" {
		b.t.Fatalf("%v in %s", err, out)
	}
	b.must("theirs", "trust", "import", "--project", "demo", "--agent", "reviewer", made.Stub)
	return made.KID
}

// signAgain signs what another has signed, with the same keys.
func (b *both) signAgain(signed []byte, kids []string) []byte {
	b.t.Helper()
	var keys []message.SigningKey
	for _, kid := range kids {
		paths, err := filepath.Glob(filepath.Join(b.home, "keys", "*", "planner", "*", kid+".json"))
		if err != nil || len(paths) != 1 {
			b.t.Fatalf("%q, %v", paths, err)
		}
		file, err := os.ReadFile(paths[0])
		if err != nil {
			b.t.Fatal(err)
		}
		key, err := message.ParseSigningKey(file)
		if err != nil {
			b.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	again, _, err := message.SignMessage(signed[:bytes.LastIndex(signed, []byte("auth: "))], keys)
	if err != nil {
		b.t.Fatal(err)
	}
	return again
}

// TestSigned: both tools sign when they are told to, by option or configuration, with
// the same keys in the same order, to the same bytes; and each verifies the other's.
func TestSigned(t *testing.T) {
	b := newBoth(t)
	letter := []string{"--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Signed: é", "--body", "one\n\n  two"}
	for _, tool := range []string{"ours", "theirs"} {
		s := b.run(tool, append([]string{"send", "demo", "--sign"}, letter...)...)
		if s.Exit != 1 || !strings.Contains(strings.Join(s.Stderr, ""), "no signing key for agent 'planner' under "+b.home) {
			t.Errorf("%s sends without a key: %+v", tool, s)
		}
	}
	for _, c := range []struct {
		keys    int    // to make before
		config  string // the planner's; %s is the newest key
		option  bool   // --sign
		signers int
	}{
		{keys: 1, option: true, signers: 1},
		{keys: 3, option: true, signers: 4},
		{config: "signing: {sign_messages: true}", signers: 4},
		{keys: 1, config: "signing: {sign_messages: true, kid: %s}", signers: 1},
		{config: "signing: {kid: %s}", option: true, signers: 1},
		{config: "signing: {sign_messages: false}", signers: 0},
		{config: "signing:", signers: 0},
		{keys: 3, option: true, signers: 8},
	} {
		kid := ""
		for range c.keys {
			kid = b.keyed()
		}
		if strings.Contains(c.config, "%s") {
			if kid == "" {
				kid = b.keyed()
			}
			c.config = fmt.Sprintf(c.config, kid)
		}
		write(t, filepath.Join(b.home, "projects/demo/agents/planner/config.yaml"), c.config+"\n")
		args := letter
		if c.option {
			args = append([]string{"--sign"}, letter...)
		}
		var kids []string
		for _, tool := range []string{"theirs", "ours"} {
			s := b.send(tool, args...)
			if s.Signed != (c.signers > 0) || len(s.KIDs) != c.signers {
				t.Fatalf("%+v: %s sends %+v", c, tool, s)
			}
			if c.signers == 0 {
				continue
			}
			if kids == nil {
				kids = s.KIDs
			} else if diff := cmp.Diff(kids, s.KIDs); diff != "" {
				t.Errorf("%+v is signed by other keys (-theirs +ours):\n%s", c, diff)
			}
			signed, err := os.ReadFile(s.Inbox)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(signed), string(b.signAgain(signed, s.KIDs))); diff != "" {
				t.Errorf("%+v: of %s (-as sent +signed again):\n%s", c, tool, diff)
			}
			b.agree([]string{"validate", s.Inbox})
			verify := []string{"verify", s.Inbox, "--project", "demo", "--receiver", "reviewer"}
			b.agree(verify)
			if out := b.must("theirs", verify...); !strings.Contains(out[0], "signed-verified") {
				t.Errorf("%+v: of %s: %q", c, tool, out)
			}
		}
	}
	reply := b.must("ours", "reply", "demo", b.send("theirs", letter...).ID, "--from", "reviewer", "--to", "planner", "--body", "x", "--json")
	if strings.Contains(strings.Join(reply, ""), `"signed"`) {
		t.Errorf("the reviewer, who has no key, signs %q", reply)
	}
}

// TestSigningRefused: what may mean that a message is to be signed stops both tools.
func TestSigningRefused(t *testing.T) {
	b := newBoth(t)
	kid := b.keyed()
	paths, err := filepath.Glob(filepath.Join(b.home, "keys", "*", "planner", "*", kid+".json"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	config := filepath.Join(b.home, "projects/demo/agents/planner/config.yaml")
	refused := func(why string) {
		t.Helper()
		for _, tool := range []string{"theirs", "ours"} {
			s := b.run(tool, "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "S", "--body", "x")
			if s.Exit != 1 || len(s.Stderr) == 0 {
				t.Errorf("%s: %s sends: %+v", why, tool, s)
			}
		}
	}
	for _, text := range []string{"[]", "signing: yes please", "signing: {sign_messages: 'true'}", "signing: {sign_messages: }", "signing: {sign_messages: 1}", "signing: {kid: 1}", "signing: {kid: ''}", "signing: {", "signing: {sign_messages: true, kid: none}"} {
		write(t, config, text+"\n")
		refused(text)
	}
	write(t, config, "signing: {sign_messages: true}\n")
	if err := os.Chmod(paths[0], 0o640); err != nil {
		t.Fatal(err)
	}
	refused("a key that others can read")
	if err := os.Chmod(paths[0], 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{`"OKP"`, `"RSA"`}, {`"d": "`, `"d": "A`}, {kid, kid[1:] + "A"}, {"{", "["}} {
		write(t, paths[0], strings.Replace(string(key), change[0], change[1], 1))
		refused(fmt.Sprint("a key with ", change))
	}
}

// TestAttachAudit: both tools record the same judgement in a gate's audit record, and
// neither replaces the other's.
func TestAttachAudit(t *testing.T) {
	b := newBoth(t)
	b.keyed()
	s := b.send("theirs", "--sign", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "S", "--body", "x")
	record := "schema_version: 2\nmessage: {id: m, from: planner}\nresult:\n  outcome: accepted # so far\n  reasons:\n    - \"a: b\"\n"
	for _, status := range []string{"signed-verified", "signed-INVALID"} {
		if status == "signed-INVALID" {
			data, err := os.ReadFile(s.Inbox)
			if err != nil {
				t.Fatal(err)
			}
			write(t, s.Inbox, strings.Replace(string(data), "subject: S", "subject: T", 1))
		}
		var records []map[string]any
		for i, tools := range [][2]string{{"theirs", "ours"}, {"ours", "theirs"}} {
			path := filepath.Join(t.TempDir(), "audit.yaml")
			write(t, path, record)
			args := []string{"verify", s.Inbox, "--project", "demo", "--receiver", "reviewer", "--attach-audit", path}
			if was := b.run(tools[0], args...); !strings.Contains(strings.Join(was.Stdout, ""), status) {
				t.Errorf("%s: %+v", tools[0], was)
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if was := b.run(tools[1], args...); was.Exit != 2 || len(was.Stderr) != 1 || !strings.HasPrefix(was.Stderr[0], "ERROR: attach-audit failed: ") {
				t.Errorf("%s replaces what %s has recorded: %+v", tools[1], tools[0], was)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, kept) {
				t.Errorf("%s has changed what %s has recorded: %v", tools[1], tools[0], err)
			}
			records = append(records, nil)
			if err := yaml.Unmarshal(kept, &records[i]); err != nil {
				t.Fatal(err)
			}
			auth := records[i]["result"].(map[string]any)["message_auth"].(map[string]any)
			if auth["verified_at_utc"] == nil {
				t.Errorf("%s recorded %v", tools[0], auth)
			}
			delete(auth, "verified_at_utc")
		}
		if diff := cmp.Diff(records[0], records[1]); diff != "" {
			t.Errorf("(-theirs +ours):\n%s", diff)
		}
	}
}
