// Command acpctl lets a person or a script ask a daemon, acpd, for everything that
// the daemon serves on its sockets. It also makes any program an agent (acpctl serve).
//
// Data goes to standard output, talk to standard error. With --json, the data is
// one object, or one object a line if there are several. An error is one object:
// {"error": {code, message, retryable}}. The exit code is that of the error code in
// the table of package kinds. Beside these, 0 is success, 1 a failure on this machine,
// 2 a wrong call, and 130 an interrupt, which ends the call at the other side too.
// Everything goes through package client: acpctl knows no file of the daemon's.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/acpd/acpd/internal/app/cli"
)

func main() {
	cli.ServeHelper()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(cli.RunCommandLine(ctx, os.Args[1:]))
}
