package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/packaging"
)

// systemd is the manager of Linux.
type systemd struct{ Host }

// unitName returns the name of the unit: each home has its own.
func unitName(s Service) string {
	if s.Home != "" {
		return "acpd-" + s.homeName() + ".service"
	}
	return "acpd.service"
}

// unitPath returns where the unit is written.
func (m systemd) unitPath(s Service) string {
	return filepath.Join(m.Config, "systemd/user", unitName(s))
}

// findPackagedUnit returns the path and content of the unit that a package has installed, or "".
func (m systemd) findPackagedUnit(s Service) (path, content string) {
	for _, dir := range []string{"/usr/lib/systemd/user", "/lib/systemd/user"} {
		path := filepath.Join(m.Root, dir, unitName(s))
		if data, err := os.ReadFile(path); err == nil {
			return path, string(data)
		}
	}
	return "", ""
}

// renderUnit returns the unit: that of the packages, with the program, the state directory and the
// name that are meant.
func renderUnit(s Service) string {
	unit := string(packaging.ReadFile("systemd/user/acpd.service"))
	start := findLine(unit, "ExecStart=")
	words := strings.Fields(strings.TrimPrefix(start, "ExecStart="))
	words[0] = strings.ReplaceAll(quoteForUnit(s.Program), "$$", "$") // systemd replaces variables only in arguments
	if i := slices.Index(words, "--home"); s.Home != "" {
		words[i+1] = quoteForUnit(s.Home)
	}
	if s.Name != "" {
		words = append(words, "--name", s.Name)
	}
	return strings.Replace(unit, start, "ExecStart="+strings.Join(words, " "), 1)
}

// findLine returns the first line that begins so, or "".
func findLine(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// quoteForUnit returns text as one word of a command line in a unit, systemd.service(5): without
// specifiers and variables. It has no line break ([Service.Check]).
func quoteForUnit(text string) string {
	quoted := strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`).Replace(text)
	if quoted == text && !strings.ContainsAny(text, " \t';") {
		return text
	}
	return `"` + quoted + `"`
}

// findUnitProgram returns the program that a unit of renderUnit starts.
func findUnitProgram(unit string) string {
	command := strings.TrimPrefix(findLine(unit, "ExecStart="), "ExecStart=")
	program, _, _ := strings.Cut(command, " ")
	if quoted, ok := strings.CutPrefix(command, `"`); ok { // Install takes no path with a quote in it
		program, _, _ = strings.Cut(quoted, `"`)
	}
	return strings.ReplaceAll(program, "%%", "%")
}

// CheckRunning returns an error unless systemd runs services of this user.
func (m systemd) CheckRunning(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(m.Root, "/run/systemd/system"))
	if _, missing := exec.LookPath("systemctl"); err != nil || missing != nil {
		return errors.New("service: systemd does not run this machine (no /run/systemd/system, or no systemctl in PATH): start acpd by what starts programs here")
	}
	if _, err := m.run(ctx, "systemctl", "--user", "show", "--property=Version"); err != nil {
		return fmt.Errorf("service: the service manager of %s does not answer (%w): log in as that user, not by su or sudo; or install the package, and: sudo systemctl enable --now acpd", m.User, err)
	}
	return nil
}

