package oacp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newValidateCmd() *cobra.Command {
	var quiet, strict bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a message file",
		Example: `  acpctl oacp validate draft.yaml
  acpctl oacp validate draft.yaml --strict     also what the specification asks of a body`,
		Long: `Checks a message file by the rules of the tool oacp, and prints each error in a line.
With --strict it also warns if the body of a follow_up or review_… message lacks what
the specification asks for; the exit code stays 0.`,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			path := filepath.Clean(args[0])
			data, err := mailbox.ReadFileOrLink(args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("%s: there is no such file", path)
			case err != nil:
				return addPathToError(path, err)
			}
			d, err := oacpmsg.ParseDocument(data)
			if err != nil {
				return err
			}
			lines := d.Validate()
			for _, line := range lines {
				fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(line))
			}
			var warnings []string
			if strict {
				warnings = d.ToMessage().ValidateBody()
			}
			for _, line := range warnings {
				fmt.Fprintf(o.Err, "WARNING: %s\n", client.Text(line))
			}
			err = o.printReport(struct {
				Path     string   `json:"path"`
				Valid    bool     `json:"valid"`
				Errors   []string `json:"errors"`
				Warnings []string `json:"warnings"`
			}{path, len(lines) == 0, lines, warnings}, func() {
				if len(lines) == 0 && !quiet {
					o.PrintLine("OK: %s", path)
				}
			})
			if len(lines) > 0 && err == nil {
				err = frame.Exit(frame.ExitLocal)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print nothing if it is valid")
	cmd.Flags().BoolVar(&strict, "strict", false, "warn about bodies too")
	return cmd
}
