// Package service makes acpd a service of the user's own manager, and asks it about that service: systemd on Linux,
// launchd on macOS. A service of the machine comes with the packages.
//
// It writes and removes only files that bear its marker, reports each step, and
// does not touch the state of daemons. It runs the manager's own programs, which it finds by
// PATH. It leaves flags and terminals to package operate.
package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
)

// marker is in the first lines of each file that this package writes. A file without it
// belongs to somebody else.
const marker = "acpctl service install writes this file, and acpctl service uninstall removes it."

// Service says which daemon is meant.
type Service struct {
	Name    string // what the daemon calls itself; "": the host's name
	Home    string // state directory, absolute; "": the usual one
	Program string // path of acpd, absolute; only Install needs it
}

// homeName names the service of a home that is not the usual one: by the name of its folder, and by
// digits that no other path has.
func (s Service) homeName() string {
	folder := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		}
		return -1
	}, strings.ToLower(filepath.Base(s.Home)))
	return fmt.Sprintf("%.32s-%.4x", folder, sha256.Sum256([]byte(s.Home)))
}

// Check returns an error unless there can be such a service.
func (s Service) Check() error {
	if s.Name != "" {
		if err := identity.CheckName(s.Name); err != nil {
			return fmt.Errorf("--name: %w", err)
		}
	}
	return s.checkPaths()
}

// checkPaths returns an error unless the file that defines a service can contain the paths.
// systemd ends a line also at a carriage return, so that more would follow it than a path, and
// ignores a line that is not UTF-8.
func (s Service) checkPaths() error {
	for what, path := range map[string]string{"--home": s.Home, "the path of acpd": s.Program} {
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return fmt.Errorf("%s: %q: a service needs a path in UTF-8, without control characters: choose another one", what, path)
		}
	}
	return nil
}

// Manager runs services.
type Manager interface {
	// CheckRunning returns an error unless the manager can run services of this user now.
	CheckRunning(context.Context) error
	// Install makes a service that runs now and after each login. It may be called again.
	Install(context.Context, Service) error
	// Start starts a service that is installed, as it is.
	Start(context.Context, Service) error
	// Uninstall ends a service and removes what Install wrote. The state stays.
	Uninstall(context.Context, Service) error
	// Inspect returns what the manager knows of a service.
	Inspect(context.Context, Service) (*State, error)
	// Logs writes the last lines of a service's log, and with follow what comes until ctx
	// ends.
	Logs(ctx context.Context, s Service, lines int, follow bool) error
}

// Lingerer is a manager that ends the services of a person with that person's last session,
// unless told otherwise.
type Lingerer interface {
	// IsLingering reports whether they go on, and whether that is known.
	IsLingering(context.Context) (lingers, known bool)
	// EnableLinger lets them go on, and begin when the machine starts.
	EnableLinger(context.Context) error
}

// State is what a manager knows of a service.
type State struct {
	Unit      string `json:"unit"`
	Installed bool   `json:"installed"`
	File      string `json:"file,omitempty"`
	Enabled   string `json:"enabled,omitempty"` // the manager's word
	Running   bool   `json:"running"`
	Active    string `json:"active,omitempty"` // the manager's words
	Since     string `json:"since,omitempty"`  // of the process, or of the state
	PID       int    `json:"pid,omitempty"`
	LastExit  string `json:"last_exit,omitempty"`
	Ended     bool   `json:"-"` // the process that began last has ended, and no other runs
	Restarts  int    `json:"restarts"`
	Says      string `json:"says,omitempty"` // the daemon's own line
}

// Host is where services are made.
type Host struct {
	Root     string                  // before the paths of the machine; "" outside of tests
	UserHome string                  // of the person
	Config   string                  // ~/.config
	User     string                  // name of the person
	Say      func(done, what string) // tells what was done: a word for it, and to what
	Out, Err io.Writer               // of the manager's programs
}

// Installed is a service of the person, as a file that bears the marker defines it.
type Installed struct {
	File    string // which defines it
	Program string // the path of acpd in it
}

// ListInstalled returns the services of the person that [Manager.Install] made, on any system.
func (h Host) ListInstalled() (all []Installed) {
	for _, kind := range []struct {
		dir, pattern string
		find         func(file string) string
	}{
		{filepath.Join(h.Config, "systemd/user"), "acpd*.service", findUnitProgram},
		{filepath.Join(h.UserHome, "Library/LaunchAgents"), "dev.acpd.acpd*.plist", findPlistProgram},
	} {
		names, _ := fs.Glob(os.DirFS(kind.dir), kind.pattern) // it only returns errors of the pattern
		for _, name := range names {
			file := filepath.Join(kind.dir, name)
			data, err := os.ReadFile(file)
			if err != nil || !isOurs(data) {
				continue
			}
			if program := kind.find(string(data)); program != "" { // else somebody has damaged it
				all = append(all, Installed{file, program})
			}
		}
	}
	return all
}

// NewManager returns the manager of this system.
func NewManager(h Host) (Manager, error) {
	switch runtime.GOOS {
	case "linux":
		return systemd{h}, nil
	case "darwin":
		return launchd{h}, nil
	}
	return nil, fmt.Errorf("service: %s has no manager of services that acpctl knows: start acpd by what starts programs there", runtime.GOOS)
}

// run runs a program of the manager and returns its standard output. An error holds what it
// wrote to standard error.
func (h Host) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		why := strings.TrimSpace(problem.String())
		if why == "" {
			why = err.Error()
		}
		return out.String(), fmt.Errorf("%s %s: %s", name, strings.Join(args, " "), why)
	}
	return out.String(), nil
}

// do runs a program that changes something, and reports it.
func (h Host) do(ctx context.Context, name string, args ...string) error {
	if _, err := h.run(ctx, name, args...); err != nil {
		return err
	}
	h.Say("ran", name+" "+strings.Join(args, " "))
	return nil
}

// isOurs reports whether a file bears the marker.
func isOurs(data []byte) bool {
	first, _, _ := bytes.Cut(data, []byte("\n\n"))
	return bytes.Contains(first[:min(len(first), 1024)], []byte(marker))
}

// writeFile makes a file what it should be, and reports whether it was something else. A file of
// somebody else stays, and is an error.
func (h Host) writeFile(path, content string) (changed bool, err error) {
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("service: %w", err)
	case string(old) == content:
		h.Say("kept", path)
		return false, nil
	case !isOurs(old):
		return false, fmt.Errorf("service: %s was not written by acpctl, and stays as it is: move it away, or change it by hand", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("service: %w", err)
	}
	if err := durable.ReplaceFile(path, path+".new", []byte(content), 0o644); err != nil {
		return false, fmt.Errorf("service: %w: run this as the user who may write there", err)
	}
	h.Say("wrote", path)
	return true, nil
}

// removeFile removes a file that bears the marker, and reports whether it was there. Any other
// file stays, and is an error.
func (h Host) removeFile(path string) (removed bool, err error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("service: %w", err)
	case !isOurs(data):
		return false, fmt.Errorf("service: %s was not written by acpctl, and stays: remove it by hand", path)
	}
	if err := os.Remove(path); err != nil {
		return false, fmt.Errorf("service: %w", err)
	}
	h.Say("removed", path)
	return true, nil
}