// Install writes the unit, unless the one of a package does, and enables and starts it.
func (m systemd) Install(ctx context.Context, s Service) error {
	if err := m.CheckRunning(ctx); err != nil {
		return err
	}
	if err := s.checkPaths(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	if strings.ContainsAny(s.Program, "\"'\\") {
		return fmt.Errorf("service: systemd starts no program with a quote or a backslash in its path, as %q has: move acpd and acpctl to another folder", s.Program)
	}
	unit, changed := renderUnit(s), false
	if path, packaged := m.findPackagedUnit(s); packaged == unit && !exists(m.unitPath(s)) {
		m.Say("uses", path+", which a package has installed")
	} else {
		var err error
		if changed, err = m.writeFile(m.unitPath(s), unit); err != nil {
			return err
		}
	}
	if changed {
		if err := m.do(ctx, "systemctl", "--user", "daemon-reload"); err != nil {
			return err
		}
	}
	if err := m.do(ctx, "systemctl", "--user", "enable", unitName(s)); err != nil {
		return err
	}
	verb := "start"
	if changed {
		verb = "restart"
	}
	return m.start(ctx, s, verb)
}

// Start starts the unit.
func (m systemd) Start(ctx context.Context, s Service) error { return m.start(ctx, s, "start") }

func (m systemd) start(ctx context.Context, s Service, verb string) error {
	if err := m.do(ctx, "systemctl", "--user", verb, unitName(s)); err != nil {
		return fmt.Errorf("service: %s does not start: %w: acpctl service logs says why; if another acpd has its state directory, end that one", unitName(s), err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IsLingering reports whether the services of a person run while that person is not logged in,
// and whether anybody knows.
func (m systemd) IsLingering(ctx context.Context) (lingers, known bool) {
	out, err := m.run(ctx, "loginctl", "show-user", m.User, "--property=Linger", "--value")
	return strings.TrimSpace(out) == "yes", err == nil
}

// EnableLinger lets the services of a person run while that person is not logged in.
func (m systemd) EnableLinger(ctx context.Context) error {
	if err := m.do(ctx, "loginctl", "enable-linger", m.User); err != nil {
		return fmt.Errorf("service: %w: root may: loginctl enable-linger %s", err, m.User)
	}
	return nil
}

// Uninstall ends and disables the unit, and removes its file if acpctl wrote it.
func (m systemd) Uninstall(ctx context.Context, s Service) error {
	if err := m.CheckRunning(ctx); err != nil {
		return err
	}
	path := m.unitPath(s)
	packaged, _ := m.findPackagedUnit(s)
	if !exists(path) && packaged == "" {
		m.Say("found", unitName(s)+" is not installed")
		return nil
	}
	if data, err := os.ReadFile(path); err == nil && !isOurs(data) {
		return fmt.Errorf("service: %s was not written by acpctl: systemctl --user disable --now %s ends it, and the file is yours to remove", path, unitName(s))
	}
	if err := m.do(ctx, "systemctl", "--user", "disable", "--now", unitName(s)); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	m.run(ctx, "systemctl", "--user", "reset-failed", unitName(s)) // it fails if nothing had failed
	removed, err := m.removeFile(path)
	if err != nil {
		return err
	}
	if !removed {
		m.Say("kept", packaged+", which belongs to a package")
		return nil
	}
	return m.do(ctx, "systemctl", "--user", "daemon-reload")
}

// shown are the properties that Inspect asks for.
var shown = []string{"LoadState", "ActiveState", "SubState", "Result", "MainPID", "ActiveEnterTimestamp", "InactiveEnterTimestamp", "ExecMainExitTimestamp",
	"ExecMainCode", "ExecMainStatus", "NRestarts", "StatusText", "FragmentPath", "UnitFileState"}

// Inspect returns what systemctl show says.
func (m systemd) Inspect(ctx context.Context, s Service) (*State, error) {
	if err := m.CheckRunning(ctx); err != nil {
		return nil, err
	}
	out, err := m.run(ctx, "systemctl", "--user", "show", "--property="+strings.Join(shown, ","), unitName(s))
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return parseShown(unitName(s), out), nil
}

// parseShown reads what systemctl show has printed.
func parseShown(unit, out string) *State {
	p := make(map[string]string)
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		p[key] = value
	}
	st := &State{Unit: unit, Installed: p["LoadState"] == "loaded", File: p["FragmentPath"], Enabled: p["UnitFileState"], Says: p["StatusText"]}
	if !st.Installed {
		return st
	}
	st.Running = p["ActiveState"] == "active" || p["ActiveState"] == "reloading"
	st.Active = p["ActiveState"] + " (" + p["SubState"] + ")"
	if p["Result"] != "success" && p["Result"] != "" {
		st.Active += ", " + p["Result"]
	}
	st.PID, _ = strconv.Atoi(p["MainPID"])
	st.Restarts, _ = strconv.Atoi(p["NRestarts"])
	st.Since = p["ActiveEnterTimestamp"]
	if !st.Running {
		st.Since = p["InactiveEnterTimestamp"]
	}
	if p["ExecMainExitTimestamp"] != "" {
		st.LastExit = describeExit(p["ExecMainCode"], p["ExecMainStatus"]) + ", " + p["ExecMainExitTimestamp"]
		st.Ended = st.PID == 0
	}
	return st
}

// describeExit returns how a process ended, as waitid(2) says it.
func describeExit(code, status string) string {
	switch code {
	case "1":
		return "exit code " + status
	case "2", "3":
		return "signal " + status
	}
	return "unknown"
}

// Logs runs journalctl.
func (m systemd) Logs(ctx context.Context, s Service, lines int, follow bool) error {
	if _, err := exec.LookPath("journalctl"); err != nil {
		return errors.New("service: there is no journalctl in PATH: read the log where systemd's journal is forwarded to")
	}
	args := []string{"--user", "--unit", unitName(s), "--lines", strconv.Itoa(lines), "--output", "short-iso", "--no-hostname", "--no-pager"}
	if follow {
		args = append(args, "--follow")
	}
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Stdout, cmd.Stderr = m.Out, m.Err
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("service: journalctl: %w: root, and members of the group systemd-journal, may read all of it", err)
	}
	return nil
}
