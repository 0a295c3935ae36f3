package service

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parsePlist reads a property list as launchd does: dictionaries, arrays, strings, integers and
// truth.
func parsePlist(t *testing.T, text string) map[string]any {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	var parse func(start xml.StartElement) any
	next := func() xml.Token {
		for {
			token, err := d.Token()
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			switch token := token.(type) {
			case xml.StartElement, xml.EndElement:
				return token
			}
		}
	}
	parse = func(start xml.StartElement) any {
		switch start.Name.Local {
		case "dict":
			dict := make(map[string]any)
			for {
				token, ok := next().(xml.StartElement)
				if !ok {
					return dict
				}
				var key string
				if token.Name.Local != "key" || d.DecodeElement(&key, &token) != nil {
					t.Fatalf("no key, but %s", token.Name.Local)
				}
				dict[key] = parse(next().(xml.StartElement))
			}
		case "array":
			array := []any{}
			for {
				token, ok := next().(xml.StartElement)
				if !ok {
					return array
				}
				array = append(array, parse(token))
			}
		case "true", "false":
			d.Skip()
			return start.Name.Local == "true"
		case "string", "integer":
			var s string
			if err := d.DecodeElement(&s, &start); err != nil {
				t.Fatal(err)
			}
			return s
		}
		t.Fatalf("a property list has no <%s>", start.Name.Local)
		return nil
	}
	if plist := next().(xml.StartElement); plist.Name.Local != "plist" {
		t.Fatalf("it is a <%s>", plist.Name.Local)
	}
	dict, ok := parse(next().(xml.StartElement)).(map[string]any)
	if !ok {
		t.Fatal("it is no dictionary")
	}
	if _, ok := next().(xml.EndElement); !ok {
		t.Fatal("more follows")
	}
	if _, err := d.Token(); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return dict
}

func TestPlist(t *testing.T) {
	m := launchd{Host{UserHome: "/Users/desk", User: "desk"}}
	s := Service{Program: "/opt/a & b/acpd", Name: "planner", Home: `/Volumes/"<acp>"`}
	want := map[string]any{
		"Label":              label(s),
		"ProgramArguments":   []any{"/opt/a & b/acpd", "--home", `/Volumes/"<acp>"`, "--log-file", m.logPath(s), "--name", "planner"},
		"RunAtLoad":          true,
		"KeepAlive":          map[string]any{"SuccessfulExit": false},
		"ProcessType":        "Adaptive",
		"Umask":              "63",
		"SoftResourceLimits": map[string]any{"NumberOfFiles": "8192"},
		"StandardOutPath":    "/dev/null",
		"StandardErrorPath":  "/dev/null",
	}
	text := m.renderPlist(s)
	if diff := cmp.Diff(want, parsePlist(t, text)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !isOurs([]byte(text)) {
		t.Error("it lacks the marker")
	}
	usual := parsePlist(t, m.renderPlist(Service{Program: "/usr/local/bin/acpd"}))
	if diff := cmp.Diff([]any{"/usr/local/bin/acpd", "--home", "/Users/desk/.acp", "--log-file", "/Users/desk/Library/Logs/acpd.log"}, usual["ProgramArguments"]); diff != "" {
		t.Errorf("the usual home: -want +got\n%s", diff)
	}
}

// What launchd has not begun again yet has not ended.
func TestEndedUnderLaunchd(t *testing.T) {
	for printed, want := range map[string]State{
		"state = spawn scheduled\nlast exit code = (never exited)\n": {Active: "spawn scheduled"},
		"state = spawn scheduled\nruns = 2\nlast exit code = 0\n":    {Active: "spawn scheduled", LastExit: "exit code 0", Restarts: 1},
		"state = spawn scheduled\nlast exit code = 78: EX_CONFIG\n":  {Active: "spawn scheduled", LastExit: "exit code 78: EX_CONFIG", Ended: true},
		"state = running\nlast exit code = 1\npid = 71\n":            {Active: "running", Running: true, PID: 71, LastExit: "exit code 1"},
	} {
		var got State
		if got.parsePrinted(printed); !cmp.Equal(got, want) {
			t.Errorf("%q: %+v", printed, got)
		}
	}
}

func TestLaunchd(t *testing.T) {
	h := newFakeHost(t)
	m, s := launchd{h.Host}, Service{Program: "/usr/local/bin/acpd"}
	path := filepath.Join(h.UserHome, "Library/LaunchAgents/dev.acpd.acpd.plist")
	unloaded, loaded := `[ "$1" != print ]`, "echo 'dev.acpd.acpd = {\n\tstate = running\n\tpid = 71\n\truns = 3\n\tlast exit code = 1\n\tendpoints = {\n\t\tstate = active\n'"
	h.answer("launchctl", unloaded)
	h.must(m.Install(ctx, s))
	at := domain()
	h.want("install", "launchctl print "+at+"/dev.acpd.acpd", "launchctl bootstrap "+at+" "+path)
	if st, err := m.Inspect(ctx, s); err != nil || !st.Installed || st.Running {
		t.Errorf("%+v, %v", st, err)
	}
	h.answer("launchctl", loaded)
	h.takeCalls()
	h.must(m.Install(ctx, s))
	h.want("again", "launchctl print "+at+"/dev.acpd.acpd")
	s.Name = "planner"
	h.must(m.Install(ctx, s))
	h.want("changed", "launchctl print "+at+"/dev.acpd.acpd", "launchctl bootout "+at+"/dev.acpd.acpd", "launchctl bootstrap "+at+" "+path)
	want := &State{Unit: "dev.acpd.acpd", Installed: true, File: path, Running: true, Active: "running", PID: 71, LastExit: "exit code 1", Restarts: 2}
	if st, err := m.Inspect(ctx, s); err != nil || !cmp.Equal(st, want) {
		t.Errorf("%+v, %v", st, err)
	}
	h.takeCalls()
	h.must(m.Start(ctx, s))
	h.want("start", "launchctl print "+at+"/dev.acpd.acpd", "launchctl kickstart "+at+"/dev.acpd.acpd")
	h.answer("launchctl", unloaded)
	h.must(m.Start(ctx, s))
	h.want("start what is not loaded", "launchctl print "+at+"/dev.acpd.acpd", "launchctl bootstrap "+at+" "+path)
	if err := m.CheckRunning(ctx); err == nil || !strings.Contains(err.Error(), "log in at the screen") {
		t.Errorf("without a domain: %v", err)
	}
	h.answer("launchctl", loaded)
	h.must(m.CheckRunning(ctx))
	h.takeCalls()
	h.must(m.Uninstall(ctx, s))
	h.want("uninstall", "launchctl print "+at+"/dev.acpd.acpd", "launchctl bootout "+at+"/dev.acpd.acpd")
	if exists(path) {
		t.Error("the property list is still there")
	}
	h.must(m.Uninstall(ctx, s))
	h.want("uninstall again")
	h.write(path, "<plist/>")
	if err := m.Install(ctx, s); err == nil || !strings.Contains(err.Error(), "stays as it is") {
		t.Errorf("over one of somebody else: %v", err)
	}
	if err := m.Uninstall(ctx, s); err == nil {
		t.Error("one of somebody else is removed")
	}
	if err := m.Logs(ctx, s, 5, true); err == nil {
		t.Error("logs without a log")
	}
	h.write(m.logPath(s), "")
	h.must(m.Logs(ctx, s, 5, true))
	h.want("logs", "tail -F -n 5 "+m.logPath(s))
	os.Remove(path)
}
