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
	"context"
	"os"
	"os/signal"

	"github.com/acpd/acpd/internal/cli"
)

// version is set by the linker where the build knows better than the module.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(cli.Run(ctx, version, os.Args[1:]))
}
