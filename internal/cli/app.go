// Package cli is the command line of acpctl: its verbs as a tree, what they print,
// and the exit code.
package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/acpd/acpd/client"
)

// ownPatience is how long the own daemon may take for what it answers by itself: more
// than a disk that is busy needs, and less than a person waits.
const ownPatience = 5 * time.Second

// app is one run of acpctl: its streams, and the flags that every verb has.
type app struct {
	in       io.Reader
	out, err io.Writer
	inTTY    bool // a person types
	outTTY   bool // a person reads the data
	errTTY   bool // a person reads the talk
	colours  bool // NO_COLOR is not set

	home   string
	agents bool // through the agents' socket
	json   bool

	daemon    client.Client
	hostsTime time.Duration // for other machines to list their channels; 0: as long as users have

	version string   // "": that of the module
	begun   bool     // the command line was understood
	inTaken bool     // an argument was read from in
	read    []string // what else than the command line was read for arguments, and how much

	misnamed error // why there is no help for what it was asked about
}

// Run runs one command line of acpctl and returns the exit code. version is the program's,
// "" for that of the module.
func Run(ctx context.Context, version string, args []string) int {
	a := newApp()
	a.version = version
	return a.run(ctx, args)
}

func newApp() *app {
	is := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, inTTY: is(os.Stdin), outTTY: is(os.Stdout), errTTY: is(os.Stderr)}
	a.daemon.Patience = ownPatience
	a.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return a
}

// run runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.out = &outlet{to: a.out}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, a.misnamed)
	code := 0
	if _, ok := errors.AsType[*unwritten](err); err != nil && !ok {
		code = a.report(ctx, cmd, args, err)
	}
	return a.finish(cmd.CommandPath(), code)
}

// begin is called when the command line was understood. An agent's acpctl, one with
// ACP_SOCKET, knows no state directory.
func (a *app) begin() error {
	_, set, err := client.AgentSocket()
	switch {
	case err != nil:
		return usageError{err}
	case set && a.home != "":
		return usagef("--home: ACP_SOCKET is set, and an agent speaks through that socket alone: leave the flag out")
	case set:
		a.agents = true
		a.daemon.As = client.SpeakParams{Name: os.Getenv("ACP_AGENT"), Key: os.Getenv("ACP_AGENT_KEY")}
		if a.daemon.As.Key == "" {
			a.daemon.As = client.SpeakParams{}
		}
	case a.home != "":
		a.daemon.Socket = filepath.Join(a.home, client.SocketName)
	}
	a.begun = true
	return nil
}
