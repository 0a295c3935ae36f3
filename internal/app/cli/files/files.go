// Package files is the verbs of acpctl that send files to peers, and those for the files that came.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// verbs has the verbs of one run.
type verbs struct{ *frame.Frame }

// NewCmds returns the verbs.
func NewCmds(f *frame.Frame) []*cobra.Command {
	v := &verbs{f}
	return []*cobra.Command{v.newSendCmd(), v.newFilesCmd()}
}

func (v *verbs) newFilesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "files",
		Short: "List the files that came from peers, and those on their way",
		Example: `  acpctl files
  acpctl files save 3f2b8c1e            write it into this folder
  acpctl files rm 3f2b8c1e`,
		Long: `On a terminal, WHO shows from whom a file came and for which agent, or to whom it is being sent. A file is kept for 30 days, and
what came of an unfinished one for 24 hours. Its name and its text are the peer's words.

A script gets the columns id, direction (in or out), peer, the agent it is for, size in bytes, bytes that are there, state,
time, name and text.

STATE is asked (acpctl approvals waits for your word), moving, paused (its sender is not sending), here, or taken by an
agent.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := v.Daemon.ListFiles(cmd.Context(), client.FilesParams{})
			if err != nil {
				return err
			}
			return v.PrintData(client.Files{Files: all}, func() { v.printFiles(all) })
		},
	}
	cmd.AddCommand(v.newSaveCmd(), v.newRemoveCmd(), v.newAskCmd())
	return cmd
}

func (v *verbs) printFiles(all []client.File) {
	ids := make([]wire.MessageID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	shown := v.ShortenIDs(ids)
	rows := make([][]string, len(all))
	for i := range all {
		f := &all[i]
		if !v.OutTTY {
			rows[i] = []string{shown[i], string(f.Direction), formatPeer(f), ui.DashIfEmpty(f.Agent), fmt.Sprint(f.Size), fmt.Sprint(f.Bytes), string(f.State), v.FormatTime(f.Since), f.Name, f.Text}
			continue
		}
		what := f.Name
		if f.Text != "" {
			what += ": " + f.Text
		}
		rows[i] = []string{shown[i], formatParties(f), ui.FormatBytes(f.Size), formatState(f), v.FormatAge(f.Since), what}
	}
	v.PrintTable([]string{"ID", "WHO", "SIZE", "STATE", "SINCE", "NAME"}, rows)
}

// formatParties returns who sent a file to whom, as far as it is known here.
func formatParties(f *client.File) string {
	if f.Direction == client.Out {
		return "→ " + formatPeer(f)
	}
	return strings.TrimPrefix(client.Line(f.Agent)+" ← ", " ") + formatPeer(f)
}

// formatPeer returns the peer of a file and, if one is known by a plain name, the agent there.
func formatPeer(f *client.File) string {
	if agent := f.AgentThere(); client.IsPlainAgentName(agent) {
		return f.PeerName + "/" + agent
	}
	return f.PeerName
}

func formatState(f *client.File) string {
	switch {
	case f.State == client.FileTaken && f.TakenBy != "":
		return "taken by " + client.Line(f.TakenBy)
	case f.State == client.FileMoving, f.State == client.FilePaused:
		return fmt.Sprintf("%s, %d %%", f.State, percentOf(f.Bytes, f.Size))
	}
	return string(f.State)
}

// addPeerFlag adds the flag that says whose file is meant.
func addPeerFlag(cmd *cobra.Command, peer *string) {
	cmd.Flags().StringVar(peer, "peer", "", "the peer that sent it, if several sent one with this ID")
}

// findFile returns the file that came whose id is text, or begins so, of a peer unless that is "".
func (v *verbs) findFile(ctx context.Context, text, peer string) (*client.File, error) {
	begun := strings.ToLower(text)
	id, err := wire.ParseMessageID(text)
	if err != nil && !frame.IsIDPrefix(begun) {
		return nil, frame.UsageErrorf("ID: %q is no id of a file: write at least six digits of its id, see acpctl files", client.Line(text))
	}
	all, err := v.Daemon.ListFiles(ctx, client.FilesParams{ID: id}) // zero if it is only the beginning of one
	if err != nil {
		return nil, err
	}
	if peer != "" && !slices.ContainsFunc(all, func(f client.File) bool { return peer == f.PeerName || peer == f.Peer.String() }) {
		return nil, kinds.Errorf(kinds.NotFound, "--peer: no file of a peer %q is meant: acpctl files shows from whom they are", client.Line(peer))
	}
	var found []client.File
	for _, f := range all {
		isPeer := peer == "" || peer == f.PeerName || peer == f.Peer.String()
		if f.Direction == client.In && isPeer && strings.HasPrefix(f.ID.String(), begun) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return nil, kinds.Errorf(kinds.NotFound, "ID: no file that came has an id that begins with %s: see acpctl files", begun)
	case 1:
		return &found[0], nil
	}
	return nil, frame.UsageErrorf("ID: %d files have an id that begins with %s: write more of the one that is meant, or --peer", len(found), begun)
}

func (v *verbs) newSaveCmd() *cobra.Command {
	var peer string
	cmd := &cobra.Command{
		Use:   "save ID [PATH]",
		Short: "Write a file that came to where you want it",
		Example: `  acpctl files save 3f2b8c1e
  acpctl files save 3f2b8c1e /tmp/build.log`,
		Long: `It writes the file under the name that its sender gave it into this folder, or into the folder PATH, or to PATH. It overwrites
