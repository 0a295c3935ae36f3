package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Where the server's table has values in which TOML allows no table, setup writes none.
func TestTOMLThatCannotBeAddedTo(t *testing.T) {
	const server = "[mcp_servers.acp]\ncommand = \"/opt/acpd/bin/acpctl\"\nargs = [\"mcp\", \"--attach\"]\n"
	for _, c := range []struct{ text, words string }{
		{server + "tools = { acp_peers = { approval_mode = \"approve\" } }\n", "mcp_servers.acp.tools is a value"},
		{server + "tools.acp_inbox = { approval_mode = \"approve\" }\nenv.OTHER = \"1\"\n", "mcp_servers.acp.env.OTHER is written with dots"},
		{"[mcp_servers]\nacp = { command = \"/x/acpctl\", args = [\"mcp\"] }\n", "mcp_servers.acp is a value"},
	} {
		o := newOptions(t.TempDir())
		o.Socket = "/run/desk/acp.sock"
		path := filepath.Join(o.Home, ".codex/config.toml")
		writeFile(t, path, c.text, 0o600)
		if err := tryAll("codex", o); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.words)
		}
		if text, _ := os.ReadFile(path); string(text) != c.text {
			t.Errorf("%q became %q", c.text, text)
		}
	}
}

// A file that its owner has made read-only stays as it is.
func TestReadOnlyFiles(t *testing.T) {
	for program, config := range configs {
		o := newOptions(t.TempDir())
		writeFile(t, filepath.Join(o.Home, config), "", 0o400)
		before := snapshot(t, o.Home)
		if err := tryAll(program, o); err == nil || !strings.Contains(err.Error(), "is read-only: run chmod u+w") {
			t.Errorf("%s: %v", program, err)
		}
		wantFiles(t, o.Home, before, program+": changed")
		os.Chmod(filepath.Join(o.Home, config), 0o600)
		setUp(t, program, o, true)
		os.Chmod(filepath.Join(o.Home, config), 0o400)
		before = snapshot(t, o.Home)
		undo, err := NewUndo(program, o)
		if err != nil {
			t.Fatal(program, err)
		}
		if _, err := undo.Write(); err == nil || !strings.Contains(err.Error(), "is read-only: run chmod u+w") {
			t.Errorf("%s: undo: %v", program, err)
		}
		wantFiles(t, o.Home, before, program+": undoing changed")
	}
}

// What a program writes between setup's reading and its writing stays.
func TestWrittenMeanwhile(t *testing.T) {
	for _, was := range []string{"{}", ""} {
		at := ownPlace(t.TempDir(), "config")
		if was != "" {
			writeFile(t, at.path, was, 0o600)
		}
		f, err := readFile(at)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, at.path, "{\"a\":1}", 0o600)
		if err := f.write([]byte("{\"b\":1}")); err == nil || !strings.Contains(err.Error(), "run setup again") {
			t.Errorf("from %q: write: %v", was, err)
		}
		if err := f.remove(); err == nil || !strings.Contains(err.Error(), "run setup again") {
			t.Errorf("from %q: remove: %v", was, err)
		}
		if text, _ := os.ReadFile(at.path); string(text) != "{\"a\":1}" {
			t.Errorf("from %q: it has %q", was, text)
		}
		if names, _ := os.ReadDir(filepath.Dir(at.path)); len(names) != 1 {
			t.Errorf("from %q: left %v", was, names)
		}
	}
}

