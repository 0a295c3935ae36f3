package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

const auditRecord = `# kept
audit:
  gate: 1
result:
  status: accepted # kept too
  reasons: ["one: two", null]
`

func writeRecord(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

// generic is a value as JSON would have it.
func generic(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	var back any
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestAttachAudit(t *testing.T) {
	odd := "1\t: #\u0085\u2028\n- "
	judgement := message.VerifyMessage([]byte("id: m\nauth: \"x: 'y' # \u2028\"\n"), message.Pins{Source: odd}, time.Now())
	for _, text := range []string{
		auditRecord,
		"result: {status: accepted, message_auth: null}\n",
		"result:\n  message_auth: {reason: none yet}\n",
		"result: {}\n",
		"result: {message_auth: {status: ''}}\n",
		"result:\n  why: >\n    Two files changed:\n      - a.go\n      - b.go\n    ask first.\n  also: |+\n    in\n      front\n\n",
		"a: &a {b: 1}\nresult:\n  c: *a\n",
	} {
		path := writeRecord(t, text)
		if err := AddAuditJudgement(path, judgement); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, info, err := ReadFile(path)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Fatal(info.Mode(), err)
		}
		var before, after map[string]any
		if err := yaml.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(got, &after); err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
		before["result"].(map[string]any)["message_auth"] = generic(t, judgement)
		if diff := cmp.Diff(generic(t, before), generic(t, after)); diff != "" {
			t.Errorf("%s(-expected +got):\n%s", text, diff)
		}
		if kept := strings.Count(text, "# kept"); strings.Count(string(got), "# kept") != kept {
			t.Errorf("comments are lost:\n%s", got)
		}
	}
}

func TestAttachAuditRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"result:\n  message_auth:\n    status: verified\n":          "recorded",
		"old: &o {status: verified}\nresult:\n  message_auth: *o\n": "recorded",
		"result: {message_auth: {status: [x]}}\n":                   "recorded",
		"result:\n  message_auth: &m {}\ncopy: *m\n":                "without a change",
		"result: done\n":        "must be a mapping",
		"audit: {}\n":           "must be a mapping",
		"":                      "not a YAML mapping",
		"- result\n":            "not a YAML mapping",
		"result: {\n":           "yaml",
		"result: {}\n---\n{}\n": "second document",
	} {
		path := writeRecord(t, text)
		if err := AddAuditJudgement(path, message.Auth{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q was changed to %q, %v", text, got, err)
		}
		if temp, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); temp != nil {
			t.Errorf("%q left %q", text, temp)
		}
	}
	if err := AddAuditJudgement(filepath.Join(t.TempDir(), "none.yaml"), message.Auth{}); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestAttachAuditLink: the record behind a link is written, and stays its owner's.
func TestAttachAuditLink(t *testing.T) {
	path := writeRecord(t, auditRecord)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := AddAuditJudgement(link, message.Auth{Status: "verified"}); err != nil {
		t.Fatal(err)
	}
	after, err := os.Lstat(path)
	if err != nil || after.Mode() != before.Mode() || owner(before) != owner(after) {
		t.Errorf("it was %v of %v, and is %v of %v, %v", before.Mode(), owner(before), after.Mode(), owner(after), err)
	}
	if !strings.Contains(content(t, path), "status: verified") {
		t.Error("the record is not written")
	}
}

func owner(info os.FileInfo) [2]uint32 {
	st := info.Sys().(*syscall.Stat_t)
	return [2]uint32{st.Uid, st.Gid}
}

// TestAttachAuditOdd: what is no record, or no lock, stops it at once.
func TestAttachAuditOdd(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	locked := writeRecord(t, auditRecord)
	for _, path := range []string{fifo, locked + ".lock"} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "large.yaml"), strings.Repeat("#", message.MaxBytes)+"\nresult: {}\n")
	for _, path := range []string{dir, fifo, filepath.Join(dir, "large.yaml"), locked} {
		if err := AddAuditJudgement(path, message.Auth{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.lock")); left != nil {
		t.Errorf("left %q", left)
	}
	many := new(strings.Builder)
	for i := range 40_000 {
		fmt.Fprintf(many, "k%d: v\n", i)
	}
	write(t, filepath.Join(dir, "many.yaml"), many.String()+"result: {}\n")
	if err := AddAuditJudgement(filepath.Join(dir, "many.yaml"), message.Auth{}); err != nil {
		t.Error(err)
	}
}

func TestAttachAuditOddPath(t *testing.T) {
	path := writeRecord(t, auditRecord)
	if err := AddAuditJudgement(path, message.VerifyMessage(nil, message.Pins{Source: "\xff"}, time.Now())); err != nil {
		t.Error(err)
	}
}

// TestAttachAuditOnce: of many that judge at once, one is recorded, whole.
func TestAttachAuditOnce(t *testing.T) {
	path := writeRecord(t, auditRecord)
	var won []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			name := strings.Repeat("x", i+1)
			if AddAuditJudgement(path, message.Auth{Status: name}) == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, name)
			}
		})
	}
	all.Wait()
	var record struct {
		Result struct {
			Auth struct {
				Status string `yaml:"status"`
			} `yaml:"message_auth"`
		} `yaml:"result"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(data, &record)
	}
	if err != nil || len(won) != 1 || record.Result.Auth.Status != won[0] {
		t.Errorf("%q won, recorded:\n%s%v", won, data, err)
	}
}
