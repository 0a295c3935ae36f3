package frame

import (
	"context"
	"fmt"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/shellpath"
)

// HintOwnerNotify says how the owner is told that a message waits for approval.
const HintOwnerNotify = "To have a command started when something waits for you: acpctl wake notify --help"

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
