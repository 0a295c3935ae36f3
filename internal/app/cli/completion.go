package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (a *app) newCompletionCmd() *cobra.Command {
	shells := []cobra.Completion{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print what makes a shell complete acpctl",
		Example: `  source <(acpctl completion bash)
  acpctl completion zsh > "${fpath[1]}/_acpctl"
  acpctl completion fish > ~/.config/fish/completions/acpctl.fish`,
		Long: `Prints a script for bash, zsh or fish, which completes verbs, flags and their values,
and what the daemon knows: peers, sessions, approvals and delegations.`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			write := map[string]func(io.Writer) error{
				"bash": func(w io.Writer) error { return cmd.Root().GenBashCompletionV2(w, true) },
				"zsh":  cmd.Root().GenZshCompletion,
				"fish": func(w io.Writer) error { return cmd.Root().GenFishCompletion(w, true) },
			}[args[0]]
			if write == nil {
				return frame.UsageErrorf("%q: expected bash, zsh or fish", args[0])
			}
			var script bytes.Buffer
			if err := write(&script); err != nil {
				return fmt.Errorf("completion: %w", err)
			}
			return a.PrintData(struct {
				Shell  string `json:"shell"`
				Script string `json:"script"`
			}{args[0], script.String()}, func() { script.WriteTo(a.Out) })
		},
	}
}
