// Command acpctl asks a daemon, acpd, for everything that it serves on its
// sockets, as a person or a script types it, and makes any program an agent
// (acpctl serve).
//
// Data goes to standard output, talk to standard error. With --json the data is
// one object, or one object a line where there are several, and so is an error:
// {"error": {code, message, retryable}}. The exit code is the error code's in the
// table of package kinds; beside it 0 is success, 1 a failure on this machine, 2
// a call that is wrong, and 130 an interrupt, which ends the call at the other
// side too. Everything goes through package client: acpctl knows no file of the
// daemon's.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/acpd/acpd/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(newApp().run(ctx, os.Args[1:]))
}

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

	begun   bool     // the command line was understood
	inTaken bool     // an argument was read from in
	read    []string // what else than the command line was read for arguments, and how much

	misnamed error // why there is no help for what it was asked about
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
