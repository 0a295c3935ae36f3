package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlist(t *testing.T) {
	m := launchd{Host{UserHome: "/Users/desk", User: "desk"}}
	s := Service{Program: "/opt/a & b/acpd", Name: "planner", Home: `/Volumes/"<acp>"`}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ` + marker + ` -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label(s) + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>/opt/a &amp; b/acpd</string>
		<string>--home</string>
		<string>/Volumes/&#34;&lt;acp&gt;&#34;</string>
		<string>--log-file</string>
		<string>` + m.logPath(s) + `</string>
		<string>--name</string>
		<string>planner</string>
	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ProcessType</key>
	<string>Adaptive</string>
	<key>Umask</key>
	<integer>63</integer>
	<key>SoftResourceLimits</key>
	<dict>
		<key>NumberOfFiles</key>
		<integer>8192</integer>
	</dict>
	<key>StandardOutPath</key>
	<string>/dev/null</string>
	<key>StandardErrorPath</key>
	<string>/dev/null</string>
</dict>
</plist>
`
	if diff := cmp.Diff(want, m.renderPlist(s)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	usual := m.renderPlist(Service{Program: "/usr/local/bin/acpd"})
	if !strings.Contains(usual, "<string>/Users/desk/.acp</string>\n\t\t<string>--log-file</string>\n\t\t<string>/Users/desk/Library/Logs/acpd.log</string>\n\t</array>") {
		t.Errorf("the usual home:\n%s", usual)
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
