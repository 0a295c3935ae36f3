package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sandboxExec runs a program in a sandbox of macOS.
const sandboxExec = "/usr/bin/sandbox-exec"

func listConfinements() []Confinement { return []Confinement{Seatbelt} }

func checkConfinement(Confinement) error {
	if _, err := os.Stat(sandboxExec); err != nil {
		return errors.New(sandboxExec + " is not there")
	}
	return nil
}

// checkSockets returns an error if a run under c cannot be given some unix sockets.
func (c Confinement) checkSockets() error { return nil }

// ClosesLoopback reports whether runs under c reach only those TCP ports of this machine that their
// Spec names.
func (c Confinement) ClosesLoopback() bool { return false }

// confine puts into o what keeps the run to its files.
func (s *Spec) confine(o *order, keep []string) error {
	switch s.Confinement {
	case Seatbelt:
		o.Argv = append([]string{sandboxExec, "-p", s.makeSeatbeltProfile(keep)}, s.Argv...)
	case Outside, None:
	default:
		return fmt.Errorf("%q is no confinement of this system", s.Confinement)
	}
	return nil
}

// systemFiles are what programs need of the system, without what is about its users.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Frameworks", "/private/etc/ssl", "/private/etc/hosts",
	"/private/etc/resolv.conf", "/private/etc/services", "/private/etc/protocols", "/private/var/db/timezone", "/private/var/db/dyld",
	"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd",
}

// makeSeatbeltProfile returns the sandbox in its own language. Unix sockets are closed but those
// of the Spec and that of the resolver.
func (s *Spec) makeSeatbeltProfile(keep []string) string {
	var b strings.Builder
	b.WriteString("(version 1)\n(deny default)\n(allow process-fork process-exec)\n(allow signal (target same-sandbox))\n" +
		"(allow process-info* (target same-sandbox))\n(allow sysctl-read)\n(allow file-read-metadata)\n(allow file-read-data (literal \"/\"))\n" +
		"(allow file-write-data (literal \"/dev/null\"))\n(allow mach-lookup (global-name \"com.apple.trustd\") (global-name \"com.apple.trustd.agent\"))\n" +
		"(allow network-outbound (remote ip))\n(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n(allow system-socket)\n")
	for _, path := range append(append([]string{}, systemFiles...), s.Read...) {
		fmt.Fprintf(&b, "(allow file-read* (subpath %s))\n", strconv.Quote(path))
	}
	for _, path := range s.Write {
		fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %s))\n", strconv.Quote(path))
	}
	for _, path := range keep { // the last rule that matches decides; to move a folder is to unlink it
		fmt.Fprintf(&b, "(deny file-write* (subpath %s))\n", strconv.Quote(path))
		for at := filepath.Dir(path); len(at) > len(s.Project); at = filepath.Dir(at) {
			fmt.Fprintf(&b, "(deny file-write-unlink (literal %s))\n", strconv.Quote(at))
		}
	}
	if s.Sockets != "" {
		fmt.Fprintf(&b, "(allow network-outbound (subpath %s))\n", strconv.Quote(s.Sockets))
	}
	return b.String()
}

// rules are empty here: sandbox-exec takes them as an argument.
type rules struct{}

func (r *rules) apply() error { return nil }
