package oacp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// otherHomeError means that the daemon carries mail of other mailboxes than the user means.
type otherHomeError struct{ problem, remedy string }

func (e *otherHomeError) Error() string { return e.problem + ": " + e.remedy }

// checkDaemonHome returns an [*otherHomeError] if the daemon carries mail of other mailboxes, and
// another error if no daemon answers.
func (o *verbs) checkDaemonHome(ctx context.Context) error {
	h, err := o.findHome()
	if err != nil {
		return err
	}
	meant, err := filepath.Abs(string(h))
	if err != nil {
		return err
	}
	carried, err := o.Daemon.OACPHome(ctx)
	if err != nil || carried == "" || isSameFile(meant, carried) {
		return err
	}
	return &otherHomeError{
		fmt.Sprintf("the daemon carries mail of the mailboxes in %s, not of those in %s", carried, meant),
		fmt.Sprintf("OACP_HOME=%s names the former; for the latter set oacp.home in the daemon's config.yaml and restart acpd", carried),
	}
}

// describeUncarriedMail returns a warning if mail for a recipient on another machine stays here,
// because no daemon answers or the daemon carries mail of other mailboxes, else the note of
// noteOtherHome. It returns "" if the daemon does not answer within a second.
func (o *verbs) describeUncarriedMail(ctx context.Context, project string, to []string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := o.checkDaemonHome(ctx)
	why, _ := errors.AsType[*kinds.Error](err)
	other, _ := errors.AsType[*otherHomeError](err)
	switch {
	case why != nil && why.Code == kinds.DaemonUnavailable:
		h, _ := o.findHome() // checkDaemonHome has found it
		for _, name := range to {
			if (mailbox.Agent{Project: mailbox.Project{Home: h, Name: project}, Name: name}).IsRemote() {
				return fmt.Sprintf("WARNING: it waits here, since %s lives on another machine and no daemon answers that carries it there: %s", name, why.Message)
			}
		}
	case other != nil:
		bindings, _ := o.Daemon.OACPBindings(ctx, project)
		for _, b := range bindings {
			if slices.Contains(to, b.Agent) {
				return fmt.Sprintf("WARNING: it goes to no other machine, though %s is bound to %s: %v", b.Agent, b.Peer, other)
			}
		}
		return o.noteOtherHome(other)
	}
	return ""
}

// noteOtherHome returns a note if the user has typed --home and not --oacp-dir: then the mailboxes
// in use are hardly those that were meant. Else it returns "".
func (o *verbs) noteOtherHome(other *otherHomeError) string {
	if o.Home == "" || o.dir != "" {
		return ""
	}
	return "NOTE: --home does not choose the mailboxes: " + other.Error()
}

// checkProject returns a usage error if there is no project of that name, because an empty list is
// then due to a typing error. It returns nil if project is empty, which means all projects.
func (o *verbs) checkProject(ctx context.Context, project string) error {
	if project == "" {
		return nil
	}
	home, err := o.Daemon.OACPHome(ctx)
	if err != nil || home == "" {
		return err
	}
	if _, err := mailbox.Home(home).FindProject(project); err != nil {
		return frame.UsageErrorf("PROJECT: %w: without PROJECT those of all are listed", err)
	}
	return nil
}

// isSameFile reports whether two absolute paths lead to the same file, also through symbolic
// links.
func isSameFile(a, b string) bool {
	ours, err := os.Stat(a)
	theirs, gone := os.Stat(b)
	if err != nil || gone != nil {
		return a == b
	}
	return os.SameFile(ours, theirs)
}

// withDaemonCheck returns the function of a verb that asks the daemon. It runs f unless an
// argument is empty, which would mean all, or the user has named mailboxes that the daemon does
// not carry.
func (o *verbs) withDaemonCheck(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
			return err
		}
		if o.dir != "" || os.Getenv("OACP_HOME") != "" {
			if err := o.checkDaemonHome(cmd.Context()); err != nil {
				return err
			}
		}
		return f(cmd.Context(), args)
	}
}
