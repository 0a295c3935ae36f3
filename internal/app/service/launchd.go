package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// launchd is the manager of macOS. It restarts acpd when that fails, and has no watchdog. The log
// is in a file that acpd bounds itself: newsyslog rotates only what root has entered.
type launchd struct{ Host }

// label returns the name by which launchd knows a service: each home has its own.
func label(s Service) string {
	if s.Home != "" {
		return "dev.acpd.acpd.home." + s.homeName()
	}
	return "dev.acpd.acpd"
}

// domain returns where launchd runs the services of this user, launchctl(1).
func domain() string { return "gui/" + strconv.Itoa(os.Getuid()) }

// target returns how launchctl calls a service.
func target(s Service) string { return domain() + "/" + label(s) }

// plistPath returns where the file that defines a service is written.
func (m launchd) plistPath(s Service) string {
	return filepath.Join(m.UserHome, "Library/LaunchAgents", label(s)+".plist")
}

// logPath returns the file of the log. A second one in the same folder, with the suffix .old, has
// the older part.
func (m launchd) logPath(s Service) string {
	name := "acpd.log"
	if s.Home != "" {
		name = "acpd.home." + s.homeName() + ".log"
	}
	return filepath.Join(m.UserHome, "Library/Logs", name)
}

// renderPlist returns the property list, launchd.plist(5).
func (m launchd) renderPlist(s Service) string {
	home := cmp.Or(s.Home, filepath.Join(m.UserHome, ".acp"))
	args := []string{s.Program, "--home", home, "--log-file", m.logPath(s)}
	if s.Name != "" {
		args = append(args, "--name", s.Name)
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ` + marker + ` -->
<plist version="1.0">
<dict>
`)
	entry := func(key, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", key, value) }
	entry("Label", xmlString(label(s)))
	words := "<array>\n"
	for _, arg := range args {
		words += "\t\t" + xmlString(arg) + "\n"
	}
	entry("ProgramArguments", words+"\t</array>")
	entry("RunAtLoad", "<true/>")
	entry("KeepAlive", "<dict>\n\t\t<key>SuccessfulExit</key>\n\t\t<false/>\n\t</dict>")
	entry("ProcessType", xmlString("Adaptive"))
	entry("Umask", "<integer>63</integer>") // 077
	entry("SoftResourceLimits", "<dict>\n\t\t<key>NumberOfFiles</key>\n\t\t<integer>8192</integer>\n\t</dict>")
	entry("StandardOutPath", xmlString("/dev/null"))
	entry("StandardErrorPath", xmlString("/dev/null"))
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}

// findPlistProgram returns the program that a property list of renderPlist starts.
func findPlistProgram(plist string) (program string) {
	_, words, _ := strings.Cut(plist, "<key>ProgramArguments</key>")
	_, word, _ := strings.Cut(words, "<array>")
	xml.Unmarshal([]byte(word), &program) // it stays empty in a file that somebody has damaged
	return program
}

// xmlString returns text as a string of a property list.
func xmlString(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // it fails only if b does
	return "<string>" + b.String() + "</string>"
}

// Install writes the property list and has launchd run it.
func (m launchd) Install(ctx context.Context, s Service) error {
	if err := s.checkPaths(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	changed, err := m.writeFile(m.plistPath(s), m.renderPlist(s))
	if err != nil {
		return err
	}
	if _, err := m.run(ctx, "launchctl", "print", target(s)); err == nil {
		if !changed {
			m.Say("found", label(s)+" runs already")
			return nil
		}
		if err := m.do(ctx, "launchctl", "bootout", target(s)); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	return m.bootstrap(ctx, s)
}

func (m launchd) bootstrap(ctx context.Context, s Service) error {
	if err := m.do(ctx, "launchctl", "bootstrap", domain(), m.plistPath(s)); err != nil {
		return fmt.Errorf("service: %w: log in at the screen", err)
	}
	return nil
}

// CheckRunning returns an error unless launchd runs services of this user: for a user who came only by ssh it may not.
func (m launchd) CheckRunning(ctx context.Context) error {
	if _, err := m.run(ctx, "launchctl", "print", domain()); err != nil {
		return fmt.Errorf("service: %w: log in at the screen", err)
	}
	return nil
}

// Start starts the service again that has ended, or that launchd has not read yet.
func (m launchd) Start(ctx context.Context, s Service) error {
	if _, err := m.run(ctx, "launchctl", "print", target(s)); err != nil {
		return m.bootstrap(ctx, s)
	}
	if err := m.do(ctx, "launchctl", "kickstart", target(s)); err != nil {
		return fmt.Errorf("service: %w: acpctl service logs says why", err)
	}
	return nil
}

// Uninstall ends the service and removes its property list.
func (m launchd) Uninstall(ctx context.Context, s Service) error {
	if !exists(m.plistPath(s)) {
		m.Say("found", label(s)+" is not installed")
		return nil
	}
	if data, err := os.ReadFile(m.plistPath(s)); err == nil && !isOurs(data) {
		return fmt.Errorf("service: %s was not written by acpctl, and stays: remove it by hand", m.plistPath(s))
	}
	if _, err := m.run(ctx, "launchctl", "print", target(s)); err == nil {
		if err := m.do(ctx, "launchctl", "bootout", target(s)); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	_, err := m.removeFile(m.plistPath(s))
	return err
}

// Inspect returns what launchctl print says.
func (m launchd) Inspect(ctx context.Context, s Service) (*State, error) {
	st := &State{Unit: label(s)}
	if exists(m.plistPath(s)) {
		st.Installed, st.File = true, m.plistPath(s)
	}
	if out, err := m.run(ctx, "launchctl", "print", target(s)); err == nil {
		st.parsePrinted(out)
	}
	return st, nil
}

// parsePrinted reads what launchctl print says of a service. Its form is not promised: what is
// not found stays empty.
func (st *State) parsePrinted(out string) {
	failed := false
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok:
		case key == "state" && st.Active == "":
			st.Active, st.Running = value, value == "running"
		case key == "pid":
			st.PID, _ = strconv.Atoi(value)
		case key == "last exit code" && value != "(never exited)":
			st.LastExit = "exit code " + value
			failed = value != "0"
		case key == "runs":
			if runs, err := strconv.Atoi(value); err == nil {
				st.Restarts = max(runs-1, 0)
			}
		}
	}
	st.Ended = failed && st.PID == 0 // a 0 may be of the run before: launchd waits with the next one
}

// Logs runs tail on the log, which follows the name when acpd begins a new file.
func (m launchd) Logs(ctx context.Context, s Service, lines int, follow bool) error {
	path := m.logPath(s)
	if !exists(path) {
		return fmt.Errorf("service: %s is not there: acpctl service status says whether acpd has run", path)
	}
	args := []string{"-n", strconv.Itoa(lines), path}
	if follow {
		args = append([]string{"-F"}, args...)
	}
	cmd := exec.CommandContext(ctx, "tail", args...)
	cmd.Stdout, cmd.Stderr = m.Out, m.Err
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return errors.Join(errors.New("service: read "+path), err)
	}
	return nil
}
