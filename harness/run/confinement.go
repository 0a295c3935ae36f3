package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Confinement is what keeps a run to its files.
type Confinement string

// The confinements.
const (
	Bubblewrap Confinement = "bubblewrap" // the program bwrap: namespaces with only the run's files
	Landlock   Confinement = "landlock"   // the kernel's own, and a filter of system calls
	Seatbelt   Confinement = "seatbelt"   // sandbox-exec of macOS
	Outside    Confinement = "outside"    // the owner has declared that this process is in a container made for it
	None       Confinement = "none"       // nothing: no tools for files and commands then
)

// Confines reports whether the run cannot leave its files.
func (c Confinement) Confines() bool { return c != None && c != "" }

// HasSockets reports whether a run may be given some unix sockets under c, without being
// given all.
func (c Confinement) HasSockets() bool { return c.checkSockets() == nil }

// KeepsObeyed reports whether what the owner's programs obey in a Spec's Project stays as it is under
// c. Landlock cannot take back for a part of a folder what it allows for the whole.
func (c Confinement) KeepsObeyed() bool { return c == Bubblewrap || c == Seatbelt }

// Detect returns the strongest confinement that works on this machine. It tries each by
// starting something under it, which takes some milliseconds. Without a confinement, why says what
// would be needed.
func Detect(ctx context.Context) (c Confinement, why string) {
	var reasons []string
	for _, c := range listConfinements() {
		err := CheckConfinement(ctx, c)
		if err == nil {
			return c, ""
		}
		reasons = append(reasons, err.Error())
	}
	return None, strings.Join(reasons, "; ")
}

// CheckConfinement returns an error that says what is missing, if c does not work on this
// machine.
func CheckConfinement(ctx context.Context, c Confinement) error {
	if c == Outside || c == None {
		return nil
	}
	if !slices.Contains(listConfinements(), c) {
		return fmt.Errorf("%s is not of this system: use one of %v", c, append(listConfinements(), Outside, None))
	}
	if err := checkConfinement(c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	dir, err := os.MkdirTemp("", "acpctl-confined")
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	exit, err := Run(ctx, Spec{Argv: []string{"/bin/sh", "-c", "exit 7"}, Env: []string{"PATH=" + SystemPath}, Dir: dir, Write: []string{dir}, Confinement: c})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", c, err)
	case exit.Code != 7:
		return fmt.Errorf("%s: it does not work here: %s", c, strings.TrimSpace(exit.Stderr))
	}
	return nil
}

// PortsOfAll are the TCP ports to which each run may connect: HTTPS, by which most models are reached,
// and DNS.
var PortsOfAll = []uint16{443, 53}

// SystemPath is where a run finds programs of the system.
const SystemPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// makeOrder checks the Spec and returns what the helper does. keep is what the run may not change
// below the folders that it may.
func (s *Spec) makeOrder(keep []string) (*order, error) {
	o := &order{Argv: s.Argv, Env: s.Env, Dir: s.Dir, GraceMS: max(s.Grace.Milliseconds(), 0)}
	if o.Env == nil {
		o.Env = []string{}
	}
	if o.GraceMS == 0 {
		o.GraceMS = defaultGrace.Milliseconds()
	}
	if len(s.Argv) == 0 || !filepath.IsAbs(s.Argv[0]) {
		return nil, fmt.Errorf("%q: use the absolute path of a program", s.Argv)
	}
	for _, path := range slices.Concat(s.Read, s.Write, []string{s.Dir, cmp.Or(s.Sockets, "/")}) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return nil, fmt.Errorf("%q: use a clean absolute path", path)
		}
	}
	if s.Sockets != "" {
		if err := s.Confinement.checkSockets(); err != nil {
			return nil, err
		}
	}
	if err := s.confine(o, keep); err != nil {
		return nil, err
	}
	return o, nil
}