// Undoing needs no copy of what was: where it is gone or damaged, setup's part goes by its position.
func TestUndoWithoutBackup(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"gone":    os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("{\"x\""), 0o600) },
	} {
		o := newOptions(t.TempDir())
		path := filepath.Join(o.Home, ".claude.json")
		writeFile(t, path, "{\n  \"a\": 1\n}\n", 0o600)
		setUp(t, "claude", o, true)
		if err := damage(o.backupPath(path)); err != nil {
			t.Fatal(err)
		}
		undoAll(t, "claude", o)
		if text, _ := os.ReadFile(path); string(text) != "{\n  \"a\": 1\n}\n" {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// Setup that ended between its record and the file is done again, and undone.
func TestInterruptedSetup(t *testing.T) {
	for _, was := range []string{"{\n}\n", ""} {
		o := newOptions(t.TempDir())
		at := ownPlace(o.Home, "dir", "config")
		if was != "" {
			writeFile(t, at.path, was, 0o600)
		}
		f, err := readFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.keep(f, nil, "claude", []byte("new"), nil); err != nil { // and then the end
			t.Fatal(err)
		}
		r, err := o.readRecord(at.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.keep(f, r, "claude", []byte("new"), nil); err != nil {
			t.Fatal(err)
		}
		if r, err = o.readRecord(at.path); err != nil || !r.IsExact || r.Existed != (was != "") {
			t.Errorf("from %q: %+v, %v", was, r, err)
		}
	}
}

// What a newer acpctl has set up is not undone by one that reads its record wrongly.
func TestNewerRecord(t *testing.T) {
	o := newOptions(t.TempDir())
	path := ownPlace(o.Home, "dir", "config").path
	if err := o.writeState(o.recordPath(path), []byte(`{"version":2}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.readRecord(path); err == nil || !strings.Contains(err.Error(), "newer acpctl") {
		t.Errorf("%v", err)
	}
	if err := o.writeState(o.recordPath(path), []byte(`{"path":"x"}`)); err != nil { // of before there were versions
		t.Fatal(err)
	}
	if r, err := o.readRecord(path); err != nil || r.Path != "x" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Undoing that ended between the files and their records is done again, and so is setup.
func TestInterruptedUndo(t *testing.T) {
	for _, program := range ListPrograms() {
		for _, again := range []bool{false, true} {
			o := newOptions(t.TempDir())
			writeFile(t, filepath.Join(o.Home, configs[program]), "", 0o600)
			before := snapshot(t, o.Home)
			setUp(t, program, o, true)
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(o.State)); err != nil {
				t.Fatal(err)
			}
			undoAll(t, program, o)
			if err := os.CopyFS(o.State, os.DirFS(copied)); err != nil { // as if it had ended before it removed them
				t.Fatal(err)
			}
			if again {
				setUp(t, program, o, true)
			}
			undoAll(t, program, o)
			if after := snapshot(t, o.Home); after != before {
				t.Errorf("%s, set up again %t: undone\n%s\nbefore\n%s", program, again, after, before)
			}
		}
	}
}

// A home directory that is reached by a link, and has no folder for the file yet, is no change.
func TestHomeBehindALink(t *testing.T) {
	for program, config := range configs {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "real", ".profile"), "", 0o600)
		link(t, "real", filepath.Join(dir, "home"))
		o := newOptions(filepath.Join(dir, "home"))
		if err := tryAll(program, o); err != nil {
			t.Errorf("%s: %v", program, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "real", config)); !strings.Contains(string(text), fakeCommand) {
			t.Errorf("%s: %q, %v", program, text, err)
		}
		undoAll(t, program, o)
		if names, _ := os.ReadDir(filepath.Join(dir, "real")); len(names) != 2 { // .profile and state
			t.Errorf("%s: undone, there is %v", program, names)
		}
	}
}

// What somebody has changed since setup stays when it is undone, whatever the file looks like.
func TestUndoAfterForeignEdits(t *testing.T) {
	forms := map[string][]string{
		"claude": {
			`{"a": 1}`, "{\"a\":1}\n", "{\n  \"a\": 1\n}", "\ufeff{\r\n\t\"a\": 1,\r\n\t\"mcpServers\": {\"docs\": {}}\r\n}\r\n", "{\n    \"mcpServers\": {\n        \"docs\": {\"command\": \"docs\"}\n    },\n    \"a\": 1\n}\n",
			"{ \"mcpServers\" : { \"docs\" : { } } , \"a\" : 1 }", "{\n\n\n\"a\": 1\n\n}\n\n", "{\"mcp\\u0053ervers\": {\"docs\": {}}, \"a\": 1}",
		},
		"opencode": {
			"{\"a\": 1,}", "// first\n{\n  // of a\n  \"a\": 1, // one\n  /* last */\n}\n// end", "{\n\t\"a\": 1,\n\t\"mcp\": {\n\t\t// none yet\n\t},\n}\n", "{\r\n  \"permission\": {\"bash\": \"ask\",},\r\n  \"a\": 1\r\n}",
			"{\"mcp\":{/* docs */\"docs\":{\"type\":\"local\"}/* end */},\"a\": 1}", "{ \"a\": 1 /* one */ }", "{\n  \"a\": 1 // one\n}\n",
		},
		"codex": {
			"a = 1", "a = 1\r\n", "\ufeffa = 1\n\n\n", "a = 1 # one\n[tui]\nx = '''\n[mcp_servers.acp]\n'''\n", "a = 1\n[mcp_servers]\ndocs.command = \"docs\"\n# end\n", "[mcp_servers.docs]\ncommand = \"docs\"\n\n# of x\n[x]\na = 1\n",
			"a = 1\n[[list]]\nb = 2\n[[list]]\nb = 3\n", "mcp_servers.docs.command = \"docs\"\n", "[mcp_servers]\ndocs = { command = \"docs\" }\n",
			"mcp_servers.acp.command = \"/x/acpctl\"\nmcp_servers.acp.args = [\"mcp\"]\na = 1\n[x]\n", "[mcp_servers.docs]\ncommand = \"docs\"\nenv.A = \"1\"\n\n[profiles.x]\nmodel = \"y\"\n",
		},
	}
	edits := []*strings.Replacer{
		strings.NewReplacer("\"a\": 1", "\"a\": {\"b\": [1, 2]}", "\"a\":1", "\"a\":\"x\"", "a = 1", "a = [\n  1, # one\n]"),
		strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n"),
	}
	for program, texts := range forms {
		for _, text := range texts {
			for _, edit := range edits {
				o := newOptions(t.TempDir())
				o.Socket = "/run/desk/acp.sock"
				path := filepath.Join(o.Home, configs[program])
				writeFile(t, path, text, 0o600)
				if err := tryAll(program, o); err != nil {
					t.Errorf("%s %q: %v", program, text, err)
					continue
				}
				with, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				writeFile(t, path, edit.Replace(string(with)), 0o600)
				if err := undoEverything(program, o); err != nil {
					t.Errorf("%s %q: undo: %v", program, text, err)
				}
				if strings.Contains(text, "acp.command") {
					text = "a = 1\n[x]\n" // without the server that setup has taken for its own
				}
				if got, _ := os.ReadFile(path); withoutSpace(got) != withoutSpace([]byte(edit.Replace(text))) {
					t.Errorf("%s %q with setup\n%s\nand undone %q", program, text, with, got)
				}
			}
		}
	}
}

// A server of ours that is disabled is enabled, and undoing gives back what there was. Another's stays.
func TestDisabledServer(t *testing.T) {
	for program, forms := range map[string][2]string{
		"codex":    {"[mcp_servers.acp]\nenabled = false # for now\ncommand = \"%s\"\nargs = [\"mcp\"]\n", "enabled = true # for now"},
		"opencode": {"{\"mcp\": {\"acp\": {\"enabled\": false, \"command\": [\"%s\", \"mcp\"]}}}", "\"enabled\": true"},
	} {
		o := newOptions(t.TempDir())
		path := filepath.Join(o.Home, configs[program])
		text := strings.Replace(forms[0], "%s", fakeCommand, 1)
		writeFile(t, path, text, 0o600)
		setUp(t, program, o, true)
		if with, _ := os.ReadFile(path); !strings.Contains(string(with), forms[1]) {
			t.Errorf("%s: it is not enabled: %s", program, with)
		}
		undoAll(t, program, o)
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: undone it is %q", program, got)
		}
		text = strings.Replace(forms[0], "%s", "/opt/other/bin/other", 1)
		writeFile(t, path, text, 0o600)
		if err := tryAll(program, o); err == nil || !strings.Contains(err.Error(), "that is not acpctl as setup starts it: remove it") {
			t.Errorf("%s: another's: %v", program, err)
		}
		undoAll(t, program, o)
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: another's became %q", program, got)
		}
	}
}

func undoEverything(program string, o Options) error {
	undo, err := NewUndo(program, o)
	if err == nil {
		_, err = undo.Write()
	}
	return err
}

// What somebody changes between two steps of setup stays, and setup's part of both goes.
func TestEditBetweenTwoSetups(t *testing.T) {
	o := newOptions(t.TempDir())
	path := filepath.Join(o.Home, ".codex", "config.toml")
	writeFile(t, path, "a = 1\n", 0o600)
	plan, err := NewPlan("codex", o)
	if err != nil {
		t.Fatal(err)
	}
	plan.Accept(&plan.Steps[0])
	if _, err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	with, _ := os.ReadFile(path)
	writeFile(t, path, strings.Replace(string(with), "a = 1", "a = 2", 1), 0o600)
	setUp(t, "codex", o, true)
	undoAll(t, "codex", o)
	if text, _ := os.ReadFile(path); string(text) != "a = 2\n" {
		t.Errorf("undone it is %q", text)
	}
}

// What a project's folder calls acp is setup's only if it runs this program with this user's daemon: the
// folder may be of others.
func TestAnEntryOfAProjectIsSetupsOnlyIfItRunsThisProgram(t *testing.T) {
	dir := t.TempDir()
	own, link := filepath.Join(dir, "acpctl"), filepath.Join(dir, "link", "acpctl")
	writeFile(t, own, "", 0o755)
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o755), os.Symlink(own, link)); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy", "acpctl")
	writeFile(t, copied, "", 0o755)
	attach := []string{"mcp", "--attach"}
	for _, tt := range []struct {
		what, command string
		args          []string
		env           map[string]string
		isOurs        bool
	}{
		{"setup's own", own, attach, nil, true},
		{"a link to this program", link, attach, nil, true},
		{"another name", own, []string{"mcp", "--attach", "--name", "builder"}, nil, true},
		{"this user's daemon", own, attach, map[string]string{"ACP_SOCKET": "/run/desk/acp.sock"}, true},
		{"a path in the folder", "./tools/acpctl", attach, nil, false},
		{"another acpctl", copied, attach, nil, false},
		{"another daemon", own, attach, map[string]string{"ACP_SOCKET": "/tmp/other/acp.sock"}, false},
		{"a variable more", own, attach, map[string]string{"LD_PRELOAD": "./x.so"}, false},
		{"a flag more", own, []string{"mcp", "--attach", "--home", "./home"}, nil, false},
	} {
		for _, program := range ListPrograms() {
			o := newOptions(t.TempDir())
			o.Command, o.Project, o.Socket = own, filepath.Join(o.Home, "project"), "/run/desk/acp.sock"
			command, _ := json.Marshal(append([]string{tt.command}, tt.args...))
			args, _ := json.Marshal(tt.args)
			env, _ := json.Marshal(tt.env)
			if tt.env == nil {
				env = []byte("{}")
			}
			path, text := "", ""
			switch program {
			case "claude":
				path, text = ".mcp.json", fmt.Sprintf(`{"mcpServers": {"acp": {"command": %q, "args": %s, "env": %s}}}`, tt.command, args, env)
			case "opencode":
				path, text = "opencode.json", fmt.Sprintf(`{"mcp": {"acp": {"type": "local", "command": %s, "environment": %s}}}`, command, env)
			case "codex":
				path, text = ".codex/config.toml", fmt.Sprintf("[mcp_servers.acp]\ncommand = %q\nargs = %s\n[mcp_servers.acp.env]\n", tt.command, args)
				for name, value := range tt.env {
					text += fmt.Sprintf("%s = %q\n", name, value)
				}
			}
			path = filepath.Join(o.Project, path)
			writeFile(t, path, text, 0o644)
			p, _ := findProgram(program)
			var s Status
			p.findConnection(&s, o)
			if (s.ProjectServer == Connected) != tt.isOurs {
				t.Errorf("%s, %s: it is %q", program, tt.what, s.ProjectServer)
			}
			if err := tryAll(program, o); (err == nil) != tt.isOurs {
				t.Errorf("%s, %s: %v", program, tt.what, err)
			}
			if err := undoEverything(program, o); err != nil {
				t.Errorf("%s, %s: undo: %v", program, tt.what, err)
			}
			if got, _ := os.ReadFile(path); !tt.isOurs && string(got) != text {
				t.Errorf("%s, %s: it became %s", program, tt.what, got)
			}
		}
	}
}
