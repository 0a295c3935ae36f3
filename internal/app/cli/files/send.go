package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// How long the owner of the receiver has for an answer, and how long it can be made.
const (
	usualDeadline = 10 * time.Minute
	mostDeadline  = 24 * time.Hour
)

// stdin is the argument that means standard input.
const stdin = "-"

// sendFlags holds the flags of acpctl send.
type sendFlags struct {
	text, name, id, ref string
	deadline            time.Duration
}

func (v *verbs) newSendCmd() *cobra.Command {
	var s sendFlags
	cmd := &cobra.Command{
		Use:   "send PEER[/AGENT] FILE…",
		Short: "Send files to a peer",
		Example: `  acpctl send desk build.log
  acpctl send desk/fixer build.log fix.patch --text 'The log of the failed run'
  tar -cz src | acpctl send desk - --name src.tgz`,
		Long: `It sends files to a peer, one after the other, and prints for each what became of it: handed (an
agent there knows of it), or held (it is stored there until an agent or its owner takes it). FILE
may be - for standard input. The peer's owner is asked before the first file, and before more than
a bound of bytes on one day. acpctl waits for the answer; if you end it, nobody is asked any more.

If it is interrupted, or a connection breaks, it prints the command that continues: that sends only
what is missing, within 24 hours.`,
		Args: func(cmd *cobra.Command, args []string) error {
			return frame.NamedArgs("PEER", "FILE")(cmd, args[:min(len(args), 2)])
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return v.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, release := signal.NotifyContext(cmd.Context(), frame.ListEndSignals()...)
			defer release()
			cmd.SetContext(ctx)
			return v.sendAll(cmd, args[0], args[1:], &s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.text, "text", "", "what the files are, for whoever gets them")
	f.StringVar(&s.name, "name", "", "what it is called there (default: as here)")
	f.StringVar(&s.id, "id", "", "id of the first of the files, to continue (default: a new one)")
	f.StringVar(&s.ref, "ref", "", "id of the delegation or message that the files belong to")
	f.DurationVar(&s.deadline, "deadline", 0, "how long this waits for the answer of the peer's owner, at most 24h (default 10m)")
	return cmd
}

// sendAll sends files one after the other, until one fails.
func (v *verbs) sendAll(cmd *cobra.Command, to string, paths []string, s *sendFlags) (err error) {
	p := client.FileSendParams{Head: client.Head{ID: wire.NewMessageID()}, Name: s.name, Text: s.text}
	p.To, p.Agent, _ = strings.Cut(to, "/")
	if s.id != "" {
		p.ID, err = frame.ParseMessageID("--id", s.id)
	}
	if err == nil && s.ref != "" {
		p.Ref, err = frame.ParseMessageID("--ref", s.ref)
	}
	if err == nil {
		p.WaitMS, err = frame.ReadMilliseconds(cmd, "deadline", s.deadline, mostDeadline)
	}
	for what, said := range map[string]string{"--name": s.name, "--text": s.text} {
		if !utf8.ValidString(said) {
			return frame.UsageErrorf("%s: it is not UTF-8", what)
		}
	}
	switch {
	case err != nil:
		return err
	case s.name != "" && len(paths) > 1:
		return frame.UsageErrorf("--name: several files keep their names: send this one by itself")
	case s.name == "" && slices.Contains(paths, stdin):
		return frame.UsageErrorf("--name: standard input has no name: say which it has there")
	}
	for _, path := range paths { // before any is sent
		if err := checkFile(path, to); err != nil {
			return err
		}
		if s.name == "" && !utf8.ValidString(filepath.Base(path)) {
			return frame.UsageErrorf("FILE: the name %q is not UTF-8: send it with another --name", path)
		}
	}
	for i, path := range paths {
		if i > 0 {
			p.ID = wire.NewMessageID()
		}
		shown := &progress{terminal: &v.Terminal}
		if err := v.sendFile(cmd.Context(), path, p, shown); err != nil {
			return v.explainEnd(cmd, err, shown, to, paths[i:], len(paths) > 1, p.ID)
		}
	}
	return nil
}

// checkFile returns an error for what cannot be sent to a peer. It opens nothing: that would wait for the writer of a named pipe.
func checkFile(path, to string) error {
	if path == stdin {
		return nil
	}
	info, err := os.Stat(path)
	whole, _ := filepath.Abs(path)
	other, otherErr := os.Stat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist) && otherErr == nil && other.Mode().IsRegular() && !strings.ContainsAny(path, "/."):
		return frame.Instead{Err: frame.UsageErrorf("PEER and FILE are swapped"), Type: "acpctl send " + shellpath.Quote(path) + " " + shellpath.Quote(to)}
	case errors.Is(err, fs.ErrNotExist):
		return frame.Instead{Err: fmt.Errorf("there is no file %s here", path), Type: "acpctl query " + shellpath.Quote(to) + " " + shellpath.Quote(path) + ", if that is a question"}
	case err != nil:
		return err
	case info.IsDir():
		return frame.Instead{Err: fmt.Errorf("%s is a folder", path), Type: fmt.Sprintf("tar -cz %s | acpctl send %s - --name %s.tgz", shellpath.Quote(path), shellpath.Quote(to), shellpath.Quote(filepath.Base(whole)))}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: pipe what it has into acpctl send, as - with --name", path)
	}
	return nil
}

