package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

func (a *app) newPipeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "pipe",
		Short: "Join standard input and output to the daemon, for the daemon of another machine",
		Example: `  peers: {build: {pipe: [ssh, build.example, acpctl, pipe]}}     in config.yaml of the other daemon
  ssh build.example acpctl pipe </dev/null; echo $?              by hand: 0, and nothing else, is well`,
		Long: `Another daemon starts this through a command that leads here, such as ssh, kubectl exec -i or docker exec -i, and sends its
packets through it. It is not for people: it prints only packets on standard output, and ends when its standard input or the
daemon ends.

Whoever runs it gains no trust: each daemon proves its key to the other as on any network.`,
		Args: frame.NamedArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.InTTY || a.OutTTY:
				return frame.UsageErrorf("standard input and output are no pipes: another daemon runs this, by pipe of a peer in its config.yaml")
			case a.AsGuest:
				return frame.UsageErrorf("a pipe is for whoever the daemon belongs to, and ACP_SOCKET is set: unset it")
			}
			return a.joinPipe(cmd.Context())
		},
	}
}

// joinPipe copies between the standard streams and a pipe of the daemon, until either ends. It returns nil
// at the end of standard input.
func (a *app) joinPipe(ctx context.Context) error {
	conn, err := a.Daemon.OpenPipe(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, a.In)
		ended <- explainPipeEnd(err)
	}()
	go func() {
		_, err := io.Copy(a.Out, conn)
		ended <- explainPipeEnd(cmp.Or(err, io.EOF))
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explainPipeEnd returns what an error of the connection to the daemon means. Other errors it
// returns as they are.
func explainPipeEnd(err error) error {
	if _, ok := errors.AsType[*net.OpError](err); ok || err == io.EOF {
		return kinds.Errorf(kinds.DaemonUnavailable, "pipe: the daemon has ended it: it shut down, or nothing came for a minute")
	}
	return err
}