nothing. Only you can read the new file, and it is not executable. The file stays in acpctl files too.`,
		ValidArgsFunction: v.completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := v.findFile(cmd.Context(), args[0], peer)
			if err != nil {
				return err
			}
			path := f.Name
			if len(args) > 1 {
				path = args[1]
				if path == "" {
					return frame.UsageErrorf("PATH is empty: leave it out to write into this folder")
				}
				if info, err := os.Stat(path); err == nil && info.IsDir() {
					path = filepath.Join(path, f.Name)
				}
			}
			if folder := filepath.Dir(path); path == stdin {
				return frame.UsageErrorf("PATH: - is no name for a file: ./- is")
			} else if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				return fmt.Errorf("PATH: there is no folder %s: make it first", client.Line(folder))
			}
			err = v.Daemon.SaveFile(cmd.Context(), client.FileTakeParams{ID: f.ID, Peer: f.Peer.String()}, path)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists, and is not overwritten: give another PATH", path)
			}
			if err != nil {
				return err
			}
			saved := struct {
				Path string      `json:"path"`
				File client.File `json:"file"`
			}{path, *f}
			return v.PrintData(saved, func() { v.PrintLine("%s", client.Line(path)) })
		},
	}
	addPeerFlag(cmd, &peer)
	return cmd
}

func (v *verbs) newRemoveCmd() *cobra.Command {
	var peer string
	cmd := &cobra.Command{
		Use:     "rm ID",
		Short:   "Remove a file that came, or what there is of one",
		Example: "  acpctl files rm 3f2b8c1e",
		Long: `It removes the daemon's copy of a file, and nothing that files save has written. Of a file that is on its way it removes what
is there, and the sender gets an error.`,
		ValidArgsFunction: v.completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := v.findFile(cmd.Context(), args[0], peer)
			if err != nil {
				return err
			}
			if f.State == client.FileAsked {
				return frame.Instead{Err: fmt.Errorf("nothing of %s is here yet: it waits for your word", client.Line(f.Name)), Type: "acpctl approvals, and then acpctl approvals no with its ID there"}
			}
			removed, err := v.Daemon.RemoveFile(cmd.Context(), client.FileRemoveParams{ID: f.ID, Peer: f.Peer.String()})
			if err != nil {
				return err
			}
			return v.PrintData(removed, func() { v.PrintLine("%s of %s was removed", client.Line(removed.Name), client.Line(removed.PeerName)) })
		},
	}
	addPeerFlag(cmd, &peer)
	return cmd
}

func (v *verbs) newAskCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ask PEER",
		Short:   "Be asked again about the files of a peer that exceed a day's bound",
		Example: "  acpctl files ask desk",
		Long: `It takes back what acpctl approvals always gave a peer. What the peer sends on one day beyond files.ask of config.yaml (64 MiB
unless you change it) waits for your word again, and so does its next file if none of it is here.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.Daemon.AskAboutFiles(cmd.Context(), args[0]); err != nil {
				return err
			}
			return v.PrintData(struct{}{}, func() {
				v.PrintLine("you are asked again about what %s sends on one day beyond files.ask (64 MiB unless config.yaml has another)", client.Line(args[0]))
			})
		},
	}
}

// completeFiles completes a first argument by the ids of the files that came, and a second one by paths.
func (v *verbs) completeFiles(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 && cmd.Name() == "save" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return v.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		all, _ := v.Daemon.ListFiles(ctx, client.FilesParams{})
		for _, f := range all {
			if f.Direction == client.In && strings.HasPrefix(f.ID.String(), begun) {
				found = append(found, cobra.CompletionWithDesc(f.ID.String(), ui.ShortenText(client.Line(f.Name+" of "+f.PeerName), 60)))
			}
		}
		return found
	})
}
