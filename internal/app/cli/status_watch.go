package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// The pauses that status --watch takes between two looks.
const (
	shortestWatch = 100 * time.Millisecond
	longestWatch  = time.Hour
)

// watchStatus prints the status again and again until ctx ends: on a terminal instead of the
// last one, else as blocks that an empty line ends, and in JSON as lines. If the daemon goes
// away it prints that, and continues.
func (a *app) watchStatus(ctx context.Context, interval time.Duration) error {
	for first := true; ; first = false {
		s, err := a.Daemon.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return frame.Exit(frame.ExitInterrupted)
		case err != nil && first:
			return err
		}
		away, isCoded := errors.AsType[*kinds.Error](err)
		if err != nil && (!isCoded || away.Code != kinds.DaemonUnavailable) {
			return err
		}
		if err := a.printLook(s, away, first); err != nil {
			return err
		}
		if err := a.CheckOutput(); err != nil {
			return err
		}
		if pace.Sleep(ctx, interval) != nil {
			return frame.Exit(frame.ExitInterrupted)
		}
	}
}

// printLook prints one look of status --watch: the status, or away if that is not nil.
func (a *app) printLook(s *client.Status, away *kinds.Error, first bool) error {
	switch {
	case a.JSON && away != nil:
		return a.PrintJSON(struct {
			Error *kinds.Error `json:"error"`
		}{away})
	case a.JSON:
		return a.PrintJSON(s)
	}
	rows := [][2]string{{"at", a.FormatTime(time.Now())}}
	if away != nil {
		rows = append(rows, [2]string{"daemon", away.Message})
	} else {
		rows = append(rows, formatStatus(s)...)
	}
	a.drawFields(rows, first)
	return nil
}

// drawFields prints a block of fields: on a terminal from its first line on, in place of what stands
// there.
func (a *app) drawFields(rows [][2]string, first bool) {
	var block bytes.Buffer
	t := a.Terminal
	t.Out = &block
	t.PrintFields(rows...)
	if !a.OutTTY {
		fmt.Fprintf(a.Out, "%s\n", &block)
		return
	}
	const home, clearAll, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	lines := strings.SplitAfter(block.String(), "\n")
	if most := a.OutHeight() - 1; len(lines) > most {
		lines = lines[:most]
	}
	text := strings.ReplaceAll(strings.Join(lines, ""), "\n", clearLine+"\n") + clearBelow
	if first {
		text = clearAll + home + text
	} else {
		text = home + text
	}
	fmt.Fprint(a.Out, text)
}

// formatUnready returns what keeps a daemon from its work, without what a warning says too.
func formatUnready(s *client.Status) (rows [][2]string) {
	said := make(map[string]bool)
	for _, w := range s.Warnings {
		said[w] = true
	}
	for _, why := range s.Unready {
		if !said[why] {
			rows = append(rows, [2]string{"not ready", client.Line(why)})
		}
	}
	return rows
}
