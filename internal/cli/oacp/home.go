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

	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// otherHomeError is the error that the daemon carries mail of other mailboxes than the user
// means.
type otherHomeError struct{ meant, carried string }

func (e *otherHomeError) Error() string {
	return e.problem() + ": " + e.remedy()
}

func (e *otherHomeError) problem() string {
	return fmt.Sprintf("the daemon carries mail of the mailboxes in %s, not of those in %s", e.carried, e.meant)
}

func (e *otherHomeError) remedy() string {
	return fmt.Sprintf("OACP_HOME=%s names the former; for the latter set oacp.home in the daemon's config.yaml and restart acpd", e.carried)
}

// checkHome returns an [*otherHomeError] if the daemon carries mail of other mailboxes, and
// another error if no daemon answers.
func (o *verbs) checkHome(ctx context.Context) error {
	h, err := o.findHome()
	if err != nil {
		return err
	}
	meant, err := filepath.Abs(string(h))
	if err != nil {
		return err
	}
	carried, err := o.Daemon.OACPHome(ctx)
	if err != nil || carried == "" || isSamePlace(meant, carried) {
		return err
	}
	return &otherHomeError{meant, carried}
}

// warnIfNotCarried returns a warning if mail for a bound agent lies in mailboxes whose mail
// the daemon does not carry, or if no daemon runs that would carry it. It returns "" if the
// daemon does not answer at once.
func (o *verbs) warnIfNotCarried(ctx context.Context, project string, to []string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := o.checkHome(ctx)
	if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.DaemonUnavailable {
		return o.warnIfNoDaemon(project, to, e)
	}
	other, ok := errors.AsType[*otherHomeError](err)
	if !ok {
		return ""
	}
	bindings, err := o.Daemon.OACPBindings(ctx, project)
	if err != nil {
		return ""
	}
	for _, b := range bindings {
		if slices.Contains(to, b.Agent) {
			return fmt.Sprintf("WARNING: it goes to no other machine, though %s is bound to %s: %v", b.Agent, b.Peer, other)
		}
	}
	return ""
}

// warnIfNoDaemon returns a warning if a recipient lives on another machine, because its mail
// waits for a daemon. The warning says why none answers.
func (o *verbs) warnIfNoDaemon(project string, to []string, why *kinds.Error) string {
	h, err := o.findHome()
	if err != nil {
		return ""
	}
	for _, name := range to {
		if (mailbox.Agent{Project: mailbox.Project{Home: h, Name: project}, Name: name}).Away() {
			return fmt.Sprintf("WARNING: it waits here, since %s lives on another machine and no daemon answers that carries it there: %s", name, why.Message)
		}
	}
	return ""
}

// checkProject returns a usage error if there is no project of that name. An empty list then
// means a typing error. "" stands for all projects.
func (o *verbs) checkProject(ctx context.Context, project string) error {
	if project == "" {
		return nil
	}
	home, err := o.Daemon.OACPHome(ctx)
	if err != nil || home == "" {
		return err
	}
	if _, err := mailbox.Home(home).Project(project); err != nil {
		return frame.Usagef("PROJECT: %w: without PROJECT those of all are listed", err)
	}
	return nil
}

// isSamePlace reports whether two absolute paths lead to the same file, also over symbolic
// links.
func isSamePlace(a, b string) bool {
	ours, err := os.Stat(a)
	theirs, gone := os.Stat(b)
	if err != nil || gone != nil {
		return a == b
	}
	return os.SameFile(ours, theirs)
}

// runWithDaemon makes a verb of f, which asks the daemon. The verb refuses empty arguments,
// which would mean all. It also refuses mailboxes that the user has named and whose mail the
// daemon does not carry.
func (o *verbs) runWithDaemon(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := frame.RefuseEmpty(cmd, args); err != nil {
			return err
		}
		if o.dir != "" || os.Getenv("OACP_HOME") != "" {
			if err := o.checkHome(cmd.Context()); err != nil {
				return err
			}
		}
		return f(cmd.Context(), args)
	}
}

// examineDaemon returns what the doctor finds if the daemon answers at once: that it carries
// mail of other mailboxes, or knows of agents that are hosted on two machines.
func (o *verbs) examineDaemon(ctx context.Context, project string) []mailbox.Category {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var findings []mailbox.Finding
	err := o.checkHome(ctx)
	switch other, ok := errors.AsType[*otherHomeError](err); {
	case ok:
		findings = append(findings, mailbox.Finding{Name: "daemon", Severity: mailbox.Warn, Message: other.problem(), Hint: other.remedy()})
	case err == nil:
		twins, _ := o.Daemon.OACPTwins(ctx, project)
		for _, t := range twins {
			findings = append(findings, mailbox.Finding{
				Name: t.Agent, Severity: mailbox.Warn, Message: fmt.Sprintf("%s of project %s — hosted here and at %s: mail for it stays where it is sent", t.Agent, t.Project, t.Peer),
				Hint: fmt.Sprintf("Give one of the two another name; or, if it lives at %s alone, acpctl oacp bind %s %s %s --take", t.Peer, t.Project, t.Agent, t.Peer),
			})
		}
	}
	if findings == nil {
		return nil
	}
	return []mailbox.Category{{Name: "Daemon", Worst: mailbox.Warn, Results: findings}}
}
