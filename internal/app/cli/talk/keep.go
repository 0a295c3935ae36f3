package talk

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// keepFlag is the value of --keep: for how long the daemon keeps a message that does not arrive. 0 means not at all.
type keepFlag time.Duration

func (k *keepFlag) String() string {
	if *k == 0 {
		return ""
	}
	return kinds.FormatDuration(time.Duration(*k))
}

// Type returns what the help calls a value.
func (k *keepFlag) Type() string { return "time" }

// Set reads a time, as [client.ParseKeep] does.
func (k *keepFlag) Set(text string) error {
	d, err := client.ParseKeep(text)
	if err != nil {
		return errors.New(strings.TrimPrefix(kinds.AsError(err).Message, "keep: "))
	}
	*k = keepFlag(d)
	return nil
}

// addTo adds --keep to a verb.
func (k *keepFlag) addTo(cmd *cobra.Command) {
	f := cmd.Flags().VarPF(k, "keep", "", "if it does not arrive, keep it and send it when the peer, or its agent, is there: 24h, or --keep 3d, at most 7d")
	f.NoOptDefVal = kinds.FormatDuration(client.DefaultKeep)
}

// milliseconds returns the value as the daemon takes it.
func (k keepFlag) milliseconds() uint64 { return uint64(time.Duration(k).Milliseconds()) }

// keptMessage is what --json prints of a message that is kept.
type keptMessage struct {
	To    string           `json:"to,omitzero"` // one of several recipients
	ID    wire.MessageID   `json:"id"`
	State client.TaskState `json:"state"`
	Kept  *client.Kept     `json:"kept"`
}

// reportKept tells of a message that the daemon keeps, if err says that it does, and returns its exit code as the error.
// It returns any other error, with a hint at --keep if that would have kept the message.
func (v *verbs) reportKept(to string, isOneOfSeveral bool, err error) error {
	kept := client.FindKept(err)
	if kept == nil {
		e := kinds.AsError(err)
		if to != "" && !isOneOfSeveral && e.Delivered() == kinds.DeliveredNo && (e.Code == kinds.Unreachable || e.Code == kinds.NoAgent) {
			return frame.WithHint(err, "with --keep it is sent when they are there")
		}
		return err
	}
	v.SetDoneNote("the message is kept, and its id is %s", kept.ID)
	if !v.JSON {
		v.Warn("kept until %s for %s (%s): acpctl wait %s tells how it ends, and acpctl cancel withdraws it", ui.FormatMoment(kept.Until.Time), to, kept.LastError, kept.ID)
		return frame.Exit(frame.ExitKept)
	}
	m := keptMessage{ID: kept.ID, State: client.TaskKept, Kept: kept}
	if isOneOfSeveral {
		m.To = to
	}
	if err := v.PrintJSON(m); err != nil {
		return err
	}
	return frame.Exit(frame.ExitKept)
}
