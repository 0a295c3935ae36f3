package mailbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzInbox puts a file into an inbox, and another as cursor, as any agent can.
// Nothing fails but what the file is for, nothing but the cursor is changed, and
// what Done keeps is what lay there. It waits for the disk: TMPDIR=/dev/shm is faster.
func FuzzInbox(f *testing.F) {
	cursor := `{"agent": "reviewer", "messages": {"old.yaml": {"file": "old.yaml", "from": "a", "priority": "P1", "subject": "S", "type": "question"}}, "project": "demo", "version": 1}`
	for _, text := range []string{text(), text("to: [reviewer, tester]"), "", "\t", "[1]", "subject: \"\\x1b[31m\"", "id: &a [*a]", "\xff", "a: b\x00"} {
		f.Add("m.yaml", []byte(text), []byte(cursor))
	}
	f.Add("\x89\x89m.yaml", []byte(text()), []byte(cursor))
	f.Add(".hidden.yaml", []byte(text()), []byte("{}"))
	f.Add("a b\xff\n.yaml", []byte(text()), []byte("[]"))
	f.Add(".m.yaml.tmp-1", []byte(text()), []byte(`{"messages": {"": {}}}`))
	f.Fuzz(func(t *testing.T, name string, data, state []byte) {
		if name == "" || name == "." || name == ".." || len(name) > 200 || strings.ContainsAny(name, "/\x00") {
			return // no name of a file
		}
		p := Project{Home(t.TempDir()), "demo"}
		a := Agent{p, "reviewer"}
		path := filepath.Join(a.Inbox(), name)
		write(t, path, string(data))
		write(t, filepath.Join(p.Dir(), "state/watch/reviewer.json"), string(state))

		l, err := p.ListInboxes("reviewer", false)
		if err != nil || l.Agents[0].Count > 1 || (l.Agents[0].Count == 1) != isMessageName(name) {
			t.Fatalf("%q is listed as %+v, %v", name, l, err)
		}
		if _, err := FormatJSON(l, true); err != nil {
			t.Fatal(err)
		}
		w := Watch{Home: p.Home, Agent: "reviewer", Projects: []string{"demo"}, ShowArchived: true, Since: time.Unix(0, 0)}
		emit := func(e Event) {
			if _, err := FormatJSON(e, false); err != nil {
				t.Fatal(err)
			}
		}
		w.Scan(emit)
		good := w.Scan(func(e Event) {
			emit(e)
			if e.Event != WatchError {
				t.Errorf("a second look tells %+v", e)
			}
		})
		if good && isMessageName(name) && l.Agents[0].Messages[0].LoadError != "" {
			t.Error("what cannot be read is no error of the watch")
		}
		if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, data) {
			t.Fatalf("the file was changed: %v", err)
		}
		e, err := FindMessageIn(name, a.Inbox())
		if err != nil {
			return
		}
		kept, err := a.FinishMessage(e, false)
		if err != nil {
			t.Fatal(err)
		}
		if content(t, kept) != string(data) || len(files(t, a.Inbox())) != 1 { // the archive
			t.Error("done has changed something")
		}
	})
}