// sendFile sends one file, and prints what became of it.
func (v *verbs) sendFile(ctx context.Context, path string, p client.FileSendParams, shown *progress) error {
	file, err := v.open(ctx, path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if n, _ := file.ReadAt(make([]byte, 1), 0); n > 0 && info.Size() == 0 { // as those of /proc are
		return fmt.Errorf("%s has bytes, but the system says that it has none: pipe what it has into acpctl send, as - with --name", path)
	}
	p.Size = uint64(info.Size())
	if p.Name == "" {
		p.Name = filepath.Base(path)
	}
	shown.name, shown.peer, shown.size, shown.deadlineMS = client.Line(p.Name), client.Line(p.To), p.Size, p.WaitMS
	sent, err := v.Daemon.SendFile(ctx, p, file, shown.update)
	shown.clear()
	if err != nil {
		return err
	}
	v.SetDoneNote("the file %s is %s, and its id is %s", shown.name, client.Line(string(sent.State)), sent.ID)
	result := struct {
		Name  string              `json:"name"`
		ID    wire.MessageID      `json:"id"`
		State client.ReceiptState `json:"state"`
		Had   bool                `json:"had,omitzero"`
	}{p.Name, sent.ID, sent.State, sent.Had}
	return v.PrintData(result, func() {
		v.PrintLine("%s\t%s", shown.name, v.ColourState(string(sent.State)))
		v.PrintForPerson("%s", shown.describeEnd(&sent))
	})
}

// open opens a file. Standard input it copies into a temporary file first, since its size must be known.
func (v *verbs) open(ctx context.Context, path string) (*os.File, error) {
	if path != stdin {
		return os.Open(path)
	}
	file, err := os.CreateTemp("", "acpctl-send-")
	if err != nil {
		return nil, err
	}
	os.Remove(file.Name()) // it is there as long as it is open
	_, err = frame.ReadUntilCancelled(ctx, func() (string, error) {
		_, err := io.Copy(file, v.In)
		return "", err
	})
	if err == nil {
		return file, nil
	}
	file.Close()
	if ctx.Err() == nil {
		err = fmt.Errorf("copy standard input to a temporary file: %w: TMPDIR can name a folder with more room", err)
	}
	return nil, err
}

// explainEnd adds to the error of the first of these files, which are the last of several or one, what to type to
// continue, if that may help, and else which files were not sent.
func (v *verbs) explainEnd(cmd *cobra.Command, err error, shown *progress, to string, left []string, several bool, id wire.MessageID) error {
	interrupted := cmd.Context().Err() != nil
	if interrupted {
		err = cmd.Context().Err()
	}
	if !interrupted && !kinds.AsError(err).Retryable {
		if several {
			return frame.WithHint(err, "not sent: "+client.Line(strings.Join(left, ", ")))
		}
		return err
	}
	if shown.isMoving() && !strings.Contains(err.Error(), id.String()) { // else the daemon has said so
		err = frame.WithHint(err, "what "+shown.peer+" has of "+shown.name+" is kept there for 24 hours")
	}
	line := cmd.CommandPath() + " " + shellpath.Quote(to)
	if slices.Contains(left, stdin) {
		line = "… | " + line // the same bytes
	}
	for _, path := range left {
		line += " " + shellpath.Quote(path)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "id" {
			line += " --" + f.Name + "=" + shellpath.Quote(f.Value.String())
		}
	})
	return frame.Instead{Err: err, Type: line + " --id " + id.String()}
}

