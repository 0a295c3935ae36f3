package frame

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/shellpath"
)

// notifiers are commands that show a line on the desktop. No peer can change the line.
var notifiers = [][]string{
	{"notify-send", "acpd", "An agent needs you: acpctl approvals"},
	{"osascript", "-e", `display notification "An agent needs you: acpctl approvals" with title "acpd"`},
}

// OfferOwnerNotify asks a person at a terminal whether the daemon shall start a command when something waits for him,
// and tries the command after a yes. Otherwise it names the verb that sets one. It does nothing without a terminal, or
// if such a command is set already. [Frame.SetOwnerNotify] undoes it.
func (f *Frame) OfferOwnerNotify(ctx context.Context) error {
	if !f.InTTY || !f.ErrTTY || f.AsGuest {
		return nil
	}
	set, err := f.Daemon.NotifyOwner(ctx, client.OwnerNotifyParams{})
	if err != nil || len(set.Command) > 0 {
		return err
	}
	for _, argv := range notifiers {
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue
		}
		f.Tell("When something waits for you, acpd can tell you so. It would start: %s", quoteCommand(argv))
		if yes, err := f.Confirm(ctx, "Tell you so?"); err != nil {
			return err
		} else if !yes {
			break
		}
		_, err := f.SetOwnerNotify(ctx, client.OwnerNotifyParams{Set: true, Command: argv, Test: true})
		return err
	}
	f.Tell("No command tells you when something waits for you. To set one: acpctl wake notify --help")
	return nil
}

// SetOwnerNotify sets or tries the command that tells the owner, and tells a person how the try went.
func (f *Frame) SetOwnerNotify(ctx context.Context, p client.OwnerNotifyParams) (*client.OwnerNotify, error) {
	set, err := f.Daemon.NotifyOwner(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case set.Failed != "":
		f.Tell("The command did not work: %s. To set another: acpctl wake notify --help", client.Line(set.Failed))
	case p.Test && len(set.Command) > 0:
		f.Tell("The command was tried, and worked. To take it back: acpctl wake notify --off")
	}
	return set, nil
}

// quoteCommand returns a command as a shell takes it.
func quoteCommand(argv []string) string {
	var words []string
	for _, word := range argv {
		words = append(words, shellpath.Quote(client.Line(word)))
	}
	return strings.Join(words, " ")
}

// DescribeOwnerNotify returns the command that tells the owner, as a shell takes it, and which file has it.
func DescribeOwnerNotify(set *client.OwnerNotify) string {
	if len(set.Command) == 0 {
		return "no command tells you what waits for you"
	}
	return quoteCommand(set.Command) + " (" + set.Source + ")"
}

// RingWhenNeeded rings the bell of the terminal on standard error each time that something begins to wait
// for the owner, until ctx ends.
func (f *Frame) RingWhenNeeded(ctx context.Context) {
	if !f.ErrTTY || f.AsGuest {
		return
	}
	daemon := client.Client{Socket: f.Daemon.Socket}
	defer daemon.Close()
	wanted := client.SubscribeParams{Kinds: []string{client.NoKind}, Events: client.EventFilter{Types: []client.EventType{client.EventApproval, client.EventBudget}}}
	daemon.Subscribe(ctx, wanted, nil, f.RingIfNeeded)
}

// RingIfNeeded rings the bell of the terminal on standard error if something waits for the owner since an
// event.
func (f *Frame) RingIfNeeded(e *client.Event) {
	if f.ErrTTY && e.NeedsOwner() {
		fmt.Fprint(f.Err, "\a")
	}
}
