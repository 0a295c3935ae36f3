package cli

import (
	"context"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// checkPatience bounds how long status --check waits for the daemon.
const checkPatience = 2 * time.Second

// checkStatus prints in one line whether the daemon is ready, with quiet only if it is not. The exit
// code is [frame.ExitLocal] if it is not.
func (a *app) checkStatus(ctx context.Context, quiet bool) error {
	a.Daemon.Patience = checkPatience
	s, err := a.Daemon.Status(ctx)
	if err != nil {
		return err
	}
	if !s.Ready && len(s.Unready) == 0 {
		return kinds.Errorf(kinds.Internal, "acpd %s does not say whether it is ready: update it", client.Line(s.Version))
	}
	if s.Ready && quiet {
		return nil
	}
	err = a.PrintData(struct {
		Ready   bool     `json:"ready"`
		Unready []string `json:"unready"`
	}{s.Ready, s.Unready}, func() {
		if s.Ready {
			a.PrintLine("ready")
			return
		}
		a.Warn("not ready: %s", strings.Join(s.Unready, "; "))
	})
	if err == nil && !s.Ready {
		err = frame.Exit(frame.ExitLocal)
	}
	return err
}