// percentOf returns how much n is of all, at most 100.
func percentOf(n, all uint64) int {
	if n >= all {
		return 100
	}
	return int(float64(n) / float64(all) * 100)
}

// progress shows a person how far a file has come.
type progress struct {
	terminal   *ui.Terminal
	name, peer string
	size       uint64
	deadlineMS uint64

	began time.Time // when the first range was asked for; zero before
	had   uint64    // bytes that were there then
	moved uint64    // bytes that are there now
	drawn time.Time // the bar, last; zero: never
}

func (p *progress) isMoving() bool { return !p.began.IsZero() }

// The bar is drawn at most so often, and is never longer.
const (
	barPause = 100 * time.Millisecond
	mostBar  = 100
	leastBar = 8 // cells of the bar itself, without name and numbers
)

// update shows what a line of the daemon says.
func (p *progress) update(line client.FileSendLine) {
	switch {
	case line.State == client.FileAsked:
		wait := cmp.Or(time.Duration(p.deadlineMS)*time.Millisecond, usualDeadline)
		p.terminal.Tell("%s: the owner of %s is asked (acpctl approvals there): waiting for at most %s", p.name, p.peer, kinds.FormatDuration(wait))
	case line.Relay:
		p.terminal.PrintForPerson("%s goes over a relay: at most 1 MiB a second", p.name)
	case line.Range != nil:
		now := time.Now()
		if !p.isMoving() {
			p.began, p.had = now, line.Moved
		}
		p.moved = max(p.moved, line.Moved) // lines of ranges overtake each other
		if p.terminal.ErrTTY && !p.terminal.JSON && now.Sub(p.drawn) >= barPause {
			p.drawn = now
			p.draw(now)
		}
	}
}

// draw draws the bar over the one before.
func (p *progress) draw(now time.Time) {
	name := ui.CutMiddle(p.name, mostBar/4)
	words := fmt.Sprintf(" %3d %%  %s of %s", percentOf(p.moved, p.size), ui.FormatBytes(p.moved), ui.FormatBytes(p.size))
	if took := now.Sub(p.began); took >= time.Second && p.moved > p.had {
		rate := float64(p.moved-p.had) / took.Seconds()
		left := time.Duration(float64(p.size-min(p.moved, p.size)) / rate * float64(time.Second))
		words += fmt.Sprintf("  %s/s  %s left", ui.FormatBytes(uint64(rate)), kinds.FormatDuration(left.Round(time.Second)))
	}
	width := min(p.terminal.ErrWidth()-1, mostBar)
	room := max(width-ui.CountCells(name)-ui.CountCells(words)-len(" []"), leastBar)
	done := room * percentOf(p.moved, p.size) / 100
	bar := ui.CutCells(name+" ["+strings.Repeat("=", done)+strings.Repeat(" ", room-done)+"]"+words, width)
	fmt.Fprint(p.terminal.Err, "\r"+bar+toLineEnd)
}

// clear removes the bar.
func (p *progress) clear() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.terminal.Err, "\r"+toLineEnd)
	}
}

// toLineEnd erases the rest of the line.
const toLineEnd = "\x1b[K"

// describeEnd says what holds now that the peer has the file.
func (p *progress) describeEnd(sent *client.FileSent) string {
	said := ui.FormatBytes(p.size)
	if p.isMoving() {
		said += " in " + kinds.FormatDuration(time.Since(p.began).Round(100*time.Millisecond))
	}
	if sent.Had {
		said += "; " + p.peer + " had it already"
	}
	return said + ". acpctl files there shows it."
}
